"""What is planned, what is held back, how it is grouped, and what a plan says; by watermarks and by a set."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from laws.world import NOW, SIZING, World, advanced, files, is_empty, paths_of, planned, read, source
from support.errors import raises
from tidegate.core.files.discovery import PathListing, Reason, Skipped
from tidegate.core.files.paths import SourceFile
from tidegate.core.files.plan import FileSlice, GivenUp, Plan
from tidegate.core.files.planner import OPENING, SMALLEST, Sizing, group_files, plan_paths, plan_set
from tidegate.core.files.state import (
    Active,
    Failed,
    FileProgress,
    Finished,
    PathState,
    RecordsRead,
    Refused,
    SetState,
    Unfinished,
)
from tidegate.specs.files import PathSource

OF = source(pattern="*", max_attempts=3)
SMALL = source(pattern="*", max_islands=2)


def over(of: PathSource, state: PathState, *there: SourceFile, complete: bool = True) -> Plan:
    return plan_paths("events", of, state, 1, PathListing(there, complete=complete), NOW, sizing=SIZING)


def slices(plan: Plan) -> list[FileSlice]:
    return [each for group in plan.groups for each in group.slices]


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
        assert plan.groups == ()
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
        assert not plan.groups
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
    while (plan := world.plan(limit=4)).groups:
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


OF_SET = source(max_attempts=3, max_islands=2)


def plan(listing: PathListing, **unfinished: Unfinished) -> Plan:
    return plan_set("events", OF_SET, SetState(Active("z"), files=unfinished), 4, listing, NOW, sizing=SIZING)


def test_every_listed_file_is_read_once_by_path() -> None:
    made = plan(PathListing(files("b", "a/z", "a/0", "b")))
    assert [each.path for each in slices(made)] == ["b", "a/0", "a/z"]
    assert (made.kind, made.version, made.late) == ("path-set", 4, ())


def test_unfinished_files_go_on_and_given_up_ones_wait() -> None:
    there = files("half", "tried")
    made = plan(PathListing(there), half=RecordsRead(7, 100, None, 2), tried=Failed(2, "bad", 100))
    assert slices(made) == [FileSlice("half", 100, None, 7, rounds=2), FileSlice("tried", 100, None, attempts=2)]
    made = plan(PathListing(there[1:]), tried=Failed(3, "bad", 100))
    assert (made.groups, skipped(made), made.waits) == ((), {Reason.GIVEN_UP: 1}, True)
    assert made.given_up == (GivenUp(FileSlice("tried", 100, None, attempts=3), "failed 3 times: bad"),)
    assert slices(plan(PathListing((SourceFile("tried", 99),)), tried=Failed(3, "bad", 100))) == [
        FileSlice("tried", 99)
    ]


def test_a_file_that_changed_after_a_part_of_it_was_read_is_held_back() -> None:
    made = plan(PathListing((SourceFile("half", 99),)), half=RecordsRead(7, 100))
    assert (made.groups, skipped(made)) == ((), {Reason.CHANGED: 1})
    assert made.given_up[0].slice == FileSlice("half", 99, None, 7, rounds=1)


def test_too_many_unfinished_files_hold_new_ones_back_and_nothing_else() -> None:
    made = plan(PathListing(files("a", "b", "new")), a=Failed(1, "bad", 100), b=Failed(3, "bad", 100))
    assert [each.path for each in slices(made)] == ["a"]
    assert skipped(made) == {Reason.GIVEN_UP: 1, Reason.TOO_MANY_FAILED: 1}
    assert made.waits
    assert any("2 others (max_islands)" in note for note in made.notes)


def test_a_removed_file_is_reported_and_leaves_the_state() -> None:
    made = plan(PathListing(()), gone=Failed(1, "bad", 100))
    assert skipped(made) == {Reason.GONE: 1}
    assert made.opens == SetState(Active("z"), last_update_ts=int(NOW.timestamp()))
    cut = plan(PathListing((), complete=False), gone=Failed(1, "bad", 100))
    assert (cut.skipped, cut.opens) == ((), None)
    assert plan(PathListing(files("new")), gone=Failed(1, "bad", 100)).opens is None


def test_a_file_that_changed_after_it_was_read_is_named() -> None:
    made = plan(PathListing((), (Skipped(Reason.READ, 5, ("r",)), Skipped(Reason.REWRITTEN, 2, ("x", "y")))))
    assert skipped(made) == {Reason.READ: 5, Reason.REWRITTEN: 2}
    (note,) = made.notes
    assert note.startswith("2 files changed after being read and are not read again, e.g. x;")
    assert not made.waits


def test_a_plan_says_what_the_listing_costs_and_when_a_watermark_would_do() -> None:
    (cost,) = plan(PathListing((), listed_keys=1234)).remarks
    assert "1,234 keys" in cost
    assert "use_watermark: true" in plan(PathListing((), sorts_in_time=True)).remarks[1]


def test_a_plan_is_read_back_as_it_was() -> None:
    made = plan(PathListing(()), gone=Failed(1, "bad", 100))
    assert Plan.from_json(json.loads(json.dumps(made.to_json()))) == made


MIB = 1024 * 1024
LARGE = Sizing(target_bytes=64 * MIB, max_files=100, parallelism=1)


def units(sizing: Sizing, *files: tuple[str, float]) -> list[str]:
    """The names in each unit; sizes are given in MiB."""
    slices = [FileSlice(path, int(size * MIB)) for path, size in files]
    return [" ".join(each.path for each in group.slices) for group in group_files(slices, sizing)]


def test_no_files_make_no_units() -> None:
    assert group_files([], LARGE) == ()


def test_small_files_of_one_partition_share_a_unit() -> None:
    assert units(LARGE, ("d/a", 1), ("d/b", 2), ("d/c", 3)) == ["d/a d/b d/c"]


def test_a_large_file_is_alone_and_order_is_kept() -> None:
    assert units(LARGE, ("d/a", 1), ("d/b", 500), ("d/c", 1)) == ["d/a", "d/b", "d/c"]


def test_a_unit_stops_before_it_exceeds_the_target() -> None:
    assert units(LARGE, ("d/a", 30), ("d/b", 30), ("d/c", 30)) == ["d/a d/b", "d/c"]


def test_a_unit_has_at_most_max_files() -> None:
    assert units(Sizing(64 * MIB, 2, 1), ("d/a", 0), ("d/b", 0), ("d/c", 0)) == ["d/a d/b", "d/c"]


def test_small_partitions_share_a_unit() -> None:
    assert units(LARGE, ("1/a", 10), ("2/a", 10), ("3/a", 10)) == ["1/a 2/a 3/a"]


def test_a_partition_that_does_not_fit_whole_begins_a_unit() -> None:
    assert units(LARGE, ("1/a", 10), ("2/a", 30), ("2/b", 30), ("3/a", 1)) == ["1/a", "2/a 2/b 3/a"]


def test_work_is_spread_over_the_tasks_that_can_run() -> None:
    files = [(f"d/{number}", 4.0) for number in range(8)]
    assert len(units(Sizing(1024 * MIB, 100, 4), *files)) == 4
    assert len(units(Sizing(1024 * MIB, 100, 1), *files)) == 1


def test_tiny_files_are_not_spread_thinner_than_is_worth_a_task() -> None:
    files = [(f"d/{number:02d}", 0.0) for number in range(16)]
    assert len(units(Sizing(64 * MIB, 100, 16), *files)) == 16 * OPENING // SMALLEST


def test_many_tiny_files_are_spread_because_opening_costs() -> None:
    files = [(f"d/{number:04d}", 0.0) for number in range(1000)]
    assert len(units(Sizing(64 * MIB, 10_000, 4), *files)) == 4


@pytest.mark.parametrize("name", ["target_bytes", "max_files", "parallelism"])
def test_a_sizing_of_nothing_is_refused(name: str) -> None:
    with raises(ValueError, f"Sizing.{name}", "0"):
        Sizing(**{"target_bytes": 1, "max_files": 1, "parallelism": 1, name: 0})
