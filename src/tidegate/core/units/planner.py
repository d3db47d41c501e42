"""Plans work units: from state, units and clock to what runs, and to the state afterwards.

A work unit without a high watermark runs whole. Any other runs if its end lies above the cut-offs, or if it is
unfinished and may catch up; it is read again from its high watermark minus the grace period.

Units with equal histories are decided together, and skipped ones are kept as ranges. So the work grows with the work
units that run and the number of different histories.
"""

from __future__ import annotations

import gc
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain, pairwise
from types import MappingProxyType
from zoneinfo import ZoneInfo

from tidegate.core.calendar import iso, shift, zone_named
from tidegate.core.columns.planner import first_notes
from tidegate.core.units.plan import (
    Candidate,
    Range,
    RunGroup,
    SkippedUnits,
    TimePartition,
    UnitPlan,
    WhyRun,
    WhySkipped,
    WorkUnit,
    cap_runs,
)
from tidegate.core.units.state import (
    EARLIEST,
    STARTS_KEPT,
    Failure,
    UnitEntry,
    Units,
    UnitState,
    add_range,
    clip,
    interval_at,
    remove_range,
    settle,
)
from tidegate.core.units.time_range import Cut, cut, first_above
from tidegate.errors import WatermarkError
from tidegate.specs.units import Replace, UnitSource

NOTHING = UnitEntry()


@dataclass(frozen=True, slots=True)
class Skip:
    """Partitions number ``first`` to ``last`` that do not run, for one reason."""

    why: WhySkipped
    first: int
    last: int
    eligible: int | None = None


