"""How the watermark advances: the tables of the specification, row by row, what outcomes leave behind, and coverage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws.world import NOW, World, advanced, files, read, source
from support.errors import raises
from support.long_runs import examples
from tidegate.core.files.advance import PathSteps, advance, apply_commits, mark_idle
from tidegate.core.files.state import (
    REASON_LIMIT,
    Active,
    Changed,
    Covered,
    Failed,
    FileOutcome,
    FileProgress,
    FileStatus,
    Finished,
    Idle,
    Initial,
    LateWindow,
    NotReached,
    PathState,
    RecordsRead,
    Refused,
    WatermarkState,
)
from tidegate.errors import StateError
from tidegate.specs.files import LateFiles, Lateness

OF = source(pattern="*")
BAD = Refused("d/a", 100, None, "bad line")
DEAD_LETTERED = Covered("d/a", 100, None, 0, 4, eof=True)


@dataclass(frozen=True)
class Row:
    """Outcomes in their order, one commit each, and what they leave."""

    outcomes: Sequence[FileOutcome]
    watermark: str | None
    kept: dict[str, FileProgress] = field(default_factory=dict)


TABLE = {
    "a b c | c": Row(read("d/c"), None, {"d/c": Finished()}),
    "a b c | c, a": Row(read("d/c", "d/a"), "a", {"d/c": Finished()}),
    "a b c | c, a, b": Row(read("d/c", "d/a", "d/b"), "c"),
    "a b c | a fails for good (dead-letter), b, c": Row([DEAD_LETTERED, *read("d/b", "d/c")], "c"),
    "a b c | a fails, will be retried; b, c": Row(
        [BAD, *read("d/b", "d/c")],
        None,
        {"d/a": Failed(1, "bad line", 100), "d/b": Finished(), "d/c": Finished()},
    ),
}


@pytest.mark.parametrize("at_once", [False, True], ids=["one commit each", "one commit"])
@pytest.mark.parametrize("row", TABLE.values(), ids=TABLE)
def test_listed_finished_watermark_kept(row: Row, at_once: bool) -> None:
    state = PathState()
    for batch in [row.outcomes] if at_once else [[outcome] for outcome in row.outcomes]:
        state = advanced(OF, state, ["d/a", "d/b", "d/c"], batch).state
    assert state.partition_watermarks.get("d") == row.watermark
    assert state.files == row.kept


def test_updates_over_two_partitions_give_one_entry_each_and_the_greatest_path() -> None:
    order = ["28/f1", "29/f1", "28/f2", "29/f2", "28/f3"]
    state = PathState()
    for path in order:
        state = advanced(OF, state, order, read(path)).state
    assert state.partition_watermarks == {"28": "f3", "29": "f2"}
    assert state.watermark == Active("29/f2")


def test_the_watermark_stops_below_what_a_cut_listing_did_not_show() -> None:
    state = PathState(files={"d/d": Finished()})
    step = advance(OF, state, files("d/a", "d/b"), read("d/a", "d/b"), NOW, complete=False)
    assert step.state.partition_watermarks == {"d": "b"}
    assert step.state.files == {"d/d": Finished()}


def test_a_name_that_was_not_listed_is_kept_apart() -> None:
    step = advanced(OF, PathState(), ["d/a"], read("d/z"))
    assert step.state.partition_watermarks == {}
    assert step.state.files == {"d/z": Finished()}


def test_islands_below_a_new_watermark_are_dropped_even_if_they_are_no_longer_listed() -> None:
    state = PathState(files={"d/b": Finished()})
    step = advanced(OF, state, ["d/a", "d/c"], read("d/a", "d/c"))
    assert step.state.partition_watermarks == {"d": "c"}
    assert step.state.files == {}
    assert step.state.late_window["d"].names == ("a", "b", "c")


def test_a_part_is_remembered_with_size_etag_and_rounds_and_resumed_twice() -> None:
    state = PathState()
    for start, end in ((0, 10), (10, 25)):
        state = advanced(OF, state, ["d/a"], [Covered("d/a", 100, "e", start, end, eof=False)]).state
    assert state.files == {"d/a": RecordsRead(25, 100, "e", rounds=2)}
    state = advanced(OF, state, ["d/a"], [Covered("d/a", 100, "e", 25, 30, eof=True)]).state
    assert state.partition_watermarks == {"d": "a"}
    assert state.files == {}


def test_two_parts_of_one_file_may_be_in_one_commit() -> None:
    parts = [Covered("d/a", 100, None, 0, 5, eof=False), Covered("d/a", 100, None, 5, 9, eof=True)]
    assert advanced(OF, PathState(), ["d/a"], parts).state.partition_watermarks == {"d": "a"}


@pytest.mark.parametrize("start", [0, 4, 6])
def test_lines_that_do_not_follow_the_committed_ones_are_refused(start: int) -> None:
    state = PathState(files={"d/a": RecordsRead(5, 100)})
    with raises(StateError, "d/a", f"lines {start} to 9", "5 lines"):
        advanced(OF, state, ["d/a"], [Covered("d/a", 100, None, start, 9, eof=True)])


def test_attempts_are_counted_and_start_again_with_new_content() -> None:
    state = PathState()
    for _ in range(2):
        state = advanced(OF, state, ["d/a"], [BAD]).state
    assert state.files == {"d/a": Failed(2, "bad line", 100)}
    again = advanced(OF, state, ["d/a"], [Refused("d/a", 101, None, "other")]).state
    assert again.files == {"d/a": Failed(1, "other", 101)}


def test_a_failure_in_the_middle_keeps_the_lines_that_are_committed() -> None:
    state = PathState(files={"d/a": RecordsRead(5, 100)})
    failed = advanced(OF, state, ["d/a"], [BAD]).state
    assert failed.files == {"d/a": Failed(1, "bad line", 100, records=5)}
    on = advanced(OF, failed, ["d/a"], [Covered("d/a", 100, None, 5, 7, eof=False)]).state
    assert on.files == {"d/a": RecordsRead(7, 100, rounds=1)}


def test_a_long_reason_is_cut() -> None:
    step = advanced(OF, PathState(), ["d/a"], [replace(BAD, reason="x" * 10_000)])
    progress = step.state.files["d/a"]
    assert isinstance(progress, Failed)
    assert len(progress.reason) == REASON_LIMIT


@pytest.mark.parametrize("outcome", [NotReached("d/a"), Changed("d/a")], ids=["not reached", "changed"])
def test_a_file_that_was_not_begun_leaves_no_trace(outcome: FileOutcome) -> None:
    assert not advanced(OF, PathState(), ["d/a"], [outcome]).changed


def test_a_change_after_committed_lines_is_recorded_as_a_failure() -> None:
    state = PathState(files={"d/a": RecordsRead(5, 100, "e")})
    step = advanced(OF, state, ["d/a"], [Changed("d/a")])
    reason = "changed after 5 of its lines were committed"
    assert step.state.files == {"d/a": Failed(1, reason, 100, "e", records=5)}


def test_an_unfinished_file_that_was_removed_no_longer_holds_the_watermark() -> None:
    state = PathState(files={"d/a": Failed(5, "bad", 100), "d/b": Finished()})
    step = advanced(OF, state, ["d/b"], [])
    assert step.state.partition_watermarks == {"d": "b"}
    assert step.state.files == {}


def test_a_removed_file_with_committed_lines_is_remembered_so_that_it_is_never_read_from_its_start() -> None:
    state = PathState(files={"d/a": RecordsRead(5, 100)})
    step = advanced(OF, state, ["d/b"], read("d/b"))
    assert step.state.partition_watermarks == {"d": "b"}
    assert step.state.files == {"d/a": RecordsRead(5, 100)}


def test_a_cut_listing_does_not_make_what_it_did_not_show_look_removed() -> None:
    state = PathState(files={"d/c": Failed(1, "bad", 100)})
    step = advance(OF, state, files("d/a"), read("d/a"), NOW, complete=False)
    assert "d/c" in step.state.files


@pytest.mark.parametrize(
    ("finished", "last"),
    [
        (["1/a"], "1/a"),
        (["1/a", "2/a"], "1/a"),
        (["1/a", "1/b", "2/b"], "1/b"),
        (["2/a", "2/b"], None),
        (["1/a", "1/b", "2/a", "2/b"], "2/b"),
    ],
)
def test_last_committed_file_has_everything_listed_below_it_finished(finished: list[str], last: str | None) -> None:
    step = advanced(OF, PathState(), ["1/a", "1/b", "2/a", "2/b"], read(*finished))
    assert step.state.last_committed_file == last


def test_last_committed_file_goes_below_a_late_file_that_waits() -> None:
    state = advanced(OF, PathState(), ["1/a", "1/c"], read("1/a", "1/c")).state
    waiting = advanced(OF, state, ["1/b"], [Refused("1/b", 100, None, "bad")]).state
    assert waiting.partition_watermarks == {"1": "c"}
    assert waiting.last_committed_file == "1/a"


def test_full_says_that_no_more_names_may_wait_above_a_gap() -> None:
    narrow = source(pattern="*", max_islands=2)
    step = advanced(narrow, PathState(), ["d/a", "d/b", "d/c"], read("d/b"))
    assert not step.full
    assert advanced(narrow, step.state, ["d/a", "d/b", "d/c"], read("d/c")).full


def test_strict_sources_keep_no_window() -> None:
    strict = source(pattern="*", late_files=LateFiles.STRICT)
    state = PathState(late_window={"d": LateWindow(("a",))}, partition_watermarks={"d": "a"})
    assert advanced(strict, state, ["d/b"], read("d/b")).state.late_window == {}


def test_a_source_that_was_strict_starts_its_window_at_the_watermark() -> None:
    state = PathState(Active("d/m"), {"d": "m"})
    step = advanced(OF, state, ["d/n"], read("d/n"))
    assert step.state.late_window == {"d": LateWindow(("n",), above="m")}


def test_a_lost_window_is_no_longer_lost_after_a_commit() -> None:
    state = PathState(Active("d/m"), {"d": "m"}, window_lost=True)
    assert not advanced(OF, state, ["d/n"], read("d/n")).state.window_lost


@pytest.mark.parametrize("per_folder", [20, 1_000])
def test_the_commits_of_a_plan_look_through_its_listing_once(monkeypatch: pytest.MonkeyPatch, per_folder: int) -> None:
    looked: list[str] = []
    is_finished = FileStatus.is_finished
    monkeypatch.setattr(FileStatus, "is_finished", lambda self, name: looked.append(name) or is_finished(self, name))
    listed = files(*(f"d={number // per_folder:03d}/{number % per_folder:04d}" for number in range(1_000)))
    steps, state = PathSteps(OF, listed, NOW, complete=True), PathState()
    for first in range(0, 1_000, 10):
        state = steps.after(state, read(*(file.path for file in listed[first : first + 10]))).state
    assert state.value == listed[-1].path
    assert len(looked) < 3 * len(listed) + 100


NEVER_LATE = source(pattern="*", lateness=Lateness(never=True))
ABC = ["d/a", "d/b", "d/c"]


def test_a_range_to_the_end_finishes_its_file_and_moves_the_watermark() -> None:
    state = apply_commits(NEVER_LATE, PathState(), [read("d/a"), read("d/b")], files(*ABC), NOW)
    assert state.partition_watermarks == {"d": "b"}
    assert state.value == "d/b"


def test_above_a_gap_it_is_an_island() -> None:
    state = apply_commits(NEVER_LATE, PathState(), [read("d/a", "d/c")], files(*ABC), NOW)
    assert (state.partition_watermarks, state.files) == ({"d": "a"}, {"d/c": Finished()})


def test_what_is_not_listed_moves_no_watermark_and_stays_finished() -> None:
    state = apply_commits(NEVER_LATE, PathState(), [read("d/a", "d/c")], (), NOW)
    assert state.partition_watermarks == {}
    assert state.files == {"d/a": Finished(), "d/c": Finished()}


def test_a_range_in_the_middle_is_progress_and_is_followed_by_the_next() -> None:
    first = Covered("d/a", 100, None, 0, 40, eof=False)
    state = apply_commits(NEVER_LATE, PathState(), [[first]], files(*ABC), NOW)
    assert state.files == {"d/a": RecordsRead(40, 100)}
    rest = Covered("d/a", 100, None, 40, 90, eof=True)
    assert apply_commits(NEVER_LATE, state, [[rest]], files(*ABC), NOW).partition_watermarks == {"d": "a"}


def test_a_range_that_does_not_follow_is_refused() -> None:
    with raises(StateError, "0 lines"):
        apply_commits(NEVER_LATE, PathState(), [[Covered("d/a", 100, None, 40, 90, eof=True)]], files(*ABC), NOW)


@settings(deadline=None, max_examples=examples(60))
@given(st.permutations([f"d={day}/{name}" for day in "12" for name in "abcde"]), st.integers(0, 3))
def test_it_finishes_exactly_what_the_commits_had_finished(order: list[str], base: int) -> None:
    listed = files(*sorted(order))
    commits = [read(*order[at : at + 2]) for at in range(0, 8, 2)]
    states = [PathState()]
    for outcomes in commits:
        states.append(advance(NEVER_LATE, states[-1], listed, outcomes, NOW, complete=True).state)
    rebuilt = apply_commits(NEVER_LATE, states[base], commits[base:], listed, NOW)
    assert (rebuilt.partition_watermarks, rebuilt.files) == (states[-1].partition_watermarks, states[-1].files)


AT_28_F2 = PathState(Active("28/f2"), {"28": "f2"})


@pytest.mark.parametrize("before", [Initial(), Active("28/f2"), Idle("28/f2")], ids=["Initial", "Active", "Idle"])
def test_any_partitions_watermark_advances_gives_active_at_the_greatest_path(before: WatermarkState) -> None:
    state = PathState() if before == Initial() else replace(AT_28_F2, watermark=before)
    step = advanced(OF, state, ["28/f3", "27/f1"], read("28/f3", "27/f1"))
    assert step.state.watermark == Active("28/f3")
    assert step.changed


def test_an_older_partition_that_advances_leaves_the_greatest_path() -> None:
    step = advanced(OF, replace(AT_28_F2, watermark=Idle("28/f2")), ["27/f1"], read("27/f1"))
    assert step.state.watermark == Active("28/f2")
    assert step.advanced == (("27", None, "f1"),)


def test_a_poll_that_finds_nothing_new_makes_active_idle_and_keeps_the_path() -> None:
    assert mark_idle(AT_28_F2, listed_any=True).watermark == Idle("28/f2")


def test_a_poll_that_finds_nothing_leaves_initial() -> None:
    assert mark_idle(PathState(), listed_any=False).watermark == Initial()
    assert mark_idle(PathState(), listed_any=True).watermark == Initial()


@pytest.mark.parametrize("before", [Active("28/f2"), Idle("28/f2")], ids=["Active", "Idle"])
@pytest.mark.parametrize("name", ["f2", "f1"], ids=["equal name", "smaller name"])
def test_an_update_with_an_equal_or_smaller_name_is_no_change(before: WatermarkState, name: str) -> None:
    state = replace(AT_28_F2, watermark=before)
    step = advanced(OF, state, [f"28/{name}"], read(f"28/{name}"))
    assert not step.changed
    assert step.state is state


@pytest.mark.parametrize("before", [Active("28/f2"), Idle("28/f2")], ids=["Active", "Idle"])
def test_a_source_that_was_emptied_keeps_its_watermark_and_does_not_become_idle(before: WatermarkState) -> None:
    state = replace(AT_28_F2, watermark=before)
    assert mark_idle(state, listed_any=False) is state


@pytest.mark.parametrize("progress", [Failed(1, "bad", 100), RecordsRead(5, 100)], ids=["failed", "in progress"])
def test_a_source_is_not_idle_while_a_file_waits(progress: Failed | RecordsRead) -> None:
    waiting = replace(AT_28_F2, files={"28/f3": progress})
    assert mark_idle(waiting, listed_any=True) is waiting


def test_a_failure_moves_nothing() -> None:
    step = advanced(OF, AT_28_F2, ["28/f3"], [Refused("28/f3", 100, None, "bad line 7")])
    assert step.state.watermark == Active("28/f2")
    assert step.state.files == {"28/f3": Failed(1, "bad line 7", 100)}
    assert step.changed
    assert step.advanced == ()


def test_of_two_sources_only_the_one_with_new_files_is_active() -> None:
    worlds = {name: World(source(name=name, pattern="*")) for name in ("a", "b")}
    for world in worlds.values():
        world.arrive("28/f1")
        world.drain()
    worlds["a"].arrive("28/f2")
    for world in worlds.values():
        plan = world.plan()
        if plan.groups:
            world.drain()
        else:
            world.state = mark_idle(world.state, plan.any_files)
    assert worlds["a"].state.watermark == Active("28/f2")
    assert worlds["b"].state.watermark == Idle("28/f1")


def test_the_time_of_the_last_change_is_kept_in_unix_seconds() -> None:
    step = advanced(OF, PathState(), ["a"], read("a"))
    assert step.state.last_update_ts == 1709296200
    assert files("a")[0].path == "a"
