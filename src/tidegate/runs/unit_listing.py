"""The units of a source and the work units of one of them, as they stand now. Starts no Spark."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tidegate.config.problems import nearest
from tidegate.errors import TidegateError
from tidegate.planning.unit_deciding import failure_start
from tidegate.planning.unit_plan import TimePartition, UnitPlan, WhySkipped, WorkUnit
from tidegate.runs.unit_looking import OPEN_REASONS, Looked, look, maybe_utc, spans, starting_at, utc
from tidegate.runs.unit_place import UnitPlace
from tidegate.unit_reports import UnitLine, UnitList, UnitView, WorkUnitLine
from tidegate.watermarks.coverage import high_of
from tidegate.watermarks.unit_state import Failure, UnitEntry, UnitState


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which units are asked for: some by name, those of one partition, those that failed; ``limit`` 0 means all."""

    units: Collection[str] = ()
    partition: str | None = None
    failed: bool = False
    limit: int = 50


@dataclass(slots=True)
class _Numbers:
    """The work units of one unit, by what has become of them."""

    done: int = 0
    open: int = 0
    eligible: list[int] = field(default_factory=list)


def listed(place: UnitPlace, now: datetime, wanted: Wanted) -> UnitList:
    """The units of a source, those that need somebody first."""
    looked = look(place, now)
    plan, state = looked.plan, looked.state or UnitState()
    check_known(place, looked, wanted.units)
    one = starting_at(plan.partitions, wanted.partition, plan.zone) if wanted.partition is not None else None
    lines = [each for each in _lines(plan, state, one) if _is_wanted(each, wanted)]
    lines.sort(key=lambda each: _ORDER.index(each.state))
    shown = lines[: wanted.limit] if wanted.limit else lines
    return UnitList(
        pipeline=place.pipeline.name,
        source=place.source.name,
        position=looked.opened.version,
        zone=plan.zone,
        grid=plan.grid,
        partitions=1 if one else len(plan.partitions),
        total=len(lines),
        units=tuple(shown),
        input_version=plan.input_version,
        notes=(*looked.opened.warnings, *plan.notes),
    )


_ORDER = ("failed", "retired", "open", "done", "stale")


def _is_wanted(line: UnitLine, wanted: Wanted) -> bool:
    named = not wanted.units or line.unit in wanted.units
    return named and (not wanted.failed or line.state in ("failed", "retired"))


def check_known(place: UnitPlace, looked: Looked, units: Collection[str]) -> None:
    """Raise where a unit is named that neither the plan nor the state has."""
    known = {*looked.plan.units, *(looked.state.entries if looked.state else ()), *retired_of(looked.state)}
    for unit in units:
        if unit not in known:
            hint = nearest(unit, list(known)) if len(known) < _COMPARED else ""
            raise TidegateError(
                f"{place.key}: there is no unit {unit!r}", hint or "`tidegate units list` shows those that there are"
            )


_COMPARED = 10_000


def retired_of(state: UnitState | None) -> Collection[str]:
    """The units that a server does not know."""
    return () if state is None else state.retired


def _lines(plan: UnitPlan, state: UnitState, one: TimePartition | None) -> Iterator[UnitLine]:
    numbers = _numbers(plan, one)
    failures: dict[str, list[Failure]] = {}
    for (unit, start), failure in state.failures.items():
        if one is None or start == failure_start(one.start, one.nominal_end):
            failures.setdefault(unit, []).append(failure)
    for unit in (*plan.units, *plan.stale):
        found, failed = numbers.get(unit, _Numbers()), failures.get(unit, [])
        retired = state.retired.get(unit)
        yield UnitLine(
            unit=unit,
            state=_state(unit in numbers, found, failed, retired),
            done=found.done,
            open=found.open,
            failed=len(failed),
            read_up_to=_read_up_to(state.entries.get(unit), one),
            next_eligible=utc(min(found.eligible)) if found.eligible and not found.open else None,
            reason=retired or (failed[-1].reason if failed else ""),
        )


def _state(is_there: bool, found: _Numbers, failed: Sequence[Failure], retired: str | None) -> str:
    if not is_there:
        return "stale"
    if retired is not None:
        return "retired"
    return "failed" if failed else "open" if found.open else "done"


def _numbers(plan: UnitPlan, one: TimePartition | None) -> dict[str, _Numbers]:
    """What the plan says about each unit, in all partitions or in one."""
    found = {unit: _Numbers() for unit in plan.units}
    for group in plan.runs:
        if one is None or group.pattern.start == one.start:
            for unit in group.units:
                found[unit].open += 1
    for each in plan.skipped:
        amount = each.partitions if one is None else int(each.first <= one.start <= each.last)
        if not amount or each.why is WhySkipped.RETIRED:
            continue
        for unit in each.units:
            if each.why in OPEN_REASONS:
                found[unit].open += amount
            elif each.why is not WhySkipped.GRACE_OVER:
                found[unit].done += amount
            if each.eligible is not None:
                found[unit].eligible.append(each.eligible)
    return found


def _read_up_to(entry: UnitEntry | None, one: TimePartition | None) -> str | None:
    if entry is None or not entry.coverage:
        return None
    return maybe_utc(entry.coverage[-1][1] if one is None else high_of(entry.coverage, one.start, one.nominal_end))


def viewed(place: UnitPlace, now: datetime, unit: str) -> UnitView:
    """One unit, partition by partition."""
    looked = look(place, now)
    check_known(place, looked, (unit,))
    plan, state = looked.plan, looked.state or UnitState()
    entry = state.entries.get(unit, UnitEntry())
    line = next(each for each in _lines(plan, state, None) if each.unit == unit)
    return UnitView(
        pipeline=place.pipeline.name,
        source=place.source.name,
        unit=unit,
        state=line.state,
        position=looked.opened.version,
        zone=plan.zone,
        grid=plan.grid,
        coverage=spans(entry.coverage),
        left=spans(entry.left),
        work_units=tuple(_work_units(plan, state, entry, unit)),
        variables=dict(looked.units.variables.get(unit, {})),
        retired=state.retired.get(unit),
        notes=looked.opened.warnings,
    )


def _work_units(plan: UnitPlan, state: UnitState, entry: UnitEntry, unit: str) -> Iterator[WorkUnitLine]:
    running: dict[int, WorkUnit] = {group.pattern.start: group.pattern for group in plan.runs if unit in group.units}
    skipped = [each for each in plan.skipped if unit in each.units]
    for partition in plan.partitions if unit in plan.units else ():
        work = running.get(partition.start)
        skip = next((each for each in skipped if each.first <= partition.start <= each.last), None)
        failure = state.failures.get((unit, failure_start(partition.start, partition.nominal_end)))
        yield WorkUnitLine(
            start=utc(partition.start),
            end=utc(partition.end),
            nominal_end=maybe_utc(partition.nominal_end),
            why=work.why.value if work else skip.why.value if skip else "",
            low=maybe_utc(work.low if work else None),
            high=maybe_utc(work.high if work else None),
            high_watermark=maybe_utc(high_of(entry.coverage, partition.start, partition.nominal_end)),
            eligible=maybe_utc(skip.eligible if skip else None),
            failures=0 if failure is None else failure.count,
            reason="" if failure is None else failure.reason,
        )
