"""The promises of the storage port, kept by every store: local disk, memory, a real S3 server and emulated clouds."""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from contract.storage_cases import HARD_NAMES, REMOTE, race
from support.errors import raises
from support.long_runs import LONG
from tidegate.errors import ObjectChanged, ObjectExists, ObjectMissing, StorageError
from tidegate.specs.locations import Location
from tidegate.storage import memory
from tidegate.storage.options import absolute_uri
from tidegate.storage.port import ObjectStore, Upload
from tidegate.storage.stores import open_store

KINDS = ["local", "memory", *REMOTE]


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    match request.param:
        case "local":
            yield open_store(Location(absolute_uri(str(tmp_path / "root here"), tmp_path)))
        case "memory":
            name = uuid.uuid4().hex
            yield open_store(Location(f"memory://{name}/root%20here"))
            memory.forget(name)
        case _:
            yield open_store(request.getfixturevalue(request.param).location("root%20here"))


def fill(store: ObjectStore, *paths: str) -> None:
    for path in paths:
        store.put(path, path.encode())


def paths(store: ObjectStore, prefix: str = "", after: str | None = None) -> list[str]:
    return [info.path for info in store.list(prefix, after)]


# --- objects


def test_what_was_put_is_got_back(store: ObjectStore) -> None:
    store.put("a/b.json", b"hello")
    assert store.get("a/b.json") == b"hello"


def test_put_replaces_the_whole_object(store: ObjectStore) -> None:
    store.put("a", b"a long first version")
    store.put("a", b"short")
    assert store.get("a") == b"short"


def test_an_empty_object_is_an_object(store: ObjectStore) -> None:
    store.put("d/empty", b"")
    assert store.get("d/empty") == b""
    assert [info.size for info in store.list()] == [0]
    assert [info.size for info in store.list_directory("d").objects] == [0]


def test_head_gives_size_etag_and_an_aware_time(store: ObjectStore) -> None:
    store.put("a", b"12345")
    info = store.head("a")
    assert (info.path, info.size) == ("a", 5)
    assert info.etag
    assert abs(datetime.now(UTC) - info.modified) < timedelta(minutes=5)


def test_listing_and_head_tell_the_same(store: ObjectStore) -> None:
    store.put("d/a.json", b"12345")
    listed = next(store.list())
    assert (listed.size, listed.etag) == (store.head("d/a.json").size, store.head("d/a.json").etag)
    assert store.list_directory("d").objects[0].etag == listed.etag


def test_objects_come_before_what_lies_in_a_directory_of_a_greater_name(store: ObjectStore) -> None:
    fill(store, "d/ledger/1", "d/ledger/2", "d/2.json", "d/cold_start.json", "d/1.json", "d/ledger-x/1")
    found = paths(store, "d", "d/1.json")
    assert found[:2] == ["d/2.json", "d/cold_start.json"]
    assert sorted(found[2:]) == ["d/ledger-x/1", "d/ledger/1", "d/ledger/2"]


@pytest.mark.parametrize("action", ["get", "head"])
def test_a_missing_object_is_named_with_its_full_uri(store: ObjectStore, action: str) -> None:
    with pytest.raises(ObjectMissing) as caught:
        getattr(store, action)("no/such.json")
    assert f"{store.location.uri}/no/such.json" in str(caught.value)


def test_a_directory_is_not_an_object(store: ObjectStore) -> None:
    fill(store, "d/a.json")
    with pytest.raises(StorageError):
        store.get("d")
    with pytest.raises(ObjectMissing):
        store.head("d")


def test_delete_removes_and_may_be_repeated(store: ObjectStore) -> None:
    fill(store, "d/a.json")
    store.delete("d/a.json")
    store.delete("d/a.json")
    with pytest.raises(ObjectMissing):
        store.head("d/a.json")


