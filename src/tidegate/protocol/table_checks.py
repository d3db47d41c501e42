"""Checks whether Tidegate may write a table, and whether the files of a change fit it.

The Delta library appends blindly to tables it does not understand: the rows then break a constraint, read as NULL, or
make the table unreadable. So the Arrow lane, which commits through that library, takes only what is known to be safe.
Spark supports more: such features need the DataFrame lane, by name. Tables that neither may write are refused, with a
remedy.

Each attempt checks its own snapshot, since the table may have changed since the files were written. Parquet files keep
the types they were written with, so a narrower type that was fine while planning may not fit any more.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidegate.errors import ColumnsChanged, ReplacesTable, SchemaMismatch, TableError, UnsupportedTable
from tidegate.protocol.change import AppendFiles, Change, NoRows, Requirement, SparkWrite, Write, Written
from tidegate.protocol.table import TableFacts, TableProtocol, arrow_schema
from tidegate.specs.table import RETENTION, Evolution, is_unknown

if TYPE_CHECKING:
    import pyarrow as pa

ALLOWED_FEATURES = frozenset(
    {
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "columnMapping",
        "deletionVectors",
        "generatedColumns",
        "invariants",
        "timestampNtz",
        "v2Checkpoint",
    }
)
"""Features that a blind append may meet: constraints, column mapping and generated columns only while unused."""

_OTHER_TABLE = "write into another table, or remove that from this one"

_REFUSED = {
    "catalogManaged": "commits that only its catalog may add",
    "catalogOwned-preview": "commits that only its catalog may add",
    "coordinatedCommits-preview": "coordinated commits",
    "variantShredding": "variant columns",
    "variantShredding-preview": "variant columns",
    "variantType": "variant columns",
    "variantType-preview": "variant columns",
}
"""Features that no lane writes: the log alone does not decide there, or no source has such values."""

_FRAMES = {
    "allowColumnDefaults": "column defaults",
    "checkpointProtection": "checkpoint protection",
    "clustering": "clustering",
    "domainMetadata": "domain metadata (it comes with clustering and row tracking)",
    "icebergCompatV1": "Iceberg compatibility",
    "icebergCompatV2": "Iceberg compatibility",
    "identityColumns": "identity columns",
    "inCommitTimestamp": "in-commit timestamps",
    "inCommitTimestamp-preview": "in-commit timestamps",
    "rowTracking": "row tracking",
    "typeWidening": "type widening",
    "typeWidening-preview": "type widening",
    "vacuumProtocolCheck": "the protocol check of VACUUM",
}
"""Features that Spark supports and the Delta library does not."""

_COLUMN_MARKS = {
    "delta.generationExpression": "a generated column",
    "delta.identity.start": "an identity column",
    "delta.invariants": "a column invariant",
    "CURRENT_DEFAULT": "a column default",
}

_FILLED = ("delta.generationExpression", "delta.identity.start", "CURRENT_DEFAULT")
"""Marks of columns that Spark fills if the rows do not have them."""


def lane_reasons(facts: TableFacts, uri: str) -> tuple[str, ...]:
    """Why the table needs the DataFrame lane; empty if the Arrow lane may write it.

    Raises :class:`UnsupportedTable` for a table that no lane may write.
    """
    # With it an old txn reads as None: indistinguishable from a source that never ran.
    retention = facts.properties.get(RETENTION)
    if retention is not None:
        raise UnsupportedTable(
            f"table {uri} forgets positions: delta.setTransactionRetentionDuration is {retention!r}, "
            "and a source that was quiet for that long would be read again from the start",
            "remove it: ALTER TABLE ... UNSET TBLPROPERTIES ('delta.setTransactionRetentionDuration')",
        )
    refused = tuple(_refusals(facts.protocol))
    if refused:
        raise UnsupportedTable(f"table {uri} cannot be appended to: {'; '.join(refused)}", _OTHER_TABLE)
    columns = json.loads(facts.schema_json).get("fields", ())
    fields = (reason for column in columns for reason in _field_reasons(column, ""))
    reasons = (*_protocol_reasons(facts.protocol), *_property_reasons(facts), *fields)
    if reasons:
        check_frame_place(uri, f"only Spark can write table {uri}: {'; '.join(reasons)}")
    return reasons


def check_frame_place(uri: str, needed: str) -> None:
    """Raise :class:`UnsupportedTable` if the DataFrame lane must not write here; ``needed`` says why it would."""
    # Spark's log store for S3 is ours (decision 0015); nobody has proven one for the others.
    if not uri.startswith(("file:", "s3:")):
        raise UnsupportedTable(
            f"{needed}; and Tidegate lets Spark write only on local disks and on S3: elsewhere it is not proven that "
            "Spark and the Delta library keep each other's log entries",
            _OTHER_TABLE,
        )


def check_table(facts: TableFacts, uri: str) -> None:
    """Raise :class:`UnsupportedTable` unless a blind append to this table is right; names every obstacle."""
    reasons = lane_reasons(facts, uri)
    if reasons:
        raise UnsupportedTable(
            f"table {uri} cannot be appended to here: {'; '.join(reasons)}",
            "only `tidegate run` and `tidegate reconcile --ingest` write such a table, by Spark",
        )


def find_filled_columns(schema_json: str) -> frozenset[str]:
    """The columns that Spark fills if the rows do not have them: generated, identity, with a default."""
    columns = json.loads(schema_json).get("fields", ())
    return frozenset(
        str(column["name"]) for column in columns if any(mark in (column.get("metadata") or {}) for mark in _FILLED)
    )


def check_replaceable(facts: TableFacts, uri: str) -> None:
    """Raise :class:`UnsupportedTable` if the Delta library must not remove rows from this table."""
    if facts.properties.get("delta.appendOnly", "").lower() == "true":
        raise UnsupportedTable(
            f"rows of table {uri} cannot be replaced: delta.appendOnly is set",
            "remove the property while you replay: ALTER TABLE ... UNSET TBLPROPERTIES ('delta.appendOnly')",
        )
    if "deletionVectors" in {*facts.protocol.reader_features, *facts.protocol.writer_features}:
        raise UnsupportedTable(
            f"rows of table {uri} cannot be replaced: it has the feature 'deletionVectors', and it is not proven that "
            "the Delta library honours every vector",
            "drop the feature (ALTER TABLE ... DROP FEATURE deletionVectors), or delete and reload the rows with Spark",
        )


def check_requirement(requirement: Requirement, facts: TableFacts, uri: str) -> None:
    """Raise :class:`UnsupportedTable` if the table does not meet it."""
    match requirement:
        case Requirement.TABLE:
            pass  # there are facts, so there is a table
        case Requirement.PLAIN_APPEND:
            check_table(facts, uri)
        case Requirement.REMOVABLE_ROWS:
            check_replaceable(facts, uri)


def check_protocol(data: Mapping[str, Any], uri: str) -> None:
    """Check a bare ``protocol`` action, for tables that the library cannot even load."""
    protocol = TableProtocol(
        int(data.get("minReaderVersion", 0)),
        int(data.get("minWriterVersion", 0)),
        tuple(data.get("readerFeatures") or ()),
        tuple(data.get("writerFeatures") or ()),
    )
    problems = [*_refusals(protocol), *_protocol_reasons(protocol)]
    if problems:
        raise UnsupportedTable(f"table {uri} cannot be appended to: {'; '.join(problems)}", _OTHER_TABLE)


def _features(protocol: TableProtocol) -> list[str]:
    return sorted({*protocol.reader_features, *protocol.writer_features} - ALLOWED_FEATURES)


def _refusals(protocol: TableProtocol) -> Iterator[str]:
    if protocol.min_reader > 3 or protocol.min_writer > 7:
        yield f"it needs reader version {protocol.min_reader} and writer version {protocol.min_writer}"
    for name in _features(protocol):
        if name in _REFUSED:
            yield f"it uses {_REFUSED[name]} (feature {name!r})"
        # An allow-list: the library silently appends to much that it does not understand, such as CHECK or column
        # mapping.
        elif name not in _FRAMES:
            yield f"it has the unknown feature {name!r}"


def _protocol_reasons(protocol: TableProtocol) -> Iterator[str]:
    if protocol.min_writer == 6:
        yield "it needs writer version 6 (identity columns)"
    yield from (f"it uses {_FRAMES[name]} (feature {name!r})" for name in _features(protocol) if name in _FRAMES)


def _property_reasons(facts: TableFacts) -> Iterator[str]:
    for name, value in sorted(facts.properties.items()):
        if name.startswith("delta.constraints."):
            yield f"it has the CHECK constraint {name.removeprefix('delta.constraints.')!r} ({value})"
        elif name == "delta.columnMapping.mode" and value != "none":
            yield f"it uses column mapping ({name} is {value!r})"
        elif is_unknown(name) and str(value).lower() not in ("false", "none"):
            yield f"it sets {name} to {value!r}, which the Delta library does not honour"


def _field_reasons(column: Mapping[str, Any], above: str) -> Iterator[str]:
    path = above + str(column.get("name", ""))
    metadata = column.get("metadata") or {}
    for mark, meaning in _COLUMN_MARKS.items():
        if mark in metadata:
            yield f"{path!r} is {meaning}" if "column" in meaning else f"{path!r} has {meaning}"
    nested = column.get("type")
    while isinstance(nested, dict):
        for child in nested.get("fields", ()):
            yield from _field_reasons(child, f"{path}.")
        nested = nested.get("elementType") or nested.get("valueType")


# A hundred thousand adds were 1.8 s and 40 MB of JSON in one log entry, which every reader of the table loads.
MAX_FILES = 10_000


def check_changes(changes: Sequence[tuple[Change, frozenset[str]]]) -> None:
    """Refuse what no table could take in one commit: too many files, or a file twice.

    Each change comes with the files of the commit before it.
    """
    # One statement of Spark or of the library carries the transaction of one application only.
    if len(changes) > 1 and not all(isinstance(change.write, AppendFiles | NoRows) for change, _ in changes):
        raise TableError(
            "a change that replaces rows or needs Spark cannot share a commit", "commit them one after the other"
        )
    files = [file.path for change, _ in changes for file in change.write.data_files]
    if len(files) > MAX_FILES:
        raise TableError(
            f"{len(files)} data files in one commit, at most {MAX_FILES} are allowed",
            "partition by a column with fewer values (sink.partition_by)",
        )
    # Those of the commit before count, too: files that came twice would double their rows.
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
            "set sink.partition_by to the table's columns, or write into another table",
        )


def check_partition_types(table: pa.Schema, written: pa.Schema, columns: Sequence[str]) -> None:
    """Refuse partition values that the table's columns cannot represent: readers would fail on each of them."""
    import pyarrow.types as kinds

    from tidegate.schema.evolution import widens
    from tidegate.schema.types import simplify_type

    known = {field.name: field for field in table}
    for field in written:
        if field.name not in columns or field.name not in known:
            continue
        ours, theirs = simplify_type(field.type), simplify_type(known[field.name].type)
        if ours != theirs and not (kinds.is_integer(ours) and kinds.is_integer(theirs) and widens(ours, theirs)):
            raise SchemaMismatch(
                f"partition column {field.name!r} is {theirs} in the table, but its values are {ours}",
                "declare the table's type, or write into another table",
            )
        if field.nullable and not known[field.name].nullable:
            raise SchemaMismatch(
                f"partition column {field.name!r} is required in the table, but its values may be null",
                "declare it with `nullable: false`, or write into another table",
            )


