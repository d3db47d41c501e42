"""File discovery: the requests of one poll; their number does not grow with history.

*By watermarks.* Directories above known partitions are listed one level at a time: their names show what is new and
what is sealed. A known partition without known ones below it is listed from its bound on, with everything deeper that
sorts above the bound; an unknown directory is listed whole. These places never overlap, so each file is seen once,
however deep it lies. :mod:`~tidegate.core.files.discovery` decides what to list and take.

*By a path set.* Everything is listed, as a stream that is compared batch by batch, so neither the listing nor the set
is ever in memory as a whole. The stream is never ahead of its reader by more than a few pages.

Any error of the store ends the poll: a listing is complete, or cut off on purpose after ``limit`` new files.

*Do names sort in time?* Path watermarks need names that sort like the arrival of files. Two checks of a sample of the
listing decide: the shape of the names (a Unix time, an ISO date, a UUID of version 7 or a random one), and whether
files with greater names are also younger.
"""

from __future__ import annotations

import contextlib
import re
import threading
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import lru_cache, partial
from itertools import groupby, islice, pairwise
from queue import Queue

from tidegate.core.files.discovery import (
    EXAMPLES,
    NOT_IN_TIME,
    Directories,
    Known,
    LeftOut,
    PathListing,
    Reason,
    ReasonCounts,
    Skipped,
    accepts,
    accepts_directory,
    cold_prefixes,
    count_reasons,
    ending_of,
    is_directory_sealed,
    is_new,
    is_sealed,
    list_after,
    seal_cold_start,
    survey_directories,
    table_of,
)
from tidegate.core.files.paths import ROOT, Layout, SourceFile, join, sort_key, split
from tidegate.core.files.state import PathState, SetState
from tidegate.errors import ObjectMissing, SourceError, StorageError
from tidegate.reports.wording import count, visible
from tidegate.specs.files import LateFiles, PathSource
from tidegate.storage.port import INTERNAL, PAGE, ObjectInfo, ObjectStore, Scope

PAGES_AHEAD = 2
FOLDERS_COUNTED, FILES_COUNTED = 100, 10_000
"""How much of what a first run leaves out is counted: about as many LIST requests as folders."""


def list_everything(store: ObjectStore, scope: Scope) -> Generator[ObjectInfo, None, None]:
    """Every object in ``scope``, each once; those of one directory in ascending order."""
    if store.concurrency == 1:
        yield from store.list(scope=scope)
        return
    top = store.list_directory(scope=scope)
    yield from top.objects
    with closing(_pages(store, top.directories, scope)) as pages:
        for page in pages:
            yield from page


def refuse_left_out(scope: Scope, uri: str, remedy: str) -> None:
    """``SourceError`` if a listing that has to be complete left something out."""
    tally = ReasonCounts()
    for path, reason in scope.unseen.items():
        if not any(part.startswith(INTERNAL) for part in path.split("/")):
            tally.add(reason, visible(path))
    for each in tally.result():
        raise SourceError(f"{uri}: {each}", remedy)


def _pages(store: ObjectStore, directories: Sequence[str], scope: Scope) -> Generator[list[ObjectInfo], None, None]:
    width = min(store.concurrency, len(directories))
    # Bounded: a listing of millions of names must not wait in memory for its reader.
    pages: Queue[list[ObjectInfo] | Exception | None] = Queue(maxsize=PAGES_AHEAD * width)
    stopped = threading.Event()
    left = iter(directories)
    taking = threading.Lock()

    def work() -> None:
        try:
            while not stopped.is_set():
                with taking:
                    directory = next(left, None)
                if directory is None:
                    return
                listed = iter(store.list(directory, scope=scope))
                while not stopped.is_set() and (page := list(islice(listed, PAGE))):
                    pages.put(page)
        except Exception as error:
            pages.put(error)
        finally:
            pages.put(None)

    with ThreadPoolExecutor(max(1, width), "list") as pool:
        for _ in range(width):
            pool.submit(work)
        working = width
        try:
            while working:
                page = pages.get()
                if isinstance(page, Exception):
                    raise page
                if page is None:
                    working -= 1
                else:
                    yield page
        finally:
            stopped.set()
            # A thread may be waiting for room in the queue; unless it is emptied, the pool never closes.
            while working:
                working -= pages.get() is None


