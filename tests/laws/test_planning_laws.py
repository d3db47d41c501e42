"""Laws of planning: deterministic, oldest first, everything accounted for, units of bearable size."""

from __future__ import annotations

import json
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from laws.strategies import fates, states, world_paths
from laws.world import NOW, SIZING, World, files, listing, source
from support.long_runs import examples
from tidegate.core.files.discovery import PathListing
from tidegate.core.files.paths import sort_key, split
from tidegate.core.files.plan import FileSlice, Plan
from tidegate.core.files.planner import OPENING, Sizing, group_files, plan_paths
from tidegate.core.files.state import PathState
from tidegate.specs.files import LateFiles, Lateness, PathSource

SETS = st.lists(world_paths, max_size=15, unique=True)
SOURCES = st.builds(
    source,
    late_files=st.sampled_from(LateFiles),
    lateness=st.sampled_from((Lateness(), Lateness(periods=2), Lateness(never=True))),
    max_islands=st.integers(1, 5),
    max_attempts=st.integers(1, 3),
)


def planned_slices(plan: Plan) -> list[FileSlice]:
    return [each for group in plan.groups for each in group.slices]


@settings(deadline=None)
@given(SOURCES, SETS, st.data())
def test_a_plan_does_not_depend_on_the_order_of_the_listing(
    of: PathSource, there: list[str], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(there))
    plans = [
        plan_paths("p", of, PathState(), 0, PathListing(files(*order)), NOW, sizing=SIZING)
        for order in (there, shuffled, [*shuffled, *there])
    ]
    assert plans[0].groups == plans[1].groups == plans[2].groups
    assert plans[0].listed == plans[1].listed == plans[2].listed


@settings(deadline=None, max_examples=examples(80))
@given(SOURCES, st.lists(SETS, min_size=1, max_size=4), st.data())
def test_every_listed_file_is_planned_or_counted_with_a_reason(
    of: PathSource, arrivals: list[list[str]], data: st.DataObject
) -> None:
    world = World(of)
    for batch in arrivals:
        for path in batch:
            world.arrive(path)
        shown = listing(world.of, world.state, world.there.values(), world.now)
        plan = world.plan()
        skipped = sum(each.count for each in plan.skipped) - sum(each.count for each in shown.skipped)
        assert plan.files + skipped == len(shown.files)
        assert all(1 <= len(each.examples) <= 3 for each in plan.skipped)
        keys = [sort_key(each.path) for each in planned_slices(plan)]
        assert keys == sorted(set(keys))
        assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
        world.commit(plan, [world.outcome(each, data.draw(fates)) for each in planned_slices(plan)])


@settings(deadline=None)
@given(states, SETS)
def test_planning_reads_any_state_without_breaking(state: PathState, there: list[str]) -> None:
    plan = plan_paths("p", source(), state, 3, PathListing(files(*there)), NOW, sizing=SIZING)
    assert {each.path for each in planned_slices(plan)} <= set(there)
    assert {each.path for each in planned_slices(plan)} <= {file.path for file in plan.listed}


SLICES = st.lists(
    st.builds(FileSlice, world_paths, st.integers(0, 8_000_000)),
    max_size=30,
    unique_by=lambda each: each.path,
).map(lambda slices: sorted(slices, key=lambda each: sort_key(each.path)))
SIZINGS = st.builds(Sizing, st.integers(1, 10_000_000), st.integers(1, 8), st.integers(1, 8))


@settings(deadline=None)
@given(SLICES, SIZINGS)
def test_units_hold_every_slice_once_and_in_order(slices: list[FileSlice], sizing: Sizing) -> None:
    units = group_files(slices, sizing)
    assert [each for group in units for each in group.slices] == slices
    assert [unit.number for unit in units] == list(range(1, len(units) + 1))


@settings(deadline=None)
@given(SLICES, SIZINGS)
def test_units_keep_to_their_limits_unless_one_file_is_larger(slices: list[FileSlice], sizing: Sizing) -> None:
    for unit in group_files(slices, sizing):
        assert unit.files <= sizing.max_files
        assert unit.files == 1 or unit.bytes + unit.files * OPENING <= sizing.target_bytes


@settings(deadline=None)
@given(SLICES, SIZINGS)
def test_a_unit_begins_a_further_partition_only_to_take_it_whole(slices: list[FileSlice], sizing: Sizing) -> None:
    units = group_files(slices, sizing)
    for unit, following in pairwise(units):
        partitions = {split(each.path)[0] for each in unit.slices}
        shared = split(unit.slices[-1].path)[0] == split(following.slices[0].path)[0]
        assert not (shared and len(partitions) > 1)
