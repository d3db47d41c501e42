"""A poll over the whole source: what is new is what the set does not hold."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tidegate.core.files.discovery import PathListing, Reason
from tidegate.core.files.paths import SourceFile, sort_key
from tidegate.core.files.state import Failed, SetState
from tidegate.errors import SourceError, StorageUnavailable
from tidegate.protocol.path_segments import Known
from tidegate.sources import file_discovery
from tidegate.sources.file_discovery import discover_all
from tidegate.specs.locations import Location
from tidegate.specs.project import PathSource
from tidegate.storage import memory
from tidegate.storage.options import absolute
from tidegate.storage.port import ObjectInfo, ObjectStore
from tidegate.storage.stores import open_store

KINDS = ["local", "memory", pytest.param("s3", marks=pytest.mark.s3)]


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    name = uuid.uuid4().hex
    match request.param:
        case "local":
            (tmp_path / "in").mkdir()
            yield open_store(Location(absolute("in", tmp_path)))
        case "memory":
            yield open_store(Location(f"memory://{name}"))
        case _:
            yield open_store(request.getfixturevalue("s3").location("in"))
    memory.forget(name)


class Set:
    """A set in memory; ``rewritten`` paths are in it with another size."""

    def __init__(self, *paths: str, rewritten: Sequence[str] = ()) -> None:
        self._known = dict.fromkeys(paths, Known.READ) | dict.fromkeys(rewritten, Known.REWRITTEN)

    def __call__(self, files: Sequence[SourceFile]) -> list[Known]:
        return [self._known.get(file.path, Known.NEW) for file in files]


def fill(store: ObjectStore, *paths: str) -> None:
    for path in paths:
        store.put(path, b"{}\n")


def poll(
    store: ObjectStore, known: Set, state: SetState | None = None, limit: int | None = None, **settings: object
) -> PathListing:
    source = replace(PathSource("src", store.location), **settings)  # type: ignore[arg-type]
    return discover_all(store, source, state or SetState(), known, limit=limit)


def found(listing: PathListing) -> list[str]:
    return [file.path for file in listing.files]


def skipped(listing: PathListing) -> dict[Reason, int]:
    return {each.reason: each.count for each in listing.skipped}


def test_every_file_outside_the_set_is_found_once_at_any_depth_and_below_any_other(store: ObjectStore) -> None:
    fill(store, "z.json", "d/b.json", "d/e/a.json", "d-x/a.json", "a.json.gz", "d/0.json")
    listing = poll(store, Set("d/b.json", "z.json"))
    assert found(listing) == ["a.json.gz", "d/0.json", "d-x/a.json", "d/e/a.json"]
    assert skipped(listing) == {Reason.READ: 2}
    assert listing.complete
    assert listing.any_files
    assert all(file.size == 3 for file in listing.files)


def test_the_rules_for_names_are_those_of_watermarks(store: ObjectStore) -> None:
    fill(store, "_x/a.json", ".a.json", "a.txt", "skip/a.json", "ok/a.json", "ok/b.json.zst")
    listing = poll(store, Set(), exclude=("skip",))
    assert found(listing) == ["ok/a.json", "ok/b.json.zst"]
    assert skipped(listing) == {Reason.INTERNAL: 2, Reason.SUFFIX: 1, Reason.EXCLUDED: 1}
    assert found(poll(store, Set(), pattern="*.txt")) == ["a.txt"]


def test_a_remembered_file_that_changed_is_counted_and_not_taken(store: ObjectStore) -> None:
    fill(store, "a.json", "b.json")
    listing = poll(store, Set("a.json", rewritten=["b.json"]))
    assert (found(listing), skipped(listing)) == ([], {Reason.READ: 1, Reason.REWRITTEN: 1})


def test_the_listing_is_cut_off_after_so_many_new_files_and_unfinished_ones_do_not_count(store: ObjectStore) -> None:
    fill(store, "a.json", "b.json", "c.json", "d.json")
    waiting = SetState(files={"a.json": Failed(1, "bad", 3)})
    listing = poll(store, Set("b.json"), waiting, limit=1)
    assert (found(listing), listing.complete) == (["a.json", "c.json"], False)
    listing = poll(store, Set("b.json"), waiting, limit=2)
    assert (found(listing), listing.complete) == (["a.json", "c.json", "d.json"], True)


def test_batches_do_not_change_what_is_found(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [f"d={number % 4}/{number:02d}.json" for number in range(20)]
    fill(store, *paths)
    monkeypatch.setattr(file_discovery, "BATCH", 3)
    listing = poll(store, Set(*paths[::2]))
    assert found(listing) == sorted(paths[1::2])
    assert skipped(listing) == {Reason.READ: 10}


def test_an_empty_source_is_not_a_finished_one(store: ObjectStore) -> None:
    listing = poll(store, Set())
    assert (listing.files, listing.any_files, listing.complete) == ((), False, True)


def test_a_listing_that_fails_half_way_fails_the_poll(tmp_path: Path) -> None:
    class Failing:
        def __init__(self, inner: ObjectStore) -> None:
            self.location, self.requests, self.concurrency = inner.location, inner.requests, inner.concurrency
            self.exists = inner.exists
            self._inner = inner

        def list(self, **scope: Any) -> Iterator[ObjectInfo]:
            yield next(iter(self._inner.list(**scope)))
            raise StorageUnavailable("the second page did not come")

    store = open_store(Location(absolute("in", tmp_path)))
    fill(store, "a.json", "b.json")
    with pytest.raises(StorageUnavailable):
        poll(Failing(store), Set())  # type: ignore[arg-type]


@pytest.mark.parametrize("at_once", [2, 8])
def test_directories_listed_side_by_side_give_the_same_and_an_error_of_one_fails_the_poll(
    tmp_path: Path, at_once: int
) -> None:
    class SideBySide:
        concurrency = at_once
        broken = ""

        def __init__(self, inner: ObjectStore) -> None:
            self.location, self.requests = inner.location, inner.requests
            self.exists, self.list_directory = inner.exists, inner.list_directory
            self._inner = inner

        def list(self, prefix: str, **scope: Any) -> Iterator[ObjectInfo]:
            yield from self._inner.list(prefix, **scope)
            if prefix == self.broken:
                raise StorageUnavailable(f"{prefix} broke off")

    inner = open_store(Location(absolute("in", tmp_path)))
    paths = [f"d={number % 5}/{number:02d}.json" for number in range(40)]
    fill(inner, "top.json", *paths)
    store = SideBySide(inner)
    assert found(poll(store, Set(*paths[:7]))) == sorted(["top.json", *paths[7:]], key=sort_key)  # type: ignore[arg-type]
    cut = poll(store, Set(), limit=3)  # type: ignore[arg-type]
    assert (len(cut.files), cut.complete) == (3, False)
    store.broken = "d=3"
    with pytest.raises(StorageUnavailable, match="d=3 broke off"):
        poll(store, Set())  # type: ignore[arg-type]


def test_a_missing_directory_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="nowhere does not exist"):
        poll(open_store(Location(absolute("nowhere", tmp_path))), Set())


def test_names_that_sort_in_time_are_noticed(store: ObjectStore) -> None:
    fill(store, *(f"17064504{number:02d}-a.json" for number in range(12)))
    assert poll(store, Set()).sorts_in_time


def test_random_names_are_not_taken_for_times(store: ObjectStore) -> None:
    fill(store, *(f"{uuid.uuid4()}.json" for _ in range(3)))
    assert not poll(store, Set()).sorts_in_time
