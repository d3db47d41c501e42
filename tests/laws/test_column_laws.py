"""Column watermarks: whatever rows come between whatever steps, each is read once; the watermark never goes back."""

from __future__ import annotations

import sqlite3
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from support.long_runs import examples
from tidegate.core.columns.look_back import lower
from tidegate.core.columns.planner import fix_bounds, plan_columns
from tidegate.core.columns.predicates import Bound, ColumnRange, RowFilter, matches, predicate
from tidegate.core.columns.replay import (
    UNITS,
    Chunk,
    ChunkInterval,
    ReplayConfig,
    ReplayState,
    check_handover,
    chunk_columns,
    chunks,
    hand_over,
)
from tidegate.core.columns.state import (
    ColumnState,
    decode_columns,
    encode_columns,
    greatest,
    is_above,
    kind_of,
)
from tidegate.core.dialects.registry import DIALECTS
from tidegate.core.watermark_text import WatermarkSerializer
from tidegate.specs.columns import (
    ColumnSource,
    FunctionRead,
    Load,
    LoadType,
    LookBack,
    NullWatermark,
    Value,
    WatermarkMode,
)

NOW = datetime(2026, 3, 8, 12, tzinfo=UTC)
DAY = 86_400
COLUMNS = ("a", "b")
Row = tuple[int, int | None, int | None]
"""An id, and the values of both columns."""

small = st.integers(0, 4)
tiny = st.integers(0, 2)
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=5).filter(lambda name: not name.startswith("__"))
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)
awkward = st.text("aB'\"\\%é", max_size=2)
"""Short texts of what must be escaped, so that equal and nearly equal ones meet."""
near = st.integers(0, 3).map(lambda each: datetime(2026, 3, 29, 2, 30, 0, each))
"""Moments that lie microseconds apart."""
moments = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)).map(lambda each: each.replace(fold=0))
clocks = st.times().map(lambda each: each.replace(fold=0))
aware = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)).map(
    lambda each: each.replace(fold=0)
)
decimals = st.decimals(allow_nan=False, allow_infinity=False)
floats = st.floats(allow_nan=False, allow_infinity=False)
kinds: list[st.SearchStrategy[Any]] = [
    st.integers(),
    floats,
    decimals,
    texts,
    moments,
    aware,
    st.dates(),
    clocks,
    st.booleans(),
]
values = st.one_of(kinds)
plain = st.recursive(
    st.none() | values, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3)
)


@settings(deadline=None)
@given(st.dictionaries(names, plain, max_size=4))
def test_a_watermark_comes_back_from_its_text_as_it_was(watermark: dict[str, Any]) -> None:
    text = WatermarkSerializer.serialize(watermark)
    back = WatermarkSerializer.deserialize(text)
    assert back == (watermark or None)
    assert WatermarkSerializer.serialize(back or {}) == text
    assert types_of(back or {}) == types_of(watermark)


def types_of(value: object) -> object:
    """The types at every depth: 1, 1.0, True and Decimal(1) are equal, and not the same."""
    if isinstance(value, dict):
        return {key: types_of(each) for key, each in value.items()}
    return [types_of(each) for each in value] if isinstance(value, list) else type(value)


@settings(deadline=None)
@given(st.dictionaries(names, st.none() | values, max_size=3), st.data())
def test_a_state_comes_back_from_its_json(stored: dict[str, Any], data: st.DataObject) -> None:
    inclusive = data.draw(st.frozensets(st.sampled_from(sorted(stored)))) if stored else frozenset()
    state = ColumnState(stored, inclusive, NOW)
    assert decode_columns(encode_columns(state)) == state