@dataclass(frozen=True, slots=True)
class Places:
    """Facts about directories from one state at one moment.

    ``partitions`` have files in the state; ``above`` are all directories above them.
    """

    partitions: frozenset[str]
    above: frozenset[str]
    is_open: Callable[[str], bool]
    is_partition_open: Callable[[str], bool]
    remembered: Callable[[str], frozenset[str]] = field(repr=False)

    @classmethod
    def of(cls, source: PathSource, state: PathState, now: datetime) -> Places:
        """The places of ``source`` in ``state``."""
        partitions = frozenset(state.partition_watermarks) | {split(path)[0] for path in state.files}
        layout, start = Layout.of(source), seal_cold_start(source, state, now)

        def is_open(directory: str) -> bool:
            return not is_directory_sealed(layout, start, directory)

        def is_partition_open(partition: str) -> bool:
            return not is_sealed(layout, start, partition)

        return cls(
            partitions,
            frozenset(directory for partition in partitions for directory in _directories_above(partition)),
            lru_cache(None)(is_open),
            lru_cache(None)(is_partition_open),
            lru_cache(None)(partial(_index_remembered, source, state)),
        )

    def is_remembered(self, path: str) -> bool:
        """Whether the late window names ``path`` as read."""
        partition, name = split(path)
        return name in self.remembered(partition)


def _directories_above(partition: str) -> list[str]:
    """Every directory above ``partition``, the root included."""
    levels = partition.split("/") if partition else []
    return ["/".join(levels[:depth]) for depth in range(len(levels))]


def _index_remembered(source: PathSource, state: PathState, partition: str) -> frozenset[str]:
    window = state.late_window.get(partition) if source.late_files is LateFiles.WINDOW else None
    if window is None:
        return frozenset()
    # A file that was begun is remembered, too, and has to be listed: the rest of it is still to be read.
    return frozenset(name for name in window.names if join(partition, name) not in state.files)


def discover(
    store: ObjectStore,
    source: PathSource,
    state: PathState,
    now: datetime,
    *,
    limit: int | None = None,
    poll_count: int = 0,
) -> PathListing:
    """The files above the watermarks of ``source``.

    After ``limit`` unknown files the listing stops; each partition then shows all its files up to some name. Every
    ``deep_listing_every``-th poll lists every open directory. ``SourceError`` if the location does not exist,
    ``StorageError`` if any of it cannot be listed.
    """
    check_location(store, source)
    deep = source.deep_listing_every > 0 and poll_count > 0 and poll_count % source.deep_listing_every == 0
    poll = _WatermarkPoll(
        store=store,
        source=source,
        limit=limit,
        scope=scope_of(source),
        state=state,
        places=Places.of(source, state, now),
        deep=deep,
        is_unfinished=is_new(source, state),
    )
    prefixes = cold_prefixes(source, state, now)
    if prefixes is None:
        poll.look_into(ROOT)
    else:
        poll.whole = [prefix for prefix in prefixes if poll.is_wanted(prefix)]
    poll.list_whole()
    left_out = None
    if prefixes is not None:
        left_out, examples = count_left_out(store, source, seal_cold_start(source, state, now))
        poll.tally.include(Skipped(Reason.BEFORE_START, left_out.files if left_out else 0, examples))
    seen = survey_directories(source, state, sorted(poll.seen), now) if prefixes is None else Directories()
    any_files = poll.any_files or _holds_files(store, source, state)
    order = names_sort_in_time(poll.sample)
    return replace(
        poll.listing(),
        directories=seen,
        deep=deep or (prefixes is None and not poll.places.partitions),
        any_files=any_files,
        disorder=order.describe() if order.order is Order.NOT_IN_TIME else "",
        left_out=left_out,
        newest=poll.newest,
    )


