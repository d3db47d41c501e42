"""Watermarks in requests: every format, and which way each is rounded."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from tidegate.errors import SourceError
from tidegate.sources.http.bounds import format_value, round_down, round_up

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
    with pytest.raises(SourceError, match="'A-7'"):
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
