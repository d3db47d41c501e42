"""The statements that a database is sent, as text: what to read, its greatest values, and where to divide it.

Deterministic: the same read makes the same text. Identifiers are quoted and values escaped as the database wants it.
What makes text sort by code points stands in conditions and orders only: a value that is read is the column itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tidegate.column_specs import JdbcRead, NullWatermark, Value
from tidegate.watermarks.dialects import Dialect, dialect_of, has_text_key, literal, quoted, text_key, text_of_key
from tidegate.watermarks.predicate_text import null_predicate, predicate
from tidegate.watermarks.row_filter import RowFilter

PART = "tidegate_part"
"""The column by which the rows of a read are divided, beside those that are read."""

_LIMITED = (Dialect.POSTGRESQL, Dialect.MYSQL, Dialect.SQLITE)


@dataclass(frozen=True, slots=True)
class Fetched:
    """One column, and how its values are brought over: ``template`` has braces where the column goes."""

    name: str
    template: str = "{}"
    is_text: bool = False

    def of(self, expression: str) -> str:
        """``expression``, brought over as this column is."""
        return self.template.replace("{}", expression)


@dataclass(frozen=True, slots=True)
class JdbcStatements:
    """What is asked of one table or query; ``columns`` are all it has, or none where they are not known yet."""

    read: JdbcRead
    columns: tuple[Fetched, ...] = ()

    @property
    def dialect(self) -> Dialect:
        """The language of the database."""
        return dialect_of(self.read.url)

    def sorts_as_we_do(self, column: str) -> bool:
        """Whether the values of ``column`` have one order here and there; in another, ranges of text overlap."""
        return not self._column(column).is_text or has_text_key(self.dialect)

    def rows(self, rows: RowFilter, *, divided_by: str | None = None) -> str:
        """The rows that match; with ``divided_by``, that column is there once more as :data:`PART`."""
        names = [self._selected(each) for each in self.columns] or ["*"]
        if divided_by is not None:
            names.append(f"{self._key(divided_by)} AS {quoted(PART, self.dialect)}")
        return self._select(names, rows)

    def greatest(self, rows: RowFilter) -> str:
        """One row: the greatest value per column among the rows that match, and how many have null in all of them."""
        greatest = [self._brought(each, f"MAX({self._key(each)})", index) for index, each in enumerate(rows.columns)]
        nulls = " AND ".join(f"{name} IS NULL" for name in self._quoted(rows))
        counted = f"SUM(CASE WHEN {nulls} THEN 1 ELSE 0 END) AS nulls"
        with_nulls = self._select(["*"], replace(rows, nulls=NullWatermark.INCLUDE))
        return f"SELECT {', '.join([*greatest, counted])} FROM ({with_nulls}) tidegate_rows"

    def greatest_tuple(self, rows: RowFilter) -> str:
        """The greatest tuple among the rows that match and have no null in it, if there is one."""
        given = ", ".join(self._brought(each, self._key(each), index) for index, each in enumerate(rows.columns))
        filled = " AND ".join(f"{name} IS NOT NULL" for name in self._quoted(rows))
        order = ", ".join(f"{self._key(each)} DESC" for each in rows.columns)
        ordered = f"{given} FROM ({self._select(['*'], rows)}) tidegate_rows WHERE {filled} ORDER BY {order}"
        if self.dialect is Dialect.SQLSERVER:
            return f"SELECT TOP 1 {ordered}"
        return f"SELECT {ordered} {'LIMIT 1' if self.dialect in _LIMITED else 'FETCH FIRST 1 ROWS ONLY'}"

    def nulls(self, rows: RowFilter) -> str:
        """How many rows of the whole source have null where a watermark should be."""
        return f"SELECT COUNT(*) AS nulls FROM {self._origin()} WHERE {null_predicate(rows, self.dialect)}"

    def count(self, rows: RowFilter) -> str:
        """How many rows match."""
        return f"SELECT COUNT(*) AS found FROM ({self._select(['*'], rows)}) tidegate_rows"

    def parts(self, rows: RowFilter, column: str, parts: int, *, percent: float | None = None) -> str:
        """The least value of ``column`` in each of ``parts`` equal shares of the rows that match, in no order.

        With ``percent`` the rows are those on that share of the table's pages, taken at random.
        """
        name, key = quoted(column, self.dialect), self._key(column)
        numbered = f"SELECT {key} AS bound, NTILE({parts}) OVER (ORDER BY {key}) AS part"
        shares = f"{numbered} FROM ({self._select(['*'], rows, percent)}) tidegate_rows WHERE {name} IS NOT NULL"
        least = self._shown(column, "MIN(bound)")
        return f"SELECT {least} AS bound FROM ({shares}) tidegate_parts GROUP BY part"

    def part_conditions(self, bounds: Sequence[Value]) -> tuple[str, ...]:
        """Conditions on :data:`PART` of which every row meets exactly one: below the first bound or null, between two,
        from the last.

        ``bounds`` rise and are all different; without any, the one condition holds for every row.
        """
        if not bounds:
            return ("1 = 1",)
        name = quoted(PART, self.dialect)
        texts = [literal(each, self.dialect) for each in bounds]
        between = [f"({name} >= {low} AND {name} < {high})" for low, high in pairwise(texts)]
        return (f"({name} < {texts[0]} OR {name} IS NULL)", *between, f"{name} >= {texts[-1]}")

    def _select(self, names: Sequence[str], rows: RowFilter, percent: float | None = None) -> str:
        condition = predicate(rows, self.dialect)
        where = "" if condition is None else f" WHERE {condition}"
        return f"SELECT {', '.join(names)} FROM {self._origin(percent)}{where}"

    def _column(self, name: str) -> Fetched:
        return next((each for each in self.columns if each.name == name), Fetched(name))

    def _quoted(self, rows: RowFilter) -> list[str]:
        return [quoted(each, self.dialect) for each in rows.columns]

    def _key(self, column: str) -> str:
        """The column as it is sorted; an alias of the same name could not be told from it, so none is made."""
        name = quoted(column, self.dialect)
        return text_key(name, self.dialect) if self._column(column).is_text else name

    def _shown(self, column: str, key: str) -> str:
        """A value that was picked by its key, brought over as the column is."""
        found = self._column(column)
        return text_of_key(key, self.dialect) if found.is_text else found.of(key)

    def _brought(self, column: str, key: str, index: int) -> str:
        return f"{self._shown(column, key)} AS greatest_{index}"

    def _selected(self, column: Fetched) -> str:
        name = quoted(column.name, self.dialect)
        expression = column.of(name)
        return name if expression == name else f"{expression} AS {name}"

    def _origin(self, percent: float | None = None) -> str:
        """The table or the query, as something to select from."""
        sampled = "" if percent is None else f" TABLESAMPLE SYSTEM ({percent:.4f}) REPEATABLE (1)"
        query = (self.read.query or "").strip().rstrip(";")
        return f"{self.read.table}{sampled}" if self.read.table else f"({query}\n) tidegate_source"
