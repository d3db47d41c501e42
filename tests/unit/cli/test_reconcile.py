"""``tidegate reconcile`` on the command line: what it passes on, what it shows, and how it ends."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from click.testing import CliRunner, Result

from tidegate.cli.invocation import Invocation
from tidegate.cli.main import cli
from tidegate.reports.correction import FoundDataFiles, FoundFiles, ReconcileReport, SourceComparison, TableComparison
from unit.cli.standin import ORPHAN, RECONCILED, StandIn

NOTHING = ReconcileReport((SourceComparison("events", "asia"),), (TableComparison("file:///lake/events"),), True, 1.0)


def invoke(api: StandIn, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["reconcile", "t.yml", *arguments], obj=Invocation(api=api))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("24h", timedelta(hours=24)), ("7d", timedelta(days=7)), ("90m", timedelta(minutes=90)), ("0s", timedelta(0))],
)
def test_an_age_is_a_number_with_its_unit(text: str, expected: timedelta) -> None:
    api = StandIn(reconciled=NOTHING)
    assert invoke(api, "--clean", "--older-than", text, "--force").exit_code == 0
    assert api.calls[-1][-2:] == (expected, True)


@pytest.mark.parametrize("text", ["", "24", "h", "-1h", "1.5h", "24 hours", "1w", "9999999d", "²h"])
def test_anything_else_is_no_age(text: str) -> None:
    api = StandIn()
    result = invoke(api, "--older-than", text)
    assert result.exit_code == 2
    assert "is not a duration" in result.stderr
    assert api.calls == []


def test_by_default_it_only_looks_and_orphans_are_a_day_old() -> None:
    api = StandIn(reconciled=NOTHING)
    assert invoke(api, "-p", "events", "-s", "asia").exit_code == 0
    assert api.calls[-1][2:] == ("events", "asia", False, False, timedelta(hours=24), False)


@pytest.mark.parametrize("arguments", [("--ingest", "--clean"), ("--force",), ("--ingest", "--force")])
def test_what_does_not_go_together_is_refused(arguments: tuple[str, ...]) -> None:
    api = StandIn()
    assert invoke(api, *arguments).exit_code == 2
    assert api.calls == []


def test_what_was_found_is_named_with_what_to_do_and_long_lists_are_cut() -> None:
    result = invoke(StandIn())
    assert result.exit_code == 1
    assert "date=2026-01-02/19.ndjson" in result.stdout
    assert "date=2026-01-02/20.ndjson" not in result.stdout
    assert "… and 5 more" in result.stdout
    assert "--ingest" in result.stdout
    assert "--clean" in result.stdout
    assert "date=2026-01-28/a.parquet" in result.stdout
    assert "something needs you" in result.stdout


def test_all_names_are_in_the_json() -> None:
    result = invoke(StandIn(), "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout) == RECONCILED.to_json()
    assert len(json.loads(result.stdout)["sources"][0]["late"]["names"]) == 25


def test_what_was_repaired_is_told() -> None:
    source = SourceComparison("events", "asia", ingested_files=3, ingested_rows=30, commits=1)
    table = TableComparison(
        "file:///lake/events", removed=FoundDataFiles(1, 2048, ORPHAN.modified, (ORPHAN,)), fenced=("events/asia",)
    )
    result = invoke(StandIn(reconciled=ReconcileReport((source,), (table,), True, 1.0)))
    assert result.exit_code == 0
    assert "3 late files read, 30 rows in 1 commit" in result.stdout
    assert "removed: 1 file, 2.0 KiB" in result.stdout
    assert "fenced by an empty commit: events/asia" in result.stdout
    assert "all is well" in result.stdout


def report(source: SourceComparison, table: TableComparison) -> ReconcileReport:
    return ReconcileReport((source,), (table,), False, 1.0)


def test_the_exit_code_is_that_of_the_errors_if_they_share_one() -> None:
    fine, table = SourceComparison("p", "s"), TableComparison("t")
    failed = replace(fine, error="no", exit_code=4)
    assert invoke(StandIn(reconciled=report(failed, table))).exit_code == 4
    assert invoke(StandIn(reconciled=report(failed, replace(table, error="no", exit_code=5)))).exit_code == 1
    assert invoke(StandIn(reconciled=report(replace(fine, changed=FoundFiles(1)), table))).exit_code == 1
    assert invoke(StandIn(reconciled=report(failed, replace(table, orphans=FoundDataFiles(1))))).exit_code == 1


def test_a_comparison_that_was_cut_short_ends_with_130() -> None:
    cut = report(SourceComparison("p", "s"), TableComparison("t"))
    assert invoke(StandIn(reconciled=cut, stops=True)).exit_code == 130
