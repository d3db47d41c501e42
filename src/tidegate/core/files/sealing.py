"""Sealing: old partitions leave the state, so that its size and the cost of a poll stay flat.

A seal is a time per non-time prefix. It lies ``lateness`` below the newest partition with a finished file,
not below the clock: loading old data must not seal it. It never passes a partition with a file that is listed
and unfinished. A partition named in the future is not taken for the newest: one odd directory must not seal
the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from tidegate.core.calendar import Period, earlier
from tidegate.core.files.paths import ROOT, Layout, PartitionTime, cold_start_bound
from tidegate.core.files.state import PathState, Seal
from tidegate.specs.project import Lateness, PathSource


@dataclass(frozen=True, slots=True)
class Directories:
    """What a poll saw directly below each non-time prefix: how many sealed directories, which open ones."""

    sealed: Mapping[str, int] = field(default_factory=dict)
    open: tuple[str, ...] = ()


def is_sealed(layout: Layout, state: PathState, partition: str) -> bool:
    """Whether the files of ``partition`` are no longer looked at; never so for those at the top level."""
    if partition == ROOT:
        return False
    return partition < state.sealed_below or _below_seal(layout.time_of(partition), state.sealed)


def is_directory_sealed(layout: Layout, state: PathState, directory: str) -> bool:
    """Whether ``directory`` and everything below it is sealed."""
    if directory == ROOT:
        return False
    inside = f"{directory}/"
    if inside < state.sealed_below and not state.sealed_below.startswith(inside):
        return True
    return _below_seal(layout.time_of(directory), state.sealed)


def _below_seal(time: PartitionTime | None, seals: Mapping[str, Seal]) -> bool:
    seal = seals.get(time.prefix) if time else None
    return time is not None and seal is not None and time.end <= seal.below


def opened(source: PathSource, state: PathState, now: datetime, listed: Iterable[str] = ()) -> PathState:
    """A filtered cold start with everything older than its oldest prefix sealed; any other state as it is.

    A partition in ``listed`` is not sealed even if ``now`` has moved on since it was listed.
    """
    layout = Layout.of(source)
    if source.partition_filter is None or layout.template is None or not state.is_fresh:
        return state
    prefix = layout.template.prefix
    times = (layout.time_of(partition) for partition in listed)
    starts = [time.start for time in times if time and time.prefix == prefix]
    bound = min([cold_start_bound(source.partition_filter, now), *starts])
    return replace(state, sealed={prefix: Seal(bound)})


def seals_after(
    source: PathSource, state: PathState, finished: Iterable[str], unfinished: Iterable[str], now: datetime
) -> dict[str, Seal]:
    """The seals once these partitions hold finished files and those unfinished ones; they only move up."""
    layout = Layout.of(source)
    seals = dict(state.sealed)
    if source.lateness.never:
        return seals
    holds: dict[str, datetime] = {}
    for time in filter(None, map(layout.time_of, unfinished)):
        holds[time.prefix] = min(time.start, holds.get(time.prefix, time.start))
    for prefix, time in _newest(layout, finished, now).items():
        bound = min(_bound(source.lateness, time), holds.get(prefix, time.start))
        if prefix not in seals or bound > seals[prefix].below:
            seals[prefix] = Seal(bound)
    return seals


def counted(source: PathSource, state: PathState, directories: Directories) -> dict[str, Seal]:
    """The seals of ``state``, with the directories counted below those that have moved.

    A seal that stays keeps its count, so that a late directory goes on being noticed; a lower one replaces
    it.
    """
    layout = Layout.of(source)
    counts = dict(directories.sealed)
    for directory in directories.open:
        time = layout.time_of(directory)
        if time is not None:
            now_sealed = is_directory_sealed(layout, state, directory)
            counts[time.prefix] = counts.get(time.prefix, 0) + int(now_sealed)
    return {prefix: _with_count(seal, counts.get(prefix)) for prefix, seal in state.sealed.items()}


def _with_count(seal: Seal, count: int | None) -> Seal:
    if count is None:
        return seal
    return replace(seal, directories=count if seal.directories is None else min(seal.directories, count))


def _bound(lateness: Lateness, newest: PartitionTime) -> datetime:
    if lateness.fixed is not None:
        return earlier(newest.start, lateness.fixed)
    return newest.period.shifted(newest.start, -lateness.periods)


def _newest(layout: Layout, partitions: Iterable[str], now: datetime) -> dict[str, PartitionTime]:
    """The newest partition per prefix; where two begin together, the shorter one."""
    found: dict[str, PartitionTime] = {}
    for time in filter(None, map(layout.time_of, partitions)):
        if time.start <= now:
            found[time.prefix] = max(time, found.get(time.prefix, time), key=_recency)
    return found


def _recency(time: PartitionTime) -> tuple[datetime, int]:
    return time.start, list(Period).index(time.period)
