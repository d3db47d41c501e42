"""A database that changes under a pipeline: wider types, columns that go, tables that are emptied."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from servers import postgres as postgres_server
from support.errors import raises
from support.long_runs import chosen
from support.shop import Shop
from tidegate import doctor, plan, run, set_watermark, status, widen_table
from tidegate.errors import WatermarkError
from tidegate.observe.events import RowsLeftOut
from tidegate.observe.logs import sentence
from tidegate.protocol.delta import query
from tidegate.specs.locations import Location
from tidegate.storage.options import absolute_uri

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

BY_ID = {"watermark_columns": ["id"]}


def test_a_column_that_became_wider_is_widened_in_the_table_and_the_run_goes_on(
    spark: SparkSession, postgres: postgres_server.Server, tmp_path: Path
) -> None:
    shop = Shop(postgres, tmp_path, "id int, amount numeric(6,2)", BY_ID)
    shop.execute("insert into orders values (1, 1.10)")
    assert shop.go() == 1
    shop.execute("alter table orders alter id type bigint")
    shop.execute("insert into orders values (5000000000, 2.20)")
    assert "`tidegate table widen` with --column id --type int64" in shop.refused()
    report = widen_table(shop.config, "orders", column="id", to="int64")
    assert (report.applied, report.rows) == (True, 1)
    assert shop.go() == 1
    assert shop.ids() == [1, 5000000000]
    assert shop.go() == 0


def test_a_safety_lag_on_a_sequence_stops_the_run_with_what_helps_instead(
    spark: SparkSession, postgres: postgres_server.Server, tmp_path: Path
) -> None:
    shop = Shop(postgres, tmp_path, "id int", {**BY_ID, "safety_lag": "PT15S"})
    shop.execute("insert into orders values (1)")
    assert "safety_lag has no effect on id, such as 1 (a whole number)" in shop.refused()
    shop.source = BY_ID
    assert shop.go() == 1
    shop.source = {**BY_ID, "safety_lag": "PT15S"}
    with raises(WatermarkError, "orders/default", "safety_lag", "id", "backward: {value: …}"):
        plan(shop.config)


def test_a_row_that_lies_ahead_waits_and_hides_no_other(
    spark: SparkSession, postgres: postgres_server.Server, tmp_path: Path
) -> None:
    shop = Shop(postgres, tmp_path, "id int, at timestamptz", {"watermark_columns": ["at"]})
    shop.execute("insert into orders values (1, now()), (2, '9999-12-31'), (3, now() + interval '2 days')")
    first = shop.run()
    assert (first.error, first.rows, first.skipped) == (None, 1, (("future", 2),))
    (told,) = [event for event in shop.seen if isinstance(event, RowsLeftOut)]
    assert "2 rows left out: future (at): later than" in sentence(told)
    shop.execute("insert into orders values (4, now())")
    assert shop.go() == 1
    shop.execute("update orders set at = now() where id = 3")
    assert shop.go() == 1
    assert shop.ids() == [1, 3, 4]
    shop.source = {"watermark_columns": ["at"], "future_tolerance": "none"}
    assert shop.go() == 1
    shop.source = {"watermark_columns": ["at"]}
    assert "the watermark of at is 9999-12-31" in shop.refused()
    with raises(WatermarkError, "orders/default", "at", "9999-12-31 00:00:00+00:00", "future_tolerance"):
        plan(shop.config)
    (found,) = status(shop.config)
    assert "the watermark of at is 9999-12-31" in " ".join(found.notes)
    assert any("the watermark of at is 9999-12-31" in check.detail for check in doctor(shop.config))
    now = datetime.now(UTC)
    set_watermark(shop.config, "orders", values={"at": now.isoformat()})
    shop.execute("insert into orders values (5, now())")
    assert shop.go() == 1
    assert shop.ids() == [1, 2, 3, 4, 5]


FAR = datetime(9999, 12, 31, tzinfo=UTC)
KINDS: dict[str, dict[str, Any]] = {
    "csv": {"type": "csv", "source_uri": "data"},
    "delta": {"type": "delta", "source_uri": "data"},
    "parquet": {"type": "parquet", "source_uri": "data"},
    "python": {"type": "python", "function": "support.shop:from_parquet"},
}


@pytest.mark.parametrize("kind", chosen(list(KINDS), "csv", "delta"))
def test_every_kind_of_source_keeps_rows_ahead_waiting(
    spark: SparkSession, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, rows = tmp_path / "data", tmp_path / "rows"
    monkeypatch.setenv("TIDEGATE_TEST_ROWS", str(rows))
    fields = [{"name": "id", "type": "int64"}, {"name": "at", "type": "timestamp"}]
    pipeline = {
        "source": {**KINDS[kind], "watermark_columns": ["at"]},
        "schema": {"fields": fields},
        "sink": {"table_uri": "lake/orders"},
    }
    config = tmp_path / "tidegate.yml"
    config.write_text(json.dumps({"pipelines": {"orders": pipeline}}))

    def arrive(*given: tuple[int, datetime]) -> None:
        shutil.rmtree(data, ignore_errors=True)
        table = pa.Table.from_pylist([{"id": number, "at": moment} for number, moment in given])
        for folder in (data, rows):
            folder.mkdir(exist_ok=True)
        if kind == "csv":
            lines = [f"{number},{moment.isoformat()}" for number, moment in given]
            (data / "rows.csv").write_text("\n".join(["id,at", *lines, ""]))
        elif kind == "delta":
            write_deltalake(data, table)
        else:
            pq.write_table(table, (data if kind == "parquet" else rows) / "rows.parquet")

    now = datetime.now(UTC)
    arrive((1, now - timedelta(hours=2)), (2, FAR))
    (first,) = run(config).sources
    assert (first.error, first.rows, first.skipped) == (None, 1, (("future", 1),))
    arrive((1, now - timedelta(hours=2)), (2, FAR), (3, now - timedelta(hours=1)))
    (second,) = run(config).sources
    assert (second.error, second.rows, second.skipped) == (None, 1, (("future", 1),))
    found = query(Location(absolute_uri("lake/orders", tmp_path)), "select id from t")
    assert sorted(row["id"] for row in found) == [1, 3]


@pytest.mark.parametrize("load_type", chosen(["overwrite", "full_load"], "overwrite"))
def test_an_emptied_source_empties_no_table_until_somebody_says_so(
    spark: SparkSession, postgres: postgres_server.Server, tmp_path: Path, load_type: str
) -> None:
    shop = Shop(postgres, tmp_path, "id int, note text", {}, {"load_type": load_type})
    assert shop.go() == 0
    shop.execute("insert into orders values (1, 'a'), (2, 'b')")
    assert shop.go() == 2
    shop.execute("truncate orders")
    assert "there is no row to write, and the table has 2 rows" in shop.refused()
    assert shop.ids() == [1, 2]
    shop.sink = {"load_type": load_type, "allow_empty_window": True}
    assert shop.go() == 0
    assert shop.ids() == []


def test_a_transform_that_leaves_nothing_and_an_emptied_delta_table_empty_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    pipeline: dict[str, Any] = {
        "source": {"type": "delta", "source_uri": "data"},
        "sink": {"table_uri": "lake/orders", "load_type": "overwrite"},
    }
    config = tmp_path / "tidegate.yml"
    config.write_text(json.dumps({"pipelines": {"orders": pipeline}}))
    rows = pa.table({"id": pa.array([1, 2], pa.int64())})
    write_deltalake(data, rows)
    assert run(config).ok
    config.write_text(
        json.dumps({"pipelines": {"orders": {**pipeline, "transform": {"sql": "select * from source where id > 9"}}}})
    )
    assert "there is no row to write" in (run(config).sources[0].error or "")
    config.write_text(json.dumps({"pipelines": {"orders": pipeline}}))
    write_deltalake(data, rows.slice(0, 0), mode="overwrite")
    assert "there is no row to write" in (run(config).sources[0].error or "")
    assert len(query(Location(absolute_uri("lake/orders", tmp_path)), "select id from t")) == 2


def test_columns_that_go_or_are_renamed_are_told_and_refused_where_the_schema_is_strict(
    spark: SparkSession, postgres: postgres_server.Server, tmp_path: Path
) -> None:
    shop = Shop(postgres, tmp_path, "id int, note text, tax int", BY_ID)
    shop.execute("insert into orders values (1, 'a', 7)")
    assert shop.go() == 1
    shop.execute("alter table orders drop tax; alter table orders rename note to remark")
    shop.execute("insert into orders values (2, 'b'), (3, 'c')")
    shop.more = {"schema_evolution": "strict"}
    assert "column 'remark'" in (told := shop.refused()) or "column 'note'" in told
    shop.more = {}
    assert shop.go() == 2
    assert "2 rows have no note, tax, which the table has: they are null there" in shop.notices()
    assert "the table gets new columns: remark" in shop.notices()
    assert [each["note"] for each in shop.rows()] == ["a", None, None]
