"""PostgreSQL read by ADBC gives the bounds, rows and refusals that JDBC gives, or stops where it would not."""

from __future__ import annotations

import pickle
import random
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as f

from servers import postgres as postgres_server
from support import attached
from support.database_types import POSTGRESQL, POSTGRESQL_UNFIT
from support.errors import raises
from support.long_runs import examples
from support.shop import Shop
from tidegate.core.columns.predicates import Bound, ColumnRange, RowFilter
from tidegate.errors import SourceError
from tidegate.sources import adbc
from tidegate.sources.adbc import share_rows
from tidegate.sources.exact import ExactColumn, exact
from tidegate.sources.reader import GreatestValues
from tidegate.spark import frames
from tidegate.spark.readers.jdbc import AdbcRows, JdbcReader
from tidegate.spark.readers.jdbc_columns import _exact
from tidegate.specs.columns import ColumnSource, JdbcRead, RowReader, WatermarkMode
from tidegate.specs.locations import Secret
from tidegate.specs.table import FieldSpec, SchemaSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType

pytestmark = pytest.mark.spark

NOT_BY_ADBC = ("bit(1)", "integer[]", "text[]")
SEED = 16


@dataclass(frozen=True, slots=True)
class Server:
    """A database, and readers of it by either driver."""

    spark: SparkSession
    server: postgres_server.Server
    database: str

    def execute(self, statement: str, *values: Any) -> None:
        with self.server.connect(self.database) as connection:
            connection.execute(statement.encode(), values or None)

    def reader(
        self,
        query: str,
        *columns: str,
        by: RowReader | None = RowReader.ADBC,
        schema: SchemaSpec | None = None,
        **more: Any,
    ) -> JdbcReader:
        user, password = postgres_server.USER, Secret(postgres_server.PASSWORD)
        read = JdbcRead(self.server.jdbc_url(self.database), user=user, password=password, query=query, parallelism=1)
        read = replace(read, reader=by, **more)
        return JdbcReader(self.spark, ColumnSource("types", read, columns), read, schema or SchemaSpec())

    def both(self, query: str, rows: RowFilter | None = None, **more: Any) -> tuple[pa.Table, pa.Table]:
        """The rows by ADBC, and the rows by JDBC."""
        wanted = rows or RowFilter()
        by_jdbc: Any = self.reader(query, by=RowReader.JDBC, **more).read(wanted)
        found = by_jdbc.toArrow()
        return table_of(self.reader(query, by=RowReader.ADBC, **more).read(wanted)), found


def table_of(rows: Any) -> pa.Table:
    assert isinstance(rows, AdbcRows)
    return pa.Table.from_batches(chain.from_iterable(share_rows(each) for each in rows.shares))


@pytest.fixture(scope="module")
def server(spark: SparkSession, postgres: postgres_server.Server) -> Server:
    made = Server(spark, postgres, postgres.new_database())
    columns = ", ".join(f"c{index} {each.sql}" for index, each in enumerate(POSTGRESQL))
    values = ", ".join(each.literal for each in POSTGRESQL)
    made.execute(f"create table fit ({columns}); insert into fit values ({values}); insert into fit values (null)")
    return made


def test_every_type_has_the_values_that_jdbc_gives(server: Server) -> None:
    names = [f"c{index}" for index, each in enumerate(POSTGRESQL) if each.sql not in NOT_BY_ADBC]
    ours, theirs = server.both(f"select {', '.join(names)} from fit order by c0 nulls last")
    assert ours.to_pylist() == theirs.to_pylist()
    assert ours.schema.types == [each.type for each in theirs.schema]


def test_a_column_that_adbc_gives_otherwise_stops_the_run(server: Server) -> None:
    for index, each in enumerate(POSTGRESQL):
        if each.sql in NOT_BY_ADBC:
            with raises(SourceError, "ADBC", f"'c{index}'", "reader: adbc"):
                server.reader(f"select c{index} from fit").read(RowFilter())


def test_unset_reads_by_jdbc(server: Server) -> None:
    for by in (None, RowReader.JDBC):
        assert not isinstance(server.reader("select 1 as a", by=by).read(RowFilter()), AdbcRows)


