"""``tidegate commit``: what it shows, its exit codes, and asking before files are adopted."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import Result

from tidegate.observe.events import UnitRejected
from tidegate.observe.logs import sentence
from tidegate.reports.commit import CommitReport, TableCommit
from tidegate.reports.render import to_lines
from unit.cli import standin
from unit.cli.standin import StandIn, invoke

FINE = replace(standin.COMMIT.tables[0], rejected=())


def commit(*arguments: str, api: StandIn | None = None) -> Result:
    return invoke("commit", "t.yml", *arguments, api=api)


def test_the_page_shows_sources_and_what_was_rejected() -> None:
    result = commit()
    assert result.exit_code == 1
    assert "events/asia" in result.stdout
    assert "rejected: _staging/pending/events/asia/00000000000000000007.unit.json: is gone" in result.stdout
    assert "2 files of other writers committed" in result.stdout


def test_adopting_shows_the_files_and_wants_to_be_confirmed() -> None:
    shown = commit("--adopt", "imported", "--dry-run")
    assert shown.exit_code == 1
    assert "imported/one.parquet" in shown.stdout
    assert "column 'id' is missing" in shown.stdout
    assert "not added" in shown.stdout
    assert commit("--adopt", "imported").exit_code == 2
    added = commit("--adopt", "imported", "--yes", "--json")
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
    assert commit(*arguments).exit_code == 2


@pytest.mark.parametrize(
    ("tables", "ok", "code"),
    [
        ((FINE,), True, 0),
        ((replace(FINE, error="x", exit_code=4),), False, 4),
        ((replace(FINE, error="x", exit_code=4), replace(FINE, error="y", exit_code=5)), False, 1),
        ((replace(FINE, error="x", exit_code=4), standin.COMMIT.tables[0]), False, 1),
    ],
)
def test_the_exit_code_is_the_one_that_all_errors_share(tables: tuple[TableCommit, ...], ok: bool, code: int) -> None:
    report = CommitReport(tables, ok, 0.5)
    assert commit(api=StandIn(commit=report)).exit_code == code


def test_a_commit_that_was_cut_short_ends_with_130() -> None:
    report = CommitReport((FINE,), True, 0.5)
    assert commit(api=StandIn(commit=report, stops=True)).exit_code == 130
    assert commit("--continuous", api=StandIn(commit=report, stops=True)).exit_code == 0


def test_a_prefix_without_files_to_adopt_is_told_in_one_line() -> None:
    (told,) = to_lines(replace(standin.FILE_ADOPTION, files=()).page())
    assert (
        told.strip()
        == "nothing to add: no new Parquet file below 'imported' of file:///lake/events; 3 files there in its log"
    )


def test_a_rejected_unit_is_told_in_words() -> None:
    event = UnitRejected("events", "asia", "_staging/pending/x.meta.json", "there is no Parquet file x.parquet")
    assert sentence(event) == "rejected _staging/pending/x.meta.json: there is no Parquet file x.parquet"
