"""Traps that have lost or doubled rows elsewhere, each against a real database: an append must get every row once."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from support.errors import raises
from tidegate.core.columns.planner import fix_bounds, plan_columns
from tidegate.core.columns.predicates import RowFilter, predicate
from tidegate.core.columns.replay import ReplayConfig, check_handover, hand_over
from tidegate.core.columns.state import ColumnState
from tidegate.core.dialects.dialect import SPARK
from tidegate.core.dialects.registry import DIALECTS
from tidegate.errors import WatermarkError
from tidegate.specs.columns import ColumnSource, FunctionRead, Load, LoadType, LookBack, NullWatermark, WatermarkMode

NOW = datetime(2026, 3, 8, 12, tzinfo=UTC)
APPEND = Load()
WINDOW = Load(LoadType.MERGE_OVERWRITE, merge_keys=("id",), replace_by_watermark=True)


def nothing_happens() -> None:
    pass


class Shop:
    """A table of a database, and what runs have appended of it so far."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self.appended: list[int] = []
        self.state: ColumnState | None = None

    def add(self, *rows: tuple[Any, ...]) -> None:
        self._database.executemany("INSERT INTO orders VALUES (?, ?, ?)", rows)

    def execute(self, statement: str) -> None:
        self._database.execute(statement)

    def run(
        self, source: ColumnSource, load: Load = APPEND, between: Callable[[], None] = nothing_happens
    ) -> list[int]:
        """The ids that one run reads; ``between`` happens after its end was fixed."""
        plan = plan_columns("shop", source, load, self.state, 1, NOW)
        end = fix_bounds(plan, self.state, self.greatest(plan.reads))
        between()
        found = [] if end.nothing else self.ids(end.rows)
        if found:
            self.appended += found
            self.state = end.state
        return found

    def ids(self, rows: RowFilter) -> list[int]:
        return [found for (found,) in self._database.execute(f"SELECT id FROM orders{where(rows)} ORDER BY id")]

    def greatest(self, rows: RowFilter) -> dict[str, Any]:
        names = [DIALECTS["sqlite"].quote(each) for each in rows.columns]
        if rows.mode is WatermarkMode.TUPLE:
            order = ", ".join(f"{name} DESC" for name in names)
            query = f"SELECT {', '.join(names)} FROM orders{where(rows)} ORDER BY {order} LIMIT 1"
        else:
            query = f"SELECT {', '.join(f'max({name})' for name in names)} FROM orders{where(rows)}"
        found = self._database.execute(query).fetchone() or (None,) * len(names)
        return dict(zip(rows.columns, found, strict=True))


def where(rows: RowFilter) -> str:
    text = predicate(rows, DIALECTS["sqlite"])
    return "" if text is None else f" WHERE {text}"


def source(*columns: str, **changes: Any) -> ColumnSource:
    return ColumnSource("orders", FunctionRead("shop:orders"), watermark_columns=columns, **changes)


@pytest.fixture
def shop() -> Iterator[Shop]:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE orders (id, created, modified)")
    yield Shop(database)
    database.close()


BOTH = source("created", "modified")


def test_boundary_rows_after_a_replay_are_read_once(shop: Shop) -> None:
    given = source("created")
    shop.add((1, 5, None), (2, 9, None), (3, 9, None))
    replay = ReplayConfig(0, 9, save_watermark=True)
    (chunk,) = replay.chunks()
    plan = plan_columns("shop", given, APPEND, None, 1, NOW, chunk=chunk)
    shop.appended += shop.ids(fix_bounds(plan, None, {}).rows)
    shop.state = hand_over(given, None, None, 9, NOW)
    assert shop.appended == [1]
    assert shop.run(given) == [2, 3]
    assert shop.run(given) == []
    shop.add((4, 10, None))
    assert shop.run(given) == [4]


def test_a_replay_does_not_jump_over_rows_never_read() -> None:
    for state in (None, ColumnState({"created": 4})):
        with raises(WatermarkError, "created", "5", "--skip-gap"):
            check_handover("shop/orders", source("created"), APPEND, state, ReplayConfig(5, 9, save_watermark=True))


