"""Excel sheets as lines: what their cells mean, and what is refused."""

from __future__ import annotations

import io
import json
import zipfile
from datetime import date, datetime, time
from typing import Any

import pytest
from openpyxl import Workbook  # type: ignore[import-untyped]  # it has no types

from support.errors import raises
from tidegate.errors import SourceError
from tidegate.formats import excel
from tidegate.formats.excel import sheet_lines


def book(rows: list[list[Any]], title: str = "data") -> io.BytesIO:
    made = Workbook()
    sheet = made.active
    assert sheet is not None
    sheet.title = title
    for row in rows:
        sheet.append(row)
    made.create_sheet("other").append(["x"])
    content = io.BytesIO()
    made.save(content)
    content.seek(0)
    return content


def lines(content: io.BytesIO, sheet: str | None = None, zone: str = "UTC") -> list[Any]:
    return [json.loads(line) if line else None for line in sheet_lines(content, "a.xlsx", sheet, zone, {"day"})]


def test_cells_keep_their_types_and_times_get_their_zone() -> None:
    rows = [["id", "at", "day", "ok", "note"], [1, datetime(2026, 7, 1, 12), date(2026, 7, 1), True, "ü"], [2.5]]
    found = lines(book([*rows, [None], [3, None, None, None, time(10, 20)]]), zone="Europe/Berlin")
    assert found[0] == {"id": 1, "at": "2026-07-01T10:00:00Z", "day": "2026-07-01", "ok": True, "note": "ü"}
    assert found[1:] == [{"id": 2.5}, None, {"id": 3, "note": "10:20:00"}]


def test_the_first_sheet_is_read_or_the_named_one() -> None:
    content = book([["id"], [1]])
    assert lines(content, "data") == [{"id": 1}]
    assert lines(content, "other") == []
    with raises(SourceError, "a.xlsx", "'sales'", "data, other"):
        lines(content, "sales")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([["id", "id"], [1, 2]], "a.xlsx … 'id' … twice"),
        ([["id", None], [1, 2]], "a.xlsx … row 2 … column name"),
        ([["id"], [1], [1, 2]], "a.xlsx … row 3 … column name"),
    ],
)
def test_cells_without_a_column_of_their_own_are_refused(rows: list[list[Any]], said: str) -> None:
    with raises(SourceError, said):
        lines(book(rows))


def forged(cell: bytes, place: bytes = b"<v>1</v>") -> io.BytesIO:
    """A workbook with one number, whose sheet was changed by hand."""
    whole, content = zipfile.ZipFile(book([["id"], [1]])), io.BytesIO()
    with zipfile.ZipFile(content, "w") as parts:
        for name in whole.namelist():
            part = whole.read(name)
            parts.writestr(name, part.replace(place, cell) if name.endswith("sheet1.xml") else part)
    return content


def placed(reference: str) -> io.BytesIO:
    """A workbook whose number stands elsewhere."""
    row = reference.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ") or "2"
    return forged(f'<row r="{row}"><c r="{reference}"'.encode(), b'<row r="2"><c r="A2"')


def test_a_number_beyond_64_bits_keeps_its_digits() -> None:
    found = list(sheet_lines(forged(b"<v>123456789012345678901234567890</v>"), "a.xlsx", None, "UTC"))
    assert found == [b'{"id":123456789012345678901234567890}']


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (forged(b"<v>1E400</v>"), "a.xlsx … row 2 … number … large"),
        (forged(b"<v>-1E400</v>"), "a.xlsx … row 2 … number … large"),
        (book([["id"], [datetime(9999, 12, 31, 23)]]), "a.xlsx … row 2 … date"),
    ],
)
def test_a_value_that_no_column_can_hold_is_named_and_not_bent(content: io.BytesIO, said: str) -> None:
    with raises(SourceError, said):
        lines(content, zone="America/New_York")


