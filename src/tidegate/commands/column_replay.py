"""Replay of a column source: reads a range of values again, in chunks, and replaces what the table has there.

A replay is a source of its own beside the production one: its position in the table's log records the finished
chunks. So a crash repeats no chunk and forgets none, not even an empty one, wherever the production watermark is. That
watermark moves only on request, in the commit of the chunk that allows it.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from datetime import time as clock_time
from pathlib import Path

from tidegate.commands.project import Config, agree, load, on_engine, open_engine, source_of, without_secrets
from tidegate.commands.replay import Replay
from tidegate.core.columns.look_back import as_moment
from tidegate.core.columns.planner import ColumnPlan, ReadBounds, fix_bounds, plan_columns
from tidegate.core.columns.predicates import Bound, ColumnRange, RowFilter
from tidegate.core.columns.replay import (
    KIND,
    Chunk,
    ChunkInterval,
    ReplayConfig,
    check_handover,
    check_past,
    check_reached,
    chunk_columns,
    chunk_zone,
    columns_read_twice,
    fit_bounds,
    is_number,
)
from tidegate.core.columns.state import ColumnState, are_comparable, describe, format_value, is_above, value_of
from tidegate.errors import (
    ConfigError,
    RowsRefused,
    RunStopped,
    TableError,
    TidegateError,
    WatermarkError,
)
from tidegate.failpoints import failpoint
from tidegate.observe import events
from tidegate.protocol.change import Change, NextState, RowCount
from tidegate.protocol.log import sources_of
from tidegate.protocol.position import Position, utc_now
from tidegate.protocol.staging import COMMITTER
from tidegate.protocol.store import PositionStore
from tidegate.reports.replay import ChunkReport, ColumnReplayReport, Fate
from tidegate.runs.engine import ColumnRows
from tidegate.runs.loop import stops_on_signals
from tidegate.runs.pass_ import Lane
from tidegate.runs.replay_record import TRIES_AGAINST_OTHERS, ReplayRecord
from tidegate.runs.tracker import Clock, ColumnBound, Replayable, refuse
from tidegate.sources.connection_slots import ConnectionSlots, connection_slots
from tidegate.sources.reader import Reader, Typed, explain
from tidegate.specs.columns import LoadType, Value, Watermark
from tidegate.specs.locations import Location
from tidegate.specs.project import EngineKind, PipelineSpec
from tidegate.storage.options import absolute_uri, check_spelling
from tidegate.tasks.row_task import Batch, RowsWritten, row_task


def replay_range(
    config: Config,
    pipeline: str,
    source: str | None = None,
    *,
    start: Value,
    end: Value,
    chunk: Mapping[str, object] | ChunkInterval | None = None,
    chunk_column: str | None = None,
    save_watermark: bool = False,
    skip_gap: bool = False,
    allow_overlap: bool = False,
    into: str | None = None,
    max_workers: int = 1,
    fresh: bool = False,
    again: bool = False,
    confirm: Callable[[ColumnReplayReport], bool] = agree,
    emit: events.Emit = events.ignore,
    stop: threading.Event | None = None,
    engine: str | None = None,
) -> ColumnReplayReport:
    """Read ``start <= value < end`` of a column source again and replace what its table has there.

    Text bounds are parsed as values of the watermark column. Each chunk, such as ``{"months": 1}``, is one commit. An
    unfinished replay continues, a finished one starts over; ``fresh`` always starts over. With ``save_watermark``
    production continues at the end of the contiguous finished chunks, and a repeated finished replay skips chunks at or
    below the stored watermark, unless ``again``. An append whose rows the next run would append again is refused,
    unless ``allow_overlap`` says that no run follows.
    """
    flag = stop or threading.Event()
    project = on_engine(load(config, pipeline=pipeline), engine)
    if project.engine is EngineKind.LOCAL:
        raise ConfigError((f"{project.origin}: replaying a range of values needs Spark; set engine: spark",))
    bound = source_of(project, pipeline, source)
    if not isinstance(bound.tracker, Replayable):
        raise refuse(bound, "replay", "only column sources are replayed by ranges")
    bounds = [_value(bound, each, chunk_column) for each in (start, end)]
    asked = ReplayConfig(bounds[0], bounds[1], chunk, save_watermark, chunk_column)
    own = bound.pipeline.sink.table
    check_spelling(*(() if into is None else (into,)))
    table = own if into is None else replace(own, uri=absolute_uri(into, Path.cwd()))
    written = _into(bound.pipeline, table)
    told = without_secrets(emit, project)
    with open_engine(project, told, flag, columns=(written,)) as opened, stops_on_signals(flag):
        replay = ColumnReplay(
            bound,
            opened,
            asked,
            into=None if table.uri == own.uri else table,
            skip_gap=skip_gap,
            allow_overlap=allow_overlap,
            fresh=fresh,
            again=again,
            max_workers=max_workers,
            emit=told,
            stop=flag,
        )
        return replay.run(confirm)


def _value(bound: ColumnBound, given: Value, chunk_column: str | None) -> Value:
    """Parse a bound: text as a value of the watermark's kind, a date among times as its midnight in UTC."""
    if not isinstance(given, str):
        return given
    state = bound.state_of(bound.positions.open(read_only=True))
    columns = chunk_columns(bound.source, chunk_column)
    stored = None if state is None or not columns else state.values.get(columns[0])
    plain = value_of(given)
    if type(plain) is date and isinstance(stored, datetime) and stored.tzinfo is not None:
        return datetime.combine(plain, clock_time(), UTC)
    return plain if stored is None else value_of(given, stored)


