"""The languages of databases, as far as predicates need them: quoted names and typed values.

Values are never pasted in as they are: text is escaped, times carry their type and, where they have one, their zone in
UTC. So a literal means the same whatever zone the machine or the session is in.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import StrEnum

from tidegate.column_specs import Value
from tidegate.errors import WatermarkError
from tidegate.watermarks.column_values import is_finite


class Dialect(StrEnum):
    """Who reads a predicate."""

    SPARK = "spark"
    POSTGRESQL = "postgresql"
    MYSQL = "mysql"
    SQLSERVER = "sqlserver"
    ORACLE = "oracle"
    SQLITE = "sqlite"
    ANSI = "ansi"


_DRIVERS = {
    "postgresql": Dialect.POSTGRESQL,
    "redshift": Dialect.POSTGRESQL,
    "mysql": Dialect.MYSQL,
    "mariadb": Dialect.MYSQL,
    "sqlserver": Dialect.SQLSERVER,
    "oracle": Dialect.ORACLE,
    "sqlite": Dialect.SQLITE,
}
_NAMES = {"redshift": "Redshift", "sqlserver": "SQL Server", "oracle": "Oracle", "sqlite": "SQLite by JDBC"}
_QUOTES = {Dialect.SPARK: ("`", "`"), Dialect.MYSQL: ("`", "`"), Dialect.SQLSERVER: ("[", "]")}
_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""What sorts alike as text and as a UUID, which has no collation."""

_WITHOUT_BOOLEANS = (Dialect.SQLSERVER, Dialect.ORACLE, Dialect.SQLITE)


def dialect_of(jdbc_url: str) -> Dialect:
    """The language of the database behind a JDBC address; standard SQL where we do not know it."""
    scheme, _, rest = jdbc_url.partition(":")
    return _DRIVERS.get(rest.partition(":")[0].lower(), Dialect.ANSI) if scheme.lower() == "jdbc" else Dialect.ANSI


def untested(jdbc_url: str) -> str | None:
    """That no test of ours runs against such a database, as a sentence; None where one does."""
    scheme = jdbc_url.partition(":")[2].partition(":")[0].lower()
    if scheme in ("postgresql", "mariadb"):
        return None
    if scheme == "mysql":
        return "no test of Tidegate runs against MySQL; its driver and its statements are tested against MariaDB"
    called = _NAMES.get(scheme, f"a database of jdbc:{scheme}")
    follow = "standard SQL" if scheme not in _DRIVERS else "its documentation"
    return f"no test of Tidegate runs against {called}; statements follow {follow}"


def quoted(identifier: str, dialect: Dialect) -> str:
    """One name, so that nothing in it is taken for anything else."""
    if not identifier or "\0" in identifier:
        raise WatermarkError(f"{identifier!r} cannot be the name of a column", "correct watermark_columns")
    opening, closing = _QUOTES.get(dialect, ('"', '"'))
    return f"{opening}{identifier.replace(closing, closing * 2)}{closing}"


def ordered(identifier: str, value: Value, dialect: Dialect) -> str:
    """The column, to be compared with ``value``: text sorts by its characters, whatever language the database has.

    In the order of a language ``a`` may lie below ``B``, and a row would be neither covered by a watermark nor above.
    """
    if not isinstance(value, str) or (dialect is Dialect.POSTGRESQL and _UUID.fullmatch(value)):
        return quoted(identifier, dialect)
    return text_key(quoted(identifier, dialect), dialect)


def text_key(expression: str, dialect: Dialect) -> str:
    """Text, to be compared and sorted by code points; nothing to be read, since it may have lost characters.

    PostgreSQL's loses the blanks at the end of ``char(n)``. MySQL's are bytes: its collations but the newest take
    ``a`` and ``a`` with a blank for the same.
    """
    match dialect:
        case Dialect.POSTGRESQL:
            return f'CAST({expression} AS TEXT) COLLATE "C"'
        case Dialect.MYSQL:
            return f"CAST(CONVERT({expression} USING utf8mb4) AS BINARY)"
        case Dialect.SQLSERVER:
            return f"CAST({expression} AS NVARCHAR(MAX)) COLLATE Latin1_General_100_BIN2"
        case Dialect.SQLITE:
            return f"{expression} COLLATE BINARY"
        case _:
            return expression


