"""Tables and queries of a database over JDBC: the condition is in the statement, and connections share the read.

The database itself counts rows to find the range of each connection, so that a skewed key still gives equal shares.
Every row, nulls included, belongs to exactly one of them.

With ``reader: adbc`` PostgreSQL's driver that gives Arrow columns reads in tasks of Python what the JDBC driver would
read, by the same statements. What it cannot do is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tidegate.core.columns.predicates import Bound, RowFilter
from tidegate.core.columns.state import is_finite
from tidegate.core.dialects.registry import dialect_of
from tidegate.errors import EnvironmentProblem, SourceError, TidegateError
from tidegate.sources.adbc import WITHOUT, AdbcShare, answer, check_share, connection_of
from tidegate.sources.jdbc import JdbcStatements, Refusal, innermost_cause, refusal
from tidegate.sources.reader import GreatestValues, column_named, kinds_of_times
from tidegate.spark.filters import collect_rows, count_in, fit_to_schema
from tidegate.spark.readers.jdbc_columns import TYPE_NAME, JdbcColumns
from tidegate.spark.readers.reader import check_given, declare_columns, task_count, utc_session
from tidegate.spark.session import quote
from tidegate.spark.tasks import telling_line
from tidegate.specs.columns import ColumnSource, JdbcRead, RowReader, Value, WatermarkMode
from tidegate.specs.locations import Secret
from tidegate.specs.masking import Mask
from tidegate.specs.table import SchemaSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_START = "sessionInitStatement"
_NO_DRIVER = re.compile(r"No suitable driver|ClassNotFoundException|CLASS_NOT_FOUND")


def _as_table(statement: str) -> str:
    return f"({statement}) tidegate_read"


class JdbcConnection:
    """How to reach one database; every statement opens connections of its own."""

    def __init__(self, session: SparkSession, read: JdbcRead, source: str) -> None:
        self._session = session
        self._read = read
        self._source = source
        self.dialect = dialect_of(read.url)
        self._url = self.dialect.spark_url(read.url)

    def frame(
        self, statement: str, types: Mapping[str, str] | None = None, conditions: Sequence[str] = ()
    ) -> DataFrame:
        """The rows of ``statement``, one connection per condition; ``types`` override those that Spark chooses."""
        table = _as_table(statement)
        options = self._options()
        if types:
            options["customSchema"] = ", ".join(f"{quote(name)} {kind}" for name, kind in types.items())
        try:
            if len(conditions) > 1:
                return self._session.read.jdbc(self._url, table, predicates=list(conditions), properties=options)
            return self._session.read.format("jdbc").options(**options, url=self._url, dbtable=table).load()
        except Exception as error:
            # Spark's error contains the address and the credentials.
            raise self.problem(error) from None

    def columns(self, statement: str) -> StructType:
        """The columns of ``statement``, each with the database's own name for its type.

        That name decides how values are fetched without losing anything.
        """
        found = self.frame(statement).schema
        if all(TYPE_NAME in field.metadata for field in found):
            return found
        try:
            names = self._type_names(statement)
        except Exception as error:
            raise self.problem(error) from None
        return type(found)(
            [
                type(field)(field.name, field.dataType, field.nullable, {**field.metadata, TYPE_NAME: name})
                for field, name in zip(found, names, strict=True)
            ]
        )

    def _type_names(self, statement: str) -> list[str]:
        """What the driver calls the types of the columns; Spark passes it on from 4.1 on, and 4.0 has to be asked."""
        jvm = getattr(self._session, "_jvm", None)
        if jvm is None:
            raise EnvironmentProblem(
                f"{self._source}: Spark {self._session.version} does not say through Spark Connect which types the "
                "columns of a database have, so that digits could be lost",
                "use Spark 4.1 or newer, or a classic session: spark.master instead of spark.remote",
            )
        given = {**self._options(), "url": self._url, "dbtable": _as_table(statement)}
        options = jvm.org.apache.spark.sql.execution.datasources.jdbc.JDBCOptions(jvm.PythonUtils.toScalaMap(given))
        dialect = jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(self._url)
        connection = dialect.createConnectionFactory(options).apply(-1)
        try:
            asked = connection.prepareStatement(dialect.getSchemaQuery(_as_table(statement)))
            told = asked.executeQuery().getMetaData()
            return [str(told.getColumnTypeName(number + 1)) for number in range(told.getColumnCount())]
        finally:
            connection.close()

    def asked(self, statement: str, types: Mapping[str, str] | None = None) -> list[dict[str, Value | None]]:
        """The answer to a ``statement`` that returns a few rows."""
        frame = self.frame(statement, types)
        try:
            return collect_rows(frame)
        except Exception as error:
            raise self.problem(error) from None

    def _options(self) -> dict[str, str]:
        read = self._read
        known = self.dialect.driver
        driver = read.driver or (known.name if known else None)
        # Otherwise times without a zone get their meaning from Java's zone instead of the source's.
        options = {"fetchsize": str(read.fetch_size), "preferTimestampNTZ": "true"}
        options |= {"driver": driver} if driver else {}
        options |= {"user": read.user} if read.user is not None else {}
        options |= {"password": read.password.value} if read.password is not None else {}
        named_there = {each.partition("=")[0].lower() for each in re.split("[?&]", read.url)[1:]}
        defaults = self.dialect.jdbc_options.items()
        options |= {name: value for name, value in defaults if name.lower() not in named_there}
        given = {name: value for name, value in read.properties.items() if name.lower() != _START.lower()}
        return options | given | self._session_start(read.properties)

    def _session_start(self, properties: Mapping[str, str]) -> dict[str, str]:
        """The statement that fixes the session's zone, after the configured one if both can be combined."""
        own = next((value for name, value in properties.items() if name.lower() == _START.lower()), None)
        zone = self.dialect.session
        if zone is None:
            return {} if own is None else {_START: own}
        if own is None:
            return {_START: zone}
        if not self.dialect.takes_several:
            raise SourceError(
                f"{self._source}: properties.{_START} is reserved: Tidegate sets the time zone of the session to UTC "
                "with it",
                "use another property of the driver, such as sessionVariables",
            )
        # On a line of its own, since the configured statement may end in a comment.
        return {_START: f"{own.rstrip().rstrip(';')}\n;{zone}"}

    def problem(self, error: Exception) -> TidegateError:
        """What database or Spark reported, without address and secrets; the original error, which has both, is not
        chained.
        """
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

    def of_adbc(self, error: SourceError) -> SourceError:
        """An error of ADBC as one of this source; JDBC may be able to do it."""
        remedy = error.remedy if WITHOUT in error.remedy else f"{error.remedy}, or {WITHOUT}"
        return SourceError(f"{self._source}: {self._mask(error.problem)}", remedy)

    @cached_property
    def _mask(self) -> Mask:
        """Masks the password, property values, the whole address, and its parameters."""
        parameters = re.split(r"[?;&]", self._read.url)[1:]
        values = [parameter.partition("=")[2] for parameter in parameters]
        return Mask.around(self._read) | Mask.of(self._read.url, self._url, *parameters, *values)


