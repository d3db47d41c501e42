"""Sources of every format, from files to the table: exactly once, by watermark and by set, with all commands."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidegate
from support.errors import check_names
from support.format_files import ENDINGS, written
from support.lake import Lake
from support.reconciling import compare, ingest
from tidegate.commands.dead_letters import retry
from tidegate.commands.doctor import examine_project
from tidegate.commands.project import sources_of
from tidegate.commands.replay import FileReplay, other_locations
from tidegate.core.files.edit import Selection
from tidegate.observe.events import Notice
from tidegate.reports.replay import LettersReport
from tidegate.runs.bind import bind
from tidegate.runs.file_edit import DeadLetterSelection
from tidegate.runs.in_process import InProcessEngine

DAY = "date=2026-01-28"
MOMENT = datetime(2026, 1, 28, 12, tzinfo=UTC)
OTHERS = sorted(set(ENDINGS) - {"ndjson"})


def lake_of(root: Path, format: str, **source: Any) -> Lake:
    return Lake(root, source_settings={"format": format, **source})


def put(lake: Lake, path: str, data: bytes) -> None:
    target = lake.root / "data" / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)


def arrive(lake: Lake, format: str, name: str) -> None:
    """A file of ten good records."""
    numbers = range(lake.next_id, lake.next_id + 10)
    rows = [{"id": number, "ts": MOMENT, "event": f"view {number}"} for number in numbers]
    lake.expected.extend(numbers)
    lake.next_id += 10
    put(lake, f"{DAY}/{name}{ENDINGS[format]}", written(format, rows))


def retried(lake: Lake) -> LettersReport:
    (place,) = sources_of(lake.project, "events")
    return retry(place, DeadLetterSelection(), InProcessEngine)


@pytest.mark.parametrize("use_watermark", [True, False])
@pytest.mark.parametrize("format", OTHERS)
def test_every_record_is_in_the_table_once(tmp_path: Path, format: str, use_watermark: bool) -> None:
    lake = lake_of(tmp_path, format, use_watermark=use_watermark)
    for name in ("1", "2", "3"):
        arrive(lake, format, name)
    put(lake, f"{DAY}/4.xlsx", b"something else")
    report = lake.run()
    assert report.ok
    assert report.sources[0].files == 3
    arrive(lake, format, "5")
    assert lake.run().sources[0].files == 1
    assert lake.run().sources[0].files == 0
    lake.assert_exactly_once()
    told = tidegate.files(lake.config, "events").files
    assert sorted(each.file for each in told) == [f"{DAY}/{name}{ENDINGS[format]}" for name in "1235"]
    (source,) = compare(lake.project).sources
    assert (source.ingested, source.late.count, source.changed.count, source.gone.count) == (4, 0, 0, 0)


@pytest.mark.parametrize("format", OTHERS)
def test_columns_are_inferred(tmp_path: Path, format: str) -> None:
    lake = lake_of(tmp_path, format)
    lake.schema = {"infer": True}
    rows = [{"id": number, "share": number / 4, "ok": True, "name": f"n{number}"} for number in range(20)]
    put(lake, f"{DAY}/1{ENDINGS[format]}", written(format, rows))
    assert lake.run().ok
    assert lake.rows("select * from t order by id") == rows
    told = [event.text for event in lake.seen if isinstance(event, Notice)]
    (line,) = told
    for words in ("inferred 4 columns from", "id: int64", "share: float64", "ok: boolean", "name: string"):
        assert words in line


@pytest.mark.parametrize("format", OTHERS)
def test_bad_records_are_kept_and_read_again(tmp_path: Path, format: str) -> None:
    lake = lake_of(tmp_path, format)
    whole = {"fields": [{"name": "id", "type": "int64"}, {"name": "share", "type": "int64"}]}
    lake.schema = whole
    rows = [{"id": number, "share": 0.5 if number in (3, 7) else 1.0} for number in range(10)]
    put(lake, f"{DAY}/1{ENDINGS[format]}", written(format, rows))
    report = lake.run()
    assert report.ok
    assert report.sources[0].bad_records == 2
    letters = tidegate.list_letters(lake.config, "events")
    assert [letter.line for letter in letters] == [4, 8]
    assert {letter.reason for letter in letters} == {"'share': 0.5 has a fraction, the column is int64"}
    assert retried(lake).answered == 0
    assert tidegate.list_letters(lake.config, "events") == letters
    lake.schema = {**whole, "numbers": "lenient"}
    assert retried(lake).answered == 2
    assert tidegate.list_letters(lake.config, "events") == ()
    assert lake.ids() == list(range(10))


@pytest.mark.parametrize("format", OTHERS)
def test_a_damaged_file_is_a_letter_and_the_others_are_read(tmp_path: Path, format: str) -> None:
    lake = lake_of(tmp_path, format, max_attempts=1)
    arrive(lake, format, "1")
    put(lake, f"{DAY}/2{ENDINGS[format]}", b"\xff\xfe damaged")
    arrive(lake, format, "3")
    lake.run()
    lake.run()
    lake.assert_exactly_once()
    (letter,) = tidegate.list_letters(lake.config, "events")
    assert (letter.kind, letter.file) == ("file", f"{DAY}/2{ENDINGS[format]}")


@pytest.mark.parametrize("format", OTHERS)
def test_late_files_are_found_and_rows_are_replaced(tmp_path: Path, format: str) -> None:
    lake = lake_of(tmp_path, format, late_files="strict")
    lake.sink_settings = {"metadata_columns": ["_source_file", "_source_record"]}
    arrive(lake, format, "5")
    assert lake.run().ok
    arrive(lake, format, "1")
    assert lake.run().sources[0].files == 0
    ingest(lake.project)
    lake.assert_exactly_once()
    row = {"id": 0, "ts": MOMENT, "event": "again"}
    put(lake, f"{DAY}/5{ENDINGS[format]}", written(format, [row]))
    project = lake.project
    place = bind(project, project.pipelines[0], project.pipelines[0].sources[0], 2)
    selection, others = Selection(f"{DAY}/5*", None), other_locations(project, place)
    assert FileReplay(place, InProcessEngine(), selection, others=others).run().rows_written == 1
    assert lake.ids() == [0, *range(10, 20)]
    assert lake.rows("select _source_record as n from t where id = 0") == [{"n": 0}]


def test_a_source_that_changes_its_format_keeps_its_position(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "csv")
    arrive(lake, "csv", "1")
    arrive(lake, "parquet", "2")
    assert lake.run().sources[0].files == 1
    lake.source_settings = {"format": "parquet"}
    assert lake.run().sources[0].files == 1
    assert lake.run().sources[0].files == 0
    lake.assert_exactly_once()


def test_files_with_other_columns_say_so_when_columns_are_inferred(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "parquet")
    lake.schema = {"infer": True}
    put(lake, f"{DAY}/1.parquet", written("parquet", [{"a": 1}], schema=pa.schema([("a", pa.int16())])))
    put(lake, f"{DAY}/2.parquet", written("parquet", [{"a": 2**40, "b": "x"}]))
    assert lake.run().ok
    assert lake.rows("select a, b from t order by a") == [{"a": 1, "b": None}, {"a": 2**40, "b": "x"}]
    other = lake_of(tmp_path / "other", "parquet")
    other.schema = {"infer": True}
    put(other, f"{DAY}/1.parquet", written("parquet", [{"a": 1}]))
    put(other, f"{DAY}/2.parquet", written("parquet", [{"a": "x"}]))
    report = other.run()
    assert not report.ok
    check_names(report.sources[0].error, "'a' is number", "'a' is string", "1 file")


def test_without_the_library_for_avro_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = lake_of(tmp_path, "avro")
    arrive(lake, "avro", "1")
    monkeypatch.setitem(sys.modules, "fastavro", None)
    report = lake.run()
    assert not report.ok
    assert "pip install 'tidegate[avro]'" in str(report.sources[0].error)
    (place,) = sources_of(lake.project, "events")
    failed = [check for check in examine_project(lake.project, [place]) if check.verdict == "fail"]
    assert {check.remedy for check in failed} == {"pip install 'tidegate[avro]'"}
    monkeypatch.undo()
    assert lake.run().ok
    lake.assert_exactly_once()


@pytest.mark.parametrize("format", OTHERS)
def test_doctor_and_plan_know_the_files(tmp_path: Path, format: str) -> None:
    lake = lake_of(tmp_path, format)
    arrive(lake, format, "1769600000")
    (place,) = sources_of(lake.project, "events")
    assert all(check.verdict == "ok" for check in examine_project(lake.project, [place]))
    (planned,) = tidegate.plan(lake.config)
    assert [each.path for group in planned.plan.groups for each in group.slices] == [
        f"{DAY}/1769600000{ENDINGS[format]}"
    ]
