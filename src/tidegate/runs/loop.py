"""Runs pipelines: every source once, or continuously until told to stop."""

from __future__ import annotations

import contextlib
import random
import secrets
import signal
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from tidegate.core.health import Outcome
from tidegate.core.run_history import PastRun, RunHistory
from tidegate.errors import RunStopped, TidegateError, safe_text
from tidegate.observe import events
from tidegate.observe.metrics import Metrics
from tidegate.protocol.change import SourceKey
from tidegate.protocol.documents import read_mirror
from tidegate.protocol.position import Pace, utc_now
from tidegate.protocol.run_record import RunRecorder
from tidegate.reports.run import RunReport, SourceReport
from tidegate.runs.bind import SLOTS_PER_CORE, bind, is_files
from tidegate.runs.engine import Engine
from tidegate.runs.maintenance import maintain_if_due
from tidegate.runs.pass_ import ANOTHER_RUN, Pass, without_name
from tidegate.runs.pass_report import (
    add_pass,
    describe_unknown_fields,
    is_well,
    make_finished_event,
    make_past_run,
    report_not_begun,
    report_pass,
)
from tidegate.runs.presence import Courtesy, claim_source, settle_attempts
from tidegate.runs.reconcile import ScheduledReconciling
from tidegate.runs.schedule import (
    LEFT_BEHIND_SECS,
    LOOK_SECS,
    Ended,
    Name,
    PassStop,
    PassThreads,
    find_upstream,
    take_turn,
    without_cycles,
)
from tidegate.runs.staged import stage
from tidegate.runs.table_names import TableNames
from tidegate.runs.tracker import Clock, TrackedSource
from tidegate.schema.literals import find_native
from tidegate.signals import signals_go_to
from tidegate.specs.masking import Mask
from tidegate.specs.project import Delivery, PipelineSpec, ProjectSpec, SourceSpec
from tidegate.storage.port import ObjectStore
from tidegate.storage.stores import comparable_uri
from tidegate.tasks.admission import Admission

SHOWN_LEFT_OUT = 10
SIGNALS = (signal.SIGTERM, signal.SIGINT)
RECORD_SECS = 60.0
"""A continuous run records alike outcomes of a source no more often than this."""
WITHOUT_NATIVE = "tasks use the slower JSON reader: tidegate-native is installed here but not where they run"
NO_NATIVE = (
    "JSON is decoded at 3 to 25 MB a second and core instead of 200 to 400: tidegate-native is not installed - "
    "pip install 'tidegate[native]'"
)

_COMPARISON = ("", "scheduled comparison")
_LISTING = ("", "tables of databases")
LIST_TABLES_SECS = 300.0
"""How often a continuous run asks the databases of blocks for their tables."""


@dataclass(slots=True)
class Polls:
    """Counts the polls of the sources of one run."""

    _counted: dict[SourceKey, int] = field(default_factory=dict)

    def next(self, store: ObjectStore, key: SourceKey) -> int:
        """The number of the poll that begins now; ``store`` is that of the table."""
        if key not in self._counted:
            shown = read_mirror(store, key)
            self._counted[key] = 0 if shown is None else shown.polls
        self._counted[key] += 1
        return self._counted[key]


