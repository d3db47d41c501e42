"""Which types of a file's own columns can hold values of which declared columns: what is known before reading.

A file whose columns can never fit is refused as a whole, instead of each of its records.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tidegate.errors import SourceError
from tidegate.schema.names import decimal_of
from tidegate.specs import FieldSpec

MIXED = pa.large_string()
"""The type of a column whose values are of several kinds, each kept as JSON text; plain text is ``string``."""

_FITTING = {
    "string": {"text"},
    "boolean": {"boolean"},
    "int32": {"number"},
    "int64": {"number"},
    "float32": {"number"},
    "float64": {"number"},
    "timestamp": {"moment", "date", "text"},
    "date": {"date", "text"},
    "binary": {"bytes"},
    "struct": {"struct"},
    "list": {"list"},
    "map": {"map"},
}
_ANYTHING = {"null", "mixed"}


def kind_of(type: pa.DataType) -> str:
    """What values of a type are, coarsely."""
    if type == MIXED:
        return "mixed"
    checks = {
        "null": pa.types.is_null,
        "boolean": pa.types.is_boolean,
        "number": lambda found: pa.types.is_integer(found) or pa.types.is_floating(found) or pa.types.is_decimal(found),
        "text": pa.types.is_string,
        "bytes": lambda found: pa.types.is_binary(found) or pa.types.is_fixed_size_binary(found),
        "moment": pa.types.is_timestamp,
        "date": pa.types.is_date,
        "struct": pa.types.is_struct,
        "list": pa.types.is_list,
        "map": pa.types.is_map,
    }
    return next((name for name, check in checks.items() if check(type)), "other")


class Fitting:
    """Compares the columns of files with the declared ones."""

    def __init__(
        self, fields: tuple[FieldSpec, ...], *, coerce: bool, lenient: bool, forbidden: tuple[str, ...]
    ) -> None:
        self._fields = fields
        self._coerce = coerce
        self._lenient = lenient
        self.forbidden = forbidden

    def unknown(self, schema: pa.Schema, path: str) -> tuple[str, ...]:
        """Columns and fields that only the file has, by path; :class:`SourceError` if the file can never fit."""
        self.check_names(schema.names, path)
        problems: list[str] = []
        unknown = tuple(self._compare(list(schema), self._fields, "", problems))
        if problems:
            raise SourceError(
                f"{path}: {'; '.join(problems)}",
                "declare the columns as the files have them, or write the file again",
            )
        return unknown

    def check_names(self, names: list[str], path: str) -> None:
        """Raise :class:`SourceError` where names alone show that the file cannot be read."""
        declared = {field.name for field in self._fields}
        problem = ""
        if repeated := sorted({name for name in names if name in declared and names.count(name) > 1}):
            problem = f"has column {repeated[0]!r} twice"
        elif taken := [name for name in names if name in self.forbidden]:
            problem = f"column {taken[0]!r} has the name of a partition column that comes from the path"
        elif missing := [field.name for field in self._fields if not field.nullable and field.name not in names]:
            problem = f"has no column {missing[0]!r}, which is required; it has {_listed(names)}"
        elif not declared & set(names):
            problem = f"has none of the declared columns; it has {_listed(names)}"
        if problem:
            raise SourceError(f"{path}: {problem}", "write the file again, or correct schema.fields")

    def _compare(
        self, found: list[pa.Field], fields: tuple[FieldSpec, ...], where: str, problems: list[str]
    ) -> Iterator[str]:
        declared = {field.name: field for field in fields}
        names = {each.name for each in found}
        problems += [
            f"has no field {where + field.name!r}, which is required"
            for field in fields
            if where and not field.nullable and field.name not in names
        ]
        for each in found:
            if each.name not in declared:
                yield where + each.name
            else:
                yield from self._type(each.type, declared[each.name], where + each.name, problems)

    def _type(self, found: pa.DataType, field: FieldSpec, where: str, problems: list[str]) -> Iterator[str]:
        kind = kind_of(found)
        if kind in _ANYTHING or field.type == "json" or (field.type == "string" and self._coerce):
            return
        if kind not in self._fitting(field):
            problems.append(f"column {where!r} is {found}, which is never {field.type}")
        elif kind == "struct":
            yield from self._compare(list(found), field.fields, f"{where}.", problems)
        elif kind == "list" and field.items is not None:
            yield from self._type(found.value_type, field.items, where, problems)
        elif kind == "map" and field.values is not None:
            if not pa.types.is_string(found.key_type):
                problems.append(f"column {where!r} has keys that are {found.key_type}, and keys must be string")
            yield from self._type(found.item_type, field.values, where, problems)

    def _fitting(self, field: FieldSpec) -> set[str]:
        if decimal_of(field.type):
            return {"number", "text"}
        quoted = {"text"} if self._lenient and _FITTING[field.type] == {"number"} else set()
        moment = {"number"} if self._lenient and field.type == "timestamp" else set()
        return _FITTING[field.type] | quoted | moment


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:20])
    return f"{shown} and {len(names) - 20} more" if len(names) > 20 else shown or "none"