@dataclass(frozen=True, slots=True)
class ReplayChecks:
    """The checks of a replay against the production watermark; ``elsewhere``: into another table."""

    bound: ColumnBound
    config: ReplayConfig
    state: ColumnState | None
    elsewhere: bool = False
    skip_gap: bool = False
    allow_overlap: bool = False

    @property
    def _name(self) -> str:
        return str(self.bound.key)

    @property
    def _columns(self) -> tuple[str, ...]:
        return chunk_columns(self.bound.source, self.config.chunk_column)

    @property
    def _replaces(self) -> bool:
        """Whether the replay replaces all rows of the range, whichever source wrote them."""
        return self.bound.pipeline.sink.load.type in (LoadType.APPEND, LoadType.MERGE_OVERWRITE)

    @property
    def in_order(self) -> bool:
        """Whether chunks are committed in order, and none after one that failed.

        SCD2 versions follow each other in time, and a run would append rows above the saved watermark again.
        """
        load = self.bound.pipeline.sink.load.type
        return load is LoadType.SCD2 or (load is LoadType.APPEND and self.config.save_watermark)

    @property
    def asks_source(self) -> bool:
        """Whether only the source knows that no row lies below the range: nothing was read before."""
        values = {} if self.state is None else self.state.values
        unknown = all(values.get(each) is None for each in self._columns)
        return self.config.save_watermark and not self.skip_gap and unknown

    @property
    def needs_source(self) -> bool:
        """Whether to ask the source anything before the first chunk."""
        return self.asks_source or (self.config.save_watermark and is_number(self.config.end))

    def plan(self, now: datetime) -> ColumnPlan:
        """The whole range as one chunk; refuses bounds that do not fit the watermark."""
        load = self.bound.pipeline.sink.load
        if load.type.reads_everything:
            raise ConfigError(
                (f"{self._name}: load_type {load.type} replaces the whole table; a replay of a part would empty it",)
            )
        self._check_alone()
        return plan_columns(
            self.bound.pipeline.name,
            self.bound.source,
            load,
            self.state,
            0,
            now,
            chunk=Chunk(self.config.start, self.config.end),
            chunk_column=self.config.chunk_column,
        )

    def _check_alone(self) -> None:
        pipeline = self.bound.pipeline
        others = [each.name for each in pipeline.sources if each.name != self.bound.source.name]
        if others and self._replaces and not self.elsewhere:
            raise ConfigError(
                (
                    f"{self._name}: the table also has rows of {', '.join(others)}, which a chunk would "
                    "replace; replay into another table",
                )
            )

    def check(self, now: datetime) -> None:
        """Refuse an end after which production would skip rows or read them twice."""
        if not self.config.save_watermark:
            self._check_overlap()
            return
        if self.elsewhere:
            raise ConfigError((f"{self._name}: the rows go into another table, so the watermark stays; leave it out",))
        check_past(self._name, self.bound.source, self.config, now)
        self._check_handover(self.config, skip_gap=self.skip_gap or self.asks_source)
        if self.bound.pipeline.sink.load.type is LoadType.APPEND:
            self._check_edges()

    @property
    def _doubled(self) -> tuple[str, ...]:
        """The columns by which the next run would append rows of the range again."""
        if self.elsewhere:
            return ()
        source, load = self.bound.source, self.bound.pipeline.sink.load
        return columns_read_twice(source, load, self.state, self.config)

    def _check_overlap(self) -> None:
        """Refuse to append what the next run would append again."""
        if not self._doubled or self.allow_overlap:
            return
        named = ", ".join(self._doubled)
        where = (
            "above the watermark of " + named
            if self.state is not None
            else "in a table of which nothing was read before"
        )
        raise WatermarkError(
            f"{self._name}: the range ends at {format_value(self.config.end)}, {where}: the next run would append those"
            " rows again",
            "save the end (--save-watermark), or end at the watermark; or, if no run follows, use --allow-overlap",
        )

    def check_chunk(self, greatest: Watermark) -> None:
        """Refuse a chunk by another column if it has rows that production has not read and would append."""
        source, load = self.bound.source, self.bound.pipeline.sink.load
        if self.allow_overlap or self.elsewhere or load.type is not LoadType.APPEND or self.state is None:
            return
        # Such a range was compared with the watermark before anything was read.
        if set(self._columns) & set(source.watermark_columns):
            return
        for column in source.watermark_columns:
            value, stored = greatest.get(column), self.state.values.get(column)
            if value is not None and (
                stored is None or is_above(value, as_moment(stored, value, source.source_timezone))
            ):
                raise WatermarkError(
                    f"{self._name}: {column}={format_value(value)} lies above the watermark: the next run would append "
                    "that row again",
                    "run the pipeline first, then the same replay; or, if no run follows, use --allow-overlap",
                )

    def check_alone(self, record: PositionStore) -> None:
        """Refuse to replace a range of a table with other writers, whose rows would be lost.

        ``record`` is the position of the replay in that table.
        """
        site, load = record.site, self.bound.pipeline.sink.load.type
        others = sources_of(site.store) - {COMMITTER, self.bound.key, site.key}
        if others and self._replaces:
            named = ", ".join(sorted(map(str, others)))
            raise TableError(
                f"{self._name}: a replay by {load} replaces all rows in its range, and {site.uri} also has "
                f"rows of {named}, which it would delete",
                "replay into another table (--into) and copy the rows from there",
            )

    def check_source(self, reader: Reader) -> None:
        """Refuse to skip rows below the range, and to save an end that the source has not reached."""
        if reader.fixed_first and self.config.save_watermark and is_number(self.config.end):
            everything = RowFilter(tuple(map(ColumnRange, self._columns)), extra=self.bound.source.filter_expression)
            check_reached(self._name, self.config, reader.greatest(everything).values)
        if self.asks_source:
            self._check_below(reader)

    def _check_below(self, reader: Reader) -> None:
        """Refuse to skip rows below the range; a source that cannot be asked may have some."""
        if reader.fixed_first:
            upper = Bound(self.config.start)
            ranges = tuple(ColumnRange(each, upper=upper) for each in self._columns)
            seen = reader.greatest(RowFilter(ranges, extra=self.bound.source.filter_expression))
            if all(value is None for value in seen.values.values()):
                return
        self._check_handover(self.config, skip_gap=False)

    def _check_edges(self) -> None:
        """Refuse chunks that end between two watermarks: a run between them would append rows of the first again."""
        for chunk in self.config.chunks(chunk_zone(self.bound.source, self.config))[:-1]:
            try:
                part = replace(self.config, end=chunk.high, chunk_interval=None)
                self._check_handover(part, skip_gap=True)
            except WatermarkError as error:
                raise WatermarkError(
                    f"{self._name}: the chunk that ends at {format_value(chunk.high)} ends between the watermarks of "
                    f"{', '.join(self._columns)}: a run after it would append its rows again",
                    "use longer chunks, or no chunks",
                ) from error

    def _check_handover(self, config: ReplayConfig, *, skip_gap: bool) -> None:
        source, load = self.bound.source, self.bound.pipeline.sink.load
        check_handover(self._name, source, load, self.state, config, skip_gap=skip_gap)

    def warnings(self) -> Iterator[str]:
        """Later problems for the user to decide on."""
        pipeline, source = self.bound.pipeline, self.bound.source
        if self.elsewhere or pipeline.sink.load.type is not LoadType.APPEND:
            return
        if self._doubled:
            yield (
                f"the range ends above the watermark of {', '.join(self._doubled)}: the next run appends those rows "
                "again; end at the watermark, or save it"
            )
        elif self.config.chunk_column is not None and self._columns != source.watermark_columns:
            yield (
                f"the range is one of {self.config.chunk_column}: a chunk with rows that are new by the watermark,"
                " which the next run would append again, fails; run the pipeline first"
            )

    def notes(self) -> Iterator[str]:
        """Notes on the consequences."""
        if self._replaces:
            yield "the rows of each chunk replace the table's rows in its range"
        if self.in_order:
            yield "chunks are loaded one after the other, and none after one that failed"
        if self.asks_source:
            yield "nothing was read before: the run first asks the source for rows below the range"


