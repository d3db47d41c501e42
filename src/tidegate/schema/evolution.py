"""Whether the columns of files fit those of a table, and what has to change first.

One walk over both schemas compares field by field, at any depth, and gives the merged fields; the mode
(``strict``, ``merge``, ``overwrite``) decides which differences are errors. Errors name the column, both
types and the file. What keeps every row is the same in ``merge`` and ``overwrite``; what ``merge`` refuses,
``overwrite`` answers by replacing the table, which is not decided here (:class:`ReplacesTable`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from tidegate.errors import ReplacesTable, SchemaMismatch
from tidegate.schema.types import paths_of, simplify_field, simplify_type, type_name
from tidegate.specs.table import Evolution

_INTEGER_DIGITS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 19}
# int64 to float64 is missing on purpose: beyond 2^53 a float does not hold every whole number.
_WIDENINGS = {
    (pa.int32(), pa.float64()),
    (pa.int16(), pa.float64()),
    (pa.int8(), pa.float64()),
    (pa.float32(), pa.float64()),
    (pa.date32(), pa.timestamp("us", tz="UTC")),
}


class Kind(StrEnum):
    """How a column of a file differs from the table's."""

    NEW = "new"
    MISSING = "missing"
    NARROWER_FILE = "narrower file"
    NARROWER_TABLE = "narrower table"
    OTHER_TYPE = "other type"
    REQUIRED = "required"
    SPELLING = "spelling"


@dataclass(frozen=True, slots=True)
class Difference:
    """One column, or field inside one, that a file has in another way than the table; ``error`` if that is refused.

    ``table`` and ``file`` name the types, None where there is no such column; for a spelling, the names.
    """

    path: str
    kind: Kind
    table: str | None
    file: str | None
    error: SchemaMismatch | None = None


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
    then the new ones. ``partition_columns`` may be absent from the file. Raises :class:`SchemaMismatch`, with
    ``overwrite`` :class:`ReplacesTable`.
    """
    merged, found = _compare(table, file, mode, partition_columns, file_name)
    refused = next((each.error for each in found if each.error is not None), None)
    if refused is not None:
        raise refused
    return tuple(field for field in merged if field not in [simplify_field(known) for known in table])


def differences(
    table: pa.Schema,
    file: pa.Schema,
    mode: Evolution,
    *,
    partition_columns: tuple[str, ...] = (),
    file_name: str = "",
) -> tuple[Difference, ...]:
    """Everything in which ``file`` differs from ``table``, in the order of the table, then of the file."""
    return tuple(_compare(table, file, mode, partition_columns, file_name)[1])


def _compare(
    table: pa.Schema, file: pa.Schema, mode: Evolution, partition_columns: tuple[str, ...], file_name: str
) -> tuple[list[pa.Field], list[Difference]]:
    comparison = _Comparison(mode, file_name)
    # Values of partitions are in the log and in the folders' names, not in the files.
    ours, theirs = ([field for field in each if field.name not in partition_columns] for each in (table, file))
    merged = comparison.fields(ours, theirs, "")
    return merged, comparison.found


def write_schema(
    declared: pa.Schema,
    table: pa.Schema | None,
    mode: Evolution,
    partition_columns: tuple[str, ...] = (),
    made_by: str = "the declared schema",
) -> pa.Schema:
    """What tasks write for ``declared``: its columns in its order, narrower types widened to the table's.

    Raises :class:`SchemaMismatch` where the two do not fit, before anything is written; the message names ``made_by``.
    Partition columns are not part of it: they are not in the files.
    """
    kept = pa.schema([simplify_field(field) for field in declared if field.name not in partition_columns])
    if table is None:
        return kept
    # Now, since deltalake appends blindly: an int64 in a column of int32 makes the table unreadable.
    evolve(table, kept, mode, partition_columns=partition_columns, file_name=made_by)
    known = {field.name: field for field in table}
    return pa.schema([_widen_field(field, known.get(field.name)) for field in kept])


def require_as(columns: pa.Schema, table: pa.Schema | None) -> pa.Schema:
    """``columns``, required where ``table`` requires them and nullable elsewhere: whoever writes looks at the rows."""
    required = {field.name for field in table or () if not field.nullable}
    return pa.schema([field.with_nullable(field.name not in required) for field in columns])


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


def _widen_field(field: pa.Field, table: pa.Field | None) -> pa.Field:
    """``field`` with the table's type wherever that is wider; its own children and nullability."""
    return field if table is None else field.with_type(_widen_type(field.type, simplify_type(table.type)))


