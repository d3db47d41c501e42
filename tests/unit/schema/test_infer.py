"""Columns from samples."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.errors import raises
from support.long_runs import examples
from tidegate.errors import SourceError
from tidegate.formats.json import Decoder
from tidegate.formats.strict_lines import RecordRules
from tidegate.schema.inference import Inference, check_agreement, infer_json
from tidegate.specs.table import FieldSpec

pytestmark = pytest.mark.usefixtures("each_reader")


def infer(samples: list[list[bytes]], **options: Any) -> Inference:
    return check_agreement(infer_json(samples, **options))


def sample(*records: object) -> list[list[bytes]]:
    return [[json.dumps(record).encode() for record in records]]


def types(found: Inference) -> dict[str, str]:
    return {field.name: field.type for field in found.fields}


def test_each_kind_of_value_has_its_type() -> None:
    found = infer(sample({"i": 1, "f": 1.5, "m": 1, "b": True, "s": "x", "t": "2024-01-28T14:00:00Z"}, {"m": 0.5}))
    assert types(found) == {
        "i": "int64",
        "f": "float64",
        "m": "float64",
        "b": "boolean",
        "s": "string",
        "t": "string",
    }
    assert all(field.nullable for field in found.fields)


def test_objects_and_lists_are_looked_into() -> None:
    found = infer(sample({"u": {"a": 1}, "l": [{"x": 1}, {"y": "z"}]}, {"u": {"b": None}}))
    assert found.fields == (
        FieldSpec("u", "struct", fields=(FieldSpec("a", "int64"), FieldSpec("b", "string"))),
        FieldSpec(
            "l",
            "list",
            items=FieldSpec("element", "struct", fields=(FieldSpec("x", "int64"), FieldSpec("y", "string"))),
        ),
    )


def test_what_was_never_seen_is_guessed_and_said() -> None:
    found = infer(sample({"n": None, "l": [], "o": {}}))
    assert types(found) == {"n": "string", "l": "list", "o": "json"}
    notes = {each.path: each.note for each in found.report}
    assert "never had a value" in notes["n"]
    assert "empty list" in notes["l"]
    assert "empty object" in notes["o"]


def test_a_conflict_names_field_kinds_and_examples() -> None:
    with pytest.raises(SourceError) as caught:
        infer(sample({"u": {"a": 1}, "b": True}, {"u": {"a": "one"}, "b": {"c": 1}}))
    message = str(caught.value)
    assert "'u.a' is integer (1) and string (\"one\")" in message
    assert "'b' is boolean (true) and object" in message


def test_a_conflict_becomes_text_when_asked_for() -> None:
    found = infer(sample({"a": 1, "l": [1, "x"]}, {"a": "one"}), coerce_conflicts_to_utf8=True)
    assert found.fields == (
        FieldSpec("a", "string"),
        FieldSpec("l", "list", items=FieldSpec("element", "string")),
    )
    assert "kept as text" in found.report[0].note


def test_the_report_says_how_sure_it_is() -> None:
    found = infer(sample({"a": 1}, {"a": None}, {}, {"a": 2}))
    report = found.report[0]
    assert (report.records, report.seen, report.kinds, report.share) == (4, 2, {"integer": 2}, 0.5)
    assert tuple(each.describe() for each in found.report) == ("a: int64 (in 50% of 4 records: 2 integer)",)


def test_unreadable_lines_are_left_out_and_counted() -> None:
    found = infer([[b'\xef\xbb\xbf{"a":1}', b"", b"{", b"[1]"], [b'{"b":2}\r\n']])
    assert types(found) == {"a": "int64", "b": "int64"}
    assert (found.records, found.unreadable) == (2, 2)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"a": "é"}'.encode("latin-1"), "UTF-8 … byte 8"),
        (b'{"a": NaN}', "NaN … null"),
        (b'{"a": -Infinity}', "-Infinity … null"),
        (b'{"a": }', "JSON … character 7"),
    ],
)
def test_where_no_line_can_be_read_the_first_is_named_with_what_helps(line: bytes, why: str) -> None:
    with raises(SourceError, "2 lines", why):
        infer([[line, b"{"]])


def test_nothing_to_infer_from_is_an_error() -> None:
    with raises(SourceError, "record", "1 lines", "JSON", "schema.fields"):
        infer([[b"{"], []])


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"id": 1, "ID": 2}, "'ID' … 'id' … schema.rescued"),
        ({"date": "x"}, "'date' … sink.partition_by"),
        ({"a b": 1}, "'a b' … ' ' … 'a_b' … schema.rescued"),
    ],
)
def test_names_that_a_table_cannot_have_are_refused(record: dict[str, object], words: str) -> None:
    with raises(SourceError, words):
        infer(sample(record), forbidden=("date",))


def test_whole_numbers_beyond_64_bits_keep_their_digits() -> None:
    assert types(infer(sample({"a": 2**63}))) == {"a": "decimal(20,0)"}
    assert types(infer(sample({"a": 10**20}))) == {"a": "json"}


def test_whole_numbers_that_a_float_would_round_are_text_beside_fractions() -> None:
    assert types(infer(sample({"a": 2**53}, {"a": 1.5}))) == {"a": "float64"}
    found = infer(sample({"a": 2**53 + 1}, {"a": 1.5}))
    assert types(found) == {"a": "json"}
    assert "9007199254740993" in found.report[0].note


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(-1e300, 1e300) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from("abcd"), JSON), min_size=1, max_size=6))
def test_every_sampled_record_can_be_read_with_what_was_inferred(records: list[dict[str, object]]) -> None:
    samples = sample(*records)
    found = infer(samples, coerce_conflicts_to_utf8=True)
    assert Inference.from_json(json.loads(json.dumps(found.to_json()))) == found
    if found.fields:
        decoded = Decoder(RecordRules(found.fields, coerce=True)).decode(b"\n".join(samples[0]) + b"\n")
        assert decoded.rejected == ()
        assert decoded.batch.num_rows == len(records)
