"""Initial, Active and Idle: the table of the path watermark specification, row by row."""

from __future__ import annotations

from dataclasses import replace

import pytest

from laws.world import World, advanced, files, read, source
from tidegate.core.files.advance import idle
from tidegate.core.files.state import Active, Failed, Idle, Initial, PathState, RecordsRead, Refused, WatermarkState

OF = source(pattern="*")
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
    assert idle(AT_28_F2, listed_any=True).watermark == Idle("28/f2")


def test_a_poll_that_finds_nothing_leaves_initial() -> None:
    assert idle(PathState(), listed_any=False).watermark == Initial()
    assert idle(PathState(), listed_any=True).watermark == Initial()


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
    assert idle(state, listed_any=False) is state


@pytest.mark.parametrize("progress", [Failed(1, "bad", 100), RecordsRead(5, 100)], ids=["failed", "in progress"])
def test_a_source_is_not_idle_while_a_file_waits(progress: Failed | RecordsRead) -> None:
    waiting = replace(AT_28_F2, files={"28/f3": progress})
    assert idle(waiting, listed_any=True) is waiting


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
        if plan.units:
            world.drain()
        else:
            world.state = idle(world.state, plan.any_files)
    assert worlds["a"].state.watermark == Active("28/f2")
    assert worlds["b"].state.watermark == Idle("28/f1")


def test_the_time_of_the_last_change_is_kept_in_unix_seconds() -> None:
    step = advanced(OF, PathState(), ["a"], read("a"))
    assert step.state.last_update_ts == 1709296200
    assert files("a")[0].path == "a"
