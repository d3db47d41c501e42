"""Delta statistics never hide a row, and are left out rather than wrong."""

from __future__ import annotations

import io
import json
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.long_runs import examples
from tidegate.parquet.parquet_file import GrowingFile, detach
from tidegate.parquet.partitions import Partition
from tidegate.parquet.statistics import INDEXED_COLUMNS, LONGEST_TEXT, _raise_text
from tidegate.schema.types import TIMESTAMP
from tidegate.specs.table import ParquetCodec

SCHEMA = pa.schema(
    [
        ("i", pa.int64()),
        ("f", pa.float64()),
        ("s", pa.string()),
        ("t", TIMESTAMP),
        ("d", pa.date32()),
        ("n", pa.decimal128(38, 4)),
        ("b", pa.bool_()),
        ("u", pa.struct([("v", pa.int32()), ("w", pa.struct([("x", pa.string())]))])),
        ("l", pa.list_(pa.int64())),
        ("g", pa.float32()),
    ]
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "i": st.none() | st.integers(-(2**63), 2**63 - 1),
            "f": st.none() | st.floats(),
            "s": st.none() | st.text(max_size=LONGEST_TEXT + 10),
            "t": st.none() | st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)),
            "d": st.none() | st.dates(),
            "n": st.none() | st.decimals(-(10**33), 10**33, places=4),
            "b": st.none() | st.booleans(),
            "u": st.none()
            | st.fixed_dictionaries(
                {
                    "v": st.none() | st.integers(-5, 5),
                    "w": st.none() | st.fixed_dictionaries({"x": st.text(max_size=3)}),
                }
            ),
            "l": st.none() | st.lists(st.integers(0, 3), max_size=2),
            "g": st.none() | st.floats(width=32),
        },
    ),
    min_size=1,
    max_size=8,
)


class Memory(io.BytesIO):
    """An output that stays readable."""

    def close(self) -> None: ...

    def abort(self) -> None: ...


def statistics(groups: list[list[dict[str, Any]]], schema: pa.Schema = SCHEMA) -> dict[str, Any]:
    file = GrowingFile("x.parquet", Partition(), "source", 0.0)
    for group in groups:
        file.hold(*detach(pa.RecordBatch.from_pylist(group, schema)), 0.0)
        file.flush(lambda path: Memory(), ParquetCodec.SNAPPY)  # type: ignore[arg-type, return-value]
    stats = file.seal().stats
    assert stats is not None
    found: dict[str, Any] = json.loads(stats, parse_float=Decimal)
    return found


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def within(value: Any, low: Any, high: Any) -> bool:
    """Whether a reader that skips by these bounds would still read the row."""
    if isinstance(value, datetime):
        return moment(low) <= value <= moment(high)
    if isinstance(value, date):
        return date.fromisoformat(low) <= value <= date.fromisoformat(high)
    if isinstance(value, str):
        return low.encode() <= value.encode() <= high.encode()
    if isinstance(value, float):
        return float(low) <= value <= float(high)
    return bool(low <= value <= high)


def leaf_values(rows: list[dict[str, Any]], path: tuple[str, ...]) -> list[Any]:
    values: list[Any] = rows
    for name in path:
        values = [None if value is None else value.get(name) for value in values]
    return values


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=3))
def test_no_row_lies_outside_the_bounds(groups: list[list[dict[str, Any]]]) -> None:
    found = statistics(groups)
    rows = [row for group in groups for row in group]
    assert found["numRecords"] == len(rows)
    for path in [("i",), ("f",), ("s",), ("t",), ("d",), ("n",), ("u", "v"), ("u", "w", "x"), ("g",)]:
        values = leaf_values(rows, path)
        nulls, low, high = found["nullCount"], found["minValues"], found["maxValues"]
        for name in path:
            nulls, low, high = ((each or {}).get(name) for each in (nulls, low, high))
        if not any(isinstance(value, float) and math.isnan(value) for value in values):
            assert nulls == sum(value is None for value in values)
        assert nulls in (None, sum(value is None for value in values))
        assert (low is None) == (high is None)
        if low is not None:
            assert all(value is None or within(value, low, high) for value in values)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=5))
