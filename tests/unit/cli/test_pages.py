"""Pages become aligned lines in files and pipes, and fit a terminal of 80 columns."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from tidegate.cli.terminal import console_for, draw
from tidegate.reports.page import (
    Bar,
    Cell,
    Column,
    Facts,
    Gap,
    Heading,
    Line,
    Page,
    Panel,
    Style,
    Table,
    cell,
    chart,
    facts,
    tabulate,
)
from tidegate.reports.render import to_lines

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
    assert list(to_lines(PAGE)) == [
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
    assert drawn(PAGE).split() == " ".join(to_lines(PAGE)).split()


def test_a_panel_and_a_chart_are_drawn_as_in_plain_lines() -> None:
    bars = [Bar("Mon", 0.0, Style.BAD), Bar("Tue", 1.0)]
    page: Page = (Panel((Heading("Broken"), facts(("rows", chart(bars, "7 rows")))), Style.BAD),)
    assert drawn(page).split() == ["Broken", "rows", "✖█", "7", "rows"] == " ".join(to_lines(page)).split()


def test_a_long_value_is_folded_to_the_width_of_the_terminal_and_nothing_is_lost() -> None:
    path = "date=2026-01-28/" + "x" * 200
    text = drawn((Facts((("watermark", Cell(path)),)), Line(Cell(path), "note")))
    assert max(map(len, text.splitlines())) <= 80
    assert "".join(text.split()).count(path) == 2


def test_a_long_label_of_a_fact_leaves_room_for_its_value() -> None:
    page = (Facts((("orders_of_the_whole_company/default", Cell("file:///lake/orders")),)),)
    assert drawn(page, 60).split() == ["orders_o…any/default", "file:///lake/orders"]


def test_a_long_label_never_hides_its_text() -> None:
    name = "source events-of-the-whole-company/asia-pacific-southeast"
    assert " ".join(drawn((Line(Cell("name files by time"), name),), 60).split()) == f"{name}: name files by time"


def test_a_narrow_terminal_leaves_out_spare_columns_and_says_which() -> None:
    page = (tabulate(("file", "?>position", "?action", ">rows"), [("x" * 30, 7, "run", 1200)], "older ones omitted"),)
    assert drawn(page, 60).split() == ["file", "position", "action", "rows", "x" * 30, "7", "run", "1,200", *OMITTED]
    narrow = drawn(page, 50)
    assert "position" in narrow.splitlines()[0]
    assert "action" not in narrow.splitlines()[0]
    assert " ".join(narrow.split()).endswith("older ones omitted; no room for: action (--wide shows all)")
    assert "position, action (--wide" in " ".join(drawn(page, 40).split())
    assert "action" in next(to_lines(page))


OMITTED = ["older", "ones", "omitted"]
PATH = "date=2026-01-28/hour=15/1769615550-0050700{}.ndjson.gz"
WIDTHS = (60, 80)


@pytest.mark.parametrize("width", WIDTHS)
def test_paths_are_shortened_in_the_middle_and_ids_stay_whole(width: int) -> None:
    letters = [(f"0190e6b8{number:08x}", PATH.format(number), 7, "not a number: " + "x y " * 20) for number in range(3)]
    text = drawn((tabulate(("id", "~file", ">line", "=reason"), letters),), width)
    assert max(map(len, text.splitlines())) <= width
    for name, path, *_ in letters:
        assert name in text
        assert path not in text
        assert path[-9:] in text
    assert text.count("date=") == 3
    assert text.split()[-5:] == ["shortened:", "file", "(--wide", "shows", "all)"]
    assert text.replace("\n", " ").split().count("y") == 60


def test_a_row_that_is_too_wide_for_a_table_is_shown_as_facts_and_ids_stay_whole() -> None:
    letters = [(f"0190e6b8{number:08x}", "asia", PATH.format(number), 7, "not a number") for number in range(2)]
    page = (tabulate(("id", "?source", "~file", ">line", "=reason"), letters, "… and more"),)
    shown = drawn(page, 40)
    assert max(map(len, shown.splitlines())) <= 40
    assert [line.split() for line in shown.splitlines()][:6] == [
        ["id", "0190e6b800000000"],
        ["source", "asia"],
        ["file", PATH.format(0)[:30]],
        [PATH.format(0)[30:]],
        ["line", "7"],
        ["reason", "not", "a", "number"],
    ]
    assert "0190e6b800000001" in shown
    assert shown.splitlines()[-1].strip() == "… and more"


def test_wide_shows_everything_whatever_the_terminal_is() -> None:
    page = (tabulate(("~file", "?action"), [(PATH.format(1), "run")]), Line(Cell("a b " * 40)))
    stream = io.StringIO()
    draw(page, console_for(stream, colour=False, wide=True))
    assert [line.rstrip() for line in stream.getvalue().splitlines()] == list(map(str.rstrip, to_lines(page)))
    assert max(map(len, stream.getvalue().splitlines())) < 200


def test_wide_letters_take_their_room() -> None:
    name = "日付=2026/時=15/データファイル-00000001.ndjson.gz"
    text = drawn((tabulate(("~file", ">rows"), [(name, 1)]),), 40)
    assert max(map(cell_len, text.splitlines())) <= 40
    assert "01.ndjson.gz" in text


def test_a_missing_value_is_a_dash_and_zero_is_not() -> None:
    assert [cell(None).text, cell("").text, cell(0).text] == ["-", "-", "0"]


def test_escape_sequences_and_markup_in_names_have_no_effect() -> None:
    page = (Heading("[bold]h\x1b[0m"), Line(Cell("[red]a\x1b[2J")), Facts((("k", Cell("[/]")),)))
    expected = ["[bold]h\\x1b[0m", "  [red]a\\x1b[2J", "  k  [/]"]
    assert list(to_lines(page)) == expected
    assert [line.rstrip() for line in drawn(page).splitlines()] == expected


def test_without_colour_nothing_but_text_is_drawn() -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Screen()
    draw((Heading("Title"), Line(Cell("bad", Style.BAD))), console_for(screen, colour=False))
    assert "\x1b" not in screen.getvalue()