def columns_to_add(facts: TableFacts, write: Write, mode: Evolution) -> tuple[pa.Field, ...]:
    """Nullable columns that the table needs first; ``SchemaMismatch`` if the rows do not fit at all."""
    table = arrow_schema(facts.schema_json)
    if isinstance(write, SparkWrite):
        table = without_filled(table, facts.schema_json, write.schema.names)
    complete = table
    for written in write.groups:
        if written.data_files or not isinstance(write, AppendFiles | NoRows):
            check_partitioning(facts.partition_columns, written.partition_columns)
        complete = _with(complete, _find_missing(complete, written, mode, facts.partition_columns))
    known = {field.name: field for field in table}
    return tuple(field for field in complete if field.name not in known or field != known[field.name])


def name_new_columns(facts: TableFacts, fields: Iterable[pa.Field]) -> tuple[str, ...]:
    """The paths among ``fields`` that the table lacks; of a new struct only its own."""
    from tidegate.schema.types import paths_of

    known = {path for path, _ in paths_of(arrow_schema(facts.schema_json))}
    new = [path for path, _ in paths_of(fields) if path not in known]
    return tuple(path for path in new if path.rpartition(".")[0] not in new)


def costs_rows(error: ReplacesTable) -> ReplacesTable:
    """The same for a table with rows, which would go with its columns: a person has to agree."""
    return ReplacesTable(
        f"{error.problem}; schema_evolution is `overwrite`, which would remove the rows of the table together with "
        "its columns",
        "`tidegate schema replace` shows how many and does it; or " + error.remedy,
    )


