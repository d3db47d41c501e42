"""The planner of work units: from the state, the units and the clock to what runs, and why the rest does not.

Pure. Units that were read alike are decided together, and what is skipped is kept as ranges, so that the work grows
with what runs and with how many different histories there are.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from itertools import chain, pairwise

from tidegate.errors import WatermarkError
from tidegate.planning.column_planner import first_notes
from tidegate.planning.time_partitions import Cut, cut
from tidegate.planning.unit_capping import Candidate, capped
from tidegate.planning.unit_deciding import NOTHING, Deciding, Skip, failure_start
from tidegate.planning.unit_plan import RunGroup, SkippedUnits, TimePartition, UnitPlan, WhyRun, WhySkipped, WorkUnit
from tidegate.unit_specs import UnitSource
from tidegate.watermarks.calendar import iso, zone_named
from tidegate.watermarks.unit_state import Failure, UnitEntry, UnitState, settled
from tidegate.watermarks.units import Units

History = tuple[UnitEntry, tuple[tuple[int, Failure], ...]]
"""What decisions about a unit depend on: what was read of it, and its failures by partition."""
Found = tuple[int, tuple[str, ...], WorkUnit, Failure | None, bool]
"""The fields of a :class:`Candidate`; only where a cap binds they become one."""


@contextmanager
def _not_collecting() -> Iterator[None]:
    """Without the collector of cycles, which would look at all parts of a large plan again and again to find none."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@_not_collecting()
def plan_units(
    pipeline: str,
    source: UnitSource,
    state: UnitState | None,
    units: Units,
    position: int,
    now: datetime,
    *,
    accept_new_partitions: bool = False,
) -> UnitPlan:
    """What would run at ``now``.

    ``WatermarkError`` where there are fewer units than there must be, where the range ends in the future, and where
    work units would not be those that the state is about, unless that is accepted.
    """
    known = state or UnitState()
    _check_units(source, units)
    zone, pieces = zone_named(source.timezone), cut(source, now)
    notes = [*first_notes(source.read, position), *_notes(source, pieces)]
    settles = bool(known.grid) and (known.grid, known.zone) != (pieces.grid, source.timezone)
    if settles:
        _check_accepted(known, source, pieces, accept_new_partitions)
        known = settled(known)
        notes.append(
            f"the partitions are new ({pieces.grid}, {source.timezone}): what was read in others counts as read, and "
            "is not read again for late rows, unless rows are replaced by time_column or merge_keys"
        )
    histories = _histories(known, units)
    deciding = Deciding(source, zone, pieces)
    deciding.see(entry for entry, _ in histories)
    found, skips = _decided(deciding, histories)
    retired = tuple(unit for unit in units.values if unit in known.retired)
    if retired and pieces.partitions:
        skips.append((Skip(WhySkipped.RETIRED, 0, len(pieces.partitions) - 1), retired))
    run, cap = known.runs + 1, source.work.parallelism_max
    if cap is not None and sum(len(units) for _, units, *_ in found) > cap:
        found, left = capped((Candidate(*each) for each in found), cap, run)
        skips.extend((Skip(why, each.number, each.number), each.units) for each, why in left)
    order = {unit: number for number, unit in enumerate(units.values)}
    return UnitPlan(
        pipeline=pipeline,
        source=source.name,
        position=position,
        now=now,
        zone=source.timezone,
        grid=pieces.grid,
        run=run,
        partitions=pieces.partitions,
        units=units.values,
        input_version=units.version,
        job_cutoff=deciding.job_cutoff,
        runs=_groups(found, order),
        skipped=_ranges(skips, pieces.partitions, order),
        stale=tuple(unit for unit in known.entries if unit not in order),
        notes=tuple(notes),
        settles=settles,
        remarks=tuple(_remarks(source, pieces)),
    )


def cells(
    plan: UnitPlan, units: Sequence[str] | None = None, starts: Sequence[int] | None = None
) -> dict[str, dict[int, WhyRun | WhySkipped]]:
    """Why each work unit of these units and partitions runs or does not, by unit and start; of all where not named."""
    wanted = dict.fromkeys(plan.units if units is None else units)
    shown = frozenset(each.start for each in plan.partitions) if starts is None else frozenset(starts)
    table: dict[str, dict[int, WhyRun | WhySkipped]] = {unit: {} for unit in wanted}
    ordered = sorted(shown)
    for skipped in plan.skipped:
        places = [start for start in ordered if skipped.first <= start <= skipped.last]
        for unit in skipped.units if places else ():
            if unit in table:
                table[unit].update(dict.fromkeys(places, skipped.why))
    for group in plan.runs:
        if group.pattern.start in shown:
            for unit in group.units:
                if unit in table:
                    table[unit][group.pattern.start] = group.pattern.why
    return table


def _check_units(source: UnitSource, units: Units) -> None:
    if len(units.values) < source.work.min_units:
        raise WatermarkError(
            f"source {source.name!r} has {len(units.values)} units, and min_units is {source.work.min_units}",
            "look at what the units are read from; or lower min_units",
        )
    repeated = Counter(units.values).most_common(1)
    if repeated and repeated[0][1] > 1:
        raise WatermarkError(f"unit {repeated[0][0]!r} is there {repeated[0][1]} times", "name each unit once")


