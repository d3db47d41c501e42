"""From a replay back to production: where the watermark stands after chunks were read again.

Production goes on with the value at which the finished chunks end, that value included. A watermark is never lowered,
and never set above rows that nobody has read.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal

from tidegate.column_specs import ColumnSource, Load, LoadType, Value, Watermark, WatermarkMode
from tidegate.errors import WatermarkError
from tidegate.watermarks.calendar import check_zone
from tidegate.watermarks.chunks import ReplayConfig
from tidegate.watermarks.column_state import ColumnState
from tidegate.watermarks.column_values import is_above, kind_of
from tidegate.watermarks.local_times import jump_around
from tidegate.watermarks.look_back import moment_like


def chunk_columns(source: ColumnSource, column: str | None) -> tuple[str, ...]:
    """The columns that the bounds of a replay belong to: the named one, the first of a cursor, or all of them."""
    if column is not None:
        return (column,)
    return source.watermark_columns[:1] if source.mode is WatermarkMode.TUPLE else source.watermark_columns


def chunk_zone(source: ColumnSource, replay: ReplayConfig) -> str | None:
    """The zone whose clocks decide where chunks end; None where the bounds are moments, days or no times at all."""
    is_local = isinstance(replay.start, datetime) and replay.start.tzinfo is None
    return source.source_timezone if is_local and source.source_timezone != "UTC" else None


def fitted_bounds(replay: ReplayConfig, kind: str, source_timezone: str) -> ReplayConfig:
    """The replay with bounds of the ``kind`` that the column has.

    A date among times with a zone means its midnight in UTC, among times without one their own midnight. A time
    without a zone among moments is one of ``source_timezone``, and the other way round, where that is one time alone.
    """
    start, end = (_fitted_bound(each, kind, source_timezone) for each in (replay.start, replay.end))
    return replay if (start, end) == (replay.start, replay.end) else replace(replay, start=start, end=end)


def _fitted_bound(value: Value, kind: str, source_timezone: str) -> Value:
    if type(value) is date and kind in ("datetime", "datetime_naive"):
        return datetime.combine(value, time(), UTC if kind == "datetime" else None)
    if kind_of(value) == "datetime_naive" and kind == "datetime" and isinstance(value, datetime):
        return value.replace(tzinfo=check_zone(source_timezone)).astimezone(UTC)
    if kind_of(value) == "datetime" and kind == "datetime_naive" and isinstance(value, datetime):
        return _local(value, source_timezone)
    return value


def _local(moment: datetime, timezone: str) -> datetime:
    """What clocks show at that moment; ``WatermarkError`` where they show it twice, or it would cut a jump."""
    zone = check_zone(timezone)
    local = moment.astimezone(zone).replace(tzinfo=None, fold=0)
    if local.replace(tzinfo=zone).astimezone(UTC) != moment or jump_around(local, timezone) is not None:
        raise WatermarkError(
            f"the replay's bound {moment} is {local} in {timezone}, a time that clocks show twice or jump over, and the"
            " column has no zone",
            "give a bound without a zone, such as the full hour before or after",
        )
    return local


def check_handover(
    name: str,
    source: ColumnSource,
    load: Load,
    state: ColumnState | None,
    replay: ReplayConfig,
    *,
    skip_gap: bool = False,
) -> None:
    """Refuse a replay after which production could not go on: rows would be left out or read by both."""
    stored = (state or ColumnState()).values
    columns = chunk_columns(source, replay.chunk_column)
    _check_columns(name, source, load, columns)
    below = [each for each in columns if (value := stored.get(each)) is None or is_above(replay.start, value)]
    if below and not skip_gap:
        raise WatermarkError(
            f"{name}: the replay starts at {replay.start}, above the watermark of {_listed(stored, below)}: the rows"
            " between were never read",
            "start at the watermark or below; or, if they are not wanted, use --skip-gap",
        )
    passed = [each for each in columns if _is_passed(stored.get(each), replay.end)]
    ahead = [each for each in columns if each not in passed]
    if passed and ahead:
        raise WatermarkError(
            f"{name}: the replay ends at {replay.end}, above the watermark of {_listed(stored, passed)} and not above"
            f" that of {_listed(stored, ahead)}: rows new by the one and old by the other would be left out",
            "end above both, or do not save the watermark",
        )


def check_past(name: str, source: ColumnSource, replay: ReplayConfig, now: datetime) -> None:
    """Refuse to save an end that is still to come: rows that appear below it would never be read."""
    until = now if source.safety_lag is None else now - source.safety_lag
    latest = moment_like(replay.end, until, source.source_timezone)
    if latest is not None and is_above(replay.end, latest):
        raise WatermarkError(
            f"{name}: the replay ends at {replay.end}, later than {latest}, and saves that as the watermark: rows that"
            " come before it would never be read",
            "end at a time that has passed, or do not save the watermark",
        )


def check_reached(name: str, replay: ReplayConfig, seen: Watermark) -> None:
    """Refuse to save a number that the source has not reached: rows that appear below it would never be read."""
    end = replay.end
    for column, value in seen.items():
        if isinstance(end, int) and isinstance(value, int) and end == value + 1:
            continue
        if value is None or is_above(end, value):
            raise WatermarkError(
                f"{name}: the replay ends at {end}, above the greatest value of {column} ({value}), and saves that as"
                " the watermark: rows that come below it would never be read",
                f"end at {value}, or do not save the watermark" if value is not None else "do not save the watermark",
            )


def is_number(value: Value) -> bool:
    """Whether a value counts something, so that only the source knows how far it has come."""
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def doubled_by_production(
    source: ColumnSource, load: Load, state: ColumnState | None, replay: ReplayConfig
) -> tuple[str, ...]:
    """The columns by which the next run would append rows of the replay again, if that does not save its end.

    Where nothing was read before, the next run reads everything.
    """
    if replay.save_watermark or load.type is not LoadType.APPEND:
        return ()
    if state is None:
        return source.watermark_columns
    used = [each for each in source.watermark_columns if each in chunk_columns(source, replay.chunk_column)]
    return tuple(each for each in used if _is_above_next(replay.end, state.values.get(each)))


def _is_above_next(end: Value, stored: Value | None) -> bool:
    """Whether a value can lie above ``stored`` and below ``end``; none does between neighbouring whole numbers."""
    is_next = isinstance(end, int) and isinstance(stored, int) and end == stored + 1
    return not is_next and _is_passed(stored, end)


def handed_over(
    source: ColumnSource, state: ColumnState | None, column: str | None, end: Value, now: datetime
) -> ColumnState:
    """The state after everything up to ``end`` was read; unchanged as long as a watermark lies there or above."""
    before = state or ColumnState()
    columns = chunk_columns(source, column)
    if not all(_is_passed(before.values.get(each), end) for each in columns):
        return before
    cursor = source.watermark_columns if source.mode is WatermarkMode.TUPLE else ()
    values = {**before.values, **dict.fromkeys(cursor), **dict.fromkeys(columns, end)}
    return replace(before, values=values, inclusive=before.inclusive | set(columns), updated=now)


def _check_columns(name: str, source: ColumnSource, load: Load, columns: tuple[str, ...]) -> None:
    foreign = [each for each in columns if each not in source.watermark_columns]
    if foreign or not columns:
        raise WatermarkError(
            f"{name}: {', '.join(foreign) or 'no column'} is not a watermark column, so that the end of the replay says"
            " nothing about the watermark",
            "replay without saving the watermark, or by a watermark column",
        )
    is_cursor = source.mode is WatermarkMode.TUPLE
    if is_cursor and columns != source.watermark_columns[:1]:
        raise WatermarkError(
            f"{name}: {columns[0]} is not the first column of the cursor {', '.join(source.watermark_columns)}",
            "replay by the first column, or without saving the watermark",
        )
    if not is_cursor and len(columns) < len(source.watermark_columns) and not load.type.is_idempotent:
        raise WatermarkError(
            f"{name}: after a replay by {columns[0]} alone, rows that are new by another watermark column would be"
            " appended again",
            "replay by all watermark columns: leave chunk_column out; or do not save the watermark",
        )


def _is_passed(stored: Value | None, end: Value) -> bool:
    return stored is None or is_above(end, stored)


def _listed(stored: Watermark, columns: list[str]) -> str:
    return ", ".join(f"{each} ({stored.get(each, 'nothing stored')})" for each in columns)
