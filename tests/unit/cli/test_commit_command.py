"""``commit`` at the command line: what it shows, its exit codes, and asking before files are adopted."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tidegate.cli.invocation import Invocation
from tidegate.cli.main import cli
from tidegate.reports import staging
from unit.cli import standin
from unit.cli.standin import StandIn

FINE = replace(standin.COMMIT.tables[0], rejected=())


def invoke(*arguments: str, **settings: Any) -> Result:
    return CliRunner().invoke(cli, ["commit", "t.yml", *arguments], obj=Invocation(api=StandIn(**settings)))


def reported(monkeypatch: pytest.MonkeyPatch, *tables: staging.TableCommit, ok: bool) -> None:
    monkeypatch.setattr(standin, "COMMIT", staging.CommitReport(tables, ok, 0.5))


def test_the_page_shows_sources_and_what_was_rejected() -> None:
    result = invoke()
    assert result.exit_code == 1
    assert "events/asia" in result.stdout
    assert "rejected: _staging/pending/events/asia/00000000000000000007.unit.json: is gone" in result.stdout
    assert "2 files of foreign writers committed" in result.stdout


@pytest.mark.parametrize(
    ("tables", "ok", "code"),
    [
        ((FINE,), True, 0),
        ((replace(FINE, error="x", exit_code=4),), False, 4),
        ((replace(FINE, error="x", exit_code=4), replace(FINE, error="y", exit_code=5)), False, 1),
        ((replace(FINE, error="x", exit_code=4), standin.COMMIT.tables[0]), False, 1),
    ],
)
def test_the_exit_code_is_the_one_that_all_errors_share(
    monkeypatch: pytest.MonkeyPatch, tables: tuple[staging.TableCommit, ...], ok: bool, code: int
) -> None:
    reported(monkeypatch, *tables, ok=ok)
    assert invoke().exit_code == code


def test_adopting_shows_the_files_and_wants_to_be_confirmed() -> None:
    shown = invoke("--adopt", "imported", "--dry-run")
    assert shown.exit_code == 1
    assert "imported/one.parquet" in shown.stdout
    assert "column 'id' is missing" in shown.stdout
    assert "not added" in shown.stdout
    assert invoke("--adopt", "imported").exit_code == 2
    added = invoke("--adopt", "imported", "--yes", "--json")
    assert json.loads(added.stdout)["adopted"] == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["--once", "--continuous"],
        ["--dry-run"],
        ["--adopt", "imported", "--continuous", "--yes"],
        ["--adopt", "../imported", "--dry-run"],
        ["--adopt", "s3://lake/events/imported", "--dry-run"],
    ],
)
def test_options_that_exclude_each_other_are_refused(arguments: list[str]) -> None:
    assert invoke(*arguments).exit_code == 2
