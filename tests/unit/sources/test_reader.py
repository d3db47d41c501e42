"""What ``plan`` shows of a read before anything is read."""

from __future__ import annotations

from datetime import UTC, datetime

from tidegate.core.columns.predicates import Bound, ColumnRange, RowFilter
from tidegate.sources.reader import explain
from tidegate.specs.columns import (
    ColumnSource,
    FunctionRead,
    HttpRead,
    JdbcRead,
    Read,
    TableFormat,
    TableRead,
    WatermarkParams,
)
from tidegate.specs.locations import Location, Secret

MARCH = datetime(2026, 3, 1, tzinfo=UTC)
ROWS = RowFilter((ColumnRange("updated_at", Bound(MARCH)),), extra="status <> 'draft'")


def shown(read: Read, rows: RowFilter = ROWS) -> str:
    return explain(ColumnSource("orders", read, ("updated_at",)), rows)


def test_a_database_is_sent_its_own_language() -> None:
    read = JdbcRead("jdbc:postgresql://h/d?password=canary", user="u", password=Secret("canary"), table="orders")
    told = shown(read)
    assert told.startswith('WHERE "updated_at" > TIMESTAMP')
    assert "2026-03-01 00:00:00+00" in told
    assert told.endswith("AND (status <> 'draft')")
    assert "canary" not in told


def test_tables_are_scanned_with_the_condition_and_files_before_it() -> None:
    place = Location("file:///lake/orders")
    delta = shown(TableRead(TableFormat.DELTA, place))
    assert delta.startswith("WHERE `updated_at` > TIMESTAMP")
    for format_ in (TableFormat.PARQUET, TableFormat.ICEBERG):
        assert shown(TableRead(format_, place)) == delta
    for format_ in (TableFormat.CSV, TableFormat.JSON, TableFormat.EXCEL):
        assert shown(TableRead(format_, place)) == f"full scan, filtered in Spark: {delta}"
    assert shown(FunctionRead("shop:orders")) == f"shop:orders, filtered in Spark: {delta}"


def test_nothing_stored_means_every_row() -> None:
    everything = RowFilter((ColumnRange("updated_at"),))
    assert shown(JdbcRead("jdbc:sqlite:x", table="t"), everything) == "every row"


def test_an_api_is_told_its_parameters() -> None:
    read = HttpRead("https://api", path="/orders", watermark=WatermarkParams({"updated_at": "since"}, to_param="until"))
    rows = ROWS.capped({"updated_at": Bound(datetime(2026, 4, 1, tzinfo=UTC), inclusive=True)})
    assert shown(read, rows) == (
        "GET https://api/orders: since=2026-03-01T00:00:00+00:00 until=2026-04-01T00:00:01+00:00 in the query"
    )
    assert shown(read, RowFilter((ColumnRange("updated_at"),))) == "GET https://api/orders: until=<now> in the query"
