"""Reads a database and a table in a process whose machine, Java and session are each in a zone of their own.

The session is one that somebody else made: Tidegate starts Java in UTC.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from tidegate.core.columns.predicates import Bound, ColumnRange, RowFilter
from tidegate.spark.engine import open_reader
from tidegate.spark.jars import TESTED, find_java
from tidegate.spark.session import open_session, settings
from tidegate.specs.columns import ColumnSource, JdbcRead, TableFormat, TableRead
from tidegate.specs.locations import Location, Secret
from tidegate.specs.project import SparkSpec
from tidegate.specs.table import SchemaSpec

SESSION_ZONE = "Australia/Lord_Howe"
WANTED = RowFilter(
    (ColumnRange("at", Bound(datetime(2026, 3, 8, 1, tzinfo=UTC))), ColumnRange("local", Bound(datetime(2026, 3, 8)))),
    extra="cast(at as date) = date '2026-03-08'",
)


def main(java_zone: str, parquet: str, *databases: str) -> None:
    """Print what was read, by source; a database is given as its address, user and password."""
    os.environ |= {"JAVA_HOME": str(find_java()), "PYSPARK_PYTHON": sys.executable}
    builder = SparkSession.builder.master("local[1]")
    zones = {
        "spark.driver.extraJavaOptions": f"-Duser.timezone={java_zone}",
        "spark.sql.session.timeZone": SESSION_ZONE,
    }
    for name, value in (settings(SparkSpec(), delta=False, packages=TESTED) | zones).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    assert open_session(SparkSpec()) is session
    java = session.sparkContext._jvm.java  # type: ignore[union-attr]  # it runs
    assert java.time.ZoneId.systemDefault().getId() == java_zone
    reads: dict[str, JdbcRead | TableRead] = {"parquet": TableRead(TableFormat.PARQUET, Location(parquet))}
    for url, user, password in zip(databases[::3], databases[1::3], databases[2::3], strict=True):
        read = JdbcRead(url, user=user, password=Secret(password), table="visits", parallelism=1)
        reads[url.split(":")[1]] = read
    told = {}
    for name, read in reads.items():
        source = ColumnSource("visits", read, ("at", "local"), source_timezone="Europe/Berlin")
        reader = open_reader(session, source, SchemaSpec(), datetime(2026, 6, 1, tzinfo=UTC))
        seen = reader.greatest(WANTED)
        capped = WANTED.capped({name: Bound(value, True) for name, value in seen.values.items() if value is not None})
        rows = reader.read(capped).select("at", "local", "day").orderBy("at").toArrow().to_pylist()
        instants = [{**row, "at": row["at"].astimezone(UTC), "local": row["local"].astimezone(UTC)} for row in rows]
        everything = reader.read(RowFilter()).select("at", "day").orderBy("at").toArrow().to_pylist()
        moments = [[row["at"].astimezone(UTC), row["day"]] for row in everything]
        told[name] = {"seen": dict(seen.values), "rows": instants, "all": moments}
    print(json.dumps(told, default=str))
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
