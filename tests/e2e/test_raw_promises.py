"""What is on disk and what is printed, read with other libraries than our own: metas, footers, mirrors, logs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from support.commit_counts import one_large_file
from support.lake import Lake
from tidegate.commands.run import run_on
from tidegate.failpoints import arm, arm_by
from tidegate.observe import events
from tidegate.observe.events import Event
from tidegate.parquet.writer import RollingWriter, WriterSettings
from tidegate.runs.in_process import InProcessEngine
from tidegate.storage.port import ObjectStore

DAY = "date=2026-01-28"
UUID_7 = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
BY_DAY = {"partition_by": {"prefix_template": "date=%Y-%m-%d", "column": "ts"}}


def parquet_files(lake: Lake) -> list[Path]:
    return sorted((lake.root / "lake/events").glob("**/*.parquet"))


def row_groups(lake: Lake) -> list[pq.RowGroupMetaData]:
    footers = map(pq.read_metadata, parquet_files(lake))
    return [footer.row_group(number) for footer in footers for number in range(footer.num_row_groups)]


def raw_mirror(lake: Lake) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        (lake.root / "lake/events/_tidegate/events_default_checkpoint.json").read_bytes()
    )
    return found


def test_a_meta_of_a_partitioned_table_has_the_five_fields_and_they_are_true(tmp_path: Path) -> None:
    lake = Lake(tmp_path, sink_settings=BY_DAY, pipeline_settings={"delivery": "staged"})
    lake.arrive(f"{DAY}/1706450400-a.ndjson.gz", records=7)
    assert lake.run().ok
    (path,) = (tmp_path / "lake/events/_staging/pending").glob("*.meta.json")
    meta = json.loads(path.read_bytes())
    assert re.fullmatch(rf"{DAY}/{UUID_7}\.parquet", meta["filename"])
    assert path.name == Path(meta["filename"]).name.replace(".parquet", ".meta.json")
    data = tmp_path / "lake/events" / meta["filename"]
    assert meta["size"] == len(data.read_bytes())
    assert meta["record_count"] == pq.read_metadata(data).num_rows == 7
    assert meta["partition_values"] == {"date": "2026-01-28"}
    assert meta["source_file"] == f"file://{tmp_path}/data/{DAY}/1706450400-a.ndjson.gz"
    ours = {"schema_version", "pipeline", "source", "attempt", "ranges", "stats", "schema"}
    assert set(meta) == {"filename", "size", "record_count", "partition_values", "source_file", *ours}


def test_a_staged_unit_is_written_in_its_order_parquet_then_metas_then_the_signal(tmp_path: Path) -> None:
    lake = Lake(tmp_path, sink_settings=BY_DAY, pipeline_settings={"delivery": "staged"})
    lake.arrive(f"{DAY}/1.ndjson")
    lake.arrive(f"{DAY}/2.ndjson", ts="2026-01-29T00:00:00Z")
    pending = tmp_path / "lake/events/_staging/pending"
    there: list[tuple[str, int, int, int]] = []

    def look(place: str) -> None:
        if place.startswith("staging."):
            found = (parquet_files(lake), list(pending.glob("*.meta.json")), list(pending.glob("*/*/*.unit.json")))
            there.append((place, *map(len, found)))

    arm_by(look)
    try:
        assert lake.run().ok
    finally:
        arm("")
    assert there == [
        ("staging.meta.before", 2, 0, 0),
        ("staging.meta.after", 2, 1, 0),
        ("staging.meta.before", 2, 1, 0),
        ("staging.meta.after", 2, 2, 0),
        ("staging.unit.before", 2, 2, 0),
        ("staging.unit.after", 2, 2, 1),
    ]


@pytest.mark.parametrize("codec", ["snappy", "gzip", "zstd", "lz4", "uncompressed"])
def test_the_settings_of_the_sink_are_in_the_footer(tmp_path: Path, codec: str) -> None:
    lake = Lake(tmp_path, sink_settings={"compression": codec, "row_group_size_bytes": 65536})
    for name in "abcde":
        lake.arrive(f"{DAY}/{name}.ndjson", records=5000)
    assert lake.run().ok
    groups = row_groups(lake)
    assert [group.num_rows for group in groups] == [5000] * 5
    for group in groups:
        for column in map(group.column, range(group.num_columns)):
            assert column.compression == {"lz4": "LZ4"}.get(codec, codec.upper())
            assert column.is_stats_set
            assert (column.has_column_index, column.has_offset_index) == (True, True)


def test_without_settings_a_file_is_one_group_in_snappy_and_rolls_at_its_size(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    for name in "abcde":
        lake.arrive(f"{DAY}/{name}.ndjson", records=5000)
    assert lake.run().ok
    groups = row_groups(lake)
    assert len(groups) == len(parquet_files(lake)) < 5
    assert {group.column(0).compression for group in groups} == {"SNAPPY"}
    small = Lake(tmp_path / "small", sink_settings={"file_size_mb": 1, "row_group_size_bytes": 65536})
    small.write(
        f"{DAY}/b.ndjson", "".join(f'{{"id":{n},"event":"{n * 2654435761 % 2**64:x}"}}\n' for n in range(200_000))
    )
    assert small.run().ok
    sizes = sorted(path.stat().st_size for path in parquet_files(small))
    assert len(sizes) > 2
    assert sizes[-1] < 1.3 * 1_048_576


@pytest.mark.parametrize(
    ("sink", "once", "continuous"),
    [
        ({}, (None, None), (60, 300)),
        ({"inactivity_timeout_secs": 7}, (7, None), (7, 300)),
        ({"rollover_timeout_secs": 9}, (None, 9), (60, 9)),
    ],
)
def test_the_times_of_a_continuous_run_reach_the_writer(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sink: dict[str, int],
    once: tuple[Any, Any],
    continuous: tuple[Any, Any],
) -> None:
    lake, stop = Lake(tmp_path, sink_settings=sink), threading.Event()
    made, begin = [], RollingWriter.__init__

    def note(writer: RollingWriter, store: ObjectStore, settings: WriterSettings, *more: Any) -> None:
        made.append((settings.inactivity_secs, settings.rollover_secs))
        begin(writer, store, settings, *more)

    monkeypatch.setattr(RollingWriter, "__init__", note)

    def end(event: Event) -> None:
        if isinstance(event, events.SourceFinished):
            stop.set()

    lake.arrive(f"{DAY}/1.ndjson")
    assert run_on(lake.project, None, "once", lambda event: None, threading.Event(), InProcessEngine()).ok
    lake.arrive(f"{DAY}/2.ndjson")
    assert run_on(lake.project, None, "continuous", end, stop, InProcessEngine()).ok
    assert made == [once, continuous]
    lake.assert_exactly_once()


SHAPES = {
    "Unix time": ("1706450100-01926ab0.ndjson", "1706450400-01926abc.ndjson", "1706536800-01926b00.ndjson"),
    "UUIDv7": (
        "01926ab0-def0-7000-8000-000000000001.ndjson",
        "01926abc-def0-7000-8000-000000000000.ndjson",
        "01926b00-0000-7000-8000-000000000000.ndjson",
    ),
    "ISO 8601": ("2024-01-28T14:00:00.ndjson", "2024-01-28T14:05:00.ndjson", "2024-01-29T00:00:00.ndjson"),
}


@pytest.mark.parametrize("late_files", ["window", "strict"])
@pytest.mark.parametrize("names", SHAPES.values(), ids=SHAPES)
def test_names_that_sort_in_time_are_followed_from_file_to_file(
    tmp_path: Path, names: tuple[str, ...], late_files: str
) -> None:
    lake = Lake(tmp_path, source_settings={"late_files": late_files})
    for name in names:
        lake.arrive(f"{DAY}/{name}")
        (source,) = lake.run().sources
        assert (source.error, source.files) == (None, 1)
        mirror = raw_mirror(lake)
        assert mirror["watermark"] == {"state": "Active", "value": f"{DAY}/{name}"}
        assert mirror["partition_watermarks"] == {DAY: name}
        assert lake.run().sources[0].state == "Idle"
    lake.assert_exactly_once()


def test_a_file_in_the_set_can_be_read_again(tmp_path: Path) -> None:
    """Tracking by a set remembers every path, and a replay marks those that it is told as unread."""
    lake = Lake(tmp_path, {"use_watermark": False}, {"metadata_columns": ["_source_file"]})
    for name in ("f3", "a1", "9z"):
        lake.arrive(f"{name}.ndjson")
    assert lake.run().ok
    assert lake.run().sources[0].files == 0
    lake.write("a1.ndjson", '{"id": 500}\n{"id": 501}\n')
    said = tidegate_says(lake, "replay", "-p", "events", "--files", "a1.*", "--yes")
    assert said.returncode == 0, said.stderr
    assert sorted(lake.ids()) == sorted([*range(10), *range(20, 30), 500, 501])
    assert lake.run().sources[0].files == 0


def test_a_file_left_in_the_middle_is_in_the_checkpoint_with_the_records_that_were_read(tmp_path: Path) -> None:
    lake, stop = one_large_file(tmp_path, commit_batch_files=2, records=20_000), threading.Event()

    def end(event: Event) -> None:
        if isinstance(event, events.Committed):
            stop.set()

    run_on(lake.project, None, "once", end, stop, InProcessEngine())
    there = lake.ids()
    assert there == list(range(len(there)))
    assert 0 < len(there) < 20_000
    left = raw_mirror(lake)
    ((path, progress),) = left["source_state"]["files"].items()
    assert (path, progress["RecordsRead"]) == (f"{DAY}/1.ndjson", len(there))
    assert (left["partition_watermarks"], left["source_state"]["last_committed_file"]) == ({}, None)
    assert lake.run().ok
    assert raw_mirror(lake)["source_state"] == {"files": {}, "last_committed_file": path}
    lake.assert_exactly_once()


def tidegate_says(lake: Lake, command: str, *options: str, **env: str) -> subprocess.CompletedProcess[str]:
    arguments = [sys.executable, "-m", "tidegate", command, str(lake.config), *options]
    return subprocess.run(arguments, capture_output=True, text=True, check=False, env={**os.environ, **env})


@pytest.mark.parametrize(("options", "env"), [(("--log-level", "debug"), {}), ((), {"TIDEGATE_LOG": "debug"})])
def test_the_log_of_a_real_run_tells_every_decision(
    tmp_path: Path, options: tuple[str, ...], env: dict[str, str]
) -> None:
    lake = Lake(tmp_path)
    lake.arrive(f"{DAY}/1.ndjson")
    lake.write(f"{DAY}/notes.txt", "x")
    assert lake.run().ok
    said = tidegate_says(lake, "run", *options, **env)
    assert said.returncode == 0, said.stderr
    for told in (
        "1 file not taken: not an ending of the source's format, e.g. date=2026-01-28/notes.txt",
        "1 file not taken: already read, e.g. date=2026-01-28/1.ndjson",
        "state changed from Active to Idle at date=2026-01-28/1.ndjson",
    ):
        assert told in said.stderr
    assert "not taken" not in tidegate_says(lake, "run", "--log-level", "info", **dict.fromkeys(env, "debug")).stderr


def test_the_position_in_the_log_is_a_transaction_that_other_readers_see(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    for number in range(1, 4):
        lake.arrive(f"{DAY}/{number}.ndjson")
        assert lake.run().ok
        assert DeltaTable(str(tmp_path / "lake/events")).transaction_version("tidegate/events/default") == number
    entry = (tmp_path / f"lake/events/_delta_log/{2:020d}.json").read_text().splitlines()
    actions = [json.loads(line) for line in entry]
    (txn,) = [each["txn"] for each in actions if "txn" in each]
    assert (txn["appId"], txn["version"], len(str(txn["lastUpdated"]))) == ("tidegate/events/default", 3, 13)
    assert len([each for each in actions if "add" in each]) == 1
    lake.assert_exactly_once()
