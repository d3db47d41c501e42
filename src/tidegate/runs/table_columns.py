"""Which columns a pipeline writes: declared, or inferred once and remembered, then fitted to the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from tidegate.core.files.plan import FileSlice, Plan
from tidegate.errors import ReplacesTable, SourceError
from tidegate.formats.samples import SAMPLED_LINES, Sampler, spread
from tidegate.observe.events import Emit, Notice
from tidegate.protocol.notes import InferredSchema
from tidegate.protocol.position import Position
from tidegate.protocol.table_checks import check_partition_types, check_partitioning, costs_rows
from tidegate.runs.bound_source import Place
from tidegate.schema.inference import Inference, agreeing
from tidegate.schema.types import field_specs
from tidegate.sink.partitions import METADATA_COLUMNS, Partitioning, table_schema
from tidegate.sink.read_task import ReadTask, read_task
from tidegate.specs.project import FieldSpec, PathSource, PipelineSpec


@dataclass(frozen=True, slots=True)
class TableColumnsPlan:
    """Fields to decode, and the table's columns as this pipeline writes them.

    ``inferred`` is how the fields came about, if they were just inferred and nothing remembers them yet.
    """

    fields: tuple[FieldSpec, ...]
    existing: pa.Schema | None
    table: pa.Schema
    partition_columns: tuple[str, ...]
    inferred: Inference | None = None

    def task(self, pipeline: PipelineSpec, source: PathSource, deadline: float | None, run: str = "") -> ReadTask:
        """The task that reads units of ``source`` into these columns; ``run`` names the run in dead letters."""
        return read_task(pipeline, source, self.fields, self.existing, deadline=deadline, run=run)


def resolve_columns(place: Place, opened: Position, plan: Plan, emit: Emit) -> TableColumnsPlan:
    """The columns for this plan; :class:`SchemaMismatch` before anything is read when the table cannot take them."""
    known = known_fields(place, opened.schema())
    if known is not None:
        return columns_of(place, opened, known)
    found = _sampled(place, plan)
    columns = columns_of(place, opened, found.fields)
    if not columns.table.names:
        raise SourceError(
            f"{place.key}: no sampled record has a field, so there are no columns for a table",
            "wait for records that have fields, or declare schema.fields",
        )
    emit(Notice(place.pipeline.name, place.source.name, f"inferred {found.summary()}"))
    if place.positions.staged:
        agreed = InferredSchema(place.table_store, place.pipeline.name).remember(found)
        return columns_of(place, opened, agreed.fields)
    return replace(columns, inferred=found)


def declared_columns(place: Place, opened: Position) -> TableColumnsPlan | None:
    """The same without looking at any file: None where columns are inferred."""
    fields = place.pipeline.schema.fields
    return columns_of(place, opened, fields) if fields else None


def first_columns(place: Place, opened: Position) -> TableColumnsPlan | None:
    """The columns of a table that is not there yet: declared or remembered; None where nobody knows them."""
    fields = known_fields(place, None)
    return None if fields is None else columns_of(place, opened, fields)


def columns_of(place: Place, opened: Position, fields: tuple[FieldSpec, ...]) -> TableColumnsPlan:
    """Fields, and the rescued column, fitted to the table as it is: narrower types take the table's."""
    pipeline, existing = place.pipeline, opened.schema()
    fields = with_rescued(pipeline, fields)
    whole, keys = whole_columns(pipeline, fields)
    if existing is not None:
        check_partitioning(opened.partition_columns, keys)
    try:
        task = read_task(pipeline, place.source, fields, existing)
    except ReplacesTable as error:
        if place.positions.has_rows():
            raise costs_rows(error) from None
        existing = None
        task = read_task(pipeline, place.source, fields)
    written = {field.name: field for field in pa.ipc.read_schema(pa.py_buffer(task.file_schema))}
    fitted = pa.schema([written.get(field.name, field) for field in whole])
    if existing is not None:
        check_partition_types(existing, fitted, keys)
    return TableColumnsPlan(fields, existing, fitted, keys)


def with_rescued(pipeline: PipelineSpec, fields: tuple[FieldSpec, ...]) -> tuple[FieldSpec, ...]:
    """Fields and, where it is wanted, the column for what fits none of them."""
    rescued = pipeline.schema.rescued
    return fields if rescued is None else (*fields, FieldSpec(rescued, "string"))


def whole_columns(pipeline: PipelineSpec, fields: tuple[FieldSpec, ...]) -> tuple[pa.Schema, tuple[str, ...]]:
    """All columns of a table that a pipeline with these fields makes, and which of them are its partition columns."""
    by = pipeline.sink.partition_by
    whole = table_schema(fields, by, pipeline.sink.metadata_columns)
    return whole, Partitioning(by, table_schema(fields, None)).columns


def known_fields(place: Place, existing: pa.Schema | None) -> tuple[FieldSpec, ...] | None:
    """The fields that are known without a look at any file: declared, remembered, or the table's; else None."""
    if place.pipeline.schema.fields:
        return place.pipeline.schema.fields
    remembered = read_remembered(place)
    if remembered is not None:
        return remembered.fields
    return None if existing is None else fields_of_table(place.pipeline, existing)


def fields_of_table(pipeline: PipelineSpec, existing: pa.Schema) -> tuple[FieldSpec, ...]:
    """The fields that the columns of a table stand for, without those that the pipeline adds."""
    by = pipeline.sink.partition_by
    made = set() if by is None else {part.partition("=")[0] for part in by.prefix_template.split("/") if "=" in part}
    others = {*made, *METADATA_COLUMNS, pipeline.schema.rescued}
    return field_specs(pa.schema([each for each in existing if each.name not in others]))


def read_remembered(place: Place) -> Inference | None:
    """What was inferred and stored beside the table after the first commit; None where nothing was."""
    return InferredSchema(place.table_store, place.pipeline.name).read()


def _sampled(place: Place, plan: Plan) -> Inference:
    slices = [each for unit in plan.units for each in unit.slices]
    return agreeing(sample(place, spread(slices), SAMPLED_LINES))


def sample(place: Place, slices: Sequence[FileSlice], lines: int) -> Inference:
    """What the first ``lines`` of each of these files say, with what is in the way of it."""
    by = place.pipeline.sink.partition_by
    keys = () if by is None or by.column else tuple(part.partition("=")[0] for part in by.prefix_template.split("/"))
    schema = place.pipeline.schema
    return Sampler(place.source_store, place.source, lines).infer(
        slices,
        forbidden=keys,
        coerce_conflicts_to_utf8=schema.coerce_conflicts_to_utf8,
        rescued=schema.rescued is not None,
    )
