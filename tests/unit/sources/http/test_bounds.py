"""What a server is asked for, in every format: a record exactly on a bound is read once, however it takes bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from itertools import pairwise

import pytest

from servers.api import Answer, Api, between
from support.errors import raises
from support.http_reads import fetched, read_of
from tidegate.core.columns.predicates import Bound, ColumnRange, RowFilter, matches
from tidegate.errors import SourceError
from tidegate.sources.http.bounds import Part, describe, format_value, parts, round_down, round_up, upper
from tidegate.sources.http.client import merge_body, request_of
from tidegate.sources.http.responses import Counts, Fetch, blocks
from tidegate.specs.columns import ColumnSource, HttpRead, Value, WatermarkMode, WatermarkParams
from tidegate.specs.table import FieldSpec, SchemaSpec

NOW = datetime(2026, 4, 3, 9, 15, 30, 123456, tzinfo=UTC)
STORED = datetime(2026, 4, 2, 7, tzinfo=UTC)


def source(*columns: str, zone: str = "UTC", **watermark: object) -> ColumnSource:
    params = WatermarkParams(**watermark)  # type: ignore[arg-type]  # any of its settings
    return ColumnSource("items", HttpRead("https://a.example", "/v1", watermark=params), columns, source_timezone=zone)


def above(column: str, value: Value, **more: object) -> RowFilter:
    return RowFilter((ColumnRange(column, Bound(value), **more),))  # type: ignore[arg-type]  # any of its settings


def one(source: ColumnSource, rows: RowFilter) -> Mapping[str, str | int]:
    (part,) = parts(source, rows, NOW)
    return dict(part.values)


def test_the_stored_value_is_sent_and_until_when() -> None:
    flow = source("at", mapping={"at": "since"}, to_param="until")
    assert one(flow, above("at", STORED)) == {
        "since": "2026-04-02T07:00:00+00:00",
        "until": "2026-04-03T09:15:30+00:00",
    }
    assert one(source("at", mapping={"at": "since"}), above("at", STORED)) == {"since": "2026-04-02T07:00:00+00:00"}


def test_a_first_read_asks_for_everything_until_now() -> None:
    flow = source("at", mapping={"at": "since"}, to_param="until")
    assert one(flow, RowFilter((ColumnRange("at"),))) == {"until": "2026-04-03T09:15:30+00:00"}


def test_numbers_are_sent_as_they_are() -> None:
    flow = source("id", mapping={"id": "after"}, to_param="to")
    assert one(flow, above("id", 17)) == {"after": 17}
    assert one(flow, above("id", Decimal("1.50"))) == {"after": "1.50"}
    assert one(flow, above("id", 17, upper=Bound(40, inclusive=True))) == {"after": 17, "to": 41}
    assert one(flow, above("id", 17, upper=Bound(40))) == {"after": 17, "to": 40}
    assert one(source("id", mapping={"id": "after"}, to_param="to", format="timestamp"), above("id", 17)) == {
        "after": 17,
        "to": 1775207730,
    }


def test_a_bound_is_not_sent_where_another_column_wants_every_value() -> None:
    flow = source("a", "b", mapping={"a": "since_a", "b": "since_b"})
    both = RowFilter((ColumnRange("a", Bound(1)), ColumnRange("b", Bound(2))))
    assert one(flow, both) == {"since_a": 1, "since_b": 2}
    never_seen = RowFilter((ColumnRange("a", Bound(1)), ColumnRange("b", any_value=True)))
    assert one(flow, never_seen) == {}
    cursor = RowFilter((ColumnRange("a", Bound(1)), ColumnRange("b")), WatermarkMode.TUPLE)
    assert one(flow, cursor) == {"since_a": 1}


@pytest.mark.parametrize("location", ["params", "body"])
def test_what_a_server_is_asked_has_the_bounds_under_their_names(api: Api, location: str) -> None:
    api.routes["/items"] = lambda asked: Answer({"data": []})
    params = WatermarkParams({"at": "since"}, "until", location=location, format="timestamp_ms")
    read = read_of(api, method="POST", params={"a": "1"}, body={"kind": "k"}, watermark=params)
    rows = above("at", STORED, upper=Bound(NOW, inclusive=True))
    fetched(read, *parts(ColumnSource("items", read, ("at",)), rows, NOW))
    (asked,) = api.to("/items")
    bounds = {"since": 1775113200000, "until": 1775207731000}
    as_text = {name: str(number) for name, number in bounds.items()}
    expected = ({"a": "1", **as_text}, {"kind": "k"}) if location == "params" else ({"a": "1"}, {"kind": "k", **bounds})
    assert (asked.params, asked.body) == expected


def test_parameters_go_into_the_query_or_the_body() -> None:
    part = Part((("filter.since", 5), ("until", "x")))
    read = HttpRead("https://a.example/", "/v1", method="post", params={"a": "1"}, body={"filter": {"kind": "k"}})
    request = request_of(replace(read, watermark=WatermarkParams(location="body")), part)
    assert (request.method, request.url) == ("POST", "https://a.example/v1")
    assert (request.params, request.body) == ({"a": "1"}, {"filter": {"kind": "k", "since": 5}, "until": "x"})
    request = request_of(read, part)
    assert (request.params, request.body) == ({"a": "1", "filter.since": 5, "until": "x"}, {"filter": {"kind": "k"}})
    assert merge_body(None, {}) is None


DECLARED = SchemaSpec(fields=(FieldSpec("at", "timestamp"), FieldSpec("day", "date"), FieldSpec("text", "string")))


@pytest.mark.parametrize(
    ("format", "cap"),
    [
        ("iso", datetime(2026, 4, 3, 9, 15, 29, 999999, tzinfo=UTC)),
        ("timestamp", datetime(2026, 4, 3, 9, 15, 29, 999999, tzinfo=UTC)),
        ("%Y-%m-%dT%H:%M", datetime(2026, 4, 3, 9, 14, 59, 999999, tzinfo=UTC)),
        ("date", datetime(2026, 4, 2, 23, 59, 59, 999999, tzinfo=UTC)),
    ],
)
def test_what_is_saved_lies_before_what_was_asked_for(format: str, cap: datetime) -> None:
    flow = source("at", mapping={"at": "since"}, to_param="until", format=format)
    saved = upper(flow, DECLARED, NOW)
    assert saved == {"at": cap}
    capped = above("at", STORED, upper=Bound(cap, inclusive=True))
    assert one(flow, capped)["until"] == one(flow, above("at", STORED))["until"]


def test_days_are_capped_by_the_last_whole_one_and_text_is_not() -> None:
    flow = source("day", "text", mapping={"day": "since", "text": "x"}, to_param="until", zone="Asia/Tokyo")
    late = datetime(2026, 4, 3, 16, tzinfo=UTC)
    assert upper(flow, DECLARED, late) == {"day": date(2026, 4, 3)}
    assert upper(source("at", mapping={"at": "since"}), DECLARED, NOW) == {}


@pytest.mark.slow
@pytest.mark.parametrize("inclusive", [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize("format", ["timestamp", "timestamp_ms"])
def test_until_now_loses_and_doubles_nothing(api: Api, inclusive: tuple[bool, bool], format: str) -> None:
    """Records keep coming while the server is asked again and again, also in the second that is being asked for."""
    unit = 1 if format == "timestamp" else 1000
    records: list[dict[str, int]] = []
    api.routes["/items"] = between(records, "at", inclusive=inclusive)
    params = WatermarkParams({"at": "since"}, "until", format=format)
    flow = ColumnSource("items", read_of(api, watermark=params), ("at",))
    taken: list[int] = []
    saved: datetime | None = None
    for step in range(8):
        now = NOW + timedelta(milliseconds=700 * step)
        records += [{"id": len(records), "at": int(now.timestamp() * unit)}]
        cap = upper(flow, DECLARED, now)["at"]
        rows = RowFilter((ColumnRange("at", saved and Bound(saved), Bound(cap, inclusive=True)),))
        found = fetched(read_of(api, watermark=params), *parts(flow, rows, now))
        moments = {each["id"]: datetime.fromtimestamp(each["at"] / unit, UTC) for each in found}
        records += [{"id": len(records), "at": int(now.timestamp() * unit)}]
        taken += [key for key, moment in moments.items() if matches(rows, {"at": moment})]
        assert isinstance(cap, datetime)
        saved = cap
    assert saved is not None
    final = [each["id"] for each in records if datetime.fromtimestamp(each["at"] / unit, UTC) <= saved]
    assert sorted(taken) == final
    assert len(final) > 8


@pytest.mark.parametrize("inclusive", [(True, True), (False, False)])
def test_a_divided_range_covers_every_value_once(api: Api, inclusive: tuple[bool, bool]) -> None:
    records = [{"id": number} for number in range(100)]
    api.routes["/items"] = between(records, "id", inclusive=inclusive)
    params = WatermarkParams({"id": "since"}, "until", split=4)
    read = read_of(api, watermark=params)
    asked = parts(ColumnSource("items", read, ("id",)), above("id", 9, upper=Bound(90, inclusive=True)), NOW)
    assert [(part.after, part.upto) for part in asked] == [(None, 29), (29, 49), (49, 69), (69, None)]
    taken = []
    for part in asked:
        low, high = part.after or 9, part.upto or 90
        taken += [each["id"] for each in fetched(read, part) if low < each["id"] <= high]
    assert sorted(taken) == list(range(10, 91))


def test_times_and_days_are_divided_evenly() -> None:
    flow = source("at", mapping={"at": "since"}, to_param="until", split=3)
    cuts = parts(flow, above("at", STORED, upper=Bound(STORED + timedelta(hours=3))), NOW)
    assert [part.upto for part in cuts] == [STORED + timedelta(hours=1), STORED + timedelta(hours=2), None]
    assert all(left.upto == right.after for left, right in pairwise(cuts))
    assert dict(cuts[1].values) == {"since": "2026-04-02T08:00:00+00:00", "until": "2026-04-02T09:00:01+00:00"}
    days = parts(replace(flow), above("at", date(2026, 4, 1), upper=Bound(date(2026, 4, 4))), NOW)
    assert [part.upto for part in days] == [date(2026, 4, 2), date(2026, 4, 3), None]


def test_what_cannot_be_divided_is_asked_for_at_once() -> None:
    flow = source("at", mapping={"at": "since"}, to_param="until", split=3)
    assert len(parts(flow, RowFilter((ColumnRange("at"),)), NOW)) == 1
    assert len(parts(flow, above("at", "text"), NOW)) == 1
    assert len(parts(flow, above("at", 5, upper=Bound(6)), NOW)) == 1
    with raises(SourceError, "watermark_split: 3", "watermark_to_param"):
        parts(source("at", mapping={"at": "since"}, split=3), above("at", 5), NOW)
    two = source("a", "b", mapping={"a": "x", "b": "y"}, to_param="until", split=3)
    with raises(SourceError, "watermark_split: 3", "watermark_param_mapping"):
        parts(two, RowFilter((ColumnRange("a", Bound(1)), ColumnRange("b", Bound(2)))), NOW)


@pytest.mark.parametrize("end", [STORED, STORED - timedelta(seconds=1)])
def test_a_range_without_room_for_a_record_is_not_asked_for(api: Api, end: datetime) -> None:
    flow = source("at", mapping={"at": "since"}, to_param="until")
    rows = above("at", STORED, upper=Bound(end, inclusive=True))
    assert parts(flow, rows, NOW) == ()
    assert list(blocks(Fetch(read_of(api), ()), 0, Counts())) == api.asked == []
    assert describe(flow, rows) == "no request: nothing can be new"


def test_a_range_of_one_value_or_of_another_column_is_asked_for() -> None:
    flow = source("at", "id", mapping={"at": "since"}, to_param="until")
    both = ColumnRange("at", Bound(STORED, inclusive=True), Bound(STORED, inclusive=True))
    assert len(parts(flow, RowFilter((both,)), NOW)) == 1
    crossed = ColumnRange("at", Bound(STORED), Bound(STORED))
    assert len(parts(flow, RowFilter((crossed, ColumnRange("id", Bound(1), Bound(2)))), NOW)) == 1
    days = ColumnRange("at", Bound(STORED), Bound(date(2026, 4, 1)))
    assert len(parts(flow, RowFilter((days,)), NOW)) == 1


def test_a_plan_tells_the_request() -> None:
    flow = source("at", mapping={"at": "since"}, to_param="until")
    assert describe(flow, above("at", STORED)) == (
        "GET https://a.example/v1: since=2026-04-02T07:00:00+00:00 until=<now> in the query"
    )
    assert describe(source(), RowFilter()) == "GET https://a.example/v1: everything"
    body = source("id", mapping={"id": "since"}, to_param="until", location="body", split=2)
    assert describe(body, above("id", 2, upper=Bound(8))) == (
        "GET https://a.example/v1: since=2 until=6 | since=5 until=8 in the body"
    )


MOMENT = datetime(2026, 4, 3, 9, 15, 30, 123456, tzinfo=UTC)


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("iso", "2026-04-03T09:15:30.123456+00:00"),
        ("date", "2026-04-03"),
        ("timestamp", 1775207730),
        ("timestamp_ms", 1775207730123),
        ("datetime", "2026-04-03 09:15:30"),
        ("datetime_ms", "2026-04-03 09:15:30.123"),
        ("%d.%m.%Y %H:%M", "03.04.2026 09:15"),
    ],
)
def test_a_moment_in_every_format(format: str, text: str | int) -> None:
    assert format_value(MOMENT, format) == text


@pytest.mark.parametrize(
    ("value", "format", "text"),
    [
        (date(2026, 4, 3), "iso", "2026-04-03"),
        (date(2026, 4, 3), "date", "2026-04-03"),
        (date(2026, 4, 3), "timestamp", 1775174400),
        (date(2026, 4, 3), "datetime", "2026-04-03 00:00:00"),
        (datetime(2026, 4, 3, 9, 15), "iso", "2026-04-03T09:15:00"),
        (17, "iso", 17),
        (17, "timestamp", 17),
        (True, "iso", "true"),
        (Decimal("1.50"), "iso", "1.50"),
        ("2026-04-03T09:15:30Z", "iso", "2026-04-03T09:15:30Z"),
        ("2026-04-03T09:15:30Z", "timestamp", 1775207730),
        ("A-7", "iso", "A-7"),
    ],
)
def test_other_values(value: object, format: str, text: str | int) -> None:
    assert format_value(value, format) == text  # type: ignore[arg-type]  # every kind of value


def test_text_that_is_no_moment_is_not_bent() -> None:
    with raises(SourceError, "'A-7'"):
        format_value("A-7", "timestamp")


def test_times_are_told_in_the_zone_of_the_source() -> None:
    assert format_value(datetime(2026, 4, 3, 22, 30, tzinfo=UTC), "date", "Europe/Berlin") == "2026-04-04"
    assert format_value(datetime(2026, 4, 3, 9, 15), "timestamp", "Asia/Bangkok") == 1775182500
    shifted = MOMENT.astimezone(timezone(timedelta(hours=7)))
    assert format_value(shifted, "datetime") == "2026-04-03 09:15:30"
    assert format_value(shifted, "iso") == "2026-04-03T16:15:30.123456+07:00"


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("date", "2026-04-04"),
        ("timestamp", 1775207731),
        ("timestamp_ms", 1775207730124),
        ("datetime", "2026-04-03 09:15:31"),
        ("%Y-%m-%dT%H:%MZ", "2026-04-03T09:16Z"),
        ("%Y-%m", "2026-05"),
        ("iso", "2026-04-03T09:15:30.123456+00:00"),
    ],
)
def test_upper_bounds_are_rounded_up(format: str, text: str | int) -> None:
    assert round_up(MOMENT, format) == text


def test_what_a_format_can_tell_is_not_rounded() -> None:
    assert round_up(datetime(2026, 4, 3, tzinfo=UTC), "date") == "2026-04-03"
    assert round_up(datetime(2026, 4, 1, tzinfo=UTC), "%Y-%m") == "2026-04"
    assert round_up(date(2026, 4, 3), "date") == "2026-04-03"
    assert round_up(5, "iso") == 5


@pytest.mark.parametrize(
    ("format", "moment"),
    [
        ("iso", datetime(2026, 4, 3, 9, 15, 30, tzinfo=UTC)),
        ("timestamp_ms", datetime(2026, 4, 3, 9, 15, 30, tzinfo=UTC)),
        ("%Y-%m-%dT%H:%M", datetime(2026, 4, 3, 9, 15, tzinfo=UTC)),
        ("date", datetime(2026, 4, 3, tzinfo=UTC)),
        ("%Y-%m", datetime(2026, 4, 1, tzinfo=UTC)),
        ("%Y", datetime(2026, 1, 1, tzinfo=UTC)),
    ],
)
def test_now_is_rounded_down_to_what_the_server_is_told(format: str, moment: datetime) -> None:
    assert round_down(MOMENT, format) == moment
    assert format_value(moment, format) == format_value(MOMENT.replace(microsecond=0), format)


def test_a_day_begins_in_the_zone_of_the_source() -> None:
    assert round_down(MOMENT, "date", "Asia/Bangkok") == datetime(2026, 4, 2, 17, tzinfo=UTC)
