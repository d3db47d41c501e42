"""Small questions to a table without Spark: which files its rows come from; also for the demo, the docs and tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tidegate.errors import StorageUnavailable, TableError
from tidegate.state.delta import library_options, said

if TYPE_CHECKING:
    from tidegate.specs import Location

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