@dataclass(slots=True)
class Loop:
    """The sources of a project, whose turn it is, and what is kept of each from poll to poll.

    ``clock`` and ``pace`` are the time of plans and of commits, ``courtesy`` the times with which runs of one source
    make way for each other; experiments replace them. ``run_id`` is the same in logs, commits and recorded outcomes.
    ``list_pipelines`` returns the pipelines of blocks as their databases have them now; a continuous run calls it.
    """

    project: ProjectSpec
    engine: Engine
    parallelism: int
    emit: events.Emit = events.ignore
    stop: threading.Event = field(default_factory=threading.Event)
    clock: Clock = utc_now
    pace: Pace | None = None
    accept_new_partitions: bool = False
    courtesy: Courtesy = field(default_factory=Courtesy)
    names: TableNames | None = None
    fail_fast: bool = False
    list_pipelines: Callable[[], Sequence[PipelineSpec]] | None = None
    run_id: str = field(default_factory=lambda: new_run_id(utc_now()))
    _recorder: RunRecorder = field(default_factory=RunRecorder)
    _metrics: Metrics = field(default_factory=Metrics)
    _polls: Polls = field(default_factory=Polls)
    _sources: dict[Name, TrackedSource] = field(default_factory=dict)
    _passes: dict[Name, Pass] = field(default_factory=dict)
    _shared: dict[str, Any] = field(default_factory=dict)
    _turns: dict[str, threading.Lock] = field(default_factory=dict)
    _admission: Admission = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _told_native: bool = False
    _traced: dict[Name, str] = field(default_factory=dict)
    _untold: set[Name] = field(default_factory=set)
    _listed: Sequence[PipelineSpec] | None = None

    def __post_init__(self) -> None:
        most = self.parallelism * SLOTS_PER_CORE
        self._admission = Admission(min(most, self.project.total_concurrency or most))
        emit, count = self.emit, self._metrics

        def emit_counted(event: events.Event) -> None:
            count(event)
            emit(event)

        self.emit = emit_counted

    def once(self, pipelines: Sequence[PipelineSpec]) -> RunReport:
        """One pass over every source; a source that fails does not stop the others, unless ``fail_fast`` is set.

        A source that reads what another pipeline writes waits for it.
        """
        started = time.monotonic()
        sources = {(pipeline.name, source.name): (pipeline, source) for pipeline, source in _pairs(pipelines)}
        waits = without_cycles(find_upstream(pipelines), list(sources))
        left, reports = list(sources), dict[Name, SourceReport]()
        with PassThreads[SourceReport](self.project.max_concurrent_sources, self.stop) as threads:
            while left or not threads.is_empty:
                if self.stop.is_set():
                    threads.stop_all()
                    left.clear()
                while threads.has_room and (name := _first_free(left, waits, reports)) is not None:
                    left.remove(name)
                    self._begin(threads, *sources[name])
                ended = threads.wait(LOOK_SECS)
                if ended is not None:
                    reports[ended.name] = report = self._result_of(ended, threads)
                    if self.fail_fast and not is_well(report):
                        self._give_up_others(ended.name, left, threads)
        complete = len(reports) == len(sources) and not self.stop.is_set()
        return _report([reports[name] for name in sources if name in reports], started, complete=complete)

    def continuously(self, pipelines: Sequence[PipelineSpec], jitter: Callable[[], float] = random.random) -> RunReport:
        """Poll every source at its interval until ``stop`` is set; the report adds up each source's passes.

        The interval lies between the starts of two passes; after one that failed, it begins with its end.
        """
        started = time.monotonic()
        self.courtesy = replace(self.courtesy, waits=False)
        self._recorder = RunRecorder(RECORD_SECS)
        total: dict[Name, SourceReport] = {}
        sources = {(pipeline.name, source.name): (pipeline, source) for pipeline, source in _pairs(pipelines)}
        due, began = dict.fromkeys(sources, 0.0), dict.fromkeys(sources, 0.0)
        listing_due = time.monotonic() + LIST_TABLES_SECS
        reconciling = ScheduledReconciling(
            self.project.reconcile, partial(self._bind_all, pipelines), self.engine, self.emit, self.stop
        )
        with PassThreads[SourceReport | None](self.project.max_concurrent_sources, self.stop) as threads:
            while not self.stop.is_set() or not threads.is_empty:
                now = time.monotonic()
                if self.stop.is_set():
                    threads.stop_all()
                elif reconciling.is_due and not threads.is_busy(_COMPARISON):
                    threads.begin(_COMPARISON, lambda stop: reconciling.compare(), counts=False)
                elif self.list_pipelines is not None and now >= listing_due and not threads.is_busy(_LISTING):
                    listing_due = now + LIST_TABLES_SECS
                    threads.begin(_LISTING, lambda stop: self._list_tables(), counts=False)
                self._take_tables(sources, due, began, threads)
                # Whoever has waited longest comes first where there is not room for all.
                waiting = sorted((name for name in sources if not threads.is_busy(name)), key=due.__getitem__)
                while waiting and threads.has_room and due[waiting[0]] <= now and not self.stop.is_set():
                    began[waiting[0]] = now
                    self._begin(threads, *sources[waiting.pop(0)])
                soon = due[waiting[0]] - now if waiting and threads.has_room else LOOK_SECS
                ended = threads.wait(min(LOOK_SECS, soon))
                if ended is None or (ended.name in (_COMPARISON, _LISTING) and ended.error is None):
                    continue
                latest = self._result_of(ended, threads)
                source = sources[ended.name][1]
                total[ended.name] = add_pass(total.get(ended.name), latest)
                # Random, so that processes with equal intervals do not always ask a storage at the same moment.
                pause = source.poll_interval_secs + jitter() * self.project.jitter_of(source.poll_interval_secs)
                # A source that takes minutes to fail would otherwise be due again at once.
                due[ended.name] = (began[ended.name] if latest.error is None else time.monotonic()) + pause
        self._recorder.flush()
        return _report([total[name] for name in sources if name in total], started, complete=True)

    def _list_tables(self) -> None:
        """Ask which tables the blocks have now; a database that does not answer is asked again later."""
        assert self.list_pipelines is not None
        try:
            self._listed = self.list_pipelines()
        # Of whatever kind: the known tables go on without it.
        except Exception as error:
            told = Mask.around(self.project)(safe_text(error))
            self.emit(events.Notice("", "", f"the tables of blocks could not be listed; the known ones go on ({told})"))

    def _take_tables(
        self,
        sources: dict[Name, tuple[PipelineSpec, SourceSpec]],
        due: dict[Name, float],
        began: dict[Name, float],
        threads: PassThreads[Any],
    ) -> None:
        """Let tables that joined their block take part, and poll those no longer that vanished."""
        listed, self._listed = self._listed, None
        if listed is None:
            return
        there = [each.continuous() for each in listed if not each.vanished]
        known = {pipeline.name for pipeline, _ in sources.values()}
        joined = [each for each in there if each.name not in known]
        gone = known & {each.name for each in listed if each.vanished}
        for name in [name for name in sources if name[0] in gone and not threads.is_busy(name)]:
            del sources[name]
            # One that comes back is bound anew: its settings may be others by then.
            self._sources.pop(name, None)
            self._passes.pop(name, None)
        added = {(pipeline.name, source.name): (pipeline, source) for pipeline, source in _pairs(joined)}
        sources |= added
        due |= dict.fromkeys(added, 0.0)
        began |= dict.fromkeys(added, 0.0)
        usable = tuple(each for each in joined if each.refused is None)
        others = (each for each in self.project.pipelines if each.name not in {one.name for one in joined})
        self.project = replace(self.project, pipelines=(*others, *usable))
        if joined:
            names = ", ".join(each.name for each in joined[:SHOWN_LEFT_OUT])
            more = f" and {len(joined) - SHOWN_LEFT_OUT} more" if len(joined) > SHOWN_LEFT_OUT else ""
            self.emit(events.Notice("", "", f"new in the database, and read from now on: {names}{more}"))
        for pipeline in sorted(gone):
            self.emit(events.Notice(pipeline, "", "no longer in the database; its table and its position are kept"))

    def _give_up_others(self, failed: Name, left: list[Name], threads: PassThreads[SourceReport]) -> None:
        """Begin no other source, and stop those under way, because one failed."""
        if left:
            names = ", ".join("/".join(each) for each in left[:SHOWN_LEFT_OUT])
            more = f" and {len(left) - SHOWN_LEFT_OUT} more" if len(left) > SHOWN_LEFT_OUT else ""
            self.emit(events.Notice(*failed, f"it failed, so these are not read (--fail-fast): {names}{more}"))
        left.clear()
        threads.stop_all()

    def _begin(self, threads: PassThreads[Any], pipeline: PipelineSpec, source: SourceSpec) -> None:
        work = partial(self._pass, pipeline, source)
        threads.begin((pipeline.name, source.name), work, source.max_pass_secs)

    def _result_of(
        self, ended: Ended[SourceReport] | Ended[SourceReport | None], threads: PassThreads[Any]
    ) -> SourceReport:
        """The report of a pass; raises what no pass should raise, once the others have stopped."""
        if ended.error is not None:
            self.stop.set()
            threads.stop_all()
            while not threads.is_empty:
                threads.wait(LOOK_SECS)
            raise ended.error
        if ended.result is not None:
            return ended.result
        source = next(each for each in self.project.pipeline(ended.name[0]).sources if each.name == ended.name[1])
        error = TidegateError(
            f"{'/'.join(ended.name)}: the pass took longer than max_pass_secs ({source.max_pass_secs}), and has not "
            f"stopped {LEFT_BEHIND_SECS:.0f} seconds after it was told to",
            "find out what it waits for; it is not begun again before it has ended, and what it committed stays",
        )
        self.emit(events.SourceFailed(*ended.name, without_name(ended.name, error)))
        seconds = float(source.max_pass_secs or 0) + LEFT_BEHIND_SECS
        return self._tell(ended.name, None, error, seconds, self._now() - timedelta(seconds=seconds))

    def _bind_all(self, pipelines: Sequence[PipelineSpec]) -> tuple[list[TrackedSource], list[TrackedSource]]:
        """New bound sources: those of these pipelines, and all of the configuration."""
        names = {pipeline.name for pipeline in pipelines}
        every = [
            bind(self.project, pipeline, source, self.parallelism, self.emit, self.pace)
            for pipeline in self.project.pipelines
            for source in pipeline.sources
        ]
        return [each for each in every if each.pipeline.name in names], every

    def _pass(self, pipeline: PipelineSpec, source: SourceSpec, stop: PassStop) -> SourceReport:
        """One pass over one source; errors are in the report."""
        started, began = time.monotonic(), self._now()
        name = (pipeline.name, source.name)
        done: Pass | None = None
        error: TidegateError | None = None
        was_stopped = False
        # Taken out first: after a failure the next pass must open the position anew.
        before = self._passes.pop(name, None)
        try:
            if self.names is not None:
                pipeline = self.names.locate(pipeline)
            bound = self._bound(pipeline, source)
            done = Pass(
                bound,
                self.engine.for_pass("/".join(name), stop, self._admission),
                emit=self.emit,
                stop=stop,
                clock=self.clock,
                polls=self._polls.next(bound.table_store, bound.key),
                since=before,
                shared=self._shared,
                accept_new_partitions=self.accept_new_partitions,
            )
            with claim_source(bound.table_store, bound.key, pipeline.conflict, self.emit, stop, self.courtesy) as free:
                if not free:
                    return self._leave_out(name, time.monotonic() - started)
                done.run()
                # Cut short, it has not seen all that there is, and says nothing of how the source is.
                was_stopped = stop.is_set() and not stop.is_overdue
                self._passes[name] = done
                if self.names is not None:
                    self.names.settle(pipeline)
                maintain_if_due(pipeline, source.name, done.position, done.totals.commits, self.emit, stop)
        except RunStopped as stopped:
            was_stopped = not stop.is_overdue
            if was_stopped:
                self.emit(events.Notice(*name, str(stopped)))
        except TidegateError as failure:
            error = self._tell_failure(name, failure)
        if stop.is_overdue and error is None:
            error = self._tell_failure(name, _overdue(name, source))
        report = self._tell(name, done, error, time.monotonic() - started, began, was_stopped=was_stopped)
        if done is not None:
            settle_attempts(bound, done.is_first, done.before, report, self.clock, done.unsaved)
        return report

    def _tell_failure(self, name: Name, failure: TidegateError) -> TidegateError:
        """The failure of a pass without secrets, after telling it."""
        # Errors quote servers and drivers, and these quote what they were sent.
        mask = Mask.around(self.project)
        told = mask(without_name(name, failure))
        self.emit(events.SourceFailed(*name, told))
        # The same failure at every poll would fill the log with traces.
        if told != self._traced.get(name):
            self._traced[name] = told
            trace = mask("".join(traceback.format_exception(failure)))
            self.emit(events.FailureTraced(*name, f"{trace}{self.engine.excerpt_log(failure, mask)}"))
        masked: TidegateError = mask.error(failure)
        return masked

    def _bound(self, pipeline: PipelineSpec, source: SourceSpec) -> TrackedSource:
        name = (pipeline.name, source.name)
        if name not in self._sources:
            with self._lock:
                turn = self._turns.setdefault(comparable_uri(pipeline.sink.table.uri), threading.Lock())
            enter = partial(take_turn, turn, self.stop)
            bound = bind(self.project, pipeline, source, self.parallelism, self.emit, self.pace, enter, self.run_id)
            # Only file sources may be staged: the configuration refuses it for others.
            self._sources[name] = stage(bound) if pipeline.delivery is Delivery.STAGED and is_files(bound) else bound
        return self._sources[name]

    def _tell(
        self,
        name: Name,
        done: Pass | None,
        error: TidegateError | None,
        seconds: float,
        began: datetime,
        *,
        was_stopped: bool = False,
    ) -> SourceReport:
        """The report of a pass, after recording and telling how it ended."""
        summary = None if done is None else done.source.tracker.summary(done.state)
        report = report_not_begun(name, error, seconds)
        if done is not None and summary is not None:
            report = report_pass(report, done, summary)
        if report.unknown_fields:
            schema = self.project.pipeline(name[0]).schema
            self.emit(events.Notice(*name, describe_unknown_fields(report.unknown_fields, schema)))
        if done is not None and done.totals.lacks_native and not self._told_native:
            self._told_native = True
            self.emit(events.Notice(*name, NO_NATIVE if find_native() is None else WITHOUT_NATIVE))
        files = 0 if summary is None else summary.state_files
        conflicts = 0 if done is None else done.totals.conflicts
        history = self._record(
            name, make_past_run(self.run_id, (began, self._now()), report, conflicts, was_stopped=was_stopped)
        )
        # The position of a pass that failed is that of the pass before.
        reached = None if done is None or error is not None else done.position
        finished = make_finished_event(
            report,
            failed=error is not None,
            state_files=files,
            history=history,
            open_letters=None if reached is None else reached.letters,
        )
        self.emit(finished)
        return report

    def _now(self) -> datetime:
        """The time of records: not that of plans, which a person may set back."""
        return utc_now() if self.pace is None else self.pace.now()

    def _record(self, name: Name, ended: PastRun) -> RunHistory:
        """Record how a pass ended; says so once if that is not possible."""
        bound = self._sources.get(name)
        # Without a place for its table there is none for a record of it either.
        if bound is None:
            return RunHistory().add(ended)
        counts = self._metrics.take_counts(name) | {f"runs_total.{ended.outcome.value}": 1}
        history, problem = self._recorder.note(bound.table_store, bound.key, ended, counts)
        if problem is None:
            self.emit(events.RunRecorded(*name, history.totals))
        # After a failure it is most likely the same problem, and that was told.
        if problem is not None and ended.outcome is Outcome.SUCCEEDED and name not in self._untold:
            self._untold.add(name)
            told = f"Tidegate could not record that this run succeeded, so `status` tells of an older one ({problem})"
            self.emit(events.Notice(*name, told))
        return history

    def _leave_out(self, name: Name, seconds: float) -> SourceReport:
        """Report a source that was left to another run, which is no failure, and emit its end."""
        report = replace(report_not_begun(name, None, seconds), state="Skipped", skipped=((ANOTHER_RUN, 1),))
        self.emit(make_finished_event(report, failed=False))
        return report


