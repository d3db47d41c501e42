"""How work units are shown: lists of units, one unit with its partitions, and what forgetting them means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from tidegate.cli.correction_view import noted
from tidegate.cli.pages import Block, Cell, Column, Facts, Gap, Heading, Line, Page, Style, Table, cell
from tidegate.cli.unit_plan_view import REASONS, ROWS_SHOWN, name_of, shown
from tidegate.observe.wording import count
from tidegate.reports.units import UnitLine, UnitList, UnitsMove, UnitView, WorkUnitLine

NAMES_SHOWN = 12
STATES = {"failed": Style.BAD, "retired": Style.WARN, "open": Style.STRONG, "done": Style.GOOD}


def render_units(lists: Sequence[UnitList]) -> Page:
    """The units of all sources, one section each."""
    sections = [tuple(_unit_list(each)) for each in lists]
    return tuple(chain(sections[0], *((Gap(), *section) for section in sections[1:])))


def _unit_list(found: UnitList) -> Iterator[Block]:
    yield Heading(f"{found.pipeline}/{found.source}")
    numbers = f"{count(found.total, 'unit')} × {count(found.partitions, 'partition')}"
    yield Facts((("units", Cell(numbers)), ("partitions", Cell(f"{found.grid} ({found.zone})"))))
    if found.units:
        titles = ("unit", "state", "done", "open", "failed", "read up to", "why, or when again")
        columns = tuple(Column(title, right=title in ("done", "open", "failed")) for title in titles)
        left = found.total - len(found.units)
        note = f"… and {count(left, 'more unit')}; --limit 0 shows all" if left else ""
        yield Gap()
        yield Table(columns, tuple(_unit_row(each, found.zone) for each in found.units), note)
    yield from noted(found.notes)


def _unit_row(line: UnitLine, zone: str) -> tuple[Cell, ...]:
    again = f"from {shown(line.next_eligible, zone)} on" if line.next_eligible else ""
    return (
        Cell(name_of(line.unit)),
        Cell(line.state, STATES.get(line.state, Style.DIM)),
        Cell(f"{line.done:,}"),
        Cell(f"{line.open:,}"),
        Cell(f"{line.failed:,}", Style.BAD if line.failed else Style.DIM),
        cell(shown(line.read_up_to, zone) if line.read_up_to else None),
        cell(line.reason or again),
    )


def render_unit(view: UnitView) -> Page:
    """One unit with its partitions."""
    return tuple(_unit(view))


def _unit(view: UnitView) -> Iterator[Block]:
    yield Heading(f"{view.pipeline}/{view.source}: unit {name_of(view.unit)}")
    ranges = ", ".join(f"{shown(low, view.zone)} to {shown(high, view.zone)}" for low, high in view.coverage)
    left = ", ".join(f"{shown(low, view.zone)} to {shown(high, view.zone)}" for low, high in view.left)
    variables = ", ".join(f"{name}={value}" for name, value in view.variables.items())
    pairs = [("state", Cell(view.state, STATES.get(view.state, Style.DIM))), ("read", cell(ranges))]
    pairs += [("to be replaced", Cell(left))] if left else []
    pairs += [("variables", Cell(variables))] if variables else []
    pairs += [("retired", Cell(view.retired, Style.WARN))] if view.retired else []
    yield Facts(tuple(pairs))
    if view.work_units:
        titles = ("partition", "why", "would read from", "to", "high watermark", "failures")
        columns = tuple(Column(title, right=title == "failures") for title in titles)
        lines = view.work_units[-ROWS_SHOWN:]
        older = len(view.work_units) - len(lines)
        yield Gap()
        note = f"… {count(older, 'older partition')} above; --json has all" if older else ""
        yield Table(columns, tuple(_work_row(each, view.zone) for each in lines), note)
        for each in lines:
            if each.reason:
                yield Line(Cell(f"from {shown(each.start, view.zone)}: {each.reason}", Style.BAD), "failed")
    yield from noted(view.notes)


def _work_row(each: WorkUnitLine, zone: str) -> tuple[Cell, ...]:
    low, high, mark = (cell(shown(text, zone) if text else None) for text in (each.low, each.high, each.high_watermark))
    why = each.why.replace("_", " ") + (f" until {shown(each.eligible, zone)}" if each.eligible else "")
    failures = Cell(f"{each.failures:,}", Style.BAD if each.failures else Style.DIM)
    style = REASONS[each.why][1] if each.why in REASONS else Style.NORMAL
    return Cell(shown(each.start, zone)), Cell(why, style), low, high, mark, failures


def render_units_move(move: UnitsMove) -> Page:
    """What forgetting means."""
    named = ", ".join(map(name_of, move.units[:NAMES_SHOWN]))
    more = f" and {len(move.units) - NAMES_SHOWN:,} more" if len(move.units) > NAMES_SHOWN else ""
    pairs = [
        ("units", Cell(f"{named}{more}" if named else "none", Style.STRONG)),
        ("partition", Cell("all" if move.partition is None else move.partition)),
    ]
    if move.action == "units reset":
        pairs.append(("read again", Cell(count(move.ranges, "range"))))
    else:
        retired = f", {move.retired:,} retired" if move.retired else ""
        pairs.append(("forgotten", Cell(f"{count(move.failures, 'failure')}{retired}")))
    return (Heading(f"{move.pipeline}/{move.source}: {move.action}"), Facts(tuple(pairs)), *noted(move.notes))