@settings(deadline=None)
@given(st.sampled_from(kinds), st.data())
def test_a_watermark_never_goes_backwards(kind: st.SearchStrategy[Value], data: st.DataObject) -> None:
    state = ColumnState()
    for _ in range(4):
        seen = data.draw(st.dictionaries(st.sampled_from(COLUMNS), st.none() | kind))
        after = state.advance(seen, NOW)
        for column, before in state.values.items():
            now = after.values[column]
            assert before is None or (now is not None and not is_above(before, now))
        for column, value in seen.items():
            now = after.values[column]
            assert value is None or (now is not None and not is_above(value, now))
        state = after


@settings(deadline=None)
@given(st.lists(st.tuples(tiny, tiny) | st.just((None, None)), max_size=5))
def test_a_cursor_never_goes_backwards(found: list[tuple[int | None, int | None]]) -> None:
    state = ColumnState()
    for number, seen in enumerate(found):
        state = state.advance_cursor(COLUMNS, dict(zip(COLUMNS, seen, strict=True)), NOW)
        known = [each for each in found[: number + 1] if None not in each]
        assert tuple(state.values[each] for each in COLUMNS) == max(known, default=(None, None))  # type: ignore[type-var]  # numbers


def as_values(row: Row) -> dict[str, Value | None]:
    return dict(zip(COLUMNS, row[1:], strict=True))


@dataclass
class World:
    """A source to which rows are added at any moment, and the table that gets them by an append."""

    data: st.DataObject
    source: ColumnSource
    state: ColumnState | None = None
    rows: list[Row] = field(default_factory=list)
    table: Counter[Row] = field(default_factory=Counter)

    def add_later(self) -> None:
        """More rows, as a source adds them that only grows."""
        for first, second in self.data.draw(st.lists(st.tuples(st.none() | small, st.none() | small), max_size=4)):
            row = (len(self.rows), first, second)
            if self.may_come(row):
                self.rows.append(row)

    def may_come(self, row: Row) -> bool:
        """Whether a column of the row lies above all that was read by it; of a cursor, all columns together."""
        state = self.state or ColumnState()
        _, *found = row
        if self.source.mode is WatermarkMode.ANY:
            levels = [(state.values.get(each), each in state.inclusive) for each in COLUMNS]
            return any(
                value is not None and (level is None or is_above(value, level) or (inclusive and value == level))
                for value, (level, inclusive) in zip(found, levels, strict=True)
            )
        read = [list(each[1:]) for each in self.table]
        low = state.values.get("a") if state.inclusive else 0
        return None not in found and found > max(read, default=[-1]) and found >= [low]

    def found(self, rows: RowFilter) -> list[Row]:
        return [row for row in self.rows if matches(rows, as_values(row))]

    def greatest(self, rows: RowFilter) -> dict[str, Value | None]:
        found = self.found(rows)
        if self.source.mode is WatermarkMode.TUPLE:
            whole = [row[1:] for row in found if None not in row]
            top = max(whole, default=(None, None), key=lambda each: (each[0] or 0, each[1] or 0))
            return dict(zip(COLUMNS, top, strict=True))
        return {
            column: max((value for row in found if (value := as_values(row)[column]) is not None), default=None)
            for column in COLUMNS
        }

    def run(self, *, is_last: bool = False) -> None:
        """A run, with rows that come between the question how far the source goes and the read."""
        plan = plan_columns("p", self.source, Load(), self.state, 0, NOW)
        seen = self.greatest(plan.reads)
        end = fix_bounds(plan, self.state, seen)
        if not is_last:
            self.add_later()
        if not end.nothing:
            self.table.update(self.found(end.rows))
            self.state = end.state
            if self.source.mode is WatermarkMode.TUPLE:
                assert max(row[1:] for row in self.table) == tuple(end.state.values[each] for each in COLUMNS)

    def replay(self) -> None:
        """A replay from below the watermark to above it, after which production goes on at its end."""
        state = self.state or ColumnState()
        levels = [state.values.get(each) for each in chunk_columns(self.source, None)]
        stored = [each for each in levels if isinstance(each, int)]
        low = 0 if len(stored) < len(levels) else min(stored)
        top = max([0, *stored])
        ends = {value for row in self.rows for value in row[1:] if value is not None and value > top} or {top + 1}
        start, end = self.data.draw(st.integers(-1, low)), self.data.draw(st.sampled_from(sorted(ends)))
        replay = ReplayConfig(start, end, {"step": self.data.draw(st.integers(1, 4))}, save_watermark=True)
        check_handover("p/s", self.source, Load(), self.state, replay, skip_gap=len(stored) < len(levels))
        for chunk in replay.chunks():
            plan = plan_columns("p", self.source, Load(), self.state, 0, NOW, chunk=chunk)
            window = fix_bounds(plan, self.state, {}).rows
            for row in [row for row in self.table if matches(window, as_values(row))]:
                del self.table[row]
            self.table.update(self.found(window))
        self.state = hand_over(self.source, self.state, None, replay.end, NOW)


