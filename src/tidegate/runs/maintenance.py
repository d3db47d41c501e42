"""Maintenance of a table: merges small files, removes old ones, writes checkpoints; by hand, or after commits of a run.

None of it changes a row or a position. A run may be writing into the table meanwhile: its appends follow a rewrite
without noticing, and its uncommitted files are never removed.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.errors import TableError, TidegateError
from tidegate.observe.events import Emit, TableCared, TableCareFailed
from tidegate.parquet.parquet_file import FinishedFile
from tidegate.parquet.partitions import Partition
from tidegate.parquet.writer import RollingWriter
from tidegate.protocol.maintenance import MaintainedTable, Rewrite, RewriteOvertaken, commit_rewrite
from tidegate.protocol.position import Position
from tidegate.protocol.table import ActiveFile, Add, TableFacts, arrow_schema
from tidegate.reports.table import TableCareReport
from tidegate.reports.wording import count
from tidegate.specs.project import PipelineSpec
from tidegate.specs.table import Maintenance, SinkSpec
from tidegate.storage.port import ObjectStore
from tidegate.storage.stores import open_store
from tidegate.tasks.read_task import writer_settings

BATCH_ROWS = 65_536
NEVER_ROLL = 1 << 62


def merge_files(
    store: ObjectStore, facts: TableFacts, groups: Sequence[Sequence[ActiveFile]], sink: SinkSpec
) -> Rewrite:
    """One new file for each group, durable in the store; ``TableError`` if a row would be lost."""
    columns = pa.schema(
        [field for field in arrow_schema(facts.schema_json) if field.name not in facts.partition_columns]
    )
    # One file per group, or the commit would have to say which of several replaces which.
    settings = replace(writer_settings(sink), file_size=NEVER_ROLL, rollover_secs=None, inactivity_secs=None)
    added: list[Add] = []
    with closing(RollingWriter(store, settings)) as writer:
        for group in groups:
            partition = Partition(group[0].partition_values)
            read = 0
            for file in group:
                for batch in _rows(store, file, columns):
                    writer.write(batch, partition, "")
                    read += batch.num_rows
            added.extend(_verify_file(store, file, read) for file in writer.cut())
    return Rewrite(tuple(file for group in groups for file in group), tuple(added))


def _rows(store: ObjectStore, file: ActiveFile, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    content = store.get(file.path)
    if len(content) != file.size:
        raise TableError(
            f"data file {file.path} has {count(len(content), 'byte')}, but the log says {file.size}", "restore it"
        )
    # Spark may write times as INT96; read as nanoseconds, years beyond 2262 would wrap around.
    with pq.ParquetFile(pa.BufferReader(content), coerce_int96_timestamp_unit="us") as parquet:
        unknown = set(parquet.schema_arrow.names) - set(columns.names)
        if unknown:
            raise TableError(f"data file {file.path} has columns that the table lacks: {', '.join(sorted(unknown))}")
        for batch in parquet.iter_batches(BATCH_ROWS):
            yield _fit(batch, columns, file)


def _fit(batch: pa.RecordBatch, columns: pa.Schema, file: ActiveFile) -> pa.RecordBatch:
    """The batch with the table's columns: missing ones are null."""
    try:
        arrays = [
            batch.column(field.name).cast(field.type)
            if field.name in batch.schema.names
            else pa.nulls(batch.num_rows, field.type)
            for field in columns
        ]
    except pa.ArrowException as error:
        raise TableError(f"data file {file.path} does not fit the table's columns: {error}") from error
    return pa.RecordBatch.from_arrays(arrays, schema=columns.remove_metadata())


def _verify_file(store: ObjectStore, file: FinishedFile, read: int) -> Add:
    # The last look before old files are given up: a rewrite must not lose a row.
    if file.record_count != read:
        raise TableError(f"{read} rows were read and {file.record_count} written to {file.path}", "nothing was changed")
    found = store.head(file.path)
    if found.size != file.size:
        raise TableError(f"data file {file.path} has {found.size} bytes and was written with {file.size}", "try again")
    return Add(file.path, file.size, file.partition_values, int(found.modified.timestamp() * 1000), file.stats or "{}")


# Queries and runs may have opened a version whose files have left the table since.
SHORTEST_RETENTION_HOURS = 24
# A rewrite that is overtaken is lost as a whole; a gibibyte is what may be lost at once.
COMMIT_BYTES = 1 << 30
# Files end a little below the wanted size; without a margin, each OPTIMIZE would rewrite the result of the last.
SMALL = 0.75
"""Files below this share of the wanted size are combined."""

Bin = tuple[ActiveFile, ...]