def count_left_out(store: ObjectStore, source: PathSource, start: PathState) -> tuple[LeftOut | None, tuple[str, ...]]:
    """What the cold start ``start`` seals, and some of its files; None if there is nothing.

    Folders are found level by level. Files are counted up to a limit: nobody waits for a listing of years that are not
    read. What cannot be listed is not counted either: it does not matter to the run.
    """
    folders: list[str] = []
    counts: Counter[str] = Counter()
    examples: list[str] = []
    keys, complete = 0, True
    try:
        folders = sorted(_sealed_folders(store, source, start), reverse=True)
        listed = frozenset(folders)
        with closing(_pages(store, folders[:FOLDERS_COUNTED], scope_of(source))) as pages:
            for info in (info for page in pages for info in page):
                keys += 1
                if keys > FILES_COUNTED:
                    complete = False
                    break
                if accepts(source, info.path) is None:
                    counts[next(each for each in _directories_above(info.path) if each in listed)] += 1
                    examples.append(info.path)
    except StorageError:
        complete = False
    complete = complete and len(folders) <= FOLDERS_COUNTED
    found = tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    number = len(found) if complete else len(folders)
    if not number:
        return None, ()
    (before,) = (seal.below for seal in start.sealed.values())
    left_out = LeftOut(before, number, counts.total(), found, complete)
    return left_out, tuple(sorted(examples)[:EXAMPLES])


def _sealed_folders(store: ObjectStore, source: PathSource, start: PathState) -> Iterator[str]:
    """The topmost folders that ``start`` seals as a whole."""
    layout = Layout.of(source)
    levels = list(start.sealed)
    while levels:
        for directory in store.list_directory(levels.pop(), scope=scope_of(source)).directories:
            time = layout.time_of(directory)
            if time is None or accepts_directory(source, directory) is not None:
                continue
            if is_directory_sealed(layout, start, directory):
                yield directory
            elif time.start < start.sealed[time.prefix].below:
                levels.append(directory)


def _holds_files(store: ObjectStore, source: PathSource, state: PathState) -> bool:
    """Whether the location has a file for ``source``, if the poll saw none above the watermarks.

    The last read file decides or, if that is gone, the first names do: as many others count as files. Directories
    decide nothing: some object stores keep emptied ones.
    """
    if state.value is not None:
        with contextlib.suppress(ObjectMissing):
            return bool(store.head(state.value))
    names = (info.path for info in store.list(scope=scope_of(source)))
    return any(number == PAGE or accepts(source, name) is None for number, name in enumerate(names))


def check_location(store: ObjectStore, source: PathSource) -> None:
    """``SourceError`` if the location of ``source`` does not exist."""
    if not store.exists():
        raise SourceError(
            f"source {source.name!r}: the directory {source.location.uri} does not exist",
            "create it, or correct source_uri",
        )


def scope_of(source: PathSource) -> Scope:
    """How far listings of ``source`` go, for one poll or one look at everything."""
    apart = tuple(place for place in source.apart if place.startswith("/"))
    return Scope(follow_links=source.follow_links, apart=apart)


@dataclass(slots=True, kw_only=True)
class _Poll:
    """One poll: what it has taken and left out so far, and whether it was cut off."""

    store: ObjectStore
    source: PathSource
    limit: int | None
    scope: Scope
    tally: ReasonCounts = field(default_factory=ReasonCounts)
    files: list[SourceFile] = field(default_factory=list)
    tables: set[str] = field(default_factory=set)
    endings: Counter[str] = field(default_factory=Counter)
    new_files: int = 0
    is_cut: bool = False
    any_files: bool = False
    requests_before: int = field(init=False)
    keys_before: int = field(init=False)

    def __post_init__(self) -> None:
        self.requests_before, self.keys_before = self.store.requests.list, self.store.requests.keys

    def take(self, file: SourceFile, *, is_new: bool) -> None:
        """Take a file, unless the limit of new ones is reached."""
        if is_new and self.new_files == self.limit:
            self.is_cut = True
            return
        self.new_files += is_new
        self.files.append(file)

    def leave_out(self, reason: Reason, path: str, *, is_directory: bool = False) -> None:
        """Count a path that is not taken; one inside a Delta table names the table."""
        self.tally.add(reason, f"{path}/" if is_directory else path)
        self.endings.update([ending_of(path)] if reason is Reason.SUFFIX else ())
        table = table_of(self.source, path) if reason is Reason.INTERNAL else None
        if table is not None:
            self.tables.add(table)

    def listing(self) -> PathListing:
        """The result of the poll, with its cost."""
        return PathListing(
            files=tuple(sorted(self.files, key=lambda file: sort_key(file.path))),
            skipped=count_reasons((*self.tally.result(), *self.scope.left_out)),
            list_requests=self.store.requests.list - self.requests_before,
            listed_keys=self.store.requests.keys - self.keys_before,
            complete=not self.is_cut,
            tables=tuple(sorted(self.tables)),
            unseen=frozenset(self.scope.unseen),
            endings=dict(self.endings.most_common()),
        )


