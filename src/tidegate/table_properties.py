"""Which properties of a Delta table ask nothing of an append, and which of them a configuration may set."""

from __future__ import annotations

import re

ALLOWED_PROPERTIES = frozenset(
    {
        "delta.appendOnly",
        "delta.checkpointInterval",
        "delta.checkpointPolicy",
        "delta.checkpointRetentionDuration",
        "delta.checkpoint.writeStatsAsJson",
        "delta.checkpoint.writeStatsAsStruct",
        "delta.columnMapping.maxColumnId",
        "delta.dataSkippingNumIndexedCols",
        "delta.dataSkippingStatsColumns",
        "delta.deletedFileRetentionDuration",
        "delta.enableChangeDataFeed",
        "delta.enableDeletionVectors",
        "delta.enableExpiredLogCleanup",
        "delta.enableFullRetentionRollback",
        "delta.isolationLevel",
        "delta.logRetentionDuration",
        "delta.minReaderVersion",
        "delta.minWriterVersion",
        "delta.parquet.compression.codec",
        "delta.randomPrefixLength",
        "delta.randomizeFilePrefixes",
        "delta.targetFileSize",
        "delta.tuneFileSizesForRewrites",
    }
)
"""``delta.`` properties that ask nothing of an append; switched off (``false``, ``none``) any may be there."""

ALLOWED_PREFIXES = ("delta.autoOptimize.", "delta.feature.")

RETENTION = "delta.setTransactionRetentionDuration"

_NOT_BY_US = {
    RETENTION: "the table would forget positions, and a quiet source would be read again from its start",
    "delta.checkpointPolicy": "the Delta library cannot write such checkpoints",
    "delta.checkpointRetentionDuration": "the Delta library does not know it; set it with Spark",
    "delta.enableFullRetentionRollback": "the Delta library does not know it; set it with Spark",
    "delta.columnMapping.maxColumnId": "it belongs to column mapping, which appends do not honour",
    "delta.enableDeletionVectors": "the Delta library would add other features along with it; set it with Spark",
    "delta.minReaderVersion": "the protocol follows from the other properties",
    "delta.minWriterVersion": "the protocol follows from the other properties",
    "delta.parquet.compression.codec": "set sink.compression",
    "delta.targetFileSize": "set sink.file_size_mb",
}


_FORMS = (
    (r"delta\..*Duration", r"(?i)interval \d+ (week|day|hour|minute|second)s?", "'interval 30 days'"),
    (r"delta\.(checkpointInterval|dataSkippingNumIndexedCols|randomPrefixLength)", r"-?\d{1,9}", "a number"),
    (r"delta\.isolationLevel", r"Serializable|WriteSerializable|SnapshotIsolation", "'Serializable'"),
    (r"delta\.dataSkippingStatsColumns|delta\.autoOptimize\..*", r".+", "a text"),
    (r"delta\..*", r"true|false", "'true' or 'false'"),
)
"""By the form of the name: the form of the value, and an example of it. The first that fits counts."""


def is_unknown(name: str) -> bool:
    """Whether a property is not known to ask nothing of an append."""
    if not name.startswith("delta.") or name in ALLOWED_PROPERTIES:
        return False
    return not name.startswith(ALLOWED_PREFIXES)


def why_not(name: str, value: str) -> str | None:
    """Why a configuration may not set a property to a value; None where it may.

    >>> why_not("delta.appendOnly", "true")
    >>> why_not("delta.appendOnly", "maybe")
    "'maybe' is none of its values; allowed: 'true' or 'false'"
    """
    if name in _NOT_BY_US:
        return _NOT_BY_US[name]
    if not name.startswith("delta."):
        return "it is no property of Delta; allowed: names that begin with 'delta.'"
    if is_unknown(name) or name.startswith("delta.feature."):
        return "appends do not honour it"
    form, example = next((form, example) for names, form, example in _FORMS if re.fullmatch(names, name))
    return None if re.fullmatch(form, value) else f"{value!r} is none of its values; allowed: {example}"
