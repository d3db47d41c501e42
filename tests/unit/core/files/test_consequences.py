"""What a changed state would mean for the files that are there."""

from __future__ import annotations

from datetime import UTC, datetime

from tidegate.core.files.edit import blank_state, consequences, forget_partition, move_watermark
from tidegate.core.files.paths import SourceFile
from tidegate.core.files.state import Active, Failed, Finished, LateWindow, PathState, RecordsRead
from tidegate.specs.locations import Location
from tidegate.specs.project import PathSource

NOW = datetime(2026, 1, 28, 12, tzinfo=UTC)
SOURCE = PathSource("s", Location("file:///data"))
FILES = [SourceFile(f"d=1/{name}", 10) for name in "abcdefgh"]
STATE = PathState(
    Active("d=1/c"),
    {"d=1": "c"},
    {"d=1/d": Failed(1, "line 2", 10, None), "d=1/e": Finished(), "d=1/f": RecordsRead(70, 10)},
    late_window={"d=1": LateWindow(("a", "b", "c"))},
)


def test_a_watermark_that_goes_down_makes_files_due_again() -> None:
    found = consequences(SOURCE, STATE, move_watermark(SOURCE, STATE, "d=1", "a", NOW), FILES, NOW)
    assert (found.again.files, found.again.bytes, found.again.examples) == (2, 20, ["d=1/b", "d=1/c"])
    assert found.never.files == 0
    assert found.notes == ("2 that failed or are in progress above the new watermark stay as they are",)


def test_a_watermark_that_goes_up_passes_files_over_and_tells_what_they_leave_behind() -> None:
    found = consequences(SOURCE, STATE, move_watermark(SOURCE, STATE, "d=1", "g", NOW), FILES, NOW)
    assert found.again.files == 0
    assert (found.never.files, found.never.examples) == (3, ["d=1/d", "d=1/f", "d=1/g"])
    assert found.notes == (
        "d=1/d failed (line 2), which is forgotten",
        "d=1/f is in progress, which is forgotten; 70 of its lines are in the table and stay there",
        "3 names leave the late window: what comes late beside them is not noticed any more",
    )


def test_a_forgotten_partition_makes_islands_due_again() -> None:
    found = consequences(SOURCE, STATE, forget_partition(SOURCE, STATE, "d=1", NOW), FILES, NOW)
    assert (found.again.files, found.never.files) == (4, 0)
    assert "1 that finished above a gap are no longer remembered by name" in found.notes


def test_many_unfinished_files_are_counted_and_few_are_named() -> None:
    state = PathState(Active("d=1/a"), {"d=1": "a"}, {f"d=1/{name}": Failed(1, "bad", 1) for name in "bcdefgh"})
    found = consequences(SOURCE, state, blank_state(NOW), FILES, NOW)
    assert found.notes[-1] == "4 more that failed or are in progress are forgotten"
    assert len(found.notes) == 4


def test_a_listing_may_be_a_stream() -> None:
    found = consequences(SOURCE, STATE, blank_state(NOW), iter(FILES), NOW)
    assert (found.listed, found.again.files, len(found.again.examples)) == (8, 4, 3)


def test_files_that_are_asked_about_are_told_if_something_of_them_is_read_a_second_time() -> None:
    asked = {"d=1/a", "d=1/b", "d=1/d", "d=1/f", "d=1/gone"}
    down = consequences(SOURCE, STATE, move_watermark(SOURCE, STATE, "d=1", "a", NOW), FILES, NOW, asked)
    assert down.from_start == {"d=1/b"}
    forgotten = consequences(SOURCE, STATE, forget_partition(SOURCE, STATE, "d=1", NOW), FILES, NOW, asked)
    assert forgotten.from_start == {"d=1/a", "d=1/b", "d=1/f"}