def has_text_key(dialect: Dialect) -> bool:
    """Whether text sorts there as it sorts here; in another order, ranges of text overlap."""
    return dialect in (Dialect.POSTGRESQL, Dialect.MYSQL, Dialect.SQLSERVER, Dialect.SQLITE)


def text_of_key(key: str, dialect: Dialect) -> str:
    """What :func:`text_key` gave, as text again."""
    return f"CONVERT({key} USING utf8mb4)" if dialect is Dialect.MYSQL else key


def literal(value: Value, dialect: Dialect) -> str:
    """The value, typed, in the language of the source; ``WatermarkError`` where it has no such value."""
    match value:
        case bool():
            return str(int(value)) if dialect in _WITHOUT_BOOLEANS else str(value).upper()
        case int():
            return str(value)
        case Decimal() | float() if not is_finite(value):
            raise _impossible(value, dialect)
        case Decimal():
            return format(value, "f")
        case float():
            text = repr(value).upper()
            return text if "E" in text else f"{text}E0"
        case str():
            return _text(value, dialect)
        case datetime():
            return _moment(value, dialect)
        case date():
            return _typed("DATE", value.isoformat(), dialect)
        case time():
            return _clock(value, dialect)


def _text(value: str, dialect: Dialect) -> str:
    if not value.isascii() and any("\ud800" <= each <= "\udfff" for each in value):
        raise _impossible(value, dialect)
    if ("\0" in value and dialect is not Dialect.SPARK) or ("\\" in value and dialect is Dialect.ANSI):
        raise _impossible(value, dialect)
    if dialect is Dialect.SPARK:
        escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024")
        return f"'{escaped}'"
    doubled = value.replace("'", "''")
    if dialect is Dialect.SQLSERVER:
        return f"N'{doubled}'"
    if "\\" in value and dialect is Dialect.POSTGRESQL:
        escaped = doubled.replace("\\", "\\\\")
        return f"E'{escaped}'"
    if dialect is Dialect.MYSQL and ("\\" in value or not value.isascii()):
        return f"_utf8mb4 X'{value.encode().hex().upper()}'"
    return f"'{doubled}'"


def _moment(value: datetime, dialect: Dialect) -> str:
    if value.utcoffset() is None:
        text = value.replace(fold=0).isoformat(sep=" ")
        types = {Dialect.SPARK: "TIMESTAMP_NTZ", Dialect.SQLSERVER: "DATETIME2"}
    else:
        text = value.astimezone(UTC).isoformat(sep=" ")
        if dialect is Dialect.MYSQL:  # MariaDB knows no zone in a literal; the sessions of both are in UTC
            text = text.removesuffix("+00:00")
        types = {
            Dialect.SPARK: "TIMESTAMP_LTZ",
            Dialect.SQLSERVER: "DATETIMEOFFSET",
            Dialect.POSTGRESQL: "TIMESTAMP WITH TIME ZONE",
        }
        if dialect is Dialect.ORACLE:
            text = text.replace("+", " +")
    return _typed(types.get(dialect, "TIMESTAMP"), text, dialect)


def _clock(value: time, dialect: Dialect) -> str:
    if dialect is Dialect.ORACLE or (value.tzinfo is not None and dialect is not Dialect.POSTGRESQL):
        raise _impossible(value, dialect)
    return _typed("TIME" if value.tzinfo is None else "TIME WITH TIME ZONE", value.isoformat(), dialect)


def _typed(kind: str, text: str, dialect: Dialect) -> str:
    if dialect is Dialect.SQLITE:
        return f"'{text}'"
    if dialect is Dialect.SQLSERVER:
        iso = text.replace(" ", "T")
        return f"CAST('{iso}' AS {kind})"
    return f"{kind} '{text}'"


def _impossible(value: Value, dialect: Dialect) -> WatermarkError:
    return WatermarkError(f"{value!r} cannot be written in the language of {dialect}", "leave such rows out")
