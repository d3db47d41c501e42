"""A table that batches of a column source are loaded into, each by one commit, and questions to it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from support.changes import appended
from tidegate.core.columns.predicates import Bound, ColumnRange, RowFilter
from tidegate.protocol.change import Change, Identity, NextState, SourceKey, SparkWrite
from tidegate.protocol.delta import query
from tidegate.protocol.documents import WORK
from tidegate.protocol.follow_ups import WorkRemover, new_work_area
from tidegate.protocol.position import Position, TableContext
from tidegate.protocol.store import PositionStore, open_delta
from tidegate.spark.frames import columns_of, write_rows
from tidegate.spark.loading.strategies import load_frame
from tidegate.specs.columns import ColumnSource, FunctionRead, Load, Value
from tidegate.specs.locations import Location
from tidegate.specs.project import PipelineSpec, TransformSpec
from tidegate.specs.table import PartitionBy, SchemaSpec, SinkSpec
from tidegate.storage.stores import open_store
from tidegate.tasks.row_task import Batch, RowsWritten, row_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = "id bigint, u bigint, v string"


def at(day: int) -> datetime:
    """A day of January."""
    return datetime(2026, 1, day, tzinfo=UTC)


def window(**bounds: tuple[Value, Value]) -> RowFilter:
    """Values from lower to upper, both inside."""
    ranges = (
        ColumnRange(column, Bound(low, inclusive=True), Bound(high, inclusive=True))
        for column, (low, high) in bounds.items()
    )
    return RowFilter(tuple(ranges))


class LoadedTable:
    """One pipeline with one source."""

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        load: Load,
        *,
        watermarks: tuple[str, ...] = ("u",),
        partition_by: PartitionBy | None = None,
        transform: str | None = None,
        source_timezone: str = "UTC",
    ) -> None:
        self.spark = spark
        self.path = folder / "orders"
        self.source = ColumnSource(
            "db", FunctionRead("demo:rows"), watermark_columns=watermarks, source_timezone=source_timezone
        )
        self.pipeline = PipelineSpec(
            "orders",
            (self.source,),
            SchemaSpec(infer=True),
            SinkSpec(Location(self.path.as_uri()), partition_by=partition_by, load=load),
            transform=None if transform is None else TransformSpec(sql=transform),
        )
        table = self.pipeline.sink.table
        self.key = SourceKey("orders", "db")
        self.store = open_store(table)
        self.positions = PositionStore(
            TableContext(
                self.key,
                Identity("column", self.source.uri),
                self.store,
                open_delta(table, self.store),
                payers={WORK: WorkRemover(self.store).pay},
            )
        )

    def load(
        self,
        rows: Sequence[tuple[Any, ...]],
        columns: str = COLUMNS,
        *,
        window: RowFilter | None = None,
        chunk: bool = False,
        meanwhile: Callable[[], object] = lambda: None,
    ) -> Position:
        """Open, write the rows into a work area, and commit them; ``meanwhile`` happens between the two."""
        opened = self.positions.open()
        area = new_work_area(self.key, self.pipeline.sink.table)
        frame = self.spark.createDataFrame(list(rows), columns)
        task = row_task(self.pipeline, self.source, columns_of(frame, "the test"), work=area.location)
        batch = Batch.of(self.pipeline, self.source, task, write_rows(frame, task))
        waiting = load_frame(self.spark, batch, window=window, chunk=chunk)
        meanwhile()
        keys = opened.partition_columns if opened.table_id else batch.partitioned_by
        write = SparkWrite(waiting, waiting.columns(opened.schema()), keys, batch.rows)
        change = Change(NextState.of({"n": opened.version + 1}), write, debts=(area.debt(),))
        return self.positions.commit(opened, change)

    def append(self, frame: DataFrame) -> RowsWritten:
        """Write the rows straight into the table's folder and commit the files."""
        opened = self.positions.open()
        task = row_task(self.pipeline, self.source, columns_of(frame, "the test"), opened.schema())
        written = write_rows(frame, task)
        state = {"n": opened.version + 1}
        change = appended(state, written.data_files, task.written, task.partition_columns)
        self.positions.commit(opened, change)
        return written

    def foreign(self, statement: str) -> None:
        """Somebody else writes the table, which the statement calls ``{}``."""
        self.spark.sql(statement.format(f"delta.`{self.path}`"))

    @property
    def columns(self) -> list[str]:
        """The columns of the table."""
        return list(self.spark.read.format("delta").load(str(self.path)).columns)

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        """What the table has, sorted."""
        names = columns or ("id", "u", "v")
        found = [tuple(_value(record, name) for name in names) for record in self.records()]
        return sorted(found, key=lambda row: [(value is not None, value) for value in row])

    def records(self) -> list[dict[str, Any]]:
        """All rows with all columns, read by the Delta library; by Spark where that cannot read the table."""
        features = set(DeltaTable(str(self.path)).protocol().reader_features or ())
        if features - {"timestampNtz"}:
            found = self.spark.read.format("delta").load(str(self.path)).collect()
            return [row.asDict() for row in found]
        return query(self.pipeline.sink.table, "select * from t")

    def log(self) -> list[dict[str, Any]]:
        """One mapping of actions per commit."""
        entries = sorted((self.path / "_delta_log").glob("*.json"))
        return [_actions(path) for path in entries]

    @property
    def position(self) -> int:
        """By the last commit that has one."""
        return max(entry["txn"]["version"] for entry in self.log() if "txn" in entry)

    def left(self) -> list[Path]:
        """Files in work areas."""
        return [path for path in (self.path / self.key.directory).glob("work/**/*") if path.is_file()]


def _value(record: Mapping[str, Any], name: str) -> Any:
    """The value of a column, or with a dot of a field in a column; a name in backticks is one of a column."""
    column, _, field = (name.strip("`"), "", "") if name.startswith("`") else name.partition(".")
    value = record[column]
    return value[field] if field and value is not None else value


def _actions(path: Path) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for line in path.read_text().splitlines():
        found |= json.loads(line)
    return found