@pytest.mark.parametrize("path", ["", "/a", "a/", "a//b", "../a", "a/./b", "a\0b", "a\udcff"])
def test_a_path_that_names_nothing_is_refused_by_name(store: ObjectStore, path: str) -> None:
    for action in (store.get, store.head, store.delete, partial(store.put, data=b"x")):
        with pytest.raises(StorageError) as caught:
            action(path)
        assert repr(path) in str(caught.value)


# --- put if absent


def test_put_if_absent_writes_once(store: ObjectStore) -> None:
    store.put_if_absent("d/doc.json", b"first")
    with raises(ObjectExists, "doc.json"):
        store.put_if_absent("d/doc.json", b"second")
    assert store.get("d/doc.json") == b"first"


def test_of_many_writers_of_an_absent_object_exactly_one_wins(store: ObjectStore) -> None:
    for number in range(5 if LONG else 2):
        path = f"race/{number}.json"
        contents = [f"writer {index}".encode() * 1000 for index in range(8)]
        outcomes = race([partial(store.put_if_absent, path, content) for content in contents])
        winners = [index for index, outcome in enumerate(outcomes) if outcome is None]
        assert len(winners) == 1
        assert all(isinstance(outcome, ObjectExists) for outcome in outcomes if outcome is not None)
        assert store.get(path) == contents[winners[0]]


# --- ranges and streams


def test_a_range_is_exact_and_shorter_at_the_end(store: ObjectStore) -> None:
    store.put("a", b"0123456789")
    assert store.get_range("a", 2, 3) == b"234"
    assert store.get_range("a", 8, 100) == b"89"
    assert store.get_range("a", 10, 5) == b""
    assert store.get_range("a", 3, 0) == b""


def test_a_range_of_another_version_is_refused(store: ObjectStore) -> None:
    store.put("a", b"0123456789")
    etag = store.head("a").etag
    assert store.get_range("a", 0, 4, etag) == b"0123"
    store.put("a", b"9876543210")
    with raises(ObjectChanged, "/a", "etag"):
        store.get_range("a", 0, 4, etag)


def test_a_stream_gives_every_byte_in_pieces_of_any_size(store: ObjectStore) -> None:
    data = bytes(range(256)) * 80_000
    store.put("big", data)
    info = store.head("big")
    with store.open_input("big", etag=info.etag, size=info.size) as stream:
        pieces = [stream.read(1), stream.read(1000)]
        while piece := stream.read(3_000_001):
            pieces.append(piece)
    assert b"".join(pieces) == data


def test_an_empty_object_streams_nothing(store: ObjectStore) -> None:
    store.put("empty", b"")
    info = store.head("empty")
    with store.open_input("empty", etag=info.etag, size=0) as stream:
        assert stream.read() == b""


def test_a_stream_needs_no_etag_or_size(store: ObjectStore) -> None:
    store.put("a", b"hello")
    with store.open_input("a", etag=None, size=None) as stream:
        assert stream.read() == b"hello"


@pytest.mark.parametrize("content", [b"other", b"longer content", b""])
def test_a_rewritten_object_is_not_opened(store: ObjectStore, content: bytes) -> None:
    store.put("a", b"hello")
    info = store.head("a")
    store.put("a", content)
    with pytest.raises(ObjectChanged) as caught:
        store.open_input("a", etag=info.etag, size=info.size)
    assert f"{store.location.uri}/a" in str(caught.value)


def test_a_stream_of_known_size_only_refuses_another_size(store: ObjectStore) -> None:
    store.put("a", b"hello")
    with raises(ObjectChanged, "5 bytes", "7"):
        store.open_input("a", etag=None, size=7)


def test_a_stream_of_a_missing_object_is_refused(store: ObjectStore) -> None:
    with raises(ObjectMissing, "no/such.json"):
        store.open_input("no/such.json", etag='"x"', size=4)


def test_a_stream_never_mixes_two_versions(store: ObjectStore) -> None:
    first, second = b"1" * 20_000_000, b"2" * 20_000_000
    store.put("a", first)
    info = store.head("a")
    with store.open_input("a", etag=info.etag, size=info.size) as stream:
        start = stream.read(10)
        store.put("a", second)
        try:
            rest = stream.read()
        except ObjectChanged:
            rest = first[10:]
    assert start + rest == first


