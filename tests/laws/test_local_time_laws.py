"""Chunks where clocks change: every local time and every moment is in exactly one of them, and none is empty."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from support.errors import raises
from tidegate.core.calendar import Jump, jump_around, jumps
from tidegate.core.columns.predicates import Bound, ColumnRange, RowFilter
from tidegate.core.columns.replay import Chunk, ChunkInterval, ReplayState, chunks, decode, encode
from tidegate.core.columns.state import is_above
from tidegate.errors import ConfigError
from tidegate.spark.loading.target import TableWindow

ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Africa/Cairo", "Pacific/Apia"]
UNITS = {"minutes": 15, "hours": 1, "days": 1, "weeks": 1, "months": 1}


def moment(local: datetime, zone: str) -> datetime:
    """How rows get into the table: a time that clocks jump over is taken as the later one."""
    return local.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)


@st.composite
def ranges(draw: st.DrawFn) -> tuple[str, datetime, datetime, ChunkInterval]:
    """A range without a zone around a change of clocks, and how it is cut."""
    zone = draw(st.sampled_from(ZONES))
    year = 2011 if zone == "Pacific/Apia" else draw(st.integers(2020, 2030))
    changes = [jump.low for jump in jumps(zone, year)] or [datetime(year, 10, 25)]
    middle = draw(st.sampled_from([*changes, datetime(year, 10, 25, 2), datetime(year, 11, 1, 2)]))
    start = middle - timedelta(minutes=draw(st.integers(0, 4000)))
    end = middle + timedelta(minutes=draw(st.integers(1, 4000)))
    unit = draw(st.sampled_from(sorted(UNITS)))
    return zone, start, end, ChunkInterval(unit, UNITS[unit])


@given(ranges(), st.data())
def test_each_local_time_and_its_moment_are_in_the_same_chunk(
    given_: tuple[str, datetime, datetime, ChunkInterval], data: st.DataObject
) -> None:
    zone, start, end, interval = given_
    if jump_around(start, zone) or jump_around(end, zone):
        with raises(ConfigError, "replay", "boundary"):
            chunks(start, end, interval, zone)
        return
    found = chunks(start, end, interval, zone)
    assert (found[0].low, found[-1].high) == (start, end)
    assert all(one.high == other.low for one, other in pairwise(found))
    windows = [(moment(each.low, zone), moment(each.high, zone)) for each in found]  # type: ignore[arg-type]  # times
    assert all(low < high for low, high in windows)
    local = start + data.draw(st.integers(0, (end - start) // timedelta(minutes=1) - 1)) * timedelta(minutes=1)
    (place,) = [
        number for number, each in enumerate(found) if not is_above(each.low, local) and is_above(each.high, local)
    ]
    (same,) = [number for number, (low, high) in enumerate(windows) if low <= moment(local, zone) < high]
    assert same == place


@given(ranges())
def test_moments_are_cut_by_one_offset_also_after_they_were_recorded(
    given_: tuple[str, datetime, datetime, ChunkInterval],
) -> None:
    zone, start, end, interval = given_
    low, high = (each.replace(tzinfo=ZoneInfo(zone)) for each in (start, end))
    if not low.astimezone(UTC) < high.astimezone(UTC):
        return
    state = ReplayState("at", low, high, interval, timezone=None)
    assert decode(encode(state)).chunks == state.chunks
    for each in state.chunks:
        assert each.low.astimezone(UTC) < each.high.astimezone(UTC)  # type: ignore[union-attr]  # times


def test_a_chunk_is_longer_where_clocks_jump() -> None:
    assert jumps("Europe/Berlin", 2026) == (Jump(datetime(2026, 3, 29, 2), datetime(2026, 3, 29, 3)),)
    assert jumps("UTC", 2026) == jumps("Asia/Tokyo", 2026) == ()
    day = datetime(2026, 3, 29)
    found = chunks(day, day + timedelta(hours=6), ChunkInterval("hours", 1), "Europe/Berlin")
    assert [each.low.hour for each in found] == [0, 1, 2, 4, 5]  # type: ignore[union-attr]  # times
    autumn = datetime(2026, 10, 25)
    found = chunks(autumn, autumn + timedelta(hours=6), ChunkInterval("hours", 1), "Europe/Berlin")
    assert found == tuple(Chunk(autumn + timedelta(hours=n), autumn + timedelta(hours=n + 1)) for n in range(6))


def test_the_zone_is_part_of_what_a_replay_is_about() -> None:
    day = datetime(2026, 3, 29)
    local = ReplayState("at", day, day + timedelta(days=1), ChunkInterval("hours", 1), timezone="Europe/Berlin")
    assert decode(encode(local)) == local
    assert not local.is_same(ReplayState("at", day, day + timedelta(days=1), ChunkInterval("hours", 1)))
    assert "timezone" not in encode(ReplayState("at", 1, 5))


def test_a_window_that_ends_where_clocks_jump_covers_the_moments_of_its_rows() -> None:
    low, high = datetime(2026, 3, 29, 2), datetime(2026, 3, 29, 3, 15)
    window = TableWindow(
        RowFilter((ColumnRange("at", Bound(low, inclusive=True), Bound(high, inclusive=True)),)),
        "shop/orders",
        {},
        "Europe/Berlin",
    )
    condition = window.condition(pa.schema([("at", pa.timestamp("us", "UTC"))]))
    assert "2026-03-29 01:00:00" in condition
    assert "< TIMESTAMP_LTZ '2026-03-29 02:00:00" in condition
