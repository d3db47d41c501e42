"""Databases: the statements sent to them, and the meaning of their refusals.

Drivers put the SQLSTATE of an error into its class (``SQLSyntaxErrorException`` is 42) or, like PostgreSQL's, only into
the words. So each cause is recognised by the words of servers and drivers.

Deterministic: equal reads give equal text. Identifiers are quoted and values escaped for the database. Expressions that
sort text by code points stand in conditions and orders only: a read value is the column itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tidegate.core.columns.predicates import (
    RowFilter,
    SqlDialect,
    dialect_of,
    has_text_key,
    literal,
    null_predicate,
    predicate,
    quote,
    text_key,
    text_of_key,
)
from tidegate.core.databases import Unsupported
from tidegate.specs.columns import JdbcRead, NullWatermark, Value

REFUSED = "tidegate refused: "
"""The beginning of words about a value that fits no type of a table; see :func:`refusal`."""

_REFUSED = re.compile(rf"{REFUSED}(column .*?, which is no [a-z_]+(\(\d+,\d+\))?)", re.DOTALL)
_DRIVERS = re.compile(
    r"\bjava\.sql\.\w*Exception|\borg\.postgresql\.|\bcom\.mysql\.|\borg\.mariadb\.|\bcom\.microsoft\.sqlserver\.|"
    r"\boracle\.jdbc\.|\borg\.sqlite\."
)
_CLASS = re.compile(r"^(?:[\w.$]+\.)?[\w$]*(?:Exception|Error|SQLException): ")
_CONNECTION = re.compile(r"^\(conn=\d+\) ")


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a database refuses: its typical words, and the remedy."""

    words: re.Pattern[str]
    remedy: str


def _cause(words: str, remedy: str) -> Cause:
    return Cause(re.compile(words, re.IGNORECASE | re.DOTALL), remedy)


VALUE = "leave such rows out with filter_expression, cast the column in a query, or declare it as string in the schema"
OTHER = "check the connection, the table and the columns"
CAUSES = (
    _cause(
        r"password authentication failed|Access denied for user|no pg_hba\.conf entry|Login failed for user|ORA-01017|"
        r"SQLInvalidAuthorizationSpecException|role \S+ does not exist",
        "correct user and password of the connection, or allow this account to connect from this machine",
    ),
    _cause(r"no password supplied", "name the password of the connection"),
    _cause(
        r"'cryptography' package is required",
        "let the server offer TLS and use a jdbc:mysql address, or install PyMySQL[rsa]",
    ),
    _cause(
        r"asks for the password in cleartext",
        "let the server offer TLS and use a jdbc:mysql address, or give the account another way to log in",
    ),
    _cause(r"'pynacl' package is required", "install PyMySQL[ed25519], or give the account another way to log in"),
    _cause(
        r"database \S+ does not exist|Unknown database|Cannot open database|ORA-12514",
        "correct the name of the database in the connection's url",
    ),
    _cause(
        r"Connection (to \S+ )?refused|Communications link failure|fail(ed)? to connect|Could not connect|UnknownHost|"
        r"connection attempt failed|The TCP/IP connection to the host|ORA-1254\d|SQLNonTransientConnectionException|"
        r"SQLTransientConnectionException|Connection reset|terminating connection|An I/O error occurred|"
        r"server closed the connection|could not receive data from server|Lost connection|server has gone away|"
        r"Can't connect to MySQL|failed to resolve host|could not translate host name|'idna' codec|"
        r"connection timeout expired|Packet sequence number wrong|invalid response to SSL|unpack requires a buffer",
        "check host and port of the connection's url and that the server runs; nothing is lost, run again",
    ),
    _cause(
        r"permission denied|command denied to user|ORA-01031|permission was denied",
        "grant SELECT on it to the connection's user",
    ),
    _cause(
        r"relation \S+ does not exist|Table '[^']*' doesn't exist|Invalid object name|ORA-00942|no such table",
        "correct the table or the query; a table outside the default schema needs its schema's name",
    ),
    _cause(
        r"column \S+ does not exist|Unknown column|Invalid column name|ORA-00904|no such column",
        "correct filter_expression, the query or watermark_columns",
    ),
    _cause(
        r"division by zero|divide by zero|Division by 0|ORA-01476",
        "guard the divisor in filter_expression or in the query: nullif(x, 0)",
    ),
    _cause(
        r"UNRECOGNIZED_SQL_TYPE|Unrecognized SQL type|unsupported (JDBC )?type|UNSUPPORTED_DATATYPE",
        "Spark has no such type: use a query that casts it, such as cast(x as char)",
    ),
    _cause(
        r"statement timeout|lock timeout|max_statement_time|Query execution was interrupted|Lock wait timeout|deadlock|"
        r"SQLTimeoutException|canceling statement",
        "run again; an index on the watermark columns or more parallelism makes the query faster",
    ),
    _cause(
        r"syntax error|error in your SQL syntax|Incorrect syntax|ORA-009\d\d",
        "correct filter_expression or the query: they must be SQL of that database",
    ),
    _cause(
        r"invalid input syntax|Bad value for type|out of range|Data truncation|Zero date value|Incorrect \w+ value|"
        r"numeric field overflow|SQLDataException|exceeds max precision|cannot be represented as Decimal",
        VALUE,
    ),
)
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
    inside = re.findall(r"(?:java\.sql|org\.postgresql|com\.mysql|org\.mariadb)[\w.]*Exception: [^\n]+", text)
    return inside[-1] if inside else None


PART = "tidegate_part"
"""The column that divides the rows of a read, beside those that are read."""

_LIMITED = (SqlDialect.POSTGRESQL, SqlDialect.MYSQL, SqlDialect.SQLITE)


