"""Traps that lose or double rows elsewhere, each as whole runs over Parquet files and a real PostgreSQL server."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from servers import postgres as postgres_server
from support.column_lake import ColumnLake
from support.column_loads import LOOK_BACK, START, UPSERT, WINDOW, Crash, crash_at, go, refused, row, table
from support.errors import raises
from tidegate import DataFlow, ReplayConfig, failpoints, run, run_replay, show_watermarks
from tidegate.errors import TidegateError
from tidegate.observe.events import Event, ReadFixed
from tidegate.protocol.delta import query
from tidegate.specs.locations import Location
from tidegate.storage.options import absolute_uri

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

MOMENT = pa.timestamp("us", "UTC")
TIMES = pa.schema([("id", pa.int64()), ("created", MOMENT), ("modified", MOMENT), ("note", pa.string())])


def day(number: int) -> datetime:
    return START + timedelta(days=number)


def typed(kind: pa.DataType) -> pa.Schema:
    """Rows whose time is of another type."""
    return pa.schema([("id", pa.int64()), ("at", kind), ("note", pa.string())])


def stored(lake: ColumnLake) -> dict[str, Any]:
    (view,) = show_watermarks(lake.config, "orders")
    value = json.loads(view.value or "null")
    assert isinstance(value, dict)
    return value


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    failpoints.arm("")


def test_two_columns_of_which_one_was_never_stored_and_a_filter_with_or(spark: SparkSession, tmp_path: Path) -> None:
    source = {"watermark_columns": ["created", "modified"], "filter_expression": "note <> 'draft' or note is null"}
    lake = ColumnLake(tmp_path, source, UPSERT, schema=TIMES)
    lake.arrive({"id": 1, "created": day(0)}, {"id": 2, "created": day(1), "note": "draft"})
    go(lake)
    assert stored(lake)["modified"] is None
    lake.rows[0].update(modified=day(2), note="changed")
    lake.rows[1].update(modified=day(9))
    lake.arrive({"id": 3, "created": day(1), "note": "new"})
    assert go(lake).rows == 2
    assert table(lake) == [(1, "changed"), (3, "new")]
    assert go(lake).rows == 0


def test_a_second_column_that_is_configured_later_does_not_append_everything_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = ColumnLake(tmp_path)
    lake.arrive(row(1, 0), row(2, 1))
    go(lake)
    lake.source_settings = {"watermark_columns": ["id", "at"]}
    lake.arrive(row(3, 2))
    assert "tidegate watermark set" in refused(lake)
    lake.assert_exactly_once([1, 2])


def test_a_column_that_moves_backwards_and_rows_without_a_value(spark: SparkSession, tmp_path: Path) -> None:
    lake = ColumnLake(tmp_path)
    lake.arrive(row(5, 0), row(9, 1), {"id": None, "note": "?"})
    first = go(lake)
    assert (first.rows, first.skipped) == (2, (("null_watermark", 1),))
    lake.rows = [row(3, 0), row(5, 0)]
    lake.save()
    assert go(lake).commits == 0
    assert stored(lake) == {"id": 9}
    lake.arrive(row(9, 1), row(10, 2))
    assert go(lake).rows == 1
    lake.assert_exactly_once([5, 9, 10])


def test_rows_that_leave_and_enter_a_window_and_a_window_without_rows(spark: SparkSession, tmp_path: Path) -> None:
    lake = ColumnLake(tmp_path, LOOK_BACK, WINDOW)
    lake.arrive(row(1, 0), row(2, 1), row(3, 8), row(4, 8), row(5, 9), row(6, 10))
    go(lake)
    lake.rows = [row(1, 0), row(2, 8, "moved in"), row(4, 8), row(5, 9)]
    lake.save()
    go(lake)
    assert table(lake) == [(1, "new"), (2, "moved in"), (4, "new"), (5, "new")]
    assert stored(lake) == {"at": {"__datetime__": "2026-03-11T00:00:00+00:00"}}
    lake.rows = [row(1, 0)]
    lake.save()
    assert "allow_empty_window" in refused(lake)
    assert len(table(lake)) == 4
    lake.sink_settings = {**WINDOW, "allow_empty_window": True, "max_delete_fraction": 1.0}
    go(lake)
    assert table(lake) == [(1, "new")]


@pytest.mark.parametrize("provider", ["delta", "file", "sql"])
def test_a_state_store_that_cannot_be_read_is_no_first_run(spark: SparkSession, tmp_path: Path, provider: str) -> None:
    url = {"delta": {}, "file": {"url": "state"}, "sql": {"url": "sqlite:///state.db"}}[provider]
    lake = ColumnLake(tmp_path, settings={"state": {"provider": provider, **url}})
    lake.arrive(row(1, 0))
    go(lake)
    places = {"delta": "lake/orders/_delta_log/*0.json", "file": "state/**/current.json", "sql": "state.db"}
    (place,) = tmp_path.glob(places[provider])
    kept = place.read_bytes()
    place.write_bytes(b"{oops")
    lake.arrive(row(2, 1))
    assert refused(lake)
    place.write_bytes(kept)
    assert go(lake).rows == 1
    lake.assert_exactly_once()


@pytest.mark.parametrize("url", ["postgresql+psycopg://a:b@127.0.0.1:1/state", "sqlite:///missing/state.db"])
def test_a_state_store_that_does_not_answer_is_no_first_run(spark: SparkSession, tmp_path: Path, url: str) -> None:
    lake = ColumnLake(tmp_path, settings={"state": {"provider": "sql", "url": url}})
    lake.arrive(row(1, 0))
    assert refused(lake)
    assert not (tmp_path / "lake" / "orders" / "_delta_log").exists()


def test_a_write_whose_save_failed_is_saved_by_the_next_run(spark: SparkSession, tmp_path: Path) -> None:
    lake = ColumnLake(tmp_path, {"watermark_columns": ["at"]}, UPSERT)
    lake.settings = {"state": {"provider": "sql", "url": "sqlite:///state.db"}}
    lake.arrive(row(1, 0))
    crash_at("state.provider.before")
    with pytest.raises(Crash):
        run(lake.config)
    failpoints.arm("")
    assert go(lake).rows == 0
    assert table(lake) == [(1, "new")]
    assert stored(lake) == {"at": {"__datetime__": "2026-03-01T00:00:00+00:00"}}


def test_decimals_are_exact_to_the_last_digit(spark: SparkSession, tmp_path: Path) -> None:
    lake = ColumnLake(tmp_path, {"watermark_columns": ["at"]}, schema=typed(pa.decimal128(38, 18)))
    lake.arrive({"id": 1, "at": Decimal("9.9")}, {"id": 2, "at": Decimal("10000000000000000000.000000000000000001")})
    go(lake)
    assert stored(lake) == {"at": {"__decimal__": "10000000000000000000.000000000000000001"}}
    lake.arrive({"id": 3, "at": Decimal("10000000000000000000.000000000000000002")})
    assert go(lake).rows == 1
    lake.assert_exactly_once()


def test_closing_day_after_years_of_silence_leaves_no_month_out(spark: SparkSession, tmp_path: Path) -> None:
    source = {"watermark_columns": ["at"], "configure": {"backward": {"closing_day": 10}}}
    lake = ColumnLake(tmp_path, source, UPSERT)
    lake.arrive({"id": 1, "at": datetime(2024, 1, 4, tzinfo=UTC)}, {"id": 2, "at": datetime(2024, 1, 5, tzinfo=UTC)})
    go(lake)
    lake.rows[0]["note"] = lake.rows[1]["note"] = "corrected"
    lake.arrive(*({"id": 3 + month, "at": datetime(2024, month, 20, tzinfo=UTC), "note": ""} for month in range(1, 13)))
    assert go(lake).rows == 13
    assert [number for number, _ in table(lake)] == [1, 2, *range(4, 16)]
    assert table(lake)[1] == (2, "corrected")


def test_numbers_as_text_are_refused_until_they_are_numbers(spark: SparkSession, tmp_path: Path) -> None:
    lake = ColumnLake(tmp_path, {"watermark_columns": ["at"]}, schema=typed(pa.string()))
    lake.arrive({"id": 1, "at": "9"}, {"id": 2, "at": "10"})
    assert "numbers as text" in refused(lake)
    lake.schema = typed(pa.int64())
    lake.rows = [{**each, "at": int(each["at"])} for each in lake.rows]
    lake.save()
    go(lake)
    lake.schema = typed(pa.string())
    lake.rows = [{**each, "at": str(each["at"])} for each in [*lake.rows, {"id": 3, "at": 11}]]
    lake.save()
    assert refused(lake)
    lake.assert_exactly_once([1, 2])


def test_days_and_times_are_not_mixed(spark: SparkSession, tmp_path: Path) -> None:
    lake = ColumnLake(tmp_path, {"watermark_columns": ["at"]}, UPSERT, schema=typed(pa.date32()))
    lake.arrive({"id": 1, "at": date(2026, 3, 1)}, {"id": 2, "at": date(2026, 3, 2)})
    go(lake)
    assert stored(lake) == {"at": {"__date__": "2026-03-02"}}
    lake.schema = typed(MOMENT)
    lake.rows = [row(1, 0), row(2, 1), {"id": 3, "at": day(1) + timedelta(hours=5), "note": "new"}]
    lake.save()
    assert refused(lake)
    assert [number for number, _ in table(lake)] == [1, 2]


def test_an_overwrite_with_a_watermark_keeps_every_row_of_the_source(spark: SparkSession, tmp_path: Path) -> None:
    lake = ColumnLake(tmp_path, {"watermark_columns": ["at"]}, {"load_type": "overwrite"})
    lake.arrive(row(1, 0), row(2, 5), {"id": 3, "note": "no time"})
    go(lake)
    lake.arrive(row(4, 6))
    go(lake)
    assert [number for number, _ in table(lake)] == [1, 2, 3, 4]
    assert stored(lake) == {"at": {"__datetime__": "2026-03-07T00:00:00+00:00"}}


def test_rows_that_are_committed_late_are_not_lost_with_a_safety_lag(spark: SparkSession, tmp_path: Path) -> None:
    lake = ColumnLake(tmp_path, {"watermark_columns": ["at"], "safety_lag": "PT1H"})
    now = datetime.now(UTC)
    ages = {1: timedelta(hours=5), 2: timedelta(minutes=1), 3: timedelta(hours=-3)}
    lake.arrive(*({"id": number, "at": now - age} for number, age in ages.items()))
    assert go(lake).rows == 1
    lake.arrive({"id": 4, "at": now - timedelta(minutes=30)})
    assert go(lake).rows == 0
    lake.assert_exactly_once([1])
    lake.source_settings = {"watermark_columns": ["at"]}
    go(lake)
    lake.assert_exactly_once()


class Shop:
    """A database with one table, and a pipeline that appends it."""

    def __init__(self, server: postgres_server.Server, folder: Path, table: str, source: dict[str, Any]) -> None:
        self._server, self._folder = server, folder
        self._database = server.new_database()
        self.execute(f"create table orders ({table})")
        connection = {
            "type": "jdbc",
            "url": server.jdbc_url(self._database),
            "user": postgres_server.USER,
            "password": postgres_server.PASSWORD,
        }
        pipeline = {
            "source": {"connection": "shop", "table": "orders", **source},
            "sink": {"table_uri": absolute_uri("lake/orders", folder)},
        }
        self.config = json.dumps({"connections": {"shop": connection}, "pipelines": {"orders": pipeline}}) + "\n"

    def execute(self, statement: str) -> None:
        with self._server.connect(self._database) as connection:
            connection.execute(statement.encode())

    def go(self, *during: str) -> int:
        """Run; the statements are carried out after the end of the read was fixed and before it begins."""
        waiting = list(during)

        def emit(event: Event) -> None:
            if isinstance(event, ReadFixed):
                while waiting:
                    self.execute(waiting.pop(0))

        (source,) = run(self.config, emit=emit).sources
        assert source.error is None, source.error
        assert not waiting
        return source.rows

    def rows(self) -> list[dict[str, Any]]:
        return query(Location(absolute_uri("lake/orders", self._folder)), "select * from t order by id")

    def ids(self) -> list[int]:
        return [each["id"] for each in self.rows()]


def test_a_source_that_moves_during_the_read_and_two_columns_with_or(
    spark: SparkSession, postgres: postgres_server.Server, tmp_path: Path
) -> None:
    columns = "id int, created timestamptz, modified timestamptz, kind text"
    source = {"watermark_columns": ["created", "modified"], "filter_expression": "kind = 'a' or kind = 'b'"}
    shop = Shop(postgres, tmp_path, columns, source)
    shop.execute("insert into orders values (1, '2026-03-01Z', null, 'a'), (2, '2026-03-02Z', '2026-03-02Z', 'b')")
    later = "insert into orders values (3, '2026-03-03Z', '2026-03-01Z', 'a'), (4, '2026-03-01Z', '2026-03-04Z', 'b')"
    assert shop.go(later, "insert into orders values (5, '2026-03-09Z', '2026-03-09Z', 'c')") == 2
    assert shop.ids() == [1, 2]
    assert shop.go("insert into orders values (6, null, '2026-03-05Z', 'a')") == 2
    assert shop.go() == 1
    assert shop.go() == 0
    assert shop.ids() == [1, 2, 3, 4, 6]


@pytest.fixture
def zones(spark: SparkSession) -> Iterator[Any]:
    """Changes the zone of the machine, of Java and of the Spark session; all is as before at the end."""
    java = spark._jvm.java.util.TimeZone  # type: ignore[union-attr]
    machine, default, session = os.environ.get("TZ"), java.getDefault(), spark.conf.get("spark.sql.session.timeZone")

    def change(zone: str) -> None:
        os.environ["TZ"] = zone
        time.tzset()
        java.setDefault(java.getTimeZone(zone))
        spark.conf.set("spark.sql.session.timeZone", zone)

    yield change
    if machine is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = machine
    time.tzset()
    java.setDefault(default)
    spark.conf.set("spark.sql.session.timeZone", session or "UTC")


def test_times_without_a_zone_while_the_zones_around_them_change(
    spark: SparkSession, postgres: postgres_server.Server, tmp_path: Path, zones: Any
) -> None:
    source = {"watermark_columns": ["at"], "source_timezone": "Europe/Berlin"}
    shop = Shop(postgres, tmp_path, "id int, at timestamp", source)
    moments = ["2026-03-29 01:59:59.999999", "2026-03-29 03:00:00", "2026-10-25 02:30:00", "2026-10-25 03:00:00.000001"]
    for number, (moment, zone) in enumerate(
        zip(moments, ["America/New_York", "Asia/Tokyo", "UTC", "Europe/Berlin"], strict=True)
    ):
        shop.execute(f"insert into orders values ({number}, '{moment}')")
        zones(zone)
        assert shop.go() == 1, moment
    zones("Pacific/Kiritimati")
    assert shop.go() == 0
    assert [each["at"].astimezone(UTC).replace(tzinfo=None).isoformat(" ") for each in shop.rows()] == [
        "2026-03-29 00:59:59.999999",
        "2026-03-29 01:00:00",
        "2026-10-25 00:30:00",
        "2026-10-25 02:00:00.000001",
    ]


def replayed(lake: ColumnLake, start: int, end: int, *, save: bool, into: str | None = None) -> list[str]:
    """What became of each chunk of five numbers."""
    config = ReplayConfig(start, end, {"step": 5}, save_watermark=save)
    (report,) = run_replay(DataFlow(lake.config, "orders"), config, into=into, allow_overlap=not save)
    assert report.ok, report
    return [chunk.fate for chunk in report.chunks]


def test_a_replay_that_crashed_goes_on_and_hands_over_without_a_gap(spark: SparkSession, tmp_path: Path) -> None:
    lake = ColumnLake(tmp_path)
    lake.arrive(row(0, 0), row(3, 0))
    go(lake)
    lake.arrive(row(10, 0), row(14, 0))
    # Each chunk makes two commits: its rows, and the watermark of the source.
    crash_at("runs.commit.before", nth=5)
    with pytest.raises(Crash):
        replayed(lake, 0, 15, save=True)
    failpoints.arm("")
    assert replayed(lake, 0, 15, save=True) == ["skipped", "skipped", "done"]
    lake.arrive(row(15, 1), row(16, 2))
    assert go(lake).rows == 2
    lake.assert_exactly_once()
    with raises(TidegateError, "orders/default", "20", "id (16)", "--skip-gap"):
        replayed(lake, 20, 25, save=True)


def test_a_replay_leaves_the_watermark_and_other_tables_alone(spark: SparkSession, tmp_path: Path) -> None:
    lake = ColumnLake(tmp_path)
    lake.arrive(row(1, 0), row(8, 1))
    go(lake)
    lake.arrive(row(9, 2))
    assert replayed(lake, 0, 10, save=False) == ["done", "done"]
    assert stored(lake) == {"id": 8}
    lake.assert_exactly_once()
    assert replayed(lake, 0, 5, save=False, into=absolute_uri("lake/again", tmp_path)) == ["done"]
    copy = query(Location(absolute_uri("lake/again", tmp_path)), "select id from t")
    assert [each["id"] for each in copy] == [1]
