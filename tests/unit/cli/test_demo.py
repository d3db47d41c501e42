"""``tidegate demo``: its steps as they happen, then what to try."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tidegate.reports.page import Table
from tidegate.reports.project import DemoStep
from tidegate.reports.render import to_lines
from unit.cli.standin import StandIn, document, invoke


@pytest.mark.parametrize(
    ("arguments", "call"),
    [
        (("demo",), ("demo", {})),
        (("demo", "here"), ("demo", {"folder": Path("here")})),
    ],
)
def test_arguments_reach_the_function(arguments: tuple[str, ...], call: tuple[str, dict[str, Any]]) -> None:
    api = StandIn()
    result = invoke(*arguments, api=api)
    assert api.calls == [call]
    assert (result.exit_code, "error" in result.stderr) == (0, False)


def test_the_demo_shows_its_steps_numbered_and_then_what_to_try() -> None:
    lines = invoke("demo").stdout.splitlines()
    assert [line for line in lines if line and not line.startswith(" ")] == [
        "1. Data",
        "2. The table",
        "Done",
        "Try next",
    ]


def test_the_report_is_json_when_asked() -> None:
    keys = {"folder", "config", "steps", "ok", "seconds", "next_commands"}
    assert set(document(invoke("demo", "--json"))) == keys


def test_a_demo_step_puts_numbers_to_the_right() -> None:
    step = DemoStep("Look", "two\nlines", "tidegate x", ("event", "rows"), (("click", "1,200"), ("view", "-3.5")))
    page = step.page()
    assert [line for line in to_lines(page) if line][:4] == ["Look", "  two", "  lines", "  $ tidegate x"]
    (table,) = (block for block in page if isinstance(block, Table))
    assert [column.right for column in table.columns] == [False, True]
