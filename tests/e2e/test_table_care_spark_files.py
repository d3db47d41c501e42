"""Table care over data files as Spark writes them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import Schema
from deltalake.transaction import AddAction, create_table_with_add_actions

from support.lake import Lake
from tidegate import optimize_table

MOMENTS = [datetime(1, 1, 1, tzinfo=UTC), datetime(2026, 1, 28, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)]


def test_moments_far_away_stay_what_they_are_in_the_old_timestamps_of_spark(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    folder = tmp_path / "lake/events"
    folder.mkdir(parents=True)
    columns = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])
    adds = []
    for name in ("a.parquet", "b.parquet"):
        rows = pa.table({"id": [0, 1, 2], "ts": MOMENTS}, schema=columns)
        pq.write_table(rows, folder / name, use_deprecated_int96_timestamps=True)
        size = (folder / name).stat().st_size
        adds.append(AddAction(name, size, {}, 0, True, json.dumps({"numRecords": 3})))
    create_table_with_add_actions(lake.table.uri, Schema.from_arrow(columns), adds, mode="error", partition_by=[])
    sql = "select id, cast(ts as varchar) as ts from t order by id, ts"
    before = lake.rows(sql)
    report = optimize_table(lake.config, "events")
    assert (report.files_before, report.files_after) == (2, 1)
    assert lake.rows(sql) == before
