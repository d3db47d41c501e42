"""A set of paths: what outcomes make of it, which parts are merged, and its JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from laws.world import NOW, files, read, source
from support.errors import raises
from tidegate.core.files.advance import Advance, advance_set, mark_idle, segments_to_merge, with_segment
from tidegate.core.files.state import (
    Active,
    Changed,
    Covered,
    Failed,
    FileOutcome,
    Idle,
    Initial,
    NotReached,
    PathState,
    RecordsRead,
    Refused,
    Segment,
    SetState,
    decode_paths,
    decode_set,
    encode_paths,
    encode_set,
)
from tidegate.errors import StateError

OF = source(max_islands=3)
STATE = SetState(
    Idle("d/b"),
    (Segment("f" * 64, 8, 700), Segment("0" * 64, 1, 500)),
    {"d/c": RecordsRead(5, 77, "etag", 2), "a": Failed(2, "bad line 3", 12, None, 4)},
    1706450500,
)


def after(state: SetState, outcomes: Sequence[FileOutcome], *listed: str, complete: bool = True) -> Advance[SetState]:
    return advance_set(OF, state, files(*listed), outcomes, NOW, complete=complete)


def test_finished_files_leave_the_state_and_go_into_the_next_segment() -> None:
    step = after(STATE, [Covered("d/c", 77, "etag", 5, 9, eof=True), *read("d/a")], "a", "d/a", "d/c")
    assert [(file.path, file.size, file.etag) for file in step.finished] == [("d/c", 77, "etag"), ("d/a", 100, None)]
    assert step.changed
    assert list(step.state.files) == ["a"]
    assert step.state.watermark == Active("d/c")
    assert step.state.segments == STATE.segments
    assert step.state.last_update_ts == int(NOW.timestamp())


def test_a_file_read_in_part_or_refused_is_kept_by_name_and_in_no_segment() -> None:
    outcomes = [Covered("x", 9, "e", 0, 4, eof=False), Refused("y", 8, None, "no JSON"), NotReached("z")]
    step = after(SetState(), outcomes, "x", "y", "z")
    assert step.finished == ()
    assert step.state.files == {"x": RecordsRead(4, 9, "e"), "y": Failed(1, "no JSON", 8)}
    assert step.state.watermark == Initial()


def test_nothing_happened_is_no_change() -> None:
    step = after(STATE, [NotReached("d/c"), Changed("new")], "a", "d/c", "new")
    assert (step.changed, step.state) == (False, STATE)


def test_a_removed_file_is_forgotten_only_if_nothing_of_it_is_committed_and_everything_was_listed() -> None:
    state = SetState(files={"begun": Failed(1, "bad", 9, None, 4), "not begun": Failed(1, "bad", 9)})
    assert list(after(state, []).state.files) == ["begun"]
    assert not after(state, [], complete=False).changed


def test_lines_that_do_not_follow_what_is_committed_are_refused() -> None:
    with raises(StateError, "5 lines"):
        after(STATE, [Covered("d/c", 77, "etag", 0, 9, eof=True)], "d/c")


def test_too_many_failed_files_fill_the_state() -> None:
    refused = [Refused(name, 1, None, "bad") for name in "abc"]
    assert after(SetState(), refused, "a", "b", "c").full
    assert not after(SetState(), refused[:2], "a", "b").full


def test_idle_means_that_nothing_waits() -> None:
    done = SetState(Active("a"), STATE.segments)
    assert mark_idle(done, listed_any=True).watermark == Idle("a")
    assert mark_idle(SetState(), listed_any=True) == SetState()
    waiting = SetState(Active("a"), files={"b": Failed(1, "bad", 1)})
    assert mark_idle(waiting, listed_any=True) == waiting
    assert mark_idle(done, listed_any=False) is done


def grown(commits: Sequence[int]) -> tuple[SetState, int, int]:
    """A set after commits of so many files: its state, the paths written in all, the most segments at a time."""
    state, written, most = SetState(), 0, 0
    for number, added in enumerate(commits):
        merged = segments_to_merge(state.segments, added)
        total = added + sum(each.count for each in merged)
        state = with_segment(state, merged, Segment(str(number), total, 0))
        written += total
        most = max(most, len(state.segments))
    return state, written, most


@pytest.mark.parametrize("added", [1, 10, 100])
def test_segments_stay_few_and_paths_are_rarely_written_again(added: int) -> None:
    state, written, most = grown([added] * 5000)
    assert state.remembered == 5000 * added
    assert most <= 7 * 8
    assert written <= 6 * state.remembered


def test_a_large_commit_takes_small_segments_along_and_leaves_larger_ones() -> None:
    small = [Segment(str(number), 1, 0) for number in range(7)]
    large = Segment("large", 1_000_000, 0)
    assert segments_to_merge([large, *small], 5000) == tuple(small)
    assert segments_to_merge([large, *small[:6]], 5000) == ()


def test_a_state_is_read_back_as_it_was() -> None:
    assert decode_set(json.loads(json.dumps(encode_set(STATE)))) == STATE
    assert decode_set(encode_set(SetState())) == SetState()


def test_the_json_has_the_names_of_other_states() -> None:
    encoded = encode_set(STATE)
    assert encoded["tracking"] == "set"
    assert encoded["watermark"] == {"state": "Idle", "value": "d/b"}
    assert encoded["set"] == {
        "files": 9,
        "segments": [{"sha256": "f" * 64, "count": 8, "size": 700}, {"sha256": "0" * 64, "count": 1, "size": 500}],
    }
    assert encoded["source_state"] == {
        "files": {
            "a": {"Failed": {"attempts": 2, "reason": "bad line 3"}, "size": 12, "etag": None, "RecordsRead": 4},
            "d/c": {"RecordsRead": 5, "size": 77, "etag": "etag", "rounds": 2},
        },
        "last_committed_file": "d/b",
    }


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"schema_version": 2}, "schema_version 2"),
        ({"other": 1}, "state.other"),
        ({"set": {"files": 8, "segments": []}}, "state.set.files … 0 … 8"),
        ({"set": {"files": 0, "segments": [{"sha256": 1}]}}, "state.set.segments[0].sha256 … string"),
        (
            {"source_state": {"files": {"a": "Finished"}}},
            "state.source_state.files['a'] … RecordsRead … 'Finished'",
        ),
        ({"tracking": "other"}, "state.tracking … 'other'"),
    ],
)
def test_anything_else_is_refused(change: dict[str, object], told: str) -> None:
    with raises(StateError, told):
        decode_set(encode_set(STATE) | change)


def test_a_state_of_the_other_kind_is_refused_with_the_way_out() -> None:
    with raises(StateError, "use_watermark: true"):
        decode_set(encode_paths(PathState(Active("a"), {"": "a"}, last_update_ts=int(datetime.now(UTC).timestamp()))))
    with raises(StateError, "use_watermark", "false"):
        decode_paths(encode_set(STATE))
