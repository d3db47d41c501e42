"""Databases: the statements sent to them, and the meaning of their refusals.

Drivers put the SQLSTATE of an error into its class (``SQLSyntaxErrorException`` is 42) or, like PostgreSQL's, only into
the words. So each cause is recognised by the words of servers and drivers.

Deterministic: equal reads give equal text. Identifiers are quoted and values escaped for the database. Expressions that
sort text by code points stand in conditions and orders only: a read value is the column itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tidegate.core.columns.predicates import RowFilter, null_predicate, predicate
from tidegate.core.dialects.dialect import Dialect
from tidegate.core.dialects.registry import DIALECTS, dialect_of
from tidegate.core.dialects.remedies import COMMON_WORDS, OTHER, VALUE
from tidegate.specs.columns import JdbcRead, NullWatermark, Value

REFUSED = "tidegate refused: "
"""The beginning of words about a value that fits no type of a table; see :func:`refusal`."""

_REFUSED = re.compile(rf"{REFUSED}(column .*?, which is no [a-z_]+(\(\d+,\d+\))?)", re.DOTALL)
_PACKAGES = "|".join(re.escape(each.driver.errors) for each in DIALECTS.values() if each.driver is not None)
_DRIVERS = re.compile(rf"\bjava\.sql\.\w*Exception|\b(?:{_PACKAGES})\.")
_INSIDE = re.compile(rf"(?:java\.sql|{_PACKAGES})[\w.]*Exception: [^\n]+")
_CLASS = re.compile(r"^(?:[\w.$]+\.)?[\w$]*(?:Exception|Error|SQLException): ")
_CONNECTION = re.compile(r"^\(conn=\d+\) ")


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a database refuses: its typical words, and the remedy."""

    words: re.Pattern[str]
    remedy: str


def _collect_causes() -> Iterator[Cause]:
    spoken = (COMMON_WORDS, *(dialect.refusals for dialect in DIALECTS.values()))
    # What only one database says comes first: its remedy is the narrower one.
    own = dict.fromkeys(remedy for words in spoken for remedy in words if remedy not in COMMON_WORDS)
    for remedy in (*own, *COMMON_WORDS):
        patterns = dict.fromkeys(words[remedy] for words in spoken if words.get(remedy))
        yield Cause(re.compile("|".join(patterns), re.IGNORECASE | re.DOTALL), remedy)


CAUSES = tuple(_collect_causes())
"""The causes; the first that fits counts."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """What was refused, in one line, and the remedy."""

    problem: str
    remedy: str


def refusal(text: str, said: str) -> Refusal:
    """The cause and remedy of an error; ``said`` is the telling line of its ``text``."""
    value = _REFUSED.search(text)
    if value is not None:
        return Refusal(value.group(1), VALUE)
    words = _CONNECTION.sub("", _CLASS.sub("", said)).strip()
    remedy = next((each.remedy for each in CAUSES if each.words.search(said)), OTHER)
    return Refusal(f"the database refused: {words}", remedy)


def is_of_database(text: str) -> bool:
    """Whether an error came from a database, its driver, or a value that does not fit."""
    return REFUSED in text or _DRIVERS.search(text) is not None


def innermost_cause(text: str) -> str | None:
    """The most telling line of an error with Java's causes: the innermost that a driver has thrown."""
    lines = [line.strip().removeprefix("Caused by: ") for line in text.splitlines()]
    thrown = [line for line in lines if _CLASS.match(line) and _DRIVERS.match(line)]
    if thrown:
        return thrown[-1]
    inside = _INSIDE.findall(text)
    return inside[-1] if inside else None


PART = "tidegate_part"
"""The column that divides the rows of a read, beside those that are read."""


@dataclass(frozen=True, slots=True)
class FetchedColumn:
    """One column, and how its values are fetched: ``template`` has braces for the column."""

    name: str
    template: str = "{}"
    is_text: bool = False

    def of(self, expression: str) -> str:
        """``expression``, fetched like this column."""
        return self.template.replace("{}", expression)


