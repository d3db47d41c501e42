"""Paths: split at the last slash, compared as partition and name."""

from __future__ import annotations

import pytest

from tidegate.core.files.paths import SourceFile, join, just_below, same_content, sort_key, split


@pytest.mark.parametrize(
    ("path", "partition", "name"),
    [
        ("date=2024-01-28/1706450400-uuid.ndjson.gz", "date=2024-01-28", "1706450400-uuid.ndjson.gz"),
        ("date=2024-01-28/hour=14/a", "date=2024-01-28/hour=14", "a"),
        ("a", "", "a"),
    ],
)
def test_a_path_is_split_at_its_last_slash(path: str, partition: str, name: str) -> None:
    assert split(path) == (partition, name)
    assert join(partition, name) == path


def test_order_is_by_partition_and_then_by_name() -> None:
    paths = ["d=1-x/a", "d=1/b", "d=1/é", "d=1/z", "d=1/a", "z"]
    assert sorted(paths, key=sort_key) == ["z", "d=1/a", "d=1/b", "d=1/z", "d=1/é", "d=1-x/a"]


def test_order_is_that_of_utf8_bytes_also_beyond_the_basic_plane() -> None:
    assert sort_key("\U0001f30a") > sort_key("\uffee")


@pytest.mark.parametrize("name", ["b", "1706450400-a.json", "ab"])
def test_listing_from_just_below_shows_the_name(name: str) -> None:
    assert (just_below(name) or "") < name


@pytest.mark.parametrize(
    ("size", "etag", "same"),
    [
        (10, "e", True),
        (10, None, True),
        (None, None, True),
        (None, "e", True),
        (9, "e", False),
        (10, "f", False),
    ],
)
def test_content_is_compared_by_what_was_recorded(size: int | None, etag: str | None, same: bool) -> None:
    assert same_content(size, etag, SourceFile("a", 10, "e")) is same


def test_a_store_without_etags_compares_sizes() -> None:
    assert same_content(10, "e", SourceFile("a", 10, None))
