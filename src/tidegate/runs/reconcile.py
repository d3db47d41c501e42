"""Reconciles the sources of a project with what was committed, by hand or on a schedule.

A late file is one that the position already passes over, so its commit changes nothing in the state: no run would
read the file before, and none does after. What keeps it from being read again is the ledger, which has it from the
same commit on. Whoever else committed meanwhile (a run, another ``reconcile``) makes this commit lose; then what they
committed is read from the ledger, and everything compared again.

It tells what it finds as events; nobody reads a report there. With ``reconcile.ingest`` late files are read, too.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from tidegate.core.files.advance import Advance
from tidegate.core.files.comparison import Finding
from tidegate.core.files.discovery import PathListing
from tidegate.core.files.plan import Plan
from tidegate.core.files.planner import Sizing, grouped
from tidegate.core.files.state import Covered, FileOutcome, PathState, Refused, Seal
from tidegate.errors import RunStopped, TidegateError
from tidegate.observe import events
from tidegate.observe.wording import count, duration, size
from tidegate.protocol.change import Change
from tidegate.protocol.position import Position
from tidegate.protocol.work_areas import clean_old
from tidegate.reports.correction import FoundFiles, ReconcileReport, SourceComparison, TableComparison
from tidegate.reports.run import FailedFile
from tidegate.runs.bound_source import FILES_PER_PLAN, UNIT_BYTES, Clock, ColumnPlace, Place, UnitPlace, utc_now
from tidegate.runs.comparison import Compared, Comparison, scratch
from tidegate.runs.engine import Lane
from tidegate.runs.file_pass import SourcePass
from tidegate.runs.orphans import LettersScan, TableScan
from tidegate.runs.replay_record import OtherPlace, Writer, fence
from tidegate.runs.table_columns import TableColumnsPlan
from tidegate.runs.tracker import SourceState, Step
from tidegate.sink.read_task import GroupResult, ReadTask
from tidegate.specs.project import ReconcileSpec


@dataclass(frozen=True, slots=True)
class _Unmoved:
    """A step that leaves the state as it is."""

    state: SourceState
    changed: bool
    advanced: tuple[tuple[str, str | None, str], ...] = ()
    sealed: tuple[str, ...] = ()
    full: bool = False


class LatePass(SourcePass):
    """One pass over the late files of a source.

    ``compared`` is what was found, ``finished`` how many of it were read since, ``refused`` what could not be read.
    """

    action = "reconcile"

    def __init__(self, place: Place, lane: Lane, database: sqlite3.Connection, **settings: Any) -> None:
        super().__init__(place, lane, **settings)
        self.compared: Compared | None = None
        self.refused: dict[str, str] = {}
        self.finished = 0
        self._comparison = Comparison(place, database, self._emit, self._stop)
        self._polled = PathListing(())
        self._planned_up_to = ""

    def _from_position(self, opened: Position) -> Position:
        if not self._comparison.is_listed:
            self._polled = self._place.discover(self._place.opened_state(opened), self._clock(), polls=0)
            self._comparison.list_source()
            opened = self._place.positions.open()
        self.compared = self._comparison.at(opened)
        self._planned_up_to, self.finished = "", 0
        self.refused.clear()
        return self._recount(super()._from_position(opened))

    def _planned(self, opened: Position, now: datetime) -> Plan:
        """The next late files, by path; the comparison stays true as long as nobody else commits."""
        assert self.compared is not None
        slices = self.compared.late_slices(self._planned_up_to, FILES_PER_PLAN)
        self._planned_up_to = slices[-1].path if slices else self._planned_up_to
        plan = Plan(
            pipeline=self._place.pipeline.name,
            source=self._place.source.name,
            version=opened.version,
            now=now,
            units=grouped(slices, Sizing(UNIT_BYTES, self._place.source.interval_files, self._place.parallelism)),
            complete=len(slices) < FILES_PER_PLAN,
        )
        if plan.units:
            self._emit(events.PlanMade(*self._names, len(plan.units), plan.files, plan.bytes))
        return plan

    def _nothing_to_read(self, opened: Position, plan: Plan) -> Position:
        return opened

    def _task(self, columns: TableColumnsPlan) -> ReadTask:
        """Whole files only: the state does not say how far a late file was read."""
        return replace(super()._task(columns), whole_files=True)

    def _advanced(self, plan: Plan, outcomes: Sequence[FileOutcome]) -> Step:
        self.refused.update((each.path, each.reason) for each in outcomes if isinstance(each, Refused))
        return _Unmoved(self.state, changed=any(isinstance(each, Covered) for each in outcomes))

    def _count(self, change: Change, results: Sequence[GroupResult], after: Position) -> None:
        super()._count(change, results, after)
        assert self.compared is not None
        finished = [each.file for each in change.coverage if each.eof]
        self.compared.finish(finished)
        self.finished += len(finished)

    def _recount(self, opened: Position) -> Position:
        """With nothing late left, the late directories that polls tell about are accounted for: count them in.

        They were counted before everything was listed, so a directory that came later goes on being noticed.
        """
        assert self.compared is not None
        if not isinstance(self.state, PathState):
            return opened
        polled = self._polled
        sealed = {
            prefix: Seal(seal.below, polled.directories.sealed[prefix])
            for prefix, seal in self.state.sealed.items()
            if (seal.directories or 0) < polled.directories.sealed.get(prefix, 0) and seal.directories is not None
        }
        if not sealed or not polled.complete or self._stop.is_set() or self.compared.late().count:
            return opened
        step = Advance(replace(self.state, sealed={**self.state.sealed, **sealed}), changed=True)
        return self._commit(opened, step, None, (), None)


SAFE_AGE = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class ReconcileOptions:
    """What to do beyond comparing: read late files through ``lane``, remove orphans older than the limit."""

    lane: Lane | None = None
    clean: bool = False
    older_than: timedelta = SAFE_AGE

    def __post_init__(self) -> None:
        if self.lane is not None and self.clean:
            raise TidegateError("ingest and clean exclude each other", "do one after the other")


def checked_age(older_than: timedelta, *, force: bool) -> timedelta:
    """``older_than``, if it is safe or a person insists."""
    if older_than < timedelta(0):
        raise TidegateError(f"older_than is {older_than}", "give a duration of zero or more")
    if older_than < SAFE_AGE and not force:
        raise TidegateError(
            "orphans younger than 24 hours are not removed: a source that nobody knows of here may still be writing "
            f"them (asked for: {duration(older_than.total_seconds())})",
            "give --older-than 24h or more; --force removes younger ones all the same",
        )
    return older_than


@dataclass(slots=True)
class Reconciling:
    """Compares; ``places`` are the sources asked for, ``neighbours`` all that the configuration has.

    ``others`` and ``other_neighbours`` are the same of sources that are followed by columns or have work units: their
    tables are compared, their rows are not.
    """

    places: Sequence[Place]
    neighbours: Sequence[Place]
    wanted: ReconcileOptions = field(default_factory=ReconcileOptions)
    emit: events.Emit = events.ignore
    stop: threading.Event = field(default_factory=threading.Event)
    clock: Clock = utc_now
    others: Sequence[OtherPlace] = ()
    other_neighbours: Sequence[OtherPlace] = ()

    def all(self) -> ReconcileReport:
        """Every source, then every table; one that fails does not keep the others from being compared."""
        started = time.monotonic()
        with scratch() as database:
            files = [self._source(place, database) for place in self.places if not self.stop.is_set()]
            sources = (*files, *(self._other_source(place) for place in self.others))
            tables = tuple(self._looked_at(database))
        complete = len(files) == len(self.places) and not self.stop.is_set()
        found = any(each.needs_someone for each in sources) or any(each.needs_someone for each in tables)
        return ReconcileReport(sources, tables, complete and not found, time.monotonic() - started)

    def _source(self, place: Place, database: sqlite3.Connection) -> SourceComparison:
        name = (place.pipeline.name, place.source.name)
        blank = SourceComparison(*name)
        try:
            if self.wanted.lane is not None:
                return self._ingested(place, self.wanted.lane, database)
            place.positions.open(read_only=True)
            comparison = Comparison(place, database, self.emit, self.stop)
            comparison.list_source()
            return _told(blank, comparison.at(place.positions.open(read_only=True)))
        except RunStopped as stopped:
            self.emit(events.Notice(*name, str(stopped)))
            return blank
        except TidegateError as error:
            self.emit(events.SourceFailed(*name, _told_once(place, error)))
            return replace(blank, error=_told_once(place, error), exit_code=error.exit_code)

    def _other_source(self, place: OtherPlace) -> SourceComparison:
        """Whether the position can be opened; what the source holds is not compared."""
        blank = SourceComparison(place.pipeline.name, place.source.name, compared=False)
        try:
            opened = place.open(read_only=True)
        except TidegateError as error:
            return replace(blank, error=_told_once(place, error), exit_code=error.exit_code)
        return replace(blank, version=opened.version, notes=(*opened.warnings, *_not_compared(place)))

    def _ingested(self, place: Place, lane: Lane, database: sqlite3.Connection) -> SourceComparison:
        blank = SourceComparison(place.pipeline.name, place.source.name)
        late = LatePass(place, lane, database, emit=self.emit, stop=self.stop, clock=self.clock)
        error: TidegateError | None = None
        try:
            late.run()
        except RunStopped as stopped:
            if late.compared is None:
                raise
            self.emit(events.Notice(blank.pipeline, blank.source, str(stopped)))
        except TidegateError as failure:
            if late.compared is None:
                raise
            error = failure
        assert late.compared is not None
        told = _told(blank, late.compared)
        return replace(
            told,
            version=told.version if late.opened is None else late.opened.version,
            ingested=told.ingested + late.finished,
            ingested_files=late.totals.files,
            ingested_rows=late.totals.rows,
            commits=late.totals.commits,
            failed=tuple(FailedFile(path, reason, 1) for path, reason in sorted(late.refused.items())),
            error=None if error is None else _told_once(place, error),
            exit_code=0 if error is None else error.exit_code,
        )

    def _looked_at(self, database: sqlite3.Connection) -> Iterator[TableComparison]:
        """The tables asked for, then the dead-letter tables of their sources, as far as there are any."""
        asked = [TableScan.uri_of(place) for place in (*self.places, *self.others)]
        for kind, wanted in ((TableScan, asked), (LettersScan, [LettersScan.uri_of(place) for place in self.places])):
            for uri in dict.fromkeys(wanted):
                if self.stop.is_set():
                    return
                found = self._table(uri, database, kind)
                if kind is TableScan or found.data_files or found.error:
                    yield found

    def _table(self, uri: str, database: sqlite3.Connection, kind: type[TableScan]) -> TableComparison:
        """One table, with every source of the configuration that writes into it."""
        blank = TableComparison(uri)
        places = [each for each in self.neighbours if kind.uri_of(each) == uri]
        others = [each for each in self.other_neighbours if TableScan.uri_of(each) == uri]
        try:
            scan = kind(places, database, self.emit, self.stop, others)
            if not scan.look():
                return replace(blank, notes=("there is no table yet; files below it are not looked at",))
            found = self._sorted_out(blank, scan)
            if not self.wanted.clean:
                return found
            writers = scan.writers([each for each in self.other_neighbours if isinstance(each, ColumnPlace)])
            cleaned = self._cleaned(found, scan, writers) if found.orphans.count else found
            return self._without_old_work(cleaned, writers)
        except RunStopped as stopped:
            self.emit(events.Notice(blank.table_uri, "", str(stopped)))
            return blank
        except TidegateError as error:
            self.emit(events.Notice(blank.table_uri, "", str(error)))
            return replace(blank, error=str(error), exit_code=error.exit_code)

    def _sorted_out(self, blank: TableComparison, scan: TableScan) -> TableComparison:
        orphans, young, foreign = scan.sorted_out(self.clock(), self.wanted.older_than)
        notes: tuple[str, ...] = ()
        if foreign.count:
            notes = (
                f"{count(foreign.count, 'file')} that the log does not name were not written by Tidegate, e.g. "
                f"{foreign.files[0].path}; VACUUM removes them",
            )
        return replace(blank, data_files=scan.data_files, orphans=orphans, young=young, foreign=foreign, notes=notes)

    def _cleaned(self, found: TableComparison, scan: TableScan, writers: Sequence[Writer]) -> TableComparison:
        scan.check_writers(writers)
        fenced = fence(writers)
        scan.look_again()
        removed = scan.remove(fenced, self.clock(), self.wanted.older_than)
        left = self._sorted_out(found, scan)
        return replace(left, removed=removed, fenced=tuple(str(writer.key) for writer in writers))

    def _without_old_work(self, found: TableComparison, writers: Sequence[Writer]) -> TableComparison:
        """What killed processes left in work areas goes, too; no commit refers to those, so it needs no fence."""
        removed = sum(clean_old(writer.table_store, writer.key, self.clock()) for writer in writers)
        if not removed:
            return found
        return replace(found, notes=(*found.notes, f"{count(removed, 'file')} of old work areas removed"))


def _not_compared(place: OtherPlace) -> Iterator[str]:
    if isinstance(place, UnitPlace):
        yield "work units: its rows are not compared with the source; `tidegate units reset` has some read again"
    else:
        yield "followed by columns: its rows are not compared with the source; a replay reads a range of them again"


def _told_once(place: Place | OtherPlace, error: TidegateError) -> str:
    """The error without the name of the source in front: that is told beside it."""
    return str(error).removeprefix(f"{place.key}: ")


def _told(blank: SourceComparison, compared: Compared) -> SourceComparison:
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
    """The comparison of a continuous run; ``places`` gives the run's sources and all that the configuration has.

    ``columns`` gives the run's sources that are followed by columns, whose tables are looked at, too.
    """

    spec: ReconcileSpec
    places: Callable[[], tuple[Sequence[Place], Sequence[Place]]]
    lane: Lane
    emit: events.Emit
    stop: threading.Event
    columns: Callable[[], Sequence[ColumnPlace]] = tuple
    _last: float = field(default_factory=time.monotonic)

    def if_due(self) -> None:
        """Compare, if it is so long ago that it was done, or that the run began."""
        every = self.spec.every
        if every is None or time.monotonic() - self._last < every.total_seconds():
            return
        try:
            self._compare()
        except (TidegateError, OSError, sqlite3.Error) as error:
            self.emit(events.Notice("", "", f"the scheduled comparison could not be made: {error}"))
        self._last = time.monotonic()

    def _compare(self) -> None:
        mine, every = self.places()
        wanted = ReconcileOptions(self.lane if self.spec.ingest else None)
        columns = self.columns()
        report = Reconciling(mine, every, wanted, self.emit, self.stop, others=columns, other_neighbours=columns).all()
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