@settings(deadline=None, max_examples=examples(150))
@given(st.data(), st.sampled_from(WatermarkMode))
def test_every_row_is_read_exactly_once_whatever_comes_between(data: st.DataObject, mode: WatermarkMode) -> None:
    world = World(data, ColumnSource("s", FunctionRead("m:f"), COLUMNS, mode))
    for _ in range(data.draw(st.integers(1, 4))):
        world.add_later()
        world.run()
    world.run(is_last=True)
    assert world.table == Counter(world.rows)


@settings(deadline=None, max_examples=examples(150))
@given(st.data(), st.sampled_from(WatermarkMode))
def test_every_row_is_there_once_after_a_replay_and_the_runs_that_follow(
    data: st.DataObject, mode: WatermarkMode
) -> None:
    world = World(data, ColumnSource("s", FunctionRead("m:f"), COLUMNS, mode))
    for step in data.draw(st.lists(st.sampled_from([World.add_later, World.run]), max_size=4)):
        step(world)
    world.add_later()
    world.replay()
    for _ in range(2):
        world.add_later()
        world.run()
    world.run(is_last=True)
    assert world.table == Counter(world.rows)


@settings(deadline=None, max_examples=examples(100))
@given(st.data(), st.booleans())
def test_rows_that_are_late_by_less_than_the_safety_lag_are_read_once(data: st.DataObject, is_naive: bool) -> None:
    lag = timedelta(hours=3)
    source = ColumnSource("s", FunctionRead("m:f"), ("u",), safety_lag=lag, source_timezone="Asia/Tokyo")
    zone = timedelta(hours=9) if is_naive else timedelta()
    state: ColumnState | None = None
    rows: list[datetime] = []
    table = Counter[datetime]()
    now = NOW
    for _ in range(5):
        for hours in data.draw(st.lists(st.integers(1, 5), max_size=3)):
            moment = now - lag + timedelta(hours=hours, microseconds=len(rows))
            rows.append((moment + zone).replace(tzinfo=None) if is_naive else moment)
        now += timedelta(hours=data.draw(st.integers(0, 4)))
        plan = plan_columns("p", source, Load(), state, 0, now)
        reads = [each for each in rows if matches(plan.reads, {"u": each})]
        end = fix_bounds(plan, state, {"u": max(reads, default=None)})
        found = [each for each in rows if matches(end.rows, {"u": each})]
        if found:
            table.update(found)
            state = end.state
        assert max(table.values(), default=1) == 1
        until = now - lag
        late = [each for each in rows if (each - zone).replace(tzinfo=UTC) <= until]
        assert set(late) <= set(table)


