"""The state as JSON: the names of the documents, older formats, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from support.errors import raises
from tidegate.core.files.state import (
    Active,
    Failed,
    Finished,
    Idle,
    Initial,
    LateWindow,
    PathState,
    RecordsRead,
    Seal,
    WatermarkState,
    decode_paths,
    drop_window,
    encode_paths,
)
from tidegate.errors import StateError

STATE = PathState(
    watermark=Active("date=2024-01-29/1706536800-uuid.ndjson.gz"),
    partition_watermarks={
        "date=2024-01-28": "1706450400-uuid.ndjson.gz",
        "date=2024-01-29": "1706536800-uuid.ndjson.gz",
    },
    files={
        "date=2024-01-29/c": Finished(),
        "date=2024-01-29/b": RecordsRead(5000, 77, "etag", rounds=2),
        "date=2024-01-29/a": Failed(2, "bad line 3", 12, None, records=4),
    },
    last_committed_file="date=2024-01-28/1706450400-uuid.ndjson.gz",
    late_window={"date=2024-01-28": LateWindow(("x", "y"), "w")},
    sealed={"": Seal(datetime(2024, 1, 26, tzinfo=UTC), 4)},
    last_update_ts=1706450500,
)
DOCUMENT = {
    "schema_version": 1,
    "watermark": {"state": "Active", "value": "date=2024-01-29/1706536800-uuid.ndjson.gz"},
    "partition_watermarks": {
        "date=2024-01-28": "1706450400-uuid.ndjson.gz",
        "date=2024-01-29": "1706536800-uuid.ndjson.gz",
    },
    "last_update_ts": 1706450500,
    "source_state": {
        "files": {
            "date=2024-01-29/a": {
                "Failed": {"attempts": 2, "reason": "bad line 3"},
                "size": 12,
                "etag": None,
                "RecordsRead": 4,
            },
            "date=2024-01-29/b": {"RecordsRead": 5000, "size": 77, "etag": "etag", "rounds": 2},
            "date=2024-01-29/c": "Finished",
        },
        "last_committed_file": "date=2024-01-28/1706450400-uuid.ndjson.gz",
    },
    "sealed": {"": {"below": "2024-01-26T00:00:00Z", "directories": 4}},
    "sealed_below": "",
    "late_window": {"date=2024-01-28": {"above": "w", "names": ["x", "y"]}},
}


def test_a_state_has_the_documented_names() -> None:
    assert encode_paths(STATE) == DOCUMENT
    assert decode_paths(DOCUMENT) == STATE


def test_the_embedded_state_leaves_out_the_late_window_and_says_so_when_read() -> None:
    found = decode_paths(drop_window(encode_paths(STATE)))
    assert "late_window" not in drop_window(encode_paths(STATE))
    assert (found.late_window, found.window_lost) == ({}, True)
    assert found.partition_watermarks == STATE.partition_watermarks


@pytest.mark.parametrize(
    ("watermark", "document"),
    [
        (Initial(), {"state": "Initial"}),
        (Active("a/b"), {"state": "Active", "value": "a/b"}),
        (Idle("a/b"), {"state": "Idle", "value": "a/b"}),
    ],
)
def test_the_three_states_of_a_watermark(watermark: WatermarkState, document: dict[str, str]) -> None:
    assert encode_paths(PathState(watermark))["watermark"] == document
    assert decode_paths({"watermark": document, "sealed": {}}).watermark == watermark


def test_nothing_is_a_source_that_never_started() -> None:
    assert decode_paths({}) == PathState()
    assert decode_paths({}).is_fresh


def test_a_watermark_that_is_a_string_is_migrated() -> None:
    state = decode_paths({"watermark": "28/f2", "last_update_ts": 7})
    assert state.watermark == Active("28/f2")
    assert state.partition_watermarks == {"28": "f2"}
    assert (state.sealed_below, state.last_update_ts) == ("28", 7)


def test_a_global_watermark_without_entries_becomes_one_and_seals_what_lies_before() -> None:
    state = decode_paths(
        {"schema_version": 1, "watermark": {"state": "Idle", "value": "28/f2"}, "partition_watermarks": {}}
    )
    assert (state.watermark, state.partition_watermarks, state.sealed_below) == (
        Idle("28/f2"),
        {"28": "f2"},
        "28",
    )


def test_a_global_watermark_at_the_top_level_seals_nothing() -> None:
    state = decode_paths({"watermark": "f2"})
    assert (state.partition_watermarks, state.sealed_below) == ({"": "f2"}, "")


def test_entries_beside_a_global_watermark_are_taken_as_they_are() -> None:
    state = decode_paths({"watermark": {"state": "Active", "value": "29/f1"}, "partition_watermarks": {"28": "f3"}})
    assert (state.partition_watermarks, state.sealed_below) == ({"28": "f3"}, "")


def test_our_own_state_with_a_watermark_and_no_entries_is_not_an_older_format() -> None:
    state = decode_paths({"watermark": {"state": "Active", "value": "28/f2"}, "sealed": {}})
    assert (state.partition_watermarks, state.sealed_below) == ({}, "")


def test_a_document_with_full_uris_is_made_relative() -> None:
    document = {
        "schema_version": 1,
        "source_state": {
            "files": {"s3://bucket/d=1/file3": {"RecordsRead": 5000}},
            "last_committed_file": "s3://bucket/d=1/file2",
        },
        "delta_version": 42,
    }
    state = decode_paths(document, source_uri="s3://bucket")
    assert state.watermark == Active("d=1/file2")
    assert state.partition_watermarks == {"d=1": "file2"}
    assert state.files == {"d=1/file3": RecordsRead(5000, None)}
    assert state.last_committed_file == "d=1/file2"


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"schema_version": 2}, "schema_version 2 … 1"),
        ({"schema_version": "1"}, "state.schema_version … whole number … '1'"),
        ({"schema_version": True}, "state.schema_version … whole number … True"),
        ({"surprise": 1}, "state.surprise … 1"),
        ({"watermark": {"state": "Asleep"}}, "state.watermark.state … Initial … Active … Idle"),
        ({"watermark": {"state": "Active"}}, "state.watermark.value … string … nothing"),
        ({"watermark": 3}, "state.watermark … object … 3"),
        ({"partition_watermarks": {"a": None}}, "state.partition_watermarks['a'] … string"),
        ({"partition_watermarks": []}, "state.partition_watermarks … object"),
        ({"source_state": {"files": {"a": "Done"}}}, "state.source_state.files['a'] … \"Finished\""),
        ({"source_state": {"files": {"a": {"RecordsRead": -1}}}}, "files['a'].RecordsRead … whole number … -1"),
        ({"source_state": {"files": {"a": {}}}}, "files['a'].RecordsRead … whole number … nothing"),
        ({"source_state": {"files": {"a": {"Failed": {}}}}}, "files['a'].Failed.attempts"),
        ({"source_state": {"more": 1}}, "state.source_state.more"),
        ({"sealed": {"": {"below": "yesterday"}}}, "state.sealed[''].below … ISO 8601"),
        ({"sealed": {"": {"below": "2024-01-01"}}}, "state.sealed[''].below … ISO 8601 … zone"),
        ({"late_window": {"a": {"names": "x"}}}, "state.late_window['a'].names … list"),
    ],
)
def test_anything_else_is_refused_by_name_and_never_a_fresh_start(document: dict[str, object], problem: str) -> None:
    with raises(StateError, problem) as refused:
        decode_paths(document)
    assert refused.value.remedy
