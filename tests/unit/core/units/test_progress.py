"""The state after work units were carried out."""

from __future__ import annotations

from support.work_units import after, at, moment, planned, time_source
from tidegate.core.units.planner import advance_units
from tidegate.core.units.state import STARTS_KEPT, Failure, UnitEntry
from tidegate.specs.units import Span

DAILY = time_source("2020-01-01", "P0D", "daily")


def test_what_succeeded_is_covered_and_nothing_else_moves() -> None:
    plan = planned(DAILY, "2020-01-04", units=("A", "B"))
    works = {(work.unit, work.start): work for work in plan.works()}
    done = [works["A", at("2020-01-01")], works["A", at("2020-01-03")], works["B", at("2020-01-01")]]
    state = advance_units(None, plan, done)
    assert state.entries == {
        "A": UnitEntry(((at("2020-01-01"), at("2020-01-02")), (at("2020-01-03"), at("2020-01-04")))),
        "B": UnitEntry(((at("2020-01-01"), at("2020-01-02")),)),
    }
    assert (state.zone, state.grid, state.runs, state.updated) == ("UTC", plan.grid, 1, moment("2020-01-04"))


def test_the_commits_of_one_run_count_as_one_run() -> None:
    plan = planned(DAILY, "2020-01-03")
    first, second = plan.works()
    state = advance_units(advance_units(None, plan, [first]), plan, [second])
    assert (state.runs, state.entries[""].coverage) == (1, ((at("2020-01-01"), at("2020-01-03")),))


def test_failures_in_a_row_are_counted_until_success() -> None:
    failing = tuple((f"2020-01-0{day}", "", "2020-01-01") for day in (2, 3))
    state = after(DAILY, "2020-01-02", "2020-01-03", failing=failing)
    assert state.failures == {("", at("2020-01-01")): Failure(2, 2, "refused")}
    assert after(DAILY, "2020-01-04", state=state).failures == {}


def test_a_failure_that_is_told_twice_in_a_run_counts_once() -> None:
    plan = planned(DAILY, "2020-01-02")
    failed = [(work, "refused") for work in plan.works()]
    state = advance_units(advance_units(None, plan, [], failed), plan, [], failed)
    assert [each.count for each in state.failures.values()] == [1]


def test_failures_are_kept_where_the_beginning_floats() -> None:
    source = time_source("P30D")
    state = None
    for day in (1, 2, 3):
        plan = planned(source, f"2020-01-0{day}", state)
        state = advance_units(state, plan, [], [(work, "refused") for work in plan.works()])
    assert state is not None
    assert state.failures == {("", 0): Failure(3, 3, "refused")}


def test_failures_of_partitions_that_are_gone_are_forgotten() -> None:
    source = time_source("P2D", "P0D", "daily")
    state = after(source, "2020-01-03", failing=(("2020-01-03", "", "2020-01-01"),))
    assert len(state.failures) == 1
    assert after(source, "2020-01-06", state=state).failures == {}


def test_retired_units_are_added() -> None:
    plan = planned(DAILY, "2020-01-02", units=("A", "B"))
    state = advance_units(advance_units(None, plan, [], retired={"A": "404"}), plan, [], retired={"B": "410"})
    assert state.retired == {"A": "404", "B": "410"}


def test_beginnings_of_segments_are_kept_apart_from_those_of_partitions() -> None:
    source = time_source("2020-01-01", "P0D", "monthly", grace=Span(3))
    assert after(source, "2020-01-15").entries[""].starts == (at("2020-01-12"),)
    state = after(source, "2020-01-15", "2020-01-20")
    assert state.entries[""].starts == (at("2020-01-12"), at("2020-01-17"))


def test_only_the_greatest_beginnings_of_segments_are_kept() -> None:
    source = time_source("2020-01-01", "P0D", grace=Span(1))
    days = [f"2020-0{month}-{day:02}" for month in (1, 2) for day in range(5, 29)]
    starts = after(source, *days).entries[""].starts
    assert len(starts) == STARTS_KEPT
    assert starts[-1] == at("2020-02-27")
