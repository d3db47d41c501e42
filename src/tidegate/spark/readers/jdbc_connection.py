"""Statements to a database through Spark's JDBC source, with nothing secret in plans, logs and errors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from tidegate.column_specs import JdbcRead, Value
from tidegate.errors import EnvironmentProblem, SourceError, TidegateError
from tidegate.masking import Mask
from tidegate.sources.jdbc_errors import Refusal, refusal, telling_cause
from tidegate.spark.filters import collected
from tidegate.spark.packages import driver_of
from tidegate.spark.packing import telling_line
from tidegate.watermarks.dialects import Dialect, dialect_of, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ZONE = {
    Dialect.POSTGRESQL: "SET TIME ZONE 'UTC'",
    Dialect.MYSQL: "SET time_zone = '+00:00'",
    Dialect.ORACLE: "ALTER SESSION SET TIME_ZONE = 'UTC'",
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
            options["customSchema"] = ", ".join(f"{quoted(name, Dialect.SPARK)} {kind}" for name, kind in types.items())
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
        if self.dialect is Dialect.MYSQL:
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
        if self.dialect is not Dialect.POSTGRESQL:
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
    return refusal(text, telling_cause(text) or (causes[-1] if causes else telling_line(error, mask)))
