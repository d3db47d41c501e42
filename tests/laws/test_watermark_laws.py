"""Laws of the watermark's algebra: order, batches, recovery, cold start."""

from __future__ import annotations

from datetime import datetime, timedelta

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from laws.strategies import fates, moments, paths, world_paths
from laws.world import NOW, World, files, read, source
from support.long_runs import examples
from tidegate.core.calendar import Period
from tidegate.core.files.advance import PathSteps, advance
from tidegate.core.files.paths import (
    cold_start_bound,
    cold_start_prefixes,
    join,
    just_below,
    parse_template,
    sort_key,
    split,
)
from tidegate.core.files.state import PathState
from tidegate.specs.files import LateFiles, Lateness, PartitionFilter, PathSource

SETS = st.lists(world_paths, min_size=1, max_size=12, unique=True)
OPEN = source(lateness=Lateness(never=True))
WAYS = (
    OPEN,
    source(),
    source(lateness=Lateness(periods=1), late_window=2, late_window_total=3, max_islands=4),
    source(late_files=LateFiles.STRICT, lateness=Lateness(periods=2)),
    source(partition_filter=PartitionFilter("date=%Y-%m-%d/hour=%H", 30)),
)


@given(paths, paths)
def test_strings_compare_as_their_utf8_bytes_do(one: str, other: str) -> None:
    assert (split(one) < split(other)) == (sort_key(one) < sort_key(other))


@given(paths)
def test_a_path_is_its_partition_and_its_name(path: str) -> None:
    assert join(*split(path)) == path


@given(paths)
def test_listing_just_below_a_name_shows_it(path: str) -> None:
    name = split(path)[1]
    assert (just_below(name) or "") < name


@settings(deadline=None)
@given(SETS, st.data())
def test_batches_of_the_same_outcomes_give_the_same_watermark(there: list[str], data: st.DataObject) -> None:
    listed = files(*there)
    done = data.draw(st.permutations(data.draw(st.lists(st.sampled_from(there), unique=True))))
    whole = advance(OPEN, PathState(), listed, read(*done), NOW, complete=True).state
    state, rest = PathState(), list(done)
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        state = advance(OPEN, state, listed, read(*rest[:size]), NOW, complete=True).state
        rest = rest[size:]
    assert (state.partition_watermarks, state.files) == (whole.partition_watermarks, whole.files)
    assert (state.value, state.last_committed_file) == (whole.value, whole.last_committed_file)
    assert state.late_window == whole.late_window


@settings(deadline=None, max_examples=examples(2_000, 200))
@given(st.lists(SETS, min_size=1, max_size=3), st.sampled_from(WAYS), st.none() | st.integers(1, 6), st.data())
def test_steps_on_top_of_each_other_are_those_over_the_whole_listing(
    arrivals: list[list[str]], of: PathSource, limit: int | None, data: st.DataObject
) -> None:
    world = World(of)
    for batch in arrivals:
        for path in batch:
            world.arrive(path)
        for path in data.draw(st.lists(st.sampled_from(sorted(world.there)), max_size=1)):
            world.remove(path)
        plan = world.plan(limit)
        steps = PathSteps(of, plan.listed, plan.now, complete=plan.complete, directories=plan.directories)
        rest = data.draw(st.permutations([each for group in plan.groups for each in group.slices]))
        while rest:
            size = data.draw(st.integers(1, len(rest)))
            outcomes = [world.outcome(each, data.draw(fates)) for each in rest[:size]]
            step = steps.after(world.state, outcomes)
            assert step == world.commit(plan, outcomes)
            world.state, rest = step.state, rest[size:]


@settings(deadline=None)
@given(SETS)
def test_the_same_outcomes_again_change_nothing(there: list[str]) -> None:
    once = advance(OPEN, PathState(), files(*there), read(*there), NOW, complete=True)
    again = advance(OPEN, once.state, files(*there), read(*there), NOW + timedelta(days=1), complete=True)
    assert once.changed
    assert not again.changed
    assert again.state is once.state


@settings(deadline=None)
@given(SETS, st.data())
def test_a_watermark_has_everything_listed_below_it_finished(there: list[str], data: st.DataObject) -> None:
    done = set(data.draw(st.lists(st.sampled_from(there), unique=True)))
    state = advance(OPEN, PathState(), files(*there), read(*sorted(done)), NOW, complete=True).state
    for path in there:
        partition, name = split(path)
        below = name <= state.partition_watermarks.get(partition, "")
        assert (path in done) == (below or path in state.files)


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(SETS, min_size=2, max_size=4), st.data())
def test_a_state_recovered_from_the_log_doubles_nothing(arrivals: list[list[str]], data: st.DataObject) -> None:
    world = World(source(lateness=Lateness(never=True), max_attempts=1_000))
    for batch in arrivals:
        for path in batch:
            world.arrive(path)
        plan = world.plan()
        slices = [each for group in plan.groups for each in group.slices]
        world.commit(plan, [world.outcome(each, data.draw(fates)) for each in slices])
        world.restart(from_log=True)
        assert world.doubled() == set()
    world.drain()
    assert world.doubled() == set()


@settings(deadline=None, max_examples=examples(60))
@given(SETS, SETS, st.integers(0, 40), st.integers(0, 30), st.booleans())
def test_a_filtered_cold_start_reads_the_look_back_and_later_all_that_is_new(
    old: list[str], new: list[str], lookback: int, hours: int, dies: bool
) -> None:
    given_filter = PartitionFilter("date=%Y-%m-%d/hour=%H", lookback)
    world = World(source(partition_filter=given_filter, lateness=Lateness(never=True)))
    world.now = NOW - timedelta(days=2)
    for path in old:
        world.arrive(path)
    first = world.plan()
    prefixes = cold_start_prefixes(given_filter, world.now)
    assert {split(each.path)[0] for group in first.groups for each in group.slices} <= set(prefixes)
    if not dies:
        world.open(first)
        world.commit(first, [world.outcome(each, "whole") for group in first.groups for each in group.slices])
        assert not world.state.is_fresh
        world.now += timedelta(hours=hours)
    for path in new:
        world.arrive(path)
    bound = cold_start_bound(given_filter, world.now if dies else first.now)
    world.drain()
    assert world.doubled() == set()
    assert world.missing(lambda path: not is_older(path, bound.strftime("date=%Y-%m-%d/hour=%H"))) == set()
    assert not any(is_older(path, bound.strftime("date=%Y-%m-%d/hour=%H")) for path, _ in world.rows)


def is_older(path: str, prefix: str) -> bool:
    """Whether the partition of a path names an hour or a day that ended before the one of ``prefix``."""
    partition = split(path)[0]
    if not partition.startswith("date=") or partition.endswith("-x"):
        return False
    return partition < prefix[: len(partition)]


@given(
    st.sampled_from(("date=%Y-%m-%d/hour=%H", "d=%F", "%Y/%m/%d", "m=%Y-%m", "year=%Y", "r=a/x%%-%d-%m-%Y")),
    st.integers(0, 60),
    moments,
)
def test_prefixes_are_distinct_periods_that_end_now(template: str, lookback: int, now: datetime) -> None:
    prefixes = cold_start_prefixes(PartitionFilter(template, lookback), now)
    assume(len(prefixes) == lookback + 1)
    parsed = parse_template(template)
    times = [parsed.read(prefix.split("/")) for prefix in prefixes]
    order = [tuple((fields or {}).get(period, 0) for period in Period) for fields in times]
    assert order == sorted(set(order))
    assert prefixes[-1] == parsed.render(now)