@dataclass(frozen=True, slots=True)
class TableMaintenance:
    """The table of one pipeline."""

    pipeline: PipelineSpec

    @property
    def _sink(self) -> SinkSpec:
        return self.pipeline.sink

    @property
    def _table(self) -> MaintainedTable:
        return MaintainedTable(self._sink.table, open_store(self._sink.table))

    def _report(
        self, operation: Literal["optimize", "vacuum", "checkpoint"], dry_run: bool, version: int
    ) -> TableCareReport:
        return TableCareReport(self.pipeline.name, self._sink.table.uri, operation, dry_run, version)

    def optimize(self, target_mb: int | None = None, *, dry_run: bool = False) -> TableCareReport:
        """Combine small files into files of about ``target_mb``, by default ``file_size_mb``."""
        started = time.monotonic()
        target = (target_mb or self._sink.file_size_mb) << 20
        table, store = self._table, open_store(self._sink.table)
        snapshot = table.snapshot(f"OPTIMIZE delta.`{table.uri}`")
        chosen = bins(snapshot.active_files(), target)
        report = self._report("optimize", dry_run, snapshot.facts.version)
        report = replace(
            report,
            files_before=sum(len(each) for each in chosen),
            bytes_before=sum(file.size for each in chosen for file in each),
        )
        if dry_run or not chosen:
            return replace(report, files_after=len(chosen), seconds=time.monotonic() - started)
        done: list[Rewrite] = []
        for group in _groups(chosen):
            rewrite = merge_files(store, snapshot.facts, group, self._sink)
            version = commit_rewrite(store, snapshot.facts.version, rewrite)
            report = replace(report, table_version=version)
            done.append(rewrite)
        added = [file for each in done for file in each.added]
        return replace(
            report,
            files_after=len(added),
            bytes_after=sum(file.size for file in added),
            seconds=time.monotonic() - started,
        )

    def vacuum(
        self, retention_hours: int | None = None, *, force: bool = False, dry_run: bool = False
    ) -> TableCareReport:
        """Remove files that left the table more than ``retention_hours`` ago, at least a day unless ``force``."""
        started = time.monotonic()
        hours = self._sink.maintenance.vacuum_retention_hours if retention_hours is None else retention_hours
        if hours < SHORTEST_RETENTION_HOURS and not force:
            raise TableError(
                f"a retention of {hours} h may remove files that queries and runs are still reading",
                f"keep {SHORTEST_RETENTION_HOURS} h or more, or give --force while nobody uses the table",
            )
        table = self._table
        snapshot = table.snapshot(f"VACUUM delta.`{table.uri}` RETAIN {hours} HOURS")
        left = table.list_expired_files(snapshot, hours)
        version = table.vacuum(snapshot, hours) if left and not dry_run else snapshot.facts.version
        return replace(
            self._report("vacuum", dry_run, version),
            files_before=len(left),
            bytes_before=sum(file.size for file in left),
            retention_hours=hours,
            seconds=time.monotonic() - started,
        )

    def checkpoint(self, *, dry_run: bool = False) -> TableCareReport:
        """Write a Delta checkpoint of the newest version, so that the table loads fast."""
        started = time.monotonic()
        table = self._table
        snapshot = table.snapshot("any write; Spark makes checkpoints by itself")
        if not dry_run:
            table.checkpoint()
        report = self._report("checkpoint", dry_run, snapshot.facts.version)
        return replace(report, seconds=time.monotonic() - started)


def bins(files: Sequence[ActiveFile], target: int) -> list[Bin]:
    """Small files of one partition that together make about one of the ``target`` size; never a single one."""
    partitions: dict[tuple[tuple[str, str | None], ...], list[ActiveFile]] = defaultdict(list)
    for file in sorted(files, key=lambda file: file.path):
        if file.size < target * SMALL:
            partitions[file.partition_values].append(file)
    found: list[Bin] = []
    for small in partitions.values():
        current: list[ActiveFile] = []
        for file in small:
            if current and sum(each.size for each in current) + file.size > target:
                found.append(tuple(current))
                current = []
            current.append(file)
        found.append(tuple(current))
    return [each for each in found if len(each) > 1]


def _groups(chosen: Sequence[Bin]) -> list[list[Bin]]:
    """Bins for one commit each."""
    groups: list[list[Bin]] = []
    size = COMMIT_BYTES
    for each in chosen:
        if size >= COMMIT_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(each)
        size += sum(file.size for file in each)
    return groups


def maintain_after(pipeline: PipelineSpec, source: str, before: int, now: int, emit: Emit) -> None:
    """Do what ``sink.maintenance`` wants after the commits ``before + 1`` to ``now`` of a source; never fails them."""
    wanted, care = pipeline.sink.maintenance, TableMaintenance(pipeline)
    for operation, every in (("optimize", wanted.optimize_every_commits), ("vacuum", wanted.vacuum_every_commits)):
        if every <= 0 or now // every <= before // every:
            continue
        try:
            report = care.optimize() if operation == "optimize" else care.vacuum()
        # Somebody else did the same work, or changed the files; neither is a failure, and the next time is soon.
        except RewriteOvertaken:
            continue
        # Maintenance never fails the commits before it, whatever the library raises.
        except Exception as error:
            said = str(error) if isinstance(error, TidegateError) else f"{type(error).__name__}: {error}"
            emit(TableCareFailed(pipeline.name, source, operation, said))
        else:
            emit(
                TableCared(
                    pipeline.name, source, report.operation, report.files_before, report.bytes_before, report.seconds
                )
            )


def maintain_if_due(
    pipeline: PipelineSpec, source: str, opened: Position | None, commits: int, emit: Emit, stop: threading.Event
) -> None:
    """Maintain the table if one of the last ``commits`` made it due; ``opened`` is the position after them."""
    if pipeline.sink.maintenance == Maintenance() or opened is None or stop.is_set():
        return
    maintain_after(pipeline, source, opened.version - commits, opened.version, emit)
