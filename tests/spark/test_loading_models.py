"""Load strategies against models of a few lines: many keys at once, with nulls, repeats and late rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from spark.loaded_tables import LoadedTable, at, window
from tidegate.specs.columns import Load, LoadType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Row = tuple[int | None, int | None, str | None]


def some_rows(chance: Random, count: int, low: int, high: int) -> list[Row]:
    """Rows of about as many keys, some null, each with a value of the watermark column."""
    keys = [*range(count), None]
    return [(chance.choice(keys), chance.randint(low, high), chance.choice(["a", "b", None])) for _ in range(count)]


def ordered(rows: Iterable[Sequence[Any]]) -> list[list[tuple[bool, Any]]]:
    """Rows in one order, whatever is null in them."""
    return sorted([(value is not None, value if value is not None else 0) for value in row] for row in rows)


def test_a_window_and_the_keys_that_come_are_replaced(spark: SparkSession, tmp_path: Path) -> None:
    chance = Random(20260101)
    load = Load(LoadType.MERGE_OVERWRITE, merge_keys=("id",), replace_by_watermark=True, max_delete_fraction=1.0)
    table = LoadedTable(spark, tmp_path, load)
    before = [*some_rows(chance, 200, 1, 100), (7, None, "no watermark")]
    came = some_rows(chance, 60, 50, 90)
    table.load(before)
    table.load(came, window=window(u=(50, 90)))
    keys = {row[0] for row in came}
    kept = [row for row in before if row[0] not in keys and not (row[1] is not None and 50 <= row[1] <= 90)]
    assert 20 < len(kept) < len(before)
    assert ordered(table.rows()) == ordered([*kept, *came])


def test_an_upsert_keeps_the_latest_row_of_each_key(spark: SparkSession, tmp_path: Path) -> None:
    chance = Random(7)
    table = LoadedTable(spark, tmp_path, Load(LoadType.MERGE_UPSERT, merge_keys=("id",)))
    expected: dict[int | None, Row] = {}
    for low in (1, 1000):
        numbers = chance.sample(range(low, low + 500), 150)
        batch = [(key, number, v) for (key, _, v), number in zip(some_rows(chance, 150, 0, 0), numbers, strict=True)]
        table.load(batch)
        expected |= {row[0]: row for row in sorted(batch, key=lambda row: row[1])}
    assert ordered(table.rows()) == ordered(expected.values())


def test_a_history_says_at_any_time_what_was_last_told_before(spark: SparkSession, tmp_path: Path) -> None:
    """Each version says what holds from its day on, in whatever order they come; and twice the same changes nothing."""
    chance = Random(42)
    table = LoadedTable(spark, tmp_path, Load(LoadType.SCD2, merge_keys=("id",)))
    known: dict[int, dict[int, str | None]] = {}
    for _ in range(2):
        days = {(key, chance.randint(1, 28)) for key in range(60) for _ in range(chance.randint(0, 4))}
        batch = [(key, day, chance.choice(["a", "b", None])) for key, day in sorted(days)]
        for key in {key for key, _, _ in batch}:
            arrived = {day: value for each, day, value in batch if each == key}
            known[key] = history_after(known.get(key, {}), arrived)
        rows = [(key, at(day), value) for key, day, value in batch]
        table.load(rows, "id bigint, u timestamp, v string")
        assert ordered(kept(table)) == ordered(told(known))
    table.load(rows, "id bigint, u timestamp, v string")
    assert ordered(kept(table)) == ordered(told(known))
    assert "add" not in table.log()[-1]


def history_after(known: dict[int, str | None], arrived: dict[int, str | None]) -> dict[int, str | None]:
    """Value by day: all that is known, and of what arrived what differs from the day before it."""
    line = sorted((known | arrived).items())
    before = [None, *line[:-1]]
    return {
        day: value
        for (day, value), previous in zip(line, before, strict=True)
        if day in known or previous is None or previous[1] != value
    }


def told(known: dict[int, dict[int, str | None]]) -> Iterator[tuple[Any, ...]]:
    """Key, value, first day, the first day of the next version, whether there is none."""
    for key, versions in known.items():
        days = sorted(versions)
        for since, until in zip(days, [*days[1:], None], strict=True):
            yield key, versions[since], since, until, until is None


def kept(table: LoadedTable) -> Iterable[Sequence[Any]]:
    """The same of the table."""
    found = table.rows("id", "v", "__valid_from", "__valid_to", "__is_current")
    return [(key, v, since.day, until and until.day, last) for key, v, since, until, last in found]
