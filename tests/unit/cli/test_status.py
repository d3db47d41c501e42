"""``tidegate status`` and ``serve``: what they pass on, what they show, and how they end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tidegate.reports.page import Style
from tidegate.reports.status import FailedFile, Statuses, state_cell
from unit.cli import standin
from unit.cli.standin import StandIn, document, invoke, text

CONFIG = {"config": Path("t.yml")}


@pytest.mark.parametrize(
    ("arguments", "call"),
    [
        (("status", "t.yml", "--pipeline", "e"), ("status", {**CONFIG, "pipeline": "e"})),
        (("report", "t.yml", "-p", "e"), ("report", {**CONFIG, "pipeline": "e"})),
        (("serve", "t.yml"), ("serve", CONFIG)),
        (("notify", "t.yml", "--test"), ("notify", {**CONFIG, "test": True})),
        (
            ("serve", "t.yml", "--address", "127.0.0.1:0", "--every", "60"),
            ("serve", {**CONFIG, "address": "127.0.0.1:0", "every": 60.0}),
        ),
    ],
)
def test_arguments_reach_the_function(arguments: tuple[str, ...], call: tuple[str, dict[str, Any]]) -> None:
    api = StandIn()
    result = invoke(*arguments, api=api)
    assert api.calls == [call]
    assert (result.exit_code, "error" in result.stderr) == (0, False)


def test_status_is_json_when_asked() -> None:
    result = invoke("status", "t.yml", "--json")
    assert document(result) == {"sources": [each.to_json() for each in standin.STATUS]}
    assert document(result)["sources"][0]["updated"] == "2026-01-28T14:30:05Z"
    assert result.exit_code == 0


def test_status_that_could_not_be_read_ends_with_1() -> None:
    statuses = (standin.STATUS[0], replace(standin.STATUS[1], error="no answer"))
    assert invoke("status", "t.yml", api=StandIn(status=statuses)).exit_code == 1


def test_status_shows_state_lag_backlog_and_watermark() -> None:
    shown = text(Statuses(standin.STATUS).page())
    for part in (
        "Active",
        "1 min 15 s",
        "40 files, 4.0 MiB",
        standin.MARK,
        "48 open partitions, 1,200 sealed",
    ):
        assert part in shown


def test_a_backlog_whose_listing_was_cut_off_is_a_lower_bound() -> None:
    status = replace(standin.STATUS[0], backlog_complete=False)
    assert "≥ 40 files" in text(status.page())


def test_a_source_whose_status_cannot_be_read_claims_no_backlog_of_zero() -> None:
    status = replace(standin.STATUS[1], state="Unknown", error="no answer from s3://x")
    shown = text(status.page())
    assert "?" in shown.splitlines()[1].split()
    assert "error: events/europe: no answer from s3://x" in shown


def test_each_state_has_its_own_colour() -> None:
    styles = [state_cell(state).style for state in ("Active", "Idle", "Initial", "Unknown")]
    assert len(set(styles)) == 4
    assert state_cell("Unknown").style is Style.WARN


def test_many_failed_files_are_shortened_with_a_count() -> None:
    failed = tuple(FailedFile(f"{number}.ndjson", "bad", 1) for number in range(12))
    shown = text(replace(standin.STATUS[0], failed=failed).page())
    assert "4.ndjson: bad (1 attempt)" in shown
    assert "5.ndjson" not in shown
    assert "… and 7 more failed files; --json lists all" in shown


def test_no_source_is_told_in_words() -> None:
    assert "no source was selected" in text(Statuses(()).page())


def test_serve_tells_where_it_listens_unless_it_shall_be_quiet() -> None:
    assert invoke("serve", "t.yml").stderr == "serving http://127.0.0.1:9090/metrics, /health and /ready\n"
    assert invoke("serve", "t.yml", "-q").stderr == ""


def test_a_report_is_text_json_or_a_whole_html_file(tmp_path: Path) -> None:
    shown = invoke("report", "t.yml").stdout
    assert "1 of 2 sources needs attention" in shown
    assert document(invoke("report", "t.yml", "--json")) == standin.OVERVIEW.to_json()
    told = invoke("report", "t.yml", "--html", str(tmp_path / "r.html"))
    assert (told.exit_code, "r.html" in told.stdout) == (0, True)
    assert (tmp_path / "r.html").read_text() == standin.OVERVIEW.to_html()
    assert [each.name for each in tmp_path.iterdir()] == ["r.html"]
    assert invoke("report", "t.yml", "--html", "-").stdout == standin.OVERVIEW.to_html()


def test_a_report_that_cannot_be_written_says_so_and_one_form_is_enough(tmp_path: Path) -> None:
    missing = invoke("report", "t.yml", "--html", str(tmp_path / "no" / "r.html"))
    assert (missing.exit_code, "cannot be written" in missing.stderr) == (1, True)
    assert invoke("report", "t.yml", "--html", "-", "--json").exit_code == 2
