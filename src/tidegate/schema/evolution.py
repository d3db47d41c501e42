"""Whether a file's columns fit a table's, and what has to change first.

One walk over both schemas compares field by field, at any depth, and gives the merged fields; the mode
(``strict``, ``merge``, ``overwrite``) decides which differences are errors. Errors name the column, both
types and the file.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tidegate.errors import SchemaMismatch
from tidegate.schema.types import plain, plain_field, plain_schema, type_name
from tidegate.specs import Evolution

_INTEGER_DIGITS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 19}
_WIDENINGS = {
    (pa.int32(), pa.float64()),
    (pa.int16(), pa.float64()),
    (pa.int8(), pa.float64()),
    (pa.float32(), pa.float64()),
    (pa.date32(), pa.timestamp("us", tz="UTC")),
}


def evolve(
    table: pa.Schema,
    file: pa.Schema,
    mode: Evolution,
    *,
    partition_columns: tuple[str, ...] = (),
    file_name: str = "",
) -> tuple[pa.Field, ...]:
    """The columns to add to ``table`` before ``file`` may be appended; empty when it fits as it is.

    New columns come in the file's order. A struct that gains fields is given whole: its table fields first,
    then the new ones. ``partition_columns`` may be absent from the file. With ``overwrite`` the
    table's columns are replaced, so every column that differs is given and nothing is an error.
    """
    if mode is Evolution.OVERWRITE:
        same = plain_schema(table)
        return tuple(field for field in plain_schema(file) if field not in list(same))
    comparison = _Comparison(mode, file_name)
    needed = [field for field in file if field.name not in partition_columns]
    expected = [field for field in table if field.name not in partition_columns]
    merged = comparison.fields(expected, needed, "")
    return tuple(field for field in merged if field not in [plain_field(known) for known in expected])


def write_schema(
    declared: pa.Schema,
    table: pa.Schema | None,
    mode: Evolution,
    partition_columns: tuple[str, ...] = (),
) -> pa.Schema:
    """What tasks write for ``declared``: its columns in its order, narrower types widened to the table's.

    Raises :class:`SchemaMismatch` where the two do not fit, before anything is written. Partition columns are
    not part of it: they are not in the files.
    """
    kept = pa.schema([plain_field(field) for field in declared if field.name not in partition_columns])
    if table is None or mode is Evolution.OVERWRITE:
        return kept
    evolve(table, kept, mode, partition_columns=partition_columns, file_name="the declared schema")
    known = {field.name: field for field in table}
    return pa.schema([_widened(field, known.get(field.name)) for field in kept])


def widens(narrow: pa.DataType, wide: pa.DataType) -> bool:
    """True when every value of ``narrow`` is a value of ``wide``, exactly."""
    if narrow in _INTEGER_DIGITS:
        if wide in _INTEGER_DIGITS:
            return _INTEGER_DIGITS[narrow] < _INTEGER_DIGITS[wide]
        if pa.types.is_decimal128(wide):
            return bool(wide.precision - wide.scale >= _INTEGER_DIGITS[narrow])
    if pa.types.is_decimal128(narrow) and pa.types.is_decimal128(wide):
        whole = wide.precision - wide.scale >= narrow.precision - narrow.scale
        return bool(whole and wide.scale >= narrow.scale and narrow != wide)
    return (narrow, wide) in _WIDENINGS


def _widened(field: pa.Field, table: pa.Field | None) -> pa.Field:
    """``field`` with the table's type wherever that is wider; its own children and nullability."""
    return field if table is None else field.with_type(_widened_type(field.type, plain(table.type)))


def _widened_type(kind: pa.DataType, table: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind) and pa.types.is_struct(table):
        known = {child.name: child for child in table}
        return pa.struct([_widened(child, known.get(child.name)) for child in kind])
    if pa.types.is_list(kind) and pa.types.is_list(table):
        return pa.list_(_widened(kind.value_field, table.value_field))
    if pa.types.is_map(kind) and pa.types.is_map(table):
        return pa.map_(_widened(kind.key_field, table.key_field), _widened(kind.item_field, table.item_field))
    return table if widens(kind, table) else kind


