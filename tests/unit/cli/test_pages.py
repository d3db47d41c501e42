"""Pages become aligned lines in files and pipes, and fit a terminal of 80 columns."""

from __future__ import annotations

import io

from rich.console import Console

from tidegate.cli.pages import Cell, Column, Facts, Gap, Heading, Line, Page, Style, Table, cell, plain, tabulate
from tidegate.cli.terminal import console_for, draw

PAGE: Page = (
    Heading("Title"),
    Facts((("a", Cell("1")), ("longer", Cell("2")))),
    Gap(),
    Table(
        (Column("name"), Column("files", right=True)),
        ((Cell("x"), Cell("1,200")), (Cell("longer"), Cell("3"))),
        "… and 2 more",
    ),
    Line(Cell("careful"), "note"),
)


def drawn(page: Page, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    with console.capture() as captured:
        draw(page, console)
    return captured.get()


def test_plain_lines_are_aligned_and_have_no_trailing_blanks() -> None:
    assert list(plain(PAGE)) == [
        "Title",
        "  a       1",
        "  longer  2",
        "",
        "  name    files",
        "  x       1,200",
        "  longer      3",
        "  … and 2 more",
        "  note: careful",
    ]


def test_the_terminal_shows_the_same_words_in_the_same_order() -> None:
    assert drawn(PAGE).split() == " ".join(plain(PAGE)).split()


def test_a_long_value_is_folded_to_the_width_of_the_terminal_and_nothing_is_lost() -> None:
    path = "date=2026-01-28/" + "x" * 200
    text = drawn((Facts((("watermark", Cell(path)),)), Line(Cell(path), "note")))
    assert max(map(len, text.splitlines())) <= 80
    assert "".join(text.split()).count(path) == 2


def test_a_narrow_terminal_leaves_out_spare_columns_and_says_which() -> None:
    page = (tabulate(("file", "?>position", "?action", ">rows"), [("x" * 30, 7, "run", 1200)], "older ones omitted"),)
    assert drawn(page, 60).split() == ["file", "position", "action", "rows", "x" * 30, "7", "run", "1,200", *OMITTED]
    narrow = drawn(page, 50)
    assert "position" in narrow.splitlines()[0]
    assert "action" not in narrow.splitlines()[0]
    assert narrow.split()[-10:] == [*OMITTED[:2], "omitted;", "no", "room", "for:", "action;", "--json", "has", "them"]
    assert "position, action;" in drawn(page, 40)
    assert "action" in next(plain(page))


OMITTED = ["older", "ones", "omitted"]


def test_a_missing_value_is_a_dash_and_zero_is_not() -> None:
    assert [cell(None).text, cell("").text, cell(0).text] == ["-", "-", "0"]


def test_escape_sequences_and_markup_in_names_have_no_effect() -> None:
    page = (Heading("[bold]h\x1b[0m"), Line(Cell("[red]a\x1b[2J")), Facts((("k", Cell("[/]")),)))
    expected = ["[bold]h\\x1b[0m", "  [red]a\\x1b[2J", "  k  [/]"]
    assert list(plain(page)) == expected
    assert [line.rstrip() for line in drawn(page).splitlines()] == expected


def test_without_colour_nothing_but_text_is_drawn() -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Screen()
    draw((Heading("Title"), Line(Cell("bad", Style.BAD))), console_for(screen, colour=False))
    assert "\x1b" not in screen.getvalue()