@dataclass(slots=True, kw_only=True)
class _WatermarkPoll(_Poll):
    """Lists level by level if partitions are known, and whole directories otherwise."""

    state: PathState
    places: Places
    deep: bool
    is_unfinished: Callable[[str], bool]
    seen: set[str] = field(default_factory=set)
    whole: list[str] = field(default_factory=list)
    newest: datetime | None = None
    sample: list[ObjectInfo] = field(default_factory=list)
    """Some accepted files, while nothing was ever read."""

    def look_into(self, directory: str) -> None:
        """List one level of ``directory`` if partitions below it are known; queue the others to be listed whole."""
        if self.is_cut or not self._goes_by_level(directory):
            self.whole.append(directory)
            return
        known = _Known(self.places.is_remembered)
        level = self.store.list_directory(directory, self._bound(directory), known=known, scope=self.scope)
        self.seen.update(level.directories)
        self._take_all(level.objects, known)
        for each in filter(self.is_wanted, level.directories):
            self.look_into(each)

    def _goes_by_level(self, directory: str) -> bool:
        return directory in self.places.above or (self.deep and directory in self.places.partitions)

    def list_whole(self) -> None:
        """List the rest, several directories at a time if that pays off."""
        left = iter(self.whole)
        width = self.store.concurrency
        with ThreadPoolExecutor(width) if width > 1 else contextlib.nullcontext() as pool:
            run = pool.map if pool else map
            while not self.is_cut and (together := list(islice(left, width))):
                for found, known in run(self._everything_in, together):
                    self._take_all(found, known)
        self.is_cut = self.is_cut or next(left, None) is not None

    def _everything_in(self, directory: str) -> tuple[list[ObjectInfo], _Known]:
        """All files, or one new file more than the poll may take."""
        known = _Known(self.places.is_remembered)
        listed = self.store.list(directory, self._bound(directory), known=known, scope=self.scope)
        found: list[ObjectInfo] = []
        new = 0
        for info in listed:
            found.append(info)
            new += self._is_new(info.path)
            # One more than may be taken shows that the poll was cut off.
            if self.limit is not None and new > self.limit:
                break
        return found, known

    def _take_all(self, found: Iterable[ObjectInfo], known: _Known) -> None:
        """Take the accepted files, up to the limit of new ones."""
        self.tally.include(known.skipped)
        self.any_files = self.any_files or known.skipped.count > 0
        for info in found:
            if self.is_cut:
                return
            self._see_directories_of(info.path)
            reason = self._refusal(info.path)
            self.any_files = self.any_files or reason in (None, Reason.SEALED)
            if reason is not None:
                self.leave_out(reason, info.path)
                continue
            if self.state.is_fresh and len(self.sample) < SAMPLE:
                self.sample.append(info)
            # By the store's clock: a folder dated far ahead of this seals nothing, because our own clock must have been
            # wrong.
            self.newest = info.modified if self.newest is None else max(info.modified, self.newest)
            self.take(SourceFile(info.path, info.size, info.etag), is_new=self._is_new(info.path))

    def is_wanted(self, directory: str) -> bool:
        """Whether to look into ``directory``; counts the reason if not."""
        reason = accepts_directory(self.source, directory)
        if reason is None and not self.places.is_open(directory):
            reason = Reason.SEALED
        if reason is not None:
            self.leave_out(reason, directory, is_directory=True)
        return reason is None

    def _refusal(self, path: str) -> Reason | None:
        reason = accepts(self.source, path)
        if reason is None and not self.places.is_partition_open(split(path)[0]):
            return Reason.SEALED
        return reason

    def _is_new(self, path: str) -> bool:
        return path not in self.state.files and self.is_unfinished(path) and self._refusal(path) is None

    def _bound(self, directory: str) -> str | None:
        name = list_after(self.source, self.state, directory)
        return None if name is None else join(directory, name)

    def _see_directories_of(self, path: str) -> None:
        directory, _ = split(path)
        while directory and directory not in self.seen:
            self.seen.add(directory)
            directory, _ = split(directory)


