"""Databases that only their JDBC drivers read, by their documentation: SQL Server, Oracle, and SQLite."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import time
from typing import ClassVar

from tidegate.core.dialects import remedies
from tidegate.core.dialects.dialect import BRACKETS, Dialect, JdbcDriver


class Sqlserver(Dialect):
    """Microsoft SQL Server."""

    scheme, title, port = "sqlserver", "SQL Server", 1433
    driver = JdbcDriver(
        "com.microsoft.sqlserver.jdbc.SQLServerDriver",
        "com.microsoft.sqlserver:mssql-jdbc:13.6.1.jre11",
        errors="com.microsoft.sqlserver",
    )
    quotes = ("[", "]")
    has_booleans = False
    has_backslashes = True
    text_key = "CAST({} AS NVARCHAR(MAX)) COLLATE Latin1_General_100_BIN2"
    first_row = "SELECT TOP 1 {}"
    local_time, instant = "DATETIME2", "DATETIMEOFFSET"
    comments = (BRACKETS,)
    refusals: ClassVar[Mapping[str, str]] = {
        remedies.LOGIN: r"Login failed for user",
        remedies.DATABASE: r"Cannot open database",
        remedies.CONNECTION: r"The TCP/IP connection to the host",
        remedies.PERMISSION: r"permission was denied",
        remedies.TABLE: r"Invalid object name",
        remedies.COLUMN: r"Invalid column name",
        remedies.SYNTAX: r"Incorrect syntax",
    }

    def write_text(self, value: str) -> str:
        return f"N{super().write_text(value)}"

    def write_typed(self, kind: str, text: str) -> str:
        # The form with T is the one that no session setting reads differently.
        iso = text.replace(" ", "T")
        return f"CAST('{iso}' AS {kind})"


class Oracle(Dialect):
    """Oracle."""

    scheme, title, port = "oracle", "Oracle", 1521
    driver = JdbcDriver(
        "oracle.jdbc.OracleDriver", "com.oracle.database.jdbc:ojdbc11:23.26.4.0.0", errors="oracle.jdbc"
    )
    has_booleans = False
    has_backslashes = True
    session = "ALTER SESSION SET TIME_ZONE = 'UTC'"
    # Its own quotes count to the end: no variable may follow them.
    comments = (r"\b[nN]?[qQ]'.*",)
    refusals: ClassVar[Mapping[str, str]] = {
        remedies.LOGIN: r"ORA-01017",
        remedies.DATABASE: r"ORA-12514",
        remedies.CONNECTION: r"ORA-1254\d",
        remedies.PERMISSION: r"ORA-01031",
        remedies.TABLE: r"ORA-00942",
        remedies.COLUMN: r"ORA-00904",
        remedies.DIVISION: r"ORA-01476",
        remedies.SYNTAX: r"ORA-009\d\d",
    }

    def write_instant(self, text: str) -> str:
        return self.write_typed(self.instant, text.replace("+", " +"))

    def write_clock(self, value: time) -> str:
        # There is no type for a time of day.
        raise self._refuse(value)


class Sqlite(Dialect):
    """SQLite, which keeps times as text."""

    scheme, title = "sqlite", "SQLite by JDBC"
    driver = JdbcDriver("org.sqlite.JDBC", "org.xerial:sqlite-jdbc:3.53.4.0", errors="org.sqlite")
    has_booleans = False
    has_backslashes = True
    text_key = "{} COLLATE BINARY"
    first_row = "SELECT {} LIMIT 1"
    comments = (BRACKETS,)
    refusals: ClassVar[Mapping[str, str]] = {remedies.TABLE: r"no such table", remedies.COLUMN: r"no such column"}

    def write_typed(self, kind: str, text: str) -> str:
        return f"'{text}'"
