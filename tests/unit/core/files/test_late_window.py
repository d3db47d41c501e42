"""The late window: which names it keeps, and which late files it finds."""

from __future__ import annotations

import pytest

from laws.world import World, advanced, is_empty, paths_of, planned, read, source
from tidegate.core.files.state import Active, LateWindow, PathState, RecordsRead, shrink_windows
from tidegate.specs.files import LateFiles

OF = source(pattern="*", late_window=2)


def at(names: str, *, watermark: str, above: str | None = None) -> PathState:
    return PathState(Active(f"d/{watermark}"), {"d": watermark}, late_window={"d": LateWindow(tuple(names), above)})


def test_a_window_keeps_its_greatest_names_and_starts_above_what_it_lost() -> None:
    window = LateWindow(("a", "b")).with_names(["d", "c", "b"])
    assert window == LateWindow(("a", "b", "c", "d"))
    assert window.with_at_most(3) == LateWindow(("b", "c", "d"), above="a")
    assert window.with_at_most(9) is window
    assert window.with_at_most(0) == LateWindow((), above="d")


def test_names_below_a_window_are_not_kept_in_it() -> None:
    assert LateWindow(("m",), above="k").with_names(["a", "l"]) == LateWindow(("l", "m"), above="k")


def test_partitions_without_activity_shrink_first_and_the_smallest_of_them_before_others() -> None:
    windows = {name: LateWindow(("1", "2", "3")) for name in ("a", "b", "c")}
    sized = shrink_windows(windows, each=3, total=4, active={"a"})
    assert {name: window.names for name, window in sized.items()} == {
        "a": ("1", "2", "3"),
        "b": (),
        "c": ("3",),
    }
    assert {name: window.above for name, window in sized.items()} == {"a": None, "b": "3", "c": "2"}


def test_active_partitions_shrink_when_the_others_are_not_enough() -> None:
    windows = {name: LateWindow(("1", "2", "3")) for name in ("a", "b")}
    sized = shrink_windows(windows, each=3, total=2, active={"b"})
    assert {name: window.names for name, window in sized.items()} == {"a": (), "b": ("2", "3")}


@pytest.mark.parametrize(
    ("state", "late"),
    [
        pytest.param(at("ac", watermark="c"), ["d/b"], id="between two finished names"),
        pytest.param(at("bc", watermark="c"), ["d/a"], id="below all, window from the start"),
        pytest.param(at("bc", watermark="c", above="a"), [], id="at the start of the window"),
        pytest.param(PathState(Active("d/c"), {"d": "c"}), [], id="no window"),
    ],
)
def test_a_file_inside_the_window_that_is_not_among_its_names_is_late(state: PathState, late: list[str]) -> None:
    plan = planned(OF, state, "d/a", "d/b", "d/c") if not late else planned(OF, state, *late, "d/c")
    assert paths_of(plan) == late
    assert list(plan.late) == late


def test_strict_sources_do_not_look_and_say_so() -> None:
    strict = source(pattern="*", late_files=LateFiles.STRICT)
    plan = planned(strict, at("ac", watermark="c"), "d/b")
    assert paths_of(plan) == []
    assert plan.remarks == ("late files are not looked for (late_files: strict)",)


def test_a_late_file_is_read_once_and_the_watermark_stays() -> None:
    world = World(source(pattern="*"))
    for path in ("d/a", "d/c"):
        world.arrive(path)
    world.drain()
    world.arrive("d/b")
    plan = world.plan()
    assert paths_of(plan) == ["d/b"]
    step = world.commit(plan, [world.outcome(plan.groups[0].slices[0], "whole")])
    assert (step.changed, step.advanced) == (True, ())
    assert world.state.partition_watermarks == {"d": "c"}
    assert world.state.late_window["d"].names == ("a", "b", "c")
    assert is_empty(world.plan())


def test_a_late_file_that_waits_is_kept_by_name_when_the_window_slides_past_it() -> None:
    state = at("ac", watermark="c")
    listed = ["d/b", "d/d", "d/e"]
    step = advanced(OF, state, listed, read("d/d", "d/e"))
    assert step.state.late_window == {"d": LateWindow(("d", "e"), above="c")}
    assert step.state.files == {"d/b": RecordsRead(0, 100, None, rounds=0)}
    assert paths_of(planned(OF, step.state, "d/a", *listed)) == ["d/b"]
    done = advanced(OF, step.state, listed, read("d/b"))
    assert done.state.files == {}
    assert paths_of(planned(OF, done.state, "d/a", *listed)) == []


def test_a_window_that_was_lost_starts_at_the_watermark_and_says_so() -> None:
    world = World(source(pattern="*"))
    for path in ("d/a", "d/c"):
        world.arrive(path)
    world.drain()
    world.restart(from_log=True)
    world.arrive("d/b")
    plan = world.plan()
    assert plan.groups == ()
    assert plan.notes[0].startswith("the late window is empty and starts at the watermarks")
    world.arrive("d/e")
    world.drain()
    world.arrive("d/d")
    assert paths_of(world.plan()) == ["d/d"]
    assert world.plan().notes == ()
