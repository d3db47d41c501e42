"""Runs the committers of a project's tables: once, or again and again until told to stop. Starts no Spark."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tidegate.errors import TidegateError
from tidegate.observe import events
from tidegate.runs.place import Clock, Place, open_place, utc_now
from tidegate.runs.staged_commit import TableCommitter
from tidegate.runs.staged_tally import Tally
from tidegate.specs import Delivery, Maintenance, PipelineSpec, ProjectSpec, StagingSpec
from tidegate.staging_reports import CommitReport, RejectedUnit, StagedSource, TableCommit
from tidegate.state.identity import SourceKey
from tidegate.state.pace import Pace
from tidegate.state.pending import COMMITTER

JITTER = 0.2
"""A committer waits up to this share longer, so that several of them do not look at the same moment."""


def poll_interval(project: ProjectSpec, uri: str) -> int:
    """Seconds between two looks at a table: what its staged pipelines want, the most impatient one."""
    staged = [each for each in project.pipelines if each.sink.table.uri == uri and each.delivery is Delivery.STAGED]
    return min((each.staging.poll_interval_secs for each in staged), default=StagingSpec().poll_interval_secs)


@dataclass(slots=True)
class Committing:
    """The tables of a project and their committers; ``clock`` and ``pace`` are as in a run."""

    project: ProjectSpec
    emit: events.Emit = events.ignore
    stop: threading.Event = field(default_factory=threading.Event)
    clock: Clock = utc_now
    pace: Pace | None = None
    _committers: dict[str, TableCommitter] = field(default_factory=dict)
    _errors: dict[str, TidegateError] = field(default_factory=dict)

    def once(self, pipelines: Sequence[PipelineSpec]) -> CommitReport:
        """Commit what waits below every table of these pipelines; one that fails keeps no other waiting."""
        started = time.monotonic()
        tables = self._tables(pipelines)
        for uri in tables:
            if not self.stop.is_set():
                self._commit(uri)
        return self._report(tables, started)

    def continuously(
        self, pipelines: Sequence[PipelineSpec], jitter: Callable[[], float] = random.random
    ) -> CommitReport:
        """The same for each table at its interval, until ``stop`` is set; the report adds up."""
        started = time.monotonic()
        tables = self._tables(pipelines)
        due = dict.fromkeys(tables, 0.0)
        while not self.stop.is_set():
            uri = min(tables, key=lambda each: due[each])
            if self.stop.wait(max(0.0, due[uri] - time.monotonic())):
                break
            self._commit(uri)
            due[uri] = time.monotonic() + poll_interval(self.project, uri) * (1 + JITTER * jitter())
        return self._report(tables, started)

    def _tables(self, pipelines: Sequence[PipelineSpec]) -> tuple[str, ...]:
        """The tables of these pipelines."""
        return tuple(dict.fromkeys(each.sink.table.uri for each in pipelines))

    def _committer(self, uri: str) -> TableCommitter:
        """The committer of a table, for everyone of the project who writes into it."""
        if uri not in self._committers:
            self._committers[uri] = TableCommitter(self._places(uri), emit=self.emit, stop=self.stop, clock=self.clock)
        return self._committers[uri]

    def _places(self, uri: str) -> tuple[Place, ...]:
        return tuple(
            open_place(self.project, pipeline, source, 1, self.emit, self.pace)
            for pipeline in self.project.pipelines
            if pipeline.sink.table.uri == uri
            for source in pipeline.sources
        )

    def _commit(self, uri: str) -> None:
        self._errors.pop(uri, None)
        try:
            committer = self._committer(uri)
            before = committer.tally.commits
            committer.run()
            self._care(uri, committer.position, committer.tally.commits - before)
        except TidegateError as error:
            self._errors[uri] = error
            self.emit(events.SourceFailed(COMMITTER.pipeline, COMMITTER.source, f"{uri}: {error}"))
        for pipeline in self.project.pipelines:
            if pipeline.sink.table.uri == uri:
                for source in pipeline.sources:
                    self._tell_look(uri, SourceKey(pipeline.name, source.name))

    def _tell_look(self, uri: str, key: SourceKey) -> None:
        """How a source is after a look at its table."""
        tally = self._tally(uri)
        error = self._errors.get(uri) or tally.errors.get(key)
        told = None if error is None else str(error)
        position, left = tally.positions.get(key, 0), tally.left.get(key, 0)
        self.emit(events.CommitterLooked(key.pipeline, key.source, position, left, told))

    def _tally(self, uri: str) -> Tally:
        return self._committers[uri].tally if uri in self._committers else Tally(self.emit)

    def _care(self, uri: str, position: int, commits: int) -> None:
        """What the table is due after so many commits, as the pipelines want it whose runs make none themselves."""
        for pipeline in self.project.pipelines:
            staged = pipeline.sink.table.uri == uri and pipeline.delivery is Delivery.STAGED
            if not staged or pipeline.sink.maintenance == Maintenance() or self.stop.is_set():
                continue
            from tidegate.runs.table_care import care_after

            care_after(pipeline, pipeline.sources[0].name, position - commits, position, self.emit)

    def _report(self, uris: Sequence[str], started: float) -> CommitReport:
        tables = tuple(self._told(uri) for uri in uris)
        well = all(
            each.error is None and not each.rejected and not any(source.error for source in each.sources)
            for each in tables
        )
        return CommitReport(tables, well, time.monotonic() - started)

    def _told(self, uri: str) -> TableCommit:
        tally, error = self._tally(uri), self._errors.get(uri)
        failed = [error] if error else list(tally.errors.values())
        return TableCommit(
            table_uri=uri,
            table_version=tally.table_version,
            commits=tally.commits,
            units=sum(tally.units.values()),
            files=tally.files,
            rows=tally.rows,
            foreign=tally.foreign,
            duplicates=tally.duplicates,
            dropped=tally.dropped,
            waiting=tally.waiting,
            unknown=tally.unknown,
            aging=tally.aging,
            rejected=tuple(RejectedUnit(each.path, each.reason) for each in tally.rejected),
            sources=tuple(
                StagedSource(
                    key.pipeline,
                    key.source,
                    tally.positions.get(key, 0),
                    tally.units.get(key, 0),
                    tally.source_rows.get(key, 0),
                    tally.left.get(key, 0),
                    str(tally.errors[key]) if key in tally.errors else None,
                )
                for key in sorted({*tally.positions, *tally.errors}, key=str)
            ),
            error=None if error is None else str(error),
            exit_code=failed[0].exit_code if failed else 0,
        )