@settings(deadline=None, max_examples=examples(100))
@given(st.data())
def test_a_replaced_window_holds_what_the_source_holds_in_it(data: st.DataObject) -> None:
    load = Load(LoadType.MERGE_OVERWRITE, merge_keys=("id",), replace_by_watermark=True)
    source = ColumnSource("s", FunctionRead("m:f"), COLUMNS, look_back=LookBack(value=3))
    sources = st.dictionaries(st.integers(0, 6), st.tuples(st.none() | small, st.none() | small), max_size=6)
    state: ColumnState | None = None
    table: dict[int, tuple[int | None, int | None]] = {}
    for _ in range(3):
        world = World(data, source, rows=[(key, *found) for key, found in data.draw(sources).items()])
        plan = plan_columns("p", source, load, state, 0, NOW)
        seen = world.greatest(plan.reads)
        end = fix_bounds(plan, state, seen)
        if end.nothing:
            continue
        if end.window is not None and None not in plan.stored.values():
            tops = {each: greatest(plan.stored[each], seen[each]) for each in COLUMNS}
            assert [each.upper and each.upper.value for each in end.window.ranges] == list(tops.values())
        batch = {row[0]: row[1:] for row in world.found(end.rows)}
        window = end.window
        if window is not None:
            gone = [key for key, found in table.items() if matches(window, as_values((key, *found)))]
            table = {key: found for key, found in table.items() if key not in gone}
        table.update(batch)
        state = end.state
        if window is not None:
            assert {key: row for key, row in table.items() if matches(window, as_values((key, *row)))} == batch


bounds = st.builds(Bound, tiny, st.booleans())
ranges = st.builds(
    ColumnRange,
    st.just("a"),
    st.none() | bounds | bounds,
    st.none() | bounds,
    st.booleans(),
    st.sampled_from([False, False, False, True]),
)
cells = st.none() | tiny | tiny


@settings(deadline=None, max_examples=examples(300))
@given(
    st.lists(ranges, max_size=3),
    st.sampled_from(WatermarkMode),
    st.sampled_from(NullWatermark),
    st.lists(st.tuples(cells, cells, cells), min_size=8, max_size=12),
)
def test_a_database_finds_the_rows_that_match(
    parts: list[ColumnRange], mode: WatermarkMode, nulls: NullWatermark, rows: list[tuple[int | None, ...]]
) -> None:
    wanted = RowFilter(tuple(replace(each, column=f"c {n}") for n, each in enumerate(parts)), mode, nulls)
    assert found_by_database(wanted, rows, rows) == found_by_hand(wanted, rows)


@settings(deadline=None, max_examples=examples(200))
@given(
    st.sampled_from([texts, awkward, near, moments, aware, st.dates(), clocks, st.integers(-(2**62), 2**62), floats]),
    st.data(),
)
def test_a_database_understands_values_of_every_kind(kind: st.SearchStrategy[Value], data: st.DataObject) -> None:
    rows = data.draw(st.lists(kind, min_size=1, max_size=6))
    low, high = Bound(data.draw(kind), data.draw(st.booleans())), Bound(data.draw(kind), data.draw(st.booleans()))
    wanted = RowFilter((ColumnRange("c 0", low, high),))
    cells = [(each,) for each in rows]
    assert found_by_database(wanted, [(_stored(each),) for each in rows], cells) == found_by_hand(wanted, cells)


def _stored(value: Value) -> object:
    """The value as a database without such types keeps it."""
    return DIALECTS["sqlite"].literal(value).strip("'") if isinstance(value, date | time) else value


def found_by_hand(wanted: RowFilter, rows: Iterable[Sequence[Value | None]]) -> list[int]:
    return [
        number for number, row in enumerate(rows) if matches(wanted, {f"c {n}": each for n, each in enumerate(row)})
    ]


def found_by_database(
    wanted: RowFilter, stored: Sequence[Sequence[object]], rows: Sequence[Sequence[object]]
) -> list[int]:
    text = predicate(wanted, DIALECTS["sqlite"])
    width = len(rows[0])
    database = sqlite3.connect(":memory:")
    try:
        columns = ", ".join(f'"c {n}"' for n in range(width))
        database.execute(f"CREATE TABLE t (number, {columns})")
        marks = ", ".join("?" * (width + 1))
        database.executemany(f"INSERT INTO t VALUES ({marks})", [(n, *row) for n, row in enumerate(stored)])
        where = "" if text is None else f"WHERE {text}"
        return [number for (number,) in database.execute(f"SELECT number FROM t {where} ORDER BY number")]
    finally:
        database.close()


