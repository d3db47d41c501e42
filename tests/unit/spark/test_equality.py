"""SQL for "two rows have the same values"; no Spark."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, IntegerType, LongType, MapType, StringType, StructField, StructType

from tidegate.spark.frames import SparkFrame
from tidegate.spark.loading.equality import comparable, same_values

NUMBER, TEXT = IntegerType(), StringType()
TAGS = MapType(TEXT, NUMBER)


def struct(**fields: object) -> StructType:
    return StructType([StructField(name, kind) for name, kind in fields.items()])  # type: ignore[arg-type]  # a type


def test_columns_are_compared_by_name_and_ignored_ones_are_not() -> None:
    rows, table = struct(id=NUMBER, V=TEXT, _ingested_at=TEXT), struct(v=TEXT, id=NUMBER, other=NUMBER)
    assert same_values(rows, table, ("ID", "_ingested_at")) == "t.`v` <=> s.`V`"
    assert same_values(rows, table, ("id", "v", "_ingested_at")) == "true"


def test_a_column_that_the_table_lacks_must_be_null() -> None:
    assert same_values(struct(a=TEXT, new=TEXT), struct(a=TEXT), ()) == "t.`a` <=> s.`a` AND s.`new` IS NULL"


def test_a_column_may_have_another_name_in_the_batch() -> None:
    assert same_values(struct(a=TEXT), struct(a=TEXT), (), {"a": "other"}) == "t.`a` <=> s.`other`"


def test_structs_of_different_types_are_compared_field_by_field() -> None:
    found = same_values(struct(s=struct(a=TEXT, gone=TEXT)), struct(s=struct(A=TEXT, more=NUMBER)), ())
    assert found == (
        "((t.`s` IS NULL) = (s.`s` IS NULL) AND t.`s`.`A` <=> s.`s`.`a` AND t.`s`.`more` IS NULL"
        " AND s.`s`.`gone` IS NULL)"
    )


@pytest.mark.parametrize(
    ("mine", "theirs"), [(NUMBER, LongType()), (ArrayType(struct(a=TEXT)), ArrayType(struct(b=TEXT)))]
)
def test_other_types_that_differ_count_as_changed(mine: object, theirs: object) -> None:
    assert same_values(struct(v=mine), struct(v=theirs), ()) == "(t.`v` IS NULL AND s.`v` IS NULL)"


def test_whether_a_part_may_be_null_makes_no_difference() -> None:
    found = same_values(struct(v=ArrayType(TEXT, False)), struct(v=ArrayType(TEXT, True)), ())
    assert found == "t.`v` <=> s.`v`"


def test_maps_are_compared_as_sorted_entries_wherever_they_are() -> None:
    entries = "array_sort(transform(map_entries({}), __tidegate_{} -> named_struct('k', __tidegate_{}.key, 'v', {})))"
    assert comparable("x", ArrayType(TEXT)) == "x"
    assert comparable("x", TAGS) == entries.format("x", 0, 0, "__tidegate_0.value")
    inner = entries.format("__tidegate_0.value", 1, 1, "__tidegate_1.value")
    assert comparable("x", MapType(TEXT, TAGS)) == entries.format("x", 0, 0, inner)
    element = entries.format("__tidegate_0", 1, 1, "__tidegate_1.value")
    assert comparable("x", ArrayType(TAGS)) == f"transform(x, __tidegate_0 -> {element})"
    field = entries.format("x.`m`", 0, 0, "__tidegate_0.value")
    assert comparable("x", struct(n=NUMBER, m=TAGS)) == f"if(x IS NULL, NULL, named_struct('f0', x.`n`, 'f1', {field}))"


class SameRows(SparkFrame):
    """A batch whose rows, cast to the types of the table, are those of the table."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind

    def columns(self, table: pa.Schema | None) -> pa.Schema:
        return pa.schema([("v", self._kind)])

    def _find_nothing(self, table: pa.Schema) -> bool:
        return True

    def _explain_failure(self) -> AbstractContextManager[None]:
        return nullcontext()


@pytest.mark.parametrize(
    ("batch", "table", "same"),
    [
        (pa.int32(), pa.int32(), True),
        (pa.float64(), pa.int32(), False),
        (pa.decimal128(10, 4), pa.decimal128(10, 2), False),
        (pa.string(), pa.int64(), False),
    ],
)
def test_values_of_a_type_that_the_table_cannot_hold_are_never_equal(
    batch: pa.DataType, table: pa.DataType, same: bool
) -> None:
    assert SameRows(batch).changes_nothing(pa.schema([("v", table)])) is same
    assert not SameRows(batch).changes_nothing(pa.schema([("w", table)]))