def test_types_that_have_no_type_of_their_own_come_as_the_database_writes_them(server: Server) -> None:
    server.execute("create type mood as enum ('sad', 'it''s ok'); create type pair as (a int, b text)")
    server.execute("create domain code as varchar(5)")
    query = """select 'it''s ok'::mood as mood, '::1/64'::inet as net, '10.0.0.0/8'::cidr as block, 'ab'::code as code,
      'fat & rat'::tsquery as words, '$.a'::jsonpath as path, 'ab '::name as name,
      row(1, 'x y')::pair as pair, null::mood as none, '{"b": 1, "a": "é☃"}'::json as doc2"""
    ours, theirs = server.both(query)
    assert ours.to_pylist() == theirs.to_pylist()
    chars = ", ".join(f"""('{each}'::"char")""" for each in ("a", " ", "", "''", "\\200", "ab"))
    ours, theirs = server.both(f"select * from (values {chars}, (null)) t(a)")
    assert ours.to_pylist() == theirs.to_pylist()
    with raises(SourceError, "types", "ADBC", "'a'", "reader: adbc"):
        server.reader("select 17::oid as a").read(RowFilter())


def test_a_composite_value_with_nulls_in_it_is_not_null(server: Server) -> None:
    server.execute("create type entry as (a int, b text); create domain checked as entry")
    values = ["(1, null)::entry", "(null, null)::entry", "(1, null)::entry::checked", "(null, null)::entry::checked"]
    values += ["null::entry", "null::checked", "(1, 'x')::entry", "array[(1, null)::entry]"]
    named = ", ".join(f"{value} as c{index}" for index, value in enumerate(values))
    ours, theirs = server.both(f"select {named}")
    assert ours.to_pylist() == theirs.to_pylist()
    assert list(ours.to_pylist()[0].values()) == ["(1,)", "(,)", "(1,)", "(,)", None, None, "(1,x)", '{"(1,)"}']


def test_a_value_that_fits_no_type_is_refused_in_the_same_words(server: Server) -> None:
    for each in POSTGRESQL_UNFIT:
        query = f"select {each.literal}::{each.sql} as c"
        with pytest.raises(SourceError) as refused:
            table_of(server.reader(query).read(RowFilter()))
        assert refused.value.problem == each.told
        assert "declare it as string" in refused.value.remedy
        texts = SchemaSpec((FieldSpec("c", "string"),))
        told = table_of(server.reader(query, schema=texts).read(RowFilter())).to_pylist()
        assert each.told.startswith(f"column 'c' holds {told[0]['c']}, which")


def test_declared_columns_are_read_by_adbc_where_they_need_no_other_conversion(server: Server) -> None:
    query = "select 1.5::numeric as a, 2 as b, 'x'::text as c"
    fields = SchemaSpec((FieldSpec("C", "string"), FieldSpec("a", "decimal(20,3)")))
    ours, theirs = server.both(query, schema=fields)
    assert ours.to_pylist() == theirs.to_pylist() == [{"C": "x", "a": Decimal("1.500")}]
    assert ours.schema.types == [each.type for each in theirs.schema]
    cast = SchemaSpec((FieldSpec("b", "string"),))
    with raises(SourceError, "types", "ADBC", "'b'", "int4", "string", "reader: adbc"):
        server.reader(query, schema=cast).read(RowFilter())


def generated(count: int) -> Iterator[tuple[Any, ...]]:
    """Rows of values all over their ranges, and at the ends of those."""
    drawn = random.Random(SEED)
    odd = ["0", "-0.00", "0.000000000000000001", "99999999999999999999.999999999999999999", "1" + "0" * 19, None]
    moments = ["0001-01-01", "9999-12-31 23:59:59.999999", "10000-01-01 00:00:00.1", "294246-12-31 23:59:59.5", None]
    days = ["0001-01-01", "9999-12-31", "10000-02-29", "99999-12-31", None]
    for number in range(count):
        wide = f"{drawn.randint(-(10**19), 10**19)}.{drawn.randint(0, 10**18 - 1):018}"
        moment = f"{drawn.randint(1, 9999):04}-01-01 00:00:00"
        span = f"{drawn.randint(0, 364)} days {drawn.randint(0, 86_399_999_999)} microseconds"
        yield (
            number,
            odd[number] if number < len(odd) else wide,
            drawn.choice([drawn.randint(-(10**11), 10**11) / 100, 0, None]),
            moments[number] if number < len(moments) else moment,
            "0" if number < len(moments) else span,
            days[number] if number < len(days) else moment[:10],
            drawn.choice([drawn.uniform(-1e38, 1e38), 0.1, float("nan"), float("-inf"), None]),
            drawn.choice([drawn.uniform(-1, 1) * 10 ** drawn.randint(-300, 300), 5e-324, None]),
            drawn.choice(["", " ", 'a,"b"\n\r\t\\.', "\\N", "☃" * drawn.randint(0, 50), None]),
            drawn.choice([drawn.randbytes(drawn.randint(0, 20)), b"", None]),
            drawn.choice([True, False, None]),
        )


