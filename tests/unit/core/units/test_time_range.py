"""Bounds of time ranges: what is understood, what is refused, and to what relative ones are rounded."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from support.errors import raises
from support.work_units import at, moment, time_source
from tidegate.core.calendar import iso, milliseconds, zone_named
from tidegate.core.units.time_range import Cut, cut, parse_bound, parse_span, resolve
from tidegate.errors import WatermarkError
from tidegate.specs.units import PartialPartition, PartitionKind, Rounding, Span, SubRange, TimeRange, UnitSource

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
    with raises(WatermarkError, f"'2020-01-01 10:00:00{abbreviation}'", f"'{abbreviation}'", use):
        parse_bound(f"2020-01-01 10:00:00{abbreviation}", is_end=False)


def test_now_is_an_end_and_no_beginning() -> None:
    parse_bound("-", is_end=True)
    with raises(WatermarkError, "'-'", "P30D"):
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
    with raises(WatermarkError, repr(text)):
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
    with raises(WatermarkError, "'2020-03-01'", "2020-02-21 10:37", "allow_future"):
        bounds(end="2020-03-01")
    assert end_of("2020-03-01", "none", allow_future=True) == "2020-03-01"


def test_what_no_calendar_holds_is_refused() -> None:
    with raises(WatermarkError, "1 to 9999"):
        bounds("P9999999D")


def test_an_unknown_zone_is_named() -> None:
    with raises(WatermarkError, "Mars/Base"):
        bounds(zone="Mars/Base")


NEVER, ALWAYS = PartialPartition.NEVER, PartialPartition.ALWAYS


def pieces(found: Cut, zone: str = "UTC") -> list[str]:
    where = zone_named(zone)
    return [f"[{iso(each.start, where)}, {iso(each.end, where)})" for each in found.partitions]


def cut_at(now: str, *arguments: str, **changes: Any) -> list[str]:
    source = time_source(*arguments, **changes)
    return pieces(cut(source, moment(now)), source.timezone)


def composite(*parts: tuple[str, str, str], start: str = "2019-01-01", end: str = "-", **changes: Any) -> UnitSource:
    subs = tuple(SubRange(low, high, PartitionKind(kind)) for low, high, kind in parts)
    return time_source(start, end, sub_ranges=subs, **changes)


def test_monthly_from_2019_on_2020_02_21_gives_14_the_last_one_partial() -> None:
    found = cut_at("2020-02-21 10:37", "2019-01-01", "-", "monthly")
    assert len(found) == 14
    assert found[0] == "[2019-01-01, 2019-02-01)"
    assert found[-2:] == ["[2020-01-01, 2020-02-01)", "[2020-02-01, 2020-02-21)"]


def test_monthly_with_partial_off_gives_13() -> None:
    found = cut_at("2020-02-21", "2019-01-01", "-", "monthly", partial=NEVER)
    assert (len(found), found[-1]) == (13, "[2020-01-01, 2020-02-01)")


def test_monthly_a_day_later_has_the_same_13_and_the_last_one_has_grown() -> None:
    today, tomorrow = (cut_at(now, "2019-01-01", "-", "monthly") for now in ("2020-02-21", "2020-02-22"))
    assert today[:13] == tomorrow[:13]
    assert tomorrow[13:] == ["[2020-02-01, 2020-02-22)"]


def test_weekly_from_a_monday_gives_7_the_last_one_partial() -> None:
    found = cut_at("2020-02-21", "2020-01-06", "-", "weekly")
    assert (len(found), found[-1]) == (7, "[2020-02-17, 2020-02-21)")


def test_daily_from_an_hour_on_ends_at_that_hour() -> None:
    found = cut_at("2020-02-24", "2020-02-21 10:00", "2020-02-23 12:00", "daily")
    assert found == ["[2020-02-21 10:00, 2020-02-22 10:00)", "[2020-02-22 10:00, 2020-02-23 10:00)"]


@pytest.mark.parametrize(
    ("day", "until", "hours"), [("2026-03-29", "2026-03-30", 23), ("2026-10-25", "2026-10-26", 25)]
)
def test_hourly_over_the_days_of_a_clock_change(day: str, until: str, hours: int) -> None:
    found = cut(time_source(day, until, "hourly", timezone="Europe/Berlin"), moment("2026-11-11"))
    assert len(found.partitions) == hours
    assert {each.end - each.start for each in found.partitions} == {3_600_000}


@pytest.mark.parametrize("kind", list(PartitionKind))
@pytest.mark.parametrize(("start", "end"), [("2020-01-02", "2020-01-01"), ("2020-01-01", "2020-01-01")])
def test_a_range_without_length_has_no_partitions(start: str, end: str, kind: PartitionKind) -> None:
    assert cut_at("2020-02-21", start, end, kind) == []


@pytest.mark.parametrize(
    ("kind", "partial", "last"),
    [
        ("daily", PartialPartition.MULTI_DAY, "[2020-02-20, 2020-02-21)"),
        ("daily", NEVER, "[2020-02-20, 2020-02-21)"),
        ("daily", ALWAYS, "[2020-02-21, 2020-02-21 10:37)"),
        ("hourly", PartialPartition.MULTI_DAY, "[2020-02-21 09:00, 2020-02-21 10:00)"),
        ("hourly", NEVER, "[2020-02-21 09:00, 2020-02-21 10:00)"),
        ("hourly", ALWAYS, "[2020-02-21 10:00, 2020-02-21 10:37)"),
        ("weekly", PartialPartition.MULTI_DAY, "[2020-02-19, 2020-02-21)"),
        ("weekly", NEVER, "[2020-02-12, 2020-02-19)"),
        ("monthly", ALWAYS, "[2020-02-01, 2020-02-21)"),
        ("yearly", PartialPartition.MULTI_DAY, "[2020-01-01, 2020-02-21)"),
        ("yearly", NEVER, "[2019-01-01, 2020-01-01)"),
        ("none", NEVER, "[2019-01-01, 2020-02-21 10:37)"),
    ],
)
def test_the_last_partition_by_kind_and_rule(kind: str, partial: PartialPartition, last: str) -> None:
    start = "2020-01-01" if kind == "weekly" else "2019-01-01"
    assert cut_at("2020-02-21 10:37", start, "-", kind, partial=partial)[-1] == last


def test_what_is_left_out_is_told() -> None:
    found = cut(time_source("2020-02-20", "-", "daily"), moment("2020-02-21 10:00"))
    assert found.dropped is not None
    assert (found.dropped.start, found.dropped.end) == (at("2020-02-21"), at("2020-02-21 10:00"))
    assert cut(time_source("2020-02-20", "P0D", "daily"), moment("2020-02-21")).dropped is None


@pytest.mark.parametrize(
    ("start", "kind", "starts"),
    [
        ("2019-01-31", "monthly", ["2019-01-31", "2019-02-28", "2019-03-31", "2019-04-30"]),
        ("2020-01-30", "monthly", ["2020-01-30", "2020-02-29", "2020-03-30", "2020-04-30"]),
        ("2016-02-29", "yearly", ["2016-02-29", "2017-02-28", "2018-02-28", "2019-02-28", "2020-02-29"]),
        ("2020-02-21 10:00", "daily", ["2020-02-21 10:00", "2020-02-22 10:00", "2020-02-23 10:00"]),
        ("2020-02-21 10:00", "weekly", ["2020-02-21 10:00", "2020-02-28 10:00", "2020-03-06 10:00"]),
        ("2020-02-21 10:20", "hourly", ["2020-02-21 10:20", "2020-02-21 11:20", "2020-02-21 12:20"]),
    ],
)
def test_partitions_are_anchored_on_the_beginning(start: str, kind: str, starts: list[str]) -> None:
    found = cut_at("2021-06-01", start, "-", kind)
    assert [each[1:].split(", ")[0] for each in found[: len(starts)]] == starts


def test_daily_partitions_of_a_zone_begin_at_its_midnights() -> None:
    source = time_source("2026-03-28", "2026-03-31", "daily", timezone="Europe/Berlin")
    found = cut(source, moment("2026-06-01"))
    assert [(each.end - each.start) // 3_600_000 for each in found.partitions] == [24, 23, 24]
    assert pieces(found, "Europe/Berlin")[1] == "[2026-03-29, 2026-03-30)"


def test_a_day_that_a_zone_left_out_has_no_partition() -> None:
    found = cut_at("2012-06-01", "2011-12-28", "2012-01-02", "daily", timezone="Pacific/Apia")
    assert found == [
        "[2011-12-28, 2011-12-29)",
        "[2011-12-29, 2011-12-31)",
        "[2011-12-31, 2012-01-01)",
        "[2012-01-01, 2012-01-02)",
    ]


def test_without_partitions_there_is_one_range_that_is_never_finished() -> None:
    (only,) = cut(time_source("2020-01-01", "P0D"), moment("2020-01-15")).partitions
    assert (only.start, only.end, only.nominal_end) == (at("2020-01-01"), at("2020-01-15"), None)


def test_without_a_time_watermark_the_range_goes_from_1970_to_now() -> None:
    found = cut(replace(time_source(), time=None), moment("2020-01-15"))
    assert [(each.start, each.end, each.nominal_end) for each in found.partitions] == [(0, at("2020-01-15"), None)]


def test_sub_ranges_have_pieces_of_their_own_size() -> None:
    source = composite(
        ("2018-01-01", "2019-01-01", "none"),
        ("2019-01-01", "2019-04-01", "monthly"),
        ("2019-04-01", "-", "daily"),
        start="2018-01-01",
    )
    assert pieces(cut(source, moment("2019-04-03 10:00"))) == [
        "[2018-01-01, 2019-01-01)",
        "[2019-01-01, 2019-02-01)",
        "[2019-02-01, 2019-03-01)",
        "[2019-03-01, 2019-04-01)",
        "[2019-04-01, 2019-04-02)",
        "[2019-04-02, 2019-04-03)",
    ]
    assert all(one.nominal_end == other.start for one, other in pairwise(cut(source, moment("2019-04-03")).partitions))


def test_a_piece_at_the_end_of_a_sub_range_is_full_there() -> None:
    source = composite(("2019-01-01", "2019-02-15", "monthly"), ("2019-02-15", "-", "daily"))
    found = cut(source, moment("2019-02-16"))
    assert pieces(found)[1] == "[2019-02-01, 2019-02-15)"
    assert found.partitions[1].nominal_end == at("2019-02-15")


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ([("2019-01-01", "2019-02-01", "monthly"), ("2019-02-02", "-", "daily")], "gap … '2019-02-02'"),
        (
            [("2019-01-01", "2019-02-02", "monthly"), ("2019-02-01", "-", "daily")],
            "overlap … '2019-02-01'",
        ),
        ([("2019-01-02", "-", "monthly")], "gap … '2019-01-01' … '2019-01-02'"),
        ([("2018-01-01", "-", "monthly")], "overlap … '2019-01-01' … '2018-01-01'"),
        ([("2019-01-01", "2019-06-01", "monthly")], "gap … '2019-06-01' … '-'"),
        ([("2019-01-01", "2018-06-01", "monthly"), ("2018-06-01", "-", "daily")], "2019-01-01 … 2018-06-01"),
    ],
    ids=["gap", "overlap", "begins late", "begins early", "ends early", "turned round"],
)
def test_sub_ranges_with_a_gap_or_an_overlap_are_refused(parts: list[tuple[str, str, str]], problem: str) -> None:
    with raises(WatermarkError, problem):
        cut(composite(*parts), moment("2020-02-21"))


def test_sub_ranges_that_end_beyond_the_range_are_clipped() -> None:
    source = composite(
        ("2019-01-01", "2019-03-01", "monthly"), ("2019-03-01", "2020-01-01", "weekly"), end="2019-02-10"
    )
    found = cut(source, moment("2020-02-21"))
    assert pieces(found) == ["[2019-01-01, 2019-02-01)", "[2019-02-01, 2019-02-10)"]
    assert found.partitions[-1].nominal_end == at("2019-03-01")


def test_sub_ranges_round_by_the_last_of_them() -> None:
    parts = ("2019-01-01", "2020-01-01", "monthly")
    by_day = composite(parts, ("2020-01-01", "-", "daily"), partial=ALWAYS)
    by_week = composite(parts, ("2020-01-01", "-", "weekly"))
    assert pieces(cut(by_day, moment("2020-02-21 10:37")))[-1] == "[2020-02-21, 2020-02-21 10:37)"
    assert pieces(cut(by_week, moment("2020-02-21 10:37")))[-1] == "[2020-02-19, 2020-02-21)"


def test_a_relative_edge_between_sub_ranges_lies_on_the_grid_of_the_coarser() -> None:
    source = composite(("2019-01-01", "P30D", "monthly"), ("P30D", "-", "daily"))
    found = pieces(cut(source, moment("2020-02-21")))
    assert found[11:14] == ["[2019-12-01, 2020-01-01)", "[2020-01-01, 2020-01-02)", "[2020-01-02, 2020-01-03)"]
    assert found[-1] == "[2020-02-20, 2020-02-21)"


@pytest.mark.parametrize(
    ("kind", "same", "other"),
    [
        ("monthly", ["2019-01-01", "2018-05-01", "P300D"], "2019-01-02"),
        ("weekly", ["2020-01-06", "2019-12-30", "P30D"], "2020-01-07"),
        ("daily", ["2020-01-06", "2019-12-30", "P30D"], "2020-01-06 10:00"),
        ("hourly", ["2020-01-06", "2020-01-01 05:00", "P30D"], "2020-01-06 10:30"),
        ("yearly", ["2018-01-01", "2015-01-01", "P999D"], "2018-02-01"),
        ("none", ["2018-01-01", "2018-01-01T00:00Z"], "2017-01-01"),
    ],
)
def test_a_grid_is_equal_where_identities_match(kind: str, same: list[str], other: str) -> None:
    grids = {cut(time_source(start, "-", kind), moment("2020-02-21 10:37")).grid for start in same}
    assert len(grids) == 1
    assert cut(time_source(other, "-", kind), moment("2020-02-21 10:37")).grid not in grids


def test_the_text_of_a_relative_beginning_is_the_identity_without_partitions() -> None:
    one, other = (cut(time_source("P30D"), moment(now)) for now in ("2020-02-21", "2020-02-25"))
    assert one.grid == other.grid == "system: none from P30D"
    assert one.start != other.start


def test_with_partitions_a_relative_beginning_does_not_float() -> None:
    one, other = (cut_at(now, "P30D", "-", "daily") for now in ("2020-02-21 10:37", "2020-02-21 20:00"))
    assert one == other
    later = cut_at("2020-02-23 01:00", "P30D", "-", "daily")
    assert one[2:] == later[:-2]
