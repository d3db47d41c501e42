"""Lists a source completely and compares it with the ledger of its commits, in bounded memory.

Listing and ledger go into a database on disk; one pass over their join decides about each file
(``core.files.comparison``). Late files stay in the database, so that a pass can read them from there, however many.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice

from tidegate.core.files.comparison import CommittedFile, Comparing, Finding, History, Move, reopen_partitions
from tidegate.core.files.discovery import accepts, future_seals, lower_future_seals, starts_cold
from tidegate.core.files.discovery import seal_cold_start as with_cold_start
from tidegate.core.files.paths import SourceFile, split
from tidegate.core.files.plan import FileSlice
from tidegate.core.files.state import PathState, decode_paths
from tidegate.errors import EnvironmentProblem, RunStopped, SourceError
from tidegate.observe.events import ComparisonProgressed, Emit
from tidegate.protocol import documents
from tidegate.protocol.ledger_blocks import LedgerEntry
from tidegate.protocol.position import Position, utc_now
from tidegate.reports.reconcile import NAMES, FoundFiles
from tidegate.reports.wording import count
from tidegate.runs.file_source import FileSource
from tidegate.runs.tracker import Clock
from tidegate.sources.file_discovery import scope_of
from tidegate.specs.files import PathSource

BATCH = 10_000

# The database dies with the block, so neither a journal nor durability is worth its time.
_SETTINGS = "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA locking_mode=EXCLUSIVE; PRAGMA cache_size=-32768;"


@contextmanager
def scratch() -> Iterator[sqlite3.Connection]:
    """An empty database in the folder for temporary files; gone after the block."""
    with (
        tempfile.TemporaryDirectory(prefix="tidegate-reconcile-") as folder,
        _map_errors(folder),
        closing(sqlite3.connect(os.path.join(folder, "files.db"), isolation_level=None)) as database,
    ):
        database.executescript(_SETTINGS)
        yield database


def fill(
    database: sqlite3.Connection, statement: str, rows: Iterable[tuple[object, ...]], tell: Callable[[int], None]
) -> int:
    """Run ``statement`` for every row, some thousands at a time; ``tell`` gets the number so far."""
    total = 0
    left = iter(rows)
    while batch := list(islice(left, BATCH)):
        database.executemany(statement, batch)
        total += len(batch)
        tell(total)
    return total


def progress_teller(
    emit: Emit, stop: threading.Event | None, about: tuple[str, str], stage: str
) -> Callable[[int], None]:
    """A callback for ``fill``: shows the progress of a stage, and ends it if the user wants to stop."""

    def tell(total: int) -> None:
        emit(ComparisonProgressed(*about, stage, total))
        if stop is not None and stop.is_set():
            raise RunStopped(f"stopped after {total:,} ({stage})", "nothing is lost: start it again")

    return tell


@contextmanager
def _map_errors(folder: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise EnvironmentProblem(
            f"the temporary database in {folder} failed: {error}",
            "free some space there, or set TMPDIR to a larger disk (about 200 bytes per file of the source)",
        ) from error


_TABLES = """
DROP TABLE IF EXISTS listed; DROP TABLE IF EXISTS ledger; DROP TABLE IF EXISTS late;
CREATE TABLE listed (path TEXT PRIMARY KEY, size INTEGER, etag TEXT) WITHOUT ROWID;
CREATE TABLE ledger (path TEXT PRIMARY KEY, size INTEGER, etag TEXT, records INTEGER, eof INTEGER,
    given_up INTEGER) WITHOUT ROWID;
CREATE TABLE late (path TEXT PRIMARY KEY, size INTEGER, etag TEXT, records INTEGER) WITHOUT ROWID;
BEGIN;
"""
_NOT_AS_COMMITTED = """
SELECT listed.path, listed.size, listed.etag, ledger.size, ledger.etag, ledger.records, ledger.eof,
    ledger.given_up
FROM listed LEFT JOIN ledger USING (path)
WHERE ledger.path IS NULL OR NOT ledger.eof OR ledger.given_up
    OR ledger.size <> listed.size OR ledger.etag IS NOT listed.etag
