"""``tidegate run``: what it passes on, what it shows, and how it ends."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tidegate.reports.report import View
from tidegate.reports.run import RunReport
from unit.cli import standin
from unit.cli.standin import StandIn, document, invoke, text

CONFIG = {"config": Path("t.yml")}


@pytest.mark.parametrize(
    ("arguments", "call"),
    [
        (("run", "t.yml"), ("run", CONFIG)),
        (("run", "t.yml", "--once"), ("run", CONFIG)),
        (("run", "t.yml", "-p", "e", "--continuous"), ("run", {**CONFIG, "pipeline": "e", "mode": "continuous"})),
        (("run", "t.yml", "--at", "2026-03-02"), ("run", {**CONFIG, "now": datetime(2026, 3, 2, tzinfo=UTC)})),
        (("run", "t.yml", "--accept-new-partitions"), ("run", {**CONFIG, "accept_new_partitions": True})),
    ],
)
def test_arguments_reach_the_function(arguments: tuple[str, ...], call: tuple[str, dict[str, Any]]) -> None:
    api = StandIn()
    result = invoke(*arguments, api=api)
    assert api.calls == [call]
    assert (result.exit_code, "error" in result.stderr) == (0, False)


def test_the_report_is_json_when_asked() -> None:
    assert document(invoke("run", "t.yml", "--json")) == standin.REPORT.to_json()


def test_skipped_counts_are_objects_in_json() -> None:
    source = document(invoke("run", "t.yml", "--json"))["sources"][0]
    assert source["skipped"] == [{"reason": "duplicate", "count": 2}]


ASIA, EUROPE = standin.REPORT.sources
DENIED = replace(ASIA, error="denied", exit_code=4)
LOST = replace(EUROPE, error="lost", exit_code=6)
HALF_READ = replace(EUROPE, failed=(standin.FAILED,))


@pytest.mark.parametrize(
    ("sources", "stopped", "code"),
    [
        ((DENIED, EUROPE), False, 4),
        ((DENIED, LOST), False, 1),
        ((ASIA, HALF_READ), False, 1),
        ((DENIED, HALF_READ), False, 1),
        ((replace(ASIA, error="no code"),), False, 1),
        ((ASIA, EUROPE), True, 130),
        ((DENIED, EUROPE), True, 4),
        ((ASIA, EUROPE), False, 1),
    ],
)
def test_a_run_that_is_not_ok_never_ends_with_0(sources: Any, stopped: bool, code: int) -> None:
    api = StandIn(run=RunReport(sources, ok=False, seconds=1), stops=stopped)
    assert invoke("run", "t.yml", api=api).exit_code == code


def test_a_continuous_run_that_was_stopped_and_lost_nothing_ends_with_0() -> None:
    assert invoke("run", "t.yml", "--continuous", api=StandIn(stops=True)).exit_code == 0


def test_a_run_shows_numbers_and_what_was_skipped() -> None:
    shown = text(standin.REPORT.page())
    assert standin.MARK not in shown
    for part in (
        "480",
        "1.0 GiB",
        "1,200,000",
        "2 skipped: duplicate",
        "1,200,000 rows in 10 s",
    ):
        assert part in shown


def test_what_is_normal_is_told_to_who_asks_for_it() -> None:
    source = replace(ASIA, skipped=(("already read", 7), ("failed too often, goes to the dead letters", 1)))
    report = RunReport((source,), ok=True, seconds=1)
    assert "already read" not in text(report.page())
    assert "1 skipped: failed too often" in text(report.page())
    assert "7 skipped: already read" in text(report.page(View(verbose=True)))
    assert f"watermark of events/asia  {standin.MARK}" in text(report.page(View(verbose=True)))


def test_a_run_that_failed_says_so_and_names_the_error() -> None:
    source = replace(standin.REPORT.sources[0], error="access denied", failed=(standin.FAILED,))
    shown = text(RunReport((source,), ok=False, seconds=1).page())
    assert "not everything succeeded" in shown
    assert "error: events/asia: access denied" in shown
    assert f"failed: events/asia: {standin.FAILED.path}: line 3: not JSON (2 attempts)" in shown


def test_what_stops_several_sources_is_said_once() -> None:
    first = replace(standin.REPORT.sources[0], error="Spark did not start")
    report = RunReport((first, replace(first, source="europe"), replace(first, source="us", error="denied")), False, 1)
    lines = text(report.page()).splitlines()
    assert [line.strip() for line in lines if "error:" in line] == [
        "error: events/asia, events/europe: Spark did not start",
        "error: events/us: denied",
    ]


def test_no_source_is_told_in_words() -> None:
    assert "no source was selected" in text(RunReport((), ok=True, seconds=0).page())
