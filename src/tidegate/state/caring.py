"""What can be done for a table beside moving rows into it: looked at and acted on through the Delta library.

Only tables that the library honours are touched; for all others the error has the statement that does it in Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from tidegate.errors import ObjectMissing, TableError, UnsupportedTable
from tidegate.state.delta import DeltaLakeTable, DeltaSnapshot, no_hooks
from tidegate.state.features import check_table
from tidegate.state.rewriting import ActiveFile

if TYPE_CHECKING:
    from tidegate.specs import Location
    from tidegate.storage.port import ObjectInfo, ObjectStore

_HEADS = 16


class CaredTable:
    """One table on disk or in object storage."""

    def __init__(self, location: Location, store: ObjectStore) -> None:
        if location.uri.startswith("memory:"):
            raise TableError(f"table {location.uri} is in memory only", "care for tables on disk or in object storage")
        self.uri = location.uri
        self._store = store
        self._delta = DeltaLakeTable(location, store)

    def snapshot(self, statement: str) -> DeltaSnapshot:
        """The newest version; ``UnsupportedTable`` names the Spark ``statement`` to use instead."""
        with self._or_in_spark(statement):
            found = self._delta.snapshot()
            if found is None:
                raise TableError(f"there is no table at {self.uri}", "run the pipeline first")
            assert isinstance(found, DeltaSnapshot)
            check_table(found.facts, self.uri)
            features = {*found.facts.protocol.reader_features, *found.facts.protocol.writer_features}
            if "deletionVectors" in features:
                raise UnsupportedTable(f"table {self.uri} has the feature 'deletionVectors'")
        return found

    def active_files(self, snapshot: DeltaSnapshot) -> tuple[ActiveFile, ...]:
        """The visible data files."""
        with snapshot.mapped("list the files of"):
            rows = snapshot.table.get_add_actions(flatten=True).to_struct_array().to_pylist()
        return tuple(_active(row, snapshot.facts.partition_columns) for row in rows)

    def left_files(self, snapshot: DeltaSnapshot, retention_hours: int) -> tuple[ObjectInfo, ...]:
        """The files that left the table longer ago than that and are still there.

        The log names them long after they are removed, so each is looked for.
        """
        named = self._vacuum(snapshot, retention_hours, dry_run=True)
        with ThreadPoolExecutor(_HEADS, "head") as pool:
            return tuple(found for found in pool.map(self._there, named) if found is not None)

    def vacuum(self, snapshot: DeltaSnapshot, retention_hours: int) -> int:
        """Remove them; never one that the log does not name as removed. The version that the table has then."""
        self._vacuum(snapshot, retention_hours, dry_run=False)
        return int(snapshot.table.version())

    def _vacuum(self, snapshot: DeltaSnapshot, retention_hours: int, *, dry_run: bool) -> list[str]:
        with snapshot.mapped("vacuum"):
            found = snapshot.table.vacuum(
                retention_hours=retention_hours,
                dry_run=dry_run,
                enforce_retention_duration=False,
                post_commithook_properties=no_hooks(),
                full=False,
            )
        return sorted({str(path) for path in found})

    def _there(self, path: str) -> ObjectInfo | None:
        try:
            return self._store.head(path)
        except ObjectMissing:
            return None

    def checkpoint(self) -> None:
        """Write a Delta checkpoint of the newest version."""
        self._delta.checkpoint()

    @contextmanager
    def _or_in_spark(self, statement: str) -> Iterator[None]:
        try:
            yield
        except UnsupportedTable as error:
            raise UnsupportedTable(error.problem, f"use Spark instead: {statement}") from error


def _active(row: Mapping[str, Any], partition_columns: tuple[str, ...]) -> ActiveFile:
    values = tuple((name, _text(row.get(f"partition.{name}"))) for name in partition_columns)
    logged = str(row["path"])
    return ActiveFile(unquote(logged), logged, int(row["size_bytes"]), int(row["num_records"] or 0), values)


def _text(value: object) -> str | None:
    """A partition value as Delta writes it."""
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case datetime():
            return value.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
        case date():
            return value.isoformat()
        case _:
            return str(value)