ORDER BY listed.path
"""
_COVERED = """
INSERT INTO ledger VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (path) DO UPDATE SET
    records = CASE WHEN (size, etag) IS (excluded.size, excluded.etag) THEN max(records, excluded.records)
        ELSE excluded.records END,
    eof = CASE WHEN (size, etag) IS (excluded.size, excluded.etag) THEN max(eof, excluded.eof) ELSE excluded.eof END,
    given_up = excluded.given_up,
    size = excluded.size,
    etag = excluded.etag
"""
_GONE = "FROM ledger WHERE path NOT IN (SELECT path FROM listed)"
_NOT_LATE = "SELECT path FROM listed UNION SELECT path FROM ledger EXCEPT SELECT path FROM late ORDER BY path"


@dataclass(slots=True)
class _Pile:
    count: int = 0
    bytes: int = 0
    names: list[str] = field(default_factory=list)

    def add(self, file: SourceFile) -> None:
        self.count += 1
        self.bytes += file.size
        if len(self.names) < NAMES:
            self.names.append(file.path)

    def to_report(self) -> FoundFiles:
        return FoundFiles(self.count, self.bytes, tuple(self.names))


@dataclass(frozen=True, slots=True)
class Compared:
    """The result of a comparison at one position; late files are in ``database``, ``start`` is a filtered start."""

    opened: Position
    database: sqlite3.Connection
    listed: FoundFiles
    ingested: int
    piles: dict[Finding, FoundFiles]
    gone: FoundFiles
    notes: tuple[str, ...]
    start: PathState | None = None

    def late(self) -> FoundFiles:
        """The late files that are left."""
        return _query_files(self.database, "FROM late")

    def late_slices(self, after: str, limit: int) -> tuple[FileSlice, ...]:
        """The next late files after ``after``, by path; of one that is partly committed, the rest."""
        rows = self.database.execute("SELECT * FROM late WHERE path > ? ORDER BY path LIMIT ?", (after, limit))
        return tuple(FileSlice(path, size, etag, records) for path, size, etag, records in rows)

    def finish(self, paths: list[str]) -> None:
        """Count these as no longer late."""
        self.database.executemany("DELETE FROM late WHERE path = ?", [(path,) for path in paths])

    def reopen_partitions(self, source: PathSource, state: PathState, now: datetime) -> PathState | None:
        """The state without seals that a clock ahead of ``now`` has set; None if there are none.

        Every file that the source or the ledger has counts as finished, but those that are still late.
        """
        if not future_seals(source, state, now):
            return None
        late = [
            (SourceFile(path, size, etag), records)
            for path, size, etag, records in self.database.execute("SELECT * FROM late ORDER BY path")
        ]
        committed = {split(path)[0] for (path,) in self.database.execute("SELECT path FROM ledger")}
        finished = committed | state.partition_watermarks.keys()
        unfinished = {split(file.path)[0] for file, _ in late}
        seals = lower_future_seals(source, state, self.start, finished, unfinished, now)
        known = (path for (path,) in self.database.execute(_NOT_LATE))
        return reopen_partitions(source, state, seals, known, late)


class Comparison:
    """One source against its ledger: listed once, which is slow, then compared as often as the position moves."""

    def __init__(
        self,
        bound: FileSource,
        database: sqlite3.Connection,
        emit: Emit,
        stop: threading.Event | None = None,
        clock: Clock = utc_now,
    ) -> None:
        self._bound = bound
        self._database = database
        self._emit = emit
        self._stop = stop
        self._clock = clock
        self._ledger = _Ledger(bound)
        self._listed: FoundFiles | None = None
        self._scope = scope_of(bound.source)

    @property
    def is_listed(self) -> bool:
        """Whether the listing is done."""
        return self._listed is not None

    def list_source(self) -> None:
        """List the whole source into the database."""
        store, source = self._bound.tracker.store, self._bound.source
        if not store.exists():
            raise SourceError(
                f"source {source.name!r}: the directory {source.location.uri} does not exist",
                "create it, or correct source_uri",
            )
        self._database.executescript(_TABLES)
        size = 0

        def rows() -> Iterator[tuple[object, ...]]:
            nonlocal size
            # The same scope as in runs: what no poll would list must not be found missing here.
            for info in store.list(scope=self._scope):
                if accepts(source, info.path) is None:
                    size += info.size
                    yield info.path, info.size, info.etag

        statement = "INSERT OR REPLACE INTO listed VALUES (?, ?, ?)"
        total = fill(self._database, statement, rows(), self._teller("listing"))
        self._listed = FoundFiles(total, size)

    def at(self, opened: Position) -> Compared:
        """Compare the listing with everything committed up to ``opened``, whose position never goes back.

        The listing may be older than the position: the ledger has what was committed since.
        """
        assert self._listed is not None
        self._catch_up(opened)
        now = self._clock()
        watermarks = self._bound.tracker.watermarks(self._bound.state_of(opened))
        # A start fixed by a clock that was ahead excluded nothing: what it skipped is late, not left out.
        if self._bound.source.partition_filter is not None and starts_cold(watermarks, now):
            watermarks = PathState()
        history = self._ledger.history(now)
        comparing = Comparing(self._bound.source, watermarks, history)
        piles, out_of_sight = _sort_files(comparing, self._database)
        different = sum(pile.count for finding, pile in piles.items() if finding is not Finding.INGESTED)
        return Compared(
            opened,
            self._database,
            self._listed,
            self._listed.count - different,
            piles,
            _query_files(self._database, _GONE),
            (*self._ledger.notes(), *self._remarks(out_of_sight)),
            history.cold_start,
        )

    def _remarks(self, out_of_sight: int) -> Iterator[str]:
        yield from map(str, self._scope.left_out)
        every = self._bound.source.deep_listing_every
        if out_of_sight:
            yield (
                f"{count(out_of_sight, 'waiting file lies', 'waiting files lie')} in folders inside a partition, below "
                f"its watermark: every {every}th poll (deep_listing_every) looks there; for one run, set it to 1"
            )

    def _catch_up(self, opened: Position) -> None:
        """Add new entries of the ledger to the database."""
        start, bound = self._ledger.next, self._bound
        if opened.version >= start:
            found = bound.ledger.entries(start=start, newest=opened.parent)
            rows = (row for entry in found for row in self._ledger.rows(entry))
            fill(self._database, _COVERED, rows, self._teller("ledger"))
        self._ledger.close(opened)

    def _teller(self, stage: str) -> Callable[[int], None]:
        return progress_teller(self._emit, self._stop, (self._bound.pipeline.name, self._bound.source.name), stage)


class _Ledger:
    """Reads the entries once: the coverage of each, and moves of the position without reading."""

    def __init__(self, bound: FileSource) -> None:
        self.next = 1
        self._bound = bound
        self._first_run: LedgerEntry | None = None
        self._before: LedgerEntry | None = None
        self._moves: list[Move] = []
        self._moved: list[str] = []
        self._gaps = 0
        self._gap = ""

    def rows(self, entry: LedgerEntry) -> Iterator[tuple[object, ...]]:
        """The files that an entry covers, as database rows."""
        self._see(entry)
        for each in entry.coverage:
            yield each.file, each.size, each.etag, each.end, each.eof, each.given_up

    def _see(self, entry: LedgerEntry) -> None:
        # A gap means that coverage is unknown, not empty: files below the watermark may be in the table already.
        if entry.gap is not None:
            self._miss(f"position {entry.version}: {entry.gap}")
        elif entry.version != self.next:
            self._miss(f"position {self.next} is not in it")
        elif entry.action == "run":
            self._first_run = self._first_run or entry
        elif entry.moves:
            self._see_move(entry)
        self.next = entry.version + 1
        self._before = entry

    def _miss(self, why: str) -> None:
        self._gaps += 1
        self._gap = self._gap or why

    def _see_move(self, entry: LedgerEntry) -> None:
        """Record a command that moved the position: what it skipped is decided, not late."""
        # Such documents are never compacted: only their state says what a person passed over (decision 0006).
        after = self._state_of(entry)
        if after is None:
            self._miss(f"the record of what {entry.action} passed over at position {entry.version} is gone")
            return
        before = None if self._before is None else self._state_of(self._before)
        self._moves.append(Move(before or PathState(), after))
        self._moved.append(f"{entry.action} at position {entry.version}")

    def _state_of(self, entry: LedgerEntry) -> PathState | None:
        stored = documents.read(self._bound.table_store, self._bound.key, entry.version, entry.attempt)
        return None if stored is None or stored.document is None else decode_paths(stored.document.state)

    def close(self, opened: Position) -> None:
        """Check that the ledger reaches the position."""
        if self.next <= opened.version:
            self._miss(f"it ends at position {self.next - 1} of {opened.version}")
            self.next = opened.version + 1

    def history(self, now: datetime) -> History:
        """The history of the position; a start that a person fixed before there was a table is a move, too.

        A start that was fixed while a clock was ahead is the one of ``now``: what lies between was never excluded.
        """
        fixed = None if self._bound.source.partition_filter else self._bound.positions.cold_start()
        begun = [] if fixed is None else [Move(PathState(), decode_paths(fixed))]
        start = self._cold_start()
        if start is not None and starts_cold(start, now):
            start = with_cold_start(self._bound.source, PathState(), now)
        return History(start, (*begun, *self._moves), not self._gaps)

    def _cold_start(self) -> PathState | None:
        """The state fixed by a filtered cold start; None if nothing bounds it now."""
        bound, first = self._bound, self._first_run
        if bound.source.partition_filter is None:
            return None
        fixed = bound.positions.cold_start()
        if fixed is not None:
            return decode_paths(fixed)
        if first is None:
            return None
        state = self._state_of(first)
        moment = datetime.fromisoformat(first.written_at)
        if state is not None:
            moment = datetime.fromtimestamp(state.last_update_ts, UTC)
        return with_cold_start(bound.source, PathState(), moment)

    def notes(self) -> Iterator[str]:
        """Notes on the ledger for a person."""
        if self._gaps:
            more = f" (and {count(self._gaps - 1, 'more gap')})" if self._gaps > 1 else ""
            yield (
                f"the ledger has gaps: {self._gap}{more}; files below the watermark that nothing else explains are "
                "shown as unexplained and are not read, because they may be in the table"
            )
        if self._moved:
            moved = ", ".join(self._moved)
            yield f"the position was moved by hand ({moved}): the files that this skipped are shown as unexplained"


def _sort_files(comparing: Comparing, database: sqlite3.Connection) -> tuple[dict[Finding, FoundFiles], int]:
    """Every file that differs from what was committed, by finding, and the number that wait out of sight.

    Puts late ones into the database.
    """
    out_of_sight = 0
    database.execute("DELETE FROM late")
    piles = {finding: _Pile() for finding in Finding}
    for path, size, etag, known_size, known_etag, *read in database.execute(_NOT_AS_COMMITTED):
        file = SourceFile(path, size, etag)
        records, eof, given_up = read
        committed = (
            None if known_size is None else CommittedFile(known_size, known_etag, records, bool(eof), bool(given_up))
        )
        finding = comparing.decide(file, committed)
        piles[finding].add(file)
        out_of_sight += finding is Finding.WAITING and comparing.is_out_of_sight(file)
        if finding is Finding.LATE:
            start = 0 if committed is None else committed.records
            database.execute("INSERT INTO late VALUES (?, ?, ?, ?)", (path, size, etag, start))
    return {finding: pile.to_report() for finding, pile in piles.items()}, out_of_sight


def _query_files(database: sqlite3.Connection, where: str) -> FoundFiles:
    total, size = database.execute(f"SELECT count(*), coalesce(sum(size), 0) {where}").fetchone()
    names = database.execute(f"SELECT path {where} ORDER BY path LIMIT ?", (NAMES,))
    return FoundFiles(total, size, tuple(path for (path,) in names))
