"""Comparing everything now and then while a run goes on polling: ``reconcile.every``.

It tells what it finds as events; nobody reads a report there. With ``reconcile.ingest`` late files are read, too.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from tidegate.comparisons import FoundFiles, SourceComparison, TableComparison
from tidegate.errors import TidegateError
from tidegate.observe import events
from tidegate.observe.wording import count, size
from tidegate.runs.column_place import ColumnPlace
from tidegate.runs.lanes import Lane
from tidegate.runs.place import Place
from tidegate.runs.reconciling import Reconciling, Wanted
from tidegate.specs import ReconcileSpec


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
        wanted = Wanted(self.lane if self.spec.ingest else None)
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
