"""A file that can be read from anywhere gives one version of an object, or an error.

Uploads are counted, and their parts stay within what may be under way at once; on a real server, over a bad line.

Foreign errors become ours: the right kind, with the URI and a remedy, and without secrets.
"""

from __future__ import annotations

import errno
import io
import os
import pickle
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from servers.fault_proxy import Fault, FaultProxy, Rule, in_front_of
from servers.s3 import Server
from support.errors import check_names
from tidegate.core.files.plan import FileGroup, FileSlice
from tidegate.core.files.state import Covered, NotReached
from tidegate.errors import AccessDenied, ObjectChanged, ObjectExists, ObjectMissing, StorageError, StorageUnavailable
from tidegate.parquet.writer import WriterSettings
from tidegate.schema.types import arrow_schema
from tidegate.specs.locations import Location
from tidegate.specs.table import FieldSpec, PartitionBy
from tidegate.storage.port import (
    ObjectStore,
    SeekableInput,
    Upload,
    UploadCounts,
    Uploads,
    from_client,
    from_os,
    safe_cause,
)
from tidegate.storage.stores import open_store
from tidegate.tasks.read_task import ReadTask
from tidegate.tasks.task import read_group


@pytest.fixture(params=["file", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    return Location(tmp_path.as_uri() if request.param == "file" else f"memory://{tmp_path.name}")


def test_any_part_can_be_read(place: Location) -> None:
    store = open_store(place)
    store.put("a", b"0123456789")
    file = io.BufferedReader(SeekableInput(store, "a", etag=store.head("a").etag, size=10), 4)
    assert (file.seek(-3, io.SEEK_END), file.read()) == (7, b"789")
    assert (file.seek(2), file.read(3), file.tell()) == (2, b"234", 5)
    assert (file.seek(1, io.SEEK_CUR), file.read(1)) == (6, b"6")
    assert (file.seek(50), file.read()) == (50, b"")


def test_another_version_is_noticed_when_opening_and_when_reading(place: Location) -> None:
    store = open_store(place)
    store.put("a", b"0123456789")
    for etag, size in ((None, 9), ("another", None)):
        with pytest.raises(ObjectChanged):
            SeekableInput(store, "a", etag=etag, size=size)
    file = SeekableInput(store, "a", etag=None, size=10)
    assert file.read(2) == b"01"
    store.put("a", b"abcdefghij")
    with pytest.raises(ObjectChanged):
        file.read(2)
    with pytest.raises(ObjectMissing):
        SeekableInput(store, "gone", etag=None, size=1)


MEGABYTE = 1024 * 1024
LONG = bool(os.environ.get("TIDEGATE_LONG"))
PATIENCE = {"max_retries": "2", "retry_timeout": "10s"}


def test_parts_of_all_uploads_share_the_places() -> None:
    uploads = Uploads()
    with uploads.parts(5, 8) as first, uploads.parts(5, 8) as second:
        assert (first, second, uploads.active_parts) == (5, 3, 8)
        third = uploads.parts(2, 8)
        waiting = threading.Thread(target=third.__enter__)
        waiting.start()
        assert uploads.counts == UploadCounts(most_parts=8)
        assert waiting.is_alive()
    waiting.join(30)
    assert uploads.active_parts == 2
    assert uploads.counts == UploadCounts(multipart=2, most_parts=8)


def test_an_upload_that_fails_gives_its_places_back_and_is_not_counted() -> None:
    uploads = Uploads()
    with pytest.raises(StorageError), uploads.file(), uploads.parts(3, 3):
        raise StorageError("full", "empty it")
    assert (uploads.active_files, uploads.active_parts) == (0, 0)
    assert uploads.counts == UploadCounts(most_files=1, most_parts=3)


def test_counts_of_several_tasks_add_up() -> None:
    assert UploadCounts(3, 1, 2, 5) + UploadCounts(4, 0, 4, 0) == UploadCounts(7, 1, 4, 5)


def test_an_upload_that_the_store_forgot_is_not_a_missing_source_file() -> None:
    error = from_client(
        FileNotFoundError("status: 404 <Code>NoSuchUpload</Code>"), "s3://lake/table/a.parquet", "write"
    )
    assert type(error) is StorageUnavailable
    assert "NoSuchUpload" in str(error)


@pytest.fixture(scope="module")
def proxy(s3: Server) -> Iterator[FaultProxy]:
    with in_front_of(s3) as proxy:
        yield proxy


@pytest.fixture
def store(s3: Server, proxy: FaultProxy) -> Iterator[ObjectStore]:
    yield open_store(Location(s3.location("out").uri, proxy.options(**PATIENCE)))
    proxy.faults.inject()


def uploaded(store: ObjectStore, path: str, data: bytes, upload: Upload) -> None:
    with store.open_output(path, upload) as output:
        output.write(data)


@pytest.mark.s3
@pytest.mark.parametrize("most", [1, 3])
def test_parts_under_way_never_exceed_the_setting_over_all_uploads(
    store: ObjectStore, proxy: FaultProxy, most: int
) -> None:
    data = os.urandom((256 if LONG else 64) * MEGABYTE // 3 + 17)
    upload = Upload(part_size=5 * MEGABYTE, multipart_from=5 * MEGABYTE, concurrent_parts=most)
    proxy.faults.inject(Rule(Fault.SLOW, "PUT", "partNumber="))
    proxy.faults.watch("partNumber=")
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda name: uploaded(store, name, data, upload), "abc"))
    assert proxy.faults.most_at_once == most == store.uploads.counts.most_parts
    assert store.uploads.counts.multipart == 3
    parts = -(-len(data) // upload.part_size)
    for name in "abc":
        assert store.head(name).etag is not None
        assert str(store.head(name).etag).endswith(f'-{parts}"')
        assert store.get_range(name, len(data) - 100, 100) == data[-100:]
        assert store.head(name).size == len(data)


@pytest.mark.s3
def test_a_file_below_the_limit_goes_by_one_request(store: ObjectStore, proxy: FaultProxy) -> None:
    upload = Upload(part_size=5 * MEGABYTE, multipart_from=5 * MEGABYTE)
    proxy.faults.inject()
    uploaded(store, "small", bytes(5 * MEGABYTE - 1), upload)
    assert [request.partition("?")[0].split()[0] for request in proxy.faults.seen] == ["PUT"]
    uploaded(store, "enough", bytes(5 * MEGABYTE), upload)
    assert sum("partNumber=" in request for request in proxy.faults.seen) == 1
    assert store.uploads.counts.multipart == 1


@pytest.mark.s3
@pytest.mark.parametrize("fault", [Fault.ERROR, Fault.RESET_SENDING, Fault.LOST])
def test_a_part_that_fails_once_is_sent_again(store: ObjectStore, proxy: FaultProxy, fault: Fault) -> None:
    data = os.urandom(12 * MEGABYTE)
    proxy.faults.inject(Rule(fault, "PUT", "partNumber=2", times=1))
    uploaded(store, "a", data, Upload(part_size=5 * MEGABYTE, multipart_from=5 * MEGABYTE))
    assert sum("partNumber=2" in request for request in proxy.faults.seen) == 2
    assert store.get("a") == data


@pytest.mark.s3
def test_a_part_that_always_fails_fails_its_unit_and_no_other(
    s3: Server, proxy: FaultProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    source = s3.location("in")
    table = Location(s3.location("out").uri, proxy.options(**PATIENCE))
    units = []
    for number, day in enumerate(("01", "02", "03"), 1):
        path = f"date={day}/a.ndjson"
        lines = [f'{{"id":{row},"k":"{os.urandom(30).hex()}"}}' for row in range(120_000)]
        open_store(source).put(path, "\n".join(lines).encode())
        found = open_store(source).head(path)
        units.append(FileGroup(number, (FileSlice(path, found.size, found.etag),)))
    fields = (FieldSpec("id", "int64"), FieldSpec("k", "string"))
    task = ReadTask(
        source,
        table,
        fields,
        arrow_schema(fields).serialize().to_pybytes(),
        partition_by=PartitionBy("date"),
        writer=WriterSettings(upload=Upload(part_size=5 * MEGABYTE, multipart_from=5 * MEGABYTE)),
    )
    proxy.faults.inject(Rule(Fault.ERROR, "PUT", "/date=02/.*partNumber=1"))
    results = [result for unit in units for result in read_group(task, unit)]
    assert [type(result.outcomes[0]) for result in results] == [Covered, NotReached, Covered]
    assert [len(result.data_files) for result in results] == [1, 0, 1]
    assert isinstance(results[1].failure, StorageUnavailable)
    assert "date=02" in str(results[1].failure)
    assert results[0].uploads == UploadCounts(files=1, multipart=1, most_files=1, most_parts=2)
    assert sorted(info.path for info in open_store(table).list()) == sorted(
        file.path for result in results for file in result.data_files
    )
    assert any(request.startswith("DELETE") for request in proxy.faults.seen), "the parts that arrived are given back"
    assert os.listdir(tmp_path) == []


URI = "s3://lake/raw/a.json"


def answer(status: int, code: str) -> Exception:
    return RuntimeError(f"Server returned non-2xx status code: {status} X: <Error><Code>{code}</Code></Error>")


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOENT, ObjectMissing),
        (errno.EEXIST, ObjectExists),
        (errno.EACCES, AccessDenied),
        (errno.EPERM, AccessDenied),
        (errno.EROFS, AccessDenied),
        (errno.ENOSPC, StorageError),
        (errno.EDQUOT, StorageError),
        (errno.EIO, StorageUnavailable),
        (errno.ESTALE, StorageUnavailable),
        (errno.EMFILE, StorageError),
        (errno.EINVAL, StorageError),
    ],
)
def test_every_error_of_the_operating_system_has_a_kind_and_a_remedy(number: int, kind: type[StorageError]) -> None:
    error = from_os(OSError(number, os.strerror(number)), URI, "read")
    assert type(error) is kind
    assert URI in str(error)
    assert error.remedy


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (403, "AccessDenied", AccessDenied),
        (403, "SignatureDoesNotMatch", AccessDenied),
        (401, "", AccessDenied),
        (404, "NoSuchKey", ObjectMissing),
        (404, "NoSuchBucket", StorageError),
        (412, "PreconditionFailed", ObjectChanged),
        (500, "InternalError", StorageUnavailable),
        (503, "SlowDown", StorageUnavailable),
        (429, "", StorageUnavailable),
        (400, "RequestTimeout", StorageUnavailable),
        (400, "InvalidRequest", StorageError),
    ],
)
def test_every_answer_of_the_store_has_a_kind_and_a_remedy(status: int, code: str, kind: type[StorageError]) -> None:
    error = from_client(answer(status, code), URI, "read")
    assert type(error) is kind
    assert URI in str(error)
    assert error.remedy