@st.composite
def grids(draw: st.DrawFn) -> tuple[Value, Value, ChunkInterval]:
    unit = draw(st.sampled_from(UNITS))
    size = draw(st.integers(1, 40))
    if unit == "step":
        number = st.sampled_from([st.integers(-500, 500), st.decimals(-50, 50, places=2), st.floats(-50, 50)])
        start, end = (draw(number_of) for number_of in [draw(number)] * 2)
    else:
        days = st.datetimes(datetime(2023, 1, 1), datetime(2027, 12, 31))
        form = draw(st.sampled_from(["naive", "aware", "date"]))
        if form == "date" and unit not in ("minutes", "hours"):
            start, end = draw(days).date(), draw(days).date()
        else:
            zone = UTC if form == "aware" else None
            start = draw(days).replace(tzinfo=zone)
            reach = timedelta(days=3) if unit in ("minutes", "hours") else timedelta(days=900)
            end = start + draw(st.timedeltas(timedelta(microseconds=1), reach))
    assume(start != end)
    return min(start, end), max(start, end), ChunkInterval(unit, size)


LONGEST = {
    "step": 1.0,
    "minutes": 60,
    "hours": 3600,
    "days": 1 * DAY,
    "weeks": 7 * DAY,
    "months": 31 * DAY,
    "years": 366 * DAY,
}


def length(chunk: Chunk) -> float:
    """How far the ends are apart, in seconds where they are times."""
    low: Any = chunk.low
    far = chunk.high - low
    return far.total_seconds() if isinstance(far, timedelta) else float(far)


@settings(deadline=None, max_examples=examples(200))
@given(grids(), st.data())
def test_chunks_cover_everything_once(grid: tuple[Value, Value, ChunkInterval], data: st.DataObject) -> None:
    start, end, interval = grid
    found = chunks(start, end, interval)
    assert (found[0].low, found[-1].high) == (start, end)
    assert all(is_above(each.high, each.low) for each in found)
    assert all(one.high == other.low for one, other in pairwise(found))
    assert not any(is_above(length(each), LONGEST[interval.unit] * int(interval.size)) for each in found)
    finished = data.draw(st.sets(st.sampled_from(found)))
    numbers = frozenset(number for number, each in enumerate(found) if each in finished)
    reached = ReplayState("column", start, end, interval, numbers).reached
    covered = [each for each in found if reached is not None and not is_above(each.high, reached)]
    assert set(covered) <= finished
    assert len(covered) == len(found) or found[len(covered)] not in finished


look_backs = st.builds(
    LookBack,
    st.integers(0, 800),
    st.integers(0, 800),
    st.integers(0, 30),
    st.integers(0, 5),
    st.none() | st.integers(1, 31),
    st.integers(1, 99) | st.decimals(Decimal("0.01"), 50, places=2),
    st.sampled_from(["UTC", "Asia/Tokyo", "America/New_York"]),
)


@settings(deadline=None)
@given(
    st.one_of(st.integers(), floats, st.decimals(-(10**30), 10**30, places=4), moments, aware, st.dates()),
    look_backs,
    st.sampled_from(["UTC", "Europe/Berlin"]),
)
def test_look_back_never_begins_above_the_stored_value_and_keeps_its_kind(
    stored: Value, look_back: LookBack, zone: str
) -> None:
    if isinstance(stored, date):
        look_back = replace(look_back, days=look_back.days + 1)
    low = lower(stored, look_back, NOW, zone)
    assert kind_of(low) == kind_of(stored)
    assert not is_above(low, stored)
    assert greatest(low, stored) == stored
    if isinstance(stored, float) and isinstance(low, float):
        assert low == -sys.float_info.max or Fraction(low) <= Fraction(stored) - Fraction(look_back.value)
