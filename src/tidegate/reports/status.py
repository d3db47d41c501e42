"""The status of sources: state, lag, backlog, and what failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from tidegate.core.health import Health, HealthLevel, Outcome, worst
from tidegate.reports.page import (
    Block,
    Cell,
    Columns,
    Fact,
    Gap,
    Line,
    OfSource,
    Style,
    cell,
    facts,
    fold_blocks,
    line,
    moment,
    more,
    position,
    source_name,
    table,
)
from tidegate.reports.report import Report, View, hide_from_json
from tidegate.reports.wording import count, duration, size

if TYPE_CHECKING:
    from tidegate.core.files.discovery import FutureSeal, LeftOut
    from tidegate.core.run_history import PastRun

FAILED_SHOWN = 5
HEALTH_STYLES = {
    HealthLevel.HEALTHY: Style.GOOD,
    HealthLevel.WAITING: Style.DIM,
    HealthLevel.DEGRADED: Style.WARN,
    HealthLevel.UNKNOWN: Style.WARN,
    HealthLevel.FAILING: Style.BAD,
}
_NOT_JUDGED = Health(HealthLevel.UNKNOWN)
_STATE_STYLES = {"Active": Style.GOOD, "Initial": Style.DIM, "Empty": Style.WARN, "Unknown": Style.WARN}


@dataclass(frozen=True, slots=True)
class FailedFile(Report):
    """A file that could not be read; the watermark of its partition waits below it."""

    path: str
    reason: str
    attempts: int


@dataclass(frozen=True, slots=True)
class FailedUnit(Report):
    """A work unit that failed: its unit, the start of its partition, the reason, and the failures in a row."""

    unit: str
    start: str
    reason: str
    failures: int


@dataclass(frozen=True, slots=True)
class WorkProgress(Report):
    """The work units of a source: ``done``, ``open`` (they run or wait), ``failed`` at the last try.

    ``retired`` units are no longer asked for, ``unfinished`` ones are not caught up. If none runs now,
    ``next_eligible`` is when one may run again.
    """

    done: int = 0
    open: int = 0
    failed: int = 0
    retired: int = 0
    unfinished: int = 0
    next_eligible: str | None = None

    def __str__(self) -> str:
        rest = ((self.retired, "retired"), (self.unfinished, "not caught up"))
        numbers = [(self.done, "done"), (self.open, "open"), *(pair for pair in rest if pair[0])]
        parts = ", ".join(f"{number:,} {name}" for number, name in numbers)
        return parts + (f"; next from {self.next_eligible} on" if self.next_eligible else "")


@dataclass(frozen=True, slots=True)
class SourceStatus(Report):
    """The status of one source: its position, its lag and backlog, and where that was read from.

    ``version`` is the position (the number of commits of this source). ``backlog_complete`` is false if the listing was
    cut off, so that the backlog is a lower bound. ``open_letters`` are unanswered dead letters. ``remembered`` is the
    number of paths in a path set. ``pending_units`` with ``pending_files`` Parquet files wait for ``tidegate commit``,
    the oldest for ``pending_seconds``; they are not part of the backlog. ``state_files`` is the number of files that
    the state names. ``work_units`` is the progress of work units. ``empty``: the location has no file at all, read or
    not. ``updated`` is when the newest state was planned, ``last_commit_at`` when it was committed; ``lag_seconds``
    counts from there. ``future_seals`` are seals that a clock set that was ahead once: backlog and lag are then
    unknown. ``left_out`` is what ``partition_filter`` leaves out of a first run that is still to come. For people
    alone, the tracker says what it ``remembers`` and what to call its watermark, and whether the backlog is known.
    ``table`` is the name of the table in Spark's catalog, if it has one. ``block`` is the block of tables that the
    pipeline came from; ``vanished``: the database no longer has the table. For people alone, ``folded`` says how many
    tables of a block are added up. ``health`` is the one that every command and page shows. ``last_run`` is how the
    last runs ended, also those that refused or found nothing; ``last_success_at`` is when one last succeeded,
    ``last_data_at`` when one last brought new data, which must not be longer ago than ``expect_every_seconds``.
    ``first_run_at`` is when the first recorded run ended. For metrics alone, ``totals`` add up all recorded runs.
    """

    pipeline: str
    source: str
    table_uri: str
    state: str
    watermark: str | None
    version: int
    table_version: int | None
    updated: datetime | None
    lag_seconds: float | None
    backlog_files: int
    backlog_bytes: int
    backlog_complete: bool
    in_progress: int
    failed: tuple[FailedFile, ...] = ()
    open_partitions: int = 0
    sealed: int = 0
    shown_from: Literal["mirror", "document", "none"] = "none"
    open_letters: int = 0
    notes: tuple[str, ...] = ()
    error: str | None = None
    tracking: str = "watermark"
    remembered: int = 0
    pending_units: int = 0
    pending_files: int = 0
    pending_seconds: float | None = None
    state_files: int = 0
    work_units: WorkProgress | None = None
    empty: bool = False
    last_commit_at: datetime | None = None
    future_seals: tuple[FutureSeal, ...] = ()
    left_out: LeftOut | None = None
    remembers: str = hide_from_json("")
    watermark_label: str = hide_from_json("watermark")
    backlog_known: bool = hide_from_json(True)
    table: str | None = None
    block: str | None = None
    vanished: bool = False
    folded: str = hide_from_json("")
    health: Health = _NOT_JUDGED
    last_run: PastRun | None = None
    last_success_at: datetime | None = None
    last_data_at: datetime | None = None
    expect_every_seconds: float | None = None
    totals: Mapping[str, float] = field(default_factory=dict, hash=False, metadata={"json": False})
    first_run_at: datetime | None = None

    def describe(self, view: View) -> Iterator[Block]:
        """Yield the table with this source alone."""
        return Statuses((self,)).describe(view)


def shown_state(recorded: str, empty: bool) -> str:
    """The state of a source as people see it: an emptied location is neither active nor idle.

    >>> shown_state("Idle", empty=True), shown_state("Initial", empty=True)
    ('Empty', 'Initial')
    """
    # An empty location may be a wrong path or a missing mount, which "Idle" would hide.
    return "Empty" if empty and recorded in ("Active", "Idle") else recorded


@dataclass(frozen=True, slots=True)
class Statuses(Report):
    """The status of several sources: a table, then the details of each."""

    sources: tuple[SourceStatus, ...]

    def code(self, *, stopped: bool = False) -> int:
        """Return 1 if the state of a source could not be read."""
        return int(any(status.error for status in self.sources))

    def describe(self, view: View) -> Iterator[Block]:
        """Yield a row per source, then its facts, failures and notes."""
        if not self.sources:
            yield line("nothing to show: no source was selected")
            return
        shown = self.sources if view.verbose else fold_blocks(self.sources, _fails, add_up_tables)
        yield table(COLUMNS, shown)
        for status in shown:
            name = source_name(status)
            yield Gap()
            yield facts(*_details(status, view))
            yield from describe_failed_files(name, status.failed)
            yield from (line(f"{name}: {note}", label="note") for note in status.notes)
            if status.error:
                yield line(f"{name}: {status.error}", Style.BAD, "error")


def name_cell(report: OfSource) -> Cell:
    """Format the name of a report's source for the first column of a table."""
    return Cell(source_name(report), Style.STRONG)


