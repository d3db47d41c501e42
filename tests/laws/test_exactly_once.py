"""Whatever arrives in whatever order, and whatever fails or dies: every row is in the table exactly once."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from laws.ingestion import RULES, Ingestion
from laws.strategies import fates, few_partitions, hour_partitions, unordered_partitions, world_paths
from laws.world import NOW
from tidegate.core.files.paths import join
from tidegate.specs.files import LateFiles, Lateness


class InAnyOrder(Ingestion):
    """With a wide window and no sealing, files may arrive in any order, also during a listing."""

    settings_of_source: ClassVar = {"lateness": Lateness(never=True)}
    paths = world_paths

    def may_arrive(self, path: str) -> bool:
        return True

    @rule(data=st.data())
    def files_arrive_while_a_listing_runs(self, data: st.DataObject) -> None:
        paths = self.arrivals(data)
        new = [path for path in paths if path not in self.world.there]
        for path in paths:
            self.world.arrive(path)
        plan = self.world.plan(hidden=new)
        self.world.open(plan)
        if plan.given_up:
            return
        slices = [each for group in plan.groups for each in group.slices]
        self.world.commit(plan, [self.world.outcome(each, data.draw(fates)) for each in slices])


class WithNarrowWindows(Ingestion):
    """Windows of a few names: what arrives inside them is read, also when they slide while it waits."""

    settings_of_source: ClassVar = {
        "late_window": 2,
        "late_window_total": 5,
        "lateness": Lateness(never=True),
    }

    def arrivals(self, data: st.DataObject) -> list[str]:
        """Ever greater names, and some that belong between those in a window."""
        start = 100 + len(self.world.lines)
        numbers = range(start, start + data.draw(st.integers(1, 5)))
        paths = [join(data.draw(few_partitions), f"{number}.json") for number in numbers]
        for partition, window in sorted(self.world.state.late_window.items()):
            names = data.draw(st.lists(st.sampled_from(window.names or ("x",)), min_size=1, max_size=2))
            paths += [join(partition, f"{name.removesuffix('.json')}~.json") for name in names]
        return paths

    @initialize(data=st.data())
    def some_files_are_there(self, data: st.DataObject) -> None:
        for path in ("000.json", "001.json", "date=2024-02-28/000.json"):
            self.world.arrive(path)
        self.world.drain()
        self.files_arrive(data)


class WithSealing(Ingestion):
    """Partitions are sealed after twelve hours: what arrives in an open one is read."""

    settings_of_source: ClassVar = {"lateness": Lateness(fixed=timedelta(hours=12)), "late_window": 3}
    paths = st.builds(join, st.one_of(hour_partitions, unordered_partitions), st.sampled_from(("a.json", "b.json")))

    @precondition(lambda self: self.world.now < NOW + timedelta(days=3))
    @rule()
    def time_passes(self) -> None:
        self.world.now += timedelta(hours=7)


class Strictly(Ingestion):
    """Without looking back, what arrives above the watermark is read."""

    settings_of_source: ClassVar = {"late_files": LateFiles.STRICT, "lateness": Lateness(periods=24)}
    paths = world_paths


class WithFewIslands(Ingestion):
    """Few names may wait above a gap: nothing is lost, it only waits."""

    settings_of_source: ClassVar = {"max_islands": 2, "lateness": Lateness(never=True)}


class Switching(WithNarrowWindows):
    """The settings change between runs: late files may then be missed, but nothing is read twice."""

    def arrivals(self, data: st.DataObject) -> list[str]:
        paths = super().arrivals(data)
        mode, window = data.draw(st.sampled_from(LateFiles)), data.draw(st.integers(1, 5))
        self.world.of = replace(self.world.of, late_files=mode, late_window=window)
        return paths

    @invariant()
    def the_state_is_bounded(self) -> None:
        assert len(self.world.state.partition_watermarks) <= len(self.world.lines)

    def teardown(self) -> None:
        self.world.drain()
        assert self.world.doubled() == set()


for machine in (InAnyOrder, WithNarrowWindows, WithSealing, Strictly, WithFewIslands, Switching):
    machine.TestCase.settings = RULES

TestFilesInAnyOrderAreReadOnce = InAnyOrder.TestCase
TestFilesInsideNarrowWindowsAreReadOnce = WithNarrowWindows.TestCase
TestFilesInOpenPartitionsAreReadOnce = WithSealing.TestCase
TestFilesAboveAStrictWatermarkAreReadOnce = Strictly.TestCase
TestFewIslandsLoseNothing = WithFewIslands.TestCase
TestOtherSettingsDoubleNothing = Switching.TestCase
