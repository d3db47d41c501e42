"""Databases read in this process: what Spark would read, in bounded blocks, by connections that change nothing."""

from __future__ import annotations

import json
import signal
import socketserver
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from servers import mariadb as mariadb_server
from servers import postgres as postgres_server
from support import scripts
from support.database_types import MARIADB, MARIADB_UNFIT, POSTGRESQL, POSTGRESQL_UNFIT, Typed
from support.errors import raises
from tidegate import ProjectSpec, SourceReport, load, show_watermarks
from tidegate.core.columns.predicates import Bound, ColumnRange, RowFilter
from tidegate.errors import ConfigError, EnvironmentProblem, SourceError, TidegateError
from tidegate.observe.events import Event
from tidegate.protocol.delta import query
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop
from tidegate.sources.databases import DatabaseReader, instants
from tidegate.sources.idle import NoAnswer, nulls_if_idle
from tidegate.sources.reader import GreatestValues
from tidegate.sources.units.work import UnitFailure, UnitWave, UnitWork, UnitWritten
from tidegate.specs.columns import ColumnSource, JdbcRead, RowReader, WatermarkMode
from tidegate.specs.locations import Location, Options, Secret
from tidegate.specs.project import PipelineSpec
from tidegate.specs.table import FieldSpec, SchemaSpec, SinkSpec
from tidegate.specs.units import UnitSource

WORKER = Path(__file__).parents[1] / "faults" / "column_worker.py"
NOT_HERE = ("bit(1)", "integer[]", "text[]")
"""Types of PostgreSQL that are Spark's."""

needs_mariadb = pytest.mark.skipif(not mariadb_server.is_possible(), reason="its programs are for Linux on x86-64")


@dataclass(frozen=True, slots=True)
class Database:
    """A database with a table ``orders``, which is empty."""

    scheme: str
    read: JdbcRead
    execute: Callable[[str], object]
    statements: Callable[[], list[str]]

    @property
    def connection(self) -> dict[str, Any]:
        """The same in a configuration."""
        assert self.read.password is not None
        return {"type": "jdbc", "url": self.read.url, "user": self.read.user, "password": self.read.password.value}

    def reader(self, what: str, *columns: str, schema: SchemaSpec | None = None, zone: str = "UTC", **more: Any) -> Any:
        """A reader of a table or a query."""
        read = replace(self.read, **{"query" if " " in what else "table": what}, **more)
        return DatabaseReader(ColumnSource("s", read, columns, source_timezone=zone), read, schema or SchemaSpec())

    def rows(self, what: str, rows: RowFilter | None = None, **more: Any) -> list[dict[str, Any]]:
        """Rows of a table or a query."""
        found = self.reader(what, **more).read(rows or RowFilter())
        return pa.Table.from_batches(found.to_batches(), found.schema).to_pylist()


ORDERS = "id bigint primary key, at {}, price decimal(12,2), note varchar(20)"


@pytest.fixture(scope="module")
def in_postgres(postgres: postgres_server.Server) -> Database:
    name = postgres.new_database()

    def execute(statement: str) -> None:
        with postgres.connect(name) as connection:
            connection.execute(statement.encode())

    read = JdbcRead(postgres.jdbc_url(name), user=postgres_server.USER, password=Secret(postgres_server.PASSWORD))
    return Database("postgresql", read, execute, postgres.statements)


@pytest.fixture(scope="module")
def in_mariadb(mariadb: mariadb_server.Server) -> Database:
    name = mariadb.new_database()

    def execute(statement: str) -> None:
        mariadb.execute(f"set time_zone = '+00:00', sql_mode = 'ALLOW_INVALID_DATES'; {statement}", name)

    url, password = mariadb.jdbc_url(name), Secret(mariadb_server.PASSWORD)
    return Database("mariadb", JdbcRead(url, user=mariadb_server.USER, password=password), execute, mariadb.statements)


