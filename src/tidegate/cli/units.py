"""``tidegate units``: list work units, show one, retry them, or read them again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

import tidegate
from tidegate.cli.invocation import (
    Confirmation,
    Group,
    Invocation,
    at_option,
    confirm_options,
    limit_option,
    target,
    with_json,
)
from tidegate.cli.plan import REASONS, ROWS_SHOWN, local_time, older, unit_name
from tidegate.cli.watermark import render_move_end
from tidegate.reports.page import (
    Block,
    Cell,
    Fact,
    Gap,
    Heading,
    Page,
    Row,
    Style,
    cell,
    facts,
    line,
    notes,
    page,
    sections,
    source_name,
    tabulate,
)
from tidegate.reports.units import UnitLine, UnitList, UnitsMove, UnitView, WorkUnitLine
from tidegate.reports.wording import count

NAMES_SHOWN = 12
_STATES = {"failed": Style.BAD, "retired": Style.WARN, "open": Style.STRONG, "done": Style.GOOD}

_names_option = click.option("--unit", "names", metavar="UNIT", multiple=True, help="This unit. May be repeated.")
_partition_option = click.option("--partition", metavar="START", help="Only the partition that begins then.")


@click.group(
    cls=Group,
    examples=[
        "tidegate units list pipelines.yml -p responses --failed",
        "tidegate units reset pipelines.yml -p responses --unit id3 --dry-run",
    ],
)
def units() -> None:
    """Show work units, retry them, or read them again."""


@units.command(
    "list",
    examples=[
        "tidegate units list pipelines.yml -p responses",
        "tidegate units list pipelines.yml -p responses --failed --json",
        "tidegate units list pipelines.yml -p responses --partition 2026-02-01",
        "tidegate units list pipelines.yml -p responses --at 2026-03-02T06:00:00Z",
    ],
)
@target(source="all")
@_names_option
@_partition_option
@click.option("--failed", is_flag=True, help="Only units that failed or are retired.")
@at_option("List as if it were then.")
@limit_option(50)
@with_json
def list_units(invocation: Invocation, /, **given: Any) -> None:
    """Show the units of a pipeline and how far they are.

    Failed units come first. Reads the secondary inputs. Does not start Spark or ask the server.
    """
    invocation.give_each("sources", tidegate.units(**given), render_units)


@units.command(
    "show",
    examples=[
        "tidegate units show pipelines.yml -p responses --unit id3",
        "tidegate units show pipelines.yml -p responses --unit id3 --json",
    ],
)
@target(source="one")
@click.option("--unit", "name", metavar="UNIT", default="", help="The unit; omit it for a source without units.")
@at_option("Show as if it were then.")
@with_json
def show_unit(
    invocation: Invocation, /, config: Path, pipeline: str, source: str | None, name: str, **when: Any
) -> None:
    """Show one unit, partition by partition.

    What was read of it, what would run now and why, and why it failed.
    """
    invocation.give(tidegate.unit(config, pipeline, name, source, **when), render_unit)


@units.command(
    "retry",
    examples=[
        "tidegate units retry pipelines.yml -p responses --failed",
        "tidegate units retry pipelines.yml -p responses --unit id3 --unit id4 --yes",
    ],
)
@target(source="one")
@_names_option
@_partition_option
@click.option("--failed", "everything", is_flag=True, help="Every unit that failed or is retired.")
@confirm_options
@with_json
def retry_units(invocation: Invocation, /, **given: Any) -> int:
    """Forget that units failed or were retired.

    The next run tries them again without waiting. Commits the new state. No row changes.
    """
    return _move(invocation, tidegate.retry_units, "Try them again?", "--failed", **given)


@units.command(
    "reset",
    examples=[
        "tidegate units reset pipelines.yml -p responses --unit id3",
        "tidegate units reset t.yml -p responses --partition 2026-02-01 --dry-run",
        "tidegate units reset pipelines.yml -p responses --all --yes",
    ],
)
@target(source="one")
@_names_option
@_partition_option
@click.option("--all", "everything", is_flag=True, help="Every unit, in every partition.")
@confirm_options
@with_json
def reset_units(invocation: Invocation, /, **given: Any) -> int:
    """Forget what was read of units.

    The next run reads it again and replaces the rows; until then they stay. Commits the new state. No row changes now.
    """
    return _move(invocation, tidegate.reset_units, "Read them again?", "--all", **given)


def _move(
    invocation: Invocation,
    call: Callable[..., UnitsMove],
    question: str,
    option: str,
    *,
    names: tuple[str, ...],
    partition: str | None,
    everything: bool,
    dry_run: bool,
    yes: bool,
    **where: Any,
) -> int:
    """Show the selected units, ask, and forget; ``option`` is the one that selects all."""
    if everything == bool(names or partition is not None):
        raise click.UsageError(f"give --unit UNIT, --partition START or both; or {option}")
    confirm = Confirmation(invocation, question, render_units_move, dry_run, yes)
    return confirm.give(call(**where, names=names, partition=partition, confirm=confirm), render_move_end)


def render_units(lists: Sequence[UnitList]) -> Page:
    """One section per source."""
    return sections(map(_unit_list, lists))


def _unit_list(found: UnitList) -> Iterator[Block]:
    yield Heading(source_name(found))
    numbers = f"{count(found.total, 'unit')} × {count(found.partitions, 'partition')}"
    yield facts(("units", numbers), ("partitions", f"{found.grid} ({found.zone})"))
    if found.units:
        titles = ("~unit", "state", ">done", ">open", ">failed", "?read up to", "=reason, or next try")
        left = found.total - len(found.units)
        footnote = f"… and {count(left, 'more unit')}; --limit 0 shows all" if left else ""
        yield Gap()
        yield tabulate(titles, (_unit_row(each, found.zone) for each in found.units), footnote)
    yield from notes(found.notes)


def _unit_row(unit: UnitLine, zone: str) -> Row:
    again = f"from {local_time(unit.next_eligible, zone)} on" if unit.next_eligible else ""
    return (
        unit_name(unit.unit),
        _state(unit.state),
        unit.done,
        unit.open,
        _failures(unit.failed),
        unit.read_up_to and local_time(unit.read_up_to, zone),
        unit.reason or again,
    )


def _state(state: str) -> Cell:
    return Cell(state, _STATES.get(state, Style.DIM))


def _failures(failures: int) -> Cell:
    return cell(failures, Style.BAD if failures else Style.DIM)


@page
def render_unit(view: UnitView) -> Iterator[Block]:
    """One unit with its partitions."""
    yield Heading(f"{source_name(view)}: unit {unit_name(view.unit)}")
    yield facts(*_unit_facts(view))
    if view.work_units:
        titles = ("partition", "=why", "would read from", "to", "?high watermark", ">failures")
        lines = view.work_units[-ROWS_SHOWN:]
        rows = tuple(_work_row(each, view.zone) for each in lines)
        yield Gap()
        yield tabulate(titles, rows, older(len(view.work_units) - len(lines), "partition"))
        for each in lines:
            if each.reason:
                yield line(f"from {local_time(each.start, view.zone)}: {each.reason}", Style.BAD, "failed")
    yield from notes(view.notes)


def _unit_facts(view: UnitView) -> Iterator[Fact]:
    yield "state", _state(view.state)
    yield "read", _ranges(view.coverage, view.zone)
    if view.left:
        yield "to be replaced", _ranges(view.left, view.zone)
    if view.variables:
        yield "variables", ", ".join(f"{name}={value}" for name, value in view.variables.items())
    if view.retired:
        yield "retired", Cell(view.retired, Style.WARN)


def _ranges(ranges: Sequence[tuple[str, str]], zone: str) -> str:
    return ", ".join(f"{local_time(low, zone)} to {local_time(high, zone)}" for low, high in ranges)


def _work_row(each: WorkUnitLine, zone: str) -> Row:
    why = each.why.replace("_", " ") + (f" until {local_time(each.eligible, zone)}" if each.eligible else "")
    style = REASONS[each.why][1] if each.why in REASONS else Style.NORMAL
    times = (each.low, each.high, each.high_watermark)
    return (
        local_time(each.start, zone),
        Cell(why, style),
        *(time and local_time(time, zone) for time in times),
        _failures(each.failures),
    )


@page
def render_units_move(move: UnitsMove) -> Iterator[Block]:
    """The consequences of forgetting units."""
    named = ", ".join(map(unit_name, move.units[:NAMES_SHOWN]))
    rest = f" and {len(move.units) - NAMES_SHOWN:,} more" if len(move.units) > NAMES_SHOWN else ""
    if move.action == "units reset":
        what = ("read again", count(move.ranges, "range"))
    else:
        retired = f", {move.retired:,} retired" if move.retired else ""
        what = ("forgotten", f"{count(move.failures, 'failure')}{retired}")
    yield Heading(f"{source_name(move)}: {move.action}")
    yield facts(
        ("units", Cell(f"{named}{rest}" if named else "none", Style.STRONG)),
        ("partition", "all" if move.partition is None else move.partition),
        what,
    )
    yield from notes(move.notes)
