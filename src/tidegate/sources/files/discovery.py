"""Discovery of files: the requests of one poll, and nothing that history makes more of.

Directories above known partitions are looked at one level at a time (their names show what is new and what is
sealed). A known partition without known ones below it is listed from its bound on, with everything deeper
that sorts above the bound; a directory that nothing is known about is listed whole. These places never
overlap, so each file is seen once, however deep it lies. ``planning.discovery`` says what to list and take.

Any error of the store ends the poll: a listing is whole, or cut off on purpose after ``limit`` new files.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice

from tidegate.errors import SourceError
from tidegate.planning.discovery import (
    PathListing,
    accepts,
    accepts_directory,
    cold_prefixes,
    is_new,
    list_after,
    survey,
    table_of,
)
from tidegate.planning.reasons import EXAMPLES, Reason, Skipped, Tally, tallied
from tidegate.sources.files.places import Places
from tidegate.specs import PathSource
from tidegate.storage.port import ObjectInfo, ObjectStore
from tidegate.storage.scope import Scope
from tidegate.watermarks.path_state import PathState
from tidegate.watermarks.paths import ROOT, SourceFile, join, sort_key, split
from tidegate.watermarks.sealing import Directories


def discover(
    store: ObjectStore,
    source: PathSource,
    state: PathState,
    now: datetime,
    *,
    limit: int | None = None,
    poll_count: int = 0,
) -> PathListing:
    """What lies above the watermarks of ``source``.

    After ``limit`` files that the state does not know, the listing stops; each partition then shows all its
    files up to some name. Every ``deep_listing_every``-th poll looks into every open directory.
    ``SourceError`` if the location is not there, ``StorageError`` if any of it cannot be listed.
    """
    check_location(store, source)
    before = store.requests.list, store.requests.keys
    deep = source.deep_listing_every > 0 and poll_count > 0 and poll_count % source.deep_listing_every == 0
    places, scope = Places.of(source, state, now), scope_of(source)
    poll = _Poll(store, source, state, places, scope, deep, limit, is_new(source, state))
    prefixes = cold_prefixes(source, state, now)
    if prefixes is None:
        poll.look_into(ROOT)
    else:
        poll.whole = [prefix for prefix in prefixes if poll.is_wanted(prefix)]
    poll.list_whole()
    seen = survey(source, state, sorted(poll.seen), now) if prefixes is None else Directories()
    return PathListing(
        files=tuple(sorted(poll.files, key=lambda file: sort_key(file.path))),
        skipped=poll.skipped,
        directories=seen,
        list_requests=store.requests.list - before[0],
        listed_keys=store.requests.keys - before[1],
        complete=not poll.is_cut,
        deep=deep or (prefixes is None and not poll.places.partitions),
        any_files=bool(poll.seen or poll.files or poll.skipped),
        tables=tuple(sorted(poll.tables)),
        unseen=frozenset(scope.unseen),
    )


def check_location(store: ObjectStore, source: PathSource) -> None:
    """``SourceError`` if the location of ``source`` is not there."""
    if not store.exists():
        raise SourceError(
            f"source {source.name!r}: the directory {source.location.uri} does not exist",
            "create it, or correct source_uri",
        )


def scope_of(source: PathSource) -> Scope:
    """How far listings of ``source`` go, for one poll or one look at everything."""
    apart = tuple(place for place in source.apart if place.startswith("/"))
    return Scope(follow_links=source.follow_links, apart=apart)


@dataclass(slots=True)
class _Poll:
    """One poll: level by level where partitions are known, then whole where they are not."""

    store: ObjectStore
    source: PathSource
    state: PathState
    places: Places
    scope: Scope
    deep: bool
    limit: int | None
    is_unfinished: Callable[[str], bool]
    tally: Tally = field(default_factory=Tally)
    files: list[SourceFile] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    whole: list[str] = field(default_factory=list)
    tables: set[str] = field(default_factory=set)
    is_cut: bool = False
    new_files: int = 0

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """What was not taken, whoever left it out."""
        return tallied((*self.tally.result(), *self.scope.left_out))

    def look_into(self, directory: str) -> None:
        """One level of ``directory`` where partitions are known below it; others are to be listed whole."""
        if self.is_cut or not self._goes_by_level(directory):
            self.whole.append(directory)
            return
        known = _Known(self.places.is_remembered)
        level = self.store.list_directory(directory, self._bound(directory), known=known, scope=self.scope)
        self.seen.update(level.directories)
        self._take(level.objects, known)
        for each in filter(self.is_wanted, level.directories):
            self.look_into(each)

    def _goes_by_level(self, directory: str) -> bool:
        return directory in self.places.above or (self.deep and directory in self.places.partitions)

    def list_whole(self) -> None:
        """List what is left, several directories at a time where that pays off."""
        left = iter(self.whole)
        width = self.store.concurrency
        with ThreadPoolExecutor(width) if width > 1 else contextlib.nullcontext() as pool:
            run = pool.map if pool else map
            while not self.is_cut and (together := list(islice(left, width))):
                for found, known in run(self._everything_in, together):
                    self._take(found, known)
        self.is_cut = self.is_cut or next(left, None) is not None

    def _everything_in(self, directory: str) -> tuple[list[ObjectInfo], _Known]:
        """All of it, or one new file more than the poll may take."""
        known = _Known(self.places.is_remembered)
        listed = self.store.list(directory, self._bound(directory), known=known, scope=self.scope)
        found: list[ObjectInfo] = []
        new = 0
        for info in listed:
            found.append(info)
            new += self._is_new(info.path)
            if self.limit is not None and new > self.limit:
                break
        return found, known

    def _take(self, found: Iterable[ObjectInfo], known: _Known) -> None:
        """Take the accepted files, until there are as many new ones as were asked for."""
        self.tally.include(known.skipped)
        for info in found:
            if self.is_cut:
                return
            self._see_directories_of(info.path)
            reason = self._refusal(info.path)
            if reason is not None:
                self.tally.add(reason, info.path)
                self._see_table(reason, info.path)
            elif self.new_files == self.limit and self._is_new(info.path):
                self.is_cut = True
            else:
                self.new_files += self._is_new(info.path)
                self.files.append(SourceFile(info.path, info.size, info.etag))

    def is_wanted(self, directory: str) -> bool:
        """Whether to look into ``directory``; says why not in the tally."""
        reason = accepts_directory(self.source, directory)
        if reason is None and not self.places.is_open(directory):
            reason = Reason.SEALED
        if reason is not None:
            self.tally.add(reason, f"{directory}/")
            self._see_table(reason, directory)
        return reason is None

    def _see_table(self, reason: Reason, path: str) -> None:
        table = table_of(self.source, path) if reason is Reason.INTERNAL else None
        if table is not None:
            self.tables.add(table)

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
    """Tells the store which paths are remembered as read, and counts them."""

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