def _widen_type(kind: pa.DataType, table: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind) and pa.types.is_struct(table):
        known = {child.name: child for child in table}
        return pa.struct([_widen_field(child, known.get(child.name)) for child in kind])
    if pa.types.is_list(kind) and pa.types.is_list(table):
        return pa.list_(_widen_field(kind.value_field, table.value_field))
    if pa.types.is_map(kind) and pa.types.is_map(table):
        return pa.map_(_widen_field(kind.key_field, table.key_field), _widen_field(kind.item_field, table.item_field))
    return table if widens(kind, table) else kind


class _Comparison:
    """One comparison of two schemas; its methods give the merged fields and note every difference."""

    def __init__(self, mode: Evolution, file_name: str) -> None:
        self.found: list[Difference] = []
        self._mode = mode
        self._file = file_name or "the file"

    def fields(self, table: Sequence[pa.Field], file: Sequence[pa.Field], where: str) -> list[pa.Field]:
        """Table fields first, in their order and merged, then what only the file has."""
        ours = {field.name: field for field in file}
        known = {field.name.lower(): field.name for field in table}
        for name in ours:
            if known.get(name.lower(), name) != name:
                self._note_spelling(where + name, where + known[name.lower()])
        misspelt = {each.table for each in self.found if each.kind is Kind.SPELLING}
        merged = [
            self._merge_known(field, ours.get(field.name), where)
            for field in table
            if where + field.name not in misspelt
        ]
        return merged + [self._add_new(field, where) for field in file if field.name.lower() not in known]

    def _merge_known(self, table: pa.Field, file: pa.Field | None, where: str) -> pa.Field:
        path = where + table.name
        if file is None:
            self._note_missing(table, path)
            return simplify_field(table)
        if file.nullable and not table.nullable:
            self._note(
                Kind.REQUIRED,
                path,
                table.type,
                file.type,
                f"column {path!r} is required in the table but nullable in {self._file}",
                "declare it with `nullable: false`",
            )
        return pa.field(
            table.name, self._type(simplify_type(table.type), simplify_type(file.type), path), nullable=table.nullable
        )

    def _note_missing(self, table: pa.Field, path: str) -> None:
        if self._mode is not Evolution.STRICT and table.nullable:
            return self._note(Kind.MISSING, path, table.type, None)
        need = "required in the table" if not table.nullable else "in the table"
        problem = f"column {path!r} ({type_name(table.type)}) is {need} and missing in {self._file}"
        return self._note(Kind.MISSING, path, table.type, None, problem, "declare it")

    def _add_new(self, field: pa.Field, where: str) -> pa.Field:
        path = where + field.name
        problem = remedy = ""
        if self._mode is Evolution.STRICT:
            problem = f"column {path!r} ({type_name(field.type)}) of {self._file} is not in the table"
            remedy = "add it to the table, or set `schema_evolution: merge`"
        elif not field.nullable:
            problem = (
                f"column {path!r} ({type_name(field.type)}) of {self._file} is new and required; the rows already "
                "in the table have no value for it"
            )
            remedy = "declare it nullable"
        self._note(Kind.NEW, path, None, field.type, problem, remedy)
        return simplify_field(field)

    def _type(self, table: pa.DataType, file: pa.DataType, path: str) -> pa.DataType:
        if pa.types.is_struct(table) and pa.types.is_struct(file):
            return pa.struct(self.fields(list(table), list(file), path + "."))
        if pa.types.is_list(table) and pa.types.is_list(file):
            return pa.list_(self._merge_known(table.value_field, file.value_field, path + "."))
        if pa.types.is_map(table) and pa.types.is_map(file):
            keys = self._merge_known(table.key_field, file.key_field, path + ".")
            return pa.map_(keys, self._merge_known(table.item_field, file.item_field, path + "."))
        if widens(file, table):
            self._note(Kind.NARROWER_FILE, path, table, file)
        elif table != file:
            self._type_change(table, file, path)
        return table

    def _type_change(self, table: pa.DataType, file: pa.DataType, path: str) -> None:
        if widens(table, file):
            return self._note(
                Kind.NARROWER_TABLE,
                path,
                table,
                file,
                f"column {path!r} is {type_name(table)} in the table, narrower than {type_name(file)} in {self._file}",
                f"run `tidegate table widen` with --column {path} --type {type_name(file)}, which keeps the position; "
                "or use Delta's type widening, after which Spark writes the table; or declare the table's type",
            )
        return self._note(
            Kind.OTHER_TYPE,
            path,
            table,
            file,
            f"column {path!r} is {type_name(table)} in the table and {type_name(file)} in {self._file}",
            "declare the table's type, or write into another table",
        )

    def _note_spelling(self, path: str, twin: str) -> None:
        problem = f"column {path!r} of {self._file} is {twin!r} in the table; Delta ignores upper and lower case"
        error = self._error(problem, "declare it as the table spells it")
        self.found.append(Difference(path, Kind.SPELLING, twin, path, error))

    def _note(
        self,
        kind: Kind,
        path: str,
        table: pa.DataType | None,
        file: pa.DataType | None,
        problem: str = "",
        remedy: str = "",
    ) -> None:
        ours, theirs = (None if each is None else type_name(each) for each in (table, file))
        self.found.append(Difference(path, kind, ours, theirs, self._error(problem, remedy) if problem else None))

    def _error(self, problem: str, remedy: str) -> SchemaMismatch:
        # Columns of a table without rows are replaced by the run, others only by a person (decision 0013).
        return (ReplacesTable if self._mode is Evolution.OVERWRITE else SchemaMismatch)(problem, remedy)


