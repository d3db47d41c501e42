"""PostgreSQL in this process: psycopg reads the rows, or ADBC with ``reader: adbc``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import chain
from typing import Any

import pyarrow as pa

from tidegate.core.database_tables import DatabaseTable, TableKind
from tidegate.core.dialects.address import DatabaseAddress
from tidegate.core.dialects.postgresql import KINDS, UNBOUNDED
from tidegate.core.dialects.transfer import DatabaseField, decimal_type
from tidegate.sources.adbc import (
    LIKE_JDBC,
    OPTIONS_REFUSED,
    SESSION,
    AdbcShare,
    check_environment,
    connection_of,
    libpq_settings,
    share_rows,
)
from tidegate.sources.database_driver import (
    BLOCK_BYTES,
    CONNECT_SECONDS,
    STRIDE,
    Block,
    DatabaseDriver,
    measure,
)
from tidegate.sources.exact import ExactColumn, exact
from tidegate.specs.columns import JdbcRead, RowReader

_FIRST_ROWS = 16
"""The rows of the first block from PostgreSQL; later blocks grow as long as their size in bytes allows."""

_TYPES = "SELECT oid, typname, typcategory, typtype FROM pg_catalog.pg_type WHERE oid IN ({})"
_TABLES = """SELECT n.nspname::text, c.relname::text, c.relkind::text,
  (SELECT coalesce(json_agg(a.attname ORDER BY a.attnum), '[]')::text FROM pg_catalog.pg_attribute a
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
  (SELECT coalesce(json_agg(a.attname ORDER BY k.place), '[]')::text FROM pg_catalog.pg_index i
    CROSS JOIN LATERAL unnest(i.indkey::smallint[]) WITH ORDINALITY k(number, place)
    JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
    WHERE i.indrelid = c.oid AND i.indisprimary AND k.place <= i.indnkeyatts)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
  AND left(n.nspname, 3) <> 'pg_' AND n.nspname <> 'information_schema'
ORDER BY 1, 2
"""
"""One statement, whatever the number of tables."""

_TABLE_KINDS = {
    "r": TableKind.TABLE,
    "p": TableKind.PARTITIONED,
    "v": TableKind.VIEW,
    "m": TableKind.VIEW,
    "f": TableKind.FOREIGN,
}
_ONLY_JAVA = frozenset(("oid", "refcursor"))
_SESSION = {**SESSION, "cursor_tuple_fraction": "1"}
"""The database plans for all rows of a cursor, not for the first."""


class PsycopgDriver(DatabaseDriver):
    """PostgreSQL, by psycopg."""

    def __init__(self, read: JdbcRead, address: DatabaseAddress, source: str) -> None:
        check_environment()
        super().__init__(read, address, source)

    def _describe(self, cursor: Any) -> list[DatabaseField]:
        told = [(each.name, each.type_code, cursor.pgresult.fmod(n)) for n, each in enumerate(cursor.description)]
        cursor.execute(_TYPES.format(", ".join(str(oid) for _, oid, _ in told) or "NULL"))
        types = {row[0]: row[1:] for row in cursor.fetchall()}
        return [self._field(name, modifier, *types[oid]) for name, oid, modifier in told]

    def list_tables(self) -> list[DatabaseTable]:
        return [
            DatabaseTable(schema, name, _TABLE_KINDS[kind], tuple(json.loads(columns)), tuple(json.loads(key)))
            for schema, name, kind, columns, key in self.fetch_rows(_TABLES)
        ]

    def _field(self, name: str, modifier: int, called: str, category: str, type_: str) -> DatabaseField:
        if called == "numeric":
            # PostgreSQL packs digits and scale into the modifier, plus 4; the scale has 11 bits and may be negative.
            digits, scale = (modifier - 4) >> 16 & 0xFFFF, ((modifier - 4 & 0x7FF) ^ 0x400) - 0x400
            if modifier >= 0 and scale > digits:
                raise self.no_type(name, f"numeric({digits},{scale})")
            kind, scale = (decimal_type(digits, scale), scale) if modifier >= 0 else (UNBOUNDED, 0)
            return DatabaseField(name, kind, called, scale)
        if called == "_money":
            raise self._unknown_to_spark(name, "money[]", "text")
        if called in _ONLY_JAVA or type_ == "p" or (called == "bit" and modifier == 1):
            raise self.no_type(name, called)
        return DatabaseField(name, "array<string>" if category == "A" else KINDS.get(called, "string"), called)

    def blocks(self, statement: str) -> Iterator[Block]:
        with self._session() as cursor:
            # Without a cursor the driver receives all rows at once.
            cursor.execute(f"DECLARE tidegate NO SCROLL CURSOR FOR {statement}")
            wanted = _FIRST_ROWS
            while True:
                wanted = min(wanted, self.read.fetch_size)
                cursor.execute(f"FETCH FORWARD {wanted} FROM tidegate", binary=True, prepare=False)
                block = cursor.fetchall()
                if not block:
                    return
                sample = block[::STRIDE]
                wanted = min(4 * wanted, max(1, BLOCK_BYTES * len(sample) // measure(chain.from_iterable(sample))))
                yield block

    @contextmanager
    def _session(self) -> Iterator[Any]:
        import psycopg

        with self._map_errors(psycopg.Error), closing(_connect_postgres(self._address, self.read)) as connection:
            cursor = connection.cursor()
            cursor.execute("SET TRANSACTION READ ONLY")
            yield cursor

    def arrays(self, statement: str, columns: Sequence[ExactColumn]) -> Iterator[list[pa.Array]]:
        if self.read.reader is not RowReader.ADBC:
            yield from super().arrays(statement, columns)
            return
        with self._named():
            for batch in share_rows(AdbcShare(connection_of(self.read), statement, tuple(columns))):
                yield batch.columns

    def build_array(self, values: Sequence[Any], column: ExactColumn) -> pa.Array:
        return exact(pa.array(values, column.comes_as), column)


def _connect_postgres(address: DatabaseAddress, read: JdbcRead) -> Any:
    """Begin a transaction with its settings: a pooler may give the next transaction to another session of the server.

    The environment supplies nothing that the JDBC driver would not know.
    """
    import psycopg

    given: dict[str, Any] = libpq_settings(address, read, CONNECT_SECONDS)
    try:
        connection = psycopg.connect(options=LIKE_JDBC, autocommit=True, **given)
    except psycopg.OperationalError as error:
        if not OPTIONS_REFUSED.search(str(error)):
            raise
        connection = psycopg.connect(options="", autocommit=True, **given)
    settings = (f"SET LOCAL {name} = '{value}'" for name, value in _SESSION.items())
    connection.execute("; ".join(("BEGIN", *settings)).encode())
    return connection