class UnitDecisions:
    """Decides which partitions of a unit run; holds what all decisions of a plan share.

    There is no cut-off of the job if nothing was read so far.
    """

    def __init__(self, source: UnitSource, zone: ZoneInfo, cut: Cut) -> None:
        self.source, self.zone, self.cut = source, zone, cut
        self.job_cutoff: int | None = None
        self.starts = [partition.start for partition in cut.partitions]
        self.ends = [partition.end for partition in cut.partitions]
        self._has_grace, self._abstains = not source.grace.is_zero, not source.abstinent.is_zero
        self._has_segments = source.replace is Replace.SEGMENTS
        self._appends = source.replace is Replace.NONE
        self._is_whole = source.replace is Replace.UNIT or (source.time is None and not self._appends)
        self._tells_rows_by_partition = source.replace in (Replace.SEGMENTS, Replace.UNIT)
        self._is_by_time = source.requests_by_time
        self._replaces_all, self._repeats_rows = source.replaces_all, source.repeats_rows

    def see(self, entries: Iterable[UnitEntry]) -> None:
        """Set the cut-off of the job: the greatest high watermark minus the grace period."""
        highs = [high for high in map(self._greatest_high, entries) if high is not None]
        self.job_cutoff = self.before_grace(max(highs)) if highs else None

    def _greatest_high(self, entry: UnitEntry) -> int | None:
        """The greatest high watermark of the unit's partitions."""
        for low, high in reversed(entry.coverage):
            last = bisect_left(self.starts, high) - 1
            if last >= 0 and self.starts[last] >= low:
                nominal = self.cut.partitions[last].nominal_end
                return high if nominal is None else min(high, nominal)
            if last < 0:
                return None
        return None

    def before_grace(self, moment: int) -> int:
        return shift(moment, self.zone, earlier=self.source.grace) if self._has_grace else moment

    def decide_partitions(
        self, entry: UnitEntry, failures: Mapping[int, Failure]
    ) -> Iterator[tuple[int, WorkUnit] | Skip]:
        """Yield each partition once, oldest first: one that runs, with its number, or several that do not."""
        # A first plan may have a hundred thousand work units, all of them alike.
        if entry is NOTHING and not failures:
            yield from enumerate(map(self._new, self.cut.partitions))
            return
        if self._is_left_behind(entry):
            yield self._decide_again(0, entry.coverage[-1][1], entry, failures)
            return
        number = 0
        for low, high in entry.coverage:
            begin, end = bisect_left(self.starts, low, number), bisect_left(self.starts, high, number)
            for unread in range(number, begin):
                yield unread, self._first(unread, entry, failures)
            if begin < end:
                above = end - 1 if self.job_cutoff is None else bisect_right(self.ends, self.job_cutoff, begin, end - 1)
                if begin < above:
                    yield Skip(WhySkipped.DONE, begin, above - 1)
                for covered in range(above, end):
                    yield self._decide_again(covered, high, entry, failures)
            number = max(number, end)
        for unread in range(number, len(self.starts)):
            yield unread, self._first(unread, entry, failures)

    def _is_left_behind(self, entry: UnitEntry) -> bool:
        """Whether a unit was read for a range that has floated on since, by a request that does not contain it.

        It is not new: it may still abstain, and what is read are the rows that are there.
        """
        if self._is_by_time or not entry.coverage or len(self.starts) != 1:
            return False
        (partition,) = self.cut.partitions
        is_reset = interval_at(entry.left, partition.start) is not None
        return partition.nominal_end is None and entry.coverage[-1][1] <= partition.start and not is_reset

    def _first(self, number: int, entry: UnitEntry, failures: Mapping[int, Failure]) -> WorkUnit:
        """A partition that was not read at its start, even if later parts of it were."""
        partition = self.cut.partitions[number]
        low = partition.start
        if self._tells_rows_by_partition and interval_at(entry.left, low) is not None:
            low = self._segment_start(partition, low, entry)
        low = min(low, self._first_row(partition, entry))
        return self._work(partition, low, WhyRun.FIRST, None, entry, failures)

    def _new(self, partition: TimePartition) -> WorkUnit:
        """A partition without reads and failures."""
        start, end = partition.start, partition.end
        return WorkUnit(
            "", start, partition.nominal_end, start, end, WhyRun.FIRST, None, self._segments(start, end), False, 0
        )

    def _decide_again(
        self, number: int, covered: int, entry: UnitEntry, failures: Mapping[int, Failure]
    ) -> tuple[int, WorkUnit] | Skip:
        """A partition that was read from its start up to ``covered`` or beyond its end."""
        partition, source = self.cut.partitions[number], self.source
        nominal, end = partition.nominal_end, partition.end
        own = covered if nominal is None or covered < nominal else nominal
        cutoff = self.before_grace(own)
        if self._abstains:
            cutoff = shift(own, self.zone, later=source.abstinent, earlier=source.grace)
        settled = self._find_settled(entry)
        if settled is not None:
            self._check_not_divided(partition, settled, own)
            cutoff = max(cutoff, min(own, settled))
        is_above_job = self.job_cutoff is None or end > self.job_cutoff
        is_unfinished = nominal is None or own < nominal
        is_wanted = is_above_job or (is_unfinished and source.catch_up)
        if is_wanted and end > cutoff:
            low = self._low(partition, own, entry)
            why = WhyRun.NEW if is_above_job else WhyRun.CATCH_UP
            return number, self._work(partition, low, why, own, entry, failures)
        if end > cutoff:
            return Skip(WhySkipped.GRACE_OVER if is_unfinished else WhySkipped.DONE, number, number)
        if is_wanted and self._abstains and end > self.before_grace(own):
            ends_below = nominal is not None and nominal <= cutoff
            eligible = None if ends_below else first_above(self.cut.bound, self.cut.rounding, cutoff, self.zone)
            return Skip(WhySkipped.ABSTINENT, number, number, eligible)
        return Skip(WhySkipped.UP_TO_DATE if is_unfinished else WhySkipped.DONE, number, number)

    def _find_settled(self, entry: UnitEntry) -> int | None:
        """Below this, rows cannot be replaced: they were read in other partitions."""
        tells = self._appends or (self._tells_rows_by_partition and not self._replaces_all)
        return entry.settled if tells else None

    def _check_not_divided(self, partition: TimePartition, settled: int, read: int) -> None:
        """Refuse to replace a work unit as a whole if part of it was read in partitions of another kind."""
        whole = partition.nominal_end is not None and read >= partition.nominal_end
        if self.source.replace is Replace.UNIT and partition.start < settled and not whole:
            raise WatermarkError(
                f"the work unit from {iso(partition.start, self.zone)} on was read in part, up to "
                f"{iso(read, self.zone)}, in other partitions, and replace: unit would have to replace all of it",
                "give the partitions their former values; or choose another way to replace, such as time_column",
            )

    def _low(self, partition: TimePartition, own: int, entry: UnitEntry) -> int:
        """Where to read a partition again: its high watermark minus grace, or further down to where rows divide."""
        if self._is_whole:
            return min(self._segment_start(partition, partition.start, entry), self._first_row(partition, entry))
        low = max(partition.start, self.before_grace(own))
        if self._has_segments and (low < own or interval_at(entry.left, own) is not None):
            low = self._segment_start(partition, low, entry)
        settled = self._find_settled(entry)
        return low if settled is None else max(low, min(own, settled))

    def _first_row(self, partition: TimePartition, entry: UnitEntry) -> int:
        """Where rows of a unit may begin that every read gets whole; it replaces all of them.

        A range that floats leaves its first segments behind, and they hold the same rows.
        """
        if not self._is_replaced_whole(partition, entry):
            return partition.start
        return min([partition.start, *(begin for begin, _ in entry.coverage[:1] + entry.left[:1])])

    def _is_replaced_whole(self, partition: TimePartition, entry: UnitEntry) -> bool:
        """Whether a read replaces all rows of the unit: it always does, or the whole unit was reset."""
        is_reset = self._repeats_rows and not entry.coverage
        return partition.nominal_end is None and (self._replaces_all or is_reset)

    def _segment_start(self, partition: TimePartition, low: int, entry: UnitEntry) -> int:
        """The greatest known start of a segment not above ``low``."""
        place = bisect_right(entry.starts, low)
        segment_start = entry.starts[place - 1] if place else None
        if partition.nominal_end is not None:
            return partition.start if segment_start is None else max(segment_start, partition.start)
        if segment_start is not None:
            return segment_start
        read_before = entry.coverage
        for piece in entry.left:
            read_before = add_range(read_before, *piece)
        interval = interval_at(read_before, low)
        return partition.start if interval is None else min(interval[0], partition.start)

    def _top(self, partition: TimePartition, low: int, entry: UnitEntry) -> int:
        """Where reading ends: never below what was read before, which is replaced; before settled rows."""
        # Rows of a reset unit may lie above the range by now: reading must reach them, or they stay (decision 0034).
        if entry.left and self._is_replaced_whole(partition, entry):
            return max(partition.end, *(end for _, end in entry.coverage[-1:] + entry.left[-1:]))
        if not entry.coverage or entry.coverage[-1][1] <= low:
            return partition.end
        inside, settled = clip(entry.coverage, low, partition.nominal_end), self._find_settled(entry)
        if settled is not None:
            ahead = next((begin for begin, _ in inside if low < begin < settled), None)
            if ahead is not None:
                self._check_not_divided(partition, settled, ahead)
                return min(ahead, partition.end)
        return max(partition.end, inside[-1][1]) if inside else partition.end

    def _work(
        self,
        partition: TimePartition,
        low: int,
        why: WhyRun,
        before: int | None,
        entry: UnitEntry,
        failures: Mapping[int, Failure],
    ) -> WorkUnit:
        start, nominal = partition.start, partition.nominal_end
        high = self._top(partition, low, entry)
        replaces = not self._appends and bool(clip(entry.coverage + entry.left, low, nominal))
        last_failure = failures.get(failure_start(start, nominal)) if failures else None
        count = last_failure.count if last_failure else 0
        follows = self._segment_before(partition, low, entry)
        return WorkUnit("", start, nominal, low, high, why, before, self._segments(low, high), replaces, count, follows)

    def _segment_before(self, partition: TimePartition, low: int, entry: UnitEntry) -> Range | None:
        """The last segment below ``low``, in this partition; None if there is none, or rows are not kept by segments.

        A range that floats may begin long after it.
        """
        floor = EARLIEST if partition.nominal_end is None else partition.start
        if not self._has_segments or low <= floor:
            return None
        end = max((end for _, end in clip(entry.coverage + entry.left, floor, low)), default=None)
        return None if end is None else (self._segment_start(partition, end - 1, entry), end)

    def _segments(self, low: int, high: int) -> tuple[Range, ...]:
        """The range, divided where the next read will begin."""
        if self._has_segments and self._has_grace:
            # Rows are replaced by segments, so that a border must lie exactly where the next read begins.
            middle = self.before_grace(high)
            if low < middle < high:
                return ((low, middle), (middle, high))
        return ((low, high),)


