"""What is told of a pass that is over: its report, the entry in the history of its source, and its last event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from tidegate.core.health import Outcome
from tidegate.core.run_history import PastRun, RunHistory
from tidegate.errors import TidegateError
from tidegate.observe import events
from tidegate.reports.run import SourceReport, add_up_changes
from tidegate.reports.status import shown_state
from tidegate.runs.pass_ import Pass, without_name
from tidegate.runs.schedule import Name
from tidegate.runs.tracker import Summary
from tidegate.specs.table import Evolution, SchemaSpec

SHOWN_UNKNOWN_FIELDS = 10
SUMMED = ("files", "bytes", "rows", "commits", "staged", "bad_records", "dead_files", "work_units", "seconds")
REFUSALS = (2, 5)
"""Exit codes of errors with which a source refuses to run: its configuration, its position, its table."""


def report_not_begun(name: Name, error: TidegateError | None, seconds: float) -> SourceReport:
    """The report of a source that could not even be opened."""
    told = None if error is None else without_name(name, error)
    code = 0 if error is None else error.exit_code
    return SourceReport(*name, "Unknown", None, 0, 0, 0, 0, error=told, seconds=seconds, exit_code=code)


def report_pass(blank: SourceReport, done: Pass, summary: Summary) -> SourceReport:
    """The report of a pass over any kind of source; ``summary`` is that of the state it reached."""
    totals = done.totals
    idle = "Initial" if done.is_first or done.state is None else "Idle"
    # Nobody knows where a source stands whose position could not be opened; "Initial" would say that it is new.
    if blank.error is not None and not done.is_opened:
        return blank
    return replace(
        blank,
        state=shown_state(summary.state or ("Active" if totals.commits else idle), totals.empty),
        watermark=summary.watermark,
        files=totals.files,
        bytes=totals.bytes,
        rows=totals.rows,
        **asdict(totals.changes),
        commits=totals.commits,
        staged=totals.staged,
        failed=summary.failed,
        skipped=tuple(totals.skipped.items()),
        table_version=totals.table_version,
        bad_records=totals.bad_records,
        dead_files=totals.dead_files,
        unknown_fields=dict(totals.unknown_fields.most_common()),
        work_units=totals.work_units,
        failed_units=tuple(totals.failed_units),
        empty=totals.empty,
    )


def add_pass(before: SourceReport | None, latest: SourceReport) -> SourceReport:
    """The latest pass, with the work of all passes so far."""
    if before is None:
        return latest
    sums: dict[str, Any] = {name: getattr(before, name) + getattr(latest, name) for name in SUMMED}
    sums |= add_up_changes((before, latest))
    return replace(latest, **sums, unknown_fields=dict(Counter(before.unknown_fields) + Counter(latest.unknown_fields)))


def describe_unknown_fields(counts: Mapping[str, int], schema: SchemaSpec) -> str:
    """Fields of the source without a column, most frequent first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{name} ({count:,})" for name, count in ordered[:SHOWN_UNKNOWN_FIELDS])
    more = f" and {len(ordered) - SHOWN_UNKNOWN_FIELDS} more" if len(ordered) > SHOWN_UNKNOWN_FIELDS else ""
    if schema.rescued is not None:
        return f"fields and values that fit no column were kept in {schema.rescued!r}: {shown}{more}"
    told = f"fields that the schema does not declare were left out: {shown}{more}"
    if schema.infer and schema.evolution is Evolution.STRICT:
        return f"{told}; schema_evolution: strict adds no new columns, merge does"
    return f"{told}; no sampled record showed their type" if schema.infer else told


def is_well(report: SourceReport) -> bool:
    """Whether a source was read without any failure."""
    return report.error is None and not (report.failed or report.failed_units or report.dead_files)


def make_past_run(
    run_id: str, times: tuple[datetime, datetime], report: SourceReport, conflicts: int, *, was_stopped: bool
) -> PastRun:
    """What is recorded of a pass."""
    failed = len(report.failed) + len(report.failed_units)
    outcome = Outcome.INCOMPLETE if failed or report.dead_files else Outcome.SUCCEEDED
    if report.error is not None:
        outcome = Outcome.REFUSED if report.exit_code in REFUSALS else Outcome.FAILED
    elif was_stopped:
        outcome = Outcome.STOPPED
    return PastRun(
        run_id,
        *times,
        outcome,
        report.error,
        report.exit_code,
        seconds=report.seconds,
        files=report.files,
        bytes=report.bytes,
        rows=report.rows,
        commits=report.commits + report.staged,
        dead_letters=report.bad_records + report.dead_files,
        failed=failed,
        conflicts=conflicts,
    )


def make_finished_event(
    report: SourceReport,
    *,
    failed: bool,
    state_files: int = 0,
    history: RunHistory | None = None,
    open_letters: int | None = None,
) -> events.SourceFinished:
    """The event that ends a pass, from its report."""
    return events.SourceFinished(
        report.pipeline,
        report.source,
        state=report.state,
        watermark=report.watermark,
        source_files=report.files,
        rows=report.rows,
        failed_files=len(report.failed),
        commits=report.commits,
        seconds=report.seconds,
        state_files=state_files,
        failed=failed,
        staged=report.staged,
        failed_units=len(report.failed_units),
        empty=report.empty,
        open_letters=open_letters,
        outcome="" if history is None else history.runs[-1].outcome.value,
        last_success_at=None if history is None else history.last_success_at,
        last_data_at=None if history is None else history.last_data_at,
        outcome_since=None if history is None else history.last_since,
        first_run_at=None if history is None else history.first_at,
        exit_code=report.exit_code,
    )
