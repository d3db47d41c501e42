"""OPEN 1: which tables may be appended to, decided by the names of their features and properties.

The Delta library appends blindly to tables it does not understand: the rows then break a constraint, read as
NULL, or make the table unreadable. So what is not known here to be safe is refused, by name and with the way
out.
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

_DATAFRAME_LANE = "write into another table, or take that off this one; tables with it need the DataFrame lane"

_FEATURES = {
    "allowColumnDefaults": "column defaults",
    "catalogManaged": "commits managed by a catalog",
    "catalogOwned-preview": "commits managed by a catalog",
    "clustering": "clustering",
    "coordinatedCommits-preview": "coordinated commits",
    "domainMetadata": "domain metadata (it comes with clustering and row tracking)",
    "icebergCompatV1": "Iceberg compatibility",
    "icebergCompatV2": "Iceberg compatibility",
    "identityColumns": "identity columns",
    "inCommitTimestamp": "in-commit timestamps",
    "inCommitTimestamp-preview": "in-commit timestamps",
    "rowTracking": "row tracking",
    "typeWidening": "type widening",
    "typeWidening-preview": "type widening",
    "variantType": "variant columns",
    "variantType-preview": "variant columns",
}

_COLUMN_MARKS = {
    "delta.generationExpression": "a generated column",
    "delta.identity.start": "an identity column",
    "delta.invariants": "a column invariant",
    "CURRENT_DEFAULT": "a column default",
}


def check_table(facts: TableFacts, uri: str) -> None:
    """Raise :class:`UnsupportedTable` unless a blind append to this table is right; names everything in the
    way.
    """
    retention = facts.properties.get(RETENTION)
    if retention is not None:
        raise UnsupportedTable(
            f"table {uri} forgets positions: delta.setTransactionRetentionDuration is {retention!r}, "
            "and a source that was quiet for that long would be read again from the start",
            "remove it: ALTER TABLE ... UNSET TBLPROPERTIES ('delta.setTransactionRetentionDuration')",
        )
    problems = [*_protocol_problems(facts.protocol), *_property_problems(facts), *_column_problems(facts)]
    if problems:
        raise UnsupportedTable(f"table {uri} cannot be appended to: {'; '.join(problems)}", _DATAFRAME_LANE)


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
    """The same for a bare ``protocol`` action, for tables that the library cannot even load."""
    protocol = TableProtocol(
        int(data.get("minReaderVersion", 0)),
        int(data.get("minWriterVersion", 0)),
        tuple(data.get("readerFeatures") or ()),
        tuple(data.get("writerFeatures") or ()),
    )
    problems = list(_protocol_problems(protocol))
    if problems:
        raise UnsupportedTable(f"table {uri} cannot be appended to: {'; '.join(problems)}", _DATAFRAME_LANE)


def _protocol_problems(protocol: TableProtocol) -> Iterator[str]:
    if protocol.min_reader > 3 or protocol.min_writer > 7:
        yield f"it needs reader version {protocol.min_reader} and writer version {protocol.min_writer}"
    if protocol.min_writer == 6:
        yield "it needs writer version 6 (identity columns)"
    for name in sorted({*protocol.reader_features, *protocol.writer_features} - ALLOWED_FEATURES):
        known = _FEATURES.get(name)
        yield f"it uses {known} (feature {name!r})" if known else f"it has the unknown feature {name!r}"


def _property_problems(facts: TableFacts) -> Iterator[str]:
    for name, value in sorted(facts.properties.items()):
        if name.startswith("delta.constraints."):
            yield f"it has the CHECK constraint {name.removeprefix('delta.constraints.')!r} ({value})"
        elif name == "delta.columnMapping.mode" and value != "none":
            yield f"it uses column mapping ({name} is {value!r})"
        elif is_unknown(name) and str(value).lower() not in ("false", "none"):
            yield f"it sets {name} to {value!r}, which appends do not honour"


def _column_problems(facts: TableFacts) -> Iterator[str]:
    for column in json.loads(facts.schema_json).get("fields", ()):
        yield from _field_problems(column, "")


def _field_problems(column: Mapping[str, Any], above: str) -> Iterator[str]:
    path = above + str(column.get("name", ""))
    metadata = column.get("metadata") or {}
    for mark, meaning in _COLUMN_MARKS.items():
        if mark in metadata:
            yield f"{path!r} is {meaning}" if "column" in meaning else f"{path!r} has {meaning}"
    nested = column.get("type")
    while isinstance(nested, dict):
        for child in nested.get("fields", ()):
            yield from _field_problems(child, f"{path}.")
        nested = nested.get("elementType") or nested.get("valueType")