@pytest.fixture(params=["postgres", pytest.param("mariadb", marks=needs_mariadb)])
def database(request: pytest.FixtureRequest) -> Database:
    found: Database = request.getfixturevalue(f"in_{request.param}")
    moment = "timestamptz" if request.param == "postgres" else "timestamp(6) null"
    found.execute(f"drop table if exists orders; create table orders ({ORDERS.format(moment)})")
    return found


@dataclass
class Orders:
    """A pipeline that follows the table."""

    folder: Path
    database: Database
    source: Mapping[str, Any]

    @property
    def config(self) -> Path:
        source = {"connection": "shop", "table": "orders", **self.source}
        pipeline = {"source": source, "sink": {"table_uri": "lake/orders"}}
        path = self.folder / "tidegate.yml"
        path.write_text(
            json.dumps({"connections": {"shop": self.database.connection}, "pipelines": {"orders": pipeline}})
        )
        return path

    def run(self, emit: Callable[[Event], None] | None = None) -> SourceReport:
        project: ProjectSpec = load(self.config)
        (source,) = Loop(project, InProcessEngine(), 1, emit or (lambda _: None)).once(project.pipelines).sources
        return source

    def go(self) -> int:
        """A run that must go well; how many rows."""
        report = self.run()
        assert report.error is None, report.error
        return report.rows

    def ids(self) -> list[int]:
        table = load(self.config).pipelines[0].sink.table
        return sorted(row["id"] for row in query(table, "select id from t"))


def add(database: Database, *rows: tuple[int, str]) -> None:
    database.execute(f"insert into orders (id, at) values {', '.join(f'({id}, {at!r})' for id, at in rows)}")


MARCH = datetime(2026, 3, 5, tzinfo=UTC)
MORNING, NOON = "2026-03-01 08:00:00", "2026-03-01 12:00:00"


def test_each_run_appends_what_is_above_the_watermark_once(database: Database, tmp_path: Path) -> None:
    orders = Orders(tmp_path, database, {"watermark_columns": ["at"], "fetch_size": 2})
    add(database, (1, MORNING), (2, NOON), (3, NOON))
    assert orders.go() == 3
    assert orders.go() == 0
    add(database, (4, NOON), (5, "2026-03-01 12:00:00.000001"))
    assert (orders.go(), orders.ids()) == (1, [1, 2, 3, 5])
    assert (
        show_watermarks(orders.config, "orders")[0].value
        == '{"at": {"__datetime__": "2026-03-01T12:00:00.000001+00:00"}}'
    )


def test_ties_at_the_bound_are_told_apart_by_a_cursor(database: Database, tmp_path: Path) -> None:
    orders = Orders(tmp_path, database, {"watermark_columns": ["at", "id"], "watermark_mode": "tuple"})
    add(database, (1, NOON), (2, NOON), (9, MORNING))
    assert orders.go() == 3
    add(database, (3, NOON), (8, MORNING), (4, NOON))
    assert (orders.go(), orders.ids()) == (2, [1, 2, 3, 4, 9])


def test_a_run_that_is_killed_loses_and_doubles_nothing(database: Database, tmp_path: Path) -> None:
    orders = Orders(tmp_path, database, {"watermark_columns": ["id"]})
    add(database, (1, MORNING), (2, NOON))
    assert orders.go() == 2
    add(database, (3, NOON))
    assert scripts.run(WORKER, orders.config, failpoints="runs.commit.before=kill") == -signal.SIGKILL
    add(database, (4, NOON))
    orders.go()
    assert orders.ids() == [1, 2, 3, 4]


def test_rows_ahead_of_time_wait_and_are_counted_by_the_database(database: Database, tmp_path: Path) -> None:
    orders = Orders(tmp_path, database, {"watermark_columns": ["at"], "future_tolerance": "PT1H"})
    add(database, (1, MORNING), (2, "2037-01-01 00:00:00"), (3, "2037-06-01 00:00:00"))
    report = orders.run()
    assert (report.rows, dict(report.skipped), orders.ids()) == (1, {"future": 2}, [1])


