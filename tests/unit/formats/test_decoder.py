"""Blocks to batches: every type, every way a line can be wrong, and that neighbours never change a verdict."""

from __future__ import annotations

import gc
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from math import inf
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.long_runs import examples
from tidegate.formats.json import Decoder
from tidegate.formats.strict_lines import RecordRules, moments
from tidegate.schema.literals import SWITCH, find_native
from tidegate.specs.table import FieldSpec, Numbers

pytestmark = pytest.mark.usefixtures("each_reader")

FIELDS = (
    FieldSpec("i", "int64"),
    FieldSpec("j", "int32"),
    FieldSpec("f", "float64"),
    FieldSpec("g", "float32"),
    FieldSpec("s", "string"),
    FieldSpec("b", "boolean"),
    FieldSpec("t", "timestamp"),
    FieldSpec("d", "date"),
    FieldSpec("n", "decimal(10,2)"),
    FieldSpec("w", "decimal(38,4)"),
    FieldSpec("x", "binary"),
    FieldSpec("u", "struct", fields=(FieldSpec("name", "string"), FieldSpec("age", "int32"))),
    FieldSpec("l", "list", items=FieldSpec("element", "string")),
    FieldSpec("k", "list", items=FieldSpec("element", "struct", fields=(FieldSpec("v", "int64"),))),
)
KEY = FieldSpec("key", "string")
MAPPED = (*FIELDS, FieldSpec("m", "map", keys=KEY, values=FieldSpec("value", "int64")))
FULL = (
    b'{"i":1,"j":-2,"f":1.5,"g":0.25,"s":"a","b":true,"t":"2024-01-28T14:00:00.123Z","d":"2024-01-28","n":12.50,'
    b'"w":3.1415,"x":"aGk=","u":{"name":"ann","age":3},"l":["p","q"],"k":[{"v":1},{"v":2}]}'
)


def decode_one(line: bytes, *, fields: tuple[FieldSpec, ...] = FIELDS, **options: object) -> dict[str, object]:
    decoded = Decoder(RecordRules(fields, **options)).decode(line + b"\n")  # type: ignore[arg-type]
    assert decoded.rejected == ()
    assert decoded.lines == line.count(b"\n") + 1
    return {key: value for key, value in decoded.batch.to_pylist()[0].items() if value is not None}


def reason(line: bytes, *, fields: tuple[FieldSpec, ...] = FIELDS, **options: object) -> str:
    decoded = Decoder(RecordRules(fields, **options)).decode(FULL + b"\n" + line + b"\n" + FULL + b"\n")  # type: ignore[arg-type]
    assert [each.offset for each in decoded.rejected] == [1], decoded.batch.to_pylist()
    assert decoded.batch.num_rows == 2
    assert decoded.rejected[0].text == line
    return decoded.rejected[0].reason


def test_every_type_is_read_exactly() -> None:
    assert decode_one(FULL) == {
        "i": 1,
        "j": -2,
        "f": 1.5,
        "g": 0.25,
        "s": "a",
        "b": True,
        "t": datetime(2024, 1, 28, 14, 0, 0, 123000, UTC),
        "d": date(2024, 1, 28),
        "n": Decimal("12.50"),
        "w": Decimal("3.1415"),
        "x": b"hi",
        "u": {"name": "ann", "age": 3},
        "l": ["p", "q"],
        "k": [{"v": 1}, {"v": 2}],
    }


