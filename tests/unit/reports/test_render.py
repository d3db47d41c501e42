"""Pages become HTML in which no text from outside is markup, and every report describes itself."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest

from tidegate.reports.page import Cell, Column, Facts, Gap, Heading, Line, Page, Style, Table, facts, names, table
from tidegate.reports.render import to_html, to_lines
from tidegate.reports.report import ChangeReport, Report, Sections, View, to_json
from tidegate.reports.status import COLUMNS
from tidegate.specs.masking import Mask, remember, remember_masks
from unit.cli import standin

HOSTILE = """<script>alert("x")</script>'&amp;" onload='y' \x1b[31m\x00"""
VOID = {"br", "hr", "img"}


class Reading(HTMLParser):
    """Reads HTML strictly: elements are closed in order; keeps tags, attributes and text."""

    def __init__(self, markup: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(markup)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip() and "style" not in self.open:
            self.texts.append(data.strip())


PAGE: Page = (
    Heading("Title"),
    Facts((("a", Cell("1")), ("state", Cell("Active", Style.GOOD)))),
    Gap(),
    Table((Column("name"), Column("files", right=True)), ((Cell("x"), Cell("1,200", Style.BAD)),), "… and 2 more"),
    Line(Cell("careful", Style.WARN), "note"),
)


def test_html_has_semantic_elements_with_the_meaning_of_a_text_as_class() -> None:
    assert to_html(PAGE).splitlines() == [
        '<div class="tidegate">',
        "<h3>Title</h3>",
        "<dl>",
        "<dt>a</dt><dd>1</dd>",
        '<dt>state</dt><dd class="good">Active</dd>',
        "</dl>",
        "<table>",
        '<thead><tr><th>name</th><th class="right">files</th></tr></thead>',
        "<tbody>",
        '<tr><td>x</td><td class="bad right">1,200</td></tr>',
        "</tbody>",
        "</table>",
        '<p class="footnote">… and 2 more</p>',
        '<p class="warn"><span class="label">note:</span> careful</p>',
        "</div>",
    ]


def test_hostile_text_is_text_wherever_it_stands() -> None:
    hostile = Cell(HOSTILE)
    page: Page = (
        Heading(HOSTILE),
        facts((HOSTILE, hostile)),
        Table((Column(HOSTILE),), ((hostile,),), HOSTILE),
        Line(hostile, HOSTILE),
    )
    html = to_html(page)
    read = Reading(html)
    assert set(read.tags) == {"div", "h3", "dl", "dt", "dd", "table", "thead", "tbody", "tr", "th", "td", "p", "span"}
    assert {name for name, _ in read.attributes} == {"class"}
    assert "<script" not in html
    assert "\x1b" not in html
    assert "\x00" not in html
    assert sum('<script>alert("x")</script>' in text for text in read.texts) == 8


def test_html_shows_the_same_words_in_the_same_order_as_plain_lines() -> None:
    assert " ".join(Reading(to_html(PAGE)).texts).split() == " ".join(to_lines(PAGE)).split()


REPORTS = {name: value for name, value in standin.RESULTS.items() if isinstance(value, Report)}
REPORTS |= {
    f"{name}[0]": value[0]
    for name, value in standin.RESULTS.items()
    if isinstance(value, tuple) and value and isinstance(value[0], Report)
}


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_has_json_and_a_page_and_html(name: str) -> None:
    report = REPORTS[name]
    assert json.loads(json.dumps(report.to_json())) == report.to_json()
    words = " ".join(to_lines(report.page())).split()
    assert words
    assert " ".join(Reading(report._repr_html_()).texts).split() == words


@pytest.mark.parametrize(
    "report",
    [each for each in REPORTS.values() if isinstance(each, ChangeReport)],
    ids=lambda each: type(each).__name__,
)
def test_a_change_shows_its_consequences_and_then_its_outcome(report: ChangeReport) -> None:
    view = View()
    assert report.page() == (*report.consequences(view), *report.outcome(view))
    assert tuple(report.outcome(view))


def test_a_part_of_a_report_shows_its_fields() -> None:
    assert [line.split() for line in to_lines(standin.FAILED.page())] == [
        ["path", standin.FAILED.path],
        ["reason", "line", "3:", "not", "JSON"],
        ["attempts", "2"],
    ]


def test_a_notebook_shows_no_secret() -> None:
    with remember_masks():
        remember(Mask.of("s3cr3t-of-the-lake"))
        report = Sections("checks", (), "the key is s3cr3t-of-the-lake")
        assert "s3cr3t" not in report._repr_html_()


def test_a_new_column_is_one_line() -> None:
    columns = {**COLUMNS, "?>position": lambda status: status.version}
    shown = table(columns, standin.STATUS)
    assert (shown.columns[-1], shown.rows[0][-1]) == (Column("position", right=True, spare=True), Cell("12"))


def test_several_reports_of_one_kind_are_sections_under_their_key() -> None:
    several = Sections("checks", standin.CHECKS)
    assert list(several.to_json()) == ["checks"]
    assert Gap() in several.page()
    assert Gap() not in Sections("checks", standin.CHECKS, apart=False).page()
    assert list(to_lines(Sections("checks", (), "none").page())) == ["  none"]


def test_names_beyond_the_limit_are_counted() -> None:
    assert names(["a", "b", "c"], 1) == "a and 2 more"
    assert names([], 3) == ""


def test_values_of_other_layers_have_json_by_their_fields() -> None:
    assert to_json({1: (View(),)}) == {"1": [{"verbose": False, "width": 100, "config": "CONFIG"}]}
