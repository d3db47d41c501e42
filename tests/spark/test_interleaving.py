"""What happens to a table, or to the rows on their way there, between the looks that a load takes at them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from spark.loaded_tables import LoadedTable, at, window
from support.errors import raises
from support.long_runs import chosen
from tidegate.errors import RowsRefused
from tidegate.spark.loading.target import Target
from tidegate.specs.columns import Load, LoadType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

VERSIONS = "id bigint, u timestamp, v string"
IGNORING = ("spark.sql.files.ignoreMissingFiles", "spark.sql.files.ignoreCorruptFiles")
STRATEGIES = {
    "append": Load(LoadType.APPEND, deduplicate=("id",)),
    "overwrite": Load(LoadType.OVERWRITE),
    "merge_upsert": Load(LoadType.MERGE_UPSERT, merge_keys=("id",)),
    "merge_overwrite": Load(LoadType.MERGE_OVERWRITE, merge_keys=("id",)),
    "scd2": Load(LoadType.SCD2, merge_keys=("id",)),
}


@pytest.fixture
def ignoring(spark: SparkSession) -> Iterator[None]:
    """Sessions that begin now pass over files that are gone or damaged, as a cluster may be told to."""
    conf = spark.sparkContext._jsc.sc().conf()
    for name in IGNORING:
        conf.set(name, "true")
    yield
    for name in IGNORING:
        conf.remove(name)


def first_work_file(table: LoadedTable) -> Path:
    return next(path for path in table.left() if path.suffix == ".parquet")


@pytest.mark.parametrize("looks", ["before", "while"])
@pytest.mark.parametrize("load", chosen(list(STRATEGIES), "merge_upsert"))
def test_work_files_that_vanish_are_noticed(
    spark: SparkSession, tmp_path: Path, ignoring: None, monkeypatch: pytest.MonkeyPatch, load: str, looks: str
) -> None:
    """Before the statement, and by the statement itself; nothing is committed, and the rows are not lost."""
    table = LoadedTable(spark, tmp_path, STRATEGIES[load])
    rows = [(1, at(1), "a"), (2, at(2), "b")]
    table.load(rows[:1], VERSIONS)
    if looks == "while":
        monkeypatch.setattr("tidegate.spark.frames.check_there", lambda rows: None)
    with raises(RowsRefused, "orders", "work file" if looks == "before" else "Spark"):
        table.load(rows, VERSIONS, meanwhile=lambda: first_work_file(table).unlink())
    assert table.position == 1
    assert table.rows("id") == [(1,)]
    monkeypatch.undo()
    table.load(rows, VERSIONS)
    assert {key for (key,) in table.rows("id")} == {1, 2}


def test_a_work_file_that_was_cut_is_noticed(spark: SparkSession, tmp_path: Path, ignoring: None) -> None:
    table = LoadedTable(spark, tmp_path, STRATEGIES["merge_upsert"])
    table.load([(1, at(1), "a")], VERSIONS)

    def cut() -> None:
        path = first_work_file(table)
        path.write_bytes(path.read_bytes()[:-1])

    with raises(RowsRefused, "orders", "work file", "bytes"):
        table.load([(2, at(2), "b")], VERSIONS, meanwhile=cut)
    assert table.position == 1


def between(table: LoadedTable, monkeypatch: pytest.MonkeyPatch, *, inside: bool) -> list[int]:
    """Somebody appends a row between the first look at the table and the MERGE, or while it runs: once.

    In a table of versions it is one between those of the batch.
    """
    merge = Target.merge
    times: list[int] = []
    row: dict[str, Any] = {"id": [1], "u": [at(5)], "v": ["foreign"]}
    if "__valid_from" in table.columns:
        row |= {"__valid_from": [at(5)], "__valid_to": [None], "__is_current": [True]}
    somebody = appending(str(table.path), str(table.path.parent / "done"), row)

    def watched(target: Target, rows: DataFrame, condition: str, *clauses: str) -> None:
        times.append(len(times))
        if times == [0] and inside:
            rows = rows.mapInArrow(somebody, rows.schema)
        elif times == [0]:
            list(somebody(iter([pa.record_batch({"any": [1]})])))
        merge(target, rows, condition, *clauses)

    monkeypatch.setattr(Target, "merge", watched)
    return times


def appending(uri: str, flag: str, row: dict[str, Any]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[Any]]:
    """Batches as they are; with the first that is not empty, in whichever task, ``row`` is appended to a table.

    It is sent to tasks, which know nothing of this module.
    """

    def passed(batches: Iterator[Any]) -> Iterator[Any]:
        from pathlib import Path

        import pyarrow as pa
        from deltalake import write_deltalake

        moment = pa.timestamp("us", "UTC")
        kinds = {"id": pa.int64(), "v": pa.string(), "__is_current": pa.bool_()}
        columns = pa.schema([pa.field(name, kinds.get(name, moment)) for name in row])
        for batch in batches:
            if batch.num_rows and not Path(flag).exists():
                try:
                    Path(flag).touch(exist_ok=False)
                except FileExistsError:
                    pass
                else:
                    write_deltalake(uri, pa.table(row, columns), mode="append")
            yield batch

    return passed


@pytest.mark.parametrize("inside", [False, True], ids=["before", "while"])
def test_versions_are_those_of_the_table_that_is_merged_into(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inside: bool
) -> None:
    """A version that somebody adds before the MERGE is seen by it; one that comes while it runs makes it run again."""
    table = LoadedTable(spark, tmp_path, STRATEGIES["scd2"])
    table.load([(1, at(1), "a")], VERSIONS)
    times = between(table, monkeypatch, inside=inside)
    table.load([(1, at(9), "b")], VERSIONS)
    assert len(times) == (2 if inside else 1)
    found = table.rows("v", "__valid_from", "__valid_to", "__is_current")
    moments = [(v, start.day, end and end.day, current) for v, start, end, current in found]
    assert ("b", 9, None, True) in moments
    assert ("foreign", 5, 9, False) in moments
    assert table.position == 2


@pytest.mark.parametrize("inside", chosen([False, True], True))
def test_a_chunk_leaves_out_what_the_table_has_later_whenever_that_came(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inside: bool
) -> None:
    table = LoadedTable(spark, tmp_path, STRATEGIES["merge_overwrite"])
    table.load([(2, at(2), "other")], VERSIONS)
    times = between(table, monkeypatch, inside=inside)
    table.load([(1, at(1), "old")], VERSIONS, window=window(u=(at(1), at(1))), chunk=True)
    assert len(times) == (2 if inside else 1)
    assert table.rows("id", "v") == [(1, "foreign"), (2, "other")]