def test_the_batch_has_exactly_the_declared_schema() -> None:
    decoder = Decoder(RecordRules(MAPPED))
    fast = decoder.decode(FULL[:-1] + b',"m":{"a":1,"b":null}}\n').batch
    slow = decoder.decode(FULL[:-1] + b',"m":{"a" :1,"b":null}}\n').batch
    assert fast.schema.equals(decoder.schema)
    assert slow.schema.equals(decoder.schema)
    assert fast.equals(slow)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b'{"i":12.0}', {"i": 12}),
        (b'{"i":1e3}', {"i": 1000}),
        (b'{"i":-0}', {"i": 0}),
        (b'{"i":9223372036854775807}', {"i": 2**63 - 1}),
        (b'{"i":-9223372036854775808}', {"i": -(2**63)}),
        (b'{"i":2251799813685248}', {"i": 2**51}),
        (b'{"j":2147483647}', {"j": 2**31 - 1}),
        (b'{"f":3}', {"f": 3.0}),
        (b'{"n":1.50000}', {"n": Decimal("1.50")}),
        (b'{"n":"99999999.99"}', {"n": Decimal("99999999.99")}),
        (b'{"n":1e2}', {"n": Decimal("100.00")}),
        (b'{"t":"2024-01-28"}', {"t": datetime(2024, 1, 28, tzinfo=UTC)}),
        (b'{"t":"2024-01-28 14:00"}', {"t": datetime(2024, 1, 28, 14, tzinfo=UTC)}),
        (b'{"t":"2024-01-28T14:00:00"}', {"t": datetime(2024, 1, 28, 14, tzinfo=UTC)}),
        (b'{"t":"2024-01-28T14:00:00+02:00"}', {"t": datetime(2024, 1, 28, 12, tzinfo=UTC)}),
        (b'{"t":"2024-01-28T14:00:00.123456000Z"}', {"t": datetime(2024, 1, 28, 14, 0, 0, 123456, UTC)}),
        (b'{"s":"\\u0000"}', {"s": "\0"}),
        (b'{"s":"\\ud83d\\ude00 \xc3\xa9"}', {"s": "😀 é"}),
        (b'{"s":"}\\n{"}', {"s": "}\n{"}),
        (b'{"s":"{\\"i\\":1,\\"i\\":null}"}', {"s": '{"i":1,"i":null}'}),
        (b'{"s":":a,b"}', {"s": ":a,b"}),
        (b'{"s" : "a" , "i" : null}', {"s": "a"}),
        (b'  {"s":"a"}\t', {"s": "a"}),
        (b'{"u":{}}', {"u": {"name": None, "age": None}}),
        (b'{"l":[null,"a"],"k":[]}', {"l": [None, "a"], "k": []}),
        (b'{"i":null,"i":1}', {"i": 1}),
        (b"{}", {}),
    ],
)
def test_odd_but_right_values_are_kept(line: bytes, value: dict[str, object]) -> None:
    assert decode_one(line) == value


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"i":12.7}', "'i': 12.7 has a fraction"),
        (b'{"i":9223372036854775808}', "too large for int64"),
        (b'{"i":1e30}', "too large for int64"),
        (b'{"i":1e999999999}', "too large for int64"),
        (b'{"j":2147483648}', "too large for int32"),
        (b'{"i":"12"}', 'a string ("12") does not fit int64'),
        (b'{"i":true}', "a boolean (true) does not fit int64"),
        (b'{"f":1e999}', "too large for float64"),
        (b'{"f":"NaN"}', "does not fit float64"),
        (b'{"f":NaN}', "not JSON"),
        (b'{"g":1e300}', "too large for float32"),
        (b'{"n":1.239}', "more than 2 digits behind the point"),
        (b'{"n":100000000}', "too large for decimal(10,2)"),
        (b'{"n":100000000,"zz":1}', "too large for decimal(10,2)"),
        (b'{"w":0.00001}', "more than 4 digits behind the point"),
        (b'{"n":1e-257}', "more than 2 digits behind the point"),
        (b'{"n":1.2500000000000000000000000000000000000000000001}', "more than 2 digits behind the point"),
        (b'{"i":1e-400}', "has a fraction"),
        (b'{"\\u0069":1e-400}', "has a fraction"),
        (b'{"i":7.0000000000000000000000000000000000000000000001}', "has a fraction"),
        (b'{"k":[{"v":1},{"v" : 1e-30}]}', "has a fraction"),
        (b'{"t":1706450400}', "a number (1706450400) does not fit a timestamp column"),
        (b'{"t":"soon"}', "is not an ISO 8601 moment"),
        (b'{"t":"2024-01-28T14:00:00.1234567Z"}', "is not an ISO 8601 moment"),
        (b'{"t":"2024-02-30T14:00:00Z"}', "is not an ISO 8601 moment"),
        (b'{"d":"2024-01-28T00:00:00Z"}', "is not a date"),
        (b'{"d":19750}', "does not fit a date column"),
        (b'{"x":"a"}', "is not base64"),
        (b'{"s":1}', "a number (1) does not fit a string column"),
        (b'{"s":{"a":1}}', "an object"),
        (b'{"b":"true"}', "does not fit a boolean"),
        (b'{"u":[]}', "an array ([]) does not fit a struct"),
        (b'{"u":{"age":1.5}}', "'u.age': 1.5 has a fraction"),
        (b'{"l":"a"}', "does not fit a list"),
        (b'{"l":["a",1]}', "'l[1]': a number"),
        (b'{"k":[{"v":1},{"v":"x"}]}', "'k[1].v'"),
        (b'{"i":1,"i":2}', "key 'i' is repeated"),
        (b'{"i":1,"i":null}', "key 'i' is repeated"),
        (b'{"i" :1,"i":2}', "key 'i' is repeated"),
        (b'{"\\u0069":1,"i":2}', "key 'i' is repeated"),
        (b'{"u":{"name":"a"},"u":{"name":"b"}}', "key 'u' is repeated"),
        (b'{"u":{"name":"a","name":"b"}}', "key 'u.name' is repeated"),
        (b'{"k":[{"v":1,"v":2}]}', "key 'k[0].v' is repeated"),
        (b'{"i":1', "not JSON"),
        (b'{"i":1,}', "not JSON"),
        (b'{"i":1 "s":"a"}', "not JSON"),
        (b'{"i":1}{"i":2}', "not JSON: Extra data"),
        (b'{"i":1} null {"i":2}', "not JSON: Extra data"),
        (b"[1]", "not an object but an array"),
        (b"1", "not an object but a number"),
        (b"null", "not an object but null"),
        (b'"x"', "not an object but a string"),
        (b"hello", "not JSON"),
        (b'{"s":"a\x00b"}', "not JSON"),
        (b'{"s":"a"}\x00', "not JSON"),
        (b'{"s":"a\tb"}', "not JSON"),
        (b'{"s":"\xff"}', "not UTF-8"),
        (b'{"s":"\\ud800"}', "surrogate"),
        (b'{"i":"\\u0000"}', "does not fit int64"),
        (b'{"u":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
    ],
)
def test_a_line_that_does_not_fit_is_named_with_its_reason(line: bytes, words: str) -> None:
    assert words in reason(line)


