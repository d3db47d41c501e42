"""Source and table on emulated clouds (``make test-clouds``): what is new, once, also where runs race."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from servers.azure import ACCOUNT, CLOUDS, CONTAINER, Server
from support import scripts
from support.bucket import WORKER, Bucket
from tidegate import load, plan, status
from tidegate.errors import StorageError
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


def ingest(bucket: Bucket) -> int:
    """How many files one run read."""
    project = load(bucket.config)
    report = Loop(project, InProcessEngine(), 2).once(project.pipelines)
    assert report.ok, report
    return report.sources[0].files


@pytest.mark.parametrize("use_watermark", [True, False])
@pytest.mark.parametrize("scheme", ["az", "abfss"])
def test_only_what_is_new_is_read_from_azure(azure: Server, tmp_path: Path, scheme: str, use_watermark: bool) -> None:
    server = azure if scheme == "az" else LongAddresses(azure)
    bucket = fill(Bucket(server, tmp_path, use_watermark=use_watermark))
    assert ingest(bucket) == 11
    assert ingest(bucket) == 0
    bucket.arrive("date=2026-01-28/hour=12/9.ndjson")
    (planned,) = plan(bucket.config)
    assert planned.plan.files == 1
    assert ingest(bucket) == 1
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
        with pytest.raises(StorageError, match="az://no-such-container does not exist: create it"):
            action()