def test_a_second_column_that_was_never_stored_loses_and_doubles_nothing(shop: Shop) -> None:
    shop.add((1, 5, None), (2, 6, None))
    assert shop.run(BOTH) == [1, 2]
    shop.add((3, 3, 1))
    assert shop.run(BOTH) == [3]
    shop.add((4, 2, 2), (5, 7, None))
    assert shop.run(BOTH) == [4, 5]
    assert shop.run(BOTH) == []


def test_a_value_that_appears_in_an_empty_column_during_a_run_is_read_once(shop: Shop) -> None:
    shop.add((1, 5, None))
    assert shop.run(BOTH, between=lambda: shop.add((2, 4, 1))) == [1]
    assert shop.run(BOTH) == [2]
    assert shop.run(BOTH) == []


def test_a_column_added_later_is_no_reason_to_append_everything_again(shop: Shop) -> None:
    shop.add((1, 5, 1), (2, 6, 2))
    assert shop.run(source("created")) == [1, 2]
    with raises(WatermarkError, "modified", "watermark_columns", "tidegate watermark set"):
        shop.run(BOTH)


def test_caps_across_or_double_nothing(shop: Shop) -> None:
    shop.add((1, 1, 1), (2, 5, 5))
    late = (3, 3, 9)
    assert shop.run(BOTH, between=lambda: shop.add(late)) == [1, 2]
    assert shop.run(BOTH) == [3]
    assert shop.run(BOTH) == []


def test_a_filter_with_or_does_not_let_old_rows_through(shop: Shop) -> None:
    given = source("created", filter_expression="id = 1 OR id = 2")
    shop.add((1, 1, None), (2, 2, None), (3, 3, None))
    assert shop.run(given) == [1, 2]
    shop.add((1, 4, None))
    assert shop.run(given) == [1]
    assert shop.run(given) == []


def test_a_column_that_moves_backwards_does_not_take_the_watermark_along(shop: Shop) -> None:
    shop.add((1, 9, 1))
    shop.run(BOTH)
    shop.execute("UPDATE orders SET created = 2, modified = 3")
    assert shop.run(BOTH) == [1]
    assert shop.state is not None
    assert shop.state.values == {"created": 9, "modified": 3}
    assert shop.run(BOTH) == []


def test_decimals_are_exact(shop: Shop) -> None:
    low = Decimal("12345678901234567890.1234567891")
    state = ColumnState.of_text(ColumnState({"created": low}).serialize())
    plan = plan_columns("shop", source("created"), APPEND, state, 1, NOW)
    high = Decimal("12345678901234567890.1234567892")
    end = fix_bounds(plan, state, {"created": high})
    assert predicate(end.rows, DIALECTS["postgresql"]) == f'"created" > {low} AND "created" <= {high}'