def new_run_id(now: datetime) -> str:
    """The id of a run: when it began, and something random, so that ids sort by time.

    >>> new_run_id(datetime(2026, 1, 28, 14, 30, 5))[:16]
    '20260128T143005-'
    """
    return f"{now:%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"


def _pairs(pipelines: Sequence[PipelineSpec]) -> list[tuple[PipelineSpec, SourceSpec]]:
    return [(pipeline, source) for pipeline in pipelines for source in pipeline.sources]


def _first_free(left: Sequence[Name], waits: Mapping[Name, frozenset[Name]], ended: Collection[Name]) -> Name | None:
    """The first source that waits for nobody."""
    return next((name for name in left if all(each in ended for each in waits[name])), None)


def _overdue(name: Name, source: SourceSpec) -> TidegateError:
    return TidegateError(
        f"{'/'.join(name)}: the pass took longer than max_pass_secs ({source.max_pass_secs}) and was stopped",
        "what it committed stays, and the next pass continues there; find out what takes long, or raise max_pass_secs",
    )


def _report(reports: Sequence[SourceReport], started: float, *, complete: bool) -> RunReport:
    ok = complete and all(map(is_well, reports))
    return RunReport(tuple(reports), ok, time.monotonic() - started)


@contextlib.contextmanager
def stops_on_signals(stop: threading.Event) -> Iterator[None]:
    """While inside, the first signal sets ``stop``; outside the main thread this does nothing."""

    def handle() -> None:
        # The first signal lets the commit under way finish; a person who insists gets out.
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    with signals_go_to(handle, SIGNALS):
        yield
