"""Columns from cells and from the types of files."""

from __future__ import annotations

import pyarrow as pa
import pytest

from support.errors import raises
from tidegate.errors import SourceError
from tidegate.schema.inference import infer_cells
from tidegate.schema.types import infer_types
from tidegate.specs.table import FieldSpec


@pytest.mark.parametrize(
    ("cells", "type"),
    [
        (["1", "-20", None], "int64"),
        (["1", "2.5"], "float64"),
        (["1e3"], "float64"),
        (["9" * 18], "int64"),
        (["9" * 19], "decimal(20,0)"),
        (["9" * 21], "string"),
        (["1.5", "9007199254740993"], "string"),
        (["1e-400"], "string"),
        (["TRUE", "false"], "boolean"),
        (["007"], "string"),
        (["1", "x"], "string"),
        (["true", "1"], "string"),
        (["2024-01-28T00:00:00Z"], "string"),
        ([None, None], "string"),
    ],
)
def test_cells(cells: list[str | None], type: str) -> None:
    found = infer_cells([[{"a": cell} for cell in cells]])
    assert found.fields == (FieldSpec("a", type),)
    assert found.records == len(cells)


def test_the_report_says_what_the_cells_were() -> None:
    found = infer_cells([[{"a": "1", "b": None}, {"a": "x", "b": None}]], unreadable=2)
    assert tuple(each.describe() for each in found.report) == (
        'a: string (in 100% of 2 records: 1 integer, 1 string; kept as text: integer ("1") and string ("x"))',
        "b: string (in 0% of 2 records: never a value; never had a value; becomes text)",
    )
    assert found.unreadable == 2


def test_names_that_cannot_be_columns_are_refused_all_at_once() -> None:
    row = {"id": "1", "ID": "2", "a b": "3", "day": "4", "": "5"}
    with raises(SourceError, "'ID'", "'a b'", "' '", "'day'", "''"):
        infer_cells([[row]], forbidden=("day",))
    with raises(SourceError, "record", "schema.fields"):
        infer_cells([[]])


@pytest.mark.parametrize(
    ("type", "expected"),
    [
        (pa.int8(), "int32"),
        (pa.uint16(), "int32"),
        (pa.uint32(), "int64"),
        (pa.uint64(), "decimal(20,0)"),
        (pa.float16(), "float32"),
        (pa.timestamp("ns"), "timestamp"),
        (pa.timestamp("ms", "Europe/Berlin"), "timestamp"),
        (pa.date64(), "date"),
        (pa.binary(3), "binary"),
        (pa.large_string(), "string"),
        (pa.decimal256(30, 5), "decimal(30,5)"),
        (pa.null(), "string"),
    ],
)
def test_types(type: pa.DataType, expected: str) -> None:
    assert infer_types([("a.parquet", pa.schema([("a", type)]), 1)]).fields == (FieldSpec("a", expected),)


def test_nested_types_are_kept_at_any_depth() -> None:
    kind = pa.struct([("x", pa.list_(pa.int8())), ("m", pa.map_(pa.string(), pa.float64()))])
    (found,) = infer_types([("a", pa.schema([("s", kind)]), 1)]).fields
    items = FieldSpec("x", "list", items=FieldSpec("element", "int32"))
    values = FieldSpec("m", "map", keys=FieldSpec("key", "string", False), values=FieldSpec("value", "float64"))
    assert found == FieldSpec("s", "struct", fields=(items, values))


def test_files_are_joined_and_conflicts_named() -> None:
    narrow, wide = pa.schema([("a", pa.int32())]), pa.schema([("a", pa.int64()), ("b", pa.string())])
    found = infer_types([("1", narrow, 5), ("2", wide, 7)])
    assert found.fields == (FieldSpec("a", "int64"), FieldSpec("b", "string"))
    assert [(each.records, each.seen) for each in found.report] == [(12, 12), (12, 7)]
    with raises(SourceError, "'a'", "int32", "string (in 2)", "schema.fields"):
        infer_types([("1", narrow, 5), ("2", pa.schema([("a", pa.string())]), 1)])
    (kept,) = infer_types([("1", pa.schema([("t", pa.duration("us"))]), 1)]).fields
    assert kept == FieldSpec("t", "json")
    with raises(SourceError, "file", "schema.fields"):
        infer_types([])
