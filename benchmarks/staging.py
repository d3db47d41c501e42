"""What the committer costs: many units at once, and one commit on a short log against one on a long log.

``python -m benchmarks.staging [--units 10000] [--entries 1000] [--quick]``: in a temporary folder. Units are written
by hand, each with a Parquet file and its meta, so that nothing but the committer is measured.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import report
from tidegate import CommitReport, ProjectSpec, load
from tidegate.commands.commit import Committing
from tidegate.core.files.paths import SourceFile
from tidegate.core.files.plan import Plan
from tidegate.core.files.state import Covered, PathState
from tidegate.parquet.parquet_file import uuid7
from tidegate.protocol.change import Coverage, DataFile
from tidegate.protocol.staging import Meta, StagedUnit, meta_path, unit_path
from tidegate.protocol.table import schema_json
from tidegate.runs.bind import bind
from tidegate.runs.staged import step_json
from tidegate.runs.tracker import AnySource

ROWS = 1000
SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("event", pa.string())])


def project(folder: Path, max_files: int = 1000) -> ProjectSpec:
    """One staged pipeline."""
    (folder / "data").mkdir(exist_ok=True)
    fields = [{"name": "id", "type": "int64"}, {"name": "event", "type": "string"}]
    pipeline = {
        "source": {"source_uri": "data/", "use_watermark": True},
        "schema": {"fields": fields},
        "sink": {"table_uri": "lake/events", "delta_checkpoint_interval": 10},
        "delivery": "staged",
        "staging": {"max_files_per_commit": max_files},
    }
    path = folder / "t.yml"
    path.write_text(json.dumps({"pipelines": {"events": pipeline}}))
    return load(path)


class Stage:
    """Writes units of one source, each of one file of the source."""

    def __init__(self, place: AnySource) -> None:
        self._place = place
        self._store = place.table_store
        rows = pa.table({"id": list(range(ROWS)), "event": ["view"] * ROWS}, schema=SCHEMA)
        content = io.BytesIO()
        pq.write_table(rows, content)
        self._content = content.getvalue()
        self._schema = schema_json(SCHEMA)
        self.seq = 0

    def unit(self) -> None:
        """One more unit, as a run leaves it."""
        self.seq += 1
        file = DataFile(f"{uuid7()}.parquet", len(self._content), ROWS, {})
        self._store.put(file.path, self._content)
        self._store.put(meta_path(file.path), self._meta(file))
        path = f"date=2026-01-28/{self.seq:08d}.ndjson"
        outcome = Covered(path, 1, None, 0, ROWS, eof=True, rows=ROWS)
        now = datetime.now(UTC)
        plan = Plan("events", "default", self.seq - 1, now, listed=(SourceFile(path, 1, None),), complete=False)
        unit = StagedUnit(
            key=self._place.key,
            seq=self.seq,
            attempt=uuid7(),
            identity=self._place.positions.site.identity,
            run="benchmark",
            written_at=now.isoformat(),
            base=10**9,
            step=step_json(PathState(), plan, [outcome]),
            coverage=(Coverage(path, 1, None, 0, ROWS, True, ROWS),),
            data_files=(file,),
            rows=ROWS,
            schema_json=self._schema,
        )
        self._store.put(unit_path(unit.key, unit.seq), unit.to_bytes())

    def _meta(self, file: DataFile) -> bytes:
        return Meta(file.path, file.size, ROWS, pipeline="events", source="default", attempt="x").to_bytes()


def stage(spec: ProjectSpec) -> Stage:
    """For the only source of the project."""
    (pipeline,) = spec.pipelines
    return Stage(bind(spec, pipeline, pipeline.sources[0], 1))


def commit(spec: ProjectSpec) -> tuple[float, CommitReport]:
    """Seconds of one turn of a fresh committer."""
    started = time.perf_counter()
    done = Committing(spec).once(spec.pipelines)
    assert done.ok, done
    return time.perf_counter() - started, done


def many_units(number: int) -> dict[str, object]:
    """All units of a source at once."""
    with tempfile.TemporaryDirectory(prefix="tidegate-staging-") as folder:
        spec = project(Path(folder))
        units = stage(spec)
        for _ in range(number):
            units.unit()
        seconds, done = commit(spec)
        (table,) = done.tables
        assert (table.units, table.rows) == (number, number * ROWS)
        return {
            "what": f"{number:,} units",
            "seconds": round(seconds, 2),
            "commits": table.commits,
            "units per second": round(number / seconds),
        }


def on_a_log_of(entries: int, turns: int = 9) -> dict[str, object]:
    """The median of single commits on a table whose log has about so many entries."""
    with tempfile.TemporaryDirectory(prefix="tidegate-staging-") as folder:
        spec = project(Path(folder), max_files=1)
        units = stage(spec)
        for _ in range(entries):
            units.unit()
        commit(spec)
        seconds = []
        for _ in range(turns):
            units.unit()
            seconds.append(commit(spec)[0])
        return {
            "what": f"one unit, {entries:,} log entries",
            "seconds": round(statistics.median(seconds), 3),
            "commits": turns,
            "units per second": None,
        }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--units", type=int, default=10_000)
    parser.add_argument("--entries", type=int, default=1000)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    units, entries = (200, 30) if given.quick else (given.units, given.entries)
    print(report.machine(), flush=True)
    for measure, size in ((many_units, units), (on_a_log_of, 10), (on_a_log_of, entries)):
        found = measure(size)
        print("  ".join(f"{name}: {value}" for name, value in found.items() if value is not None), flush=True)


if __name__ == "__main__":
    main()
