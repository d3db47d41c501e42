"""Look-back: every row of its table, and what it refuses."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from support.errors import raises
from tidegate.core.columns.look_back import Connection, look_back_of, lower
from tidegate.errors import WatermarkError
from tidegate.specs.columns import LookBack, Value

NOW = datetime(2026, 3, 8, 12, tzinfo=UTC)


def at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc,arg-type]  # year, month and day are always given


@pytest.mark.parametrize(
    ("stored", "look_back", "expected"),
    [
        (at(2026, 3, 8, 12), LookBack(days=7), at(2026, 3, 1, 12)),
        (at(2026, 3, 8, 12), LookBack(hours=13), at(2026, 3, 7, 23)),
        (date(2026, 3, 31), LookBack(months=1), date(2026, 2, 28)),
        (at(2026, 3, 31, 9), LookBack(months=1), at(2026, 2, 28, 9)),
        (date(2024, 2, 29), LookBack(years=1), date(2023, 2, 28)),
        (date(2026, 3, 31), LookBack(days=3, months=1), date(2026, 2, 28)),
        (date(2026, 3, 8), LookBack(hours=12), date(2026, 3, 7)),
        (datetime(2026, 3, 8, 12), LookBack(days=7), datetime(2026, 3, 1, 12)),
        (at(2026, 3, 8), LookBack(), at(2026, 3, 8)),
        (100, LookBack(value=7), 93),
        (100, LookBack(value=Decimal("0.5")), 99),
        (Decimal("10.50"), LookBack(value=Decimal("0.25")), Decimal("10.25")),
        (
            Decimal("12345678901234567890123456789012345678.9"),
            LookBack(value=1),
            Decimal("12345678901234567890123456789012345677.9"),
        ),
        (2.5, LookBack(value=1), 1.5),
        (at(2026, 3, 8), LookBack(days=7, value=5), at(2026, 3, 1)),
        (9, LookBack(days=7, value=5), 4),
        (date(1, 1, 5), LookBack(days=7), date(1, 1, 1)),
        (date(1, 1, 5), LookBack(years=7), date(1, 1, 1)),
    ],
)
def test_the_read_begins_below_the_stored_value(stored: Value, look_back: LookBack, expected: Value) -> None:
    found = lower(stored, look_back, NOW)
    assert (found, type(found)) == (expected, type(expected))


def test_a_float_is_rounded_down() -> None:
    stored = 0.3
    low = lower(stored, LookBack(value=Decimal("0.1")), NOW)
    assert isinstance(low, float)
    assert Decimal(low) <= Decimal(stored) - Decimal("0.1")


@pytest.mark.parametrize(
    ("now", "look_back", "expected"),
    [
        (at(2026, 3, 8), LookBack(closing_day=10), at(2026, 2, 1)),
        (at(2026, 3, 10, 23, 59), LookBack(closing_day=10), at(2026, 2, 1)),
        (at(2026, 3, 11), LookBack(closing_day=10), at(2026, 3, 1)),
        (at(2026, 3, 12), LookBack(closing_day=10), at(2026, 3, 1)),
        (at(2026, 3, 8), LookBack(closing_day=10, months=2), at(2025, 12, 1)),
        (at(2026, 3, 8), LookBack(closing_day=10, years=1), at(2025, 2, 1)),
        (at(2026, 3, 8), LookBack(closing_day=10, days=20, hours=5), at(2026, 2, 1)),
        (at(2026, 1, 3), LookBack(closing_day=10), at(2025, 12, 1)),
        (at(2026, 3, 31), LookBack(closing_day=31), at(2026, 2, 1)),
        (at(2026, 3, 1), LookBack(closing_day=1), at(2026, 2, 1)),
    ],
)
def test_a_month_stays_open_until_its_closing_day(now: datetime, look_back: LookBack, expected: datetime) -> None:
    stored = at(2026, 3, 8)
    assert lower(stored, look_back, now) == expected
    assert lower(stored.replace(tzinfo=None), look_back, now) == expected.replace(tzinfo=None)
    assert lower(stored.date(), look_back, now) == expected.date()


def test_after_months_of_silence_the_read_begins_no_later_than_the_stored_value() -> None:
    stored = at(2026, 1, 5)
    for value in (stored, stored.replace(tzinfo=None), stored.date()):
        assert lower(value, LookBack(closing_day=10), at(2026, 4, 12)) == value


def test_months_begin_in_the_zone_of_the_look_back() -> None:
    look_back = LookBack(closing_day=10, timezone="Asia/Tokyo")
    midnight = datetime(2026, 3, 1, tzinfo=timezone(timedelta(hours=9)))
    assert lower(at(2026, 3, 9), look_back, at(2026, 3, 10, 16)) == midnight
    assert lower(at(2026, 3, 9), look_back, at(2026, 3, 10, 14)) == datetime(2026, 1, 31, 15, tzinfo=UTC)


def test_a_value_without_a_zone_is_in_the_zone_of_the_source() -> None:
    look_back = LookBack(closing_day=10, timezone="Asia/Tokyo")
    naive = datetime(2026, 3, 9)
    assert lower(naive, look_back, at(2026, 3, 12), "Asia/Tokyo") == datetime(2026, 3, 1)
    assert lower(naive, look_back, at(2026, 3, 12), "UTC") == datetime(2026, 2, 28, 15)


def test_the_zone_of_the_value_is_kept() -> None:
    offset = timezone(timedelta(hours=7))
    low = lower(datetime(2026, 3, 8, tzinfo=offset), LookBack(closing_day=10), NOW)
    assert isinstance(low, datetime)
    assert low.utcoffset() == timedelta(hours=7)
    assert low == at(2026, 2, 1)


@pytest.mark.parametrize(
    ("stored", "look_back", "said"),
    [
        (100, LookBack(days=7), "value"),
        (100, LookBack(closing_day=10), "value"),
        (at(2026, 3, 8), LookBack(value=7), "days"),
        ("abc", LookBack(days=7), "numbers and times"),
        (True, LookBack(value=7), "numbers and times"),
    ],
)
def test_a_look_back_of_another_kind_is_refused(stored: Value, look_back: LookBack, said: str) -> None:
    with raises(WatermarkError, "look-back") as caught:
        lower(stored, look_back, NOW)
    assert said in caught.value.remedy


@pytest.mark.parametrize(
    ("configure", "above", "expected"),
    [
        ({}, None, LookBack()),
        ({"backward_days": 7}, None, LookBack(days=7)),
        ({"backward": {"days": 7, "months": 1, "closing_day": 25}}, None, LookBack(7, 0, 1, 0, 25)),
        ({"backward_days": 3, "backward_hours": 5, "backward": {"days": 7}}, None, LookBack(days=7, hours=5)),
        ({"backward": {"closing_day": 10}}, {"backward_days": 7}, LookBack(closing_day=10)),
        ({"other": 1}, {"backward_days": 7}, LookBack(days=7)),
        ({"backward": {"value": 0}}, {"backward_days": 7}, LookBack()),
        ({"backward": {}}, {"backward_days": 7}, LookBack()),
        ({"backward_value": 5}, None, LookBack(value=5)),
        ({"backward": {"value": 0.5}}, None, LookBack(value=Decimal("0.5"))),
        ({"backward": {"days": 0, "hours": None}}, None, LookBack()),
    ],
)
def test_the_configuration_of_a_look_back(
    configure: dict[str, Any], above: dict[str, Any] | None, expected: LookBack
) -> None:
    assert look_back_of(configure, above=above) == expected


def test_all_zero_is_no_look_back() -> None:
    assert look_back_of({"backward": {"days": 0, "months": 0}, "backward_value": 0}).is_off


@pytest.mark.parametrize(
    ("configure", "said"),
    [
        ({"backward_weeks": 1}, "backward_weeks"),
        ({"backward": {"weeks": 1}}, "backward.weeks"),
        ({"backward": 7}, "backward … {days: 7}"),
        ({"backward_days": -1}, "backward days … -1"),
        ({"backward_days": "7"}, "'7'"),
        ({"backward_days": True}, "True"),
        ({"backward_days": 1.5}, "1.5"),
        ({"backward": {"closing_day": 0}}, "1 to 31"),
        ({"backward": {"closing_day": 32}}, "1 to 31"),
        ({"backward": {"value": "x"}}, "'x'"),
        ({"backward": {"value": -1}}, "-1"),
        ({"backward": {"value": float("nan")}}, "nan"),
    ],
)
def test_a_wrong_look_back_is_explained(configure: dict[str, Any], said: str) -> None:
    with raises(ValueError, said):
        look_back_of(configure)


def test_an_unknown_zone_is_explained() -> None:
    with raises(ValueError, "Mars"):
        look_back_of({}, timezone="Mars/Olympus")


@pytest.mark.parametrize(
    ("configure", "found"),
    [
        ({}, LookBack()),
        ({"backward_days": 7}, LookBack(days=7)),
        ({"backward": {"days": 7, "months": 1, "closing_day": 25}}, LookBack(days=7, months=1, closing_day=25)),
        ({"backward_days": 3, "backward_hours": 2, "backward": {"days": 7}}, LookBack(days=7, hours=2)),
        ({"backward": {"value": Decimal("0.5")}}, LookBack(value=Decimal("0.5"))),
        ({"backward_days": 1, "timezone": "Asia/Tokyo"}, LookBack(days=1, timezone="Asia/Tokyo")),
        ({"backward_days": 0, "driver": "org.Driver"}, LookBack()),
    ],
)
def test_look_back_of_a_connection(configure: dict[str, object], found: LookBack) -> None:
    assert Connection("shop", configure).date_backward == found


@pytest.mark.parametrize(
    ("configure", "said"),
    [
        ({"backward": {"dais": 7}}, "backward.dais"),
        ({"backward_days": -1}, "days"),
        ({"timezone": "nowhere"}, "nowhere"),
    ],
)
def test_what_cannot_be_understood_is_an_error(configure: dict[str, object], said: str) -> None:
    with raises(ValueError, said):
        _ = Connection("shop", configure).date_backward
