"""What is planned again, what is held back, and what a plan says about it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from laws.world import NOW, SIZING, World, advanced, files, is_empty, paths_of, planned, read, source
from tidegate.core.files.discovery import PathListing, Reason, Skipped
from tidegate.core.files.paths import SourceFile
from tidegate.core.files.plan import FileSlice, Plan
from tidegate.core.files.planner import plan_paths
from tidegate.core.files.state import Active, Failed, FileProgress, Finished, PathState, RecordsRead, Refused
from tidegate.specs.project import PathSource

OF = source(pattern="*", max_attempts=3)
SMALL = source(pattern="*", max_islands=2)


def over(of: PathSource, state: PathState, *there: SourceFile, complete: bool = True) -> Plan:
    return plan_paths("events", of, state, 1, PathListing(there, complete=complete), NOW, sizing=SIZING)


def slices(plan: Plan) -> list[FileSlice]:
    return [each for unit in plan.units for each in unit.slices]


def skipped(plan: Plan) -> dict[Reason, int]:
    return {each.reason: each.count for each in plan.skipped}


SAME = SourceFile("d/a", 100, "e")


@pytest.mark.parametrize(
    ("progress", "file", "expected"),
    [
        pytest.param(RecordsRead(7, 100, "e", 2), SAME, FileSlice("d/a", 100, "e", 7, rounds=2), id="in progress"),
        pytest.param(RecordsRead(7, None), SAME, FileSlice("d/a", 100, "e", 7, rounds=1), id="size not recorded"),
        pytest.param(RecordsRead(7, 100, None), SAME, FileSlice("d/a", 100, "e", 7, rounds=1), id="no etag recorded"),
        pytest.param(RecordsRead(7, 99, "e"), SAME, Reason.CHANGED, id="in progress, other size"),
        pytest.param(RecordsRead(7, 100, "f"), SAME, Reason.CHANGED, id="in progress, other etag"),
        pytest.param(RecordsRead(0, 99, "f", 0), SAME, FileSlice("d/a", 100, "e"), id="changed before it was begun"),
        pytest.param(Failed(2, "bad", 100, "e"), SAME, FileSlice("d/a", 100, "e", attempts=2), id="tried again"),
        pytest.param(Failed(2, "bad", 100, "e", 5), SAME, FileSlice("d/a", 100, "e", 5, 2), id="tried from line 5"),
        pytest.param(Failed(3, "bad", 100, "e"), SAME, Reason.GIVEN_UP, id="given up"),
        pytest.param(Failed(3, "bad", 100, "f"), SAME, FileSlice("d/a", 100, "e"), id="given up, then changed"),
        pytest.param(Failed(3, "bad", 99, "e", 5), SAME, Reason.CHANGED, id="failed after line 5, then changed"),
    ],
)
def test_an_unfinished_file_is(progress: FileProgress, file: SourceFile, expected: FileSlice | Reason) -> None:
    plan = over(OF, PathState(files={"d/a": progress}), file)
    if isinstance(expected, Reason):
        assert plan.units == ()
        assert skipped(plan) == {expected: 1}
        assert "d/a" in plan.notes[0]
        assert plan.waits
    else:
        assert slices(plan) == [expected]
        assert not plan.waits
    assert plan.listed == (file,)


def test_a_file_that_was_given_up_is_named_with_its_reason() -> None:
    plan = over(OF, PathState(files={"d/a": Failed(3, "line 7: not JSON", 100)}), SAME)
    assert plan.notes == (
        "d/a failed 3 times and goes to the dead letters: line 7: not JSON; `tidegate dlq retry` reads it again",
    )
    (given_up,) = plan.given_up
    assert (given_up.slice.path, given_up.reason) == ("d/a", "failed 3 times: line 7: not JSON")


def test_a_file_that_is_tried_only_once_failed_once() -> None:
    state = PathState(files={"d/a": Failed(1, "bad", 100)})
    (given_up,) = over(replace(OF, max_attempts=1), state, SAME).given_up
    assert given_up.reason == "failed once: bad"


def test_of_many_troubles_three_are_named_and_the_rest_counted() -> None:
    names = [f"d/{number}" for number in range(5)]
    plan = over(OF, PathState(files={name: Failed(3, "bad", 100) for name in names}), *files(*names))
    assert len(plan.notes) == 4
    assert plan.notes[-1] == "2 more: failed too often, goes to the dead letters"


def test_a_changed_file_says_how_many_lines_are_committed() -> None:
    plan = over(OF, PathState(files={"d/a": RecordsRead(7000, 99)}), SAME)
    assert plan.notes[0].startswith("d/a changed after 7,000 of its lines were committed, is not read on")
    assert plan.given_up[0].slice.start_record == 7000


def test_unfinished_files_that_were_removed_are_reported_and_make_way() -> None:
    state = PathState(files={"d/a": Failed(1, "bad", 100), "d/b": Finished()})
    plan = over(OF, state, *files("d/b"))
    assert skipped(plan) == {Reason.READ: 1, Reason.GONE: 1}
    assert plan.notes == ("d/a was removed from the source before it was finished",)
    assert plan.opens is not None
    assert plan.opens.partition_watermarks == {"d": "b"}
    assert is_empty(over(OF, plan.opens, *files("d/b")))


def test_a_cut_listing_reports_nothing_as_removed_above_what_it_showed() -> None:
    state = PathState(files={"d/c": Failed(1, "bad", 100), "d/a": Failed(1, "bad", 100)})
    assert skipped(over(OF, state, *files("d/b"), complete=False)) == {Reason.GONE: 1}


class TestIslands:
    """At most max_islands names wait above a gap; then nothing new is planned above it."""

    blocked = PathState(files={"d/a": Failed(1, "bad", 100)})

    def test_above_a_failed_file_only_as_many_are_planned_as_there_is_room(self) -> None:
        plan = planned(SMALL, self.blocked, "d/a", "d/b", "d/c", "d/d")
        assert paths_of(plan) == ["d/a", "d/b"]
        assert skipped(plan) == {Reason.ISLANDS_FULL: 2}
        assert "max_islands" in plan.notes[0]

    def test_the_number_that_waits_is_never_exceeded_while_a_file_keeps_failing(self) -> None:
        state = self.blocked
        there = ["d/a"]
        for name in "bcdefgh":
            there.append(f"d/{name}")
            plan = planned(SMALL, state, *there)
            outcomes = [
                *read(*(path for path in paths_of(plan) if path != "d/a")),
                Refused("d/a", 100, None, "bad"),
            ]
            state = advanced(SMALL, state, there, outcomes).state
            assert list(state.files.values()).count(Finished()) <= 2
        assert state.partition_watermarks == {}

    def test_files_that_fill_the_gap_are_planned_and_those_above_wait(self) -> None:
        state = PathState(files={"d/c": Finished(), "d/d": Finished()})
        plan = planned(SMALL, state, "d/a", "d/b", "d/c", "d/d", "d/e")
        assert paths_of(plan) == ["d/a", "d/b"]
        assert skipped(plan) == {Reason.READ: 2, Reason.ISLANDS_FULL: 1}

    def test_partitions_without_a_gap_go_on(self) -> None:
        state = replace(self.blocked, files={**self.blocked.files, "d/b": Finished(), "d/c": Finished()})
        assert paths_of(planned(SMALL, state, "d/a", "d/b", "d/c", "d/d", "e/a")) == ["d/a", "e/a"]

    def test_an_empty_plan_that_holds_files_back_waits(self) -> None:
        state = PathState(files={"d/a": Failed(5, "bad", 100), "d/b": Finished()})
        plan = planned(SMALL, state, "d/a", "d/b", "d/c")
        assert not plan.units
        assert [each.slice.path for each in plan.given_up] == ["d/a"]
        assert plan.waits

    def test_a_late_file_that_failed_is_no_gap(self) -> None:
        state = PathState(Active("d/m"), {"d": "m"}, {"d/a": Failed(1, "bad", 100), "x/a": Failed(1, "bad", 100)})
        assert paths_of(planned(SMALL, state, "d/a", "d/n", "d/o", "x/a")) == ["d/a", "d/n", "d/o", "x/a"]


def test_oldest_first_by_partition_and_name_not_by_whole_path() -> None:
    there = ["d=1/b", "d=1-x/a", "d=1/a", "a", "d=1/h=2/a"]
    assert paths_of(planned(OF, PathState(), *there)) == ["a", "d=1/a", "d=1/b", "d=1-x/a", "d=1/h=2/a"]


def test_finished_names_above_a_gap_are_listed_but_not_read() -> None:
    plan = planned(OF, PathState(files={"d/b": Finished()}), "d/a", "d/b")
    assert paths_of(plan) == ["d/a"]
    assert [file.path for file in plan.listed] == ["d/a", "d/b"]
    assert skipped(plan) == {Reason.READ: 1}


def test_equal_arguments_give_equal_plans() -> None:
    assert planned(OF, PathState(), "d/a", "d/b") == planned(OF, PathState(), "d/b", "d/a")


def test_a_listing_that_is_not_deep_says_what_it_does_not_see() -> None:
    plan = plan_paths("p", OF, PathState(), 0, PathListing((), deep=False), NOW, sizing=SIZING)
    assert plan.remarks == (
        "directories inside a partition that sort below its watermark are looked for in every 100th poll"
        " (deep_listing_every)",
    )


def test_a_listing_in_slices_reads_everything_once() -> None:
    world = World(OF)
    for number in range(25):
        world.arrive(f"d={number % 3}/{number:02d}")
    polls = 0
    while (plan := world.plan(limit=4)).units:
        polls += 1
        world.commit(plan, [world.outcome(each, "whole") for each in slices(plan)])
    assert world.missing() == world.doubled() == set()
    assert polls == 7


def test_many_partitions_with_many_files_are_planned_each_from_its_own_watermark() -> None:
    there = tuple(SourceFile(f"d={part:03d}/{name:06d}", 100) for part in range(100) for name in range(500))
    state = PathState(Active("d=000/000000"), {f"d={part:03d}": "000249" for part in range(100)})
    assert plan_paths("p", OF, state, 0, PathListing(there), NOW, sizing=SIZING).files == 25_000


def test_a_plan_says_what_is_read_what_is_given_up_and_why() -> None:
    state = PathState(files={"d/c": RecordsRead(7, 99)})
    plan = plan_paths(
        "events",
        OF,
        state,
        4,
        PathListing(files("d/a", "d/b", "d/c"), list_requests=2, listed_keys=3, complete=False),
        NOW,
        sizing=SIZING,
    )
    assert (plan.pipeline, plan.source, plan.version, plan.files, plan.bytes) == ("events", "asia", 4, 2, 200)
    assert (plan.list_requests, plan.listed_keys, plan.complete) == (2, 3, False)
    assert plan.skipped == (Skipped(Reason.CHANGED, 1, ("d/c",)),)
    assert [each.slice.path for each in plan.given_up] == ["d/c"]
    assert plan.notes == (
        "d/c changed after 7 of its lines were committed, is not read on and goes to the dead letters;"
        " `tidegate replay` replaces its rows, or deliver the rest under a new name",
    )


def test_an_empty_plan_has_nothing_to_read() -> None:
    plan = planned(OF, PathState())
    assert (plan.files, plan.bytes, is_empty(plan), plan.waits) == (0, 0, True, False)
