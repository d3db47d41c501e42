"""Replay of a column source: a range of values is read again, in chunks, and takes the place of what the table has.

A replay is a source of its own beside the production one: its position in the table's log is the record of finished
chunks, and the rows of a chunk are committed together with it. So a crash repeats no chunk and forgets none, also not
an empty one, whatever the production watermark is. That one moves only when asked to, after the chunk that allows it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from tidegate.column_specs import LoadType, Value
from tidegate.errors import ColumnsChanged, CommitLost, ConfigError, RunStopped, StateError, StorageError, TidegateError
from tidegate.failpoints import failpoint
from tidegate.observe import events
from tidegate.planning.column_plan import Fixed
from tidegate.planning.column_planner import fixed, plan_columns
from tidegate.replay_reports import ChunkReport, ColumnReplayReport, Fate
from tidegate.runs.column_lane import ColumnLane
from tidegate.runs.column_looking import text_of, watermark_text
from tidegate.runs.column_place import ColumnPlace, encoded
from tidegate.runs.place import Clock, utc_now
from tidegate.specs import Location, PipelineSpec, SinkFormat
from tidegate.state.files import Change
from tidegate.state.identity import Identity, SourceKey
from tidegate.state.opened import Opened
from tidegate.state.store import PositionStore
from tidegate.state.work_areas import WorkArea, WorkRemover, clean_old, new_work_area, remove_work
from tidegate.state.written_files import KIND as WORK
from tidegate.storage.opening import open_store
from tidegate.watermarks.chunks import Chunk, ChunkInterval, ReplayConfig
from tidegate.watermarks.column_state import ColumnState
from tidegate.watermarks.column_values import is_above
from tidegate.watermarks.replay_state import KIND, ReplayState, decode, encode
from tidegate.watermarks.row_filter import Bound, ColumnRange, RowFilter

if TYPE_CHECKING:
    from tidegate.sink.batches import Batch

TRIES_AGAINST_OTHERS = 5

Confirm = Callable[[ColumnReplayReport], bool]


@dataclass(frozen=True, slots=True)
class _Gathered:
    """The rows of a chunk, read once, in a work area."""

    number: int
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
        self._skip_gap = skip_gap
        self._fresh = fresh
        self._emit = emit
        self._stop = stop or threading.Event()
        self._clock = clock
        self._names = (place.pipeline.name, place.source.name)
        self._pipeline = place.pipeline if into is None else _into(place.pipeline, into)
        self._positions = replay_positions(place, self._pipeline)
        self._in_order = self._pipeline.sink.load.type is LoadType.SCD2
        self._workers = 1 if self._in_order else max(1, max_workers)
        self._is_elsewhere = into is not None
        self._record = self._asked_for()
        self._fates: dict[int, ChunkReport] = {}
        self._saved: str | None = None

    def run(self, confirm: Confirm = lambda planned: True) -> ColumnReplayReport:
        """Carry out what is left if ``confirm`` agrees; a chunk that fails is in the report and stops no other."""
        started = time.monotonic()
        self._check()
        opened = self._positions.open()
        self._record, resumed = self._resumed(opened)
        planned = self._report(resumed=resumed)
        if not confirm(planned):
            return planned
        with suppress(StorageError):
            clean_old(self._positions.site.store, self._positions.site.key, self._clock())
        self._save_watermark()
        self._carry_out()
        done = self._report(resumed=resumed)
        return replace(done, applied=True, seconds=time.monotonic() - started)

    def _asked_for(self) -> ReplayState:
        config, source = self._config, self._place.source
        given = config.chunk_interval
        interval = given if given is None or isinstance(given, ChunkInterval) else ChunkInterval.of(given)
        column = config.chunk_column or ", ".join(source.watermark_columns)
        return ReplayState(column, config.start, config.end, interval)

    def _check(self) -> None:
        """What cannot be replayed is refused before anything is read."""
        load, config = self._pipeline.sink.load.type, self._config
        name = "/".join(self._names)
        if self._pipeline.sink.format is not SinkFormat.DELTA:
            raise ConfigError((f"{name}: a replay needs the log of a Delta table, and sink.format is parquet",))
        if load.reads_everything:
            raise ConfigError(
                (f"{name}: load_type {load} replaces the whole table; a replay of a part would empty it",)
            )
        if not config.save_watermark:
            return
        if self._is_elsewhere:
            raise ConfigError((f"{name}: the rows go into another table, so the watermark is not moved; leave it out",))
        if config.chunk_column is not None and config.chunk_column not in self._place.source.watermark_columns:
            raise ConfigError((f"{name}: {config.chunk_column!r} is not a watermark column, so none can be saved",))
        self._check_no_gap(name)

    def _check_no_gap(self, name: str) -> None:
        """Saving the end of a range that begins above the watermark would jump over rows that nobody read."""
        if self._skip_gap:
            return
        state = self._place.state_of(self._place.open(read_only=True))
        start = self._config.start
        for column in self._columns():
            stored = None if state is None else state.values.get(column)
            if stored is None and not self._has_rows_below(column, start):
                continue
            if stored is None or is_above(start, stored):
                where = "nothing was read yet" if stored is None else f"the watermark is {text_of(stored)}"
                raise StateError(
                    f"{name}: the replay begins at {column} = {text_of(start)} and {where}: saving its end would jump "
                    "over rows that were never read",
                    "begin at the watermark or below, or leave them out on purpose with --skip-gap",
                )

    def _has_rows_below(self, column: str, start: Value) -> bool:
        """Whether the source has rows that lie below the range; where it cannot be asked, it may."""
        reader = self._lane.reader(self._place.source, self._pipeline.schema, self._clock())
        if not reader.fixed_first:
            return True
        below = RowFilter((ColumnRange(column, upper=Bound(start)),), extra=self._place.source.filter_expression)
        return reader.greatest(below).values.get(column) is not None

    def _columns(self) -> tuple[str, ...]:
        """The columns that the bounds belong to."""
        source, named = self._place.source, self._config.chunk_column
        plan = plan_columns(
            *self._names[:1],
            source,
            self._pipeline.sink.load,
            None,
            0,
            self._clock(),
            chunk=self._whole(),
            chunk_column=named,
        )
        return plan.reads.columns

    def _whole(self) -> Chunk:
        return Chunk(self._config.start, self._config.end)

    def _resumed(self, opened: Opened) -> tuple[ReplayState, bool]:
        """The record to go on with: an unfinished one of the same chunks, else a new one."""
        found = None if opened.state is None else decode(opened.state)
        if found is None or self._fresh or found.is_finished or not found.is_same(self._record):
            if found is not None and not found.is_finished and not found.is_same(self._record):
                self._notice(f"an unfinished replay of another range ({found.column}) is given up")
            return self._record, False
        return found, bool(found.finished)

    def _carry_out(self) -> None:
        """Read chunks, as many at once as there are workers, and commit them one after the other."""
        left = [number for number in range(len(self._record.chunks)) if number not in self._record.finished]
        with ThreadPoolExecutor(self._workers) as pool:
            reading: dict[Future[_Gathered], int] = {}
            queue = iter(left)
            while self._fill(pool, reading, queue):
                for done in wait(reading, return_when=FIRST_COMPLETED).done:
                    self._settle(reading.pop(done), done)
        if self._stop.is_set():
            raise RunStopped("stopped; the same replay goes on where it is now")

    def _fill(self, pool: ThreadPoolExecutor, reading: dict[Future[_Gathered], int], queue: Iterator[int]) -> bool:
        """Hand out chunks; False when nothing runs and nothing is left."""
        broken = self._in_order and any(each.fate == "failed" for each in self._fates.values())
        while len(reading) < self._workers and not self._stop.is_set() and not broken:
            number = next(queue, None)
            if number is None:
                break
            reading[pool.submit(self._gathered, number)] = number
        return bool(reading)

    def _settle(self, number: int, done: Future[_Gathered]) -> None:
        chunk = self._record.chunks[number]
        try:
            rows = self._committed(done.result())
        except TidegateError as error:
            self._tell(number, chunk, "failed", 0, str(error))
            return
        self._tell(number, chunk, "done", rows)
        self._save_watermark()

    def _tell(self, number: int, chunk: Chunk, fate: Fate, rows: int, error: str | None = None) -> None:
        low, high = text_of(chunk.low), text_of(chunk.high)
        self._fates[number] = ChunkReport(low, high, fate, rows, error)
        failed = sum(each.fate == "failed" for each in self._fates.values())
        dealt = len(self._record.finished) + failed
        self._emit(events.ChunkFinished(*self._names, low, high, rows, dealt, len(self._record.chunks), error))

    def _gathered(self, number: int) -> _Gathered:
        """The rows of one chunk, read into a work area of its own."""
        from tidegate.sink.batches import Batch
        from tidegate.sink.row_task import row_task

        source, now = self._place.source, self._clock()
        plan = plan_columns(
            self._names[0],
            source,
            self._pipeline.sink.load,
            None,
            0,
            now,
            chunk=self._record.chunks[number],
            chunk_column=self._config.chunk_column,
        )
        bounds = fixed(plan, None, {})
        frame = self._lane.reader(source, self._pipeline.schema, now).read(bounds.rows)
        area = new_work_area(self._positions.site.key, self._pipeline.sink.table)
        task = row_task(self._pipeline, source, self._lane.columns(frame), work=area.location)
        written = self._lane.write_rows(frame, task)
        failpoint("runs.read")
        return _Gathered(number, Batch.of(self._pipeline, source, task, written), bounds, area)

    def _committed(self, gathered: _Gathered) -> int:
        """Commit the rows of a chunk with the record that has it finished; how many rows."""
        for attempt in range(TRIES_AGAINST_OTHERS):
            try:
                return self._commit(gathered)
            except (CommitLost, ColumnsChanged):
                if attempt + 1 == TRIES_AGAINST_OTHERS:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _commit(self, gathered: _Gathered) -> int:
        opened = self._positions.open()
        self._record = self._merged(opened)
        if gathered.number in self._record.finished:
            remove_work(self._positions.site.store, gathered.area.directory)
            return 0
        after = self._record.with_finished(gathered.number, self._clock())
        frame = self._lane.load(gathered.batch, gathered.bounds.window, chunk=True)
        state = encode(after)
        change = Change(
            state=state,
            embedded=state,
            rows=gathered.batch.rows,
            frame=frame,
            schema=frame.columns(opened.schema()),
            partition_columns=gathered.batch.partitioned_by if opened.table_id is None else opened.partition_columns,
            debts=(gathered.area.debt(),),
            action="replay",
        )
        failpoint("runs.commit.before")
        self._positions.commit(opened, change)
        failpoint("runs.commit.after")
        self._record = after
        return gathered.batch.rows

    def _merged(self, opened: Opened) -> ReplayState:
        """The record as it is now: another process may carry out the same replay."""
        found = None if opened.state is None else decode(opened.state)
        if found is not None and found.is_same(self._record) and not found.is_finished:
            return found
        return self._record

    def _save_watermark(self) -> None:
        """Production goes on at the end of what is finished from the start on; never lower than it is."""
        reached = self._record.reached
        if not self._config.save_watermark or reached is None:
            return None
        for attempt in range(TRIES_AGAINST_OTHERS):
            try:
                return self._save(reached)
            except CommitLost:
                if attempt + 1 == TRIES_AGAINST_OTHERS:
                    raise
        return None

    def _save(self, reached: Value) -> None:
        place = self._place
        opened = place.open()
        before = place.state_of(opened)
        after = _saved(before or ColumnState(), self._columns(), reached, self._clock())
        if after is None:
            return
        state = encoded(after)
        change = Change(state=state, embedded=state, debts=place.debts(before, after), action="replay")
        place.positions.commit(opened, change)
        self._saved = watermark_text(after)

    def _report(self, *, resumed: bool) -> ColumnReplayReport:
        chunks = tuple(self._chunk_report(number, chunk) for number, chunk in enumerate(self._record.chunks))
        return ColumnReplayReport(
            pipeline=self._names[0],
            source=self._names[1],
            table_uri=self._pipeline.sink.table.uri,
            column=self._record.column,
            chunks=chunks,
            resumed=resumed,
            saved=self._saved,
            notes=tuple(self._notes()),
            ok=all(each.fate in ("done", "skipped") for each in chunks),
        )

    def _chunk_report(self, number: int, chunk: Chunk) -> ChunkReport:
        if number in self._fates:
            return self._fates[number]
        fate: Fate = "skipped" if number in self._record.finished else "planned"
        return ChunkReport(text_of(chunk.low), text_of(chunk.high), fate)

    def _notes(self) -> Iterator[str]:
        load = self._pipeline.sink.load.type
        if load in (LoadType.APPEND, LoadType.MERGE_OVERWRITE):
            yield "the rows of each chunk take the place of those that the table has in its range"
        if self._in_order:
            yield "versions follow each other in time, so chunks are loaded one after the other"

    def _notice(self, text: str) -> None:
        self._emit(events.Notice(*self._names, text))


def _saved(before: ColumnState, columns: Sequence[str], reached: Value, now: datetime) -> ColumnState | None:
    """The production state that begins at ``reached``, inclusive; None where that is not above what is stored."""
    values = dict(before.values)
    moved = [name for name in columns if (stored := values.get(name)) is None or is_above(reached, stored)]
    if not moved:
        return None
    return ColumnState({**values, **dict.fromkeys(moved, reached)}, before.inclusive | set(moved), now)


def _into(pipeline: PipelineSpec, table: Location) -> PipelineSpec:
    return replace(pipeline, sink=replace(pipeline.sink, table=table))


def replay_positions(place: ColumnPlace, pipeline: PipelineSpec) -> PositionStore:
    """Where the record of replays of this source is kept, in the table that is written."""
    site = place.positions.site
    store = open_store(pipeline.sink.table)
    return PositionStore(
        SourceKey(site.key.pipeline, f"{site.key.source}~{KIND}"),
        Identity(KIND, place.source.uri),
        pipeline.sink.table,
        store,
        checkpoint_every=site.checkpoint_every,
        search_commits=site.search_commits,
        evolution=site.evolution,
        properties=site.properties,
        payers={WORK: WorkRemover(store).pay},
        pace=site.pace,
        emit=site.emit,
    )
