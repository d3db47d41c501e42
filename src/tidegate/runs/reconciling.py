"""Reconciles the sources of a project with what was committed, and their tables with the files below them."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from tidegate.comparisons import ReconcileReport, SourceComparison, TableComparison
from tidegate.errors import RunStopped, TidegateError
from tidegate.observe import events
from tidegate.observe.wording import count, duration
from tidegate.planning.comparing import Finding
from tidegate.reports import FailedFile
from tidegate.runs.column_place import ColumnPlace
from tidegate.runs.comparison import Compared, Comparison
from tidegate.runs.fencing import OtherPlace, Writer, fence
from tidegate.runs.lanes import Lane
from tidegate.runs.late_pass import LatePass
from tidegate.runs.orphans import LettersScan, TableScan
from tidegate.runs.place import Clock, Place, utc_now
from tidegate.runs.scratch import scratch
from tidegate.runs.unit_place import UnitPlace
from tidegate.state.work_areas import clean_old

SAFE_AGE = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Wanted:
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
    wanted: Wanted = field(default_factory=Wanted)
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
