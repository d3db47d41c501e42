"""Laws of sealing: dates ahead of the clock seal nothing, seals only rise, and a wrong clock can be undone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from laws.world import World, advanced, read, source
from support.long_runs import examples
from tidegate.core.files.comparison import reopen_partitions
from tidegate.core.files.discovery import future_seals, is_due, is_sealed, lower_future_seals
from tidegate.core.files.paths import Layout, split
from tidegate.core.files.state import PathState
from tidegate.specs.files import LateFiles, Lateness, PartitionFilter, PathSource

TIME = datetime(2026, 6, 15, 7, 30, tzinfo=UTC)
LAYOUTS = ("date=%Y-%m-%d", "date=%Y-%m-%d/hour=%H", "year=%Y/month=%m", "region=eu/dt=%Y-%m-%d")
WAYS = (
    source(pattern="*"),
    source(pattern="*", lateness=Lateness(periods=1), late_window=2, late_window_total=3),
    source(pattern="*", lateness=Lateness(fixed=timedelta(days=7)), late_files=LateFiles.STRICT),
    source(pattern="*", partition_filter=PartitionFilter("date=%Y-%m-%d", 2)),
)
days = st.integers(-400, 400).map(lambda number: TIME + timedelta(hours=7 * number))
clocks = st.integers(0, 300).map(lambda number: timedelta(hours=5 * number))
ways = st.sampled_from(WAYS)
layouts = st.sampled_from(LAYOUTS)


def folders(layout: str, times: list[datetime]) -> list[str]:
    return sorted({f"{time:{layout}}/a" for time in times})


@given(ways, layouts, st.lists(days, min_size=1, max_size=6))
def test_a_folder_ahead_of_the_clock_seals_nothing(of: PathSource, layout: str, times: list[datetime]) -> None:
    there = folders(layout, times)
    come = [path for path in there if _start(of, path) <= TIME]
    with_ahead = advanced(of, PathState(), there, read(*there), TIME).state
    without = advanced(of, PathState(), come, read(*come), TIME).state
    assert {prefix: seal.below for prefix, seal in with_ahead.sealed.items()} == {
        prefix: seal.below for prefix, seal in without.sealed.items()
    } or not come
    ahead = {split(path)[0] for path in there} - {split(path)[0] for path in come}
    assert ahead <= set(with_ahead.partition_watermarks)


@settings(max_examples=examples(1_000, 100))
@given(ways, layouts, st.lists(st.tuples(days, clocks), min_size=1, max_size=6))
def test_whatever_the_clocks_watermarks_and_seals_only_rise(
    of: PathSource, layout: str, steps: list[tuple[datetime, timedelta]]
) -> None:
    world = World(of)
    for number, (time, clock) in enumerate(steps):
        world.now = TIME + clock
        world.arrive(f"{time:{layout}}/{number}")
        before = world.state
        world.drain()
        after = world.state
        for prefix, seal in before.sealed.items():
            assert after.sealed[prefix].below >= seal.below or not before.partition_watermarks
        for partition, name in before.partition_watermarks.items():
            assert after.partition_watermarks.get(partition, name) >= name
        assert not world.doubled()


@given(ways, layouts, st.lists(st.tuples(days, clocks), min_size=1, max_size=6), clocks)
def test_with_a_clock_that_only_goes_on_nothing_is_ever_sealed_ahead(
    of: PathSource, layout: str, steps: list[tuple[datetime, timedelta]], later: timedelta
) -> None:
    world = World(of)
    for number, (time, clock) in enumerate(sorted(steps, key=lambda step: step[1])):
        world.now = TIME + clock
        world.arrive(f"{time:{layout}}/{number}")
        world.drain()
        assert future_seals(of, world.state, world.now) == ()
    assert future_seals(of, world.state, world.now + later) == ()


@settings(max_examples=examples(1_000, 150))
@given(ways, layouts, st.lists(days, max_size=4), st.lists(days, min_size=1, max_size=4), clocks)
def test_after_a_repair_nothing_is_lost_or_doubled_and_nothing_is_sealed_ahead(
    of: PathSource, layout: str, first: list[datetime], more: list[datetime], wrong: timedelta
) -> None:
    world = World(of, now=TIME)
    for path in folders(layout, first):
        world.arrive(path)
    world.drain()
    world.now = TIME + wrong
    world.arrive(f"{world.now:{layout}}/b")
    world.drain()
    world.now = TIME
    for time in more:
        world.arrive(f"{time:{layout}}/c")
    world.drain()
    was_told = bool(future_seals(of, world.state, TIME))
    _repair(world)
    assert future_seals(of, world.state, TIME) == ()
    world.arrive(f"{TIME:{layout}}/d")
    world.drain()
    assert not world.doubled()
    if was_told:
        assert not world.missing(lambda path: path.endswith("/d"))
    open_ones = [path for path in world.there if not is_sealed(Layout.of(of), world.state, split(path)[0])]
    assert not world.missing(lambda path: path in open_ones)


def _repair(world: World) -> None:
    """What ``reconcile --ingest`` does, without its start: reads what is late, then opens what was sealed ahead."""
    of, state = world.of, world.state
    if not future_seals(of, state, TIME):
        return
    covered = {path for path, _ in world.rows}
    is_waiting = is_due(of, state)
    late = sorted(path for path in world.there if path not in covered and not is_waiting(path))
    world.rows.update((path, line) for path in late for line in range(world.lines[path]))
    committed = covered | set(late)
    finished = {split(path)[0] for path in committed} | set(state.partition_watermarks)
    seals = lower_future_seals(of, state, None, finished, (), TIME)
    waiting = {path for path in world.there if path not in committed}
    world.state = reopen_partitions(of, state, seals, sorted((set(world.there) | committed) - waiting), ())


def _start(of: PathSource, path: str) -> datetime:
    time = Layout.of(of).time_of(split(path)[0])
    assert time is not None
    return time.start
