"""Every type of a database comes as the page about databases says: exactly, as text, or refused by name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from servers import mariadb as mariadb_server
from servers import postgres as postgres_server
from support.database_types import MARIADB, MARIADB_UNFIT, POSTGRESQL, POSTGRESQL_UNFIT, Typed, Unfit
from support.long_runs import chosen
from tidegate import run
from tidegate.core.columns.predicates import Bound, ColumnRange, RowFilter
from tidegate.errors import SourceError, TidegateError
from tidegate.sources.idle import NoAnswer, nulls_if_idle
from tidegate.spark.engine import open_reader
from tidegate.specs.columns import ColumnSource, JdbcRead, RowReader
from tidegate.specs.locations import Secret
from tidegate.specs.table import FieldSpec, SchemaSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

PAGE = Path(__file__).parents[2] / "docs" / "sources" / "databases.md"
needs_mariadb = pytest.mark.skipif(not mariadb_server.is_possible(), reason="its programs are for Linux on x86-64")


@dataclass(frozen=True, slots=True)
class Types:
    """A database with a table ``fit`` of all types and a table ``unfit_N`` per value that fits none."""

    spark: SparkSession
    url: str
    user: str
    password: str

    def read(self, table: str) -> JdbcRead:
        """By JDBC; what comes by ADBC is compared with that in ``test_adbc_reader``."""
        given = {"user": self.user, "password": Secret(self.password), "reader": RowReader.JDBC}
        return JdbcRead(self.url, table=table, parallelism=1, **given)  # type: ignore[arg-type]  # each its own

    def frame(self, table: str, schema: SchemaSpec | None = None) -> DataFrame:
        reader = open_reader(
            self.spark, ColumnSource("types", self.read(table), ()), schema or SchemaSpec(), datetime.now(UTC)
        )
        frame: DataFrame = reader.read(RowFilter())
        return frame

    def said_about(self, table: str) -> str:
        source = ColumnSource("types", self.read(table), ())
        reader: Any = open_reader(self.spark, source, SchemaSpec(), datetime.now(UTC))
        with pytest.raises(Exception) as failed:  # Spark's own
            reader.read(RowFilter()).toArrow()
        problem = reader.problem(failed.value)
        assert isinstance(problem, SourceError)
        return str(problem)


def tables(types: Iterable[Typed], unfit: Iterable[Unfit]) -> str:
    columns = [f"c{index} {each.sql} null" for index, each in enumerate(types)]
    made = [f"create table fit ({', '.join(columns)})"]
    made += [f"insert into fit values ({', '.join(each.literal for each in types)})"]
    made += ["insert into fit (c0) values (null)"]
    for index, each in enumerate(unfit):
        made += [f"create table unfit_{index} (c {each.sql} null)"]
        made += [f"insert into unfit_{index} values ({each.literal})"]
    return ";\n".join(made) + ";"


@pytest.fixture(scope="module")
def of_mariadb(mariadb: mariadb_server.Server) -> str:
    database = mariadb.new_database()
    made = tables(MARIADB, MARIADB_UNFIT)
    mariadb.execute(f"set time_zone = '+00:00', sql_mode = 'ALLOW_INVALID_DATES'; {made}", database)
    return database


@pytest.fixture(params=["mariadb", "mysql"])
def maria(
    spark: SparkSession, mariadb: mariadb_server.Server, of_mariadb: str, request: pytest.FixtureRequest
) -> Types:
    url = mariadb.jdbc_url(of_mariadb, request.param)
    return Types(spark, url, mariadb_server.USER, mariadb_server.PASSWORD)


@pytest.fixture(scope="module")
def pg(spark: SparkSession, postgres: postgres_server.Server) -> Types:
    database = postgres.new_database()
    with postgres.connect(database) as connection:
        connection.execute(tables(POSTGRESQL, POSTGRESQL_UNFIT).encode())
    return Types(spark, postgres.jdbc_url(database), postgres_server.USER, postgres_server.PASSWORD)


def check(found: DataFrame, types: Iterable[Typed]) -> None:
    assert [(each.sql, field.dataType.simpleString()) for each, field in zip(types, found.schema, strict=True)] == [
        (each.sql, each.spark) for each in types
    ]
    rows = found.toArrow().to_pylist()
    values = next(row for row in rows if row["c0"] is not None)
    assert [(each.sql, values[f"c{index}"]) for index, each in enumerate(types)] == [
        (each.sql, expected(each)) for each in types
    ]
    nulls = next(row for row in rows if row["c0"] is None)
    assert set(nulls.values()) == {None}


def expected(each: Typed) -> Any:
    if each.value is not None:
        return each.value
    text = each.literal.strip("'")
    return Decimal(text) if each.spark.startswith("decimal") else datetime.fromisoformat(text).replace(tzinfo=UTC)


@needs_mariadb
def test_every_type_of_mariadb_comes_as_it_is(maria: Types) -> None:
    check(maria.frame("fit"), MARIADB)


def test_every_type_of_postgresql_comes_as_it_is(pg: Types) -> None:
    check(pg.frame("fit"), POSTGRESQL)


def check_idle(types: Types, columns: Sequence[Typed], *some: str) -> None:
    """Without Spark nothing is said to be new only where Spark finds nothing; the kinds of ``some`` are answered."""
    source = ColumnSource("types", types.read("fit"), ("c0",))
    reader = open_reader(types.spark, source, SchemaSpec(), datetime.now(UTC))
    wanted, answered = chosen([each.sql for each in columns], *some), set()
    for index, each in enumerate(columns):
        name = f"c{index}"
        if each.sql not in wanted:
            continue
        try:
            value = reader.greatest(RowFilter((ColumnRange(name),))).values[name]
            assert value is not None
            above, at = (RowFilter((ColumnRange(name, Bound(value, inclusive)),)) for inclusive in (False, True))
            answer = nulls_if_idle(source, above), nulls_if_idle(source, at)
        except (NoAnswer, TidegateError):
            continue
        answered.add(each.sql)
        found = reader.greatest(above)
        assert (found.values, answer) == ({name: None}, (found.nulls, None)), each.sql
    assert answered >= set(some)


@needs_mariadb
def test_what_is_asked_of_mariadb_without_spark_is_what_spark_finds(
    spark: SparkSession, mariadb: mariadb_server.Server, of_mariadb: str
) -> None:
    types = Types(spark, mariadb.jdbc_url(of_mariadb, "mariadb"), mariadb_server.USER, mariadb_server.PASSWORD)
    kinds = ("bigint unsigned", "decimal(12,2)", "double", "year", "date", "datetime(6)", "timestamp(6)", "text")
    check_idle(types, MARIADB, *kinds, "varchar(5)")


def test_what_is_asked_of_postgresql_without_spark_is_what_spark_finds(pg: Types) -> None:
    kinds = ("bigint", "numeric(12,2)", "double precision", "date", "timestamp", "timestamptz", "text", "char(5)")
    check_idle(pg, POSTGRESQL, *kinds, "uuid")


@needs_mariadb
def test_a_value_that_fits_no_type_is_named_with_its_column_by_mariadb(maria: Types) -> None:
    for index, each in enumerate(MARIADB_UNFIT):
        said = maria.said_about(f"unfit_{index}")
        assert each.told in said
        assert "declare it as string" in said


def test_a_value_that_fits_no_type_is_named_with_its_column_by_postgresql(pg: Types) -> None:
    for index, each in enumerate(POSTGRESQL_UNFIT):
        assert each.told in pg.said_about(f"unfit_{index}")


def test_a_column_that_is_declared_as_text_has_the_text_of_the_database(pg: Types) -> None:
    texts = SchemaSpec((FieldSpec("c", "string"),))
    found = [pg.frame(f"unfit_{index}", texts).collect()[0][0] for index, _ in enumerate(POSTGRESQL_UNFIT)]
    assert found == [
        re.search("holds (.*), which", each.told)[1]  # type: ignore[index]  # it does
        for each in POSTGRESQL_UNFIT
    ]
    wide = SchemaSpec((FieldSpec("c", "decimal(38,20)"),))
    infinite = next(index for index, each in enumerate(POSTGRESQL_UNFIT) if each.literal.startswith("1."))
    assert pg.frame(f"unfit_{infinite}", wide).collect()[0][0] == Decimal("1.1111111111111111111")


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("select 1 / (1 - n) as x, n from generate_series(1, 1) n", ["division by zero", "nullif(x, 0)"]),
        ("select 'NaN'::numeric(5,2) as price", ["column 'price' holds NaN, which is no decimal(5,2)", "as string"]),
        ("select 'infinity'::date as day", ["column 'day' holds infinity, which is no date", "as string"]),
        ("select no_such from fit", ['column "no_such" does not exist', "correct filter_expression"]),
    ],
)
def test_a_run_tells_the_column_the_value_the_cause_and_the_remedy(
    pg: Types, tmp_path: Path, query: str, told: list[str]
) -> None:
    config = {
        "connections": {"shop": {"type": "jdbc", "url": pg.url, "user": pg.user, "password": pg.password}},
        "pipelines": {
            "types": {
                "source": {"connection": "shop", "query": query},
                "sink": {"table_uri": str(tmp_path / "types"), "load_type": "overwrite"},
            }
        },
    }
    (tmp_path / "types.yml").write_text(json.dumps(config))
    (source,) = run(tmp_path / "types.yml").sources
    assert source.error is not None
    for each in told:
        assert each in source.error
    assert "more" not in source.error
    assert ".py" not in source.error


@pytest.mark.parametrize(("heading", "types"), [("MariaDB and MySQL", MARIADB), ("PostgreSQL", POSTGRESQL)])
def test_the_page_has_every_type_and_what_becomes_of_it(heading: str, types: tuple[Typed, ...]) -> None:
    (table,) = re.findall(rf"^### Types of {heading}\n\n((?:\|.*\n)+)", PAGE.read_text(), re.MULTILINE)
    rows = {}
    for line in table.splitlines()[2:]:
        names, kind = line.strip("|").split("|")[:2]
        rows |= dict.fromkeys(re.findall("`([^`]+)`", names), kind)
    for each in types:
        said = rows[each.sql if each.sql in rows else each.called]
        kinds = {each.spark, re.sub(r"\(.*", "(p,s)", each.spark)}
        assert kinds & {*re.findall("`([^`]+)`", said)}, f"{each.sql}: {said}"
