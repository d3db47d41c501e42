"""Files of every format as Spark tasks, into one table."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidegate
from support.format_files import ENDINGS, written
from support.lake import FIELDS, Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_sources_of_all_formats_fill_one_table(spark: SparkSession, tmp_path: Path) -> None:
    sources = {
        format: {"source_uri": f"data/{format}", "use_watermark": True, "format": format} for format in sorted(ENDINGS)
    }
    lake = Lake(tmp_path)
    pipeline = {"sources": sources, "schema": {"fields": FIELDS}, "sink": {"table_uri": "lake/events"}}
    config = {"pipelines": {"events": pipeline}, "spark": {"master": "local[2]"}}
    path = tmp_path / "formats.yml"
    path.write_text(json.dumps(config))
    for format, ending in ENDINGS.items():
        rows = [
            {"id": number, "ts": datetime(2026, 1, 28, tzinfo=UTC), "event": f'"{format}",\n'}
            for number in range(lake.next_id, lake.next_id + 10)
        ]
        lake.expected += [row["id"] for row in rows]
        lake.next_id += 10
        target = tmp_path / "data" / format / "date=2026-01-28" / f"1{ending}"
        target.parent.mkdir(parents=True)
        target.write_bytes(written(format, rows))
    report = tidegate.run(path)
    assert report.ok, report
    assert [source.rows for source in report.sources] == [10] * len(ENDINGS)
    lake.assert_exactly_once()
    assert {row["event"] for row in lake.rows("select event from t")} == {f'"{format}",\n' for format in ENDINGS}