@pytest.mark.parametrize("status", [409, 412])
def test_a_refused_condition_of_a_plain_write_may_be_tried_again(status: int) -> None:
    error = from_client(answer(status, "ConditionalRequestConflict"), URI, "write")
    assert type(error) is StorageUnavailable
    check_names(error, "write", URI, status)


def test_a_listing_cut_short_may_be_tried_again() -> None:
    error = from_client(RuntimeError("Got invalid list response: tag not closed"), URI, "list")
    assert type(error) is StorageUnavailable
    check_names(error, "list", URI, "truncated")


def test_a_missing_bucket_is_not_a_missing_object() -> None:
    error = from_client(FileNotFoundError(str(answer(404, "NoSuchBucket"))), URI, "read")
    assert not isinstance(error, ObjectMissing)
    check_names(error.remedy, "s3://lake")


def test_no_answer_may_be_tried_again() -> None:
    error = from_client(RuntimeError("HTTP error: error sending request"), URI, "list")
    assert isinstance(error, StorageUnavailable)
    assert error.retryable


def test_missing_credentials_are_said() -> None:
    error = from_client(RuntimeError("error sending request for url (http://169.254.169.254/x)"), URI, "list")
    assert isinstance(error, AccessDenied)
    check_names(error, "credentials")


def test_the_text_of_a_foreign_error_is_not_repeated() -> None:
    error = from_client(RuntimeError("HTTP error for https://x/?sig=CANARY"), URI, "list")
    assert "CANARY" not in str(error)


def test_a_cause_that_holds_a_secret_is_dropped() -> None:
    error = RuntimeError("https://x/?sig=CANARY")
    assert safe_cause(error, ("CANARY",)) is None
    assert safe_cause(error, ("other",)) is error


def test_storage_errors_travel_between_processes() -> None:
    error = from_os(OSError(errno.ENOSPC, "full"), URI, "write")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (type(error), str(error))
