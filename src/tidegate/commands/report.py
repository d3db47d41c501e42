"""The report on a project: its status, its last days from the ledger, its dead letters and its next run.

It reads what is recorded and lists what is new; it changes nothing and starts no Spark. What cannot be read of one
source is said there, and hides no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta

from tidegate.commands.files import moment_of, newest_position
from tidegate.commands.project import Config, load, pipelines_of
from tidegate.commands.status import VANISHED, bind_each, plan_of, report_unknown, status_in
from tidegate.core.health import STOPPING, judge_refusal, worst
from tidegate.core.run_history import RunHistory
from tidegate.errors import StateError, TidegateError
from tidegate.protocol.ledger_blocks import LedgerEntry
from tidegate.protocol.run_record import read_history
from tidegate.reports.overview import (
    DayCount,
    NextRun,
    ProjectReport,
    ReasonCount,
    SourceOverview,
    summarize_plan,
)
from tidegate.reports.status import SourceStatus
from tidegate.reports.wording import count
from tidegate.runs.pass_ import without_name
from tidegate.runs.tracker import HasDeadLetters, TrackedSource
from tidegate.specs.masking import Mask
from tidegate.specs.project import PipelineSpec, ProjectSpec

DAYS = 14
MOST_COMMITS = 4096
"""Commits of one source that are counted; a source that commits every few seconds has more in two weeks."""
CLOCKS_APART = 32
"""Commits in a row from before the first day that end the search: clocks of several machines differ."""
MOST_REASONS = 5
AT_ONCE = 8
"""Sources that are looked at side by side: most of the time is spent waiting for storage."""


def report(config: Config, pipeline: str | None = None) -> ProjectReport:
    """What is broken, since when and what repairs it; then every source with its last days and its next run.

    Changes nothing and starts no Spark.
    """
    return report_of(load(config, pipeline=pipeline), pipeline, datetime.now(UTC))


def report_of(project: ProjectSpec, pipeline: str | None, now: datetime) -> ProjectReport:
    """The report on a project as it is ``now``."""
    with ThreadPoolExecutor(AT_ONCE, "report") as pool:
        looks = [pool.submit(overview_of, project, *each, now) for each in _sources(project, pipeline)]
        found = tuple(each.result() for each in looks)
    # Errors of drivers and servers may repeat what they were given, and reports are sent around.
    sources = Mask.around(project).deep(found)
    level = worst(each.health for each in sources).level
    return ProjectReport(project.origin, now, level, sources)


Bound = TrackedSource | TidegateError | None
"""A source as it was bound, why it cannot be, or None if nobody knows where its table lies."""


def _sources(project: ProjectSpec, name: str | None) -> Iterator[tuple[PipelineSpec, str, Bound]]:
    """Every source; with an error in its place if its pipeline cannot be bound."""
    for pipeline in pipelines_of(project, name):
        try:
            yield from list(bind_each(project, pipeline.name))
        except TidegateError as error:
            yield from ((pipeline, source.name, error) for source in pipeline.sources)


def overview_of(
    project: ProjectSpec,
    pipeline: PipelineSpec,
    source: str,
    bound: Bound,
    now: datetime,
) -> SourceOverview:
    """What a report says of one source."""
    if isinstance(bound, TidegateError):
        return SourceOverview(report_unknown(project, pipeline, source, without_name((pipeline.name, source), bound)))
    status = status_in(project, pipeline, source, bound, now)
    if bound is None:
        return SourceOverview(status, next_run=NextRun("cannot be planned", error=status.error))
    next_run, status = _look_ahead(project, bound, status, now)
    days, reached, notes = _look_back(bound, now)
    letters, more = _count_letters(bound, status)
    return SourceOverview(status, days, reached, letters, next_run, (*notes, *more))


def _look_ahead(
    project: ProjectSpec, bound: TrackedSource, status: SourceStatus, now: datetime
) -> tuple[NextRun, SourceStatus]:
    """What the next run would do; a source is failing whose next run would fail."""
    if status.vanished:
        return NextRun(VANISHED), status
    # It would say the same, perhaps after another long wait for an answer.
    if status.error is not None:
        return NextRun("cannot be planned", error=without_name(bound.names, TidegateError(status.error))), status
    try:
        next_run, code = summarize_plan(plan_of(bound, now)), StateError.exit_code
    except TidegateError as error:
        next_run, code = NextRun("would fail", error=without_name(bound.names, error)), error.exit_code
    if next_run.error is None:
        return next_run, status
    refusal = judge_refusal(status.pipeline, project.origin, next_run.error, code)
    return next_run, replace(status, health=worst([status.health, refusal]))


def _look_back(bound: TrackedSource, now: datetime) -> tuple[tuple[DayCount, ...], datetime | None, tuple[str, ...]]:
    """The last days by ledger and recorded runs, how far they reach, and what is not known of them."""
    notes: list[str] = []
    history = RunHistory()
    found: list[LedgerEntry] = []
    complete = True
    try:
        history = read_history(bound.table_store, bound.key)
        # Why the table cannot be opened, if it cannot, is said by the health.
        newest, _ = newest_position(bound)
        for entry in _entries_since(bound.ledger.newest_first(newest), _midnight(_first_day(now))):
            if len(found) == MOST_COMMITS:
                complete = False
                break
            found.append(entry)
    except TidegateError as error:
        complete = False
        notes.append(f"its ledger cannot be read: {without_name(bound.names, error)}")
    if gaps := sum(entry.gap is not None for entry in found):
        notes.append(f"{count(gaps, 'commit')} of the last days cannot be read: `tidegate files` names them")
    oldest = None if complete else min(filter(None, map(moment_of, found)), default=now)
    return count_days(found, history, now, oldest), oldest or _midnight(_first_day(now)), tuple(notes)


def _entries_since(entries: Iterable[LedgerEntry], since: datetime) -> Iterator[LedgerEntry]:
    """The entries from ``since`` on, of those that come newest first; gaps among them too."""
    older = 0
    for entry in entries:
        moment = moment_of(entry)
        if moment is None or moment >= since:
            older = 0
            yield entry
        elif (older := older + 1) >= CLOCKS_APART:
            return


def count_days(
    entries: Iterable[LedgerEntry], history: RunHistory, now: datetime, oldest: datetime | None = None
) -> tuple[DayCount, ...]:
    """The last days, oldest first. Numbers of days before ``oldest`` are not known.

    Runs in a row that failed alike are recorded together: each day from the first to the last of them counts.
    """
    first = _first_day(now)
    counted = {first + timedelta(days=number): [0, 0, 0] for number in range(DAYS)}
    for entry in entries:
        moment = moment_of(entry)
        day = None if moment is None else counted.get(moment.astimezone(UTC).date())
        if day is not None:
            day[0] += entry.rows
            # Once per file: a large one comes in several commits, and only the last has its end.
            day[1] += sum(item.eof for item in entry.coverage)
            day[2] += 1
    failing = {
        day
        for run in history.runs
        if run.outcome in STOPPING
        for day in counted
        if run.began_at.astimezone(UTC).date() <= day <= run.ended_at.astimezone(UTC).date()
    }
    unknown = [] if oldest is None else [day for day in counted if day < oldest.astimezone(UTC).date()]
    return tuple(
        DayCount(day.isoformat(), None, None, None, day in failing)
        if day in unknown
        else DayCount(day.isoformat(), rows, files, commits, day in failing)
        for day, (rows, files, commits) in counted.items()
    )


def _first_day(now: datetime) -> date:
    return now.astimezone(UTC).date() - timedelta(days=DAYS - 1)


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def _count_letters(bound: TrackedSource, status: SourceStatus) -> tuple[tuple[ReasonCount, ...], tuple[str, ...]]:
    """The most frequent reasons of open dead letters, and why they cannot be read."""
    if not status.open_letters or not isinstance(bound.tracker, HasDeadLetters):
        return (), ()
    try:
        found = bound.tracker.letters.count_by_reason(*bound.names, MOST_REASONS)
    except TidegateError as error:
        return (), (f"its dead letters cannot be read: {without_name(bound.names, error)}",)
    return tuple(ReasonCount(*each) for each in found), ()
