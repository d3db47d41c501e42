"""The planner of work units: from the state, the units and the clock to what runs, and why the rest does not.

Pure. Units that were read alike are decided together, and what is skipped is kept as ranges, so that the work grows
with what runs and with how many different histories there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain, pairwise

from tidegate.errors import WatermarkError
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
    notes = list(_notes(source, pieces))
    if _differs(known, source, pieces):
        if not accept_new_partitions:
            raise _other_partitions(known, source, pieces)
        known = settled(known)
        notes.append(f"partitions are new ({pieces.grid}): what was read before counts as read, and is not read again")
    histories = _histories(known, units)
    deciding = Deciding.of(source, zone, pieces)
    highs = (deciding.greatest_high(entry) for entry, _ in histories)
    greatest = max((high for high in highs if high is not None), default=None)
    if greatest is not None:
        deciding = replace(deciding, job_cutoff=deciding.before_grace(greatest))
    candidates, skips = _decided(deciding, histories)
    retired = tuple(unit for unit in units.values if unit in known.retired)
    if retired and pieces.partitions:
        skips.append((Skip(WhySkipped.RETIRED, 0, len(pieces.partitions) - 1), retired))
    run, cap = known.runs + 1, source.work.parallelism_max
    if cap is not None and sum(len(each.units) for each in candidates) > cap:
        candidates, left = capped(candidates, cap, run)
        skips.extend(_left_out(left))
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
        runs=_groups(candidates, order),
        skipped=_ranges(skips, pieces.partitions, order),
        stale=tuple(unit for unit in known.entries if unit not in order),
        notes=tuple(notes),
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
) -> tuple[list[Candidate], list[tuple[Skip, tuple[str, ...]]]]:
    candidates: list[Candidate] = []
    skips: list[tuple[Skip, tuple[str, ...]]] = []
    for (entry, failed), alike in histories.items():
        units, failures, succeeded = tuple(alike), dict(failed), bool(entry.coverage)
        for each in deciding.decided(entry, failures):
            if isinstance(each, Skip):
                skips.append((each, units))
            else:
                number, pattern = each
                failure = failures.get(failure_start(pattern.start, pattern.nominal_end)) if failures else None
                candidates.append(Candidate(number, units, pattern, failure, succeeded))
    return candidates, skips


def _left_out(left: Sequence[tuple[Candidate, WhySkipped]]) -> Iterator[tuple[Skip, tuple[str, ...]]]:
    return ((Skip(why, each.number, each.number), each.units) for each, why in left)


def _groups(candidates: list[Candidate], order: Mapping[str, int]) -> tuple[RunGroup, ...]:
    """What runs, oldest partition first; what is decided alike together, in the order of the units."""
    alike: dict[tuple[int, WorkUnit], list[tuple[str, ...]]] = {}
    if all(one.number < other.number for one, other in pairwise(candidates)):
        return tuple(RunGroup(each.units, each.pattern) for each in candidates)
    for each in candidates:
        alike.setdefault((each.number, each.pattern), []).append(each.units)
    groups = [(number, _together(units, order), pattern) for (number, pattern), units in alike.items()]
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


def _differs(state: UnitState, source: UnitSource, pieces: Cut) -> bool:
    return bool(state.grid) and (state.grid != pieces.grid or state.zone != source.timezone)


def _other_partitions(state: UnitState, source: UnitSource, pieces: Cut) -> WatermarkError:
    was, is_now = (f"{grid} ({zone})" for grid, zone in ((state.grid, state.zone), (pieces.grid, source.timezone)))
    return WatermarkError(
        f"the work units of source {source.name!r} are not those of its state: they were {was} and are now {is_now}",
        "give watermark, partition, from and timezone their former values; or run with --accept-new-partitions: then "
        "what was read counts as read, also in the new partitions, and the rest is read in them",
    )


def _notes(source: UnitSource, pieces: Cut) -> Iterator[str]:
    zone = zone_named(source.timezone)
    if pieces.start >= pieces.end:
        yield (
            f"warning: the range is empty: it begins at {iso(pieces.start, zone)} and ends at {iso(pieces.end, zone)} "
            f"({source.timezone}); there is nothing to read"
        )
    if pieces.dropped is not None:
        yield (
            f"the partition from {iso(pieces.dropped.start, zone)} on is not full yet and is left out; "
            "partial_partition: all would read it"
        )
    if not source.abstinent.is_zero:
        yield (
            "the abstinent period decides only whether a work unit runs again; it is then read from its high watermark "
            "less the grace period on, so that nothing is left out"
        )