@pytest.mark.parametrize("moment", [datetime(2026, 3, 29, 2, 30), datetime(2026, 3, 29, 2, 30, tzinfo=UTC)])
def test_the_zone_of_the_machine_changes_nothing(moment: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    given = source(
        "u",
        look_back=LookBack(closing_day=10),
        safety_lag=timedelta(hours=1),
        future_tolerance=None,
        source_timezone="Europe/Berlin",
    )
    found = set()
    try:
        for zone in ("UTC", "America/New_York", "Asia/Tokyo", "Europe/Berlin"):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            state = ColumnState.of_text(ColumnState({"u": moment}).serialize())
            plan = plan_columns("shop", given, Load(LoadType.MERGE_UPSERT), state, 1, NOW)
            end = fix_bounds(plan, state, {"u": moment + timedelta(microseconds=1)})
            found.add(
                (end.state.serialize(), *(predicate(end.rows, dialect) for dialect in (SPARK, *DIALECTS.values())))
            )
    finally:
        monkeypatch.undo()
        time.tzset()
    assert len(found) == 1


def test_a_time_that_gets_or_loses_its_zone_stops_the_run() -> None:
    state = ColumnState({"u": datetime(2026, 3, 8)})
    plan = plan_columns("shop", source("u"), APPEND, state, 1, NOW)
    with raises(
        WatermarkError,
        "'u'",
        "2026-03-08 12:00:00+00:00 (a time with a zone)",
        "2026-03-08 00:00:00 (a time without a zone)",
    ):
        fix_bounds(plan, state, {"u": NOW})


def test_after_months_of_silence_no_month_is_left_out_by_closing_day(shop: Shop) -> None:
    given = source("created", look_back=LookBack(closing_day=10))
    load = Load(LoadType.MERGE_UPSERT, merge_keys=("id",))
    state = ColumnState({"created": date(2025, 11, 5)})
    shop.add((1, "2025-11-04", None), (2, "2025-11-20", None), (3, "2025-12-24", None), (4, "2026-03-01", None))
    assert shop.ids(plan_columns("shop", given, load, state, 1, NOW).reads) == [2, 3, 4]


def test_numbers_as_text_are_refused_before_anything_is_read(shop: Shop) -> None:
    shop.add((1, "9", None), (2, "10", None))
    with raises(WatermarkError, "'created'", "'9'", "numbers"):
        shop.run(source("created"))


def test_a_number_that_became_text_is_refused(shop: Shop) -> None:
    shop.add((1, 9, None))
    shop.run(source("created"))
    shop.execute("UPDATE orders SET created = 'A10'")
    with raises(WatermarkError, "'created'", "A10 (text)", "9 (a whole number)"):
        shop.run(source("created"))


def test_dates_are_not_mixed_with_times() -> None:
    state = ColumnState({"u": NOW})
    with raises(WatermarkError, "0001-01-01 (a date)", "'u'", "chunk_column"):
        plan_columns("shop", source("u"), APPEND, state, 1, NOW, chunk=ReplayConfig(date.min, date.max).chunks()[0])
    plan = plan_columns("shop", source("u"), APPEND, state, 1, NOW)
    with raises(WatermarkError, "'u'", "2026-03-08 (a date)", "2026-03-08 12:00:00+00:00"):
        fix_bounds(plan, state, {"u": NOW.date()})


def test_rows_without_a_watermark_are_left_out_or_read_each_time_but_never_hide_others(shop: Shop) -> None:
    shop.add((1, None, None), (2, 5, None), (3, None, 5))
    assert shop.run(BOTH) == [2, 3]
    assert shop.run(BOTH) == []
    merging = source("created", "modified", null_watermark=NullWatermark.INCLUDE)
    shop.add((4, None, 9))
    load = Load(LoadType.MERGE_UPSERT, merge_keys=("id",))
    assert shop.run(merging, load) == [1, 4]
    assert shop.run(merging, load) == [1]


def test_a_cursor_reads_rows_of_one_moment_one_after_the_other(shop: Shop) -> None:
    given = source("created", "id", mode=WatermarkMode.TUPLE)
    shop.add((1, 5, None), (2, 5, None), (9, 4, None))
    assert shop.run(given) == [1, 2, 9]
    shop.add((3, 5, None))
    assert shop.run(given, between=lambda: shop.add((4, 5, None))) == [3]
    shop.add((1, 6, None))
    assert shop.run(given) == [1, 4]
    assert shop.run(given) == []


def test_the_last_rows_of_a_window_may_have_been_deleted() -> None:
    given = source("day", look_back=LookBack(days=7))
    state = ColumnState({"day": date(2026, 3, 8)})
    end = fix_bounds(plan_columns("shop", given, WINDOW, state, 1, NOW), state, {"day": date(2026, 3, 3)})
    assert end.window is not None
    assert predicate(end.window, SPARK) == "`day` >= DATE '2026-03-01' AND `day` <= DATE '2026-03-08'"
    assert end.state.values == {"day": date(2026, 3, 8)}


def test_an_overwrite_with_a_watermark_does_not_shrink_the_table(shop: Shop) -> None:
    load = Load(LoadType.OVERWRITE)
    shop.add((1, 1, None), (2, None, None))
    assert shop.run(source("created"), load) == [1, 2]
    shop.add((3, 3, None))
    assert shop.run(source("created"), load) == [1, 2, 3]
    assert shop.run(source("created"), APPEND) == []


def test_a_damaged_state_is_never_a_first_run() -> None:
    for text in ("{oops", '{"u": {"__datetime__": "yesterday"}}', "[]"):
        with pytest.raises(WatermarkError):
            ColumnState.of_text(text)
