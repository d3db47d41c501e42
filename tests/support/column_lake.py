"""A table of rows, a pipeline that follows it by columns, and a lane that reads and appends them without Spark."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate import ProjectSpec, RunReport, load
from tidegate.column_specs import ColumnSource, TableRead
from tidegate.observe.events import Emit, Event
from tidegate.runs.lanes import InProcessLane, WaitingFrame
from tidegate.runs.running import Running
from tidegate.sink.batches import Batch
from tidegate.sink.greatest import Greatest
from tidegate.sink.row_task import RowsWritten, RowTask, write_batches
from tidegate.sources.reading import Seen
from tidegate.specs import Location, SchemaSpec
from tidegate.state.reading import query
from tidegate.storage.opening import absolute
from tidegate.watermarks.predicate_text import matches
from tidegate.watermarks.row_filter import RowFilter

SCHEMA = pa.schema(
    [pa.field("id", pa.int64()), pa.field("at", pa.timestamp("us", "UTC")), pa.field("note", pa.string())]
)


@dataclass
class TableReader:
    """Reads one Parquet file as the source."""

    path: Path
    columns: Sequence[str]
    source: ColumnSource
    fixed_first: bool = True

    def greatest(self, rows: RowFilter) -> Seen:
        seen = Greatest(self.columns, self.source.mode)
        for batch in self.read(rows).to_batches():
            seen.see(batch)
        return Seen(seen.values, self._nulls())

    def _nulls(self) -> int:
        seen = Greatest(self.columns, self.source.mode)
        for batch in pq.read_table(self.path).to_batches():
            seen.see(batch)
        return seen.nulls

    def read(self, rows: RowFilter) -> pa.Table:
        table = pq.read_table(self.path)
        return table.filter(pa.array([matches(rows, row) for row in table.to_pylist()], pa.bool_()))


class InProcessColumnLane(InProcessLane):
    """Column sources that are one Parquet file, appended in this process."""

    def reader(self, source: ColumnSource, schema: SchemaSpec, now: datetime) -> TableReader:
        assert isinstance(source.read, TableRead)
        path = Path(source.read.location.uri.removeprefix("file://"))
        return TableReader(path / "rows.parquet", source.watermark_columns, source)

    def columns(self, frame: pa.Table) -> pa.Schema:
        return frame.schema

    def write_rows(self, frame: pa.Table, task: RowTask) -> RowsWritten:
        return write_batches(task, frame.to_batches())

    def load(self, batch: Batch, window: RowFilter | None, *, chunk: bool) -> WaitingFrame:
        raise AssertionError("only Spark loads")

    def folder_rows(self, batch: Batch, window: RowFilter | None, files: Sequence[str]) -> pa.Table:
        raise AssertionError("only Spark looks into files that are there")


@dataclass
class ColumnLake:
    """One pipeline ``orders`` with one source ``default`` in ``root``, which is a Parquet file of rows."""

    root: Path
    source_settings: Mapping[str, Any] = field(default_factory=dict)
    sink_settings: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    schema: pa.Schema = SCHEMA
    seen: list[Event] = field(default_factory=list)

    @property
    def config(self) -> Path:
        """The configuration file, written anew each time."""
        (self.root / "data").mkdir(parents=True, exist_ok=True)
        path = self.root / "tidegate.yml"
        source = {"type": "parquet", "source_uri": "data", "watermark_columns": ["id"], **self.source_settings}
        pipeline = {"source": source, "sink": {"table_uri": "lake/orders", **self.sink_settings}}
        path.write_text(json.dumps({"pipelines": {"orders": pipeline}, **self.settings}))
        return path

    @property
    def project(self) -> ProjectSpec:
        """The checked configuration."""
        return load(self.config)

    def arrive(self, *rows: Mapping[str, Any]) -> None:
        """More rows at the source; whatever a row lacks is null."""
        self.rows += [dict(row) for row in rows]
        self.save()

    def save(self) -> None:
        """The source as ``rows`` has it."""
        (self.root / "data").mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(self.rows, self.schema), self.root / "data" / "rows.parquet")

    def run(self, emit: Emit | None = None) -> RunReport:
        """One pass without Spark."""
        project = self.project
        return Running(project, InProcessColumnLane(), 1, emit or self.seen.append).once(project.pipelines)

    def ids(self) -> list[int]:
        """What the table holds, in order."""
        found = query(Location(absolute("lake/orders", self.root)), "select id from t")
        return sorted(row["id"] for row in found)

    def assert_exactly_once(self, wanted: Iterable[int] | None = None) -> None:
        """Every row of the source is in the table once, and nothing else."""
        expected = Counter(row["id"] for row in self.rows) if wanted is None else Counter(wanted)
        assert Counter(self.ids()) == expected
