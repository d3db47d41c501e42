"""CSV text as records and cells, against the parser of the standard library."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidegate.formats.csv import CsvDialect, RecordBlock, record_blocks
from tidegate.formats.json import LineTooLong
from tidegate.formats.strict_lines import BadLine

COMMA = CsvDialect(",", '"', None)
ESCAPED = CsvDialect(";", "'", "\\")
CELLS = st.text(st.sampled_from("ab,;\"'\\\n\r é"), max_size=6)
TABLES = st.lists(st.lists(CELLS, min_size=2, max_size=3), max_size=6)


def blocks(text: bytes, dialect: CsvDialect, step: int, block_bytes: int = 8) -> Iterator[RecordBlock]:
    chunks = (text[start : start + step] for start in range(0, len(text), step))
    return record_blocks(chunks, dialect, block_bytes=block_bytes)


def records(text: bytes, dialect: CsvDialect = COMMA, step: int = 1 << 20) -> list[bytes]:
    found = []
    for block in blocks(text, dialect, step):
        start = 0
        for end in block.ends.tolist():
            found.append(block.text[start:end].removesuffix(b"\n").removesuffix(b"\r"))
            start = end
    return found


@settings(deadline=None)
@given(TABLES, st.integers(1, 30), st.sampled_from(["\n", "\r\n"]))
def test_what_the_standard_library_writes_is_read(table: list[list[str]], step: int, end: str) -> None:
    written = io.StringIO()
    quoting = csv.QUOTE_ALL if end == "\n" else csv.QUOTE_MINIMAL  # else it leaves carriage returns without quotes
    csv.writer(written, lineterminator=end, quoting=quoting).writerows(table)
    found = [COMMA.cells(record) for record in records(written.getvalue().encode(), step=step)]
    assert [[cell.decode() for cell, _ in cells] for cells in found] == table


@settings(deadline=None)
@given(TABLES, st.integers(1, 30))
def test_escaped_quotes_are_read(table: list[list[str]], step: int) -> None:
    written = io.StringIO()
    style = {"delimiter": ";", "quotechar": "'", "escapechar": "\\", "doublequote": False}
    csv.writer(written, lineterminator="\n", quoting=csv.QUOTE_ALL, **style).writerows(table)  # type: ignore[call-overload]
    found = [ESCAPED.cells(record) for record in records(written.getvalue().encode(), ESCAPED, step)]
    assert [[cell.decode() for cell, _ in cells] for cells in found] == table


@settings(deadline=None)
@given(st.text(st.sampled_from('a,"\n'), max_size=20), st.integers(1, 5))
@example('a,b"c\n"d\ne",f\n', 3)
def test_any_text_is_split_as_the_standard_library_reads_it(text: str, step: int) -> None:
    """A quote inside a plain cell is a character; the reader there drops blank lines and forgives what we refuse."""
    expected = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    found: list[list[str] | None] = []
    for record in records(text.encode(), step=step):
        try:
            found.append([cell.decode() for cell, _ in COMMA.cells(record)])
        except BadLine:
            found.append(None)
    found = [row for row, record in zip(found, records(text.encode(), step=step), strict=True) if record]
    assert len(found) == len(expected)
    assert all(row is None or row == other for row, other in zip(found, expected, strict=True))


@settings(deadline=None)
@given(st.text(st.sampled_from('a,"\n'), max_size=30))
def test_at_once_and_one_by_one_agree(text: str) -> None:
    at_once = COMMA.neat_ends(text.encode())
    if at_once is not None:
        assert at_once.tolist() == COMMA._ends_one_by_one(text.encode()).tolist()


@settings(deadline=None)
@given(st.text(st.sampled_from('a,"\n\r'), max_size=30), st.integers(1, 9))
@example('a,"b"\n\n"c\n",""""\n"d', 4)
def test_any_records_of_a_neat_block_are_neat(text: str, step: int) -> None:
    for block in blocks(text.encode(), COMMA, step):
        bounds = [0, *block.ends.tolist()]
        for first, last in itertools.combinations(bounds if block.is_neat else [], 2):
            assert COMMA.neat_ends(block.text[first:last]) is not None


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (b'a,"b"c', "cell 2 goes on behind its closing quote"),
        (b'a,"b', "cell 2 has a quote that is not closed"),
        (b"a\rb,c", "a carriage return outside quotes"),
    ],
)
def test_a_malformed_record_says_why(record: bytes, problem: str) -> None:
    with pytest.raises(BadLine, match=problem):
        COMMA.cells(record)


def test_a_quote_that_is_never_closed_makes_one_record_of_the_rest() -> None:
    assert records(b'a,b\n"c,d\ne,f\n') == [b"a,b", b'"c,d\ne,f']


def test_without_quotes_every_line_is_a_record() -> None:
    plain = CsvDialect("|", None, None)
    assert records(b'a|"b\n"c|d\n', plain) == [b'a|"b', b'"c|d']
    assert plain.cells(b'a|"b') == [(b"a", False), (b'"b', False)]


def test_a_record_that_never_ends_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.formats.csv.LONGEST_LINE", 100)
    with pytest.raises(LineTooLong):
        list(blocks(b'"' + b"x" * 1000, COMMA, 10))
