"""Decides what to list next, which listed files to take, and why to skip the others. The requests are in ``sources``.

A poll lists each open partition from ``list_after`` on, skips directories that are not open, takes the files that
``accepts`` has no reason against, and returns a ``PathListing``.

Old partitions are sealed, so that the size of the state and the cost of a poll stay flat. A seal is a time per non-time
prefix. It lies ``lateness`` below the newest partition with a finished file, not below the clock: loading old data must
not seal it. It never passes a partition with a listed file that is not finished. A partition dated ahead of the clock
does not count as the newest: one odd directory must not seal the rest. Nor does one dated more than ``AHEAD`` after the
newest file of a poll was written, since then the clock itself may be ahead (``sealing_time``). If the times of the
files were wrong as well, such a directory seals what is not old: ``future_seals`` finds such seals once the clock is
right, ``lower_future_seals`` lowers them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum, StrEnum
from functools import lru_cache

from tidegate.core.calendar import Period, subtract
from tidegate.core.files.paths import (
    ROOT,
    Layout,
    PartitionTime,
    SourceFile,
    cold_start_bound,
    cold_start_prefixes,
    just_below,
    matches_any_level,
    matches_path,
    split,
)
from tidegate.core.files.state import Initial, PathState, Seal, file_statuses
from tidegate.core.json_shape import utc_text
from tidegate.specs.files import Format, LateFiles, Lateness, PathSource

EXAMPLES = 3
AHEAD = timedelta(hours=48)
"""How far a folder may be dated ahead of its files or of the clock: time zones differ, and some folders come early."""

FIRST_YEAR = 1990
"""Tools that write files without a time leave 1970 or 1980; such times are ignored."""

NOT_IN_TIME = "names do not sort in time"
"""What is said of names that do not suit path watermarks."""


class Reason(StrEnum):
    """Why a file is not read, in words; the texts are stable."""

    INTERNAL = "internal name (begins with _ or .)"
    TABLE = "belongs to a table of this configuration"
    LINK = "symbolic link, not followed (follow_links)"
    LINK_AGAIN = "leads to files that are listed under another name"
    LINK_BROKEN = "symbolic link that leads nowhere"
    NAME = "name that cannot be used"
    SPECIAL = "neither a file nor a directory"
    MARKER = "directory marker"
    SUFFIX = "not an ending of the source's format"
    PATTERN = "does not match the pattern"
    EXCLUDED = "excluded"
    SEALED = "partition is sealed"
    BEFORE_START = "older than partition_filter reads"
    READ = "already read"
    REWRITTEN = "changed after it was read"
    PENDING = "pending in staging"
    BELOW = "at or below the watermark"
    GIVEN_UP = "failed too often, goes to the dead letters"
    CHANGED = "changed after a part of it was read"
    GONE = "removed before it was finished"
    UNSEEN = "begun, and behind a link or a name that is left out now"
    ISLANDS_FULL = "too many files wait for an unfinished one below"
    TOO_MANY_FAILED = "too many files failed, new ones wait"


class Known(Enum):
    """What a set of paths knows of a listed file."""

    NEW = "not in the set"
    READ = "in the set"
    REWRITTEN = "in the set with another size or etag"
    PENDING = "read, and not in the set before its commit"


@dataclass(frozen=True, slots=True)
class Skipped:
    """The number of things skipped for one reason, with up to three examples."""

    reason: Reason
    count: int
    examples: tuple[str, ...] = ()

    def __str__(self) -> str:
        more = ", …" if self.count > len(self.examples) else ""
        return f"{self.count:,} left out, {self.reason}: {', '.join(self.examples)}{more}"


class ReasonCounts:
    """Counts skipped things by reason."""

    __slots__ = ("_counts", "_examples")

    def __init__(self) -> None:
        self._counts: dict[Reason, int] = {}
        self._examples: dict[Reason, list[str]] = {}

    def add(self, reason: Reason, path: str) -> None:
        """Count one thing."""
        self.include(Skipped(reason, 1, (path,)))

    def include(self, skipped: Skipped) -> None:
        """Add counts from elsewhere."""
        self._counts[skipped.reason] = self._counts.get(skipped.reason, 0) + skipped.count
        examples = self._examples.setdefault(skipped.reason, [])
        if len(examples) < EXAMPLES:
            examples.extend(skipped.examples[: EXAMPLES - len(examples)])

    def result(self) -> tuple[Skipped, ...]:
        """The counts, in the order of the reasons."""
        return tuple(
            Skipped(reason, self._counts[reason], tuple(self._examples[reason]))
            for reason in Reason
            if self._counts.get(reason)
        )


def count_reasons(skipped: Iterable[Skipped]) -> tuple[Skipped, ...]:
    """Merge counts into one entry per reason."""
    tally = ReasonCounts()
    for skip in skipped:
        tally.include(skip)
    return tally.result()


@dataclass(frozen=True, slots=True)
class Directories:
    """The directories directly below each non-time prefix: the number of sealed ones, and the open ones."""

    sealed: Mapping[str, int] = field(default_factory=dict)
    open: tuple[str, ...] = ()


def is_sealed(layout: Layout, state: PathState, partition: str) -> bool:
    """Whether runs no longer look at the files of ``partition``; never true for the top level."""
    if partition == ROOT:
        return False
    return partition < state.sealed_below or _ends_below_seal(layout.time_of(partition), state.sealed)


def is_directory_sealed(layout: Layout, state: PathState, directory: str) -> bool:
    """Whether ``directory`` and everything below it is sealed."""
    if directory == ROOT:
        return False
    inside = f"{directory}/"
    if inside < state.sealed_below and not state.sealed_below.startswith(inside):
        return True
    return _ends_below_seal(layout.time_of(directory), state.sealed)


def _ends_below_seal(time: PartitionTime | None, seals: Mapping[str, Seal]) -> bool:
    seal = seals.get(time.prefix) if time else None
    return time is not None and seal is not None and time.end <= seal.below


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The files that a filtered first run leaves out for good: in ``folders`` whose time is over at ``before``.

    ``by_folder`` has the number of files in each folder, the largest first. Without ``complete`` not all files were
    counted, and there may be more.
    """

    before: datetime
    folders: int
    files: int
    by_folder: tuple[tuple[str, int], ...] = ()
    complete: bool = True

    def to_json(self) -> dict[str, object]:
        """The fields as JSON types."""
        return {
            "before": utc_text(self.before),
            "folders": self.folders,
            "files": self.files,
            "complete": self.complete,
            "by_folder": [{"folder": folder, "files": files} for folder, files in self.by_folder],
        }

    def __str__(self) -> str:
        least = "" if self.complete else "at least "
        files = f"{self.files:,} {'file' if self.files == 1 else 'files'}"
        folders = f"{self.folders:,} {'folder' if self.folders == 1 else 'folders'}"
        shown = [f"{folder} ({number:,})" for folder, number in self.by_folder[:EXAMPLES]]
        rest = self.folders - len(shown)
        more = f" and {rest:,} more" if rest else ""
        return (
            f"partition_filter leaves out {least}{files} in {folders} before {self.before:%Y-%m-%d %H:%M}Z, for good:"
            f" {', '.join(shown)}{more}; to read them, raise lookback before the first run, or remove partition_filter"
            " after it and run `tidegate reconcile --ingest`"
        )


