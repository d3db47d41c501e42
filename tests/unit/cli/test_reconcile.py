"""``tidegate reconcile``: what it passes on, what it shows, and how it ends."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import Result

from tidegate.reports.reconcile import FoundDataFiles, FoundFiles, ReconcileReport, SourceComparison, TableComparison
from unit.cli import standin
from unit.cli.standin import StandIn, invoke

CONFIG = {"config": Path("t.yml")}
NOTHING = ReconcileReport((SourceComparison("events", "asia"),), (TableComparison("file:///lake/events"),), True, 1.0)


def reconcile(api: StandIn, *arguments: str) -> Result:
    return invoke("reconcile", "t.yml", *arguments, api=api)


def report(source: SourceComparison, table: TableComparison) -> ReconcileReport:
    return ReconcileReport((source,), (table,), False, 1.0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("24h", timedelta(hours=24)), ("7d", timedelta(days=7)), ("90m", timedelta(minutes=90)), ("0s", timedelta(0))],
)
def test_an_age_is_a_number_with_its_unit(text: str, expected: timedelta) -> None:
    api = StandIn(reconcile=NOTHING)
    assert reconcile(api, "--clean", "--older-than", text, "--force").exit_code == 0
    age = {} if expected == timedelta(hours=24) else {"older_than": expected}
    assert api.calls == [("reconcile", {**CONFIG, "clean": True, "force": True, **age})]


@pytest.mark.parametrize("text", ["", "24", "h", "-1h", "1.5h", "24 hours", "1w", "9999999d", "²h"])
def test_anything_else_is_no_age(text: str) -> None:
    api = StandIn()
    result = reconcile(api, "--older-than", text)
    assert result.exit_code == 2
    assert "is not a duration" in result.stderr
    assert api.calls == []


def test_by_default_it_only_looks_and_orphans_are_a_day_old() -> None:
    api = StandIn(reconcile=NOTHING)
    assert reconcile(api, "-p", "events", "-s", "asia").exit_code == 0
    assert api.calls == [("reconcile", {**CONFIG, "pipeline": "events", "source": "asia"})]


@pytest.mark.parametrize("arguments", [("--ingest", "--clean"), ("--force",), ("--ingest", "--force")])
def test_what_does_not_go_together_is_refused(arguments: tuple[str, ...]) -> None:
    api = StandIn()
    assert reconcile(api, *arguments).exit_code == 2
    assert api.calls == []


def test_what_was_found_is_named_with_what_to_do_and_long_lists_are_cut() -> None:
    result = reconcile(StandIn())
    assert result.exit_code == 1
    assert "date=2026-01-02/19.ndjson" in result.stdout
    assert "date=2026-01-02/20.ndjson" not in result.stdout
    assert "… and 5 more" in result.stdout
    assert "--ingest" in result.stdout
    assert "--clean" in result.stdout
    assert "date=2026-01-28/a.parquet" in result.stdout
    assert "something needs attention" in result.stdout


def test_all_names_are_in_the_json() -> None:
    result = reconcile(StandIn(), "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout) == standin.RECONCILED.to_json()
    assert len(json.loads(result.stdout)["sources"][0]["late"]["names"]) == 25


def test_what_was_repaired_is_told() -> None:
    source = SourceComparison("events", "asia", ingested_files=3, ingested_rows=30, commits=1)
    table = TableComparison(
        "file:///lake/events",
        removed=FoundDataFiles(1, 2048, standin.ORPHAN.modified, (standin.ORPHAN,)),
        fenced=("events/asia",),
    )
    result = reconcile(StandIn(reconcile=ReconcileReport((source,), (table,), True, 1.0)))
    assert result.exit_code == 0
    assert "3 late files read, 30 rows in 1 commit" in result.stdout
    assert "removed: 1 file, 2.0 KiB" in result.stdout
    assert "fenced by an empty commit: events/asia" in result.stdout
    assert "no problems found" in result.stdout


def test_the_exit_code_is_that_of_the_errors_if_they_share_one() -> None:
    fine, table = SourceComparison("p", "s"), TableComparison("t")
    failed = replace(fine, error="no", exit_code=4)
    assert reconcile(StandIn(reconcile=report(failed, table))).exit_code == 4
    assert reconcile(StandIn(reconcile=report(failed, replace(table, error="no", exit_code=5)))).exit_code == 1
    assert reconcile(StandIn(reconcile=report(replace(fine, changed=FoundFiles(1)), table))).exit_code == 1
    assert reconcile(StandIn(reconcile=report(failed, replace(table, orphans=FoundDataFiles(1))))).exit_code == 1


def test_a_comparison_that_was_cut_short_ends_with_130() -> None:
    cut = report(SourceComparison("p", "s"), TableComparison("t"))
    assert reconcile(StandIn(reconcile=cut, stops=True)).exit_code == 130
