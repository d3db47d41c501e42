"""Columns of a table changed because a person says so: one wider type, or all of them replaced.

Both are one Delta commit, and the positions of all sources stay. Widening keeps every row and needs no position of
its own: done twice, it is done. Replacing takes rows away, so it goes by the commit protocol like a replay.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa

from tidegate.errors import ConfigError, SchemaMismatch, StorageUnavailable, TableError, TidegateError
from tidegate.runs.columns import known_fields, whole_columns, with_rescued
from tidegate.runs.place import Place
from tidegate.runs.schema_looking import change_of
from tidegate.schema.evolution import differences
from tidegate.schema.names import CONTAINERS, SCALARS, decimal_of
from tidegate.schema.types import scalar_type, type_name
from tidegate.schema.widening import widened
from tidegate.schema_reports import SchemaChange, TableRewrite
from tidegate.specs import Evolution, PipelineSpec
from tidegate.state.arrow import arrow_schema, no_rows
from tidegate.state.features import check_replaceable, check_table
from tidegate.state.files import Change, Replacement
from tidegate.state.fitting import check_partitioning
from tidegate.state.store import PositionStore
from tidegate.state.table import CommitNote, Snapshot
from tidegate.storage.exclusion import alone

Confirm = Callable[[TableRewrite], bool]


class Table(Protocol):
    """A source of any kind with its ports opened, as far as its table is concerned."""

    @property
    def pipeline(self) -> PipelineSpec:
        """The pipeline that writes the table."""

    @property
    def positions(self) -> PositionStore:
        """Where positions are kept: in the log of the table."""


TRIES = 20

_FEED = "every row is removed and added again: readers of a change data feed or of a stream over the table see that"
_SLOW = "a commit of somebody else in between costs another attempt: stop the pipelines of a large table meanwhile"


def widen(place: Table, column: str, type_name_: str, confirm: Confirm) -> TableRewrite:
    """Rewrite the table with the wider type of one column, if ``confirm`` agrees; what was done, or would have been."""
    started = time.monotonic()
    widening = _Widening(place, column, _type(type_name_))
    report = widening.report()
    if not report.changes or not confirm(report):
        return report
    version = widening.carry_out()
    return replace(report, table_version=version, applied=True, seconds=time.monotonic() - started)


def _type(name: str) -> pa.DataType:
    if name in CONTAINERS:
        raise ConfigError((f"{name!r} cannot be widened to; name the field inside: --column user.age",))
    if name not in SCALARS and decimal_of(name) is None:
        raise ConfigError((f"{name!r} is not a type; allowed: {', '.join(SCALARS)}, decimal(p,s)",))
    return scalar_type(name)


@dataclass(frozen=True, slots=True)
class _Widening:
    place: Table
    column: str
    kind: pa.DataType

    @property
    def _uri(self) -> str:
        return self.place.pipeline.sink.table.uri

    def snapshot(self) -> Snapshot:
        """The table as it is now, if it may be rewritten."""
        found = self.place.positions.site.delta.snapshot()
        if found is None:
            raise TableError(f"there is no table at {self._uri}", "run the pipeline first")
        check_table(found.facts, self._uri)
        check_replaceable(found.facts, self._uri)
        if self.column in found.facts.partition_columns:
            raise TableError(f"{self.column!r} is a partition column", "write into another table")
        return found

    def target(self, snapshot: Snapshot) -> pa.Schema:
        """The columns that the table gets."""
        return widened(arrow_schema(snapshot.facts.schema_json), self.column, self.kind)

    def report(self) -> TableRewrite:
        """What there is to do."""
        snapshot = self.snapshot()
        table = arrow_schema(snapshot.facts.schema_json)
        effect = f"every row is written again with {type_name(self.kind)}"
        changes = tuple(
            SchemaChange(each.path, each.kind.value, each.table, each.file, effect)
            for each in differences(table, self.target(snapshot), Evolution.MERGE)
        )
        notes = (_FEED, _SLOW) if changes else ("the column has this type already",)
        return _report(self.place, snapshot, "table widen", changes, notes)

    def carry_out(self) -> int:
        """Rewrite until the table has the type; the version that has it. An exception decides nothing."""
        problem: TidegateError | None = None
        for _ in range(TRIES):
            snapshot = self.snapshot()
            target = self.target(snapshot)
            if target == arrow_schema(snapshot.facts.schema_json):
                return snapshot.facts.version
            try:
                self._rewrite(snapshot, target)
            except TidegateError as error:
                problem = error
        raise StorageUnavailable(
            f"table {self._uri} could not be rewritten in {TRIES} attempts (last problem: {problem})",
            "nothing was changed: stop whoever commits to it, and try again",
        ) from problem

    def _rewrite(self, snapshot: Snapshot, target: pa.Schema) -> None:
        delta = self.place.positions.site.delta
        now = self.place.positions.site.pace.now_ms()
        note = CommitNote({}, now, f"tidegate: {self.column} widened to {type_name(self.kind)}")
        with ExitStack() as stack:
            stack.enter_context(alone(self.place.pipeline.sink.table, always=False))
            batches = stack.enter_context(delta.all_rows(snapshot))
            rows = pa.RecordBatchReader.from_batches(target, _cast(batches, target))
            delta.overwrite(snapshot, rows, note)


def _cast(batches: Iterator[pa.RecordBatch], target: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        arrays = [batch.column(field.name).cast(field.type) for field in target]
        yield pa.RecordBatch.from_arrays(arrays, schema=target)


def replace_columns(place: Place, confirm: Confirm) -> TableRewrite:
    """Give the table exactly the columns of the pipeline, without a row, if ``confirm`` agrees.

    The position stays: what was read is not read again by itself.
    """
    started = time.monotonic()
    pipeline = place.pipeline
    if pipeline.schema.evolution is not Evolution.OVERWRITE:
        mode = pipeline.schema.evolution.value
        text = f"schema_evolution is `{mode}`, so its table is never replaced; set `schema_evolution: overwrite` first"
        raise ConfigError((f"{pipeline.name}: {text}",))
    if pipeline.transform is not None:
        text = "the columns of its table are those of a transform, which only a run knows; write into another table"
        raise ConfigError((f"{pipeline.name}: {text}",))
    opened = place.positions.open()
    snapshot = place.positions.site.delta.snapshot()
    fields = known_fields(place, None)
    if snapshot is None or opened.state is None:
        raise TableError(f"{place.key}: there is no table to replace the columns of", "run the pipeline first")
    if fields is None:
        raise SchemaMismatch(f"{place.key}: no columns are declared", "declare schema.fields")
    columns, keys = whole_columns(pipeline, with_rescued(pipeline, fields))
    check_partitioning(snapshot.facts.partition_columns, keys)
    check_replaceable(snapshot.facts, pipeline.sink.table.uri)
    report = _replacement(place, snapshot, columns, keys)
    if not report.changes or not confirm(report):
        return report
    replacement = Replacement("true", no_rows, columns)
    state = place.tracker.encode(place.opened_state(opened))
    change = Change(
        state=state,
        embedded=place.tracker.embedded(state),
        schema=columns,
        partition_columns=keys,
        action="schema replace",
        replacement=replacement,
    )
    done = place.positions.commit(opened, change)
    seconds = time.monotonic() - started
    return replace(report, table_version=done.table_version, applied=True, seconds=seconds)


def _replacement(place: Place, snapshot: Snapshot, columns: pa.Schema, keys: tuple[str, ...]) -> TableRewrite:
    table = arrow_schema(snapshot.facts.schema_json)
    found = differences(table, columns, Evolution.OVERWRITE, partition_columns=keys, file_name="the pipeline")
    changes = tuple(replace(change_of(place, each), effect="replaced", error=None) for each in found)
    version = snapshot.facts.version
    notes = (
        f"the rows stay readable as version {version} of the table until VACUUM removes their files",
        "files that were read are not read again by themselves: `tidegate watermark reset --all` does that",
    )
    return _report(place, snapshot, "schema replace", changes, notes if changes else ("the columns are the same",))


def _report(
    place: Table, snapshot: Snapshot, action: str, changes: tuple[SchemaChange, ...], notes: tuple[str, ...]
) -> TableRewrite:
    size = snapshot.size()
    return TableRewrite(
        pipeline=place.pipeline.name,
        table_uri=place.pipeline.sink.table.uri,
        action=action,
        changes=changes,
        rows=size.rows,
        data_files=size.files,
        bytes=size.bytes,
        table_version=snapshot.facts.version,
        notes=notes,
    )