def database_refusal(error: Exception, mask: Mask) -> Refusal:
    """The driver's own message inside a Spark error, which by itself only says that something failed."""
    trace = mask(str(getattr(error, "_stackTrace", None) or ""))
    text = f"{mask(str(error))}\n{trace}"
    causes = re.findall(r"^Caused by: (.+)$", trace, re.MULTILINE)
    return refusal(text, innermost_cause(text) or (causes[-1] if causes else telling_line(error, mask)))


EXACT_UP_TO, ALL_EXACT_UP_TO = 1_000_000, 200_000
SAMPLED_ROWS = 100_000
"""Above ``EXACT_UP_TO`` rows, a sample of ``SAMPLED_ROWS`` decides where to divide: PostgreSQL takes random pages.

``ALL_EXACT_UP_TO`` is for reads without a lower bound: few new rows are found by an index, a sample reads all pages.
"""


@dataclass(frozen=True, slots=True)
class AdbcRows:
    """Rows that tasks read through ADBC, a share each; ``frame`` has their columns, and counts them through JDBC."""

    frame: DataFrame
    shares: tuple[AdbcShare, ...]


def frame_of(rows: DataFrame | AdbcRows) -> DataFrame:
    """A reader's rows as a DataFrame."""
    return rows.frame if isinstance(rows, AdbcRows) else rows