def starts_cold(state: PathState, now: datetime) -> bool:
    """True if the cold start is still to come.

    A start that was fixed while a clock was ahead, before anything was read, is made again once ``now`` is right.
    """
    nothing_read = isinstance(state.watermark, Initial) and not (state.partition_watermarks or state.files)
    is_ahead = not state.sealed_below and all(seal.below > now for seal in state.sealed.values())
    return state.is_fresh or (nothing_read and is_ahead)


def seal_cold_start(source: PathSource, state: PathState, now: datetime, listed: Iterable[str] = ()) -> PathState:
    """Seal everything before the oldest prefix of a filtered cold start; other states are returned unchanged.

    A partition in ``listed`` is not sealed, even if ``now`` has moved on since it was listed.
    """
    layout = Layout.of(source)
    if source.partition_filter is None or layout.template is None or not starts_cold(state, now):
        return state
    prefix = layout.template.prefix
    times = (layout.time_of(partition) for partition in listed)
    starts = [time.start for time in times if time and time.prefix == prefix]
    # Midnight may pass between listing and commit, and what was planned must not be sealed by its own commit.
    bound = min([cold_start_bound(source.partition_filter, now), *starts])
    return replace(state, sealed={prefix: Seal(bound)})


def sealing_time(now: datetime, newest: datetime | None) -> datetime:
    """Return the time by which folders seal: ``now``, unless the ``newest`` file shows that the clock may be ahead.

    A new file is hardly older than its folder, and its time comes from the store, not from this machine.
    """
    if newest is None or newest.year < FIRST_YEAR or newest > now - AHEAD:
        return now
    return newest + AHEAD


