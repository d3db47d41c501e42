"""The port of a database's facts. Its defaults are standard SQL, for a database that nobody described.

Values are always encoded: text is escaped, times have their type and are in UTC. So a literal means the same in every
time zone of the machine or session.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import ClassVar

from tidegate.core.columns.state import is_finite
from tidegate.core.dialects.transfer import ColumnTransfer, DatabaseField
from tidegate.errors import WatermarkError
from tidegate.specs.columns import Value

DOUBLED = "{0}(?:[^{0}]|{0}{0})*(?:{0}|\\Z)"
"""What is inside quotes, the braces, which are doubled inside; without an end it counts to the end."""

WITH_BACKSLASH = "{0}(?:[^{0}\\\\]|\\\\.|{0}{0})*(?:{0}|\\Z)"
BRACKETS = r"\[(?:[^\]]|\]\])*(?:\]|\Z)"


@dataclass(frozen=True, slots=True)
class JdbcDriver:
    """The class of a JDBC driver, its Maven coordinate, and the package of its exceptions."""

    name: str
    package: str
    errors: str


@dataclass(frozen=True, slots=True)
class PythonDriver:
    """A driver of Python, by which the local engine reads, and the extra that installs it."""

    name: str
    extra: str

    @property
    def module(self) -> str:
        """What Python imports."""
        return self.name.lower()


class Dialect:
    """One kind of database: the word after ``jdbc:`` in its address, how it is called, and what holds for it alone."""

    scheme: str = ""
    title: str = ""
    port: int | None = None
    driver: JdbcDriver | None = None
    python: PythonDriver | None = None

    quotes: tuple[str, str] = ('"', '"')
    has_booleans = True
    # Where it is unknown whether a backslash escapes, neither spelling is safe.
    has_backslashes = False
    text_key = "{}"
    """The expression that compares and sorts text by code points, with braces for the text; not for reading, since it
    may lose characters.
    """

    text_of_key = "{}"
    """Back from there to text."""

    first_row = "SELECT {} FETCH FIRST 1 ROWS ONLY"
    """Selects one row: the braces are for columns and the rest, its order included."""

    local_time, instant, aware_clock = "TIMESTAMP", "TIMESTAMP", ""
    """The types of literals: of times without a zone, of instants, and of clock times with a zone, if there are any."""

    can_sample = False
    """Whether ``TABLESAMPLE SYSTEM`` takes random pages of a table."""

    session: str | None = None
    """What a session by JDBC begins with: times, and configured conditions, then mean the same everywhere."""

    takes_several = False
    """Whether one statement of a session's start may be several, divided by semicolons."""

    jdbc_options: ClassVar[Mapping[str, str]] = {}
    """Settings of the JDBC driver, unless the address has others."""

    harmless_settings: ClassVar[frozenset[str]] = frozenset()
    """Settings of its JDBC driver, in small letters, that change no answer and protect no connection."""

    kept_settings: ClassVar[Mapping[str, frozenset[str] | None]] = {}
    """Settings that its JDBC and Python drivers have in common, each with its values; None: any."""

    comments: ClassVar[tuple[str, ...]] = ()
    """Patterns of its own for comments and quoted text, beside those of standard SQL."""

    inside_quotes = DOUBLED

    refusals: ClassVar[Mapping[str, str]] = {}
    """By remedy: patterns of the words in which it refuses."""

    def __init__(self, scheme: str = "") -> None:
        self.scheme = scheme or self.scheme

    def __str__(self) -> str:
        return self.title or f"a database of jdbc:{self.scheme}"

    @property
    def sorts_text(self) -> bool:
        """Whether text can be sorted by code points there, as here; otherwise ranges of text overlap."""
        return self.text_key != "{}"

    @property
    def untested(self) -> str | None:
        """A note that no test of ours runs against this database; None if some do."""
        follow = "its documentation" if self.title else "standard SQL"
        return f"no test of Tidegate runs against {self}; statements follow {follow}"

    def quote(self, identifier: str) -> str:
        """Write the name of a column; :class:`WatermarkError` if it can be none."""
        if not identifier or "\0" in identifier:
            raise WatermarkError(f"{identifier!r} cannot be the name of a column", "correct watermark_columns")
        opening, closing = self.quotes
        return f"{opening}{identifier.replace(closing, closing * 2)}{closing}"

    def order_key(self, identifier: str, value: Value) -> str:
        """Return the column as compared with ``value``: text sorts by characters, whatever the database's language.

        In the order of a language ``a`` may lie below ``B``, and a row would be neither covered by a watermark nor
        above it.
        """
        name = self.quote(identifier)
        return self.text_key.replace("{}", name) if isinstance(value, str) else name

    def literal(self, value: Value) -> str:
        """Write the value as a typed literal; ``WatermarkError`` if the database has no such value."""
        match value:
            case bool():
                return str(value).upper() if self.has_booleans else str(int(value))
            case int():
                return str(value)
            case Decimal() | float() if not is_finite(value):
                raise self._refuse(value)
            # Never with an exponent: 1E+2 is a floating-point literal in SQL, and would be compared as one.
            case Decimal():
                return format(value, "f")
            case float():
                text = repr(value).upper()
                # Without an exponent the literal is a decimal, and a float column would be compared after a cast.
                return text if "E" in text else f"{text}E0"
            case str():
                if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
                    raise self._refuse(value)
                return self.write_text(value)
            case datetime() if value.utcoffset() is None:
                return self.write_typed(self.local_time, value.replace(fold=0).isoformat(sep=" "))
            case datetime():
                return self.write_instant(value.astimezone(UTC).isoformat(sep=" "))
            case date():
                return self.write_typed("DATE", value.isoformat())
            case time():
                return self.write_clock(value)

    def write_text(self, value: str) -> str:
        """Write a text as a literal; no character of it is a surrogate."""
        if "\0" in value or ("\\" in value and not self.has_backslashes):
            raise self._refuse(value)
        doubled = value.replace("'", "''")
        return f"'{doubled}'"

    def write_instant(self, text: str) -> str:
        """Write a moment in UTC, such as ``2026-04-03 02:15:00+00:00``."""
        return self.write_typed(self.instant, text)

    def write_clock(self, value: time) -> str:
        """Write a time of day."""
        if value.tzinfo is not None and not self.aware_clock:
            raise self._refuse(value)
        return self.write_typed("TIME" if value.tzinfo is None else self.aware_clock, value.isoformat())

    def write_typed(self, kind: str, text: str) -> str:
        """Write a literal of a type of times."""
        return f"{kind} '{text}'"

    def _refuse(self, value: Value) -> WatermarkError:
        return WatermarkError(f"{value!r} cannot be written in the SQL of {self}", "leave such rows out")

    def transfer(self, field: DatabaseField) -> ColumnTransfer:
        """How a column is fetched."""
        return ColumnTransfer(field, "{}", "string" if field.is_clock else field.kind)

    def spark_url(self, url: str) -> str:
        """The address in a form whose quoting Spark knows."""
        return url


class SparkSql(Dialect):
    """The SQL of Spark itself, for conditions on frames and tables."""

    title = "Spark SQL"
    quotes = ("`", "`")
    local_time, instant = "TIMESTAMP_NTZ", "TIMESTAMP_LTZ"

    def write_text(self, value: str) -> str:
        # Spark substitutes ${env:…} and ${system:…} in statements, so a value could read the driver's secrets.
        escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024")
        return f"'{escaped}'"


SPARK = SparkSql()