def test_bounds_are_asked_and_hold_as_they_are_given(database: Database) -> None:
    add(database, (1, MORNING), (2, NOON))
    database.execute("insert into orders values (3, null, 2.50, 'B'), (4, null, null, 'a '), (5, null, null, 'a')")
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    reader = database.reader("orders", "at", "id")
    both = RowFilter((ColumnRange("AT"), ColumnRange("id", Bound(1))))
    assert reader.greatest(both) == GreatestValues({"AT": noon, "id": 5}, nulls=0)
    assert reader.greatest(RowFilter((ColumnRange("at"),))) == GreatestValues({"at": noon}, nulls=3)
    assert reader.greatest(RowFilter((ColumnRange("price"),))).values == {"price": Decimal("2.50")}
    assert reader.greatest(RowFilter((ColumnRange("note"),))).values == {"note": "a "}
    cursor = RowFilter((ColumnRange("at"), ColumnRange("id")), WatermarkMode.TUPLE)
    assert reader.greatest(cursor) == GreatestValues({"at": noon, "id": 2}, nulls=3)
    assert reader.greatest(RowFilter((ColumnRange("at", Bound(noon)),))) == GreatestValues({"at": None}, nulls=3)
    back = RowFilter((ColumnRange("at", Bound(noon, inclusive=True), Bound(noon, inclusive=True)),))
    assert [row["id"] for row in database.rows("orders", back)] == [2]
    assert (reader.read(back).num_rows, reader.kinds(["at", "id"])) == (1, {"at": "datetime"})
    filtered = RowFilter((ColumnRange("note", Bound("B")),), extra="note not like 'x%'")
    assert sorted(row["note"] for row in database.rows("orders", filtered)) == ["a", "a "]
    with raises(SourceError, "s", "'note'", "7", "string"):
        reader.greatest(RowFilter((ColumnRange("note", Bound(7)),)))


def test_rows_come_in_blocks_and_the_connection_changes_nothing(database: Database) -> None:
    add(database, *((number, NOON) for number in range(10)))
    before = len(database.statements())
    batches = list(database.reader("orders", fetch_size=4).read(RowFilter()).to_batches())
    assert [batch.num_rows for batch in batches] == [4, 4, 2]
    asked = " ".join(database.statements()[before:])
    assert ("READ ONLY" in asked, "12:00" in asked) == (True, False)
    database.execute("create sequence numbers")
    wanted = "select nextval('numbers') as n" if database.scheme == "postgresql" else "select nextval(numbers) as n"
    try:
        with raises(SourceError, "execute"):
            database.rows(wanted)
    finally:
        database.execute("drop sequence numbers")


def test_wide_rows_come_in_smaller_blocks(database: Database) -> None:
    add(database, *((number, NOON) for number in range(100)))
    wide = "select id, repeat('x', 1000000) as wide from orders"
    batches = list(database.reader(wide).read(RowFilter()).to_batches())
    assert max(batch.nbytes for batch in batches) < 32 * 1024 * 1024
    assert sorted(row["id"] for batch in batches for row in batch.select(["id"]).to_pylist()) == list(range(100))


@needs_mariadb
@pytest.mark.parametrize("scheme", ["mysql", "mariadb"])
def test_values_of_expressions_of_mysql_are_those_of_its_columns(in_mariadb: Database, scheme: str) -> None:
    here = replace(in_mariadb, read=replace(in_mariadb.read, url=in_mariadb.read.url.replace("mariadb", scheme, 1)))
    in_mariadb.execute("create or replace table odd (id int, j bit(1), f float(7,3))")
    in_mariadb.execute("insert into odd values (1, 0, 1.1), (2, 1, 2.2)")
    assert [row["j"] for row in here.rows("select coalesce(j, j) as j from odd order by id")] == [False, True]
    assert here.rows("select sum(f) as f from odd") == [{"f": 3.3000000715255737}]
    for below, greatest in ((3, True), (2, False)):
        found = here.reader(f"select * from odd where id < {below}", "j").greatest(RowFilter((ColumnRange("j"),)))
        assert found.values == {"j": greatest}


