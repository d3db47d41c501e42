"""How a file source is written into its table: by which lane, and into which columns.

Columns are declared, or inferred and remembered, then fitted to the table; new fields join inferred ones. In the
DataFrame lane the same tasks decode files, bad lines included, but into a work area instead of the table. From there
Spark takes the rows through the transform into the table, by its own writer, under the same commit protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

import pyarrow as pa

from tidegate.core.files.plan import FileSlice, Plan
from tidegate.errors import (
    AccessDenied,
    ConfigError,
    ReplacesTable,
    SourceError,
    TableError,
    TidegateError,
    UnsupportedTable,
)
from tidegate.formats.samples import SAMPLED_LINES, Sampler, spread
from tidegate.observe.events import ColumnsInferred, Emit, Notice
from tidegate.parquet.parquet_file import FinishedFile
from tidegate.parquet.partitions import METADATA_COLUMNS, Partitioning, table_schema
from tidegate.protocol.change import DataFile, NoRows, RowCount, SparkWrite
from tidegate.protocol.position import InferredSchema, Position
from tidegate.protocol.table import schema_json
from tidegate.protocol.table_checks import (
    check_frame_place,
    check_partition_types,
    check_partitioning,
    costs_rows,
    lane_reasons,
    without_filled,
)
from tidegate.runs.engine import FileTasks
from tidegate.runs.file_source import FileSource
from tidegate.runs.pass_ import Lane
from tidegate.schema.inference import SHOWN, Inference, check_agreement
from tidegate.schema.names import merge_fields
from tidegate.schema.types import arrow_schema, field_specs, paths_of
from tidegate.spark.jars import S3
from tidegate.specs.files import PathSource
from tidegate.specs.project import PipelineSpec
from tidegate.specs.table import Evolution, FieldSpec
from tidegate.storage.local import announce
from tidegate.tasks.read_task import FinishedGroup, GroupResult, ReadTask, read_task
from tidegate.tasks.row_task import WorkRows


@dataclass(frozen=True, slots=True)
class TableColumnsPlan:
    """Fields to decode, and the table's columns as this pipeline writes them.

    ``inferred`` is the inference of the fields, if nothing remembers them yet.
    """

    fields: tuple[FieldSpec, ...]
    existing: pa.Schema | None
    table: pa.Schema
    partition_columns: tuple[str, ...]
    inferred: Inference | None = None

    def task(self, pipeline: PipelineSpec, source: PathSource, seconds: float | None, run: str = "") -> ReadTask:
        """The task that reads units of ``source`` into these columns; ``run`` names the run in dead letters."""
        return read_task(pipeline, source, self.fields, self.existing, seconds=seconds, run=run)


def resolve_columns(
    bound: FileSource, opened: Position, plan: Plan, emit: Emit, *, may_grow: bool = False
) -> TableColumnsPlan:
    """The columns for this plan; :class:`SchemaMismatch` before anything is read if the table cannot take them.

    With ``may_grow``, new fields join inferred columns, unless ``schema_evolution`` is ``strict``.
    """
    known = find_known_fields(bound, opened.schema())
    schema = bound.pipeline.schema
    if known is not None:
        may_grow = may_grow and schema.infer and schema.evolution is not Evolution.STRICT
        columns = columns_of(bound, opened, known)
        return _grown(bound, opened, plan, columns, known, emit) if may_grow else columns
    found = _sample_plan(bound, plan)
    columns = columns_of(bound, opened, found.fields)
    if not columns.table.names:
        raise SourceError(
            f"{bound.key}: no sampled record has a field, so the table would have no columns",
            "wait for records that have fields, or declare schema.fields",
        )
    emit(ColumnsInferred(bound.pipeline.name, bound.source.name, f"inferred {found.summary()}"))
    for each in found.set_aside[:SHOWN]:
        emit(Notice(bound.pipeline.name, bound.source.name, f"columns were inferred without {each}"))
    if bound.positions.staged:
        # A staged writer has no commit to owe this to, and two writers must not infer different columns.
        agreed = InferredSchema(bound.table_store, bound.pipeline.name).remember(found)
        return columns_of(bound, opened, agreed.fields)
    return replace(columns, inferred=found)


def _grown(
    bound: FileSource,
    opened: Position,
    plan: Plan,
    columns: TableColumnsPlan,
    known: tuple[FieldSpec, ...],
    emit: Emit,
) -> TableColumnsPlan:
    """The columns with new fields of a sample beside those ``known``, if their values show a type.

    Fields without a possible column are left out, and named at the end of the run. New fields are remembered before
    they are read: other sources of the pipeline use them even if this run dies before its follow-ups are done.
    """
    # New columns are a convenience: if a sample fails or does not fit, the run reads on with the columns it knows.
    with suppress(SourceError, TableError, ConfigError, AccessDenied):
        found = sample(bound, spread(_slices(plan)), SAMPLED_LINES, known)
        sure = tuple(each for each in found.sure() if each.name != bound.pipeline.schema.rescued)
        found = replace(found, fields=merge_fields(known, _fitting_fields(bound, opened, sure)))
        if found.fields == known:
            return columns
        grown = columns_of(bound, opened, found.fields)
        before = dict(paths_of(arrow_schema(known)))
        new = [f"{path} ({kind})" for path, kind in paths_of(arrow_schema(found.fields)) if path not in before]
        more = f" and {len(new) - SHOWN} more" if len(new) > SHOWN else ""
        text = f"the table gets new columns: {', '.join(new[:SHOWN])}{more}; they are null in its old rows"
        agreed = InferredSchema(bound.table_store, bound.pipeline.name).add(replace(found, report=()))
        grown = columns_of(bound, opened, agreed.fields)
        emit(Notice(bound.pipeline.name, bound.source.name, text))
        return grown if bound.positions.staged else replace(grown, inferred=replace(found, fields=agreed.fields))
    return columns


def _fitting_fields(bound: FileSource, opened: Position, sure: tuple[FieldSpec, ...]) -> tuple[FieldSpec, ...]:
    """The fields of a sample without a conflicting column in the table; one that conflicts excludes no other."""
    existing = opened.schema()
    there = () if existing is None else fields_of_table(bound.pipeline, existing)
    types = {each.name.lower(): each.type for each in there}
    return tuple(each for each in sure if types.get(each.name.lower(), each.type) == each.type)


def resolve_declared(bound: FileSource, opened: Position) -> TableColumnsPlan | None:
    """The same without reading any file: None if columns are inferred."""
    fields = bound.pipeline.schema.fields
    return columns_of(bound, opened, fields) if fields else None


def first_columns(bound: FileSource, opened: Position) -> TableColumnsPlan | None:
    """The columns of a future table: declared or remembered; None if unknown."""
    fields = find_known_fields(bound, None)
    return None if fields is None else columns_of(bound, opened, fields)


def columns_of(bound: FileSource, opened: Position, fields: tuple[FieldSpec, ...]) -> TableColumnsPlan:
    """Fields, and the rescued column, fitted to the current table: narrower types take the table's."""
    pipeline, existing = bound.pipeline, opened.schema()
    fields = with_rescued(pipeline, fields)
    whole, keys = make_columns(pipeline, fields)
    if existing is not None:
        check_partitioning(opened.partition_columns, keys)
    try:
        task = read_task(pipeline, bound.source, fields, existing)
    except ReplacesTable as error:
        # Decision 0013: columns may replace each other only while no row would go with them.
        if bound.positions.has_rows():
            raise costs_rows(error) from None
        existing = None
        task = read_task(pipeline, bound.source, fields)
    written = {field.name: field for field in pa.ipc.read_schema(pa.py_buffer(task.file_schema))}
    fitted = pa.schema([written.get(field.name, field) for field in whole])
    if existing is not None:
        check_partition_types(existing, fitted, keys)
    return TableColumnsPlan(fields, existing, fitted, keys)