class _Comparison:
    """One comparison of two schemas; its methods give the merged fields or raise."""

    def __init__(self, mode: Evolution, file_name: str) -> None:
        self._strict = mode is Evolution.STRICT
        self._file = file_name or "the file"

    def fields(self, table: Sequence[pa.Field], file: Sequence[pa.Field], where: str) -> list[pa.Field]:
        """Table fields first, in their order and merged, then what only the file has."""
        ours = {field.name: field for field in file}
        self._check_spelling([field.name for field in table], list(ours), where)
        merged = [self._known(field, ours.get(field.name), where) for field in table]
        names = {field.name for field in table}
        return merged + [self._new(field, where) for field in file if field.name not in names]

    def _known(self, table: pa.Field, file: pa.Field | None, where: str) -> pa.Field:
        path = where + table.name
        if file is None:
            if self._strict or not table.nullable:
                need = "required in the table" if not table.nullable else "in the table"
                raise self._mismatch(
                    f"column {path!r} ({type_name(table.type)}) is {need} and missing in {self._file}", "declare it"
                )
            return plain_field(table)
        if file.nullable and not table.nullable:
            raise self._mismatch(
                f"column {path!r} is required in the table and nullable in {self._file}",
                "declare it with `nullable: false`",
            )
        return pa.field(table.name, self._type(plain(table.type), plain(file.type), path), nullable=table.nullable)

    def _new(self, field: pa.Field, where: str) -> pa.Field:
        path = where + field.name
        if self._strict:
            raise self._mismatch(
                f"column {path!r} ({type_name(field.type)}) of {self._file} is not in the table",
                "add it to the table, or set `schema_evolution: merge`",
            )
        if not field.nullable:
            raise self._mismatch(
                f"column {path!r} ({type_name(field.type)}) of {self._file} is new and required; the rows already "
                "in the table have no value for it",
                "declare it nullable",
            )
        return plain_field(field)

    def _type(self, table: pa.DataType, file: pa.DataType, path: str) -> pa.DataType:
        if pa.types.is_struct(table) and pa.types.is_struct(file):
            return pa.struct(self.fields(list(table), list(file), path + "."))
        if pa.types.is_list(table) and pa.types.is_list(file):
            return pa.list_(self._known(table.value_field, file.value_field, path + "."))
        if pa.types.is_map(table) and pa.types.is_map(file):
            keys = self._known(table.key_field, file.key_field, path + ".")
            return pa.map_(keys, self._known(table.item_field, file.item_field, path + "."))
        if table == file or widens(file, table):
            return table
        raise self._type_change(table, file, path)

    def _type_change(self, table: pa.DataType, file: pa.DataType, path: str) -> SchemaMismatch:
        if widens(table, file):
            return self._mismatch(
                f"column {path!r} is {type_name(table)} in the table, narrower than {type_name(file)} in {self._file}",
                "rewrite the table with the wider type (Spark: read, cast, overwrite with overwriteSchema), or declare "
                "the table's type",
            )
        return self._mismatch(
            f"column {path!r} is {type_name(table)} in the table and {type_name(file)} in {self._file}",
            "declare the table's type, or write into another table",
        )

    def _check_spelling(self, table: list[str], file: list[str], where: str) -> None:
        known = {name.lower(): name for name in table}
        for name in file:
            twin = known.get(name.lower(), name)
            if twin != name:
                raise self._mismatch(
                    f"column {where + name!r} of {self._file} is {where + twin!r} in the table; Delta does "
                    "not tell upper from lower case",
                    "declare the table's spelling",
                )

    @staticmethod
    def _mismatch(problem: str, remedy: str) -> SchemaMismatch:
        return SchemaMismatch(problem, remedy)
