"""Lines made and broken at random through the real decoder: rows or bad records, and the verdict of a strict parser."""

from __future__ import annotations

import json
from typing import Any, NoReturn

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.json_lines import lines
from support.long_runs import examples
from tidegate.errors import SourceError
from tidegate.formats.json import Decoder, blocks, element_lines
from tidegate.formats.strict_lines import RecordRules
from tidegate.schema.inference import check_agreement, infer_json
from tidegate.schema.literals import DEEPEST
from tidegate.specs.table import FieldSpec, Numbers

pytestmark = [pytest.mark.usefixtures("each_reader"), pytest.mark.timeout(3600)]

EXAMPLES = examples(10_000, 30)
KEY = FieldSpec("key", "string", nullable=False)
FIELDS = (
    FieldSpec("i", "int64"),
    FieldSpec("f", "float64"),
    FieldSpec("n", "decimal(10,2)"),
    FieldSpec("s", "string"),
    FieldSpec("t", "timestamp"),
    FieldSpec("u", "struct", fields=(FieldSpec("a", "int64"), FieldSpec("s", "string"))),
    FieldSpec("l", "list", items=FieldSpec("element", "float64")),
)
MAP = FieldSpec("m", "map", keys=KEY, values=FieldSpec("value", "string"))
WAYS: dict[str, dict[str, Any]] = {
    "strict": {"fields": FIELDS},
    "lenient": {"fields": FIELDS, "numbers": Numbers.LENIENT},
    "rescued": {"fields": (*FIELDS, FieldSpec("_left", "string")), "rescued": "_left"},
    "with json and a map": {"fields": (*FIELDS, MAP, FieldSpec("j", "json")), "coerce": True},
}


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def is_object(line: bytes) -> bool:
    """What a strict parser of another hand says: a JSON object of Unicode text, not too deep."""
    try:
        value = json.loads(line.decode(), parse_constant=_refuse, parse_int=str, parse_float=str)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and _levels(value) <= DEEPEST


def _levels(value: object) -> int:
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(_levels, inner), default=0)


def test_the_reference_agrees_with_another_one() -> None:
    @settings(max_examples=EXAMPLES, deadline=None)
    @given(lines())
    def agrees(line: bytes) -> None:
        try:
            found = isinstance(orjson.loads(line), dict)
        except orjson.JSONDecodeError as error:
            if "infinity" in str(error):
                return  # it stops at such a number, and does not look at what follows
            found = False
        assert is_object(line) == found or line.count(b"[") + line.count(b"{") > DEEPEST

    agrees()


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=EXAMPLES // len(WAYS), deadline=None)
@given(chosen=st.lists(lines(), min_size=1, max_size=6))
def test_a_line_is_a_row_or_a_bad_record(way: str, chosen: list[bytes]) -> None:
    decoded = Decoder(RecordRules(**WAYS[way])).decode(b"\n".join(chosen) + b"\n")
    bad = {each.offset for each in decoded.rejected}
    blank = {number for number, line in enumerate(chosen) if not line.strip(b" \t\r")}
    assert decoded.batch.num_rows == len(chosen) - len(bad) - len(blank)
    for number, line in enumerate(chosen):
        if number not in blank and not is_object(line):
            assert number in bad, line
    for each in decoded.rejected:
        assert not (is_object(chosen[each.offset]) and each.reason.startswith("not "))
        alone = Decoder(RecordRules(**WAYS[way])).decode(chosen[each.offset] + b"\n")
        assert [other.reason for other in alone.rejected] == [each.reason]


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(lines(), min_size=1, max_size=5), st.booleans(), st.booleans())
def test_columns_are_inferred_or_refused_and_every_line_is_a_row_or_a_bad_record(
    chosen: list[bytes], coerce: bool, rescued: bool
) -> None:
    try:
        fields = check_agreement(infer_json([chosen], coerce_conflicts_to_utf8=coerce, rescued=rescued)).fields
    except SourceError:
        return
    if fields:
        decoded = Decoder(RecordRules(fields, coerce=coerce)).decode(b"\n".join(chosen) + b"\n")
        blank = sum(not line.strip(b" \t\r") for line in chosen)
        assert decoded.batch.num_rows + len(decoded.rejected) + blank == len(chosen)


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(lines(), min_size=1, max_size=4))
def test_an_array_is_refused_or_read_like_its_lines(chosen: list[bytes]) -> None:
    kept = [line for line in chosen if is_object(line)]
    for elements in (kept, chosen):
        try:
            found = list(blocks(element_lines([b"[" + b",".join(elements) + b"]"], "a.json")))
        except SourceError:
            assert elements is chosen
            continue
        decoder = Decoder(RecordRules(FIELDS))
        rows = sum(decoder.decode(block).batch.num_rows for block in found)
        if elements is kept and kept:
            assert rows == Decoder(RecordRules(FIELDS)).decode(b"\n".join(kept) + b"\n").batch.num_rows
