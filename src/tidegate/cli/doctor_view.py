"""How the checks of ``doctor`` are shown: one line each, with what to do about those that are not well."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidegate.cli.pages import Block, Cell, Column, Gap, Line, Page, Style, Table
from tidegate.observe.wording import count
from tidegate.reports.run import Check

_STYLES = {"ok": Style.GOOD, "warn": Style.WARN, "fail": Style.BAD}


def render_doctor(checks: Sequence[Check]) -> Page:
    """All checks, then the remedies, then the sum."""
    return tuple(_blocks(checks))


def _blocks(checks: Sequence[Check]) -> Iterator[Block]:
    rows = tuple((Cell(each.verdict, _STYLES[each.verdict]), Cell(each.name), Cell(each.detail)) for each in checks)
    yield Table((Column("verdict"), Column("check"), Column("found")), rows)
    ill = [each for each in checks if each.verdict != "ok"]
    if ill:
        yield Gap()
    for each in ill:
        if each.remedy:
            yield Line(Cell(each.remedy, _STYLES[each.verdict]), each.name)
    yield Gap()
    yield _sum(checks)


def _sum(checks: Sequence[Check]) -> Line:
    failed = sum(each.verdict == "fail" for each in checks)
    warned = sum(each.verdict == "warn" for each in checks)
    if failed:
        return Line(Cell(f"{count(failed, 'check')} failed, {count(warned, 'warning')}", Style.BAD))
    if warned:
        return Line(Cell(f"nothing failed, {count(warned, 'warning')}", Style.WARN))
    return Line(Cell("all is well", Style.GOOD))
