"""How a column of a database is fetched, so that no value changes on its way through a driver.

A driver shifts times by the JVM's zone, gives decimals another scale, and turns ``infinity`` into a year. So the
database writes such values as text, and the text is parsed: exactly, or the row is refused with its column and value.
Types that Delta lacks stay the database's text.

Types have Spark's names (``bigint``, ``timestamp_ntz``, ``decimal(12,2)``), whoever reads: Spark's JDBC gives them, and
drivers of Python give the same without Spark.
"""

from __future__ import annotations

from dataclasses import dataclass

MOST_DIGITS = 38
"""The most digits of a decimal, in Spark and in Delta."""


@dataclass(frozen=True, slots=True)
class DatabaseField:
    """A column as a driver describes it: its Spark type, and its name in the database, ``called``.

    ``scale`` is the database's own, if given. ``is_clock``: it has times of day, which Spark would turn into times on
    1970-01-01.
    """

    name: str
    kind: str
    called: str = ""
    scale: int | None = None
    is_clock: bool = False
    is_row_id: bool = False

    @property
    def fits_decimal(self) -> bool:
        """Whether a decimal of Delta is wide enough; otherwise the rows have its text."""
        # Beyond 38 digits Spark gives up decimal places, which shows by another scale than the database's.
        return self.scale is None or f",{self.scale})" in self.kind


@dataclass(frozen=True, slots=True)
class ColumnTransfer:
    """How one column is fetched: the expression to select, and the type of its values in the rows.

    ``is_text``: the database sends text, which is parsed as ``kind``. ``sorts``: database and Spark sort its values
    alike.
    """

    field: DatabaseField
    template: str
    kind: str
    is_text: bool = False
    sorts: bool = True

    @property
    def compared(self) -> str:
        """The type of its bounds; a decimal stays a decimal even if its rows are text."""
        return self.field.kind if is_decimal(self.field.kind) else self.kind

    @property
    def python_template(self) -> str:
        """The expression to select by a driver of Python."""
        return self.template

    def type_to_parse(self, kind: str, timezone: str = "UTC") -> str | None:
        """The type to parse its text as, so that rows have the type ``kind``; empty if it comes as that.

        None if Spark would convert more than that.
        """
        if kind == "string" and self.is_text:
            return ""
        if is_decimal(kind) and self.is_text and is_decimal(self.field.kind):
            return kind
        if kind == "timestamp" and self.is_text and self.kind == "timestamp_ntz" and timezone == "UTC":
            return self.kind
        if self.kind != kind:
            return None
        return kind if self.is_text else ""

    def type_to_parse_in_python(self, kind: str, timezone: str = "UTC") -> str | None:
        """The same for what a driver of Python returns."""
        return self.type_to_parse(kind, timezone)


def is_decimal(kind: str) -> bool:
    """Whether a type in Spark's words is a decimal."""
    return kind.startswith("decimal(")


def decimal_type(digits: int, scale: int) -> str:
    """Spark's decimal for so many digits: those before the point take precedence."""
    if scale < 0:
        digits, scale = digits - scale, 0
    return f"decimal({min(digits, MOST_DIGITS)},{max(0, scale - max(0, digits - MOST_DIGITS))})"
