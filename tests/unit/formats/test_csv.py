"""CSV text as records and cells, against the parser of the standard library."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.errors import raises
from support.long_runs import examples
from tidegate.core.files.plan import FileSlice
from tidegate.formats.csv import CsvDialect, CsvFormat, RecordBlock, record_blocks
from tidegate.formats.json import LineTooLong
from tidegate.formats.strict_lines import BadLine, RecordRules
from tidegate.specs.columns import CsvOptions
from tidegate.specs.files import Compression
from tidegate.specs.table import FieldSpec

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


@pytest.mark.parametrize("beside", ["", "2,x\\y\n"])
@pytest.mark.parametrize(
    ("written", "cell"),
    [('"a""\nb"', 'a"\nb'), ('"a\\"b"', 'a"b'), ('"a\\""', 'a"'), ('"""a\\\\"', '"a\\'), ('""', "")],
)
def test_with_an_escape_doubled_quotes_are_read_as_the_standard_library_does(
    written: str, cell: str, beside: str
) -> None:
    dialect, text = CsvDialect(",", '"', "\\"), f"1,{written}\n{beside}"
    expected = list(csv.reader(io.StringIO(text, newline=""), escapechar="\\"))
    assert expected[0] == ["1", cell]
    found = [dialect.cells(record) for record in records(text.encode(), dialect)]
    assert [[each.decode() for each, _ in cells] for cells in found] == expected


def test_an_escape_that_is_the_quote_means_that_quotes_are_doubled() -> None:
    dialect = CsvDialect(",", '"', '"')
    assert dialect.cells(b'1,"a""b",c') == COMMA.cells(b'1,"a""b",c')


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
        assert at_once.tolist() == COMMA._find_ends_one_by_one(text.encode()).tolist()


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
        (b'a,"b"c', "cell 2 … behind … quote"),
        (b'a,"b', "cell 2 … quote … not closed"),
        (b"a\rb,c", "carriage return"),
    ],
)
def test_a_malformed_record_says_why(record: bytes, problem: str) -> None:
    with raises(BadLine, problem):
        COMMA.cells(record)


def test_a_quote_that_is_never_closed_makes_one_record_of_the_rest() -> None:
    assert records(b'a,b\n"c,d\ne,f\n') == [b"a,b", b'"c,d\ne,f']


def test_without_quotes_every_line_is_a_record() -> None:
    plain = CsvDialect("|", None, None)
    assert records(b'a|"b\n"c|d\n', plain) == [b'a|"b', b'"c|d']
    assert plain.cells(b'a|"b') == [(b"a", False), (b'"b', False)]


def test_a_record_that_never_ends_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.formats.csv.LONGEST_LINE", 100)
    taken = 0

    def endless() -> Iterator[bytes]:
        nonlocal taken
        yield b'"'
        while True:
            taken += 10
            yield b"x" * 10

    with pytest.raises(LineTooLong):
        list(record_blocks(endless(), COMMA, block_bytes=8))
    assert taken <= 110


def test_many_short_records_come_in_parts() -> None:
    text = b"a\n" * 150_000 + b'"b\n"\n' * 100_000
    found = list(record_blocks([text], COMMA))
    assert [len(block.ends) for block in found] == [100_000, 100_000, 50_000]
    assert b"".join(block.text[: block.ends[-1]] for block in found) == text


class Pieces(io.BytesIO):
    """A file that gives its content in pieces of some sizes, the last of which goes on."""

    def __init__(self, content: bytes, sizes: list[int]) -> None:
        super().__init__(content)
        self._sizes = sizes

    def read(self, size: int | None = -1) -> bytes:
        return super().read(self._sizes.pop(0) if len(self._sizes) > 1 else self._sizes[0])


PLAIN = CsvOptions(header=False)
DIALECTS = [
    CsvOptions(header=False, delimiter=",", quote=quote, escape=escape)
    for quote in ('"', None)
    for escape in (None, "\\")
]


def outcome(
    content: bytes, sizes: list[int], block_bytes: int, longest: int, start: int = 0, options: CsvOptions = PLAIN
) -> Any:
    """What comes of a file: rows and bad records by their numbers, how many records, and whether one is too long."""
    rules = RecordRules((FieldSpec("i", "int64"), FieldSpec("s", "string")))
    rows: list[Any] = []
    bad: list[Any] = []
    count = start
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidegate.formats.csv.LONGEST_LINE", longest)
        patch.setattr("tidegate.formats.csv.record_blocks", partial(record_blocks, block_bytes=block_bytes))
        format = CsvFormat(rules, options, Compression.NONE)
        try:
            for each in format.read(Pieces(content, [*sizes]), FileSlice("a.csv", len(content), start_record=start)):
                offsets = range(each.lines) if each.offsets is None else each.offsets.tolist()
                rows += [(count + place, row) for place, row in zip(offsets, each.batch.to_pylist(), strict=True)]
                bad += [(count + one.offset, one.reason, one.text) for one in each.rejected]
                count += each.lines
        except LineTooLong:
            return rows, bad, count, True
    return rows, bad, count, False


@settings(max_examples=examples(5000, 150))
@given(
    content=st.lists(
        st.sampled_from(
            [b"1,a", b"x,a", b"1,", b'2,"a\n,b"', b'3,"', b'"', b"\n", b"\n", b"\r\n", b"\r", b"1,\xff", b"\\"]
        )
        | st.integers(0, 30).map(lambda size: b"4," + b"y" * size),
        max_size=12,
    ).map(b"".join),
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=5),
    block_bytes=st.integers(1, 60),
    longest=st.integers(1, 30),
    options=st.sampled_from(DIALECTS),
)
@example(content=b"1,a\n4,yyyyyyyyyy\n1,a\n", sizes=[5, 1], block_bytes=4, longest=11, options=PLAIN)
@example(content=b"1,a\n4,yyyyyyyyyy\n1,a\n", sizes=[5, 1], block_bytes=4, longest=12, options=PLAIN)
@example(content=b'1,a\n3,"yyyyyyyyy\n', sizes=[40], block_bytes=60, longest=12, options=PLAIN)
@example(content=b'1,a\n3,"yyyyyyyyy\n', sizes=[1], block_bytes=1, longest=11, options=PLAIN)
@example(content=b'1,"a""\nb"\n2,x\\y\n', sizes=[12, 40], block_bytes=4, longest=30, options=DIALECTS[1])
def test_a_record_is_too_long_by_its_own_length_however_its_file_arrives(
    content: bytes, sizes: list[int], block_bytes: int, longest: int, options: CsvOptions
) -> None:
    whole = [len(record) for record in _with_returns(content, options)]
    first = next((number for number, length in enumerate(whole) if length > longest), None)
    expected = outcome(content, [len(content) + 1], 1 << 20, longest, options=options)
    rows, bad, count, is_too_long = expected
    assert (count, is_too_long) == ((len(whole), False) if first is None else (first, True))
    assert outcome(content, sizes, block_bytes, longest, options=options) == expected
    for start in range(1, count + 1):
        tail = [[each for each in some if each[0] >= start] for some in (rows, bad)]
        assert outcome(content, sizes, block_bytes, longest, start, options) == (*tail, count, is_too_long)


def _with_returns(content: bytes, options: CsvOptions) -> list[bytes]:
    """The records without their line ends, a carriage return before one included."""
    dialect = CsvDialect(",", options.quote, options.escape)
    (block,) = list(record_blocks([content], dialect)) or [RecordBlock(b"", np.empty(0, np.int64), True)]
    bounds = itertools.pairwise([0, *block.ends.tolist()])
    return [block.text[start : end - 1] for start, end in bounds]
