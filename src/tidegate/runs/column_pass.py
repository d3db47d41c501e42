"""One pass over a column source: open, plan, fix the cap, read up to it, write and commit; rows and watermark together.

The new watermark is known before the rows are committed, and covers exactly them: databases and tables are asked for
their greatest values first and read up to these; where that cannot be asked, the batch is read once and tells.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tidegate.core.columns.planner import ColumnPlan, ReadBounds, ahead, fixed, plan_columns, up_to, waiting
from tidegate.core.columns.predicates import Bound, RowFilter
from tidegate.core.columns.state import ColumnState
from tidegate.errors import ColumnsChanged, CommitLost, RowsRefused, StorageError, TidegateError
from tidegate.failpoints import failpoint
from tidegate.observe import events
from tidegate.observe.wording import count
from tidegate.protocol.change import Change
from tidegate.protocol.notes import Attempts
from tidegate.protocol.position import Position
from tidegate.protocol.table_checks import filled_by_spark
from tidegate.protocol.work_areas import WorkArea, clean_old, new_work_area, remove_work
from tidegate.runs.bound_source import Clock, ColumnPlace, encoded, utc_now
from tidegate.runs.engine import ColumnLane
from tidegate.runs.presence import attempts_before
from tidegate.sources.reader import Bounded, GreatestValues, Reader, explained
from tidegate.specs.columns import LoadType, NullWatermark
from tidegate.specs.locations import Location

if TYPE_CHECKING:
    from tidegate.sink.row_task import RowsWritten, RowTask

TRIES_AGAINST_OTHERS = 5


@dataclass(slots=True)
class ColumnTotals:
    """What a pass has done so far."""

    rows: int = 0
    commits: int = 0
    table_version: int | None = None
    skipped: tuple[tuple[str, int], ...] = ()


class ColumnPass:
    """Carries one column source as far as it goes now; ``state`` and ``totals`` tell how far that was."""

    action = "run"
    """What its commits say made them."""

    def __init__(
        self,
        place: ColumnPlace,
        lane: ColumnLane,
        *,
        emit: events.Emit = events.ignore,
        stop: threading.Event | None = None,
        clock: Clock = utc_now,
        polls: int = 0,
    ) -> None:
        self.totals = ColumnTotals()
        self.state: ColumnState | None = None
        self.opened: Position | None = None
        self.is_first = False
        self.before: Attempts | None = None
        self._place = place.at_poll(polls)
        self._lane = lane
        self._emit = emit
        self._stop = stop or threading.Event()
        self._clock = clock
        self._names = (place.pipeline.name, place.source.name)

    def run(self) -> None:
        """Raises what stopped it; then nothing was committed, or the commit is durable and complete."""
        for attempt in range(TRIES_AGAINST_OTHERS):
            try:
                self.opened = self._from_position(self._place.open())
                return
            except (CommitLost, ColumnsChanged):
                if attempt + 1 == TRIES_AGAINST_OTHERS or self._stop.is_set():
                    raise

    def _from_position(self, opened: Position) -> Position:
        for warning in opened.warnings:
            self._notice(warning)
        self._emit(events.PollStarted(*self._names, opened.version, opened.table_version))
        self.is_first, self.before = opened.first_run, attempts_before(self._place, opened)
        self.state = self._place.state_of(opened)
        self.totals.table_version = opened.table_version if opened.table_version >= 0 else None
        plan = self._planned(opened)
        reader = self._reader(plan)
        return self._carry_out(opened, plan, reader)

    def _planned(self, opened: Position) -> ColumnPlan:
        place = self._place
        load = place.pipeline.sink.load
        plan = plan_columns(place.pipeline.name, place.source, load, self.state, opened.version, self._clock())
        for note in plan.notes:
            self._notice(note)
        failpoint("runs.planned")
        return plan

    def _reader(self, plan: ColumnPlan) -> Reader:
        return self._lane.reader(self._place.source, self._place.pipeline.schema, plan.now)

    def _carry_out(self, opened: Position, plan: ColumnPlan, reader: Reader) -> Position:
        """Read what the plan asks for and commit it; an idle position where there is nothing.

        With a safety lag every source is asked first: what is younger must not be among the rows.
        """
        if reader.fixed_first or self._place.source.safety_lag is not None:
            plan, seen = self._seen(plan, reader)
            self._look_at_nulls(seen)
            bounds = fixed(plan, self.state, seen.values)
            if bounds.nothing:
                return self._nothing_new(opened)
            return self._written(opened, plan, self._asked(reader, bounds.rows), bounds)
        return self._written(opened, plan, self._asked(reader, _uncapped(plan, reader)), None)

    def _seen(self, plan: ColumnPlan, reader: Reader) -> tuple[ColumnPlan, GreatestValues]:
        """The greatest values; where one lies too far ahead, those of the rows up to there, and the plan of those."""
        seen = reader.greatest(plan.reads)
        caps = ahead(plan, seen.values)
        if not caps:
            return plan, seen
        self._tell_later(plan, self._lane.count(reader.read(waiting(plan, caps))), tuple(caps))
        due = up_to(plan, caps)
        return due, reader.greatest(due.reads)

    def _tell_later(self, plan: ColumnPlan, later: int, columns: tuple[str, ...]) -> None:
        """Rows that wait because their time lies ahead are counted and told, run by run."""
        if not later or plan.horizon is None:
            return
        self._left_out("future", later)
        detail = f"later than {plan.horizon.isoformat()}; they are read when that time has come (future_tolerance)"
        self._emit(events.RowsLeftOut(*self._names, "future", later, ", ".join(columns), detail))

    def _left_out(self, reason: str, rows: int) -> None:
        self.totals.skipped = tuple({**dict(self.totals.skipped), reason: rows}.items())

    def _asked(self, reader: Reader, rows: RowFilter) -> Any:
        place = self._place
        load = place.pipeline.sink.load.type.value
        self._emit(events.ReadFixed(*self._names, explained(place.source, rows), load))
        return reader.read(rows)

    def _look_at_nulls(self, seen: GreatestValues | RowsWritten) -> None:
        """Rows without a watermark are an error, or are told."""
        source = self._place.source
        if not seen.nulls or not source.watermark_columns:
            return
        columns = ", ".join(source.watermark_columns)
        if source.null_watermark is NullWatermark.ERROR:
            raise RowsRefused(
                f"{'/'.join(self._names)}: {count(seen.nulls, 'row')} have null in every watermark column ({columns})",
                "give them a value, or set null_watermark: exclude | include",
            )
        if source.null_watermark is NullWatermark.EXCLUDE:
            self._left_out("null_watermark", seen.nulls)
            self._emit(events.RowsLeftOut(*self._names, "null_watermark", seen.nulls, columns))

    def _nothing_new(self, opened: Position) -> Position:
        """Nothing is saved; the mirror shows that somebody looked."""
        return opened if opened.state is None else self._place.positions.idle(opened, opened.state)

    def _written(self, opened: Position, plan: ColumnPlan, frame: Any, bounds: ReadBounds | None) -> Position:
        if self._straight(opened):
            return self._appended(opened, plan, frame, bounds)
        with suppress(StorageError):
            clean_old(self._place.table_store, self._place.key, plan.now)
        area = new_work_area(self._place.key, self._place.pipeline.sink.table)
        try:
            return self._loaded(opened, plan, frame, bounds, area)
        except TidegateError:
            with suppress(StorageError):
                remove_work(self._place.table_store, area.directory)
            raise

    def _straight(self, opened: Position) -> bool:
        """Whether rows are written straight into the table's folder: a plain append that the Arrow lane commits."""
        pipeline = self._place.pipeline
        load = pipeline.sink.load
        plain = load.type is LoadType.APPEND and not load.deduplicate and pipeline.transform is None
        return plain and not opened.needs_frames

    def _appended(self, opened: Position, plan: ColumnPlan, frame: Any, bounds: ReadBounds | None) -> Position:
        from tidegate.sink.row_task import row_task

        place = self._place
        task = row_task(place.pipeline, place.source, self._lane.columns(frame), opened.schema())
        written = self._read(frame, self._limited(task, plan, bounds))
        bounds = bounds or self._told_by(plan, written)
        if not written.rows:
            return self._nothing_new(opened)
        self._tell_columns(opened, task.written.names, written.rows)
        change = Change(
            state=encoded(bounds.state),
            embedded=encoded(bounds.state),
            data_files=written.data_files,
            rows=written.rows,
            schema=task.written,
            partition_columns=task.partition_columns,
            debts=place.debts(self.state, bounds.state),
            action=self.action,
        )
        return self._commit(opened, change, bounds)

    def _loaded(
        self, opened: Position, plan: ColumnPlan, frame: Any, bounds: ReadBounds | None, area: WorkArea
    ) -> Position:
        from tidegate.sink.row_task import Batch

        place = self._place
        task, written = self._gathered(frame, plan, bounds, area.location)
        bounds = bounds or self._told_by(plan, written)
        if not written.rows and bounds.window is None and not plan.full:
            remove_work(place.table_store, area.directory)
            return self._nothing_new(opened)
        batch = Batch.of(place.pipeline, place.source, task, written)
        loaded = self._lane.load(batch, self._window(plan, bounds), chunk=plan.chunk is not None)
        schema = loaded.columns(opened.schema())
        self._tell_columns(opened, schema.names, written.rows)
        change = Change(
            state=encoded(bounds.state),
            embedded=encoded(bounds.state),
            rows=written.rows,
            rows_known=True,
            written_rows=written.rows if self._writes_each(plan) else None,
            frame=loaded,
            schema=schema,
            partition_columns=batch.partitioned_by if opened.table_id is None else opened.partition_columns,
            debts=(area.debt(), *place.debts(self.state, bounds.state)),
            action=self.action,
        )
        return self._commit(opened, change, bounds)

    def _tell_columns(self, opened: Position, names: list[str], rows: int) -> None:
        """Columns that the rows lack, which are null in them, and columns that join the table with them."""
        if opened.schema_json is None or not rows:
            return
        known = [field.name for field in opened.schema() or ()]
        gone = [name for name in known if name not in names and name not in filled_by_spark(opened.schema_json)]
        new = [name for name in names if name.lower() not in {each.lower() for each in known}]
        if gone:
            self._notice(
                f"{count(rows, 'row')} have no {', '.join(gone)}, which the table has: null there. If the source has"
                " dropped or renamed a column, say so (transform, or schema.fields); schema_evolution: strict refuses"
                " such rows"
            )
        if new:
            self._notice(f"new columns join the table: {', '.join(new)}; null in the rows that are there")

    def _writes_each(self, plan: ColumnPlan) -> bool:
        """Whether each row that was gathered becomes one of the table, so that the log must say as many."""
        pipeline = self._place.pipeline
        load = pipeline.sink.load
        plain = load.type in (LoadType.APPEND, LoadType.OVERWRITE, LoadType.FULL_LOAD) and not load.deduplicate
        return plain and pipeline.transform is None and plan.chunk is None

    def _window(self, plan: ColumnPlan, bounds: ReadBounds) -> RowFilter | None:
        """The part of the table that the strategy looks at, where it does not look at all of it."""
        looks = plan.chunk is not None or self._place.pipeline.sink.load.deduplicate
        return bounds.window or (bounds.rows if looks else None)

    def _gathered(
        self, frame: Any, plan: ColumnPlan, bounds: ReadBounds | None, work: Location
    ) -> tuple[Any, RowsWritten]:
        """The rows in a work area: read once, the same however often a statement looks at them."""
        from tidegate.sink.row_task import row_task

        place = self._place
        task = row_task(place.pipeline, place.source, self._lane.columns(frame), work=work)
        task = self._limited(task, plan, bounds)
        return task, self._read(frame, task)

    def _limited(self, task: RowTask, plan: ColumnPlan, bounds: ReadBounds | None) -> RowTask:
        """The task without the rows that a read could not leave out, whose end is not fixed yet."""
        return replace(task, drop_nulls=self._drops_nulls(bounds), until=plan.horizon if bounds is None else None)

    def _drops_nulls(self, bounds: ReadBounds | None) -> bool:
        """Whether rows without a watermark are still among those that are read, and are not wanted."""
        source = self._place.source
        unwanted = source.null_watermark is not NullWatermark.INCLUDE and bool(source.watermark_columns)
        full = self._place.pipeline.sink.load.type.reads_everything
        return bounds is None and unwanted and not full

    def _read(self, frame: Any, task: Any) -> RowsWritten:
        written = self._lane.write_rows(frame, task)
        failpoint("runs.read")
        return written

    def _told_by(self, plan: ColumnPlan, written: RowsWritten) -> ReadBounds:
        """The bounds of a batch that could not be asked for them before."""
        self._look_at_nulls(written)
        self._tell_later(plan, written.later, self._place.source.watermark_columns)
        return fixed(plan, self.state, written.greatest)

    def _commit(self, opened: Position, change: Change, bounds: ReadBounds) -> Position:
        failpoint("runs.commit.before")
        after = self._place.positions.commit(opened, change)
        failpoint("runs.commit.after")
        self.state = bounds.state
        self.totals.commits += 1
        self.totals.rows += after.rows
        self.totals.table_version = after.table_version if after.table_version >= 0 else None
        return after

    def _notice(self, text: str) -> None:
        self._emit(events.Notice(*self._names, text))


def _uncapped(plan: ColumnPlan, reader: Reader) -> RowFilter:
    """What a source is asked for that cannot tell its greatest values: rows without a watermark are then counted."""
    upper = reader.upper(plan.now) if isinstance(reader, Bounded) else {}
    caps = {column: Bound(value, inclusive=True) for column, value in upper.items()}
    return replace(plan.reads, nulls=NullWatermark.INCLUDE).capped(caps)