def with_rescued(pipeline: PipelineSpec, fields: tuple[FieldSpec, ...]) -> tuple[FieldSpec, ...]:
    """Fields and, if wanted, the column for rescued values."""
    rescued = pipeline.schema.rescued
    return fields if rescued is None else (*fields, FieldSpec(rescued, "string"))


def make_columns(pipeline: PipelineSpec, fields: tuple[FieldSpec, ...]) -> tuple[pa.Schema, tuple[str, ...]]:
    """All columns of a table that a pipeline with these fields makes, and its partition columns."""
    by = pipeline.sink.partition_by
    whole = table_schema(fields, by, pipeline.sink.metadata_columns)
    partitioning = Partitioning(by, table_schema(fields, None))
    if pipeline.transform is None and whole.names:
        partitioning.check_rest(whole.names)
    return whole, partitioning.columns


def find_known_fields(bound: FileSource, existing: pa.Schema | None) -> tuple[FieldSpec, ...] | None:
    """The fields known without reading any file: declared, remembered, or the table's; else None."""
    if bound.pipeline.schema.fields:
        return bound.pipeline.schema.fields
    remembered = read_remembered(bound)
    if remembered is not None:
        return remembered.fields
    return None if existing is None else fields_of_table(bound.pipeline, existing)


def fields_of_table(pipeline: PipelineSpec, existing: pa.Schema) -> tuple[FieldSpec, ...]:
    """The fields for the columns of a table, without those that the pipeline adds."""
    by = pipeline.sink.partition_by
    parts = [] if by is None else by.prefix_template.strip("/").split("/")
    made = {part.partition("=")[0] for part in parts if "=" in part or (by is not None and by.column is None)}
    others = {*made, *METADATA_COLUMNS, pipeline.schema.rescued}
    return field_specs(pa.schema([each for each in existing if each.name not in others]))