def widen(schema: pa.Schema, path: str, kind: pa.DataType) -> pa.Schema:
    """``schema`` with ``kind`` at ``path`` (``user.age``, ``tags.element``, ``prices.value``).

    Raises :class:`SchemaMismatch` where there is no such field, or where a value might not survive.
    """
    return pa.schema(_fields(list(schema), path, kind, path, schema))


def _fields(fields: Sequence[pa.Field], rest: str, kind: pa.DataType, path: str, schema: pa.Schema) -> list[pa.Field]:
    # A name may hold a dot, so the path is matched against existing names instead of being split.
    chosen = next((field for field in fields if rest == field.name or rest.startswith(f"{field.name}.")), None)
    if chosen is None:
        known = ", ".join(found for found, _ in paths_of(schema))
        raise SchemaMismatch(f"there is no column {path!r} in the table", f"it has: {known}")
    below = rest[len(chosen.name) + 1 :]
    changed = _step_below(chosen, below, kind, path, schema) if below else _wider(chosen, kind, path)
    return [changed if field is chosen else field for field in fields]


def _step_below(field: pa.Field, rest: str, kind: pa.DataType, path: str, schema: pa.Schema) -> pa.Field:
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
            f"column {path!r} is {type_name(field.type)}, which does not always fit {type_name(kind)}",
            "wider types: int32 → int64, float64, decimal; float32 → float64; date → timestamp; decimal → more digits",
        )
    return field.with_type(kind)