class _Known:
    """Shows the store which paths are remembered as read, and counts them."""

    def __init__(self, is_remembered: Callable[[str], bool]) -> None:
        self._is_remembered = is_remembered
        self._paths: list[str] = []

    def __call__(self, path: str) -> bool:
        remembered = self._is_remembered(path)
        if remembered:
            self._paths.append(path)
        return remembered

    @property
    def skipped(self) -> Skipped:
        return Skipped(Reason.READ, len(self._paths), tuple(self._paths[:EXAMPLES]))


BATCH = 16_384

LookUp = Callable[[Sequence[SourceFile]], Sequence[Known]]


def discover_all(
    store: ObjectStore, source: PathSource, state: SetState, look_up: LookUp, *, limit: int | None = None
) -> PathListing:
    """Every accepted file outside the set; ``look_up`` asks the set.

    After ``limit`` unknown files the listing stops. ``SourceError`` if the location does not exist, ``StorageError`` if
    any of it cannot be listed.
    """
    check_location(store, source)
    poll = _SetPoll(store=store, source=source, limit=limit, scope=scope_of(source), state=state, look_up=look_up)
    with closing(list_everything(store, poll.scope)) as listed:
        while not poll.is_cut and (batch := list(islice(listed, BATCH))):
            poll.take_batch(batch)
    return replace(
        poll.listing(),
        any_files=poll.any_files or bool(poll.scope.left_out),
        sorts_in_time=names_sort_in_time(poll.sample).order is Order.IN_TIME,
    )


@dataclass(slots=True, kw_only=True)
class _SetPoll(_Poll):
    """The accepted, looked-up and new files so far."""

    state: SetState
    look_up: LookUp
    sample: list[ObjectInfo] = field(default_factory=list)

    def take_batch(self, batch: Sequence[ObjectInfo]) -> None:
        """Take the new files of ``batch``, up to the limit."""
        accepted = list(self._accept(batch))
        self.any_files = self.any_files or bool(accepted)
        self.sample += accepted[: SAMPLE - len(self.sample)]
        files = [SourceFile(info.path, info.size, info.etag) for info in accepted]
        read: list[str] = []
        for file, known in zip(files, self.look_up(files), strict=True):
            match known:
                case Known.READ:
                    read.append(file.path)
                case Known.REWRITTEN:
                    self.tally.add(Reason.REWRITTEN, file.path)
                case Known.PENDING:
                    self.tally.add(Reason.PENDING, file.path)
                case Known.NEW:
                    self.take(file, is_new=file.path not in self.state.files)
            if self.is_cut:
                break
        self.tally.include(Skipped(Reason.READ, len(read), tuple(read[:EXAMPLES])))

    def _accept(self, batch: Sequence[ObjectInfo]) -> Iterator[ObjectInfo]:
        for info in batch:
            reason = accepts(self.source, info.path)
            if reason is None:
                yield info
            else:
                self.leave_out(reason, info.path)


SAMPLE = 1000
DISORDER = 0.1
"""The share of pairs in the wrong order above which names do not sort in time; random names give 0.5."""

_FEWEST_PAIRS = 10


class Shape(StrEnum):
    """The beginning of a name, as far as it shows time."""

    UNIX_TIME = "Unix time"
    ISO_TIME = "ISO 8601 time"
    UUID7 = "UUID version 7"
    RANDOM_UUID = "random UUID"
    OTHER = "other"


_UUID = r"[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{version}[0-9a-f]{{3}}-?[89ab][0-9a-f]{{3}}-?[0-9a-f]{{12}}"
_SHAPES: tuple[tuple[Shape, re.Pattern[str]], ...] = (
    (Shape.UUID7, re.compile(_UUID.format(version=7))),
    (Shape.RANDOM_UUID, re.compile(_UUID.format(version=4))),
    (Shape.ISO_TIME, re.compile(r"(19|20)\d\d-?[01]\d-?[0-3]\d(?!\d)")),
    (Shape.UNIX_TIME, re.compile(r"1\d{9}(\d{3}|\d{6}|\d{9})?(?!\d)")),
)


