"""A machine of Hypothesis: files arrive, runs read some of them, processes die in between."""

from __future__ import annotations

from typing import ClassVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from laws.strategies import fates, few_partitions, world_names
from laws.world import World, is_partition_open, source
from support.long_runs import examples
from tidegate.core.files.paths import join, sort_key, split
from tidegate.core.files.plan import Plan
from tidegate.core.files.state import PathState, file_statuses, greater

CROWDED = st.builds(join, few_partitions, world_names)


WAVES = st.sampled_from(("committed", "committed", "committed", "committed", "lost", "dies"))


RULES = settings(
    max_examples=examples(400, 30),
    stateful_step_count=14,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


class Ingestion(RuleBasedStateMachine):
    """Files arrive; polls list, plan, and commit some of what tasks report; processes die in between."""

    settings_of_source: ClassVar[dict[str, object]] = {}
    paths: ClassVar[st.SearchStrategy[str]] = CROWDED

    def __init__(self) -> None:
        super().__init__()
        self.world = World(source(max_attempts=1_000, **self.settings_of_source))
        self.before = self.world.state

    def may_arrive(self, path: str) -> bool:
        """Whether the promise covers a file that appears here now."""
        state = self.world.state
        partition, name = split(path)
        if not is_partition_open(self.world.of, state, partition, self.world.now):
            return False
        return not file_statuses(self.world.of, state)(partition).is_finished(name)

    def arrivals(self, data: st.DataObject) -> list[str]:
        """Paths of which those that are not there yet are new."""
        return data.draw(st.lists(self.paths, min_size=1, max_size=8))

    @initialize(data=st.data())
    def some_files_are_there(self, data: st.DataObject) -> None:
        self.files_arrive(data)

    @rule(data=st.data())
    def files_arrive(self, data: st.DataObject) -> None:
        for path in filter(self.may_arrive, self.arrivals(data)):
            self.world.arrive(path)

    @precondition(lambda self: self.world.there)
    @rule(data=st.data())
    def a_file_is_removed(self, data: st.DataObject) -> None:
        self.world.remove(data.draw(st.sampled_from(sorted(self.world.there))))

    @rule(data=st.data(), limit=st.none() | st.integers(1, 6))
    def a_run_reads_something(self, data: st.DataObject, limit: int | None) -> None:
        plan = self.world.plan(limit)
        self.world.open(plan)
        if plan.given_up:
            return
        slices = data.draw(st.permutations([each for unit in plan.groups for each in unit.slices]))
        while slices:
            taken = data.draw(st.integers(1, len(slices)))
            wave, slices = slices[:taken], slices[taken:]
            outcomes = [self.world.outcome(each, data.draw(fates)) for each in wave]
            end = data.draw(WAVES)
            if end == "committed" and self.world.commit(plan, outcomes).changed:
                check_last_committed(self.world, plan)
            elif end == "dies":
                self.world.restart()
                return

    @invariant()
    def nothing_is_there_twice(self) -> None:
        assert self.world.doubled() == set()

    @invariant()
    def no_watermark_went_back(self) -> None:
        old, new = self.before, self.world.state
        for partition, name in old.partition_watermarks.items():
            assert new.partition_watermarks.get(partition, name) >= name
        assert greater(old.value, new.value) == new.value
        self.before = new

    @invariant()
    def the_state_is_bounded(self) -> None:
        check_bounds(self.world)

    def teardown(self) -> None:
        self.world.drain()
        assert self.world.missing() == set()
        assert self.world.doubled() == set()
        assert not self.world.plan().groups
        assert not dict(self.world.state.find_unfinished())


def check_last_committed(world: World, plan: Plan) -> None:
    """Everything listed at or below ``last_committed_file`` is in the table."""
    last = world.state.last_committed_file
    if last is not None:
        below = {file.path for file in plan.listed if sort_key(file.path) <= sort_key(last)}
        assert world.missing(below.__contains__) == set()


def check_bounds(world: World) -> None:
    """The windows keep to their limits, and only open partitions are remembered."""
    state: PathState = world.state
    sizes = [len(window.names) for window in state.late_window.values()]
    assert sum(sizes) <= world.of.late_window_total
    assert max(sizes, default=0) <= world.of.late_window
    partitions = {split(path)[0] for path in world.lines}
    assert set(state.partition_watermarks) <= partitions
    assert all(is_partition_open(world.of, state, each, world.now) for each in state.partition_watermarks)
    assert set(state.files) <= set(world.lines)
