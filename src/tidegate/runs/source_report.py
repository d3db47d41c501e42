"""The report of a pass over one source, and its bad records and given-up files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidegate.errors import TidegateError
from tidegate.observe.events import Emit, SourceFinished
from tidegate.reports.run import SourceReport
from tidegate.runs.pass_ import Pass
from tidegate.runs.tracker import Summary

SHOWN_UNKNOWN_FIELDS = 10

SKIPPED = "Skipped"
"""The state of a source that was left to another run."""

ANOTHER_RUN = "another_run"
"""The reason why it was left out."""


def told_once(name: tuple[str, str], error: TidegateError) -> str:
    """The error without the name of the source in front: that is told beside it."""
    return str(error).removeprefix(f"{'/'.join(name)}: ")


def not_begun(name: tuple[str, str], error: TidegateError | None, seconds: float) -> SourceReport:
    """The report of a source that could not even be opened."""
    told = None if error is None else told_once(name, error)
    code = 0 if error is None else error.exit_code
    return SourceReport(*name, "Unknown", None, 0, 0, 0, 0, error=told, seconds=seconds, exit_code=code)


def left_out(name: tuple[str, str], seconds: float, emit: Emit) -> SourceReport:
    """The report of a source that was left to another run, which is no failure; its end is told."""
    report = replace(not_begun(name, None, seconds), state=SKIPPED, skipped=((ANOTHER_RUN, 1),))
    emit(finished(report, failed=False))
    return report


def source_report(done: Pass, summary: Summary, error: TidegateError | None, seconds: float) -> SourceReport:
    """The report of a pass, whatever it walked over; ``summary`` is that of the state it reached."""
    totals = done.totals
    return replace(
        not_begun(done.names, error, seconds),
        state=summary.state
        or ("Active" if totals.commits else "Initial" if done.is_first or done.state is None else "Idle"),
        watermark=summary.watermark,
        files=totals.files,
        bytes=totals.bytes,
        rows=totals.rows,
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
    )


def _work_state(done: Pass) -> str:
    """What the work of a pass says about its source, where the state itself does not."""
    if done.totals.commits:
        return "Active"
    return "Initial" if done.is_first or done.state is None else "Idle"


def finished(report: SourceReport, *, failed: bool, state_files: int = 0) -> SourceFinished:
    """The event that ends a pass, from its report."""
    return SourceFinished(
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
    )


def unknown_words(counts: Mapping[str, int], rescued: str | None = None) -> str:
    """Fields of the source that no column takes, most frequent first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{name} ({count:,})" for name, count in ordered[:SHOWN_UNKNOWN_FIELDS])
    more = f" and {len(ordered) - SHOWN_UNKNOWN_FIELDS} more" if len(ordered) > SHOWN_UNKNOWN_FIELDS else ""
    if rescued is not None:
        return f"fields and values that fit no column were kept in {rescued!r}: {shown}{more}"
    return f"fields that the schema does not declare were left out: {shown}{more}"