def test_generated_values_are_those_that_jdbc_gives(server: Server) -> None:
    columns = "id int, wide numeric, price numeric(13,2), at timestamp, atz timestamptz, day date, f4 real"
    columns += ", f8 float8, words text, raw bytea, flag boolean"
    server.execute(f"create table generated ({columns})")
    with server.server.connect(server.database) as connection, connection.cursor() as cursor:
        cursor.executemany(
            "insert into generated values (%s, %s, %s, %s::timestamp + %s::interval, null, %s, %s, %s, %s, %s, %s)",
            list(generated(examples(4000, 600))),
        )
        cursor.execute("update generated set atz = at at time zone 'America/New_York'")
    for name in ("*", "id, f4, f8", "id, words, raw"):
        ours, theirs = server.both(f"select {name} from generated order by id")
        # as numbers: Python has no years of five digits, and NaN is not itself
        assert [bits(each) for each in ours.columns] == [bits(each) for each in theirs.columns]


def bits(column: pa.ChunkedArray) -> list[Any]:
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        column = column.cast(pa.int64() if pa.types.is_timestamp(kind) else pa.int32())
    return [repr(each) for each in column.to_pylist()]


TEXTS: dict[str, list[str]] = {
    "numeric": ["0", "-1.50", "12345678901234567890", "1.123456789012345678", "0.10000000000000000000", "NaN"],
    "timestamp": ["0001-01-01", "2026-03-08 02:30:00.5", "12026-01-01", "infinity", "0044-03-15 BC", "294276-12-31"],
    "date": ["0001-01-01", "9999-12-31", "12026-01-01", "infinity", "0001-12-31 BC", "5874897-12-31"],
}


@pytest.mark.parametrize("sql", TEXTS)
def test_java_and_arrow_agree_which_texts_of_the_database_are_values(server: Server, sql: str) -> None:
    """Numbers are judged for two sizes of a decimal."""
    from pyspark.sql.types import DateType, DecimalType, TimestampNTZType

    with server.server.connect(server.database) as connection:
        wanted = [*TEXTS[sql], *(["Infinity", "1e30", "-1e-20", "9" * 39] if sql == "numeric" else [])]
        written = [connection.execute(f"select '{each}'::{sql}::text".encode()).fetchone() for each in wanted]
    texts = [str(each[0]) for each in written if each]
    kinds: dict[str, list[tuple[DataType, pa.DataType]]] = {
        "numeric": [(DecimalType(*size), pa.decimal128(*size)) for size in ((38, 18), (4, 2))],
        "timestamp": [(TimestampNTZType(), pa.timestamp("us"))],
        "date": [(DateType(), pa.date32())],
    }
    for java, arrow in kinds[sql]:
        column, taken, refused = ExactColumn("c", arrow, java.simpleString()), {}, {}
        for text in texts:
            try:
                taken[text] = exact(pa.array([text]), column)[0]
            except SourceError as error:
                refused[text] = error.problem
        for text, problem in refused.items():
            bent = server.spark.createDataFrame([(text,)], "c string").select(_exact(f.col("c"), java, "c"))
            with raises(Exception, "tidegate refused", "column 'c'") as told:
                bent.collect()
            assert problem in str(told.value)
        frame = server.spark.createDataFrame([(each,) for each in taken], "c string")
        found = frame.select(_exact(f.col("c"), java, "c").alias("c")).toArrow().column("c").combine_chunks()
        assert found.equals(pa.array(taken.values(), arrow))


def test_bounds_are_those_that_jdbc_gives(server: Server) -> None:
    server.execute(
        """create table followed as select n as id, n::numeric / 3 as exact, md5(n::text) as code, n::real / 3 as f4,
          timestamptz '2026-03-01Z' + n * interval '1 us' as at, timestamp '2026-03-01' + n * interval '1 us' as local,
          date '2026-03-01' + n as day, md5(n::text)::uuid as ticket from generate_series(1, 50) n;
        insert into followed (id) values (51), (52)"""
    )
    columns = ("id", "exact", "code", "at", "local", "day", "ticket", "f4")
    query = "select * from followed"
    for column in columns:
        ours, theirs = (server.reader(query, column, by=each) for each in (RowReader.ADBC, RowReader.JDBC))
        every = RowFilter((ColumnRange(column),))
        greatest = theirs.greatest(every)
        assert ours.greatest(every) == greatest, column
        above = RowFilter((ColumnRange(column, Bound(greatest.values[column] or 0)),))
        assert ours.greatest(above) == GreatestValues({column: None}, greatest.nulls), column
    cursor = RowFilter((ColumnRange("day"), ColumnRange("exact")), WatermarkMode.TUPLE)
    ours, theirs = (server.reader(query, "day", "exact", by=each) for each in (RowReader.ADBC, RowReader.JDBC))
    assert ours.greatest(cursor) == theirs.greatest(cursor)