@dataclass(frozen=True, slots=True)
class FetchedColumns:
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
    columns: tuple[FetchedColumns, ...] = ()

    @property
    def dialect(self) -> SqlDialect:
        """The language of the database."""
        return dialect_of(self.read.url)

    def sorts_as_we_do(self, column: str) -> bool:
        """Whether the values of ``column`` sort alike here and there; otherwise ranges of text overlap."""
        return not self._column(column).is_text or has_text_key(self.dialect)

    def rows(self, rows: RowFilter, *, divided_by: str | None = None) -> str:
        """The matching rows; with ``divided_by``, that column appears once more as :data:`PART`."""
        names = [self._selected(each) for each in self.columns] or ["*"]
        if divided_by is not None:
            names.append(f"{self._key(divided_by)} AS {quote(PART, self.dialect)}")
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
        if self.dialect is SqlDialect.SQLSERVER:
            return f"SELECT TOP 1 {ordered}"
        return f"SELECT {ordered} {'LIMIT 1' if self.dialect in _LIMITED else 'FETCH FIRST 1 ROWS ONLY'}"

    def nulls(self, rows: RowFilter) -> str:
        """The number of rows of the whole source with null instead of a watermark."""
        return f"SELECT COUNT(*) AS nulls FROM {self._origin()} WHERE {null_predicate(rows, self.dialect)}"

    def one_row(self, rows: RowFilter) -> str:
        """The watermark columns of one matching row, if there is one; for databases with LIMIT."""
        return f"{self._select(self._quoted(rows), rows)} LIMIT 1"

    def count(self, rows: RowFilter) -> str:
        """The number of matching rows."""
        return f"SELECT COUNT(*) AS found FROM ({self._select(['*'], rows)}) tidegate_rows"

    def parts(self, rows: RowFilter, column: str, parts: int, *, percent: float | None = None) -> str:
        """The least value of ``column`` in each of ``parts`` equal shares of the matching rows, in no order.

        With ``percent`` the rows are those on that share of the table's pages, taken at random.
        """
        name, key = quote(column, self.dialect), self._key(column)
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
        name = quote(PART, self.dialect)
        texts = [literal(each, self.dialect) for each in bounds]
        between = [f"({name} >= {low} AND {name} < {high})" for low, high in pairwise(texts)]
        return (f"({name} < {texts[0]} OR {name} IS NULL)", *between, f"{name} >= {texts[-1]}")

    def _select(self, names: Sequence[str], rows: RowFilter, percent: float | None = None) -> str:
        condition = predicate(rows, self.dialect)
        where = "" if condition is None else f" WHERE {condition}"
        return f"SELECT {', '.join(names)} FROM {self._origin(percent)}{where}"

    def _column(self, name: str) -> FetchedColumns:
        return next((each for each in self.columns if each.name == name), FetchedColumns(name))

    def _quoted(self, rows: RowFilter) -> list[str]:
        return [quote(each, self.dialect) for each in rows.columns]

    def _key(self, column: str) -> str:
        """The sort key of a column, without an alias of the same name, which would be ambiguous."""
        name = quote(column, self.dialect)
        return text_key(name, self.dialect) if self._column(column).is_text else name

    def _select_by_key(self, column: str, key: str) -> str:
        """A value picked by its key, fetched like the column."""
        found = self._column(column)
        return text_of_key(key, self.dialect) if found.is_text else found.of(key)

    def _brought(self, column: str, key: str, index: int) -> str:
        return f"{self._select_by_key(column, key)} AS greatest_{index}"

    def _selected(self, column: FetchedColumns) -> str:
        name = quote(column.name, self.dialect)
        expression = column.of(name)
        return name if expression == name else f"{expression} AS {name}"

    def _origin(self, percent: float | None = None) -> str:
        """The table or the query, as something to select from."""
        # With a seed, so that the same read is divided in the same way.
        sampled = "" if percent is None else f" TABLESAMPLE SYSTEM ({percent:.4f}) REPEATABLE (1)"
        query = (self.read.query or "").strip().rstrip(";")
        # The query may end in a comment, which must not swallow the parenthesis.
        return f"{self.read.table}{sampled}" if self.read.table else f"({query}\n) tidegate_source"


MYSQL_SESSION = f"SET time_zone = '+00:00', sql_select_limit = {2**64 - 1}"
"""The start of every session of MySQL: times are in UTC, and no setting of the server cuts the rows."""

LIKE_JDBC = "-c DateStyle=ISO"
"""The start of PostgreSQL's JDBC driver: months before days, whatever the role has set."""

OPTIONS_REFUSED = re.compile(r"startup parameter|command.line options", re.IGNORECASE)
"""How PgBouncer and the proxy of Amazon RDS refuse :data:`LIKE_JDBC`.

Such a pooler accepts it from the JDBC driver, and sends it to the server as a statement. A session that begins without
it and runs ``SET DateStyle = 'ISO'`` is the same there.
"""

_ENVIRONMENT = re.compile(
    r"PG(HOSTADDR|SERVICE|SSL(?!MODE$).+|REQUIRE(AUTH|PEER)|CHANNELBINDING|TARGETSESSIONATTRS|LOADBALANCEHOSTS|"
    r"MINPROTOCOLVERSION|MAXPROTOCOLVERSION|DATESTYLE)"
)


def check_environment() -> None:
    """:class:`Unsupported` if a variable would lead PostgreSQL's C drivers to another server, trust or meaning.

    The JDBC driver does not know it. Settings override all variables not named here.
    """
    for name in sorted(os.environ):
        if _ENVIRONMENT.fullmatch(name) and os.environ[name]:
            raise Unsupported(f"the environment variable {name} would change the connection")
