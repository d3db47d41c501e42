"""The engine of this process: column sources of every kind that needs no Spark, appended exactly once."""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from servers import api as servers
from servers.api import Answer, Asked
from tidegate import ProjectSpec, RunReport, load
from tidegate.core.columns.predicates import Bound, ColumnRange, RowFilter
from tidegate.protocol.delta import query
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop
from tidegate.runs.pass_ import Pass
from tidegate.schema.types import TIMESTAMP
from tidegate.sources.units.work import UnitFailure, UnitWave, UnitWork, UnitWritten
from tidegate.specs.columns import ColumnSource, FunctionRead
from tidegate.specs.locations import Location, Secret
from tidegate.specs.project import PipelineSpec
from tidegate.specs.table import FieldSpec, SchemaSpec, SinkSpec
from tidegate.specs.units import UnitSource

NUMBERS: list[int] = []
"""What the function gives."""


def numbers(session: object, request: Any) -> pa.Table:
    """All numbers that there are."""
    assert session is None
    return pa.table({"id": pa.array(NUMBERS, pa.int64())})


def needs_spark(session: Any, request: Any) -> object:
    """A function that asks for a session."""
    return session.range(3)


def project(root: Path, source: Mapping[str, Any], **sink: Any) -> ProjectSpec:
    """One pipeline ``p``; a connection ``api`` where the source has one."""
    url = source.get("url")
    given = {key: value for key, value in source.items() if key != "url"}
    body = {"pipelines": {"p": {"source": given, "sink": {"table_uri": "lake/p", **sink}}}}
    if url:
        body["connections"] = {"api": {"type": "http", "url": url}}  # type: ignore[assignment]
    (root / "p.yml").write_text(json.dumps(body))
    return load(root / "p.yml")


def run(made: ProjectSpec) -> RunReport:
    """One pass without Spark."""
    return Loop(made, InProcessEngine(), 1).once(made.pipelines)


def ids(made: ProjectSpec) -> list[int]:
    """What the table holds."""
    return sorted(row["id"] for row in query(made.pipelines[0].sink.table, "select id from t"))


def test_a_function_that_returns_arrow(tmp_path: Path) -> None:
    source = {"type": "python", "function": f"{__name__}:numbers", "watermark_columns": ["id"]}
    made = project(tmp_path, source)
    NUMBERS[:] = [1, 2]
    assert run(made).ok
    NUMBERS[:] = [1, 2, 3]
    report = run(made)
    assert (report.ok, report.sources[0].rows, ids(made)) == (True, 1, [1, 2, 3])


def test_a_function_that_needs_a_session_fails_with_its_name(tmp_path: Path) -> None:
    made = project(tmp_path, {"type": "python", "function": f"{__name__}:needs_spark", "watermark_columns": ["id"]})
    (source,) = run(made).sources
    assert source.error is not None
    assert "needs_spark without a Spark session failed" in source.error


def visits(session: object, request: Any) -> pa.Table:
    """Rows before, in and after a segment of a work unit, and one without a time."""
    assert session is None
    if request.unit == "bad":
        raise ValueError(f"no such unit, {request.secrets['key'].value}")
    times = pa.array([request.low - timedelta(hours=1), request.low, request.high, None], pa.timestamp("us", "UTC"))
    rows = pa.table({"id": pa.array(range(4), pa.int64()), "at": times})
    return rows.append_column("more", pa.array(["x"] * 4)) if request.unit == "b" else rows


def test_a_function_is_asked_for_each_segment_of_a_work_unit(tmp_path: Path) -> None:
    source = UnitSource("calls", FunctionRead(f"{__name__}:visits"), time_column="at")
    table = Location((tmp_path / "table").as_uri())
    pipeline = PipelineSpec("p", (source,), SchemaSpec(infer=True), SinkSpec(table))
    works = [
        UnitWork(unit, 0, ((0, 1000), (1000, 2000)), secrets={"key": Secret("canary")}) for unit in ("a", "b", "bad")
    ]
    wave = UnitWave(pipeline, source, tuple(works), table, datetime(2026, 3, 5, tzinfo=UTC))
    result = InProcessEngine().carry_out(wave)
    one, other, bad = result.results
    assert isinstance(one, UnitWritten)
    assert isinstance(other, UnitWritten)
    assert isinstance(bad, UnitFailure)
    assert (one.rows, one.left_out, other.rows) == (2, 6, 2)
    found = [pq.read_table(tmp_path / "table" / each.path).to_pylist() for each in one.data_files]
    assert [(row["_tidegate_unit"], row["id"], row["more"]) for rows in found for row in rows] == [("a", 1, None)] * 2
    assert result.columns is not None
    assert result.columns.names == ["_tidegate_unit", "_tidegate_segment", "id", "at", "more"]
    assert "no such unit" in bad.problem
    assert "canary" not in str(result)


