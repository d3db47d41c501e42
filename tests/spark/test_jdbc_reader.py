"""A real PostgreSQL server is read: what it is asked stands in its own log."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, DateType, DecimalType

from servers import postgres as postgres_server
from support.errors import raises
from tidegate.core.columns.predicates import Bound, ColumnRange, RowFilter
from tidegate.errors import SourceError
from tidegate.sources.reader import GreatestValues
from tidegate.spark.engine import open_reader
from tidegate.spark.readers.jdbc import JdbcReader
from tidegate.spark.readers.jdbc_columns import _exact
from tidegate.specs.columns import ColumnSource, JdbcRead, NullWatermark, RowReader, Value, WatermarkMode
from tidegate.specs.locations import Options, Secret
from tidegate.specs.table import FieldSpec, SchemaSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

NOW = datetime(2026, 6, 1, tzinfo=UTC)
TABLES = """
create table orders (id bigint primary key, created_at timestamptz, modified_at timestamptz, amount numeric(12,2));
insert into orders values
  (1, '2026-03-01 00:00Z', null, 1.10), (2, '2026-03-02 00:00Z', '2026-03-05 10:00:00.000001Z', 2.20),
  (3, '2026-03-03 09:00+09', null, 3.30), (4, null, null, 4.40), (5, null, '2026-03-05 10:00:00.000001Z', null);
create table visits (id int, at timestamp, day date, clock time, "Odd""name" text);
insert into visits values
  (1, '2026-03-08 02:30:00', '2026-03-08', '10:20:30', 'a'), (2, '2026-10-25 02:30:00.5', '2026-10-25', null, 'b');
create table amounts (id int, exact numeric, code text collate "unicode", ticket uuid);
insert into amounts values
  (1, 1.00000000000000000000000000001, 'B', 'ffffffff-0000-0000-0000-000000000000'),
  (2, 1.00000000000000000000000000002, 'a', '00000000-0000-0000-0000-000000000000'), (3, 0.5, 'b', null);
create table skewed as select n as id, case when n <= 900 then n else n * 1000000 end as key,
  md5(n::text) as text_key from generate_series(1, 1000) n;
insert into skewed values (1001, null, null), (1002, 500, 'x'), (1003, null, null);
"""


@dataclass(frozen=True, slots=True)
class Shop:
    """A database with some tables, and a session that can read it."""

    spark: SparkSession
    server: postgres_server.Server
    database: str

    def read(self, table: str, **more: Any) -> JdbcRead:
        url = self.server.jdbc_url(self.database)
        user, password = postgres_server.USER, Secret(postgres_server.PASSWORD)
        one = JdbcRead(url, user=user, password=password, table=table, parallelism=1, reader=RowReader.JDBC)
        return replace(one, **more)

    def reader(self, read: JdbcRead, *columns: str, zone: str = "UTC", schema: SchemaSpec | None = None) -> Any:
        source = ColumnSource("orders", read, columns, source_timezone=zone)
        opened = open_reader(self.spark, source, schema or SchemaSpec(), NOW)
        assert isinstance(opened, JdbcReader)
        assert opened.fixed_first
        return opened

    def execute(self, statement: str) -> None:
        with self.server.connect(self.database) as connection:
            connection.execute(statement.encode())

    def asked_since(self, before: int) -> list[str]:
        """The statements about our rows that the server has got since, without Spark's questions about columns."""
        asked = [line.partition(": ")[2] for line in self.server.statements()[before:]]
        return [each for each in asked if "tidegate" in each and "WHERE 1=0" not in each]

    @property
    def mark(self) -> int:
        return len(self.server.statements())


@pytest.fixture(scope="module")
def shop(spark: SparkSession, postgres: postgres_server.Server) -> Shop:
    made = Shop(spark, postgres, postgres.new_database())
    made.execute(TABLES)
    return made


def above(**lowers: Value | None) -> RowFilter:
    ranges = (ColumnRange(name, None if value is None else Bound(value)) for name, value in lowers.items())
    return RowFilter(tuple(ranges))


def up_to(rows: RowFilter, seen: GreatestValues) -> RowFilter:
    caps = {name: Bound(value, inclusive=True) for name, value in seen.values.items() if value is not None}
    return rows.capped(caps)


def ids(frame: DataFrame) -> list[int]:
    return sorted(row[0] for row in frame.select("id").collect())


