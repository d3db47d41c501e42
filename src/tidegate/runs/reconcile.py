"""Reconciles the sources of a project with what was committed, by hand or on a schedule.

The position has already passed a late file, so its commit changes nothing in the state: no run would read the file
before, and none does after. The ledger keeps it from being read again: it has the file from the same commit on. If
somebody else commits meanwhile (a run, another ``reconcile``), this commit loses; then the ledger is read again, and
everything compared again.

On a schedule it emits its findings as events. With ``reconcile.ingest`` it also reads late files.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from tidegate.core.files.advance import Advance
from tidegate.core.files.comparison import Finding
from tidegate.core.files.discovery import FutureSeal, PathListing, future_seals
from tidegate.core.files.plan import Plan
from tidegate.core.files.planner import group_files
from tidegate.core.files.state import Covered, FileOutcome, PathState, Refused
from tidegate.errors import RunStopped, TidegateError
from tidegate.observe import events
from tidegate.protocol.change import Change
from tidegate.protocol.follow_ups import remove_old_work
from tidegate.protocol.position import Position, utc_now
from tidegate.reports.reconcile import FoundFiles, ReconcileReport, SourceComparison, TableComparison
from tidegate.reports.status import FailedFile
from tidegate.reports.wording import count, duration, size
from tidegate.runs.comparison import Compared, Comparison, scratch
from tidegate.runs.engine import Engine
from tidegate.runs.file_source import FILES_PER_PLAN, FileSource, SourceState, Step, discover_files, sizing_of
from tidegate.runs.file_walk import FileWalk
from tidegate.runs.lanes import TableColumnsPlan
from tidegate.runs.orphans import LettersScan, TableScan
from tidegate.runs.pass_ import Pass, without_name
from tidegate.runs.replay_record import fence
from tidegate.runs.tracker import Clock, Comparable, TrackedSource, instead_of
from tidegate.specs.project import ReconcileSpec
from tidegate.tasks.read_task import GroupResult, ReadTask


class LateWalk(FileWalk):
    """One pass over the late files of a source.

    ``compared`` is the finding, ``finished`` the number read since, ``refused`` the unreadable ones. ``opened`` are the
    seals of a wrong clock that were taken back.
    """

    def __init__(self, run: Pass, database: sqlite3.Connection) -> None:
        super().__init__(run)
        self.compared: Compared | None = None
        self.refused: dict[str, str] = {}
        self.finished = 0
        self.opened: tuple[FutureSeal, ...] = ()
        self._comparison = Comparison(self.source, database, run.emit, run.stop, run.clock)
        self._polled = PathListing(())
        self._planned_up_to = ""

    def go(self, position: Position) -> Position:
        """Compare at ``position``, then read the late files."""
        if not self._comparison.is_listed:
            # Before the full listing: a directory that comes in between is not counted as known, and the next poll
            # reports it.
            self._polled = discover_files(self.source, self.run.state, self.run.clock())
            self._comparison.list_source()
            position = self.source.open()
            self.run.begin_at(position)
        self.compared = self._comparison.at(position)
        self._planned_up_to, self.finished = "", 0
        self.refused.clear()
        return self._open_again(self._recount(super().go(position)))

    def plan(self, position: Position, now: datetime) -> Plan:
        """The next late files, by path; the comparison holds as long as nobody else commits."""
        assert self.compared is not None
        slices = self.compared.late_slices(self._planned_up_to, FILES_PER_PLAN)
        self._planned_up_to = slices[-1].path if slices else self._planned_up_to
        plan = Plan(
            *self.names,
            version=position.version,
            now=now,
            groups=group_files(slices, sizing_of(self.source)),
            complete=len(slices) < FILES_PER_PLAN,
        )
        if plan.groups:
            self.run.emit(events.PlanMade(*self.names, len(plan.groups), plan.files, plan.bytes))
        return plan

    def rest(self, position: Position, plan: Plan) -> Position:
        """Nothing late is left."""
        return position

    def task(self, columns: TableColumnsPlan) -> ReadTask:
        """Whole files only: the state does not record how far a late file was read."""
        return replace(super().task(columns), whole_files=True)

    def advance(self, plan: Plan, outcomes: Sequence[FileOutcome]) -> Step:
        """The state stays as it is."""
        self.refused.update((each.path, each.reason) for each in outcomes if isinstance(each, Refused))
        return Advance(self.run.state, changed=any(isinstance(each, Covered) for each in outcomes))

    def count(self, change: Change, results: Sequence[GroupResult]) -> None:
        """Count finished files as no longer late."""
        super().count(change, results)
        assert self.compared is not None
        finished = [each.file for each in change.coverage if each.eof]
        self.compared.finish(finished)
        self.finished += len(finished)

    def _recount(self, position: Position) -> Position:
        """With nothing late left, count the late directories that polls report as known.

        They were counted before everything was listed, so a later directory is still noticed.
        """
        assert self.compared is not None
        state = self.tracker.recount(self.run.state, self._polled)
        if state is None or self.run.stop.is_set() or self.compared.late().count:
            return position
        return self.commit(position, Advance(state, changed=True), None, (), None)

    def _open_again(self, position: Position) -> Position:
        """Take back what a wrong clock has sealed, now that the files that were skipped there are read."""
        assert self.compared is not None
        state, now = self.run.state, self.run.clock()
        if self.run.stop.is_set() or position.table_version < 0 or not isinstance(state, PathState):
            return position
        ahead = future_seals(self.source.source, state, now)
        after = self.compared.reopen_partitions(self.source.source, state, now)
        if after is None:
            return position
        position = self.commit(position, Advance(after, changed=True), None, (), None)
        self.opened = ahead
        return position


@dataclass(frozen=True, slots=True)
class ComparisonRun:
    """What the comparison of one source works with; with an ``engine``, it also reads what is late."""

    engine: Engine | None
    database: sqlite3.Connection
    emit: events.Emit
    stop: threading.Event
    clock: Clock


def compare_files(bound: FileSource, run: ComparisonRun) -> SourceComparison:
    """Compare the files of a source with its ledger."""
    if run.engine is not None:
        return _ingest_late(bound, run.engine, run)
    bound.positions.open(read_only=True)
    comparison = Comparison(bound, run.database, run.emit, run.stop, run.clock)
    comparison.list_source()
    # Opened again: what was committed while the source was listed must not count as late.
    compared = comparison.at(bound.positions.open(read_only=True))
    sealed = _future_seals(bound, bound.state_of(compared.opened), run.clock())
    return replace(_report(SourceComparison(*bound.names), compared), future_seals=sealed)


def _ingest_late(bound: FileSource, engine: Engine, run: ComparisonRun) -> SourceComparison:
    blank = SourceComparison(*bound.names)
    late_pass = Pass(bound, engine, emit=run.emit, stop=run.stop, clock=run.clock, action="reconcile")
    late = LateWalk(late_pass, run.database)
    error: TidegateError | None = None
    try:
        late_pass.run(late)
    except RunStopped as stopped:
        if late.compared is None:
            raise
        run.emit(events.Notice(blank.pipeline, blank.source, str(stopped)))
    except TidegateError as failure:
        if late.compared is None:
            raise
        error = failure
    assert late.compared is not None
    report = _report(blank, late.compared)
    return replace(
        report,
        future_seals=_future_seals(bound, late_pass.state, run.clock()),
        version=report.version if late_pass.position is None else late_pass.position.version,
        ingested=report.ingested + late.finished,
        ingested_files=late_pass.totals.files,
        ingested_rows=late_pass.totals.rows,
        commits=late_pass.totals.commits,
        failed=tuple(FailedFile(path, reason, 1) for path, reason in sorted(late.refused.items())),
        notes=(*report.notes, *map(_describe_reopened, late.opened)),
        error=None if error is None else without_name(bound.names, error),
        exit_code=0 if error is None else error.exit_code,
    )


def _future_seals(bound: FileSource, state: SourceState, now: datetime) -> tuple[FutureSeal, ...]:
    """What a wrong clock has sealed."""
    return future_seals(bound.source, state, now) if isinstance(state, PathState) else ()


# Another source may still be writing younger ones, and has not committed them yet.
SAFE_AGE = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class ReconcileOptions:
    """What to do beyond comparing: read late files with ``engine``, remove orphans older than the limit."""

    engine: Engine | None = None
    clean: bool = False
    older_than: timedelta = SAFE_AGE

    def __post_init__(self) -> None:
        if self.engine is not None and self.clean:
            raise TidegateError("ingest and clean do not work together", "do one after the other")


def check_age(older_than: timedelta, *, force: bool) -> timedelta:
    """``older_than``, if it is safe or a person insists."""
    if older_than < timedelta(0):
        raise TidegateError(f"older_than is {older_than}", "give a duration of zero or more")
    if older_than < SAFE_AGE and not force:
        raise TidegateError(
            "Tidegate does not remove orphans younger than 24 hours: another source may still be "
            f"writing them (asked for: {duration(older_than.total_seconds())})",
            "give --older-than 24h or more; --force removes younger ones, too",
        )
    return older_than


@dataclass(slots=True)
class Reconciling:
    """Compares; ``sources`` are those asked for, ``neighbours`` all of the configuration."""

    sources: Sequence[TrackedSource]
    neighbours: Sequence[TrackedSource]
    wanted: ReconcileOptions = field(default_factory=ReconcileOptions)
    emit: events.Emit = events.ignore
    stop: threading.Event = field(default_factory=threading.Event)
    clock: Clock = utc_now

    def all(self) -> ReconcileReport:
        """Compare every source, then every table; a failure does not stop the others."""
        started = time.monotonic()
        with scratch() as database:
            sources = tuple(self._source(each, database) for each in self.sources if not self.stop.is_set())
            tables = tuple(self._tables(database))
        complete = len(sources) == len(self.sources) and not self.stop.is_set()
        found = any(each.needs_someone for each in sources) or any(each.needs_someone for each in tables)
        return ReconcileReport(sources, tables, complete and not found, time.monotonic() - started)

    def _source(self, bound: TrackedSource, database: sqlite3.Connection) -> SourceComparison:
        if not isinstance(bound.tracker, Comparable):
            note = "this command does not compare the rows of such a source"
            return self._open_only(bound, instead_of(bound.tracker, "reconcile", note))
        try:
            run = ComparisonRun(self.wanted.engine, database, self.emit, self.stop, self.clock)
            return bound.tracker.compare(bound, run)
        except RunStopped as stopped:
            self.emit(events.Notice(*bound.names, str(stopped)))
            return SourceComparison(*bound.names)
        except TidegateError as error:
            text = without_name(bound.names, error)
            self.emit(events.SourceFailed(*bound.names, text))
            return SourceComparison(*bound.names, error=text, exit_code=error.exit_code)

    def _open_only(self, bound: TrackedSource, note: str) -> SourceComparison:
        """Check only that the position can be opened; the source's contents are not compared."""
        blank = SourceComparison(*bound.names, compared=False)
        try:
            opened = bound.open(read_only=True)
        except TidegateError as error:
            return replace(blank, error=without_name(bound.names, error), exit_code=error.exit_code)
        return replace(blank, version=opened.version, notes=(*opened.warnings, note))

    def _tables(self, database: sqlite3.Connection) -> Iterator[TableComparison]:
        """The selected tables, then the existing dead-letter tables of their sources."""
        for kind in (TableScan, LettersScan):
            for uri in filter(None, dict.fromkeys(kind.uri_of(each) for each in self.sources)):
                if self.stop.is_set():
                    return
                found = self._table(uri, database, kind)
                if kind is TableScan or found.data_files or found.error:
                    yield found

    def _table(self, uri: str, database: sqlite3.Connection, kind: type[TableScan]) -> TableComparison:
        """One table, with every configured source that writes into it."""
        blank = TableComparison(uri)
        # All that write there, not only those asked for: an uncommitted file of any of them looks like an orphan.
        sources = [each for each in self.neighbours if kind.uri_of(each) == uri]
        try:
            scan = kind(sources, database, self.emit, self.stop)
            if not scan.look():
                return replace(blank, notes=("there is no table yet, so no files below it were checked",))
            found = self._sort_out(blank, scan)
            if not self.wanted.clean:
                return found
            writers = scan.writers(self.neighbours)
            cleaned = self._clean(found, scan, writers) if found.orphans.count else found
            return self._remove_old_work(cleaned, writers)
        except RunStopped as stopped:
            self.emit(events.Notice(blank.table_uri, "", str(stopped)))
            return blank
        except TidegateError as error:
            self.emit(events.Notice(blank.table_uri, "", str(error)))
            return replace(blank, error=str(error), exit_code=error.exit_code)

    def _sort_out(self, blank: TableComparison, scan: TableScan) -> TableComparison:
        orphans, young, foreign = scan.sort_files(self.clock(), self.wanted.older_than)
        notes: tuple[str, ...] = ()
        if foreign.count:
            notes = (
                f"{count(foreign.count, 'file')} that the log does not name were not written by Tidegate, e.g. "
                f"{foreign.files[0].path}; VACUUM removes them",
            )
        return replace(blank, data_files=scan.data_files, orphans=orphans, young=young, foreign=foreign, notes=notes)

    def _clean(self, found: TableComparison, scan: TableScan, writers: Sequence[TrackedSource]) -> TableComparison:
        scan.check_writers(writers)
        fenced = fence(writers)
        # The fences are up: whatever was committed before them is in the log by now, and nothing older can follow.
        scan.look_again()
        removed = scan.remove(fenced, self.clock(), self.wanted.older_than)
        left = self._sort_out(found, scan)
        return replace(left, removed=removed, fenced=tuple(str(writer.key) for writer in writers))

    def _remove_old_work(self, found: TableComparison, writers: Sequence[TrackedSource]) -> TableComparison:
        """Also remove leftovers of killed processes in work areas; no commit refers to those, so no fence is needed."""
        removed = sum(remove_old_work(writer.table_store, writer.key, self.clock()) for writer in writers)
        if not removed:
            return found
        return replace(found, notes=(*found.notes, f"{count(removed, 'file')} of old work areas removed"))


