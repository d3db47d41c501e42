"""Rows of a table at one version, without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.errors import StorageUnavailable, TableError
from tidegate.protocol.delta import DeltaLakeTable, DeltaSnapshot, library_options, said
from tidegate.protocol.table import arrow_schema
from tidegate.storage.stores import open_store

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.specs.locations import Location

_LAST = "\U0010ffff"
"""Sorts behind everything that may follow a prefix."""


def query(table: Location, sql: str) -> list[dict[str, Any]]:
    """The rows of ``sql`` over the newest version of ``table``, which it calls ``t``."""
    return [row for batch in _batches(table, sql) for row in batch.to_struct_array().to_pylist()]


def literal(text: str) -> str:
    """``text`` in SQL.

    >>> print(literal("it's"))
    'it''s'
    """
    return "'" + text.replace("'", "''") + "'"


def rows_by_value(table: Location, column: str, prefix: str, *, outside: bool = False) -> Iterator[tuple[str, int]]:
    """The values of a text column that begin with ``prefix``, with the number of their rows.

    With ``outside``, all others: null comes as the empty text.
    """
    inside = f'"{column}" >= {literal(prefix)} AND "{column}" < {literal(prefix + _LAST)}'
    where = f'NOT ({inside}) OR "{column}" IS NULL' if outside else inside
    sql = f"SELECT coalesce(\"{column}\", '') AS value, count(*) AS n FROM t WHERE {where} GROUP BY 1"
    try:
        for batch in _batches(table, sql):
            for row in batch.to_struct_array().to_pylist():
                yield str(row["value"]), int(row["n"])
    except OSError as error:
        problem = f"cannot read table {table.uri}: {said(error, table)}"
        raise StorageUnavailable(problem, "check the storage and try again") from error
    except Exception as error:
        problem = f"cannot read column {column!r} of table {table.uri}: {said(error, table)}"
        raise TableError(problem, "see the table's history") from error


def _batches(table: Location, sql: str) -> Iterator[Any]:
    from deltalake import DeltaTable, QueryBuilder

    found = DeltaTable(table.uri, storage_options=library_options(table))
    yield from QueryBuilder().register("t", found).execute(sql)


@dataclass(frozen=True, slots=True)
class TableVersion:
    """One version of a table, held fast: whatever is committed meanwhile, its rows stay the same."""

    snapshot: DeltaSnapshot

    @property
    def version(self) -> int:
        """Its number."""
        return self.snapshot.facts.version

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns."""
        return tuple(arrow_schema(self.snapshot.facts.schema_json).names)

    def rows(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Its rows, with these columns only, some thousands at a time."""
        import pyarrow
        from deltalake import QueryBuilder

        wanted = ", ".join(_quoted(name) for name in columns)
        table: Any = self.snapshot.table
        with self.snapshot.mapped("read"):
            for batch in QueryBuilder().register("t", table).execute(f"SELECT {wanted} FROM t"):
                yield pyarrow.record_batch(batch)


def pinned(location: Location) -> TableVersion | None:
    """The newest version of the table at ``location``; None where there is no table."""
    snapshot = DeltaLakeTable(location, open_store(location)).snapshot()
    if snapshot is None:
        return None
    assert isinstance(snapshot, DeltaSnapshot)
    return TableVersion(snapshot)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
