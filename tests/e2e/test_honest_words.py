"""Nothing looks like success that is not: files that do not fit, names that do not sort, places nobody looks at."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

import tidegate
from support.lake import Lake
from tidegate.observe.events import Notice
from tidegate.reports.plan import SourcePlan

CSV = "no file is read: 2 files end in .csv; this source reads ndjson: set format: csv"


def notices(lake: Lake) -> list[str]:
    return [each.text for each in lake.seen if isinstance(each, Notice)]


def plan_of(lake: Lake) -> SourcePlan:
    (found,) = tidegate.plan(lake.config)
    assert isinstance(found, SourcePlan)
    return found


def warnings(lake: Lake) -> list[str]:
    return [each.detail for each in tidegate.doctor(lake.config) if each.verdict == "warn"]


@pytest.mark.parametrize("watermark", [True, False])
def test_files_of_another_format_are_told_wherever_somebody_looks(tmp_path: Path, watermark: bool) -> None:
    lake = Lake(tmp_path, {"use_watermark": watermark, "format": "ndjson"})
    for name in ("a.csv", "b.csv"):
        lake.write(name, "id\n1\n")
    assert CSV in plan_of(lake).plan.notes
    assert CSV in tidegate.status(lake.config)[0].notes
    assert CSV in warnings(lake)
    assert lake.run().ok
    assert CSV in notices(lake)


def test_once_something_was_read_other_files_are_only_counted(tmp_path: Path) -> None:
    lake = Lake(tmp_path, {"format": "ndjson"})
    lake.arrive("a.ndjson")
    lake.run()
    lake.write("b.csv", "id\n1\n")
    assert plan_of(lake).plan.notes == ()
    assert [each.count for each in plan_of(lake).plan.skipped] == [1, 1]


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (
            ("a.csv", "b.parquet", "c.csv"),
            "2 files end in .csv, 1 in .parquet; this source reads avro: set format: csv or",
        ),
        (("a.txt",), "1 file ends in .txt; this source reads avro: set pattern: '*.txt'"),
        (("a", "b"), "2 files end in nothing; this source reads avro: set pattern: '*'"),
    ],
)
def test_the_endings_and_the_remedy_are_named(tmp_path: Path, names: tuple[str, ...], told: str) -> None:
    lake = Lake(tmp_path, {"format": "avro"})
    for name in names:
        lake.write(name, "id\n1\n")
    assert told in plan_of(lake).plan.notes[0]


def test_a_pattern_that_fits_nothing_is_told(tmp_path: Path) -> None:
    lake = Lake(tmp_path, {"pattern": "*.gz"})
    lake.write("a.ndjson", "{}\n")
    assert plan_of(lake).plan.notes == (
        "the only file does not fit pattern: '*.gz', e.g. a.ndjson; correct the pattern",
    )


def test_names_that_do_not_sort_in_time_are_told_before_anything_is_read(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    for number, name in enumerate("gbfaechd"):
        os.utime(lake.arrive(f"{name}.ndjson", 1), (1_700_000_000 + number * 60,) * 2)
    told = "names do not sort in time (other names, 8 files"
    assert any(note.startswith(told) and "use_watermark: false" in note for note in plan_of(lake).plan.notes)
    assert len([each for each in warnings(lake) if each.startswith(told)]) == 1
    lake.run()
    assert any(note.startswith(told) for note in notices(lake))
    assert not any(note.startswith("names") for note in plan_of(lake).plan.notes)


def test_what_lies_below_the_late_window_is_told_each_time(tmp_path: Path) -> None:
    lake = Lake(tmp_path, {"late_window": 2})
    for number in range(4):
        lake.arrive(f"170000000{number}.ndjson", 1)
    assert tidegate.status(lake.config)[0].notes == ()
    lake.run()
    told = "not looked for: late files below the late window of a folder (2 names); `tidegate reconcile` finds them"
    for _ in range(2):
        assert told in plan_of(lake).plan.remarks
        assert tidegate.status(lake.config)[0].notes == (told,)
    assert told not in warnings(lake)


def test_what_lies_in_sealed_folders_is_told_each_time(tmp_path: Path) -> None:
    lake = Lake(tmp_path, {"lateness": "P1D"})
    for day in ("01", "02", "03", "04"):
        lake.arrive(f"date=2026-01-{day}/1.ndjson", 1)
    lake.run()
    told = (
        "not looked for: late files in 2 folders before 2026-01-03 00:00Z (lateness); `tidegate reconcile` finds them"
    )
    assert tidegate.status(lake.config)[0].notes == (told,)
    assert told in plan_of(lake).plan.remarks


def test_the_folders_that_are_passed_over_are_counted_alike_by_plan_and_status(tmp_path: Path) -> None:
    lake = Lake(tmp_path, {"lateness": "PT2H"})
    for hour in ("01", "02", "03", "04", "05"):
        lake.arrive(f"date=2026-01-01/hour={hour}/1.ndjson", 1)
    lake.run()
    (passed_over,) = [each.count for each in plan_of(lake).plan.skipped if str(each.reason) == "partition is sealed"]
    assert passed_over > 0
    assert tidegate.status(lake.config)[0].sealed == passed_over


def test_the_time_of_the_commit_is_told_and_lag_counts_from_it(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.arrive("1700000000.ndjson", 1)
    lake.run()
    (history,) = tidegate.watermark_history(lake.config, "events")
    committed = history.positions[0].committed_at
    lake.arrive("1700000001.ndjson", 1)
    (status,), (shown,) = tidegate.status(lake.config), tidegate.show_watermarks(lake.config, "events")
    assert status.last_commit_at == shown.last_commit_at == committed
    assert status.updated is not None
    assert committed is not None
    assert status.updated < committed
    assert status.lag_seconds is not None
    assert status.lag_seconds <= (datetime.now(UTC) - committed).total_seconds()
