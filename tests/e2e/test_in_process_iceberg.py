"""Iceberg tables read in this process: columns by their numbers, rows of one snapshot, a batch at a time."""

from __future__ import annotations

import json
import signal
import sys
import uuid
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFileContent
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DecimalType, LongType, NestedField, StringType

from support import scripts
from support.errors import raises
from support.iceberg_tables import MARCH, ORDERS, add, delete_rows, new_table, row
from tidegate import SourceReport, load
from tidegate.core.columns.predicates import Bound, ColumnRange, RowFilter
from tidegate.errors import EnvironmentProblem, SourceError
from tidegate.protocol.delta import query
from tidegate.runs.in_process import InProcessEngine, open_arrow_reader
from tidegate.runs.loop import Loop
from tidegate.sources.reader import GreatestValues, StreamedRows
from tidegate.specs.columns import ColumnSource, TableFormat, TableRead
from tidegate.specs.locations import Location
from tidegate.specs.table import SchemaSpec

WORKER = Path(__file__).parents[1] / "faults" / "column_worker.py"


def reader(table: Table, *columns: str, zone: str = "UTC") -> Any:
    place = Location(Path(table.location().removeprefix("file://")).as_uri())
    source = ColumnSource("orders", TableRead(TableFormat.ICEBERG, place), columns, source_timezone=zone)
    return open_arrow_reader(source, SchemaSpec(), MARCH)


def above(**lowers: Any) -> RowFilter:
    return RowFilter(tuple(ColumnRange(name, Bound(value)) for name, value in lowers.items()))


def rows(found: StreamedRows) -> list[dict[str, Any]]:
    batches = list(found.to_batches())
    assert sum(each.num_rows for each in batches) == found.num_rows
    return sorted(pa.Table.from_batches(batches, found.schema).to_pylist(), key=lambda each: each["id"])


def ids(found: StreamedRows) -> list[int]:
    return [each["id"] for each in rows(found)]


def test_the_files_that_hold_an_increment_are_read_and_values_stay_as_they_are(tmp_path: Path) -> None:
    table = new_table(tmp_path / "a [b]", "orders", ORDERS)
    for first in (0, 10, 20):
        add(table, map(row, range(first, first + 10)))
    found = reader(table, zone="Asia/Tokyo")
    assert found.greatest(above(ID=15, sparse=23)) == GreatestValues({"ID": 29, "sparse": 29}, nulls=0)
    assert found.greatest(above(sparse=25)) == GreatestValues({"sparse": 29}, nulls=3)
    assert found.kinds(["at", "local", "id"]) == {"at": "datetime", "local": "datetime_naive"}
    add(table, [row(40)])
    capped = found.read(above(id=21).capped({"id": Bound(24, inclusive=True)}))
    nested = ("tags", "lines", "buyer")
    assert [[each[name] for name in nested] for each in rows(capped)] == [
        [row(number)[name] for name in nested] for number in (22, 23, 24)
    ]
    (last,) = rows(found.read(above(id=28)))
    assert {name: last[name] for name in ("at", "price", "code", "mark", "raw")} == {
        **{name: row(29)[name] for name in ("at", "mark", "raw")},
        "price": Decimal("7.25"),
        "code": str(uuid.UUID(int=29)),
    }
    assert last["local"] == MARCH + timedelta(hours=29 - 9)
    assert ids(reader(table).read(above(local=MARCH + timedelta(hours=28)))) == [29, 40]
    assert ids(found.read(above(code=str(uuid.UUID(int=27))))) == [28, 29]
    assert ids(found.read(above(id=1000))) == []