class JdbcReader:
    """Reads one table or query of a database."""

    fixed_first = True

    def __init__(self, session: SparkSession, source: ColumnSource, read: JdbcRead, schema: SchemaSpec) -> None:
        own = utc_session(session)
        self._connection = JdbcConnection(own, read, source.name)
        most = read.max_connections or read.parallelism or task_count(own)
        self._parallelism = min(read.parallelism or task_count(own), most)
        self.connections = 1
        self._source = source
        self._read = read
        self._schema = schema
        self._counted: dict[RowFilter, int] = {}
        self._adbc = self._columnar()

    def greatest(self, rows: RowFilter) -> GreatestValues:
        """The greatest values in the database now; the answer also counts the rows up to those."""
        wanted = self._fit(rows)
        if not wanted.ranges:
            return GreatestValues()
        statements = self._statements
        if wanted.mode is WatermarkMode.TUPLE:
            found = self._ask(statements.greatest_tuple(wanted), wanted)
            counted = self._query_rows(statements.nulls(wanted))
        else:
            found = counted = self._ask(statements.greatest(wanted), wanted)
        row = found[0] if found else {}
        seen = {
            name: self._columns.greatest(name, row.get(f"greatest_{index}"))
            for index, name in enumerate(wanted.columns)
        }
        # The count comes with the same answer, so that dividing the read needs no second scan.
        if "found" in row:
            caps = {name: Bound(value, inclusive=True) for name, value in seen.items() if value is not None}
            self._counted = {wanted.capped(caps): count_in(row["found"])}
        return GreatestValues(dict(zip(rows.columns, seen.values(), strict=True)), count_in(counted[0]["nulls"]))

    def kinds(self, columns: Sequence[str]) -> dict[str, str]:
        """The columns with times, according to the database."""
        return kinds_of_times(columns, self._columns.kinds, self._source.name)

    def read(self, rows: RowFilter) -> DataFrame | AdbcRows:
        """The matching rows, over as many connections as pay off."""
        wanted = self._fit(rows)
        conditions = self._conditions(wanted)
        self.connections = max(1, len(conditions))
        divided_by = self._partition_column(wanted) if len(conditions) > 1 else None
        statement = JdbcStatements(self._read, self._columns.select_columns()).rows(wanted, divided_by=divided_by)
        frame = self._connection.frame(statement, self._columns.fetched_schema(), conditions)
        restored = self._columns.restore_columns(frame, declare_columns(self._schema))
        found = check_given(restored, self._schema, self._source.source_timezone, self._source.name)
        if self._adbc is None:
            return found
        with self._mask_errors():
            return AdbcRows(found, self._shares(self._adbc, found.schema, wanted, divided_by, conditions))

    def problem(self, error: Exception) -> TidegateError:
        """The error for a failure while the rows of :meth:`read` were computed."""
        return self._connection.problem(error)

    @cached_property
    def _columns(self) -> JdbcColumns:
        """The columns, according to the database."""
        everything = JdbcStatements(self._read).rows(RowFilter())
        return JdbcColumns(self._connection.columns(everything), self._connection.dialect)

    def _fit(self, rows: RowFilter) -> RowFilter:
        wanted = fit_to_schema(rows, self._columns.schema, self._source.source_timezone, self._source.name)
        for column in wanted.columns:
            self._columns.check_followed(column, self._source.name)
        return wanted

    @property
    def _statements(self) -> JdbcStatements:
        return JdbcStatements(self._read, self._columns.select_columns(in_python=self._adbc is not None))

    def _ask(self, statement: str, rows: RowFilter) -> list[dict[str, Value | None]]:
        types = {f"greatest_{index}": self._columns.greatest_type(name) for index, name in enumerate(rows.columns)}
        return self._query_rows(statement, types)

    def _columnar(self) -> Secret | None:
        """ADBC's connection, if rows are to be read through it."""
        if self._read.reader is not RowReader.ADBC:
            return None
        with self._mask_errors():
            return connection_of(self._read)

    @contextmanager
    def _mask_errors(self) -> Iterator[None]:
        """Report errors of ADBC as errors of this source."""
        try:
            yield
        except SourceError as error:
            raise self._connection.of_adbc(error) from None

    def _query_rows(self, statement: str, types: Mapping[str, str] | None = None) -> list[dict[str, Value | None]]:
        """The answer to a statement that returns a few rows."""
        if self._adbc is None:
            return self._connection.asked(statement, types)
        with self._mask_errors():
            return answer(self._adbc, statement)

    def _shares(
        self,
        connection: Secret,
        schema: StructType,
        rows: RowFilter,
        divided_by: str | None,
        conditions: Sequence[str],
    ) -> tuple[AdbcShare, ...]:
        """The rows in shares for ADBC; the first is tried without rows: ``??``, for one, is SQL for JDBC alone."""
        columns = self._columns.exact(schema, self._source.source_timezone, self._source.name)
        origin = self._statements.rows(rows, divided_by=divided_by)
        names = ", ".join(self._connection.dialect.quote(name) for name, _ in columns.values())
        statement = f"SELECT {names} FROM ({origin}) tidegate_read"
        exact = tuple(column for _, column in columns.values())
        wheres = [f" WHERE {condition}" for condition in conditions] or [""]
        shares = tuple(AdbcShare(connection, f"{statement}{where}", exact) for where in wheres)
        check_share(shares[0])
        return shares

    def _conditions(self, rows: RowFilter) -> tuple[str, ...]:
        """One condition per connection: equal shares of at least ``fetch_size`` rows."""
        column = self._partition_column(rows)
        statements = self._statements
        if column is None or self._parallelism < 2 or not statements.sorts_as_we_do(column):
            return ()
        found = self._counted.get(rows)
        if found is None:
            found = count_in(self._query_rows(statements.count(rows))[0]["found"])
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
        """The least value of each share, from a sample if the table is large and can be sampled."""
        can_sample = self._read.table is not None and self._connection.dialect.can_sample
        if can_sample and found > (EXACT_UP_TO if rows.watermark else ALL_EXACT_UP_TO):
            percent = 100 * SAMPLED_ROWS / found
            try:
                bounds = self._least(statements.parts(rows, column, parts, percent=percent), column)
            except SourceError:  # a view has no pages
                bounds = set()
            if len(bounds) > 1:
                return bounds
        return self._least(statements.parts(rows, column, parts), column)

    def _least(self, statement: str, column: str) -> set[Any]:
        rows = self._query_rows(statement, {"bound": self._columns.greatest_type(column)})
        values = (self._columns.greatest(column, row["bound"]) for row in rows)
        return {value for value in values if value is not None and is_finite(value)}
