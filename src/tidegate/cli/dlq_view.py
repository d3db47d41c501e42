"""How dead letters are shown: a table of them, one in full, and what became of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tidegate.cli.pages import Block, Cell, Column, Facts, Gap, Heading, Line, Page, Style, Table, cell
from tidegate.cli.status_view import moment
from tidegate.observe.wording import count
from tidegate.reports.run import LettersReport

if TYPE_CHECKING:
    from tidegate.schema.dead_letter import Letter

_STILL_BAD_SHOWN = 10
_TEXT_SHOWN = 4000
_COLUMNS = (
    Column("id"),
    Column("source"),
    Column("file"),
    Column("line", right=True),
    Column("reason"),
    Column("at"),
)


def render_letters(letters: Sequence[Letter], *, more: bool) -> Page:
    """The open letters of a pipeline."""
    if not letters:
        return (Line(Cell("no open dead letter fits", Style.GOOD)),)
    rows = tuple(
        (
            Cell(each.id, Style.STRONG),
            Cell(each.source),
            cell(each.file),
            cell(f"{each.line:,}" if each.line else None) if each.kind == "record" else Cell("file", Style.WARN),
            cell(each.reason),
            Cell(moment(each.at), Style.DIM),
        )
        for each in letters
    )
    return (Table(_COLUMNS, rows, "… and more; --limit shows them" if more else ""),)


def render_letter(wanted: str, letters: Sequence[Letter]) -> Page:
    """One letter in full; more than one if the beginning of the id fits several."""
    if not letters:
        return (Line(Cell(f"no open dead letter has an id that begins with {wanted}", Style.BAD)),)
    blocks: list[Block] = []
    for number, each in enumerate(letters):
        blocks += [*([Gap()] if number else []), *_letter(each)]
    return tuple(blocks)


def _letter(letter: Letter) -> Iterator[Block]:
    yield Heading(f"{letter.pipeline}/{letter.source}: letter {letter.id}")
    where = "from line" if letter.kind == "file" else "line"
    yield Facts(
        (
            ("file", cell(letter.file)),
            (where, cell(f"{letter.line:,}" if letter.line else None)),
            ("reason", cell(letter.reason, Style.BAD)),
            ("stage", cell(letter.stage)),
            ("at", Cell(moment(letter.at))),
            ("run", Cell(letter.run)),
            ("schema", cell(letter.schema_fingerprint)),
            ("size, etag", Cell(f"{letter.size or 0:,} bytes, {letter.etag or '-'}")),
        )
    )
    if letter.kind == "record":
        text = letter.content.decode(errors="backslashreplace")
        cut = f" … ({len(text) - _TEXT_SHOWN:,} more characters; --json has all)" if len(text) > _TEXT_SHOWN else ""
        yield Gap()
        for line in (text[:_TEXT_SHOWN] + cut).split("\n"):
            yield Line(Cell(line))


def render_answers(reports: Sequence[LettersReport], verb: str) -> Page:
    """What became of letters."""
    blocks: list[Block] = []
    for report in reports:
        name = f"{report.pipeline}/{report.source}"
        if not report.letters:
            blocks.append(Line(Cell(f"{name}: no open dead letter fits")))
            continue
        rows = f", {count(report.rows, 'row')} committed" if report.rows else ""
        new = f", {count(report.new_letters, 'new letter')}" if report.new_letters else ""
        at = f" (position {report.position})" if report.position is not None else ""
        told = f"{name}: {report.answered:,} of {count(report.letters, 'letter')} {verb}{rows}{new}{at}"
        blocks.append(Line(Cell(told, Style.WARN if report.still_bad else Style.GOOD)))
        for letter, file, reason in report.still_bad[:_STILL_BAD_SHOWN]:
            blocks.append(Line(Cell(f"{letter} of {file}: {reason}", Style.BAD), "still bad"))
        left = len(report.still_bad) - _STILL_BAD_SHOWN
        if left > 0:
            blocks.append(Line(Cell(f"… and {count(left, 'more letter')}; --json lists all", Style.BAD), "still bad"))
    return tuple(blocks)
