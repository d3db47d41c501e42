"""``tidegate table``: what is passed on, and one sentence about what was done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from unit.cli.standin import StandIn, document, invoke

START = ("t.yml", "-p", "events")
EVENTS = {"config": Path("t.yml"), "pipeline": "events"}


@pytest.mark.parametrize(
    ("arguments", "call"),
    [
        (
            ("table", "optimize", *START, "--target-mb", "7", "--dry-run"),
            ("optimize_table", {**EVENTS, "target_mb": 7, "dry_run": True}),
        ),
        (
            ("table", "vacuum", *START, "--retention-hours", "0", "--force"),
            ("vacuum_table", {**EVENTS, "retention_hours": 0, "force": True}),
        ),
        (("table", "checkpoint", *START), ("checkpoint_table", EVENTS)),
        (
            ("table", "widen", *START, "--column", "id", "--type", "int64", "--yes"),
            ("widen_table", {**EVENTS, "column": "id", "to": "int64"}),
        ),
    ],
)
def test_arguments_reach_the_function(arguments: tuple[str, ...], call: tuple[str, dict[str, Any]]) -> None:
    api = StandIn()
    result = invoke(*arguments, api=api)
    assert api.calls == [call]
    assert (result.exit_code, "error" in result.stderr) == (0, False)


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["optimize"], "40 small files (64 MiB) became 1 file (32 MiB) in"),
        (["optimize", "--dry-run"], "40 small files (64 MiB) would become 1 file\n"),
        (["vacuum"], "removed 40 files (64 MiB) that left the table over 168 h ago"),
        (["vacuum", "--dry-run"], "would remove 40 files (64 MiB) that left"),
        (["checkpoint"], "checkpoint written in"),
        (["checkpoint", "--dry-run"], "would write a checkpoint"),
    ],
    ids=" ".join,
)
def test_care_is_told_in_a_sentence(arguments: list[str], shown: str) -> None:
    result = invoke("table", *arguments, *START)
    assert result.exit_code == 0
    assert shown in result.output
    assert "file:///lake/events (version 18)" in result.output


def test_the_result_is_printed_as_json() -> None:
    said = document(invoke("table", "vacuum", *START, "--json"))
    assert (said["operation"], said["files_before"], said["retention_hours"]) == ("vacuum", 40, 168)