@pytest.mark.parametrize("key", ["key", "text_key"])
def test_shares_hold_every_row_once(server: Server, key: str) -> None:
    server.execute(
        f"""create table skewed_{key} as select n as id, case when n <= 900 then n else n * 1000000 end as key,
          md5(n::text) as text_key from generate_series(1, 1000) n;
        insert into skewed_{key} values (1001, null, null), (1002, 500, 'x'), (1003, null, null)"""
    )
    reader = server.reader(f"select * from skewed_{key}", "id", parallelism=4, fetch_size=100, partition_column=key)
    rows = reader.read(RowFilter((ColumnRange("id", Bound(3)),)))
    assert isinstance(rows, AdbcRows)
    sizes = [sum(batch.num_rows for batch in share_rows(each)) for each in rows.shares]
    assert len(sizes) == 4
    assert max(sizes) <= 260
    assert sorted(table_of(rows).column("id").to_pylist()) == list(range(4, 1004))


ORDERS = "id bigint primary key, at timestamptz, price numeric(12,2), note text"
FILL = "insert into orders select n, timestamptz '2026-03-01Z' + n * interval '1 ms', n / 7.0, 'n' || n from {} n"


def copies(shop: Shop, before: int) -> int:
    return sum("COPY (" in each for each in shop.server.statements()[before:])


@pytest.mark.parametrize("load", ["append", "merge_upsert"])
def test_runs_by_adbc_and_by_jdbc_take_turns_and_the_table_has_every_row_once(
    spark: SparkSession, postgres: postgres_server.Server, tmp_path: Path, load: str
) -> None:
    source: dict[str, Any] = {"watermark_columns": ["id"], "parallelism": 3, "fetch_size": 100}
    sink = {"load_type": load, **({"merge_keys": ["id"]} if load != "append" else {})}
    shop = Shop(postgres, tmp_path, ORDERS, source, sink)
    most = 0
    for reader, expected in (("adbc", 4), (None, 0), ("adbc", 4), ("jdbc", 0)):
        shop.source = {**source, **({} if reader is None else {"reader": reader})}
        shop.execute(FILL.format(f"generate_series({most + 1}, {most + 1000})"))
        before, most = len(postgres.statements()), most + 1000
        assert shop.go() == 1000
        assert copies(shop, before) >= expected
        assert reader == "adbc" or not copies(shop, before)
    assert shop.go() == 0
    assert shop.ids() == list(range(1, most + 1))
    found, wanted = shop.rows("at, price, note"), []
    with postgres.connect(shop.database) as connection:
        wanted = connection.execute("select at, price, note from orders order by id").fetchall()
    assert [(each["at"].astimezone(UTC), each["price"], each["note"]) for each in found] == wanted


def test_a_connection_that_ends_in_the_middle_commits_nothing_and_the_next_run_reads_all_of_it_once(
    spark: SparkSession, postgres: postgres_server.Server, tmp_path: Path
) -> None:
    source = {"table": "trapped", "watermark_columns": ["id"], "parallelism": 2, "fetch_size": 100, "reader": "adbc"}
    shop = Shop(postgres, tmp_path, ORDERS, source)
    shop.execute(f"create table trap as select true as armed; {FILL.format('generate_series(1, 200000)')}")
    shop.execute(
        """create view trapped as select id, price, note, case when id = 150000 and (select armed from trap)
          then pg_terminate_backend(pg_backend_pid()) end as ended from orders"""
    )
    told = shop.refused()
    assert "terminating connection" in told
    assert "nothing is lost, run again" in told
    shop.execute("update trap set armed = false")
    assert shop.go() == 200_000
    assert shop.go() == 0
    assert shop.rows("count(*) as n, count(distinct id) as ids, max(id) as id") == [
        {"n": 200_000, "ids": 200_000, "id": 200_000}
    ]


