"""The state after work units were carried out: what succeeded is covered, what failed is counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from tidegate.planning.unit_deciding import failure_start
from tidegate.planning.unit_plan import UnitPlan, WorkUnit
from tidegate.watermarks.coverage import joined, without
from tidegate.watermarks.unit_state import STARTS_KEPT, Failure, UnitEntry, UnitState, settled

NOBODY: Mapping[str, str] = MappingProxyType({})


def progressed(
    state: UnitState | None,
    plan: UnitPlan,
    done: Sequence[WorkUnit],
    failed: Sequence[tuple[WorkUnit, str]] = (),
    retired: Mapping[str, str] = NOBODY,
) -> UnitState:
    """The state after one commit of ``plan``: a failure never creates, raises or lowers a high watermark."""
    known = state or UnitState()
    if plan.settles and (known.grid, known.zone) != (plan.grid, plan.zone):
        known = settled(known)
    entries, failures = dict(known.entries), _still_planned(known, plan)
    for work in done:
        entries[work.unit] = _covered(entries.get(work.unit, UnitEntry()), work)
        failures.pop(_key(work), None)
    for work, reason in failed:
        before = failures.get(_key(work))
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
    """The failures without those of partitions that are gone."""
    if not state.failures:
        return {}
    starts = {failure_start(each.start, each.nominal_end) for each in plan.partitions}
    return {key: failure for key, failure in state.failures.items() if key[1] in starts}


def _key(work: WorkUnit) -> tuple[str, int]:
    return work.unit, failure_start(work.start, work.nominal_end)


def _covered(entry: UnitEntry, work: WorkUnit) -> UnitEntry:
    """The entry with the range of ``work`` read; the beginnings of partitions are no secret and not kept."""
    new = {low for low, _ in work.segments if work.nominal_end is None or low != work.start}
    starts = {start for start in entry.starts if not work.low <= start < work.high} | new
    return replace(
        entry,
        coverage=joined(entry.coverage, work.low, work.high),
        starts=tuple(sorted(starts)[-STARTS_KEPT:]),
        left=without(entry.left, work.low, work.high),
    )