def seals_after(
    source: PathSource,
    layout: Layout,
    state: PathState,
    finished: Iterable[str],
    unfinished: Mapping[str, datetime],
    now: datetime,
) -> dict[str, Seal]:
    """Return the seals once these partitions have finished files; seals only move up.

    ``unfinished`` has the start of the oldest partition with an unfinished file, per prefix.
    """
    seals = dict(state.sealed)
    if source.lateness.never:
        return seals
    for prefix, time in _newest_by_prefix(layout, finished, now).items():
        bound = min(_seal_bound(source.lateness, time), unfinished.get(prefix, time.start))
        if prefix not in seals or bound > seals[prefix].below:
            seals[prefix] = Seal(bound)
    return seals


@dataclass(frozen=True, slots=True)
class FutureSeal:
    """A seal that only a wrong clock can have set: files of partitions that end by ``below`` are skipped, old or not.

    ``prefix`` is that of the seal; ``folder`` is the partition dated ahead that set it, if the state still has it.
    """

    prefix: str
    below: datetime
    folder: str | None = None

    def to_json(self) -> dict[str, object]:
        """The fields as JSON types."""
        return {"prefix": self.prefix, "below": utc_text(self.below), "folder": self.folder}

    def __str__(self) -> str:
        cause = f"{self.folder} was read" if self.folder else "that was set"
        return (
            f"folders before {self.below:%Y-%m-%d %H:%M}Z{f' in {self.prefix}' if self.prefix else ''} are sealed, and"
            f" new files there are skipped: the clock was ahead when {cause}; `tidegate reconcile --ingest` reads"
            " what was skipped and opens these folders again"
        )


def future_seals(source: PathSource, state: PathState, now: datetime) -> tuple[FutureSeal, ...]:
    """Find the seals that a clock ahead of ``now`` has set.

    Such a seal lies above ``now``, or is the one that a folder dated more than ``AHEAD`` above ``now`` sets: with a
    right clock, no folder seals before its time has come.
    """
    if source.partition_filter is not None and starts_cold(state, now):
        return ()
    layout = Layout.of(source)
    partitions = {*state.partition_watermarks, *(split(path)[0] for path in state.files)}
    times = [(time, partition) for partition in partitions if (time := layout.time_of(partition)) and time.start > now]
    times.sort(key=lambda dated: (dated[0].start, dated[1]))
    ahead_of_clock = []
    for prefix, seal in sorted(state.sealed.items()):
        ahead = [(time, partition) for time, partition in times if time.prefix == prefix]
        setters = (
            partition
            for time, partition in ahead
            if time.start - AHEAD > now
            and not source.lateness.never
            and _seal_bound(source.lateness, time) == seal.below
        )
        setter = next(setters, None)
        if setter is not None or seal.below > now:
            ahead_of_clock.append(FutureSeal(prefix, seal.below, setter or (ahead[-1][1] if ahead else None)))
    return tuple(ahead_of_clock)


def lower_future_seals(
    source: PathSource,
    state: PathState,
    start: PathState | None,
    finished: Iterable[str],
    unfinished: Iterable[str],
    now: datetime,
) -> dict[str, Seal]:
    """Lower the seals that a clock ahead of ``now`` has set to where a right clock would have set them.

    ``start`` is the state that the cold start fixed. ``finished`` partitions have finished files, ``unfinished`` ones
    have files that are still to be read.
    """
    layout = Layout.of(source)
    ahead = {future_seal.prefix for future_seal in future_seals(source, state, now)}
    begun = {} if start is None else {prefix: seal for prefix, seal in start.sealed.items() if prefix in ahead}
    oldest: dict[str, datetime] = {}
    for time in filter(None, map(layout.time_of, unfinished)):
        oldest[time.prefix] = min(time.start, oldest.get(time.prefix, time.start))
    right = seals_after(source, layout, PathState(sealed=begun), finished, oldest, now)
    seals = {prefix: seal for prefix, seal in state.sealed.items() if prefix not in ahead}
    for prefix in ahead & right.keys():
        # A repair only opens: it must not seal what a run would still read.
        seals[prefix] = Seal(min(right[prefix].below, state.sealed[prefix].below))
    return seals


