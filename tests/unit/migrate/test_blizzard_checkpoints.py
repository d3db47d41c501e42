"""Checkpoints of the older program as states: their forms, and what becomes of files that they do not tell about."""

from __future__ import annotations

from typing import Any

import pytest

from laws.world import files
from support.errors import raises
from tidegate.core.files.state import Finished, PathState, RecordsRead
from tidegate.errors import StateError
from tidegate.migrate.blizzard import carry_over, is_about, read_older

BASES = ("s3://b/in", "s3a://b/in")


def older(data: dict[str, Any]) -> PathState:
    return read_older(data, BASES).state


@pytest.mark.parametrize(
    ("data", "form"),
    [
        ({}, "empty"),
        ({"watermark": "d/a"}, "as a string"),
        ({"watermark": {"state": "Idle", "value": "d/a"}}, "with its state"),
        ({"watermark": "d/a", "partition_watermarks": {"d": "a"}}, "per partition"),
        ({"source_state": {"files": {}, "last_committed_file": "d/a"}}, "last finished file"),
    ],
)
def test_its_form_is_named(data: dict[str, Any], form: str) -> None:
    assert form in read_older(data, BASES).form


@pytest.mark.parametrize("base", BASES)
def test_full_uris_become_relative(base: str) -> None:
    files_ = {f"{base}/d/b": {"RecordsRead": 5000}}
    state = older({"source_state": {"files": files_, "last_committed_file": f"{base}/d/a"}})
    assert (state.value, state.last_committed_file, state.files) == ("d/a", "d/a", {"d/b": RecordsRead(5000, None)})
    assert (state.partition_watermarks, state.sealed_below) == ({"d": "a"}, "d")


@pytest.mark.parametrize("path", ["s3://b/into/a", "s3://other/a", "/in/a"])
def test_a_path_of_another_place_is_refused(path: str) -> None:
    assert not is_about(path, BASES)
    for data in ({"watermark": path}, {"source_state": {"files": {path: {"RecordsRead": 1}}}}):
        with raises(StateError, "s3://b/in", "source_uri"):
            older(data)


@pytest.mark.parametrize("data", [{"watermark": 7}, {"offset": 1}, {"schema_version": 2}, {"partition_watermarks": []}])
def test_what_is_not_understood_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(StateError):
        older(data)


def test_partitions_without_an_entry_below_the_watermark_count_as_read_unless_told_otherwise() -> None:
    state = older({"watermark": "d=3/a", "partition_watermarks": {"d=1": "a", "d=3": "a"}})
    listed = files("d=1/b", "d=2/a", "d=2/b", "d=3/b", "d=4/a")
    result = carry_over(state, listed)
    assert result.left_out == ("d=2/a", "d=2/b")
    assert result.state.partition_watermarks == {"d=1": "a", "d=2": "b", "d=3": "a"}
    assert carry_over(state, listed, read_skipped=True).state.partition_watermarks == {"d=1": "a", "d=3": "a"}


def test_in_a_partition_that_was_just_begun_only_what_lies_before_counts_as_read() -> None:
    data = {"watermark": "d=3/a", "partition_watermarks": {"d=3": "a"}}
    state = older({**data, "source_state": {"files": {"d=2/b": {"RecordsRead": 3}}}})
    result = carry_over(state, files("d=2/a", "d=2/b", "d=2/c"))
    assert result.left_out == ("d=2/a",)
    assert result.state.partition_watermarks["d=2"] == "a"


def test_a_file_in_progress_in_a_sealed_partition_opens_it_and_nothing_else_is_read_again() -> None:
    state = older({"source_state": {"files": {"d=2/a": {"RecordsRead": 3}}, "last_committed_file": "d=4/a"}})
    result = carry_over(state, files("d=1/a", "d=2/a", "d=2/b", "d=3/a", "d=4/a", "d=4/b"))
    assert result.resumed == ("d=2/a",)
    assert result.state.sealed_below == "d=2"
    assert result.state.partition_watermarks == {"d=2": "b", "d=3": "a", "d=4": "a"}


def test_progress_gets_the_size_and_etag_of_now_and_what_is_gone_is_told() -> None:
    state = older({"source_state": {"files": {"d/b": {"RecordsRead": 3}, "d/x": {"RecordsRead": 4}}}})
    result = carry_over(state, files("d/b"))
    (listed,) = files("d/b")
    assert result.state.files["d/b"] == RecordsRead(3, listed.size, listed.etag)
    assert result.gone == ("d/x",)


def test_a_file_below_one_that_was_finished_is_in_a_gap_and_is_read() -> None:
    data = {"watermark": "d/a", "partition_watermarks": {"d": "a"}, "source_state": {"files": {"d/c": "Finished"}}}
    result = carry_over(older(data), files("d/a", "d/b", "d/c", "d/d"))
    assert result.gaps == ("d/b",)
    assert result.state.files == {"d/c": Finished()}
