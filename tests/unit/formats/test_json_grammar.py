"""One grammar, RFC 8259, in every position: what is not JSON never becomes a row, whatever it is for and beside.

The table is checked against two parsers of other hands, so that it cannot lie.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, NoReturn

import orjson
import pytest

from support.json_lines import TABLE
from support.long_runs import LONG
from tidegate.errors import SourceError
from tidegate.formats.json import Decoder, blocks, element_lines
from tidegate.formats.port import Decoded
from tidegate.formats.strict_lines import RecordRules
from tidegate.schema.inference import infer_json
from tidegate.schema.literals import DEEPEST
from tidegate.specs.table import FieldSpec, Numbers

pytestmark = pytest.mark.usefixtures("each_reader")

LONG_TEXTS = [b"[" * 100 + b"]" * 100, b'[{"a":' * 80 + b"1" + b"}]" * 80, b'"' + b"x" * 300 + b'"']
VALID = [text for good, text in TABLE if good] + LONG_TEXTS
INVALID = [text for good, text in TABLE if not good]
TOO_DEEP = [b"[" * levels + b"]" * levels for levels in (DEEPEST, 480, 5000)] + [b'{"a":' * 300 + b"1" + b"}" * 300]
"""Inside a record, which is one level itself."""

FIELDS = (
    FieldSpec("id", "int64"),
    FieldSpec("i", "int64"),
    FieldSpec("j", "int32"),
    FieldSpec("f", "float64"),
    FieldSpec("g", "float32"),
    FieldSpec("n", "decimal(10,2)"),
    FieldSpec("w", "decimal(38,4)"),
    FieldSpec("s", "string"),
    FieldSpec("b", "boolean"),
    FieldSpec("t", "timestamp"),
    FieldSpec("d", "date"),
    FieldSpec("x", "binary"),
    FieldSpec("u", "struct", fields=(FieldSpec("a", "int64"), FieldSpec("s", "string"))),
    FieldSpec("l", "list", items=FieldSpec("element", "float64")),
    FieldSpec("k", "list", items=FieldSpec("element", "string")),
)
KEY = FieldSpec("key", "string", nullable=False)
MAP = FieldSpec("m", "map", keys=KEY, values=FieldSpec("value", "float64"))
JSON = FieldSpec("q", "json")
JSONS = FieldSpec("v", "map", keys=KEY, values=FieldSpec("value", "json"))
RESCUED = FieldSpec("_rescued", "string")


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a value stands, and who reads it; ``takes_all`` where every JSON value makes a row."""

    before: bytes
    after: bytes = b"}"
    fields: tuple[FieldSpec, ...] = FIELDS
    options: dict[str, Any] = field(default_factory=dict)
    takes_all: bool = False

    def line(self, text: bytes) -> bytes:
        return self.before + text + self.after

    def makes_json(self, text: bytes) -> bool:
        """Whether a text that is not JSON is some inside this, as ``1,2`` in a list."""
        return text not in TOO_DEEP and _python(self.line(text)) and _orjson(self.line(text))

    def decode(self, block: bytes) -> Decoded:
        return Decoder(RecordRules(self.fields, **self.options)).decode(block)


def _columns(name: str, **options: Any) -> dict[str, Layout]:
    return {
        f"{name} {column}": Layout(f'{{"id":1,"{column}":'.encode(), options=options)
        for column in ("i", "j", "f", "g", "n", "w", "s", "b", "t", "d", "x")
    }


LAYOUTS = {
    "undeclared": Layout(b'{"id":1,"zz":', takes_all=True),
    "undeclared, first": Layout(b'{"zz": ', b' ,"id":1}', takes_all=True),
    "undeclared in a struct": Layout(b'{"id":1,"u":{"zz":', b"}}", takes_all=True),
    "undeclared in a list": Layout(b'{"id":1,"zz":[1,', b"]}", takes_all=True),
    "undeclared in an object": Layout(b'{"id":1,"zz":{"y":{"x":', b"}}}", takes_all=True),
    **_columns("column"),
    "spaced": Layout(b'{ "id": 1, "f" : ', b' , "i" : null }'),
    "struct": Layout(b'{"id":1,"u":{"a":', b"}}"),
    "text in a struct": Layout(b'{"id":1,"u":{"s":', b"}}"),
    "whole struct": Layout(b'{"id":1,"u":'),
    "list": Layout(b'{"id":1,"l":[1,', b",2]}"),
    "whole list": Layout(b'{"id":1,"l":'),
    "list of texts": Layout(b'{"id":1,"k":["a",', b"]}"),
    "map": Layout(b'{"id":1,"m":{"a":', b"}}", (*FIELDS, MAP)),
    "whole map": Layout(b'{"id":1,"m":', b"}", (*FIELDS, MAP)),
    "json": Layout(b'{"id":1,"q":', b"}", (*FIELDS, JSON), takes_all=True),
    "map of json": Layout(b'{"id":1,"v":{"a":', b"}}", (*FIELDS, JSONS), takes_all=True),
    "number beside json": Layout(b'{"id":1,"q":1,"f":', b"}", (*FIELDS, JSON)),
    "coerced": Layout(b'{"id":1,"s":', b"}", options={"coerce": True}, takes_all=True),
    "number beside coerced": Layout(b'{"id":1,"s":1,"w":', b"}", options={"coerce": True}),
    "rescued": Layout(b'{"id":1,"zz":', b"}", (*FIELDS, RESCUED), {"rescued": "_rescued"}, takes_all=True),
    "rescued number": Layout(b'{"id":1,"i":', b"}", (*FIELDS, RESCUED), {"rescued": "_rescued"}, takes_all=True),
    "rescued in a list": Layout(b'{"id":1,"l":[1,', b"]}", (*FIELDS, RESCUED), {"rescued": "_rescued"}, takes_all=True),
    "lenient undeclared": Layout(b'{"id":1,"zz":', options={"numbers": Numbers.LENIENT}, takes_all=True),
    **_columns("lenient", numbers=Numbers.LENIENT),
}
GOOD = b'{"id":7,"i":1,"f":1.5,"s":"a","u":{"a":1,"s":"b"},"l":[1.5,2],"k":["c"],"t":"2026-01-28T00:00:00Z","n":1.25}'
ALONE = list(LAYOUTS) if LONG else ["undeclared", "column w"]


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _python(text: bytes) -> bool:
    """Whether Python's own parser takes the text, told to be strict."""
    try:
        value = json.loads(text.decode(), parse_constant=_refuse, parse_int=str, parse_float=str)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, UnicodeError):
        return False
    return True