def failure_start(start: int, nominal_end: int | None) -> int:
    """The key of a work unit's failures: its start, or 0 without partitions, whose start may move."""
    return 0 if nominal_end is None else start


History = tuple[UnitEntry, tuple[tuple[int, Failure], ...]]
"""What decisions about a unit depend on: its reads, and its failures by partition."""
Found = tuple[int, tuple[str, ...], WorkUnit, Failure | None, bool]
"""The fields of a :class:`Candidate`; they become one only if a cap applies."""


@contextmanager
def _pause_collector() -> Iterator[None]:
    """Pause the garbage collector, which would scan the objects of a large plan again and again."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@_pause_collector()
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
    """Plan what would run at ``now``.

    ``WatermarkError`` if there are fewer units than required, if the range ends in the future, and if work units would
    not match those of the state, unless that is accepted.
    """
    before = state or UnitState()
    _check_units(source, units)
    zone, pieces = zone_named(source.timezone), cut(source, now)
    notes = [*first_notes(source.read, position), *_notes(source, pieces)]
    settles = bool(before.grid) and (before.grid, before.zone) != (pieces.grid, source.timezone)
    if settles:
        _check_accepted(before, source, pieces, accept_new_partitions)
        before = settle(before)
        notes.append(
            f"the partitions are new ({pieces.grid}, {source.timezone}): what was read in others counts as read, and "
            "is not read again for late rows, unless rows are replaced by time_column or merge_keys, or by unit with "
            "requests that do not contain the time"
        )
    histories = _histories(before, units)
    deciding = UnitDecisions(source, zone, pieces)
    deciding.see(entry for entry, _ in histories)
    candidates, skips = _decide(deciding, histories)
    retired = tuple(unit for unit in units.values if unit in before.retired)
    if retired and pieces.partitions:
        skips.append((Skip(WhySkipped.RETIRED, 0, len(pieces.partitions) - 1), retired))
    run, cap = before.runs + 1, source.work.parallelism_max
    if cap is not None and sum(len(units) for _, units, *_ in candidates) > cap:
        candidates, left = cap_runs((Candidate(*each) for each in candidates), cap, run)
        skips.extend((Skip(why, each.number, each.number), each.units) for each, why in left)
    order = {unit: number for number, unit in enumerate(units.values)}
    groups = _groups(candidates, order)
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
        runs=groups,
        skipped=_ranges(skips, pieces.partitions, order),
        stale=tuple(unit for unit in before.entries if unit not in order),
        notes=tuple(notes),
        settles=settles,
        remarks=tuple(_remarks(source, pieces)),
        repeats=_repeats(source, before, groups),
    )


def _check_units(source: UnitSource, units: Units) -> None:
    if (number := len(units.values)) < source.work.min_units:
        few = "1 unit" if number == 1 else f"{number} units"
        raise WatermarkError(
            f"source {source.name!r} has {few}, and min_units is {source.work.min_units}",
            "look at what the units are read from; or lower min_units",
        )
    repeated = Counter(units.values).most_common(1)
    if repeated and repeated[0][1] > 1:
        raise WatermarkError(f"unit {repeated[0][0]!r} is there {repeated[0][1]} times", "name each unit once")


def _histories(state: UnitState, units: Units) -> dict[History, list[str]]:
    """The units that are not retired, grouped by history."""
    failures: dict[str, list[tuple[int, Failure]]] = {}
    for (unit, start), failure in sorted(state.failures.items(), key=lambda failure: failure[0]):
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
            # By identity first: decoded units with equal reads share one entry, and hashing it for each unit would cost
            # more than planning.
            same.setdefault(id(entry), (entry, []))[1].append(unit)
    for entry, alike in same.values():
        histories.setdefault((entry, ()), []).extend(alike)
    return histories


def _decide(
    deciding: UnitDecisions, histories: Mapping[History, Sequence[str]]
) -> tuple[Sequence[Found], list[tuple[Skip, tuple[str, ...]]]]:
    """What would run, and what would not, for each history."""
    found: list[Found] = []
    skips: list[tuple[Skip, tuple[str, ...]]] = []
    for (entry, failed), alike in histories.items():
        units, failures, succeeded = tuple(alike), dict(failed), bool(entry.coverage)
        for each in deciding.decide_partitions(entry, failures):
            if isinstance(each, Skip):
                skips.append((each, units))
            else:
                number, pattern = each
                failure = failures.get(failure_start(pattern.start, pattern.nominal_end)) if failures else None
                found.append((number, units, pattern, failure, succeeded))
    return found, skips


def _groups(found: Sequence[Found], order: Mapping[str, int]) -> tuple[RunGroup, ...]:
    """What runs, oldest partition first; equal decisions together, in the order of the units."""
    if all(one[0] < other[0] for one, other in pairwise(found)):
        return tuple(RunGroup(units, pattern) for _, units, pattern, *_ in found)
    alike: dict[tuple[object, ...], tuple[WorkUnit, list[tuple[str, ...]]]] = {}
    for number, units, pattern, *_ in found:
        decision = pattern._replace(why=WhyRun.FIRST)  # everything but the reason
        alike.setdefault((number, *decision), (pattern, []))[1].append(units)
    groups = [(pattern.start, _join_units(units, order), pattern) for pattern, units in alike.values()]
    groups.sort(key=lambda group: (group[0], order[group[1][0]]))
    return tuple(RunGroup(units, pattern) for _, units, pattern in groups)


def _ranges(
    skips: list[tuple[Skip, tuple[str, ...]]], partitions: Sequence[TimePartition], order: Mapping[str, int]
) -> tuple[SkippedUnits, ...]:
    """What does not run: equal reasons in consecutive partitions of the same units together, then equal ranges."""
    longest: list[tuple[Skip, tuple[str, ...]]] = []
    for skip, units in sorted(skips, key=lambda skip: (order[skip[1][0]], len(skip[1]), skip[0].first)):
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
            units=_join_units(alike[skip], order),
            partitions=skip.last - skip.first + 1,
            first=partitions[skip.first].start,
            last=partitions[skip.last].start,
            eligible=skip.eligible,
        )
        for skip in sorted(alike, key=lambda skip: (skip.first, skip.last, skip.why))
    )


def _continues(one: Skip, other: Skip) -> bool:
    return one.why is other.why and one.eligible == other.eligible and one.last + 1 == other.first


def _join_units(parts: list[tuple[str, ...]], order: Mapping[str, int]) -> tuple[str, ...]:
    if len(parts) == 1:
        return parts[0]
    return tuple(sorted(chain.from_iterable(parts), key=order.__getitem__))


def _check_accepted(state: UnitState, source: UnitSource, pieces: Cut, accept: bool) -> None:
    """``WatermarkError`` if changed partitions are not accepted, or cannot be."""
    was, is_now = (f"{grid} ({zone})" for grid, zone in ((state.grid, state.zone), (pieces.grid, source.timezone)))
    if not accept:
        raise WatermarkError(
            f"work units of source {source.name!r} are not those of its state: these were {was}, and are now {is_now}",
            "give watermark, partition, from and timezone their former values; or run with --accept-new-partitions: "
            "then what was read counts as read, also in the new partitions, and the rest is read in them",
        )
    # Their old rows can only be found by the partitions that they were read in.
    left = [unit for unit, entry in state.entries.items() if entry.left and not source.replaces_all]
    if left:
        raise WatermarkError(
            f"source {source.name!r} is to read units again as {was}: {left[0]!r}, {len(left)} in all",
            "run once with the former partitions, then accept new ones",
        )


def _notes(source: UnitSource, pieces: Cut) -> Iterator[str]:
    zone = zone_named(source.timezone)
    if pieces.start >= pieces.end:
        yield (
            f"the range is empty: it begins at {iso(pieces.start, zone)} and ends at {iso(pieces.end, zone)} "
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


def _repeats(source: UnitSource, state: UnitState, groups: Iterable[RunGroup]) -> tuple[str, ...]:
    """The units whose rows would be in the table once more: those of other ranges stay, and are the same."""
    if not source.repeats_rows:
        return ()
    planned: set[str] = set()
    found: dict[str, None] = {}
    for units, work in groups:
        for unit in units:
            entry = state.entries.get(unit, NOTHING)
            if unit in planned or remove_range(entry.coverage + entry.left, work.low, work.high):
                found[unit] = None
            planned.add(unit)
    return tuple(found)


NOBODY: Mapping[str, str] = MappingProxyType({})


def advance_units(
    state: UnitState | None,
    plan: UnitPlan,
    done: Sequence[WorkUnit],
    failed: Sequence[tuple[WorkUnit, str]] = (),
    retired: Mapping[str, str] = NOBODY,
) -> UnitState:
    """The state after one commit of ``plan``: a failure never creates, raises or lowers a high watermark."""
    known = state or UnitState()
    if plan.settles and (known.grid, known.zone) != (plan.grid, plan.zone):
        known = settle(known)
    entries, failures = dict(known.entries), _still_planned(known, plan)
    for work in done:
        entries[work.unit] = _cover(entries.get(work.unit, UnitEntry()), work)
        failures.pop(_key(work), None)
    for work, reason in failed:
        before = failures.get(_key(work))
        # Several commits of one run report the same failure, which must count once.
        if before is None or before.run != plan.run:
            failures[_key(work)] = Failure(before.count + 1 if before else 1, plan.run, reason)
    return replace(
        known,
        zone=plan.zone,
        grid=plan.grid,
        runs=plan.run,
        entries=entries,
        failures=failures,
        retired={**known.retired, **retired},
        input_version=plan.input_version,
        updated=plan.now,
    )


def _still_planned(state: UnitState, plan: UnitPlan) -> dict[tuple[str, int], Failure]:
    """The failures of partitions that still exist."""
    if not state.failures:
        return {}
    starts = {failure_start(partition.start, partition.nominal_end) for partition in plan.partitions}
    return {key: failure for key, failure in state.failures.items() if key[1] in starts}


def _key(work: WorkUnit) -> tuple[str, int]:
    return work.unit, failure_start(work.start, work.nominal_end)


def _cover(entry: UnitEntry, work: WorkUnit) -> UnitEntry:
    """The entry with the range of ``work`` added; starts of partitions are implied and not kept."""
    new = {low for low, _ in work.segments if work.nominal_end is None or low != work.start}
    starts = {start for start in entry.starts if not work.low <= start < work.high} | new
    is_whole = work.nominal_end is None and work.replaces and not remove_range(entry.coverage, work.low, work.high)
    return replace(
        entry,
        coverage=add_range(entry.coverage, work.low, work.high),
        starts=tuple(sorted(starts)[-STARTS_KEPT:]),
        left=remove_range(entry.left, work.low, work.high),
        settled=None if is_whole else entry.settled,
    )
