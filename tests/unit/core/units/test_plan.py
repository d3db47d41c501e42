"""A cap on work units: never-succeeded first, then the oldest; broken ones wait, and starve nobody."""

from __future__ import annotations

import pytest

from support.work_units import after, at, planned, read, time_source
from tidegate.core.units.plan import UnitPlan, WhySkipped
from tidegate.core.units.planner import advance_units
from tidegate.core.units.state import Failure, UnitEntry, UnitState

GRID = "system: none from 2020-01-01"
DAILY = time_source("2020-01-01", "P0D", "daily", parallelism_max=3)


def state_of(runs: int = 10, failures: dict[str, Failure] | None = None, **highs: str) -> UnitState:
    entries = {unit: UnitEntry(((at("2020-01-01"), at(high)),)) for unit, high in highs.items()}
    return UnitState("UTC", GRID, runs, entries, {(unit, 0): each for unit, each in (failures or {}).items()})


def chosen(cap: int, state: UnitState, *units: str) -> list[str]:
    return [work.unit for work in capped_plan(cap, state, *units).works()]


def capped_plan(cap: int, state: UnitState, *units: str) -> UnitPlan:
    return planned(time_source("2020-01-01", "P0D", parallelism_max=cap), "2020-02-01", state, units)


def left(plan: UnitPlan) -> dict[WhySkipped, list[str]]:
    return {each.why: list(each.units) for each in plan.skipped}


def test_the_oldest_partitions_come_first() -> None:
    plan = planned(DAILY, "2020-01-04", units=("A", "B"))
    assert read(plan) == [
        "A [2020-01-01, 2020-01-02)",
        "B [2020-01-01, 2020-01-02)",
        "A [2020-01-02, 2020-01-03)",
    ]
    assert sum(each.count for each in plan.skipped) == 3
    assert {each.why for each in plan.skipped} == {WhySkipped.CAPPED}


def test_what_was_capped_runs_later() -> None:
    state, seen = None, []
    for _ in range(2):
        plan = planned(DAILY, "2020-01-04", state, ("A", "B"))
        seen += read(plan)
        state = advance_units(state, plan, list(plan.works()))
    assert sorted(seen) == sorted(
        read(planned(time_source("2020-01-01", "P0D", "daily"), "2020-01-04", None, ("A", "B")))
    )
    assert read(planned(DAILY, "2020-01-04", state, ("A", "B"))) == []


def test_never_succeeded_first_then_the_oldest_high_watermark() -> None:
    state = state_of(A="2020-01-20", B="2020-01-10", C="2020-01-15")
    assert chosen(2, state, "A", "B", "C") == ["B", "C"]
    assert chosen(1, state, "A", "B", "C", "new") == ["new"]


def test_half_of_the_cap_is_kept_for_units_that_succeeded_before() -> None:
    state = state_of(A="2020-01-20", B="2020-01-10", C="2020-01-15")
    plan = capped_plan(4, state, "A", "B", "C", "u", "v", "w", "x")
    assert [work.unit for work in plan.works()] == ["B", "C", "u", "v"]
    assert left(plan) == {WhySkipped.CAPPED: ["A", "w", "x"]}


def test_places_that_nobody_else_wants_are_given_away() -> None:
    state = state_of(A="2020-01-20", B="2020-01-10", C="2020-01-15")
    assert chosen(4, state, "A", "u", "v", "w", "x") == ["A", "u", "v", "w"]
    assert chosen(3, state, "A", "B", "C", "u") == ["B", "C", "u"]


def test_a_unit_that_failed_waits_two_to_the_power_of_its_failures() -> None:
    runs = []
    for run in range(1, 12):
        state = state_of(run - 1, {"broken": Failure(2, 4, "refused")}, A="2020-01-20", B="2020-01-10")
        if "broken" in chosen(2, state, "A", "B", "broken"):
            runs.append(run)
    assert runs[0] == 9
    plan = capped_plan(
        2, state_of(5, {"broken": Failure(2, 4, "refused")}, A="2020-01-20", B="2020-01-10"), "A", "B", "broken"
    )
    assert left(plan) == {WhySkipped.WAITING: ["broken"]}


def test_nobody_waits_longer_than_64_runs() -> None:
    state = state_of(68, {"broken": Failure(50, 4, "refused")}, A="2020-01-20", B="2020-01-10")
    assert "broken" in chosen(2, state, "A", "B", "broken")


def test_without_a_cap_that_binds_what_failed_runs_at_once() -> None:
    state = state_of(5, {"broken": Failure(6, 5, "refused")}, A="2020-01-20")
    assert chosen(2, state, "A", "broken") == ["A", "broken"]
    assert chosen(3, state_of(5, {"broken": Failure(6, 5, "refused")}), "broken", "x", "y") == ["broken", "x", "y"]


def test_broken_units_starve_nobody() -> None:
    source = time_source("2020-01-01", "P0D", "daily", parallelism_max=4)
    broken = tuple(f"broken{each}" for each in range(50))
    state = after(time_source("2020-01-01", "P0D", "daily"), "2020-01-02", units=("A", "B"))
    for day in range(3, 29):
        now = f"2020-01-{day:02}"
        plan = planned(source, now, state, (*broken, "A", "B"))
        assert {work.unit for work in plan.works() if work.high == at(now)} >= {"A", "B"}
        assert plan.count == 4
        done = [work for work in plan.works() if work.unit in ("A", "B")]
        state = advance_units(state, plan, done, [(work, "refused") for work in plan.works() if work.unit in broken])
    assert len({unit for unit, _ in state.failures}) > 25


def test_capped_work_units_are_told_as_ranges() -> None:
    plan = planned(time_source("2020-01-01", "P0D", "daily", parallelism_max=2), "2020-01-31", units=("A", "B"))
    assert [(each.why, each.units, each.partitions) for each in plan.skipped] == [(WhySkipped.CAPPED, ("A", "B"), 29)]


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
