"""What only a bucket can do, or do wrong; against a real server."""

from __future__ import annotations

import gc
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.errors import raises
from tidegate.errors import AccessDenied, ObjectMissing, StorageError, StorageUnavailable
from tidegate.specs.locations import Location, Options
from tidegate.storage import remote
from tidegate.storage.port import ObjectStore, Scope, Upload
from tidegate.storage.stores import open_store

if TYPE_CHECKING:
    from servers.s3 import Server

pytestmark = pytest.mark.s3


@pytest.fixture
def store(s3: Server) -> ObjectStore:
    return open_store(s3.location("in"))


def with_options(location: Location, **changed: str) -> ObjectStore:
    return open_store(Location(location.uri, Options({**location.options, **changed})))


def test_a_missing_bucket_is_an_error_that_names_it(s3: Server) -> None:
    store = open_store(Location("s3://no-such-bucket/in", s3.options))
    for action in (lambda: list(store.list()), store.list_directory, lambda: store.get("a")):
        with raises(StorageError, "no-such-bucket", "create") as caught:
            action()
        assert not isinstance(caught.value, ObjectMissing)


@pytest.mark.parametrize(
    "changed", [{"AWS_SECRET_ACCESS_KEY": "CANARY-wrong"}, {"AWS_ACCESS_KEY_ID": "CANARY-unknown"}]
)
def test_wrong_credentials_are_denied_without_showing_them(s3: Server, changed: dict[str, str]) -> None:
    store = with_options(s3.location("in"), **changed)
    actions = (lambda: list(store.list()), lambda: store.get("a"), lambda: store.put("a", b"1"))
    for action in actions:
        with raises(AccessDenied, "credentials") as caught:
            action()
        assert store.location.uri in str(caught.value)
        assert "CANARY" not in f"{caught.value!r} {caught.value} {caught.value.__cause__}"


def test_a_reader_may_not_write(s3: Server) -> None:
    location = s3.location("in")
    open_store(location).put("a", b"1")
    store = open_store(Location(location.uri, s3.reader_options))
    assert store.get("a") == b"1"
    for action in (store.put, store.put_if_absent):
        with raises(AccessDenied, "in/b"):
            action("b", b"2")


def test_a_server_that_is_not_there_is_reported_in_bounded_time(s3: Server) -> None:
    store = with_options(s3.location("in"), AWS_ENDPOINT_URL="http://127.0.0.1:1")
    started = time.monotonic()
    with raises(StorageUnavailable, "no response"):
        store.head("a")
    assert time.monotonic() - started < 60


def test_plain_http_must_be_allowed(s3: Server) -> None:
    store = with_options(s3.location("in"), AWS_ALLOW_HTTP="false")
    with raises(StorageError, "AWS_ALLOW_HTTP"):
        store.head("a")


def test_a_key_that_the_client_cannot_represent_is_left_out_by_name(s3: Server) -> None:
    location = s3.location("in")
    for name in ("good.json", "tab\there.json"):
        s3.request("PUT", f"/{location.uri.removeprefix('s3://')}/d/{name}", b"1")
    scope = Scope()
    assert [each.path for each in open_store(location).list(scope=scope)] == ["d/good.json"]
    assert [each.path for each in open_store(location).list_directory("d", scope=scope).objects] == ["d/good.json"]
    assert [(each.count, each.examples) for each in scope.left_out] == [(2, ("d/tab\\x09here.json",) * 2)]


def test_directory_markers_are_left_out_and_empty_objects_are_not(s3: Server) -> None:
    location = s3.location("in")
    key = f"/{location.uri.removeprefix('s3://')}"
    for marker in ("d=1/", "d=2/", "d=2/h=1/"):
        s3.request("PUT", f"{key}/{marker}")
    store = open_store(location)
    store.put("d=2/empty", b"")
    store.put("d=2/a.json", b"")
    assert sorted(info.path for info in store.list()) == ["d=2/a.json", "d=2/empty"]
    assert store.list_directory().directories == ("d=1", "d=2")
    assert [info.path for info in store.list_directory("d=2").objects] == ["d=2/a.json", "d=2/empty"]
    assert store.list_directory("d=1").objects == ()


def test_a_stream_asks_for_one_block_at_a_time(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "BLOCK", 1000)
    data = os.urandom(3500)
    store.put("a", data)
    info = store.head("a")
    before = store.requests.get
    with store.open_input("a", etag=info.etag, size=info.size) as stream:
        assert stream.read(10) == data[:10]
        assert store.requests.get - before == 1
        assert stream.read() == data[10:]
    assert store.requests.get - before == 4


def test_large_files_go_up_in_parts(store: ObjectStore, tmp_path: Path) -> None:
    file = tmp_path / "big"
    file.write_bytes(os.urandom(12_000_000))
    store.put_file("whole", str(file), Upload(multipart_from=100_000_000))
    store.put_file("parts", str(file), Upload(part_size=5 * 1024 * 1024, multipart_from=5_000_000))
    assert store.get("whole") == store.get("parts") == file.read_bytes()
    whole, parts = store.head("whole").etag, store.head("parts").etag
    assert whole is not None
    assert "-" not in whole
    assert parts is not None
    assert parts.endswith('-3"')


def test_the_temporary_file_of_an_output_has_no_name_that_could_stay_behind(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    kept = store.open_output("kept")
    kept.write(b"1")
    aborted, dropped = store.open_output("aborted"), store.open_output("dropped")
    dropped.write(b"1")
    assert os.listdir(tmp_path) == []
    kept.close()
    aborted.abort()
    del dropped
    gc.collect()
    assert os.listdir(tmp_path) == []
    assert [info.path for info in store.list()] == ["kept"]


def test_an_upload_that_fails_leaves_no_temporary_file(
    s3: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    store = open_store(Location(s3.location("in").uri, s3.reader_options))
    output = store.open_output("out")
    output.write(b"1")
    with raises(AccessDenied, "in/out"):
        output.close()
    assert os.listdir(tmp_path) == []


def test_no_room_for_the_temporary_file_is_said(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/no/such/place")
    with raises(StorageError, "/no/such/place"):
        store.open_output("out")


def test_a_miss_is_told_without_a_search_for_secrets(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every poll looks for objects that are not there yet, and that search took longer than the request."""
    searched: list[Exception] = []
    monkeypatch.setattr(remote, "safe_cause", lambda error, secrets: searched.append(error))
    for look in (store.get, store.head):
        with raises(ObjectMissing, "not-there") as caught:
            look("not-there")
        assert (caught.value.__cause__, caught.value.__suppress_context__) == (None, True)
    assert searched == []
