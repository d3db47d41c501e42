"""The same files delivered directly and staged: what the hand-over to the committer costs.

``python -m benchmarks.delivery [--quick]``: in one warm Spark session, in turns. Direct is one run; staged is a run
that leaves units, and the committer that takes them, one after the other, as a single machine would do it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path

import tidegate
from benchmarks import events, report
from tidegate.spark.session import open_session
from tidegate.specs.project import SparkSpec

THREADS = 2


def configuration(folder: Path, source: Path, table: Path, delivery: str) -> Path:
    """One pipeline from ``source`` to ``table``."""
    path = folder / f"{table.name}.yml"
    pipeline = {
        "source": {"source_uri": str(source), "use_watermark": True, "lateness": "none"},
        "schema": {"fields": events.FIELDS},
        "sink": {"table_uri": str(table)},
        "delivery": delivery,
    }
    path.write_text(json.dumps({"pipelines": {"events": pipeline}, "spark": {"master": f"local[{THREADS}]"}}))
    return path


def compare(name: str, source: Path, records: int, rounds: int) -> None:
    """Seconds of both, and of the two halves of staged delivery; checks that all rows arrived."""
    work = Path(tempfile.mkdtemp(prefix="tidegate-delivery-"))
    open_session(SparkSpec(master=f"local[{THREADS}]"))

    def direct(turn: int) -> None:
        table = work / f"direct-{turn}"
        done = tidegate.run(configuration(work, source, table, "direct"))
        assert sum(one.rows for one in done.sources) == records, done
        shutil.rmtree(table)

    def written(turn: int) -> None:
        done = tidegate.run(configuration(work, source, work / f"staged-{turn}", "staged"))
        assert done.ok, done

    def committed(turn: int) -> None:
        table = work / f"staged-{turn}"
        done = tidegate.commit(configuration(work, source, table, "staged"))
        assert sum(one.rows for one in done.tables) == records, done
        shutil.rmtree(table)

    contenders = {"direct": direct, "staged, the run": written, "staged, the committer": committed}
    for warm in contenders.values():
        warm(-1)
    seconds: dict[str, list[float]] = {each: [] for each in contenders}
    for turn in range(rounds):
        for each in list(contenders) if turn % 2 else [*list(contenders)[1:], "direct"]:
            once = report.alternate({each: lambda _, each=each, turn=turn: contenders[each](turn)}, 1)  # type: ignore[misc]
            seconds[each] += once[each]
    shutil.rmtree(work)
    staged = [run + commit for run, commit in zip(*list(seconds.values())[1:], strict=True)]
    middle = report.medians({**seconds, "staged, both": staged})
    ratio = 1 / report.side_by_side(staged, seconds["direct"])
    rows = [(each, f"{value:.2f}") for each, value in middle.items()]
    report.table(f"{name}: {records:,} records; staged takes {ratio:.2f} of direct", ("what", "median s"), rows)
    report.store(f"delivery-{name}", {"seconds": {**seconds, "staged, both": staged}, "records": records})


def main() -> None:
    """Large files, then many small ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fortieth of the data, one round")
    parser.add_argument("--data", type=Path, default=Path(__file__).parent / "data")
    given = parser.parse_args()
    print(report.machine())
    shapes = (("throughput", 4, 100_000), ("small-files", 200, 200))
    if not given.quick:
        shapes = (("throughput", 32, 500_000), ("small-files", 5000, 200))
    for name, files, records in shapes:
        source, _ = events.dataset(given.data, files, records)
        compare(name, source, files * records, 1 if given.quick else 3)


if __name__ == "__main__":
    main()
