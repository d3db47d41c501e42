"""What the engine of this process leaves to Spark, decided by the configuration alone.

The local engine appends rows. A pipeline that merges, replaces or transforms rows, or reads what only Spark reads
exactly, is refused before anything is opened: the same file gives the same answer today and after a year of runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tidegate.core.dialects.address import DatabaseAddress, Unsupported
from tidegate.core.dialects.registry import READ_WITHOUT_JAVA, dialect_of
from tidegate.errors import SourceError
from tidegate.specs.columns import ColumnSource, FunctionRead, JdbcRead, LoadType, TableFormat, TableRead
from tidegate.specs.project import PipelineSpec
from tidegate.specs.units import Replace, UnitSource


@dataclass(frozen=True, slots=True)
class EngineProblem:
    """One key of a pipeline that only Spark can carry out, and what to write instead."""

    pipeline: str
    key: str
    value: str
    remedy: str = ""

    def __str__(self) -> str:
        problem, instead = self.say()
        return f"pipelines.{self.pipeline}.{problem}; {instead}"

    def say(self) -> tuple[str, str]:
        """The problem, without the name of the pipeline, and its remedy."""
        instead = f"{self.remedy}, or set engine: spark" if self.remedy else "set engine: spark"
        return f"{self.key}: {self.value} needs Spark", instead


def local_engine_problems(pipelines: Iterable[PipelineSpec]) -> tuple[EngineProblem, ...]:
    """Everything in these pipelines that the local engine would refuse; empty if it can run all of them."""
    return tuple(problem for pipeline in pipelines for problem in _pipeline_problems(pipeline))


def _pipeline_problems(pipeline: PipelineSpec) -> Iterator[EngineProblem]:
    name, load = pipeline.name, pipeline.sink.load
    if not pipeline.sink.table.is_located:
        yield EngineProblem(
            name, "sink.table", f"{pipeline.sink.name}, whose place only a catalog knows,", "give sink.location"
        )
    if pipeline.transform is not None:
        yield EngineProblem(name, "transform", str(pipeline.transform), "remove it")
    if load.type is not LoadType.APPEND:
        followed = ", and watermark_columns" if load.type.reads_everything else ""
        yield EngineProblem(name, "sink.load_type", load.type.value, f"set load_type: append{followed}")
    if load.deduplicate:
        yield EngineProblem(name, "sink.deduplicate", ", ".join(load.deduplicate), "remove it")
    for source in pipeline.sources:
        key = f"sources.{source.name}"
        if isinstance(source, ColumnSource):
            yield from _column_problems(pipeline, source, key)
        elif isinstance(source, UnitSource):
            yield from _unit_problems(pipeline, source, key)


def _column_problems(pipeline: PipelineSpec, source: ColumnSource, key: str) -> Iterator[EngineProblem]:
    read = source.read
    if isinstance(read, TableRead) and not read.location.is_located:
        yield EngineProblem(
            pipeline.name, f"{key}.table", f"{read.name}, whose place only a catalog knows,", "give source_uri"
        )
    if isinstance(read, JdbcRead):
        yield from _database_problems(pipeline.name, read, key)
    elif source.filter_expression is not None:
        # Spark SQL: no other parser gives its functions, casts and nulls the same meaning.
        yield EngineProblem(pipeline.name, f"{key}.filter_expression", repr(source.filter_expression), "remove it")
    if isinstance(read, TableRead) and read.format is TableFormat.PARQUET and read.pattern is not None:
        yield EngineProblem(
            pipeline.name, f"{key}.pattern", repr(read.pattern), "name a folder that has only these files"
        )
    is_cast = isinstance(read, TableRead) and read.format.is_pushed_down
    if pipeline.schema.fields and (is_cast or isinstance(read, FunctionRead)):
        yield _refuse_casts(pipeline, source)


def _unit_problems(pipeline: PipelineSpec, source: UnitSource, key: str) -> Iterator[EngineProblem]:
    history = "set replace: none, which keeps what every read has brought"
    # Decided by what could happen, not by what the first run would do: a run that works must not fail next month
    # (decision 0037).
    if source.replace is Replace.UNIT:
        yield EngineProblem(pipeline.name, f"{key}.replace", "unit", history)
    elif source.replace in (Replace.SEGMENTS, Replace.TIME_COLUMN):
        # Without either, a read begins where the last one ended, and no row of the table gives way.
        if source.time is None:
            yield EngineProblem(pipeline.name, f"{key}.watermark", "reading units without a time range again", history)
        if not source.grace.is_zero:
            yield EngineProblem(
                pipeline.name, f"{key}.grace_period", "reading a time range again", f"remove it, {history}"
            )
    if isinstance(source.read, JdbcRead):
        yield from _database_problems(pipeline.name, source.read, key)
    elif isinstance(source.read, FunctionRead) and pipeline.schema.fields:
        yield _refuse_casts(pipeline, source)


def _refuse_casts(pipeline: PipelineSpec, source: ColumnSource | UnitSource) -> EngineProblem:
    """Declared columns of a source whose values already have types: Spark casts them, by rules of its own."""
    return EngineProblem(
        pipeline.name, "schema.fields", f"casting the columns of {source.name}", "leave the fields out"
    )


def _database_problems(pipeline: str, read: JdbcRead, key: str) -> Iterator[EngineProblem]:
    dialect = dialect_of(read.url)
    if dialect.python is None:
        others = f"only {READ_WITHOUT_JAVA} are read without Java"
        yield EngineProblem(pipeline, f"{key}.connection", f"a jdbc:{dialect.scheme} address", others)
        return
    try:
        DatabaseAddress.of(read)
    except Unsupported as unsupported:
        yield EngineProblem(pipeline, f"{key}.connection", f"this connection ({unsupported.reason})", "change that")
    except SourceError:
        return  # a wrong address is no matter of the engine: the run itself says what is wrong with it
