"""Columns inferred from text cells, as CSV has them, and from files that have types of their own.

Cells: whole numbers become ``int64``, beyond 64 bits ``decimal(20,0)``, other numbers ``float64``, ``true`` and
``false`` ``boolean``; anything else, a number with leading zeros, one that no number type holds exactly and a mixture
included, stays ``string``, which takes every cell.

Typed files: whole numbers of up to 32 bits become ``int32``, larger ones ``int64``, columns that are ``int32`` here
and ``int64`` there the wider of them. A column whose type no table has (a map whose keys are no texts, an interval,
what is nested too deep) is kept as ``json`` text. Every column may be null: a later file need not have it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import SourceError, TableError
from tidegate.schema.inference import NUMBERS, FieldReport, Inference, number_kind, number_type
from tidegate.schema.literals import shortened
from tidegate.schema.names import DECLARE_OTHERS, problems, unusable
from tidegate.schema.types import TIMESTAMP, field_specs, plain
from tidegate.specs.project import FieldSpec

Row = Mapping[str, str | None]
"""The cells of one record by column, None for null."""

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_LONG = re.compile(r"[0-9]{16}|[eE][+-]?[0-9]{3}")
"""Numbers that must be looked at one by one: sixteen digits in a row, or an exponent of three."""
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


@dataclass(slots=True)
class _Column:
    records: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def add(self, cell: str | None) -> None:
        self.records += 1
        if cell is not None:
            kind = cell_kind(cell)
            self.kinds[kind] += 1
            self.examples.setdefault(kind, shortened(cell))

    def type(self) -> tuple[str, str]:
        """The type, and a note where it is not plain."""
        kinds = set(self.kinds)
        if not kinds:
            return "string", "never had a value; taken for text"
        if kinds <= NUMBERS:
            number = number_type(kinds)
            return number or "string", "" if number else "no number type holds all values exactly; kept as text"
        if kinds == {"boolean"}:
            return "boolean", ""
        mixed = " and ".join(f"{kind} ({self.examples[kind]})" for kind, _ in self.kinds.most_common())
        return "string", f"kept as text: {mixed}" if len(kinds) > 1 else ""


def cell_kind(cell: str) -> str:
    """What the text of a cell looks like: a kind of number, ``boolean`` or ``string``."""
    if _NUMBER.fullmatch(cell):
        return number_kind(cell)
    return "boolean" if cell.lower() in ("true", "false") else "string"


def examples_of(cells: pa.Array) -> dict[str, str]:
    """A cell of each kind that a column of texts has."""
    filled = cells.drop_null()
    number = pc.match_substring_regex(filled, f"^(?:{_NUMBER.pattern})$")
    whole = pc.match_substring_regex(filled, f"^(?:{_INTEGER.pattern})$")
    truth = pc.is_in(pc.ascii_lower(filled), pa.array(["true", "false"], filled.type))
    plain = pc.and_not(number, pc.match_substring_regex(filled, _LONG.pattern))
    other = pc.invert(pc.or_(number, truth))
    masks = (pc.and_(plain, whole), pc.and_not(plain, whole), truth, other)
    places = (pc.index(mask, True).as_py() for mask in masks)
    found = [filled[place].as_py() for place in places if place >= 0]
    found += filled.filter(pc.and_not(number, plain)).unique().to_pylist()
    return {cell_kind(cell): cell for cell in found}


def infer_cells(samples: Iterable[Iterable[Row]], *, unreadable: int = 0, forbidden: tuple[str, ...] = ()) -> Inference:
    """Columns that take every sampled record; raises :class:`SourceError` for names that cannot be columns."""
    columns: dict[str, _Column] = {}
    records = 0
    for rows in samples:
        for row in rows:
            records += 1
            for name, cell in row.items():
                columns.setdefault(name, _Column()).add(cell)
    if not records:
        raise SourceError("no record to infer a schema from", "declare schema.fields, or wait for data")
    if problems := unusable(list(columns), forbidden):
        raise SourceError("the columns cannot be used: " + "; ".join(problems), DECLARE_OTHERS)
    fields, report = [], []
    for name, column in columns.items():
        kind, note = column.type()
        fields.append(FieldSpec(name, kind))
        seen = sum(column.kinds.values())
        report.append(FieldReport(name, kind, records, seen, dict(column.kinds.most_common()), note))
    return Inference(tuple(fields), tuple(report), records, unreadable)


_WIDER = ("int32", "int64", "float64")


@dataclass(slots=True)
class _TypedColumn:
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
    columns: dict[str, _TypedColumn] = {}
    records = 0
    for path, schema, count in files:
        records += count
        for each in schema:
            found = _declared(each)
            columns.setdefault(each.name, _TypedColumn(found)).add(found, each.type, count, path)
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
