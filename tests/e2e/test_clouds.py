"""Source and table on emulated clouds (``make test-clouds``): what is new, once, also where runs race."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from contract.storage_cases import HARD_NAMES
from servers import gcs as gcs_server
from servers.azure import ACCOUNT, CLOUDS, CONTAINER, Server
from support import scripts
from support.bucket import WORKER, Bucket
from support.errors import raises
from support.lake import FIELDS
from tidegate import load, plan, status
from tidegate.errors import ObjectMissing, StorageError
from tidegate.protocol.delta import query
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop
from tidegate.specs.locations import Location
from tidegate.storage.stores import open_store

pytestmark = [pytest.mark.skipif(CLOUDS is None, reason="make test-clouds"), pytest.mark.clouds]


class LongAddresses:
    """The same server, addressed as Hadoop does."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def location(self, path: str = "") -> Location:
        plain = self._server.location(path)
        host = f"abfss://{CONTAINER}@{ACCOUNT}.dfs.core.windows.net"
        return replace(plain, uri=plain.uri.replace(f"az://{CONTAINER}", host))


def fill(bucket: Bucket) -> Bucket:
    for hour in (11, 12):
        for number in range(5):
            bucket.arrive(f"date=2026-01-28/hour={hour}/{number} ü+%41.ndjson")
    bucket.arrive("date=2026-01-28/hour=12/8 empty.ndjson", 0)
    return bucket


def ingest(config: Path) -> int:
    """How many files one run read."""
    project = load(config)
    report = Loop(project, InProcessEngine(), 2).once(project.pipelines)
    assert report.ok, report
    return report.sources[0].files


@pytest.mark.parametrize("use_watermark", [True, False])
@pytest.mark.parametrize("scheme", ["az", "abfss"])
def test_only_what_is_new_is_read_from_azure(azure: Server, tmp_path: Path, scheme: str, use_watermark: bool) -> None:
    server = azure if scheme == "az" else LongAddresses(azure)
    bucket = fill(Bucket(server, tmp_path, use_watermark=use_watermark))
    assert ingest(bucket.config) == 11
    assert ingest(bucket.config) == 0
    bucket.arrive("date=2026-01-28/hour=12/9.ndjson")
    (planned,) = plan(bucket.config)
    assert planned.plan.files == 1
    assert ingest(bucket.config) == 1
    bucket.assert_exactly_once()
    (now,) = status(bucket.config)
    assert now.backlog_files == 0


def test_runs_started_together_on_azure_write_every_row_once(azure: Server, tmp_path: Path) -> None:
    bucket = fill(Bucket(azure, tmp_path))
    runs = [scripts.start(WORKER, bucket.config) for _ in range(3)]
    assert [run.wait() for run in runs] == [0, 0, 0]
    bucket.assert_exactly_once()


def test_a_missing_container_is_named(azure: Server) -> None:
    store = open_store(Location("az://no-such-container/x", azure.options))
    for action in (lambda: list(store.list()), lambda: store.put("a", b""), lambda: store.get("a")):
        with raises(StorageError, "az://no-such-container", "create"):
            action()


def test_objects_of_google_cloud_storage_are_listed_and_read(gcs: gcs_server.Server) -> None:
    location = gcs.location("root%20here")
    names = (*HARD_NAMES, "d/100", "d/200", "d/300", "d/200/deep")
    for name in names:
        gcs.place(location, name, name.encode())
    store = open_store(location)
    assert sorted(info.path for info in store.list()) == sorted(names)
    assert [info.path for info in store.list("d", after="d/200")] == ["d/200/deep", "d/300"]
    level = store.list_directory("d")
    assert (level.directories, [info.path for info in level.objects]) == (("d/200",), ["d/100", "d/200", "d/300"])
    for info in store.list():
        data = info.path.encode()
        with store.open_input(info.path, etag=info.etag, size=info.size) as stream:
            assert (stream.read(), store.get(info.path)) == (data, data)
        assert (store.get_range(info.path, 2, 3), store.get_range(info.path, len(data), 5)) == (data[2:5], b"")
        assert store.head(info.path).size == len(data)
    for action in (store.get, store.head):
        with raises(ObjectMissing, "no/such.json"):
            action("no/such.json")


@pytest.mark.parametrize("use_watermark", [True, False])
def test_only_what_is_new_is_read_from_google_cloud_storage(
    gcs: gcs_server.Server, tmp_path: Path, use_watermark: bool
) -> None:
    source, config = gcs.location("source"), tmp_path / "gcs.yml"
    options = dict(source.options)
    pipeline = {
        "source": {"source_uri": source.uri, "use_watermark": use_watermark, "storage_options": options},
        "schema": {"fields": FIELDS},
        "sink": {"table_uri": "table"},
    }
    config.write_text(json.dumps({"pipelines": {"events": pipeline}}))
    for number in range(5):
        gcs.place(source, f"date=2026-01-28/hour=1{number % 2}/{number} ü.ndjson", f'{{"id": {number}}}\n'.encode())
    assert [ingest(config), ingest(config)] == [5, 0]
    gcs.place(source, "date=2026-01-28/hour=11/9.ndjson", b'{"id": 5}\n')
    assert [ingest(config), ingest(config)] == [1, 0]
    found = query(Location((tmp_path / "table").as_uri()), "select id from t")
    assert sorted(row["id"] for row in found) == list(range(6))
