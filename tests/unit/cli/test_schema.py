"""``tidegate schema``, and ``table widen``: what they show, what they ask, and how they end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tidegate.reports.render import to_lines
from tidegate.reports.table import SchemaDiff
from unit.cli.standin import StandIn, document, invoke

AT = ("t.yml", "-p", "events")
WIDEN = ("table", "widen", *AT, "--column", "id", "--type", "int64")
REPLACE = ("schema", "replace", *AT)
UPDATE = ("schema", "infer", *AT, "--update")


def test_infer_shows_what_was_seen_and_columns_to_paste() -> None:
    api = StandIn()
    result = invoke("schema", "infer", *AT, "--sample", "50", api=api)
    assert result.exit_code == 0
    assert api.calls == [("infer_schema", {"config": Path("t.yml"), "pipeline": "events", "sample": 50})]
    for word in ("code", "none", '7 integer (1), 1 string ("A")', "problem", "schema:"):
        assert word in result.stdout
    assert document(invoke("schema", "infer", *AT, "--json"))["columns"][0]["absent"] == 1


def test_show_puts_columns_side_by_side() -> None:
    assert "remembered" in invoke("schema", "show", *AT).stdout
    assert document(invoke("schema", "show", *AT, "--json"))["columns"][0]["declared"] is None


def test_diff_ends_like_the_run_that_it_foresees() -> None:
    result = invoke("schema", "diff", *AT)
    assert result.exit_code == 5
    assert "the next run would stop" in result.stdout
    assert document(invoke("schema", "diff", *AT, "--json"))["ok"] is False


@pytest.mark.parametrize("arguments", [WIDEN, REPLACE, UPDATE], ids=["widen", "replace", "update"])
def test_nothing_is_changed_without_an_answer(arguments: tuple[str, ...]) -> None:
    api = StandIn()
    result = invoke(*arguments, api=api)
    assert result.exit_code == 2
    assert "pass --yes, or --dry-run" in result.stderr
    assert api.calls == []
    assert "nothing was changed" in invoke(*arguments, "--dry-run").stdout
    assert document(invoke(*arguments, "--dry-run", "--json"))["applied"] is False
    assert document(invoke(*arguments, "--yes", "--json"))["applied"] is True


def test_what_came_of_it_is_told() -> None:
    assert "committed: 1,000 rows rewritten" in invoke(*WIDEN, "--yes").stdout
    assert "committed: 1,000 rows removed" in invoke(*REPLACE, "--yes").stdout
    assert "1 field added" in invoke(*UPDATE, "--yes").stdout


def test_where_columns_cannot_be_compared_nothing_is_called_equal() -> None:
    diff = SchemaDiff("events", "file:///lake/events", "merge", (), ok=True, notes=("only a run knows",))
    shown = [line.strip() for line in to_lines(diff.page())]
    assert "note: only a run knows" in shown
    assert shown[-1] == "nothing to compare"
    assert list(to_lines(replace(diff, notes=()).page()))[-1].strip() == "nothing differs"
