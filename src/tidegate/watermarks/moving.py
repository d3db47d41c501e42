"""The state after a person moved a watermark or forgot a position: one partition changes, nothing else does.

A run only ever moves a watermark up, over files that it committed. Here it goes where it is told: what lies at or
below it counts as finished, what lies above it and is not known to be finished is to be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from tidegate.errors import TidegateError
from tidegate.specs import PathSource
from tidegate.watermarks.late_window import LateWindow
from tidegate.watermarks.layout import Layout
from tidegate.watermarks.path_state import (
    Active,
    FileProgress,
    Idle,
    Initial,
    PathState,
    WatermarkState,
    greater,
    greatest_path,
)
from tidegate.watermarks.paths import join, sort_key, split
from tidegate.watermarks.sealing import is_sealed

T = TypeVar("T")


def moved_to(source: PathSource, state: PathState, partition: str, name: str, now: datetime) -> PathState:
    """The state with the watermark of ``partition`` at ``name``.

    Progress and failures at or below ``name`` are forgotten with the files they belong to; above it they stay, and
    so does what finished above a gap. Below the old watermark only names up to the new one are remembered as late
    window; a watermark that moved up begins with an empty one, or what it jumped over would be taken for late.
    """
    _check_open(source, state, partition)
    before = state.partition_watermarks.get(partition)
    if before == name:
        return state
    goes_down = before is not None and name < before
    window = state.late_window.get(partition) if goes_down else None
    kept = None if window is None else _up_to(window, name)
    last = state.last_committed_file
    watermarks = {**state.partition_watermarks, partition: name}
    return replace(
        state,
        watermark=Active(_value(state, partition, watermarks) or join(partition, name)),
        partition_watermarks=watermarks,
        files={path: each for path, each in state.files.items() if not _at_or_below(path, partition, name)},
        late_window=_with(state.late_window, partition, kept),
        last_committed_file=_last_committed(state, watermarks, join(partition, name)) if goes_down else last,
        last_update_ts=int(now.timestamp()),
    )


def without(source: PathSource, state: PathState, partition: str, now: datetime) -> PathState:
    """The state that knows nothing of ``partition``: all its files are to be read, as if it were new."""
    _check_open(source, state, partition)
    if not knows(state, partition):
        raise TidegateError(
            f"nothing is recorded about partition {partition or '(top level)'!r} of source {source.name!r}",
            "see `tidegate watermark show` for those that have a position",
        )
    watermarks = _with(state.partition_watermarks, partition, None)
    value = _value(state, partition, watermarks)
    return replace(
        state,
        watermark=Initial() if value is None else _renamed(state.watermark, value),
        partition_watermarks=watermarks,
        files=_outside(state.files, partition),
        late_window=_with(state.late_window, partition, None),
        last_committed_file=_last_committed(state, watermarks, f"{partition}/" if partition else ""),
        last_update_ts=int(now.timestamp()),
    )


def blank(now: datetime) -> PathState:
    """The state of a source of which nothing is known, seals included: the cold start is still to come."""
    return PathState(last_update_ts=int(now.timestamp()))


def knows(state: PathState, partition: str) -> bool:
    """Whether anything is recorded about ``partition``."""
    return (
        partition in state.partition_watermarks
        or partition in state.late_window
        or any(split(path)[0] == partition for path in state.files)
    )


def _check_open(source: PathSource, state: PathState, partition: str) -> None:
    if is_sealed(Layout.of(source), state, partition):
        raise TidegateError(
            f"partition {partition!r} of source {source.name!r} is sealed: it has no watermark any more, and its files"
            " are not looked at",
            "to read its files again, replay them (`tidegate replay --partition`)",
        )


def _up_to(window: LateWindow, name: str) -> LateWindow | None:
    """The part of the window that a lower watermark still covers; None if it begins above that."""
    if not window.reaches(name):
        return None
    return LateWindow(tuple(each for each in window.names if each <= name), window.above)


def _at_or_below(path: str, partition: str, name: str) -> bool:
    where, what = split(path)
    return where == partition and what <= name


def _outside(files: Mapping[str, FileProgress], partition: str) -> dict[str, FileProgress]:
    return {path: each for path, each in files.items() if split(path)[0] != partition}


def _with(entries: Mapping[str, T], key: str, value: T | None) -> dict[str, T]:
    """The entries with another value for ``key``, or without it."""
    rest = {other: each for other, each in entries.items() if other != key}
    return rest if value is None else {**rest, key: value}


def _value(state: PathState, partition: str, watermarks: Mapping[str, str]) -> str | None:
    """The greatest watermark: what it was, unless it was that of the partition that changed."""
    others = None if state.value is not None and split(state.value)[0] == partition else state.value
    return greater(others, greatest_path(watermarks))


def _renamed(watermark: WatermarkState, value: str) -> WatermarkState:
    return Idle(value) if watermark == Idle(value) else Active(value)


def _last_committed(state: PathState, watermarks: Mapping[str, str], barrier: str) -> str | None:
    """The greatest finished path that is not above ``barrier``; what it was, if that lies below already."""
    last, limit = state.last_committed_file, sort_key(barrier)
    if last is None or sort_key(last) <= limit:
        return last
    finished = (join(partition, name) for partition, name in watermarks.items())
    return max((path for path in finished if sort_key(path) <= limit), key=sort_key, default=None)
