"""Maintenance of a pipeline's table: optimize, vacuum, checkpoint, widen. Needs no Spark.

Widening keeps every row in one Delta commit, and the positions of all sources stay; repeating it changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace

import pyarrow as pa

from tidegate.commands.project import Config, agree, load_one, pipelines_of, sources_of
from tidegate.errors import ConfigError, StorageUnavailable, TableError, TidegateError
from tidegate.protocol.table import CommitNote, Snapshot, arrow_schema
from tidegate.protocol.table_checks import check_replaceable, check_table
from tidegate.reports.table import SchemaChange, TableCareReport, TableRewrite
from tidegate.runs.maintenance import TableMaintenance
from tidegate.runs.tracker import AnySource
from tidegate.schema.evolution import differences, widen
from tidegate.schema.names import CONTAINERS, SCALARS, decimal_of
from tidegate.schema.types import scalar_type, type_name
from tidegate.specs.table import Evolution
from tidegate.storage.local import lock_log

# Each try reads and writes the whole table; a table that is committed to all the time has to rest for this.
TRIES = 20

_FEED = "every row is removed and added again: readers of a change data feed or of a stream over the table see this"
_SLOW = "every commit in between costs another attempt: stop the pipelines of a large table meanwhile"


def optimize_table(
    config: Config, pipeline: str, *, target_mb: int | None = None, dry_run: bool = False
) -> TableCareReport:
    """Combine small data files; no row changes, and runs may continue meanwhile. No Spark."""
    return _maintenance(config, pipeline).optimize(target_mb, dry_run=dry_run)


def vacuum_table(
    config: Config, pipeline: str, *, retention_hours: int | None = None, force: bool = False, dry_run: bool = False
) -> TableCareReport:
    """Remove data files that left the table more than ``retention_hours`` ago; at least a day unless ``force``.

    Versions that need them can no longer be read or restored. Uncommitted files of runs stay. Needs no Spark.
    """
    return _maintenance(config, pipeline).vacuum(retention_hours, force=force, dry_run=dry_run)


def checkpoint_table(config: Config, pipeline: str, *, dry_run: bool = False) -> TableCareReport:
    """Write a Delta checkpoint of the newest version, so that the table loads fast. No Spark."""
    return _maintenance(config, pipeline).checkpoint(dry_run=dry_run)


def _maintenance(config: Config, pipeline: str) -> TableMaintenance:
    return TableMaintenance(pipelines_of(load_one(config, pipeline), pipeline)[0])


def widen_table(
    config: Config,
    pipeline: str,
    *,
    column: str,
    to: str,
    confirm: Callable[[TableRewrite], bool] = agree,
) -> TableRewrite:
    """Rewrite a table with the wider type ``to`` of one column, in one commit, if ``confirm`` agrees.

    ``column`` may be a path (``user.age``, ``tags.element``, ``prices.value``). The positions of all sources stay.
    """
    started = time.monotonic()
    bound = sources_of(load_one(config, pipeline), pipeline)[0]
    widening = _Widening(bound, column, _type(to))
    report = widening.report()
    if not report.changes or not confirm(report):
        return report
    version = widening.carry_out()
    return replace(report, table_version=version, applied=True, seconds=time.monotonic() - started)


def _type(name: str) -> pa.DataType:
    if name in CONTAINERS:
        raise ConfigError((f"no column can be widened to {name!r}; name the field inside: --column user.age",))
    if name not in SCALARS and decimal_of(name) is None:
        raise ConfigError((f"{name!r} is not a type; allowed: {', '.join(SCALARS)}, decimal(p,s)",))
    return scalar_type(name)


@dataclass(frozen=True, slots=True)
class _Widening:
    bound: AnySource
    column: str
    kind: pa.DataType

    @property
    def _uri(self) -> str:
        return self.bound.pipeline.sink.table.uri

    def snapshot(self) -> Snapshot:
        """The table as it is now, if it may be rewritten."""
        found = self.bound.positions.site.delta.snapshot()
        if found is None:
            raise TableError(f"there is no table at {self._uri}", "run the pipeline first")
        check_table(found.facts, self._uri)
        check_replaceable(found.facts, self._uri)
        if self.column in found.facts.partition_columns:
            raise TableError(f"{self.column!r} is a partition column", "write into another table")
        return found

    def target(self, snapshot: Snapshot) -> pa.Schema:
        """The columns that the table gets."""
        return widen(arrow_schema(snapshot.facts.schema_json), self.column, self.kind)

    def report(self) -> TableRewrite:
        """What the rewrite would do."""
        snapshot = self.snapshot()
        table = arrow_schema(snapshot.facts.schema_json)
        effect = f"every row is written again with {type_name(self.kind)}"
        changes = tuple(
            SchemaChange(each.path, each.kind.value, each.table, each.file, effect)
            for each in differences(table, self.target(snapshot), Evolution.MERGE)
        )
        notes = (_FEED, _SLOW) if changes else ("the column has this type already",)
        return rewrite_report(self.bound, snapshot, "table widen", changes, notes)

    def carry_out(self) -> int:
        """Rewrite until the table has the type, and return the version that has it. An exception decides nothing."""
        problem: TidegateError | None = None
        for _ in range(TRIES):
            snapshot = self.snapshot()
            target = self.target(snapshot)
            if target == arrow_schema(snapshot.facts.schema_json):
                return snapshot.facts.version
            try:
                self._rewrite(snapshot, target)
            # The commit may be durable all the same; the next snapshot shows whether the column has its type.
            except TidegateError as error:
                problem = error
        raise StorageUnavailable(
            f"table {self._uri} could not be rewritten in {TRIES} attempts (last problem: {problem})",
            "nothing was changed: stop other writers and retry",
        ) from problem

    def _rewrite(self, snapshot: Snapshot, target: pa.Schema) -> None:
        delta = self.bound.positions.site.delta
        now = self.bound.positions.site.pace.now_ms()
        note = CommitNote({}, now, f"tidegate: {self.column} widened to {type_name(self.kind)}")
        with ExitStack() as stack:
            stack.enter_context(lock_log(self.bound.pipeline.sink.table, always=False))
            batches = stack.enter_context(delta.all_rows(snapshot))
            rows = pa.RecordBatchReader.from_batches(target, _cast(batches, target))
            delta.overwrite(snapshot, rows, note)


def _cast(batches: Iterator[pa.RecordBatch], target: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        arrays = [batch.column(field.name).cast(field.type) for field in target]
        yield pa.RecordBatch.from_arrays(arrays, schema=target)


def rewrite_report(
    bound: AnySource, snapshot: Snapshot, action: str, changes: tuple[SchemaChange, ...], notes: tuple[str, ...]
) -> TableRewrite:
    """The consequences of a rewrite."""
    size = snapshot.size()
    return TableRewrite(
        pipeline=bound.pipeline.name,
        table_uri=bound.pipeline.sink.table.uri,
        action=action,
        changes=changes,
        rows=size.rows,
        data_files=size.files,
        bytes=size.bytes,
        table_version=snapshot.facts.version,
        notes=notes,
    )
