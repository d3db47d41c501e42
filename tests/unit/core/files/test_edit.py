"""A watermark moved by a person: where it stands, what that means for the files there, and which files are meant."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from support.errors import raises
from tidegate.core.files.edit import Selection, blank_state, consequences, forget_partition, move_watermark
from tidegate.core.files.paths import SourceFile
from tidegate.core.files.state import Active, Failed, Finished, Idle, Initial, LateWindow, PathState, RecordsRead, Seal
from tidegate.errors import TidegateError
from tidegate.specs.files import PathSource
from tidegate.specs.locations import Location

NOW = datetime(2026, 1, 28, 12, tzinfo=UTC)
SOURCE = PathSource("s", Location("file:///data"))
STATE = PathState(
    watermark=Idle("d=2/f"),
    partition_watermarks={"d=1": "m", "d=2": "f"},
    files={
        "d=1/c": Failed(2, "line 3", 10, None),
        "d=1/p": RecordsRead(100, 10),
        "d=1/q": Finished(),
        "d=2/g": Finished(),
    },
    last_committed_file="d=2/f",
    late_window={"d=1": LateWindow(("h", "k", "m"), "e"), "d=2": LateWindow(("f",), None)},
)


def test_moved_up_it_forgets_what_it_passes_over_and_starts_with_an_empty_window() -> None:
    after = move_watermark(SOURCE, STATE, "d=1", "p", NOW)
    assert after.partition_watermarks == {"d=1": "p", "d=2": "f"}
    assert set(after.files) == {"d=1/q", "d=2/g"}
    assert "d=1" not in after.late_window
    assert after.watermark == Active("d=2/f")
    assert after.last_committed_file == "d=2/f"


def test_moved_down_it_keeps_progress_above_and_the_lower_part_of_the_window() -> None:
    after = move_watermark(SOURCE, STATE, "d=1", "i", NOW)
    assert after.partition_watermarks["d=1"] == "i"
    assert set(after.files) == {"d=1/p", "d=1/q", "d=2/g"}
    assert after.late_window["d=1"] == LateWindow(("h",), "e")
    assert after.last_committed_file == "d=1/i"


def test_moved_below_its_window_it_has_none() -> None:
    assert "d=1" not in move_watermark(SOURCE, STATE, "d=1", "b", NOW).late_window


def test_moving_the_greatest_watermark_down_moves_the_value_of_the_source() -> None:
    assert move_watermark(SOURCE, STATE, "d=2", "a", NOW).watermark == Active("d=2/a")
    assert move_watermark(SOURCE, STATE, "d=3", "a", NOW).watermark == Active("d=3/a")


def test_a_watermark_that_is_there_already_changes_nothing() -> None:
    assert move_watermark(SOURCE, STATE, "d=1", "m", NOW) is STATE


def test_a_forgotten_partition_leaves_nothing_behind() -> None:
    after = forget_partition(SOURCE, STATE, "d=2", NOW)
    assert after.partition_watermarks == {"d=1": "m"}
    assert set(after.late_window) == {"d=1"}
    assert [path for path in after.files if path.startswith("d=2/")] == []
    assert after.watermark == Active("d=1/m")
    assert after.last_committed_file == "d=1/m"


def test_forgetting_the_only_partition_is_a_source_that_never_started() -> None:
    state = PathState(Active("d=1/a"), {"d=1": "a"}, last_committed_file="d=1/a")
    after = forget_partition(SOURCE, state, "d=1", NOW)
    assert (after.watermark, after.last_committed_file, after.is_fresh) == (Initial(), None, True)


def test_forgetting_everything_forgets_the_seals_too() -> None:
    assert blank_state(NOW).is_fresh


def test_a_partition_of_which_nothing_is_recorded_cannot_be_forgotten() -> None:
    with raises(TidegateError, "'d=9'"):
        forget_partition(SOURCE, STATE, "d=9", NOW)


def test_a_sealed_partition_has_no_watermark_to_move() -> None:
    sealed = PathState(Active("date=2026-01-28/a"), {"date=2026-01-28": "a"}, sealed={"": Seal(NOW)})
    for move in (
        lambda: move_watermark(SOURCE, sealed, "date=2026-01-01", "a", NOW),
        lambda: forget_partition(SOURCE, sealed, "date=2026-01-01", NOW),
    ):
        with raises(TidegateError, "'date=2026-01-01'", "tidegate replay --partition"):
            move()


FILES = [SourceFile(f"d=1/{name}", 10) for name in "abcdefgh"]
OPEN = PathState(
    Active("d=1/c"),
    {"d=1": "c"},
    {"d=1/d": Failed(1, "line 2", 10, None), "d=1/e": Finished(), "d=1/f": RecordsRead(70, 10)},
    late_window={"d=1": LateWindow(("a", "b", "c"))},
)


def test_a_watermark_that_goes_down_makes_files_due_again() -> None:
    found = consequences(SOURCE, OPEN, move_watermark(SOURCE, OPEN, "d=1", "a", NOW), FILES, NOW)
    assert (found.again.files, found.again.bytes, found.again.examples) == (2, 20, ["d=1/b", "d=1/c"])
    assert found.never.files == 0
    assert found.notes == ("2 that failed or are in progress above the new watermark stay as they are",)


def test_a_watermark_that_goes_up_passes_files_over_and_tells_what_they_leave_behind() -> None:
    found = consequences(SOURCE, OPEN, move_watermark(SOURCE, OPEN, "d=1", "g", NOW), FILES, NOW)
    assert found.again.files == 0
    assert (found.never.files, found.never.examples) == (3, ["d=1/d", "d=1/f", "d=1/g"])
    assert found.notes == (
        "d=1/d failed (line 2), which is forgotten",
        "d=1/f is in progress, which is forgotten; 70 of its lines are in the table and stay there",
        "3 names leave the late window: what comes late beside them is not noticed any more",
    )


def test_a_forgotten_partition_makes_islands_due_again() -> None:
    found = consequences(SOURCE, OPEN, forget_partition(SOURCE, OPEN, "d=1", NOW), FILES, NOW)
    assert (found.again.files, found.never.files) == (4, 0)
    assert "1 that finished above a gap are no longer remembered by name" in found.notes


def test_many_unfinished_files_are_counted_and_few_are_named() -> None:
    state = PathState(Active("d=1/a"), {"d=1": "a"}, {f"d=1/{name}": Failed(1, "bad", 1) for name in "bcdefgh"})
    found = consequences(SOURCE, state, blank_state(NOW), FILES, NOW)
    assert found.notes[-1] == "4 more that failed or are in progress are forgotten"
    assert len(found.notes) == 4


def test_a_listing_may_be_a_stream() -> None:
    found = consequences(SOURCE, OPEN, blank_state(NOW), iter(FILES), NOW)
    assert (found.listed, found.again.files, len(found.again.examples)) == (8, 4, 3)


def test_files_that_are_asked_about_are_told_if_something_of_them_is_read_a_second_time() -> None:
    asked = {"d=1/a", "d=1/b", "d=1/d", "d=1/f", "d=1/gone"}
    down = consequences(SOURCE, OPEN, move_watermark(SOURCE, OPEN, "d=1", "a", NOW), FILES, NOW, asked)
    assert down.from_start == {"d=1/b"}
    forgotten = consequences(SOURCE, OPEN, forget_partition(SOURCE, OPEN, "d=1", NOW), FILES, NOW, asked)
    assert forgotten.from_start == {"d=1/a", "d=1/b", "d=1/f"}


@pytest.mark.parametrize(
    ("selection", "taken", "left"),
    [
        (Selection("*.gz"), ["a.gz", "d=1/h=2/a.gz"], ["a.json"]),
        (Selection("d=1/*.gz"), ["d=1/a.gz"], ["d=1/h=2/a.gz", "d=10/a.gz", "a.gz"]),
        (Selection("d=1/**/a.gz"), ["d=1/a.gz", "d=1/h=2/a.gz"], ["d=1/b.gz"]),
        (Selection(directory="d=1"), ["d=1/a", "d=1/h=2/a"], ["d=10/a", "d=1-x/a", "a"]),
        (Selection(directory=""), ["a", "d=1/a"], []),
    ],
    ids=str,
)
def test_a_selection_takes_files(selection: Selection, taken: list[str], left: list[str]) -> None:
    assert [path for path in [*taken, *left] if selection.selects(path)] == taken


@pytest.mark.parametrize(
    ("pattern", "prefix"),
    [("*.gz", ""), ("d=1/*.gz", "d=1"), ("d=1/h=*/x/a", "d=1"), ("d=1/h=2/a", "d=1/h=2"), ("[ab]/c", ""), ("**/a", "")],
)
def test_everything_selected_lies_below_the_prefix(pattern: str, prefix: str) -> None:
    assert Selection(pattern).prefix == prefix


@pytest.mark.parametrize(("pattern", "directory"), [(None, None), ("a", "b")])
def test_a_selection_is_by_pattern_or_by_directory(pattern: str | None, directory: str | None) -> None:
    with raises(ValueError, "pattern", "directory"):
        Selection(pattern, directory)
