"""Sources of work units, their plans and states, written as people write them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tidegate.core.calendar import iso, milliseconds, zone_named
from tidegate.core.units.plan import UnitPlan, WorkUnit
from tidegate.core.units.planner import advance_units, plan_units
from tidegate.core.units.state import Units, UnitState
from tidegate.specs.columns import FunctionRead
from tidegate.specs.units import PartitionKind, TimeRange, TimeWatermark, UnitSource, WorkUnits


def moment(text: str) -> datetime:
    """A time in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def at(text: str) -> int:
    """A time in UTC as milliseconds."""
    return milliseconds(moment(text))


def time_source(start: str = "2020-01-01", end: str = "-", kind: str = "none", **changes: Any) -> UnitSource:
    """A source that is read for a time range; names of :class:`WorkUnits` among ``changes`` go there."""
    time = TimeWatermark("system", TimeRange(start, end, **_taken(changes, TimeRange)))
    work = WorkUnits(partition=PartitionKind(kind), **_taken(changes, WorkUnits))
    return UnitSource("surveys", changes.pop("read", FunctionRead("shop:surveys")), time, work=work, **changes)


def planned(
    source: UnitSource, now: str, state: UnitState | None = None, units: tuple[str, ...] = ("",), **changes: Any
) -> UnitPlan:
    """The plan at ``now``, a time in UTC."""
    return plan_units("shop", source, state, Units(units), 0, moment(now), **changes)


def after(
    source: UnitSource,
    *runs: str,
    units: tuple[str, ...] = ("",),
    failing: tuple[tuple[str, str, str], ...] = (),
    state: UnitState | None = None,
) -> UnitState:
    """The state after runs at these times; ``failing`` has time of the run, unit and start of what fails in it."""
    for now in runs:
        plan = planned(source, now, state, units)
        failed = {(unit, at(start)) for run, unit, start in failing if run == now}
        works = list(plan.works())
        state = advance_units(
            state,
            plan,
            [work for work in works if (work.unit, work.start) not in failed],
            [(work, "refused") for work in works if (work.unit, work.start) in failed],
        )
    assert state is not None
    return state


def read(plan: UnitPlan) -> list[str]:
    """What runs: ``[low, high)`` of each work unit, behind the unit where it has a name."""
    return [f"{work.unit} {_range(work, plan.zone)}".strip() for work in plan.works()]


def cutoff(plan: UnitPlan) -> str | None:
    """The cut-off of the job."""
    return None if plan.job_cutoff is None else iso(plan.job_cutoff, zone_named(plan.zone))


def _range(work: WorkUnit, zone: str) -> str:
    return f"[{iso(work.low, zone_named(zone))}, {iso(work.high, zone_named(zone))})"


def _taken(changes: dict[str, Any], kind: type) -> dict[str, Any]:
    return {name: changes.pop(name) for name in list(changes) if name in kind.__dataclass_fields__}  # type: ignore[attr-defined]
