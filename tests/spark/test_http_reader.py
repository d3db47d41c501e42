"""HTTP APIs read by Spark tasks: divided, paced, typed, and asked for once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from servers.api import Answer, Api, Asked, between, by_offset, running
from support.errors import raises
from tidegate.core.columns.predicates import Bound, ColumnRange, RowFilter
from tidegate.errors import SourceError, UnreadPages
from tidegate.spark.readers.http import HttpReader
from tidegate.specs.columns import (
    AuthKind,
    ColumnSource,
    HttpAuth,
    HttpRead,
    Pagination,
    PaginationKind,
    RateLimit,
    WatermarkParams,
)
from tidegate.specs.locations import Secret
from tidegate.specs.table import FieldSpec, SchemaSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NOW = datetime(2026, 4, 3, 9, 15, 30, 500, tzinfo=UTC)
DECLARED = SchemaSpec(fields=(FieldSpec("id", "int64"), FieldSpec("at", "timestamp"), FieldSpec("name", "string")))


@pytest.fixture
def api() -> Iterator[Api]:
    with running() as server:
        yield server


def at(minute: int) -> str:
    return f"2026-04-03T08:{minute:02d}:00+00:00"


def source(api: Api, column: str, **settings: object) -> ColumnSource:
    read = HttpRead(api.url, "/items", records="data", watermark=WatermarkParams({column: "since"}, "until"))
    return ColumnSource("items", replace(read, **settings), (column,))  # type: ignore[arg-type]  # any of its settings


def test_a_divided_range_gives_each_record_once_with_its_declared_type(spark: SparkSession, api: Api) -> None:
    records = [{"id": number, "at": at(number), "name": f"n{number}"} for number in range(60)]
    api.routes["/items"] = between([*records, {"id": 99, "at": None, "name": "never"}], "at")
    auth = HttpAuth(AuthKind.BEARER, token=Secret("canary-token"))
    watermark = WatermarkParams({"at": "since"}, "until", split=4)
    flow = source(api, "at", auth=auth, watermark=watermark, rate_limit=RateLimit(3, 1.0))
    reader = HttpReader(spark, flow, DECLARED, NOW)
    cap = reader.upper(NOW)["at"]
    rows = RowFilter((ColumnRange("at", Bound(datetime(2026, 4, 3, 8, 9, tzinfo=UTC)), Bound(cap, inclusive=True)),))
    frame = reader.read(rows)
    taken = frame.orderBy("id").toArrow().to_pylist()
    assert [row["id"] for row in taken] == list(range(10, 60))
    assert taken[0]["at"] == datetime(2026, 4, 3, 8, 10, tzinfo=UTC)
    assert reader.greatest(rows).values == {"at": datetime(2026, 4, 3, 8, 59, tzinfo=UTC)}
    assert len(api.asked) == 4
    assert {each.headers["authorization"] for each in api.asked} == {"Bearer canary-token"}
    assert max(each.params["until"] for each in api.asked) == "2026-04-03T09:15:30+00:00"
    assert "canary" not in frame._jdf.queryExecution().toString()
    times = sorted(each.at for each in api.asked)
    assert times[3] - times[0] > 0.5, "four requests within the time for three"


def test_columns_are_inferred_from_every_record_and_nothing_is_asked_twice(spark: SparkSession, api: Api) -> None:
    records: list[dict[str, object]] = [{"id": n, "at": at(n % 60), "price": n, "gone": None} for n in range(3000)]
    records[2990] |= {"price": 1.5, "more": {"a": [], "b": [1]}}
    api.routes["/items"] = by_offset(records)
    pages = Pagination(PaginationKind.OFFSET, "offset", "limit", 1000, total="total")
    flow = source(api, "at", pagination=pages, watermark=WatermarkParams())
    reader = HttpReader(spark, flow, SchemaSpec(infer=True), NOW)
    frame = reader.read(RowFilter((ColumnRange("at"),)))
    assert {field.name: field.dataType.simpleString() for field in frame.schema} == {
        "id": "bigint",
        "at": "string",
        "price": "double",
        "more": "struct<b:array<bigint>>",
    }
    assert frame.where("price = 1.5").select("id").collect()[0][0] == 2990
    assert (frame.count(), frame.count(), len(api.asked)) == (3000, 3000, 3)
    later = reader.read(RowFilter((ColumnRange("at", Bound(at(58))),)))
    assert {row["at"] for row in later.collect()} == {at(59)}


def test_what_goes_wrong_in_a_task_is_told_by_name(spark: SparkSession, api: Api) -> None:
    bad = [{"id": 1, "at": at(1)}, {"id": "two", "at": at(2)}]
    api.routes["/items"] = lambda asked: Answer({"data": bad})
    reader = HttpReader(spark, source(api, "at"), DECLARED, NOW)
    with raises(SourceError, "/items", "page 1", "record 2", "'id'"):
        reader.read(RowFilter((ColumnRange("at"),)))

    api.routes["/items"] = lambda asked: Answer({"data": bad[:1], "next": "/items?page=2"})
    reader = HttpReader(spark, source(api, "at"), DECLARED, NOW)
    with pytest.raises(UnreadPages) as unread:
        reader.read(RowFilter((ColumnRange("at"),)))
    assert (unread.value.place, unread.value.block) == ("next", "pagination: {type: next_link, next: next}")

    def refused(asked: Asked) -> Answer:
        return Answer({"message": "no", "echo": asked.headers["authorization"]}, 403)

    api.routes["/items"] = refused
    auth = HttpAuth(AuthKind.BEARER, token=Secret("canary-token"))
    reader = HttpReader(spark, source(api, "at", auth=auth), DECLARED, NOW)
    with raises(SourceError, "/items", "403", "credentials") as raised:
        reader.read(RowFilter((ColumnRange("at"),)))
    assert "canary" not in json.dumps([str(raised.value), repr(raised.value)])


def test_no_record_at_all_is_an_empty_frame(spark: SparkSession, api: Api) -> None:
    api.routes["/items"] = lambda asked: Answer({"data": []})
    reader = HttpReader(spark, source(api, "seq"), SchemaSpec(infer=True), NOW)
    rows = RowFilter((ColumnRange("seq", Bound(7)),))
    assert (reader.read(rows).count(), reader.greatest(rows).values) == (0, {"seq": None})
