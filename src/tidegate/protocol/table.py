"""The port to one Delta table: a fresh snapshot, and the few things that may be written.

Guarantees that every adapter gives, and one contract suite checks:

- ``snapshot`` is as new as the last commit that was durable when it was called.
- ``append`` makes all of its actions visible in one commit or none. Since ``base``: a commit with one of the
  same application ids, a change of metadata or protocol, and removed data are refused; appends of others and
  rewrites that change no data are not in the way.
- ``replace`` takes rows out and puts others in, in one commit or not at all; it is refused when anything was
  committed since ``base``, so that no rewrite of somebody else can bring removed rows back.
- ``replace_files`` does the same with whole files.
- ``overwrite`` does the same with all rows and all columns; the table's identity, its properties, its partition
  columns and the positions of all sources stay.
- ``create`` never replaces a table: of two creators one is refused.
- ``add_columns`` and ``set_properties`` are refused when anything was committed since ``base``.
- **An exception tells nothing** about whether the commit is durable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class TableProtocol:
    """The features that readers and writers of the table must support."""

    min_reader: int
    min_writer: int
    reader_features: tuple[str, ...] = ()
    writer_features: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TableFacts:
    """A snapshot's facts about the table, as plain values."""

    version: int
    table_id: str
    protocol: TableProtocol
    schema_json: str
    partition_columns: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TableSize:
    """The size of a table, by its log."""

    files: int
    bytes: int
    rows: int


class Snapshot(Protocol):
    """The table as of one version."""

    @property
    def facts(self) -> TableFacts: ...

    def transaction_version(self, app_id: str) -> int | None:
        """The newest ``txn`` version of an application; None without one."""

    def active_paths(self) -> frozenset[str]:
        """Paths on disk of the visible data files, relative to the table. Expensive on large tables."""

    def active_files(self) -> tuple[ActiveFile, ...]:
        """The visible data files. Expensive, too."""

    def size(self) -> TableSize:
        """The size of the table; a file without statistics counts no rows. Expensive, too."""


@dataclass(frozen=True, slots=True)
class ActiveFile:
    """A visible data file: its path on disk and in the log."""

    path: str
    logged: str
    size: int
    rows: int
    partition_values: tuple[tuple[str, str | None], ...] = ()

    def to_remove(self, now_ms: int, *, changes_data: bool) -> dict[str, Any]:
        """The line of a log entry that removes the file."""
        return {
            "remove": {
                "path": self.logged,
                "deletionTimestamp": now_ms,
                "dataChange": changes_data,
                "extendedFileMetadata": True,
                "partitionValues": dict(self.partition_values),
                "size": self.size,
            }
        }


@dataclass(frozen=True, slots=True)
class Add:
    """A data file to make visible."""

    path: str
    size: int
    partition_values: Mapping[str, str | None]
    modified_ms: int
    stats: str

    def to_action(self, *, changes_data: bool) -> dict[str, Any]:
        """The line of a log entry that adds the file."""
        return {
            "add": {
                "path": log_path(self.path),
                "partitionValues": dict(self.partition_values),
                "size": self.size,
                "modificationTime": self.modified_ms,
                "dataChange": changes_data,
                "stats": self.stats,
            }
        }


@dataclass(frozen=True, slots=True)
class CommitNote:
    """What the log gets beside the files: application id → version, the time, and the commit tags."""

    transactions: Mapping[str, int]
    last_updated_ms: int
    user_metadata: str

    def to_actions(self) -> list[dict[str, Any]]:
        """The ``txn`` lines of a log entry."""
        return [
            {"txn": {"appId": app_id, "version": version, "lastUpdated": self.last_updated_ms}}
            for app_id, version in self.transactions.items()
        ]


class DeltaTablePort(Protocol):
    """One table; the module lists the guarantees."""

    def snapshot(self) -> Snapshot | None:
        """The newest snapshot; None without a table. A storage problem raises."""

    def rows(self, sql: str) -> Iterator[Mapping[str, Any]]:
        """The rows of ``sql`` over the newest version, named ``t``; none without a table."""

    def create(
        self,
        schema: pa.Schema,
        partition_columns: tuple[str, ...],
        adds: Sequence[Add],
        note: CommitNote,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Create the table with its first files."""

    def append(self, base: Snapshot, adds: Sequence[Add], note: CommitNote) -> None:
        """Append files, possibly none, to the table seen in ``base``."""

    def replace(self, base: Snapshot, predicate: str, rows: pa.RecordBatchReader, note: CommitNote) -> None:
        """Remove the rows of ``base`` that meet ``predicate`` and add ``rows``, which all meet it."""

    def replace_files(
        self, base: Snapshot, removed: Sequence[ActiveFile], adds: Sequence[Add], note: CommitNote
    ) -> None:
        """Remove files of ``base`` whole and add others, possibly none."""

    def overwrite(self, base: Snapshot, rows: pa.RecordBatchReader, note: CommitNote) -> None:
        """Give the table the columns of ``rows`` and only these rows."""

    def all_rows(self, base: Snapshot) -> AbstractContextManager[Iterator[pa.RecordBatch]]:
        """Every row of ``base``, batch by batch, while others write."""

    def add_columns(self, base: Snapshot, fields: Sequence[pa.Field]) -> None:
        """Add nullable columns to the table seen in ``base``."""

    def set_properties(self, base: Snapshot, properties: Mapping[str, str]) -> None:
        """Set properties of the table seen in ``base``."""

    def checkpoint(self) -> None:
        """Write a Delta checkpoint of the newest version."""


def log_path(path: str) -> str:
    """The path of a data file in a log entry."""
    return quote(path, safe="/=-_.~")


@lru_cache(maxsize=64)
def arrow_schema(schema_json: str) -> pa.Schema:
    """The Arrow schema of a Delta schema string."""
    import pyarrow
    from deltalake import Schema

    return pyarrow.schema(Schema.from_json(schema_json))


@lru_cache(maxsize=64)
def schema_json(schema: pa.Schema) -> str:
    """The Delta schema string of an Arrow schema."""
    from deltalake import Schema

    return str(Schema.from_arrow(schema).to_json())


def no_rows(schema: pa.Schema) -> pa.RecordBatchReader:
    """A reader of columns without a row."""
    import pyarrow

    return pyarrow.RecordBatchReader.from_batches(schema, [])
