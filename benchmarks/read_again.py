"""What it costs, and saves, to compare rows that are read again with those of the table (``sink.skip_unchanged``).

``python -m benchmarks.read_again [--rows 4000000] [--rounds 3] [--quick]``: in a temporary folder. A tenth of a table
comes again through ``merge_upsert``, as look-back brings it: with another value in every row, in one per cent of the
rows, or in none. It is the end of the table, in a few of its files, or every tenth row, in all of them. Each contender
has a table of its own for each round, a copy of the same files; one round before the others is not timed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import report
from benchmarks.merge import loaded, rows
from tidegate.protocol.change import RowChanges
from tidegate.spark.session import open_session
from tidegate.specs.columns import Load, LoadType
from tidegate.specs.project import SparkSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHANGED = {"every row": 1, "one per cent": 100, "no row": 0}
"""What has changed, and the distance between two such rows."""
WHERE = ("at the end", "all over")
SKIPPED = {"written again": False, "skip_unchanged": True}


def prepare(session: SparkSession, folder: Path, size: int) -> None:
    """The table, and the tenth of it that comes again, once for each kind of change."""
    rows(session, 0, size).write.format("delta").save(str(folder / "table"))
    tenths = rows(session, size - size // 10, size), rows(session, 0, size, 10)
    for where, tenth in zip(WHERE, tenths, strict=True):
        number = f"order_id / {1 if where == WHERE[0] else 10}"
        for name, step in CHANGED.items():
            remark = f"if(cast({number} as bigint) % {step} = 0, 'changed', remark)" if step else "remark"
            columns = ("order_id", "changed", "customer", "amount", f"{remark} as remark")
            tenth.selectExpr(*columns).write.parquet(str(folder / f"{name} {where}"))


def load(session: SparkSession, folder: Path, batch: str, how: str, turn: int) -> RowChanges:
    upsert = Load(LoadType.MERGE_UPSERT, ("order_id",), skip_unchanged=SKIPPED[how])
    return loaded(session, folder / f"{batch} {how} {turn}", folder / batch, upsert, again=True)


def added(table: Path) -> int:
    """The bytes of the data files that the newest commit has written."""
    newest = max((table / "_delta_log").glob("*.json"))
    actions = map(json.loads, newest.read_text().splitlines())
    return sum(action["add"]["size"] for action in actions if "add" in action)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    size, rounds = (200_000, 1) if given.quick else (given.rows, given.rounds)
    print(report.machine(), flush=True)
    session = open_session(SparkSpec(), delta=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(session, folder, size)
        works: dict[str, Callable[[int], object]] = {}
        batches = [f"{changed} {where}" for where in WHERE for changed in CHANGED]
        for batch in batches:
            for how in SKIPPED:
                works[f"{batch}, {how}"] = partial(load, session, folder, batch, how)
                for turn in range(rounds + 1):
                    shutil.copytree(folder / "table", folder / f"{batch} {how} {turn}")
        written = {}
        for work, do in works.items():
            print(f"  {work:<40} {do(rounds)}", flush=True)
            written[work] = added(folder / f"{work.replace(',', '')} {rounds}")
        seconds = report.alternate(works, rounds)
    found = report.medians(seconds)
    lines = []
    for batch in batches:
        without, with_it = (seconds[f"{batch}, {how}"] for how in SKIPPED)
        works_of = [f"{batch}, {how}" for how in SKIPPED]
        cells = [f"{found[work]:.2f} s, {written[work] / 2**20:.1f} MiB" for work in works_of]
        lines.append((batch, *cells, f"{1 / report.side_by_side(with_it, without):.2f}"))
    report.table(f"{size // 10:,} rows again into {size:,}", ("changed", *SKIPPED, "ratio of times"), lines)
    report.store("read_again", {"rows": size, "seconds": seconds, "bytes_written": written})
    session.stop()


if __name__ == "__main__":
    main()