def test_a_read_that_is_given_up_leaves_the_rest_unread(database: Database) -> None:
    add(database, *((number, NOON) for number in range(1000)))
    wide = "select a.id as id, b.id as other from orders a cross join orders b cross join orders c"
    batches = database.reader(wide, fetch_size=10).read(RowFilter()).to_batches()
    assert next(batches).num_rows == 10
    batches.close()


def check(database: Database, types: list[Typed], unfit: Any) -> None:
    columns = ", ".join(f"c{index} {each.sql} null" for index, each in enumerate(types))
    values = ", ".join(each.literal for each in types)
    filled = f"insert into fit values ({values}); insert into fit (c0) values (null)"
    database.execute(f"create table fit ({columns}); {filled}")
    found = {row["c0"] is None: list(row.values()) for row in database.rows("fit")}
    for each, value in zip(types, found[False], strict=True):
        text = each.literal.strip("'")
        told = Decimal(text) if each.spark.startswith("decimal") else text
        assert value == (each.value if each.value is not None else told) or value == datetime.fromisoformat(
            text
        ).replace(tzinfo=UTC), each.sql
    assert found[True] == [None] * len(types)
    made = [f"create table unfit_{number} (c {each.sql} null)" for number, each in enumerate(unfit)]
    made += [f"insert into unfit_{number} values ({each.literal})" for number, each in enumerate(unfit)]
    database.execute("; ".join(made))
    for number, each in enumerate(unfit):
        with pytest.raises(SourceError) as refused:
            database.rows(f"unfit_{number}")
        assert f"s: {each.told}" in str(refused.value)
        texts = database.rows(f"unfit_{number}", schema=SchemaSpec((FieldSpec("c", "string"),)))
        assert each.told.startswith(f"column 'c' holds {texts[0]['c']}, which")


def test_every_type_of_postgresql_comes_as_the_page_says_or_is_refused(in_postgres: Database) -> None:
    check(in_postgres, [each for each in POSTGRESQL if each.sql not in NOT_HERE], POSTGRESQL_UNFIT)
    for sql in (*NOT_HERE, "oid"):
        with raises(EnvironmentProblem, "s", "'a'", "Spark", "engine: spark"):
            in_postgres.rows(f"select null::{sql} as a")
    with raises(SourceError, "s", "'a'", "twice"):
        in_postgres.rows('select 1 as a, 2 as "A"')
    with raises(SourceError, "s", "'a'", "money[]", "Spark", "cast(a as text)"):
        in_postgres.rows("select null::money[] as a")
    in_postgres.execute("create table nothing ()")
    with raises(SourceError, "s", "no column"):
        in_postgres.rows("nothing")
    by_adbc = {"reader": RowReader.ADBC}
    assert in_postgres.rows("select * from fit", **by_adbc) == in_postgres.rows("fit")  # type: ignore[arg-type]
    with raises(SourceError, "s", "'c'", "infinity", "timestamp", "filter_expression"):
        in_postgres.rows("unfit_0", **by_adbc)  # type: ignore[arg-type]


@needs_mariadb
def test_every_type_of_mariadb_comes_as_the_page_says_or_is_refused(in_mariadb: Database) -> None:
    check(in_mariadb, list(MARIADB), MARIADB_UNFIT)
    with raises(EnvironmentProblem, "s", "'a'", "255", "MySQL", "engine: spark"):
        in_mariadb.rows("select point(1, 1) as a")
    in_mariadb.execute("create table ids (u uuid, c char(36), b char(36) character set ascii collate ascii_bin)")
    with raises(SourceError, "s", "'u'", "uuid", "Spark", "cast(u as char)"):
        in_mariadb.rows("ids")
    assert in_mariadb.rows("select c, b, cast(u as char) as u from ids") == []
    by_mysql = replace(in_mariadb.read, url=in_mariadb.read.url.replace("mariadb", "mysql", 1))
    assert replace(in_mariadb, read=by_mysql).rows("ids") == []


