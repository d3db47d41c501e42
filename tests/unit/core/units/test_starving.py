"""A cap over many runs: whatever fails for ever, everybody else is read."""

from __future__ import annotations

import pytest

from support.work_units import after, at, planned, time_source
from tidegate.core.units.planner import advance_units
from tidegate.core.units.state import UnitState

BROKEN = tuple(f"broken{each:03}" for each in range(20))


def reads(cap: int, state: UnitState, now: str, units: tuple[str, ...], runs: int) -> list[tuple[str, int]]:
    """What is read by so many runs at one moment, of which all of the broken units fail."""
    source, seen = time_source("2020-01-01", "P0D", "daily", parallelism_max=cap), []
    for _ in range(runs):
        plan = planned(source, now, state, (*BROKEN, *units))
        done = [work for work in plan.works() if work.unit not in BROKEN]
        seen += [(work.unit, work.start) for work in done]
        state = advance_units(state, plan, done, [(work, "refused") for work in plan.works() if work.unit in BROKEN])
    return seen


@pytest.mark.parametrize("cap", [1, 2, 3])
def test_units_that_succeeded_before_are_read_beside_broken_ones(cap: int) -> None:
    state = after(time_source("2020-01-01", "P0D", "daily"), "2020-01-02", units=("A", "B"))
    assert len(reads(cap, state, "2020-01-10", ("A", "B"), 50)) == 16


@pytest.mark.slow
@pytest.mark.parametrize("cap", [1, 2])
def test_a_work_unit_that_failed_once_gets_its_turn_again_beside_broken_ones(cap: int) -> None:
    whole = time_source("2020-01-01", "P0D", "daily")
    plan = planned(whole, "2020-01-10", None, ("A",))
    last = at("2020-01-09")
    done = [work for work in plan.works() if work.start != last]
    failed = [(work, "refused") for work in plan.works() if work.start == last]
    state = advance_units(None, plan, done, failed)
    runs = 2 * 9 * len(BROKEN)
    assert reads(cap, state, "2020-01-10", ("A",), runs) == [("A", last)]