def _histories(state: UnitState, units: Units) -> dict[History, list[str]]:
    """The units that are not retired, those with equal histories together."""
    failures: dict[str, list[tuple[int, Failure]]] = {}
    for (unit, start), failure in sorted(state.failures.items(), key=lambda each: each[0]):
        failures.setdefault(unit, []).append((start, failure))
    entries, retired = state.entries, state.retired
    same: dict[int, tuple[UnitEntry, list[str]]] = {}
    histories: dict[History, list[str]] = {}
    for unit in units.values:
        if unit in retired:
            continue
        entry = entries.get(unit, NOTHING)
        if unit in failures:
            histories.setdefault((entry, tuple(failures[unit])), []).append(unit)
        else:
            same.setdefault(id(entry), (entry, []))[1].append(unit)
    for entry, alike in same.values():
        histories.setdefault((entry, ()), []).extend(alike)
    return histories


def _decided(
    deciding: Deciding, histories: Mapping[History, Sequence[str]]
) -> tuple[Sequence[Found], list[tuple[Skip, tuple[str, ...]]]]:
    """What would run, and what would not, for each history."""
    found: list[Found] = []
    skips: list[tuple[Skip, tuple[str, ...]]] = []
    for (entry, failed), alike in histories.items():
        units, failures, succeeded = tuple(alike), dict(failed), bool(entry.coverage)
        for each in deciding.decided(entry, failures):
            if isinstance(each, Skip):
                skips.append((each, units))
            else:
                number, pattern = each
                failure = failures.get(failure_start(pattern.start, pattern.nominal_end)) if failures else None
                found.append((number, units, pattern, failure, succeeded))
    return found, skips


def _groups(found: Sequence[Found], order: Mapping[str, int]) -> tuple[RunGroup, ...]:
    """What runs, oldest partition first; what is decided alike together, in the order of the units."""
    if all(one[0] < other[0] for one, other in pairwise(found)):
        return tuple(RunGroup(units, pattern) for _, units, pattern, *_ in found)
    alike: dict[tuple[object, ...], tuple[WorkUnit, list[tuple[str, ...]]]] = {}
    for number, units, pattern, *_ in found:
        decision = (
            number,
            pattern.low,
            pattern.high,
            pattern.before,
            pattern.segments,
            pattern.replaces,
            pattern.failures,
        )
        alike.setdefault(decision, (pattern, []))[1].append(units)
    groups = [(pattern.start, _together(units, order), pattern) for pattern, units in alike.values()]
    groups.sort(key=lambda group: (group[0], order[group[1][0]]))
    return tuple(RunGroup(units, pattern) for _, units, pattern in groups)


def _ranges(
    skips: list[tuple[Skip, tuple[str, ...]]], partitions: Sequence[TimePartition], order: Mapping[str, int]
) -> tuple[SkippedUnits, ...]:
    """What does not run: equal reasons in consecutive partitions of the same units together, then equal ranges."""
    longest: list[tuple[Skip, tuple[str, ...]]] = []
    for skip, units in sorted(skips, key=lambda each: (order[each[1][0]], len(each[1]), each[0].first)):
        before = longest[-1] if longest else None
        if before and before[1] == units and _continues(before[0], skip):
            longest[-1] = (replace(before[0], last=skip.last), units)
        else:
            longest.append((skip, units))
    alike: dict[Skip, list[tuple[str, ...]]] = {}
    for skip, units in longest:
        alike.setdefault(skip, []).append(units)
    return tuple(
        SkippedUnits(
            why=skip.why,
            units=_together(alike[skip], order),
            partitions=skip.last - skip.first + 1,
            first=partitions[skip.first].start,
            last=partitions[skip.last].start,
            eligible=skip.eligible,
        )
        for skip in sorted(alike, key=lambda skip: (skip.first, skip.last, skip.why))
    )


def _continues(one: Skip, other: Skip) -> bool:
    return one.why is other.why and one.eligible == other.eligible and one.last + 1 == other.first


def _together(parts: list[tuple[str, ...]], order: Mapping[str, int]) -> tuple[str, ...]:
    if len(parts) == 1:
        return parts[0]
    return tuple(sorted(chain.from_iterable(parts), key=order.__getitem__))


def _check_accepted(state: UnitState, source: UnitSource, pieces: Cut, accept: bool) -> None:
    """``WatermarkError`` where other partitions than before are not accepted, or cannot be."""
    was, is_now = (f"{grid} ({zone})" for grid, zone in ((state.grid, state.zone), (pieces.grid, source.timezone)))
    if not accept:
        raise WatermarkError(
            f"work units of source {source.name!r} are not those of its state: these were {was}, and are now {is_now}",
            "give watermark, partition, from and timezone their former values; or run with --accept-new-partitions: "
            "then what was read counts as read, also in the new partitions, and the rest is read in them",
        )
    left = [unit for unit, entry in state.entries.items() if entry.left]
    if left:
        raise WatermarkError(
            f"{len(left)} units of source {source.name!r}, {left[0]!r} among them, are to be read again as {was}",
            "run once with the former partitions, then accept new ones",
        )


def _notes(source: UnitSource, pieces: Cut) -> Iterator[str]:
    zone = zone_named(source.timezone)
    if pieces.start >= pieces.end:
        yield (
            f"warning: the range is empty: it begins at {iso(pieces.start, zone)} and ends at {iso(pieces.end, zone)} "
            f"({source.timezone}); there is nothing to read"
        )


def _remarks(source: UnitSource, pieces: Cut) -> Iterator[str]:
    if pieces.dropped is not None:
        start = iso(pieces.dropped.start, zone_named(source.timezone))
        yield f"the partition from {start} on is not full yet and is left out; partial_partition: all would read it"
    if not source.abstinent.is_zero:
        yield (
            "the abstinent period decides only whether a work unit runs again; it is then read from its high watermark "
            "less the grace period on, so that nothing is left out"
        )