_DECLARED = {"timestamp": "datetime", "date": "date"}
"""Kinds of times by declared type, for sources whose watermark comes from the rows."""


@dataclass(frozen=True, slots=True)
class _ChunkRows:
    """The rows of a chunk, read once, in a work area.

    ``since`` is the production position at that time; None if later production does not matter to the chunk.
    """

    batch: Batch
    bounds: ReadBounds
    lane: Lane
    since: int | None


class _Outdated(RowsRefused):
    """Production committed after the rows of a chunk were read: they could replace newer rows."""


@dataclass(frozen=True, slots=True)
class _ProductionPrecondition:
    """Production has not committed since the rows of a chunk were read; ``since`` as in :class:`_ChunkRows`."""

    name: str
    record: ReplayRecord
    since: int | None

    def check(self) -> None:
        if self.since is not None and self.record.has_production_moved(self.since):
            raise _Outdated(
                f"{self.name}: production committed while the chunk was read, whose rows may be older",
                "replay it again, in shorter chunks or while no production run is active",
            )


class ColumnReplay(Replay[ColumnBound, ColumnReplayReport]):
    """A replay of a range of values, chunk by chunk; ``into`` is a table other than the pipeline's."""

    def __init__(
        self,
        bound: ColumnBound,
        engine: ColumnRows,
        config: ReplayConfig,
        *,
        into: Location | None = None,
        skip_gap: bool = False,
        allow_overlap: bool = False,
        fresh: bool = False,
        again: bool = False,
        max_workers: int = 1,
        emit: events.Emit = events.ignore,
        stop: threading.Event | None = None,
        clock: Clock = utc_now,
    ) -> None:
        super().__init__(bound, emit, stop, clock)
        self._engine = engine
        self._config = config
        self._fresh = fresh
        self._again = again
        self._max_workers = max_workers
        self._pipeline = bound.pipeline if into is None else _into(bound.pipeline, into)
        self._elsewhere = into is not None
        self._skip_gap = skip_gap
        self._allow_overlap = allow_overlap
        self._is_fitted = False
        self._fates: dict[int, ChunkReport] = {}
        self._waiting: deque[int] = deque()
        self._outdated: Counter[int] = Counter()

    def plan(self) -> ColumnReplayReport:
        """The chunks, finished ones included, and what speaks against the replay."""
        self._production = production = self._bound.state_of(self._bound.open(read_only=True))
        record = ReplayRecord(self._bound, self._pipeline, self._config, self._clock)
        # The bounds decide where chunks end; read as another kind than before, they would not be the recorded chunks.
        if not self._fresh and self._fit(record.find_recorded_kind()):
            record = ReplayRecord(self._bound, self._pipeline, self._config, self._clock)
        self._record = record
        self._checks = checks = self._checks_at(production)
        predicate = explain(self._bound.source, checks.plan(self._clock()).reads)
        checks.check(self._clock())
        # Before a person is asked: rows of other sources in the range would be deleted, too.
        checks.check_alone(record.positions)
        resumed, remark = record.resume(production, fresh=self._fresh, again=self._again)
        self._warnings = (*checks.warnings(), *(() if remark is None else (remark,)))
        about = ColumnReplayReport(
            *self._names,
            self._pipeline.sink.table.uri,
            record.state.column,
            (),
            predicate,
            resumed=resumed,
            notes=(*checks.notes(), *self._warnings),
        )
        return self._report(about, record)

    def carry_out(self, planned: ColumnReplayReport) -> ColumnReplayReport:
        """Replay the remaining chunks; a failed chunk is in the report."""
        if self._is_kind_unknown(self._production) and self._fit(self._kind_at_source()):
            self._is_fitted = True
            return self.carry_out(self.plan())
        record, checks = self._record, self._checks
        for warning in self._warnings:
            self._emit(events.Notice(*self._names, warning))
        if record.state.is_finished:
            return self._report(planned, record)
        if checks.needs_source:
            checks.check_source(self._engine.reader(self._bound.source, self._pipeline.schema, self._clock()))
        record.source.clean_work(self._clock())
        # A replay that was killed between its last chunk and the move of the watermark is finished here.
        record.hand_over()
        self._carry_out(record, in_order=checks.in_order)
        return self._report(planned, record)

    def _is_kind_unknown(self, production: ColumnState | None) -> bool:
        """Whether only the source knows the kind of times of the bounds: no watermark is stored for their columns."""
        stored = {} if production is None else production.values
        is_stored = any(
            stored.get(each) is not None for each in chunk_columns(self._bound.source, self._config.chunk_column)
        )
        return not self._is_fitted and not is_stored and isinstance(self._config.start, date)

    def _kind_at_source(self) -> str | None:
        """The kind of times in the columns of the replay; None if the source does not know."""
        columns = chunk_columns(self._bound.source, self._config.chunk_column)
        reader = self._engine.reader(self._bound.source, self._pipeline.schema, self._clock())
        if isinstance(reader, Typed):
            found = {reader.kinds(columns).get(each) for each in columns}
        else:
            declared = {each.name: _DECLARED.get(each.type) for each in self._pipeline.schema.fields}
            found = {declared.get(each) for each in columns}
        return found.pop() if len(found) == 1 else None

    def _fit(self, kind: str | None) -> bool:
        """Convert the bounds to the kind of the columns; whether that changed them."""
        if kind is None:
            return False
        before, zone = self._config, self._bound.source.source_timezone
        self._config = fit_bounds(before, kind, zone)
        return self._config is not before

    def _checks_at(self, production: ColumnState | None) -> ReplayChecks:
        return ReplayChecks(self._bound, self._config, production, self._elsewhere, self._skip_gap, self._allow_overlap)

    def _carry_out(self, record: ReplayRecord, *, in_order: bool) -> None:
        """Read chunks with all workers at once, and commit them one after the other."""
        self._waiting.extend(number for number in range(len(record.chunks)) if number not in record.state.finished)
        workers = 1 if in_order else max(1, self._max_workers)
        reading: dict[Future[_ChunkRows], int] = {}
        # A session must be started by one thread before several use it.
        self._engine.prepare()
        with ThreadPoolExecutor(workers) as pool:
            while True:
                while len(reading) < workers and self._goes_on(in_order) and self._waiting:
                    number = self._waiting.popleft()
                    reading[pool.submit(self._read_chunk, record, number)] = number
                if not reading:
                    break
                for done in wait(reading, return_when=FIRST_COMPLETED).done:
                    self._settle(record, reading.pop(done), done)
        if self._stop.is_set():
            raise RunStopped("stopped; the same replay continues from here")

    def _goes_on(self, in_order: bool) -> bool:
        failed = any(each.fate == "failed" for each in self._fates.values())
        return not self._stop.is_set() and not (in_order and failed)

    def _settle(self, record: ReplayRecord, number: int, done: Future[_ChunkRows]) -> None:
        try:
            rows = self._commit_chunk(record, number, done.result())
        except RunStopped:
            return
        except TidegateError as error:
            self._outdated[number] += 1
            # Production overtook the chunk: read it again, but not for ever beside a source that never rests.
            if isinstance(error, _Outdated) and self._outdated[number] < TRIES_AGAINST_OTHERS:
                self._waiting.appendleft(number)
            else:
                self._tell(record, number, "failed", 0, str(error))
        else:
            self._tell(record, number, "done", rows)

    def _tell(self, record: ReplayRecord, number: int, fate: Fate, rows: int, error: str | None = None) -> None:
        chunk = _describe(record.chunks[number], fate, rows, error)
        self._fates[number] = chunk
        failed = sum(each.fate == "failed" for each in self._fates.values())
        dealt = len(record.state.finished) + failed
        self._emit(events.ChunkFinished(*self._names, chunk.low, chunk.high, rows, dealt, len(record.chunks), error))

    def _read_chunk(self, record: ReplayRecord, number: int) -> _ChunkRows:
        """Read the rows of one chunk into its work area."""
        with connection_slots(self._bound.source.read, self._stop) as slots:
            return self._read_with(slots, record, number)

    def _read_with(self, slots: ConnectionSlots, record: ReplayRecord, number: int) -> _ChunkRows:
        source, now, chunk = self._bound.source, self._clock(), record.chunks[number]
        load, column = self._pipeline.sink.load, self._config.chunk_column
        plan = plan_columns(self._names[0], source, load, None, 0, now, chunk=chunk, chunk_column=column)
        bounds = fix_bounds(plan, None, {})
        # Before the rows are read: what production commits from here on may be newer than they are.
        since = self._since(chunk)
        reader = self._engine.reader(source, self._pipeline.schema, now)
        frame = reader.read(bounds.rows)
        slots.resize(getattr(reader, "connections", 1))
        lane = Lane(record.source)
        try:
            task = row_task(self._pipeline, source, self._engine.columns(frame), work=lane.new_area().location)
            written = self._engine.write_rows(frame, task)
            self._check_kind(bounds.rows, reader, written)
            self._check_overlap(written)
            failpoint("runs.read")
        except TidegateError:
            lane.drop()
            raise
        return _ChunkRows(Batch.of(self._pipeline, source, task, written), bounds, lane, since)

    def _check_overlap(self, written: RowsWritten) -> None:
        """Refuse a chunk by another column if it has rows that production has not read yet."""
        if self._config.chunk_column is not None and not self._elsewhere:
            production = self._bound.state_of(self._bound.positions.open(read_only=True))
            self._checks_at(production).check_chunk(written.greatest)

    def _check_kind(self, rows: RowFilter, reader: Reader, written: RowsWritten) -> None:
        """Refuse to save a bound that the column's values cannot be compared with, such as a date among times.

        A source that knows its greatest values gives them as production will see them: rows have every time as a
        moment, even if the column has no zone.
        """
        if not self._config.save_watermark or not written.rows:
            return
        seen = reader.greatest(rows).values if reader.fixed_first else written.greatest
        for column in rows.columns:
            value = seen.get(column)
            if value is not None and not are_comparable(value, self._config.end):
                raise WatermarkError(
                    f"{'/'.join(self._names)}: the replay ends at {describe(self._config.end)}, and {column!r} has "
                    f"values such as {describe(value)}",
                    "give bounds of that kind; times as 2026-04-03T09:15:00+00:00",
                )

    def _commit_chunk(self, record: ReplayRecord, number: int, gathered: _ChunkRows) -> int:
        """Commit the rows of a chunk with its record, and return their number."""
        batch, unmoved = gathered.batch, _ProductionPrecondition("/".join(self._names), record, gathered.since)

        def change(opened: Position, state: NextState) -> Change:
            # Early, to spare Spark's statement; the commit checks it again before each attempt.
            unmoved.check()
            frame = self._engine.load(batch, gathered.bounds.window, chunk=True)
            keys = batch.partitioned_by if opened.table_id is None else opened.partition_columns
            write = gathered.lane.write(frame, opened, keys, batch.rows, RowCount.GATHERED)
            return Change(state, write, action=KIND, preconditions=(unmoved,))

        with gathered.lane:
            if not record.commit(number, change):
                return 0
            gathered.lane.release()
            return batch.rows

    def _since(self, chunk: Chunk) -> int | None:
        """The production position, unless production never writes in the chunk again; SCD2 versions sort themselves."""
        load, source = self._pipeline.sink.load.type, self._bound.source
        if self._elsewhere or load is LoadType.SCD2:
            return None
        opened = self._bound.positions.open(read_only=True)
        state = self._bound.state_of(opened) or ColumnState()
        columns = chunk_columns(source, None)
        by_watermark = chunk_columns(source, self._config.chunk_column) == columns
        # Then production never writes below its watermark again, and the chunk cannot be outdated.
        only_grows = load is LoadType.APPEND and source.look_back.is_off and by_watermark
        passed = (state.values.get(each) for each in columns)
        is_closed = only_grows and all(value is not None and not is_above(chunk.high, value) for value in passed)
        return None if is_closed else opened.version

    def _report(self, about: ColumnReplayReport, record: ReplayRecord) -> ColumnReplayReport:
        finished = record.state.finished
        chunks = tuple(
            self._fates.get(number) or _describe(chunk, "skipped" if number in finished else "planned")
            for number, chunk in enumerate(record.chunks)
        )
        ok = all(each.fate in ("done", "skipped") for each in chunks)
        return replace(about, chunks=chunks, saved=record.saved, ok=ok)


def _describe(chunk: Chunk, fate: Fate, rows: int = 0, error: str | None = None) -> ChunkReport:
    return ChunkReport(format_value(chunk.low), format_value(chunk.high), fate, rows, error)


def _into(pipeline: PipelineSpec, table: Location) -> PipelineSpec:
    return replace(pipeline, sink=replace(pipeline.sink, table=table))
