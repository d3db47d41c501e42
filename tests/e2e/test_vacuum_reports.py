"""What `table vacuum` says it removed is what was there before it and is gone after it."""

from __future__ import annotations

from pathlib import Path

from support.lake import Lake
from tidegate import optimize_table, vacuum_table
from tidegate.reports.page import Line
from tidegate.reports.table import TableCareReport


def optimized(folder: Path, **settings: object) -> Lake:
    """A table that three small files have left."""
    lake = Lake(folder, sink_settings=settings)
    for number in range(3):
        lake.arrive(f"date=2026-01-28/{number}.ndjson")
        assert lake.run().ok
    optimize_table(lake.config, "events")
    return lake


def table_version(lake: Lake) -> int:
    return len(list((lake.root / "lake/events/_delta_log").glob("*.json"))) - 1


def bytes_on_disk(lake: Lake) -> int:
    return sum(path.stat().st_size for path in (lake.root / "lake/events").rglob("*.parquet"))


def vacuum(lake: Lake, *, dry_run: bool = False) -> TableCareReport:
    return vacuum_table(lake.config, "events", retention_hours=0, force=True, dry_run=dry_run)


def test_the_report_has_the_files_the_bytes_and_the_version_afterwards(tmp_path: Path) -> None:
    lake = optimized(tmp_path)
    before = bytes_on_disk(lake)
    planned = vacuum(lake, dry_run=True)
    assert (planned.files_before, planned.table_version, bytes_on_disk(lake)) == (3, 3, before)
    report = vacuum(lake)
    assert (report.files_before, report.bytes_before) == (3, before - bytes_on_disk(lake))
    assert report.bytes_before == planned.bytes_before > 0
    assert report.table_version == table_version(lake) > 3
    lake.assert_exactly_once()


def test_the_second_time_there_is_nothing_left_to_remove_and_nothing_is_written(tmp_path: Path) -> None:
    lake = optimized(tmp_path)
    vacuum(lake)
    version = table_version(lake)
    again = vacuum(lake)
    assert (again.files_before, again.bytes_before, again.table_version) == (0, 0, version)
    assert table_version(lake) == version
    line = again.page()[0]
    assert isinstance(line, Line)
    assert "nothing to remove" in line.text.text


def test_files_below_odd_partition_names_are_found(tmp_path: Path) -> None:
    lake = optimized(tmp_path, partition_by={"prefix_template": "at=a b:%Y%%", "column": "ts"})
    assert vacuum(lake).files_before == 3
    assert vacuum(lake).files_before == 0
