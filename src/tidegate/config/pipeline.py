"""A pipeline: sources of one kind, one table, the transform between them, and the handling of bad records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar

from tidegate.config.column_source import (
    ColumnSourceModel,
    JdbcConnectionModel,
    JdbcSourceModel,
    PythonSourceModel,
    TableSourceModel,
    column_source_problems,
    reader_problems,
    rows_problems,
    table_or_query_problems,
)
from tidegate.config.database_block import TablesSourceModel
from tidegate.config.document import FLAGS, Absolute, Loc, Problem, Spot
from tidegate.config.file_source import SourceModel, format_problems
from tidegate.config.http import (
    HttpConnectionModel,
    HttpSourceModel,
    path_problems,
    request_problems,
    watermark_column_problems,
)
from tidegate.config.models import Context, Model, NamedBlocks, OfKind, Parts, dump, make, model_for, part
from tidegate.config.normal_form import DOWNLOAD, is_column_source, is_file_source, tag_of_source
from tidegate.config.schema import column_types, schema_problems
from tidegate.config.sink import (
    SinkModel,
    load_problems,
    partition_keys,
    partition_problems,
    property_problems,
)
from tidegate.config.work_units import (
    DownloadModel,
    UnitHttpModel,
    UnitJdbcModel,
    UnitPythonModel,
    UnitSourceModel,
    unit_problems,
)
from tidegate.schema.names import RESCUED
from tidegate.specs.columns import MERGES, WHOLE, ColumnSource, HttpRead, JdbcRead
from tidegate.specs.files import PathSource
from tidegate.specs.keys import Key
from tidegate.specs.project import PipelineSpec, TransformSpec
from tidegate.specs.table import SchemaSpec
from tidegate.specs.units import UnitSource
from tidegate.storage.stores import comparable_uri

Source = Annotated[
    SourceModel
    | TableSourceModel
    | JdbcSourceModel
    | TablesSourceModel
    | HttpSourceModel
    | PythonSourceModel
    | UnitHttpModel
    | UnitJdbcModel
    | UnitPythonModel
    | DownloadModel,
    OfKind(tag_of_source),
]
COLUMN_SOURCES: tuple[type[ColumnSourceModel], ...] = (
    TableSourceModel,
    JdbcSourceModel,
    HttpSourceModel,
    PythonSourceModel,
)
UNIT_SOURCES: tuple[type[UnitSourceModel], ...] = (UnitHttpModel, UnitJdbcModel, UnitPythonModel, DownloadModel)
_SHOWN_BY: dict[tuple[type, type], Any] = {
    (PathSource, type(None)): SourceModel,
    **{(ColumnSource, each.reads): each for each in COLUMN_SOURCES},
    **{(UnitSource, each.reads): each for each in UNIT_SOURCES},
}
"""The model of each kind of source and of what it reads."""
_CONNECTIONS: dict[type, Any] = {JdbcRead: JdbcConnectionModel, HttpRead: HttpConnectionModel}


class PipelineModel(Model):
    """One or more sources into one table."""

    step: ClassVar[str] = "<pipeline>"
    takes: ClassVar[Parts] = (
        "sources",
        part(PipelineSpec, "schema"),
        part(SchemaSpec, "schema_evolution"),
        "transform",
        part(PipelineSpec, "sink", "delivery:staging", "on_conflict", "max_concurrent_files", "error_handling"),
    )
    sources: Annotated[dict[str, Source], NamedBlocks(least=1), Key("The sources, by name.")]
    transform: Annotated[TransformSpec, Key("Changes rows between reading and writing; Spark then writes the table.")]

    def pipeline(self, name: str, context: Context) -> PipelineSpec:
        """The specs of the pipeline ``name``."""
        sink, transform = context.sinks[name], self["transform"].build(context)
        columns = {**self["schema"].given, "schema_evolution": self["schema_evolution"]}
        return make(
            PipelineSpec,
            self.given,
            context,
            name=name,
            sources=tuple(source.source(each, context, sink) for each, source in self["sources"].items()),
            schema=make(SchemaSpec, columns, context, infer=not columns["fields"]),
            sink=sink,
            transform=transform if transform.sql or transform.python else None,
        )

    @classmethod
    def show(cls, spec: PipelineSpec) -> dict[str, Any]:
        """The pipeline with every default."""
        given = {
            "sources": {each.name: _SHOWN_BY[type(each), type(each.read)].show_source(each) for each in spec.sources},
            "transform": model_for(TransformSpec).show(spec.transform or TransformSpec()),
            "sink": SinkModel.show_of(spec),
        }
        return dump(cls, spec, given=given)


def show_connections(pipelines: tuple[PipelineSpec, ...]) -> dict[str, Any]:
    """The connections that the pipelines use, by name."""
    asked = (source.request for pipeline in pipelines for source in pipeline.sources)
    return {read.connection: _CONNECTIONS[type(read)].show(read) for read in asked if read is not None}


def name_connections(pipeline: PipelineSpec) -> PipelineSpec:
    """The pipeline with a name for each connection that was made in Python without one."""
    named = tuple(each.name_connection(f"{pipeline.name}.{each.name}") for each in pipeline.sources)
    return replace(pipeline, sources=named)


def pipeline_problems(pipeline: Spot, absolute: Absolute, covers: Callable[[Loc], bool]) -> Iterator[Problem]:
    """Problems between keys of one pipeline; ``covers`` tells which places already have a problem."""
    sink = pipeline.below("sink")
    declared = column_types(pipeline) if pipeline.below("schema").get("fields") else None
    yield from schema_problems(pipeline.below("schema"))
    yield from partition_problems(sink, declared)
    yield from _key_problems(pipeline, declared or {})
    yield from _metadata_column_problems(pipeline, declared or {})
    yield from property_problems(sink)
    yield from _transform_problems(pipeline)
    letters, table = pipeline.below("error_handling").text("dlq_path"), sink.text("table_uri")
    if letters and table and comparable_uri(absolute(letters)) == comparable_uri(absolute(table)):
        yield pipeline.problem("is the table itself; give it a path of its own", "error_handling", "dlq_path")
    for _, source in pipeline.each("sources"):
        if is_file_source(source.block) or source.text("type") == DOWNLOAD:
            yield from format_problems(source)
    sources = {name: source for name, source in pipeline.each("sources") if not covers(source.loc)}
    yield from _row_problems(pipeline, sources)
    yield from unit_problems(pipeline, sources)


def _key_problems(pipeline: Spot, declared: Mapping[str, str]) -> Iterator[Problem]:
    """Partition keys that leave no column for the files, which could not hold rows then."""
    sink = pipeline.below("sink")
    by = sink.below("partition_by")
    keys = (by.text("prefix_template") or "").strip("/").split("/")
    others = sink.words("metadata_columns") or pipeline.below("schema").text("rescued") or pipeline.get("transform")
    is_plain = sink.text("load_type") in (None, "append")
    if declared and declared.keys() <= set(keys) and by.text("column") is not None and is_plain and not others:
        text = f"all declared columns are keys ({', '.join(keys)}), and files need one; leave one out, or add a column"
        yield by.problem(text, "prefix_template")


def _metadata_column_problems(pipeline: Spot, declared: Mapping[str, str]) -> Iterator[Problem]:
    """Metadata columns that are partition columns too; a rescued column that exists already."""
    sink = pipeline.below("sink")
    keys = {name.lower() for name in partition_keys(sink.below("partition_by").text("prefix_template") or "")}
    rescued = str(pipeline.below("schema").text("rescued") or "").lower()
    rescued = RESCUED if FLAGS.get(rescued) else rescued
    if rescued and rescued in {*keys, *(name.lower() for name in declared)}:
        text = f"{rescued!r} is also a declared or partition column; give it another name"
        yield pipeline.problem(text, "schema", "rescued")
    for name, source in pipeline.each("sources") if rescued else ():
        if is_file_source(source.block) and (source.text("format") or "ndjson") not in ("ndjson", "json"):
            text = f"source {name!r} reads {source.text('format')} files; only ndjson and json can rescue"
            yield pipeline.problem(text, "schema", "rescued")
    for word in sink.words("metadata_columns"):
        if word.lower() in keys:
            yield sink.problem(f"{str(word)!r} is also a partition column; rename that one", "metadata_columns")


def _transform_problems(pipeline: Spot) -> Iterator[Problem]:
    transform = pipeline.below("transform")
    yield from transform.both("python", "sql")
    if (transform.text("sql") or transform.text("python")) and pipeline.text("delivery") == "staged":
        text = "staged does not work with a transform, because Spark then commits; set delivery: direct"
        yield pipeline.problem(text, "delivery")


def _row_problems(pipeline: Spot, sources: Mapping[str, Spot]) -> Iterator[Problem]:
    """Problems of column sources and their load strategy; load strategies that file sources do not support."""
    followed = {name: source for name, source in sources.items() if is_column_source(source.block)}
    files = [source for source in sources.values() if is_file_source(source.block)]
    kind = pipeline.below("sink").text("load_type")
    if not followed:
        if files and kind is not None and kind in (*WHOLE, *MERGES):
            text = f"{kind.raw!r} does not work with file sources; set load_type: append"
            yield pipeline.problem(text, "sink", "load_type")
        return
    if files:
        other = next(iter(followed))
        yield files[0].problem(f"is a file source, and {other!r} is not; give each kind a pipeline of its own")
    declared = column_types(pipeline)
    for source in followed.values():
        yield from column_source_problems(source, declared)
        if source.text("type") == "jdbc":
            yield from table_or_query_problems(source)
            yield from reader_problems(source)
        if source.text("type") == "http":
            yield from path_problems(source)
            yield from request_problems(source)
            yield from watermark_column_problems(source, declared)
    yield from rows_problems(pipeline)
    yield from load_problems(pipeline, followed)
