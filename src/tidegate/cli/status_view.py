"""How the status of sources is shown: state, lag and backlog in a table, watermarks and troubles below it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from tidegate.cli.pages import Block, Cell, Column, Facts, Gap, Line, Page, Style, Table, cell
from tidegate.observe.wording import count, duration, size
from tidegate.reports.run import FailedFile, SourceStatus, WorkProgress

FAILED_SHOWN = 5

_STATE_STYLES = {
    "Active": Style.GOOD,
    "Idle": Style.NORMAL,
    "Initial": Style.DIM,
    "Unknown": Style.WARN,
}

_COLUMNS = (
    Column("source"),
    Column("state"),
    Column("lag", right=True),
    Column("backlog", right=True),
    Column("failed", right=True),
)


def state_cell(state: str) -> Cell:
    """A state in its colour."""
    return Cell(state, _STATE_STYLES.get(state, Style.NORMAL))


def render_status(statuses: Sequence[SourceStatus], config: str = "CONFIG") -> Page:
    """All sources; hints name the commands for this configuration."""
    if not statuses:
        return (Line(Cell("nothing to show: no source was selected")),)
    return tuple(_blocks(statuses, config))


def _blocks(statuses: Sequence[SourceStatus], config: str) -> Iterator[Block]:
    yield Table(_COLUMNS, tuple(map(_row, statuses)))
    yield Gap()
    for number, status in enumerate(statuses):
        if number:
            yield Gap()
        yield Facts(tuple(_details(status, config)))
        yield from failed_lines(_name(status), status.failed)
        yield from (Line(Cell(f"{_name(status)}: {note}"), "note") for note in status.notes)
        if status.error:
            yield Line(Cell(f"{_name(status)}: {status.error}", Style.BAD), "error")


def _name(status: SourceStatus) -> str:
    return f"{status.pipeline}/{status.source}"


def _row(status: SourceStatus) -> tuple[Cell, ...]:
    lag = None if status.lag_seconds is None else duration(status.lag_seconds)
    number = len(status.failed) + (status.work_units.failed if status.work_units else 0)
    failed = Cell(f"{number:,}", Style.BAD) if number else Cell("0", Style.DIM)
    return (
        Cell(_name(status), Style.STRONG),
        state_cell(status.state),
        cell(lag),
        _backlog(status),
        failed,
    )


def _backlog(status: SourceStatus) -> Cell:
    if status.error or status.tracking == "columns":
        return Cell("?", Style.WARN if status.error else Style.DIM)
    if status.work_units is not None:
        waiting = status.work_units.open
        return Cell(count(waiting, "work unit"), Style.WARN) if waiting else Cell("0", Style.DIM)
    if status.backlog_complete and not status.backlog_files:
        return Cell("0", Style.DIM)
    least = "" if status.backlog_complete else "≥ "
    return Cell(f"{least}{count(status.backlog_files, 'file')}, {size(status.backlog_bytes)}", Style.WARN)


def _details(status: SourceStatus, config: str) -> Iterator[tuple[str, Cell]]:
    yield _name(status), Cell(status.table_uri, Style.DIM)
    yield "last read" if status.tracking == "set" else "watermark", cell(status.watermark)
    yield "position", Cell(_position(status))
    if status.tracking == "columns":
        partitions = "by the greatest value of columns"
    elif status.tracking == "units":
        partitions = "by time ranges and units"
    elif status.tracking == "set":
        partitions = f"{count(status.remembered, 'path')} remembered, every poll lists the whole source"
    else:
        partitions = f"{count(status.open_partitions, 'open partition')}, {status.sealed:,} sealed"
    waiting = f", {count(status.in_progress, 'file')} in progress" if status.in_progress else ""
    yield "tracking", Cell(f"{partitions}{waiting}")
    if status.work_units is not None:
        yield "work units", Cell(_work_units(status.work_units))
        if status.work_units.failed:
            hint = f"tidegate units list {config} -p {status.pipeline} --failed"
            yield "failed", Cell(f"{count(status.work_units.failed, 'work unit')} ({hint})", Style.BAD)
    if status.pending_units:
        waits = "" if status.pending_seconds is None else f", the oldest for {duration(status.pending_seconds)}"
        files = count(status.pending_files, "Parquet file")
        text = f"{count(status.pending_units, 'unit')} with {files} wait for `tidegate commit`{waits}"
        yield "staged", Cell(text, Style.WARN)
    if status.open_letters:
        hint = f"tidegate dlq list {config} -p {status.pipeline}"
        yield "dead letters", Cell(f"{status.open_letters:,} open ({hint})", Style.WARN)
    yield "read from", Cell("no state yet" if status.shown_from == "none" else f"the {status.shown_from}")


def _work_units(work: WorkProgress) -> str:
    parts = [f"{work.done:,} done", f"{work.open:,} open"]
    parts += [
        f"{number:,} {name}"
        for number, name in ((work.retired, "retired"), (work.unfinished, "not caught up"))
        if number
    ]
    next_ = f"; next from {work.next_eligible} on" if work.next_eligible else ""
    return ", ".join(parts) + next_


def _position(status: SourceStatus) -> str:
    if not status.version:
        return "none yet"
    table = "" if status.table_version is None else f", table version {status.table_version}"
    updated = f", {moment(status.updated)}" if status.updated else ""
    return f"version {status.version}{table}{updated}"


def moment(time: datetime) -> str:
    """A time in UTC, to the second."""
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def failed_lines(name: str, failed: Sequence[FailedFile]) -> Iterator[Line]:
    """One line per failed file, the first few of them."""
    for file in failed[:FAILED_SHOWN]:
        tries = count(file.attempts, "attempt")
        yield Line(Cell(f"{name}: {file.path}: {file.reason} ({tries})", Style.BAD), "failed")
    if len(failed) > FAILED_SHOWN:
        more = count(len(failed) - FAILED_SHOWN, "more failed file")
        yield Line(Cell(f"{name}: … and {more}; --json lists all", Style.BAD), "failed")