# --- writing files


def test_an_output_is_complete_after_close(store: ObjectStore) -> None:
    output = store.open_output("out/part-1.parquet")
    assert output.writable()
    output.write(b"abc")
    output.write(memoryview(b"def"))
    assert output.tell() == 6
    output.flush()
    output.close()
    assert output.closed
    assert store.get("out/part-1.parquet") == b"abcdef"
    output.close()


def test_an_aborted_output_leaves_nothing(store: ObjectStore) -> None:
    output = store.open_output("out/part-1.parquet")
    output.write(b"abc" * 1_000_000)
    output.abort()
    output.abort()
    assert output.closed
    assert paths(store) == []


def test_an_output_whose_block_fails_leaves_nothing(store: ObjectStore) -> None:
    def write_and_fail() -> None:
        with store.open_output("out/part-1.parquet") as output:
            output.write(b"abc")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_and_fail()
    assert paths(store) == []


def test_abort_after_close_keeps_the_object(store: ObjectStore) -> None:
    with store.open_output("out/part-1.parquet") as output:
        output.write(b"abc")
    output.abort()
    assert store.get("out/part-1.parquet") == b"abc"


def test_pyarrow_writes_parquet_into_an_output(store: ObjectStore) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"id": list(range(10_000)), "text": [str(number) for number in range(10_000)]})
    with store.open_output("out/part-1.parquet") as output, pq.ParquetWriter(output, table.schema) as writer:
        writer.write_table(table)
    assert pq.read_table(io.BytesIO(store.get("out/part-1.parquet"))).equals(table)


@pytest.mark.parametrize("size", [0, 10, 6_000_000, 17_000_000])
def test_a_local_file_is_uploaded_whole(store: ObjectStore, tmp_path: Path, size: int) -> None:
    data = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    file = tmp_path / "local.bin"
    file.write_bytes(data)
    store.put_file("up/file.bin", str(file), Upload(part_size=5 * 1024 * 1024))
    assert store.get("up/file.bin") == data


def test_uploading_a_file_that_is_not_there_names_it(store: ObjectStore, tmp_path: Path) -> None:
    with raises(StorageError, "gone.bin"):
        store.put_file("up/gone.bin", str(tmp_path / "gone.bin"))


# --- listing


def test_an_empty_store_lists_nothing(store: ObjectStore) -> None:
    assert paths(store) == []
    assert paths(store, "some/dir", after="some/dir/x") == []
    assert store.list_directory("").directories == ()


def test_listing_is_recursive_and_stays_below_its_directory(store: ObjectStore) -> None:
    fill(store, "d/1", "d/sub/2", "d-x/3", "dd/4", "e")
    assert sorted(paths(store, "d")) == ["d/1", "d/sub/2"]
    assert sorted(paths(store)) == ["d-x/3", "d/1", "d/sub/2", "dd/4", "e"]


def test_the_objects_of_one_directory_come_in_order(store: ObjectStore) -> None:
    names = ["b", "a", "Z", "_", "10", "9", "a-", "a.", "é", "~", "a0", "z"]
    fill(store, *(f"d/{name}" for name in names))
    assert paths(store, "d") == [f"d/{name}" for name in sorted(names, key=str.encode)]


def test_each_directory_of_a_deep_listing_comes_in_order(store: ObjectStore) -> None:
    fill(store, "d/3", "d/1", "d/2/b", "d/2/a", "d-x/2", "d-x/1")
    found = paths(store)
    for directory in ("d", "d/2", "d-x"):
        own = [path for path in found if path.rpartition("/")[0] == directory]
        assert own == sorted(own)
        assert own
    assert len(found) == 6


def test_after_is_exclusive(store: ObjectStore) -> None:
    fill(store, "d/100", "d/200", "d/300")
    assert paths(store, "d", after="d/200") == ["d/300"]
    assert paths(store, "d", after="d/199") == ["d/200", "d/300"]
    assert paths(store, "d", after="d/300") == []


