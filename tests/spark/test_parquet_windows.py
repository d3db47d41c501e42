"""Windows of a folder of plain Parquet files: rows that went, came, changed or moved, through whole runs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.parquet_lake import ParquetLake
from tidegate import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

WINDOW = {"load_type": "merge_overwrite", "merge_keys": ["id"], "replace_by_watermark": True}


def row(number: int | None, day: int, note: str) -> dict[str, Any]:
    return {"id": number, "at": datetime(2026, 3, day, 12, tzinfo=UTC), "note": note}


def seen(lake: ParquetLake) -> list[tuple[int | None, str, str]]:
    found = [(each["id"], str(each["day"]), each["note"]) for each in lake.table()]
    return sorted(found, key=lambda each: (each[0] or 0, each[1]))


def test_a_window_of_a_folder_is_replaced_through_the_transform(spark: SparkSession, tmp_path: Path) -> None:
    by = {"prefix_template": "day=%Y-%m-%d", "column": "at"}
    lake = ParquetLake(
        tmp_path,
        source_settings={"watermark_columns": ["at"], "backward": {"days": 7}},
        sink_settings={"format": "parquet", "partition_by": by, "max_delete_fraction": 0.6, **WINDOW},
    )
    config = lake.config.read_text().replace(
        '"source":', '"transform": {"sql": "select id, at, upper(note) note from source"}, "source":'
    )
    lake.arrive(row(1, 1, "moves"), row(2, 1, "stays"), row(3, 8, "goes"), row(None, 9, "null"))
    path = tmp_path / "transformed.yml"
    path.write_text(config)
    assert run(path).ok
    first = [(None, "2026-03-09", "NULL"), (1, "2026-03-01", "MOVES"), (2, "2026-03-01", "STAYS")]
    assert seen(lake) == [*first, (3, "2026-03-08", "GOES")]
    lake.rows = [row(2, 1, "is not read again"), row(1, 10, "moved"), row(None, 9, "again"), row(4, 8, "late")]
    lake.save()
    (report,) = run(path).sources
    assert (report.error, report.rows, report.commits) == (None, 3, 1)
    after = [(None, "2026-03-09", "AGAIN"), (1, "2026-03-10", "MOVED"), (2, "2026-03-01", "STAYS")]
    assert seen(lake) == [*after, (4, "2026-03-08", "LATE")]
    lake.rows = [row(1, 10, "moved")]
    lake.save()
    (refused,) = run(path).sources
    assert "more than max_delete_fraction (0.6) allows" in (refused.error or "")
    assert seen(lake) == [*after, (4, "2026-03-08", "LATE")]
    assert lake.left_over() == []
