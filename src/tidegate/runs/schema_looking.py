"""Looking at columns without touching anything: what files say, what is known, what the next run would change."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from tidegate.errors import ReplacesTable, SourceError, StateError, TidegateError
from tidegate.observe.wording import count
from tidegate.planning.plan import FileSlice
from tidegate.runs.columns import (
    fields_of_table,
    known_fields,
    read_remembered,
    sample,
    whole_columns,
    with_rescued,
)
from tidegate.runs.place import FILES_PER_PLAN, Place
from tidegate.schema.evolution import Difference, Kind, differences
from tidegate.schema.infer import FieldReport, Inference, agreeing
from tidegate.schema.merging import merged_fields
from tidegate.schema.names import field_to_json
from tidegate.schema.types import arrow_schema, paths_of
from tidegate.schema_reports import (
    ColumnSeen,
    SchemaChange,
    SchemaColumn,
    SchemaDiff,
    SchemaInference,
    SchemaView,
)
from tidegate.sink.sampling import spread
from tidegate.specs import FieldSpec
from tidegate.state.fitting import costs_rows
from tidegate.state.inferred_schema import InferredSchema

Confirm = Callable[[SchemaInference], bool]

EFFECTS = {
    Kind.NEW: "added to the table, null in the rows that are there",
    Kind.MISSING: "null in new rows",
    Kind.NARROWER_FILE: "written with the table's type",
}
"""What a run does about a difference that does not stop it."""

_TRANSFORMED = "the pipeline has a transform: the table takes the columns of its result, which only a run knows"


def inferred(place: Place, now: datetime, lines: int) -> SchemaInference:
    """What the first ``lines`` of each of some files say, old files and new ones alike."""
    return _reported(place, _looked(place, now, lines), read_remembered(place))


def updated(place: Place, now: datetime, lines: int, confirm: Confirm) -> SchemaInference:
    """The same; fields that the remembered schema lacks are added to it, if ``confirm`` agrees.

    Where there is no table yet, or what is remembered is damaged, the new columns take the place of the old ones.
    """
    if place.pipeline.schema.fields:
        raise TidegateError(
            f"{place.pipeline.name}: schema.fields are declared, so no inferred schema is used",
            "change the declared fields in the configuration",
        )
    memory = InferredSchema(place.table_store, place.pipeline.name)
    found, files = _looked(place, now, lines)
    before = _kept(place, memory)
    report = _reported(place, (found, files), before)
    if not report.new and before is not None:
        return report
    agreeing(found)
    whole_columns(place.pipeline, with_rescued(place.pipeline, found.fields))
    if not confirm(report):
        return report
    if before is None:
        memory.replace(found)
    else:
        memory.replace(replace(before, fields=merged_fields(before.fields, found.fields), report=found.report))
    return replace(report, applied=True)


def _kept(place: Place, memory: InferredSchema) -> Inference | None:
    """The columns that new ones are added to: those remembered or, where these are lost, the table's."""
    table = place.positions.table_schema()
    if table is None:
        return None
    try:
        remembered = memory.read()
    except StateError:
        remembered = None
    if remembered is not None or place.pipeline.transform is not None:
        return remembered
    return Inference(fields_of_table(place.pipeline, table), (), 0)


def _looked(place: Place, now: datetime, lines: int) -> tuple[Inference, int]:
    listing = place.discover(place.state_of(None), now, polls=0, limit=FILES_PER_PLAN)
    files = [FileSlice(file.path, file.size, file.etag) for file in listing.files]
    if not files:
        raise SourceError(f"{place.key}: there is no file to look at", "wait for data, or check source_uri and pattern")
    chosen = spread(files)
    return sample(place, chosen, lines), len(chosen)


def _reported(place: Place, looked: tuple[Inference, int], remembered: Inference | None) -> SchemaInference:
    found, files = looked
    known = {} if remembered is None else dict(paths_of(arrow_schema(remembered.fields)))
    ours = dict(paths_of(arrow_schema(found.fields)))
    return SchemaInference(
        pipeline=place.pipeline.name,
        source=place.source.name,
        files=files,
        records=found.records,
        unreadable=found.unreadable,
        columns=tuple(_seen(each) for each in found.report),
        problems=found.problems,
        yaml=yaml_of(found.fields, found.report),
        new=tuple(path for path in ours if path not in known) if remembered is not None else (),
    )


def _seen(report: FieldReport) -> ColumnSeen:
    return ColumnSeen(
        path=report.path,
        type=report.type,
        records=report.records,
        seen=report.seen,
        nulls=report.nulls,
        absent=report.absent,
        confidence=report.confidence,
        kinds=dict(report.kinds),
        examples=dict(report.examples),
        note=report.note,
    )


def yaml_of(fields: tuple[FieldSpec, ...], report: tuple[FieldReport, ...] = ()) -> str:
    """Declared columns as they stand in a configuration; what is unsure has its reason behind it.

    >>> print(yaml_of((FieldSpec("id", "int64"),)))
    schema:
      fields:
        - {name: id, type: int64}
    """
    told = {each.path: each for each in report}
    lines = [f"    - {_flow(_short(field))}{_remark(told.get(field.name))}" for field in fields]
    return "\n".join(["schema:", "  fields:", *lines])