def test_a_missing_required_value_is_a_bad_record() -> None:
    fields = (FieldSpec("i", "int64", nullable=False), FieldSpec("s", "string"))
    decoded = Decoder(RecordRules(fields)).decode(b'{"i":1}\n{"s":"a"}\n{"i":null}\n')
    reasons = [(each.offset, each.reason) for each in decoded.rejected]
    assert reasons == [(1, "required field 'i' is missing"), (2, "required field 'i' is null")]


def test_a_required_field_of_a_struct_may_miss_where_the_struct_does() -> None:
    inner = FieldSpec("id", "int64", nullable=False)
    fields = (FieldSpec("u", "struct", fields=(inner,)), FieldSpec("s", "string"))
    decoded = Decoder(RecordRules(fields)).decode(b'{"s":"a"}\n{"u":{}}\n{"u":{"id":1}}\n')
    assert [each.reason for each in decoded.rejected] == ["required field 'u.id' is missing"]
    assert decoded.batch.to_pylist() == [{"u": None, "s": "a"}, {"u": {"id": 1}, "s": None}]


def test_a_repeated_key_in_a_map_is_a_bad_record() -> None:
    assert "key 'm.a' is repeated" in reason(b'{"m":{"a":1,"a":2}}', fields=MAPPED)
    assert decode_one(b'{"m":{"a":1,"b":null}}', fields=MAPPED) == {"m": [("a", 1), ("b", None)]}


