"""What Spark must have on its class path to read sources that are no files: drivers of databases.

For the databases we know they are named here; others name ``driver`` and ``packages`` or ``jars`` themselves. They must
be there when the session starts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.column_specs import ColumnSource, JdbcRead, TableRead
from tidegate.spark.jars import S3
from tidegate.specs import PipelineSpec
from tidegate.unit_specs import UnitSource

POSTGRESQL = "org.postgresql:postgresql:42.7.14"


@dataclass(frozen=True, slots=True)
class Driver:
    """The class of a JDBC driver and the Maven coordinate it is fetched by."""

    name: str
    package: str


DRIVERS = {
    "postgresql": Driver("org.postgresql.Driver", POSTGRESQL),
    "mysql": Driver("com.mysql.cj.jdbc.Driver", "com.mysql:mysql-connector-j:9.7.0"),
    "mariadb": Driver("org.mariadb.jdbc.Driver", "org.mariadb.jdbc:mariadb-java-client:3.5.11"),
    "sqlserver": Driver(
        "com.microsoft.sqlserver.jdbc.SQLServerDriver", "com.microsoft.sqlserver:mssql-jdbc:13.6.1.jre11"
    ),
    "oracle": Driver("oracle.jdbc.OracleDriver", "com.oracle.database.jdbc:ojdbc11:23.26.4.0.0"),
    "sqlite": Driver("org.sqlite.JDBC", "org.xerial:sqlite-jdbc:3.53.4.0"),
}
"""By the word after ``jdbc:`` in the address."""


TESTED = tuple(DRIVERS[each].package for each in ("postgresql", "mysql", "mariadb"))
"""The drivers that our tests use."""


def driver_of(url: str) -> Driver | None:
    """The driver of a database that we know."""
    return DRIVERS.get(url.removeprefix("jdbc:").partition(":")[0].lower())


def packages_of(sources: Iterable[ColumnSource | UnitSource]) -> tuple[str, ...]:
    """The Maven coordinates and jar files that these sources need, each once; what is named goes before our own."""
    found: dict[str, None] = {}
    for source in sources:
        if isinstance(source.read, JdbcRead):
            found |= dict.fromkeys(_of_database(source.read))
    return tuple(found)


def packages_for(pipelines: Iterable[PipelineSpec]) -> tuple[str, ...]:
    """What the sources of these pipelines need that Spark reads or loads, and their tables where those lie on S3."""
    chosen = tuple(pipelines)
    sources: list[ColumnSource | UnitSource] = []
    for each in chosen:
        sources += [*each.column_sources, *each.unit_sources]
    places = [each.sink.table.uri for each in chosen if each.column_sources or each.unit_sources]
    places += [each.read.location.uri for each in sources if isinstance(each.read, TableRead)]
    on_s3 = (S3,) if any(uri.startswith("s3:") for uri in places) else ()
    return (*packages_of(sources), *on_s3)


def _of_database(read: JdbcRead) -> tuple[str, ...]:
    known = driver_of(read.url)
    if read.packages or read.jars:
        return (*read.packages, *read.jars)
    return (known.package,) if known is not None and read.driver in (None, known.name) else ()