def test_declared_columns_are_read_where_they_need_no_other_conversion(database: Database) -> None:
    database.execute(f"insert into orders values (1, '{NOON}', 1.50, 'x')")
    fields = SchemaSpec((FieldSpec("NOTE", "string"), FieldSpec("price", "decimal(20,3)"), FieldSpec("at", "string")))
    text = NOON if database.scheme == "postgresql" else f"{NOON}.000000"
    assert database.rows("orders", schema=fields) == [{"NOTE": "x", "price": Decimal("1.500"), "at": text}]
    with raises(EnvironmentProblem, "s", "'id'", "string") as told:
        database.rows("orders", schema=SchemaSpec((FieldSpec("id", "string"),)))
    assert told.value.remedy.endswith("or set engine: spark")


def test_times_without_a_zone_are_instants_of_the_zone_of_the_source(database: Database) -> None:
    kind = "timestamp" if database.scheme == "postgresql" else "datetime"
    texts = {
        "2026-03-08 02:30:00": "2026-03-08T07:30:00+00:00",  # left out by the clocks there
        "2026-11-01 01:30:00": "2026-11-01T05:30:00+00:00",  # shown twice
        "9999-07-01 00:00:00": "9999-07-01T04:00:00+00:00",
        "1800-01-01 00:00:00": "1800-01-01T04:56:02+00:00",
    }
    selected = " union all ".join(f"select cast('{each}' as {kind}) as t" for each in texts)
    found = database.rows(f"{selected} union all select null", zone="America/New_York")
    assert [row["t"] and row["t"].astimezone(UTC).isoformat() for row in found] == [*texts.values(), None]


def test_the_last_rule_of_a_zone_holds_for_all_later_years() -> None:
    """Java does the same; clocks of these zones were once changed in summer, or no more."""
    start = datetime(1970, 1, 1)
    given = {
        "Europe/Istanbul": [("9999-12-31T23:59:59", 3), ("2370-07-01T00:00:00", 3)],
        "America/Sao_Paulo": [("9999-12-31T23:59:59", -3), ("2400-01-15T00:00:00", -3)],
        "America/New_York": [("2380-03-20T12:00:00", -4), ("2370-01-01T00:00:00", -5), ("9999-07-01T00:00:00", -4)],
    }
    for zone, expected in given.items():
        for text, hours in expected:
            micros = (datetime.fromisoformat(text) - start) // timedelta(microseconds=1)
            years = 146_097 * 86_400_000_000
            times = [micros, *([micros + years] if text.startswith("9999") else [])]
            found = instants(pa.array(times, pa.int64()).view(pa.timestamp("us")), zone).cast(pa.int64()).to_pylist()
            assert found == [each - hours * 3_600_000_000 for each in times], (zone, text)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"url": "jdbc:oracle:thin:@db:1521/x"}, "driver … jdbc:oracle"),
        ({"url": "jdbc:sqlserver://db:1433;databaseName=x"}, "driver … jdbc:sqlserver"),
        ({"properties": Options({"sessionInitStatement": "set x"})}, "'sessioninitstatement' … JDBC driver"),
        ({"properties": Options({"tinyInt1isBit": "true"})}, "'tinyint1isbit' … JDBC driver"),
        ({"user": None}, "no user"),
    ],
)
def test_what_only_spark_can_do_is_told_with_the_remedy(in_postgres: Database, given: Any, told: str) -> None:
    with raises(EnvironmentProblem, "s", told, "engine: spark"):
        in_postgres.reader("orders", **given)