def test_blank_lines_count_as_lines_but_not_as_records() -> None:
    decoded = Decoder(RecordRules(FIELDS)).decode(b'\n{"i":1}\r\n\r\n  \n{"i":2}\n')
    assert decoded.lines == 5
    assert decoded.batch.column("i").to_pylist() == [1, 2]
    assert decoded.offsets is not None
    assert decoded.offsets.tolist() == [1, 4]


def test_windows_line_ends_are_read_the_fast_way() -> None:
    decoded = Decoder(RecordRules(FIELDS)).decode(b'{"i":1}\r\n{"i":2}\r\n')
    assert (decoded.lines, decoded.offsets) == (2, None)
    assert decoded.batch.column("i").to_pylist() == [1, 2]


@pytest.mark.skipif(find_native() is None, reason="the native reader is not installed")
@pytest.mark.parametrize("offset", ["", "Z", "+02:00", "+0200", "+02", "-11"])
def test_moments_as_databases_write_them_are_read_natively(offset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "1")
    decoder = Decoder(RecordRules(FIELDS))
    monkeypatch.setattr(decoder, "_strict", None)  # whatever goes to the strict reader now fails
    text = f"2024-01-28 14:00:00.5{offset}"
    found = decoder.decode(f'{{"t":"{text}"}}\n'.encode()).batch.column("t")[0].as_py()
    assert found == moments(pa.array([text]))[0].as_py()


def test_one_record_over_two_lines_beside_two_on_one_is_found() -> None:
    decoded = Decoder(RecordRules(FIELDS)).decode(b'{"i":1,\n"s":"a"}\n{"i":2}{"i":3}\n{"i":4}\n')
    assert [each.offset for each in decoded.rejected] == [0, 1, 2]
    assert decoded.batch.column("i").to_pylist() == [4]


def test_a_line_break_inside_a_text_beside_two_records_on_a_line_is_found() -> None:
    decoded = Decoder(RecordRules(FIELDS)).decode(b'{"s":"}\n{"}{"s":"x"}\n')
    assert [each.offset for each in decoded.rejected] == [0, 1]


def test_unknown_fields_are_named_and_counted() -> None:
    decoder = Decoder(RecordRules(FIELDS))
    line = b'{"i":1,"more":{"i":2},"u":{"name":"a","mail":"b"},"gone":null}\n'
    decoded = decoder.decode(line * 640)
    assert decoded.batch.num_rows == 640
    assert decoder.unknown == {"more": 640, "u.mail": 640, "gone": 640}
    lenient = Decoder(RecordRules(FIELDS, numbers=Numbers.LENIENT))
    lenient.decode(line * 640)
    assert lenient.unknown == {"more": 640, "u.mail": 640, "gone": 640}


@pytest.mark.slow
def test_columns_stay_as_they_are_while_further_blocks_are_read() -> None:
    decoder = Decoder(RecordRules((*MAPPED, FieldSpec("left", "string")), rescued="left"))
    line = FULL[:-1] + b',"m":{"a":1},"more":%d}\n'
    kept = [decoder.decode(line % number * 500).batch for number in range(4)]
    decoder.decode(b"{}\n" * 5000)
    del decoder
    gc.collect()
    for number, batch in enumerate(kept):
        batch.validate(full=True)
        assert batch.column("left").to_pylist() == [f'{{"more":{number}}}'] * 500
        assert batch.column("k").to_pylist() == [[{"v": 1}, {"v": 2}]] * 500


def test_a_repeated_key_is_found_among_unknown_fields() -> None:
    assert "key 'i' is repeated" in reason(b'{"i":1,"zz":7,"i":2}')
    decoder = Decoder(RecordRules(FIELDS))
    lines = [b'{"i":1,"zz":7}'] * 1000
    lines[777] = b'{"i":1,"zz":7,"i":2}'
    for _ in range(3):
        decoded = decoder.decode(b"\n".join(lines) + b"\n")
        assert [each.offset for each in decoded.rejected] == [777]


