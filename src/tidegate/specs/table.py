"""The table that a pipeline writes: its columns, partitions and properties, and how it is kept in order."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from tidegate.specs.columns import Load
from tidegate.specs.keys import Checked, Count, CountOrNone, Key, Range
from tidegate.specs.locations import Location


class ParquetCodec(StrEnum):
    """Parquet compression."""

    SNAPPY = "snappy"
    GZIP = "gzip"
    ZSTD = "zstd"
    LZ4 = "lz4"
    UNCOMPRESSED = "uncompressed"


class Evolution(StrEnum):
    """What happens when files and table have different columns."""

    STRICT = "strict"
    MERGE = "merge"
    OVERWRITE = "overwrite"


class Numbers(StrEnum):
    """Whether values that would lose something are bad records (``strict``) or are cut (``lenient``)."""

    STRICT = "strict"
    LENIENT = "lenient"


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One declared column: ``type`` is a name of the type list, e.g. ``int64`` or ``decimal(10,2)``.

    ``fields`` for a struct, ``items`` for a list, ``keys`` and ``values`` for a map.
    """

    name: Annotated[str, Key("The name of the column.")]
    type: Annotated[str, Checked("type_name"), Key("A name of the type list.")]
    nullable: Annotated[bool, Key("Whether null is allowed.")] = True
    fields: Annotated[tuple[FieldSpec, ...], Key("The fields of a struct.")] = ()
    items: FieldSpec | None = None
    keys: FieldSpec | None = None
    values: FieldSpec | None = None


@dataclass(frozen=True, slots=True)
class SchemaSpec:
    """The columns: declared, or inferred from the first files; ``infer`` is true where ``fields`` is empty."""

    fields: Annotated[tuple[FieldSpec, ...], Key("The declared columns, in order.")] = ()
    infer: Annotated[bool, Key("Infers the columns from samples; the default without fields.")] = False
    coerce_conflicts_to_utf8: Annotated[bool, Key("Keeps values that do not fit a string column as JSON text.")] = False
    evolution: Annotated[
        Evolution,
        Key("What happens when the source and the table have different columns.", name="schema_evolution"),
    ] = Evolution.MERGE
    numbers: Annotated[
        Numbers,
        Key(
            "strict: values that would lose digits are bad records; lenient: whole numbers and decimals are cut,"
            " floats rounded, to infinity or 0 if they must be."
        ),
    ] = Numbers.STRICT
    rescued: Annotated[
        str | None,
        Checked("rescue_column"),
        Key("The text column for fields and values that fit no other column, as JSON: a name, or true for _rescued."),
    ] = None


@dataclass(frozen=True, slots=True)
class PartitionBy:
    """How the table is partitioned.

    With ``column``, the template is strftime over that timestamp or date column, or ``key={column}``-free keys
    (``country``) taken from the column itself; without it, each key's value comes from the same ``key=`` of the
    source path.
    """

    prefix_template: Annotated[
        str,
        Checked("directories"),
        Key("The partition columns as directories, such as date=%Y-%m-%d/hour=%H."),
    ]
    column: Annotated[
        str | None,
        Key("The timestamp or date column that the template formats; unset: values come from the source path."),
    ] = None


@dataclass(frozen=True, slots=True)
class Maintenance:
    """What a run does for its table after commits."""

    optimize_every_commits: Annotated[
        CountOrNone, Key("Compacts small files after this many commits of a source; 0 = never.")
    ] = 0
    vacuum_every_commits: Annotated[
        CountOrNone, Key("Removes files that left the table after this many commits of a source; 0 = never.")
    ] = 0
    vacuum_retention_hours: Annotated[
        int, Range(24, 87_600), Key("Hours to keep files that left the table, for readers.")
    ] = 168


@dataclass(frozen=True, slots=True)
class SinkSpec:
    """The table and how its files are written."""

    table: Annotated[Location, Key("The path or object storage address of the table.", name="table_uri")]
    partition_by: Annotated[PartitionBy | None, Key("Partition columns of the table.")] = None
    file_size_mb: Annotated[
        int, Range(1, 65_536), Key("A Parquet file is finished at this size (MB of 1,048,576 bytes).")
    ] = 128
    row_group_size_bytes: Annotated[
        int, Range(65_536, 2**33), Key("A row group is written once this many bytes are buffered.")
    ] = 134_217_728
    compression: Annotated[ParquetCodec, Key("Parquet compression.")] = ParquetCodec.SNAPPY
    rollover_timeout_secs: Annotated[
        Count | None, Key("A file is finished after this many seconds; unset: off, 300 in continuous runs.")
    ] = None
    inactivity_timeout_secs: Annotated[
        Count | None,
        Key("A file is finished after this many seconds without a write; unset: off, 60 in continuous runs."),
    ] = None
    commit_batch_files: Annotated[
        int,
        Range(1, 10_000),
        Key("A commit is due once this many Parquet files are finished since the last one."),
    ] = 10
    delta_checkpoint_interval: Annotated[CountOrNone, Key("A Delta checkpoint every this many commits; 0 = never.")] = (
        10
    )
    metadata_columns: Annotated[
        tuple[str, ...],
        Checked("metadata_columns"),
        Key("Extra columns: _source_file, _source_record, _ingested_at."),
    ] = ()
    max_concurrent_uploads: Annotated[Count, Key("Files uploaded at once.")] = 4
    part_size_mb: Annotated[int, Range(5, 5120), Key("Part size of multipart uploads.")] = 32
    min_multipart_size_mb: Annotated[Count, Key("Smaller files are uploaded in one request.")] = 5
    max_concurrent_parts: Annotated[Count, Key("Parts uploaded at once.")] = 8
    maintenance: Annotated[Maintenance, Key("Table maintenance after commits.")] = field(default_factory=Maintenance)
    table_properties: Annotated[
        Mapping[str, str], Key("Properties of the Delta table, set when it is created and when they change.")
    ] = field(default_factory=dict)
    load: Load = field(default_factory=Load)
    name: Annotated[
        str | None,
        Checked("table_name"),
        Key(
            "The name of the table in Spark's catalog, [catalog.]schema.table; table_uri is then its location.",
            name="table",
        ),
    ] = None

    @property
    def shown(self) -> str:
        """What people call the table: its name, or where it lies."""
        return self.name or self.table.uri


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
    RETENTION: "the table would forget positions, and a run would read a quiet source again from its start",
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
    """Whether a property may demand something of appends that we do not know."""
    if not name.startswith("delta.") or name in ALLOWED_PROPERTIES:
        return False
    return not name.startswith(ALLOWED_PREFIXES)


def why_not(name: str, value: str) -> str | None:
    """Why a configuration may not set a property to a value; None where it may.

    >>> why_not("delta.appendOnly", "true")
    >>> why_not("delta.appendOnly", "maybe")
    "'maybe' is not one of its values; allowed: 'true' or 'false'"
    """
    if name in _NOT_BY_US:
        return _NOT_BY_US[name]
    if not name.startswith("delta."):
        return "it is not a Delta property; use names that begin with 'delta.'"
    if is_unknown(name) or name.startswith("delta.feature."):
        return "appends do not honour it"
    form, example = next((form, example) for names, form, example in _FORMS if re.fullmatch(names, name))
    return None if re.fullmatch(form, value) else f"{value!r} is not one of its values; allowed: {example}"