def test_bounds_of_whole_numbers_are_exact(values: list[int]) -> None:
    found = statistics([[{"i": value} for value in values]])
    assert (found["minValues"]["i"], found["maxValues"]["i"]) == (min(values), max(values))


def test_moments_are_rounded_outwards_to_milliseconds() -> None:
    at = datetime(2024, 1, 28, 14, 0, 0, 1500, UTC)
    before = datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)
    found = statistics([[{"t": at}, {"t": before}]])
    assert found["minValues"]["t"] == "1969-12-31T23:59:59.999Z"
    assert found["maxValues"]["t"] == "2024-01-28T14:00:00.002Z"
    exact = statistics([[{"t": at - timedelta(microseconds=500)}]])
    assert exact["minValues"]["t"] == exact["maxValues"]["t"] == "2024-01-28T14:00:00.001Z"


def test_a_nan_in_any_row_group_leaves_the_bounds_out() -> None:
    found = statistics([[{"f": 1.0, "u": {"v": 1}}], [{"f": math.nan}]])
    assert "f" not in found["minValues"]
    assert found["nullCount"]["f"] == 0
    assert found["minValues"]["u"]["v"] == 1


def test_long_text_is_cut_so_that_the_bounds_still_hold() -> None:
    low, high = "a" * (LONGEST_TEXT + 1), "z" * (LONGEST_TEXT + 1)
    found = statistics([[{"s": low}], [{"s": high}]])
    assert found["minValues"]["s"] == "a" * LONGEST_TEXT
    assert found["maxValues"]["s"] == "z" * (LONGEST_TEXT - 1) + "{"
    assert found["minValues"]["s"] <= low < high <= found["maxValues"]["s"]


@pytest.mark.parametrize(
    ("text", "raised"),
    [("ab", "ac"), ("a\U0010ffff", "b"), ("\ud7ff", "\ue000"), ("\U0010ffff\U0010ffff", None)],
)
def test_a_text_is_raised_over_everything_that_begins_with_it(text: str, raised: str | None) -> None:
    assert _raise_text(text) == raised


def test_text_of_several_kilobytes_is_left_out() -> None:
    huge = statistics([[{"s": "a"}], [{"s": "z" * 10_000}]])
    assert "s" not in huge["minValues"]


def test_decimals_keep_all_their_digits() -> None:
    value = Decimal("1234567890123456789012345678901234.5678")
    found = statistics([[{"n": value}]])
    assert found["maxValues"]["n"] == value


def test_lists_have_no_bounds_and_booleans_do() -> None:
    found = statistics([[{"l": [1], "b": True}]])
    assert "l" not in found["minValues"]
    assert found["minValues"]["b"] is True
    assert "l" not in found["nullCount"]


def test_only_the_leading_columns_are_described() -> None:
    schema = pa.schema([(f"c{number}", pa.int64()) for number in range(INDEXED_COLUMNS + 5)])
    found = statistics([[{f"c{number}": number for number in range(INDEXED_COLUMNS + 5)}]], schema)
    assert len(found["minValues"]) == INDEXED_COLUMNS


def test_columns_behind_lists_and_maps_are_told_apart() -> None:
    schema = pa.schema(
        [
            ("a.b", pa.int64()),
            ("m", pa.map_(pa.string(), pa.list_(pa.int64()))),
            ("a", pa.struct([("b", pa.int64())])),
            ("z", pa.int64()),
        ]
    )
    found = statistics([[{"a.b": 1, "m": [("k", [9])], "a": {"b": 2}, "z": 3}]], schema)
    assert found["minValues"] == {"a.b": 1, "a": {"b": 2}, "z": 3}


def test_parquet_statistics_and_page_index_are_in_the_file() -> None:
    file = GrowingFile("x.parquet", Partition(), "source", 0.0)
    sink = Memory()
    file.hold(*detach(pa.RecordBatch.from_pylist([{"i": 1}], SCHEMA)), 0.0)
    file.flush(lambda path: sink, ParquetCodec.ZSTD)  # type: ignore[arg-type, return-value]
    file.seal()
    column = pq.ParquetFile(io.BytesIO(sink.getvalue())).metadata.row_group(0).column(0)
    assert column.compression == "ZSTD"
    assert column.statistics.has_min_max
    assert column.has_column_index
    assert column.has_offset_index
