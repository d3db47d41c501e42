"""A pass that finds nothing new in a database or a table starts no Spark, and everything else is left to Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, TableFeatures, write_deltalake
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

from servers import mariadb as mariadb_server
from servers import postgres as postgres_server
from support.changes import moved
from support.iceberg_tables import add, new_table
from tidegate import SourceReport, load
from tidegate.core.columns.state import ColumnState
from tidegate.observe.events import Event, Notice, RowsLeftOut
from tidegate.runs.bind import bind
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop
from tidegate.sources import idle
from tidegate.sources.reader import GreatestValues
from tidegate.specs.columns import Value

MARCH = datetime(2026, 3, 1, 10, 0, 0, 123456, tzinfo=UTC)
needs_mariadb = pytest.mark.skipif(not mariadb_server.is_possible(), reason="its programs are for Linux on x86-64")


class Asked(Exception):
    """Spark would have started."""


class Unstarted(InProcessEngine):
    """An engine that has not begun; ``finds`` is what its reader would find."""

    is_ready = False

    def __init__(self, finds: GreatestValues | None) -> None:
        self.finds = finds

    def reader(self, *_: Any) -> Any:
        if self.finds is None:
            raise Asked
        return self

    fixed_first = True

    def greatest(self, _: Any) -> GreatestValues:
        assert self.finds is not None
        return self.finds


@dataclass
class Shop:
    """The pipeline ``orders``, whose source is at a watermark; what it told is in ``seen``."""

    folder: Path
    source: Mapping[str, Any]
    connection: Mapping[str, Any] | None = None
    load: str = "append"
    seen: list[Event] = field(default_factory=list)

    @property
    def config(self) -> Path:
        connections = {} if self.connection is None else {"shop": self.connection}
        sink = {"table_uri": "lake/orders", "load_type": self.load, "merge_keys": ["id"]}
        sink = sink if self.load != "append" else {"table_uri": "lake/orders"}
        pipelines = {"orders": {"source": self.source, "sink": sink}}
        path = self.folder / "tidegate.yml"
        path.write_text(json.dumps({"connections": connections, "pipelines": pipelines}))
        return path

    def is_at(self, inclusive: bool = False, **values: Value | None) -> Shop:
        """Commit this watermark, as an earlier run would have."""
        project = load(self.config)
        bound = bind(project, project.pipelines[0], project.pipelines[0].sources[0])
        state = ColumnState(values, frozenset(values) if inclusive else frozenset(), MARCH)
        encoded = bound.tracker.encode(state)
        schema = pa.schema([("id", pa.int64())])
        bound.positions.commit(bound.positions.open(), moved(encoded, schema))
        return self

    def run(self, finds: GreatestValues | None = None) -> SourceReport:
        project = load(self.config)
        self.seen.clear()
        (report,) = Loop(project, Unstarted(finds), 1, self.seen.append).once(project.pipelines).sources
        return report

    def is_idle(self) -> bool:
        """Whether a pass ended without Spark; it commits nothing."""
        try:
            report = self.run()
        except Asked:
            return False
        assert report.error is None, report.error
        assert report.commits == 0
        return True

    def notices(self) -> list[str]:
        return [event.text for event in self.seen if isinstance(event, Notice)]


COLUMNS = "id bigint, at {moment}, local {time}, day date, price decimal(12,2), code varchar(20)"
ROW = "(7, '2026-03-01 10:00:00.123456', '2026-03-01 10:00:00.123456', '2026-03-01', 1.50, 'b')"
AT = {
    "id": 7,
    "at": MARCH,
    "local": MARCH.replace(tzinfo=None),
    "day": date(2026, 3, 1),
    "price": Decimal("1.50"),
    "code": "b",
}
BELOW = {
    "id": 6,
    "at": MARCH.replace(microsecond=123455),
    "local": MARCH.replace(microsecond=123455, tzinfo=None),
    "day": date(2026, 2, 28),
    "price": Decimal("1.49"),
    "code": "B",
}


@dataclass
class Database:
    """A database with a table ``orders`` of one row and one that has no watermark."""

    connection: Mapping[str, Any]
    execute: Any

    def shop(self, folder: Path, *columns: str, **source: Any) -> Shop:
        given = {"connection": "shop", "table": "orders", "watermark_columns": list(columns), **source}
        return Shop(folder, given, self.connection)


def in_postgres(server: postgres_server.Server) -> Database:
    name = server.new_database()

    def execute(statement: str) -> None:
        with server.connect(name) as connection:
            connection.execute(statement.encode())

    execute(f"create table orders ({COLUMNS.format(moment='timestamptz', time='timestamp')})")
    execute(f"insert into orders values {ROW}, (null, null, null, null, null, null)")
    given = {"user": postgres_server.USER, "password": postgres_server.PASSWORD}
    return Database({"type": "jdbc", "url": server.jdbc_url(name), **given}, execute)


def in_mariadb(server: mariadb_server.Server, scheme: str = "mariadb") -> Database:
    name = server.new_database()

    def execute(statement: str) -> None:
        server.execute(f"set time_zone = '+00:00'; {statement}", name)

    kinds = COLUMNS.format(moment="timestamp(6) null", time="datetime(6)")
    execute(f"create table orders ({kinds})")
    execute(f"insert into orders values {ROW}, (null, null, null, null, null, null)")
    given = {"user": mariadb_server.USER, "password": mariadb_server.PASSWORD}
    return Database({"type": "jdbc", "url": server.jdbc_url(name, scheme), **given}, execute)


@pytest.fixture(params=["postgresql", pytest.param("mariadb", marks=needs_mariadb)])
def database(request: pytest.FixtureRequest) -> Database:
    if request.param == "postgresql":
        return in_postgres(request.getfixturevalue("postgres"))
    return in_mariadb(request.getfixturevalue("mariadb"))


class TestDatabases:
    """PostgreSQL and MariaDB are asked by drivers of Python."""

    def test_a_watermark_of_any_kind_at_the_greatest_value_is_idle(self, database: Database, tmp_path: Path) -> None:
        for column, value in AT.items():
            (tmp_path / column).mkdir()
            shop = database.shop(tmp_path / column, column).is_at(**{column: value})
            assert shop.is_idle(), column
            left_out = [event for event in shop.seen if isinstance(event, RowsLeftOut)]
            assert [(event.reason, event.count) for event in left_out] == [("null_watermark", 1)]

    def test_a_row_above_the_watermark_is_left_to_spark(self, database: Database, tmp_path: Path) -> None:
        for column, value in BELOW.items():
            (tmp_path / column).mkdir()
            assert not database.shop(tmp_path / column, column).is_at(**{column: value}).is_idle(), column

    def test_a_new_row_and_an_updated_one_end_the_peace(self, database: Database, tmp_path: Path) -> None:
        shop = database.shop(tmp_path, "id", "at").is_at(id=7, at=MARCH)
        assert shop.is_idle()
        database.execute("insert into orders (id) values (8)")
        assert not shop.is_idle()
        database.execute("delete from orders where id = 8")
        assert shop.is_idle()
        database.execute("update orders set at = '2026-03-01 10:00:00.123457' where id = 7")
        assert not shop.is_idle()

    def test_a_row_at_the_value_counts_where_the_bound_is_inclusive(self, database: Database, tmp_path: Path) -> None:
        assert not database.shop(tmp_path, "id").is_at(inclusive=True, id=7).is_idle()

    def test_a_column_that_had_no_value_is_new_with_its_first(self, database: Database, tmp_path: Path) -> None:
        database.execute("update orders set price = null")
        shop = database.shop(tmp_path, "id", "price").is_at(id=7, price=None)
        assert shop.is_idle()
        database.execute("update orders set price = 1 where id = 7")
        assert not shop.is_idle()

    def test_a_cursor_is_compared_as_a_whole(self, database: Database, tmp_path: Path) -> None:
        shop = database.shop(tmp_path, "day", "id", watermark_mode="tuple").is_at(day=date(2026, 3, 1), id=7)
        assert shop.is_idle()
        database.execute("insert into orders (day, id) values ('2026-03-01', 8)")
        assert not shop.is_idle()

    def test_a_look_back_reads_again(self, database: Database, tmp_path: Path) -> None:
        shop = database.shop(tmp_path, "at", backward={"days": 1})
        shop.load = "merge_upsert"
        assert not shop.is_at(at=MARCH).is_idle()

    def test_rows_without_a_watermark_stop_the_run_where_they_must(self, database: Database, tmp_path: Path) -> None:
        report = database.shop(tmp_path, "id", null_watermark="error").is_at(id=7).run()
        assert "1 row has null in every watermark column" in (report.error or "")

    def test_rows_without_a_watermark_are_read_where_they_are_wanted(self, database: Database, tmp_path: Path) -> None:
        shop = database.shop(tmp_path, "id", null_watermark="include")
        shop.load = "merge_upsert"
        assert not shop.is_at(id=7).is_idle()

    def test_queries_and_filters_are_asked_as_they_are(self, database: Database, tmp_path: Path) -> None:
        database.execute("insert into orders (id, code) values (8, 'test % 1')")
        shop = database.shop(tmp_path, "id", filter_expression="code not like 'test %'").is_at(id=7)
        assert shop.is_idle()
        shop.source = {**shop.source, "filter_expression": "code like 'test %'"}
        assert not shop.is_idle()
        (tmp_path / "query").mkdir()
        query = {"table": None, "query": "select id from orders where id < 8 -- a comment"}
        given = {**database.shop(tmp_path, "id").source, **query}
        del given["table"]
        assert Shop(tmp_path / "query", given, database.connection).is_at(id=7).is_idle()

    def test_a_first_run_and_a_column_of_another_type_are_left_to_spark(
        self, database: Database, tmp_path: Path
    ) -> None:
        with pytest.raises(Asked):
            database.shop(tmp_path, "id").run()
        (tmp_path / "other").mkdir()
        assert not database.shop(tmp_path / "other", "code").is_at(code=7).is_idle()

    def test_what_the_database_refuses_is_left_to_spark_and_told_without_its_words(
        self, database: Database, tmp_path: Path
    ) -> None:
        shop = database.shop(tmp_path, "id").is_at(id=7)
        shop.connection = {**database.connection, "password": "another-password"}
        shop.run(GreatestValues())
        (told,) = shop.notices()
        assert told.startswith("Spark had to start although nothing is new: Tidegate could not query it without Spark")
        assert "another-password" not in told

    def test_settings_of_the_jdbc_driver_that_may_matter_are_left_to_it(
        self, database: Database, tmp_path: Path
    ) -> None:
        shop = database.shop(tmp_path, "id").is_at(id=7)
        shop.connection = {**database.connection, "properties": {"sslfactory": "org.example.Factory"}}
        shop.run(GreatestValues())
        assert shop.notices() == [
            "Spark had to start although nothing is new: the setting 'sslfactory' works only with its JDBC driver"
        ]
        shop.connection = {**database.connection, "properties": {"ApplicationName": "shop", "connectTimeout": "5"}}
        assert shop.is_idle()

    def test_without_a_driver_it_is_told_what_to_install(
        self, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shop = database.shop(tmp_path, "id").is_at(id=7)
        for name in ("psycopg", "pymysql"):
            monkeypatch.setitem(sys.modules, name, None)
        shop.run(GreatestValues())
        (told,) = shop.notices()
        assert "install 'tidegate[" in told


@needs_mariadb
def test_the_address_of_mysql_goes_to_the_same_driver_and_bytes_are_no_text(
    mariadb: mariadb_server.Server, tmp_path: Path
) -> None:
    database = in_mariadb(mariadb, "mysql")
    assert database.shop(tmp_path, "code").is_at(code="b").is_idle()
    database.execute("alter table orders modify code varbinary(20)")
    assert not database.shop(tmp_path, "code").is_idle()


def test_the_session_of_a_database_is_in_utc_whatever_the_zone_of_its_role(
    postgres: postgres_server.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = in_postgres(postgres)
    name = database.connection["url"].rpartition("/")[2]
    database.execute(f"alter database {name} set timezone = 'Asia/Tokyo'")
    monkeypatch.setenv("PGOPTIONS", "-c search_path=nowhere")
    monkeypatch.setenv("PGTZ", "Asia/Tokyo")
    shop = database.shop(tmp_path, "id", filter_expression="at > '2026-03-01 10:00:00'").is_at(id=6)
    assert not shop.is_idle()
    shop.source = {**shop.source, "filter_expression": "at > '2026-03-01 10:00:01'"}
    assert shop.is_idle()


def test_a_pooler_that_refuses_options_and_mixes_sessions_is_asked_without_them_in_one_transaction(
    postgres: postgres_server.Server, tmp_path: Path
) -> None:
    with postgres_server.without_options(postgres) as pooler:
        database = in_postgres(postgres)
        name = database.connection["url"].rpartition("/")[2]
        database.execute(f"alter database {name} set timezone = 'Asia/Tokyo'")
        database = replace(database, connection={**database.connection, "url": pooler.jdbc_url(name)})
        when = "transaction_timestamp() < statement_timestamp() and at > '2026-03-01 10:00:0{}'"
        shop = database.shop(tmp_path, "id", filter_expression=when.format(1)).is_at(id=6)
        assert shop.is_idle()
        shop.source = {**shop.source, "filter_expression": when.format(0)}
        assert not shop.is_idle()


@pytest.mark.parametrize("name", ["PGHOSTADDR", "PGSERVICE"])
def test_the_environment_does_not_decide_which_server_of_postgresql_is_asked(
    postgres: postgres_server.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The wrong one has the same database without the new row."""
    database = in_postgres(postgres)
    shop = database.shop(tmp_path, "id").is_at(id=7)
    there = database.connection["url"].rpartition("/")[2]
    with postgres_server.with_impostor(postgres) as (address, other):
        with other.connect() as connection:
            connection.execute(f"create database {there}".encode())
        with other.connect(there) as connection:
            connection.execute(b"create table orders (id bigint)")
        services = tmp_path / "services"
        services.write_text(f"[wrong]\nhostaddr={address}\n")
        monkeypatch.setenv("PGSERVICEFILE", str(services))
        monkeypatch.setenv(name, address if name == "PGHOSTADDR" else "wrong")
        database.execute("insert into orders (id) values (8)")
        assert not shop.is_idle()
        shop.run(GreatestValues())
        (told,) = shop.notices()
        assert told.endswith(f"the environment variable {name} would change the connection")


