"""Columns from files that have types of their own: what holds the columns of all of them, and a report.

Whole numbers of up to 32 bits become ``int32``, larger ones ``int64``, columns that are ``int32`` here and ``int64``
there the wider of them. A column whose type no table has (a map whose keys are no texts, an interval, what is nested
too deep) is kept as ``json`` text. Every column may be null: a later file need not have it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pyarrow as pa

from tidegate.errors import SourceError, TableError
from tidegate.schema.column_names import DECLARE_OTHERS, unusable
from tidegate.schema.infer import FieldReport, Inference
from tidegate.schema.names import problems
from tidegate.schema.types import TIMESTAMP, field_specs, plain
from tidegate.specs import FieldSpec

_WIDER = ("int32", "int64", "float64")


@dataclass(slots=True)
class _Column:
    found: FieldSpec
    records: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    clash: str = ""

    def add(self, other: FieldSpec, type: pa.DataType, records: int, path: str) -> None:
        self.records += records
        self.kinds[str(type)] += records
        if other == self.found:
            return
        if {other.type, self.found.type} <= set(_WIDER):
            self.found = max(other, self.found, key=lambda each: _WIDER.index(each.type))
        elif not self.clash:
            self.clash = f"{other.name!r} is {' and '.join(self.kinds)} (in {path})"


def infer_types(files: Iterable[tuple[str, pa.Schema, int]], *, forbidden: tuple[str, ...] = ()) -> Inference:
    """Columns for files of these names, schemas and numbers of records; raises :class:`SourceError`."""
    columns: dict[str, _Column] = {}
    records = 0
    for path, schema, count in files:
        records += count
        for each in schema:
            found = _declared(each)
            columns.setdefault(each.name, _Column(found)).add(found, each.type, count, path)
    if not columns:
        raise SourceError("no file has a column to infer a schema from", "declare schema.fields, or wait for data")
    wrong = unusable(list(columns), forbidden)
    wrong += [column.clash for column in columns.values() if column.clash]
    if wrong:
        raise SourceError("no columns can be inferred from the files: " + "; ".join(wrong), DECLARE_OTHERS)
    report = [
        FieldReport(name, column.found.type, records, column.records, dict(column.kinds), _note(column.found))
        for name, column in columns.items()
    ]
    return Inference(tuple(column.found for column in columns.values()), tuple(report), records)


def _note(found: FieldSpec) -> str:
    kept = "; no table has its type, it is kept as JSON text" if found.type == "json" else ""
    return f"from the files' own schema{kept}"


def _declared(each: pa.Field) -> FieldSpec:
    """The column that holds what a file has; ``json`` where no other type does."""
    try:
        (found,) = field_specs(pa.schema([pa.field(each.name, _widened(each.type))]))
    except TableError:
        return FieldSpec(each.name, "json")
    return FieldSpec(each.name, "json") if any(problems((replace(found, name="column"),))) else found


def _widened(kind: pa.DataType) -> pa.DataType:
    """The narrowest type of the type list that holds every value of ``kind``, at any depth."""
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(child.name, _widened(child.type)) for child in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _widened(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _widened(kind.value_type)))
    if pa.types.is_null(kind):
        return pa.string()
    if pa.types.is_uint64(kind):
        return pa.decimal128(20, 0)
    if pa.types.is_integer(kind):
        return pa.int32() if kind.bit_width + pa.types.is_unsigned_integer(kind) <= 32 else pa.int64()
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_timestamp(kind):
        return TIMESTAMP
    if pa.types.is_date(kind):
        return pa.date32()
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_decimal(kind) and kind.precision <= 38:
        return pa.decimal128(kind.precision, kind.scale)
    return plain(kind)