def test_columns_are_found_whatever_their_names_types_and_partitions_were(tmp_path: Path) -> None:
    table = new_table(tmp_path, "orders", ORDERS)
    add(table, map(row, range(3)))
    with table.update_schema() as update:
        update.add_column("note", StringType())
        update.update_column("id", LongType())
        update.update_column("price", DecimalType(20, 2))
    for old, new in (("id", "swap"), ("sparse", "id"), ("swap", "sparse"), ("buyer.name", "full name")):
        with table.update_schema() as update:
            update.rename_column(old, new)
    with table.update_schema() as update:
        update.delete_column("raw")
    with table.update_schema() as update:
        update.add_column("raw", LongType())
    with table.update_spec() as update:
        update.add_field("sparse", IdentityTransform(), "part")
    add(table, [{"id": 7, "sparse": 2**40, "raw": 9, "note": "n", "buyer": {"full name": "b"}, "price": Decimal(1)}])
    found = reader(table)
    assert found.greatest(above(sparse=1)) == GreatestValues({"sparse": 2**40}, nulls=0)
    assert [(each["sparse"], each["id"], each["raw"], each["note"]) for each in rows(found.read(above(sparse=1)))] == [
        (2, 2, None, None),
        (2**40, 7, 9, "n"),
    ]
    assert [each["buyer"] for each in rows(found.read(above(sparse=1)))] == [
        {"full name": "b2", "mark": None},
        {"full name": "b", "mark": None},
    ]


def test_rows_that_were_deleted_or_overwritten_are_not_read_and_delete_files_are_refused(tmp_path: Path) -> None:
    table = new_table(tmp_path, "orders", ORDERS)
    add(table, map(row, range(5)))
    table.delete("id = 3")
    assert ids(reader(table).read(RowFilter())) == [0, 1, 2, 4]
    delete_rows(table, DataFileContent.EQUALITY_DELETES, equality_ids=[1])
    with raises(SourceError, "orders", "equality_deletes.parquet", "rewrite_data_files"):
        rows(reader(table).read(RowFilter()))


def test_a_file_without_numbers_is_refused_as_spark_refuses_it(tmp_path: Path) -> None:
    table = new_table(tmp_path, "orders", Schema(NestedField(1, "id", LongType())))
    add(table, [{"id": 1}])
    (file,) = tmp_path.rglob("*.parquet")
    pq.write_table(pa.table({"id": pa.array([1], pa.int64())}), file)
    with raises(SourceError, "orders", "data file", "numbers", "engine: spark"):
        rows(reader(table).read(RowFilter()))


class Orders:
    """A pipeline that follows an Iceberg table, without Spark."""

    def __init__(self, folder: Path, **source: Any) -> None:
        self.table = new_table(folder / "from", "orders", ORDERS)
        source = {"type": "iceberg", "source_uri": "from/orders", "watermark_columns": ["id"], **source}
        pipeline = {"source": source, "sink": {"table_uri": "lake/orders"}}
        self.config = folder / "tidegate.yml"
        self.config.write_text(json.dumps({"pipelines": {"orders": pipeline}}))

    def run(self) -> SourceReport:
        project = load(self.config)
        (source,) = Loop(project, InProcessEngine(), 1).once(project.pipelines).sources
        return source

    def ids(self) -> list[int]:
        found = query(load(self.config).pipelines[0].sink.table, "select id from t order by id")
        return [each["id"] for each in found]


def test_runs_append_what_is_new_once_also_after_a_kill(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    add(orders.table, map(row, (1, 2)))
    assert orders.run().rows == 2
    assert orders.run().rows == 0
    add(orders.table, map(row, (2, 3)))
    assert scripts.run(WORKER, orders.config, failpoints="runs.commit.before=kill") == -signal.SIGKILL
    add(orders.table, [row(4)])
    report = orders.run()
    assert (report.error, report.rows, orders.ids()) == (None, 2, [1, 2, 3, 4])


def odd(found: pa.Table, watermark: Any, operator: str) -> pa.Table:
    """A filter of the user's own."""
    assert isinstance(found, pa.Table)
    return found.filter(pa.array([each % 2 == 1 for each in found.column("id").to_pylist()]))


def test_a_filter_of_the_users_own_gets_arrow(tmp_path: Path) -> None:
    orders = Orders(tmp_path, watermark_filter=f"{__name__}:odd")
    add(orders.table, map(row, range(6)))
    assert (orders.run().rows, orders.ids()) == (3, [1, 3, 5])


def test_what_needs_spark_or_pyiceberg_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    orders = Orders(tmp_path, filter_expression="id > 1")
    assert "only Spark understands filter_expression" in (orders.run().error or "")
    monkeypatch.setitem(sys.modules, "tidegate.sources.iceberg", None)
    with raises(EnvironmentProblem, "orders", "pyiceberg", "tidegate[iceberg]", "engine: spark") as told:
        reader(orders.table).greatest(above(id=1))
    assert told.value.remedy == "pip install 'tidegate[iceberg]', or set engine: spark"