class DirectoryCounts:
    """Counts the directories of a poll below any given seal."""

    def __init__(self, layout: Layout, sealed_below: str, directories: Directories) -> None:
        self._sealed = dict(directories.sealed)
        self._ends: dict[str, list[datetime]] = {}
        before = PathState(sealed_below=sealed_below)
        for directory in directories.open:
            if time := layout.time_of(directory):
                is_below = is_directory_sealed(layout, before, directory)
                self._sealed[time.prefix] = self._sealed.get(time.prefix, 0) + is_below
                if not is_below:
                    self._ends.setdefault(time.prefix, []).append(time.end)
        for ends in self._ends.values():
            ends.sort()

    def update_counts(self, seals: Mapping[str, Seal]) -> dict[str, Seal]:
        """Return the seals with directory counts.

        A seal that stays keeps its count, so a late directory is still noticed; a lower count replaces it.
        """
        counted = dict(seals)
        for prefix in seals.keys() & self._sealed.keys():
            seal = seals[prefix]
            count = self._sealed[prefix] + bisect_right(self._ends.get(prefix, ()), seal.below)
            counted[prefix] = replace(
                seal, directories=count if seal.directories is None else min(seal.directories, count)
            )
        return counted


def _seal_bound(lateness: Lateness, newest: PartitionTime) -> datetime:
    if lateness.fixed is not None:
        return subtract(newest.start, lateness.fixed)
    return newest.period.shift(newest.start, -lateness.periods)


def _newest_by_prefix(layout: Layout, partitions: Iterable[str], now: datetime) -> dict[str, PartitionTime]:
    """Return the newest partition per prefix; of two that begin together, the shorter one."""
    newest: dict[str, PartitionTime] = {}
    for time in filter(None, map(layout.time_of, partitions)):
        if time.start <= now:
            newest[time.prefix] = max(
                time, newest.get(time.prefix, time), key=lambda one: (one.start, list(Period).index(one.period))
            )
    return newest


_ENDINGS = {
    Format.NDJSON: (".ndjson", ".jsonl", ".json"),
    Format.CSV: (".csv", ".tsv"),
    Format.PARQUET: (".parquet",),
    Format.AVRO: (".avro",),
    Format.JSON: (".json",),
}
SUFFIXES = {
    format: tuple(
        ending + compression
        for ending in endings
        for compression in (("", ".gz", ".zst") if format.is_compressible else ("",))
    )
    for format, endings in _ENDINGS.items()
}
"""The endings of file names, by format."""


def format_of(path: str) -> Format | None:
    """The format of a file by its ending; None if the ending is unknown.

    >>> format_of("a/1.csv.gz"), format_of("1.json"), format_of("1.txt")
    (<Format.CSV: 'csv'>, <Format.NDJSON: 'ndjson'>, None)
    """
    return next((format for format, endings in SUFFIXES.items() if path.endswith(endings)), None)


def ending_of(path: str) -> str:
    """The ending of a name: that of a known format, else from the last dot; empty without a dot.

    >>> ending_of("a/1.csv.gz"), ending_of("1.2.txt"), ending_of("1")
    ('.csv.gz', '.txt', '')
    """
    endings_that_fit = (ending for endings in SUFFIXES.values() for ending in endings if path.endswith(ending))
    name = split(path)[1]
    return max(endings_that_fit, key=len, default=name[name.rindex(".") :] if "." in name else "")


PARTITIONS_AT_ONCE = 4096
"""Partitions remembered while files are checked, partition by partition."""


@dataclass(frozen=True, slots=True)
class PathListing:
    """The result of a poll: accepted files, each partition from its bound on, up to some name if it was truncated.

    ``complete`` is false if the listing stopped after a number of new files; ``deep``: every open directory was listed;
    ``any_files``: the source is not empty. ``directories`` comes from ``survey_directories``. ``sorts_in_time`` is
    checked only without a watermark. ``tables`` are directories with a Delta log whose data files the source would
    take. ``unseen`` are paths left out with everything at or below them: a file there may still exist. ``endings``
    counts files of other formats by ending. ``disorder``: names do not sort in time; checked only before watermarks
    have read anything. ``left_out`` is what a filtered cold start leaves out, if anything. ``newest`` is when the last
    file was written.
    """

    files: tuple[SourceFile, ...]
    skipped: tuple[Skipped, ...] = ()
    directories: Directories = field(default_factory=Directories)
    list_requests: int = 0
    listed_keys: int = 0
    complete: bool = True
    deep: bool = True
    any_files: bool = True
    sorts_in_time: bool = False
    tables: tuple[str, ...] = ()
    unseen: frozenset[str] = frozenset()
    endings: Mapping[str, int] = field(default_factory=dict)
    disorder: str = ""
    left_out: LeftOut | None = None
    newest: datetime | None = None


def cold_prefixes(source: PathSource, state: PathState, now: datetime) -> tuple[str, ...] | None:
    """Return the directories of a filtered cold start, oldest first; ``None`` to look everywhere."""
    if source.partition_filter is None or not starts_cold(state, now):
        return None
    return cold_start_prefixes(source.partition_filter, now)


