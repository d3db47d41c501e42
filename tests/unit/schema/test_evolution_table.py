"""The table of changes, row by row, in every mode, at every depth: columns, and fields inside structs, lists, maps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pytest

from tidegate.errors import ReplacesTable, SchemaMismatch
from tidegate.schema.evolution import Kind, differences, evolve, write_schema
from tidegate.schema.types import TIMESTAMP, type_name
from tidegate.specs.table import Evolution

STRICT, MERGE, OVERWRITE = Evolution.STRICT, Evolution.MERGE, Evolution.OVERWRITE
Fields = list[pa.Field]
KEEP = pa.field("keep", pa.string())


def element(kind: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", kind))


DEPTHS: dict[str, tuple[Callable[[Fields], Fields], str]] = {
    "column": (lambda fields: fields, ""),
    "struct": (lambda fields: [pa.field("u", pa.struct(fields))], "u."),
    "struct in list": (lambda fields: [pa.field("l", element(pa.struct(fields)))], "l.element."),
    "struct in list in map": (
        lambda fields: [pa.field("m", pa.map_(pa.string(), element(pa.struct(fields))))],
        "m.value.element.",
    ),
    "struct in map in struct in list": (
        lambda fields: [pa.field("l", element(pa.struct([pa.field("m", pa.map_(pa.string(), pa.struct(fields)))])))],
        "l.element.m.value.",
    ),
}


@dataclass(frozen=True)
class Row:
    """A row of the table: what table and file have, and in which modes it goes; elsewhere it is refused."""

    table: Fields
    file: Fields
    fits: tuple[Evolution, ...]
    added: bool = False
    words: tuple[str, ...] = ()


def field(kind: pa.DataType, *, nullable: bool = True) -> Fields:
    return [pa.field("c", kind, nullable=nullable)]


ROWS = {
    "same": Row(field(pa.int64()), field(pa.int64()), (STRICT, MERGE, OVERWRITE)),
    "same, in another form of Arrow": Row(field(pa.string()), field(pa.large_string()), (STRICT, MERGE, OVERWRITE)),
    "new nullable column": Row([], field(pa.int64()), (MERGE, OVERWRITE), added=True),
    "new required column": Row([], field(pa.int64(), nullable=False), (), words=("new and required",)),
    "missing column": Row(field(pa.int64()), [], (MERGE, OVERWRITE)),
    "missing required column": Row(field(pa.int64(), nullable=False), [], (), words=("required in the table",)),
    "int32 into int64": Row(field(pa.int64()), field(pa.int32()), (STRICT, MERGE, OVERWRITE)),
    "float32 into float64": Row(field(pa.float64()), field(pa.float32()), (STRICT, MERGE, OVERWRITE)),
    "date into timestamp": Row(field(TIMESTAMP), field(pa.date32()), (STRICT, MERGE, OVERWRITE)),
    "decimal into a wider one": Row(
        field(pa.decimal128(12, 4)), field(pa.decimal128(10, 2)), (STRICT, MERGE, OVERWRITE)
    ),
    "int64 into int32": Row(field(pa.int32()), field(pa.int64()), (), words=("narrower", "`tidegate table widen`")),
    "float64 into float32": Row(
        field(pa.float32()), field(pa.float64()), (), words=("narrower", "`tidegate table widen`")
    ),
    "timestamp into date": Row(
        field(pa.date32()), field(TIMESTAMP), (), words=("narrower", "type widening", "Spark writes the table")
    ),
    "text into a number": Row(field(pa.int64()), field(pa.string()), ()),
    "a number into text": Row(field(pa.string()), field(pa.int64()), ()),
    "a moment without a zone": Row(field(TIMESTAMP), field(pa.timestamp("us")), ()),
    "a decimal with other digits": Row(field(pa.decimal128(10, 2)), field(pa.decimal128(10, 4)), ()),
    "a struct into text": Row(field(pa.string()), field(pa.struct([("a", pa.int64())])), ()),
    "a list into its item": Row(field(pa.int64()), field(element(pa.int64())), ()),
    "nullable into required": Row(
        field(pa.int64(), nullable=False), field(pa.int64()), (), words=("required in the table but nullable",)
    ),
    "required into nullable": Row(field(pa.int64()), field(pa.int64(), nullable=False), (STRICT, MERGE, OVERWRITE)),
    "another spelling": Row(
        field(pa.int64()),
        [pa.field("C", pa.int64())],
        (),
        words=("Delta ignores upper and lower case", "as the table spells it"),
    ),
}


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("mode", [STRICT, MERGE, OVERWRITE])
@pytest.mark.parametrize("name", ROWS)
def test_a_row_of_the_table(name: str, mode: Evolution, depth: str) -> None:
    row = ROWS[name]
    wrapped, above = DEPTHS[depth]
    table = pa.schema([*wrapped([KEEP, *row.table]), pa.field("day", pa.string())])
    file = pa.schema(wrapped([KEEP, *row.file]))
    if mode in row.fits:
        changed = evolve(table, file, mode, partition_columns=("day",), file_name="x.parquet")
        assert bool(changed) is row.added
        written = write_schema(file, table, mode, ("day",))
        assert evolve(table, written, mode, partition_columns=("day",)) == changed
        return
    kind = ReplacesTable if mode is OVERWRITE else SchemaMismatch
    with pytest.raises(kind) as caught:
        evolve(table, file, mode, partition_columns=("day",), file_name="x.parquet")
    told = str(caught.value)
    assert "x.parquet" in told
    assert f"'{above}c'" in told
    for side in (row.table, row.file):
        if row.table and row.file and not row.words:
            assert type_name(side[0].type) in told
    if mode is not STRICT:
        assert all(word in told for word in row.words)


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_narrower_file_is_written_with_the_types_of_the_table(depth: str) -> None:
    wrapped, above = DEPTHS[depth]
    table, file = pa.schema(wrapped(field(pa.int64()))), pa.schema(wrapped(field(pa.int32())))
    assert write_schema(file, table, MERGE) == table
    (found,) = differences(table, file, MERGE)
    assert (found.path, found.kind, found.table, found.file) == (f"{above}c", Kind.NARROWER_FILE, "int64", "int32")


def test_every_difference_is_told_at_once() -> None:
    table = pa.schema([("a", pa.int32()), ("b", pa.string()), ("c", pa.int64()), ("Name", pa.string())])
    file = pa.schema([("a", pa.int64()), ("c", pa.int32()), ("name", pa.string()), ("d", pa.bool_())])
    found = {each.path: (each.kind, each.error is None) for each in differences(table, file, MERGE)}
    assert found == {
        "name": (Kind.SPELLING, False),
        "a": (Kind.NARROWER_TABLE, False),
        "b": (Kind.MISSING, True),
        "c": (Kind.NARROWER_FILE, True),
        "d": (Kind.NEW, True),
    }