def read_remembered(bound: FileSource) -> Inference | None:
    """The inferred columns stored beside the table after the first commit; None without any."""
    return InferredSchema(bound.table_store, bound.pipeline.name).read()


def _sample_plan(bound: FileSource, plan: Plan) -> Inference:
    return check_agreement(sample(bound, spread(_slices(plan)), SAMPLED_LINES))


def _slices(plan: Plan) -> list[FileSlice]:
    return [each for unit in plan.groups for each in unit.slices]


def sample(bound: FileSource, slices: Sequence[FileSlice], lines: int, known: tuple[FieldSpec, ...] = ()) -> Inference:
    """Infer columns from the first ``lines`` of each of these files, with the obstacles.

    Files that contradict the ``known`` columns, or those of most files, do not count.
    """
    by = bound.pipeline.sink.partition_by
    keys = () if by is None or by.column else tuple(part.partition("=")[0] for part in by.prefix_template.split("/"))
    schema = bound.pipeline.schema
    return Sampler(bound.tracker.store, bound.source, lines).infer(
        slices,
        forbidden=keys,
        coerce_conflicts_to_utf8=schema.coerce_conflicts_to_utf8,
        rescued=schema.rescued is not None,
        moments=True,
        known=known,
    )


def frame_reasons(source: FileSource, opened: Position) -> tuple[str, ...]:
    """Why Spark writes this source itself; empty for the Arrow lane."""
    transform = source.pipeline.transform
    if transform is None:
        return opened.needs_frames
    reason = f"the pipeline has a transform ({transform})"
    uri = source.pipeline.sink.table.uri
    check_frame_place(uri, f"{source.pipeline.name} needs Spark to write its table: {reason}")
    return (reason, *opened.needs_frames)


def any_frames(sources: Sequence[FileSource]) -> bool:
    """Whether Spark will have to write one of these tables, as far as known now."""
    return any(source.pipeline.transform is not None or _needs_frames(source) for source in sources)


