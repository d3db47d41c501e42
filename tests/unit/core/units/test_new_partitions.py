"""Other partitions than before: noticed, refused, and once accepted never a row lost, doubled or jumped over."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from support.errors import raises
from support.work_units import after, at, planned, read, time_source
from tidegate.core.units.plan import WhySkipped
from tidegate.core.units.planner import advance_units
from tidegate.errors import WatermarkError
from tidegate.specs.units import Replace, Span, UnitSource

MONTHLY = time_source("2019-12-01", "-", "monthly")
JANUARY = "2020-01-01"


def accepted(source: UnitSource, now: str, state: Any, **changes: Any) -> list[str]:
    return read(planned(source, now, state, accept_new_partitions=True, **changes))


@pytest.mark.parametrize(
    "other",
    [
        time_source("2019-12-01", "-", "weekly"),
        time_source("2019-12-02", "-", "monthly"),
        time_source("2019-12-01", "-", "monthly", timezone="Europe/Berlin"),
        time_source("2019-12-01", "-"),
    ],
    ids=["kind", "beginning", "zone", "none"],
)
def test_other_identities_are_refused_with_both(other: UnitSource) -> None:
    state = after(MONTHLY, "2020-02-21")
    with raises(WatermarkError, "system: monthly on day 1", "--accept-new-partitions"):
        planned(other, "2020-02-22", state)


def test_a_beginning_that_leaves_identities_as_they_are_is_no_change() -> None:
    state = after(MONTHLY, "2020-02-21")
    assert read(planned(time_source("2019-10-01", "-", "monthly"), "2020-02-22", state)) == [
        "[2019-10-01, 2019-11-01)",
        "[2019-11-01, 2019-12-01)",
        "[2020-02-21, 2020-02-22)",
    ]


def test_a_partition_that_is_fully_covered_counts_as_done() -> None:
    daily = time_source("2019-12-01", "P0D", "daily")
    plan = planned(daily, "2020-02-23", after(MONTHLY, "2020-02-21"), accept_new_partitions=True)
    assert read(plan) == ["[2020-02-21, 2020-02-22)", "[2020-02-22, 2020-02-23)"]
    assert [(each.why, each.partitions) for each in plan.skipped] == [(WhySkipped.DONE, 82)]
    assert "counts as read" in plan.notes[0]


def test_after_it_was_accepted_it_is_the_grid() -> None:
    daily = time_source("2019-12-01", "P0D", "daily")
    plan = planned(daily, "2020-02-23", after(MONTHLY, "2020-02-21"), accept_new_partitions=True)
    state = advance_units(after(MONTHLY, "2020-02-21"), plan, list(plan.works()))
    assert read(planned(daily, "2020-02-24", state)) == ["[2020-02-23, 2020-02-24)"]
    with raises(WatermarkError, "system: monthly on day 1", "--accept-new-partitions"):
        planned(MONTHLY, "2020-02-24", state)


def test_a_hole_is_read_in_the_new_partitions_and_nothing_beside_it() -> None:
    state = after(MONTHLY, "2020-02-21", failing=(("2020-02-21", "", JANUARY),))
    weekly = time_source("2019-12-02", "-", "weekly")
    assert accepted(weekly, "2020-02-21", state) == [
        "[2020-01-01, 2020-01-06)",
        "[2020-01-06, 2020-01-13)",
        "[2020-01-13, 2020-01-20)",
        "[2020-01-20, 2020-01-27)",
        "[2020-01-27, 2020-02-01)",
    ]


def test_several_holes_of_one_partition_are_filled_one_after_the_other() -> None:
    daily = time_source("2020-01-01", "P0D", "daily")
    failing = (("2020-01-11", "", "2020-01-03"), ("2020-01-11", "", "2020-01-06"))
    state = after(daily, "2020-01-11", failing=failing)
    monthly, expected = time_source("2020-01-01", "P0D", "monthly"), ["[2020-01-03, 2020-01-04)"]
    for following in ("[2020-01-06, 2020-01-07)", "[2020-01-11, 2020-01-12)", None):
        plan = planned(monthly, "2020-01-12", state, accept_new_partitions=True)
        assert read(plan) == expected
        state = advance_units(state, plan, list(plan.works()))
        expected = [following] if following else []
    assert read(planned(monthly, "2020-01-12", state)) == []


def test_grace_does_not_reach_into_what_was_read_in_other_partitions() -> None:
    state = after(MONTHLY, "2020-02-21")
    daily = time_source("2019-12-01", "P0D", "daily", grace=Span(3))
    plan = planned(daily, "2020-02-22", state, accept_new_partitions=True)
    assert read(plan) == ["[2020-02-21, 2020-02-22)"]
    state = advance_units(state, plan, list(plan.works()))
    assert read(planned(daily, "2020-02-23", state)) == ["[2020-02-21, 2020-02-22)", "[2020-02-22, 2020-02-23)"]


def test_grace_of_a_growing_month_begins_where_the_former_partitions_ended() -> None:
    state = after(time_source("2020-01-01", "P0D", "daily"), "2020-01-11")
    monthly = time_source("2020-01-01", "P0D", "monthly", grace=Span(3))
    plan = planned(monthly, "2020-01-12", state, accept_new_partitions=True)
    assert read(plan) == ["[2020-01-11, 2020-01-12)"]
    state = advance_units(state, plan, list(plan.works()))
    assert read(planned(monthly, "2020-01-13", state)) == ["[2020-01-11, 2020-01-13)"]
    assert read(planned(monthly, "2020-01-20", after(monthly, "2020-01-18", state=state))) == [
        "[2020-01-15, 2020-01-20)"
    ]


@pytest.mark.parametrize("mode", [Replace.TIME_COLUMN, Replace.MERGE_KEYS])
def test_grace_reaches_back_where_rows_are_told_by_time_or_keys(mode: Replace) -> None:
    daily = time_source("2019-12-01", "P0D", "daily", grace=Span(2), replace=mode)
    assert accepted(daily, "2020-02-22", after(MONTHLY, "2020-02-21")) == [
        "[2020-02-19, 2020-02-20)",
        "[2020-02-20, 2020-02-21)",
        "[2020-02-21, 2020-02-22)",
    ]


def test_a_work_unit_that_is_replaced_as_a_whole_must_not_be_half_read() -> None:
    state = after(time_source("2019-12-01", "-"), "2020-02-21")
    whole = time_source("2019-12-01", "-", "monthly", replace=Replace.UNIT)
    with raises(WatermarkError, "2020-02-01", "2020-02-21"):
        accepted(whole, "2020-02-22", state)
    daily = replace(whole, work=replace(whole.work, partition=time_source(kind="daily").work.partition))
    assert accepted(daily, "2020-02-22", state) == ["[2020-02-21, 2020-02-22)"]


def test_what_is_to_be_read_again_is_read_in_the_former_partitions_first() -> None:
    state = after(MONTHLY, "2020-02-21").without_units(None, at(JANUARY), at("2020-02-01"))
    with raises(WatermarkError, "'surveys'", "system: monthly on day 1"):
        accepted(time_source("2019-12-01", "P0D", "daily"), "2020-02-22", state)


def test_what_was_read_in_other_partitions_is_not_reset() -> None:
    daily = time_source("2019-12-01", "P0D", "daily")
    plan = planned(daily, "2020-02-23", after(MONTHLY, "2020-02-21"), accept_new_partitions=True)
    state = advance_units(after(MONTHLY, "2020-02-21"), plan, list(plan.works()))
    with raises(WatermarkError, "reset", "1582243200000"):
        state.without_units(None, None, None)
    again = state.without_units([""], at("2020-02-22"), None)
    assert read(planned(daily, "2020-02-23", again)) == ["[2020-02-22, 2020-02-23)"]


def test_failures_of_former_work_units_are_forgotten() -> None:
    state = after(MONTHLY, "2020-02-21", failing=(("2020-02-21", "", JANUARY),))
    plan = planned(time_source("2019-12-01", "P0D", "daily"), "2020-02-21", state, accept_new_partitions=True)
    assert {work.failures for work in plan.works()} == {0}
    assert advance_units(state, plan, []).failures == {}
