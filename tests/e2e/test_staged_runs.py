"""Staged runs: what they leave for the committer, without one: units that fold to every record exactly once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.lake import Lake
from support.staging import metas, staged_ids, units

HOUR = "date=2026-01-28/hour=12"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path, pipeline_settings={"delivery": "staged"})
    for number in range(3):
        lake.arrive(f"{HOUR}/{number}.ndjson.gz")
    return lake


@pytest.fixture(params=[True, False], ids=["watermark", "set"])
def either(request: pytest.FixtureRequest, lake: Lake) -> Lake:
    lake.source_settings = {"use_watermark": request.param}
    return lake


def test_a_staged_run_leaves_parquet_metas_and_one_signal_and_no_table(lake: Lake) -> None:
    report = lake.run()
    assert report.ok
    (source,) = report.sources
    assert (source.files, source.rows, source.commits, source.staged) == (3, 30, 0, 1)
    assert (source.state, source.table_version) == ("Active", None)
    assert not (lake.root / "lake/events/_delta_log").exists()
    (unit,) = units(lake)
    assert (unit.seq, unit.rows, unit.base, unit.action) == (1, 30, -1, "run")
    assert [each.file for each in unit.coverage] == [f"{HOUR}/{number}.ndjson.gz" for number in range(3)]
    found = metas(lake)
    assert {meta.filename for meta in found} == {file.path for file in unit.data_files}
    for meta in found:
        assert (meta.pipeline, meta.source, meta.attempt) == ("events", "default", unit.attempt)
        assert (lake.root / "lake/events" / meta.filename).stat().st_size == meta.size
    assert sum(meta.record_count for meta in found) == 30
    assert [field["name"] for field in json.loads(unit.schema_json or "")["fields"]] == ["id", "ts", "event"]
    assert staged_ids(lake) == lake.expected


def test_later_runs_go_on_above_what_is_pending(either: Lake) -> None:
    either.run()
    (idle,) = either.run().sources
    assert (idle.files, idle.staged, idle.state) == (0, 0, "Idle")
    either.arrive(f"{HOUR}/3.ndjson.gz")
    either.arrive("date=2026-01-28/hour=13/0.ndjson.gz")
    (source,) = either.run().sources
    assert (source.files, source.staged) == (2, 1)
    assert [unit.seq for unit in units(either)] == [1, 2]
    assert staged_ids(either) == either.expected
