"""Tables and queries of a database by JDBC: the condition is in the statement, several connections share the read.

The ranges of the connections are asked from the database by counting rows, so that a skewed key makes equal shares.
Every row meets the condition of exactly one of them, null included.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tidegate.core.columns.predicates import RowFilter, SqlDialect, dialect_of, quote
from tidegate.core.columns.values import is_finite
from tidegate.errors import EnvironmentProblem, SourceError, TidegateError
from tidegate.sources.jdbc import JdbcStatements, Refusal, innermost_cause, refusal
from tidegate.sources.reader import GreatestValues
from tidegate.spark.filters import collected, column_named, count_in, fitted, kinds_of_times
from tidegate.spark.jars import driver_of
from tidegate.spark.readers.jdbc_columns import JdbcColumns
from tidegate.spark.rows import declared, given, parallelism, utc_session
from tidegate.spark.tasks import telling_line
from tidegate.specs.columns import ColumnSource, JdbcRead, Value, WatermarkMode
from tidegate.specs.masking import Mask
from tidegate.specs.project import SchemaSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ZONE = {
    SqlDialect.POSTGRESQL: "SET TIME ZONE 'UTC'",
    SqlDialect.MYSQL: "SET time_zone = '+00:00'",
    SqlDialect.ORACLE: "ALTER SESSION SET TIME_ZONE = 'UTC'",
}
"""So that times of MySQL, and conditions of the configuration, mean the same wherever they are asked."""

_START = "sessionInitStatement"
_OF_MYSQL = {
    "tinyInt1isBit": "false",  # a tinyint(1) holds numbers
    "useCursorFetch": "true",  # or all rows are held at once
}
_MARIADB = re.compile("jdbc:mariadb:", re.IGNORECASE)

_NO_DRIVER = re.compile(r"No suitable driver|ClassNotFoundException|CLASS_NOT_FOUND")


class JdbcConnection:
    """How one database is reached; every statement has connections of its own."""

    def __init__(self, session: SparkSession, read: JdbcRead, source: str) -> None:
        self._session = session
        self._read = read
        self._source = source
        self._url = _as_spark_knows_it(read.url)
        self.dialect = dialect_of(read.url)

    def frame(
        self, statement: str, types: Mapping[str, str] | None = None, conditions: Sequence[str] = ()
    ) -> DataFrame:
        """The rows of ``statement``, one connection per condition; ``types`` overrule those that Spark chooses."""
        table = f"({statement}) tidegate_read"
        options = self._options()
        if types:
            options["customSchema"] = ", ".join(
                f"{quote(name, SqlDialect.SPARK)} {kind}" for name, kind in types.items()
            )
        try:
            if len(conditions) > 1:
                return self._session.read.jdbc(self._url, table, predicates=list(conditions), properties=options)
            return self._session.read.format("jdbc").options(**options, url=self._url, dbtable=table).load()
        except Exception as error:
            raise self.problem(error) from None

    def asked(self, statement: str, types: Mapping[str, str] | None = None) -> list[dict[str, Value | None]]:
        """The answer to ``statement``, which has a few rows."""
        frame = self.frame(statement, types)
        try:
            return collected(frame)
        except Exception as error:
            raise self.problem(error) from None

    def _options(self) -> dict[str, str]:
        read = self._read
        known = driver_of(read.url)
        driver = read.driver or (known.name if known else None)
        options = {"fetchsize": str(read.fetch_size), "preferTimestampNTZ": "true"}
        options |= {"driver": driver} if driver else {}
        options |= {"user": read.user} if read.user is not None else {}
        options |= {"password": read.password.value} if read.password is not None else {}
        if self.dialect is SqlDialect.MYSQL:
            named_there = {each.partition("=")[0].lower() for each in re.split("[?&]", read.url)[1:]}
            options |= {name: value for name, value in _OF_MYSQL.items() if name.lower() not in named_there}
        given = {name: value for name, value in read.properties.items() if name.lower() != _START.lower()}
        return options | given | self._session_start(read.properties)

    def _session_start(self, properties: Mapping[str, str]) -> dict[str, str]:
        """The zone of every session, after what the configuration has to be done first, where that can go before."""
        own = next((value for name, value in properties.items() if name.lower() == _START.lower()), None)
        zone = _ZONE.get(self.dialect)
        if zone is None:
            return {} if own is None else {_START: own}
        if own is None:
            return {_START: zone}
        if self.dialect is not SqlDialect.POSTGRESQL:
            raise SourceError(
                f"{self._source}: properties.{_START} is taken: by it the session gets the zone UTC, in which times "
                "are read and compared",
                "set what you need in another property of the driver, such as sessionVariables",
            )
        return {_START: f"{own.rstrip().rstrip(';')}\n;{zone}"}

    def problem(self, error: Exception) -> TidegateError:
        """What the database or Spark told, without address and secrets; the first error is not chained: it has them."""
        if isinstance(error, TidegateError):
            return error
        refused = database_refusal(error, self._mask)
        told = refused.problem
        if _NO_DRIVER.search(str(error)):
            return EnvironmentProblem(
                f"{self._source}: Spark has no JDBC driver for this database: {told}",
                "name 'packages' or 'jars' of the connection; in a session of your own, put the driver on spark.jars",
            )
        return SourceError(f"{self._source}: {told}", refused.remedy)

    @cached_property
    def _mask(self) -> Mask:
        """What must not show: the password, values of properties, the address as a whole, and its parameters."""
        parameters = re.split(r"[?;&]", self._read.url)[1:]
        values = [each.partition("=")[2] for each in parameters]
        return Mask.around(self._read) | Mask.of(self._read.url, self._url, *parameters, *values)


def _as_spark_knows_it(url: str) -> str:
    """The address by which Spark quotes names as the database wants it: it knows MySQL, and no MariaDB.

    MariaDB's driver takes the address of a MySQL database where it has the word ``permitMysqlScheme``.
    """
    if not _MARIADB.match(url):
        return url
    return f"{_MARIADB.sub('jdbc:mysql:', url, count=1)}{'&' if '?' in url else '?'}permitMysqlScheme"


def database_refusal(error: Exception, mask: Mask) -> Refusal:
    """What the driver said, where Spark keeps it; its own words say no more than that something failed."""
    trace = mask(str(getattr(error, "_stackTrace", None) or ""))
    text = f"{mask(str(error))}\n{trace}"
    causes = re.findall(r"^Caused by: (.+)$", trace, re.MULTILINE)
    return refusal(text, innermost_cause(text) or (causes[-1] if causes else telling_line(error, mask)))


EXACT_UP_TO = 1_000_000
SAMPLED_ROWS = 100_000
"""Of more rows than the first, so many tell where to divide: PostgreSQL takes them from pages at random."""


class JdbcReader:
    """Reads one table or query of a database."""

    fixed_first = True

    def __init__(self, session: SparkSession, source: ColumnSource, read: JdbcRead, schema: SchemaSpec) -> None:
        own = utc_session(session)
        self._connection = JdbcConnection(own, read, source.name)
        self._parallelism = read.parallelism or parallelism(own)
        self._source = source
        self._read = read
        self._schema = schema

    def greatest(self, rows: RowFilter) -> GreatestValues:
        """The greatest values in the database now."""
        wanted = self._fitted(rows)
        if not wanted.ranges:
            return GreatestValues()
        statements = self._statements
        if wanted.mode is WatermarkMode.TUPLE:
            found = self._asked(statements.greatest_tuple(wanted), wanted)
            counted = self._connection.asked(statements.nulls(wanted))
        else:
            found = counted = self._asked(statements.greatest(wanted), wanted)
        row = found[0] if found else {}
        seen = {
            column: self._columns.greatest(name, row.get(f"greatest_{index}"))
            for index, (column, name) in enumerate(zip(rows.columns, wanted.columns, strict=True))
        }
        return GreatestValues(seen, count_in(counted[0]["nulls"]))

    def kinds(self, columns: Sequence[str]) -> dict[str, str]:
        """Which columns hold times, by the database's own account."""
        return kinds_of_times(columns, self._columns.schema, self._source.name)

    def read(self, rows: RowFilter) -> DataFrame:
        """The rows that match, by as many connections as are worth it."""
        wanted = self._fitted(rows)
        conditions = self._conditions(wanted)
        divided_by = self._partition_column(wanted) if len(conditions) > 1 else None
        statement = self._statements.rows(wanted, divided_by=divided_by)
        frame = self._connection.frame(statement, self._columns.fetched(), conditions)
        restored = self._columns.restored(frame, declared(self._schema))
        return given(restored, self._schema, self._source.source_timezone, self._source.name)

    def problem(self, error: Exception) -> TidegateError:
        """What went wrong while the rows of :meth:`read` were computed."""
        return self._connection.problem(error)

    @cached_property
    def _columns(self) -> JdbcColumns:
        """The columns by the database's own account."""
        everything = JdbcStatements(self._read).rows(RowFilter())
        return JdbcColumns(self._connection.frame(everything).schema, self._connection.dialect)

    def _fitted(self, rows: RowFilter) -> RowFilter:
        wanted = fitted(rows, self._columns.schema, self._source.source_timezone, self._source.name)
        for column in wanted.columns:
            self._columns.check_followed(column, self._source.name)
        return wanted

    @property
    def _statements(self) -> JdbcStatements:
        return JdbcStatements(self._read, self._columns.selected())

    def _asked(self, statement: str, rows: RowFilter) -> list[dict[str, Value | None]]:
        types = {f"greatest_{index}": self._columns.greatest_type(name) for index, name in enumerate(rows.columns)}
        return self._connection.asked(statement, types)

    def _conditions(self, rows: RowFilter) -> tuple[str, ...]:
        """One condition per connection: equal shares, each of ``fetch_size`` rows at least."""
        column = self._partition_column(rows)
        statements = self._statements
        if column is None or self._parallelism < 2 or not statements.sorts_as_we_do(column):
            return ()
        found = count_in(self._connection.asked(statements.count(rows))[0]["found"])
        parts = min(self._parallelism, found // self._read.fetch_size)
        if parts < 2:
            return ()
        bounds = sorted(self._bounds(statements, rows, column, parts, found))[1:]
        return statements.part_conditions(bounds)

    def _partition_column(self, rows: RowFilter) -> str | None:
        if self._read.partition_column is not None:
            return column_named(self._read.partition_column, self._columns.schema.names, self._source.name)
        return rows.columns[0] if rows.columns else None

    def _bounds(self, statements: JdbcStatements, rows: RowFilter, column: str, parts: int, found: int) -> set[Any]:
        """The least value of each share; those of a sample where the table is large and can be sampled."""
        can_sample = self._read.table is not None and self._connection.dialect is SqlDialect.POSTGRESQL
        if can_sample and found > EXACT_UP_TO:
            percent = 100 * SAMPLED_ROWS / found
            try:
                bounds = self._least(statements.parts(rows, column, parts, percent=percent), column)
            except SourceError:  # a view has no pages
                bounds = set()
            if len(bounds) > 1:
                return bounds
        return self._least(statements.parts(rows, column, parts), column)

    def _least(self, statement: str, column: str) -> set[Any]:
        rows = self._connection.asked(statement, {"bound": self._columns.greatest_type(column)})
        values = (self._columns.greatest(column, row["bound"]) for row in rows)
        return {value for value in values if value is not None and is_finite(value)}
