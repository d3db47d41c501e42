"""Every field that the schema does not have is named, with how often it stood there, null or not."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.long_runs import examples
from tidegate.formats.json import Decoder
from tidegate.formats.strict_lines import RecordRules
from tidegate.specs.table import FieldSpec, Numbers

pytestmark = pytest.mark.usefixtures("each_reader")

KEY = FieldSpec("key", "string", nullable=False)
FIELDS = (
    FieldSpec("id", "int64"),
    FieldSpec("s", "string"),
    FieldSpec("nullable", "boolean"),
    FieldSpec("t", "timestamp"),
    FieldSpec("u", "struct", fields=(FieldSpec("a", "int64"), FieldSpec("b", "string"))),
    FieldSpec("k", "list", items=FieldSpec("element", "struct", fields=(FieldSpec("v", "int64"),))),
)
MAP = FieldSpec("m", "map", keys=KEY, values=FieldSpec("value", "struct", fields=(FieldSpec("v", "int64"),)))
WAYS: dict[str, dict[str, Any]] = {
    "strict": {"fields": FIELDS},
    "lenient": {"fields": FIELDS, "numbers": Numbers.LENIENT},
    "with a map": {"fields": (*FIELDS, MAP)},
    "coerced": {"fields": FIELDS, "coerce": True},
    "with json": {"fields": (*FIELDS, FieldSpec("j", "json"))},
    "rescued": {"fields": (*FIELDS, FieldSpec("_left", "string")), "rescued": "_left"},
}


def block(records: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("every", [1, 10, 333, 1000])
def test_a_field_in_few_lines_is_named_and_counted(way: str, every: int) -> None:
    decoder = Decoder(RecordRules(**WAYS[way]))
    records = [
        {"id": n, "s": "x", "t": "2026-01-28T00:00:00Z"} | ({"rare": n} if n % every == 0 else {}) for n in range(1000)
    ]
    for _ in range(3):
        assert decoder.decode(block(records)).batch.num_rows == 1000
    assert decoder.unknown == {"rare": 3 * -(-1000 // every)}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("record", "names"),
    [
        ({"nullable": True, "x": 1}, {"x": 1}),
        ({"x": [None]}, {"x": 1}),
        ({"x": None, "s": None}, {"x": 1}),
        ({"u": {"extra": None}, "x": None, "y": 1}, {"u.extra": 1, "x": 1, "y": 1}),
        ({"x": {}}, {"x": 1}),
        ({"x": {"y": {"z": None}}}, {"x": 1}),
        ({"x": [1, "a", {"b": []}]}, {"x": 1}),
        ({"u": {"a": 1, "extra": 2}, "extra": False}, {"u.extra": 1, "extra": 1}),
        ({"k": [{"v": 1, "w": 2}, {"w": 3}, {"w": None}]}, {"k.w": 3}),
        ({"a.b": 1, "": 2, 'q"': 3, "ü": 4}, {"a.b": 1, "": 1, 'q"': 1, "ü": 1}),
        ({"x": 10**40, "y": "\ud83d\ude00:null,"}, {"x": 1, "y": 1}),
    ],
)
def test_names_are_paths_and_nulls_are_named_too(way: str, record: dict[str, Any], names: dict[str, int]) -> None:
    decoder = Decoder(RecordRules(**WAYS[way]))
    decoder.decode(block([{"id": 1}, record]))
    assert decoder.unknown == names


def test_a_field_inside_maps_is_named_without_their_keys() -> None:
    decoder = Decoder(RecordRules((*FIELDS, MAP)))
    decoder.decode(block([{"m": {"p": {"v": 1, "w": 2}, "q": {"w": 3}}}]))
    assert decoder.unknown == {"m.w": 2}


@pytest.mark.parametrize("way", WAYS)
def test_lines_that_are_no_records_are_not_counted(way: str) -> None:
    decoder = Decoder(RecordRules(**WAYS[way]))
    lines = block([{"id": 1, "x": 1}, {"id": 2, "x": 2}]) + b'{"id":"q","x":3}\n{"x":1,\n'
    rows = decoder.decode(lines).batch.num_rows
    assert decoder.unknown["x"] == rows
    assert rows == (3 if way == "rescued" else 2)


def test_fields_of_several_kinds_and_very_many_fields_are_counted_all_the_same() -> None:
    decoder = Decoder(RecordRules(FIELDS))
    records = [{"id": n, "x": [1, "a", {"y": 1}, [2]][n % 4], f"f{n}": n} for n in range(2000 + 500)]
    for start in range(0, len(records), 500):
        decoder.decode(block(records[start : start + 500]))
    assert decoder.unknown == {"x": len(records)} | {f"f{n}": 1 for n in range(len(records))}


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats(-1, 1)
    | st.sampled_from(["", "a", ":null", "null", '"', "\\"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abvw"), inner, max_size=3),
    max_leaves=6,
)
KNOWN: dict[str, st.SearchStrategy[Any]] = {
    "id": st.none() | st.integers(-9, 9),
    "s": st.none() | st.sampled_from(["", ":null", "x", '","y":']),
    "nullable": st.none() | st.booleans(),
    "u": st.none() | st.fixed_dictionaries({}, optional={"a": st.integers(0, 9), "b": st.just("null"), "w": VALUES}),
    "k": st.none() | st.lists(st.fixed_dictionaries({}, optional={"v": st.integers(0, 9), "w": VALUES}), max_size=3),
}
RECORDS = st.fixed_dictionaries({}, optional=KNOWN | {"x": VALUES, "y": VALUES, "null": VALUES})


def expected(records: list[dict[str, Any]]) -> Counter[str]:
    names: Counter[str] = Counter()
    for record in records:
        names.update(name for name in record if name not in KNOWN)
        names["u.w"] += "w" in (record.get("u") or {})
        names["k.w"] += sum("w" in each for each in record.get("k") or [])
    return +names


@pytest.mark.parametrize("way", ["strict", "lenient", "rescued"])
@settings(max_examples=examples(500, 25), deadline=None)
@given(blocks=st.lists(st.lists(RECORDS, min_size=1, max_size=8), min_size=1, max_size=4))
def test_counts_are_exact_whatever_came_before(way: str, blocks: list[list[dict[str, Any]]]) -> None:
    decoder = Decoder(RecordRules(**WAYS[way]))
    for records in blocks:
        assert decoder.decode(block(records)).batch.num_rows == len(records)
    assert decoder.unknown == expected([record for records in blocks for record in records])


def test_undeclared_fields_beside_a_number_out_of_range_are_counted() -> None:
    decoder = Decoder(RecordRules((FieldSpec("j", "json"),)))
    assert decoder.decode(b'{"j":1,"u":1e400,"v":2}\n').batch.to_pylist() == [{"j": "1"}]
    assert decoder.unknown == {"u": 1, "v": 1}


def test_a_name_with_a_zero_character_is_not_cut_to_another() -> None:
    decoder = Decoder(RecordRules((FieldSpec("a", "int64"),)))
    for line in (
        b'{"a":1,"b\\u0000c":"t"}\n',
        b'{"a":1,"b":"q"}\n',
        b'{"a":1,"u":{"d\\u0000":1}}\n',
        b'{"a":1,"u":{"d":2}}\n',
    ):
        assert decoder.decode(line * 5).batch.to_pylist() == [{"a": 1}] * 5
    assert decoder.unknown == {"b\0c": 5, "b": 5, "u": 10}


@pytest.mark.parametrize(
    "rest",
    [
        '"x:null":1',
        '"x:null":null',
        '"x": {"y:null":1}',
        '"x":[{"y:null":1}]',
        '":null":null',
        '"x: null" : null',
        r'"x\":null,":null,"y\":null":null',
        r'"x\\:null":null',
        '"x:":1,"y:null":null',
    ],
)
@pytest.mark.parametrize("value", ['"5"', "1.5"])
def test_no_key_hides_a_value_that_does_not_fit(rest: str, value: str) -> None:
    decoder = Decoder(RecordRules((FieldSpec("a", "int64"), FieldSpec("s", "string"))))
    for s in ('"t"', "null", '":null"', r'"\":null"'):
        good, bad = (f'{{"a":{each},"s":{s},{rest}}}\n'.encode() for each in ("5", value))
        for _ in range(2):
            assert len(decoder.decode(good * 3).rejected) == 0
            assert len(decoder.decode(bad * 2).rejected) == 2
            assert len(decoder.decode(good + bad).rejected) == 1


@pytest.mark.parametrize("length", [3, 8, 9, 16, 17, 40])
def test_names_that_begin_and_end_alike_are_told_apart(length: int) -> None:
    begin, end = "begin---"[: length // 2], "----end"[: length - length // 2 - 1]
    names = [f"{begin}{chr(0x41 + number)}{end}".ljust(length, "_") for number in range(20)]
    names += [f"first---{number:03d}---last" for number in range(300)] if length == 40 else []
    decoder = Decoder(RecordRules(tuple(FieldSpec(name, "int64") for name in names[::2])))
    record = {name: number for number, name in enumerate(names)}
    for chosen in (names, names[::-1], names[3:], names[1::3]):
        line = json.dumps({name: record[name] for name in chosen}).encode() + b"\n"
        expected = {name: record[name] if name in chosen else None for name in names[::2]}
        assert decoder.decode(line * 2).batch.to_pylist() == [expected] * 2
    assert decoder.unknown == {name: 2 * (2 + (name in names[3:]) + (name in names[1::3])) for name in names[1::2]}