def test_an_api(tmp_path: Path) -> None:
    records = [{"id": 1}, {"id": 2}]

    def answer(asked: Asked) -> Answer:
        return Answer({"data": [each for each in records if each["id"] > int(asked.params.get("after", 0))]})

    with servers.running() as api:
        api.routes["/rows"] = answer
        made = project(
            tmp_path,
            {
                "connection": "api",
                "url": api.url,
                "path": "/rows",
                "records": "data",
                "watermark_columns": ["id"],
            },
        )
        assert run(made).ok
        records.append({"id": 3})
        report = run(made)
    assert (report.ok, report.sources[0].rows, ids(made)) == (True, 1, [1, 2, 3])


def test_a_delta_table(tmp_path: Path) -> None:
    made = project(tmp_path, {"type": "delta", "source_uri": "from", "watermark_columns": ["id"]})
    write_deltalake(str(tmp_path / "from"), pa.table({"id": pa.array([1, 2], pa.int64())}))
    assert run(made).ok
    write_deltalake(str(tmp_path / "from"), pa.table({"id": pa.array([3], pa.int64())}), mode="append")
    report = run(made)
    assert (report.ok, report.sources[0].rows, ids(made)) == (True, 1, [1, 2, 3])


@pytest.mark.parametrize(
    ("type_", "first", "second"),
    [
        ("csv", "id,name\n1,a\n2,\n", "id,name\n2,\n3,c\n"),
        ("json", '{"id": 1, "name": "a"}\n{"id": 2}\n', '{"id": 2}\n{"id": 3, "name": "c"}\n'),
    ],
)
@pytest.mark.parametrize("declared", [False, True])
def test_files_that_are_scanned(tmp_path: Path, type_: str, first: str, second: str, declared: bool) -> None:
    made = project(tmp_path, {"type": type_, "source_uri": "in", "watermark_columns": ["id"], "pattern": "*.txt"})
    if declared:
        fields = (FieldSpec("id", "int64"), FieldSpec("name", "string"))
        (pipeline,) = made.pipelines
        made = replace(made, pipelines=(replace(pipeline, schema=replace(pipeline.schema, fields=fields)),))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text(first)
    (tmp_path / "in" / "left.out").write_text("no such records")
    assert run(made).ok
    (tmp_path / "in" / "b.txt").write_text(second)
    report = run(made)
    assert (report.ok, report.sources[0].rows) == (True, 1)
    rows = query(made.pipelines[0].sink.table, "select id, name from t order by id")
    assert [(row["id"], row["name"]) for row in rows] == [(1, "a"), (2, None), (3, "c")]


