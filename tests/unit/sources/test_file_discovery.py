"""Discovery of files: what a poll finds, ignores and asks for; and whether names sort in time."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from support.errors import raises
from tidegate.core.files.discovery import Known, PathListing, Reason, Skipped
from tidegate.core.files.paths import SourceFile, sort_key
from tidegate.core.files.state import Active, Failed, Finished, LateWindow, PathState, RecordsRead, Seal, SetState
from tidegate.errors import SourceError, StorageError, StorageUnavailable
from tidegate.sources import file_discovery
from tidegate.sources.file_discovery import (
    Order,
    Shape,
    discover,
    discover_all,
    names_sort_in_time,
    sample_files,
    shape_of,
)
from tidegate.specs.files import LateFiles, PartitionFilter, PathSource
from tidegate.specs.locations import Location
from tidegate.storage import memory
from tidegate.storage.memory import MemoryStore, Space
from tidegate.storage.options import absolute_uri
from tidegate.storage.port import ObjectInfo, ObjectStore
from tidegate.storage.stores import open_store

NOW = datetime(2024, 1, 28, 14, 30, tzinfo=UTC)
KINDS = ["local", "memory", pytest.param("s3", marks=pytest.mark.s3)]


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    name = uuid.uuid4().hex
    match request.param:
        case "local":
            (tmp_path / "in").mkdir()
            yield open_store(Location(absolute_uri("in", tmp_path)))
        case "memory":
            yield open_store(Location(f"memory://{name}"))
        case _:
            yield open_store(request.getfixturevalue("s3").location("in"))
    memory.forget(name)


def source(store: ObjectStore, **settings: object) -> PathSource:
    return replace(PathSource("src", store.location, late_files=LateFiles.STRICT), **settings)


def fill(store: ObjectStore, *paths: str) -> None:
    for path in paths:
        store.put(path, b"{}\n")


def state(watermarks: Mapping[str, str], **more: object) -> PathState:
    value = "/".join(filter(None, max(watermarks.items(), default=("", ""))))
    return replace(PathState(Active(value), dict(watermarks)), **more)


def found(listing: PathListing) -> list[str]:
    return [file.path for file in listing.files]


def poll(store: ObjectStore, known: PathState, **settings: object) -> PathListing:
    return discover(store, source(store, **settings), known, NOW)


def skipped(listing: PathListing, reason: Reason) -> int:
    return sum(each.count for each in listing.skipped if each.reason is reason)


# --- which files are found


def test_an_empty_source_gives_an_empty_listing(store: ObjectStore) -> None:
    listing = poll(store, PathState())
    assert (listing.files, listing.complete, listing.any_files, listing.deep) == ((), True, False, True)


@pytest.mark.parametrize("late", LateFiles)
def test_whether_there_are_files_at_all_does_not_depend_on_the_watermark(store: ObjectStore, late: LateFiles) -> None:
    fill(store, "d=1/a.json", "d=1/b.json", "d=2/_tmp/x.json", "notes.txt")
    assert poll(store, state({"d=1": "b.json"}), late_files=late).any_files
    assert poll(store, state({"d=9": "gone.json"}), late_files=late).any_files
    for path in ("d=1/a.json", "d=1/b.json", "d=2/_tmp/x.json"):
        store.delete(path)
    assert not poll(store, state({"d=1": "b.json"}), late_files=late).any_files


def test_a_cold_start_finds_everything_in_order_of_partition_and_name(store: ObjectStore) -> None:
    fill(store, "z.json", "d=2/a.json", "d=1/b.json", "d=1/a.json", "d=1-x/c.json", "d=1/h=1/a.json")
    listing = poll(store, PathState())
    assert found(listing) == [
        "z.json",
        "d=1/a.json",
        "d=1/b.json",
        "d=1-x/c.json",
        "d=1/h=1/a.json",
        "d=2/a.json",
    ]
    assert [file.size for file in listing.files] == [3] * 6
    assert all(file.etag for file in listing.files)
    assert listing.complete


def test_only_greater_names_of_a_partition_are_found(store: ObjectStore) -> None:
    fill(store, "28/100.json", "28/200.json", "28/300.json")
    assert found(poll(store, state({"28": "200.json"}))) == ["28/300.json"]


def test_a_partition_without_entry_is_found_whole(store: ObjectStore) -> None:
    fill(store, "28/f1.json", "28/f2.json", "28/f3.json", "29/f1.json", "29/f2.json", "27/f0.json")
    listing = poll(store, state({"28": "f2.json"}))
    assert found(listing) == ["27/f0.json", "28/f3.json", "29/f1.json", "29/f2.json"]


def test_each_hour_goes_by_its_own_entry(store: ObjectStore) -> None:
    fill(store, "d/hour=13/f1.json", "d/hour=13/f2.json", "d/hour=13/f3.json")
    fill(store, "d/hour=14/f1.json", "d/hour=14/f2.json")
    listing = poll(store, state({"d/hour=13": "f2.json", "d/hour=14": "f1.json"}))
    assert found(listing) == ["d/hour=13/f3.json", "d/hour=14/f2.json"]


def test_directories_that_share_a_beginning_go_by_their_own_entries(store: ObjectStore) -> None:
    fill(store, "d=28/a.json", "d=28/b.json", "d=28-x/a.json", "d=28-x/b.json")
    assert found(poll(store, state({"d=28": "a.json", "d=28-x": "b.json"}))) == ["d=28/b.json"]
    assert found(poll(store, state({"d=28": "b.json"}))) == ["d=28-x/a.json", "d=28-x/b.json"]


def test_root_files_are_a_partition_beside_the_others(store: ObjectStore) -> None:
    fill(store, "zz.json", "d=1/a.json", "d=1/b.json")
    assert found(poll(store, state({"d=1": "a.json"}))) == ["zz.json", "d=1/b.json"]
    assert found(poll(store, state({"d=1": "b.json", "": "zz.json"}))) == []
    fill(store, "zzz.json", "d=2/a.json")
    assert found(poll(store, state({"d=1": "b.json", "": "zz.json"}))) == ["zzz.json", "d=2/a.json"]


def test_each_file_is_found_once_whatever_the_depth(store: ObjectStore) -> None:
    fill(store, "d=1/a.json", "d=1/h=2/a.json", "d=1/h=2/m=3/a.json", "a.json")
    everything = ["a.json", "d=1/a.json", "d=1/h=2/a.json", "d=1/h=2/m=3/a.json"]
    assert found(poll(store, PathState())) == everything
    known = {"": "a.json", "d=1": "a.json", "d=1/h=2": "a.json", "d=1/h=2/m=3": "a.json"}
    for missing in known:
        rest = {partition: name for partition, name in known.items() if partition != missing}
        assert found(poll(store, state(rest))) == [f"{missing}/a.json".lstrip("/")]


def test_a_deeper_directory_above_the_watermark_is_found_at_once(store: ObjectStore) -> None:
    fill(store, "d=1/a.json", "d=1/late/x.json")
    assert found(poll(store, state({"d=1": "a.json"}))) == ["d=1/late/x.json"]


def test_a_deeper_directory_below_the_watermark_is_found_by_the_deep_listing(store: ObjectStore) -> None:
    fill(store, "d=1/m.json", "d=1/early/x.json")
    known = state({"d=1": "m.json"})
    spec = source(store, deep_listing_every=10)
    assert found(discover(store, spec, known, NOW, poll_count=9)) == []
    deep = discover(store, spec, known, NOW, poll_count=10)
    assert (found(deep), deep.deep) == (["d=1/early/x.json"], True)
    assert not discover(store, spec, known, NOW, poll_count=11).deep


def test_unfinished_files_are_listed_again_below_the_watermark_too(store: ObjectStore) -> None:
    fill(store, "d/a.json", "d/b.json", "d/c.json")
    known = state(
        {"d": "c.json"},
        files={"d/b.json": Failed(1, "broken", 3), "e/x.json": RecordsRead(5, 3)},
    )
    assert "d/b.json" in found(poll(store, known))
    assert "d/a.json" not in found(poll(store, known))


def test_files_finished_above_a_gap_are_listed(store: ObjectStore) -> None:
    fill(store, "d/a.json", "d/b.json", "d/c.json")
    known = PathState(files={"d/c.json": Finished()})
    assert found(poll(store, known)) == ["d/a.json", "d/b.json", "d/c.json"]


# --- what is left out, and said


def test_internal_names_are_left_out_at_every_level(store: ObjectStore) -> None:
    fill(store, "d/a.json", "_tmp/a.json", "d/_x.json", "d/.hidden/a.json", ".b.json")
    listing = poll(store, PathState())
    assert found(listing) == ["d/a.json"]
    assert skipped(listing, Reason.INTERNAL) == 4


def test_internal_directories_are_not_looked_into_when_levels_are_known(store: ObjectStore) -> None:
    fill(store, "d/a.json", *(f"_tmp/{number}.json" for number in range(5)))
    listing = poll(store, state({"d": "a.json"}))
    assert (found(listing), skipped(listing, Reason.INTERNAL)) == ([], 1)


def test_other_endings_are_left_out(store: ObjectStore) -> None:
    fill(store, "a.json", "b.csv", "c.ndjson.gz", "d.json.tmp", "e.jsonl.zst")
    listing = poll(store, PathState())
    assert (found(listing), skipped(listing, Reason.SUFFIX)) == (["a.json", "c.ndjson.gz", "e.jsonl.zst"], 2)


def test_pattern_and_exclude_are_kept(store: ObjectStore) -> None:
    fill(store, "d/a.csv", "d/b.json", "d/skip-c.csv")
    listing = poll(store, PathState(), pattern="*.csv", exclude=("skip-*",))
    assert found(listing) == ["d/a.csv"]
    assert (skipped(listing, Reason.PATTERN), skipped(listing, Reason.EXCLUDED)) == (1, 1)


def test_sealed_partitions_are_not_listed(store: ObjectStore) -> None:
    fill(store, "date=2024-01-01/a.json", "date=2024-01-02/a.json", "date=2024-01-28/a.json", "zz.json")
    known = state({"date=2024-01-28": "a.json", "": "zz.json"}, sealed={"": Seal(datetime(2024, 1, 10, tzinfo=UTC), 2)})
    listing = poll(store, known)
    assert (found(listing), skipped(listing, Reason.SEALED)) == ([], 2)
    assert listing.list_requests == 2
    assert (listing.directories.sealed, listing.directories.open) == ({"": 2}, ("date=2024-01-28",))
    assert listing.any_files


def test_a_cold_start_counts_the_directories_it_saw_in_passing(store: ObjectStore) -> None:
    fill(store, "date=2024-01-01/hour=01/a.json", "date=2024-01-01/hour=02/a.json", "date=2024-01-28/b.json")
    listing = poll(store, PathState())
    assert listing.directories.open == ("date=2024-01-01", "date=2024-01-28")


# --- late files


def test_the_window_lists_from_its_start_and_leaves_out_what_was_read(store: ObjectStore) -> None:
    fill(store, *(f"d/{number}.json" for number in (10, 20, 25, 30, 40, 50)))
    known = state({"d": "40.json"}, late_window={"d": LateWindow(("20.json", "30.json", "40.json"), "10.json")})
    listing = poll(store, known, late_files=LateFiles.WINDOW)
    assert found(listing) == ["d/25.json", "d/50.json"]
    assert skipped(listing, Reason.READ) == 3
    assert found(poll(store, known, late_files=LateFiles.STRICT)) == ["d/50.json"]


def test_an_unfinished_file_inside_the_window_is_listed(store: ObjectStore) -> None:
    fill(store, "d/20.json", "d/30.json")
    known = state(
        {"d": "30.json"},
        late_window={"d": LateWindow(("20.json", "30.json"), "10.json")},
        files={"d/20.json": Failed(1, "broken", 3)},
    )
    assert found(poll(store, known, late_files=LateFiles.WINDOW)) == ["d/20.json"]


# --- cold start with a filter


def test_a_filtered_cold_start_takes_only_its_prefixes_and_counts_the_rest(store: ObjectStore) -> None:
    fill(store, *(f"date=2024-01-{day:02d}/a.json" for day in range(1, 29)), "date=2024-01-28/hour=01/b.json")
    spec = source(store, partition_filter=PartitionFilter("date=%Y-%m-%d", 2))
    listing = discover(store, spec, PathState(), NOW)
    assert found(listing) == [
        "date=2024-01-26/a.json",
        "date=2024-01-27/a.json",
        "date=2024-01-28/a.json",
        "date=2024-01-28/hour=01/b.json",
    ]
    assert not listing.deep
    assert (listing.directories.sealed, listing.directories.open) == ({}, ())
    assert listing.left_out is not None
    assert (listing.left_out.files, listing.left_out.folders, listing.left_out.complete) == (25, 25, True)
    assert listing.left_out.before == datetime(2024, 1, 26, tzinfo=UTC)
    assert listing.skipped == (
        Skipped(Reason.BEFORE_START, 25, tuple(f"date=2024-01-{day:02d}/a.json" for day in (1, 2, 3))),
    )


def test_counting_what_is_left_out_costs_no_more_than_its_limits(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, *(f"date=2024-01-{day:02d}/{name}.json" for day in range(1, 29) for name in "abc"))
    spec = source(store, partition_filter=PartitionFilter("date=%Y-%m-%d", 2))
    monkeypatch.setattr(file_discovery, "FOLDERS_COUNTED", 4)
    listing = discover(store, spec, PathState(), NOW)
    assert listing.left_out is not None
    assert (listing.left_out.files, listing.left_out.folders, listing.left_out.complete) == (12, 25, False)
    assert listing.left_out.by_folder[0] == ("date=2024-01-22", 3)
    assert listing.list_requests <= 3 + 1 + 4
    later = state({"date=2024-01-28": "c.json"}, sealed={"": Seal(datetime(2024, 1, 26, tzinfo=UTC))})
    again = discover(store, spec, later, NOW)
    assert again.left_out is None
    assert again.list_requests <= 1 + 3


def test_what_is_left_out_need_not_be_readable(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(store, "date=2023-12-01/a.json", "date=2024-01-28/a.json")
    spec = source(store, partition_filter=PartitionFilter("date=%Y-%m-%d", 2))
    listed = store.list

    def refuse(prefix: str = "", *given: Any, **more: Any) -> Any:
        if prefix.startswith("date=2023"):
            raise StorageError("no permission", "ask for it")
        return listed(prefix, *given, **more)

    monkeypatch.setattr(store, "list", refuse)
    listing = discover(store, spec, PathState(), NOW)
    assert found(listing) == ["date=2024-01-28/a.json"]
    assert listing.left_out is not None
    assert (listing.left_out.files, listing.left_out.folders, listing.left_out.complete) == (0, 1, False)


def test_a_filter_does_not_bound_later_polls(store: ObjectStore) -> None:
    fill(store, "date=2024-01-09/a.json", "date=2024-01-10/a.json", "date=2024-01-28/a.json")
    spec = source(store, partition_filter=PartitionFilter("date=%Y-%m-%d", 1))
    known = state({"date=2024-01-09": "a.json"}, sealed={"": Seal(datetime(2024, 1, 8, tzinfo=UTC))})
    assert found(discover(store, spec, known, NOW)) == ["date=2024-01-10/a.json", "date=2024-01-28/a.json"]


# --- limit


@pytest.mark.parametrize("limit", range(1, 9))
def test_a_limited_listing_shows_each_partition_up_to_some_name(store: ObjectStore, limit: int) -> None:
    paths = ["a.json", "b.json", "d=1/a.json", "d=1/b.json", "d=1/c.json", "d=1/h/a.json", "d=2/a.json"]
    fill(store, *paths, "d=1/b.csv")
    listing = discover(store, source(store), PathState(), NOW, limit=limit)
    assert len(listing.files) == min(limit, len(paths))
    assert listing.complete == (limit >= len(paths))
    for partition in ("", "d=1", "d=1/h", "d=2"):
        own = [path for path in paths if path.rpartition("/")[0] == partition]
        shown = [path for path in found(listing) if path.rpartition("/")[0] == partition]
        assert shown == own[: len(shown)]


def test_a_limited_listing_by_levels_is_cut_in_the_same_way(store: ObjectStore) -> None:
    fill(store, *(f"d={day}/{name}.json" for day in range(4) for name in "abcd"), "r.json", "s.json")
    known = state({"d=0": "b.json", "d=1": "a.json"})
    listing = discover(store, source(store), known, NOW, limit=3)
    assert not listing.complete
    assert len(found(listing)) == 3
    assert found(discover(store, source(store), known, NOW, limit=1)) == ["r.json"]
    assert discover(store, source(store), known, NOW, limit=15).complete


def test_files_that_wait_do_not_use_up_the_limit(store: ObjectStore) -> None:
    fill(store, *(f"d/{number}.json" for number in range(9)))
    files = {f"d/{number}.json": Failed(5, "broken", 3) for number in range(5)}
    listing = discover(store, source(store), PathState(files=files), NOW, limit=2)
    assert found(listing) == [f"d/{number}.json" for number in range(7)]
    assert not listing.complete


# --- cost and failures


def test_an_idle_poll_costs_one_request_per_open_partition_and_level(store: ObjectStore) -> None:
    hours = [f"date=2024-01-{day}/hour={hour:02d}" for day in (27, 28) for hour in range(5)]
    fill(store, *(f"{hour}/{name}.json" for hour in hours for name in "abcdefghij"))
    known = state(dict.fromkeys(hours, "j.json"))
    listing = poll(store, known)
    assert (found(listing), listing.list_requests) == ([], 1 + 2 + 10)
    assert listing.listed_keys == 2 + 10
    again = poll(store, known, late_files=LateFiles.WINDOW)
    assert (found(again), again.list_requests) == ([], 13)


def test_more_history_costs_no_more(store: ObjectStore) -> None:
    costs = []
    for number in (1, 40):
        fill(store, *(f"d/{index:04d}.json" for index in range(number)))
        listing = poll(store, state({"d": f"{number - 1:04d}.json"}))
        costs.append((listing.list_requests, listing.listed_keys))
    assert costs[0] == costs[1]


def test_a_missing_local_directory_is_told_apart_from_an_empty_one(tmp_path: Path) -> None:
    place = Location(absolute_uri("no such", tmp_path))
    store = open_store(place)
    with pytest.raises(SourceError) as caught:
        discover(store, PathSource("events", place), PathState(), NOW)
    assert "'events'" in str(caught.value)
    assert place.uri in str(caught.value)
    (tmp_path / "no such").mkdir()
    assert discover(store, PathSource("events", place), PathState(), NOW).files == ()


def test_a_file_in_place_of_the_source_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    place = Location(absolute_uri("file", tmp_path))
    with raises(SourceError, "'events'", "file", "source_uri"):
        discover(open_store(place), PathSource("events", place), PathState(), NOW)


class _Failing(memory.MemoryStore):
    """A store whose listing breaks off in one directory."""

    concurrency = 4

    def list(self, prefix: str = "", *rest: object, **more: object) -> Iterator[ObjectInfo]:
        yield from super().list(prefix, *rest, **more)  # type: ignore[arg-type]  # handed on as they came
        if prefix == "d=2":
            raise StorageUnavailable("the listing broke off")


def test_a_listing_that_fails_in_one_place_fails_as_a_whole() -> None:
    place = Location("memory://failing")
    store = _Failing(place, memory.Space())
    fill(store, "d=1/a.json", "d=1/b.json", "d=2/a.json", "d=2/b.json", "d=3/a.json")
    with raises(StorageError, "broke off"):
        poll(store, state({"d=1": "a.json", "d=2": "a.json"}))


@pytest.mark.s3
def test_a_key_that_cannot_be_represented_is_left_out_by_name(request: pytest.FixtureRequest) -> None:
    server = request.getfixturevalue("s3")
    place = server.location()
    for name in ("good.json", "new\nline.json"):
        server.request("PUT", f"/{place.uri.removeprefix('s3://')}/{name}", b"{}")
    found = discover(open_store(place), PathSource("src", place), PathState(), NOW)
    assert [file.path for file in found.files] == ["good.json"]
    assert [(each.count, each.examples) for each in found.skipped] == [(1, ("new\\x0aline.json",))]


@pytest.mark.s3
def test_directory_markers_are_not_files(request: pytest.FixtureRequest) -> None:
    server = request.getfixturevalue("s3")
    place = server.location()
    key = f"/{place.uri.removeprefix('s3://')}"
    for marker in ("d=1/", "d=2/", "d=2/h=1/"):
        server.request("PUT", f"{key}/{marker}")
    server.request("PUT", f"{key}/d=2/a.json", b"{}")
    spec = PathSource("src", place, pattern="*")
    store = open_store(place)
    assert found(discover(store, spec, PathState(), NOW)) == ["d=2/a.json"]
    assert found(discover(store, spec, state({"d=2": "a.json"}), NOW)) == []


class Set:
    """A set in memory; ``rewritten`` paths are in it with another size."""

    def __init__(self, *paths: str, rewritten: Sequence[str] = ()) -> None:
        self._known = dict.fromkeys(paths, Known.READ) | dict.fromkeys(rewritten, Known.REWRITTEN)

    def __call__(self, files: Sequence[SourceFile]) -> list[Known]:
        return [self._known.get(file.path, Known.NEW) for file in files]


def poll_set(
    store: ObjectStore, known: Set, state: SetState | None = None, limit: int | None = None, **settings: object
) -> PathListing:
    source = replace(PathSource("src", store.location), **settings)  # type: ignore[arg-type]
    return discover_all(store, source, state or SetState(), known, limit=limit)


def skipped_by_reason(listing: PathListing) -> dict[Reason, int]:
    return {each.reason: each.count for each in listing.skipped}


def test_every_file_outside_the_set_is_found_once_at_any_depth_and_below_any_other(store: ObjectStore) -> None:
    fill(store, "z.json", "d/b.json", "d/e/a.json", "d-x/a.json", "a.json.gz", "d/0.json")
    listing = poll_set(store, Set("d/b.json", "z.json"))
    assert found(listing) == ["a.json.gz", "d/0.json", "d-x/a.json", "d/e/a.json"]
    assert skipped_by_reason(listing) == {Reason.READ: 2}
    assert listing.complete
    assert listing.any_files
    assert all(file.size == 3 for file in listing.files)


def test_the_rules_for_names_are_those_of_watermarks(store: ObjectStore) -> None:
    fill(store, "_x/a.json", ".a.json", "a.txt", "skip/a.json", "ok/a.json", "ok/b.json.zst")
    listing = poll_set(store, Set(), exclude=("skip",))
    assert found(listing) == ["ok/a.json", "ok/b.json.zst"]
    assert skipped_by_reason(listing) == {Reason.INTERNAL: 2, Reason.SUFFIX: 1, Reason.EXCLUDED: 1}
    assert found(poll_set(store, Set(), pattern="*.txt")) == ["a.txt"]


def test_a_remembered_file_that_changed_is_counted_and_not_taken(store: ObjectStore) -> None:
    fill(store, "a.json", "b.json")
    listing = poll_set(store, Set("a.json", rewritten=["b.json"]))
    assert (found(listing), skipped_by_reason(listing)) == ([], {Reason.READ: 1, Reason.REWRITTEN: 1})


def test_the_listing_is_cut_off_after_so_many_new_files_and_unfinished_ones_do_not_count(store: ObjectStore) -> None:
    fill(store, "a.json", "b.json", "c.json", "d.json")
    waiting = SetState(files={"a.json": Failed(1, "bad", 3)})
    listing = poll_set(store, Set("b.json"), waiting, limit=1)
    assert (found(listing), listing.complete) == (["a.json", "c.json"], False)
    listing = poll_set(store, Set("b.json"), waiting, limit=2)
    assert (found(listing), listing.complete) == (["a.json", "c.json", "d.json"], True)


def test_batches_do_not_change_what_is_found(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [f"d={number % 4}/{number:02d}.json" for number in range(20)]
    fill(store, *paths)
    monkeypatch.setattr(file_discovery, "BATCH", 3)
    listing = poll_set(store, Set(*paths[::2]))
    assert found(listing) == sorted(paths[1::2])
    assert skipped_by_reason(listing) == {Reason.READ: 10}


def test_an_empty_source_is_not_a_finished_one(store: ObjectStore) -> None:
    listing = poll_set(store, Set())
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

    store = open_store(Location(absolute_uri("in", tmp_path)))
    fill(store, "a.json", "b.json")
    with pytest.raises(StorageUnavailable):
        poll_set(Failing(store), Set())  # type: ignore[arg-type]


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

    inner = open_store(Location(absolute_uri("in", tmp_path)))
    paths = [f"d={number % 5}/{number:02d}.json" for number in range(40)]
    fill(inner, "top.json", *paths)
    store = SideBySide(inner)
    assert found(poll_set(store, Set(*paths[:7]))) == sorted(["top.json", *paths[7:]], key=sort_key)  # type: ignore[arg-type]
    cut = poll_set(store, Set(), limit=3)  # type: ignore[arg-type]
    assert (len(cut.files), cut.complete) == (3, False)
    store.broken = "d=3"
    with raises(StorageUnavailable, "d=3"):
        poll_set(store, Set())  # type: ignore[arg-type]


def test_a_missing_directory_is_an_error_that_names_it(tmp_path: Path) -> None:
    with raises(SourceError, "'src'", "nowhere", "source_uri"):
        poll_set(open_store(Location(absolute_uri("nowhere", tmp_path))), Set())


def test_names_that_sort_in_time_are_noticed(store: ObjectStore) -> None:
    fill(store, *(f"17064504{number:02d}-a.json" for number in range(12)))
    assert poll_set(store, Set()).sorts_in_time


def test_random_names_are_not_taken_for_times(store: ObjectStore) -> None:
    fill(store, *(f"{uuid.uuid4()}.json" for _ in range(3)))
    assert not poll_set(store, Set()).sorts_in_time


START = datetime(2024, 1, 28, tzinfo=UTC)


def infos(names: list[str], seconds: list[float] | None = None) -> list[ObjectInfo]:
    moments = seconds or [float(number) for number in range(len(names))]
    pairs = zip(names, moments, strict=True)
    return [ObjectInfo(name, 1, None, START + timedelta(seconds=second)) for name, second in pairs]


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("1706450400-550e8400.ndjson.gz", Shape.UNIX_TIME),
        ("1706450400123.json", Shape.UNIX_TIME),
        ("2024-01-28T14:00:00Z.json", Shape.ISO_TIME),
        ("20240128-part.json", Shape.ISO_TIME),
        ("018d5e6f-1c2b-7abc-8def-0123456789ab.json", Shape.UUID7),
        ("550E8400-E29B-41D4-A716-446655440000.json", Shape.RANDOM_UUID),
        ("part-00001.json", Shape.OTHER),
        ("17.json", Shape.OTHER),
    ],
)
def test_the_shape_of_a_name_is_recognised(name: str, shape: Shape) -> None:
    assert shape_of(name) is shape


def test_names_that_follow_time_sort_in_time() -> None:
    verdict = names_sort_in_time(infos([f"part-{number:05d}.json" for number in range(200)]))
    assert (verdict.order, verdict.disorder, verdict.example) == (Order.IN_TIME, 0.0, None)


def test_one_file_says_too_little() -> None:
    assert names_sort_in_time(infos(["a.json"])).describe() == "1 file says too little about whether names sort in time"


def test_random_names_do_not_sort_in_time_and_an_example_shows_it() -> None:
    rng = random.Random(7)
    names = [f"{uuid.UUID(int=rng.getrandbits(128), version=4)}.json" for _ in range(300)]
    files = infos(names)
    verdict = names_sort_in_time(files)
    assert (verdict.order, verdict.shape) == (Order.NOT_IN_TIME, Shape.RANDOM_UUID)
    assert verdict.disorder is not None
    assert 0.35 < verdict.disorder < 0.65
    assert verdict.example is not None
    greater, smaller = verdict.example
    modified = {info.path: info.modified for info in files}
    assert greater > smaller
    assert modified[greater] < modified[smaller]
    assert "do not sort in time" in verdict.describe()
    assert "random UUID" in verdict.describe()


def test_many_writers_within_a_second_still_sort_in_time() -> None:
    rng = random.Random(7)
    names, seconds = [], []
    for second in range(40):
        for _ in range(20):
            names.append(f"{1706450400 + second}-{rng.getrandbits(64):016x}.json")
            seconds.append(second + rng.random() * 1.5)
    assert names_sort_in_time(infos(names, seconds)).order is Order.IN_TIME


def test_descending_names_do_not_sort_in_time() -> None:
    names = [f"{number:05d}.json" for number in range(100, 0, -1)]
    verdict = names_sort_in_time(infos(names))
    assert (verdict.order, verdict.disorder) == (Order.NOT_IN_TIME, 1.0)


def test_files_copied_at_once_leave_it_to_the_shape() -> None:
    same = [0.0] * 50
    named = infos([f"{1706450400 + number}.json" for number in range(50)], same)
    random_names = infos([f"{uuid.uuid4()}.json" for _ in range(50)], same)
    plain = infos([f"part-{number}.json" for number in range(50)], same)
    assert names_sort_in_time(named).order is Order.IN_TIME
    assert names_sort_in_time(random_names).order is Order.NOT_IN_TIME
    assert names_sort_in_time(plain).order is Order.UNKNOWN
    assert "too little" in names_sort_in_time(plain).describe()


def test_partitions_are_judged_apart() -> None:
    later_first = [f"b={number}/x.json" for number in range(50, 0, -1)]
    assert names_sort_in_time(infos(later_first)).order is Order.UNKNOWN


def test_no_files_say_nothing() -> None:
    assert names_sort_in_time([]).order is Order.UNKNOWN


def test_a_sample_is_bounded_and_has_no_internal_files() -> None:
    store = MemoryStore(Location("memory://sample"), Space())
    for number in range(20):
        store.put(f"d/{number:02d}.json", b"")
    store.put("_tmp/a.json", b"")
    assert [info.path for info in sample_files(store, 3)] == ["d/00.json", "d/01.json", "d/02.json"]
    assert len(sample_files(store)) == 20
