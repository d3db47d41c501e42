"""The columns of a wave of work units: declared, or those that hold every record that was fetched.

Where the table is there already, its types are kept: a work unit whose records do not fit them fails, and no other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from tidegate.errors import SourceError, TableError
from tidegate.schema.infer import Inference, look
from tidegate.schema.types import arrow_type, field_specs, plain
from tidegate.sources.units.fetched import Fetched
from tidegate.specs import FieldSpec, SchemaSpec


@dataclass(frozen=True, slots=True)
class WaveColumns:
    """``fields`` is None where nothing tells what they are; ``refused`` units, by index, contradict the others."""

    fields: tuple[FieldSpec, ...] | None
    refused: Mapping[int, str] = field(default_factory=dict)


def wave_columns(schema: SchemaSpec, fetched: Sequence[Fetched], table: pa.Schema | None) -> WaveColumns:
    """The columns of everything that was fetched."""
    if schema.fields:
        return WaveColumns((*schema.fields, *_rescued(schema)))
    telling = {each.index: each.telling for each in fetched if each.telling}
    if not telling:
        return WaveColumns(None)
    found, refused = _agreed(schema, telling)
    return WaveColumns((*kept_types(found.fields, table), *_rescued(schema)), refused)


def _rescued(schema: SchemaSpec) -> tuple[FieldSpec, ...]:
    return () if schema.rescued is None else (FieldSpec(schema.rescued, "string"),)


def _agreed(schema: SchemaSpec, telling: Mapping[int, Sequence[bytes]]) -> tuple[Inference, dict[int, str]]:
    """What all records are or, where they contradict each other, what most work units have.

    Those with a field that then has no column are refused; a value that does not fit refuses its unit when it is read.
    """
    coerce, rescued = schema.coerce_conflicts_to_utf8, schema.rescued is not None
    found = look(telling.values(), coerce_conflicts_to_utf8=coerce, rescued=rescued)
    if not found.problems:
        return found, {}
    most = look(telling.values(), coerce_conflicts_to_utf8=coerce, rescued=True)
    known = {each.path for each in most.report}
    refused = {}
    for index, records in telling.items():
        own = look([records], coerce_conflicts_to_utf8=coerce, rescued=False)
        missing = [each.path for each in own.report if each.path not in known]
        if missing or own.problems:
            told = own.problems or (f"{missing[0]!r} has no column, because the records of other work units differ",)
            refused[index] = "; ".join((*told, *(each for each in found.problems if each not in told)))
    return most, refused


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
    try:
        (declared,) = field_specs(pa.schema([pa.field(found.name, table)]))
    except TableError:
        return found
    return declared


def conflict(reason: str) -> SourceError:
    """A work unit whose records contradict those of the others."""
    return SourceError(
        f"the records do not agree: {reason}",
        "declare schema.fields, or set schema.coerce_conflicts_to_utf8 or schema.rescued",
    )
