"""Replay of a column source: a range of values is read again, in chunks, and takes the place of what the table has.

A replay is a source of its own beside the production one: its position in the table's log is the record of finished
chunks. So a crash repeats no chunk and forgets none, also not an empty one, whatever the production watermark is. That
one moves only when asked to, with the chunk that allows it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidegate.errors import RunStopped, StorageError, TidegateError, WatermarkError
from tidegate.failpoints import failpoint
from tidegate.observe import events
from tidegate.planning.column_plan import Fixed
from tidegate.planning.column_planner import fixed, plan_columns
from tidegate.replay_reports import ChunkReport, ColumnReplayReport, Fate
from tidegate.runs.column_lane import ColumnLane
from tidegate.runs.column_looking import text_of
from tidegate.runs.column_place import ColumnPlace
from tidegate.runs.place import Clock, utc_now
from tidegate.runs.replay_checks import ReplayChecks
from tidegate.runs.replay_record import ReplayRecord
from tidegate.sources.explaining import explained
from tidegate.specs import Location, PipelineSpec
from tidegate.state.files import Change
from tidegate.state.opened import Opened
from tidegate.state.work_areas import WorkArea, clean_old, new_work_area, remove_work
from tidegate.watermarks.chunks import Chunk, ReplayConfig
from tidegate.watermarks.column_values import are_comparable, described

if TYPE_CHECKING:
    from tidegate.sink.batches import Batch
    from tidegate.sink.row_task import RowsWritten

Confirm = Callable[[ColumnReplayReport], bool]


@dataclass(frozen=True, slots=True)
class _Gathered:
    """The rows of a chunk, read once, in a work area."""

    batch: Batch
    bounds: Fixed
    area: WorkArea


class ColumnReplay:
    """One replay of one source; ``into`` is another table than the pipeline's."""

    def __init__(
        self,
        place: ColumnPlace,
        lane: ColumnLane,
        config: ReplayConfig,
        *,
        into: Location | None = None,
        skip_gap: bool = False,
        fresh: bool = False,
        max_workers: int = 1,
        emit: events.Emit = events.ignore,
        stop: threading.Event | None = None,
        clock: Clock = utc_now,
    ) -> None:
        self._place = place
        self._lane = lane
        self._config = config
        self._fresh = fresh
        self._max_workers = max_workers
        self._emit = emit
        self._stop = stop or threading.Event()
        self._clock = clock
        self._names = (place.pipeline.name, place.source.name)
        self._pipeline = place.pipeline if into is None else _into(place.pipeline, into)
        self._elsewhere = into is not None
        self._skip_gap = skip_gap
        self._fates: dict[int, ChunkReport] = {}

    def run(self, confirm: Confirm = lambda planned: True) -> ColumnReplayReport:
        """Carry out what is left if ``confirm`` agrees; a chunk that fails is in the report.

        Up to then nothing is written and Spark is not asked for.
        """
        started = time.monotonic()
        production = self._place.state_of(self._place.open(read_only=True))
        checks = ReplayChecks(self._place, self._config, production, self._elsewhere, self._skip_gap)
        predicate = explained(self._place.source, checks.plan(self._clock()).reads)
        checks.check()
        record = ReplayRecord(self._place, self._pipeline, self._config, self._clock)
        checks.check_alone(record.positions)
        resumed, given_up = record.resume(fresh=self._fresh)
        warnings = (*checks.warnings(), *(() if given_up is None else (given_up,)))
        about = ColumnReplayReport(
            *self._names,
            self._pipeline.sink.table.uri,
            record.state.column,
            (),
            predicate,
            resumed=resumed,
            notes=(*checks.notes(), *warnings),
        )
        planned = self._report(about, record)
        if not confirm(planned):
            return planned
        for warning in warnings:
            self._emit(events.Notice(*self._names, warning))
        if checks.asks_source:
            checks.check_source(self._lane.reader(self._place.source, self._pipeline.schema, self._clock()))
        with suppress(StorageError):
            clean_old(record.positions.site.store, record.positions.site.key, self._clock())
        record.hand_over()
        self._carry_out(record, in_order=checks.in_order)
        return replace(self._report(about, record), applied=True, seconds=time.monotonic() - started)

    def _carry_out(self, record: ReplayRecord, *, in_order: bool) -> None:
        """Read chunks, as many at once as there are workers, and commit them one after the other."""
        queue = iter([number for number in range(len(record.chunks)) if number not in record.state.finished])
        workers = 1 if in_order else max(1, self._max_workers)
        reading: dict[Future[_Gathered], int] = {}
        with ThreadPoolExecutor(workers) as pool:
            while True:
                while len(reading) < workers and self._goes_on(in_order) and (number := next(queue, None)) is not None:
                    reading[pool.submit(self._gathered, record, number)] = number
                if not reading:
                    break
                for done in wait(reading, return_when=FIRST_COMPLETED).done:
                    self._settle(record, reading.pop(done), done)
        if self._stop.is_set():
            raise RunStopped("stopped; the same replay goes on where it is now")

    def _goes_on(self, in_order: bool) -> bool:
        failed = any(each.fate == "failed" for each in self._fates.values())
        return not self._stop.is_set() and not (in_order and failed)

    def _settle(self, record: ReplayRecord, number: int, done: Future[_Gathered]) -> None:
        try:
            rows = self._committed(record, number, done.result())
        except RunStopped:
            return
        except TidegateError as error:
            self._tell(record, number, "failed", 0, str(error))
        else:
            self._tell(record, number, "done", rows)

    def _tell(self, record: ReplayRecord, number: int, fate: Fate, rows: int, error: str | None = None) -> None:
        chunk = _reported(record.chunks[number], fate, rows, error)
        self._fates[number] = chunk
        failed = sum(each.fate == "failed" for each in self._fates.values())
        dealt = len(record.state.finished) + failed
        self._emit(events.ChunkFinished(*self._names, chunk.low, chunk.high, rows, dealt, len(record.chunks), error))

    def _gathered(self, record: ReplayRecord, number: int) -> _Gathered:
        """The rows of one chunk, read into a work area of its own."""
        from tidegate.sink.batches import Batch
        from tidegate.sink.row_task import row_task

        source, now, chunk = self._place.source, self._clock(), record.chunks[number]
        load, column = self._pipeline.sink.load, self._config.chunk_column
        plan = plan_columns(self._names[0], source, load, None, 0, now, chunk=chunk, chunk_column=column)
        bounds = fixed(plan, None, {})
        frame = self._lane.reader(source, self._pipeline.schema, now).read(bounds.rows)
        area = new_work_area(record.positions.site.key, self._pipeline.sink.table)
        with _removed_on_failure(record, area):
            task = row_task(self._pipeline, source, self._lane.columns(frame), work=area.location)
            written = self._lane.write_rows(frame, task)
            self._check_kind(bounds, written)
            failpoint("runs.read")
        return _Gathered(Batch.of(self._pipeline, source, task, written), bounds, area)

    def _check_kind(self, bounds: Fixed, written: RowsWritten) -> None:
        """A bound that is saved must be one that the column's values can be compared with: no date among times."""
        if not self._config.save_watermark:
            return
        for column in bounds.rows.columns:
            value = written.greatest.get(column)
            if value is not None and not are_comparable(value, self._config.end):
                raise WatermarkError(
                    f"{'/'.join(self._names)}: the replay ends at {described(self._config.end)}, and {column!r} has "
                    f"values such as {described(value)}",
                    "give bounds of that kind; times as 2026-04-03T09:15:00+00:00",
                )

    def _committed(self, record: ReplayRecord, number: int, gathered: _Gathered) -> int:
        """Commit the rows of a chunk with the record that has it finished; how many rows."""
        batch = gathered.batch

        def change(opened: Opened) -> Change:
            frame = self._lane.load(batch, gathered.bounds.window, chunk=True)
            return Change(
                state={},
                embedded={},
                rows=batch.rows,
                rows_known=True,
                frame=frame,
                schema=frame.columns(opened.schema()),
                partition_columns=batch.partitioned_by if opened.table_id is None else opened.partition_columns,
                debts=(gathered.area.debt(),),
            )

        with _removed_on_failure(record, gathered.area):
            if record.commit(number, change):
                return batch.rows
        remove_work(record.positions.site.store, gathered.area.directory)
        return 0

    def _report(self, about: ColumnReplayReport, record: ReplayRecord) -> ColumnReplayReport:
        chunks = tuple(self._chunk_report(record, number) for number in range(len(record.chunks)))
        ok = all(each.fate in ("done", "skipped") for each in chunks)
        return replace(about, chunks=chunks, saved=record.saved, ok=ok)

    def _chunk_report(self, record: ReplayRecord, number: int) -> ChunkReport:
        if number in self._fates:
            return self._fates[number]
        return _reported(record.chunks[number], "skipped" if number in record.state.finished else "planned")


@contextmanager
def _removed_on_failure(record: ReplayRecord, area: WorkArea) -> Iterator[None]:
    """Nobody comes back to the rows of a chunk that failed: it is read again."""
    try:
        yield
    except TidegateError:
        with suppress(StorageError):
            remove_work(record.positions.site.store, area.directory)
        raise


def _reported(chunk: Chunk, fate: Fate, rows: int = 0, error: str | None = None) -> ChunkReport:
    return ChunkReport(text_of(chunk.low), text_of(chunk.high), fate, rows, error)


def _into(pipeline: PipelineSpec, table: Location) -> PipelineSpec:
    return replace(pipeline, sink=replace(pipeline.sink, table=table))
