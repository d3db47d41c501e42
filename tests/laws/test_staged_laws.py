"""Writers that stage and a committer that repeats their steps: every row is in the table exactly once, whatever is
pending, dropped or rejected in between.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from laws.ingestion import RULES, Ingestion, check_bounds
from laws.strategies import fates, hour_partitions
from laws.world import NOW, SIZING, World, listing, source
from tidegate.core.files.paths import join
from tidegate.core.files.plan import Plan
from tidegate.core.files.planner import plan_paths
from tidegate.core.files.state import Covered, FileOutcome, PathState
from tidegate.errors import StateError
from tidegate.protocol.change import SourceKey
from tidegate.protocol.dead_letters import DeadLetterTable
from tidegate.protocol.position import Pace
from tidegate.protocol.store import open_delta
from tidegate.runs import staged
from tidegate.runs.files import PathTracker
from tidegate.runs.staged import after_step, step_json, step_of, without_step
from tidegate.specs.files import LateFiles, Lateness
from tidegate.storage.stores import open_store


@dataclass
class Staged(World):
    """A world whose runs leave units, and whose table only a committer writes."""

    pending: dict[int, dict[str, Any]] = field(default_factory=dict)
    rejected: int = 0

    @property
    def tracker(self) -> PathTracker:
        store = open_store(self.of.location)
        letters = DeadLetterTable(store, open_delta(self.of.location, store), Pace())
        return PathTracker(SourceKey("events", self.of.name), self.of, store, store, letters)

    def effective(self) -> PathState:
        """What a writer plans on: the committed state, and every pending step on top of it.

        Where one of them does not fit, the committer decides first.
        """
        state = self.state
        for seq in sorted(self.pending):
            try:
                state = after_step(self.tracker, state, self.pending[seq]).state
            except StateError:
                self.take(len(self.pending), frozenset())
                return self.state
        return state

    def plan(self, limit: int | None = None, hidden: Any = ()) -> Plan:
        state = self.effective()
        shown = listing(self.of, state, self.there.values(), self.now, limit=limit, hidden=hidden)
        return plan_paths("events", self.of, state, self.commits, shown, self.now, sizing=SIZING)

    def stage(self, plan: Plan, outcomes: list[FileOutcome]) -> None:
        """One unit, unless nothing would change."""
        state = self.effective()
        if self.tracker.advance(state, plan, outcomes).changed:
            seq = 1 + max([self.commits, *self.pending])
            self.pending[seq] = json.loads(json.dumps(step_json(state, plan, outcomes)))

    def stage_all(self) -> bool:
        """Whether there was anything to stage."""
        plan = self.plan()
        slices = [each for group in plan.groups for each in group.slices]
        self.stage(plan, [self.outcome(each, "whole") for each in slices])
        return bool(slices)

    def take(self, how_many: int, bad: frozenset[int]) -> None:
        """The committer: the next units in their order; bad ones, and those that do not fit, are rejected.

        Where a bad one tells of no file, everything that was planned on top of it is rejected as well.
        """
        for seq in sorted(self.pending)[:how_many]:
            assert seq == self.commits + 1
            step = self.pending.pop(seq)
            self.commits = seq
            try:
                if seq in bad:
                    raise StateError("a file is gone", "")
                self.state = after_step(self.tracker, self.state, step).state
            except StateError:
                self.rejected += 1
                state = without_step(self.tracker, self.state, step)
                if state is None:
                    self.commits = max([seq, *self.pending])
                    self.pending.clear()
                    return
                self.state = state
                continue
            covered = (each for each in step_of(step)[1] if isinstance(each, Covered))
            self.rows.update((each.path, line) for each in covered for line in range(each.start, each.end))


class Staging(Ingestion):
    """The same arrivals, polls and deaths; commits are made by somebody else, later."""

    world: Staged

    def __init__(self) -> None:
        super().__init__()
        self.world = Staged(source(max_attempts=1_000, **self.settings_of_source))
        self.before = self.world.state

    def may_arrive(self, path: str) -> bool:
        planned_on = self.world.effective()
        committed = super().may_arrive(path)
        state, self.world.state = self.world.state, planned_on
        try:
            return committed and super().may_arrive(path)
        finally:
            self.world.state = state

    @rule(data=st.data(), limit=st.none() | st.integers(1, 6))
    def a_run_reads_something(self, data: st.DataObject, limit: int | None) -> None:
        plan = self.world.plan(limit)
        slices = data.draw(st.permutations([each for group in plan.groups for each in group.slices]))
        while slices:
            taken = data.draw(st.integers(1, len(slices)))
            wave, slices = slices[:taken], slices[taken:]
            outcomes = [self.world.outcome(each, data.draw(fates)) for each in wave]
            if data.draw(st.booleans()):
                self.world.stage(plan, outcomes)
            elif data.draw(st.booleans()):
                return

    @rule(data=st.data())
    def more_arrives_and_all_of_it_is_staged(self, data: st.DataObject) -> None:
        self.files_arrive(data)
        self.world.stage_all()

    @precondition(lambda self: len(self.world.pending) > 1)
    @rule()
    def the_first_unit_is_bad_and_the_others_are_taken(self) -> None:
        self.world.take(len(self.world.pending), frozenset({min(self.world.pending)}))

    @precondition(lambda self: self.world.pending)
    @rule(data=st.data())
    def the_committer_takes_some(self, data: st.DataObject) -> None:
        pending = sorted(self.world.pending)
        bad = data.draw(st.frozensets(st.sampled_from(pending)))
        self.world.take(data.draw(st.integers(1, len(pending))), bad)

    def teardown(self) -> None:
        for _ in range(60):
            self.world.take(len(self.world.pending), frozenset())
            if not self.world.stage_all():
                break
        assert self.world.missing() == set()
        assert self.world.doubled() == set()
        check_bounds(self.world)


class StrictStaging(Staging):
    settings_of_source: ClassVar[dict[str, object]] = {"late_files": LateFiles.STRICT, "lateness": Lateness(never=True)}


class NarrowStaging(Staging):
    """Late windows of two names: what falls out of them has to be kept by name."""

    settings_of_source: ClassVar[dict[str, object]] = {"late_window": 2, "lateness": Lateness(never=True)}


class SealedStaging(Staging):
    """Partitions are sealed while steps are pending: a step into a sealed one is rejected, and nothing is doubled."""

    settings_of_source: ClassVar[dict[str, object]] = {"lateness": Lateness(fixed=timedelta(hours=12))}
    paths = st.builds(join, hour_partitions, st.sampled_from(("a.json", "b.json")))

    @precondition(lambda self: self.world.now < NOW + timedelta(days=3))
    @rule()
    def time_passes(self) -> None:
        self.world.now += timedelta(hours=7)


STRICT = {"late_files": LateFiles.STRICT, "lateness": Lateness(never=True)}


def test_files_of_a_rejected_unit_are_read_again_although_a_later_one_was_planned_without_them() -> None:
    world = Staged(source(**STRICT))
    for name in ("a", "b"):
        world.arrive(f"d=1/{name}.json")
        world.stage_all()
    world.take(2, frozenset({1}))
    assert world.state.partition_watermarks == {}
    assert {path for path, _ in world.rows} == {"d=1/b.json"}
    assert [each.path for group in world.plan().groups for each in group.slices] == ["d=1/a.json"]


def test_a_unit_that_covers_what_is_finished_already_is_rejected() -> None:
    world = Staged(source(**STRICT))
    world.arrive("d=1/a.json")
    world.stage_all()
    world.pending[2] = world.pending[1]
    world.take(2, frozenset())
    assert (world.doubled(), world.rejected) == (set(), 1)


def test_a_unit_that_goes_on_where_a_rejected_one_ended_is_rejected_too() -> None:
    world = Staged(source(**STRICT))
    world.arrive("d=1/a.json")
    for fate in ("part", "whole"):
        plan = world.plan()
        world.stage(plan, [world.outcome(plan.groups[0].slices[0], fate)])
    world.take(2, frozenset({1}))
    assert (sum(world.rows.values()), world.rejected) == (0, 2)
    assert world.stage_all()
    world.take(1, frozenset())
    assert (world.missing(), world.doubled()) == (set(), set())


def test_a_long_listing_is_left_out_beyond_what_the_unit_covers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged, "LISTED_IN_FULL", 2)
    world = Staged(source(**STRICT))
    for name in "abcd":
        world.arrive(f"d=1/{name}.json")
    plan = world.plan()
    first, second, *_ = plan.groups[0].slices
    world.stage(plan, [world.outcome(first, "whole"), world.outcome(second, "whole")])
    assert [path for path, *_ in world.pending[1]["plan"]["listed"]] == ["d=1/a.json", "d=1/b.json"]
    assert not world.pending[1]["plan"]["complete"]
    world.take(1, frozenset())
    assert world.state.partition_watermarks == {"d=1": "b.json"}
    assert len(world.plan().groups[0].slices) == 2


for machine in (Staging, StrictStaging, NarrowStaging, SealedStaging):
    machine.TestCase.settings = RULES

TestStagedStepsAreRepeatedOnce = Staging.TestCase
TestStagedStepsWithoutLateFiles = StrictStaging.TestCase
TestStagedStepsWithNarrowWindows = NarrowStaging.TestCase
TestStagedStepsAndSealing = SealedStaging.TestCase
