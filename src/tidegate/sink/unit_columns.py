"""The columns of a wave of work units: declared, or those that hold every record that was fetched.

Where the table is there already, its types are kept: a work unit whose records do not fit them fails, and no other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from tidegate.errors import SourceError, TableError
from tidegate.schema.infer import Inference
from tidegate.schema.types import arrow_type, field_specs, plain
from tidegate.sink.unit_telling import inferred
from tidegate.sources.units.fetched import Fetched
from tidegate.sources.units.work import UnitWave
from tidegate.specs import FieldSpec, SchemaSpec
from tidegate.unit_specs import FileFormat, FileRead

Told = Mapping[int, tuple[bytes, ...]]
"""What each work unit tells about its columns, by its index."""


@dataclass(frozen=True, slots=True)
class WaveColumns:
    """``fields`` is None where nothing tells what they are; ``refused`` units, by index, contradict the others."""

    fields: tuple[FieldSpec, ...] | None
    refused: Mapping[int, str] = field(default_factory=dict)


def wave_columns(wave: UnitWave, fetched: Sequence[Fetched]) -> WaveColumns:
    """The columns of everything that was fetched."""
    source, schema = wave.source, wave.pipeline.schema
    if schema.fields:
        return WaveColumns((*schema.fields, *_rescued(schema)))
    told = {each.index: each.telling for each in fetched if each.telling}
    format = source.read.format if isinstance(source.read, FileRead) else None
    is_json = format in (None, FileFormat.NDJSON, FileFormat.JSON)
    found, refused = _of_records(schema, told) if is_json else _of_files(format, schema, told)
    if found is None:
        return WaveColumns(None, refused)
    fields = kept_types(found.fields, wave.table) or _known(wave)
    if not fields:
        return WaveColumns(None, dict.fromkeys(told, "no record has a value, so there are no columns"))
    return WaveColumns((*fields, *_rescued(schema)), refused)


def _rescued(schema: SchemaSpec) -> tuple[FieldSpec, ...]:
    return () if schema.rescued is None else (FieldSpec(schema.rescued, "string"),)


def _known(wave: UnitWave) -> tuple[FieldSpec, ...]:
    """The columns of the table that records can have, for records of which none has a value."""
    by = wave.pipeline.sink.partition_by
    levels = by.prefix_template.strip("/").split("/") if by is not None else []
    made = {
        wave.source.unit_column,
        wave.source.segment_column,
        *(each.partition("=")[0] for each in levels if "=" in each),
    }
    return tuple(each for column in wave.table or () if column.name not in made for each in _declared(column))


def _declared(column: pa.Field) -> tuple[FieldSpec, ...]:
    """A column of the table as it would be declared; nothing for a type that cannot be."""
    try:
        return field_specs(pa.schema([column]))
    except TableError:
        return ()


def _of_records(schema: SchemaSpec, told: Told) -> tuple[Inference | None, dict[int, str]]:
    """What all records are or, where they contradict each other, what most work units have.

    Those with a field that then has no column are refused; a value that does not fit refuses its unit when it is read.
    """
    readable = {index: records for index, records in told.items() if _look(schema, [records])}
    refused = dict.fromkeys(told.keys() - readable.keys(), "there is no JSON object among the records")
    found = _look(schema, readable.values())
    if found is None or not found.problems:
        return found, refused
    most = _look(replace(schema, rescued=schema.rescued or "rescued"), readable.values())
    known = {each.path for each in most.report} if most else set()
    for index, records in readable.items():
        own = _look(schema, [records])
        missing = [each.path for each in own.report if each.path not in known] if own else []
        if own and (missing or own.problems):
            reasons = dict.fromkeys((*own.problems, *found.problems))
            refused[index] = f"the records do not agree with those of other work units: {'; '.join(reasons)}"
    return most, refused


def _look(schema: SchemaSpec, told: Iterable[Sequence[bytes]]) -> Inference | None:
    """The columns of records; None where there is no record."""
    try:
        return inferred(None, schema, list(told))
    except SourceError:
        return None


def _of_files(format: FileFormat | None, schema: SchemaSpec, told: Told) -> tuple[Inference | None, dict[int, str]]:
    """What all files have or, where they do not agree, what those have that agree with the most."""
    if not told:
        return None, {}
    try:
        return inferred(format, schema, list(told.values())), {}
    except SourceError:
        pass
    often = Counter(told.values())
    agreeing: list[tuple[bytes, ...]] = []
    problems: dict[tuple[bytes, ...], str] = {}
    for each, _ in often.most_common():
        try:
            inferred(format, schema, [*agreeing, each])
            agreeing.append(each)
        except SourceError as error:
            problems[each] = error.problem
    refused = {index: problems[own] for index, own in told.items() if own in problems}
    return (inferred(format, schema, agreeing) if agreeing else None), refused


def kept_types(fields: tuple[FieldSpec, ...], table: pa.Schema | None) -> tuple[FieldSpec, ...]:
    """``fields`` with the types that ``table`` has for them; what is new in a struct stays."""
    known = {each.name: each.type for each in table or ()}
    return tuple(_kept(each, plain(known[each.name])) if each.name in known else each for each in fields)


def _kept(found: FieldSpec, table: pa.DataType) -> FieldSpec:
    if arrow_type(found) == table:
        return found
    if found.type == "struct" and pa.types.is_struct(table):
        return replace(found, fields=kept_types(found.fields, pa.schema(list(table))))
    if found.items is not None and pa.types.is_list(table):
        return replace(found, items=_kept(found.items, plain(table.value_type)))
    return next(iter(_declared(pa.field(found.name, table))), found)


def conflict(reason: str) -> SourceError:
    """A work unit whose records contradict those of the others."""
    return SourceError(reason, "declare schema.fields, or set schema.coerce_conflicts_to_utf8 or schema.rescued")
