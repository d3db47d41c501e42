"""The report on a project: what is broken first, then every source with its last days and its next run.

It is made to be kept and sent: as text, as JSON, or as one HTML file for somebody who has never seen Tidegate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from shlex import quote
from typing import TYPE_CHECKING

from tidegate.core.health import STOPPING, Health, HealthLevel, Outcome
from tidegate.reports.page import (
    Bar,
    Block,
    Cell,
    Columns,
    Fact,
    Gap,
    Heading,
    Panel,
    Style,
    ago,
    cell,
    chart,
    facts,
    fold_blocks,
    line,
    measure_age,
    more,
    names,
    position,
    source_name,
    table,
)
from tidegate.reports.plan import ColumnSourcePlan, PlanReport, SourcePlan, UnitSourcePlan, UnreadTable
from tidegate.reports.render import to_document
from tidegate.reports.report import Report, View
from tidegate.reports.status import (
    HEALTH_STYLES,
    SourceStatus,
    add_up_tables,
    backlog_cell,
    health_cell,
    lag_cell,
    name_cell,
)
from tidegate.reports.wording import count, duration, short, size

if TYPE_CHECKING:
    from tidegate.core.run_history import PastRun

PANELS_SHOWN = 25
NAMES_SHOWN = 3
FILES_SHOWN = 3
LOOKING = frozenset({"doctor", "plan", "status", "config", "dlq list", "units list"})
"""Commands that change nothing: they tell more about a problem."""
_KEPT = "Rows already in the table are kept, and the next run that succeeds reads what was not read yet"


@dataclass(frozen=True, slots=True)
class DayCount(Report):
    """One day in UTC: rows, whole files and commits that came into the table, and whether runs failed on it.

    The numbers are None for a day before the ledger was read.
    """

    day: str
    rows: int | None = 0
    files: int | None = 0
    commits: int | None = 0
    failing: bool = False


@dataclass(frozen=True, slots=True)
class ReasonCount(Report):
    """Open dead letters with the same reason, and when the first of them came."""

    reason: str
    letters: int
    first: datetime


@dataclass(frozen=True, slots=True)
class NextRun(Report):
    """What the next run would do: in words, and as numbers if its plan has them; ``error`` is why it would fail."""

    text: str
    files: int | None = None
    bytes: int | None = None
    work_units: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class SourceOverview(Report):
    """One source: its status, its last days, its open dead letters by reason, and its next run.

    ``days`` are oldest first. They reach back to ``days_from``, the first moment that the ledger was read for.
    ``notes`` say what could not be read.
    """

    status: SourceStatus
    days: tuple[DayCount, ...] = ()
    days_from: datetime | None = None
    dead_letters: tuple[ReasonCount, ...] = ()
    next_run: NextRun | None = None
    notes: tuple[str, ...] = ()

    @property
    def pipeline(self) -> str:
        """The name of the pipeline."""
        return self.status.pipeline

    @property
    def source(self) -> str:
        """The name of the source."""
        return self.status.source

    @property
    def block(self) -> str | None:
        """The block of tables that it comes from."""
        return self.status.block

    @property
    def folded(self) -> str:
        """How many tables of a block are added up."""
        return self.status.folded

    @property
    def health(self) -> Health:
        """Its one health."""
        return self.status.health

    def describe(self, view: View) -> Iterator[Block]:
        """Yield the status of this source; a whole report has a moment to count from, and shows more."""
        return self.status.describe(view)


@dataclass(frozen=True, slots=True)
class ProjectReport(Report):
    """The report on a project, ``made_at`` a moment: every source, in the order of the configuration."""

    config: str
    made_at: datetime
    health: HealthLevel
    sources: tuple[SourceOverview, ...]

    def to_html(self) -> str:
        """Return a whole HTML file that needs nothing else."""
        return to_document(self.page(View(config=quote(self.config))), f"{self.config} - tidegate report")

    def describe(self, view: View) -> Iterator[Block]:
        """Yield what is broken, a row per source, and then the facts of each."""
        yield Heading(f"Tidegate report: {self.config}", 1)
        yield self.sum_up()
        yield line(
            f"{_count_levels(self.sources)}; generated at {cell(self.made_at).text}; all times are UTC", Style.DIM
        )
        broken = sorted((each for each in self.sources if _is_broken(each)), key=_order)
        if broken:
            yield Gap()
            yield Heading("What is broken", 2)
            yield from _describe_broken(broken, self.made_at)
        shown = self.sources if view.verbose else fold_blocks(self.sources, _is_broken, _add_up)
        yield Gap()
        yield Heading("Sources", 2)
        yield table(_columns(shown, self.made_at), shown, _explain_bars(shown))
        for each in shown:
            yield Gap()
            yield from _describe_source(each, self.made_at, view)

    def sum_up(self) -> Block:
        """The state of the project in one sentence."""
        total = count(len(self.sources), "source")
        broken = sum(map(_is_broken, self.sources))
        if not broken:
            waiting = sum(each.health.level is HealthLevel.WAITING for each in self.sources)
            rest = f"; {count(waiting, 'has', 'have')} not run yet" if waiting else ""
            said = "The only source is well" if len(self.sources) == 1 else f"All {total} are well"
            return line(f"{HealthLevel.HEALTHY.sign} {said}{rest}.", Style.GOOD)
        return line(
            f"{self.health.sign} {broken:,} of {total} {'needs' if broken == 1 else 'need'} attention.",
            HEALTH_STYLES[self.health],
        )


def summarize_plan(plan: PlanReport) -> NextRun:
    """What a plan says in one line."""
    if refusal := plan.find_refusal():
        return NextRun("would fail", error=refusal)
    match plan:
        case SourcePlan():
            found = plan.plan
            first = "" if found.version else " for the first time"
            text = (
                f"would read {count(found.files, 'file')}, {size(found.bytes)}{first}" if found.files else "nothing new"
            )
            return NextRun(text, found.files, found.bytes)
        case ColumnSourcePlan():
            return NextRun(f"would read {plan.predicate}" if plan.predicate else "would read everything")
        case UnitSourcePlan():
            units = f"{plan.would_run:,} of {count(plan.work_units, 'work unit')}"
            return NextRun(
                f"would read {units}" if plan.would_run else "nothing to read yet", work_units=plan.would_run
            )
        case UnreadTable():
            return NextRun(plan.reason, error=plan.reason if plan.exit_code else None)
        case _:
            return NextRun("`tidegate plan` shows it")


def _is_broken(each: SourceOverview) -> bool:
    return not each.health.level.is_fine


def _order(each: SourceOverview) -> tuple[int, float]:
    """The worst first; of those the ones that are broken longest."""
    since = each.health.since
    return -each.health.level.badness, since.timestamp() if since else float("inf")


def _count_levels(sources: Sequence[SourceOverview]) -> str:
    levels = [each.health.level for each in sources]
    told = ((levels.count(level), level) for level in sorted(HealthLevel, key=lambda each: -each.badness))
    return ", ".join(f"{number:,} {level.value}" for number, level in told if number)


# What is broken


def _describe_broken(broken: Sequence[SourceOverview], now: datetime) -> Iterator[Block]:
    """Yield a panel for each problem; tables of a block with the same one share it."""
    alike: dict[object, list[SourceOverview]] = {}
    for number, each in enumerate(broken):
        health = each.health
        same = number if each.block is None else (each.block, health.level, health.reason)
        alike.setdefault(same, []).append(each)
    for number, several in enumerate(list(alike.values())[:PANELS_SHOWN]):
        if number:
            yield Gap()
        yield _describe_problem(several, now)
    if left := more(len(alike) - PANELS_SHOWN, "problem"):
        yield line(left)


def _describe_problem(several: Sequence[SourceOverview], now: datetime) -> Panel:
    first = several[0]
    health = first.health
    if len(several) == 1:
        name, verb, command = source_name(first), "is", health.command
    else:
        tables = names([each.pipeline for each in several], NAMES_SHOWN)
        name, verb = f"{count(len(several), 'table')} of {first.block} ({tables})", "are"
        command = health.command.replace(f"-p {quote(first.pipeline)}", f"-p {quote(str(first.block))}")
    state = {HealthLevel.UNKNOWN: "in an unknown state"}.get(health.level, health.level.value)
    pairs: list[Fact] = [
        ("problem", health.reason),
        *_list_failed(first.status),
        ("since", _since(first, now)),
        ("last success", _moment(first.status.last_success_at, now)),
        ("last new data", _moment(first.status.last_data_at, now)),
        ("data loss", " ".join(_tell_losses(first))),
        *_repair(first.status, command),
    ]
    return Panel((Heading(f"{health.level.sign} {name} {verb} {state}"), facts(*pairs)), HEALTH_STYLES[health.level])


def _since(each: SourceOverview, now: datetime) -> Cell:
    if each.health.since is not None:
        return ago(each.health.since, now)
    if each.status.last_success_at is not None:
        return Cell("not recorded: after the last success, and before this report")
    return Cell("not recorded")


def _list_failed(status: SourceStatus) -> Iterator[Fact]:
    for file in status.failed[:FILES_SHOWN]:
        yield "file", f"{file.path}: {file.reason} ({count(file.attempts, 'attempt')})"
    if left := more(len(status.failed) - FILES_SHOWN, "file"):
        yield "file", left


def _repair(status: SourceStatus, command: str) -> Iterator[Fact]:
    """What repairs it: a command, unless what is outside has to change first."""
    words = command.split()
    then_run = command.replace(f"tidegate {words[1]}", "tidegate run", 1) if len(words) > 1 else ""
    is_late = status.health.reason.startswith("late:")
    # `status` would only name the failed files, which stand here, and `plan` what waits.
    if status.failed and words[1:2] == ["status"]:
        yield "to fix it", "correct the file, or remove it. The next run reads what is there:"
        yield "", Cell(then_run, Style.CODE)
    elif is_late and status.backlog_files:
        yield "to fix it, run", Cell(then_run, Style.CODE)
    elif command:
        if is_late:
            yield "to fix it", "nothing to do in Tidegate: check what delivers the data; the next run picks it up"
        looks = {" ".join(words[1:2]), " ".join(words[1:3])} & LOOKING
        # Accepting is not repairing: whoever copies the command has to know what it takes for granted.
        label = "only if that was intended, run" if "--accept" in words else "to fix it, run"
        yield "to find out more, run" if looks else label, Cell(command, Style.CODE)


def _tell_losses(each: SourceOverview) -> Iterator[str]:
    """Yield what is lost by each of its problems: nothing, wherever that is known."""
    status = each.status
    run = status.last_run
    error = each.next_run.error if each.next_run is not None else None
    if status.error is not None and not status.version and not status.totals.get("commits"):
        yield "None: this source has not written a row yet."
    elif status.error is not None:
        yield (
            "Not known while its state cannot be read. Rows already in the table are kept, and no run writes anything"
            " until it has found its position."
        )
    elif "--accept restore" in status.health.command:
        yield (
            "Tidegate has dropped nothing, but the rows that the restore took out of the table are missing there, and"
            " runs count them as read."
        )
    elif error is not None or (run is not None and run.outcome in STOPPING):
        refused = error is not None or (run is not None and run.outcome is Outcome.REFUSED)
        how = "a refused run writes nothing" if refused else "a failed run leaves nothing half done"
        yield f"None by Tidegate: {how}. {_KEPT}, as long as the source still has it."
    if status.failed:
        yield (
            "None: a file that cannot be read stays where it is. Each run tries it again; if it fails too often,"
            " it is kept as a dead letter, and can be retried."
        )
    if status.work_units is not None and status.work_units.failed:
        yield "None: later runs try the failed work units again."
    if status.open_letters and "dead letter" in status.health.reason:
        yield "None: each bad record is kept in the dead-letter table with its reason, until somebody retries it."
    if status.future_seals:
        yield "None: the files are still in the source, and are read as soon as the seals are gone."
    if status.empty and status.version:
        yield "Rows already in the table are kept. A file that was removed before it was read has to be put back."
    if status.health.reason.startswith("late:"):
        yield "None: whatever arrives is picked up by the next run."


# Every source


def _columns(shown: Sequence[SourceOverview], now: datetime) -> Columns[SourceOverview]:
    days = max((len(each.days) for each in shown), default=0)
    return {
        "health": lambda each: health_cell(each.health),
        "~source": name_cell,
        f"last {days} days": _draw_rows,
        "?>rows": lambda each: short(sum(day.rows or 0 for day in each.days)) if each.days else None,
        "?>new data": lambda each: _age(each.status.last_data_at, now),
        "?>lag": lambda each: lag_cell(each.status),
        "?>backlog": lambda each: backlog_cell(each.status),
    }


def _age(time: datetime | None, now: datetime) -> Cell | None:
    return None if time is None else Cell(f"{measure_age(time, now)} ago", at=time)


def _draw_rows(each: SourceOverview) -> Cell:
    return chart(_bars(each.days, lambda day: day.rows or 0, "row")) if each.days else cell(None)


def _bars(days: Sequence[DayCount], number: Callable[[DayCount], int], noun: str) -> list[Bar]:
    most = max(map(number, days), default=0) or 1
    return [_bar(day, number(day), most, noun) for day in days]


def _bar(day: DayCount, found: int, most: int, noun: str) -> Bar:
    is_known = day.commits is not None
    told = f"{day.day}: {count(found, noun) if is_known else 'not known'}{', runs failed' if day.failing else ''}"
    height = found / most if is_known or day.failing else None
    return Bar(told, height, Style.BAD if day.failing else Style.NORMAL)


def _explain_bars(sources: Sequence[SourceOverview]) -> str:
    days = max((each.days for each in sources), key=len, default=())
    if not days:
        return ""
    told = f"each bar shows the rows of one day, from {days[0].day} to {days[-1].day}"
    return told + (
        "; red or ✖: runs failed on that day" if any(day.failing for each in sources for day in each.days) else ""
    )


def _describe_source(each: SourceOverview, now: datetime, view: View) -> Iterator[Block]:
    yield Heading(source_name(each))
    yield facts(*((label, value) for label, value in _facts(each, now, view) if value is not None))
    yield from (line(note, Style.DIM, "note") for note in each.status.notes)
    yield from (line(note, Style.WARN, "note") for note in each.notes)


def _facts(each: SourceOverview, now: datetime, view: View) -> Iterator[Fact]:
    status = each.status
    yield "health", _health(status.health)
    yield "table", status.table or status.table_uri
    yield "state", f"{status.state}, {position(status.version, 'nothing committed yet')}"
    if not status.folded:
        yield status.watermark_label, status.watermark or "none yet"
    yield "new data", _freshness(status, now)
    yield "last commit", _moment(status.last_commit_at or status.updated, now)
    yield "last run", None if status.last_run is None else _tell_run(status.last_run, now)
    if status.last_run is None or status.last_run.outcome is not Outcome.SUCCEEDED:
        yield "last success", _moment(status.last_success_at, now)
    yield "lag", lag_cell(status)
    yield "backlog", backlog_cell(status)
    yield from _daily_facts(each)
    yield from _letter_facts(each, now, view)
    if each.next_run is not None:
        yield "next run", _tell_next(each.next_run, status.health)


def _tell_next(run: NextRun, health: Health) -> Cell:
    if run.error is None:
        return Cell(run.text)
    # What is broken stands at the top, with its reason.
    return Cell("would fail (see above)" if run.error == health.reason else f"would fail: {run.error}", Style.BAD)


def _health(health: Health) -> Cell:
    shown = health_cell(health)
    # The reason of what is broken stands at the top.
    return replace(shown, text=f"{shown.text}: {health.reason}") if health.reason and health.level.is_fine else shown


def _moment(time: datetime | None, now: datetime) -> Cell | None:
    return None if time is None else ago(time, now)


def _freshness(status: SourceStatus, now: datetime) -> Cell:
    every = status.expect_every_seconds
    expected = "" if every is None else f"; expected every {duration(every)}"
    if status.last_data_at is None:
        return Cell(f"none yet{expected}", Style.DIM)
    found = ago(status.last_data_at, now)
    return replace(found, text=f"{found.text}{expected}")


def _tell_run(run: PastRun, now: datetime) -> Cell:
    times = f", {run.times:,} times in a row" if run.times > 1 else ""
    found = ago(run.ended_at, now)
    style = Style.BAD if run.outcome in STOPPING else Style.NORMAL
    return replace(found, text=f"{run.outcome.value} at {found.text}{times}", style=style)


def _daily_facts(each: SourceOverview) -> Iterator[Fact]:
    """Charts of the last days, where there is something to draw."""
    known = [day for day in each.days if day.commits is not None]
    if not any(day.commits or day.failing for day in each.days):
        return
    charts: dict[str, Callable[[DayCount], int]] = {
        "row": lambda day: day.rows or 0,
        "file": lambda day: day.files or 0,
    }
    lacking = len(each.days) - len(known)
    reach = f"; known from {known[0].day} on" if lacking and known else ""
    for noun, number in charts.items():
        total = sum(map(number, known))
        # Only sources of files have any.
        if noun == "file" and not total:
            continue
        most = max(known, key=number, default=None)
        several = sum(bool(number(day)) for day in known) > 1
        top = f", most on {most.day} ({number(most):,})" if most is not None and several else ""
        told = f"{count(total, noun)} in {count(len(each.days), 'day')}{top}{reach}"
        yield f"{noun}s per day", chart(_bars(each.days, number, noun), told)
    commits = sum(day.commits or 0 for day in known)
    yield "commits", f"{commits:,} in {count(len(each.days), 'day')}{reach}"


def _letter_facts(each: SourceOverview, now: datetime, view: View) -> Iterator[Fact]:
    total = each.status.open_letters
    if not total:
        return
    hint = f"tidegate dlq list {view.config} -p {quote(each.pipeline)}"
    yield "dead letters", Cell(f"{total:,} open ({hint})", Style.WARN)
    for found in each.dead_letters:
        yield "", f"{found.letters:,} since {ago(found.first, now).text}: {found.reason or 'no reason'}"
    left = total - sum(found.letters for found in each.dead_letters)
    if each.dead_letters and left > 0:
        yield "", f"{left:,} for other reasons"


def _add_up(block: str, tables: Sequence[SourceOverview], told: str) -> SourceOverview:
    """The tables of a block in one row."""
    days = tuple(map(_add_days, zip(*(each.days for each in tables if each.days), strict=True)))
    plans = [each.next_run for each in tables if each.next_run is not None]
    failing = sum(each.error is not None for each in plans)
    text = f"would read {count(len(plans) - failing, 'table')}" + (f"; {failing:,} would fail" if failing else "")
    reached = [each.days_from for each in tables if each.days_from is not None]
    return SourceOverview(
        add_up_tables(block, [each.status for each in tables], told),
        days,
        max(reached, default=None),
        next_run=NextRun(text) if plans else None,
    )


def _add_days(days: tuple[DayCount, ...]) -> DayCount:
    def add(numbers: Sequence[int | None]) -> int | None:
        return None if any(each is None for each in numbers) else sum(each or 0 for each in numbers)

    return DayCount(
        days[0].day,
        add([each.rows for each in days]),
        add([each.files for each in days]),
        add([each.commits for each in days]),
        any(each.failing for each in days),
    )
