"""Peak memory of a worker when a file is ten times larger. ``python -m benchmarks.memory [--quick]``.

Each size is read by a fresh process (the code that runs in a Spark task, without Spark); its peak resident set is
what the operating system reports.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import events, report

READ = """
import json, resource, sys
from tidegate.schema.names import field_from_json
from tidegate.core.files.plan import FileSlice, FileGroup as Unit
from tidegate.tasks.read_task import read_task
from tidegate.tasks.task import read_group_at_once
from tidegate.specs.locations import Location
from tidegate.specs.files import PathSource
from tidegate.specs.project import PipelineSpec
from tidegate.specs.table import (SchemaSpec, SinkSpec)
source, table, name, size = sys.argv[1:5]
fields = tuple(field_from_json(each) for each in json.loads(sys.argv[5]))
pipeline = PipelineSpec("p", (), SchemaSpec(fields), SinkSpec(Location(table)))
task = read_task(pipeline, PathSource("s", Location(source)), fields)
result = read_group_at_once(task, Unit(1, (FileSlice(name, int(size)),)))
print(result.rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""

FIELDS = json.dumps(
    [
        {**each, "items": {"name": "element", "type": each["items"]}} if "items" in each else each
        for each in events.FIELDS
    ]
)


def peak_mebibytes(folder: Path, records: int) -> tuple[int, int]:
    """Peak MiB and file bytes for one gzip file of ``records`` records."""
    name = f"{records}.ndjson.gz"
    with gzip.open(folder / name, "wb", compresslevel=1) as out:
        for piece in events.pieces(records):
            out.write(piece)
    size = (folder / name).stat().st_size
    arguments = [f"file://{folder}", f"file://{folder}/table-{records}", name, str(size), FIELDS]
    done = subprocess.run([sys.executable, "-c", READ, *arguments], capture_output=True, text=True, check=True)
    rows, peak = map(int, done.stdout.split())
    assert rows == records
    return peak, size


def main() -> None:
    """One size, and ten times that."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="a fortieth of the data")
    base = 50_000 if arguments.parse_args().quick else 2_000_000
    with tempfile.TemporaryDirectory(prefix="tidegate-memory-") as place:
        found = [(records, *peak_mebibytes(Path(place), records)) for records in (base, base * 10)]
    report.table(
        "Peak memory of one worker",
        ("records in the file", "gzip MB", "peak MiB", "ratio"),
        [(f"{records:,}", f"{size / 1e6:.0f}", peak, f"{peak / found[0][1]:.2f}") for records, peak, size in found],
    )
    report.store("memory", {"rows": [{"records": r, "peak_mib": p, "bytes": s} for r, p, s in found]})


if __name__ == "__main__":
    main()
