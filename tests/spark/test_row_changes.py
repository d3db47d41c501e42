"""What commits say about rows, and rows that the table has already: they are not written again."""

from __future__ import annotations

import signal
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark.loaded_tables import LoadedTable, at, window
from support import attached
from support.column_loads import LOOK_BACK, UPSERT, go, lake_of, row, table
from tidegate import run
from tidegate.observe import events
from tidegate.observe.metrics import Metrics
from tidegate.protocol.position import Position
from tidegate.specs.columns import Load, LoadType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from support.column_lake import ColumnLake

pytestmark = pytest.mark.spark

BY_ID = Load(LoadType.MERGE_UPSERT, merge_keys=("id",))
MOMENT = datetime(2026, 1, 1, 12, 0, 0, 123456, UTC)


def counts(position: Position) -> tuple[int | None, ...]:
    """Inserted, updated, deleted, unchanged."""
    changes = position.changes
    return changes.inserted, changes.updated, changes.deleted, changes.unchanged


def versions(lake: ColumnLake) -> int:
    return len(list((lake.root / "lake" / "orders" / "_delta_log").glob("*.json")))


def test_equal_rows_are_left_alone_whatever_their_types(spark: SparkSession, tmp_path: Path) -> None:
    """Null equals null, NaN equals NaN, 0.0 equals -0.0; maps have no order, and a microsecond in one is a change."""
    columns = (
        "id bigint, u bigint, d double, f float, s struct<a: int, b: string>, l array<struct<n: int>>, "
        "m map<string, timestamp>, deep array<map<string, map<int, string>>>, raw binary, `odd.name` string"
    )

    def value(number: int | None, **other: Any) -> tuple[Any, ...]:
        record: dict[str, Any] = {
            "d": float("nan"),
            "f": -0.0,
            "s": (1, None),
            "l": [(1,), (None,), None],
            "m": {"a": MOMENT, "b": None},
            "deep": [{"x": {1: "one", 2: None}}, None],
            "raw": b"\x00",
            "odd": None,
        }
        return (number, 1, *(record | other).values())

    table = LoadedTable(spark, tmp_path, BY_ID)
    assert counts(table.load([value(number) for number in (None, *range(1, 10))], columns)) == (10, 0, 0, 0)
    changed: list[tuple[Any, ...]] = [
        value(1, d=None),
        value(2, f=0.0),
        value(3, s=(1, "b")),
        value(4, l=[(1,), (None,)]),
        value(5, m={"b": None, "a": MOMENT}),
        value(6, m={"a": MOMENT.replace(microsecond=123457), "b": None}),
        value(7, deep=[{"x": {2: None, 1: "uno"}}, None]),
        value(8, raw=b""),
        value(9, odd=""),
        value(None),
    ]
    assert counts(table.load(changed, columns)) == (0, 7, 0, 3)
    assert counts(table.load(changed, columns)) == (0, 0, 0, 10)
    assert "add" not in table.log()[-1]
    seen = {record["id"]: record for record in table.spark.read.format("delta").load(str(table.path)).collect()}
    assert (seen[1]["d"], seen[3]["s"]["b"], seen[7]["deep"][0]["x"][1], seen[9]["odd.name"]) == (None, "b", "uno", "")


def test_a_value_in_a_new_column_or_field_is_a_change_and_a_null_is_none(spark: SparkSession, tmp_path: Path) -> None:
    table = LoadedTable(spark, tmp_path, BY_ID)
    table.load([(1, 1, ("a", 1)), (2, 1, ("b", 2)), (3, 1, None)], "id bigint, u bigint, s struct<v: string, n: int>")
    wider = "id bigint, u bigint, s struct<v: string, more: int>, extra int"
    batch = [(1, 1, ("a", None), None), (2, 1, ("b", 5), None), (3, 1, None, 7)]
    # Row 1 has lost its field n, row 2 has a value in a new field, row 3 one in a new column.
    assert counts(table.load(batch, wider)) == (0, 3, 0, 0)
    assert table.columns == ["id", "u", "s", "extra"]
    assert counts(table.load(batch[2:], wider)) == (0, 0, 0, 1)
    # What the rows do not bring stays, and a narrower type has the same values.
    assert counts(table.load([(3, 1)], "id bigint, u int")) == (0, 0, 0, 1)


