"""The columns of a table with a wider type at one path."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tidegate.errors import SchemaMismatch
from tidegate.schema.evolution import widens
from tidegate.schema.types import paths_of, type_name


def widened(schema: pa.Schema, path: str, kind: pa.DataType) -> pa.Schema:
    """``schema`` with ``kind`` at ``path`` (``user.age``, ``tags.element``, ``prices.value``).

    Raises :class:`SchemaMismatch` where there is no such field, or where a value might not survive.
    """
    return pa.schema(_fields(list(schema), path, kind, path, schema))


def _fields(fields: Sequence[pa.Field], rest: str, kind: pa.DataType, path: str, schema: pa.Schema) -> list[pa.Field]:
    chosen = next((field for field in fields if rest == field.name or rest.startswith(f"{field.name}.")), None)
    if chosen is None:
        known = ", ".join(found for found, _ in paths_of(schema))
        raise SchemaMismatch(f"there is no column {path!r} in the table", f"it has: {known}")
    below = rest[len(chosen.name) + 1 :]
    changed = _below(chosen, below, kind, path, schema) if below else _wider(chosen, kind, path)
    return [changed if field is chosen else field for field in fields]


def _below(field: pa.Field, rest: str, kind: pa.DataType, path: str, schema: pa.Schema) -> pa.Field:
    inner = field.type
    if pa.types.is_struct(inner):
        return field.with_type(pa.struct(_fields(list(inner), rest, kind, path, schema)))
    if pa.types.is_list(inner):
        return field.with_type(pa.list_(*_fields([inner.value_field], rest, kind, path, schema)))
    if pa.types.is_map(inner):
        keys, values = _fields([inner.key_field, inner.item_field], rest, kind, path, schema)
        return field.with_type(pa.map_(keys, values))
    raise SchemaMismatch(
        f"{path!r}: {field.name!r} is {type_name(inner)}, which has no fields", "name the column itself"
    )


def _wider(field: pa.Field, kind: pa.DataType, path: str) -> pa.Field:
    if field.type != kind and not widens(field.type, kind):
        raise SchemaMismatch(
            f"column {path!r} is {type_name(field.type)}, and not each of its values is one of {type_name(kind)}",
            "wider are: int32 → int64, float64, decimal; float32 → float64; date → timestamp; a decimal → more digits",
        )
    return field.with_type(kind)
