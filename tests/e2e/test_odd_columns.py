"""Columns at the edges, from file to table and back: names, nesting, decimals, moments, conflicts kept as text."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from support.lake import Lake


def read(lake: Lake) -> list[dict[str, Any]]:
    rows = pa.table(DeltaTable(lake.root / "lake/events").scan()).to_pylist()
    return sorted(rows, key=lambda row: row["id"])


def ingested(tmp_path: Path, fields: list[dict[str, Any]], *lines: str, **schema: Any) -> list[dict[str, Any]]:
    """What lines with these fields beside an id become."""
    lake = Lake(tmp_path, schema={"fields": [{"name": "id", "type": "int64"}, *fields], **schema})
    lake.write("d/1.ndjson", "".join(f'{{"id":{number},{line}}}\n' for number, line in enumerate(lines)))
    report = lake.run()
    assert (report.sources[0].error, report.sources[0].bad_records) == (None, 0)
    return read(lake)


@pytest.mark.parametrize("name", ["user.name", "straße", "名前", "a-b", "ÑÆ", "x" * 200, "null", "a:b", "it's", "100%"])
def test_a_name_survives_the_way_into_the_table(tmp_path: Path, name: str) -> None:
    (row,) = ingested(tmp_path, [{"name": name, "type": "string"}], f"{json.dumps(name)}:{json.dumps(name)}")
    assert row[name] == name


def test_a_dot_in_a_name_is_not_a_path(tmp_path: Path) -> None:
    fields = [
        {"name": "u.a", "type": "int64"},
        {"name": "u", "type": "struct", "fields": [{"name": "a", "type": "string"}]},
    ]
    (row,) = ingested(tmp_path, fields, '"u.a":1,"u":{"a":"x"}')
    assert (row["u.a"], row["u"]) == (1, {"a": "x"})


def test_twelve_structs_inside_each_other(tmp_path: Path) -> None:
    field: dict[str, Any] = {"name": "n", "type": "int64"}
    value: Any = 7
    for _ in range(12):
        field, value = {"name": "n", "type": "struct", "fields": [field]}, {"n": value}
    (row,) = ingested(tmp_path, [field], f'"n":{json.dumps(value)}')
    assert row["n"] == value


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("decimal(38,38)", "0." + "9" * 38, Decimal("0." + "9" * 38)),
        ("decimal(38,0)", "9" * 38, Decimal("9" * 38)),
        ("decimal(1,0)", "-9", Decimal(-9)),
        ("decimal(10,2)", '"12.5"', Decimal("12.50")),
        ("timestamp", '"2026-01-28T14:00:00"', datetime(2026, 1, 28, 14, tzinfo=UTC)),
        ("timestamp", '"2026-01-28T14:00:00.123456+05:30"', datetime(2026, 1, 28, 8, 30, 0, 123456, UTC)),
        ("timestamp", '"2026-01-28T14:00:00Z"', datetime(2026, 1, 28, 14, tzinfo=UTC)),
        ("binary", '"AP8="', b"\x00\xff"),
        ("json", '{"a": [1.0, null]}', '{"a":[1.0,null]}'),
    ],
)
def test_values_at_the_edge_of_their_type(tmp_path: Path, kind: str, text: str, value: object) -> None:
    assert ingested(tmp_path, [{"name": "v", "type": kind}], f'"v":{text}')[0]["v"] == value


def test_conflicts_are_kept_as_text_at_any_depth(tmp_path: Path) -> None:
    struct = {"type": "struct", "fields": [{"name": "s", "type": "string"}]}
    fields = [
        {"name": "s", "type": "string"},
        {"name": "l", "type": "list", "items": "string"},
        {"name": "m", "type": "map", "keys": "string", "values": "string"},
        {"name": "k", "type": "list", "items": struct},
        {"name": "d", "type": "map", "keys": "string", "values": {"type": "list", "items": struct}},
    ]
    rows = ingested(
        tmp_path,
        fields,
        '"s":{"a": 1},"l":["x",1.50,null,[1, 2]],"m":{"p":true,"q":"y"},"k":[{"s":[]},{"s":"z"}],"d":{"p":[{"s":1e3}]}',
        '"s":"plain","l":[],"m":{},"k":null,"d":{"p":null}',
        coerce_conflicts_to_utf8=True,
    )
    assert rows[0] == {
        "id": 0,
        "s": '{"a":1}',
        "l": ["x", "1.50", None, "[1,2]"],
        "m": [("p", "true"), ("q", "y")],
        "k": [{"s": "[]"}, {"s": "z"}],
        "d": [("p", [{"s": "1e3"}])],
    }
    assert rows[1]["s"] == "plain"


def test_required_fields_inside_structs_and_lists_refuse_their_line_only(tmp_path: Path) -> None:
    fields = [
        {"name": "u", "type": "struct", "fields": [{"name": "a", "type": "int64", "nullable": False}]},
        {"name": "l", "type": "list", "items": {"type": "int64", "nullable": False}},
    ]
    lake = Lake(tmp_path, schema={"fields": [{"name": "id", "type": "int64"}, *fields]})
    lake.write("d/1.ndjson", '{"id":1,"u":{}}\n{"id":2,"l":[null]}\n{"id":3,"u":{"a":1},"l":[1]}\n{"id":4}\n')
    assert lake.run().sources[0].bad_records == 2
    assert [row["id"] for row in read(lake)] == [3, 4]
