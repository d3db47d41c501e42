"""Paths: split at the last slash, compared as partition and name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from support.errors import raises
from tidegate.core.calendar import EARLIEST, LATEST, Period, subtract
from tidegate.core.files.paths import (
    Layout,
    PartitionTime,
    SourceFile,
    cold_start_bound,
    cold_start_prefixes,
    join,
    just_below,
    parse_template,
    same_content,
    sort_key,
    split,
)
from tidegate.errors import ConfigError
from tidegate.specs.files import PartitionFilter


@pytest.mark.parametrize(
    ("path", "partition", "name"),
    [
        ("date=2024-01-28/1706450400-uuid.ndjson.gz", "date=2024-01-28", "1706450400-uuid.ndjson.gz"),
        ("date=2024-01-28/hour=14/a", "date=2024-01-28/hour=14", "a"),
        ("a", "", "a"),
    ],
)
def test_a_path_is_split_at_its_last_slash(path: str, partition: str, name: str) -> None:
    assert split(path) == (partition, name)
    assert join(partition, name) == path


def test_order_is_by_partition_and_then_by_name() -> None:
    paths = ["d=1-x/a", "d=1/b", "d=1/é", "d=1/z", "d=1/a", "z"]
    assert sorted(paths, key=sort_key) == ["z", "d=1/a", "d=1/b", "d=1/z", "d=1/é", "d=1-x/a"]


def test_order_is_that_of_utf8_bytes_also_beyond_the_basic_plane() -> None:
    assert sort_key("\U0001f30a") > sort_key("\uffee")


@pytest.mark.parametrize("name", ["b", "1706450400-a.json", "ab"])
def test_listing_from_just_below_shows_the_name(name: str) -> None:
    assert (just_below(name) or "") < name


@pytest.mark.parametrize(
    ("size", "etag", "same"),
    [
        (10, "e", True),
        (10, None, True),
        (None, None, True),
        (None, "e", True),
        (9, "e", False),
        (10, "f", False),
    ],
)
def test_content_is_compared_by_what_was_recorded(size: int | None, etag: str | None, same: bool) -> None:
    assert same_content(size, etag, SourceFile("a", 10, "e")) is same


def test_a_store_without_etags_compares_sizes() -> None:
    assert same_content(10, "e", SourceFile("a", 10, None))


def at(*numbers: int) -> datetime:
    year, month, day, hour = (*numbers, *(1, 1, 1, 0)[len(numbers) :])
    return datetime(year, month, day, hour, tzinfo=UTC)


@pytest.mark.parametrize(
    ("directory", "time"),
    [
        ("date=2024-01-28", PartitionTime("", at(2024, 1, 28), Period.DAY)),
        ("dt=20240128", PartitionTime("", at(2024, 1, 28), Period.DAY)),
        ("day=2024-01-28", PartitionTime("", at(2024, 1, 28), Period.DAY)),
        ("month=2024-01", PartitionTime("", at(2024, 1), Period.MONTH)),
        ("date=2024-01-28/hour=14", PartitionTime("", at(2024, 1, 28, 14), Period.HOUR)),
        ("hour=14/date=2024-01-28", PartitionTime("", at(2024, 1, 28, 14), Period.HOUR)),
        ("year=2024", PartitionTime("", at(2024), Period.YEAR)),
        ("year=2024/month=1/day=8", PartitionTime("", at(2024, 1, 8), Period.DAY)),
        ("year=2024/day=8", PartitionTime("", at(2024), Period.YEAR)),
        ("r=a/s=b/date=2024-01-28", PartitionTime("r=a/s=b", at(2024, 1, 28), Period.DAY)),
        ("date=2024-01-28/r=a", PartitionTime("", at(2024, 1, 28), Period.DAY)),
        ("", None),
        ("hour=14", None),
        ("d=1/h=2", None),
        ("date=2024-01-28-x", None),
        ("date=2024-13-01", None),
        ("date=2024-02-30", None),
        ("date=２０２４-01-28", None),
        ("year=2023/date=2024-01-28", None),
        ("2024/01/28", None),
    ],
)
def test_recognised_levels(directory: str, time: PartitionTime | None) -> None:
    assert Layout().time_of(directory) == time


@pytest.mark.parametrize(
    ("template", "directory", "time"),
    [
        ("%Y/%m/%d", "2024/01/28", PartitionTime("", at(2024, 1, 28), Period.DAY)),
        ("%Y/%m/%d", "2024/01", PartitionTime("", at(2024, 1), Period.MONTH)),
        ("%Y/%m/%d", "2024/01/28/hour=14", PartitionTime("", at(2024, 1, 28, 14), Period.HOUR)),
        ("in/logs-%Y%m%d", "in/logs-20240128", PartitionTime("in", at(2024, 1, 28), Period.DAY)),
        ("in/logs-%Y%m%d", "in", None),
        ("in/logs-%Y%m%d", "in/logs-2024012", None),
        ("r=a/date=%Y-%m-%d", "r=b/date=2024-01-28", PartitionTime("r=b", at(2024, 1, 28), Period.DAY)),
        ("date=%Y-%m-%d/hour=%H", "date=2024-01-28", PartitionTime("", at(2024, 1, 28), Period.DAY)),
        ("year=%Y/date=%F", "year=2023/date=2024-01-28", None),
    ],
)
def test_levels_of_a_template(template: str, directory: str, time: PartitionTime | None) -> None:
    assert Layout(parse_template(template)).time_of(directory) == time


@pytest.mark.parametrize(
    ("template", "finest", "prefix", "rendered"),
    [
        ("date=%Y-%m-%d/hour=%H", Period.HOUR, "", "date=0999-01-08/hour=14"),
        ("date=%F/", Period.DAY, "", "date=0999-01-08"),
        ("m=%Y-%m", Period.MONTH, "", "m=0999-01"),
        ("a/b/y%Y%%", Period.YEAR, "a/b", "a/b/y0999%"),
    ],
)
def test_templates_know_their_period_prefix_and_text(template: str, finest: Period, prefix: str, rendered: str) -> None:
    parsed = parse_template(template)
    assert (parsed.finest, parsed.prefix) == (finest, prefix)
    assert parsed.render(at(999, 1, 8, 14)) == rendered


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("date=%Y-%m-%d/%H%M", "%M … %Y, %m, %d … %H"),
        ("%S", "%S"),
        ("week=%Y-%U", "%U"),
        ("week=%Y-%W", "%W"),
        ("day=%Y-%j", "%j"),
        ("%-d", "%-"),
        ("50%", "%"),
        ("events", "no time"),
        ("hour=%H", "%H … %Y, %m, %d"),
        ("%Y//%m", "empty level"),
    ],
)
def test_templates_that_cannot_order_directories_are_refused(template: str, problem: str) -> None:
    with raises(ConfigError, "prefix_template", repr(template), problem):
        parse_template(template)


@pytest.mark.parametrize(
    ("template", "lookback", "now", "prefixes"),
    [
        ("m=%Y-%m", 2, at(2026, 1, 31), ("m=2025-11", "m=2025-12", "m=2026-01")),
        ("y=%Y", 1, at(2026, 1, 31), ("y=2025", "y=2026")),
        ("d=%F", 0, at(2026, 3, 1), ("d=2026-03-01",)),
        (
            "d=%F",
            1,
            datetime(2026, 3, 1, 1, tzinfo=timezone(timedelta(hours=2))),
            ("d=2026-02-27", "d=2026-02-28"),
        ),
        ("y=%Y", 3, at(2), ("y=0002",)),
    ],
)
def test_prefixes_count_in_the_templates_period(
    template: str, lookback: int, now: datetime, prefixes: tuple[str, ...]
) -> None:
    assert cold_start_prefixes(PartitionFilter(template, lookback), now) == prefixes


def test_a_negative_look_back_is_refused() -> None:
    with raises(ConfigError, "lookback", "-1"):
        cold_start_bound(PartitionFilter("d=%F", -1), at(2026))


@pytest.mark.parametrize(
    ("period", "start", "count", "shifted"),
    [
        (Period.HOUR, at(2024, 3, 1), -1, at(2024, 2, 29, 23)),
        (Period.DAY, at(2024, 3, 1), -1, at(2024, 2, 29)),
        (Period.MONTH, at(2024, 1), -13, at(2022, 12)),
        (Period.YEAR, at(2024), -48, at(1976)),
        (Period.YEAR, at(30), -48, EARLIEST),
        (Period.DAY, at(1, 1, 2), -48, EARLIEST),
        (Period.YEAR, at(9999), 1, LATEST),
        (Period.DAY, at(9999, 12, 31), 1, LATEST),
    ],
)
def test_periods_are_counted_to_the_ends_of_the_calendar(
    period: Period, start: datetime, count: int, shifted: datetime
) -> None:
    assert period.shift(start, count) == shifted


def test_a_long_lateness_reaches_the_beginning_of_the_calendar() -> None:
    assert subtract(at(2024), timedelta(days=999_999)) == EARLIEST