class Order(StrEnum):
    """Whether names sort in time."""

    IN_TIME = "in time"
    NOT_IN_TIME = "not in time"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class NameOrder:
    """The verdict on a sample of ``files``; ``disorder`` is the share of pairs whose names and times disagree.

    ``example`` is such a pair, the greater name first although it is the older file.
    """

    order: Order
    shape: Shape
    files: int
    disorder: float | None = None
    example: tuple[str, str] | None = None

    def describe(self) -> str:
        """The verdict in one sentence."""
        if self.order is Order.UNKNOWN:
            return f"{count(self.files, 'file says', 'files say')} too little about whether names sort in time"
        share = "" if self.disorder is None else f", {self.disorder:.0%} of pairs out of order"
        shown = f", e.g. {self.example[0]} is older than {self.example[1]}" if self.example else ""
        verdict = "names sort in time" if self.order is Order.IN_TIME else NOT_IN_TIME
        return f"{verdict} ({self.shape} names, {count(self.files, 'file')}{share}{shown})"


def sample_files(
    store: ObjectStore,
    count: int = SAMPLE,
    *,
    scope: Scope | None = None,
    accept: Callable[[str], bool] = lambda path: True,
) -> list[ObjectInfo]:
    """The first ``count`` files that a listing shows and ``accept`` takes by their path, without internal ones."""
    visible = (info for info in store.list(scope=scope) if not any(part[0] in "_." for part in info.path.split("/")))
    return list(islice((info for info in visible if accept(info.path)), count))


def shape_of(name: str) -> Shape:
    """What ``name`` begins with.

    >>> shape_of("1706450400-abc.ndjson.gz"), shape_of("part-0.json")
    (<Shape.UNIX_TIME: 'Unix time'>, <Shape.OTHER: 'other'>)
    """
    return next((shape for shape, pattern in _SHAPES if pattern.match(name.lower())), Shape.OTHER)


def names_sort_in_time(infos: Iterable[ObjectInfo]) -> NameOrder:
    """Whether, inside each partition, greater names belong to younger files.

    Files of the same time say nothing about each other: many files that were copied at once leave it to the
    shape of the names.
    """
    files = sorted(infos, key=lambda info: split(info.path))
    shape = _commonest(files)
    wrong = pairs = 0
    for _, group in groupby(files, key=lambda info: split(info.path)[0]):
        times = [info.modified for info in group]
        more_wrong, more_pairs = _count_disorder(times)
        wrong, pairs = wrong + more_wrong, pairs + more_pairs
    if pairs < _FEWEST_PAIRS:
        return NameOrder(_by_shape(shape), shape, len(files))
    share = wrong / pairs
    if share < DISORDER:
        return NameOrder(Order.IN_TIME, shape, len(files), share)
    return NameOrder(Order.NOT_IN_TIME, shape, len(files), share, _example(files))


def _commonest(files: Sequence[ObjectInfo]) -> Shape:
    shapes = Counter(shape_of(split(info.path)[1]) for info in files)
    return shapes.most_common(1)[0][0] if shapes else Shape.OTHER


def _by_shape(shape: Shape) -> Order:
    if shape is Shape.OTHER:
        return Order.UNKNOWN
    return Order.NOT_IN_TIME if shape is Shape.RANDOM_UUID else Order.IN_TIME


def _count_disorder(times: Sequence[datetime]) -> tuple[int, int]:
    """Of all pairs with different times: how many have the younger one first, and how many there are."""
    earlier: list[datetime] = []
    wrong = pairs = 0
    for number, time in enumerate(times):
        older, not_younger = bisect_left(earlier, time), bisect_right(earlier, time)
        wrong += number - not_younger
        pairs += number - not_younger + older
        insort(earlier, time)
    return wrong, pairs


def _example(files: Sequence[ObjectInfo]) -> tuple[str, str] | None:
    for one, other in pairwise(files):
        if split(one.path)[0] == split(other.path)[0] and one.modified > other.modified:
            return other.path, one.path
    return None
