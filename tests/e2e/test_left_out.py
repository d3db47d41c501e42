"""What ``partition_filter`` leaves out of a first run is counted by folder, and told before it is sealed."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from support.lake import Lake
from tidegate import plan, status
from tidegate.cli.main import cli
from tidegate.core.files.discovery import LeftOut, Reason
from tidegate.observe.events import Notice
from tidegate.sources import file_discovery

NOW = datetime.now(UTC)
FILTER = {"prefix_template": "date=%Y-%m-%d", "lookback": 11}
MIDNIGHT = NOW.replace(hour=0, minute=0, second=0, microsecond=0)


def day(back: int) -> str:
    return f"date={NOW - timedelta(days=back):%Y-%m-%d}"


def left_out(lake: Lake) -> LeftOut:
    (made,) = plan(lake.config)
    found = made.plan.left_out  # type: ignore[union-attr]  # a file source
    assert found is not None
    return found


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Twenty-four days with a file each; the first run reads twelve of them."""
    lake = Lake(tmp_path, source_settings={"partition_filter": FILTER})
    for back in range(24):
        lake.arrive(f"{day(back)}/f.ndjson", records=2)
    lake.arrive(f"{day(20)}/g.ndjson", records=2)
    lake.write(f"{day(20)}/notes.txt", "not a file of this source")
    return lake


def test_a_first_plan_counts_by_folder_what_is_left_out(lake: Lake) -> None:
    (made,) = plan(lake.config)
    found = left_out(lake)
    assert (made.plan.files, found.files, found.folders, found.complete) == (12, 13, 12, True)
    assert found.before == MIDNIGHT - timedelta(days=11)
    assert found.by_folder[0] == (day(20), 2)
    assert dict(found.by_folder) == {day(back): 1 + (back == 20) for back in range(12, 24)}
    assert {each.reason: each.count for each in made.plan.skipped}[Reason.BEFORE_START] == 13
    shown = made.to_json()["plan"]["left_out"]
    assert (shown["files"], shown["by_folder"][0]) == (13, {"folder": day(20), "files": 2})


def test_the_plan_shows_the_largest_folders_in_80_columns(lake: Lake) -> None:
    for back in range(30, 40):
        lake.arrive(f"{day(back)}/f.ndjson", records=1)
    shown = CliRunner().invoke(cli, ["plan", str(lake.config)], env={"COLUMNS": "80"}).output
    table = shown[shown.index("left out") :].splitlines()
    assert table[1].split() == [day(20), "2"]
    assert "… and 10 more folders" in shown
    start = shown.index("skipped because")
    assert max(map(len, shown[start : shown.index("note:")].splitlines())) <= 80


def test_the_first_run_and_the_status_before_it_say_so(lake: Lake) -> None:
    (before,) = status(lake.config)
    assert before.left_out is not None
    assert before.left_out.files == 13
    assert any("13 files in 12 folders" in note for note in before.notes)
    data = json.loads(CliRunner().invoke(cli, ["status", str(lake.config), "--json"]).output)
    assert data["sources"][0]["left_out"]["folders"] == 12
    report = lake.run()
    assert (report.sources[0].files, dict(report.sources[0].skipped)[Reason.BEFORE_START.value]) == (12, 13)
    told = [event.text for event in lake.seen if isinstance(event, Notice)]
    assert any("13 files in 12 folders" in text and "partition_filter" in text for text in told)


def test_later_polls_neither_count_nor_tell_it_again_but_say_where_nothing_is_looked_for(lake: Lake) -> None:
    lake.run()
    (made,) = plan(lake.config)
    assert made.plan.left_out is None
    assert "left_out" not in made.to_json()["plan"]
    (after,) = status(lake.config)
    assert (after.left_out, after.sealed) == (None, 12)
    assert any("12 folders before" in note and "partition_filter" in note for note in after.notes)
    lake.seen.clear()
    lake.run()
    assert not [event for event in lake.seen if isinstance(event, Notice)]


def test_what_was_left_out_can_be_read_in_the_way_that_is_named(lake: Lake) -> None:
    from support.reconciling import ingest

    lake.run()
    lake.source_settings = {}
    assert ingest(lake.project).sources[0].ingested_files == 13
    lake.assert_exactly_once()


def test_a_count_ends_at_its_limit_and_says_at_least(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_discovery, "FOLDERS_COUNTED", 5)
    found = left_out(lake)
    assert (found.files, found.folders, found.complete) == (5, 12, False)
    assert str(found).startswith("partition_filter leaves out at least 5 files in 12 folders")
    monkeypatch.setattr(file_discovery, "FILES_COUNTED", 3)
    assert left_out(lake).files == 3


@pytest.mark.parametrize(
    ("template", "lookback", "folders"),
    [
        ("year=%Y/month=%m/day=%d", 1, 1),
        ("date=%Y-%m-%d/hour=%H", 1, 1),
        ("month=%Y-%m", 0, 1),
        ("region=eu/date=%Y-%m-%d", 1, 1),
    ],
)
def test_every_layout_is_counted(tmp_path: Path, template: str, lookback: int, folders: int) -> None:
    lake = Lake(tmp_path, source_settings={"partition_filter": {"prefix_template": template, "lookback": lookback}})
    old = NOW - timedelta(days=800)
    for name in ("a", "b"):
        lake.arrive(f"{old:{template}}/{name}.ndjson")
    lake.arrive(f"{NOW:{template}}/c.ndjson")
    lake.arrive("other/d.ndjson")
    found = left_out(lake)
    assert (found.files, found.folders) == (2, folders)


def test_folders_of_the_same_day_are_left_out_by_the_hour(tmp_path: Path) -> None:
    now = MIDNIGHT + timedelta(hours=20)
    settings: dict[str, Any] = {"prefix_template": "date=%Y-%m-%d/hour=%H", "lookback": 2}
    lake = Lake(tmp_path, source_settings={"partition_filter": settings})
    for hour in (3, 4, 18, 19, 20):
        lake.arrive(f"date={now:%Y-%m-%d}/hour={hour:02d}/a.ndjson")
    (made,) = plan(lake.config, now=now)
    assert made.plan.files == 3
    assert dict(made.plan.left_out.by_folder) == {  # type: ignore[union-attr]  # a file source
        f"date={now:%Y-%m-%d}/hour=03": 1,
        f"date={now:%Y-%m-%d}/hour=04": 1,
    }


def test_without_a_filter_or_without_older_folders_nothing_is_told(tmp_path: Path) -> None:
    lake = Lake(tmp_path, source_settings={"partition_filter": FILTER})
    lake.arrive(f"{day(3)}/f.ndjson")
    (made,) = plan(lake.config)
    assert made.plan.left_out is None
    assert not [each for each in made.plan.skipped if each.reason is Reason.BEFORE_START]