def test_the_database_is_sent_the_condition_and_the_cap(shop: Shop) -> None:
    reader = shop.reader(shop.read("orders"), "created_at", "modified_at")
    wanted = above(created_at=datetime(2026, 3, 1, tzinfo=UTC), modified_at=datetime(2026, 3, 5, 10, tzinfo=UTC))
    before = shop.mark
    seen = reader.greatest(wanted)
    greatest = datetime(2026, 3, 5, 10, 0, 0, 1, tzinfo=UTC)
    assert seen == GreatestValues({"created_at": datetime(2026, 3, 3, tzinfo=UTC), "modified_at": greatest}, nulls=1)
    shop.execute("insert into orders values (6, '2026-03-04 00:00Z', null, 6), (7, null, '2026-03-06 00:00Z', 7)")
    frame = reader.read(up_to(wanted, seen))
    rows = {row["id"]: row["amount"] for row in frame.select("id", "amount").collect()}
    shop.execute("delete from orders where id in (6, 7)")
    assert rows == {2: Decimal("2.20"), 3: Decimal("3.30"), 5: None}
    aggregate, read = shop.asked_since(before)
    assert 'MAX("created_at")' in aggregate
    assert 'MAX("modified_at")' in aggregate
    for statement in (aggregate, read):
        assert "\"created_at\" > TIMESTAMP WITH TIME ZONE '2026-03-01 00:00:00+00:00'" in statement
    assert "\"modified_at\" <= TIMESTAMP WITH TIME ZONE '2026-03-05 10:00:00.000001+00:00'" in read


def test_rows_at_the_cap_are_read_together_and_never_again(shop: Shop) -> None:
    reader = shop.reader(shop.read("orders"), "modified_at")
    first = reader.greatest(above(modified_at=None))
    assert first.nulls == 3
    assert ids(reader.read(up_to(above(modified_at=None), first))) == [2, 5]
    after = RowFilter((ColumnRange("modified_at", Bound(first.values["modified_at"] or 0)),))
    assert reader.greatest(after) == GreatestValues({"modified_at": None}, nulls=3)
    assert ids(reader.read(replace(after, nulls=NullWatermark.INCLUDE))) == [1, 3, 4]


def test_a_query_and_a_condition_of_the_configuration_keep_to_themselves(shop: Shop) -> None:
    read = replace(shop.read("orders"), table=None, query="select * from orders where id < 5 -- the first")
    reader = shop.reader(read, "id")
    wanted = RowFilter((ColumnRange("ID", Bound(1)),), extra="amount > 4 or amount < 2.5")
    assert reader.greatest(wanted).values == {"ID": 4}
    assert ids(reader.read(wanted)) == [2, 4]


def test_times_without_a_zone_stay_as_they_are_and_become_instants_in_the_rows(shop: Shop) -> None:
    reader = shop.reader(shop.read("visits"), "at", zone="Europe/Berlin")
    seen = reader.greatest(above(at=None))
    assert seen.values == {"at": datetime(2026, 10, 25, 2, 30, 0, 500_000)}
    frame = reader.read(up_to(above(at=None), seen))
    assert all(field.metadata == {} for field in frame.schema)  # else what the driver says would be in the table
    table = frame.orderBy("id").toArrow().to_pylist()
    assert [row["at"] for row in table] == [
        datetime(2026, 3, 8, 1, 30, tzinfo=UTC),
        datetime(2026, 10, 25, 0, 30, 0, 500_000, tzinfo=UTC),
    ]
    assert [row["day"] for row in table] == [date(2026, 3, 8), date(2026, 10, 25)]
    assert [row["clock"] for row in table] == ["10:20:30", None]
    aware = Bound(datetime(2026, 3, 8, 1, 30, tzinfo=UTC))
    assert ids(reader.read(RowFilter((ColumnRange("at", aware),)))) == [2]


def test_declared_columns_are_those_that_are_read(shop: Shop) -> None:
    fields = (FieldSpec("id", "string"), FieldSpec('Odd"name', "string"))
    frame = shop.reader(shop.read("visits"), "id", schema=SchemaSpec(fields)).read(above(id=1))
    assert frame.collect() == [("2", "b")]


def test_decimals_are_exact_beyond_what_spark_can_hold(shop: Shop) -> None:
    reader = shop.reader(shop.read("amounts"), "exact")
    first = Decimal("1.00000000000000000000000000001")
    seen = reader.greatest(above(exact=first))
    assert seen.values == {"exact": Decimal("1.00000000000000000000000000002")}
    assert ids(reader.read(up_to(above(exact=first), seen))) == [2]
    assert ids(reader.read(above(exact=seen.values["exact"]))) == []


