"""The walk on Spark: units as tasks, one commit, and Spark reads the table back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidegate
from support.lake import Lake
from tidegate.observe.events import Committed, WaveStarted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path, settings={"spark": {"master": "local[2]"}})
    for hour in (11, 12, 13):
        for number in range(4):
            lake.arrive(f"date=2026-01-28/hour={hour}/{1769600000 + number}.ndjson.gz")
    return lake


def test_only_what_is_new_is_read_and_spark_sees_every_row_once(spark: SparkSession, lake: Lake) -> None:
    first = tidegate.run(lake.config, emit=lake.seen.append)
    assert (first.ok, first.sources[0].files, first.sources[0].rows) == (True, 12, 120)
    lake.arrive("date=2026-01-28/hour=13/1769600009.ndjson.gz")
    second = tidegate.run(lake.config)
    assert (second.ok, second.sources[0].files, second.sources[0].rows) == (True, 1, 10)
    third = tidegate.run(lake.config)
    assert (third.ok, third.sources[0].state, third.sources[0].commits) == (True, "Idle", 0)
    found = spark.read.format("delta").load(str(lake.root / "lake/events"))
    assert sorted(row["id"] for row in found.select("id").collect()) == lake.expected
    assert [event.rows for event in lake.seen if isinstance(event, Committed)] == [120]


def test_spark_shows_the_position_in_the_tables_history(spark: SparkSession, lake: Lake) -> None:
    tidegate.run(lake.config)
    history = spark.sql(f"describe history delta.`{lake.root}/lake/events`").collect()
    mark = json.loads(history[0]["userMetadata"])["tidegate"][0]
    assert (mark["pipeline"], mark["source"], mark["version"]) == ("events", "default", 1)


def test_spark_appends_in_between_and_the_next_run_goes_on(spark: SparkSession, lake: Lake) -> None:
    tidegate.run(lake.config)
    table = str(lake.root / "lake/events")
    spark.sql("select 900001L as id, current_timestamp() as ts, 'foreign' as event").write.format("delta").mode(
        "append"
    ).save(table)
    lake.expected.append(900001)
    lake.arrive("date=2026-01-28/hour=14/1769600009.ndjson.gz")
    assert tidegate.run(lake.config).ok
    lake.assert_exactly_once()


def test_many_small_files_are_few_tasks(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(tmp_path, settings={"spark": {"master": "local[2]"}})
    for number in range(250):
        lake.arrive(f"date=2026-01-28/{1769600000 + number}.ndjson", records=2)
    assert tidegate.run(lake.config, emit=lake.seen.append).ok
    waves = [event for event in lake.seen if isinstance(event, WaveStarted)]
    assert [(wave.units, wave.files) for wave in waves] == [(3, 250)]
    lake.assert_exactly_once()


def test_a_malformed_line_refuses_its_file_and_nothing_else(spark: SparkSession, lake: Lake) -> None:
    lake.pipeline_settings = {"error_handling": {"on_bad_record": "fail_file"}}
    lake.write("date=2026-01-28/hour=12/1769600001-bad.ndjson", '{"id": 1}\n{"id": 2\n')
    report = tidegate.run(lake.config)
    (failed,) = report.sources[0].failed
    assert not report.ok
    assert (failed.path, failed.attempts) == ("date=2026-01-28/hour=12/1769600001-bad.ndjson", 1)
    assert "line 2" in failed.reason
    lake.assert_exactly_once()


def test_filters_find_rows_whatever_the_statistics_say(spark: SparkSession, tmp_path: Path) -> None:
    fields = [
        {"name": "id", "type": "int64"},
        {"name": "flag", "type": "boolean"},
        {"name": "note", "type": "string"},
        {"name": "raw", "type": "binary"},
        {"name": "at", "type": "timestamp"},
    ]
    lake = Lake(tmp_path, settings={"spark": {"master": "local[2]"}}, schema={"fields": fields})
    notes = ["a" * 70, "z" * 70, "z" * 5000, "é" * 65]
    lines = [
        {"id": number, "flag": number % 2 == 0, "note": note, "raw": "AAEC", "at": "2026-01-28T12:00:00.123456Z"}
        for number, note in enumerate(notes)
    ]
    for number, line in enumerate(lines):
        lake.write(f"date=2026-01-28/{number}.ndjson", json.dumps(line) + "\n")
    assert tidegate.run(lake.config).ok
    found = spark.read.format("delta").load(str(lake.root / "lake/events"))
    for number, note in enumerate(notes):
        assert [row["id"] for row in found.where(found.note == note).collect()] == [number]
    assert found.where("flag").count() == 2
    assert found.where("at = timestamp '2026-01-28T12:00:00.123456Z'").count() == 4
    assert found.where("raw = X'000102'").count() == 4


def test_bad_lines_come_out_of_tasks_as_letters_that_spark_reads_and_retry_brings_in(
    spark: SparkSession, lake: Lake
) -> None:
    lake.write("date=2026-01-28/hour=13/1769600009.ndjson.gz", '{"id": 1000}\n{"id": 1001.5}\nnot json\n')
    lake.expected.append(1000)
    report = tidegate.run(lake.config)
    assert (report.ok, report.sources[0].bad_records) == (True, 2)
    letters = spark.read.format("delta").load(str(lake.root / "lake/events_dead_letters"))
    assert sorted((row["line"], row["text"]) for row in letters.collect()) == [(2, '{"id": 1001.5}'), (3, "not json")]
    lake.schema = {**lake.schema, "numbers": "lenient"}
    (answer,) = tidegate.retry_letters(lake.config, "events")
    assert (answer.answered, answer.rows, len(answer.still_bad)) == (1, 1, 1)
    found = spark.read.format("delta").load(str(lake.root / "lake/events"))
    assert sorted(row["id"] for row in found.select("id").collect()) == [*lake.expected, 1001]


def test_a_large_file_is_committed_in_the_middle_while_others_wait(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(tmp_path, settings={"spark": {"master": "local[2]"}})
    lake.sink_settings = {"file_size_mb": 1, "row_group_size_bytes": 1024 * 1024, "commit_batch_files": 2}
    lines = "".join(f'{{"id":{number},"event":"{number * 2654435761 % 2**64:x}"}}\n' for number in range(600_000))
    lake.write("date=2026-01-28/1.ndjson.gz", lines)
    lake.expected = list(range(600_000))
    lake.next_id = 600_000
    lake.arrive("date=2026-01-28/2.ndjson.gz")
    report = tidegate.run(lake.config)
    assert report.ok
    assert report.sources[0].commits >= 3
    lake.assert_exactly_once()


def test_spark_sql_reads_the_blocks_and_the_export_of_the_ledger(spark: SparkSession, lake: Lake) -> None:
    tidegate.run(lake.config)
    tidegate.export_ledger(lake.config, "events", to=lake.root / "ledger.parquet")
    found = spark.read.parquet(str(lake.root / "ledger.parquet"))
    found.createOrReplaceTempView("ledger")
    (row,) = spark.sql("select count(distinct file) as files, sum(rows) as rows from ledger").collect()
    assert (row["files"], row["rows"]) == (12, 120)
