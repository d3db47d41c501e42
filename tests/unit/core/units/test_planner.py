"""Which work units run, with which range and why: the tables of grace, abstinence, catch-up and failures."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from support.errors import raises
from support.work_units import after, at, cutoff, moment, planned, read, time_source
from tidegate.core.units.plan import UnitPlan, WhyRun, WhySkipped
from tidegate.core.units.planner import advance_units, plan_units
from tidegate.core.units.state import UnitEntry, Units
from tidegate.errors import WatermarkError
from tidegate.specs.columns import HttpRead, JdbcRead
from tidegate.specs.locations import Location
from tidegate.specs.units import (
    Bounding,
    FileFormat,
    FileRead,
    PartialPartition,
    RangeParam,
    Replace,
    Rounding,
    Span,
    UnitSource,
)

WHOLE_MONTHS = 13
GRACE = Span(3)
MONTHLY = time_source("2019-01-01", "-", "monthly", grace=GRACE)
DAILY = time_source("2020-01-01", "P0D", "daily", grace=GRACE)


def whys(plan: UnitPlan) -> list[WhyRun]:
    return [work.why for work in plan.works()]


def skipped(plan: UnitPlan) -> dict[WhySkipped, int]:
    counts: dict[WhySkipped, int] = {}
    for each in plan.skipped:
        counts[each.why] = counts.get(each.why, 0) + each.count
    return counts


def test_the_first_run_reads_everything_and_has_no_cut_off() -> None:
    plan = planned(time_source("2020-01-01", "P0D", grace=GRACE), "2020-01-15")
    assert (cutoff(plan), read(plan), whys(plan)) == (None, ["[2020-01-01, 2020-01-15)"], [WhyRun.FIRST])


def test_grace_of_three_days_moves_the_cut_off_back() -> None:
    source = time_source("2020-01-01", "P0D", grace=GRACE)
    plan = planned(source, "2020-01-16", after(source, "2020-01-15"))
    assert (cutoff(plan), read(plan)) == ("2020-01-12", ["[2020-01-12, 2020-01-16)"])


def test_grace_beyond_the_beginning_is_clipped() -> None:
    source = time_source("2020-01-01", "P0D", grace=Span(30))
    assert read(planned(source, "2020-01-16", after(source, "2020-01-15"))) == ["[2020-01-01, 2020-01-16)"]


def test_monthly_on_the_next_day_reads_only_the_last_days_of_the_last_month() -> None:
    plan = planned(MONTHLY, "2020-02-22", after(MONTHLY, "2020-02-21"))
    assert (cutoff(plan), read(plan)) == ("2020-02-18", ["[2020-02-18, 2020-02-22)"])
    assert skipped(plan) == {WhySkipped.DONE: WHOLE_MONTHS}
    assert len(plan.skipped) == 1


def test_monthly_after_a_pause_finishes_the_month_and_begins_the_next() -> None:
    plan = planned(MONTHLY, "2020-03-02", after(MONTHLY, "2020-02-21"))
    assert read(plan) == ["[2020-02-18, 2020-03-01)", "[2020-03-01, 2020-03-02)"]
    assert whys(plan) == [WhyRun.NEW, WhyRun.FIRST]


def test_daily_with_grace_reads_three_days_again_and_the_new_one() -> None:
    plan = planned(DAILY, "2020-02-22", after(DAILY, "2020-02-21"))
    assert cutoff(plan) == "2020-02-18"
    assert read(plan) == [f"[2020-02-{day}, 2020-02-{day + 1})" for day in (18, 19, 20, 21)]
    assert whys(plan) == [WhyRun.NEW] * 3 + [WhyRun.FIRST]


def test_daily_without_grace_reads_only_the_new_day() -> None:
    source = replace(DAILY, grace=Span())
    assert read(planned(source, "2020-02-22", after(source, "2020-02-21"))) == ["[2020-02-21, 2020-02-22)"]


@pytest.mark.parametrize(("now", "expected"), [("2020-01-16", []), ("2020-01-17", ["[2020-01-15, 2020-01-17)"])])
def test_abstinent_one_day_after_01_15(now: str, expected: list[str]) -> None:
    source = time_source("2020-01-01", "P0D", abstinent=Span(1))
    plan = planned(source, now, after(source, "2020-01-15"))
    assert read(plan) == expected
    assert skipped(plan) == ({} if expected else {WhySkipped.ABSTINENT: 1})
    assert "high watermark less the grace period" in plan.remarks[0]


def test_what_abstains_tells_from_when_on_it_may_run() -> None:
    source = time_source("2020-01-01", "P0D", abstinent=Span(2))
    state = after(source, "2020-01-15")
    assert planned(source, "2020-01-16 05:00", state).skipped[0].eligible == at("2020-01-18")
    assert read(planned(source, "2020-01-17 23:59", state)) == []
    assert read(planned(source, "2020-01-18", state)) == ["[2020-01-15, 2020-01-18)"]


@pytest.mark.parametrize("days", [7, 8])
def test_of_seven_daily_files_exactly_the_new_one_is_read_each_day(days: int) -> None:
    source = time_source("2020-01-01", "P0D", abstinent=Span(days), replace=Replace.UNIT)
    files = [f"file202001{day:02}" for day in range(1, 32)]
    state = after(source, "2020-01-14", units=tuple(files[7:14]))
    for day in range(15, 26):
        plan = planned(source, f"2020-01-{day}", state, tuple(files[day - 7 : day]))
        assert [work.unit for work in plan.works()] == [files[day - 1]]
        state = advance_units(state, plan, list(plan.works()))


def test_without_abstinence_yesterdays_file_is_read_again() -> None:
    source = time_source("2020-01-01", "P0D")
    state = after(source, "2020-01-15", units=("file20200115",))
    plan = planned(source, "2020-01-16", state, ("file20200115", "file20200116"))
    assert read(plan) == ["file20200115 [2020-01-15, 2020-01-16)", "file20200116 [2020-01-01, 2020-01-16)"]


def test_each_file_has_its_own_watermark() -> None:
    source = time_source("2020-01-01", "P0D", abstinent=Span(1))
    state = after(source, "2020-01-15", units=("A",))
    state = after(source, "2020-01-16", units=("B",), state=state)
    plan = planned(source, "2020-01-17", state, ("A", "B"))
    assert read(plan) == ["A [2020-01-15, 2020-01-17)"]
    assert [(each.why, each.units) for each in plan.skipped] == [(WhySkipped.ABSTINENT, ("B",))]


def test_an_old_month_that_failed_on_the_first_run_runs_whole() -> None:
    state = after(MONTHLY, "2020-02-21", failing=(("2020-02-21", "", "2019-05-01"),))
    plan = planned(MONTHLY, "2020-02-22", state)
    assert cutoff(plan) == "2020-02-18"
    assert read(plan) == ["[2019-05-01, 2019-06-01)", "[2020-02-18, 2020-02-22)"]
    assert [work.failures for work in plan.works()] == [1, 0]


def test_when_all_failed_all_run_whole() -> None:
    first = planned(MONTHLY, "2020-02-21")
    state = advance_units(None, first, [], [(work, "refused") for work in first.works()])
    plan = planned(MONTHLY, "2020-02-21", state)
    assert cutoff(plan) is None
    assert read(plan) == read(first)
    assert {work.failures for work in plan.works()} == {1}


def test_a_tail_that_failed_while_the_next_month_succeeded_is_caught_up() -> None:
    state = after(MONTHLY, "2020-02-21", "2020-03-10", failing=(("2020-03-10", "", "2020-02-01"),))
    plan = planned(MONTHLY, "2020-03-11", state)
    assert cutoff(plan) == "2020-03-07"
    assert read(plan) == ["[2020-02-18, 2020-03-01)", "[2020-03-07, 2020-03-11)"]
    assert whys(plan) == [WhyRun.CATCH_UP, WhyRun.NEW]


def test_without_catch_up_an_unfinished_month_below_the_cut_off_stays() -> None:
    source = replace(MONTHLY, catch_up=False)
    state = after(source, "2020-02-21", "2020-03-10", failing=(("2020-03-10", "", "2020-02-01"),))
    plan = planned(source, "2020-03-11", state)
    assert read(plan) == ["[2020-03-07, 2020-03-11)"]
    assert skipped(plan) == {WhySkipped.DONE: WHOLE_MONTHS, WhySkipped.GRACE_OVER: 1}


def test_of_two_units_only_the_one_that_failed_runs() -> None:
    source = time_source("2020-01-01", "P0D", "daily")
    state = after(source, "2020-02-21", units=("A", "B"), failing=(("2020-02-21", "A", "2020-02-20"),))
    plan = planned(source, "2020-02-21", state, ("A", "B"))
    assert read(plan) == ["A [2020-02-20, 2020-02-21)"]


def test_a_failure_never_creates_raises_or_lowers_a_high_watermark() -> None:
    state = after(MONTHLY, "2020-02-21")
    plan = planned(MONTHLY, "2020-02-22", state)
    assert advance_units(state, plan, [], [(work, "refused") for work in plan.works()]).entries == state.entries


def test_success_without_rows_raises_the_high_watermark() -> None:
    state = after(MONTHLY, "2020-02-21")
    assert state.entries[""].coverage == ((at("2019-01-01"), at("2020-02-21")),)


def test_at_the_same_moment_nothing_runs_twice() -> None:
    source = replace(MONTHLY, grace=Span())
    plan = planned(source, "2020-02-21", after(source, "2020-02-21"))
    assert (read(plan), skipped(plan)) == ([], {WhySkipped.DONE: WHOLE_MONTHS, WhySkipped.UP_TO_DATE: 1})


def test_the_cut_off_is_about_the_units_of_the_plan_and_others_are_stale() -> None:
    source = time_source("2020-01-01", "P0D", grace=Span(1))
    state = after(source, "2020-01-10", units=("A",))
    state = after(source, "2020-01-20", units=("B",), state=state)
    plan = planned(source, "2020-01-21", state, ("A",))
    assert (cutoff(plan), plan.stale, read(plan)) == ("2020-01-09", ("B",), ["A [2020-01-09, 2020-01-21)"])


def test_the_cut_off_of_the_job_is_that_of_the_unit_that_came_furthest() -> None:
    source = time_source("2020-01-01", "P0D", "daily", grace=Span(1))
    state = after(source, "2020-01-10", units=("A",))
    state = after(source, "2020-01-20", units=("B",), state=state)
    plan = planned(source, "2020-01-20", state, ("A", "B"))
    assert cutoff(plan) == "2020-01-19"
    days = [f"A [2020-01-{day}, 2020-01-{day + 1})" for day in range(10, 19)]
    assert read(plan) == [*days, "A [2020-01-19, 2020-01-20)", "B [2020-01-19, 2020-01-20)"]


def test_a_unit_that_returns_goes_on() -> None:
    source = time_source("2020-01-01", "P0D")
    state = after(source, "2020-01-10", units=("A", "B"))
    state = after(source, "2020-01-15", units=("B",), state=state)
    assert read(planned(source, "2020-01-16", state, ("A", "B")))[0] == "A [2020-01-10, 2020-01-16)"


def test_a_retired_unit_is_not_planned_until_it_is_tried_again() -> None:
    source = time_source("2020-01-01", "P0D", "daily")
    first = planned(source, "2020-01-03", units=("A", "B"))
    done = [work for work in first.works() if work.unit == "B"]
    state = advance_units(None, first, done, retired={"A": "404"})
    plan = planned(source, "2020-01-04", state, ("A", "B"))
    assert read(plan) == ["B [2020-01-03, 2020-01-04)"]
    assert skipped(plan)[WhySkipped.RETIRED] == 3
    assert len(read(planned(source, "2020-01-04", state.forget_failures(["A"]), ("A", "B")))) == 4


def test_an_empty_range_is_told() -> None:
    plan = planned(time_source("2020-03-01", "P0D", "monthly"), "2020-02-21")
    assert (plan.count, plan.partitions) == (0, ())
    assert plan.notes == (
        "the range is empty: it begins at 2020-03-01 and ends at 2020-02-21 (UTC); there is nothing to read",
    )


def test_a_last_partition_that_is_left_out_is_told() -> None:
    plan = planned(time_source("2020-02-20", "-", "daily"), "2020-02-21 10:00")
    assert plan.notes == ()
    assert plan.remarks == (
        "the partition from 2020-02-21 on is not full yet and is left out; partial_partition: all would read it",
    )


def test_fewer_units_than_there_must_be_are_refused() -> None:
    source = time_source(min_units=3)
    with raises(WatermarkError, "'surveys'", "2 units", "min_units", "3"):
        planned(source, "2020-01-15", units=("A", "B"))
    assert planned(source, "2020-01-15", units=("A", "B", "C")).count == 3


def test_a_unit_that_is_there_twice_is_refused() -> None:
    with raises(WatermarkError, "'A'", "2 times"):
        planned(MONTHLY, "2020-02-21", units=("A", "B", "A"))


def test_no_units_give_no_work_units() -> None:
    plan = planned(MONTHLY, "2020-02-21", units=())
    assert (plan.count, plan.skipped, plan.units) == (0, (), ())


def test_without_a_time_watermark_everything_is_read_each_time() -> None:
    source = replace(time_source(replace=Replace.UNIT), time=None)
    plan = planned(source, "2020-01-16", after(source, "2020-01-15"))
    assert read(plan) == ["[1970-01-01, 2020-01-16)"]
    merging = replace(source, replace=Replace.MERGE_KEYS)
    assert read(planned(merging, "2020-01-16", after(merging, "2020-01-15"))) == ["[1970-01-01, 2020-01-16)"]


def test_work_units_are_in_the_order_of_partitions_then_units() -> None:
    source = time_source("2020-01-01", "P0D", "daily")
    plan = planned(source, "2020-01-03", units=("B", "A"))
    assert [(work.unit, work.start) for work in plan.works()] == [
        ("B", at("2020-01-01")),
        ("A", at("2020-01-01")),
        ("B", at("2020-01-02")),
        ("A", at("2020-01-02")),
    ]
    assert len(plan.runs) == 2


def test_grace_counts_calendar_days_in_the_zone_and_elapsed_hours() -> None:
    source = time_source("2026-03-01", "P0D", grace=Span(1), timezone="Europe/Berlin")
    state = after(source, "2026-03-29 10:00")
    assert read(planned(source, "2026-03-29 11:00", state)) == ["[2026-03-28 12:00, 2026-03-29 13:00)"]
    hours = replace(source, grace=Span(0, timedelta(hours=24)), replace=Replace.TIME_COLUMN)
    assert read(planned(hours, "2026-03-29 11:00", state)) == ["[2026-03-28 11:00, 2026-03-29 13:00)"]


def test_the_whole_work_unit_is_read_again_where_it_is_replaced_as_a_whole() -> None:
    source = replace(MONTHLY, replace=Replace.UNIT)
    plan = planned(source, "2020-02-22", after(source, "2020-02-21"))
    assert read(plan) == ["[2020-02-01, 2020-02-22)"]
    assert [work.segments for work in plan.works()] == [((at("2020-02-01"), at("2020-02-22")),)]


def test_an_extraction_is_cut_where_the_next_one_will_begin() -> None:
    (work,) = planned(time_source("2020-01-01", "P0D", grace=GRACE), "2020-01-15").works()
    assert work.segments == ((at("2020-01-01"), at("2020-01-12")), (at("2020-01-12"), at("2020-01-15")))


@pytest.mark.parametrize("mode", [Replace.TIME_COLUMN, Replace.MERGE_KEYS, Replace.UNIT, Replace.NONE])
def test_other_ways_to_replace_have_one_segment(mode: Replace) -> None:
    (work,) = planned(time_source("2020-01-01", "P0D", grace=GRACE, replace=mode), "2020-01-15").works()
    assert work.segments == ((work.low, work.high),)


def test_what_is_kept_as_history_is_never_replaced() -> None:
    source = time_source("2020-01-01", "P0D", grace=GRACE, replace=Replace.NONE)
    state = after(source, "2020-01-15")
    plan = planned(source, "2020-01-16", state)
    assert read(plan) == ["[2020-01-12, 2020-01-16)"]
    reset = planned(source, "2020-01-16", state.without_units(None, None, None))
    assert read(reset) == ["[2020-01-01, 2020-01-16)"]
    assert not any(work.replaces for each in (plan, reset) for work in each.works())
    everything = replace(source, time=None, grace=Span())
    state = after(everything, "2020-01-15")
    assert read(planned(everything, "2020-01-16", state)) == ["[2020-01-15, 2020-01-16)"]


FILE = FileRead(FileFormat.CSV, Location("file:///in/{{file}}"))
DAY = RangeParam("d", Bounding.LOW)


def test_a_request_without_the_time_replaces_whatever_was_read_of_its_unit() -> None:
    doubled = time_source("P2D", "P0D", read=FILE)
    state = after(doubled, "2020-01-15", "2020-01-16", "2020-01-17", "2020-01-18")
    whole = replace(doubled, replace=Replace.UNIT)
    for now in ("2020-01-19", "2020-03-01"):
        (work,) = planned(whole, now, state).works()
        assert (work.low, work.replaces) == (at("2020-01-13"), True)


@pytest.mark.parametrize(
    ("source", "repeats"),
    [
        (time_source(read=FILE), True),
        (time_source(read=FILE, kind="monthly"), True),
        (time_source(read=FILE, replace=Replace.UNIT), False),
        (time_source(read=FILE, replace=Replace.NONE), False),
        (time_source(read=FILE, replace=Replace.MERGE_KEYS), False),
        (time_source(read=FILE, time_column="at", replace=Replace.TIME_COLUMN), False),
        (time_source(), False),
        (time_source(read=FileRead(FileFormat.CSV, Location("file:///in/{{ d }}/{{file}}")), params=(DAY,)), False),
        (time_source(read=FILE, params=(DAY,)), True),
        (time_source(read=JdbcRead("jdbc:x", table="t")), True),
        (time_source(read=JdbcRead("jdbc:x", query="select {{file}}"), params=(DAY,)), True),
        (time_source(read=JdbcRead("jdbc:x", query="select {{d}}"), params=(DAY,)), False),
        (time_source(read=HttpRead("http://h", "/{{file}}")), True),
        (time_source(read=HttpRead("http://h", "/{{file}}"), params=(DAY,)), False),
        (time_source(read=FileRead(FileFormat.CSV, http=HttpRead("http://h", "/{{file}}"))), True),
        (replace(time_source(read=FILE), time=None), False),
    ],
)
def test_units_that_would_be_appended_once_more_are_named(source: UnitSource, repeats: bool) -> None:
    assert planned(source, "2020-01-02", None, ("A", "B")).repeats == ()
    state = after(source, "2020-01-02", units=("A",))
    assert planned(source, "2020-01-03", state, ("A", "B")).repeats == (("A",) if repeats else ())
    assert planned(source, "2020-01-03", state.without_units(["A"], None, None), ("A", "B")).repeats == ()


def test_a_unit_that_was_reset_is_replaced_as_a_whole_or_named() -> None:
    source = time_source("P2D", "P0D", read=FILE, abstinent=Span(2))
    state = after(source, "2020-01-15", units=("A",))
    (work,) = planned(source, "2020-01-25", state.without_units(None, None, None), ("A",)).works()
    assert (work.low, work.high, work.replaces) == (at("2020-01-13"), at("2020-01-25"), True)
    (early,) = planned(source, "2020-01-10", state.without_units(None, None, None), ("A",)).works()
    assert (early.low, early.high, early.replaces) == (at("2020-01-08"), at("2020-01-15"), True)
    upper = planned(source, "2020-01-25", state.without_units(None, at("2020-01-14"), None), ("A",))
    assert [(each.low, each.replaces) for each in upper.works()] == [(at("2020-01-13"), True)]
    lower = planned(source, "2020-01-25", state.without_units(None, None, at("2020-01-14")), ("A",))
    assert lower.repeats == ("A",), "reset in part, and the rest would stay"


def test_the_segment_before_is_known_however_long_ago_it_was_read() -> None:
    source = time_source("P2D", "P0D")
    state = after(source, "2020-01-08", "2020-01-10")
    (work,) = planned(source, "2020-01-20", state).works()
    assert (work.low, work.follows) == (at("2020-01-18"), (at("2020-01-08"), at("2020-01-10")))
    (reset,) = planned(source, "2020-01-20", state.without_units(None, None, None)).works()
    assert reset.follows == work.follows, "its rows are still there"
    assert planned(source, "2020-01-20").runs[0].pattern.follows is None


@pytest.mark.parametrize("reset", [False, True])
def test_a_request_without_the_time_replaces_what_was_read_in_partitions(reset: bool) -> None:
    daily = time_source("2020-01-13", "P0D", "daily", read=FILE, replace=Replace.NONE)
    state = after(daily, "2020-01-15", units=("A",))
    if reset:
        state = state.without_units(None, None, None)
    whole = time_source("2020-01-13", "P0D", read=FILE, replace=Replace.UNIT)
    plan = planned(whole, "2020-01-16", state, ("A",), accept_new_partitions=True)
    (work,) = plan.works()
    assert (work.low, work.high, work.replaces) == (at("2020-01-13"), at("2020-01-16"), True)
    entry = advance_units(state, plan, [work]).entries["A"]
    assert (entry.coverage, entry.left, entry.settled) == (((work.low, work.high),), (), None)


@pytest.mark.parametrize("mode", [Replace.SEGMENTS, Replace.UNIT])
def test_two_partitions_that_would_read_the_same_are_named(mode: Replace) -> None:
    source = time_source("2020-01-01", "-", "monthly", read=FILE, replace=mode)
    assert planned(source, "2020-01-20", None, ("A", "B")).repeats == ()
    assert planned(source, "2020-02-20", None, ("A", "B")).repeats == ("A", "B")
    assert planned(replace(source, replace=Replace.NONE), "2020-02-20", None, ("A", "B")).repeats == ()


def test_a_larger_grace_widens_down_to_the_beginning_of_a_segment() -> None:
    source = time_source("2020-01-01", "P0D", grace=GRACE)
    state = after(source, "2020-01-15", "2020-01-20")
    assert read(planned(source, "2020-01-21", state)) == ["[2020-01-17, 2020-01-21)"]
    wider = replace(source, grace=Span(5))
    assert read(planned(wider, "2020-01-21", state)) == ["[2020-01-12, 2020-01-21)"]
    assert read(planned(replace(wider, replace=Replace.TIME_COLUMN), "2020-01-21", state)) == [
        "[2020-01-15, 2020-01-21)"
    ]
    assert read(planned(replace(source, grace=Span(9)), "2020-01-21", state)) == ["[2020-01-01, 2020-01-21)"]


def test_only_what_was_read_before_is_replaced() -> None:
    state = after(MONTHLY, "2020-02-21")
    plan = planned(MONTHLY, "2020-03-02", state, ("", "new"))
    replaces = {(work.unit, work.start): work.replaces for work in plan.works()}
    assert replaces.pop(("", at("2020-02-01")))
    assert not any(replaces.values())


def test_a_range_never_ends_below_what_was_read() -> None:
    source = time_source("2020-01-01", "-", "monthly", grace=Span(30))
    state = after(source, "2020-01-20")
    assert read(planned(source, "2020-01-10", state)) == ["[2020-01-01, 2020-01-20)"]


def test_what_was_reset_is_read_again_and_replaced() -> None:
    source = time_source("2020-01-01", "P0D", "daily")
    state = after(source, "2020-01-05", units=("A", "B"))
    state = state.without_units(["A"], at("2020-01-02"), at("2020-01-04"))
    plan = planned(source, "2020-01-05", state, ("A", "B"))
    assert read(plan) == ["A [2020-01-02, 2020-01-03)", "A [2020-01-03, 2020-01-04)"]
    assert all(work.replaces for work in plan.works())
    state = advance_units(state, plan, list(plan.works()))
    assert state.entries["A"] == state.entries["B"] == UnitEntry(((at("2020-01-01"), at("2020-01-05")),))


def test_a_hole_inside_a_partition_is_not_jumped_over() -> None:
    source = time_source("2020-01-01", "P0D", "monthly")
    state = after(source, "2020-01-20").without_units(None, at("2020-01-05"), at("2020-01-08"))
    assert read(planned(source, "2020-01-21", state)) == ["[2020-01-01, 2020-01-21)"]
    timed = replace(source, replace=Replace.TIME_COLUMN)
    assert read(planned(timed, "2020-01-10", state)) == ["[2020-01-05, 2020-01-20)"]


def test_a_floating_beginning_goes_on_where_the_last_read_ended() -> None:
    source = time_source("P30D", "-", grace=Span(1))
    state = after(source, "2020-02-10", "2020-02-12")
    assert read(planned(source, "2020-02-13", state)) == ["[2020-02-11, 2020-02-13)"]
    assert read(planned(source, "2020-05-01", state)) == ["[2020-04-01, 2020-05-01)"]


def test_equal_arguments_give_equal_plans() -> None:
    state = after(MONTHLY, "2020-02-21", units=("A", "B"))
    assert planned(MONTHLY, "2020-02-22", state, ("A", "B")) == planned(MONTHLY, "2020-02-22", state, ("A", "B"))


def test_plan_and_state_keep_the_version_of_the_input() -> None:
    plan = plan_units("shop", MONTHLY, None, Units(("A",), version="12"), 5, moment("2020-02-21"))
    assert (plan.input_version, plan.position) == ("12", 5)
    assert advance_units(None, plan, []).input_version == "12"


def test_runs_are_counted() -> None:
    state = after(MONTHLY, "2020-02-21", "2020-02-22")
    assert (state.runs, planned(MONTHLY, "2020-02-23", state).run) == (2, 3)


def test_each_work_unit_has_its_own_reason() -> None:
    source = time_source("2020-01-01", "P0D", "daily", grace=Span(1))
    state = after(source, "2020-01-04", units=("A",))
    plan = planned(source, "2020-01-05", state, ("A", "B"))
    days = [at(f"2020-01-0{day}") for day in range(1, 5)]
    assert {(each.unit, each.start): each.why for each in plan.works()} == {
        ("A", days[2]): WhyRun.NEW,
        ("A", days[3]): WhyRun.FIRST,
        **{("B", day): WhyRun.FIRST for day in days},
    }
    assert [(each.why, each.units, each.first, each.last) for each in plan.skipped] == [
        (WhySkipped.DONE, ("A",), days[0], days[1])
    ]


def test_partial_days_are_read_to_their_end_when_they_are_kept() -> None:
    source = time_source("2020-01-01", "-", "daily", partial=PartialPartition.ALWAYS)
    state = after(source, "2020-01-02 10:00")
    assert read(planned(source, "2020-01-03", state)) == ["[2020-01-02 10:00, 2020-01-03)"]


def test_a_written_rounding_decides_the_end() -> None:
    source = time_source("2020-01-01", "-", end_round=Rounding.HOUR)
    assert read(planned(source, "2020-01-02 10:37")) == ["[2020-01-01, 2020-01-02 10:00)"]
