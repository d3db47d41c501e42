"""MySQL and MariaDB in this process, by PyMySQL."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import groupby
from typing import Any

import pyarrow as pa

from tidegate.core.database_tables import DatabaseTable, TableKind
from tidegate.core.dialects.address import DatabaseAddress
from tidegate.core.dialects.mysql import SESSION
from tidegate.core.dialects.transfer import DatabaseField, decimal_type
from tidegate.sources.database_driver import (
    BLOCK_BYTES,
    CONNECT_SECONDS,
    STRIDE,
    Block,
    DatabaseDriver,
    measure,
)
from tidegate.sources.exact import ExactColumn, exact
from tidegate.specs.columns import JdbcRead

_KINDS = {
    1: ("tinyint", "tinyint", "smallint"),
    2: ("smallint", "smallint", "int"),
    9: ("mediumint", "int", "int"),
    3: ("int", "int", "bigint"),
    8: ("bigint", "bigint", "decimal(20,0)"),
    4: ("float", "float", "double"),
    5: ("double", "double", "double"),
    13: ("year", "int", "int"),
    7: ("timestamp", "timestamp", "timestamp"),
    12: ("datetime", "timestamp_ntz", "timestamp_ntz"),
    10: ("date", "date", "date"),
    11: ("time", "string", "string"),
    245: ("json", "string", "string"),
}
"""By the protocol's number of a type: its name, and Spark's types with a sign and without."""

_SYSTEM = "('information_schema', 'mysql', 'performance_schema', 'sys')"
_TABLES = f"""SELECT t.TABLE_SCHEMA, t.TABLE_NAME, t.TABLE_TYPE, COALESCE(t.CREATE_OPTIONS, ''), c.COLUMN_NAME
FROM information_schema.TABLES t JOIN information_schema.COLUMNS c
  ON c.TABLE_SCHEMA = t.TABLE_SCHEMA AND c.TABLE_NAME = t.TABLE_NAME
WHERE t.TABLE_SCHEMA NOT IN {_SYSTEM} AND t.TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED', 'VIEW')
ORDER BY t.TABLE_SCHEMA, t.TABLE_NAME, c.ORDINAL_POSITION
"""
_KEYS = f"""SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME FROM information_schema.STATISTICS
WHERE INDEX_NAME = 'PRIMARY' AND TABLE_SCHEMA NOT IN {_SYSTEM}
ORDER BY TABLE_SCHEMA, TABLE_NAME, SEQ_IN_INDEX
"""
"""A row per column: texts that the server joins are cut at 1,024 characters, and not every version has JSON lists."""

_TEXTS = {15: "varchar", 253: "varchar", 254: "char", **dict.fromkeys((249, 250, 251, 252), "text")}
_UNSIGNED = 32
_UUID = 254, True, 36 * 4
"""What tells MariaDB's ``uuid`` from other text: 36 characters of up to four bytes, and no sign."""

_BYTES = 63
"""The character set of values that are not text."""

_AS_TEXT: dict[Any, Any] = {bool: lambda value, _: str(int(value))}
"""What the driver converts: its own setting of ``autocommit``, and no value of a row."""


