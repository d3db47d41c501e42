"""A table of work units: written without Spark, one file per unit and segment, and replaced by Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from support.changes import appended
from tidegate.protocol.change import Change, Identity, NextState, SourceKey, SparkWrite
from tidegate.protocol.documents import WORK
from tidegate.protocol.follow_ups import WorkRemover, new_work_area
from tidegate.protocol.position import Position, TableContext
from tidegate.protocol.store import PositionStore, open_delta
from tidegate.spark.loading.strategies import unit_frame
from tidegate.specs.columns import FunctionRead
from tidegate.specs.locations import Location
from tidegate.specs.project import PipelineSpec, TransformSpec
from tidegate.specs.table import SchemaSpec, SinkSpec
from tidegate.specs.units import Replace, UnitSource
from tidegate.storage.stores import open_store
from tidegate.tasks.row_task import Batch, RowsWritten, RowTask, join_results, row_task, write_batches
from tidegate.tasks.unit_task import ReplacedUnit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = 86_400_000
Rows = Mapping[str, Sequence[tuple[Any, ...]]]
"""By unit: segment in days, then the values."""


class UnitTable:
    """One pipeline with one source of work units, whose rows have ``columns`` beside those of the unit."""

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        columns: Mapping[str, pa.DataType],
        *,
        replace: Replace = Replace.SEGMENTS,
        time_column: str | None = None,
        timezone: str = "UTC",
        transform: str | None = None,
    ) -> None:
        self.spark = spark
        self.more_state: Mapping[str, object] = {}
        self.path = folder / "answers"
        self.shares_files = False
        self.source = UnitSource(
            "api", FunctionRead("demo:rows"), replace=replace, time_column=time_column, timezone=timezone
        )
        self.pipeline = PipelineSpec(
            "answers",
            (self.source,),
            SchemaSpec(infer=True),
            SinkSpec(Location(self.path.as_uri())),
            transform=None if transform is None else TransformSpec(sql=transform),
        )
        names = {"_tidegate_unit": pa.string(), "_tidegate_segment": pa.timestamp("us", "UTC")}
        self.columns = pa.schema(list((names | dict(columns)).items()))
        table = self.pipeline.sink.table
        self.key = SourceKey("answers", "api")
        store = open_store(table)
        self.positions = PositionStore(
            TableContext(
                self.key,
                Identity("unit", self.source.uri),
                store,
                open_delta(table, store),
                payers={WORK: WorkRemover(store).pay},
            )
        )

    def append(self, rows: Rows) -> Position:
        """New units, straight into the folder of the table."""
        opened = self.positions.open()
        task = row_task(self.pipeline, self.source.rows, self.columns, opened.schema())
        written = self._written(task, rows)
        change = appended(self._state(opened), written.data_files, task.written)
        return self.positions.commit(opened, change)

    def replace(self, rows: Rows, *replaced: tuple[str, int, int]) -> Position:
        """Units that were read again, each from one day to another; the commit is one statement of Spark."""
        opened = self.positions.open()
        area = new_work_area(self.key, self.pipeline.sink.table)
        task = row_task(self.pipeline, self.source.rows, self.columns, work=area.location)
        batch = Batch.of(self.pipeline, self.source.rows, task, self._written(task, rows))
        given = [ReplacedUnit(unit, low * DAY, high * DAY) for unit, low, high in replaced]
        waiting = unit_frame(self.spark, batch, self.source, given)
        keys = opened.partition_columns
        write = SparkWrite(waiting, waiting.columns(opened.schema()), keys, batch.rows)
        change = Change(NextState.of(self._state(opened)), write, debts=(area.debt(),))
        return self.positions.commit(opened, change)

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        """What the table has, sorted."""
        found = self.spark.read.format("delta").load(str(self.path)).selectExpr(*columns).collect()
        return sorted(tuple(row) for row in found)

    def actions(self, kind: str) -> list[dict[str, Any]]:
        """Those of the last commit."""
        last = max((self.path / "_delta_log").glob("*.json"))
        lines = map(json.loads, last.read_text().splitlines())
        return [line[kind] for line in lines if kind in line]

    def units_of_files(self) -> dict[str, tuple[str, str]]:
        """The least and the greatest unit of each file that was ever added, by its statistics."""
        found = {}
        for entry in sorted((self.path / "_delta_log").glob("*.json")):
            for line in map(json.loads, entry.read_text().splitlines()):
                if "add" in line:
                    stats = json.loads(line["add"]["stats"])
                    least, greatest = (stats[each]["_tidegate_unit"] for each in ("minValues", "maxValues"))
                    found[line["add"]["path"]] = (least, greatest)
        return found

    def _written(self, task: RowTask, rows: Rows) -> RowsWritten:
        if self.shares_files:
            return write_batches(task, [self._batch(unit, values) for unit, values in rows.items() if values])
        parts = [
            write_batches(task, [self._batch(unit, [each for each in values if each[0] == segment])])
            for unit, values in rows.items()
            for segment in sorted({each[0] for each in values})
        ]
        return join_results(task, parts)

    def _batch(self, unit: str, values: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
        given = [(unit, segment * DAY * 1000, *rest) for segment, *rest in values]
        arrays = [
            pa.array(column, field.type) for column, field in zip(zip(*given, strict=True), self.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.columns)

    def _state(self, opened: Position) -> dict[str, object]:
        return {"n": opened.version + 1, **self.more_state}