def test_a_driver_that_is_missing_is_told_with_the_remedy(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("psycopg", "pymysql"):
        monkeypatch.setitem(sys.modules, name, None)
    extra = "tidegate[postgres]" if database.scheme == "postgresql" else "tidegate[mysql]"
    with raises(EnvironmentProblem, "s", "driver", "engine: spark") as told:
        database.reader("orders")
    assert told.value.remedy == f"install '{extra}', or set engine: spark"


@pytest.mark.parametrize(
    ("what", "remedy"),
    [
        ("no_such", "correct the table or the query"),
        ("select nothing from orders", "correct filter_expression, the query or watermark_columns"),
    ],
)
def test_what_the_database_refuses_is_told_in_its_words(database: Database, what: str, remedy: str) -> None:
    with pytest.raises(SourceError) as told:
        database.rows(what)
    assert remedy in told.value.remedy
    assert told.value.__cause__ is None


def test_a_password_shows_nowhere(database: Database) -> None:
    wrong = database.reader("orders", "id", password=Secret("canary-wrong"))
    with raises(TidegateError, "s", "user and password") as told:
        wrong.greatest(RowFilter((ColumnRange("id"),)))
    assert "correct user and password" in told.value.remedy
    assert "canary" not in str(told.value)


def test_work_units_are_read_in_their_ranges_and_only_the_bad_one_fails(database: Database, tmp_path: Path) -> None:
    add(database, *((number, f"2026-03-0{number} 12:00:00") for number in (1, 2, 3)))
    database.execute("update orders set note = 'a'")
    query = "select id, at, 1 / (3 - id) as part from orders where note = {{survey}}"
    read = replace(database.read, query=query if database.scheme == "postgresql" else query.replace("1 /", "1.0 /"))
    days = [int(datetime(2026, 3, day, tzinfo=UTC).timestamp() * 1000) for day in (1, 2, 3, 4)]
    table = Location((tmp_path / "table").as_uri())
    for fields in ((), (FieldSpec("ID", "int64"),)):
        source = UnitSource("db", read, time_column="at")
        pipeline = PipelineSpec("p", (source,), SchemaSpec(fields, infer=not fields), SinkSpec(table))
        works = [UnitWork(unit, days[0], tuple(pairwise(days[:3])), {"survey": unit}) for unit in ("a", "none")]
        works.append(UnitWork("a", days[2], ((days[2], days[3]),), {"survey": "a' or 1 = 1"}))
        done = InProcessEngine().carry_out(UnitWave(pipeline, source, tuple(works), table, MARCH))
        whole, nothing, hostile = done.results
        assert isinstance(whole, UnitWritten)
        rows = [row for each in whole.data_files for row in pq.read_table(tmp_path / "table" / each.path).to_pylist()]
        assert [(row["id" if not fields else "ID"], row["_tidegate_segment"].day) for row in rows] == [(1, 1), (2, 2)]
        assert (nothing, hostile) == (UnitWritten(), UnitWritten())
    bad = replace(source, read=replace(read, query="select id, no_such from orders"), time_column=None)
    (failed,) = InProcessEngine().carry_out(UnitWave(pipeline, bad, (works[0],), table, MARCH)).results
    assert isinstance(failed, UnitFailure)
    assert "no_such" in failed.problem


def greeting(plugin: bytes) -> bytes:
    """The first packet of a server of MySQL 8 without TLS."""
    can = (1 << 9 | 1 << 15 | 1 << 19).to_bytes(4, "little")
    first = b"\x0a8.0.0\0" + bytes(4) + b"s" * 8 + b"\0" + can[:2] + bytes(3) + can[2:] + b"\x15" + bytes(10)
    return first + b"s" * 12 + b"\0" + plugin + b"\0"


CUT, NATIVE, SHA2 = b"\x0aabc\0", greeting(b"mysql_native_password"), greeting(b"caching_sha2_password")
SWITCH = b"\xfe%s\0" + b"a" * 32 + b"\0"


@pytest.mark.parametrize(
    ("packets", "told", "remedy"),
    [
        ((SHA2, b"\x01\x04", b"\x01key"), "'cryptography'", "PyMySQL[rsa]"),
        ((NATIVE, SWITCH % b"client_ed25519"), "'pynacl'", "PyMySQL[ed25519]"),
        ((NATIVE, SWITCH % b"mysql_clear_password"), "cleartext", "TLS"),
        ((NATIVE, b"\xfedialog\0\x04Password: "), "cleartext", "TLS"),
        ((CUT,), "driver … unpack", "host and port"),
        ((), "Lost connection", "host and port"),
    ],
)
@pytest.mark.parametrize("scheme", ["mysql", "mariadb"])
def test_a_login_that_fails_is_an_error_of_its_source_and_gives_no_password_away(
    scheme: str, packets: tuple[bytes, ...], told: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pymysql._auth._have_cryptography", False)
    monkeypatch.setitem(sys.modules, "nacl", None)
    received: list[bytes] = []

    class Server(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            for number, packet in enumerate(packets):
                self.request.sendall(len(packet).to_bytes(3, "little") + bytes([2 * number]) + packet)
                received.append(self.request.recv(4096))

    with socketserver.TCPServer(("127.0.0.1", 0), Server) as server:
        serving = threading.Thread(target=lambda: [server.handle_request() for _ in range(2)], daemon=True)
        serving.start()
        read = JdbcRead(f"jdbc:{scheme}://127.0.0.1:{server.server_address[1]}/shop", user="me", table="orders")
        read = replace(read, password=Secret("canary"))
        with raises(SourceError, "s", told, remedy) as refused:
            DatabaseReader(ColumnSource("s", read, ()), read, SchemaSpec()).read(RowFilter())
        above = RowFilter((ColumnRange("id", Bound(1)),))
        with pytest.raises(NoAnswer):
            nulls_if_idle(ColumnSource("s", read, ("id",)), above)
        serving.join(60)
    assert "canary" not in str(refused.value)
    assert b"canary" not in b"".join(received)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("jdbc:mysql://a..b:3306/x", "'idna' codec"),
        ("jdbc:postgresql://a..b:5432/x", "'idna' codec"),
        ("jdbc:mariadb://no-such-host.invalid/x", "Can't connect to MySQL server"),
        ("jdbc:postgresql://no-such-host.invalid/x", "failed to resolve host"),
    ],
)
def test_a_host_that_is_none_is_an_error_of_its_source(url: str, told: str) -> None:
    read = JdbcRead(url, user="me", password=Secret("canary"), table="orders")
    with raises(SourceError, "s", told, "host and port"):
        DatabaseReader(ColumnSource("s", read, ()), read, SchemaSpec()).read(RowFilter())


def test_what_cannot_be_a_number_of_a_port_or_of_rows_is_refused() -> None:
    read = JdbcRead("jdbc:mysql://localhost:99999/x", user="me", table="orders")
    with raises(SourceError, "s", "99999", "url"):
        DatabaseReader(ColumnSource("s", read, ()), read, SchemaSpec())
    with raises(ConfigError, "fetch_size", "0", "1"):
        replace(read, fetch_size=0)


@needs_mariadb
def test_no_setting_of_the_server_cuts_the_rows(in_mariadb: Database, mariadb: mariadb_server.Server) -> None:
    in_mariadb.execute("create table many (id int); insert into many values (1), (2), (3)")
    mariadb.execute("set global sql_select_limit = 1, autocommit = 0")
    try:
        assert [row["id"] for row in in_mariadb.rows("many")] == [1, 2, 3]
    finally:
        mariadb.execute("set global sql_select_limit = default, autocommit = 1")
