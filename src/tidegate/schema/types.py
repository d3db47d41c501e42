"""Declared columns as Arrow columns and back.

The Arrow form is what the Parquet files and the Delta table hold: timestamps in microseconds UTC, ``json`` as
text, list elements named ``element`` as Delta names them. ``json`` is therefore not told from ``string`` on
the way back; the decoder works from the declarations, never from an Arrow schema alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa

from tidegate.errors import TableError
from tidegate.schema.names import check, decimal_of
from tidegate.specs.project import FieldSpec

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
    return _NAMES.get(kind, str(plain(kind)))


def field_specs(schema: pa.Schema) -> tuple[FieldSpec, ...]:
    """Declarations whose Arrow form is ``schema``; raises for a type that the type list does not have."""
    return tuple(_field_spec(field.name, field.type, field.nullable) for field in schema)


def _field_spec(name: str, kind: pa.DataType, nullable: bool) -> FieldSpec:
    kind = plain(kind)
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
            f"column {name!r} has the type {kind}, which the type list does not have",
            "declare the columns in schema.fields with types of the list",
        )
    return FieldSpec(name, _NAMES[kind], nullable)


def plain(kind: pa.DataType) -> pa.DataType:
    """The same type without Arrow's physical variants (large, view), at any depth."""
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([plain_field(child) for child in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_list_view(kind):
        return pa.list_(plain_field(kind.value_field).with_name("element"))
    if pa.types.is_map(kind):
        return pa.map_(plain_field(kind.key_field), plain_field(kind.item_field).with_name("value"))
    return kind


def plain_field(field: pa.Field) -> pa.Field:
    """:func:`plain` for a field; metadata is dropped."""
    return pa.field(field.name, plain(field.type), nullable=field.nullable)


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


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """:func:`plain` for every column, without metadata."""
    return pa.schema([plain_field(field) for field in schema])


def paths_of(schema: Iterable[pa.Field], where: str = "") -> Iterator[tuple[str, str]]:
    """Every column and field inside one, by its path, with the name of its type; required ones are marked.

    >>> dict(paths_of(pa.schema([("u", pa.struct([("a", pa.int64())])), ("l", pa.list_(pa.string()))])))
    {'u': 'struct', 'u.a': 'int64', 'l': 'list<string>'}
    """
    for field in schema:
        path, kind = where + field.name, plain(field.type)
        required = "" if field.nullable else " not null"
        below: list[pa.Field] = []
        name = type_name(kind)
        if pa.types.is_struct(kind):
            name, below = "struct", list(kind)
        elif pa.types.is_list(kind):
            name, below = _container("list", [kind.value_field])
        elif pa.types.is_map(kind):
            name, below = _container("map", [kind.key_field, kind.item_field])
        yield path, name + required
        yield from paths_of(below, f"{path}.")


def _container(name: str, members: list[pa.Field]) -> tuple[str, list[pa.Field]]:
    """A list or map of scalars on one line, else with the members below it."""
    if any(pa.types.is_nested(member.type) for member in members):
        return name, members
    return f"{name}<{', '.join(type_name(member.type) for member in members)}>", []


def merged_fields(known: tuple[FieldSpec, ...], seen: tuple[FieldSpec, ...]) -> tuple[FieldSpec, ...]:
    """``known``, each with the new fields inside it, then the new ones; a known type is never changed."""
    found = {field.name: field for field in seen}
    names = {field.name.lower() for field in known}
    grown = tuple(_grown(field, found[field.name]) if field.name in found else field for field in known)
    return grown + tuple(field for field in seen if field.name.lower() not in names)


def _grown(known: FieldSpec, seen: FieldSpec) -> FieldSpec:
    if known.type != seen.type:
        return known
    if known.type == "struct":
        return replace(known, fields=merged_fields(known.fields, seen.fields))
    if known.items is not None and seen.items is not None:
        return replace(known, items=_grown(known.items, seen.items))
    return known
