"""A database that changes under a pipeline: wider types, columns that go, tables that are emptied."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from servers import postgres as postgres_server
from support.shop import Shop
from tidegate import widen_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

BY_ID = {"watermark_columns": ["id"]}


def test_a_column_that_became_wider_is_widened_in_the_table_and_the_run_goes_on(
    spark: SparkSession, postgres: postgres_server.Server, tmp_path: Path
) -> None:
    shop = Shop(postgres, tmp_path, "id int, amount numeric(6,2)", BY_ID)
    shop.execute("insert into orders values (1, 1.10)")
    assert shop.go() == 1
    shop.execute("alter table orders alter id type bigint")
    shop.execute("insert into orders values (5000000000, 2.20)")
    assert "`tidegate table widen` with --column id --type int64" in shop.refused()
    report = widen_table(shop.config, "orders", column="id", to="int64")
    assert (report.applied, report.rows) == (True, 1)
    assert shop.go() == 1
    assert shop.ids() == [1, 5000000000]
    assert shop.go() == 0
