"""The position store over ``memory://``: cold start, idle polls, and the steps that need no Delta library."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from uuid import uuid4

import pyarrow as pa
import pytest

from support.changes import appended
from support.errors import raises
from tidegate.errors import ObjectExists, StateError, StorageUnavailable
from tidegate.protocol.change import DataFile, Identity, SourceKey
from tidegate.protocol.log import DeltaLog, LogEntry, entry_path, parse_entry
from tidegate.protocol.position import Pace, TableContext
from tidegate.protocol.store import PositionStore, open_delta
from tidegate.specs.locations import Location
from tidegate.storage.memory import forget
from tidegate.storage.stores import open_store

SCHEMA = pa.schema([("id", pa.int64())])
NOW = datetime(2026, 1, 28, 14, 30, tzinfo=UTC)
KEY = SourceKey("p", "s")


@pytest.fixture
def table() -> Iterator[Location]:
    name = uuid4().hex
    yield Location(f"memory://{name}/table")
    forget(name)


def positions(table: Location, uri: str = "s3://landing") -> PositionStore:
    store = open_store(table)
    site = TableContext(KEY, Identity("path", uri), store, open_delta(table, store), pace=Pace(now=lambda: NOW))
    return PositionStore(site)


def commit_something(store: PositionStore, value: int = 1) -> None:
    path = f"{uuid4()}.parquet"
    store.site.store.put(path, b"rows")
    state = {"next": value}
    store.commit(store.open(), appended(state, [DataFile(path, 4, 1, {})], SCHEMA))


class TestColdStart:
    def test_it_is_read_while_there_is_no_position(self, table: Location) -> None:
        assert positions(table).cold_start() is None
        assert positions(table).put_cold_start({"sealed": "26"}) == {"sealed": "26"}
        opened = positions(table).open()
        assert (opened.version, opened.state, opened.cold_start) == (0, {"sealed": "26"}, True)

    def test_the_first_plan_decides_for_the_later_ones(self, table: Location) -> None:
        positions(table).put_cold_start({"sealed": "26"})
        assert positions(table).put_cold_start({"sealed": "27"}) == {"sealed": "26"}

    def test_a_lost_response_to_its_own_write_is_no_obstacle(self, table: Location) -> None:
        store = positions(table)
        real = store.site.store.put_if_absent

        def lossy(path: str, data: bytes) -> None:
            real(path, data)
            raise ObjectExists(path)

        store.site.store.put_if_absent = lossy  # type: ignore[method-assign]  # one call behind a bad line
        assert store.put_cold_start({"sealed": "26"}) == {"sealed": "26"}

    def test_it_does_not_look_like_a_forgotten_position(self, table: Location) -> None:
        positions(table).put_cold_start({"sealed": "26"})
        assert positions(table).open().first_run

    def test_after_the_first_commit_it_is_history(self, table: Location) -> None:
        positions(table).put_cold_start({"sealed": "26"})
        commit_something(positions(table))
        opened = positions(table).open()
        assert (opened.state, opened.cold_start) == ({"next": 1}, False)

    @pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"state": {}}'])
    def test_damaged_it_stops(self, table: Location, content: bytes) -> None:
        store = positions(table)
        store.site.store.put(KEY.cold_start, content)
        with raises(StateError, "_tidegate/p/s/cold_start.json", "damaged"):
            store.open()

    def test_of_another_source_it_stops(self, table: Location) -> None:
        positions(table).put_cold_start({"sealed": "26"})
        with raises(StateError, "p/s", "source_uri", "'s3://landing'", "'s3://elsewhere'"):
            positions(table, "s3://elsewhere").open()

    def test_of_a_newer_version_it_stops(self, table: Location) -> None:
        store = positions(table)
        store.site.store.put(KEY.cold_start, b'{"schema_version": 3}')
        with raises(StateError, "_tidegate/p/s/cold_start.json", "schema_version 3"):
            store.open()


class TestIdlePolls:
    def test_an_idle_poll_commits_nothing_and_shows_in_the_mirror(self, table: Location) -> None:
        store = positions(table)
        commit_something(store)
        opened = store.open()
        now = store.at_poll(12).idle(opened, {"next": 1, "watermark": {"state": "Idle", "value": "x"}})
        mirror = json.loads(store.site.store.get(KEY.mirror))
        assert mirror["watermark"]["state"] == "Idle"
        assert mirror["tidegate"]["polls"] == 12
        assert mirror["tidegate"]["written_at"] == "2026-01-28T14:30:00+00:00"
        assert now.version == 1
        assert DeltaLog(store.site.store).versions() == [0]
        assert positions(table).open().state == {"next": 1}

    def test_before_the_first_commit_it_leaves_no_trace(self, table: Location) -> None:
        store = positions(table)
        store.idle(store.open(), {"watermark": {"state": "Initial"}})
        assert list(store.site.store.list()) == []
        assert store.open().first_run

    def test_a_later_open_keeps_what_the_mirror_shows(self, table: Location) -> None:
        store = positions(table)
        commit_something(store)
        store.at_poll(12).idle(store.open(), {"state": "Idle"})
        positions(table).open()
        assert json.loads(store.site.store.get(KEY.mirror))["tidegate"]["polls"] == 12


class TestBeingCurrent:
    def test_a_position_is_current_until_anyone_commits(self, table: Location) -> None:
        store = positions(table)
        assert not store.is_current(store.open())
        commit_something(store)
        opened = store.open()
        assert store.is_current(opened)
        commit_something(positions(table))
        assert not store.is_current(opened)


class TestTheLog:
    def test_an_entry_tells_what_a_commit_did_apart_from_its_files(self) -> None:
        lines = [
            {"commitInfo": {"operation": "WRITE", "userMetadata": "by hand"}},
            {"protocol": {"minReaderVersion": 1}},
            {"metaData": {"id": "t"}},
            {"add": {"path": "x"}},
            {"txn": {"appId": "a", "version": 5, "lastUpdated": 1}},
            {"somethingNew": {}},
        ]
        content = "".join(json.dumps(line) + "\n" for line in lines).encode() + b"\n"
        assert parse_entry(3, content) == LogEntry(3, "WRITE", {"a": 5}, (), "t", {"minReaderVersion": 1}, adds=1)

    @pytest.mark.parametrize("operation", ["RESTORE", "restore"])
    def test_a_restore_is_recognised(self, operation: str) -> None:
        assert LogEntry(1, operation).is_restore
        assert not LogEntry(1, "WRITE").is_restore
        assert not LogEntry(1).is_restore

    def test_the_tail_ends_at_the_first_gap_and_a_missing_log_is_empty(self, table: Location) -> None:
        store = open_store(table)
        log = DeltaLog(store)
        assert list(log.tail(0)) == []
        assert log.is_empty()
        for version in (0, 1, 3):
            store.put(entry_path(version), b"{}\n")
        assert [entry.version for entry in log.tail(0)] == [0, 1]
        assert [entry.version for entry in log.between(0, 9)] == [0, 1, 3]
        assert [entry.version for entry in log.backwards(1, 5)] == [1, 0]
        assert log.versions(1) == [1, 3]
        assert not log.is_empty()

    def test_a_long_stretch_is_read_in_order(self, table: Location) -> None:
        store = open_store(table)
        for version in range(40):
            store.put(entry_path(version), json.dumps({"txn": {"appId": "a", "version": version}}).encode())
        found = DeltaLog(store).between(5, 35)
        assert [entry.transactions["a"] for entry in found] == list(range(5, 35))

    def test_other_files_beside_the_entries_do_not_make_a_table(self, table: Location) -> None:
        store = open_store(table)
        store.put("_delta_log/_commits/x.json", b"")
        store.put("_delta_log/00000000000000000000.json.tmp", b"")
        assert DeltaLog(store).is_empty()
        store.put("_delta_log/00000000000000000007.checkpoint.parquet", b"")
        assert not DeltaLog(store).is_empty()

    def test_a_damaged_entry_is_a_storage_problem_and_not_the_end(self, table: Location) -> None:
        store = open_store(table)
        store.put(entry_path(0), b"{half")
        with raises(StorageUnavailable, "_delta_log/00000000000000000000.json", "log"):
            list(DeltaLog(store).tail(0))


def test_pauses_grow_with_jitter_and_the_deadline_comes() -> None:
    clock = [0.0]
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock[0] += seconds

    pace = Pace(10.0, monotonic=lambda: clock[0], sleep=sleep, random=lambda: 0.5)
    deadline = pace.start()
    while not deadline.passed:
        deadline.pause()
    assert slept == sorted(slept)
    assert max(slept) < 5.0
    assert 10.0 <= deadline.seconds < 15.0