@pytest.mark.slow
def test_a_kill_anywhere_loses_and_doubles_no_row(
    spark: SparkSession, postgres: postgres_server.Server, tmp_path: Path
) -> None:
    """Around the commit, and while rows are fetched: there the database sleeps until the run is dead."""
    source = {"table": "trapped", "watermark_columns": ["id"], "parallelism": 2, "fetch_size": 100, "reader": "adbc"}
    shop = Shop(postgres, tmp_path, ORDERS, source)
    shop.execute("create table trap as select false as armed")
    shop.execute(
        """create view trapped as select id, price, note, case when id % 1000 = 900 and (select armed from trap)
          then pg_sleep(600) end::text as slept from orders"""
    )
    most = 0
    for place in ("runs.read", "state.commit.before", "state.commit.after", "runs.commit.after"):
        shop.execute(FILL.format(f"generate_series({most + 1}, {most + 1000})"))
        most += 1000
        killed = attached.start_run(spark, shop.config, f"{place}=kill")
        assert killed.wait() == -signal.SIGKILL, f"the failpoint {place} was not reached: {killed.output}"
    shop.execute(f"update trap set armed = true; {FILL.format(f'generate_series({most + 1}, {most + 1000})')}")
    killed = attached.start_run(spark, shop.config)
    try:
        end = time.monotonic() + 180
        while not sleepers(shop):
            assert killed.poll() is None, killed.output
            assert time.monotonic() < end
            time.sleep(0.05)
    finally:
        killed.send_signal(signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    shop.execute(
        "update trap set armed = false; select pg_terminate_backend(pid) from pg_stat_activity where " + ASLEEP
    )
    assert shop.go() == 1000
    assert shop.go() == 0
    assert shop.ids() == list(range(1, most + 1001))


ASLEEP = "query like 'COPY%trapped%' and wait_event = 'PgSleep'"


def sleepers(shop: Shop) -> list[Any]:
    with shop.server.connect(shop.database) as connection:
        return connection.execute(f"select pid from pg_stat_activity where {ASLEEP}".encode()).fetchall()


def test_a_refusal_in_the_middle_of_the_rows_is_told_in_the_words_of_the_server(
    spark: SparkSession, postgres: postgres_server.Server, tmp_path: Path
) -> None:
    source = {"filter_expression": "1 / (id - 900) is not null", "reader": "adbc"}
    shop = Shop(postgres, tmp_path, ORDERS, source)
    shop.sink = {"load_type": "overwrite"}
    shop.execute(FILL.format("generate_series(1, 1000)"))
    told = shop.refused()
    assert "the database refused: ERROR: division by zero" in told
    assert "nullif(x, 0)" in told
    assert postgres_server.PASSWORD not in told


def test_a_worker_without_the_driver_stops_the_run_with_the_reason(
    spark: SparkSession, postgres: postgres_server.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_the_driver(rows: Any, work: Any, *needs: Any) -> list[Any]:
        with monkeypatch.context() as there:
            there.setitem(sys.modules, "adbc_driver_manager", None)
            return pickle.loads(pickle.dumps(list(work(iter([pa.record_batch({"id": [0]})]), *needs))))

    monkeypatch.setattr(frames, "run_tasks", without_the_driver)
    shop = Shop(postgres, tmp_path, ORDERS, {"watermark_columns": ["id"], "reader": "adbc"})
    shop.execute(FILL.format("generate_series(1, 10)"))
    told = shop.refused()
    assert "rows cannot be read by ADBC: its driver is not installed" in told
    assert "install 'tidegate[adbc]' here and on the machines of Spark's workers, or leave out reader: adbc" in told


def test_what_the_server_refuses_to_adbc_is_told_with_the_way_out(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = "select 7 as id where '{\"a\": 1}'::jsonb ?? 'a'"
    by_jdbc: Any = server.reader(query, by=None).read(RowFilter())
    assert by_jdbc.collect() == [(7,)]
    with raises(SourceError, "types", "ERROR: operator does not exist", "reader: adbc") as told:
        server.reader(query).read(RowFilter())
    assert told.value.remedy.endswith(", or leave out reader: adbc")
    monkeypatch.setitem(adbc.SESSION, "no_such_setting", "1")
    with raises(SourceError, "types", '"no_such_setting"', "reader: adbc") as told:
        server.reader("select 7 as id", "id").greatest(RowFilter((ColumnRange("id"),)))
    assert told.value.remedy.endswith(", or leave out reader: adbc")


def test_what_is_secret_shows_nowhere(server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    rows = server.reader("select 1 as id, 'x' as name").read(RowFilter())
    assert isinstance(rows, AdbcRows)
    wrong = server.reader("select 1 as id", "id", by=RowReader.ADBC, password=Secret("canary-wrong"))
    with raises(SourceError, "types", "password authentication failed", "user and password") as denied:
        wrong.greatest(RowFilter((ColumnRange("id"),)))
    shown = "".join([repr(rows), str(rows), str(denied.value), repr(denied.value.__cause__), *capfd.readouterr()])
    assert postgres_server.PASSWORD not in shown
    assert "canary" not in shown
