"""Work units of a real PostgreSQL server and of a Python function: one job, and only the bad one fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from servers import postgres as postgres_server
from tidegate.runs.in_process import InProcessEngine
from tidegate.sources.reader import UnitRequest
from tidegate.sources.units.work import UnitFailure, UnitWave, UnitWork, UnitWritten, WaveResult
from tidegate.spark.work_units import carry_out
from tidegate.specs.columns import FunctionRead, JdbcRead
from tidegate.specs.locations import Location, Options, Secret
from tidegate.specs.project import PipelineSpec
from tidegate.specs.table import SchemaSpec, SinkSpec
from tidegate.specs.units import Bounding, RangeParam, Replace, TimeRange, TimeWatermark, UnitSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

NOW = datetime(2026, 3, 5, tzinfo=UTC)
HOSTILE = "a'; DROP TABLE answers; --\\"
TABLES = """
create table answers (survey text, id int, at timestamp, divisor int);
insert into answers values
  ('a', 1, '2026-03-01 00:00', 1), ('a', 2, '2026-03-02 23:59:59.999', 2), ('a', 3, '2026-03-03 00:00', 1),
  ('bad', 4, '2026-03-01 10:00', 0), ('b', 5, '2026-03-01 12:00', 1);
"""


def ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def work(unit: str, *days: int) -> UnitWork:
    """From the first of these days of March to the last, cut at those between."""
    cuts = [ms(datetime(2026, 3, day, tzinfo=UTC)) for day in days]
    return UnitWork(unit, cuts[0], tuple(pairwise(cuts)), {"survey": unit}, {"key": Secret("canary")})


def wave(folder: Path, source: UnitSource, *works: UnitWork) -> UnitWave:
    place = Location((folder / "table").as_uri())
    pipeline = PipelineSpec("answers", (source,), SchemaSpec(infer=True), SinkSpec(place))
    return UnitWave(pipeline, source, works, Location((folder / "scratch").as_uri()), NOW)


def rows(folder: Path, result: UnitWritten | UnitFailure) -> list[dict[str, Any]]:
    """The rows of a work unit, of which each file has one unit and one segment."""
    assert isinstance(result, UnitWritten)
    tables = [pq.read_table(folder / "table" / each.path) for each in result.data_files]
    assert all(len(set(each.column("_tidegate_segment").to_pylist())) == 1 for each in tables)
    assert all(each.column_names[:2] == ["_tidegate_unit", "_tidegate_segment"] for each in tables)
    found = [row for table in tables for row in table.to_pylist()]
    assert len(found) == result.rows
    return sorted(found, key=lambda row: row["id"])


CarryOut = Callable[[UnitWave], WaveResult]


@pytest.fixture(params=["spark", "in process"])
def carry_out_wave(spark: SparkSession, request: pytest.FixtureRequest) -> CarryOut:
    """By Spark, and by the engine of this process, which leaves the same."""
    return InProcessEngine().carry_out if request.param != "spark" else partial(carry_out, spark, stopped=lambda: False)


@pytest.fixture(scope="module")
def database(postgres: postgres_server.Server) -> JdbcRead:
    name = postgres.new_database()
    with postgres.connect(name) as connection:
        connection.execute(TABLES.encode())
    return JdbcRead(postgres.jdbc_url(name), user=postgres_server.USER, password=Secret(postgres_server.PASSWORD))


def test_a_query_has_values_and_only_the_bad_unit_fails(
    carry_out_wave: CarryOut, database: JdbcRead, postgres: postgres_server.Server, tmp_path: Path
) -> None:
    """Segments are read by themselves; rows that come late are there next time."""
    query = (
        "select id, at, 10 / divisor as share from answers where survey = {{survey}} and at >= {{from}} and at < {{to}}"
    )
    params = (RangeParam("from", Bounding.LOW, "datetime"), RangeParam("to", Bounding.HIGH, "datetime"))
    source = UnitSource("db", replace(database, query=query), params=params)
    works = (work("a", 1, 2, 3), work("bad", 1, 3), work(HOSTILE, 1, 3), work("b", 1, 3))
    database_name = database.url.rpartition("/")[2]
    with postgres.connect(database_name) as connection:
        connection.execute("delete from answers where id = 6")
    before = len(postgres.statements())
    result = carry_out_wave(wave(tmp_path, source, *works))
    first, bad, none, last = result.results
    assert [(row["id"], row["_tidegate_segment"].day, row["share"]) for row in rows(tmp_path, first)] == [
        (1, 1, 10),
        (2, 2, 5),
    ]
    assert isinstance(bad, UnitFailure)
    assert "the database refused" in bad.problem
    assert "division by zero" in bad.problem
    assert none == UnitWritten()
    assert [row["id"] for row in rows(tmp_path, last)] == [5]
    assert result.columns is not None
    assert result.columns.names == ["_tidegate_unit", "_tidegate_segment", "id", "at", "share"]
    asked = postgres.statements()[before:]
    assert any("survey = E'a''; DROP TABLE answers; --\\\\'" in each for each in asked)
    assert postgres_server.PASSWORD not in str(result)
    with postgres.connect(database_name) as connection:
        connection.execute("insert into answers values ('b', 6, '2026-03-02 10:00', 1)")
    (again,) = carry_out_wave(wave(tmp_path, source, work("b", 1, 3))).results
    assert [row["id"] for row in rows(tmp_path, again)] == [5, 6]


def test_segments_are_read_by_no_more_connections_than_allowed(
    carry_out_wave: CarryOut, database: JdbcRead, tmp_path: Path
) -> None:
    busy = "(select count(*) from pg_stat_activity where query like '%pg_sleep%' and state = 'active')"
    query = f"select 1 as id, {{{{from}}}} as at, {busy} as busy from pg_sleep(0.1)"
    params = (RangeParam("from", Bounding.LOW, "datetime"),)
    source = UnitSource("db", replace(database, query=query, max_connections=1), params=params)
    result = carry_out_wave(wave(tmp_path, source, work("a", 1, 2, 3), work("b", 1, 2, 3)))
    written = [each for each in result.results if isinstance(each, UnitWritten)]
    files = {file.path for each in written for file in each.data_files}
    found = [busy for path in files for busy in pq.read_table(tmp_path / "table" / path).column("busy").to_pylist()]
    assert (max(found) <= 1, [each.rows for each in written]) == (True, [2, 2])


def test_a_table_is_asked_for_the_range_in_the_zone_of_the_source(
    carry_out_wave: CarryOut, database: JdbcRead, postgres: postgres_server.Server, tmp_path: Path
) -> None:
    time = TimeWatermark("system", TimeRange("2026-03-01"))
    source = UnitSource(
        "db",
        replace(database, table="answers"),
        time,
        time_column="at",
        replace=Replace.MERGE_KEYS,
        timezone="Asia/Tokyo",
    )
    before = len(postgres.statements())
    result = carry_out_wave(wave(tmp_path, source, work("", 1, 2)))
    (written,) = result.results
    assert isinstance(written, UnitWritten)
    (file,) = written.data_files
    found = pq.read_table(tmp_path / "table" / file.path).to_pylist()
    assert [(row["id"], row["at"]) for row in found] == [
        (4, datetime(2026, 3, 1, 1, tzinfo=UTC)),
        (5, datetime(2026, 3, 1, 3, tzinfo=UTC)),
    ]
    assert any("\"at\" >= TIMESTAMP '2026-03-01 09:00:00'" in each for each in postgres.statements()[before:])


def test_a_local_time_that_clocks_show_twice_belongs_to_one_range(
    carry_out_wave: CarryOut, database: JdbcRead, tmp_path: Path
) -> None:
    """Half past two of that night is read as the first one, in the hour that has it, and in no other."""
    read = replace(database, query="select 9 as id, timestamp '2026-10-25 02:30:00' as at")
    source = UnitSource("db", read, time_column="at", timezone="Europe/Berlin")
    hours = [ms(datetime(2026, 10, 25, hour, tzinfo=UTC)) for hour in (0, 1, 2)]
    works = [UnitWork("", low, ((low, high),)) for low, high in pairwise(hours)]
    first, second = carry_out_wave(wave(tmp_path, source, *works)).results
    assert [row["at"] for row in rows(tmp_path, first)] == [datetime(2026, 10, 25, 0, 30, tzinfo=UTC)]
    assert second == UnitWritten()


CALLS: list[UnitRequest] = []


def answers(session: SparkSession, request: UnitRequest) -> DataFrame:
    """Rows before, in and after the range, and one without a time; unit ``bad`` fails, ``late`` when it is computed."""
    CALLS.append(request)
    if request.unit == "bad":
        raise ValueError("no such survey")
    times = [request.low - timedelta(hours=1), request.low, request.high, None]
    made = session.createDataFrame(list(enumerate(times)), "id int, `the time` timestamp").repartition(2)
    return made.selectExpr(
        "*", "cast(raise_error('too late') as string) as v" if request.unit == "late" else "'x' as v"
    )


def test_a_function_is_asked_for_each_segment_and_rows_outside_are_left_out(
    spark: SparkSession, tmp_path: Path
) -> None:
    read = FunctionRead(f"{__name__}:answers", Options({"depth": "2"}))
    time = TimeWatermark("system", TimeRange("2026-03-01"))
    source = UnitSource("calls", read, time, time_column="the time")
    works = (work("a", 1, 2, 3), work("bad", 1, 3), work("late", 1, 3))
    CALLS.clear()
    result: WaveResult = carry_out(spark, wave(tmp_path, source, *works), lambda: False)
    done, bad, late = result.results
    assert isinstance(done, UnitWritten)
    assert [(row["id"], row["_tidegate_unit"]) for row in rows(tmp_path, done)] == [(1, "a"), (1, "a")]
    assert done.left_out == 6
    assert isinstance(bad, UnitFailure)
    assert "no such survey" in bad.problem
    assert isinstance(late, UnitFailure)
    assert "too late" in late.problem
    seen = [(each.unit, each.low.day, each.high.day) for each in CALLS]
    assert seen == [("a", 1, 2), ("a", 2, 3), ("bad", 1, 3), ("late", 1, 3)]
    variables: Mapping[str, str] = CALLS[0].variables
    assert (variables, CALLS[0].options, CALLS[0].now) == ({"survey": "a"}, {"depth": "2"}, NOW)
    assert "canary" not in repr(CALLS[0])