def test_a_row_with_a_number_beyond_every_sheet_costs_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows before it would be given, empty."""
    monkeypatch.setattr(excel, "MOST_ROWS", 1000)
    assert len(lines(placed("A1000"))) == 999
    with raises(SourceError, "a.xlsx", "xl/worksheets/sheet1.xml", "1,000 rows"):
        lines(placed("A1048576000"))


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("A1048577", "1,048,576 rows"),
        ("XFE2", "16,384 columns"),
        ("ZZZZZZZZZZ2", "'ZZZZZZZZZZ2'"),
        ("A99999999999999999999", "'A99999999999999999999'"),
        ("XFD1048576", "1,048,576 rows … 16,384 columns … 16,777,216 cells"),
        ("Q1048576", "1,048,576 rows … 17 columns … 16,777,216 cells"),
    ],
)
def test_a_cell_far_away_is_refused_before_all_between_are_held(reference: str, said: str) -> None:
    with raises(SourceError, said):
        lines(placed(reference))


def test_millions_of_empty_cells_cost_nothing() -> None:
    empty = b"".join(b'<c r="%s%d" s="1"/>' % (column, row) for row in (7, 1048576) for column in (b"A", b"XFD"))
    whole = forged(b'<c r="A2" t="n"><v>1</v></c></row><row r="1048576">' + empty, b'<c r="A2" t="n"><v>1</v></c>')
    assert lines(whole) == [{"id": 1}]


def test_a_shared_text_counts_wherever_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(excel, "LARGEST_TEXT", 1000)
    texts = b'<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><si><t>%s</t></si></sst>' % (
        b"x" * 100
    )
    cells = [b'<row r="%d"><c r="A%d" t="s"><v>0</v></c></row>' % (row, row) for row in range(3, 13)]
    few, many = (
        forged(b"</row>" + b"".join(cells[:count]) + b"</sheetData>", b"</row></sheetData>") for count in (9, 10)
    )
    assert lines(with_part("xl/sharedStrings.xml", texts, few))[1:] == [{"id": "x" * 100}] * 9
    with raises(SourceError, "xl/worksheets/sheet1.xml", "1,000 characters"):
        lines(with_part("xl/sharedStrings.xml", texts, many))


def test_an_error_is_kept_as_the_text_that_it_shows() -> None:
    assert lines(forged(b'<c r="A2" t="e"><v>#DIV/0!</v></c>', b'<c r="A2" t="n"><v>1</v></c>')) == [{"id": "#DIV/0!"}]


def test_a_number_that_no_fraction_holds_exactly_keeps_its_digits() -> None:
    assert lines(forged(b"<v>9007199254740993</v>")) == [{"id": 9007199254740993}]
    assert lines(forged(b"<v>1E+20</v>")) == [{"id": 1e20}]
    assert list(sheet_lines(forged(b"<v>2.0</v>"), "a.xlsx", None, "UTC")) == [b'{"id":2}']


def test_the_unpacked_size_that_a_part_declares_is_all_that_is_unpacked() -> None:
    content = with_part(HELD, b"<styleSheet>" + bytes(1024**2)).getvalue()
    lying = content.replace((1024**2 + 12).to_bytes(4, "little"), (12).to_bytes(4, "little"))
    with raises(SourceError, "a.xlsx", "xl/styles.xml", "CRC-32"):
        lines(io.BytesIO(lying))


def test_a_sheet_begins_where_its_first_cell_is() -> None:
    with raises(SourceError, "a.xlsx", "row 2", "column name"):
        lines(book([[None, None], [None, "id"], [None, 3]]))
    assert lines(book([[None, "id"], [None, 3]])) == [{"id": 3}]
    cells = b'<row r="2"><c><v>7</v></c></row><row><c t="n"><v>12345678901234567890</v></c></row>'
    assert lines(forged(cells, b'<row r="2"><c r="A2" t="n"><v>1</v></c></row>')) == [
        {"id": 7},
        {"id": 12345678901234567890},
    ]


def test_what_is_no_workbook_is_named() -> None:
    with raises(SourceError, "a.xlsx", "Excel workbook"):
        lines(io.BytesIO(b"id,at\n1,2\n"))


def with_part(name: str, content: bytes, whole: io.BytesIO | None = None) -> io.BytesIO:
    """A workbook, one of whose parts is replaced or added."""
    packed = io.BytesIO()
    with (
        zipfile.ZipFile(whole or book([["id"], ["x"]])) as before,
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as after,
    ):
        for part in before.infolist():
            if part.filename != name:
                after.writestr(part.filename, before.read(part))
        after.writestr(name, content)
    packed.seek(0)
    return packed


HELD, SHEET = "xl/styles.xml", "xl/worksheets/sheet1.xml"


@pytest.mark.parametrize("name", [HELD, SHEET])
def test_a_part_that_unpacks_to_far_more_than_it_is_is_refused_before_it_is_unpacked(name: str) -> None:
    with raises(SourceError, "a.xlsx", name, "83,886,080 bytes", "200 times"):
        lines(with_part(name, bytes(80 * 1024**2)))


def test_a_part_that_is_held_in_memory_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(excel, "LARGEST_PART", 1024**2)
    with raises(SourceError, "xl/styles.xml", "2,097,152 bytes", "1 MiB"):
        lines(with_part(HELD, bytes(2 * 1024**2)))


@pytest.mark.parametrize("name", [HELD, SHEET])
def test_entities_that_stand_for_ever_more_text_are_refused(name: str) -> None:
    entities = "".join(f'<!ENTITY e{n} "{"".join(f"&e{n - 1};" for _ in range(10))}">' for n in range(1, 12))
    text = f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e0 "{"ha" * 50}">{entities}]><x>&e11;</x>'
    with raises(SourceError, "a.xlsx", "document type"):
        lines(with_part(name, text.encode()))


@pytest.mark.parametrize("content", [b"", b"<a>", b"<worksheet><sheetData><row><c><v>1</v></c>"])
def test_a_damaged_sheet_is_named(content: bytes) -> None:
    with raises(SourceError, "a.xlsx", "xl/worksheets/sheet1.xml"):
        lines(with_part(SHEET, content))
