"""The reference of the command line is complete and true: commands, options, codes, JSON keys, examples."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import pytest

from support.commands import child, walk
from tidegate import errors
from tidegate.cli.invocation import INTERRUPTED, UNEXPECTED
from tidegate.cli.main import cli
from tidegate.core.files.discovery import Reason, Skipped
from tidegate.core.files.plan import FileGroup, FileSlice, Plan
from tidegate.core.units.plan import WhyRun, WhySkipped
from tidegate.reports.chaos import ChaosReport, PlaceFailures
from tidegate.reports.checks import Adoption, Check
from tidegate.reports.commit import CommitReport, RejectedUnit, StagedSource, TableCommit
from tidegate.reports.ledger import FileRange, FilesReport, FileTotals, IngestedFile, LedgerGap
from tidegate.reports.messages import MessageDelivery, NotifyReport
from tidegate.reports.overview import DayCount, NextRun, ProjectReport, ReasonCount, SourceOverview
from tidegate.reports.plan import PartitionLine, PlannedUnits, SkippedWork, SourcePlan, UnitSourcePlan
from tidegate.reports.project import DemoReport, DemoStep, PropertiesImport, PropertyNote
from tidegate.reports.reconcile import (
    FoundDataFile,
    FoundDataFiles,
    FoundFiles,
    ReconcileReport,
    SourceComparison,
    TableComparison,
)
from tidegate.reports.replay import ReplayReport
from tidegate.reports.run import RunReport, SourceReport
from tidegate.reports.status import FailedFile, SourceStatus, WorkProgress
from tidegate.reports.table import (
    ColumnSeen,
    SchemaChange,
    SchemaColumn,
    SchemaDiff,
    SchemaInference,
    SchemaView,
    TableCareReport,
    TableRewrite,
)
from tidegate.reports.units import UnitLine, UnitList, UnitsMove, UnitView, WorkUnitLine
from tidegate.reports.watermark import FileSet, PositionView, WatermarkHistory, WatermarkMove, WatermarkView
from unit.cli.standin import invoke

REFERENCE = Path(__file__).parents[3] / "docs/reference"
INDEX = (REFERENCE / "cli.md").read_text()
EVERY = dict(walk(cli, "tidegate"))
LEAVES = {name: command for name, command in EVERY.items() if not isinstance(command, click.Group)}


def parts(text: str) -> dict[str, str]:
    """The sections of a text by their titles, which have two marks."""
    return {part.partition("\n")[0]: part for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]}


def commands(page: Path) -> dict[str, str]:
    """What a page says of each command: of one command, or of those of a group."""
    text = page.read_text()
    title = text.partition("\n")[0].removeprefix("# ")
    return {title: text} if title in LEAVES else parts(text)


SECTIONS = parts(INDEX)
for _page in (REFERENCE / "cli").glob("*.md"):
    SECTIONS |= commands(_page)
COMMON = {option for parameter in cli.common for option in parameter.opts}  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", LEAVES)
def test_every_command_has_its_section_and_its_line_in_the_table(name: str) -> None:
    page, *inside = name.split()[1:]
    anchor = f"#{name.replace(' ', '-')}" if inside else ""
    assert f"\n{name}" in SECTIONS[name].partition("```")[2]
    assert f"[`{name}`](cli/{page}.md{anchor})" in INDEX


@pytest.mark.parametrize("name", LEAVES)
def test_every_command_has_the_examples_of_its_help_and_its_exit_codes(name: str) -> None:
    examples = "\n".join(LEAVES[name].examples)  # type: ignore[attr-defined]
    assert re.search(rf"^##+ Examples\n\n```sh\n{re.escape(examples)}\n```$", SECTIONS[name], re.MULTILINE)
    assert re.search(r"^##+ Exit codes\n\n\| code \| when \|", SECTIONS[name], re.MULTILINE)


@pytest.mark.parametrize("name", LEAVES)
def test_every_option_and_argument_of_a_command_is_in_its_section(name: str) -> None:
    for parameter in LEAVES[name].params:
        if isinstance(parameter, click.Argument):
            assert parameter.make_metavar(click.Context(LEAVES[name])).strip("[]") in SECTIONS[name]
        elif not COMMON & set(parameter.opts):
            assert all(f"`{option}" in SECTIONS[name] for option in parameter.opts), parameter.opts


def test_every_common_option_is_documented() -> None:
    assert all(f"`{option}" in SECTIONS["Common options"] for option in COMMON)


@pytest.mark.parametrize("name", EVERY)
def test_every_command_takes_the_common_options(name: str) -> None:
    assert {option for parameter in EVERY[name].params for option in parameter.opts} >= COMMON


def test_the_reference_has_no_command_that_is_not_there() -> None:
    assert {title for title in SECTIONS if title.startswith("tidegate ")} == set(LEAVES)


@pytest.mark.parametrize("name", LEAVES)
def test_the_reference_has_no_option_that_is_not_there(name: str) -> None:
    rows = [row for row in SECTIONS[name].splitlines() if row.startswith("| `-")]
    documented = {option for row in rows for option in re.findall(r"`(-[-\w]+)", row.split("|")[1])}
    assert documented <= {option for parameter in LEAVES[name].params for option in parameter.opts}


def test_the_exit_codes_are_those_of_the_errors() -> None:
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", SECTIONS["Exit codes"], re.MULTILINE)}
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert documented == {0, UNEXPECTED, INTERRUPTED} | {kind.exit_code for kind in kinds}


NEEDED = {
    "tidegate ingest": ["landing", "lake"],
    "tidegate watermark set": ["--to", "d=1/a", "--yes"],
    "tidegate watermark reset": ["--all", "--yes"],
    "tidegate replay": ["--files", "*", "--yes"],
    "tidegate schema replace": ["--yes"],
    "tidegate config import": ["surveys.pull"],
    "tidegate units retry": ["--failed"],
    "tidegate units reset": ["--all"],
    "tidegate table widen": ["--column", "id", "--type", "int64", "--yes"],
}
"""Arguments that a command does not go without."""


def json_blocks(section: str) -> list[Any]:
    return [json.loads(block) for block in re.findall(r"```json\n(.*?)```", SECTIONS[section], re.DOTALL)]


def names(kind: Any) -> set[str]:
    return {each.name for each in dataclasses.fields(kind) if each.metadata.get("json", True)}


@pytest.mark.parametrize(
    ("section", "path", "kind"),
    [
        ("tidegate plan", ("plans", 0), SourcePlan),
        ("tidegate run", (), RunReport),
        ("tidegate run", ("sources", 0), SourceReport),
        ("tidegate run", ("sources", 0, "failed", 0), FailedFile),
        ("tidegate commit", (), CommitReport),
        ("tidegate commit", ("tables", 0), TableCommit),
        ("tidegate commit", ("tables", 0, "rejected", 0), RejectedUnit),
        ("tidegate commit", ("tables", 0, "sources", 0), StagedSource),
        ("tidegate status", ("sources", 0), SourceStatus),
        ("tidegate report", (), ProjectReport),
        ("tidegate report", ("sources", 0), SourceOverview),
        ("tidegate report", ("sources", 0, "days", 0), DayCount),
        ("tidegate report", ("sources", 0, "dead_letters", 0), ReasonCount),
        ("tidegate report", ("sources", 0, "next_run"), NextRun),
        ("tidegate notify", (), NotifyReport),
        ("tidegate notify", ("deliveries", 0), MessageDelivery),
        ("tidegate watermark show", ("watermarks", 0), WatermarkView),
        ("tidegate watermark history", ("sources", 0), WatermarkHistory),
        ("tidegate watermark history", ("sources", 0, "positions", 0), PositionView),
        ("tidegate units list", ("sources", 0), UnitList),
        ("tidegate units list", ("sources", 0, "units", 0), UnitLine),
        ("tidegate units show", (), UnitView),
        ("tidegate units show", ("work_units", 0), WorkUnitLine),
        ("tidegate units retry", (), UnitsMove),
        ("tidegate units reset", (), UnitsMove),
        ("tidegate files", (), FilesReport),
        ("tidegate files", ("files", 0), IngestedFile),
        ("tidegate files", ("files", 0, "ranges", 0), FileRange),
        ("tidegate files", ("totals",), FileTotals),
        ("tidegate files", ("gaps", 0), LedgerGap),
        ("tidegate watermark set", (), WatermarkMove),
        ("tidegate watermark set", ("read_again",), FileSet),
        ("tidegate watermark reset", (), WatermarkMove),
        ("tidegate replay", (), ReplayReport),
        ("tidegate replay", ("replayed",), FileSet),
        ("tidegate config import", (), PropertiesImport),
        ("tidegate config import", ("left", 0), PropertyNote),
        ("tidegate schema infer", (), SchemaInference),
        ("tidegate schema infer", ("columns", 0), ColumnSeen),
        ("tidegate schema show", (), SchemaView),
        ("tidegate schema show", ("columns", 0), SchemaColumn),
        ("tidegate schema diff", (), SchemaDiff),
        ("tidegate schema diff", ("changes", 0), SchemaChange),
        ("tidegate schema replace", (), TableRewrite),
        ("tidegate table widen", (), TableRewrite),
        ("tidegate table widen", ("changes", 0), SchemaChange),
        ("tidegate table optimize", (), TableCareReport),
        ("tidegate doctor", ("checks", 0), Check),
        ("tidegate adopt", ("adoptions", 0), Adoption),
        ("tidegate reconcile", (), ReconcileReport),
        ("tidegate reconcile", ("sources", 0), SourceComparison),
        ("tidegate reconcile", ("sources", 0, "late"), FoundFiles),
        ("tidegate reconcile", ("tables", 0), TableComparison),
        ("tidegate reconcile", ("tables", 0, "orphans"), FoundDataFiles),
        ("tidegate reconcile", ("tables", 0, "orphans", "files", 0), FoundDataFile),
        ("tidegate chaos", (), ChaosReport),
        ("tidegate chaos", ("places", 0), PlaceFailures),
        ("tidegate demo", (), DemoReport),
        ("tidegate demo", ("steps", 0), DemoStep),
    ],
)
def test_the_json_shown_has_the_keys_of_the_values(section: str, path: tuple[Any, ...], kind: Any) -> None:
    (value,) = json_blocks(section)
    for step in path:
        value = value[step]
    assert set(value) == names(kind)


def test_every_key_of_a_plan_is_documented() -> None:
    piece = FileSlice("d=1/a", 1)
    plan = Plan(
        "p",
        "s",
        1,
        datetime(2026, 1, 28, tzinfo=UTC),
        groups=(FileGroup(0, (piece,)),),
        skipped=(Skipped(next(iter(Reason)), 1, ("x",)),),
    ).to_json()
    (unit,) = plan["units"]  # type: ignore[misc]
    (skipped,) = plan["skipped"]  # type: ignore[misc]
    for key in (*plan, *unit, *unit["slices"][0], *skipped):
        assert f"`{key}`" in SECTIONS["tidegate plan"], key


def test_every_key_of_a_plan_of_work_units_is_documented() -> None:
    kinds = (
        UnitSourcePlan,
        PartitionLine,
        PlannedUnits,
        SkippedWork,
    )
    for key in set().union(*map(names, kinds)):
        assert key in ("pipeline", "source", "table_uri", "notes") or f"`{key}`" in SECTIONS["tidegate plan"], key
    for why in (*WhyRun, *WhySkipped):
        assert f"`{why}`" in SECTIONS["tidegate plan"]


def test_every_number_of_work_units_in_a_status_is_documented() -> None:
    assert all(f"`{key}`" in SECTIONS["tidegate status"] for key in names(WorkProgress))


@pytest.mark.parametrize("name", [name for name in LEAVES if json_blocks(name)])
def test_the_json_shown_has_the_outermost_keys_of_what_is_printed(name: str) -> None:
    arguments = [*name.split()[1:], "--json"]
    needed = ["t.yml"] if "CONFIG" in SECTIONS[name] and name != "tidegate doctor" else []
    needed += ["scratch"] if "chaos URI" in SECTIONS[name] else []
    needed += NEEDED.get(name, [])
    needed += ["--yes"] if "| `--yes` |" in SECTIONS[name] else []
    result = invoke(*arguments, *needed)
    assert set(json.loads(result.stdout)) == set(json_blocks(name)[0])


def test_the_error_shown_has_the_keys_of_an_error() -> None:
    result = invoke("plan", "--json")
    (shown,) = json_blocks("Exit codes")
    assert set(json.loads(result.stdout)["error"]) == set(shown["error"])


@pytest.mark.parametrize("name", EVERY)
def test_every_help_has_examples_that_can_be_parsed(name: str) -> None:
    examples = EVERY[name].examples  # type: ignore[attr-defined]
    assert examples
    for example in examples:
        words = shlex.split(re.split(r" (?:\||2?>>?) ?", example)[0])
        command: click.Command = cli
        while isinstance(command, click.Group):
            words = words[1:]
            command = child(command, words[0])
        command.make_context(example, words[1:], resilient_parsing=False)


@pytest.mark.parametrize("name", EVERY)
def test_every_help_fits_80_columns(name: str) -> None:
    result = invoke(*name.split()[1:], "--help")
    assert result.exit_code == 0
    assert "Examples:\n" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "..." not in result.stdout.partition("Commands:")[2].partition("Options:")[0]
