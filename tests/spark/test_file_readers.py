"""Files that are scanned in full: every record is read exactly, then Spark filters."""

from __future__ import annotations

import csv
import gzip
import importlib
import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from openpyxl import Workbook

from support.errors import raises
from tidegate.core.columns.predicates import Bound, ColumnRange, RowFilter
from tidegate.errors import EnvironmentProblem, SourceError
from tidegate.runs.in_process import open_arrow_reader
from tidegate.sources.reader import FunctionRequest, GreatestValues, Reader
from tidegate.spark.engine import open_reader
from tidegate.spark.filters import greatest_of
from tidegate.spark.frames import columns_of
from tidegate.specs.columns import ColumnSource, CsvOptions, FunctionRead, TableFormat, TableRead
from tidegate.specs.locations import Location, Options
from tidegate.specs.project import PipelineSpec
from tidegate.specs.table import FieldSpec, SchemaSpec, SinkSpec
from tidegate.tasks.row_task import row_task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NOW = datetime(2026, 6, 1, tzinfo=UTC)
ABOVE_ONE = RowFilter((ColumnRange("id", Bound(1)),))


def opened(spark: SparkSession, read: TableRead, schema: SchemaSpec | None = None) -> Reader:
    reader = open_reader(spark, ColumnSource("orders", read, ("id",)), schema or SchemaSpec(infer=True), NOW)
    assert not reader.fixed_first
    return reader


def test_csv_files_are_scanned_and_filtered(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "day=1").mkdir()
    (tmp_path / "day=1" / "a.csv").write_text("id;at;note\n1;2026-03-01T00:00:00Z;x\n2;2026-03-02T00:00:00Z;NULL\n")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"note;id;at\ny;3;2026-03-03T00:00:00Z\n"))
    (tmp_path / "_hidden.csv").write_text("no\n")
    options = CsvOptions(delimiter=";", null_values=("", "NULL"))
    schema = SchemaSpec((FieldSpec("id", "int64"), FieldSpec("at", "timestamp"), FieldSpec("note", "string")))
    reader = opened(spark, TableRead(TableFormat.CSV, Location(tmp_path.as_uri()), csv=options), schema)
    frame = reader.read(ABOVE_ONE)
    table = frame.select("id", "at", "note").orderBy("id").toArrow().to_pylist()
    assert table == [
        {"id": 2, "at": datetime(2026, 3, 2, tzinfo=UTC), "note": None},
        {"id": 3, "at": datetime(2026, 3, 3, tzinfo=UTC), "note": "y"},
    ]
    assert greatest_of(frame, ["id"]) == reader.greatest(ABOVE_ONE) == GreatestValues({"id": 3})


def test_json_files_are_lines_or_one_array(spark: SparkSession, tmp_path: Path) -> None:
    records = [{"id": number, "who": {"name": f"n{number}"}} for number in range(4)]
    (tmp_path / "a.json").write_text(json.dumps(records))
    (tmp_path / "b.ndjson").write_text("".join(f"{json.dumps(each)}\n" for each in records))
    schema = SchemaSpec(infer=True)
    for lines, pattern in ((False, "*.json"), (True, "*.ndjson")):
        read = TableRead(TableFormat.JSON, Location(tmp_path.as_uri()), lines=lines, pattern=pattern)
        assert sorted(opened(spark, read, schema).read(ABOVE_ONE).collect()) == [(2, ("n2",)), (3, ("n3",))]


TYPES = (
    FieldSpec("id", "int64"),
    FieldSpec("small", "int32"),
    FieldSpec("part", "float32"),
    FieldSpec("whole", "float64"),
    FieldSpec("price", "decimal(12,3)"),
    FieldSpec("yes", "boolean"),
    FieldSpec("at", "timestamp"),
    FieldSpec("day", "date"),
    FieldSpec("raw", "binary"),
    FieldSpec("more", "json"),
    FieldSpec("who", "struct", fields=(FieldSpec("name", "string"), FieldSpec("seen", "timestamp"))),
    FieldSpec("tags", "list", items=FieldSpec("item", "string")),
)
RECORDS = [
    {
        "id": 2,
        "small": -7,
        "part": 0.1,
        "whole": 1e300,
        "price": 12.345,
        "yes": True,
        "at": "2026-03-01T00:00:00.123456+02:00",
        "day": "1582-10-15",
        "raw": "AP8=",
        "more": {"b": [1, 2.50], "a": None},
        "who": {"name": "n", "seen": "0001-01-01T00:00:00Z"},
        "tags": ["x", None],
    },
    {"id": 3, "who": {}, "tags": []},
    {"id": 1},
]


