"""Metas of foreign writers: five fields and a Parquet file, committed once, checked before they are."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.lake import Lake
from support.staging import commit, pending, rejected, staged, units
from tidegate.observe import events

COLUMNS = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), ("ts", pa.timestamp("us", "UTC")), ("event", pa.string())]
)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path, pipeline_settings={"delivery": "staged"})


def leave(lake: Lake, name: str, columns: pa.Schema = COLUMNS, records: int = 5, **fields: Any) -> Path:
    """A Parquet file with ``records`` rows, and its meta; ``fields`` of the meta may lie."""
    ids = list(range(lake.next_id, lake.next_id + records))
    lake.next_id += records
    moment = datetime(2026, 1, 28, tzinfo=UTC)
    values = {"id": ids, "ts": [moment] * records, "event": ["x"] * records}
    rows = {field.name: values.get(field.name, [1] * records) for field in columns}
    target = lake.root / "lake/events" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(rows, schema=columns), target)
    told = {
        "filename": name,
        "size": target.stat().st_size,
        "record_count": records,
        "partition_values": {},
        "source_file": "elsewhere",
    }
    meta = pending(lake) / f"{target.stem}.meta.json"
    meta.parent.mkdir(parents=True, exist_ok=True)
    meta.write_text(json.dumps(told | fields))
    return meta


def test_a_foreign_meta_is_committed_with_the_units_and_removed(lake: Lake) -> None:
    staged(lake, "0.ndjson")
    meta = leave(lake, "foreign.parquet")
    table = commit(lake)
    assert (table.commits, table.units, table.foreign, table.rows) == (1, 1, 1, 15)
    assert not meta.exists()
    assert lake.ids() == list(range(15))
    (row,) = lake.rows("select count(*) as n from t where id >= 12")
    assert row == {"n": 3}


def test_foreign_metas_alone_make_the_declared_table(lake: Lake) -> None:
    leave(lake, "one.parquet")
    leave(lake, "sub/two.parquet")
    assert commit(lake).foreign == 2
    assert lake.ids() == list(range(10))


def test_without_a_table_and_without_declared_columns_they_wait(lake: Lake) -> None:
    lake.schema = {"infer": True}
    meta = leave(lake, "one.parquet")
    assert commit(lake).commits == 0
    assert meta.exists()
    assert any("wait for a table" in event.text for event in lake.seen if isinstance(event, events.Notice))


def test_a_file_is_never_committed_twice(lake: Lake) -> None:
    meta = leave(lake, "foreign.parquet")
    content = meta.read_text()
    commit(lake)
    meta.write_text(content)
    table = commit(lake)
    assert (table.duplicates, table.rows) == (1, 0)
    assert not meta.exists()
    (pending(lake) / "again.meta.json").write_text(content)
    meta.write_text(content)
    assert commit(lake).duplicates == 2
    assert lake.ids() == list(range(5))


def test_a_file_that_is_not_visible_any_more_is_not_committed_again(lake: Lake) -> None:
    from deltalake import DeltaTable

    meta = leave(lake, "foreign.parquet")
    content = meta.read_text()
    commit(lake)
    DeltaTable(lake.table.uri).delete()
    meta.write_text(content)
    assert commit(lake).duplicates == 1
    assert lake.ids() == []


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"size": 1}, "its meta says 1"),
        ({"record_count": 4}, "has 5 rows"),
        ({"filename": "gone.parquet"}, "no Parquet file"),
        ({"filename": "../other/foreign.parquet"}, "below the table"),
        ({"filename": "_delta_log/foreign.parquet"}, "below the table"),
        ({"partition_values": {"date": "2026-01-28"}}, "partitioned by"),
    ],
)
def test_a_meta_that_lies_is_put_aside_with_the_reason(lake: Lake, fields: dict[str, Any], reason: str) -> None:
    leave(lake, "good.parquet")
    leave(lake, "foreign.parquet", **fields)
    table = commit(lake)
    (bad,) = table.rejected
    assert reason in bad.reason
    assert table.foreign == 1
    assert rejected(lake) == ["foreign.meta.json", "foreign.meta.reason.json"]
    assert lake.ids() == list(range(5))


@pytest.mark.parametrize(
    "columns",
    [
        pa.schema([pa.field("id", pa.int32(), nullable=False)]),
        pa.schema([pa.field("id", pa.string(), nullable=False)]),
        pa.schema([("event", pa.string())]),
    ],
    ids=["narrower", "other type", "a required column is missing"],
)
def test_columns_that_do_not_fit_are_refused(lake: Lake, columns: pa.Schema) -> None:
    staged(lake, "0.ndjson")
    commit(lake)
    target = lake.root / "lake/events/foreign.parquet"
    rows = {"id": [1], "event": ["x"]}
    table = pa.table({field.name: pa.array(rows[field.name]).cast(field.type) for field in columns}, schema=columns)
    pq.write_table(table, target)
    told = {"filename": target.name, "size": target.stat().st_size, "record_count": 1, "source_file": None}
    (pending(lake) / "foreign.meta.json").write_text(json.dumps(told))
    assert len(commit(lake).rejected) == 1
    lake.assert_exactly_once()


def test_new_columns_and_optional_ones_without_nulls_are_taken(lake: Lake) -> None:
    staged(lake, "0.ndjson")
    commit(lake)
    leave(lake, "foreign.parquet", pa.schema([("id", pa.int64()), ("price", pa.float64())]))
    table = commit(lake)
    assert (table.rejected, table.foreign) == ((), 1)
    assert lake.rows("select sum(price) as s from t") == [{"s": 5.0}]


def test_partition_values_must_be_values_of_their_columns(lake: Lake) -> None:
    lake.sink_settings = {"partition_by": {"prefix_template": "event", "column": "event"}}
    staged(lake, "0.ndjson")
    commit(lake)
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    leave(lake, "event=a%2Fb/one.parquet", columns, partition_values={"event": "a/b"})
    leave(lake, "two.parquet", columns, partition_values={"event": None})
    leave(lake, "three.parquet", columns)
    table = commit(lake)
    assert (table.foreign, len(table.rejected)) == (2, 1)
    assert lake.rows("select event, count(*) as n from t group by event order by event nulls last") == [
        {"event": "a/b", "n": 5},
        {"event": "view", "n": 10},
        {"event": None, "n": 5},
    ]


def test_a_meta_that_cannot_be_read_is_left_while_it_may_still_be_growing(lake: Lake) -> None:
    staged(lake, "0.ndjson")
    meta = pending(lake) / "half.meta.json"
    meta.write_text('{"filename": "x.par')
    assert commit(lake).rejected == ()
    assert meta.exists()
    assert any("half.meta.json cannot be read" in event.text for event in lake.seen if isinstance(event, events.Notice))
    old = time.time() - 3600
    os.utime(meta, (old, old))
    (bad,) = commit(lake).rejected
    assert "cannot be read" in bad.reason
    assert not meta.exists()


def test_metas_of_units_that_never_came_are_left(lake: Lake) -> None:
    staged(lake, "0.ndjson")
    (meta,) = pending(lake).glob("*.meta.json")
    for signal in pending(lake).rglob("*.unit.json"):
        signal.unlink()
    assert commit(lake).commits == 0
    assert meta.exists()


def test_a_meta_of_a_file_that_a_unit_names_is_dropped(lake: Lake) -> None:
    staged(lake, "0.ndjson")
    (unit,) = units(lake)
    (file,) = unit.data_files
    told = {"filename": file.path, "size": file.size, "record_count": file.record_count, "source_file": None}
    (pending(lake) / "twin.meta.json").write_text(json.dumps(told))
    table = commit(lake)
    assert (table.error, table.units, table.duplicates) == (None, 1, 1)
    lake.assert_exactly_once()


def test_a_commit_takes_no_more_foreign_files_than_it_may(lake: Lake) -> None:
    lake.pipeline_settings = {"delivery": "staged", "staging": {"max_files_per_commit": 2}}
    for number in range(5):
        leave(lake, f"foreign{number}.parquet")
    table = commit(lake)
    assert (table.commits, table.foreign, table.waiting) == (3, 5, 0)
    assert lake.ids() == list(range(25))
