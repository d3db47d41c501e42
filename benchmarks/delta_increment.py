"""One row in a hundred out of a Delta table: the increment beside a full scan of the same table.

    python -m benchmarks.delta_increment [--rows 100000000] [--files 200] [--rounds 3] [--cores 2] [--quick]

The table is written in order of its watermark column, as a pipeline that appends writes it, so that files are passed
over by their statistics. Both compute every column and keep nothing, in turns, in one warm session.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from benchmarks.report import alternate, consumed, machine, medians, store
from tidegate.core.columns.predicates import Bound, ColumnRange, RowFilter
from tidegate.spark.readers.tables import TableReader
from tidegate.spark.session import open_session
from tidegate.specs.columns import ColumnSource, TableFormat, TableRead
from tidegate.specs.locations import Location
from tidegate.specs.project import SparkSpec
from tidegate.specs.table import SchemaSpec

COLUMNS = (
    "id",
    "timestamp'2026-01-01 00:00:00Z' + make_dt_interval(0, 0, 0, id / 1000) as updated_at",
    "cast(id % 100000 as decimal(12, 2)) as amount",
    "concat('customer ', id % 1000) as customer",
)


def main() -> None:
    """Write the table, then read it in both ways."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    rows, files, rounds = (1_000_000, 20, 1) if given.quick else (given.rows, given.files, given.rounds)
    session = open_session(SparkSpec(master=f"local[{given.cores}]"), delta=True)
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        path = Path(folder) / "events"
        session.range(0, rows, 1, files).selectExpr(*COLUMNS).write.format("delta").save(str(path))
        read = TableRead(TableFormat.DELTA, Location(path.as_uri()))
        source = ColumnSource("events", read, ("id",))
        wanted = RowFilter((ColumnRange("id", Bound(rows - rows // 100 - 1)),))
        opened: list[int] = []

        def increment(_: int) -> None:
            reader = TableReader(session, source, read, SchemaSpec())
            seen = reader.greatest(wanted)
            cap = {name: Bound(value, inclusive=True) for name, value in seen.values.items() if value is not None}
            frame = reader.read(wanted.capped(cap))
            opened.append(len(frame.inputFiles()))
            consumed(frame)

        def full_scan(_: int) -> None:
            consumed(session.read.format("delta").load(str(path)))

        increment(0)  # so that the session is warm for both
        seconds = alternate({"increment, 1 %": increment, "full scan": full_scan}, rounds)
        middle = medians(seconds)
        print(f"{machine()}; {rows:,} rows in {files} files, of which the increment opened {opened[-1]}")
        print(f"increment: {middle['increment, 1 %'] / middle['full scan']:.3f} of a full scan")
        store("delta_increment", {"rows": rows, "files": files, "opened": opened[-1], "seconds": seconds})
    session.stop()


if __name__ == "__main__":
    main()
