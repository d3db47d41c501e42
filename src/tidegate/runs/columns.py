"""Column sources: the greatest value read per watermark column, and the walk that continues from it.

The new watermark is known before the rows are committed, and covers exactly them: databases and tables are asked for
their greatest values first and read up to these; for other sources the batch is read once and shows them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from tidegate.core.columns.planner import (
    AHEAD_REMEDY,
    ColumnPlan,
    ReadBounds,
    cap_plan,
    caps_ahead,
    find_stored_ahead,
    fix_bounds,
    one_response_note,
    plan_columns,
    rows_ahead,
)
from tidegate.core.columns.predicates import Bound, RowFilter, SourceRuntime, narrow_window, window_of
from tidegate.core.columns.state import (
    ColumnState,
    column_watermark_text,
    decode_columns,
    encode_columns,
    is_above,
    value_of,
    value_texts,
)
from tidegate.errors import RowsRefused, TidegateError, WatermarkError
from tidegate.failpoints import failpoint
from tidegate.observe import events
from tidegate.protocol.change import (
    AppendFiles,
    Change,
    Identity,
    NextState,
    RowChanges,
    RowCount,
    SourceKey,
    State,
    Write,
    Written,
)
from tidegate.protocol.position import Position, utc_now
from tidegate.protocol.table_checks import find_filled_columns
from tidegate.reports.checks import Check
from tidegate.reports.plan import ColumnSourcePlan
from tidegate.reports.watermark import FileSet, StateTable, WatermarkMove
from tidegate.reports.wording import count
from tidegate.runs.checks import CheckSettings, collect_checks
from tidegate.runs.engine import ColumnRows
from tidegate.runs.pass_ import Lane, Pass
from tidegate.runs.replay_record import replay_source
from tidegate.runs.schedule import give_place
from tidegate.runs.tracker import (
    AnySource,
    Backlog,
    ColumnBound,
    ConfirmMove,
    Copied,
    Described,
    Editable,
    Examinable,
    Replayable,
    Summary,
    Tracker,
    Walk,
    WatermarkEdit,
)
from tidegate.schema.names import spell
from tidegate.sources.connection_slots import ConnectionSlots, connection_slots
from tidegate.sources.reader import Bounded, GreatestValues, Reader, explain
from tidegate.specs.columns import (
    ColumnSource,
    LoadType,
    NullWatermark,
    Value,
    Watermark,
    WatermarkMode,
)
from tidegate.specs.project import PipelineSpec
from tidegate.specs.user_code import call

NULL = "null"
_MOVES = re.compile("upd|modif|chang", re.IGNORECASE)
"""Parts of names of columns whose value changes when a row changes."""
REMEMBERS = "greatest value per column"
NO_LOOK = "backlog unknown: only a run asks this source"

if TYPE_CHECKING:
    from tidegate.tasks.row_task import RowsWritten, RowTask


@dataclass(frozen=True, slots=True)
class ColumnTracker(Tracker, Described, Copied, Editable, Replayable, Examinable):
    """The watermark of one column source."""

    key: SourceKey
    source: ColumnSource

    kind: ClassVar[str] = "column"
    reads: ClassVar[str] = "follows columns"
    instead: ClassVar[Mapping[str, str]] = {
        "reconcile": "a column source: this command does not compare its rows with the source; a replay reads a range "
        "of them again",
    }
    copy_in_debt: ClassVar[bool] = True

    @property
    def identity(self) -> Identity:
        """The source and, for a lexicographic cursor, its columns in order, without which its values mean nothing."""
        source = self.source
        is_cursor = source.mode is WatermarkMode.TUPLE
        cursor = f"tuple: {', '.join(source.watermark_columns)}" if is_cursor else None
        return Identity(self.kind, source.uri, cursor, source.notes)

    def decode(self, recorded: State | None) -> ColumnState | None:
        return None if recorded is None else decode_columns(recorded)

    def fresh(self) -> ColumnState:
        return ColumnState()

    def encode(self, state: ColumnState) -> dict[str, object]:
        return encode_columns(state)

    def make_copy(self, state: ColumnState) -> Mapping[str, Any]:
        """The values by column, and the columns that are read inclusively."""
        return state.complete()

    def replays(self, source: ColumnBound, pipeline: PipelineSpec) -> AnySource:
        """Replays are a source of their own beside the production one."""
        return replay_source(source, pipeline)

    def walk(self, run: Pass) -> Walk:
        """Fix the bounds, read, load."""

        return ColumnWalk(run)

    def summary(self, state: ColumnState | None) -> Summary:
        if state is None:
            return Summary("columns", brief="no watermark", remembers=REMEMBERS)
        text = column_watermark_text(state)
        values = {name: "null" if value is None else value for name, value in value_texts(state.values).items()}
        return Summary(
            "columns",
            watermark=text,
            brief=text or "no watermark",
            remembers=REMEMBERS,
            tables=lambda: (StateTable("column", "greatest value", values, "column"),),
            value=state.serialize(),
            updated=state.updated,
            partitions=values,
        )

    def plan(self, source: ColumnBound, now: datetime, *, accept_new_partitions: bool = False) -> ColumnSourcePlan:
        """What the next pass would ask for, by the same steps, without writing anything."""
        opened = source.open(read_only=True)
        pipeline, read = source.pipeline, source.source
        plan = plan_columns(pipeline.name, read, pipeline.sink.load, source.state_of(opened), opened.version, now)
        return ColumnSourcePlan(
            *source.names,
            table_uri=source.table_uri,
            kind=self.type_name,
            source_uri=read.uri,
            load_type=pipeline.sink.load.type.value,
            position=opened.version,
            stored=value_texts(plan.stored),
            effective=value_texts(plan.effective),
            predicate=explain(read, plan.reads),
            full=plan.full,
            cap=_cap(source),
            window=plan.window,
            notes=(*opened.warnings, *plan.notes, *one_response_note(read.read)),
        )

    def backlog(self, source: ColumnBound, state: ColumnState | None, version: int, now: datetime) -> Backlog:
        """Unknown: the source itself is not asked."""
        if state is None or source.pipeline.sink.load.type.reads_everything:
            return Backlog(known=False, notes=(NO_LOOK,))
        ahead = (f"{told}; {AHEAD_REMEDY}" for told in find_stored_ahead(self.source, state.values, now))
        return Backlog(known=False, notes=(NO_LOOK, *ahead))

    def edit(self, source: ColumnBound, edit: WatermarkEdit, now: datetime, confirm: ConfirmMove) -> WatermarkMove:
        """Set the values of columns, or forget them all; a provider's copy moves with them."""
        if edit.to is not None or (edit.values is None) != edit.reset:
            wanted = "values of its watermark columns (values)"
            raise TidegateError(f"{source.pipeline.name!r} has another kind of watermark", f"give {wanted}")
        if edit.partition is not None:
            raise TidegateError(
                f"{source.pipeline.name!r} is a column source and has no partitions", "leave partition out"
            )
        texts = self._spell_columns(edit.values or {})
        source = source.for_edit()
        opened = source.positions.open()
        if opened.table_version < 0:
            raise TidegateError(
                f"{self.key}: there is no table yet, so there is no watermark to move", "run the pipeline first"
            )
        before: ColumnState | None = source.state_of(opened)
        after = ColumnState({}, frozenset(), now)
        if edit.values is not None:
            stored: Watermark = {} if before is None else before.values
            given = {name: _value(name, text, stored.get(name)) for name, text in texts.items()}
            kept = frozenset() if before is None else before.inclusive - set(texts)
            after = ColumnState({**stored, **given}, kept | (set(texts) if edit.inclusive else set()), now)
        is_there = before is not None and (before.values, before.inclusive) == (after.values, after.inclusive)
        same = is_there and self._has_copy(source, after)
        action = "watermark reset" if edit.reset else "watermark set"
        move = WatermarkMove(
            *source.names,
            action=action,
            partition=None,
            before=column_watermark_text(before),
            after=column_watermark_text(after),
            read_again=FileSet(),
            never_read=FileSet(),
            notes=(*opened.warnings, *self._remarks(source, before, after, same=same)),
            version=opened.version,
            table_version=opened.table_version,
            tracking="columns",
            lists_files=False,
        )
        if same or not confirm(move):
            return move
        state = self.encode(after)
        done = source.record_edit(opened, state, action)
        return replace(move, version=done.version, table_version=done.table_version, applied=True)

    def _spell_columns(self, values: Mapping[str, str]) -> dict[str, str]:
        """Texts by watermark column, with the columns' spelling."""
        known = self.source.watermark_columns
        texts = {spell(name, known): text for name, text in values.items()}
        unknown = [name for name in texts if name not in known]
        if unknown:
            raise TidegateError(
                f"{self.key}: {unknown[0]!r} is not a watermark column", f"allowed: {', '.join(known) or 'none'}"
            )
        return texts

    def _remarks(
        self, source: ColumnBound, before: ColumnState | None, after: ColumnState, *, same: bool
    ) -> Iterator[str]:
        """What a move means for rows; a watermark in the future stops every run."""
        load = source.pipeline.sink.load.type
        if same:
            yield "the watermark is already there: nothing changes"
        elif not self._has_copy(source, before):
            yield "the state provider has another watermark; this one replaces it"
        old = {} if before is None else before.values
        for column in sorted({*old, *after.values}) if not same else ():
            was, now = old.get(column), after.values.get(column)
            if was is not None and (now is None or is_above(was, now)):
                then = "replaced by what the source holds" if load.is_idempotent else "in the table twice then"
                yield f"{column} moves down: rows above it are read again, and are {then}"
            elif now is not None and (was is None or is_above(now, was)):
                unread = "rows at or below it that were not read are never read"
                yield f"{column} moves up: {unread}; only a replay reads them"
        if after.updated is not None and not load.reads_everything:
            for told in find_stored_ahead(self.source, after.values, after.updated):
                yield f"{told}; runs stop until then"

    def _has_copy(self, source: ColumnBound, state: ColumnState | None) -> bool:
        """Whether the provider, if any, has this watermark."""
        kept = source.positions.copy
        return kept is None or kept.has(None if state is None else self.encode(state))

    def source_checks(self, source: ColumnBound, by: CheckSettings) -> list[Check]:
        """Whether the source answers and has the columns, and what is odd about it."""
        from tidegate.runs.source_checks import check_columns

        name = f"source {self.key}"

        def look() -> Iterator[Check]:
            by_window = source.pipeline.sink.load.replace_by_watermark
            for column in filter(_MOVES.search, self.source.watermark_columns if by_window else ()):
                yield Check(
                    name,
                    "warn",
                    f"replace_by_watermark: {column!r} looks like the time of an update; a row whose value moves below"
                    " the window is not seen until a replay",
                    "follow a column whose values stay, or replay such ranges: tidegate replay",
                )

        return [*collect_checks(name, lambda: check_columns(source, name, by)), *look()]

    def table_checks(
        self, source: ColumnBound, name: str, position: Position, state: ColumnState | None
    ) -> Iterator[Check]:
        """A watermark in the future; opening the position has compared the provider's copy."""
        if not source.pipeline.sink.load.type.reads_everything:
            for told in find_stored_ahead(self.source, {} if state is None else state.values, utc_now()):
                yield Check(name, "fail", told, AHEAD_REMEDY)

    @property
    def type_name(self) -> str:
        """The kind of source, in the word of the configuration."""
        return self.source.read.type_name


