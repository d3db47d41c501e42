"""The next state: committed outcomes move each partition's watermark up, contiguously, and never back.

The watermark of a partition is the greatest name below which everything listed is finished. What finished
above a gap is kept by name. A listing that was cut off shows each partition up to some name, so walking over
listed names only is safe; nothing is sealed after such a listing, because what it did not show may be older.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from tidegate.specs import PathSource
from tidegate.watermarks.layout import Layout
from tidegate.watermarks.outcomes import FileOutcome
from tidegate.watermarks.path_state import (
    Active,
    Finished,
    Idle,
    Initial,
    PathState,
    WatermarkState,
    greater,
    greatest_path,
)
from tidegate.watermarks.paths import SourceFile, join, sort_key, split
from tidegate.watermarks.sealing import Directories, counted, is_sealed, opened, seals_after
from tidegate.watermarks.standing import standings
from tidegate.watermarks.step import Shown, Step

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Advance:
    """A step of the watermark; without ``changed`` there is nothing to commit.

    ``advanced`` has (partition, name before, name after); ``sealed`` the partitions that left the state;
    ``full`` means that as many files wait above gaps as may be: stop reading and plan again.
    """

    state: PathState
    advanced: tuple[tuple[str, str | None, str], ...] = ()
    sealed: tuple[str, ...] = ()
    changed: bool = False
    full: bool = False


def advance(
    source: PathSource,
    state: PathState,
    listed: Sequence[SourceFile],
    outcomes: Sequence[FileOutcome],
    now: datetime,
    *,
    complete: bool,
    directories: Directories | None = None,
) -> Advance:
    """The state once the rows of ``outcomes`` are committed.

    ``listed``, ``complete``, ``directories`` and ``now`` are those of the plan, in every commit of that plan.
    ``StateError`` if an outcome does not begin where the recorded progress ends.
    """
    layout = Layout.of(source)
    shown = Shown.of(listed, complete, lambda partition: is_sealed(layout, state, partition))
    start = opened(source, state, now, shown.names)
    step = Step(source, start, shown)
    step.apply(outcomes)
    step.forget_what_is_gone()
    step.walk()
    if start is state and not step.changed:
        return Advance(state, full=_is_full(source, state))
    step.fit_windows()
    return _settled(source, start, step, now, directories or Directories())


def idle(state: PathState, listed_any: bool) -> PathState:
    """The state after a poll that found nothing to read.

    Files in progress or failed still wait, so the source is not idle yet, unless it was emptied.
    """
    waits = bool(state.first_unfinished) and listed_any
    if isinstance(state.watermark, Initial) or waits:
        return state
    return replace(state, watermark=Idle(state.watermark.value))


def _settled(source: PathSource, start: PathState, step: Step, now: datetime, directories: Directories) -> Advance:
    """The step as a state: its greatest paths, what it seals, and when it was made."""
    state = replace(
        start,
        watermark=_watermark(start, step),
        partition_watermarks=step.watermarks,
        files=step.files,
        late_window=step.windows,
        window_lost=False,
        last_update_ts=int(now.timestamp()),
    )
    unread = _first_unread(source, state, step.shown)
    state = replace(state, last_committed_file=_last_committed(state, unread))
    sealed: tuple[str, ...] = ()
    if step.shown.complete:
        state, sealed = _sealed(source, state, unread, now, directories)
    return Advance(state, step.advanced, sealed, changed=True, full=_is_full(source, state))


def _is_full(source: PathSource, state: PathState) -> bool:
    return len(state.files) >= source.max_islands


def _watermark(start: PathState, step: Step) -> WatermarkState:
    value = greater(start.value, greatest_path(step.watermarks))
    return Active(value) if step.advanced and value is not None else start.watermark


def _first_unread(source: PathSource, state: PathState, shown: Shown) -> dict[str, str]:
    """The smallest listed name that is not finished, per partition that has one."""
    standing_of = standings(source, state)
    unread: dict[str, str] = {}
    for partition, names in shown.names.items():
        is_finished = standing_of(partition).is_finished
        first = next((name for name in names if not is_finished(name)), None)
        if first is not None:
            unread[partition] = first
    return unread


def _last_committed(state: PathState, unread: dict[str, str]) -> str | None:
    """The greatest path at or below which everything listed is finished."""
    finished = [join(partition, name) for partition, name in state.partition_watermarks.items()]
    if state.last_committed_file is not None:
        finished.append(state.last_committed_file)
    if unread:
        partition = min(unread)
        barrier = sort_key(join(partition, unread[partition]))
        window = state.late_window.get(partition)
        finished.extend(join(partition, name) for name in (window.names if window else ()))
        finished = [path for path in finished if sort_key(path) < barrier]
    return max(finished, key=sort_key, default=None)


def _sealed(
    source: PathSource, state: PathState, unread: dict[str, str], now: datetime, directories: Directories
) -> tuple[PathState, tuple[str, ...]]:
    """The state without the partitions that are old enough, and which these are."""
    layout = Layout.of(source)
    islands = {split(path)[0] for path, progress in state.files.items() if isinstance(progress, Finished)}
    finished = {*state.partition_watermarks, *islands}
    state = replace(state, sealed=seals_after(source, state, finished, unread, now))
    known = {*finished, *state.first_unfinished, *state.late_window}
    dropped = {partition for partition in known if is_sealed(layout, state, partition)} - set(unread)
    kept = replace(
        state,
        partition_watermarks=_without(state.partition_watermarks, dropped),
        late_window=_without(state.late_window, dropped),
        files={path: each for path, each in state.files.items() if split(path)[0] not in dropped},
        sealed=counted(source, state, directories),
    )
    return kept, tuple(sorted(dropped))


def _without(entries: Mapping[str, T], dropped: set[str]) -> dict[str, T]:
    return {key: value for key, value in entries.items() if key not in dropped}