@dataclass(frozen=True, slots=True)
class JdbcStatements:
    """The statements over one table or query; ``columns`` are all its columns, empty if unknown."""

    read: JdbcRead
    columns: tuple[FetchedColumn, ...] = ()

    @property
    def dialect(self) -> Dialect:
        """The language of the database."""
        return dialect_of(self.read.url)

    def sorts_as_we_do(self, column: str) -> bool:
        """Whether the values of ``column`` sort alike here and there; otherwise ranges of text overlap."""
        return not self._column(column).is_text or self.dialect.sorts_text

    def rows(self, rows: RowFilter, *, divided_by: str | None = None) -> str:
        """The matching rows; with ``divided_by``, that column appears once more as :data:`PART`."""
        names = [self._selected(each) for each in self.columns] or ["*"]
        if divided_by is not None:
            names.append(f"{self._key(divided_by)} AS {self.dialect.quote(PART)}")
        return self._select(names, rows)

    def greatest(self, rows: RowFilter) -> str:
        """One row: the greatest value per column among the matching rows, how many have null in all of them, and the
        number of rows, those included.
        """
        greatest = [self._brought(each, f"MAX({self._key(each)})", index) for index, each in enumerate(rows.columns)]
        nulls = " AND ".join(f"{name} IS NULL" for name in self._quoted(rows))
        # Not every database has `COUNT(*) FILTER`.
        counted = f"SUM(CASE WHEN {nulls} THEN 1 ELSE 0 END) AS nulls, COUNT(*) AS found"
        with_nulls = self._select(["*"], replace(rows, nulls=NullWatermark.INCLUDE))
        return f"SELECT {', '.join([*greatest, counted])} FROM ({with_nulls}) tidegate_rows"

    def greatest_tuple(self, rows: RowFilter) -> str:
        """The greatest tuple without null among the matching rows, if there is one."""
        given = ", ".join(self._brought(each, self._key(each), index) for index, each in enumerate(rows.columns))
        filled = " AND ".join(f"{name} IS NOT NULL" for name in self._quoted(rows))
        order = ", ".join(f"{self._key(each)} DESC" for each in rows.columns)
        ordered = f"{given} FROM ({self._select(['*'], rows)}) tidegate_rows WHERE {filled} ORDER BY {order}"
        return self.dialect.first_row.format(ordered)

    def nulls(self, rows: RowFilter) -> str:
        """The number of rows of the whole source with null instead of a watermark."""
        return f"SELECT COUNT(*) AS nulls FROM {self._origin()} WHERE {null_predicate(rows, self.dialect)}"

    def one_row(self, rows: RowFilter) -> str:
        """The watermark columns of one matching row, if there is one."""
        return self.dialect.first_row.format(self._from(self._quoted(rows), rows))

    def count(self, rows: RowFilter) -> str:
        """The number of matching rows."""
        return f"SELECT COUNT(*) AS found FROM ({self._select(['*'], rows)}) tidegate_rows"

    def parts(self, rows: RowFilter, column: str, parts: int, *, percent: float | None = None) -> str:
        """The least value of ``column`` in each of ``parts`` equal shares of the matching rows, in no order.

        With ``percent`` the rows are those on that share of the table's pages, taken at random.
        """
        name, key = self.dialect.quote(column), self._key(column)
        # By rank, not by value: a skewed key still gives equal shares.
        numbered = f"SELECT {key} AS bound, NTILE({parts}) OVER (ORDER BY {key}) AS part"
        shares = f"{numbered} FROM ({self._select(['*'], rows, percent)}) tidegate_rows WHERE {name} IS NOT NULL"
        least = self._select_by_key(column, "MIN(bound)")
        return f"SELECT {least} AS bound FROM ({shares}) tidegate_parts GROUP BY part"

    def part_conditions(self, bounds: Sequence[Value]) -> tuple[str, ...]:
        """Conditions on :data:`PART` of which every row meets exactly one: below the first bound or null, between two,
        from the last.

        ``bounds`` ascend and differ; without any, the one condition holds for every row.
        """
        if not bounds:
            return ("1 = 1",)
        name = self.dialect.quote(PART)
        texts = [self.dialect.literal(each) for each in bounds]
        between = [f"({name} >= {low} AND {name} < {high})" for low, high in pairwise(texts)]
        return (f"({name} < {texts[0]} OR {name} IS NULL)", *between, f"{name} >= {texts[-1]}")

    def _select(self, names: Sequence[str], rows: RowFilter, percent: float | None = None) -> str:
        return f"SELECT {self._from(names, rows, percent)}"

    def _from(self, names: Sequence[str], rows: RowFilter, percent: float | None = None) -> str:
        condition = predicate(rows, self.dialect)
        where = "" if condition is None else f" WHERE {condition}"
        return f"{', '.join(names)} FROM {self._origin(percent)}{where}"

    def _column(self, name: str) -> FetchedColumn:
        return next((each for each in self.columns if each.name == name), FetchedColumn(name))

    def _quoted(self, rows: RowFilter) -> list[str]:
        return [self.dialect.quote(each) for each in rows.columns]

    def _key(self, column: str) -> str:
        """The sort key of a column, without an alias of the same name, which would be ambiguous."""
        name = self.dialect.quote(column)
        return self.dialect.text_key.replace("{}", name) if self._column(column).is_text else name

    def _select_by_key(self, column: str, key: str) -> str:
        """A value picked by its key, fetched like the column."""
        found = self._column(column)
        return self.dialect.text_of_key.replace("{}", key) if found.is_text else found.of(key)

    def _brought(self, column: str, key: str, index: int) -> str:
        return f"{self._select_by_key(column, key)} AS greatest_{index}"

    def _selected(self, column: FetchedColumn) -> str:
        name = self.dialect.quote(column.name)
        expression = column.of(name)
        return name if expression == name else f"{expression} AS {name}"

    def _origin(self, percent: float | None = None) -> str:
        """The table or the query, as something to select from."""
        # With a seed, so that the same read is divided in the same way.
        sampled = "" if percent is None else f" TABLESAMPLE SYSTEM ({percent:.4f}) REPEATABLE (1)"
        query = (self.read.query or "").strip().rstrip(";")
        # The query may end in a comment, which must not swallow the parenthesis.
        return f"{self.read.table}{sampled}" if self.read.table else f"({query}\n) tidegate_source"
