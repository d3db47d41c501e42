"""``serve`` shows what ``status`` knows, no more often than told to; its server survives broken pages and clients."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from support.errors import raises
from support.metrics import NAME, Clock, fetch
from tidegate.core.health import Health, HealthLevel, Outcome
from tidegate.core.run_history import PastRun
from tidegate.errors import ConfigError, EnvironmentProblem
from tidegate.observe import pages
from tidegate.observe.pages import MOST_CONNECTIONS, PageResponse, RecordedPages, respond, serve_pages, serve_status
from tidegate.reports.status import FailedFile, SourceStatus, WorkProgress

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
    health=Health(HealthLevel.HEALTHY),
)


def test_the_gauges_are_those_of_the_status() -> None:
    found = {each.metric.name: each.values for each in RecordedPages(lambda: (STATUS,), 15).families()}
    name = ("events", "asia")
    assert found["watermark_lag_seconds"] == {name: 75.0}
    assert (found["backlog_files"], found["backlog_bytes"]) == ({name: 4}, {name: 400})
    assert (found["source_state_files"], found["delta_table_version"]) == ({name: 2}, {name: 9})
    assert found["watermark_state"][(*name, "Active")] == 1
    assert not [each for each, values in found.items() if each.endswith("_total") and values]


def test_moments_are_absent_until_they_are_known() -> None:
    moments = ("last_run", "last_success", "last_data", "last_commit")

    def shown(status: SourceStatus) -> dict[str, float]:
        found = {each.metric.name: each.values for each in RecordedPages(lambda: (status,), 15).families()}
        values = {each: found[f"{each}_timestamp_seconds"].get(NAME) for each in moments}
        values["expect_every"] = found["expect_every_seconds"].get(NAME)
        return {each: value for each, value in values.items() if value is not None}

    assert shown(STATUS) == {}
    now = datetime(2026, 1, 28, 14, 30, tzinfo=UTC)
    ended = PastRun("1", now, now + timedelta(minutes=1), Outcome.FAILED)
    known = replace(
        STATUS, last_run=ended, last_success_at=now, last_data_at=now, last_commit_at=now, expect_every_seconds=7200.0
    )
    at = now.timestamp()
    everything = dict.fromkeys(moments, at) | {"last_run": at + 60, "expect_every": 7200.0}
    assert shown(known) == shown(replace(known, error="cannot read it")) == everything


def test_counters_are_those_that_were_counted_and_zero_besides() -> None:
    counted = {NAME: {"records_processed_total": 12.0, "runs_total.failed": 2.0, "of_a_later_release": 1.0}}
    seen = RecordedPages(lambda: (STATUS,), 15, counts=lambda: counted)
    found = {each.metric.name: each.values for each in seen.families()}
    assert found["records_processed_total"] == {NAME: 12}
    assert found["runs_total"][(*NAME, "failed")] == 2
    assert found["runs_total"][(*NAME, "succeeded")] == found["late_files_total"][NAME] == 0


def test_health_is_one_of_five() -> None:
    failing = replace(STATUS, health=Health(HealthLevel.FAILING, "no"))
    with serve_status(lambda: (failing,), "127.0.0.1:0", 0, {}) as address:
        body = fetch(address, "/metrics")[2].decode()
    found = dict(re.findall(r'^tidegate_source_health\{health="(\w+)",.*\} (\S+)$', body, re.M))
    assert found == {"healthy": "0.0", "waiting": "0.0", "degraded": "0.0", "unknown": "0.0", "failing": "1.0"}


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
    with serve_status(lambda: tuple(statuses), "127.0.0.1:0", 0, {}) as address:
        assert fetch(address, "/health")[0] == 200
        assert b'tidegate_source_healthy{pipeline="events",source="asia"} 1.0' in fetch(address, "/metrics")[2]
        unread = Health(HealthLevel.DEGRADED, "1 file cannot be read")
        statuses[:] = [replace(STATUS, failed=(FailedFile("a", "bad", 1),), health=unread)]
        assert fetch(address, "/health")[0] == 503
        assert b"1 file cannot be read" in fetch(address, "/health")[2]
        statuses[:] = [
            replace(STATUS, error="the state is gone", health=Health(HealthLevel.UNKNOWN, "the state is gone"))
        ]
        code, _, body = fetch(address, "/health")
        assert (code, b"the state is gone" in body) == (503, True)
        assert b'tidegate_source_healthy{pipeline="events",source="asia"} 0.0' in fetch(address, "/metrics")[2]


def test_failed_work_units_are_counted_and_make_a_source_unwell() -> None:
    failed = Health(HealthLevel.DEGRADED, "2 work units failed")
    status = replace(STATUS, work_units=WorkProgress(done=40, open=3, failed=2), health=failed)
    seen = RecordedPages(lambda: (status,), 15)
    found = {each.metric.name: each.values for each in seen.families()}
    name = ("events", "asia")
    assert (found["work_units_open"], found["work_units_failed"]) == ({name: 3}, {name: 2})
    (health,) = seen.sources()
    assert (health.healthy, health.reason) == (False, "2 work units failed")


def broken() -> PageResponse:
    raise RuntimeError("password=hunter2")


PAGES = {"/a": lambda: respond("yes\n"), "/b": lambda: respond("no\n", 503), "/broken": broken}


def test_a_page_is_served_with_its_status_and_type() -> None:
    with serve_pages("127.0.0.1:0", PAGES) as address:
        assert fetch(address, "/a") == (200, "text/plain; charset=utf-8", b"yes\n")
        assert fetch(address, "/a?x=1")[0] == 200
        assert fetch(address, "/b")[0] == 503
        assert fetch(address, "/a", "HEAD") == (200, "text/plain; charset=utf-8", b"")


def test_an_unknown_page_says_what_there_is() -> None:
    with serve_pages("127.0.0.1:0", PAGES) as address:
        assert fetch(address, "/nothing") == (404, "text/plain; charset=utf-8", b"available: /a, /b, /broken\n")


def test_a_page_that_fails_tells_the_kind_of_error_only() -> None:
    with serve_pages("127.0.0.1:0", PAGES) as address:
        assert fetch(address, "/broken") == (500, "text/plain; charset=utf-8", b"RuntimeError\n")


def test_the_port_is_free_again_afterwards() -> None:
    with serve_pages("127.0.0.1:0", PAGES) as address:
        pass
    with serve_pages(address, PAGES) as again:
        assert again == address


def test_a_port_that_is_taken_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with (
            raises(EnvironmentProblem, address, "Address already in use", "metrics.address"),
            serve_pages(address, PAGES),
        ):
            pass


@pytest.mark.parametrize("address", ["127.0.0.1:many", "127.0.0.1:70000"])
def test_an_address_that_is_none_is_told(address: str) -> None:
    with raises(ConfigError, f"{address!r}", "host:port"), serve_pages(address, PAGES):
        pass


@pytest.mark.parametrize("said", [b"", b"GET /a HTTP/1.1\r\nHost: x\r\n", b"GE"], ids=["nothing", "headers", "a bit"])
def test_clients_that_say_nothing_keep_no_other_from_an_answer(said: bytes) -> None:
    before = threading.active_count()
    with serve_pages("127.0.0.1:0", PAGES) as address, contextlib.ExitStack() as opened:
        host, _, port = address.partition(":")
        for _ in range(4 * MOST_CONNECTIONS):
            idle = opened.enter_context(socket.create_connection((host, int(port)), timeout=10))
            idle.sendall(said)
        assert fetch(address, "/a")[0] == 200
        assert threading.active_count() - before <= 3 * MOST_CONNECTIONS  # some are just ending
        assert fetch(address, "/b")[0] == 503


def test_a_client_that_is_too_slow_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages._Server, "patience_secs", 0.2)
    with serve_pages("127.0.0.1:0", PAGES) as address:
        host, _, port = address.partition(":")
        with socket.create_connection((host, int(port)), timeout=10) as slow:
            received = b"?"
            with contextlib.suppress(OSError):
                while received:  # a byte now and then is no sign of life
                    slow.sendall(b"x")
                    slow.settimeout(0.05)
                    with contextlib.suppress(TimeoutError):
                        received = slow.recv(1)
            assert received in (b"", b"?")
        assert fetch(address, "/a")[0] == 200


def test_headers_without_end_are_refused() -> None:
    with serve_pages("127.0.0.1:0", PAGES) as address:
        host, _, port = address.partition(":")
        with socket.create_connection((host, int(port)), timeout=10) as client:
            with contextlib.suppress(OSError):
                client.sendall(b"GET /a HTTP/1.1\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"x" * 1000) for n in range(40)))
            answer = b""
            with contextlib.suppress(OSError):
                while piece := client.recv(4096):
                    answer += piece
        assert b"yes" not in answer
        assert fetch(address, "/a")[0] == 200
