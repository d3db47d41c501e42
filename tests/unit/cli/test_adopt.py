"""``tidegate adopt``: what it passes on, and what it shows of the older program."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tidegate.reports.checks import Adoptions
from unit.cli import standin
from unit.cli.standin import StandIn, document, invoke, text

EVENTS = {"config": Path("t.yml"), "pipeline": "e"}


@pytest.mark.parametrize(
    ("arguments", "call"),
    [
        (("adopt", "t.yml", "-p", "e", "--yes"), ("adopt", EVENTS)),
        (
            ("adopt", "t.yml", "-p", "e", "-s", "a", "--dry-run", "--quiet-for", "5", "--fresh", "--read-skipped"),
            (
                "adopt",
                {**EVENTS, "source": "a", "dry_run": True, "quiet_for": 5.0, "fresh": True, "read_skipped": True},
            ),
        ),
    ],
)
def test_arguments_reach_the_function(arguments: tuple[str, ...], call: tuple[str, dict[str, Any]]) -> None:
    api = StandIn()
    result = invoke(*arguments, api=api)
    assert api.calls == [call]
    assert (result.exit_code, "error" in result.stderr) == (0, False)


def test_nothing_is_begun_where_nobody_can_be_asked() -> None:
    api = StandIn()
    for more in ((), ("--json",)):
        result = invoke("adopt", "t.yml", "-p", "e", *more, api=api)
        assert (result.exit_code, "pass --yes, or --dry-run" in result.stderr, api.calls) == (2, True, [])


def test_a_source_that_could_not_be_taken_over_ends_with_1() -> None:
    refused = (replace(standin.ADOPTIONS[0], adopted=False, error="it still moves"),)
    result = invoke("adopt", "t.yml", "-p", "e", "--yes", "--json", api=StandIn(adopt=refused))
    assert (result.exit_code, document(result)["adoptions"][0]["error"]) == (1, "it still moves")


def test_an_adoption_shows_what_was_found_and_what_became_of_it() -> None:
    (report,) = standin.ADOPTIONS
    shown = text(Adoptions(standin.ADOPTIONS).page())
    for part in (
        "_blizzard/events_asia_checkpoint.json",
        "a watermark per partition",
        "2026-01-28 14:30:05Z",
        "40 files",
        "4,000 records read",
        "… and 8 more",
        "left out: 3 files at or below its watermark; `--read-skipped` reads them",
        "taken over in table version 18; no row changed",
    ):
        assert part in shown
    refused = replace(report, adopted=False, version=0, error="it still moves")
    assert "not taken over: it still moves" in text(Adoptions((refused,)).page())
    assert "nothing written yet" in text(Adoptions((replace(report, adopted=False, version=0),)).page())
    assert "nothing to do" in text(Adoptions((replace(report, adopted=False, trace=""), refused)).page())
