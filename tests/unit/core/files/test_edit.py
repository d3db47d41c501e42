"""A watermark moved by a person: where it stands, what is remembered, and what is forgotten."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tidegate.core.files.edit import blank_state, forget_partition, move_watermark
from tidegate.core.files.state import Active, Failed, Finished, Idle, Initial, LateWindow, PathState, RecordsRead, Seal
from tidegate.errors import TidegateError
from tidegate.specs.locations import Location
from tidegate.specs.project import PathSource

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
    with pytest.raises(TidegateError, match="nothing is recorded about partition 'd=9'"):
        forget_partition(SOURCE, STATE, "d=9", NOW)


def test_a_sealed_partition_has_no_watermark_to_move() -> None:
    sealed = PathState(Active("date=2026-01-28/a"), {"date=2026-01-28": "a"}, sealed={"": Seal(NOW)})
    for move in (
        lambda: move_watermark(SOURCE, sealed, "date=2026-01-01", "a", NOW),
        lambda: forget_partition(SOURCE, sealed, "date=2026-01-01", NOW),
    ):
        with pytest.raises(TidegateError, match="is sealed"):
            move()