class ColumnWalk:
    """One pass over a column source."""

    def __init__(self, run: Pass) -> None:
        self._run = run
        self._source: ColumnBound = run.source
        self._engine: ColumnRows = run.engine
        self._names = run.names
        self._why_started = ""
        self._slots = ConnectionSlots()

    def go(self, position: Position) -> Position:
        """Read what the plan asks for and commit it; an idle position if there is nothing.

        With a safety lag every source is asked first: younger values must not be among the rows.
        """
        stop = self._run.stop
        with connection_slots(self._source.source.read, stop, partial(give_place, stop)) as self._slots:
            return self._go(position)

    def _go(self, position: Position) -> Position:
        plan = self._make_plan(position)
        if self._is_idle(plan):
            return self._nothing_new(position)
        with self._run.take_server_turn():
            return self._carry_out(position, plan)

    def _carry_out(self, position: Position, plan: ColumnPlan) -> Position:
        source = self._source.source
        reader = self._engine.reader(source, self._source.pipeline.schema, plan.now)
        if reader.fixed_first or source.safety_lag is not None:
            plan, seen = self._ask_greatest(plan, reader)
            self._look_at_nulls(seen)
            bounds = fix_bounds(plan, self._run.state, seen.values)
            if bounds.nothing:
                return self._nothing_new(position)
            # The bounds are fixed before the read: rows that arrive in between lie above them and wait for the next
            # run.
            return self._write(position, plan, self._read(reader, bounds.rows), bounds)
        return self._write(position, plan, self._read(reader, _bound_read(plan, reader)), None)

    def _make_plan(self, position: Position) -> ColumnPlan:
        run, pipeline = self._run, self._source.pipeline
        plan = plan_columns(
            pipeline.name, self._source.source, pipeline.sink.load, run.state, position.version, run.clock()
        )
        for note in plan.notes:
            run.notice(note)
        for note in one_response_note(self._source.source.read):
            run.notice_once(note)
        failpoint("runs.planned")
        return plan

    def _is_idle(self, plan: ColumnPlan) -> bool:
        """Whether nothing is new, if that is known without starting an engine.

        The user's own filter may also select rows below the watermark.
        """
        # Code of the user's own may look back below the watermark, so that "nothing above it" proves nothing.
        chooses = self._source.source.watermark_filter is not None and not plan.reads.strict
        if self._engine.is_ready or plan.full or chooses or not fix_bounds(plan, self._run.state, {}).nothing:
            return False
        from tidegate.sources.idle import NoAnswer, nulls_if_idle

        try:
            nulls = nulls_if_idle(self._source.source, plan.reads)
        # Every doubt is Spark's to settle (decision 0025): only "no row" from a driver of Python ends the pass.
        except NoAnswer as told:
            self._why_started = told.reason
            return False
        if nulls is not None:
            self._look_at_nulls(GreatestValues(nulls=nulls))
        return nulls is not None

    def _ask_greatest(self, plan: ColumnPlan, reader: Reader) -> tuple[ColumnPlan, GreatestValues]:
        """The greatest values; if one lies too far ahead, those of the rows up to there, and the plan for them."""
        seen = reader.greatest(plan.reads)
        # Decision 0020: one row dated years ahead would carry the watermark past everything that comes until then.
        caps = caps_ahead(plan, seen.values)
        if not caps:
            return plan, seen
        self._tell_later(plan, self._engine.count(reader.read(rows_ahead(plan, caps))), tuple(caps))
        due = cap_plan(plan, caps)
        return due, reader.greatest(due.reads)

    def _tell_later(self, plan: ColumnPlan, later: int, columns: tuple[str, ...]) -> None:
        """Count and report rows that wait because their time lies ahead."""
        if not later or plan.horizon is None:
            return
        detail = f"later than {plan.horizon.isoformat()}; a later run reads them (future_tolerance)"
        self._leave_out("future", later, ", ".join(columns), detail)

    def _leave_out(self, reason: str, rows: int, columns: str, *detail: str) -> None:
        self._run.totals.skipped[reason] = rows
        self._run.emit(events.RowsLeftOut(*self._names, reason, rows, columns, *detail))

    def _read(self, reader: Reader, rows: RowFilter) -> Any:
        load = self._source.pipeline.sink.load.type.value
        self._run.emit(events.ReadFixed(*self._names, explain(self._source.source, rows), load))
        frame = reader.read(rows)
        # Spark connects when it writes the rows, with as many connections as the read is divided into.
        self._slots.resize(getattr(reader, "connections", 1))
        return frame

    def _look_at_nulls(self, seen: GreatestValues | RowsWritten) -> None:
        """Report rows without a watermark, or raise."""
        source = self._source.source
        if not seen.nulls or not source.watermark_columns:
            return
        columns = ", ".join(source.watermark_columns)
        if source.null_watermark is NullWatermark.ERROR:
            raise RowsRefused(
                f"{'/'.join(self._names)}: {count(seen.nulls, 'row has', 'rows have')} null in every watermark column "
                f"({columns})",
                "give them a value, or set null_watermark: exclude | include",
            )
        if source.null_watermark is NullWatermark.EXCLUDE:
            self._leave_out("null_watermark", seen.nulls, columns)

    def _nothing_new(self, position: Position) -> Position:
        """Save nothing; the mirror shows that a run looked."""
        if self._why_started:
            self._run.notice(f"Spark had to start although nothing is new: {self._why_started}")
        return self._run.idle(position)

    def _nothing_changed(self, position: Position, rows: int) -> Position:
        """Rows came again, and the table has them all: a commit would say nothing new."""
        self._run.totals.changes += RowChanges(unchanged=rows)
        self._run.emit(events.RowsUnchanged(*self._names, rows))
        return self._run.idle(position)

    def _moves(self, bounds: ReadBounds) -> bool:
        """Whether the read moves the watermark."""
        before: ColumnState | None = self._run.state
        after = bounds.state
        return before is None or (before.values, before.inclusive) != (after.values, after.inclusive)

    def _reads_again(self, plan: ColumnPlan) -> bool:
        """Whether rows may come that the table has; a filter of the user's own may always bring some."""
        return plan.reads_again or self._source.source.watermark_filter is not None

    def _write(self, position: Position, plan: ColumnPlan, frame: Any, bounds: ReadBounds | None) -> Position:
        if self._is_straight(position):
            return self._append(position, plan, frame, bounds)
        self._source.clean_work(plan.now)
        with Lane(self._source) as lane:
            return self._load(position, plan, frame, bounds, lane)

    def _is_straight(self, position: Position) -> bool:
        """Whether rows are written straight into the table's folder: a plain append that the Arrow lane commits."""
        pipeline = self._source.pipeline
        load = pipeline.sink.load
        plain = load.type is LoadType.APPEND and not load.deduplicate and pipeline.transform is None
        return plain and not position.needs_frames

    def _append(self, position: Position, plan: ColumnPlan, frame: Any, bounds: ReadBounds | None) -> Position:
        from tidegate.tasks.row_task import row_task

        source = self._source
        task = row_task(source.pipeline, source.source, self._engine.columns(frame), position.schema())
        written = self._write_rows(frame, self._limit(task, plan, bounds))
        bounds = bounds or self._bounds_of(plan, written)
        if not written.rows:
            return self._nothing_new(position)
        self._tell_columns(position, task.written.names, written.rows)
        files = Written(task.written, task.partition_columns, written.data_files)
        return self._run.commit(position, self._change(bounds, AppendFiles((files,))), bounds.state)

    def _load(
        self, position: Position, plan: ColumnPlan, frame: Any, bounds: ReadBounds | None, lane: Lane
    ) -> Position:
        """Read the rows into a work area once, where they stay the same for every statement; then load them."""
        from tidegate.tasks.row_task import Batch, row_task

        source = self._source
        task = row_task(source.pipeline, source.source, self._engine.columns(frame), work=lane.new_area().location)
        task = self._limit(task, plan, bounds)
        written = self._write_rows(frame, task)
        bounds = bounds or self._bounds_of(plan, written)
        # Without rows, a window or a full load still replaces: what the source has dropped has to leave the table.
        if not written.rows and bounds.window is None and not plan.full:
            return self._nothing_new(position)
        # Decision 0017: a batch is read once; a source that is asked again, by a retried statement, may answer
        # differently.
        batch = replace(Batch.of(source.pipeline, source.source, task, written), again=self._reads_again(plan))
        loaded = self._engine.load(batch, self._window(plan, bounds), chunk=plan.chunk is not None)
        table = position.schema()
        if table is not None and not self._moves(bounds) and loaded.changes_nothing(table):
            return self._nothing_changed(position, written.rows)
        keys = batch.partitioned_by if position.table_id is None else position.partition_columns
        # A merge rewrites rows that it did not bring, so the log's number says nothing about the batch.
        counts = RowCount.EXACT if self._writes_each(plan) else RowCount.GATHERED
        write = lane.write(loaded, position, keys, written.rows, counts)
        self._tell_columns(position, write.schema.names, written.rows)
        after = self._run.commit(position, self._change(bounds, write), bounds.state)
        lane.release()
        return after

    def _change(self, bounds: ReadBounds, write: Write) -> Change:
        state = self._source.tracker.encode(bounds.state)
        return Change(NextState.of(state), write, action=self._run.action)

    def _tell_columns(self, position: Position, names: list[str], rows: int) -> None:
        """Report columns that the rows lack, which are null, and columns that they add to the table."""
        if position.schema_json is None or not rows:
            return
        known = [field.name for field in position.schema() or ()]
        gone = [name for name in known if name not in names and name not in find_filled_columns(position.schema_json)]
        new = [name for name in names if name.lower() not in {each.lower() for each in known}]
        if gone:
            self._run.notice(
                f"{count(rows, 'row has', 'rows have')} no {', '.join(gone)}, which the table has: "
                f"{'it is' if len(gone) == 1 else 'they are'} null there. "
                "If the source has dropped or renamed a column, say so (transform, or schema.fields); "
                "schema_evolution: strict refuses such rows"
            )
        if new:
            self._run.notice(f"the table gets new columns: {', '.join(new)}; they are null in its old rows")

    def _writes_each(self, plan: ColumnPlan) -> bool:
        """Whether each gathered row becomes one of the table, so that the log must have as many."""
        pipeline = self._source.pipeline
        load = pipeline.sink.load
        plain = load.type in (LoadType.APPEND, LoadType.OVERWRITE, LoadType.FULL_LOAD) and not load.deduplicate
        return plain and pipeline.transform is None and plan.chunk is None

    def _window(self, plan: ColumnPlan, bounds: ReadBounds) -> RowFilter | None:
        """The part of the table that the strategy reads, if not all of it."""
        looks = plan.chunk is not None or self._source.pipeline.sink.load.deduplicate
        return self._replaced(plan, bounds) or (bounds.rows if looks else None)

    def _replaced(self, plan: ColumnPlan, bounds: ReadBounds) -> RowFilter | None:
        """The window to replace: ours, or the result of the user's code for the watermarks of the read."""
        runtime = SourceRuntime(plan.stored or None, plan.effective, bounds.state.values)
        source, load = self._source.source, self._source.pipeline.sink.load
        found: object = window_of(runtime, replace_by_watermark=load.replace_by_watermark)
        default, name = found, "/".join(self._names)
        if source.watermark_window is not None:
            remedy = "return a lower and an upper bound by column, or None"
            found = call(source.watermark_window, f"{name}: watermark_window", remedy, runtime)
        return narrow_window(bounds.window, found, default, name)

    def _limit(self, task: RowTask, plan: ColumnPlan, bounds: ReadBounds | None) -> RowTask:
        """The task without rows that a read could not exclude, if its end is not fixed yet."""
        source = self._source.source
        # A source whose end is unknown is read with its nulls, so that they can be counted and reported.
        unwanted = source.null_watermark is not NullWatermark.INCLUDE and bool(source.watermark_columns)
        full = self._source.pipeline.sink.load.type.reads_everything
        drop_nulls = bounds is None and unwanted and not full
        return replace(task, drop_nulls=drop_nulls, until=plan.horizon if bounds is None else None)

    def _write_rows(self, frame: Any, task: Any) -> RowsWritten:
        written = self._engine.write_rows(frame, task)
        # The rows are here: what follows concerns the table alone.
        self._slots.release()
        failpoint("runs.read")
        return written

    def _bounds_of(self, plan: ColumnPlan, written: RowsWritten) -> ReadBounds:
        """The bounds of a batch that could not be asked for before."""
        self._look_at_nulls(written)
        self._tell_later(plan, written.later, self._source.source.watermark_columns)
        return fix_bounds(plan, self._run.state, written.greatest)


def _bound_read(plan: ColumnPlan, reader: Reader) -> RowFilter:
    """The request to a source that does not know its greatest values: rows without a watermark are then counted."""
    upper = reader.upper(plan.now) if isinstance(reader, Bounded) else {}
    caps = {column: Bound(value, inclusive=True) for column, value in upper.items()}
    return replace(plan.reads, nulls=NullWatermark.INCLUDE).capped(caps)


def _cap(source: ColumnBound) -> str:
    """How the upper bound is set, in words."""
    read = source.source
    if not read.watermark_columns:
        return "none: without watermark_columns every run reads everything"
    if source.pipeline.sink.load.type.reads_everything:
        return "none: each run replaces the table"
    lag = f", and not younger than {read.safety_lag} before the run" if read.safety_lag else ""
    return f"{read.read.upper_bound}{lag}"


def _value(column: str, text: str, stored: Value | None) -> Value | None:
    """The value that a person means; None for ``null``."""
    try:
        return None if text == NULL else value_of(text, stored)
    except WatermarkError as error:
        other = (
            "" if stored is None else f"; if the column has changed its type, set it to {NULL} first, then to the value"
        )
        raise WatermarkError(f"column {column!r}: {error.problem}", f"{error.remedy}{other}") from error
