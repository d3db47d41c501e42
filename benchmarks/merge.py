"""A merge of one per cent into a table, with the position in its commit, against plain MERGE of the same rows.

``python -m benchmarks.merge [--rows 10000000] [--rounds 5] [--quick]``: in a temporary folder. Half of the rows of
each increment update rows all over the table, half are new. Every contender has a table of its own for each round,
a copy of the same files; one round before the others is not timed.

- ``plain MERGE``: ``UPDATE SET *`` and ``INSERT *`` from the Parquet files of the increment.
- ``merge_upsert``: the increment read into a work area, its keys looked at, and the MERGE under the commit protocol.
- ``merge_overwrite`` and ``replace window``: the same by those strategies; the window holds the last per cent.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import report
from tidegate.core.columns.predicates import Bound, ColumnRange, RowFilter
from tidegate.protocol.change import Change, Identity, NextState, RowChanges, RowCount, SourceKey, SparkWrite
from tidegate.protocol.documents import WORK
from tidegate.protocol.follow_ups import WorkRemover, new_work_area
from tidegate.protocol.position import TableContext
from tidegate.protocol.store import PositionStore, open_delta
from tidegate.spark.frames import columns_of, write_rows
from tidegate.spark.loading.strategies import load_frame
from tidegate.spark.session import open_session
from tidegate.specs.columns import ColumnSource, FunctionRead, Load, LoadType
from tidegate.specs.locations import Location
from tidegate.specs.project import PipelineSpec, SparkSpec
from tidegate.specs.table import SchemaSpec, SinkSpec
from tidegate.storage.stores import open_store
from tidegate.tasks.row_task import Batch, row_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES = 16
KEY = SourceKey("orders", "db")


def rows(session: SparkSession, start: int, end: int, step: int = 1) -> DataFrame:
    """Orders with these numbers."""
    return session.range(start, end, step, FILES).selectExpr(
        "id as order_id",
        "id as changed",
        "id % 97 as customer",
        "cast(id % 10000 / 100 as decimal(10,2)) as amount",
        "concat('order ', id, ' of customer ', id % 97) as remark",
    )


def increment(session: SparkSession, size: int) -> DataFrame:
    """One per cent: every two hundredth row changed, and as many new ones; all of them behind what was seen."""
    changed = rows(session, 0, size, 200).selectExpr("order_id", f"changed + {size} as changed", "customer")
    both = changed.unionByName(rows(session, size, size + size // 200), allowMissingColumns=True)
    return both.selectExpr(
        "order_id", "changed", "customer", "cast(coalesce(amount, 1) as decimal(10,2)) as amount", "remark"
    )


def plain(session: SparkSession, table: Path, source: Path) -> None:
    """What one would write by hand."""
    session.newSession().sql(
        f"MERGE INTO delta.`{table}` t USING parquet.`{source}` s ON t.order_id = s.order_id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )


def loaded(
    session: SparkSession,
    table: Path,
    source: Path,
    load: Load,
    window: RowFilter | None = None,
    *,
    again: bool = False,
) -> RowChanges:
    """The increment through a work area and one commit; ``again``: the table may have some of it already."""
    read = ColumnSource("db", FunctionRead("benchmark:rows"), watermark_columns=("changed",))
    location = Location(table.as_uri())
    pipeline = PipelineSpec("orders", (read,), SchemaSpec(infer=True), SinkSpec(location, load=load))
    store = open_store(location)
    identity, delta = Identity("column", read.uri), open_delta(location, store)
    positions = PositionStore(TableContext(KEY, identity, store, delta, payers={WORK: WorkRemover(store).pay}))
    opened = positions.open()
    area = new_work_area(KEY, location)
    frame = session.read.parquet(str(source))
    task = row_task(pipeline, read, columns_of(frame, "the increment"), work=area.location)
    batch = replace(Batch.of(pipeline, read, task, write_rows(frame, task)), again=again)
    waiting = load_frame(session, batch, window=window)
    write = SparkWrite(waiting, waiting.columns(opened.schema()), (), batch.rows, RowCount.GATHERED)
    return positions.commit(opened, Change(NextState.of({"n": 1}), write, debts=(area.debt(),))).changes


def contenders(session: SparkSession, folder: Path, size: int) -> dict[str, Callable[[int], object]]:
    """What takes turns."""
    source = folder / "increment"
    keys = ("order_id",)
    last = RowFilter(
        (ColumnRange("changed", Bound(size - size // 100, inclusive=True), Bound(3 * size, inclusive=True)),)
    )
    upsert, overwrite = Load(LoadType.MERGE_UPSERT, keys), Load(LoadType.MERGE_OVERWRITE, keys)
    replacing = Load(LoadType.MERGE_OVERWRITE, keys, replace_by_watermark=True, max_delete_fraction=1.0)
    return {
        "plain MERGE": lambda turn: plain(session, folder / f"plain-{turn}", source),
        "merge_upsert": lambda turn: loaded(session, folder / f"upsert-{turn}", source, upsert),
        "merge_overwrite": lambda turn: loaded(session, folder / f"overwrite-{turn}", source, overwrite),
        "replace window": lambda turn: loaded(session, folder / f"window-{turn}", source, replacing, last),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    size, rounds = (200_000, 2) if given.quick else (given.rows, given.rounds)
    print(report.machine(), flush=True)
    session = open_session(SparkSpec(), delta=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows(session, 0, size).write.format("delta").save(str(folder / "table"))
        increment(session, size).write.parquet(str(folder / "increment"))
        for turn in range(rounds + 1):
            for table in ("plain", "upsert", "overwrite", "window"):
                shutil.copytree(folder / "table", folder / f"{table}-{turn}")
        works = contenders(session, folder, size)
        for work in works.values():
            work(rounds)
        seconds = report.alternate(works, rounds)
    base = seconds["plain MERGE"]
    lines = [
        (name, f"{median:.2f} s", f"{1 / report.side_by_side(seconds[name], base):.2f}")
        for name, median in report.medians(seconds).items()
    ]
    report.table(f"{size // 100:,} rows into {size:,}", ("contender", "median", "of plain MERGE"), lines)
    report.store("merge", {"rows": size, "seconds": seconds})
    session.stop()


if __name__ == "__main__":
    main()