def _orjson(text: bytes) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


def test_the_table_is_as_large_as_it_should_be() -> None:
    assert len(set(VALID)) > 150
    assert len(set(INVALID)) > 250
    assert not set(VALID) & set(INVALID)


def test_two_other_parsers_take_what_the_table_calls_json() -> None:
    beyond_doubles = {b"1e309", b"1e400", b"1e999", b"1e99999"}
    assert [text for text in VALID if not _python(text)] == []
    assert [text for text in VALID if _orjson(text) == (text.lstrip(b"-") in beyond_doubles)] == []


def test_two_other_parsers_refuse_what_the_table_does_not() -> None:
    assert [text for text in INVALID if _orjson(text) or _python(text)] == []


@pytest.mark.parametrize("name", LAYOUTS)
def test_all_texts_of_the_table_among_each_other(name: str) -> None:
    layout = LAYOUTS[name]
    texts = [text for pair in zip(INVALID, VALID * 3, strict=False) for text in pair] + TOO_DEEP
    texts += [text for text in VALID if text not in texts]
    lines = [each for text in texts for each in (layout.line(text), GOOD)]
    decoded = layout.decode(b"\n".join(lines) + b"\n")
    rejected = {each.offset // 2 for each in decoded.rejected}
    assert not any(each.offset % 2 for each in decoded.rejected)
    wrong = {number for number, text in enumerate(texts) if text not in VALID and not layout.makes_json(text)}
    assert [texts[number] for number in sorted(wrong - rejected)] == []
    if layout.takes_all:
        assert [texts[n] for n in rejected if texts[n] in VALID] == []
    misjudged = [each for each in decoded.rejected if texts[each.offset // 2] in VALID and "not JSON" in each.reason]
    assert misjudged == []
    assert decoded.batch.num_rows == len(lines) - len(rejected)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALONE)
def test_each_text_of_the_table_alone(name: str) -> None:
    layout = LAYOUTS[name]
    for text in [*INVALID, *VALID, *TOO_DEEP]:
        line = layout.line(text) + b"\n"
        alone = layout.decode(line)
        if text not in VALID and layout.makes_json(text):
            continue
        if text not in VALID:
            assert alone.batch.num_rows == 0, text
            assert len(alone.rejected) == 1, text
        elif layout.takes_all:
            assert alone.batch.num_rows == 1, (text, alone.rejected)
        if LONG:
            between = layout.decode(GOOD + b"\n" + line + GOOD + b"\n")
            assert [each.reason for each in between.rejected] == [each.reason for each in alone.rejected], text


@pytest.mark.slow
@pytest.mark.parametrize("name", list(LAYOUTS) if LONG else ["column i"])
def test_arrays_have_the_same_grammar_as_lines(name: str) -> None:
    layout = LAYOUTS[name]
    for text in [*INVALID, *VALID, *TOO_DEEP]:
        file = b"[" + GOOD + b"," + layout.line(text) + b"," + GOOD + b"]"
        try:
            (block,) = blocks(element_lines([file], "a.json"))
        except SourceError:
            assert text not in VALID, text
            continue
        decoded = layout.decode(block)
        lines = layout.decode(layout.line(text) + b"\n")
        if text in VALID:
            assert decoded.batch.num_rows == 2 + lines.batch.num_rows, text
        elif not layout.makes_json(text):
            assert decoded.rejected, text


def test_what_is_not_json_is_not_looked_at_for_a_schema() -> None:
    layout = LAYOUTS["undeclared"]
    found = infer_json([[GOOD, *(layout.line(text) for text in [*INVALID, *TOO_DEEP])]], coerce_conflicts_to_utf8=True)
    assert found.records == 1
    assert found.unreadable == len(INVALID) + len(TOO_DEEP)


@pytest.mark.parametrize(
    "lines",
    [
        (b'{"i":1,,"f":2}', b'{"i":1 "f":2}'),
        (b'{"i":1,"f":2,}', b'{"l":[1 2]}'),
        (b'{,"i":1}', b'{"s":"a""i":1}'),
        (b'{"l":[,1]}', b'{"l":[1]"i":1}'),
        (b'{"i":1},', b'{"i":1}'),
        (b'{"k":["a"', b'"b"]}'),
        (b'{"i":1}{"i":2}', b'{"i":1,\x0a"f":2}'),
        (b"\xef\xbb\xbf{}", b'{"i":1}\x00'),
        (b'{"i":1} // x', b'/* x */ {"i":1}'),
    ],
)
def test_two_wrongs_beside_each_other_make_no_right(lines: tuple[bytes, bytes]) -> None:
    for numbers in Numbers:
        decoded = Decoder(RecordRules(FIELDS, numbers=numbers)).decode(b"\n".join([GOOD, *lines, GOOD]) + b"\n")
        good = 1 if lines[1] == b'{"i":1}' else 0
        assert decoded.batch.num_rows == 2 + good
        assert len(decoded.rejected) == decoded.lines - 2 - good