def test_only_files_with_changed_rows_are_written_anew(spark: SparkSession, tmp_path: Path) -> None:
    table = LoadedTable(spark, tmp_path, BY_ID)
    table.load([(number, 1, "a") for number in range(5)])
    table.load([(number, 2, "b") for number in range(5, 10)])
    again = [(number, 1 + number // 5, "ab"[number // 5]) for number in range(9)]
    assert counts(table.load([*again, (9, 3, "new"), (10, 3, "new")])) == (1, 1, 0, 9)
    metrics = table.log()[-1]["commitInfo"]["operationMetrics"]
    assert metrics["numTargetFilesRemoved"] == "1"
    written = LoadedTable(spark, tmp_path / "all", replace(BY_ID, skip_unchanged=False))
    written.load([(1, 1, "a")])
    assert counts(written.load([(1, 1, "a")])) == (0, 1, 0, 0)


def test_repeated_and_older_rows_are_neither_inserted_nor_updated(spark: SparkSession, tmp_path: Path) -> None:
    table = LoadedTable(spark, tmp_path, BY_ID)
    assert counts(table.load([(1, 1, "a"), (1, 2, "b"), (2, 9, "c")])) == (2, 0, 0, 1)
    chunk = [(1, 2, "b"), (1, 1, "a"), (2, 2, "an older version"), (3, 3, "new")]
    assert counts(table.load(chunk, window=window(u=(1, 4)), chunk=True)) == (1, 0, 0, 3)
    table.foreign("insert into {} values (3, 3, 'twice')")
    assert counts(table.load([(3, 3, "new")])) == (0, 2, 0, 0)
    assert table.rows() == [(1, 2, "b"), (2, 9, "c"), (3, 3, "new"), (3, 3, "new")]


def test_a_commit_of_others_meanwhile_does_not_change_what_is_told(spark: SparkSession, tmp_path: Path) -> None:
    """The row that was equal when the batch was read is another one when it is loaded."""
    table = LoadedTable(spark, tmp_path, BY_ID)
    table.load([(1, 1, "a"), (2, 1, "b")])
    loaded = table.load(
        [(1, 1, "a"), (2, 1, "b")], meanwhile=lambda: table.foreign("update {} set v = 'other' where id = 1")
    )
    assert counts(loaded) == (0, 1, 0, 1)
    assert table.rows() == [(1, 1, "a"), (2, 1, "b")]


def test_every_way_to_load_says_what_it_did(spark: SparkSession, tmp_path: Path) -> None:
    def loaded(name: str, load: Load, *batches: list[tuple[Any, ...]], **settings: Any) -> tuple[int | None, ...]:
        table = LoadedTable(spark, tmp_path / name, load, watermarks=("t",))
        columns = "id bigint, t timestamp, v string"
        first, second = batches
        table.load(first, columns)
        return counts(table.load(second, columns, **settings))

    day = [at(number) for number in range(1, 9)]
    before = [(1, day[0], "a"), (2, day[1], "b"), (3, day[2], "c")]
    keys = {"merge_keys": ("id",)}
    versions = Load(LoadType.SCD2, **keys)
    assert loaded("scd2", versions, before, [(1, day[0], "a"), (2, day[4], "B")]) == (1, 1, 0, None)
    replacing = Load(LoadType.MERGE_OVERWRITE, **keys, replace_by_watermark=True)
    part = window(t=(day[1], day[5]))
    assert loaded("window", replacing, before, [(2, day[1], "b"), (4, day[4], "d")], window=part) == (2, 0, 2, None)
    once = Load(deduplicate=("id",))
    assert loaded("once", once, before, [(3, day[2], "c"), (4, day[4], "d")]) == (1, 0, 0, 1)
    assert loaded("chunk", Load(), before, [(3, day[2], "c")], window=part, chunk=True) == (1, 0, 2, 0)
    assert loaded("all", Load(LoadType.OVERWRITE), before, [(3, day[2], "c")]) == (1, 0, None, 0)
    assert loaded("append", Load(), before, [(3, day[2], "c")]) == (1, 0, 0, 0)


@pytest.mark.parametrize("load", ["merge_upsert", "scd2", "deduplicate"])
def test_a_look_back_that_finds_nothing_new_makes_no_version(spark: SparkSession, tmp_path: Path, load: str) -> None:
    lake = lake_of(tmp_path, "append" if load == "deduplicate" else load)
    if load == "deduplicate":
        lake.sink_settings = {"deduplicate": ["id"]}
    lake.source_settings = LOOK_BACK
    lake.arrive(row(1, 0), row(2, 1), row(3, 5), row(4, 5))
    assert (go(lake).inserted, versions(lake)) == (4, 1)
    seen: list[events.Event] = []
    metrics = Metrics()
    (source,) = run(lake.config, emit=lambda event: (seen.append(event), metrics(event))).sources
    assert (source.state, source.rows, source.commits, versions(lake)) == ("Idle", 0, 0, 1)
    assert (source.inserted, source.updated, source.deleted, source.unchanged) == (0, 0, 0, 2)
    assert [event for event in seen if isinstance(event, events.RowsUnchanged | events.Committed)] == [
        events.RowsUnchanged("orders", "default", 2)
    ]
    (family,) = (each for each in metrics.families() if each.metric.name == "row_changes_total")
    assert family.values["orders", "default", "unchanged"] == 2
    assert not list((lake.root / "lake" / "orders" / "_tidegate").glob("orders/default/work/**/*.parquet"))
    lake.arrive(row(5, 6))
    assert (go(lake).inserted, versions(lake)) == (1, 2)


def test_a_watermark_that_moves_is_committed_without_rows(spark: SparkSession, tmp_path: Path) -> None:
    """A row changed below the watermark, then one whose key the table has with the same values but its time."""
    lake = lake_of(tmp_path, "merge_upsert")
    lake.arrive(row(1, 0), row(2, 5))
    go(lake)
    lake.rows = [row(1, 0), row(2, 5, "changed")]
    lake.save()
    source = go(lake)
    assert (source.rows, source.commits, source.inserted, source.updated, source.unchanged) == (1, 1, 0, 1, 0)
    lake.sink_settings = {**UPSERT, "skip_unchanged": False}
    before = versions(lake)
    source = go(lake)
    assert (source.commits, source.updated, source.unchanged, versions(lake)) == (1, 1, 0, before + 1)
    assert table(lake) == [(1, "new"), (2, "changed")]


@pytest.mark.slow
def test_changes_are_told_by_the_run_that_made_the_commit_and_not_again(spark: SparkSession, tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "merge_upsert")
    lake.arrive(row(1, 0), row(2, 5))
    go(lake)
    lake.arrive(row(3, 5))
    process = attached.start_run(spark, lake.config, "state.commit.after=kill")
    assert process.wait() == -signal.SIGKILL, process.output
    before = versions(lake)
    source = go(lake)
    assert (source.inserted, source.updated, source.unchanged, source.commits) == (0, 0, 2, 0)
    assert versions(lake) == before
