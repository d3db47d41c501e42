"""A watermark moved by a person changes one partition, and leaves a state that a run could have left."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from support.long_runs import examples
from tidegate.core.files.discovery import is_new
from tidegate.core.files.edit import forget_partition, knows, move_watermark
from tidegate.core.files.paths import join, sort_key, split
from tidegate.core.files.state import (
    Active,
    Failed,
    Finished,
    Idle,
    LateWindow,
    PathState,
    RecordsRead,
    decode_paths,
    encode_paths,
    greatest_path,
)
from tidegate.specs.files import PathSource
from tidegate.specs.locations import Location

NOW = datetime(2026, 1, 28, 12, tzinfo=UTC)
SOURCE = PathSource("s", Location("file:///data"))
NAMES = "abcdefgh"
PARTITIONS = ("", "d=1", "d=1-x", "d=2")
names = st.sampled_from(NAMES)
partitions = st.sampled_from(PARTITIONS)


@st.composite
def valid_states(draw: st.DrawFn) -> PathState:
    """A state as runs leave them: islands above the watermark, windows of names below it."""
    watermarks, files, windows = {}, {}, {}
    for partition in draw(st.lists(partitions, unique=True, min_size=1)):
        mark = draw(st.none() | names)
        if mark is not None:
            watermarks[partition] = mark
            below = [name for name in NAMES if name <= mark]
            above = draw(st.none() | st.sampled_from(below).filter(lambda name, mark=mark: name < mark))
            inside = [name for name in below if above is None or name > above]
            chosen = draw(st.sets(st.sampled_from(inside)))
            if draw(st.booleans()):
                windows[partition] = LateWindow(tuple(sorted({*chosen, mark})), above)
        for name in draw(st.sets(names, max_size=3)):
            if mark is None or name > mark:
                kinds = st.sampled_from((Finished(), RecordsRead(3, 5), Failed(1, "bad", 5)))
                files[join(partition, name)] = draw(kinds)
    value = greatest_path(watermarks)
    if value is None:
        watermarks, value = {"d=1": "a"}, "d=1/a"
        files = {path: each for path, each in files.items() if path != "d=1/a"}
    kind = draw(st.sampled_from((Active, Idle)))
    last = draw(st.none() | st.sampled_from([join(*item) for item in watermarks.items()]))
    return PathState(kind(value), watermarks, files, last, windows)


def assert_is_valid(state: PathState) -> None:
    for path, progress in state.files.items():
        partition, name = split(path)
        mark = state.partition_watermarks.get(partition)
        assert mark is None or name > mark or not isinstance(progress, Finished)
    for partition, window in state.late_window.items():
        mark = state.partition_watermarks[partition]
        assert list(window.names) == sorted(set(window.names))
        assert all(name <= mark and window.reaches(name) for name in window.names)
        assert window.above is None or window.above < mark
    assert state.value == greatest_path(state.partition_watermarks)
    last = state.last_committed_file
    assert last is None or any(sort_key(last) <= sort_key(join(*item)) for item in state.partition_watermarks.items())
    assert decode_paths(json.loads(json.dumps(encode_paths(state)))) == state


def rest(state: PathState, partition: str) -> tuple[object, ...]:
    return (
        {other: each for other, each in state.partition_watermarks.items() if other != partition},
        {path: each for path, each in state.files.items() if split(path)[0] != partition},
        {other: each for other, each in state.late_window.items() if other != partition},
        state.sealed,
    )


@settings(deadline=None, max_examples=examples(200))
@given(valid_states(), partitions, names)
def test_setting_a_watermark_changes_its_partition_only_and_leaves_a_valid_state(
    state: PathState, partition: str, name: str
) -> None:
    after = move_watermark(SOURCE, state, partition, name, NOW)
    assert_is_valid(after)
    assert rest(after, partition) == rest(state, partition)
    assert after.partition_watermarks[partition] == name


@settings(deadline=None, max_examples=examples(200))
@given(valid_states(), partitions, names)
def test_below_a_set_watermark_nothing_becomes_due_and_above_it_nothing_is_lost(
    state: PathState, partition: str, name: str
) -> None:
    after = move_watermark(SOURCE, state, partition, name, NOW)
    was_due, is_due = is_new(SOURCE, state), is_new(SOURCE, after)
    for other in NAMES:
        path = join(partition, other)
        if other <= name:
            assert was_due(path) or not is_due(path)
        elif not isinstance(state.files.get(path), Finished):
            assert is_due(path)


@settings(deadline=None, max_examples=examples(200))
@given(valid_states(), partitions)
def test_forgetting_a_partition_makes_all_its_files_due_and_no_other(state: PathState, partition: str) -> None:
    if not knows(state, partition):
        return
    after = forget_partition(SOURCE, state, partition, NOW)
    assert_is_valid(after)
    assert rest(after, partition) == rest(state, partition)
    was_due, is_due = is_new(SOURCE, state), is_new(SOURCE, after)
    for where in PARTITIONS:
        for name in NAMES:
            path = join(where, name)
            assert is_due(path) == (where == partition or was_due(path))
