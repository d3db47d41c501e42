"""Pages become HTML in which no text from outside is markup, and every report describes itself."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import pytest

from support.html import Reading
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
    chart,
    facts,
    names,
    table,
)
from tidegate.reports.render import to_document, to_html, to_lines
from tidegate.reports.report import ChangeReport, Report, Sections, View, to_json
from tidegate.reports.status import COLUMNS
from tidegate.specs.masking import Mask, remember, remember_masks
from unit.cli import standin

HOSTILE = """<script>alert("x")</script>'&amp;" onload='y' \x1b[31m\x00"""
BARS = "▁▂▃▄▅▆▇█✖?"


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


def test_a_document_is_whole_and_needs_nothing_from_elsewhere() -> None:
    bars = (Bar(f"Mon: {HOSTILE}", 0.5), Bar("Tue", None), Bar("Wed", 0.0, Style.BAD))
    moment = datetime(2026, 1, 28, 15, tzinfo=timezone(timedelta(hours=1)))
    panel = Panel((Heading(HOSTILE, 2), facts(("days", chart(bars, HOSTILE)), ("at", moment))), Style.BAD)
    page: Page = (Heading("Title", 1), panel, Line(Cell(f"tidegate run {HOSTILE}", Style.CODE)))
    html = to_document(page, HOSTILE)
    read = Reading(html)
    assert html.startswith("<!doctype html>\n<html lang=")
    assert {"h1", "h2", "section", "svg", "rect", "time", "code"} <= set(read.tags)
    assert not {"script", "link", "img", "a", "iframe", "object"} & set(read.tags)
    assert not {name for name, _ in read.attributes if name.startswith(("on", "href", "src", "style"))}
    assert "http:" not in html
    assert "https:" not in html
    assert "url(" not in html
    assert ("datetime", "2026-01-28T14:00:00Z") in read.attributes
    assert ("content", "width=device-width, initial-scale=1") in read.attributes
    assert "prefers-color-scheme: dark" in html


def test_a_chart_is_a_line_of_bars_in_text_and_a_drawing_with_labels_in_html() -> None:
    bars = (
        Bar("Mon: 0", 0.0),
        Bar("Tue: 1", 0.01),
        Bar("Wed: 9", 1.0),
        Bar("Thu: -", None),
        Bar("Fri", 0.0, Style.BAD),
    )
    cell = chart(bars, "10 rows")
    assert cell.text == "▁▂█?✖ 10 rows"
    html = to_html((facts(("rows", cell)),))
    assert html.count("<rect") == 5
    assert "<title>Wed: 9</title>" in html
    assert 'aria-label="Mon: 0; Tue: 1; Wed: 9; Thu: -; Fri"' in html
    assert Reading(html).texts == ["rows", "10 rows"]


def test_html_shows_the_same_words_in_the_same_order_as_plain_lines() -> None:
    assert " ".join(Reading(to_html(PAGE)).texts).split() == " ".join(to_lines(PAGE)).split()


REPORTS = {name: value for name, value in standin.RESULTS.items() if isinstance(value, Report)}
REPORTS |= {
    f"{name}[0]": value[0]
    for name, value in standin.RESULTS.items()
    if isinstance(value, tuple) and value and isinstance(value[0], Report)
}


def without_bars(text: str) -> list[str]:
    return [word for word in text.split() if not set(word) <= set(BARS)]


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_has_json_and_a_page_and_html(name: str) -> None:
    report = REPORTS[name]
    assert json.loads(json.dumps(report.to_json())) == report.to_json()
    words = without_bars(" ".join(to_lines(report.page())))
    assert words
    assert without_bars(" ".join(Reading(report._repr_html_()).texts)) == words


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