def list_after(source: PathSource, state: PathState, partition: str) -> str | None:
    """Return the name after which to list ``partition``; ``None`` to list all of it.

    That is the watermark or the start of the late window, and always below an unfinished file.
    """
    watermark = state.partition_watermarks.get(partition)
    if watermark is None:
        return None
    bounds: list[str | None] = [watermark]
    window = state.late_window.get(partition) if source.late_files is LateFiles.WINDOW else None
    if window is not None:
        bounds.append(window.above)
    unfinished = state.first_unfinished.get(partition, watermark)
    if unfinished < watermark:
        # Listing starts after a name, exclusively, and the unfinished file itself must appear.
        bounds.append(just_below(unfinished))
    return min(bound or "" for bound in bounds) or None


def is_new(source: PathSource, state: PathState) -> Callable[[str], bool]:
    """Return a test for listed paths that are unfinished: what a limit on new files counts."""
    status_of = lru_cache(PARTITIONS_AT_ONCE)(file_statuses(source, state))

    def is_unfinished(path: str) -> bool:
        partition, name = split(path)
        return not status_of(partition).is_finished(name)

    return is_unfinished


def is_due(source: PathSource, state: PathState) -> Callable[[str], bool]:
    """Return a test for paths that a run from ``state`` reads: unfinished, in a partition that is not sealed."""
    layout, is_unfinished = Layout.of(source), is_new(source, state)
    is_open = lru_cache(PARTITIONS_AT_ONCE)(lambda partition: not is_sealed(layout, state, partition))
    return lambda path: is_open(split(path)[0]) and is_unfinished(path)


def survey_directories(source: PathSource, state: PathState, directories: Iterable[str], now: datetime) -> Directories:
    """Count the sealed directories directly below each non-time prefix and list the open ones, to notice late ones.

    Pass every directory seen, sealed or not. A filtered cold start sees too few of them to tell.
    """
    if cold_prefixes(source, state, now) is not None:
        return Directories()
    layout = Layout.of(source)
    sealed: dict[str, int] = {}
    open_directories: list[str] = []
    for directory in directories:
        time = layout.time_of(directory)
        if time is None or split(directory)[0] != time.prefix:
            continue
        if is_directory_sealed(layout, state, directory):
            sealed[time.prefix] = sealed.get(time.prefix, 0) + 1
        else:
            open_directories.append(directory)
    return Directories(sealed, tuple(sorted(open_directories)))


def accepts(source: PathSource, path: str) -> Reason | None:
    """Return why not to take the file at ``path``; ``None`` to take it."""
    if path.endswith("/"):
        return Reason.MARKER
    if is_apart(source, path):
        return Reason.TABLE
    # As Spark and Hadoop do: logs, staging folders and files that are still being written have such names.
    if path.startswith(("_", ".")) or "/_" in path or "/." in path:
        return Reason.INTERNAL
    if source.pattern is None:
        if not path.endswith(SUFFIXES[source.format]):
            return Reason.SUFFIX
    elif not matches_path(source.pattern, path):
        return Reason.PATTERN
    if any(matches_any_level(pattern, path) for pattern in source.exclude):
        return Reason.EXCLUDED
    return None


def accepts_directory(source: PathSource, directory: str) -> Reason | None:
    """Return why to take nothing below ``directory``; ``None`` to look into it."""
    if is_apart(source, directory):
        return Reason.TABLE
    if directory.startswith(("_", ".")) or "/_" in directory or "/." in directory:
        return Reason.INTERNAL
    # A pattern with a slash is about files: it must not close a directory above them.
    levels = (pattern for pattern in source.exclude if "/" not in pattern)
    return Reason.EXCLUDED if any(matches_any_level(pattern, directory) for pattern in levels) else None


def table_of(source: PathSource, path: str) -> str | None:
    """Return the directory of the Delta table whose log contains ``path``, if the source would take its data files."""
    before, log, _ = f"/{path}/".partition("/_delta_log/")
    directory = before.strip("/")
    if not log or accepts(source, f"{directory}/0.parquet".lstrip("/")) is not None:
        return None
    return directory


def is_behind(path: str, unseen: Collection[str]) -> bool:
    """True if ``path`` is at or below something that a listing left out, so that it may still exist."""
    while unseen and path:
        if path in unseen:
            return True
        path = split(path)[0]
    return False


def is_apart(source: PathSource, path: str) -> bool:
    """True if ``path`` is a table of the project or lies in one."""
    return any(path == place or path.startswith(f"{place}/") for place in source.apart)
