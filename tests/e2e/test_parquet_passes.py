"""Column sources into folders of plain Parquet files, without Spark: every row once, whatever kills the run."""

from __future__ import annotations

import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from faults.racing import ENVIRONMENT
from faults.test_column_kills import WORKER, work
from support.long_runs import chosen
from support.parquet_lake import ParquetLake
from tidegate import plan, recover, reset_watermark, set_watermark, show_watermarks, status
from tidegate import watermark_history as history
from tidegate.api.replaying import replay_range
from tidegate.errors import ConfigError, StateError, TidegateError
from tidegate.state.providers.opening import metadata_provider

KILLS = (
    "runs.planned",
    "runs.read",
    "runs.commit.before",
    "state.swap.before",
    "state.swap.marked",
    "state.swap.file",
    "state.swap.copied",
    "state.swap.removed",
    "state.swap.done",
    "state.provider.before",
    "state.provider.after",
    "runs.commit.after",
)


@pytest.fixture(params=["file", "sql"])
def lake(tmp_path: Path, request: pytest.FixtureRequest) -> ParquetLake:
    lake = ParquetLake(tmp_path, provider=request.param)
    lake.arrive({"id": 1}, {"id": 2})
    return lake


def test_only_rows_above_the_watermark_are_appended(lake: ParquetLake) -> None:
    assert [source.rows for source in lake.run().sources] == [2]
    lake.arrive({"id": 3}, {"id": 2})
    (report,) = lake.run().sources
    assert (report.rows, report.commits, report.watermark, report.table_version) == (1, 1, "id=3", 2)
    lake.assert_exactly_once([1, 2, 3])
    (idle,) = lake.run().sources
    assert (idle.rows, idle.commits, idle.state) == (0, 0, "Idle")
    assert lake.left_over() == []


def test_an_emptied_source_empties_no_folder_until_somebody_says_so(lake: ParquetLake) -> None:
    lake.sink_settings = {**lake.sink_settings, "load_type": "overwrite"}
    assert lake.run().ok
    lake.rows = []
    lake.save()
    assert "there is no row to write, and the folder has 1 file" in (lake.run().sources[0].error or "")
    lake.assert_exactly_once([1, 2])
    assert lake.left_over() == []
    lake.sink_settings = {**lake.sink_settings, "allow_empty_window": True}
    assert lake.run().ok
    lake.assert_exactly_once([])


def test_an_overwrite_takes_the_place_of_everything(lake: ParquetLake) -> None:
    lake.sink_settings = {**lake.sink_settings, "load_type": "overwrite"}
    lake.run()
    lake.rows = [{"id": 2}, {"id": 7}]
    lake.save()
    assert lake.run().ok
    lake.assert_exactly_once([2, 7])


def test_partitions_are_folders(lake: ParquetLake) -> None:
    lake.sink_settings = {**lake.sink_settings, "partition_by": {"prefix_template": "day=%Y-%m-%d", "column": "at"}}
    lake.arrive({"id": 3, "at": datetime(2026, 3, 4, tzinfo=UTC)})
    assert lake.run().ok
    assert sorted(path.name for path in lake.folder.glob("day=*")) == [
        "day=2026-03-04",
        "day=__HIVE_DEFAULT_PARTITION__",
    ]
    lake.assert_exactly_once([1, 2, 3])


def test_partitions_of_odd_names_are_found_again(tmp_path: Path) -> None:
    lake = ParquetLake(tmp_path, sink_settings={"partition_by": {"prefix_template": "note", "column": "note"}})
    notes = ["a b", "50% / 1:2", "ä=ö", ""]
    lake.arrive(*({"id": number, "note": note} for number, note in enumerate(notes)))
    assert lake.run().ok
    lake.assert_exactly_once(range(4))
    assert lake.left_over() == []


def test_a_folder_can_be_planned_shown_and_moved(lake: ParquetLake) -> None:
    assert plan(lake.config)[0].to_json()["position"] == 0
    lake.run()
    before = sorted(lake.root.rglob("*"))
    (planned,), (state,), (view,) = plan(lake.config), status(lake.config), show_watermarks(lake.config, "orders")
    assert (planned.to_json()["predicate"], planned.to_json()["stored"]) == ("WHERE `id` > 2", {"id": "2"})
    assert (state.state, state.watermark, state.version, state.tracking) == ("Active", "id=2", 1, "columns")
    assert state.updated is not None
    assert (view.value, view.version) == ('{"id": 2}', 1)
    assert sorted(lake.root.rglob("*")) == before
    lake.arrive({"id": 3}, {"id": 4})
    move = set_watermark(lake.config, "orders", values={"id": "3"})
    assert (move.applied, move.before, move.after) == (True, "id=2", "id=3")
    lake.run()
    lake.assert_exactly_once([1, 2, 4])
    reset_watermark(lake.config, "orders")
    lake.run()
    lake.assert_exactly_once([1, 1, 2, 2, 3, 4, 4])


def test_a_provider_that_says_something_else_stops_until_a_person_decides(lake: ParquetLake) -> None:
    lake.run()
    state = lake.settings["state"]
    metadata_provider(state["url"]).update_watermark("orders/default", '{"id": 9}', job_id=None, dataflow_run_id=None)
    (source,) = lake.run().sources
    assert source.error is not None
    assert "somebody changed one of them" in source.error
    with pytest.raises(StateError):
        plan(lake.config)
    (check,) = recover(lake.config, "orders")
    assert (check.verdict, "watermark set" in (check.remedy or "")) == ("fail", True)
    lake.arrive({"id": 10})
    assert set_watermark(lake.config, "orders", values={"id": "9"}).applied
    assert lake.run().ok
    lake.assert_exactly_once([1, 2, 10])


def test_what_needs_a_log_says_so(lake: ParquetLake) -> None:
    lake.run()
    with pytest.raises(ConfigError, match="a replay needs the log of a Delta table"):
        replay_range(lake.config, "orders", start=1, end=2)
    with pytest.raises(TidegateError, match="there is no ledger of its positions"):
        history(lake.config, "orders")


@pytest.mark.parametrize(
    "place",
    chosen(KILLS, "runs.read", "state.swap.marked", "state.swap.file", "state.swap.removed", "state.provider.before"),
)
def test_a_kill_loses_and_doubles_nothing(tmp_path: Path, place: str) -> None:
    lake = ParquetLake(tmp_path)
    lake.arrive({"id": 1}, {"id": 2})
    assert work(lake, f"{place}=kill") == -signal.SIGKILL, f"the failpoint {place} was not reached"
    lake.arrive({"id": 3})
    assert lake.run().ok
    lake.arrive({"id": 4})
    assert work(lake, f"{place}=kill") == -signal.SIGKILL
    assert lake.run().ok
    lake.assert_exactly_once()
    assert metadata_provider(lake.settings["state"]["url"]).get_watermark("orders/default") == '{"id": 4}'


def test_runs_started_together_write_every_row_once(tmp_path: Path) -> None:
    lake = ParquetLake(tmp_path, provider="sql")
    lake.arrive(*({"id": number} for number in range(50)))
    config = str(lake.config)
    processes = [subprocess.Popen([sys.executable, str(WORKER), config], env=ENVIRONMENT) for _ in range(3)]
    assert [process.wait(timeout=120) for process in processes] == [0, 0, 0]
    lake.assert_exactly_once()
