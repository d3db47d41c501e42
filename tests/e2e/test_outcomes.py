"""How runs ended is recorded beside the state, and told by `status`, `/health` and JSON alike."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from support.lake import Lake
from tidegate import recover, status
from tidegate.core.health import HealthLevel, Outcome
from tidegate.observe.pages import RecordedPages
from tidegate.protocol.documents import parse_tags
from tidegate.reports.status import SourceStatus


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path)
    lake.arrive("date=2026-01-28/a.ndjson")
    assert lake.run().ok
    return lake


def look(lake: Lake) -> SourceStatus:
    (found,) = status(lake.config)
    return found


def test_a_source_that_every_run_refuses_is_failing_everywhere_until_it_is_repaired(lake: Lake) -> None:
    lake.arrive("date=2026-01-28/b.ndjson")
    lake.run()
    assert look(lake).health.level is HealthLevel.HEALTHY
    DeltaTable(str(lake.root / "lake/events")).restore(0)
    for _ in range(3):
        (refused,) = lake.run().sources
        assert (refused.state, refused.exit_code) == ("Unknown", 5)
    found = look(lake)
    assert found.last_run is not None
    assert (found.last_run.outcome, found.last_run.times) == (Outcome.REFUSED, 3)
    assert (found.health.level, found.health.since) == (HealthLevel.FAILING, found.last_run.began_at)
    assert found.health.command == f"tidegate recover {lake.config} -p events --accept restore"
    assert found.last_success_at is not None
    assert found.last_success_at < found.last_run.began_at
    (health,) = RecordedPages(lambda: (found,), 15).sources()
    assert (health.healthy, health.to_json()["health"]) == (False, "failing")
    recover(lake.config, "events", accept=["restore"])
    assert lake.run().ok
    assert look(lake).health.level is HealthLevel.HEALTHY


def test_a_run_that_fails_before_there_is_a_table_or_finds_nothing_is_recorded(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    assert look(lake).health.level is HealthLevel.WAITING
    lake.run()
    found = look(lake)
    assert found.last_run is not None
    assert (found.last_run.outcome, found.last_run.rows, found.version) == (Outcome.SUCCEEDED, 0, 0)
    lake.arrive("date=2026-01-28/a.ndjson")
    (lake.root / "lake" / "events" / "_delta_log").mkdir(parents=True)
    (lake.root / "lake" / "events" / "_delta_log" / f"{0:020d}.json").write_text("not a log entry\n")
    assert not lake.run().ok
    assert look(lake).health.level in (HealthLevel.FAILING, HealthLevel.UNKNOWN)


def test_the_record_is_never_needed(lake: Lake) -> None:
    (record,) = lake.root.rglob("*.runs.json")
    for content in (b"", b"{}", b'{"version": 99}'):
        record.write_bytes(content)
        assert look(lake).health.level is HealthLevel.HEALTHY
        assert lake.run().ok
    record.unlink()
    record.mkdir()
    lake.arrive("date=2026-01-28/c.ndjson")
    assert lake.run().ok


def test_late_data_is_told_only_where_somebody_said_how_often_it_must_come(lake: Lake) -> None:
    assert look(lake).health.level is HealthLevel.HEALTHY
    (record,) = lake.root.rglob("*.runs.json")
    told = json.loads(record.read_text())
    told["last_data_at"] = (datetime.now(UTC) - timedelta(hours=3)).isoformat()
    record.write_text(json.dumps(told))
    assert look(lake).health.level is HealthLevel.HEALTHY
    lake.source_settings = {"expect_every": "PT2H"}
    late = look(lake)
    assert (late.health.level, late.expect_every_seconds) == (HealthLevel.DEGRADED, 7200.0)


def test_one_id_is_in_the_commit_and_in_the_record(lake: Lake) -> None:
    found = look(lake)
    assert found.last_run is not None
    (entry,) = DeltaTable(str(lake.root / "lake/events")).history(1)
    (tag,) = parse_tags(entry["userMetadata"])
    assert tag.packed["run"] == found.last_run.run


def test_a_state_that_nobody_can_read_is_unknown_and_not_new(lake: Lake) -> None:
    for path in [*lake.root.rglob("*_checkpoint.json"), *lake.root.rglob("0*-*.json")]:
        if "_delta_log" not in path.parts:
            path.write_text("damaged")
    found = look(lake)
    assert (found.state, found.health.level) == ("Unknown", HealthLevel.UNKNOWN)
    assert lake.run().ok
    assert look(lake).health.level is HealthLevel.HEALTHY
