"""Declared columns as Arrow columns and back.

The Arrow form is what the Parquet files and the Delta table hold: timestamps in microseconds UTC, ``json`` as
text, list elements named ``element`` as Delta names them. ``json`` is therefore not told from ``string`` on
the way back; the decoder works from the declarations, never from an Arrow schema alone.

Columns can be inferred from files with types of their own: whole numbers of up to 32 bits become ``int32``, larger
ones ``int64``, columns that are ``int32`` here and ``int64`` there the wider of them. A column whose type no table has
(a map whose keys are no texts, an interval, what is nested too deep) is kept as ``json`` text. Every column may be
null: a later file need not have it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import SourceError, TableError
from tidegate.schema.inference import NUMBER, FieldReport, Inference, cell_kind
from tidegate.schema.names import DECLARE_OTHERS, check, column_problems, decimal_of, problems
from tidegate.specs.table import FieldSpec

TIMESTAMP = pa.timestamp("us", tz="UTC")

_SCALARS: dict[str, pa.DataType] = {
    "string": pa.string(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "boolean": pa.bool_(),
    "timestamp": TIMESTAMP,
    "date": pa.date32(),
    "json": pa.string(),
    "binary": pa.binary(),
}
_NAMES: dict[pa.DataType, str] = {kind: name for name, kind in _SCALARS.items() if name != "json"}


def arrow_schema(fields: tuple[FieldSpec, ...]) -> pa.Schema:
    """The Arrow schema of declared columns; raises one error that names every wrong declaration."""
    check(fields)
    return pa.schema([arrow_field(field) for field in fields])


def arrow_field(field: FieldSpec) -> pa.Field:
    """One declared column as an Arrow field."""
    return pa.field(field.name, arrow_type(field), nullable=field.nullable)


def arrow_type(field: FieldSpec) -> pa.DataType:
    """The Arrow type of one declared column."""
    if field.type == "struct":
        return pa.struct([arrow_field(child) for child in field.fields])
    if field.type == "list" and field.items is not None:
        return pa.list_(pa.field("element", arrow_type(field.items), nullable=field.items.nullable))
    if field.type == "map" and field.keys is not None and field.values is not None:
        key = pa.field("key", arrow_type(field.keys), nullable=False)
        return pa.map_(key, pa.field("value", arrow_type(field.values), nullable=field.values.nullable))
    if decimal := decimal_of(field.type):
        return pa.decimal128(*decimal)
    return _SCALARS[field.type]


def scalar_type(name: str) -> pa.DataType:
    """The Arrow type of a scalar of the type list; raises an error that names the known ones."""
    field = FieldSpec("type", name)
    check((field,))
    return arrow_type(field)


def type_name(kind: pa.DataType) -> str:
    """The type as the type list names it, where it does; for messages."""
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return _NAMES.get(kind, str(simplify_type(kind)))


def field_specs(schema: pa.Schema) -> tuple[FieldSpec, ...]:
    """Declarations whose Arrow form is ``schema``; raises for a type that the type list does not have."""
    return tuple(_field_spec(field.name, field.type, field.nullable) for field in schema)


def _field_spec(name: str, kind: pa.DataType, nullable: bool) -> FieldSpec:
    kind = simplify_type(kind)
    if pa.types.is_struct(kind):
        children = tuple(_field_spec(child.name, child.type, child.nullable) for child in kind)
        return FieldSpec(name, "struct", nullable, fields=children)
    if pa.types.is_list(kind):
        element = kind.value_field
        return FieldSpec(name, "list", nullable, items=_field_spec("element", element.type, element.nullable))
    if pa.types.is_map(kind):
        value = kind.item_field
        keys = _field_spec("key", kind.key_type, False)
        return FieldSpec(name, "map", nullable, keys=keys, values=_field_spec("value", value.type, value.nullable))
    if pa.types.is_decimal128(kind):
        return FieldSpec(name, f"decimal({kind.precision},{kind.scale})", nullable)
    if kind not in _NAMES:
        raise TableError(
            f"column {name!r} has the type {kind}, which Tidegate does not have",
            "declare the columns in schema.fields with other types",
        )
    return FieldSpec(name, _NAMES[kind], nullable)


def simplify_type(kind: pa.DataType) -> pa.DataType:
    """The same type without Arrow's physical variants (large, view), at any depth."""
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([simplify_field(child) for child in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_list_view(kind):
        # Writers call it `item`, `array` or `list`; by these names, equal types would differ.
        return pa.list_(simplify_field(kind.value_field).with_name("element"))
    if pa.types.is_map(kind):
        return pa.map_(simplify_field(kind.key_field), simplify_field(kind.item_field).with_name("value"))
    return kind


def simplify_field(field: pa.Field) -> pa.Field:
    """:func:`simplify_type` for a field; metadata is dropped."""
    return pa.field(field.name, simplify_type(field.type), nullable=field.nullable)


def levels(kind: pa.DataType) -> int:
    """How deep structs, lists and maps lie inside each other in a type: 0 for a scalar.

    >>> levels(pa.list_(pa.struct([("a", pa.int64())])))
    2
    """
    if pa.types.is_map(kind):
        return 1 + max(levels(kind.key_type), levels(kind.item_type))
    if not pa.types.is_nested(kind):
        return 0
    return 1 + max((levels(kind.field(number).type) for number in range(kind.num_fields)), default=0)


_OF_UNSIGNED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    # Its greatest value has 20 digits, one more than int64 holds.
    pa.uint64(): pa.decimal128(20, 0),
}
_OF_TABLES = frozenset((*_SCALARS.values(), pa.int8(), pa.int16()))


def table_type(kind: pa.DataType) -> pa.DataType | None:
    """The type of a table's column that holds every value of ``kind`` exactly, as Spark chooses it, at any depth.

    None if there is none: times without a zone or finer than microseconds, times of day, durations, what has no type.

    >>> table_type(pa.list_(pa.uint32())), table_type(pa.time64("us"))
    (ListType(list<element: int64>), None)
    """
    kind = simplify_type(kind.value_type if pa.types.is_dictionary(kind) else kind)
    if pa.types.is_fixed_size_list(kind):
        kind = pa.list_(kind.value_field.with_name("element"))
    if pa.types.is_map(kind):
        key, value = table_type(kind.key_type), table_type(kind.item_type)
        return pa.map_(key, kind.item_field.with_type(value)) if key is not None and value is not None else None
    if pa.types.is_nested(kind):
        fields = [kind.field(number) for number in range(kind.num_fields)]
        kinds = [table_type(each.type) for each in fields]
        if None in kinds or not (pa.types.is_struct(kind) or pa.types.is_list(kind)):
            return None
        typed = [field.with_type(each) for field, each in zip(fields, kinds, strict=True)]
        return pa.struct(typed) if pa.types.is_struct(kind) else pa.list_(typed[0])
    if pa.types.is_timestamp(kind):
        return TIMESTAMP if kind.tz is not None and kind.unit != "ns" else None
    if pa.types.is_date(kind):
        return pa.date32()
    if pa.types.is_fixed_size_binary(kind) and not pa.types.is_decimal(kind):
        return pa.binary()
    if kind in _OF_UNSIGNED:
        return _OF_UNSIGNED[kind]
    return kind if kind in _OF_TABLES or pa.types.is_decimal128(kind) else None


def simplify_schema(schema: pa.Schema) -> pa.Schema:
    """:func:`simplify_type` for every column, without metadata."""
    return pa.schema([simplify_field(field) for field in schema])


def paths_of(schema: Iterable[pa.Field], where: str = "") -> Iterator[tuple[str, str]]:
    """Every column and field inside one, by its path, with the name of its type; required ones are marked.

    >>> dict(paths_of(pa.schema([("u", pa.struct([("a", pa.int64())])), ("l", pa.list_(pa.string()))])))
    {'u': 'struct', 'u.a': 'int64', 'l': 'list<string>'}
    """
    for field in schema:
        path, kind = where + field.name, simplify_type(field.type)
        required = "" if field.nullable else " not null"
        below: list[pa.Field] = []
        name = type_name(kind)
        if pa.types.is_struct(kind):
            name, below = "struct", list(kind)
        elif pa.types.is_list(kind):
            name, below = _container_lines("list", [kind.value_field])
        elif pa.types.is_map(kind):
            name, below = _container_lines("map", [kind.key_field, kind.item_field])
        yield path, name + required
        yield from paths_of(below, f"{path}.")


def _container_lines(name: str, members: list[pa.Field]) -> tuple[str, list[pa.Field]]:
    """A list or map of scalars on one line, else with the members below it."""
    if any(pa.types.is_nested(member.type) for member in members):
        return name, members
    return f"{name}<{', '.join(type_name(member.type) for member in members)}>", []


_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_LONG = re.compile(r"[0-9]{16}|[eE][+-]?[0-9]{3}")
"""Numbers that must be looked at one by one: sixteen digits in a row, or an exponent of three."""


def examples_of(cells: pa.Array) -> dict[str, str]:
    """A cell of each kind that a column of texts has."""
    filled = cells.drop_null()
    number = pc.match_substring_regex(filled, f"^(?:{NUMBER.pattern})$")
    whole = pc.match_substring_regex(filled, f"^(?:{_INTEGER.pattern})$")
    truth = pc.is_in(pc.ascii_lower(filled), pa.array(["true", "false"], filled.type))
    plain = pc.and_not(number, pc.match_substring_regex(filled, _LONG.pattern))
    other = pc.invert(pc.or_(number, truth))
    masks = (pc.and_(plain, whole), pc.and_not(plain, whole), truth, other)
    places = (pc.index(mask, True).as_py() for mask in masks)
    found = [filled[place].as_py() for place in places if place >= 0]
    found += filled.filter(pc.and_not(number, plain)).unique().to_pylist()
    return {cell_kind(cell): cell for cell in found}


_WIDER = ("int32", "int64", "float64")


@dataclass(slots=True)
class _TypedColumn:
    found: FieldSpec
    kinds: Counter[str]
    records: int = 0
    clash: str = ""

    def add(self, other: FieldSpec, type: pa.DataType, records: int, path: str) -> None:
        self.records += records
        if not self.kinds.keys() - {"null"}:
            self.found = other
        self.kinds[str(type)] += records
        if other == self.found or pa.types.is_null(type):
            return
        joined = _join_fields(self.found, other)
        if joined is not None:
            self.found = joined
        elif not self.clash:
            self.clash = f"{other.name!r} is {' and '.join(self.kinds)} (in {path})"


def kinds_of(schema: pa.Schema) -> dict[str, str]:
    """What the columns of a file are, as far as types of files can contradict each other: those that join are one.

    >>> kinds_of(pa.schema([("id", pa.int32()), ("price", pa.float64()), ("none", pa.null())]))
    {'id': 'number', 'price': 'number'}
    """
    return dict(kinds_of_fields(_declare(field) for field in schema if not pa.types.is_null(field.type)))


def kinds_of_fields(fields: Iterable[FieldSpec], where: str = "") -> Iterator[tuple[str, str]]:
    """The same of columns, and of the fields inside them by their paths."""
    for field in fields:
        path = where + field.name
        yield path, "number" if field.type in _WIDER else field.type
        members = (*field.fields, field.keys, field.items, field.values)
        yield from kinds_of_fields((member for member in members if member is not None), f"{path}.")


def _join_fields(one: FieldSpec, other: FieldSpec) -> FieldSpec | None:
    """The column that holds the values of both, with all fields inside them; None if there is none."""
    if {one.type, other.type} <= set(_WIDER):
        return max(one, other, key=lambda each: _WIDER.index(each.type))
    if one.type != other.type:
        return None
    if one.items is not None and other.items is not None:
        items = _join_fields(one.items, other.items)
        return None if items is None else replace(one, items=items)
    if one.values is not None and other.values is not None:
        values = _join_fields(one.values, other.values)
        return None if values is None or one.keys != other.keys else replace(one, values=values)
    return _join_structs(one, other)


def _join_structs(one: FieldSpec, other: FieldSpec) -> FieldSpec | None:
    fields = {field.name: field for field in one.fields}
    for field in other.fields:
        joined = _join_fields(fields[field.name], field) if field.name in fields else field
        if joined is None:
            return None
        fields[field.name] = joined
    # Delta ignores case: a struct cannot have both.
    is_clear = len({name.lower() for name in fields}) == len(fields)
    return replace(one, fields=tuple(fields.values())) if is_clear else None


def infer_types(files: Iterable[tuple[str, pa.Schema, int]], *, forbidden: tuple[str, ...] = ()) -> Inference:
    """Columns for files of these names, schemas and numbers of records; raises :class:`SourceError`."""
    columns: dict[str, _TypedColumn] = {}
    records = 0
    for path, schema, count in files:
        records += count
        for field in schema:
            found = _declare(field)
            columns.setdefault(field.name, _TypedColumn(found, Counter())).add(found, field.type, count, path)
    if not columns:
        raise SourceError("no file has columns to infer", "declare schema.fields, or wait for data")
    wrong = column_problems(list(columns), forbidden)
    wrong += [column.clash for column in columns.values() if column.clash]
    if wrong:
        raise SourceError("no columns can be inferred from the files: " + "; ".join(wrong), DECLARE_OTHERS)
    report = [
        FieldReport(name, column.found.type, records, column.records, dict(column.kinds), _note(column.found))
        for name, column in columns.items()
    ]
    return Inference(tuple(column.found for column in columns.values()), tuple(report), records)


def _note(found: FieldSpec) -> str:
    kept = "; no table has this type; kept as JSON text" if found.type == "json" else ""
    return f"from the files' own schema{kept}"


def _declare(each: pa.Field) -> FieldSpec:
    """The column that holds what a file has; ``json`` where no other type does."""
    try:
        (found,) = field_specs(pa.schema([pa.field(each.name, _widest_type(each.type))]))
    except TableError:
        return FieldSpec(each.name, "json")
    # Names are judged elsewhere; a bad one must not turn a good type into text.
    return FieldSpec(each.name, "json") if any(problems((replace(found, name="column"),))) else found


def _widest_type(kind: pa.DataType) -> pa.DataType:
    """The narrowest type of the type list that holds every value of ``kind``, at any depth."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(child.name, _widest_type(child.type)) for child in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _widest_type(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _widest_type(kind.value_type)))
    if pa.types.is_null(kind):
        # There was no value to go by; a file that has a type decides (`_TypedColumn.add`).
        return pa.string()
    if pa.types.is_uint64(kind):
        # Its greatest value has 20 digits, one more than int64 holds.
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
    return simplify_type(kind)
