"""Lines of JSON files: nothing lost at the seams of blocks, and every element of an array is one line."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.errors import raises
from tidegate.core.files.plan import FileSlice
from tidegate.errors import SourceError
from tidegate.formats import json as lines_module
from tidegate.formats.json import (
    Decoder,
    LineFormat,
    LineTooLong,
    blocks,
    element_lines,
    skip_lines,
    strip_byte_order_mark,
)
from tidegate.formats.strict_lines import RecordRules
from tidegate.specs.files import Compression, Format
from tidegate.specs.table import FieldSpec

pytestmark = pytest.mark.usefixtures("each_reader")

CHUNKS = st.lists(st.binary(max_size=12), max_size=12)


@given(CHUNKS, st.integers(1, 20))
def test_blocks_are_whole_lines_and_together_the_content(chunks: list[bytes], size: int) -> None:
    content = b"".join(chunks)
    found = list(blocks(chunks, block_bytes=size))
    assert all(block.endswith(b"\n") for block in found)
    assert b"".join(found) == (content if content.endswith(b"\n") or not content else content + b"\n")


@given(CHUNKS, st.integers(1, 20), st.integers(0, 10))
def test_skipping_leaves_exactly_the_later_lines(chunks: list[bytes], size: int, count: int) -> None:
    whole = b"".join(blocks(chunks, block_bytes=size))
    expected = whole.split(b"\n")[:-1]
    parts = skip_lines(blocks(chunks, block_bytes=size), count, "f")
    if count > len(expected):
        with raises(SourceError, "f", f"{len(expected)} lines", count):
            list(parts)
    else:
        assert b"".join(parts).split(b"\n")[:-1] == expected[count:]


@pytest.mark.parametrize("chunks", [[b"\xef\xbb\xbf{}\n"], [b"\xef", b"\xbb", b"\xbf", b"{}"], [b"\xef\xbb\xbf"]])
def test_a_byte_order_mark_is_dropped(chunks: list[bytes]) -> None:
    assert b"".join(blocks(strip_byte_order_mark(chunks))) in (b"{}\n", b"")


def test_a_mark_inside_an_array_is_no_part_of_a_record() -> None:
    (found,) = array_format().read(io.BytesIO(b'\xef\xbb\xbf[\xef\xbb\xbf{"i":1},{"i":2}]'), FileSlice("a.json", 24))
    assert [each.text for each in found.rejected] == [b'\xef\xbb\xbf{"i":1}']


def test_a_line_that_never_ends_is_an_error_before_memory_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "LONGEST_LINE", 1000)
    with pytest.raises(LineTooLong):
        list(blocks((b"x" * 100 for _ in range(1_000_000)), block_bytes=200))


def array_format() -> LineFormat:
    fields = (FieldSpec("i", "int64"), FieldSpec("s", "string"))
    return LineFormat(Decoder(RecordRules(fields)), Format.JSON, Compression.NONE)


def test_an_element_that_never_ends_is_an_error_before_memory_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "LONGEST_LINE", 5_000_000)
    raw = io.BytesIO(b'[{"i":1},{"s":"' + b"x" * 20_000_000)
    with pytest.raises(LineTooLong):
        list(array_format().read(raw, FileSlice("a.json", 20_000_015)))


@pytest.mark.slow
@pytest.mark.parametrize("start", [0, 1])
def test_blanks_between_elements_are_no_part_of_them(start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "LONGEST_LINE", 3_000_000)
    many = b" \n" * 4_500_000
    whole = b'[{"i":1}' + many + b"," + many + b'{"i":2}' + many + b"," + b"1 " * 2_900_000 + b"]"
    read = list(array_format().read(io.BytesIO(whole), FileSlice("a.json", len(whole), start_record=start)))
    assert pa.Table.from_batches([each.batch for each in read])["i"].to_pylist() == [1, 2][start:]
    (bad,) = [one for each in read for one in each.rejected]
    assert (bad.text, bad.reason) == (b"1" * 2_900_000, "not an object but a number")


@pytest.mark.parametrize("start", [0, 1, 4000])
@pytest.mark.parametrize("size", [5_000_000, 5_000_001])
def test_the_longest_element_is_as_long_wherever_reading_begins(
    size: int, start: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines_module, "LONGEST_LINE", 5_000_000)
    small, large = (b'{"s":"%b"}' % (b"x" * (length - 8)) for length in (1000, size))
    whole = b"[" + b",".join([*[small] * 4000, large, *[small] * 7000]) + b"]"
    count, is_too_long = start, False
    try:
        for each in array_format().read(io.BytesIO(whole), FileSlice("a.json", len(whole), start_record=start)):
            count += each.lines
    except LineTooLong:
        is_too_long = True
    assert (count, is_too_long) == ((4000, True) if size > 5_000_000 else (11_001, False))


@pytest.mark.slow
@pytest.mark.parametrize("start", [0, 7])
def test_many_tiny_bad_elements_come_in_parts(start: int) -> None:
    whole = b"[" + b"," * 250_000 + b'{"i":1}]'
    read = list(array_format().read(io.BytesIO(whole), FileSlice("a.json", len(whole), start_record=start)))
    assert [each.lines for each in read] == [100_000 - start, 100_000, 50_001]
    assert sum(len(each.rejected) for each in read) == 250_000 - start
    assert (read[-1].batch.to_pylist(), read[-1].offsets) == ([{"i": 1, "s": None}], [50_000])


def test_many_short_lines_come_in_parts() -> None:
    chunks = [b"{}\n" * 99_999 + b"x", b"y\n" + b"\n" * 100_000 + b"z"]
    assert list(blocks(chunks)) == [chunks[0] + b"y\n", b"\n" * 100_000, b"z\n"]


@pytest.mark.slow
@pytest.mark.parametrize("start", [0, 3])
def test_an_array_of_several_blocks_is_read_whole_or_from_a_record_on(
    start: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    elements = [json.dumps({"i": number if number % 9 else "x", "s": "é" * 40}) for number in range(40_000)]
    whole = f"[{', '.join(elements)}]".encode()
    read = list(array_format().read(io.BytesIO(whole), FileSlice("a.json", len(whole), start_record=start)))
    assert len(read) > 1
    assert sum(each.lines for each in read) == 40_000 - start
    found = pa.Table.from_batches([each.batch for each in read])
    assert found["i"].to_pylist() == [number for number in range(start, 40_000) if number % 9]
    bad = [one.text for each in read for one in each.rejected]
    assert bad == [elements[number].encode() for number in range(start, 40_000) if number % 9 == 0]
    monkeypatch.setattr(Decoder, "reads_elements", False)
    again = array_format().read(io.BytesIO(whole), FileSlice("a.json", len(whole), start_record=start))
    assert pa.Table.from_batches([each.batch for each in again]).equals(found)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


def pieces(text: bytes, size: int) -> Iterator[bytes]:
    return (text[start : start + size] for start in range(0, len(text), size))


def lines(text: bytes, size: int = 1 << 20) -> list[bytes]:
    whole = b"".join(element_lines(pieces(text, size), "a.json"))
    return whole.removesuffix(b"\n").split(b"\n") if whole else []


@settings(deadline=None)
@given(st.lists(VALUES, max_size=6), st.sampled_from([None, 0, 2, "\t"]), st.booleans(), st.integers(1, 40))
def test_every_element_is_a_line_that_says_the_same(
    elements: list[Any], indent: int | str | None, ascii_only: bool, size: int
) -> None:
    text = json.dumps(elements, indent=indent, ensure_ascii=ascii_only).encode()
    assert [json.loads(line) for line in lines(text, size)] == elements


@settings(deadline=None)
@given(st.binary(max_size=60), st.integers(1, 7))
def test_how_a_file_arrives_does_not_matter(content: bytes, size: int) -> None:
    def outcome(step: int) -> list[bytes] | str:
        try:
            return lines(b"[" + content, step)
        except SourceError as error:
            return str(error)

    assert outcome(size) == outcome(1 << 20)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", []),
        (b" \r\n", []),
        (b"[]", []),
        (b"[\n]\n", []),
        (b'{"a": [1, 2]}\n', [b'{"a": [1, 2]}']),
        (b'[{"a": 1}]', [b'{"a": 1}']),
        (b'[\r\n  {"a":\r\n 1},\r\n  {"b": "x"}\r\n]', [b'{"a":   1}', b'{"b": "x"}']),
        (b'[{"a": "],[{\\"}"}, 1]', [b'{"a": "],[{\\"}"}', b"1"]),
        (b'[{"a": "\\\\"}, {"b": 2}]', [b'{"a": "\\\\"}', b'{"b": 2}']),
        (b'[{"a":}, {"b": 2}]', [b'{"a":}', b'{"b": 2}']),
        (b'[{"a": "x\ny"}, {"b": 2}]', [b'{"a": "x\ry"}', b'{"b": 2}']),
        (b'[{"a": 1} {"b": 2}, 3]', [b'{"a": 1}{"b": 2}', b"3"]),
        (b'[{"a": 1},]', [b'{"a": 1}', b","]),
        (b"[,,1]", [b",", b",", b"1"]),
    ],
)
def test_elements(text: bytes, expected: list[bytes]) -> None:
    for size in (1, 2, 3, 1 << 20):
        assert lines(text, size) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b'[{"a": 1}, {"b"', "array … truncated"),
        (b'[{"a": 1}', "array … truncated"),
        (b'[{"a": "1}]', "array … truncated"),
        (b'{"a": 1', "object … truncated"),
        (b'[{"a": 1}] x', "follows … array"),
        (b'{"a": 1}\n{"a": 2}\n', "follows … object"),
        (b'[{"a": 1}, 2}', "array … '}' … element 2"),
        (b"42", "b'4'"),
    ],
)
def test_what_is_no_whole_array_is_refused(text: bytes, problem: str) -> None:
    for size in (1, 3, 1 << 20):
        with raises(SourceError, "a.json", problem):
            lines(text, size)
