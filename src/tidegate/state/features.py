"""OPEN 1: which lane may write a table, decided by the names of its features and properties.

The Delta library appends blindly to tables it does not understand: the rows then break a constraint, read as
NULL, or make the table unreadable. So the Arrow lane, which commits by that library, takes only what is known here to
be safe. Spark honours more: what it knows needs the DataFrame lane, by name. What neither may write is refused, with
the way out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tidegate.errors import UnsupportedTable
from tidegate.state.table import TableFacts, TableProtocol
from tidegate.table_properties import RETENTION, is_unknown

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
"""Features a blind append may meet. Constraints, column mapping and generated columns only while nothing uses
them.
"""

_OTHER_TABLE = "write into another table, or take that off this one"

_REFUSED = {
    "catalogManaged": "commits managed by a catalog",
    "catalogOwned-preview": "commits managed by a catalog",
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
"""Features that Spark honours and the Delta library does not."""

_COLUMN_MARKS = {
    "delta.generationExpression": "a generated column",
    "delta.identity.start": "an identity column",
    "delta.invariants": "a column invariant",
    "CURRENT_DEFAULT": "a column default",
}

_FILLED = ("delta.generationExpression", "delta.identity.start", "CURRENT_DEFAULT")
"""Marks of columns that Spark fills where the rows do not bring them."""


def lane_reasons(facts: TableFacts, uri: str) -> tuple[str, ...]:
    """Why the table needs the DataFrame lane; nothing where the Arrow lane may write it.

    Raises :class:`UnsupportedTable` for a table that no lane may write.
    """
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
    reasons = (*_protocol_reasons(facts.protocol), *_property_reasons(facts), *_column_reasons(facts))
    if reasons:
        check_frame_place(uri, f"table {uri} needs the DataFrame lane: {'; '.join(reasons)}")
    return reasons


def check_frame_place(uri: str, needed: str) -> None:
    """Raise :class:`UnsupportedTable` where the DataFrame lane must not write; ``needed`` says why it would."""
    if not uri.startswith(("file:", "s3:")):
        raise UnsupportedTable(
            f"{needed}; and that lane writes tables on local disks and on S3 only: elsewhere it is not proven that "
            "Spark and the Delta library keep each other's log entries",
            _OTHER_TABLE,
        )


def check_table(facts: TableFacts, uri: str) -> None:
    """Raise :class:`UnsupportedTable` unless a blind append to this table is right; names everything in the
    way.
    """
    reasons = lane_reasons(facts, uri)
    if reasons:
        raise UnsupportedTable(
            f"table {uri} cannot be appended to here: {'; '.join(reasons)}",
            "only `tidegate run` and `tidegate reconcile --ingest` write such a table, by the DataFrame lane",
        )


def filled_by_spark(schema_json: str) -> frozenset[str]:
    """The columns that Spark fills where the rows do not bring them: generated, identity, with a default."""
    columns = json.loads(schema_json).get("fields", ())
    return frozenset(
        str(column["name"]) for column in columns if any(mark in (column.get("metadata") or {}) for mark in _FILLED)
    )


def check_replaceable(facts: TableFacts, uri: str) -> None:
    """Raise :class:`UnsupportedTable` where rows must not be taken out of this table by the Delta library."""
    if facts.properties.get("delta.appendOnly", "").lower() == "true":
        raise UnsupportedTable(
            f"rows of table {uri} cannot be replaced: delta.appendOnly is set",
            "take the property off while you replay: ALTER TABLE ... UNSET TBLPROPERTIES ('delta.appendOnly')",
        )
    if "deletionVectors" in {*facts.protocol.reader_features, *facts.protocol.writer_features}:
        raise UnsupportedTable(
            f"rows of table {uri} cannot be replaced: it has the feature 'deletionVectors', and whether the Delta "
            "library honours every vector is not proven",
            "drop the feature (ALTER TABLE ... DROP FEATURE deletionVectors), or delete and reload the rows with Spark",
        )


def check_protocol(data: Mapping[str, Any], uri: str) -> None:
    """What stands in the way by a bare ``protocol`` action, for tables that the library cannot even load."""
    protocol = TableProtocol(
        int(data.get("minReaderVersion", 0)),
        int(data.get("minWriterVersion", 0)),
        tuple(data.get("readerFeatures") or ()),
        tuple(data.get("writerFeatures") or ()),
    )
    problems = [*_refusals(protocol), *_protocol_reasons(protocol)]
    if problems:
        raise UnsupportedTable(f"table {uri} cannot be appended to: {'; '.join(problems)}", _OTHER_TABLE)


def _named(protocol: TableProtocol) -> list[str]:
    return sorted({*protocol.reader_features, *protocol.writer_features} - ALLOWED_FEATURES)


def _refusals(protocol: TableProtocol) -> Iterator[str]:
    if protocol.min_reader > 3 or protocol.min_writer > 7:
        yield f"it needs reader version {protocol.min_reader} and writer version {protocol.min_writer}"
    for name in _named(protocol):
        if name in _REFUSED:
            yield f"it uses {_REFUSED[name]} (feature {name!r})"
        elif name not in _FRAMES:
            yield f"it has the unknown feature {name!r}"


def _protocol_reasons(protocol: TableProtocol) -> Iterator[str]:
    if protocol.min_writer == 6:
        yield "it needs writer version 6 (identity columns)"
    yield from (f"it uses {_FRAMES[name]} (feature {name!r})" for name in _named(protocol) if name in _FRAMES)


def _property_reasons(facts: TableFacts) -> Iterator[str]:
    for name, value in sorted(facts.properties.items()):
        if name.startswith("delta.constraints."):
            yield f"it has the CHECK constraint {name.removeprefix('delta.constraints.')!r} ({value})"
        elif name == "delta.columnMapping.mode" and value != "none":
            yield f"it uses column mapping ({name} is {value!r})"
        elif is_unknown(name) and str(value).lower() not in ("false", "none"):
            yield f"it sets {name} to {value!r}, which the Delta library does not honour"


def _column_reasons(facts: TableFacts) -> Iterator[str]:
    for column in json.loads(facts.schema_json).get("fields", ()):
        yield from _field_reasons(column, "")


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
