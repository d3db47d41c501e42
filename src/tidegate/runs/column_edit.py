"""Edits of a column source's watermark, because a person says so.

The new state is committed by the ordinary protocol, alone: no row is touched. A provider's copy moves with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime

from tidegate.core.columns.planner import stored_ahead
from tidegate.core.columns.state import ColumnState, column_watermark_text
from tidegate.core.columns.values import is_above, value_of
from tidegate.errors import TidegateError, WatermarkError
from tidegate.protocol.change import Change
from tidegate.protocol.position import Position
from tidegate.reports.correction import FileSet, WatermarkMove
from tidegate.runs.bound_source import AnySource
from tidegate.runs.tracker import ConfirmMove, WatermarkEdit
from tidegate.schema.names import spelled
from tidegate.specs.columns import Value, Watermark

NULL = "null"


def edit_columns(bound: AnySource, edit: WatermarkEdit, now: datetime, confirm: ConfirmMove) -> WatermarkMove:
    """Set the values of columns, or forget them all, if ``confirm`` agrees."""
    if edit.to is not None or (edit.values is None) != edit.reset:
        wanted = "values of its watermark columns (values)"
        raise TidegateError(f"the watermark of {bound.pipeline.name!r} is something else", f"give {wanted}")
    if edit.partition is not None:
        raise TidegateError(
            f"{bound.pipeline.name!r} is followed by columns and has no partitions", "leave partition out"
        )
    if edit.values is None:
        return _reset(bound, now, confirm)
    return _set(bound, edit.values, now, confirm, inclusive=edit.inclusive)


def _set(
    bound: AnySource,
    values: Mapping[str, str],
    now: datetime,
    confirm: ConfirmMove,
    *,
    inclusive: bool = False,
) -> WatermarkMove:
    """Set the watermark of columns to values that are given as text, if ``confirm`` agrees to what that means."""
    known = bound.source.watermark_columns
    values = {spelled(name, known): text for name, text in values.items()}
    unknown = [name for name in values if name not in known]
    if unknown:
        raise TidegateError(
            f"{bound.key}: {unknown[0]!r} is not a watermark column", f"allowed: {', '.join(known) or 'none'}"
        )
    bound = bound.tracker.for_edit(bound)
    opened, before = _opened(bound)
    stored: Watermark = {} if before is None else before.values
    wanted = {name: _given(name, text, stored.get(name)) for name, text in values.items()}
    kept = frozenset() if before is None else before.inclusive - set(values)
    after = ColumnState({**stored, **wanted}, kept | (set(values) if inclusive else set()), now)
    return _moved(bound, opened, before, after, "watermark set", confirm)


def _given(column: str, text: str, stored: Value | None) -> Value | None:
    """The value that a person means; ``null`` is none."""
    try:
        return None if text == NULL else value_of(text, stored)
    except WatermarkError as error:
        other = (
            "" if stored is None else f"; if the column has changed its type, set it to {NULL} first, then to the value"
        )
        raise WatermarkError(f"column {column!r}: {error.problem}", f"{error.remedy}{other}") from error


def _reset(bound: AnySource, now: datetime, confirm: ConfirmMove) -> WatermarkMove:
    """Forget the watermark: the next run reads everything."""
    bound = bound.tracker.for_edit(bound)
    opened, before = _opened(bound)
    return _moved(bound, opened, before, ColumnState({}, frozenset(), now), "watermark reset", confirm)


def _opened(bound: AnySource) -> tuple[Position, ColumnState | None]:
    """The position, whatever a provider's copy says: moving it is the way out where the two differ."""
    opened = bound.positions.open()
    if opened.table_version < 0:
        raise TidegateError(
            f"{bound.key}: there is no table yet, so there is no watermark to move", "run the pipeline first"
        )
    return opened, bound.state_of(opened)


def _moved(
    bound: AnySource,
    opened: Position,
    before: ColumnState | None,
    after: ColumnState,
    action: str,
    confirm: ConfirmMove,
) -> WatermarkMove:
    is_there = before is not None and (before.values, before.inclusive) == (after.values, after.inclusive)
    same = is_there and bound.tracker.has_same_copy(after)
    move = WatermarkMove(
        pipeline=bound.pipeline.name,
        source=bound.source.name,
        action=action,
        partition=None,
        before=column_watermark_text(before),
        after=column_watermark_text(after),
        read_again=FileSet(),
        never_read=FileSet(),
        notes=(*opened.warnings, *_remarks(bound, before, after, same=same), *_ahead(bound, after)),
        version=opened.version,
        table_version=opened.table_version,
        tracking="columns",
    )
    if same or not confirm(move):
        return move
    state = bound.tracker.encode(after)
    change = Change(state=state, embedded=state, debts=bound.tracker.follow_ups(before, after), action=action)
    done = bound.positions.commit(opened, change)
    return replace(move, version=done.version, table_version=done.table_version, applied=True)


def _ahead(bound: AnySource, after: ColumnState) -> Iterator[str]:
    """A watermark that lies ahead stops every run."""
    if after.updated is not None and not bound.pipeline.sink.load.type.reads_everything:
        for told in stored_ahead(bound.source, after.values, after.updated):
            yield f"{told}; runs stop until then"


def _remarks(bound: AnySource, before: ColumnState | None, after: ColumnState, *, same: bool) -> Iterator[str]:
    if same:
        yield "the watermark is there already: nothing changes"
        return
    if not bound.tracker.has_same_copy(before):
        yield "the state provider has another watermark, whose place this one takes"
    old = {} if before is None else before.values
    idempotent = bound.pipeline.sink.load.type.is_idempotent
    for column in sorted({*old, *after.values}):
        was, now = old.get(column), after.values.get(column)
        if was is not None and (now is None or is_above(was, now)):
            then = "replaced by what the source holds" if idempotent else "in the table twice then"
            yield f"{column} moves down: rows above it are read again, and are {then}"
        elif now is not None and (was is None or is_above(now, was)):
            yield f"{column} moves up: rows at or below it that were not read are never read; only a replay reads them"
