"""The DataFrame lane on S3: Spark's commits and those of others keep each other, and every row arrives once."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake

import tidegate
from servers.fault_proxy import Fault, FaultProxy, Rule, in_front_of
from servers.s3 import SECRET_KEY, Server
from support.errors import raises
from tidegate.errors import EnvironmentProblem
from tidegate.protocol.delta import query
from tidegate.spark.jars import CLASS
from tidegate.spark.s3a import check_writing, reach
from tidegate.specs.locations import Location, Options
from tidegate.storage.stores import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.s3]

BUCKET = "spark-lane"
COMMITS = 3
ENTRY = r"_delta_log/0+\d+\.json$"


@pytest.fixture(scope="module")
def proxy(s3: Server) -> Iterator[FaultProxy]:
    """A bad line to a bucket of its own: a session reaches each bucket in one way."""
    s3.make_bucket(BUCKET)
    with in_front_of(s3) as proxy:
        yield proxy
        proxy.faults.inject()


class _Lake:
    """A pipeline with a transform from S3 to S3, through the bad line; what is looked at goes around it."""

    def __init__(self, proxy: FaultProxy, s3: Server, folder: Path, name: str) -> None:
        self._proxy, self._folder = proxy, folder
        self.root = f"s3://{BUCKET}/{name}"
        self.files = open_store(Location(f"{self.root}/source", s3.options))
        self.table = Location(f"{self.root}/table", s3.options)
        self._ids = 0

    def arrive(self, name: str) -> None:
        text = "".join(json.dumps({"id": number}) + "\n" for number in range(self._ids, self._ids + 3))
        self.files.put(f"date=2026-01-28/{name}", text.encode())
        self._ids += 3

    @property
    def config(self) -> Path:
        options = dict(self._proxy.options())
        pipeline = {
            "source": {"source_uri": f"{self.root}/source", "use_watermark": True, "storage_options": options},
            "schema": {"fields": [{"name": "id", "type": "int64"}]},
            "transform": {"sql": "select id, id * 2 as twice, date from source"},
            "sink": {
                "table_uri": f"{self.root}/table",
                "storage_options": options,
                "partition_by": {"prefix_template": "date"},
            },
        }
        path = self._folder / "pipelines.yml"
        path.write_text(json.dumps({"pipelines": {"events": pipeline}, "spark": {"master": "local[2]"}}))
        return path

    def rows(self) -> list[tuple[int, int, str]]:
        found = query(self.table, "select id, twice, date from t order by id")
        return [(row["id"], row["twice"], row["date"]) for row in found]

    def expected(self) -> list[tuple[int, int, str]]:
        return [(number, number * 2, "2026-01-28") for number in range(self._ids)]


def test_a_transform_brings_every_row_once_whatever_the_line_does_to_its_commits(
    spark: SparkSession, s3: Server, proxy: FaultProxy, tmp_path: Path
) -> None:
    lake = _Lake(proxy, s3, tmp_path, "transformed")
    assert tidegate.plan(lake.config)[0].lane == "dataframe"
    for number, fault in enumerate((None, Fault.LOST, Fault.CONFLICT)):
        proxy.faults.inject(*([Rule(fault, "PUT", ENTRY, times=1)] if fault else []))
        lake.arrive(f"{number}.ndjson")
        report = tidegate.run(lake.config)
        assert (report.ok, report.sources[0].rows, report.sources[0].error) == (True, 3, None)
        assert fault is None or proxy.faults.injected[fault] == 1
        assert lake.rows() == lake.expected()
    assert tidegate.run(lake.config).sources[0].commits == 0
    assert not list(open_store(lake.table).list("_tidegate/events/default/work"))


def test_a_log_entry_that_appears_while_spark_writes_its_own_stays(spark: SparkSession, s3: Server) -> None:
    table = s3.location("table")
    store = open_store(table)
    entry = f"_delta_log/{7:020d}.json"
    log_store = _log_store(spark, CLASS)
    path = spark._jvm.org.apache.hadoop.fs.Path(f"{reach(spark, table)}/{entry}")
    rival = _Actions(spark, lambda: store.put(entry, b"the rival's\n"))
    with raises(Exception, "FileAlreadyExistsException"):
        log_store.write(path, rival, False, _hadoop(spark))
    assert store.get(entry) == b"the rival's\n"
    log_store.write(path, _Actions(spark, lambda: None), True, _hadoop(spark))
    assert store.get(entry) == b"one\ntwo\n"


def test_sessions_of_spark_and_the_delta_library_commit_at_once(spark: SparkSession, s3: Server) -> None:
    table = s3.location("table")
    path = reach(spark, table)
    spark.sql("select 'first' as who, 0 as n").write.format("delta").save(path)

    def by_spark(who: str) -> None:
        for number in range(COMMITS):
            rows = spark.newSession().sql(f"select '{who}' as who, {number} as n").write.format("delta")
            rows.option("txnAppId", who).option("txnVersion", number).mode("append").save(path)

    def by_library(who: str) -> None:
        for number in range(2 * COMMITS):
            rows = pa.table({"who": [who], "n": pa.array([number], pa.int32())})
            note = CommitProperties(app_transactions=[Transaction(who, number)])
            options = dict(table.options)
            write_deltalake(table.uri, rows, mode="append", storage_options=options, commit_properties=note)

    _together(lambda: by_spark("spark-1"), lambda: by_spark("spark-2"), lambda: by_library("library"))
    found = query(table, "select who, n from t")
    assert len(found) == len({(row["who"], row["n"]) for row in found})
    counts = Counter(row["who"] for row in found)
    assert counts == {"first": 1, "spark-1": COMMITS, "spark-2": COMMITS, "library": 2 * COMMITS}
    entries = [info.path for info in open_store(table).list("_delta_log") if info.path.endswith(".json")]
    assert len(entries) == len(found)


def test_a_session_reaches_a_bucket_in_one_way_and_commits_by_our_log_store(spark: SparkSession, s3: Server) -> None:
    table = s3.location("table")
    check_writing(spark, table)
    reach(spark, table)
    other = Location(table.uri, Options({**table.options, "AWS_SECRET_ACCESS_KEY": "another"}))
    with raises(EnvironmentProblem, "bucket 'tidegate'", "secret.key", "spark.config") as raised:
        reach(spark, other)
    assert SECRET_KEY not in str(raised.value)
    assert SECRET_KEY not in str(spark.sparkContext.getConf().getAll())
    assert SECRET_KEY not in str(spark.sql("set").collect())


def _together(*works: Any) -> None:
    problems: list[BaseException] = []

    def kept(work: Any) -> None:
        try:
            work()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=kept, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def _hadoop(spark: SparkSession) -> Any:
    return spark.sparkContext._jsc.hadoopConfiguration()


def _log_store(spark: SparkSession, name: str) -> Any:
    loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    made = loader.loadClass(name).getConstructors()[0]
    arguments = spark.sparkContext._gateway.new_array(spark._jvm.java.lang.Object, 1)
    arguments[0] = _hadoop(spark)
    return made.newInstance(arguments)


class _Actions:
    """The lines of a log entry for the JVM; something happens between the first and the second."""

    def __init__(self, spark: SparkSession, between: Any) -> None:
        from pyspark.java_gateway import ensure_callback_server_started

        ensure_callback_server_started(spark.sparkContext._gateway)
        self._lines = iter(["one", "two"])
        self._left = 2
        self._between = between

    def hasNext(self) -> bool:  # noqa: N802  # as Java calls it
        return self._left > 0

    def next(self) -> str:
        self._left -= 1
        if self._left == 0:
            self._between()
        return next(self._lines)

    class Java:
        implements = ("java.util.Iterator",)
