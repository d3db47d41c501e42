"""Work units: partitions that stay, decisions that move one way, and no row lost or doubled whatever fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from laws.unit_world import BEGIN, UnitWorld
from support.long_runs import examples
from support.work_units import time_source
from tidegate.core.calendar import milliseconds, shift, zone_named
from tidegate.core.units.plan import UnitPlan
from tidegate.core.units.planner import failure_start
from tidegate.core.units.state import (
    Coverage,
    Failure,
    UnitEntry,
    UnitState,
    add_range,
    decode_units,
    encode_units,
    remove_range,
)
from tidegate.core.units.time_range import cut
from tidegate.errors import WatermarkError
from tidegate.specs.units import PartialPartition, PartitionKind, Replace, Span, UnitSource

UNITS = ("a", "b", "c")
zones = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
kinds = st.sampled_from(list(PartitionKind))
cut_kinds = st.sampled_from([each for each in PartitionKind if each is not PartitionKind.NONE])
hours = st.integers(0, 48)
spans = st.builds(Span, st.integers(0, 4), st.integers(0, 30).map(lambda each: timedelta(hours=each)))
beginnings = st.sampled_from(["2026-03-26", "2026-03-27 02:30", "2026-03-24T05:00Z", "P5D", "P2DT5H"])
ends = st.sampled_from(["-", "P0D", "P1D", "P0DT7H", "P0DT1H30M"])
moments = st.integers(0, 60 * 24 * 15).map(lambda minutes: BEGIN + timedelta(minutes=minutes))
"""Within weeks around the clock changes of spring."""


REPLACING = [mode for mode in Replace if mode is not Replace.NONE]
"""Those that promise each row once; ``none`` keeps every read."""


@st.composite
def sources(draw: st.DrawFn, modes: st.SearchStrategy[Replace] | None = None) -> UnitSource:
    return time_source(
        draw(beginnings),
        draw(ends),
        draw(kinds),
        partial=draw(st.sampled_from(list(PartialPartition))),
        timezone=draw(zones),
        grace=draw(spans),
        abstinent=draw(st.one_of(st.just(Span()), spans)),
        catch_up=draw(st.booleans()),
        replace=draw(modes or st.sampled_from(REPLACING)),
    )


@dataclass(frozen=True, slots=True)
class Step:
    """A run some hours later, of which some work units fail; before it, perhaps, something is changed."""

    hours: int
    failing: int = 0
    units: tuple[str, ...] = UNITS
    grace: Span | None = None
    cap: int | None = None
    reset: tuple[int, int] | None = None
    kind: PartitionKind | None = None


rarely_failing = st.one_of(st.just(0), st.integers(0, 2**16 - 1))
steps = st.builds(
    Step,
    hours,
    rarely_failing,
    st.sampled_from([UNITS, UNITS, UNITS, ("a", "c"), ("b",)]),
    st.one_of(st.none(), spans),
    st.one_of(st.none(), st.none(), st.integers(1, 6)),
    st.one_of(st.none(), st.none(), st.tuples(st.integers(0, 200), st.integers(1, 100))),
    st.one_of(st.none(), st.none(), st.none(), kinds),
)


@contextmanager
def refused(*problems: str) -> Iterator[None]:
    """What is refused for one of these reasons does not happen; no other reason is right."""
    try:
        yield
    except WatermarkError as error:
        if not any(problem in error.problem for problem in problems):
            raise


def taken(world: UnitWorld, source: UnitSource, taken_steps: list[Step]) -> UnitSource:
    """The source after these steps in ``world``, each checked."""
    now = BEGIN + timedelta(days=1)
    for step in taken_steps:
        now += timedelta(hours=step.hours)
        work = replace(source.work, parallelism_max=step.cap, partition=step.kind or source.work.partition)
        changed = replace(source, grace=step.grace or source.grace, work=work)
        if step.reset is not None and world.state is not None:
            low = milliseconds(BEGIN + timedelta(hours=step.reset[0]))
            with refused("cannot be reset below"):
                world.reset(step.units[:1], low, low + step.reset[1] * 3_600_000)
        plan = None
        with refused("is to read units again", "read in part"):
            plan = world.plan(changed, now, step.units, step.kind is not None)
        if plan is not None:
            source, before = changed, world.state
            left = before is not None and any(entry.left for entry in before.entries.values())
            is_plain = step.cap is None and source.abstinent.is_zero and not left
            if world.run(source, plan, step.failing) and is_plain:
                world.check_late_rows(source, plan, before)
            world.check()
    return source


@pytest.mark.parametrize("mode", REPLACING)
@settings(max_examples=examples(60), deadline=None)
@given(sources(), st.lists(steps, max_size=6), st.lists(st.integers(0, 100), min_size=1, max_size=4).map(tuple))
def test_every_row_is_there_once_and_no_hole_is_jumped_over(
    mode: Replace, source: UnitSource, taken_steps: list[Step], delays: tuple[int, ...]
) -> None:
    taken(UnitWorld(UNITS, delays), replace(source, replace=mode), taken_steps)


@settings(max_examples=examples(40), deadline=None)
@given(sources(), st.lists(steps, max_size=4))
def test_at_the_same_moment_without_grace_nothing_runs_twice(source: UnitSource, taken_steps: list[Step]) -> None:
    world = UnitWorld(UNITS, (0,))
    calm = [replace(step, grace=None, kind=None, reset=None) for step in taken_steps]
    source = taken(world, replace(source, grace=Span()), calm)
    source = replace(source, work=replace(source.work, parallelism_max=None))
    now = BEGIN + timedelta(days=1, hours=sum(step.hours for step in taken_steps))
    world.run(source, world.plan(source, now, UNITS, False), 0)
    assert world.plan(source, now, UNITS, False).count == 0


def ranges(plan: UnitPlan) -> dict[tuple[str, int], tuple[int, int | None]]:
    """By identity; a beginning that floats is rounded otherwise with an abstinent period, and is none."""
    return {(work.unit, failure_start(work.start, work.nominal_end)): (work.low, work.before) for work in plan.works()}


@settings(max_examples=examples(50), deadline=None)
@given(sources(), st.lists(steps, max_size=4), spans)
def test_more_grace_never_removes_a_work_unit_nor_moves_a_low_bound_forward(
    source: UnitSource, taken_steps: list[Step], more: Span
) -> None:
    world = UnitWorld(UNITS, (0,))
    source = taken(world, source, [replace(step, cap=None) for step in taken_steps])
    wider = replace(source, grace=Span(source.grace.days + more.days, source.grace.elapsed + more.elapsed))
    now = BEGIN + timedelta(days=3, hours=sum(step.hours for step in taken_steps))
    with refused("read in part"):
        less, greater = (ranges(world.plan(each, now, UNITS, False)) for each in (source, wider))
        assert less.keys() <= greater.keys()
        assert all(greater[key][0] <= low for key, (low, _) in less.items())


@settings(max_examples=examples(50), deadline=None)
@given(sources(), st.lists(steps, max_size=4), spans)
def test_more_abstinence_never_adds_a_work_unit_that_was_read(
    source: UnitSource, taken_steps: list[Step], more: Span
) -> None:
    world = UnitWorld(UNITS, (0,))
    source = taken(world, source, [replace(step, cap=None) for step in taken_steps])
    longer = Span(source.abstinent.days + more.days, source.abstinent.elapsed + more.elapsed)
    now = BEGIN + timedelta(days=3, hours=sum(step.hours for step in taken_steps))
    with refused("read in part"):
        less, greater = (
            ranges(world.plan(each, now, UNITS, False)) for each in (source, replace(source, abstinent=longer))
        )
        again = {key for key, (_, before) in greater.items() if before is not None}
        # With the first abstinent period a relative beginning is rounded to its day: the range itself begins earlier.
        begin = cut(source, now).start
        assert {(unit, start) for unit, start in again if start >= begin or not start} <= less.keys()


@settings(max_examples=examples(60), deadline=None)
@given(sources(), moments)
def test_partitions_are_contiguous_and_cover_the_range(source: UnitSource, now: datetime) -> None:
    found = cut(source, now)
    if found.start >= found.end:
        assert (found.partitions, found.dropped) == ((), None)
        return
    parts = [*found.partitions, *([found.dropped] if found.dropped else [])]
    assert (parts[0].start, parts[-1].end) == (found.start, found.end)
    assert all(one.end == one.nominal_end == other.start for one, other in pairwise(parts))
    assert all(each.start < each.end for each in parts)
    assert all(each.nominal_end is None or each.end <= each.nominal_end for each in parts)


@settings(max_examples=examples(60), deadline=None)
@given(sources(), cut_kinds, moments, moments)
def test_plans_at_two_times_share_all_full_partitions(
    source: UnitSource, kind: PartitionKind, one: datetime, other: datetime
) -> None:
    source = replace(source, work=replace(source.work, partition=kind))
    earlier, later = cut(source, min(one, other)), cut(source, max(one, other))
    full = {each for each in earlier.partitions if each.end == each.nominal_end and each.start >= later.start}
    assert full <= set(later.partitions)
    assert {each.start for each in earlier.partitions if each.start >= later.start} <= {
        each.start for each in (*later.partitions, *([later.dropped] if later.dropped else []))
    }
    assert earlier.grid == later.grid


times = st.datetimes(datetime(2026, 1, 1), datetime(2026, 12, 31)).map(
    lambda each: milliseconds(each.replace(tzinfo=UTC))
)


@given(times, zones, spans, spans, spans)
@example(
    milliseconds(datetime(2026, 10, 25, 0, 30, tzinfo=UTC)), "Europe/Berlin", Span(1), Span(), Span(0, timedelta(1))
)
def test_more_to_add_is_never_earlier_and_more_to_take_away_never_later(
    moment: int, zone: str, later: Span, earlier: Span, more: Span
) -> None:
    where = zone_named(zone)
    middle = shift(moment, where, later=later, earlier=earlier)
    longer, shorter = (Span(span.days + more.days, span.elapsed + more.elapsed) for span in (later, earlier))
    assert shift(moment, where, later=longer, earlier=earlier) >= middle
    assert shift(moment, where, later=later, earlier=shorter) <= middle


pieces = st.lists(st.tuples(st.integers(-50, 50), st.integers(0, 20)), max_size=6)


def united(parts: list[tuple[int, int]], tick: int = 1) -> Coverage:
    coverage: Coverage = ()
    for low, length in parts:
        coverage = add_range(coverage, low * tick, (low + length) * tick)
    return coverage


@given(pieces, st.integers(-60, 60), st.integers(0, 40))
def test_coverage_is_a_set_of_times(parts: list[tuple[int, int]], low: int, length: int) -> None:
    covered = {each for begin, size in parts for each in range(begin, begin + size)}
    cut_out = set(range(low, low + length))
    coverage = united(parts)
    assert {each for begin, end in coverage for each in range(begin, end)} == covered
    assert all(one[1] < other[0] for one, other in pairwise(coverage))
    rest = remove_range(coverage, low, low + length)
    assert {each for begin, end in rest for each in range(begin, end)} == covered - cut_out
    assert united([(begin, end - begin) for begin, end in reversed(coverage)]) == coverage


entries = st.builds(
    lambda coverage, starts, left, settled, tick: UnitEntry(
        united(coverage, tick),
        tuple(sorted(start * tick for start in starts)),
        united(left, tick),
        None if settled is None else settled * tick,
    ),
    pieces,
    st.sets(st.integers(-50, 50), max_size=5),
    pieces,
    st.none() | st.integers(-50, 50),
    st.sampled_from([1, 1000, 3_600_000]),
)
names = st.text(max_size=4)
states = st.builds(
    UnitState,
    zones,
    names,
    st.integers(0, 99),
    st.dictionaries(names, entries, max_size=5),
    st.dictionaries(
        st.tuples(names, st.integers()), st.builds(Failure, st.integers(1, 9), st.integers(0, 9), names), max_size=3
    ),
    st.dictionaries(names, names, max_size=2),
    st.none() | names,
    st.none() | st.datetimes(timezones=st.just(UTC)),
)


@given(states)
def test_a_state_survives_its_json(state: UnitState) -> None:
    encoded = encode_units(state)
    assert decode_units(json.loads(json.dumps(encoded))) == state
    assert encode_units(decode_units(encoded)) == encoded
