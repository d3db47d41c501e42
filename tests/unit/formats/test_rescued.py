"""What fits no column is kept beside the others as JSON text, whatever the neighbours of a line are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tidegate.formats.json import Decoder
from tidegate.formats.strict_lines import RecordRules
from tidegate.specs.table import FieldSpec, Numbers

pytestmark = pytest.mark.usefixtures("each_reader")

FIELDS = (
    FieldSpec("id", "int64", nullable=False),
    FieldSpec("n", "int32"),
    FieldSpec("s", "string"),
    FieldSpec("t", "timestamp"),
    FieldSpec("u", "struct", fields=(FieldSpec("a", "int64"), FieldSpec("b", "string", nullable=False))),
    FieldSpec("l", "list", items=FieldSpec("element", "int64")),
    FieldSpec("k", "list", items=FieldSpec("element", "struct", fields=(FieldSpec("v", "int64"),))),
    FieldSpec(
        "m",
        "map",
        keys=FieldSpec("key", "string", nullable=False),
        values=FieldSpec("value", "struct", fields=(FieldSpec("v", "int64"),)),
    ),
    FieldSpec("left", "string"),
)
GOOD = b'{"id":7,"n":1,"s":"x","t":"2026-01-28T00:00:00Z","u":{"a":1,"b":"y"},"l":[1],"k":[{"v":1}],"m":{"q":{"v":1}}}'
NEIGHBOURS = {"alone": (b"", b""), "good": (GOOD + b"\n", GOOD + b"\n"), "bad": (b"nonsense\n", b"\n{\n")}


def rescuing(**options: Any) -> Decoder:
    return Decoder(RecordRules(FIELDS, rescued="left", **options))


def decoded(line: bytes, neighbours: str = "alone", **options: Any) -> dict[str, Any]:
    """The record that ``line`` becomes among others."""
    before, after = NEIGHBOURS[neighbours]
    found = rescuing(**options).decode(before + line + b"\n" + after)
    return next(row for row in found.batch.to_pylist() if row["id"] == 1)


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize(
    ("line", "nulls", "text"),
    [
        (b'{"id":1,"more":1.50}', (), '{"more":1.50}'),
        (b'{"id":1,"more":null}', (), '{"more":null}'),
        (b'{"id":1,"u":{"b":"y","c":null}}', (), '{"u.c":null}'),
        (b'{"id":1,"n":null,"u":null}', ("n", "u"), None),
        (b'{"id":1,"a b":{"c":[1, 2]},"z":"\xc3\xa4\\n"}', (), '{"a b":{"c":[1,2]},"z":"ä\\n"}'),
        (b'{"id":1,"n":12.7,"s":"x"}', ("n",), '{"n":12.7}'),
        (b'{"id":1,"n":3000000000}', ("n",), '{"n":3000000000}'),
        (b'{"id":1,"s":{"x":1}}', ("s",), '{"s":{"x":1}}'),
        (b'{"id":1,"t":1706450400}', ("t",), '{"t":1706450400}'),
        (b'{"id":1,"t":"yesterday","more":1}', ("t",), '{"t":"yesterday","more":1}'),
        (b'{"id":1,"u":[]}', ("u",), '{"u":[]}'),
        (b'{"id":1,"u":{"a":"x","b":"y","c":3}}', (), '{"u.a":"x","u.c":3}'),
        (b'{"id":1,"u":{"a":"x","c":3}}', ("u",), '{"u":{"a":"x","c":3}}'),
        (b'{"id":1,"l":[1,"two",3]}', (), '{"l[1]":"two"}'),
        (b'{"id":1,"k":[{"v":1},{"v":2,"w":9}]}', (), '{"k[1].w":9}'),
        (b'{"id":1,"m":{"q":{"v":1,"w":9}}}', (), '{"m.q.w":9}'),
        (b'{"id":1,"left":"mine"}', (), '{"left":"mine"}'),
        (b'{"id":1,"left":"mine","n":2.5}', ("n",), '{"left":"mine","n":2.5}'),
    ],
)
def test_what_fits_no_column_is_kept_as_text(
    line: bytes, nulls: tuple[str, ...], text: str | None, neighbours: str
) -> None:
    record = decoded(line, neighbours)
    assert record["left"] == text
    assert all(record[name] is None for name in nulls)
    if text is not None:
        json.loads(text)


def test_a_value_inside_a_list_is_null_and_its_neighbours_stay() -> None:
    assert decoded(b'{"id":1,"l":[1,"two",3]}')["l"] == [1, None, 3]
    assert decoded(b'{"id":1,"u":{"a":"x","b":"y"}}')["u"] == {"a": None, "b": "y"}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"id":"x","more":1}', "does not fit int64"),
        (b'{"n":1,"more":1}', "required field 'id' is missing"),
        (b'{"id":1,"n":1,"n":2}', "key 'n' is repeated"),
        (b'{"id":1,"u":{"a":1,"a":2,"b":"y"}}', "key 'u.a' is repeated"),
        (b'{"id":1,"k":[{"v":1},{"v":1,"v":1}]}', "key 'k[1].v' is repeated"),
        (b'{"id":1,"m":{"q":{"v":1},"q":{"v":1}}}', "key 'm.q' is repeated"),
        (b'{"id":1,"n":"x","n":2}', "key 'n' is repeated"),
        (b'{"id":1,"u":{"a":"x","a":2,"b":"y"}}', "key 'u.a' is repeated"),
        (b'{"id":1,"u":{"a":"x","a":"z","b":"y"}}', "key 'u.a' is repeated"),
        (b'{"id":1,"u":7,"u":{"b":"y"}}', "key 'u' is repeated"),
        (b'{"id":1,"more":', "not JSON"),
        (b"[1]", "not an object"),
    ],
)
def test_what_cannot_be_a_row_stays_a_bad_record(line: bytes, reason: str) -> None:
    found = rescuing().decode(line + b"\n" + GOOD + b"\n")
    assert found.batch.num_rows == 1
    assert reason in found.rejected[0].reason


@pytest.mark.parametrize("line", [b'{"id":1,"more":"\\ud800"}', b'{"id":1,"x\\udfaa":1}', b'{"id":1,"s":"\\ud800"}'])
def test_half_a_surrogate_pair_is_a_bad_record(line: bytes) -> None:
    found = rescuing().decode(line + b"\n" + GOOD + b"\n")
    assert found.batch.num_rows == 1
    assert "is half a surrogate pair" in found.rejected[0].reason


def test_lenient_numbers_are_bent_and_the_rest_is_rescued() -> None:
    record = decoded(b'{"id":1,"n":12.7,"s":1,"more":2}', numbers=Numbers.LENIENT)
    assert (record["n"], record["s"], record["left"]) == (12, None, '{"s":1,"more":2}')


def test_text_columns_that_take_everything_leave_nothing_to_rescue() -> None:
    record = decoded(b'{"id":1,"s":{"x":1},"n":"q"}', coerce=True)
    assert (record["s"], record["n"], record["left"]) == ('{"x":1}', None, '{"n":"q"}')


def test_fields_and_values_are_counted_by_name() -> None:
    decoder = rescuing()
    block = b'{"id":1,"more":1,"k":[{"w":1},{"w":1}],"m":{"p":{"w":1},"q":{"w":1}}}\n{"id":2,"n":"x","l":["a","b"]}\n'
    decoder.decode(block)
    assert decoder.unknown == {"more": 1, "k.w": 2, "m.w": 2, "n": 1, "l[]": 2}


def test_beside_a_json_column_and_in_long_blocks_every_line_keeps_its_own() -> None:
    fields = (FieldSpec("id", "int64"), FieldSpec("j", "json"), FieldSpec("left", "string"))
    lines = [f'{{"id":{n},"j":{{"a": {n}}}' + (f',"more":{n}}}' if n % 300 == 0 else "}") for n in range(1000)]
    for kept in (fields, (fields[0], fields[2])):
        found = Decoder(RecordRules(kept, rescued="left")).decode(("\n".join(lines) + "\n").encode())
        rows = found.batch.to_pylist()
        assert [row["id"] for row in rows] == list(range(1000))
        for row in rows:
            other = {} if len(kept) == 3 else {"j": {"a": row["id"]}}
            expected = other | ({"more": row["id"]} if row["id"] % 300 == 0 else {})
            assert json.loads(row["left"] or "{}") == expected