def test_escaped_punctuation_cannot_hide_a_repeated_key() -> None:
    hiding = b'{"s":"\\u003a\\u0022\\u0022\\u002c"}'
    decoded = Decoder(RecordRules(FIELDS)).decode(hiding + b'\n{"i":1,"i":2}\n')
    assert [each.offset for each in decoded.rejected] == [1]
    assert decoded.batch.column("s").to_pylist() == [':"",']


def test_a_record_must_not_have_a_field_named_like_a_partition_column_of_the_path() -> None:
    assert "partition column" in reason(b'{"i":1,"date":"2024-01-28"}', forbidden=("date",))
    assert decode_one(b'{"i":1,"date":null}', forbidden=("date",)) == {"i": 1}


def test_conflicting_values_become_text_at_any_depth_when_asked_for() -> None:
    line = b'{"s":{"a": [1.50, null]},"u":{"name":12},"l":[true,"x",{"y":"z"}]}'
    assert decode_one(line, coerce=True) == {
        "s": '{"a":[1.50,null]}',
        "u": {"name": "12", "age": None},
        "l": ["true", "x", '{"y":"z"}'],
    }


def test_other_misfits_stay_bad_records_with_coercion() -> None:
    assert "has a fraction" in reason(b'{"i":1.5,"s":1}', coerce=True)


def test_json_columns_keep_what_was_written() -> None:
    fields = (FieldSpec("p", "json"), FieldSpec("i", "int64"))
    decoder = Decoder(RecordRules(fields))
    lines = b'{"p":{"a": 1.10, "b":[123456789012345678901234567890]},"i":1}\n{"p":"text"}\n{"p":null}\n{"p":0.1}\n'
    assert decoder.decode(lines).batch.column("p").to_pylist() == [
        '{"a":1.10,"b":[123456789012345678901234567890]}',
        '"text"',
        None,
        "0.1",
    ]


def test_lenient_numbers_are_bent() -> None:
    line = b'{"i":12.7,"n":1.239,"t":1706450400,"s":"a"}'
    assert decode_one(line, numbers=Numbers.LENIENT) == {
        "i": 12,
        "n": Decimal("1.23"),
        "t": datetime(1970, 1, 1, 0, 28, 26, 450400, UTC),
        "s": "a",
    }
    assert decode_one(b'{"i":12.7,"i":13}', numbers=Numbers.LENIENT) == {"i": 13}


@pytest.mark.parametrize(
    ("kind", "written", "value"),
    [
        ("int32", "-12.7", -12),
        ("int32", "3000000000", None),
        ("decimal(6,2)", "-1.239", Decimal("-1.23")),
        ("decimal(6,2)", "12345.6", None),
        ("float32", "16777219", 16777220.0),
        ("float64", "9007199254740995", 9007199254740996.0),
        ("float64", "1e400", inf),
        ("float64", "1e-400", 0.0),
    ],
)
def test_lenient_cuts_whole_numbers_and_decimals_and_rounds_floats(kind: str, written: str, value: Any) -> None:
    rules = RecordRules((FieldSpec("v", kind),), numbers=Numbers.LENIENT)
    found = Decoder(rules).decode(f'{{"v":{written}}}\n'.encode())
    assert found.batch.to_pylist() == ([] if value is None else [{"v": value}])


def test_names_with_punctuation_are_read() -> None:
    fields = (FieldSpec("dc:title", "string"), FieldSpec('a"b', "int64"))
    assert decode_one(b'{"dc:title":"x","a\\"b":1}', fields=fields) == {"dc:title": "x", 'a"b': 1}
    decoded = Decoder(RecordRules(fields)).decode(b'{"dc:title":"x","dc:title":"y"}\n')
    assert [each.reason for each in decoded.rejected] == ["key 'dc:title' is repeated"]


