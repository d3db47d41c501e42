"""The examples of work units on Spark: the survey API from a later day on, and the warehouse in a real PostgreSQL."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidegate
from servers import api as servers
from servers import postgres as postgres_server
from support.file_server import FileServer
from support.unit_examples import SERVER, ExampleRuns, copied, serving, warehouse
from support.unit_lake import day
from tidegate.spark.engine import SparkEngine
from tidegate.specs.project import SparkSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COUNT = "select _tidegate_unit, count(*), count(distinct id) from t group by 1"


def run(example: ExampleRuns) -> list[int]:
    """Both pipelines, in one call; how many rows each brought."""
    report = tidegate.run(example.config)
    assert report.ok, report
    return [each.rows for each in report.sources]


def asked_days(example: ExampleRuns) -> tuple[date, date]:
    """The first and the last day of the responses that were asked for since the last look."""
    found = [each.split() for each in example.asked() if each.startswith("garden")]
    return date.fromisoformat(min(each[1] for each in found)), date.fromisoformat(max(each[2] for each in found))


def test_surveys_and_their_responses_by_the_function_that_users_call(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    surveys = [each for each in SERVER.SURVEYS if each["status"] != "closed"]
    start = date(2020, 1, 1)
    with serving(copied("api.yml", tmp_path), monkeypatch, surveys=surveys) as example:
        listed, responses = run(example)
        begin, last = asked_days(example)
        assert begin == start
        assert (listed, responses) == (2, (last - begin).days)
        assert example.rows("responses", COUNT) == [("garden", responses, responses)]

        example.example.add_late("garden", day(f"{last - timedelta(days=2)}"))
        run(example)
        graced, now = asked_days(example)
        assert last - timedelta(days=7) < graced <= last - timedelta(days=3)
        expected = (now - begin).days + 1
        assert example.rows("responses", COUNT) == [("garden", expected, expected)]


def test_files_that_are_read_every_day_are_there_once(spark: SparkSession, tmp_path: Path) -> None:
    with servers.running() as api:
        engine = SparkEngine(SparkSpec())
        server = FileServer(tmp_path, api, {"replace": "unit"}, engine=lambda: engine)
        assert server.live("15", "16", "17", "18") == [2, 4, 6, 8]
        assert server.rows() == {f"f{date}.csv": 2 for date in ("15", "16", "17", "18")}


def test_late_sales_of_the_warehouse_are_read(
    spark: SparkSession, postgres: postgres_server.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = copied("work_units/warehouse.yml", tmp_path)
    with warehouse(postgres, monkeypatch) as database:
        example = ExampleRuns(config, lane=SparkEngine(SparkSpec()))
        assert example.ran("sales", "2026-01-15").rows == 2 * 14
        database.execute(
            "insert into sales values (101, 'north', '2026-01-12 23:00Z', 1), (102, 'north', '2026-01-11 23:00Z', 2)"
        )
        database.execute("delete from sales where sold_at = '2026-01-14 12:00Z' and region = 'south'")
        example.ran("sales", "2026-01-16")
        found = "select _tidegate_unit, count(*), sum(amount) from t group by 1 order by 1"
        assert example.rows("sales", found) == [
            ("north", 15, Decimal("9.90") * 14 + 1),
            ("south", 13, Decimal("9.90") * 13),
        ]
        sent = [each for each in postgres.statements() if "'south'" in each and "FROM (" in each]
        assert any("2026-01-12 00:00:00" in each and "2026-01-13 00:00:00" in each for each in sent), sent
