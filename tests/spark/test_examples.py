"""The examples for files run on Spark as they are, by the functions that users call; only their data is made here."""

from __future__ import annotations

import gzip
import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import tidegate
from tidegate import RunReport, SourceReport
from tidegate.protocol.delta import query
from tidegate.specs.locations import Location
from tidegate.storage.options import absolute_uri

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

EXAMPLES = Path(__file__).parents[2] / "examples"
BLIZZARD = """
pipelines:
  events:
    sources:
      events:
        path: "data/raw-events/"
        use_watermark: true
        compression: gzip
        batch_size: 8192
        poll_interval_secs: 60
        partition_filter:
          prefix_template: "date=%Y-%m-%d"
          lookback: 7
        checkpoint:
          interval_files: 100
          interval_secs: 60
    schema: {infer: true, coerce_conflicts_to_utf8: true}
    sink:
      table_uri: "lake/raw_events"
      file_size_mb: 128
      row_group_size_bytes: 134217728
      compression: snappy
      partition_by: {prefix_template: "date=%Y-%m-%d"}
      max_concurrent_uploads: 4
      storage_options: {AWS_REGION: us-east-1}
    max_concurrent_files: 4
    error_handling: {max_failures: 0, dlq_path: "lake/dlq"}
global: {total_concurrency: 8, connection_pooling: true, poll_jitter_secs: 30}
metrics: {enabled: true, address: "127.0.0.1:9090"}
"""
NOW = datetime.now(UTC)
TODAY, YESTERDAY, LONG_AGO = (f"date={NOW - timedelta(days=days):%Y-%m-%d}" for days in (0, 1, 30))


def deliver(folder: Path, path: str, *records: Any) -> None:
    """A file of these records, or of lines that are none, compressed."""
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    lines = [each if isinstance(each, str) else json.dumps(each) for each in records]
    target.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))


def run(folder: Path, name: str) -> list[SourceReport]:
    """One run by the function of the package, which must go well."""
    config = folder / name
    if (EXAMPLES / name).exists():
        shutil.copy(EXAMPLES / name, config)
    report: RunReport = tidegate.run(config)
    assert report.ok, [source.error for source in report.sources]
    return list(report.sources)


def rows(folder: Path, table: str, question: str) -> list[tuple[Any, ...]]:
    return [tuple(each.values()) for each in query(Location(absolute_uri(table, folder)), question)]


def codecs(folder: Path, table: str) -> set[str]:
    files = (folder / table).glob("*/*.parquet")
    return {pq.read_metadata(path).row_group(0).column(0).compression for path in files}


def event(number: int, **more: Any) -> dict[str, Any]:
    user = {"name": "ann", "country": "NZ"}
    return {"id": number, "ts": "2026-01-28T14:00:00Z", "event": "view", "price": "9.90", "user": user, **more}


def test_two_regions_go_into_one_table(spark: SparkSession, tmp_path: Path) -> None:
    hour = f"{NOW:date=%Y-%m-%d/hour=%H}"
    deliver(tmp_path, f"data/asia/{hour}/1.ndjson.gz", event(1, tags=["a", "b"]), event(2), "no record")
    deliver(tmp_path, f"data/asia/{LONG_AGO}/hour=00/1.ndjson.gz", event(3))
    deliver(tmp_path, "data/europe/date=2026-01-29/hour=00/5.ndjson.gz", event(4, ts="2026-01-29T00:00:00Z"))
    asia, europe = run(tmp_path, "files.yml")
    assert (asia.files, asia.rows, asia.bad_records, europe.rows) == (1, 2, 1, 1)
    deliver(tmp_path, f"data/asia/{hour}/2.ndjson.gz", event(5))
    deliver(tmp_path, "data/europe/date=2026-01-29/hour=00/4.ndjson.gz", event(6))
    assert [each.rows for each in run(tmp_path, "files.yml")] == [1, 1]
    assert [each.state for each in run(tmp_path, "files.yml")] == ["Idle", "Idle"]
    found = rows(tmp_path, "lake/events", "select id, date, price from t order by id")
    assert [(number, day) for number, day, _ in found] == [
        *((number, "2026-01-28") for number in (1, 2)),
        (4, "2026-01-29"),
        *((number, "2026-01-28") for number in (5, 6)),
    ]
    assert codecs(tmp_path, "lake/events") == {"ZSTD"}
    assert spark.read.format("delta").load(str(tmp_path / "lake/events")).count() == 5


def test_a_configuration_of_blizzard_runs_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    deliver(tmp_path, f"data/raw-events/{YESTERDAY}/1706450400-a.ndjson.gz", {"id": 1, "v": 7}, {"id": 2, "v": "x"})
    deliver(tmp_path, f"data/raw-events/{TODAY}/1706450500-b.ndjson.gz", {"id": 3}, "no record")
    deliver(tmp_path, f"data/raw-events/{LONG_AGO}/1706450000-c.ndjson.gz", {"id": 4})
    (tmp_path / "blizzard.yml").write_text(BLIZZARD)
    (first,) = run(tmp_path, "blizzard.yml")
    assert (first.files, first.rows, first.bad_records) == (2, 3, 1)
    deliver(tmp_path, f"data/raw-events/{TODAY}/1706450600-d.ndjson.gz", {"id": 5, "v": 1.5})
    (second,) = run(tmp_path, "blizzard.yml")
    assert (second.files, second.rows) == (1, 1)
    assert run(tmp_path, "blizzard.yml")[0].state == "Idle"
    days = [each.removeprefix("date=") for each in (YESTERDAY, TODAY)]
    found = rows(tmp_path, "lake/raw_events", "select id, v, date from t order by id")
    assert found == [(1, "7", days[0]), (2, "x", days[0]), (3, None, days[1]), (5, "1.5", days[1])]
    assert codecs(tmp_path, "lake/raw_events") == {"SNAPPY"}
    assert len(rows(tmp_path, "lake/dlq", "select * from t")) == 1


@pytest.mark.parametrize("elsewhere", [False, True], ids=["beside it", "elsewhere"])
def test_staged_clicks_are_committed_by_another_command(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: bool
) -> None:
    monkeypatch.delenv("CLICKS_URI", raising=False)
    if elsewhere:
        monkeypatch.setenv("CLICKS_URI", f"{tmp_path}/other")
    folder = "other" if elsewhere else "data/clicks"
    deliver(tmp_path, f"{folder}/{TODAY}/1.ndjson.gz", {"id": 1}, {"id": 2})
    (source,) = run(tmp_path, "staged.yml")
    assert (source.commits, source.staged, source.rows) == (0, 1, 2)
    assert not (tmp_path / "lake/clicks/_delta_log").exists()
    report = tidegate.commit(tmp_path / "staged.yml")
    assert report.ok, report
    assert rows(tmp_path, "lake/clicks", "select id from t order by id") == [(1,), (2,)]
    assert run(tmp_path, "staged.yml")[0].state == "Idle"