def _remark(report: FieldReport | None) -> str:
    if report is None or report.confidence == "high":
        return ""
    return f"  # {report.note or 'only ' + count(report.seen, 'value')}"


def _short(field: FieldSpec, *, named: bool = True) -> Any:
    """A column without what is the default; a bare type where that is all."""
    data = field_to_json(field)
    shorter: dict[str, Any] = {"name": field.name} if named else {}
    shorter["type"] = field.type
    if not data["nullable"]:
        shorter["nullable"] = False
    if field.fields:
        shorter["fields"] = [_short(child) for child in field.fields]
    for key in ("items", "keys", "values"):
        child = getattr(field, key)
        if child is not None:
            shorter[key] = _short(child, named=False)
    return field.type if shorter.keys() == {"type"} else shorter


def _flow(value: Any) -> str:
    match value:
        case dict():
            return "{" + ", ".join(f"{key}: {_flow(item)}" for key, item in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_flow, value)) + "]"
        case str() if value.isidentifier() and value.lower() not in _YAML_WORDS:
            return value
        case _:
            return json.dumps(value, ensure_ascii=False)


_YAML_WORDS = ("true", "false", "yes", "no", "on", "off", "null", "y", "n")


def shown(place: Place) -> SchemaView:
    """The declared, the remembered and the table's columns, side by side."""
    pipeline = place.pipeline
    remembered = read_remembered(place)
    opened = place.positions.site.delta.snapshot()
    table = place.positions.table_schema()
    sides = [
        {} if fields is None else dict(paths_of(fields))
        for fields in (
            arrow_schema(pipeline.schema.fields) if pipeline.schema.fields else None,
            None if remembered is None else arrow_schema(remembered.fields),
            table,
        )
    ]
    paths = dict.fromkeys(path for side in reversed(sides) for path in side)
    return SchemaView(
        pipeline=pipeline.name,
        table_uri=pipeline.sink.table.uri,
        table_version=None if opened is None else opened.facts.version,
        evolution=pipeline.schema.evolution.value,
        columns=tuple(SchemaColumn(path, *(side.get(path) for side in sides)) for path in paths),
        notes=tuple(_notes(place, remembered)),
    )


def _notes(place: Place, remembered: Inference | None) -> Iterator[str]:
    if place.pipeline.transform is not None:
        yield _TRANSFORMED
    if place.pipeline.schema.fields:
        if remembered is not None:
            yield "schema.fields are declared: the remembered schema is not used"
    elif remembered is None:
        yield "nothing is declared or remembered: the next run goes by the table, or by a sample of its files"


def compared(place: Place) -> SchemaDiff:
    """What the next run would do about the columns of its table."""
    pipeline = place.pipeline
    opened = place.positions.open(read_only=True)
    if pipeline.transform is not None:
        evolution = pipeline.schema.evolution.value
        return SchemaDiff(pipeline.name, pipeline.sink.table.uri, evolution, (), ok=True, notes=(_TRANSFORMED,))
    table = opened.schema()
    known = known_fields(place, table)
    fields = None if known is None else with_rescued(pipeline, known)
    notes: tuple[str, ...] = ()
    changes: tuple[SchemaChange, ...] = ()
    if fields is None:
        notes = ("nothing is known about the columns yet: the next run looks at its files (`tidegate schema infer`)",)
    elif table is None:
        notes = ("there is no table yet: the next run creates it",)
        whole, _ = whole_columns(pipeline, fields)
        changes = tuple(SchemaChange(path, Kind.NEW.value, None, kind, "created") for path, kind in paths_of(whole))
    else:
        changes = tuple(_changes(place, table, opened.partition_columns, fields))
    ok = all(change.error is None for change in changes)
    return SchemaDiff(pipeline.name, pipeline.sink.table.uri, pipeline.schema.evolution.value, changes, ok, notes)


def _changes(
    place: Place, table: pa.Schema, partition_columns: tuple[str, ...], fields: tuple[FieldSpec, ...]
) -> Iterator[SchemaChange]:
    whole, keys = whole_columns(place.pipeline, fields)
    if keys != partition_columns:
        text = f"the table is partitioned by {list(partition_columns)}, the pipeline by {list(keys)}"
        yield SchemaChange("sink.partition_by", "partitioning", str(list(partition_columns)), str(list(keys)), "", text)
        return
    mode = place.pipeline.schema.evolution
    for each in differences(table, whole, mode, partition_columns=keys, file_name="the pipeline"):
        yield change_of(place, each)


def change_of(place: Place, each: Difference) -> SchemaChange:
    """A difference, with what the next run does about it."""
    effect, error = EFFECTS.get(each.kind, ""), None if each.error is None else str(each.error)
    if isinstance(each.error, ReplacesTable):
        if place.positions.has_rows():
            effect, error = "replaces the table: see `tidegate schema replace`", str(costs_rows(each.error))
        else:
            effect, error = "replaces the columns of the table, which has no rows", None
    return SchemaChange(each.path, each.kind.value, each.table, each.file, effect, error)
