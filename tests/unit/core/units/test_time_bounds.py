"""Bounds of time ranges: what is understood, what is refused, and to what relative ones are rounded."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tidegate.core.calendar import iso, milliseconds, zone_named
from tidegate.core.units.time_range import parse_bound, parse_span, resolve
from tidegate.errors import WatermarkError
from tidegate.specs.units import PartitionKind, Rounding, Span, TimeRange

NOW = datetime(2020, 2, 21, 10, 37, 42, 123456, tzinfo=UTC)
TO_THE_MILLISECOND = ["none", "daily", "hourly"]
MULTI_DAY = ["weekly", "monthly", "yearly"]


def bounds(
    start: str = "2019-01-01",
    end: str = "-",
    kind: str = "none",
    zone: str = "UTC",
    now: datetime = NOW,
    **changes: Any,
) -> tuple[int, int]:
    abstinent = changes.pop("abstinent", False)
    return resolve(TimeRange(start, end, **changes), PartitionKind(kind), zone, now, abstinent=abstinent)


def start_of(text: str, zone: str = "UTC") -> str:
    moment = bounds(text, zone=zone)[0]
    return datetime.fromtimestamp(moment / 1000, UTC).isoformat(timespec="milliseconds")


def end_of(text: str, kind: str, **changes: Any) -> str:
    return iso(bounds(end=text, kind=kind, **changes)[1], zone_named(changes.get("zone", "UTC")))


@pytest.mark.parametrize("kind", TO_THE_MILLISECOND)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-", "2020-02-21 10:37:42.123"),
        ("P0D", "2020-02-21 10:37:42.123"),
        ("P1D", "2020-02-20 10:37:42.123"),
        ("P0DT7H", "2020-02-21 03:37:42.123"),
        ("P0DT0H", "2020-02-21 10:37:42.123"),
        ("P0DT1H30M", "2020-02-21 09:07:42.123"),
        ("P0DT0H0M", "2020-02-21 10:37:42.123"),
    ],
)
def test_a_relative_bound_keeps_everything_without_partitions_of_several_days(
    text: str, expected: str, kind: str
) -> None:
    assert end_of(text, kind) == expected


@pytest.mark.parametrize("kind", MULTI_DAY)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-", "2020-02-21"),
        ("P0D", "2020-02-21"),
        ("P1D", "2020-02-20"),
        ("P0DT7H", "2020-02-21 03:00"),
        ("P0DT0H", "2020-02-21 10:00"),
        ("P0DT1H30M", "2020-02-21 09:07"),
        ("P0DT0H0M", "2020-02-21 10:37"),
    ],
)
def test_a_relative_bound_is_rounded_by_its_finest_part_with_partitions_of_several_days(
    text: str, expected: str, kind: str
) -> None:
    assert end_of(text, kind) == expected


@pytest.mark.parametrize("kind", list(PartitionKind))
@pytest.mark.parametrize(
    ("rounding", "expected"),
    [
        (Rounding.DAY, "2020-02-21"),
        (Rounding.HOUR, "2020-02-21 10:00"),
        (Rounding.MINUTE, "2020-02-21 10:37"),
        (Rounding.NONE, "2020-02-21 10:37:42.123"),
    ],
)
@pytest.mark.parametrize("text", ["-", "P0D", "P0DT0H"])
def test_a_written_rounding_wins(text: str, rounding: Rounding, expected: str, kind: PartitionKind) -> None:
    assert end_of(text, kind, end_round=rounding) == expected
    assert end_of(text, kind, end_round=rounding, abstinent=True) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-", "2020-02-21"),
        ("P0D", "2020-02-21"),
        ("P1D", "2020-02-20"),
        ("P0DT7H", "2020-02-21 03:37:42.123"),
        ("2020-02-21 10:37", "2020-02-21 10:37"),
    ],
)
def test_whole_days_are_rounded_to_the_day_with_an_abstinent_period(text: str, expected: str) -> None:
    assert end_of(text, "none", abstinent=True) == expected


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("none", "2020-01-22 10:37:42.123"),
        ("hourly", "2020-01-22 10:00"),
        ("daily", "2020-01-22"),
        ("weekly", "2020-01-20"),
        ("monthly", "2020-01-01"),
        ("yearly", "2020-01-01"),
    ],
)
def test_a_relative_beginning_lies_on_the_grid_of_the_calendar(kind: str, expected: str) -> None:
    assert iso(bounds("P30D", kind=kind)[0], zone_named("UTC")) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2017-01-02", "2017-01-02T00:00:00.000+00:00"),
        ("2017-01-02 03:04", "2017-01-02T03:04:00.000+00:00"),
        ("2017-01-02 03:04:05", "2017-01-02T03:04:05.000+00:00"),
        ("2017-01-02T03:04:05", "2017-01-02T03:04:05.000+00:00"),
        ("2017-01-02 03:04:05.123456Z", "2017-01-02T03:04:05.123+00:00"),
        ("2017-01-02T03:04:05.123999Z", "2017-01-02T03:04:05.123+00:00"),
        ("2017-01-02T03:04:05.5UTC", "2017-01-02T03:04:05.500+00:00"),
        ("2017-01-02T03:04:05 UTC", "2017-01-02T03:04:05.000+00:00"),
        ("2017-01-02T03:04:05+01:00", "2017-01-02T02:04:05.000+00:00"),
        ("2017-01-02T03:04:05-0530", "2017-01-02T08:34:05.000+00:00"),
        ("2017-01-02T03:04:05+02", "2017-01-02T01:04:05.000+00:00"),
        ("2017-01-02T03:04:05 Europe/Berlin", "2017-01-02T02:04:05.000+00:00"),
        ("2017-07-02 03:04:05Europe/Berlin", "2017-07-02T01:04:05.000+00:00"),
        ("2017-01-02 Asia/Kolkata", "2017-01-01T18:30:00.000+00:00"),
        ("1969-12-31T23:59:59.9999Z", "1969-12-31T23:59:59.999+00:00"),
    ],
)
def test_iso_times_are_understood_and_truncated_to_milliseconds(text: str, expected: str) -> None:
    assert start_of(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-03-29 02:30", "2026-03-29T01:30:00.000+00:00"),
        ("2026-03-29 03:30", "2026-03-29T01:30:00.000+00:00"),
        ("2026-10-25 02:30", "2026-10-25T00:30:00.000+00:00"),
        ("2026-10-25 03:30", "2026-10-25T02:30:00.000+00:00"),
        ("2026-03-29", "2026-03-28T23:00:00.000+00:00"),
    ],
    ids=["in the gap", "behind the gap", "in the fold", "behind the fold", "midnight"],
)
def test_a_time_in_a_gap_is_shifted_forward_and_one_in_a_fold_is_the_first(text: str, expected: str) -> None:
    assert start_of(text, "Europe/Berlin") == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "now",
        "2020",
        "2020-01",
        "2020-1-1",
        "20200101",
        "01/02/2020",
        "2020-02-30",
        "2020-13-01",
        "2020-01-01  10:00",
        "2020-01-01T",
        "2020-01-01 10",
        "2020-01-01 24:00",
        "2020-01-01 10:60",
        "2020-01-01 10:00:60",
        "2020-01-01 10:00.5",
        "2020-01-01 10:00:00.",
        "2020-01-01 10:00:00,5",
        "2020-01-01t10:00:00",
        "2020-01-01T10:00:00+25:00",
        "2020-01-01T10:00:00+01:75",
        "2020-01-01T10:00:00 Middle/Earth",
        "2020-01-01T10:00:00 XYZ",
        " 2020-01-01",
        "2020-01-01 ",
        "2020-01-01\n",
        "２０２０-01-01",
        "P",
        "PD",
        "P1",
        "-P1D",
        "P-1D",
        "P1.5D",
        "p1d",
        "P1M",
        "P1W",
        "PT7H",
        "P1DT",
        "P1D7H",
        "P1DT24H",
        "P1DT1H60M",
        "P1DT30M",
        "P1DT1H30M15S",
        "--",
    ],
)
@pytest.mark.parametrize("is_end", [False, True])
def test_anything_else_is_refused_with_its_text(text: str, is_end: bool) -> None:
    with pytest.raises(WatermarkError) as caught:
        parse_bound(text, is_end=is_end)
    assert repr(text) in caught.value.problem
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("abbreviation", "use"),
    [
        ("PST", "America/Los_Angeles"),
        ("EST", "America/New_York"),
        ("CET", "Europe/Paris"),
        ("BST", "Europe/London"),
        ("JST", "Asia/Tokyo"),
        ("GMT", "UTC"),
        ("utc", "UTC"),
    ],
)
def test_abbreviations_of_zones_are_refused_with_the_name_to_use(abbreviation: str, use: str) -> None:
    with pytest.raises(WatermarkError, match=f"'2020-01-01 10:00:00{abbreviation}'.*{abbreviation}.*write {use}"):
        parse_bound(f"2020-01-01 10:00:00{abbreviation}", is_end=False)


def test_now_is_an_end_and_no_beginning() -> None:
    parse_bound("-", is_end=True)
    with pytest.raises(WatermarkError, match="'-' is no beginning"):
        parse_bound("-", is_end=False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("P3D", Span(3)),
        ("P0D", Span()),
        ("P3DT6H", Span(3, timedelta(hours=6))),
        ("P0DT0H30M", Span(0, timedelta(minutes=30))),
        ("P1DT23H59M", Span(1, timedelta(hours=23, minutes=59))),
    ],
)
def test_lengths_of_time(text: str, expected: Span) -> None:
    assert parse_span(text) == expected


@pytest.mark.parametrize("text", ["3", "P3", "-", "2020-01-01", "P1DT24H", "PT1H"])
def test_what_is_no_length_of_time_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(WatermarkError, match=repr(text)):
        parse_span(text)


def test_days_are_calendar_days_and_hours_are_elapsed() -> None:
    spring = datetime(2026, 3, 30, 10, tzinfo=UTC)
    assert end_of("P1D", "none", zone="Europe/Berlin", now=spring) == "2026-03-29 12:00"
    assert end_of("P2D", "none", zone="Europe/Berlin", now=spring) == "2026-03-28 12:00"
    assert end_of("P0DT23H", "none", zone="Europe/Berlin", now=spring) == "2026-03-29 13:00"
    assert bounds(end="P2D", zone="Europe/Berlin", now=spring)[1] == milliseconds(spring) - 47 * 3_600_000


def test_a_day_is_rounded_in_the_zone_of_the_source() -> None:
    late = datetime(2020, 2, 21, 3, 20, tzinfo=UTC)
    assert end_of("-", "monthly", zone="America/New_York", now=late) == "2020-02-20"
    assert end_of("P0DT0H", "monthly", zone="Asia/Kolkata", now=late) == "2020-02-21 08:00"


def test_the_second_of_two_equal_hours_is_rounded_to_its_own_beginning() -> None:
    second = datetime(2026, 10, 25, 1, 40, tzinfo=UTC)
    end = bounds(end="P0DT0H", kind="monthly", zone="Europe/Berlin", now=second)[1]
    assert end == milliseconds(datetime(2026, 10, 25, 1, tzinfo=UTC))


def test_an_end_in_the_future_is_refused_unless_allowed() -> None:
    with pytest.raises(WatermarkError, match=r"ends in the future: to is '2020-03-01', and it is 2020-02-21 10:37"):
        bounds(end="2020-03-01")
    assert end_of("2020-03-01", "none", allow_future=True) == "2020-03-01"


def test_what_no_calendar_holds_is_refused() -> None:
    with pytest.raises(WatermarkError, match="years 1 to 9999"):
        bounds("P9999999D")


def test_an_unknown_zone_is_named() -> None:
    with pytest.raises(WatermarkError, match="Mars/Base"):
        bounds(zone="Mars/Base")
