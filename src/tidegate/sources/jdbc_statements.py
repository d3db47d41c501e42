"""The statements that a database is sent, as text: what to read, its greatest values, and where to divide it.

Deterministic: the same read makes the same text. Identifiers are quoted and values escaped as the database wants it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tidegate.column_specs import JdbcRead, NullWatermark, Value
from tidegate.watermarks.dialects import Dialect, dialect_of, literal, quoted
from tidegate.watermarks.predicate_text import null_predicate, predicate
from tidegate.watermarks.row_filter import RowFilter

_BY_CODE_POINTS = {
    Dialect.POSTGRESQL: 'CAST({} AS text) COLLATE "C"',
    Dialect.MYSQL: "CONVERT({} USING utf8mb4) COLLATE utf8mb4_bin",
    Dialect.SQLSERVER: "{} COLLATE Latin1_General_BIN2",
}
"""How text is made to sort as we sort it, where the database has an order of its own."""

_LIMITED = (Dialect.POSTGRESQL, Dialect.MYSQL, Dialect.SQLITE)


@dataclass(frozen=True, slots=True)
class JdbcStatements:
    """What is asked of one table or query.

    ``columns`` are all its columns, ``texts`` those of the read's columns that hold text: with them, text is compared
    by code points, as we compare, and not by the collation of the database.
    """

    read: JdbcRead
    columns: tuple[str, ...] = ()
    texts: frozenset[str] = frozenset()

    @property
    def dialect(self) -> Dialect:
        """The language of the database."""
        return dialect_of(self.read.url)

    def sorts_as_we_do(self, column: str) -> bool:
        """Whether the values of ``column`` have one order here and there; in another, ranges of text overlap."""
        return column not in self.texts or self.dialect in (*_BY_CODE_POINTS, Dialect.SQLITE)

    def rows(self, rows: RowFilter, *, percent: float | None = None) -> str:
        """The rows that match; with ``percent`` those on that share of the table's pages, taken at random."""
        condition = predicate(rows, self.dialect)
        return f"SELECT * FROM {self._origin(percent)}{'' if condition is None else f' WHERE {condition}'}"

    def greatest(self, rows: RowFilter) -> str:
        """One row: the greatest value per column among the rows that match, and how many have null in all of them."""
        names = self._quoted(rows)
        greatest = [f"MAX({name}) AS greatest_{index}" for index, name in enumerate(names)]
        nulls = " AND ".join(f"{name} IS NULL" for name in names)
        counted = f"SUM(CASE WHEN {nulls} THEN 1 ELSE 0 END) AS nulls"
        with_nulls = self.rows(replace(rows, nulls=NullWatermark.INCLUDE))
        return f"SELECT {', '.join([*greatest, counted])} FROM ({with_nulls}) tidegate_rows"

    def greatest_tuple(self, rows: RowFilter) -> str:
        """The greatest tuple among the rows that match and have no null in it, if there is one."""
        names = self._quoted(rows)
        given = ", ".join(f"{name} AS greatest_{index}" for index, name in enumerate(names))
        filled = " AND ".join(f"{name} IS NOT NULL" for name in names)
        order = ", ".join(f"{name} DESC" for name in names)
        ordered = f"{given} FROM ({self.rows(rows)}) tidegate_rows WHERE {filled} ORDER BY {order}"
        if self.dialect is Dialect.SQLSERVER:
            return f"SELECT TOP 1 {ordered}"
        return f"SELECT {ordered} {'LIMIT 1' if self.dialect in _LIMITED else 'FETCH FIRST 1 ROWS ONLY'}"

    def nulls(self, rows: RowFilter) -> str:
        """How many rows of the whole source have null where a watermark should be."""
        return f"SELECT COUNT(*) AS nulls FROM {self._origin()} WHERE {null_predicate(rows, self.dialect)}"

    def count(self, rows: RowFilter) -> str:
        """How many rows match."""
        return f"SELECT COUNT(*) AS found FROM ({self.rows(rows)}) tidegate_rows"

    def parts(self, rows: RowFilter, column: str, parts: int, *, percent: float | None = None) -> str:
        """The least value of ``column`` in each of ``parts`` equal shares of the rows that match, in no order."""
        name = quoted(column, self.dialect)
        numbered = f"SELECT {name} AS bound, NTILE({parts}) OVER (ORDER BY {name}) AS part"
        shares = f"{numbered} FROM ({self.rows(rows, percent=percent)}) tidegate_rows WHERE {name} IS NOT NULL"
        return f"SELECT MIN(bound) AS bound FROM ({shares}) tidegate_parts GROUP BY part"

    def part_conditions(self, column: str, bounds: Sequence[Value]) -> tuple[str, ...]:
        """Conditions of which every row meets exactly one: below the first bound or null, between two, from the last.

        ``bounds`` rise and are all different; without any, the one condition holds for every row.
        """
        if not bounds:
            return ("1 = 1",)
        name = quoted(column, self.dialect)
        texts = [literal(each, self.dialect) for each in bounds]
        between = [f"({name} >= {low} AND {name} < {high})" for low, high in pairwise(texts)]
        return (f"({name} < {texts[0]} OR {name} IS NULL)", *between, f"{name} >= {texts[-1]}")

    def _quoted(self, rows: RowFilter) -> list[str]:
        return [quoted(each, self.dialect) for each in rows.columns]

    def _origin(self, percent: float | None = None) -> str:
        """The table or the query, as something to select from."""
        sampled = "" if percent is None else f" TABLESAMPLE SYSTEM ({percent:.4f}) REPEATABLE (1)"
        query = (self.read.query or "").strip().rstrip(";")
        origin = f"{self.read.table}{sampled}" if self.read.table else f"({query}\n) tidegate_source"
        if not self.texts or self.dialect not in _BY_CODE_POINTS:
            return origin
        return f"(SELECT {', '.join(map(self._selected, self.columns))} FROM {origin}) tidegate_sorted"

    def _selected(self, column: str) -> str:
        name = quoted(column, self.dialect)
        return f"{_BY_CODE_POINTS[self.dialect].format(name)} AS {name}" if column in self.texts else name
