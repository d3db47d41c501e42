"""The rows of a batch without those that the table has already, and SQL that compares two rows.

Delta rewrites every file with a row that a MERGE matches, whatever the conditions of its clauses say (decision 0046).
So rows that would change nothing are left out of its source, inside the same statement.

Values are compared as Spark compares them: null equals null, NaN equals NaN, and 0.0 equals -0.0. Spark compares no
maps: their sorted entries stand for them. Where batch and table have different types, structs are compared field by
field, and any other value counts as changed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from tidegate.spark.loading.target import Keys, Target, equal_keys
from tidegate.spark.session import check_text, quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

_STAYS = "__tidegate_stays"


def leave_out(
    rows: DataFrame, target: Target, keys: Keys, same: str, stays: str, called: Mapping[str, str]
) -> DataFrame:
    """``rows`` without those whose rows in the table stay as they are.

    ``same`` is SQL for "row ``t`` of the table belongs to row ``s`` of the batch", ``stays`` for "``t`` stays". Both
    may name columns of the table alone. ``called`` maps a column to its name in ``rows`` where that differs.
    """
    from pyspark.sql import functions as f

    session = rows.sparkSession
    names = [f.col(f"s.{quote(called.get(name, name))}").alias(name) for name in keys.names]
    # Not an outer join: Spark could not send a small batch to the rows of the table, and would sort the whole table.
    pairs = target.read(session).alias("t").join(rows.alias("s"), f.expr(check_text(session, same)))
    # All of them: a MERGE would update both rows of a key that the table has twice.
    kept = pairs.groupBy(*names).agg(f.every(f.expr(check_text(session, stays))).alias(_STAYS)).where(_STAYS)
    return rows.alias("s").join(kept.alias("t"), f.expr(equal_keys(keys.names, nulls=True, called=called)), "left_anti")


def same_values(
    rows: StructType, table: StructType, ignored: Collection[str], called: Mapping[str, str] | None = None
) -> str:
    """SQL for "row ``s`` of the batch has the values of row ``t`` of the table", except in ``ignored`` columns.

    A column that the table lacks must be null. ``called`` maps a column to its name in the batch where that differs.
    """
    there = {field.name.lower(): field for field in table.fields}
    skipped = {name.lower() for name in ignored}
    found = []
    for field in rows.fields:
        name = field.name.lower()
        batch = f"s.{quote((called or {}).get(field.name, field.name))}"
        if name not in skipped and name in there:
            found.append(_equal(f"t.{quote(there[name].name)}", there[name].dataType, batch, field.dataType))
        elif name not in skipped:
            found.append(f"{batch} IS NULL")
    return " AND ".join(found) or "true"


def _equal(one: str, kind: DataType, other: str, other_kind: DataType) -> str:
    from pyspark.sql.types import StructType

    if kind.simpleString() == other_kind.simpleString():
        return f"{comparable(one, kind)} <=> {comparable(other, other_kind)}"
    if not isinstance(kind, StructType) or not isinstance(other_kind, StructType):
        return f"({one} IS NULL AND {other} IS NULL)"
    fields = {field.name.lower(): field for field in kind.fields}
    others = {field.name.lower(): field for field in other_kind.fields}
    found = [f"({one} IS NULL) = ({other} IS NULL)"]
    for name in {**fields, **others}:
        if name not in others:
            found.append(f"{one}.{quote(fields[name].name)} IS NULL")
        elif name not in fields:
            found.append(f"{other}.{quote(others[name].name)} IS NULL")
        else:
            mine, theirs = fields[name], others[name]
            field, its = f"{one}.{quote(mine.name)}", f"{other}.{quote(theirs.name)}"
            found.append(_equal(field, mine.dataType, its, theirs.dataType))
    return f"({' AND '.join(found)})"


def comparable(value: str, kind: DataType, depth: int = 0) -> str:
    """SQL for ``value`` of this type in a form that Spark compares: maps become sorted arrays of their entries."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if not has_map(kind):
        return value
    each = f"__tidegate_{depth}"
    match kind:
        case MapType():
            inner = comparable(f"{each}.value", kind.valueType, depth + 1)
            entries = f"transform(map_entries({value}), {each} -> named_struct('k', {each}.key, 'v', {inner}))"
            return f"array_sort({entries})"
        case ArrayType():
            return f"transform({value}, {each} -> {comparable(each, kind.elementType, depth + 1)})"
        case StructType():
            fields = (
                f"'f{n}', {comparable(f'{value}.{quote(field.name)}', field.dataType, depth)}"
                for n, field in enumerate(kind.fields)
            )
            return f"if({value} IS NULL, NULL, named_struct({', '.join(fields)}))"
        case _:
            raise AssertionError(f"{kind} has no map")


def has_map(kind: DataType) -> bool:
    from pyspark.sql.types import ArrayType, MapType, StructType

    match kind:
        case MapType():
            return True
        case ArrayType():
            return has_map(kind.elementType)
        case StructType():
            return any(has_map(child.dataType) for child in kind.fields)
        case _:
            return False
