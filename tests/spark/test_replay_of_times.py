"""Replays by times of a real database: dates as bounds, and hours in which clocks change."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from servers import postgres as postgres_server
from support.errors import raises
from support.long_runs import LONG, chosen
from support.shop import Shop
from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

BY_TIME = {"watermark_columns": ["at"]}
BERLIN = {**BY_TIME, "source_timezone": "Europe/Berlin"}


@pytest.mark.parametrize("kind", chosen(["timestamptz", "timestamp"], "timestamptz"))
def test_the_first_fill_by_months_with_dates_as_bounds(
    spark: SparkSession, postgres: postgres_server.Server, tmp_path: Path, kind: str
) -> None:
    shop = Shop(postgres, tmp_path, f"id int, at {kind}", BERLIN)
    shop.execute("insert into orders values (1, '2025-11-30 23:30'), (2, '2025-12-24 12:00'), (3, '2026-01-01')")
    report = shop.replay("2025-11-01", "2026-01-01", chunk={"months": 1}, save_watermark=True)
    assert report.ok, report.chunks
    assert [each.rows for each in report.chunks] == [1, 1]
    assert report.saved == ("at=2026-01-01T00:00:00+00:00" if kind == "timestamptz" else "at=2026-01-01T00:00:00")
    assert shop.go() == 1
    assert shop.ids() == [1, 2, 3]
    assert shop.go() == 0


def test_no_row_is_lost_in_the_hour_that_clocks_jump_over_nor_in_the_one_they_show_twice(
    spark: SparkSession, postgres: postgres_server.Server, tmp_path: Path
) -> None:
    shop = Shop(postgres, tmp_path, "id int, at timestamp", BERLIN)
    shop.execute(
        "insert into orders values (1, '2026-03-29 01:30'), (2, '2026-03-29 02:30'), (3, '2026-03-29 03:15'),"
        " (4, '2026-10-25 02:30'), (5, '2026-10-25 03:30')"
    )
    assert shop.go() == 5
    spring = shop.replay("2026-03-29T01:00:00", "2026-03-29T05:00:00", chunk={"hours": 1})
    assert spring.ok, spring.chunks
    assert [(each.low[11:13], each.rows) for each in spring.chunks] == [("01", 1), ("02", 2), ("04", 0)]
    autumn = shop.replay("2026-10-25T02:00:00", "2026-10-25T03:00:00", chunk={"hours": 1})
    assert [(each.fate, each.rows) for each in autumn.chunks] == [("done", 1)]
    assert shop.ids() == [1, 2, 3, 4, 5]
    with raises(ConfigError, "replay", "Europe/Berlin", "2026-03-29 02:00:00", "2026-03-29 04:00:00"):
        shop.replay("2026-03-29T03:00:00", "2026-03-29T06:00:00")
    assert shop.ids() == [1, 2, 3, 4, 5]


@pytest.mark.skipif(not LONG, reason="four merges; the bounds are tested without Spark")
def test_a_window_that_begins_or_ends_where_clocks_jump_loses_nothing(
    spark: SparkSession, postgres: postgres_server.Server, tmp_path: Path
) -> None:
    window = {"load_type": "merge_overwrite", "merge_keys": ["id"], "replace_by_watermark": True}
    shop = Shop(postgres, tmp_path, "id int, at timestamp", {**BERLIN, "backward": {"hours": 24}}, window)
    shop.execute("insert into orders values (1, '2026-03-29 02:45'), (2, '2026-03-29 03:10')")
    assert shop.go() == 2
    shop.execute("insert into orders values (3, '2026-03-29 03:15')")
    assert shop.go() == 3
    shop.execute("insert into orders values (4, '2026-03-30 03:05')")
    assert shop.go() == 4
    shop.execute("insert into orders values (5, '2026-03-30 04:00')")
    assert shop.go() == 5
    assert shop.ids() == [1, 2, 3, 4, 5]
