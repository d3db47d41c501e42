"""MySQL and MariaDB. A ``jdbc:mariadb`` address means MariaDB's own driver; both servers speak the same SQL."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from tidegate.core.dialects import remedies
from tidegate.core.dialects.dialect import WITH_BACKSLASH, Dialect, JdbcDriver, PythonDriver
from tidegate.core.dialects.transfer import ColumnTransfer, DatabaseField, is_decimal

SESSION = f"SET time_zone = '+00:00', sql_select_limit = {2**64 - 1}"
"""The start of every session: times are in UTC, and no setting of the server cuts the rows."""

_TEXT = "CAST({} AS CHAR)"
_AS_TEXT = ("timestamp", "datetime", "date", "time", "char")
"""What the database writes as text, by the driver's name of the type; sessions are in UTC.

The text of a ``time`` sorts differently: it may be negative, and have hundreds of hours.
"""

_NUMBERS = {
    **dict.fromkeys(("float", "float unsigned"), "({} + 0E0)"),
    **dict.fromkeys(("double", "double unsigned"), "({} * 1E0)"),
    "bit": "({} + 0)",
}
"""MySQL shows at most six digits of a ``float``, and of a sum over ``float(7,3)`` those that one value has.

A ``bit(1)`` comes as a byte, or in an expression as text; other bits are :data:`_BITS`.
"""
_BITS = "CAST(CAST({} AS UNSIGNED) AS CHAR)"
_MARIADB = re.compile("jdbc:mariadb:", re.IGNORECASE)
_TLS = "let the server offer TLS and use a jdbc:mysql address"


class Mysql(Dialect):
    """MySQL."""

    scheme, title, port = "mysql", "MySQL", 3306
    driver = JdbcDriver("com.mysql.cj.jdbc.Driver", "com.mysql:mysql-connector-j:9.7.0", errors="com.mysql")
    python = PythonDriver("PyMySQL", "tidegate[mysql]")
    quotes = ("`", "`")
    untested: str | None = (
        "no test of Tidegate runs against MySQL; its driver and its statements are tested against MariaDB"
    )
    # As bytes: all but the newest collations treat "a" with and without a blank as equal.
    text_key, text_of_key = "CAST(CONVERT({} USING utf8mb4) AS BINARY)", "CONVERT({} USING utf8mb4)"
    first_row = "SELECT {} LIMIT 1"
    session = SESSION
    jdbc_options: ClassVar[Mapping[str, str]] = {
        "tinyInt1isBit": "false",  # a tinyint(1) holds numbers
        "useCursorFetch": "true",  # otherwise all rows are held at once
    }
    harmless_settings = frozenset(
        (
            *("usecursorfetch", "tinyint1isbit", "rewritebatchedstatements", "useserverprepstmts", "cacheprepstmts"),
            *("allowpublickeyretrieval", "permitmysqlscheme", "useunicode"),
        )
    )
    comments = ("#[^\n]*",)
    # A backslash escapes in every quoted text.
    inside_quotes = WITH_BACKSLASH
    refusals: ClassVar[Mapping[str, str]] = {
        r"install PyMySQL[ed25519], or give the account another way to log in": r"'pynacl' package is required",
        f"{_TLS}, or install PyMySQL[rsa]": r"'cryptography' package is required",
        f"{_TLS}, or give the account another way to log in": r"asks for the password in cleartext",
        remedies.LOGIN: r"Access denied for user",
        remedies.DATABASE: r"Unknown database",
        remedies.CONNECTION: r"Communications link failure|Lost connection|server has gone away|"
        r"Can't connect to MySQL|Packet sequence number wrong|unpack requires a buffer",
        remedies.PERMISSION: r"command denied to user",
        remedies.TABLE: r"Table '[^']*' doesn't exist",
        remedies.COLUMN: r"Unknown column",
        remedies.DIVISION: r"Division by 0",
        remedies.TIMEOUT: r"max_statement_time|Query execution was interrupted|Lock wait timeout",
        remedies.SYNTAX: r"error in your SQL syntax",
        remedies.VALUE: r"Data truncation|Zero date value|Incorrect \w+ value",
    }

    def write_text(self, value: str) -> str:
        # Whether a backslash escapes depends on sql_mode, and the meaning of other bytes on the connection's character
        # set.
        if "\0" not in value and ("\\" in value or not value.isascii()):
            return f"_utf8mb4 X'{value.encode().hex().upper()}'"
        return super().write_text(value)

    def write_instant(self, text: str) -> str:
        # MariaDB has no zones in literals; the sessions of both are in UTC.
        return self.write_typed(self.instant, text.removesuffix("+00:00"))

    def transfer(self, field: DatabaseField) -> ColumnTransfer:
        unchanged, called = super().transfer(field), field.called
        in_words = ColumnTransfer(field, _TEXT, "string", is_text=True)
        if is_decimal(unchanged.kind) and called in ("numeric", "decimal", "decimal unsigned"):
            return replace(in_words, kind=unchanged.kind if field.fits_decimal else "string")
        if called == "bit" and unchanged.kind != "boolean":
            return ColumnTransfer(field, _BITS, "bigint", is_text=True)
        if called == "year":
            # The driver would make a date of it.
            return ColumnTransfer(field, "CAST({} AS SIGNED)", "int")
        if called in _AS_TEXT:
            return replace(in_words, kind=unchanged.kind, sorts=called != "time")
        return replace(unchanged, template=_NUMBERS.get(called, "{}"))


class Mariadb(Mysql):
    """MariaDB."""

    scheme, title = "mariadb", "MariaDB"
    driver = JdbcDriver("org.mariadb.jdbc.Driver", "org.mariadb.jdbc:mariadb-java-client:3.5.11", errors="org.mariadb")

    untested = None

    def spark_url(self, url: str) -> str:
        # Spark knows MySQL but not MariaDB, whose driver accepts such an address with this setting.
        return f"{_MARIADB.sub('jdbc:mysql:', url, count=1)}{'&' if '?' in url else '?'}permitMysqlScheme"