def frame_packages(sources: Sequence[FileSource]) -> tuple[str, ...]:
    """Packages that Spark needs to write those tables that only it can, besides Delta itself."""
    on_s3 = [source for source in sources if source.pipeline.sink.table.uri.startswith("s3:")]
    return (S3,) if any_frames(on_s3) else ()


def _needs_frames(source: FileSource) -> bool:
    """Whether Spark must write the table; false if that cannot be read: the run itself reports it."""
    uri = source.pipeline.sink.table.uri
    with suppress(TidegateError):
        snapshot = source.positions.site.delta.snapshot()
        return snapshot is not None and bool(lane_reasons(snapshot.facts, uri))
    return False


def as_read(source: FileSource, opened: Position) -> Position:
    """``opened`` with the columns that source files are fitted to: the table's, without those that Spark fills.

    With a transform there are none: the files have the source's columns, the result has the table's.
    """
    table = opened.schema()
    if table is None or opened.schema_json is None or not frame_reasons(source, opened):
        return opened
    if source.pipeline.transform is not None:
        return replace(opened, schema_json=None, partition_columns=())
    kept = opened.partition_columns if source.pipeline.sink.partition_by else ()
    return replace(opened, schema_json=schema_json(without_filled(table, opened.schema_json)), partition_columns=kept)


class FrameLane(Lane):
    """The DataFrame lane of one plan over files, from decoding to the commit.

    Each task has its own work area, so that any of them can be committed while others are under way.
    """

    def __init__(self, source: FileSource, engine: FileTasks, now: datetime) -> None:
        super().__init__(source)
        self._engine = engine
        source.clean_work(now)
        announce(source.pipeline.sink.table)

    @classmethod
    def of(cls, source: FileSource, engine: FileTasks, opened: Position, now: datetime) -> FrameLane | None:
        """The lane on top of ``opened``; None for the Arrow lane."""
        reasons = frame_reasons(source, opened)
        # The committer appends finished files and has no session.
        if reasons and source.positions.staged:
            raise UnsupportedTable(
                f"table {source.pipeline.sink.table.uri} cannot be written by staged delivery: {'; '.join(reasons)}",
                "set delivery: direct; Spark then commits what it writes",
            )
        return cls(source, engine, now) if reasons else None

    def task(self, task: ReadTask) -> ReadTask:
        """The same task, writing whole files into a work area."""
        return replace(task, table=self.new_area().location, whole_files=True)

    def take(self, done: FinishedGroup) -> tuple[GroupResult, ...]:
        """The results of a task, with data files for :meth:`write_files`."""
        return tuple(replace(each, data_files=self.place_files(done.task, each.data_files)) for each in done.results)

    def place_files(self, task: ReadTask, files: Sequence[FinishedFile]) -> tuple[FinishedFile, ...]:
        """Files of ``task``, with paths relative to all work areas of the source instead of its own."""
        name = task.table.uri.rpartition("/")[2]
        return tuple(replace(file, path=f"{name}/{file.path}") for file in files)

    def write_files(
        self, files: Sequence[DataFile], opened: Position, columns: TableColumnsPlan
    ) -> SparkWrite | NoRows:
        """The decoded files as rows for Spark."""
        # With no rows Spark would only make an empty commit; creating the table still needs it.
        if not files and opened.table_id is not None:
            return NoRows()
        paths = tuple(file.path for file in files)
        pipeline = self._source.pipeline
        keys = columns.partition_columns
        sizes = tuple(file.size for file in files)
        rows = sum(file.record_count for file in files)
        frame = self._engine.frame(WorkRows(pipeline, self._source.work, paths, columns.table, keys, sizes, rows))
        partition_columns = keys if pipeline.sink.partition_by else opened.partition_columns
        counts = RowCount.EXACT if pipeline.transform is None else RowCount.LOGGED
        return self.write(frame, opened, partition_columns, rows, counts, {path.partition("/")[0] for path in paths})