def test_a_plus_in_the_address_is_left_to_the_jdbc_driver_which_reads_a_blank(
    postgres: postgres_server.Server, tmp_path: Path
) -> None:
    """Nothing is new in the database that has the plus in its name."""
    made = in_postgres(postgres)
    name = f"a+{tmp_path.name}"
    with postgres.connect() as connection:
        template = made.connection["url"].rpartition("/")[2]
        connection.execute(f'create database "{name}" template {template}'.encode())
    database = replace(made, connection={**made.connection, "url": postgres.jdbc_url(name)})
    assert not database.shop(tmp_path, "id").is_at(id=7).is_idle()


PROGRAM = """
import sys
from tidegate import run
(source,) = run(sys.argv[1]).sources
print(source.error, source.state, "pyspark" in sys.modules)
"""


@pytest.mark.slow
def test_an_idle_run_does_not_even_load_spark(postgres: postgres_server.Server, tmp_path: Path) -> None:
    shop = in_postgres(postgres).shop(tmp_path, "at").is_at(at=MARCH)
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(shop.config)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["None", "Idle", "False"]


def delta_rows(*rows: Mapping[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(
        [dict(row) for row in rows],
        pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("code", pa.string()), ("x", pa.float64())]),
    )


class TestDelta:
    """Delta tables are asked by the statistics of their log, and by their files where those are rounded."""

    def shop(self, folder: Path, *columns: str, **source: Any) -> Shop:
        write_deltalake(folder / "source", delta_rows({"id": 1, "at": MARCH.replace(day=2, month=2), "code": "a"}))
        write_deltalake(folder / "source", delta_rows({"id": 2, "at": MARCH, "code": "b" * 100}), mode="append")
        return Shop(folder, {"type": "delta", "source_uri": "source", "watermark_columns": list(columns), **source})

    def test_a_watermark_at_the_greatest_value_is_idle(self, tmp_path: Path) -> None:
        for column, value in {"id": 2, "at": MARCH, "code": "b" * 100}.items():
            (tmp_path / column).mkdir()
            assert self.shop(tmp_path / column, column).is_at(**{column: value}).is_idle(), column

    def test_a_row_a_microsecond_above_is_left_to_spark(self, tmp_path: Path) -> None:
        shop = self.shop(tmp_path, "at").is_at(at=MARCH)
        assert shop.is_idle()
        write_deltalake(
            tmp_path / "source", delta_rows({"id": 3, "at": MARCH.replace(microsecond=123457)}), mode="append"
        )
        assert not shop.is_idle()

    def test_a_row_at_the_value_counts_where_the_bound_is_inclusive(self, tmp_path: Path) -> None:
        assert not self.shop(tmp_path, "id").is_at(inclusive=True, id=2).is_idle()

    def test_a_cursor_is_compared_as_a_whole(self, tmp_path: Path) -> None:
        shop = self.shop(tmp_path, "at", "id", watermark_mode="tuple").is_at(at=MARCH, id=2)
        assert shop.is_idle()
        write_deltalake(tmp_path / "source", delta_rows({"id": 3, "at": MARCH}), mode="append")
        assert not shop.is_idle()

    def test_rows_without_a_watermark_are_counted(self, tmp_path: Path) -> None:
        shop = self.shop(tmp_path, "at").is_at(at=MARCH)
        write_deltalake(tmp_path / "source", delta_rows({"id": 3}, {"id": 4}), mode="append")
        assert shop.is_idle()
        assert [event.count for event in shop.seen if isinstance(event, RowsLeftOut)] == [2]

    def test_floating_point_numbers_and_tables_of_other_features_are_left_to_spark(self, tmp_path: Path) -> None:
        assert not self.shop(tmp_path, "x").is_at(x=1.5).is_idle()
        (tmp_path / "mapped").mkdir()
        shop = self.shop(tmp_path / "mapped", "id").is_at(id=2)
        assert shop.is_idle()
        DeltaTable(tmp_path / "mapped" / "source").alter.add_feature(
            [TableFeatures.DeletionVectors], allow_protocol_versions_increase=True
        )
        assert not shop.is_idle()

    def test_statistics_that_are_missing_prove_nothing(self, tmp_path: Path) -> None:
        shop = self.shop(tmp_path, "id").is_at(id=2)
        DeltaTable(tmp_path / "source").alter.set_table_properties({"delta.dataSkippingStatsColumns": "code"})
        write_deltalake(tmp_path / "source", delta_rows({"id": 3}), mode="append")
        assert not shop.is_idle()

    def test_partition_columns_are_known_by_the_log(self, tmp_path: Path) -> None:
        rows = pa.table({"id": [1, 2], "day": pa.array([date(2026, 3, 1), date(2026, 3, 2)])})
        write_deltalake(tmp_path / "source", rows, partition_by=["day"])
        shop = Shop(tmp_path, {"type": "delta", "source_uri": "source", "watermark_columns": ["day"]})
        assert shop.is_at(day=date(2026, 3, 3)).is_idle()


