"""A table of rows, a pipeline that follows it by columns, and a lane that reads and appends them without Spark."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from support.lake import write_config
from tidegate import ProjectSpec, RunReport, load
from tidegate.commands.column_replay import ColumnReplay
from tidegate.core.columns.predicates import RowFilter, predicate
from tidegate.core.columns.replay import ReplayConfig
from tidegate.core.dialects.registry import DIALECTS
from tidegate.observe.events import Emit, Event
from tidegate.protocol.delta import DeltaLakeTable, query
from tidegate.protocol.table import Add, CommitNote
from tidegate.reports.replay import ColumnReplayReport
from tidegate.runs.bind import bind
from tidegate.runs.engine import WaitingFrame
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop
from tidegate.specs.columns import LoadType
from tidegate.specs.locations import Location
from tidegate.storage.options import absolute_uri
from tidegate.storage.stores import open_store
from tidegate.tasks.row_task import Batch

SCHEMA = pa.schema(
    [pa.field("id", pa.int64()), pa.field("at", pa.timestamp("us", "UTC")), pa.field("note", pa.string())]
)


def _path(location: Location) -> Path:
    return Path(location.uri.removeprefix("file://"))


class InProcessColumnEngine(InProcessEngine):
    """The engine of this process, whose replays replace windows by the Delta library."""

    def check_write(self, source: str, only_spark: Sequence[str]) -> None:
        """It writes what Spark alone would write."""

    def load(self, batch: Batch, window: RowFilter | None, *, chunk: bool) -> WaitingFrame:
        assert chunk, "only Spark loads"
        assert window is not None
        assert batch.pipeline.sink.load.type is LoadType.APPEND, "only Spark merges"
        return ReplacedWindow(batch, window)


@dataclass
class ReplacedWindow:
    """A chunk of an append that takes the place of what the table has there, by the Delta library."""

    batch: Batch
    window: RowFilter

    def columns(self, table: pa.Schema | None) -> pa.Schema:
        return self.batch.columns

    offered: ClassVar[int | None] = None

    def changes_nothing(self, table: pa.Schema) -> bool:
        return False

    def write(self, note: CommitNote, table: pa.Schema | None, *, new_columns: bool) -> None:
        location = self.batch.pipeline.sink.table
        delta = DeltaLakeTable(location, open_store(location))
        base = delta.snapshot()
        for app, version in note.transactions.items():
            if base is not None and (base.transaction_version(app) or 0) != version - 1:
                raise RuntimeError(f"{app} is not at {version - 1}")
        folder, columns = _path(self.batch.work), self.batch.columns
        parts = [pq.read_table(folder / name, schema=columns) for name in self.batch.files]
        rows = pa.concat_tables([columns.empty_table(), *parts])
        if base is None:
            delta.create(columns, (), self._adds(rows), note)
        else:
            condition = predicate(self.window, DIALECTS["postgresql"]) or "true"
            delta.replace(base, condition, rows.to_reader(), note)

    def _adds(self, rows: pa.Table) -> list[Add]:
        """The rows as a file of the table."""
        if not rows.num_rows:
            return []
        path = _path(self.batch.pipeline.sink.table) / f"{uuid4()}.parquet"
        pq.write_table(rows, path)
        return [Add(path.name, path.stat().st_size, {}, 0, json.dumps({"numRecords": rows.num_rows}))]


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
        return write_config(path, {"pipelines": {"orders": pipeline}, **self.settings})

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
        return Loop(project, InProcessColumnEngine(), 1, emit or self.seen.append).once(project.pipelines)

    def replay(
        self,
        start: int,
        end: int,
        step: int | None = None,
        *,
        save: bool = False,
        lane: InProcessColumnEngine | None = None,
        column: str | None = None,
        into: str | None = None,
        confirm: Callable[[ColumnReplayReport], bool] = lambda planned: True,
        **options: Any,
    ) -> ColumnReplayReport:
        """A replay without Spark, in chunks of ``step``."""
        config = ReplayConfig(start, end, None if step is None else {"step": step}, save, column)
        (pipeline,) = self.project.pipelines
        place = bind(self.project, pipeline, pipeline.sources[0])
        table = None if into is None else Location(absolute_uri(into, self.root))
        replay = ColumnReplay(
            place, lane or InProcessColumnEngine(), config, into=table, emit=self.seen.append, **options
        )
        return replay.run(confirm)

    def ids(self, table: str = "lake/orders") -> list[int]:
        """What the table holds, in order."""
        found = query(Location(absolute_uri(table, self.root)), "select id from t")
        return sorted(row["id"] for row in found)

    def assert_exactly_once(self, wanted: Iterable[int] | None = None) -> None:
        """Every row of the source is in the table once, and nothing else."""
        expected = Counter(row["id"] for row in self.rows) if wanted is None else Counter(wanted)
        assert Counter(self.ids()) == expected