GOOD_VALUES = {
    "i": st.integers(-(2**63), 2**63 - 1),
    "f": st.floats(allow_nan=False, allow_infinity=False),
    "s": st.text(),
    "b": st.booleans(),
    "t": st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)).map(datetime.isoformat),
    "n": st.decimals(-99999999, 99999999, places=2).map(float),
    "u": st.fixed_dictionaries({}, optional={"name": st.text(), "age": st.integers(-(2**31), 2**31 - 1)}),
    "l": st.lists(st.none() | st.text(), max_size=3),
    "k": st.lists(st.fixed_dictionaries({}, optional={"v": st.integers(0, 9)}), max_size=3),
}
GOOD = st.fixed_dictionaries({}, optional={key: st.none() | value for key, value in GOOD_VALUES.items()})
SEPARATORS = st.sampled_from([(",", ":"), (", ", ": "), (" , ", " : ")])
ODD = st.sampled_from(
    [
        b'{"i":1.5}',
        b'{"i":1,"i":2}',
        b'{"zz":[1,{"i":3}]}',
        b'{"zz":null,"s":"a"}',
        b'{"i":"1"}',
        b'{"n":"1.5"}',
        b'{"s":5}',
        b'{"i":1,}',
        b"",
        b"  ",
        b'{"s":"\\u003a"}',
        b'{"i":null,"i":4}',
        b'{"s":"null:null"}',
        b'{"u":{}}',
        b'{"s":"{}{}"}',
        b"[]",
        b'{"t":5}',
        b'{"i":1}{"i":2}',
        b'{"i":01}',
        b'{"f":1.,"zz":2}',
        b'{"f":-01.}',
        b'{"s":1.50,"l":[1e5,0.00001]}',
        b'{"s":{"a":1,"a":2},"u":{"name":[1.0,-0.0,123456789012345678901]}}',
        b'{"zz":{"k":{"x":[1.10]},"j":null},"s":[]}',
        b'{"zz":"\\u00e9\\ud840\\udc00"}',
        b'{"zz": 7, "u": {"other": 1, "age": 2}}',
    ]
)


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    if draw(st.integers(0, 3)) == 0:
        return draw(ODD)
    text = json.dumps(draw(GOOD), separators=draw(SEPARATORS), ensure_ascii=draw(st.booleans()))
    return text.encode("utf-8", "replace")


WAYS: dict[str, dict[str, Any]] = {
    "plain": {"fields": FIELDS},
    "coerced": {"fields": FIELDS, "coerce": True},
    "with a map": {"fields": (*FIELDS, FieldSpec("zz", "map", keys=KEY, values=FieldSpec("value", "json")))},
    "with json": {"fields": (*FIELDS, FieldSpec("zz", "json"))},
    "lenient": {"fields": FIELDS, "numbers": Numbers.LENIENT},
}


@pytest.mark.parametrize("way", list(WAYS))
@settings(max_examples=examples(200, 30), deadline=None)
@given(chosen=st.lists(lines(), min_size=1, max_size=12))
def test_neighbours_never_change_what_a_line_gives(way: str, chosen: list[bytes]) -> None:
    together = Decoder(RecordRules(**WAYS[way])).decode(b"\n".join(chosen) + b"\n")
    alone = [Decoder(RecordRules(**WAYS[way])).decode(line + b"\n") for line in chosen]
    assert together.lines == len(chosen)
    assert together.batch.to_pylist() == [row for each in alone for row in each.batch.to_pylist()]
    refused = [number for number, each in enumerate(alone) if each.rejected]
    assert [each.offset for each in together.rejected] == refused


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(GOOD, min_size=1, max_size=20), SEPARATORS)
def test_what_was_written_is_what_is_read(records: list[dict[str, object]], separators: tuple[str, str]) -> None:
    written = [json.dumps(record, separators=separators).encode() for record in records]
    decoded = Decoder(RecordRules(FIELDS)).decode(b"\n".join(written) + b"\n")
    assert decoded.rejected == ()
    for record, row in zip(records, decoded.batch.to_pylist(), strict=True):
        for name in ("i", "f", "s", "b", "l"):
            assert row[name] == record.get(name)
        assert (row["n"] is None) == (record.get("n") is None)
    assert decoded.batch.schema.equals(pa.schema(Decoder(RecordRules(FIELDS)).schema))