class PymysqlDriver(DatabaseDriver):
    """MySQL and MariaDB, by PyMySQL."""

    def _describe(self, cursor: Any) -> list[DatabaseField]:
        fields = [self._field(each) for each in cursor._result.fields]
        cursor.fetchall()  # an unbuffered cursor takes no other statement before
        return fields

    def list_tables(self) -> list[DatabaseTable]:
        keys: dict[tuple[str, str], list[str]] = defaultdict(list)
        for schema, name, column in self.fetch_rows(_KEYS):
            keys[schema, name].append(column)
        found = groupby(self.fetch_rows(_TABLES), key=lambda row: tuple(row[:4]))
        return [
            DatabaseTable(
                schema, name, _table_kind(kind, options), tuple(row[4] for row in rows), tuple(keys[schema, name])
            )
            for (schema, name, kind, options), rows in found
        ]

    def _field(self, told: Any) -> DatabaseField:
        number, unsigned = told.type_code, bool(told.flags & _UNSIGNED)
        if number in (0, 246):
            # The length includes a sign and the point.
            digits = told.length - (not unsigned) - bool(told.scale)
            return DatabaseField(told.name, decimal_type(digits, told.scale), "decimal", told.scale)
        if number in _KINDS:
            called, signed, other = _KINDS[number]
            return DatabaseField(told.name, other if unsigned else signed, called)
        if number == 16:
            return DatabaseField(told.name, "boolean" if told.length == 1 else "bigint", "bit")
        if (number, unsigned, told.length) == _UUID and self.dialect.scheme == "mariadb":
            raise self._unknown_to_spark(told.name, "uuid", "char")
        if number in _TEXTS:
            is_bytes = told.charsetnr == _BYTES
            return DatabaseField(told.name, *(("binary", "blob") if is_bytes else ("string", _TEXTS[number])))
        raise self.no_type(told.name, f"number {number} of MySQL's protocol")

    def blocks(self, statement: str) -> Iterator[Block]:
        with self._session() as cursor:
            cursor.execute(statement)
            block: list[Sequence[Any]] = []
            size = 0
            while rows := cursor.fetchmany(min(STRIDE, self.read.fetch_size - len(block))):
                block += rows
                size += len(rows) * measure(rows[0])
                if size >= BLOCK_BYTES or len(block) == self.read.fetch_size:
                    yield block
                    block, size = [], 0
            if block:
                yield block

    @contextmanager
    def _session(self) -> Iterator[Any]:
        """The cursor buffers only what is fetched; values are the text of the server."""
        import pymysql

        with self._map_errors(pymysql.MySQLError), closing(_connect_mysql(self._address, self.read)) as connection:
            connection.query("SET SESSION TRANSACTION READ ONLY")
            with closing(connection.cursor()) as cursor:
                try:
                    yield cursor
                finally:
                    if cursor._result is not None:  # else closing it would read all remaining rows
                        cursor._result.unbuffered_active = False

    def build_array(self, values: Sequence[Any], column: ExactColumn) -> pa.Array:
        kind = column.kind
        if pa.types.is_boolean(kind):
            return pa.array([None if each is None else each != "0" for each in values], kind)
        if pa.types.is_binary(kind) or pa.types.is_string(kind):
            return pa.array(values, kind)
        texts = pa.array(values, pa.string())
        if column.called or pa.types.is_decimal(kind):
            return exact(texts, column if column.called else ExactColumn(column.name, kind, "decimal"))
        return texts.cast(pa.float64()).cast(kind) if pa.types.is_floating(kind) else texts.cast(kind)


def _table_kind(kind: str, options: str) -> TableKind:
    if kind == "VIEW":
        return TableKind.VIEW
    return TableKind.PARTITIONED if "partitioned" in options.lower() else TableKind.TABLE


def _connect_mysql(address: DatabaseAddress, read: JdbcRead) -> Any:
    """Connect like the JDBC driver without settings: MySQL's encrypts if the server can, MariaDB's does not.

    Neither checks the certificate then.
    """
    import pymysql
    from pymysql.cursors import SSCursor

    return pymysql.connect(
        host=address.host,
        port=address.port,
        database=address.database,
        user=read.user,
        password="" if read.password is None else read.password.value,
        connect_timeout=CONNECT_SECONDS,
        charset="utf8mb4",
        autocommit=True,
        init_command=SESSION,
        ssl_disabled=address.dialect.scheme == "mariadb",
        auth_plugin_map=dict.fromkeys(("mysql_clear_password", "dialog"), _PlainSecret),
        conv=_AS_TEXT,
        cursorclass=SSCursor,
    )


class _PlainSecret:
    """Logs in by the password itself if a server asks for it: like JDBC drivers, over an encrypted connection only."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def authenticate(self, _: Any) -> Any:
        if not self._connection._secure:
            from pymysql.err import OperationalError

            raise OperationalError("the server asks for the password in cleartext, and the connection has no TLS")
        self._connection.write_packet(self._connection.password + b"\0")
        answer = self._connection._read_packet()
        answer.check_error()
        return answer