class TestIceberg:
    """Iceberg tables are asked by their manifests, and by the files that those do not rule out."""

    SCHEMA = Schema(
        NestedField(1, "id", LongType()), NestedField(2, "at", TimestamptzType()), NestedField(3, "code", StringType())
    )

    def test_only_what_the_table_proves_is_idle(self, tmp_path: Path) -> None:
        table = new_table(tmp_path, "orders", self.SCHEMA)
        add(table, [{"id": 1, "at": MARCH, "code": "a" * 30 + "b"}])
        for column, value in {"id": 1, "at": MARCH, "code": "a" * 30 + "b"}.items():
            (tmp_path / column).mkdir()
            source = {"type": "iceberg", "source_uri": str(tmp_path / "orders"), "watermark_columns": [column]}
            shop = Shop(tmp_path / column, source).is_at(**{column: value})
            assert shop.is_idle(), column
        add(table, [{"id": 2, "at": MARCH.replace(microsecond=123457), "code": "a" * 30 + "c"}])
        for column in ("id", "at", "code"):
            source = {"type": "iceberg", "source_uri": str(tmp_path / "orders"), "watermark_columns": [column]}
            assert not Shop(tmp_path / column, source).is_idle(), column

    def test_rows_without_a_watermark_are_counted_by_spark(self, tmp_path: Path) -> None:
        table = new_table(tmp_path, "orders", self.SCHEMA)
        add(table, [{"id": 1}, {"at": MARCH}])
        source = {"type": "iceberg", "source_uri": str(tmp_path / "orders"), "watermark_columns": ["id"]}
        assert not Shop(tmp_path, source).is_at(id=1).is_idle()


def test_a_source_of_another_kind_is_left_to_spark(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    shop = Shop(tmp_path, {"type": "parquet", "source_uri": "rows", "watermark_columns": ["id"]}).is_at(id=1)
    assert not shop.is_idle()
    assert idle.NoAnswer().reason == ""
