"""The walk over a column source: plan, fix the bounds, read up to them, write and commit; rows and watermark together.

The new watermark is known before the rows are committed, and covers exactly them: databases and tables are asked for
their greatest values first and read up to these; where that cannot be asked, the batch is read once and tells.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tidegate.core.columns.planner import ColumnPlan, ReadBounds, ahead, fixed, plan_columns, up_to, waiting
from tidegate.core.columns.predicates import Bound, RowFilter
from tidegate.errors import RowsRefused, TidegateError
from tidegate.failpoints import failpoint
from tidegate.observe import events
from tidegate.observe.wording import count
from tidegate.protocol.change import Change
from tidegate.protocol.position import Position
from tidegate.protocol.table_checks import filled_by_spark
from tidegate.protocol.work_areas import WorkArea, remove_work
from tidegate.runs.bound_source import ColumnBound
from tidegate.runs.pass_ import Pass
from tidegate.sources.reader import Bounded, GreatestValues, Reader, explained
from tidegate.specs.columns import LoadType, NullWatermark

if TYPE_CHECKING:
    from tidegate.sink.row_task import RowsWritten, RowTask


class ColumnWalk:
    """One pass over a column source."""

    def __init__(self, run: Pass) -> None:
        self._run = run
        self._source: ColumnBound = run.source
        self._engine = run.engine
        self._names = run.names

    def go(self, position: Position) -> Position:
        """Read what the plan asks for and commit it; an idle position where there is nothing.

        With a safety lag every source is asked first: what is younger must not be among the rows.
        """
        plan = self._planned(position)
        source = self._source.source
        reader = self._engine.reader(source, self._source.pipeline.schema, plan.now)
        if reader.fixed_first or source.safety_lag is not None:
            plan, seen = self._seen(plan, reader)
            self._look_at_nulls(seen)
            bounds = fixed(plan, self._run.state, seen.values)
            if bounds.nothing:
                return self._nothing_new(position)
            return self._written(position, plan, self._asked(reader, bounds.rows), bounds)
        return self._written(position, plan, self._asked(reader, _uncapped(plan, reader)), None)

    def _planned(self, position: Position) -> ColumnPlan:
        run, pipeline = self._run, self._source.pipeline
        plan = plan_columns(
            pipeline.name, self._source.source, pipeline.sink.load, run.state, position.version, run.clock()
        )
        for note in plan.notes:
            run.notice(note)
        failpoint("runs.planned")
        return plan

    def _seen(self, plan: ColumnPlan, reader: Reader) -> tuple[ColumnPlan, GreatestValues]:
        """The greatest values; where one lies too far ahead, those of the rows up to there, and the plan of those."""
        seen = reader.greatest(plan.reads)
        caps = ahead(plan, seen.values)
        if not caps:
            return plan, seen
        self._tell_later(plan, self._engine.count(reader.read(waiting(plan, caps))), tuple(caps))
        due = up_to(plan, caps)
        return due, reader.greatest(due.reads)

    def _tell_later(self, plan: ColumnPlan, later: int, columns: tuple[str, ...]) -> None:
        """Rows that wait because their time lies ahead are counted and told, run by run."""
        if not later or plan.horizon is None:
            return
        detail = f"later than {plan.horizon.isoformat()}; they are read when that time has come (future_tolerance)"
        self._leave_out("future", later, ", ".join(columns), detail)

    def _leave_out(self, reason: str, rows: int, columns: str, *detail: str) -> None:
        self._run.totals.skipped[reason] = rows
        self._run.emit(events.RowsLeftOut(*self._names, reason, rows, columns, *detail))

    def _asked(self, reader: Reader, rows: RowFilter) -> Any:
        load = self._source.pipeline.sink.load.type.value
        self._run.emit(events.ReadFixed(*self._names, explained(self._source.source, rows), load))
        return reader.read(rows)

    def _look_at_nulls(self, seen: GreatestValues | RowsWritten) -> None:
        """Rows without a watermark are an error, or are told."""
        source = self._source.source
        if not seen.nulls or not source.watermark_columns:
            return
        columns = ", ".join(source.watermark_columns)
        if source.null_watermark is NullWatermark.ERROR:
            raise RowsRefused(
                f"{'/'.join(self._names)}: {count(seen.nulls, 'row')} have null in every watermark column ({columns})",
                "give them a value, or set null_watermark: exclude | include",
            )
        if source.null_watermark is NullWatermark.EXCLUDE:
            self._leave_out("null_watermark", seen.nulls, columns)

    def _nothing_new(self, position: Position) -> Position:
        """Nothing is saved; the mirror shows that somebody looked."""
        return self._run.idle(position)

    def _written(self, position: Position, plan: ColumnPlan, frame: Any, bounds: ReadBounds | None) -> Position:
        if self._is_straight(position):
            return self._appended(position, plan, frame, bounds)
        source = self._source
        source.clean_work(plan.now)
        area = source.new_work()
        try:
            return self._loaded(position, plan, frame, bounds, area)
        except TidegateError:
            source.drop_work(area)
            raise

    def _is_straight(self, position: Position) -> bool:
        """Whether rows are written straight into the table's folder: a plain append that the Arrow lane commits."""
        pipeline = self._source.pipeline
        load = pipeline.sink.load
        plain = load.type is LoadType.APPEND and not load.deduplicate and pipeline.transform is None
        return plain and not position.needs_frames

    def _appended(self, position: Position, plan: ColumnPlan, frame: Any, bounds: ReadBounds | None) -> Position:
        from tidegate.sink.row_task import row_task

        source = self._source
        task = row_task(source.pipeline, source.source, self._engine.columns(frame), position.schema())
        written = self._read(frame, self._limited(task, plan, bounds))
        bounds = bounds or self._told_by(plan, written)
        if not written.rows:
            return self._nothing_new(position)
        self._tell_columns(position, task.written.names, written.rows)
        change = replace(
            self._change(bounds, written.rows),
            data_files=written.data_files,
            schema=task.written,
            partition_columns=task.partition_columns,
        )
        return self._run.commit(position, change, bounds.state)

    def _loaded(
        self, position: Position, plan: ColumnPlan, frame: Any, bounds: ReadBounds | None, area: WorkArea
    ) -> Position:
        """The rows in a work area: read once, the same however often a statement looks at them; then loaded."""
        from tidegate.sink.row_task import Batch, row_task

        source = self._source
        task = row_task(source.pipeline, source.source, self._engine.columns(frame), work=area.location)
        task = self._limited(task, plan, bounds)
        written = self._read(frame, task)
        bounds = bounds or self._told_by(plan, written)
        if not written.rows and bounds.window is None and not plan.full:
            remove_work(source.table_store, area.directory)
            return self._nothing_new(position)
        batch = Batch.of(source.pipeline, source.source, task, written)
        loaded = self._engine.load(batch, self._window(plan, bounds), chunk=plan.chunk is not None)
        schema = loaded.columns(position.schema())
        self._tell_columns(position, schema.names, written.rows)
        change = self._change(bounds, written.rows)
        change = replace(
            change,
            rows_known=True,
            written_rows=written.rows if self._writes_each(plan) else None,
            frame=loaded,
            schema=schema,
            partition_columns=batch.partitioned_by if position.table_id is None else position.partition_columns,
            debts=(area.debt(), *change.debts),
        )
        return self._run.commit(position, change, bounds.state)

    def _change(self, bounds: ReadBounds, rows: int) -> Change:
        tracker = self._source.tracker
        state = tracker.encode(bounds.state)
        debts = tracker.follow_ups(self._run.state, bounds.state)
        return Change(state=state, embedded=state, rows=rows, debts=debts, action=self._run.action)

    def _tell_columns(self, position: Position, names: list[str], rows: int) -> None:
        """Columns that the rows lack, which are null in them, and columns that join the table with them."""
        if position.schema_json is None or not rows:
            return
        known = [field.name for field in position.schema() or ()]
        gone = [name for name in known if name not in names and name not in filled_by_spark(position.schema_json)]
        new = [name for name in names if name.lower() not in {each.lower() for each in known}]
        if gone:
            self._run.notice(
                f"{count(rows, 'row')} have no {', '.join(gone)}, which the table has: null there. If the source has"
                " dropped or renamed a column, say so (transform, or schema.fields); schema_evolution: strict refuses"
                " such rows"
            )
        if new:
            self._run.notice(f"new columns join the table: {', '.join(new)}; null in the rows that are there")

    def _writes_each(self, plan: ColumnPlan) -> bool:
        """Whether each row that was gathered becomes one of the table, so that the log must say as many."""
        pipeline = self._source.pipeline
        load = pipeline.sink.load
        plain = load.type in (LoadType.APPEND, LoadType.OVERWRITE, LoadType.FULL_LOAD) and not load.deduplicate
        return plain and pipeline.transform is None and plan.chunk is None

    def _window(self, plan: ColumnPlan, bounds: ReadBounds) -> RowFilter | None:
        """The part of the table that the strategy looks at, where it does not look at all of it."""
        looks = plan.chunk is not None or self._source.pipeline.sink.load.deduplicate
        return bounds.window or (bounds.rows if looks else None)

    def _limited(self, task: RowTask, plan: ColumnPlan, bounds: ReadBounds | None) -> RowTask:
        """The task without the rows that a read could not leave out, whose end is not fixed yet."""
        source = self._source.source
        unwanted = source.null_watermark is not NullWatermark.INCLUDE and bool(source.watermark_columns)
        full = self._source.pipeline.sink.load.type.reads_everything
        drop_nulls = bounds is None and unwanted and not full
        return replace(task, drop_nulls=drop_nulls, until=plan.horizon if bounds is None else None)

    def _read(self, frame: Any, task: Any) -> RowsWritten:
        written = self._engine.write_rows(frame, task)
        failpoint("runs.read")
        return written

    def _told_by(self, plan: ColumnPlan, written: RowsWritten) -> ReadBounds:
        """The bounds of a batch that could not be asked for them before."""
        self._look_at_nulls(written)
        self._tell_later(plan, written.later, self._source.source.watermark_columns)
        return fixed(plan, self._run.state, written.greatest)


def _uncapped(plan: ColumnPlan, reader: Reader) -> RowFilter:
    """What a source is asked for that cannot tell its greatest values: rows without a watermark are then counted."""
    upper = reader.upper(plan.now) if isinstance(reader, Bounded) else {}
    caps = {column: Bound(value, inclusive=True) for column, value in upper.items()}
    return replace(plan.reads, nulls=NullWatermark.INCLUDE).capped(caps)