def test_after_need_not_exist_and_may_lie_outside(store: ObjectStore) -> None:
    fill(store, "d/1", "d/2")
    assert paths(store, "d", after="c/9") == ["d/1", "d/2"]
    assert paths(store, "d", after="e/0") == []
    assert paths(store, "", after="d/1") == ["d/2"]


def test_after_a_name_shows_deeper_files_that_sort_above_it(store: ObjectStore) -> None:
    fill(store, "d/100.json", "d/200/deep.json", "d/300.json", "d/300/deep.json")
    assert sorted(paths(store, "d", after="d/100.json")) == [
        "d/200/deep.json",
        "d/300.json",
        "d/300/deep.json",
    ]


def test_listing_goes_past_one_page(store: ObjectStore) -> None:
    expected = [f"many/{number:05d}.json" for number in range(1203)]
    for path in expected:
        store.put(path, b"")
    before = store.requests.list
    assert paths(store, "many") == expected
    assert store.requests.list - before == (1 if store.location.uri.startswith("file:") else 2)
    before = store.requests.list
    assert paths(store, "many", after=expected[1199]) == expected[1200:]
    assert store.requests.list - before == 1


def test_known_paths_are_left_out(store: ObjectStore) -> None:
    fill(store, "d/1", "d/2", "d/3")
    assert [info.path for info in store.list("d", known={"d/2"}.__contains__)] == ["d/1", "d/3"]
    found = store.list_directory("d", known={"d/2"}.__contains__)
    assert [info.path for info in found.objects] == ["d/1", "d/3"]


def test_one_level_tells_directories_from_objects(store: ObjectStore) -> None:
    fill(store, "r/b.json", "r/a.json", "r/d=2/x", "r/d=1/h=1/x", "r/d=1-x/y", "s/z")
    found = store.list_directory("r")
    assert found.directories == ("r/d=1", "r/d=1-x", "r/d=2")
    assert [info.path for info in found.objects] == ["r/a.json", "r/b.json"]
    assert store.list_directory("").directories == ("r", "s")


def test_one_level_after_a_name_still_gives_all_directories(store: ObjectStore) -> None:
    fill(store, "r/1.json", "r/2.json", "r/0/x")
    found = store.list_directory("r", after="r/1.json")
    assert found.directories == ("r/0",)
    assert [info.path for info in found.objects] == ["r/2.json"]


def test_a_missing_directory_is_an_empty_level(store: ObjectStore) -> None:
    fill(store, "d/1")
    found = store.list_directory("no/such")
    assert (found.directories, found.objects) == ((), ())


def test_hard_names_round_trip(store: ObjectStore) -> None:
    fill(store, *HARD_NAMES)
    assert sorted(paths(store)) == sorted(HARD_NAMES)
    for path in HARD_NAMES:
        assert store.get(path) == path.encode()
        assert store.head(path).path == path


@pytest.mark.parametrize("path", HARD_NAMES)
def test_hard_names_are_listed_after_and_level_by_level(store: ObjectStore, path: str) -> None:
    directory = path.rpartition("/")[0]
    fill(store, path, f"{directory}/\U0010ffff later")
    assert paths(store, directory, after=path) == [f"{directory}/\U0010ffff later"]
    assert path in [info.path for info in store.list_directory(directory).objects]
    parts = directory.split("/")
    for depth in range(len(parts)):
        assert "/".join(parts[: depth + 1]) in store.list_directory("/".join(parts[:depth])).directories


def test_requests_are_counted(store: ObjectStore) -> None:
    fill(store, "d/1", "d/2")
    assert store.requests.put == 2
    store.get("d/1")
    store.head("d/1")
    list(store.list("d", after="d/1"))
    store.delete("d/1")
    counted = store.requests
    assert (counted.get, counted.head, counted.list, counted.keys, counted.delete) == (1, 1, 1, 1, 1)


def test_an_existing_place_exists(store: ObjectStore) -> None:
    fill(store, "d/1")
    assert store.exists()
