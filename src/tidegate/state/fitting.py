"""COMMIT 2b: whether the files of a change fit the table they are about to be appended to.

The check is made against the snapshot of each attempt, since the table may have changed since the files were
written. Parquet files keep the types they were written with, so a narrower type that was fine while planning
is not any more.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from tidegate.errors import ColumnsChanged, ReplacesTable, SchemaMismatch, TableError
from tidegate.specs import Evolution
from tidegate.state.arrow import arrow_schema
from tidegate.state.features import filled_by_spark
from tidegate.state.files import Change, Written
from tidegate.state.table import TableFacts

if TYPE_CHECKING:
    import pyarrow as pa

MAX_FILES = 10_000


def check_changes(changes: Sequence[tuple[Change, frozenset[str]]]) -> None:
    """Refuse what no table could take in one commit: too many files, or one of them twice.

    Each change comes with the files of the commit before it.
    """
    for change, _ in changes:
        if (change.replacement or change.frame) and (change.data_files or len(changes) > 1):
            how = "replaces rows" if change.replacement else "has rows that Spark writes"
            raise TableError(f"a change {how} and brings data files", "commit them one after the other")
    files = [file.path for change, _ in changes for file in change.data_files]
    if len(files) > MAX_FILES:
        raise TableError(
            f"{len(files)} data files in one commit, at most {MAX_FILES} are allowed",
            "partition by a column with fewer values (sink.partition_by)",
        )
    seen: set[str] = set().union(*(previous for _, previous in changes))
    for path in files:
        if path in seen:
            raise TableError(f"data file {path} is committed twice; its rows would be doubled", "plan and write again")
        seen.add(path)


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


def columns_to_add(facts: TableFacts, changes: Sequence[Change], mode: Evolution) -> tuple[pa.Field, ...]:
    """Nullable columns that the table needs first; ``SchemaMismatch`` when the files do not fit at all."""
    table = arrow_schema(facts.schema_json)
    if any(change.frame is not None for change in changes):
        table = brought(table, facts.schema_json, {name for each in changes for name in _names(each)})
    complete = table
    for change in changes:
        if change.data_files and not change.written:
            raise TableError("data files without a schema cannot be committed", "hand over their schema")
        for written in change.written:
            if written.data_files or change.replacement or change.frame:
                check_partitioning(facts.partition_columns, written.partition_columns)
            complete = _with(complete, _missing(complete, written, mode, facts.partition_columns))
    known = {field.name: field for field in table}
    return tuple(field for field in complete if field.name not in known or field != known[field.name])


def costs_rows(error: ReplacesTable) -> ReplacesTable:
    """The same where the table has rows, which would go with its columns: somebody has to agree to that."""
    return ReplacesTable(
        f"{error.problem}; schema_evolution is `overwrite`, and the rows of the table would go with its columns",
        "`tidegate schema replace` says how many and does it; or " + error.remedy,
    )


def brought(table: pa.Schema, schema_json: str, names: Collection[str] = ()) -> pa.Schema:
    """``table`` without the columns that Spark fills by itself, unless rows bring those ``names``."""
    filled = filled_by_spark(schema_json) - set(names)
    for name in filled:
        table = table.remove(table.get_field_index(name))
    return table


def _names(change: Change) -> list[str]:
    return [name for written in change.written for name in written.schema.names]


def columns_of_new_table(groups: Sequence[Written], mode: Evolution) -> tuple[pa.Schema, tuple[str, ...]]:
    """The columns of a table that begins with these files, and its partition columns."""
    first = groups[0]
    schema = first.schema
    for written in groups[1:]:
        check_partitioning(first.partition_columns, written.partition_columns)
        schema = _with(schema, _missing(schema, written, mode, first.partition_columns))
    return schema, first.partition_columns


def _with(schema: pa.Schema, fields: Sequence[pa.Field]) -> pa.Schema:
    """``schema`` with these columns, in the place of those of the same name."""
    for field in fields:
        at = schema.get_field_index(field.name)
        schema = schema.append(field) if at < 0 else schema.set(at, field)
    return schema


def _missing(
    table: pa.Schema, written: Written, mode: Evolution, partition_columns: tuple[str, ...]
) -> tuple[pa.Field, ...]:
    """The columns of some files that the table does not have; ``SchemaMismatch`` when they do not fit."""
    from tidegate.schema.evolution import evolve

    if written.data_files:
        check_partition_types(table, written.schema, partition_columns)
    name = written.data_files[0].path if written.data_files else "the new rows"
    fields = evolve(table, written.schema, mode, partition_columns=partition_columns, file_name=name)
    if written.data_files:
        _check_types(table, written.schema, partition_columns, name)
    return fields


def _check_types(table: pa.Schema, written: pa.Schema, partition_columns: Sequence[str], name: str) -> None:
    """Types of columns that both have must be the same; ``evolve`` also lets narrower ones pass.

    Files are planned with the table's types, so a difference means that the table was changed since.
    """
    from tidegate.schema.types import plain

    known = {field.name: field for field in table}
    for field in written:
        if field.name not in known or field.name in partition_columns:
            continue
        ours, theirs = plain(field.type), plain(known[field.name].type)
        if not _same(theirs, ours):
            raise ColumnsChanged(
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