@pytest.mark.parametrize("kind", ["float32", "float64", "int64", "decimal(10,2)"])
@pytest.mark.parametrize("numbers", list(Numbers))
def test_an_exponent_of_any_size_is_answered(kind: str, numbers: Numbers) -> None:
    fields = (FieldSpec("n", kind),)
    for number in (b"1e-9999999999", b"-1e-9999999999", b"0." + b"0" * 300_000 + b"1"):
        decoded = Decoder(RecordRules(fields, numbers=numbers)).decode(b'{"n":%b}\n' % number)
        assert [each["n"] for each in decoded.batch.to_pylist()] == ([0] if numbers is Numbers.LENIENT else [])
    for number in (b"0e999999999", b"-0.0E9999999999999999999999", b"0e-9999999999"):
        assert decode_one(b'{"n":%b}' % number, fields=fields, numbers=numbers) == {"n": 0}


@pytest.mark.parametrize("text", ["1_0", " 1 ", "1 ", "\u0663", "", ".", "NaN", "Infinity", "9" * 100_000 + "x"])
@pytest.mark.parametrize("kind", ["float32", "float64", "int64", "decimal(10,2)"])
def test_a_text_that_is_no_number_is_none_in_any_column(kind: str, text: str) -> None:
    line = json.dumps({"n": text}).encode() + b"\n"
    for numbers in Numbers:
        decoded = Decoder(RecordRules((FieldSpec("n", kind),), numbers=numbers)).decode(line)
        assert [each.offset for each in decoded.rejected] == [0], decoded.batch.to_pylist()


def mapped(name: str, values: FieldSpec) -> FieldSpec:
    return FieldSpec(name, "map", keys=KEY, values=values)


@pytest.mark.parametrize("kind", ["int64", "int32", "decimal(10,2)"])
@pytest.mark.parametrize("number", [b"1e-30", b"5." + b"0" * 40 + b"1"])
def test_digits_far_behind_the_point_are_seen_in_every_place(kind: str, number: bytes) -> None:
    value = FieldSpec("value", kind)
    of_maps = FieldSpec("l", "list", items=mapped("element", value))
    of_structs = mapped("s", FieldSpec("value", "struct", fields=(FieldSpec("v", kind),)))
    fields = (of_maps, mapped("m", mapped("value", value)), mapped("k", value), of_structs, FieldSpec("km/h", kind))
    for line in (
        b'{"l":[{"a":1},{"b":%b}]}',
        b'{"m":{"a":{"x":1},"b":{"y":%b}}}',
        b'{"k":{"a}b":1,"c":%b}}',
        b'{"s":{"a}b":{"v":1},"c":{"v":%b}}}',
        b'{"km\\/h":%b}',
    ):
        decoded = Decoder(RecordRules(fields)).decode(line % number + b"\n")
        assert decoded.batch.to_pylist() == [], line
        only = tuple(each for each in fields if b'"%b"' % each.name.encode() in line.replace(b"\\", b""))
        assert Decoder(RecordRules(only)).decode(line % number + b"\n").batch.to_pylist() == [], line


@pytest.mark.parametrize("neighbour", [b"", b"bad\n"])
def test_a_number_is_no_date_whichever_way_it_is_read(neighbour: bytes) -> None:
    fields = (FieldSpec("d", "date"), FieldSpec("t", "timestamp"))
    decoded = Decoder(RecordRules(fields, numbers=Numbers.LENIENT)).decode(b'{"d":19723}\n{"t":1000000}\n' + neighbour)
    assert decoded.batch.to_pylist() == [{"d": None, "t": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)}]
    assert "does not fit a date column" in decoded.rejected[0].reason
