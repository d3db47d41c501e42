"""``serve`` shows what ``status`` knows, and does not look more often than it is told to."""

from __future__ import annotations

from dataclasses import replace

from tidegate.observe.pages import RecordedPages, standing
from tidegate.reports.run import FailedFile, SourceStatus, WorkProgress
from unit.observe.test_metrics import Clock
from unit.observe.test_server import fetch

STATUS = SourceStatus(
    pipeline="events",
    source="asia",
    table_uri="file:///lake/events",
    state="Active",
    watermark="a",
    version=3,
    table_version=9,
    updated=None,
    lag_seconds=75.0,
    backlog_files=4,
    backlog_bytes=400,
    backlog_complete=True,
    in_progress=1,
    state_files=2,
)


def test_the_gauges_are_those_of_the_status() -> None:
    found = {each.metric.name: each.values for each in RecordedPages(lambda: (STATUS,), 15).families()}
    name = ("events", "asia")
    assert found["watermark_lag_seconds"] == {name: 75.0}
    assert (found["backlog_files"], found["backlog_bytes"]) == ({name: 4}, {name: 400})
    assert (found["source_state_files"], found["delta_table_version"]) == ({name: 2}, {name: 9})
    assert found["watermark_state"][(*name, "Active")] == 1
    assert not [each for each in found if each.endswith("_total")]


def test_a_status_that_failed_shows_no_numbers() -> None:
    failed = replace(STATUS, error="cannot read it")
    found = {each.metric.name: each.values for each in RecordedPages(lambda: (failed,), 15).families()}
    assert found["backlog_files"] == {}
    assert found["watermark_state"]["events", "asia", "Unknown"] == 1


def test_it_looks_again_only_after_a_while() -> None:
    looks: list[int] = []
    clock = Clock()
    seen = RecordedPages(lambda: (looks.append(1), (STATUS,))[1], 15, clock)
    seen.families(), seen.sources()
    clock.now += 14
    seen.sources()
    assert len(looks) == 1
    clock.now += 1
    seen.sources()
    assert len(looks) == 2


def test_a_source_with_failed_files_or_an_unreadable_state_is_not_healthy() -> None:
    statuses = [STATUS]
    with standing(lambda: tuple(statuses), "127.0.0.1:0", 0, legacy_names=False) as address:
        assert fetch(address, "/health")[0] == 200
        assert b'tidegate_source_healthy{pipeline="events",source="asia"} 1.0' in fetch(address, "/metrics")[2]
        statuses[:] = [replace(STATUS, failed=(FailedFile("a", "bad", 1),))]
        assert fetch(address, "/health")[0] == 503
        assert b"1 file cannot be read" in fetch(address, "/health")[2]
        statuses[:] = [replace(STATUS, error="the state is gone")]
        code, _, body = fetch(address, "/health")
        assert (code, b"the state is gone" in body) == (503, True)
        assert b'tidegate_source_healthy{pipeline="events",source="asia"} 0.0' in fetch(address, "/metrics")[2]


def test_failed_work_units_are_counted_and_make_a_source_unwell() -> None:
    status = replace(STATUS, work_units=WorkProgress(done=40, open=3, failed=2))
    seen = RecordedPages(lambda: (status,), 15)
    found = {each.metric.name: each.values for each in seen.families()}
    name = ("events", "asia")
    assert (found["work_units_open"], found["work_units_failed"]) == ({name: 3}, {name: 2})
    (health,) = seen.sources()
    assert (health.healthy, health.reason) == (False, "2 work units failed")
