"""A commit is due at each of three limits, and at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.commit_counts import (
    assert_ten_and_ten_and_the_rest,
    committed,
    hours_pass,
    many_small_files,
    one_large_file,
)
from support.lake import Lake
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop


def test_a_large_file_is_committed_whenever_ten_parquet_files_of_it_are_full(tmp_path: Path) -> None:
    lake = one_large_file(tmp_path, commit_batch_files=10)
    assert lake.run().ok
    assert_ten_and_ten_and_the_rest(lake)


def test_parquet_files_of_several_tasks_are_counted_together(tmp_path: Path) -> None:
    lake = Lake(tmp_path, {"checkpoint": {"interval_files": 100}}, {"commit_batch_files": 10})
    for number in range(25):
        lake.arrive(f"date=2026-01-28/{number:02d}.ndjson", records=200, pad="x" * 6_000)
    report = Loop(lake.project, InProcessEngine(), 25, lake.seen.append).once(lake.project.pipelines)
    assert report.ok
    assert [event.data_files for event in committed(lake)] == [10, 10, 5]
    lake.assert_exactly_once()


def test_ten_source_files_are_one_commit_and_the_rest_another(tmp_path: Path) -> None:
    lake = many_small_files(tmp_path, 25, interval_files=10)
    assert lake.run().ok
    assert [event.source_files for event in committed(lake)] == [10, 10, 5]
    lake.assert_exactly_once()


def test_whatever_is_finished_when_the_time_is_over_is_one_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = many_small_files(tmp_path, 6, interval_secs=60)
    for day in (29, 30):
        lake.arrive(f"date=2026-01-{day}/1.ndjson", records=10_000)
    hours_pass(monkeypatch)
    assert lake.run().ok
    assert [event.source_files for event in committed(lake)] == [6, 1, 1]
    lake.assert_exactly_once()


def test_without_a_limit_that_is_reached_everything_is_one_commit_at_the_end(tmp_path: Path) -> None:
    lake = many_small_files(tmp_path, 25)
    assert lake.run().ok
    assert [event.source_files for event in committed(lake)] == [25]