def state_cell(state: str) -> Cell:
    """Give a state its colour."""
    return Cell(state, _STATE_STYLES.get(state, Style.NORMAL))


def health_cell(health: Health) -> Cell:
    """Show a health by its sign, its word and its colour."""
    return Cell(f"{health.level.sign} {health.level.value}", HEALTH_STYLES[health.level])


def failures_cell(failures: int) -> Cell:
    """Format a number of failures: 0 is dim, any other stands out."""
    return cell(failures, Style.BAD if failures else Style.DIM)


def describe_failed_files(name: str, failed: Sequence[FailedFile]) -> Iterator[Line]:
    """Yield one line per failed file, for the first few."""
    for file in failed[:FAILED_SHOWN]:
        yield line(f"{name}: {file.path}: {file.reason} ({count(file.attempts, 'attempt')})", Style.BAD, "failed")
    if left := more(len(failed) - FAILED_SHOWN, "failed file"):
        yield line(f"{name}: {left}", Style.BAD, "failed")


def _fails(status: SourceStatus) -> bool:
    return not status.health.level.is_fine


def add_up_tables(block: str, tables: Sequence[SourceStatus], told: str) -> SourceStatus:
    """The tables of a block in one row: the greatest lag, and the last commit of all."""
    lags = [each.lag_seconds for each in tables if each.lag_seconds is not None]
    commits = [when for each in tables if (when := each.last_commit_at or each.updated) is not None]
    begun = count(sum(bool(each.version) for each in tables), "table")
    gone = [f"{each.pipeline} is no longer in the database" for each in tables if each.vanished]
    return SourceStatus(
        block,
        "",
        f"{begun} with rows",
        "Active" if any(each.state == "Active" for each in tables) else tables[0].state,
        None,
        version=sum(each.version for each in tables),
        table_version=None,
        updated=None,
        lag_seconds=max(lags, default=None),
        backlog_files=sum(each.backlog_files for each in tables),
        backlog_bytes=sum(each.backlog_bytes for each in tables),
        backlog_complete=all(each.backlog_complete for each in tables),
        in_progress=0,
        notes=tuple(gone),
        tracking=tables[0].tracking,
        last_commit_at=max(commits, default=None),
        backlog_known=all(each.backlog_known for each in tables),
        block=block,
        folded=told,
        health=replace(worst(each.health for each in tables), reason="", since=None, command=""),
        last_success_at=min((each.last_success_at for each in tables if each.last_success_at), default=None),
        last_data_at=max((each.last_data_at for each in tables if each.last_data_at), default=None),
    )