def test_a_record_that_does_not_fit_stops_the_pass(tmp_path: Path) -> None:
    made = project(tmp_path, {"type": "json", "source_uri": "in", "watermark_columns": ["id"]})
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"id": 1}\n{"id": \n')
    (report,) = run(made).sources
    assert "a.json" in (report.error or "")
    assert report.commits == 0


def test_rows_without_a_watermark_are_seen_where_a_lag_has_the_source_asked_first(tmp_path: Path) -> None:
    keys = {"safety_lag": "PT1H", "null_watermark": "error"}
    made = project(tmp_path, {"type": "csv", "source_uri": "in", "watermark_columns": ["at"], **keys})
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("id,at\n1,2026-01-01T00:00:00Z\n2,\n")
    (report,) = run(made).sources
    assert "1 row has null in every watermark column (at)" in (report.error or "")


@pytest.mark.parametrize(
    ("source", "sink", "problem"),
    [
        ({"type": "parquet", "source_uri": "in", "pattern": "a*"}, {}, "only Spark reads"),
        (
            {"type": "python", "function": f"{__name__}:numbers"},
            {"load_type": "merge_upsert", "merge_keys": ["id"]},
            "load_type merge_upsert is Spark's",
        ),
    ],
)
def test_what_needs_spark_is_told(tmp_path: Path, source: dict[str, Any], sink: dict[str, Any], problem: str) -> None:
    NUMBERS[:] = [1]
    (report,) = run(project(tmp_path, {**source, "watermark_columns": ["id"]}, **sink)).sources
    assert report.error is not None
    assert problem in report.error


@pytest.mark.parametrize(
    ("table", "keys", "folder", "told"),
    [
        ({"at": pa.array([0], pa.timestamp("us"))}, {}, "", "'at' (timestamp[us]) has no zone"),
        ({"at": pa.array([0], pa.timestamp("ns", "UTC"))}, {}, "", "finer than microseconds"),
        ({}, {"filter_expression": "id > 1"}, "", "only Spark understands filter_expression"),
        ({}, {}, "day=1", "its folders are columns"),
        ({}, {}, "below", "files lie in folders below it (below/a.parquet)"),
        ({"at": pa.array([0], pa.time64("us"))}, {}, "", "'at' (time64[us])"),
        ({"at": pa.array([0], pa.duration("us"))}, {}, "", "'at' (duration[us])"),
        ({"at": pa.nulls(1)}, {}, "", "'at' (null)"),
        ({"at": pa.array([0.5], pa.float16())}, {}, "", "'at' (halffloat)"),
        (
            {"at": pa.array([{"a": 0, "b": 0}], pa.struct([("a", TIMESTAMP), ("b", pa.timestamp("ns", "UTC"))]))},
            {},
            "",
            "finer than microseconds",
        ),
        ({"ID": pa.array([1])}, {}, "", "'id', 'ID' differ in case alone"),
        ({"at": pa.array([{"a": 1}])}, {"watermark_columns": ["at"]}, "", "which cannot be a watermark"),
    ],
)
def test_what_spark_would_read_differently_is_left_to_it(
    tmp_path: Path, table: dict[str, Any], keys: dict[str, Any], folder: str, told: str
) -> None:
    where = tmp_path / "in" / folder
    where.mkdir(parents=True)
    pq.write_table(pa.table({"id": pa.array([1], pa.int64()), **table}), where / "a.parquet")
    made = project(tmp_path, {"type": "parquet", "source_uri": "in", "watermark_columns": ["id"], **keys})
    (source,) = run(made).sources
    assert told in (source.error or "")
    assert source.commits == 0


def test_columns_of_parquet_files_get_the_types_that_spark_gives_them(tmp_path: Path) -> None:
    """Spark widens unsigned numbers; with a type as wide as theirs nobody could read the table."""
    columns = {
        "id": pa.array(["a"]).dictionary_encode(),
        "a": pa.array([2**8 - 1], pa.uint8()),
        "b": pa.array([2**16 - 1], pa.uint16()),
        "c": pa.array([2**32 - 1], pa.uint32()),
        "d": pa.array([2**64 - 1], pa.uint64()),
        "inside": pa.array([{"timestamp": 2**32 - 1}], pa.struct([("timestamp", pa.uint32())])),
        "pair": pa.array([[1, 2]], pa.list_(pa.int32(), 2)),
        "view": pa.array(["x"], pa.string_view()),
        "at": pa.array([0], pa.timestamp("us", "Europe/Berlin")),
        "coarse": pa.array([1], pa.timestamp("ms", "UTC")),
    }
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table(columns), tmp_path / "in" / "a.parquet")
    made = project(tmp_path, {"type": "parquet", "source_uri": "in", "watermark_columns": ["id"]})
    assert run(made).ok
    table = DeltaTable(tmp_path / "lake" / "p").to_pyarrow_table()
    kinds = dict(zip(table.column_names, map(str, table.schema.types), strict=True))
    assert [kinds[name] for name in "abcd"] == ["int16", "int32", "int64", "decimal128(20, 0)"]
    assert table.select(list("abcd")).to_pylist() == [{"a": 255, "b": 65535, "c": 2**32 - 1, "d": Decimal(2**64 - 1)}]
    (row,) = table.to_pylist()
    assert (row["id"], row["inside"], row["pair"], row["view"]) == ("a", {"timestamp": 2**32 - 1}, [1, 2], "x")
    assert (row["at"], row["coarse"]) == (datetime.fromtimestamp(0, UTC), datetime.fromtimestamp(0.001, UTC))


def test_rows_are_compared_a_few_at_a_time(tmp_path: Path) -> None:
    """Rows as Python objects take many times the memory of their columns."""
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"id": pa.array(range(1000, 201_000))}), tmp_path / "in" / "a.parquet")
    made = project(tmp_path, {"type": "parquet", "source_uri": "in", "watermark_columns": ["id"]})
    (source,) = made.pipelines[0].sources
    assert isinstance(source, ColumnSource)
    reader = InProcessEngine().reader(source, SchemaSpec(), datetime.now(UTC))
    wanted = RowFilter((ColumnRange("id", Bound(200_997)),))
    tracemalloc.start()
    found = reader.read(wanted)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.column("id").to_pylist() == [200_998, 200_999]
    assert peak < 20_000_000


def test_columns_of_a_delta_table_keep_their_types(tmp_path: Path) -> None:
    columns = {
        "id": pa.array([1], pa.int32()),
        "part": pa.array([1.5], pa.float32()),
        "none": pa.array([None], pa.int8()),
    }
    write_deltalake(tmp_path / "in", pa.table(columns))
    made = project(tmp_path, {"type": "delta", "source_uri": "in", "watermark_columns": ["id"]})
    assert run(made).ok
    kinds = {each.name: str(each.type) for each in DeltaTable(tmp_path / "lake" / "p").schema().fields}
    assert {name: kinds[name] for name in columns} == {
        "id": 'PrimitiveType("integer")',
        "part": 'PrimitiveType("float")',
        "none": 'PrimitiveType("byte")',
    }


def test_passes_of_one_run_keep_no_earlier_ones_alive(tmp_path: Path) -> None:
    """A run that polls for weeks would hold the state of every poll."""
    made = project(tmp_path, {"type": "python", "function": f"{__name__}:numbers", "watermark_columns": ["id"]})
    NUMBERS[:] = [1]
    loop = Loop(made, InProcessEngine(), 1)
    for _ in range(4):
        loop.once(made.pipelines)
    gc.collect()
    passes = [each for each in gc.get_objects() if isinstance(each, Pass)]
    assert sum(each.source.table_uri == made.pipelines[0].sink.table.uri for each in passes) == 1