def without_filled(table: pa.Schema, schema_json: str, names: Collection[str] = ()) -> pa.Schema:
    """``table`` without the columns that Spark fills, except those in ``names``."""
    filled = find_filled_columns(schema_json) - set(names)
    for name in filled:
        table = table.remove(table.get_field_index(name))
    return table


def columns_of_new_table(groups: Sequence[Written], mode: Evolution) -> tuple[pa.Schema, tuple[str, ...]]:
    """The columns of a table that begins with these files, and its partition columns."""
    first = groups[0]
    schema = first.schema
    for written in groups[1:]:
        check_partitioning(first.partition_columns, written.partition_columns)
        schema = _with(schema, _find_missing(schema, written, mode, first.partition_columns))
    return schema, first.partition_columns


def _with(schema: pa.Schema, fields: Sequence[pa.Field]) -> pa.Schema:
    """``schema`` with these columns, which replace those of the same name."""
    for field in fields:
        at = schema.get_field_index(field.name)
        schema = schema.append(field) if at < 0 else schema.set(at, field)
    return schema


def _find_missing(
    table: pa.Schema, written: Written, mode: Evolution, partition_columns: tuple[str, ...]
) -> tuple[pa.Field, ...]:
    """The columns of some files that the table lacks; ``SchemaMismatch`` if they do not fit."""
    from tidegate.schema.evolution import evolve

    if written.data_files:
        check_partition_types(table, written.schema, partition_columns)
    name = written.data_files[0].path if written.data_files else "the new rows"
    fields = evolve(table, written.schema, mode, partition_columns=partition_columns, file_name=name)
    if written.data_files:
        _check_types(table, written.schema, partition_columns, name)
    return fields