def test_text_is_followed_in_the_order_of_code_points(shop: Shop) -> None:
    reader = shop.reader(shop.read("amounts"), "code")
    assert reader.greatest(above(code=None)).values == {"code": "b"}
    assert ids(reader.read(above(code="B"))) == [2, 3]
    with raises(SourceError, "orders", "'code'", "string", "'9'", "'10'"):
        reader.read(above(code=9))


def test_a_cursor_of_two_columns_goes_to_the_greatest_tuple(shop: Shop) -> None:
    reader = shop.reader(shop.read("orders"), "modified_at", "id")
    cursor = replace(above(modified_at=datetime(2026, 3, 1, tzinfo=UTC), id=0), mode=WatermarkMode.TUPLE)
    seen = reader.greatest(cursor)
    assert seen == GreatestValues({"modified_at": datetime(2026, 3, 5, 10, 0, 0, 1, tzinfo=UTC), "id": 5}, nulls=3)
    nothing = RowFilter((ColumnRange("modified_at", Bound(NOW)), ColumnRange("id", Bound(9))), WatermarkMode.TUPLE)
    assert reader.greatest(nothing) == GreatestValues({"modified_at": None, "id": None}, nulls=3)


@pytest.mark.parametrize("column", ["key", "text_key"])
def test_a_skewed_key_makes_equal_parts_and_every_row_is_in_one(shop: Shop, column: str) -> None:
    reader = shop.reader(shop.read("skewed", parallelism=4, fetch_size=100, partition_column=column), "id")
    before = shop.mark
    frame = reader.read(above(id=3))
    found = frame.select("id", f.spark_partition_id().alias("part")).collect()
    assert sorted(row["id"] for row in found) == list(range(4, 1004))
    sizes = Counter(row["part"] for row in found)
    assert len(sizes) == 4
    assert max(sizes.values()) <= 260
    asked = {each.partition("SELECT")[2] for each in shop.asked_since(before)}
    reads = [each for each in asked if re.search(r"tidegate_read\s+WHERE", each)]
    assert len(reads) == 4
    assert all('"id" > 3' in each for each in reads)


def test_rows_that_were_counted_with_their_greatest_values_are_not_counted_again(shop: Shop) -> None:
    reader = shop.reader(shop.read("skewed", parallelism=4, fetch_size=100), "id")
    seen = reader.greatest(above(id=3))
    before = shop.mark
    assert reader.read(up_to(above(id=3), seen)).rdd.getNumPartitions() == 4
    assert not [each for each in shop.asked_since(before) if "COUNT(*)" in each]
    assert reader.read(above(id=500)).rdd.getNumPartitions() == 4  # another read, which nobody has counted yet
    assert len([each for each in shop.asked_since(before) if "COUNT(*)" in each]) == 1


