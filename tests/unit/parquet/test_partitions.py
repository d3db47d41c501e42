"""Rows to directories: values from the path, from time, from columns; escaped once."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.errors import raises
from tidegate.errors import TidegateError
from tidegate.parquet.partitions import NULL_DIRECTORY, Partition, Partitioning, escape_path, path_values, table_schema
from tidegate.schema.types import TIMESTAMP
from tidegate.specs.table import FieldSpec, PartitionBy

BATCH = pa.record_batch(
    {
        "id": pa.array([1, 2, 3, 4, 5], pa.int64()),
        "ts": pa.array(
            [
                datetime(2024, 1, 28, 23, 59, 59, 999999, UTC),
                datetime(2024, 1, 29, tzinfo=UTC),
                None,
                datetime(2024, 1, 28, 1, tzinfo=UTC),
                datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
            ],
            TIMESTAMP,
        ),
        "country": pa.array(["DE", "FR", "DE", "", None]),
    }
)


def split(by: PartitionBy | None, path: str = "a.ndjson") -> dict[str, list[int]]:
    parts = Partitioning(by, BATCH.schema).split(BATCH, path)
    return {partition.directory: rows.column("id").to_pylist() for partition, rows, _ in parts}


def test_without_a_template_everything_is_one_partition() -> None:
    assert split(None) == {"": [1, 2, 3, 4, 5]}


def test_a_time_template_formats_the_column_in_utc() -> None:
    assert split(PartitionBy("date=%Y-%m-%d", "ts")) == {
        "date=2024-01-28/": [1, 4],
        "date=2024-01-29/": [2],
        f"date={NULL_DIRECTORY}/": [3],
        "date=1969-12-31/": [5],
    }


def test_hours_and_months_are_grouped_by_what_is_written() -> None:
    assert split(PartitionBy("date=%Y-%m-%d/hour=%H", "ts"))["date=2024-01-28/hour=23/"] == [1]
    assert split(PartitionBy("month=%Y-%m", "ts"))["month=2024-01/"] == [1, 2, 4]


def test_a_key_alone_is_the_column_itself_and_leaves_the_files() -> None:
    by = PartitionBy("country", "country")
    assert split(by) == {"country=DE/": [1, 3], "country=FR/": [2], f"country={NULL_DIRECTORY}/": [4, 5]}
    _, rows, _ = next(iter(Partitioning(by, BATCH.schema).split(BATCH, "a")))
    assert rows.schema.names == ["id", "ts"]


def test_time_and_column_keys_combine_in_the_order_of_the_template() -> None:
    found = split(PartitionBy("date=%Y-%m-%d/country", "ts"))
    assert found["date=2024-01-28/country=DE/"] == [1]
    assert found[f"date=2024-01-28/country={NULL_DIRECTORY}/"] == [4]
    assert sorted(id for ids in found.values() for id in ids) == [1, 2, 3, 4, 5]


def test_without_a_column_values_come_from_the_path() -> None:
    by = PartitionBy("date=%Y-%m-%d/hour=%H")
    assert split(by, "date=2024-01-28/hour=07/a.gz") == {"date=2024-01-28/hour=07/": [1, 2, 3, 4, 5]}
    assert split(by, "other/a.gz") == {f"date={NULL_DIRECTORY}/hour={NULL_DIRECTORY}/": [1, 2, 3, 4, 5]}


def test_values_are_escaped_once_in_the_path_and_plain_in_the_log() -> None:
    partition = Partition((("at", "14:30 50%/é"),))
    assert partition.directory == "at=14%3A30 50%25%2Fé/"
    assert partition.as_mapping() == {"at": "14:30 50%/é"}
    assert path_values("at=14%3A30 50%25%2Fé/x.gz") == {"at": "14:30 50%/é"}
    assert path_values(f"at={NULL_DIRECTORY}/x.gz") == {"at": None}


@given(st.text(min_size=1))
def test_escaped_text_is_one_path_part_and_comes_back(text: str) -> None:
    directory = f"k={escape_path(text)}"
    assert "/" not in directory
    assert path_values(directory + "/f")["k"] in (text, None)


@pytest.mark.parametrize(
    ("values", "kind", "texts"),
    [
        ([1, -2], pa.int64(), ["1", "-2"]),
        ([True, False], pa.bool_(), ["true", "false"]),
        ([date(2024, 1, 28)], pa.date32(), ["2024-01-28"]),
        ([Decimal("1.50")], pa.decimal128(10, 2), ["1.50"]),
        ([datetime(2024, 1, 28, 14, 0, 0, 5, UTC)], TIMESTAMP, ["2024-01-28 14:00:00.000005"]),
    ],
)
def test_typed_values_are_written_as_delta_writes_them(
    values: list[object], kind: pa.DataType, texts: list[str]
) -> None:
    batch = pa.record_batch({"k": pa.array(values, kind), "v": pa.array(range(len(values)))})
    parts = Partitioning(PartitionBy("k", "k"), batch.schema).split(batch, "f")
    assert [partition.as_mapping()["k"] for partition, _, _ in parts] == texts


@given(
    st.lists(
        st.tuples(
            st.none() | st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)),
            st.none() | st.sampled_from(["a", "b", ""]),
        ),
        max_size=30,
    )
)
def test_every_row_lands_in_the_directory_of_its_own_values(rows: list[tuple[datetime | None, str | None]]) -> None:
    batch = pa.record_batch(
        {
            "n": pa.array(range(len(rows)), pa.int64()),
            "ts": pa.array([row[0] for row in rows], TIMESTAMP),
            "c": pa.array([row[1] for row in rows], pa.string()),
        }
    )
    found = {}
    for partition, part, _ in Partitioning(PartitionBy("day=%Y-%m-%d/c", "ts"), batch.schema).split(batch, "f"):
        assert part.column("n").to_pylist() == sorted(part.column("n").to_pylist())
        found.update(dict.fromkeys(part.column("n").to_pylist(), partition.as_mapping()))
    expected = {
        number: {"day": None if at is None else at.strftime("%Y-%m-%d"), "c": text or None}
        for number, (at, text) in enumerate(rows)
    }
    assert found == expected


@pytest.mark.parametrize(
    ("by", "words"),
    [
        (PartitionBy("id=%Y"), "partition_by … 'id' … `column`"),
        (PartitionBy("date=%Y", "nope"), "partition_by … 'nope'"),
        (PartitionBy("date=%Y", "country"), "partition_by … '%Y' … 'country' … string"),
    ],
)
def test_a_template_that_does_not_fit_the_columns_is_an_error(by: PartitionBy, words: str) -> None:
    with raises(TidegateError, words):
        Partitioning(by, BATCH.schema)


def test_keys_that_leave_no_column_for_the_files_are_an_error() -> None:
    """Rows without columns cannot be in a file: they would be lost."""
    batch = pa.record_batch({"id": [1, 2], "k": ["a", "b"]})
    with raises(TidegateError, "partition_by", "'k', 'id'"):
        Partitioning(PartitionBy("k/id", "k"), batch.schema).split(batch, "f")
    found = Partitioning(PartitionBy("k", "k"), batch.schema).split(batch, "f")
    assert [part.column("id").to_pylist() for _, part, _ in found] == [[1], [2]]


def test_the_table_has_declared_metadata_and_partition_columns() -> None:
    fields = (FieldSpec("id", "int64"), FieldSpec("ts", "timestamp"), FieldSpec("country", "string"))
    schema = table_schema(fields, PartitionBy("date=%Y-%m-%d/country", "ts"), ("_source_file",))
    assert schema.names == ["id", "ts", "country", "_source_file", "date"]
    assert schema.field("date").type == pa.string()
    assert table_schema(fields, PartitionBy("n", "id")).field("n").type == pa.int64()