def _check_types(table: pa.Schema, written: pa.Schema, partition_columns: Sequence[str], name: str) -> None:
    """Check that common columns have equal types; ``evolve`` alone would accept narrower ones.

    Files are planned with the table's types, so a difference means that the table was changed since.
    """
    from tidegate.schema.types import simplify_type

    known = {field.name: field for field in table}
    for field in written:
        if field.name not in known or field.name in partition_columns:
            continue
        ours, theirs = simplify_type(field.type), simplify_type(known[field.name].type)
        # The library silently appends int64 files to an int column, which makes the table unreadable.
        if not _same(theirs, ours):
            raise ColumnsChanged(
                f"column {field.name!r} was written as {ours} into {name}, but the table now has {theirs}",
                "run again: the next plan writes the table's type",
            )


def _same(table: Any, written: Any) -> bool:
    """Whether leaf types are equal; a struct of the file may lack fields or have new ones."""
    import pyarrow.types as kinds

    if kinds.is_struct(table) and kinds.is_struct(written):
        known = {child.name: child.type for child in table}
        return all(_same(known[child.name], child.type) for child in written if child.name in known)
    if kinds.is_list(table) and kinds.is_list(written):
        return _same(table.value_type, written.value_type)
    if kinds.is_map(table) and kinds.is_map(written):
        return _same(table.key_type, written.key_type) and _same(table.item_type, written.item_type)
    return bool(table == written)
