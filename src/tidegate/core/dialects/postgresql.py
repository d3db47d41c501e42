"""PostgreSQL, and Redshift, which speaks its SQL."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from tidegate.core.dialects import remedies
from tidegate.core.dialects.dialect import WITH_BACKSLASH, Dialect, JdbcDriver, PythonDriver
from tidegate.core.dialects.transfer import ColumnTransfer, DatabaseField, is_decimal
from tidegate.specs.columns import Value

_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Text that sorts like the UUID that it is; UUIDs have no collation."""

_TEXT = "CAST({} AS text)"
_AS_TEXT = {
    "timestamptz": "CAST({} AT TIME ZONE 'UTC' AS text)",
    **dict.fromkeys(("timestamp", "date", "time", "timetz", "interval", "money"), _TEXT),
}
"""Expressions for what the database writes as text, by the driver's name of the type."""

_UNSORTED = ("timetz", "interval", "money")
"""Those whose text sorts differently."""

_ARRAYS_AS_THEY_ARE = frozenset(
    ("_int2", "_int4", "_int8", "_oid", "_float4", "_float8", "_bool", "_bytea", "_text", "_varchar", "_bpchar")
) | {"_name", "_uuid", "_json", "_jsonb"}

UNBOUNDED = "decimal(38,18)"
"""Spark's type for a ``numeric`` without a size; no other has this size and a scale of 0."""

KINDS = {
    "int2": "smallint",
    "int4": "int",
    "int8": "bigint",
    "float4": "float",
    "float8": "double",
    "bool": "boolean",
    "bytea": "binary",
    "date": "date",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
}
"""Spark's types, by PostgreSQL's names; any other type is text."""

_AS_C_DRIVERS_GIVE_THEM = {
    "smallint": ("int2", "smallserial"),
    "int": ("int4", "serial"),
    "bigint": ("int8", "bigserial"),
    "float": ("float4",),
    "double": ("float8",),
    "boolean": ("bool",),
    "binary": ("bytea",),
}
_TEXT_OF_C_DRIVERS = ("text", "varchar", "bpchar")
_WRITTEN = "CASE WHEN {} IS DISTINCT FROM NULL THEN format('%s', {}) END"
"""PostgreSQL's text of a value, as its JDBC driver returns it; for some types a cast gives another.

A row with a null inside is neither null nor ``NOT NULL`` there.
"""
_PADDED = "CASE WHEN {} = '' THEN ' ' WHEN {} IS NOT NULL THEN format('%s', {}) END"
"""A ``"char"`` of PostgreSQL, which Spark takes for a text of one character and fills with a blank."""


@dataclass(frozen=True, slots=True)
class PostgresTransfer(ColumnTransfer):
    """How one column is fetched, by JDBC or by psycopg and ADBC, which both use PostgreSQL's C driver."""

    @property
    def python_template(self) -> str:
        """The expression to select by a C driver, which is as careful about the text of a value."""
        if self.kind != "string" or self.is_text or self.field.called in _TEXT_OF_C_DRIVERS:
            return self.template
        return _PADDED if self.field.called == "char" else _WRITTEN

    def type_to_parse_in_python(self, kind: str, timezone: str = "UTC") -> str | None:
        """The type to parse, for C drivers, which return few types as Java has them."""
        is_given = kind == "string" or self.field.called in _AS_C_DRIVERS_GIVE_THEM.get(kind, ())
        return self.type_to_parse(kind, timezone) if self.is_text or is_given else None


class Postgresql(Dialect):
    """PostgreSQL."""

    scheme, title, port = "postgresql", "PostgreSQL", 5432
    driver: JdbcDriver | None = JdbcDriver(
        "org.postgresql.Driver", "org.postgresql:postgresql:42.7.14", errors="org.postgresql"
    )
    python: PythonDriver | None = PythonDriver("psycopg", "tidegate[postgres]")
    untested: str | None = None
    has_backslashes = can_sample = takes_several = True
    text_key = 'CAST({} AS TEXT) COLLATE "C"'  # loses the blanks at the end of char(n)
    first_row = "SELECT {} LIMIT 1"
    instant, aware_clock = "TIMESTAMP WITH TIME ZONE", "TIME WITH TIME ZONE"
    session = "SET TIME ZONE 'UTC'"
    harmless_settings = frozenset(
        (
            *("applicationname", "logintimeout", "preparethreshold", "defaultrowfetchsize"),
            *("rewritebatchedinserts", "binarytransfer"),
        )
    )
    kept_settings: ClassVar[Mapping[str, frozenset[str] | None]] = {
        "sslmode": frozenset(("disable", "allow", "prefer", "require", "verify-ca", "verify-full")),
        "sslrootcert": None,
    }
    # A backslash escapes a quote in E'…' only.
    comments = (r"\b[eE]" + WITH_BACKSLASH.format("'"), r"\$(?P<tag>\w*)\$.*?(?:\$(?P=tag)\$|\Z)")
    refusals: ClassVar[Mapping[str, str]] = {
        remedies.LOGIN: r"password authentication failed|no pg_hba\.conf entry|role \S+ does not exist",
        remedies.PASSWORD: r"no password supplied",
        remedies.DATABASE: r"database \S+ does not exist",
        remedies.CONNECTION: r"Connection (to \S+ )?refused|terminating connection|An I/O error occurred|"
        r"server closed the connection|could not receive data from server|failed to resolve host|"
        r"could not translate host name|connection timeout expired|invalid response to SSL",
        remedies.TABLE: r"relation \S+ does not exist",
        remedies.COLUMN: r"column \S+ does not exist",
        remedies.TIMEOUT: r"statement timeout|lock timeout|canceling statement",
        remedies.VALUE: r"invalid input syntax|Bad value for type|numeric field overflow",
    }

    def order_key(self, identifier: str, value: Value) -> str:
        if isinstance(value, str) and _UUID.fullmatch(value):
            return self.quote(identifier)
        return super().order_key(identifier, value)

    def write_text(self, value: str) -> str:
        text = super().write_text(value)
        # E'…' means the same whatever standard_conforming_strings says.
        return "E" + text.replace("\\", "\\\\") if "\\" in value else text

    def transfer(self, field: DatabaseField) -> ColumnTransfer:
        kind, called = "string" if field.is_clock else field.kind, field.called
        unchanged = PostgresTransfer(field, "{}", kind)
        in_words = PostgresTransfer(field, _TEXT, "string", is_text=True)
        if kind.startswith("array<"):
            return unchanged if called in _ARRAYS_AS_THEY_ARE else replace(in_words, sorts=False)
        if is_decimal(kind) and called in ("numeric", "decimal"):
            is_unbounded = field.scale == 0 and field.kind == UNBOUNDED
            return replace(in_words, kind=kind if is_unbounded or field.fits_decimal else "string")
        if called in ("bit", "varbit") and kind != "boolean":
            return in_words
        if called in _AS_TEXT:
            return PostgresTransfer(field, _AS_TEXT[called], kind, is_text=True, sorts=called not in _UNSORTED)
        return unchanged


class Redshift(Postgresql):
    """Amazon Redshift, by a driver that the user names."""

    scheme, title, port = "redshift", "Redshift", 5439
    driver, python = None, None
    untested = Dialect.untested
