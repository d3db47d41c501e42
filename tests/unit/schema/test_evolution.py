"""The table of changes: what fits, what is added, what is refused and with which words."""

from __future__ import annotations

import pyarrow as pa
import pytest

from support.errors import raises
from tidegate.errors import ReplacesTable, SchemaMismatch
from tidegate.schema.evolution import evolve, write_schema
from tidegate.schema.types import TIMESTAMP, type_name
from tidegate.specs.table import Evolution

TABLE = pa.schema([pa.field("id", pa.int64(), nullable=False), ("s", pa.string()), ("date", pa.string())])
FILE = pa.schema([pa.field("id", pa.int64(), nullable=False), ("s", pa.string())])
STRICT, MERGE, OVERWRITE = Evolution.STRICT, Evolution.MERGE, Evolution.OVERWRITE


def added(table: pa.Schema, file: pa.Schema, mode: Evolution = MERGE) -> tuple[pa.Field, ...]:
    return evolve(table, file, mode, partition_columns=("date",), file_name="x.parquet")


def change(column: pa.Field, to: pa.Field) -> tuple[pa.Schema, pa.Schema]:
    return pa.schema([column]), pa.schema([to])


@pytest.mark.parametrize("mode", [STRICT, MERGE])
def test_the_same_columns_fit_and_partition_columns_may_be_absent(mode: Evolution) -> None:
    assert added(TABLE, FILE, mode) == ()
    assert added(TABLE, FILE.set(1, pa.field("s", pa.large_string())), mode) == ()


def test_a_new_nullable_column_is_added_by_merge_and_refused_by_strict() -> None:
    file = FILE.append(pa.field("n", pa.int32()))
    assert added(TABLE, file) == (pa.field("n", pa.int32()),)
    with raises(SchemaMismatch, "'n'", "int32", "x.parquet", "schema_evolution: merge"):
        added(TABLE, file, STRICT)


def test_a_new_required_column_is_refused() -> None:
    with raises(SchemaMismatch, "'n'", "int32", "x.parquet", "required"):
        added(TABLE, FILE.append(pa.field("n", pa.int32(), nullable=False)))


def test_a_missing_column_is_null_in_merge_and_refused_by_strict() -> None:
    file = FILE.remove(1)
    assert added(TABLE, file) == ()
    with raises(SchemaMismatch, "'s'", "x.parquet", "missing"):
        added(TABLE, file, STRICT)


def test_a_missing_required_column_is_refused() -> None:
    with raises(SchemaMismatch, "'id'", "x.parquet", "required", "missing"):
        added(TABLE, FILE.remove(0))


def test_a_nullable_column_does_not_fit_a_required_one() -> None:
    with raises(SchemaMismatch, "'id'", "x.parquet", "nullable: false"):
        added(TABLE, FILE.set(0, pa.field("id", pa.int64())))


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        (pa.int32(), pa.int64()),
        (pa.float32(), pa.float64()),
        (pa.int32(), pa.float64()),
        (pa.date32(), TIMESTAMP),
        (pa.decimal128(10, 2), pa.decimal128(12, 2)),
        (pa.decimal128(10, 2), pa.decimal128(12, 4)),
        (pa.int32(), pa.decimal128(12, 2)),
    ],
)
@pytest.mark.parametrize("mode", [STRICT, MERGE])
def test_a_narrower_file_is_cast_and_a_narrower_table_names_the_ways_out(
    narrow: pa.DataType, wide: pa.DataType, mode: Evolution
) -> None:
    table, file = pa.schema([("c", wide)]), pa.schema([("c", narrow)])
    assert added(table, file, mode) == ()
    assert write_schema(file, table, mode).field("c").type == wide
    with raises(SchemaMismatch, "'c'", "x.parquet", "tidegate table widen"):
        added(file, table, mode)


@pytest.mark.parametrize(
    ("table", "file"),
    [
        (pa.string(), pa.int64()),
        (pa.int64(), pa.float64()),
        (pa.decimal128(10, 2), pa.decimal128(10, 4)),
        (TIMESTAMP, pa.timestamp("us")),
        (pa.list_(pa.int64()), pa.int64()),
        (pa.struct([("a", pa.int64())]), pa.string()),
    ],
)
def test_another_type_names_column_types_and_file(table: pa.DataType, file: pa.DataType) -> None:
    with raises(SchemaMismatch, "'c'", type_name(table), type_name(file), "x.parquet"):
        added(pa.schema([("c", table)]), pa.schema([("c", file)]))


def test_fields_of_structs_lists_and_maps_are_compared_too() -> None:
    table = pa.schema(
        [
            ("u", pa.struct([("a", pa.int64()), ("z", pa.string())])),
            ("l", pa.list_(pa.struct([("x", pa.int64())]))),
            ("m", pa.map_(pa.string(), pa.int64())),
        ]
    )
    file = pa.schema(
        [
            ("u", pa.struct([("a", pa.int32()), ("b", pa.bool_())])),
            ("l", pa.list_(pa.field("item", pa.struct([("x", pa.int32()), ("y", pa.string())])))),
            ("m", pa.map_(pa.string(), pa.int32())),
        ]
    )
    changed = {field.name: field.type for field in added(table, file)}
    assert changed["u"] == pa.struct([("a", pa.int64()), ("z", pa.string()), ("b", pa.bool_())])
    assert [child.name for child in changed["l"].value_type] == ["x", "y"]
    assert "m" not in changed
    written = write_schema(file, table, MERGE)
    assert written.field("u").type == pa.struct([("a", pa.int64()), ("b", pa.bool_())])
    assert written.field("m").type.item_type == pa.int64()
    with raises(SchemaMismatch, "'u.a'", "string", "int32", "x.parquet"):
        added(pa.schema([("u", pa.struct([("a", pa.string())]))]), file.remove(2).remove(1))


def test_names_that_differ_only_in_case_are_refused() -> None:
    with raises(SchemaMismatch, "'ID'", "x.parquet", "'id'"):
        added(pa.schema([("id", pa.int64())]), pa.schema([("ID", pa.int64())]))


def test_what_merge_refuses_replaces_the_table_in_overwrite() -> None:
    file = pa.schema([pa.field("id", pa.string(), nullable=False), ("s", pa.string())])
    with raises(ReplacesTable, "'id'", "int64", "string", "x.parquet"):
        added(TABLE, file, OVERWRITE)
    with pytest.raises(ReplacesTable):
        write_schema(file, TABLE, OVERWRITE)


def test_what_keeps_every_row_is_the_same_in_merge_and_in_overwrite() -> None:
    file = FILE.remove(1).append(pa.field("n", pa.int32()))
    assert added(TABLE, file, OVERWRITE) == added(TABLE, file, MERGE) == (pa.field("n", pa.int32()),)


def test_the_written_columns_are_the_declared_ones_without_partition_columns() -> None:
    declared = pa.schema([*FILE, ("date", pa.string())])
    assert write_schema(declared, None, MERGE, ("date",)) == FILE
    assert write_schema(declared, TABLE, MERGE, ("date",)) == FILE
