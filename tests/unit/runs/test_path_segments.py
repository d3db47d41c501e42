"""The set of paths in its segments: looked up, merged, and never trusted when it is not what was written."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.errors import raises
from tidegate.core.files.discovery import Known
from tidegate.core.files.paths import SourceFile
from tidegate.core.files.state import SetState
from tidegate.errors import StateError
from tidegate.protocol.change import SourceKey
from tidegate.runs import path_segments
from tidegate.runs.path_segments import OpenSegment, RememberedPaths, write_segment
from tidegate.specs.locations import Location
from tidegate.storage.options import absolute_uri
from tidegate.storage.port import ObjectStore
from tidegate.storage.stores import open_store

KEY = SourceKey("p", "s")


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return open_store(Location(absolute_uri("table", tmp_path)))


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Row groups of four rows, so that a few paths are many parts."""
    monkeypatch.setattr(path_segments, "ROWS_PER_GROUP", 4)
    return None


def file(path: str, size: int = 1, etag: str | None = "e") -> SourceFile:
    return SourceFile(path, size, etag)


def test_a_segment_is_named_by_its_content_and_sorted(store: ObjectStore) -> None:
    written = write_segment(store, KEY, map(file, ["a", "b", "b", "ä"]))
    content = store.get(f"_tidegate/p_s_set/{written.sha256}.parquet")
    assert hashlib.sha256(content).hexdigest() == written.sha256
    assert (written.count, written.size) == (3, len(content))
    assert [each.path for each in OpenSegment(store, KEY, written).files()] == ["a", "b", "ä"]


@pytest.mark.usefixtures("small_parts")
def test_every_path_of_every_segment_is_found_whatever_the_order_of_the_listing(store: ObjectStore) -> None:
    remembered = RememberedPaths(store, KEY)
    paths = [f"d={number % 3}/{number * 7919 % 101:03d}-ü" for number in range(60)]
    state = SetState()
    for start in range(0, 60, 6):
        state = remembered.extend(state, map(file, paths[start : start + 6]))
    assert state.remembered == 60
    assert len(state.segments) < 10
    asked = [*reversed(paths), "d=0/new", "", "d=3", "d=1", "zzz"]
    found = remembered.look_up(state.segments, list(map(file, asked)))
    assert found == [Known.READ] * 60 + [Known.NEW] * 5


def test_paths_too_long_for_statistics_are_found_too(store: ObjectStore) -> None:
    remembered = RememberedPaths(store, KEY)
    state = remembered.extend(SetState(), [file("x" * 9000), file("a")])
    asked = [file("x" * 9000), file("x" * 8999), file("a"), file("é")]
    assert remembered.look_up(state.segments, asked) == [Known.READ, Known.NEW, Known.READ, Known.NEW]


@pytest.mark.usefixtures("small_parts")
def test_parts_that_do_not_fit_into_memory_are_read_again(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_segments, "ROWS_KEPT", 6)
    remembered = RememberedPaths(store, KEY)
    paths = [f"{number:02d}" for number in range(40)]
    state = remembered.extend(SetState(), map(file, paths))
    for _ in range(2):
        assert remembered.look_up(state.segments, list(map(file, [*paths, "x"]))) == [Known.READ] * 40 + [Known.NEW]


def test_another_size_or_etag_is_told_and_a_missing_etag_is_not_compared(store: ObjectStore) -> None:
    remembered = RememberedPaths(store, KEY)
    state = remembered.extend(SetState(), [file("a"), file("b"), file("c"), SourceFile("d", 1)])
    asked = [file("a"), file("b", 2), file("c", 1, "f"), file("d"), SourceFile("a", 1), SourceFile("a", 2)]
    assert remembered.look_up(state.segments, asked) == [
        Known.READ,
        Known.REWRITTEN,
        Known.REWRITTEN,
        Known.READ,
        Known.READ,
        Known.REWRITTEN,
    ]


def test_an_empty_set_knows_nothing_and_an_empty_batch_asks_nothing(store: ObjectStore) -> None:
    remembered = RememberedPaths(store, KEY)
    assert remembered.look_up((), [file("a")]) == [Known.NEW]
    state = remembered.extend(SetState(), [file("a")])
    assert remembered.look_up(state.segments, []) == []
    assert remembered.extend(state, []) is state


def test_segments_are_fetched_once_and_only_as_long_as_they_are_used(store: ObjectStore) -> None:
    remembered = RememberedPaths(store, KEY)
    old = remembered.extend(SetState(), [file("a")])
    new = remembered.extend(old, [file("b")])
    assert remembered.look_up(new.segments, [file("a")]) == [Known.READ]
    before = store.requests.get
    assert remembered.look_up(new.segments, [file("b")]) == [Known.READ]
    assert store.requests.get == before
    assert remembered.look_up(old.segments, [file("b")]) == [Known.NEW]
    assert remembered.look_up(new.segments, [file("b")]) == [Known.READ]
    assert store.requests.get == before + 1


def test_no_segment_is_removed_or_changed_by_growing(store: ObjectStore) -> None:
    remembered = RememberedPaths(store, KEY)
    states, contents = [SetState()], {}
    for number in range(20):
        states.append(remembered.extend(states[-1], [file(f"{number:02d}")]))
        contents |= {info.path: contents.get(info.path, store.get(info.path)) for info in store.list()}
    assert {info.path: store.get(info.path) for info in store.list()} == contents
    for number, state in enumerate(states):
        known = RememberedPaths(store, KEY).look_up(state.segments, [file(f"{each:02d}") for each in range(20)])
        assert known == [Known.READ] * number + [Known.NEW] * (20 - number)


def test_a_missing_segment_stops_with_the_way_out(store: ObjectStore) -> None:
    state = RememberedPaths(store, KEY).extend(SetState(), [file("a"), file("b")])
    store.delete(KEY.segment(state.segments[0].sha256))
    with raises(StateError, "p/s", "2 files", "tidegate recover --accept set"):
        RememberedPaths(store, KEY).look_up(state.segments, [file("a")])


@pytest.mark.parametrize("content", [b"", b"PAR1", None])
def test_a_damaged_segment_stops_with_the_way_out(store: ObjectStore, content: bytes | None) -> None:
    remembered = RememberedPaths(store, KEY)
    state = remembered.extend(SetState(), [file("a")])
    other = remembered.extend(SetState(), [file("b")])
    path = KEY.segment(state.segments[0].sha256)
    store.put(path, store.get(KEY.segment(other.segments[0].sha256)) if content is None else content)
    with raises(StateError, "p/s", "damaged", "tidegate recover --accept set"):
        RememberedPaths(store, KEY).check(state.segments)
