"""Plan and status: what a run would read, and where every source stands. Changes nothing, starts no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from shlex import quote

from tidegate.commands.project import Config, load, load_asking, on_engine, pipelines_of, sources_of
from tidegate.core.health import TOLERATED_DEAD_LETTERS, Evidence, Health, HealthLevel, judge
from tidegate.core.run_history import RunHistory
from tidegate.errors import SourceError, StateError, TidegateError
from tidegate.protocol.documents import Mirror
from tidegate.protocol.run_record import read_history
from tidegate.reports.plan import PlanReport, UnreadTable
from tidegate.reports.status import SourceStatus, shown_state
from tidegate.reports.wording import count
from tidegate.runs.presence import attempts_note, who_is_at_work
from tidegate.runs.tracker import Backlog, Summary, TrackedSource
from tidegate.specs.masking import Mask
from tidegate.specs.notify import count_tolerated
from tidegate.specs.project import Delivery, OnConflict, PipelineSpec, ProjectSpec

VANISHED = "it is no longer in the database; its table and its position are kept, and runs leave it alone"


def plan(
    config: Config,
    pipeline: str | None = None,
    *,
    now: datetime | None = None,
    accept_new_partitions: bool = False,
    engine: str | None = None,
) -> tuple[PlanReport, ...]:
    """What a run would read at ``now``, per source, and why it would skip the rest. Changes nothing.

    ``accept_new_partitions`` plans work units although their partitions differ from those already read. ``engine``
    replaces the configuration's.
    """
    moment = now or datetime.now(UTC)
    project = on_engine(load_asking(config, pipeline=pipeline, remember=False), engine)
    plans: list[PlanReport] = []
    for each in pipelines_of(project, pipeline):
        more = {"engine": project.engine.value} | ({"table": each.sink.name} if each.sink.name is not None else {})
        if each.refused is not None or each.vanished:
            plans += (_leave_unread(each, source.name).replace_fields(**more) for source in each.sources)
        else:
            more |= {"block": each.block} if each.block is not None else {}
            plans += (
                plan_of(source, moment, accept_new_partitions=accept_new_partitions).replace_fields(**more)
                for source in sources_of(project, each.name)
            )
    return Mask.around(project).deep(tuple(plans)) if project.blocks else tuple(plans)


def _leave_unread(pipeline: PipelineSpec, source: str) -> UnreadTable:
    unread = UnreadTable(pipeline.name, source, pipeline.sink.table.uri, VANISHED, pipeline.block, exit_code=0)
    if pipeline.refused is None:
        return unread
    error = SourceError(pipeline.refused.problem, pipeline.refused.remedy)
    return replace(unread, reason=str(error), exit_code=error.exit_code)


def status(config: Config, pipeline: str | None = None) -> tuple[SourceStatus, ...]:
    """State, watermark, lag and backlog of every source; from mirror or documents, without Spark."""
    now = datetime.now(UTC)
    project = load(config, pipeline=pipeline)
    found = tuple(status_in(project, *each, now) for each in bind_each(project, pipeline))
    # Errors of drivers and servers may repeat what they were given, and `serve` shows them to anybody.
    return Mask.around(project).deep(found)


def bind_each(project: ProjectSpec, name: str | None) -> Iterator[tuple[PipelineSpec, str, TrackedSource | None]]:
    """Every source of one pipeline, or of all; unbound if its table is refused, or nobody knows where it lies."""
    for pipeline in pipelines_of(project, name):
        located = pipeline.is_located and pipeline.refused is None
        bound = {each.source.name: each for each in sources_of(project, pipeline.name)} if located else {}
        yield from ((pipeline, source.name, bound.get(source.name)) for source in pipeline.sources)


def status_in(
    project: ProjectSpec, pipeline: PipelineSpec, source: str, bound: TrackedSource | None, now: datetime
) -> SourceStatus:
    """The status of a source of the project, also of one that is not bound."""
    if bound is None:
        return report_unknown(project, pipeline, source)
    return _of_block(
        pipeline, status_of(bound, now, project.origin, count_tolerated(project.notify, TOLERATED_DEAD_LETTERS))
    )


def _of_block(pipeline: PipelineSpec, status: SourceStatus) -> SourceStatus:
    if pipeline.block is None:
        return status
    notes = (*status.notes, *((VANISHED,) if pipeline.vanished else ()))
    return replace(status, block=pipeline.block, vanished=pipeline.vanished, notes=notes)


def report_unknown(project: ProjectSpec, pipeline: PipelineSpec, source: str, told: str = "") -> SourceStatus:
    """A source of which nothing can be told: its table is refused, or Spark's catalog has to say where it lies.

    ``told`` is another reason.
    """
    if pipeline.refused is not None:
        told = str(SourceError(pipeline.refused.problem, pipeline.refused.remedy))
    told = told or f"it is not known yet where {pipeline.sink.shown} lies - run the pipeline once, or give its location"
    blank = SourceStatus(
        pipeline.name, source, pipeline.sink.table.uri, "Unknown", None, 0, None, None, None, 0, 0, False, 0
    )
    command = f"tidegate run {quote(project.origin)} -p {quote(pipeline.name)}"
    health = Health(HealthLevel.UNKNOWN if pipeline.refused is None else HealthLevel.FAILING, told, command=command)
    found = replace(blank, error=told, table=pipeline.sink.name, backlog_known=False, health=health)
    return _of_block(pipeline, found)


def plan_of(source: TrackedSource, now: datetime, *, accept_new_partitions: bool = False) -> PlanReport:
    """What a run would read, and why it would skip the rest; with failures from before the first position."""
    plan: PlanReport = source.tracker.plan(source, now, accept_new_partitions=accept_new_partitions)
    return plan if plan.position else plan.replace_fields(notes=(*plan.notes, *attempts_note(source)))


def status_of(
    source: TrackedSource, now: datetime, config: str = "CONFIG", tolerated: int = TOLERATED_DEAD_LETTERS
) -> SourceStatus:
    """State of a source by its mirror or documents, its backlog, how its last runs ended, and who is at work on it.

    Commands that repair it name the file ``config``. More open dead letters than ``tolerated`` make it degraded.
    """
    recorded: Mirror | None = None
    committed: datetime | None = None
    history = RunHistory()
    summary: Summary = source.tracker.summary(source.tracker.decode(None))
    try:
        history = read_history(source.table_store, source.key)
        recorded = source.read_recorded()
        _check_recorded(source, recorded, history)
        committed = source.last_commit_at(recorded)
        state = source.decode_recorded(recorded)
        summary = source.tracker.summary(state)
        backlog = source.tracker.backlog(source, state, 0 if recorded is None else recorded.version, now)
    # One source that cannot be read must not hide the others; what is known of it is shown all the same.
    except TidegateError as error:
        known = _status(source, recorded, committed, summary, Backlog(), now)
        known = replace(known, state="Unknown", lag_seconds=None, error=str(error))
        return _with_health(known, history, config, source, now, tolerated)
    known = _status(source, recorded, committed, summary, backlog, now)
    notes = () if known.version else attempts_note(source)
    if source.pipeline.conflict is not OnConflict.RACE:
        notes = (*notes, *who_is_at_work(source.table_store, source.key, now))
    return _with_health(replace(known, notes=(*known.notes, *notes)), history, config, source, now, tolerated)


def _check_recorded(source: TrackedSource, recorded: Mirror | None, history: RunHistory) -> None:
    """Refuse to call a source new of which runs have committed: then its state is there and cannot be read."""
    commits = history.totals.get("commits", 0)
    if recorded is None and commits and source.pipeline.delivery is Delivery.DIRECT:
        raise StateError(
            f"{source.key}: runs have committed {count(int(commits), 'time')}, and no recorded state can be read",
            "the position is also in the log of the table: `tidegate plan` finds it there, and so does the next run",
        )


def _with_health(
    status: SourceStatus, history: RunHistory, config: str, source: TrackedSource, now: datetime, tolerated: int
) -> SourceStatus:
    """The status with how the last runs ended, and the health that follows from all of it."""
    last = history.last
    last_data_at = history.last_data_at or status.last_commit_at
    expect_every = source.source.expect_every
    known = Evidence(
        status.pipeline,
        config,
        problem=status.error,
        outcome=None if last is None else last.outcome,
        outcome_since=history.last_since,
        error=None if last is None else last.error,
        exit_code=0 if last is None else last.exit_code,
        position=status.version,
        failed_files=len(status.failed),
        failed_units=0 if status.work_units is None else status.work_units.failed,
        open_letters=status.open_letters,
        tolerated_letters=tolerated,
        empty=status.empty,
        sealed_ahead=bool(status.future_seals),
        expect_every=expect_every,
        last_data_at=last_data_at,
        first_seen_at=history.first_at,
    )
    return replace(
        status,
        health=judge(known, now),
        last_run=last,
        last_success_at=history.last_success_at,
        last_data_at=last_data_at,
        expect_every_seconds=None if expect_every is None else expect_every.total_seconds(),
        totals=history.totals,
        first_run_at=history.first_at,
    )


def _status(
    source: TrackedSource,
    recorded: Mirror | None,
    committed: datetime | None,
    summary: Summary,
    backlog: Backlog,
    now: datetime,
) -> SourceStatus:
    active = summary.state or ("Idle" if backlog.behind is False else "Active")
    return SourceStatus(
        *source.names,
        table_uri=source.table_uri,
        state="Initial" if recorded is None else shown_state(active, backlog.empty),
        watermark=summary.watermark,
        version=0 if recorded is None else recorded.version,
        table_version=None if recorded is None or recorded.table_version < 0 else recorded.table_version,
        updated=summary.updated,
        lag_seconds=_lag(recorded, committed or summary.updated, backlog, now),
        backlog_files=backlog.files,
        backlog_bytes=backlog.bytes,
        backlog_complete=backlog.complete,
        in_progress=summary.in_progress,
        failed=summary.failed,
        open_partitions=summary.open_partitions,
        sealed=summary.sealed_directories if backlog.sealed is None else backlog.sealed,
        shown_from="none" if recorded is None else "mirror" if recorded.shown_by == "mirror" else "document",
        open_letters=0 if recorded is None else recorded.letters,
        notes=(*backlog.notes, *backlog.remarks),
        tracking=summary.tracking,
        remembered=summary.remembered,
        pending_units=backlog.pending_units,
        pending_files=backlog.pending_files,
        pending_seconds=backlog.pending_seconds,
        state_files=summary.state_files,
        work_units=backlog.work_units,
        empty=backlog.empty,
        last_commit_at=committed,
        table=source.pipeline.sink.name,
        future_seals=backlog.future_seals,
        left_out=backlog.left_out,
        remembers=backlog.remembers or summary.remembers,
        watermark_label=summary.watermark_label,
        backlog_known=backlog.known,
    )


def _lag(recorded: Mirror | None, last: datetime | None, backlog: Backlog, now: datetime) -> float | None:
    """Seconds since the ``last`` commit; None if the source has nothing new, or nobody knows."""
    # Files may be skipped there, and 0 would say that nothing waits.
    if backlog.future_seals:
        return None
    if backlog.behind is False:
        return None if recorded is None else 0.0
    return None if last is None else (now - last).total_seconds()
