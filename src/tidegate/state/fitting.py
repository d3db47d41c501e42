"""COMMIT 2b: whether the files of a change fit the table they are about to be appended to.

The check is made against the snapshot of each attempt, since the table may have changed since the files were
written. Parquet files keep the types they were written with, so a narrower type that was fine while planning
is not any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tidegate.errors import SchemaMismatch, TableError
from tidegate.specs import Evolution
from tidegate.state.arrow import arrow_schema
from tidegate.state.files import Change
from tidegate.state.table import TableFacts

if TYPE_CHECKING:
    import pyarrow as pa

MAX_FILES = 10_000


def check_change(change: Change, previous: frozenset[str]) -> None:
    """Refuse a change that no table could take: too many files, or one of them twice."""
    if change.replacement is not None and change.data_files:
        raise TableError("a change replaces rows and brings data files", "commit them one after the other")
    if len(change.data_files) > MAX_FILES:
        raise TableError(
            f"{len(change.data_files)} data files in one commit, at most {MAX_FILES} are allowed",
            "partition by a column with fewer values (sink.partition_by)",
        )
    seen: set[str] = set(previous)
    for file in change.data_files:
        if file.path in seen:
            raise TableError(
                f"data file {file.path} is committed twice; its rows would be doubled", "plan and write again"
            )
        seen.add(file.path)


def check_partitioning(table: tuple[str, ...], files: tuple[str, ...]) -> None:
    """Refuse files that are partitioned by other columns than the table, or in another order."""
    if table != files:
        raise SchemaMismatch(
            f"the table is partitioned by {list(table)}, the files by {list(files)}",
            "set sink.partition_by as the table has it, or write into another table",
        )


def check_partition_types(table: pa.Schema, written: pa.Schema, columns: Sequence[str]) -> None:
    """Refuse partition values that the table's columns cannot hold: readers would fail on every one of them."""
    import pyarrow.types as kinds

    from tidegate.schema.evolution import widens
    from tidegate.schema.types import plain

    known = {field.name: field for field in table}
    for field in written:
        if field.name not in columns or field.name not in known:
            continue
        ours, theirs = plain(field.type), plain(known[field.name].type)
        if ours != theirs and not (kinds.is_integer(ours) and kinds.is_integer(theirs) and widens(ours, theirs)):
            raise SchemaMismatch(
                f"partition column {field.name!r} is {theirs} in the table, and its values are {ours}",
                "declare the table's type, or write into another table",
            )
        if field.nullable and not known[field.name].nullable:
            raise SchemaMismatch(
                f"partition column {field.name!r} is required in the table, and its values may be null",
                "declare it with `nullable: false`, or write into another table",
            )


def columns_to_add(facts: TableFacts, change: Change, mode: Evolution) -> tuple[pa.Field, ...]:
    """Nullable columns that the table needs first; ``SchemaMismatch`` when the files do not fit at all."""
    if change.schema is None:
        if change.data_files:
            raise TableError("data files without a schema cannot be committed", "hand over their schema")
        return ()
    if change.data_files or change.replacement:
        check_partitioning(facts.partition_columns, change.partition_columns)
    from tidegate.schema.evolution import evolve

    table = arrow_schema(facts.schema_json)
    if change.data_files:
        check_partition_types(table, change.schema, facts.partition_columns)
    name = change.data_files[0].path if change.data_files else "the new state"
    fields = evolve(table, change.schema, mode, partition_columns=facts.partition_columns, file_name=name)
    if mode is Evolution.OVERWRITE:
        _check_only_new(table, fields)
    if change.data_files:
        _check_types(table, change.schema, facts.partition_columns, name)
    return fields


def _check_only_new(table: pa.Schema, fields: Sequence[pa.Field]) -> None:
    """With ``overwrite`` columns are replaced; an append can only add some."""
    replaced = [field.name for field in fields if field.name in table.names]
    if replaced:
        raise SchemaMismatch(
            f"schema_evolution is `overwrite` and would replace {', '.join(replaced)}, which an append cannot do",
            "use `schema_evolution: merge`, or write into another table",
        )


def _check_types(table: pa.Schema, written: pa.Schema, partition_columns: Sequence[str], name: str) -> None:
    """Types of columns that both have must be the same; ``evolve`` also lets narrower ones pass."""
    from tidegate.schema.types import plain

    known = {field.name: field for field in table}
    for field in written:
        if field.name not in known or field.name in partition_columns:
            continue
        ours, theirs = plain(field.type), plain(known[field.name].type)
        if not _same(theirs, ours):
            raise SchemaMismatch(
                f"column {field.name!r} was written as {ours} into {name}, and the table now has {theirs}",
                "run again: the next plan writes the table's type",
            )


def _same(table: Any, written: Any) -> bool:
    """Equal leaf types; a struct of the file may lack fields or bring new ones."""
    import pyarrow.types as kinds

    if kinds.is_struct(table) and kinds.is_struct(written):
        known = {child.name: child.type for child in table}
        return all(_same(known[child.name], child.type) for child in written if child.name in known)
    if kinds.is_list(table) and kinds.is_list(written):
        return _same(table.value_type, written.value_type)
    if kinds.is_map(table) and kinds.is_map(written):
        return _same(table.key_type, written.key_type) and _same(table.item_type, written.item_type)
    return bool(table == written)
