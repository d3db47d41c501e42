"""A file that is removed after a part of it was committed: a dead letter once a whole listing shows that it is gone."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from laws.world import NOW, SIZING, advanced, files, is_empty, source
from tidegate.core.files.advance import advance_set
from tidegate.core.files.discovery import PathListing, Reason
from tidegate.core.files.plan import FileSlice, GivenUp, Plan, Stage
from tidegate.core.files.planner import plan_paths, plan_set
from tidegate.core.files.state import Active, Covered, Failed, PathState, RecordsRead, Seal, SetState

OF = source(max_attempts=3)
HALF = RecordsRead(5, 100, "e", rounds=2)
STATE = PathState(Active("d/0"), {"d": "0"}, {"d/a.json": HALF})
GIVEN_UP = GivenUp(
    FileSlice("d/a.json", 100, "e", 5, rounds=2),
    "removed at the source after 5 of its lines were committed",
    Stage.REMOVED,
)
END = Covered("d/a.json", 100, "e", 5, 5, eof=True)


def over(state: PathState, *there: str, complete: bool = True, unseen: str = "-") -> Plan:
    listing = PathListing(files(*there), complete=complete, unseen=frozenset((unseen,)))
    return plan_paths("p", OF, state, 1, listing, NOW, sizing=SIZING)


def over_set(state: SetState, *there: str, complete: bool = True, unseen: str = "-") -> Plan:
    listing = PathListing(files(*there), complete=complete, unseen=frozenset((unseen,)))
    return plan_set("p", OF, state, 1, listing, NOW, sizing=SIZING)


def test_it_becomes_a_letter_that_says_how_much_of_it_is_in() -> None:
    plan = over(STATE)
    assert plan.given_up == (GIVEN_UP,)
    assert [(each.reason, each.count) for each in plan.skipped] == [(Reason.GONE, 1)]
    assert plan.notes[0].startswith(
        "d/a.json was removed from the source before it was finished after 5 of its lines were committed"
    )
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_a_listing_that_was_cut_off_gives_nothing_up() -> None:
    plan = over(STATE, "d/b.json", complete=False)
    assert (plan.given_up, [each.reason for each in plan.skipped]) == ((), [Reason.GONE])


def test_a_file_of_which_nothing_is_committed_is_only_forgotten() -> None:
    plan = over(PathState(Active("d/0"), {"d": "0"}, {"d/a.json": Failed(2, "bad", 100)}))
    assert plan.given_up == ()
    assert plan.opens is not None
    assert plan.opens.files == {}


def test_the_watermark_passes_it_and_it_stays_finished_when_it_comes_back() -> None:
    plan = over(STATE)
    step = advanced(OF, STATE, [file.path for file in plan.listed], [END])
    assert (step.state.partition_watermarks, step.state.files) == ({"d": "a.json"}, {})
    assert over(step.state, "d/a.json", "d/b.json").groups[0].slices == (FileSlice("d/b.json", 100),)


def test_a_gap_below_it_keeps_it_by_name_until_the_watermark_comes_by() -> None:
    state = replace(STATE, files={"d/0a.json": Failed(1, "bad", 100), "d/a.json": HALF})
    plan = over(state, "d/0a.json")
    step = advanced(OF, state, [file.path for file in plan.listed], [END])
    assert step.state.partition_watermarks == {"d": "0"}
    assert not over(step.state, "d/0a.json", "d/a.json").given_up
    assert [each.path for group in over(step.state, "d/0a.json", "d/a.json").groups for each in group.slices] == [
        "d/0a.json"
    ]


def test_a_failed_file_with_committed_lines_is_given_up_too() -> None:
    (given_up,) = over(replace(STATE, files={"d/a.json": Failed(1, "bad", 100, "e", records=5)})).given_up
    assert (given_up.slice.start_record, given_up.stage) == (5, Stage.REMOVED)


def test_a_file_that_the_settings_leave_out_is_not_called_removed() -> None:
    of = replace(OF, exclude=("d/a.json",))
    plan = plan_paths("p", of, STATE, 1, PathListing(()), NOW, sizing=SIZING)
    assert plan.given_up[0].reason == "left out of the source (excluded) after 5 of its lines were committed"


def test_a_file_of_a_sealed_partition_is_not_called_removed() -> None:
    path = "date=2024-01-01/a.json"
    state = PathState(Active(path), files={path: HALF}, sealed={"": Seal(NOW)})
    assert over(state).given_up == ()


class TestBehindWhatTheListingLeftOut:
    """A link that is not followed or leads nowhere says nothing about the files behind it."""

    @pytest.mark.parametrize("unseen", ["d", "d/a.json"])
    def test_a_half_read_file_is_kept_below_the_watermark_and_told_once(self, unseen: str) -> None:
        plan = over(STATE, "e/b.json", unseen=unseen)
        assert (plan.given_up, plan.waits) == ((), True)
        assert [(each.reason, each.count) for each in plan.skipped] == [(Reason.UNSEEN, 1)]
        (note,) = plan.notes
        assert note.startswith("1 unfinished file is kept and not read on, e.g. d/a.json: behind a symbolic link")
        step = advanced(
            OF, STATE, [file.path for file in plan.listed], [Covered("e/b.json", 100, None, 0, 9, eof=True)]
        )
        assert (step.state.partition_watermarks, step.state.files) == ({"d": "0", "e": "b.json"}, STATE.files)
        assert over(step.state, "d/a.json").groups[0].slices == (FileSlice("d/a.json", 100, None, 5, rounds=2),)

    def test_a_failed_file_without_committed_lines_is_not_forgotten(self) -> None:
        plan = over(replace(STATE, files={"d/a.json": Failed(2, "bad", 100)}), unseen="d")
        assert (plan.opens, is_empty(plan), plan.waits) == (None, True, True)

    def test_what_is_read_above_it_is_bounded_as_above_any_gap(self) -> None:
        plan = over(STATE, *(f"d/b{number}.json" for number in range(OF.max_islands + 5)), unseen="d/a.json")
        assert plan.files < OF.max_islands
        assert Reason.ISLANDS_FULL in [each.reason for each in plan.skipped]

    def test_another_left_out_path_keeps_nothing(self) -> None:
        for unseen in ("d/a", "d/a.json/x", "dd", "a.json"):
            assert over(STATE, unseen=unseen).given_up == (GIVEN_UP,)
            assert over_set(SetState(Active("z"), files=STATE.files), unseen=unseen).given_up == (GIVEN_UP,)

    def test_a_listing_that_was_cut_off_before_it_does_not_reach_up_to_it(self) -> None:
        plan = over(STATE, "d/00.json", complete=False, unseen="d/a.json")
        assert [file.path for file in plan.listed] == ["d/00.json"]

    def test_settings_that_leave_it_out_give_it_up(self) -> None:
        listing = PathListing((), unseen=frozenset(("d",)))
        plan = plan_paths("p", replace(OF, exclude=("d/a.json",)), STATE, 1, listing, NOW, sizing=SIZING)
        assert plan.given_up[0].reason.startswith("left out of the source (excluded)")

    def test_a_set_keeps_it_too(self) -> None:
        state = SetState(Active("z"), files={"d/a.json": HALF, "d/b.json": Failed(1, "bad", 100)})
        plan = over_set(state, unseen="d")
        assert (plan.given_up, plan.opens, plan.waits) == ((), None, True)
        assert [(each.reason, each.count) for each in plan.skipped] == [(Reason.UNSEEN, 2)]
        assert [note for note in plan.notes if note.startswith("2 unfinished files are kept")]
        assert advance_set(OF, state, plan.listed, (), NOW, complete=True).state == state


class TestOfASet:
    state = SetState(Active("z"), files={"d/a.json": HALF})

    def test_it_becomes_a_letter_after_a_whole_listing_only(self) -> None:
        assert over_set(self.state).given_up == (GIVEN_UP,)
        assert over_set(self.state, "b", complete=False).given_up == ()

    def test_it_is_remembered_as_finished(self) -> None:
        step = advance_set(OF, self.state, (), [END], NOW, complete=True)
        assert step.state.files == {}
        assert [(file.path, file.size) for file in step.finished] == [("d/a.json", 100)]
