"""``tidegate units``, and how plans, statuses and watermarks show work units."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from support.unit_positions import UnitLake, day, monthly, project_of
from tidegate.commands.status import plan_of, status_of
from tidegate.commands.units import view_unit
from tidegate.commands.watermark import watermark_of
from tidegate.reports.plan import ROWS_SHOWN
from tidegate.reports.render import to_lines
from tidegate.reports.report import View
from tidegate.specs.project import ProjectSpec
from unit.cli import standin
from unit.cli.standin import StandIn, invoke

MARCH = datetime(2026, 3, 2, tzinfo=UTC)
START = ("t.yml", "-p", "events")
EVENTS = {"config": Path("t.yml"), "pipeline": "events"}


@pytest.mark.parametrize(
    ("arguments", "call"),
    [
        (("units", "list", *START), ("units", EVENTS)),
        (
            ("units", "list", *START, "--unit", "a", "--unit", "b", "--failed", "--limit", "0", "-s", "asia"),
            ("units", {**EVENTS, "source": "asia", "names": ("a", "b"), "failed": True, "limit": 0}),
        ),
        (("units", "show", *START, "--unit", "a"), ("unit", {**EVENTS, "name": "a"})),
        (("units", "show", *START, "--at", "2026-03-02"), ("unit", {**EVENTS, "name": "", "now": MARCH})),
        (("units", "list", *START, "--at", "2026-03-02"), ("units", {**EVENTS, "now": MARCH})),
        (("units", "retry", *START, "--failed", "--yes"), ("retry_units", EVENTS)),
        (
            ("units", "reset", *START, "--unit", "a", "--partition", "2020-01-01", "--dry-run"),
            ("reset_units", {**EVENTS, "names": ("a",), "partition": "2020-01-01"}),
        ),
    ],
)
def test_arguments_reach_the_function(arguments: tuple[str, ...], call: tuple[str, dict[str, Any]]) -> None:
    api = StandIn()
    result = invoke(*arguments, api=api)
    assert api.calls == [call]
    assert (result.exit_code, "error" in result.stderr) == (0, False)


@pytest.mark.parametrize("arguments", [(), ("--unit", "a", "--all"), ("--partition", "2020", "--all")])
def test_a_reset_wants_to_know_of_what(arguments: tuple[str, ...]) -> None:
    result = invoke("units", "reset", "t.yml", "-p", "events", "--yes", *arguments)
    assert result.exit_code == 2
    assert "--unit UNIT" in result.output


def test_nothing_is_forgotten_where_nobody_can_be_asked() -> None:
    result = invoke("units", "reset", "t.yml", "-p", "events", "--all")
    assert result.exit_code == 2
    assert "--yes" in result.output


def test_what_was_done_is_shown() -> None:
    shown = invoke("units", "reset", "t.yml", "-p", "events", "--all", "--yes").output
    assert "events/asia: units reset" in shown
    assert "committed as table version" in shown
    assert json.loads(invoke("units", "retry", "t.yml", "-p", "events", "--failed", "--yes", "--json").output)[
        "applied"
    ]


def test_units_are_listed_with_their_reasons() -> None:
    shown = "\n".join(to_lines(replace(standin.UNITS, notes=("look here",)).page()))
    assert "the server answered 500" in shown
    assert "from 2026-03-04 on" in shown
    assert "… and 1 more unit; --limit 0 shows all" in shown
    assert "note: look here" in shown


def lake_of(folder: Path, *units: str) -> UnitLake:
    lake = UnitLake(project_of(folder, monthly(*units)))
    lake.run(day("2020-02-21"), failing=("b",), retiring=("c",))
    return lake


def test_the_plan_is_a_grid_of_partitions_and_units(tmp_path: Path) -> None:
    plan = plan_of(lake_of(tmp_path, "a", "b", "c").place, day("2020-03-02"))
    shown = list(to_lines(plan.page()))
    grid = [line.split() for line in shown if line.startswith("  2020") and " to " in line]
    assert [row[-3:] for row in grid] == [[".", "F", "x"], ["N", "F", "x"], ["F", "F", "x"]]
    text = "\n".join(shown)
    assert "would read   5 work units of 9 (3 partitions × 3 units)" in text
    assert "cut-off      2020-02-18" in text
    assert "2020-02-01  b      2020-02-01  2020-03-01  first, failed 1×  none" in text
    assert "3 work units in two segments, split where the next read begins" in text
    assert "retired: the server does not know it" in text


def test_many_units_are_counted_by_partition(tmp_path: Path) -> None:
    units = tuple(f"u{number}" for number in range(200))
    plan = plan_of(lake_of(tmp_path, "b", *units).place, day("2020-03-02"))
    shown = "\n".join(to_lines(plan.page()))
    lines = [line.split() for line in shown.splitlines() if " to " in line and line.startswith("  2020")]
    assert lines == [
        ["2020-01-01", "to", "2020-02-01", "1", "-", "200"],
        ["2020-02-01", "to", "2020-03-01", "1", "200", "-"],
        ["2020-03-01", "to", "2020-03-02", "…", "201", "-", "-"],
    ]


def test_wide_names_do_not_make_a_grid(tmp_path: Path) -> None:
    plan = plan_of(lake_of(tmp_path, "a" * 40, "b" * 40).place, day("2020-03-02"))
    assert not any("aaaa  " in line for line in to_lines(plan.page(View(width=80))) if line.startswith("  partition "))
    assert any("aaaa  " in line for line in to_lines(plan.page(View(width=120))) if line.startswith("  partition "))


def test_partitions_that_look_alike_are_one_row(tmp_path: Path) -> None:
    lake = UnitLake(project_of(tmp_path, monthly("a")))
    lake.run(day("2022-01-10"))
    shown = "\n".join(to_lines(plan_of(lake.place, day("2022-01-12")).page()))
    assert "2020-01-01 to 2022-01-01 (24)" in shown


def test_a_unit_with_many_partitions_shows_the_newest_and_says_how_many_it_leaves_out(tmp_path: Path) -> None:
    lake = UnitLake(project_of(tmp_path, monthly("a")))
    lake.run(day("2023-01-10"))
    shown = list(to_lines(view_unit(lake.place, day("2023-01-12"), "a").page()))
    assert len([line for line in shown if line.startswith("  202")]) == ROWS_SHOWN
    assert any("… 13 older partitions not shown; --json has all" in line for line in shown)


def test_status_and_watermark_show_work_units(tmp_path: Path) -> None:
    place = lake_of(tmp_path, "a", "b", "c").place
    status = "\n".join(to_lines(status_of(place, day("2020-03-02")).page(View(config="t.yml"))))
    assert "1 done, 5 open, 3 retired" in status
    assert "2 work units (tidegate units list t.yml -p answers --failed)" in status
    watermark = "\n".join(to_lines(watermark_of(place).page()))
    assert "a     2020-01-01 to 2020-02-21" in watermark
    assert "b from 2020-02-01T00:00:00Z  failed: the server answered 500 (1 attempt)" in watermark
    assert "c             the server answered 404" in watermark


def test_a_unit_is_shown_with_its_failures(tmp_path: Path) -> None:
    shown = "\n".join(to_lines(view_unit(lake_of(tmp_path, "a", "b").place, day("2020-03-02"), "b").page()))
    assert "failed: from 2020-02-01: the server answered 500" in shown
    assert "variables  surveyId=b" in shown


def test_a_source_without_units_is_named_for_all(tmp_path: Path) -> None:
    project: ProjectSpec = project_of(tmp_path, monthly())
    plan = plan_of(UnitLake(project).place, day("2020-02-21"))
    assert any(line.endswith("(all)") for line in to_lines(plan.page()))
