"""Forgetting failures of work units, or what was read of them, because a person says so.

The new state is committed by the ordinary protocol, alone: no row is touched. What is read again afterwards takes the
place of the rows that are in the table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from tidegate.config.problems import nearest
from tidegate.errors import TidegateError
from tidegate.observe.wording import count
from tidegate.planning.time_partitions import cut
from tidegate.planning.unit_deciding import failure_start
from tidegate.planning.unit_plan import TimePartition
from tidegate.runs.unit_looking import starting_at, utc
from tidegate.runs.unit_place import UnitPlace, encoded
from tidegate.state.files import Change
from tidegate.state.opened import Opened
from tidegate.unit_reports import UnitsMove
from tidegate.unit_specs import Replace
from tidegate.watermarks.coverage import within
from tidegate.watermarks.unit_state import UnitState

Confirm = Callable[[UnitsMove], bool]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which work units are meant: those of some units, or of all (None), in one partition or in all."""

    units: frozenset[str] | None = None
    partition: TimePartition | None = None

    def has(self, unit: str) -> bool:
        """Whether work units of ``unit`` are meant."""
        return self.units is None or unit in self.units

    def has_failure(self, key: tuple[str, int]) -> bool:
        """Whether a failure is one of a work unit that is meant."""
        one = self.partition
        return self.has(key[0]) and (one is None or key[1] == failure_start(one.start, one.nominal_end))


def retry_units(
    place: UnitPlace, units: Collection[str], partition: str | None, now: datetime, confirm: Confirm
) -> UnitsMove:
    """Forget failures, so that no work unit waits, and that units are retired; without ``units`` of all."""
    opened, before = _opened(place)
    chosen = _chosen(place, before, units, partition, now)
    if chosen.partition is None:
        after = before.retried(chosen.units)
    else:
        after = replace(
            before, failures={key: each for key, each in before.failures.items() if not chosen.has_failure(key)}
        )
    return _moved(place, opened, before, after, chosen, "units retry", confirm)


def reset_units(
    place: UnitPlace, units: Collection[str], partition: str | None, now: datetime, confirm: Confirm
) -> UnitsMove:
    """Forget what was read, so that it is read again and takes the place of its rows; without ``units`` of all."""
    opened, before = _opened(place)
    chosen = _chosen(place, before, units, partition, now)
    one = chosen.partition
    low, high = (None, None) if one is None else (one.start, one.nominal_end)
    return _moved(place, opened, before, before.without_units(chosen.units, low, high), chosen, "units reset", confirm)


def _opened(place: UnitPlace) -> tuple[Opened, UnitState]:
    opened = place.open()
    state = place.state_of(opened)
    if opened.table_version < 0 or state is None:
        raise TidegateError(
            f"{place.key}: nothing was read yet, so there is nothing to change", "run the pipeline first"
        )
    return opened, state


def _chosen(place: UnitPlace, state: UnitState, units: Collection[str], partition: str | None, now: datetime) -> Chosen:
    known = {*state.entries, *state.retired, *(unit for unit, _ in state.failures)}
    for unit in units:
        if unit not in known:
            raise TidegateError(
                f"{place.key}: nothing is recorded of a unit {unit!r}",
                nearest(unit, list(known)) or "`tidegate units list` shows those that there are",
            )
    one = None
    if partition is not None:
        one = starting_at(cut(place.source, now).partitions, partition, place.source.timezone)
    return Chosen(frozenset(units) if units else None, one)


def _moved(
    place: UnitPlace,
    opened: Opened,
    before: UnitState,
    after: UnitState,
    chosen: Chosen,
    action: str,
    confirm: Confirm,
) -> UnitsMove:
    failures = before.failures.keys() - after.failures.keys()
    retired = before.retired.keys() - after.retired.keys()
    read = {unit: entry for unit, entry in before.entries.items() if entry != after.entries[unit]}
    touched = {*(unit for unit, _ in failures), *retired, *read}
    move = UnitsMove(
        pipeline=place.pipeline.name,
        source=place.source.name,
        action=action,
        partition=None if chosen.partition is None else utc(chosen.partition.start),
        units=tuple(sorted(touched)),
        failures=len(failures),
        retired=len(retired),
        ranges=sum(len(_forgotten(before, unit, chosen)) for unit in read),
        notes=(*opened.warnings, *_remarks(place, before, after, touched, action)),
        version=opened.version,
        table_version=opened.table_version,
    )
    if not touched or not confirm(move):
        return move
    state = encoded(after)
    done = place.positions.commit(opened, Change(state=state, embedded=state, action=action))
    return replace(move, version=done.version, table_version=done.table_version, applied=True)


def _forgotten(state: UnitState, unit: str, chosen: Chosen) -> tuple[tuple[int, int], ...]:
    coverage, one = state.entries[unit].coverage, chosen.partition
    return coverage if one is None else within(coverage, one.start, one.nominal_end)


def _remarks(
    place: UnitPlace, before: UnitState, after: UnitState, touched: Collection[str], action: str
) -> Iterator[str]:
    if not touched:
        yield "nothing changes: there is nothing of these work units to forget"
        return
    if action == "units reset":
        how = "by their keys" if place.source.replace is Replace.MERGE_KEYS else "and only those"
        yield f"what was read of them is read again; until then their rows stay, then they are replaced, {how}"
        kept = sum(1 for unit in touched if unit in after.retired)
        if kept:
            yield f"{count(kept, 'unit')} stay retired: `tidegate units retry` brings them back"
    else:
        yield "the next run tries them again; what was read of them stays as it is"