def test_a_sample_divides_the_rows_of_a_large_table_and_not_those_of_an_increment(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.spark.readers.jdbc.ALL_EXACT_UP_TO", 900)
    monkeypatch.setattr("tidegate.spark.readers.jdbc.SAMPLED_ROWS", 600)
    reader = shop.reader(shop.read("skewed", parallelism=4, fetch_size=100), "id")
    for lower, is_sampled in ((None, True), (0, False)):
        before = shop.mark
        assert ids(reader.read(above(id=lower))) == list(range(1, 1004))
        assert any("TABLESAMPLE" in each for each in shop.asked_since(before)) is is_sampled


def test_few_rows_have_one_connection(shop: Shop) -> None:
    reader = shop.reader(shop.read("skewed", parallelism=4), "id")
    assert reader.read(above(id=3)).rdd.getNumPartitions() == 1


EXACT = {
    DecimalType(6, 2): ["1", "-1.5", "0.25", ".5", "12.500", "0012.3400", "9999.99", None],
    DecimalType(4, 0): ["7", "-7", "7.", "7.000"],
    DateType(): ["2026-02-28", "0001-01-01", "10000-01-01", None],
}
BENT = {
    DecimalType(6, 2): ["1.005", "NaN", "1e1", "1.e-9", "1E1", "10000.00", "", "1.2.3"],
    DecimalType(4, 0): ["7.5", "1e3"],
    DateType(): ["2026-02-30", "0044-03-15 BC", "infinity", "2026-02-28 12", "2026-02", "0000-00-00"],
}


@pytest.mark.parametrize("kind", EXACT, ids=str)
def test_text_becomes_its_value_or_the_row_is_refused(spark: SparkSession, kind: DataType) -> None:
    texts = spark.createDataFrame([(each,) for each in EXACT[kind]], "c string")
    parsed, text = f.col("v").cast("string"), f.col("c")
    for row in texts.withColumn("v", _exact(text, kind, "c")).select("c", parsed).collect():
        same = row[0] == row[1] if isinstance(kind, DateType) else Decimal(row[0] or 0) == Decimal(row[1] or 0)
        assert same or row[1] == f"+{row[0]}", row
    for each in BENT[kind]:
        bent = spark.createDataFrame([(each,)], "c string").select(_exact(text, kind, "c"))
        with raises(Exception, "tidegate refused", "column 'c'"):
            bent.collect()


@pytest.mark.parametrize("column", ["ticket", "exact"])
def test_any_column_can_divide_the_rows(shop: Shop, column: str) -> None:
    reader = shop.reader(shop.read("amounts", parallelism=3, fetch_size=1, partition_column=column), "id")
    assert ids(reader.read(above(id=0))) == [1, 2, 3]


def test_what_is_secret_shows_nowhere(shop: Shop, capfd: pytest.CaptureFixture[str]) -> None:
    canary = postgres_server.PASSWORD
    read = shop.read("orders", properties=Options({"ApplicationName": "canary-name", "password": canary}))
    frame = shop.reader(replace(read, url=f"{read.url}?options=canary-url"), "id")
    with pytest.raises(SourceError) as refused:
        frame.greatest(above(id=0))
    good = shop.reader(read, "id").read(RowFilter((ColumnRange("id", Bound(0)),), extra="1 / (id - id) > 0"))
    good.explain(True)
    with pytest.raises(Exception) as failed:  # Spark's own
        good.collect()
    wrong = shop.reader(replace(read, password=None, properties=Options({"password": "canary-wrong"})), "id")
    with raises(SourceError, "orders", "password authentication failed", "user and password") as denied:
        wrong.greatest(above(id=0))
    shown = "".join([str(refused.value), str(failed.value), str(denied.value), *capfd.readouterr()])
    assert "canary" not in shown
    assert canary not in shown
    assert denied.value.__cause__ is None


def test_a_table_that_is_not_there_is_named(shop: Shop) -> None:
    with raises(SourceError, "orders", 'relation "orderz" does not exist'):
        shop.reader(shop.read("orderz"), "id").greatest(above(id=0))
    with raises(SourceError, "orders", "'updated_at'", "'created_at'"):
        shop.reader(shop.read("orders"), "id").read(above(updated_at=1))


def test_a_statement_of_the_configuration_opens_the_session_and_its_zone_is_utc_all_the_same(shop: Shop) -> None:
    own = Options({"sessionInitStatement": "set time zone 'Asia/Tokyo'; set app.name = 'shop'; -- ours"})
    query = "select current_setting('app.name') as app, current_setting('TimeZone') as zone"
    (row,) = (
        shop.reader(replace(shop.read("orders"), table=None, query=query, properties=own)).read(RowFilter()).collect()
    )
    assert (row["app"], row["zone"]) == ("shop", "UTC")


def test_blanks_at_the_end_of_a_fixed_text_stay_though_it_is_followed(shop: Shop) -> None:
    shop.execute("create table codes (code char(5), id int); insert into codes values ('ab', 1), ('cd', 2)")
    reader = shop.reader(shop.read("codes"), "code")
    assert reader.greatest(above(code=None)).values == {"code": "cd"}
    assert [row["code"] for row in reader.read(above(code="ab")).collect()] == ["cd   "]


def test_a_decimal_that_comes_as_text_is_followed_as_a_number(shop: Shop) -> None:
    shop.execute("create table wide (id int, price numeric(50,20)); insert into wide values (1, 9), (2, 10)")
    reader = shop.reader(shop.read("wide"), "price")
    seen = reader.greatest(above(price=Decimal(9)))
    assert seen.values == {"price": Decimal("10.00000000000000000000")}
    assert reader.read(up_to(above(price=Decimal(9)), seen)).collect() == [(2, "10.00000000000000000000")]
