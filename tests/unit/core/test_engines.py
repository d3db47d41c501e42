"""What the local engine leaves to Spark, by every key that decides it, and what it carries."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tidegate.core.engines import EngineProblem, local_engine_problems
from tidegate.specs.columns import (
    ColumnSource,
    FunctionRead,
    HttpRead,
    JdbcRead,
    Load,
    LoadType,
    LookBack,
    Read,
    RowReader,
    TableFormat,
    TableRead,
)
from tidegate.specs.files import Format, PathSource, Tracking
from tidegate.specs.locations import Location, Options, Secret
from tidegate.specs.project import Delivery, PipelineSpec, SourceSpec, TransformSpec
from tidegate.specs.table import FieldSpec, SchemaSpec, SinkSpec
from tidegate.specs.units import (
    FileFormat,
    FileRead,
    Replace,
    Span,
    TimeRange,
    TimeWatermark,
    UnitRead,
    UnitSource,
    UnitWatermark,
)

PLACE = Location("file:///data")
API = HttpRead("https://api.example.org")
FUNCTION = FunctionRead("jobs:rows")
DATABASE = JdbcRead("jdbc:postgresql://db/shop", user="me", password=Secret("hidden"), table="orders")
DECLARED = SchemaSpec((FieldSpec("id", "int64"),))
DAYS = TimeWatermark("day", TimeRange("2026-01-01"))


def pipeline(source: SourceSpec, **more: Any) -> PipelineSpec:
    given: dict[str, Any] = {"schema": SchemaSpec(infer=True), "sink": SinkSpec(PLACE), **more}
    return PipelineSpec("orders", (source,), **given)


def problems(source: SourceSpec, **more: Any) -> list[tuple[str, str]]:
    return [(each.key, each.value) for each in local_engine_problems([pipeline(source, **more)])]


def files(**more: Any) -> PathSource:
    return PathSource("s", PLACE, **more)


def columns(read: Read, **more: Any) -> ColumnSource:
    return ColumnSource("s", read, ("id",), **more)


def table(kind: TableFormat, **more: Any) -> ColumnSource:
    return columns(TableRead(kind, PLACE, pattern=more.pop("pattern", None)), **more)


def units(read: UnitRead = API, **more: Any) -> UnitSource:
    return UnitSource("s", read, **{"time": DAYS, **more})


@pytest.mark.parametrize("format_", Format)
@pytest.mark.parametrize("tracking", Tracking)
@pytest.mark.parametrize("schema", [DECLARED, SchemaSpec(infer=True)], ids=["declared", "inferred"])
@pytest.mark.parametrize("delivery", Delivery)
def test_files_are_carried(format_: Format, tracking: Tracking, schema: SchemaSpec, delivery: Delivery) -> None:
    assert problems(files(format=format_, tracking=tracking), schema=schema, delivery=delivery) == []


@pytest.mark.parametrize(
    "source",
    [
        *map(table, TableFormat),
        table(TableFormat.CSV, pattern="*.csv"),
        table(TableFormat.DELTA, look_back=LookBack(days=1), safety_lag=timedelta(hours=1)),
        table(TableFormat.DELTA, watermark_operator=">=", watermark_filter="jobs:filter"),
        columns(API),
        columns(FUNCTION),
        columns(DATABASE, filter_expression="id > 3"),
        columns(replace(DATABASE, reader=RowReader.ADBC, query="select 1", table=None)),
        columns(replace(DATABASE, url="jdbc:mysql://db:3307/shop?useUnicode=true")),
        columns(replace(DATABASE, url="jdbc:mariadb://db/shop", partition_column="id", parallelism=4)),
        columns(replace(DATABASE, properties=Options({"sslmode": "require"}))),
        units(),
        units(unit=UnitWatermark("survey", ("a",)), replace=Replace.TIME_COLUMN, time_column="at"),
        units(time=None, unit=UnitWatermark("survey", ("a",)), replace=Replace.NONE),
        units(grace=Span(3), replace=Replace.NONE),
        units(abstinent=Span(3)),
        units(DATABASE),
        units(FUNCTION),
        *(units(FileRead(each, PLACE)) for each in FileFormat),
    ],
)
def test_appended_rows_of_every_kind_of_source_are_carried(source: SourceSpec) -> None:
    assert problems(source) == []


@pytest.mark.parametrize("source", [table(TableFormat.CSV), table(TableFormat.EXCEL), columns(API), columns(DATABASE)])
def test_declared_columns_are_carried_where_values_are_decoded_or_described(source: SourceSpec) -> None:
    assert problems(source, schema=DECLARED) == []


@pytest.mark.parametrize("type_", [each for each in LoadType if each is not LoadType.APPEND])
def test_other_loads_than_appends_need_spark(type_: LoadType) -> None:
    found = problems(columns(DATABASE), sink=SinkSpec(PLACE, load=Load(type_)))
    assert found == [("sink.load_type", type_.value)]


def test_deduplication_and_transforms_need_spark() -> None:
    load = SinkSpec(PLACE, load=Load(deduplicate=("id", "at")))
    assert problems(columns(DATABASE), sink=load) == [("sink.deduplicate", "id, at")]
    assert problems(files(), transform=TransformSpec(python="jobs:clean")) == [
        ("transform", "transform.python jobs:clean")
    ]


@pytest.mark.parametrize(
    "source",
    [*(table(each, filter_expression="a > 1") for each in TableFormat), columns(API, filter_expression="a > 1")],
)
def test_a_condition_in_spark_sql_needs_spark(source: SourceSpec) -> None:
    assert problems(source) == [("sources.s.filter_expression", "'a > 1'")]


@pytest.mark.parametrize(
    "source",
    [
        table(TableFormat.PARQUET),
        table(TableFormat.DELTA),
        table(TableFormat.ICEBERG),
        columns(FUNCTION),
        units(FUNCTION),
    ],
)
def test_casts_of_values_that_have_a_type_need_spark(source: SourceSpec) -> None:
    assert problems(source, schema=DECLARED) == [("schema.fields", "casting the columns of s")]


def test_a_pattern_of_parquet_files_needs_spark() -> None:
    assert problems(table(TableFormat.PARQUET, pattern="a*")) == [("sources.s.pattern", "'a*'")]


@pytest.mark.parametrize(
    ("change", "value"),
    [
        ({"url": "jdbc:oracle:thin:@db:1521:XE"}, "a jdbc:oracle address"),
        ({"url": "jdbc:sqlserver://db;database=shop"}, "a jdbc:sqlserver address"),
        ({"url": "jdbc:postgresql://a,b/shop"}, "this connection (only its JDBC driver understands its address)"),
        ({"user": None}, "this connection (its connection has no user)"),
        ({"driver": "org.example.Driver"}, "this connection (it has a driver of its own)"),
        (
            {"properties": Options({"currentSchema": "hr"})},
            "this connection (the setting 'currentschema' works only with its JDBC driver)",
        ),
        (
            {"url": "jdbc:mysql://db/shop", "properties": Options({"tinyInt1isBit": "false"})},
            "this connection (the setting 'tinyint1isbit' works only with its JDBC driver)",
        ),
    ],
)
def test_what_only_a_jdbc_driver_understands_needs_spark(change: dict[str, Any], value: str) -> None:
    read = replace(DATABASE, **change)
    for source in (columns(read), units(read)):
        assert problems(source) == [("sources.s.connection", value)]


@pytest.mark.parametrize(
    ("source", "key"),
    [
        (units(replace=Replace.UNIT), "replace"),
        (units(time=None, unit=UnitWatermark("survey", ("a",))), "watermark"),
        (units(grace=Span(3)), "grace_period"),
        (units(grace=Span(0, timedelta(hours=6)), replace=Replace.TIME_COLUMN, time_column="at"), "grace_period"),
    ],
)
def test_work_units_whose_rows_are_replaced_need_spark(source: UnitSource, key: str) -> None:
    assert [found for found, _ in problems(source)] == [f"sources.s.{key}"]


def test_all_problems_of_all_pipelines_are_named_at_once() -> None:
    merging = pipeline(
        table(TableFormat.DELTA, filter_expression="a > 1"),
        sink=SinkSpec(PLACE, load=Load(LoadType.MERGE_UPSERT)),
        transform=TransformSpec(sql="select *"),
        schema=DECLARED,
    )
    others = replace(pipeline(units(replace=Replace.UNIT)), name="surveys")
    found = local_engine_problems([merging, pipeline(files()), others])
    assert [(each.pipeline, each.key) for each in found] == [
        ("orders", "transform"),
        ("orders", "sink.load_type"),
        ("orders", "sources.s.filter_expression"),
        ("orders", "schema.fields"),
        ("surveys", "sources.s.replace"),
    ]


def test_a_problem_names_pipeline_key_value_and_remedy() -> None:
    told = str(EngineProblem("orders", "sink.load_type", "scd2", "set load_type: append"))
    assert told == "pipelines.orders.sink.load_type: scd2 needs Spark; set load_type: append, or set engine: spark"
