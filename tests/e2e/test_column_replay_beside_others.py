"""Replays of column sources beside others who write the same table: other sources, and production itself."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.column_lake import SCHEMA, ColumnLake, InProcessColumnLane
from tidegate import load
from tidegate.api.opening import column_place_named
from tidegate.errors import TableError
from tidegate.runs.column_replay import ColumnReplay
from tidegate.runs.running import Running
from tidegate.watermarks.chunks import ReplayConfig


def test_a_range_is_not_replaced_where_another_source_has_rows(tmp_path: Path) -> None:
    lake = ColumnLake(tmp_path)
    lake.arrive({"id": 1}, {"id": 2})
    (tmp_path / "more").mkdir()
    pq.write_table(pa.Table.from_pylist([{"id": 1}, {"id": 2}], SCHEMA), tmp_path / "more" / "rows.parquet")
    pipelines = {
        name: {
            "source": {"type": "parquet", "source_uri": folder, "watermark_columns": ["id"]},
            "sink": {"table_uri": "lake/orders"},
        }
        for name, folder in (("orders", "data"), ("others", "more"))
    }
    config = tmp_path / "both.yml"
    config.write_text(json.dumps({"pipelines": pipelines}))
    project = load(config)
    assert Running(project, InProcessColumnLane(), 1, lake.seen.append).once(project.pipelines).ok
    place = column_place_named(project, "orders", None)
    assert place is not None
    with pytest.raises(TableError, match="others/default, which would be deleted"):
        ColumnReplay(place, InProcessColumnLane(), ReplayConfig(1, 3)).run()
    assert lake.ids() == [1, 1, 2, 2]