@pytest.mark.parametrize("infer", [False, True])
@pytest.mark.parametrize("format_", [TableFormat.JSON, TableFormat.CSV])
def test_the_engine_of_this_process_reads_the_same(
    spark: SparkSession, tmp_path: Path, format_: TableFormat, infer: bool
) -> None:
    if format_ is TableFormat.JSON:
        (tmp_path / "a.ndjson").write_text("".join(f"{json.dumps(each)}\n" for each in RECORDS))
    else:
        names = [each.name for each in TYPES]
        rows = [[each.get(name) for name in names] for each in RECORDS]
        cells = [[json.dumps(cell) if isinstance(cell, dict | list | bool) else cell for cell in row] for row in rows]
        with (tmp_path / "a.csv").open("w", newline="") as file:
            csv.writer(file).writerows([names, *cells])
    read = TableRead(format_, Location(tmp_path.as_uri()))
    source = ColumnSource("orders", read, ("id",))
    schema = SchemaSpec(infer=True) if infer else SchemaSpec(TYPES)
    there, here = open_reader(spark, source, schema, NOW), open_arrow_reader(source, schema, NOW)
    frame, table = there.read(ABOVE_ONE), here.read(ABOVE_ONE)
    assert frame.orderBy("id").toArrow().to_pylist() == table.sort_by("id").to_pylist()
    assert table.num_rows == 2
    assert here.greatest(ABOVE_ONE) == there.greatest(ABOVE_ONE)
    pipeline = PipelineSpec("p", (source,), schema, SinkSpec(Location((tmp_path / "t").as_uri())))
    written = [
        row_task(pipeline, source, columns).written for columns in (columns_of(frame, "the source"), table.schema)
    ]
    assert written[0].remove_metadata() == written[1].remove_metadata()


def test_excel_workbooks_are_scanned_and_filtered(spark: SparkSession, tmp_path: Path) -> None:
    for name, numbers in (("a.xlsx", (1, 2)), ("b.xlsx", (3,)), ("~$b.xlsx", ())):
        book = Workbook()
        sheet = book.active
        assert sheet is not None
        sheet.append(["id", "at", "day"])
        for number in numbers:
            sheet.append([number, datetime(2026, 7, number, 12), date(2026, 7, number)])
        book.save(tmp_path / name)
    schema = SchemaSpec((FieldSpec("id", "int64"), FieldSpec("at", "timestamp"), FieldSpec("day", "date")))
    read = TableRead(TableFormat.EXCEL, Location(tmp_path.as_uri()))
    source = ColumnSource("orders", read, ("id",), source_timezone="Asia/Tokyo")
    frame = open_reader(spark, source, schema, NOW).read(ABOVE_ONE)
    assert frame.orderBy("id").toArrow().to_pylist() == [
        {"id": number, "at": datetime(2026, 7, number, 3, tzinfo=UTC), "day": date(2026, 7, number)}
        for number in (2, 3)
    ]
    assert open_reader(spark, source, SchemaSpec(infer=True), NOW).greatest(ABOVE_ONE).values == {"id": 3}


FUNCTIONS = """
from tidegate.core.columns.predicates import Bound, ColumnRange, RowFilter

ASKED = []

def orders(session, request):
    ASKED.append(request)
    return session.range(int(request.options["rows"]))

def refuses(session, request):
    raise ValueError("closed today")
"""


def test_a_function_gets_a_request_and_what_does_not_match_is_left_out(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "corner_shop.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(tmp_path)
    reader = by_function(spark, "orders")
    assert not reader.fixed_first
    assert sorted(reader.read(ABOVE_ONE).collect()) == [(2,), (3,)]
    asked = importlib.import_module("corner_shop").ASKED
    assert asked == [FunctionRequest(("id",), ABOVE_ONE, "`id` > 1", NOW, {"rows": "4"})]
    assert reader.greatest(ABOVE_ONE) == GreatestValues({"id": 3})
    with raises(SourceError, "orders", "corner_shop:refuses", "closed today"):
        by_function(spark, "refuses").read(ABOVE_ONE)
    with raises(EnvironmentProblem, "orders", "corner_shop:none", "PYTHONPATH"):
        by_function(spark, "none").read(ABOVE_ONE)


def by_function(spark: SparkSession, name: str) -> Reader:
    read = FunctionRead(f"corner_shop:{name}", Options({"rows": "4"}))
    return open_reader(spark, ColumnSource("orders", read, ("id",)), SchemaSpec(), NOW)


def test_a_record_that_is_none_ends_the_read(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.ndjson").write_text('{"id": 1}\n{"id": 2}\n{"id": "two"}\n')
    schema = SchemaSpec((FieldSpec("id", "int64"),))
    reader = opened(spark, TableRead(TableFormat.JSON, Location(tmp_path.as_uri())), schema)
    with raises(SourceError, "orders", "a.ndjson", "line 3", "'id'", "schema.fields"):
        reader.greatest(ABOVE_ONE)


def test_a_folder_without_files_has_no_rows_and_a_missing_one_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    schema = SchemaSpec((FieldSpec("id", "int64"),))
    reader = opened(spark, TableRead(TableFormat.CSV, Location(tmp_path.as_uri())), schema)
    assert reader.read(ABOVE_ONE).collect() == []
    missing = opened(spark, TableRead(TableFormat.CSV, Location((tmp_path / "none").as_uri())), schema)
    with raises(SourceError, "source 'orders'", "none", "source_uri"):
        missing.read(ABOVE_ONE)