def lag_cell(status: SourceStatus) -> Cell | str | None:
    """How long it has been behind; None if nobody knows."""
    if status.future_seals:
        return Cell("?", Style.WARN)
    return None if status.lag_seconds is None else duration(status.lag_seconds)


def backlog_cell(status: SourceStatus) -> Cell:
    """What the next run would read, as far as it is known."""
    unknown = status.future_seals and not status.backlog_files
    if status.error or unknown or not status.backlog_known:
        return Cell("?", Style.WARN if status.error or unknown else Style.DIM)
    if status.work_units is not None:
        waiting = status.work_units.open
        return Cell(count(waiting, "work unit"), Style.WARN) if waiting else Cell("0", Style.DIM)
    if status.backlog_complete and not status.backlog_files:
        return Cell("0", Style.DIM)
    least = "" if status.backlog_complete else "≥ "
    return Cell(f"{least}{count(status.backlog_files, 'file')}, {size(status.backlog_bytes)}", Style.WARN)


def _failures(status: SourceStatus) -> Cell:
    return failures_cell(len(status.failed) + (status.work_units.failed if status.work_units else 0))


COLUMNS: Columns[SourceStatus] = {
    "~source": name_cell,
    "health": lambda status: health_cell(status.health),
    "?state": lambda status: state_cell(status.state),
    ">lag": lag_cell,
    ">backlog": backlog_cell,
    ">failed": _failures,
}
"""The table of ``tidegate status``; a line here is a column there."""


def _details(status: SourceStatus, view: View) -> Iterator[Fact]:
    yield source_name(status), Cell(status.table or status.table_uri, Style.DIM)
    if not status.folded:
        yield status.watermark_label, status.watermark
    health = status.health
    # The error stands below in full.
    if health.reason and (health.since or not status.error):
        since = f" since {moment(health.since)}" if health.since else ""
        why = "" if status.error else f": {health.reason}"
        yield "health", Cell(f"{health.level.value}{since}{why}", HEALTH_STYLES[health.level])
    if status.health.command and not status.health.level.is_fine:
        yield "next step", Cell(status.health.command, Style.CODE)
    yield "last commit", _last_commit(status)
    if status.last_run is not None:
        yield "last run", _last_run(status.last_run)
    if status.last_success_at is not None and not _is_success(status.last_run):
        yield "last success", status.last_success_at
    if status.empty:
        yield "location", Cell("empty: it holds no file at all, read or not", Style.WARN)
    waiting = f"{count(status.in_progress, 'file')} in progress" if status.in_progress else ""
    yield "tracking", ", ".join(filter(None, (status.remembers, waiting))) or status.tracking
    if status.work_units is not None:
        yield "work units", status.work_units
        if status.work_units.failed:
            hint = f"tidegate units list {view.config} -p {status.pipeline} --failed"
            yield "failed", Cell(f"{count(status.work_units.failed, 'work unit')} ({hint})", Style.BAD)
    if status.pending_units:
        waits = "" if status.pending_seconds is None else f", the oldest for {duration(status.pending_seconds)}"
        files = count(status.pending_files, "Parquet file")
        text = f"{count(status.pending_units, 'unit')} with {files} wait for `tidegate commit`{waits}"
        yield "staged", Cell(text, Style.WARN)
    if status.open_letters:
        hint = f"tidegate dlq list {view.config} -p {status.pipeline}"
        yield "dead letters", Cell(f"{status.open_letters:,} open ({hint})", Style.WARN)
    if view.verbose:
        yield "position", position(status.version)
        yield "read from", "no state yet" if status.shown_from == "none" else f"the {status.shown_from}"


def _is_success(run: PastRun | None) -> bool:
    return run is not None and run.outcome is Outcome.SUCCEEDED


def _last_run(run: PastRun) -> str:
    """How the last run ended, and how often in a row."""
    times = f", {run.times:,} times since {moment(run.began_at)}" if run.times > 1 else ""
    found = "" if run.has_data or not _is_success(run) else ", nothing new"
    return f"{run.outcome.value} at {moment(run.ended_at)}{found}{times}"


def _last_commit(status: SourceStatus) -> str:
    if not status.version:
        return "none yet"
    table = "" if status.table_version is None else f"table version {status.table_version}"
    when = status.last_commit_at or status.updated
    return ", ".join(filter(None, (moment(when) if when else "", table)))
