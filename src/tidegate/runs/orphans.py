"""Finds Parquet files below a table that neither its log nor a state names, and removes them behind a fence.

Segments stay as long as a recovery may need them: for every existing state document, winner or not, the mirror, and the
states inside the newest entries of the log. A segment is never written twice under one name, so once nothing refers to
it, nothing will.

Uncommitted files are normal: a task that died, a commit that lost. They only cost space. Before they are removed, every
source of the table gets an empty commit, its fence: a process that slept with such files can never commit them after
that, because its position is taken. Only files older than the fences, and older than the limit, are removed.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tidegate.errors import StateError, TidegateError
from tidegate.failpoints import failpoint
from tidegate.observe.events import Emit
from tidegate.protocol import documents
from tidegate.protocol.documents import read_mirror
from tidegate.protocol.log import References
from tidegate.protocol.staging import list_pending, list_staged_files, meta_path
from tidegate.reports.reconcile import NAMES, FoundDataFile, FoundDataFiles
from tidegate.runs.comparison import fill, progress_teller
from tidegate.runs.replay_record import check_all_known, replays_in
from tidegate.runs.tracker import HasDeadLetters, InParts, TrackedSource
from tidegate.storage.port import ObjectInfo, Scope


def list_parts_in_use(bound: TrackedSource, tracker: InParts) -> Iterator[str]:
    """The paths of parts that some state refers to; all existing ones if that is unknown."""
    unexplained = {info.path for info in tracker.parts()}
    try:
        for state in _states(bound) if unexplained else ():
            referred = set(tracker.parts_of(state))
            yield from referred
            unexplained -= referred
            if not unexplained:
                return
    # A state that cannot be read may refer to any part, so all of them stay.
    except StateError:
        yield from unexplained


def _states(bound: TrackedSource) -> Iterator[Mapping[str, Any]]:
    store, key, site = bound.table_store, bound.key, bound.positions.site
    shown = read_mirror(store, key)
    if shown is not None:
        yield shown.state
    for name in documents.names(store, key):
        if name.ending == "json":
            stored = documents.read(store, key, name.version, name.attempt)
            if stored is not None and stored.document is None:
                raise StateError(f"document {name.version} of {key} is damaged", "see `tidegate recover`")
            if stored is not None and stored.document is not None:
                yield stored.document.state
    newest = site.log.versions()[-1:]
    for entry in site.log.backwards(newest[0], site.search_commits) if newest else ():
        mark = entry.tag_of(key)
        if mark is not None:
            yield mark.state()


# Our own form of name alone: what other writers left is VACUUM's.
_OURS = re.compile(
    r"(.*/)?[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\.parquet"
    r"|_tidegate/[^/]+_set/[0-9a-f]{64}\.parquet"
)
_NEVER = ("_delta_log/", "_tidegate/", "_staging/")
_TABLES = """
DROP TABLE IF EXISTS files; DROP TABLE IF EXISTS named; DROP TABLE IF EXISTS inner_tables;
DROP TABLE IF EXISTS removed;
CREATE TABLE files (path TEXT PRIMARY KEY, name TEXT, size INTEGER, modified REAL) WITHOUT ROWID;
CREATE TABLE named (name TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE inner_tables (prefix TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE removed (path TEXT PRIMARY KEY) WITHOUT ROWID;
BEGIN;
"""
_NOT_NAMED = """
SELECT path, size, modified FROM files
WHERE name NOT IN (SELECT name FROM named)
AND NOT EXISTS (SELECT 1 FROM inner_tables WHERE substr(files.path, 1, length(prefix)) = prefix)
ORDER BY path
"""
_FILES = "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)"
_NAMES = "INSERT OR IGNORE INTO named VALUES (?)"


@dataclass(slots=True)
class _DataFilePile:
    count: int = 0
    bytes: int = 0
    oldest: datetime | None = None
    files: list[FoundDataFile] = field(default_factory=list)

    def add(self, file: FoundDataFile) -> None:
        self.count += 1
        self.bytes += file.size
        self.oldest = file.modified if self.oldest is None else min(self.oldest, file.modified)
        if len(self.files) < NAMES:
            self.files.append(file)

    def to_report(self) -> FoundDataFiles:
        return FoundDataFiles(self.count, self.bytes, self.oldest, tuple(self.files))


class TableScan:
    """The Parquet files of one table against its log; ``sources`` are the sources that write into it.

    Files are compared by name alone, without folders: names of data files are unique, and a folder that is written
    differently in the log must not make a file an orphan.
    """

    def __init__(
        self,
        sources: Sequence[TrackedSource],
        database: sqlite3.Connection,
        emit: Emit,
        stop: threading.Event | None = None,
    ) -> None:
        self.data_files = 0
        self._sources = sources
        self._first = first = sources[0]
        self._store = first.table_store
        self._delta = first.positions.site.delta
        self._uri = first.pipeline.sink.table.uri
        self._letters = {bound.pipeline.error_handling.dlq_uri or "" for bound in sources}
        self._database = database
        self._emit = emit
        self._stop = stop
        self._references = References(self._store)

    @staticmethod
    def uri_of(bound: TrackedSource) -> str:
        """The address of the table."""
        return bound.pipeline.sink.table.uri

    def writers(self, neighbours: Sequence[TrackedSource] = ()) -> list[TrackedSource]:
        """Everybody who commits here: the sources, and replays of ``neighbours``."""
        return [*self._sources, *replays_in(self._first, neighbours)]

    def check_writers(self, writers: Sequence[TrackedSource]) -> None:
        """Stop if a writer cannot be fenced."""
        check_all_known(writers, self._uri)

    def look(self) -> bool:
        """List the files, then read what waits for the committer and what the log names; False without a table.

        In this order a file that is staged or committed meanwhile never counts as an orphan.
        """
        self._database.executescript(_TABLES)
        for uri in self._letters:
            # A dead-letter table may lie inside the table's folder; its files are named by its own log.
            if uri.startswith(f"{self._uri}/"):
                self._keep_out(uri.removeprefix(f"{self._uri}/"))
        self.data_files = fill(
            self._database,
            _FILES,
            self._files(),
            self._teller("table files"),
        )
        fill(
            self._database,
            _NAMES,
            ((_name(path),) for path in list_staged_files(self._store)),
            self._teller("staged files"),
        )
        fill(self._database, _FILES, self._parts(), self._teller("parts of sets"))
        snapshot = self._delta.snapshot()
        if snapshot is None:
            return False
        fill(self._database, _NAMES, ((_name(path),) for path in snapshot.active_paths()), self._teller("active files"))
        self.look_again()
        return True

    def look_again(self) -> None:
        """Read new names in the log, and the parts of states that are referred to now."""
        fill(self._database, _NAMES, ((_name(path),) for path in self._references.paths()), self._teller("log"))
        fill(self._database, _NAMES, ((_name(path),) for path in self._list_parts_in_use()), self._teller("states"))

    def _parts(self) -> Iterator[tuple[object, ...]]:
        for bound in self._sources:
            for info in bound.tracker.parts() if isinstance(bound.tracker, InParts) else ():
                yield info.path, _name(info.path), info.size, info.modified.timestamp()

    def _list_parts_in_use(self) -> Iterator[str]:
        for bound in self._sources:
            if isinstance(bound.tracker, InParts):
                yield from list_parts_in_use(bound, bound.tracker)

    def _teller(self, stage: str) -> Callable[[int], None]:
        return progress_teller(self._emit, self._stop, (self._uri, ""), stage)

    def _files(self) -> Iterator[tuple[object, ...]]:
        """The Parquet files that may be data; notes directories of other tables inside this one."""
        for info in self._store.list(known=lambda path: path.startswith(_NEVER), scope=Scope()):
            inner, found, _ = info.path.partition("/_delta_log/")
            if found:
                self._keep_out(inner)
            elif _may_be_data(info):
                yield info.path, _name(info.path), info.size, info.modified.timestamp()

    def _keep_out(self, directory: str) -> None:
        """Exclude everything below ``directory``, which is another table's."""
        self._database.execute("INSERT OR IGNORE INTO inner_tables VALUES (?)", (f"{directory}/",))

    def list_unnamed(self) -> Iterator[FoundDataFile]:
        """The files that the log does not name, by path."""
        for path, size, modified in self._database.execute(_NOT_NAMED):
            yield FoundDataFile(path, size, datetime.fromtimestamp(modified, UTC))

    def sort_files(self, now: datetime, older_than: timedelta) -> tuple[FoundDataFiles, FoundDataFiles, FoundDataFiles]:
        """Orphans old enough to be certain, younger ones, and those that Tidegate did not write."""
        old, young, foreign = _DataFilePile(), _DataFilePile(), _DataFilePile()
        for file in self.list_unnamed():
            if not is_ours(file.path):
                foreign.add(file)
            elif now - file.modified >= older_than:
                old.add(file)
            else:
                young.add(file)
        return old.to_report(), young.to_report(), foreign.to_report()

    def remove(self, before: datetime, now: datetime, older_than: timedelta) -> FoundDataFiles:
        """Remove Tidegate's own orphans that are older than ``before`` and than the limit, and their metas."""
        removed, metas = _DataFilePile(), list_pending(self._store).metas
        chosen = (
            file
            for file in self.list_unnamed()
            if is_ours(file.path) and file.modified < before and now - file.modified >= older_than
        )
        tell = self._teller("removing")
        with ThreadPoolExecutor(max(1, self._store.concurrency), "remove") as pool:
            for file in _a_few_at_a_time(pool, lambda file: self._delete(file, metas), chosen):
                removed.add(file)
                self._database.execute("INSERT INTO removed VALUES (?)", (file.path,))
                if removed.count % 1000 == 0:
                    tell(removed.count)
        self._database.execute("DELETE FROM files WHERE path IN (SELECT path FROM removed)")
        return removed.to_report()

    def _delete(self, file: FoundDataFile, metas: Container[str]) -> FoundDataFile:
        failpoint("runs.orphan.before")
        # The meta first: a committer must never find one whose file is gone.
        if (meta := meta_path(file.path)) in metas:
            self._store.delete(meta)
        self._store.delete(file.path)
        return file


class LettersScan(TableScan):
    """The same for a dead-letter table; ``sources`` are the sources whose letters go there.

    The fence of a source holds here, too: before it is made, the letters of all earlier positions are paid and so in
    the log, and a process that slept with letters can never make the commit that would owe them.
    """

    def __init__(
        self,
        sources: Sequence[TrackedSource],
        database: sqlite3.Connection,
        emit: Emit,
        stop: threading.Event | None = None,
    ) -> None:
        super().__init__(sources, database, emit, stop)
        tracker = sources[0].tracker
        assert isinstance(tracker, HasDeadLetters)
        letters = tracker.letters
        self._letter_table = letters
        self._store, self._delta, self._uri = letters.store, letters.delta, letters.uri
        self._letters = set()
        self._references = References(self._store)

    @staticmethod
    def uri_of(bound: TrackedSource) -> str:
        return str(bound.tracker.letters.uri) if isinstance(bound.tracker, HasDeadLetters) else ""

    def _parts(self) -> Iterator[tuple[object, ...]]:
        return iter(())

    def _list_parts_in_use(self) -> Iterator[str]:
        return iter(())

    def writers(self, neighbours: Sequence[TrackedSource] = ()) -> list[TrackedSource]:
        return list(self._sources)

    def check_writers(self, writers: Sequence[TrackedSource]) -> None:
        strangers = self._letter_table.writers() - {bound.key.app_id for bound in self._sources}
        if strangers:
            raise TidegateError(
                f"{self._uri} also has letters of {', '.join(sorted(strangers))}, which this configuration does not "
                "have: they cannot be fenced; nothing was removed",
                "clean with a configuration that has all sources whose letters go there",
            )


def _a_few_at_a_time(
    pool: ThreadPoolExecutor, act: Callable[[FoundDataFile], FoundDataFile], files: Iterator[FoundDataFile]
) -> Iterator[FoundDataFile]:
    """The files after ``act``, without handing all of them to the pool at once."""
    group: list[FoundDataFile] = []
    for file in files:
        group.append(file)
        if len(group) == 100:
            yield from pool.map(act, group)
            group = []
    yield from pool.map(act, group)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _may_be_data(info: ObjectInfo) -> bool:
    hidden = info.path.startswith(("_", ".")) or "/_" in info.path or "/." in info.path
    return info.path.endswith(".parquet") and not hidden


def is_ours(path: str) -> bool:
    """Whether a name is one of Tidegate's data files: a UUID of version 7.

    >>> is_ours("date=2026-01-28/019bfa00-0000-7000-8000-000000000000.parquet"), is_ours("part-0.parquet")
    (True, False)
    """
    return _OURS.fullmatch(path) is not None
