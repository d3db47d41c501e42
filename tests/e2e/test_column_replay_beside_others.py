"""Replays of column sources beside others who write the same table: other sources, and production itself."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.column_lake import SCHEMA, ColumnLake, InProcessColumnEngine
from support.errors import check_names, raises
from tidegate import load
from tidegate.commands.column_replay import ColumnReplay
from tidegate.commands.project import sources_of
from tidegate.core.columns.replay import ReplayConfig
from tidegate.errors import TableError
from tidegate.runs.loop import Loop
from tidegate.tasks.row_task import RowsWritten, RowTask


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
    assert Loop(project, InProcessColumnEngine(), 1, lake.seen.append).once(project.pipelines).ok
    place = sources_of(project, "orders")[0]
    assert place is not None
    with raises(TableError, "orders/default", "others/default", "--into"):
        ColumnReplay(place, InProcessColumnEngine(), ReplayConfig(1, 3)).run()
    assert lake.ids() == [1, 1, 2, 2]


class Overtaken(InProcessColumnEngine):
    """After each of the first ``times`` chunks is read, a row arrives and production runs."""

    def __init__(self, lake: ColumnLake, times: int) -> None:
        self.lake = lake
        self.times = times

    def write_rows(self, frame: pa.Table, task: RowTask) -> RowsWritten:
        written = super().write_rows(frame, task)
        if self.times:
            self.times -= 1
            self.lake.arrive({"id": max(row["id"] for row in self.lake.rows) + 1})
            assert self.lake.run().ok
        return written


@pytest.fixture
def lake(tmp_path: Path) -> ColumnLake:
    """Two rows, in the source and in the table."""
    lake = ColumnLake(tmp_path)
    lake.arrive({"id": 1}, {"id": 2})
    assert lake.run().ok
    return lake


@pytest.mark.parametrize("save", [True, False])
def test_a_chunk_does_not_delete_what_production_appended_after_it_was_read(lake: ColumnLake, save: bool) -> None:
    assert lake.replay(1, 3 if save else 4, save=save, allow_overlap=not save, lane=Overtaken(lake, times=1)).ok
    assert lake.run().ok
    assert lake.ids() == [1, 2, 3]


def test_a_chunk_that_production_always_overtakes_fails_and_changes_nothing(lake: ColumnLake) -> None:
    report = lake.replay(1, 100, lane=Overtaken(lake, times=100), allow_overlap=True)
    assert not report.ok
    check_names(report.chunks[0].error, "production", "chunk")
    assert lake.ids() == [row["id"] for row in lake.rows]


def test_chunks_that_move_the_watermark_do_not_overtake_each_other(lake: ColumnLake) -> None:
    lake.arrive(*({"id": number} for number in range(3, 9)))
    lane = Counting()
    assert lake.replay(1, 9, 2, save=True, lane=lane).ok
    assert lane.reads == 5
    assert lake.run().ok
    assert lake.ids() == list(range(1, 9))


class Counting(InProcessColumnEngine):
    """Counts the chunks that are read."""

    def __init__(self) -> None:
        self.reads = 0

    def write_rows(self, frame: pa.Table, task: RowTask) -> RowsWritten:
        self.reads += 1
        return super().write_rows(frame, task)


def test_a_chunk_below_the_watermark_is_read_once_whatever_production_appends(lake: ColumnLake) -> None:
    lane = Overtaken(lake, times=100)
    assert lake.replay(1, 2, lane=lane).ok
    assert lane.times == 99
    assert lake.ids() == [1, 2, 3]