def _describe_reopened(seal: FutureSeal) -> str:
    where = f" in {seal.prefix}" if seal.prefix else ""
    return (
        f"folders{where} that were sealed up to {seal.below:%Y-%m-%d %H:%M}Z by a clock that was ahead are open again"
    )


def _report(blank: SourceComparison, compared: Compared) -> SourceComparison:
    piles = compared.piles
    return replace(
        blank,
        version=compared.opened.version,
        listed=compared.listed,
        ingested=compared.ingested,
        late=compared.late(),
        changed=piles[Finding.CHANGED],
        waiting=piles[Finding.WAITING],
        unfinished=piles[Finding.UNFINISHED],
        unexplained=piles[Finding.UNEXPLAINED],
        excluded=piles[Finding.EXCLUDED],
        gone=compared.gone,
        given_up=piles[Finding.GIVEN_UP],
        repaired=piles[Finding.REPAIRED],
        notes=(*compared.opened.warnings, *compared.notes),
    )


@dataclass(slots=True)
class ScheduledReconciling:
    """The comparison of a continuous run; ``sources`` returns the run's own and all of the configuration."""

    spec: ReconcileSpec
    sources: Callable[[], tuple[Sequence[TrackedSource], Sequence[TrackedSource]]]
    engine: Engine
    emit: events.Emit
    stop: threading.Event
    _last: float = field(default_factory=time.monotonic)

    @property
    def is_due(self) -> bool:
        """Whether the last time, or the start of the run, is long enough ago."""
        every = self.spec.every
        return every is not None and time.monotonic() - self._last >= every.total_seconds()

    def compare(self) -> None:
        """Compare the sources with what is recorded of them, and tell what was found."""
        try:
            self._compare()
        # A comparison is a service of the continuous run, whose loading must go on.
        except (TidegateError, OSError, sqlite3.Error) as error:
            self.emit(events.Notice("", "", f"the scheduled comparison could not be made: {error}"))
        finally:
            # After a failure too: a listing of hours that fails must not begin again at once.
            self._last = time.monotonic()

    def _compare(self) -> None:
        mine, every = self.sources()
        wanted = ReconcileOptions(self.engine if self.spec.ingest else None)
        report = Reconciling(mine, every, wanted, self.emit, self.stop).all()
        if self.stop.is_set():
            return
        for source in report.sources:
            if source.compared:
                self._tell_source(source)
        for table in report.tables:
            self._tell_table(table)

    def _tell_source(self, found: SourceComparison) -> None:
        name = (found.pipeline, found.source)
        if found.error is not None:
            return
        self.emit(
            events.SourceReconciled(
                *name,
                listed=found.listed.count,
                late=found.late.count,
                changed=found.changed.count,
                repaired=found.repaired.count,
                ingested_files=found.ingested_files,
            )
        )
        for text in _findings(found):
            self.emit(events.Notice(*name, text))

    def _tell_table(self, found: TableComparison) -> None:
        orphans = found.orphans
        if orphans.count:
            told = f"{count(orphans.count, 'file')} ({size(orphans.bytes)}) that no commit names"
            self.emit(events.Notice(found.table_uri, "", f"{told}; `tidegate reconcile --clean` removes them"))


def _findings(found: SourceComparison) -> Iterator[str]:
    """What a person has to look at, in sentences."""
    kinds: tuple[tuple[FoundFiles, str, str], ...] = (
        (found.late, "came late and read by no run", "`tidegate reconcile --ingest` reads them"),
        (found.changed, "changed after they were read", "`tidegate replay` replaces their rows"),
        (found.repaired, "changed after they were given up", "`tidegate dlq retry` reads them"),
    )
    for files, what, remedy in kinds:
        if files.count:
            yield f"{count(files.count, 'file')} {what}, e.g. {files.names[0]}; {remedy}"
