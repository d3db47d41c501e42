"""The seam of trackers: a fifth kind of source, defined here alone, runs and answers every command."""

from __future__ import annotations

import json
from collections import Counter as Counts
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable

import tidegate
from support.errors import check_names, raises
from tidegate.cli.main import cli
from tidegate.errors import StateError, TidegateError
from tidegate.protocol.change import AppendFiles, Change, Identity, NextState, SourceKey, State, Written
from tidegate.protocol.delta import query
from tidegate.protocol.position import Position
from tidegate.reports.checks import Check
from tidegate.reports.page import Block, Heading, facts
from tidegate.reports.plan import PlanReport
from tidegate.reports.report import View
from tidegate.reports.run import RunReport
from tidegate.reports.watermark import FileSet, StateTable, WatermarkMove
from tidegate.runs import bind
from tidegate.runs.checks import CheckSettings
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop
from tidegate.runs.pass_ import Pass
from tidegate.runs.tracker import Backlog, Summary, Tracker, WatermarkEdit
from tidegate.specs.locations import Location
from tidegate.specs.project import PipelineSpec, ProjectSpec
from tidegate.specs.table import SchemaSpec, SinkSpec
from tidegate.tasks.row_task import row_task


@dataclass(frozen=True)
class CounterSource:
    """A file with one number: its rows are all numbers up to it."""

    name: str
    path: Path
    poll_interval_secs: int = 60
    max_pass_secs: int | None = None
    expect_every: timedelta | None = None
    tables_read: tuple[str, ...] = ()
    takes_turns: bool = False
    read: str = "the number"
    request: None = None

    @property
    def uri(self) -> str:
        return self.path.as_uri()


@dataclass(frozen=True)
class CounterPlan(PlanReport):
    """The numbers that a run would read: ``after < n <= up_to``."""

    pipeline: str
    source: str
    position: int
    after: int
    up_to: int
    notes: tuple[str, ...] = ()
    engine: str = "spark"

    def describe(self, view: View) -> Iterator[Block]:
        yield Heading(f"{self.pipeline}/{self.source}")
        yield facts(("would count", f"from {self.after + 1} to {self.up_to}"))


@dataclass(frozen=True)
class CounterTracker(Tracker):
    """Remembers the last number that was read."""

    key: SourceKey
    source: CounterSource

    kind: ClassVar[str] = "counter"
    reads: ClassVar[str] = "counts"
    instead: ClassVar[Mapping[str, str]] = {
        "replay": "numbers are not replayed",
        "reconcile": "numbers are not compared",
    }

    @property
    def identity(self) -> Identity:
        return Identity(self.kind, self.source.uri)

    def decode(self, recorded: State | None) -> int:
        if recorded is None:
            return 0
        if not isinstance(recorded.get("last"), int):
            raise StateError("it has no last number", "")
        return int(recorded["last"])

    def fresh(self) -> int:
        return 0

    def encode(self, state: int) -> dict[str, object]:
        return {"schema_version": 1, "last": state}

    def walk(self, run: Pass) -> CounterWalk:
        return CounterWalk(run)

    def summary(self, state: int) -> Summary:
        return Summary(
            self.kind,
            watermark=str(state),
            value=str(state),
            brief=f"up to {state}",
            remembers="the last number",
            watermark_label="counted to",
            facts=(("counted to", str(state)),),
            tables=lambda: (StateTable("digit", "times", dict(Counts(str(state))), "digit"),),
        )

    def plan(self, source: Any, now: datetime, *, accept_new_partitions: bool = False) -> CounterPlan:
        opened = source.open(read_only=True)
        return CounterPlan(*source.names, opened.version, source.state_of(opened), self.newest())

    def backlog(self, source: Any, state: int, version: int, now: datetime) -> Backlog:
        return Backlog(complete=True, behind=self.newest() > state)

    def edit(self, source: Any, edit: WatermarkEdit, now: datetime, confirm: Any) -> WatermarkMove:
        opened = source.open()
        before, after = source.state_of(opened), 0 if edit.reset else int(edit.to or "")
        state = self.encode(after)
        done = source.positions.commit(opened, Change(NextState.of(state), action="watermark set"))
        return WatermarkMove(
            *source.names,
            action="watermark set",
            partition=None,
            before=str(before),
            after=str(after),
            read_again=FileSet(),
            never_read=FileSet(),
            notes=(),
            version=done.version,
            table_version=done.table_version,
            applied=True,
            tracking=self.kind,
            lists_files=False,
        )

    def source_checks(self, source: Any, by: CheckSettings) -> list[Check]:
        return [Check(f"source {self.key}", "ok", f"it counts to {self.newest()}")]

    def table_checks(self, source: Any, name: str, position: Position, state: int) -> Iterator[Check]:
        return iter(())

    def newest(self) -> int:
        return int(self.source.path.read_text())


class CounterWalk:
    """Reads the numbers that are new, and commits them with the last."""

    def __init__(self, run: Pass) -> None:
        self.run = run

    def go(self, position: Position) -> Position:
        source = self.run.source
        newest = source.tracker.newest()
        if newest == self.run.state:
            return position if position.state is None else self.run.idle(position, position.state)
        rows = pa.table({"n": list(range(self.run.state + 1, newest + 1))})
        task = row_task(
            source.pipeline,
            None,
            self.run.engine.columns(rows),
            position.schema(),
        )
        written = self.run.engine.write_rows(rows, task)
        state = source.tracker.encode(newest)
        change = Change(NextState.of(state), AppendFiles((Written(task.written, (), written.data_files),)))
        return self.run.commit(position, change, newest)


@dataclass
class Counter:
    """A project with one counter."""

    project: ProjectSpec
    path: Path

    def count_to(self, number: int) -> RunReport:
        self.path.write_text(str(number))
        return Loop(self.project, InProcessEngine(), 1).once(self.project.pipelines)

    def numbers(self) -> list[int]:
        return sorted(row["n"] for row in query(self.project.pipelines[0].sink.table, "select n from t"))


@pytest.fixture
def counter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Counter:
    monkeypatch.setitem(bind.TRACKERS, CounterSource, lambda binding: CounterTracker(binding.key, binding.source))
    path = tmp_path / "number"
    path.write_text("0")
    sink = SinkSpec(Location((tmp_path / "lake" / "numbers").as_uri()))
    pipeline = PipelineSpec("numbers", (CounterSource("counter", path),), SchemaSpec(infer=True), sink)
    return Counter(ProjectSpec("code", (pipeline,)), path)


def test_it_runs_exactly_once(counter: Counter) -> None:
    (first,) = counter.count_to(3).sources
    assert (first.state, first.rows, first.commits, first.watermark, first.error) == ("Active", 3, 1, "3", None)
    (idle,) = counter.count_to(3).sources
    assert (idle.state, idle.commits) == ("Idle", 0)
    assert counter.count_to(5).ok
    assert counter.numbers() == [1, 2, 3, 4, 5]


def test_it_is_planned_shown_and_examined(counter: Counter) -> None:
    counter.count_to(2)
    counter.path.write_text("7")
    (plan,) = tidegate.plan(counter.project)
    assert isinstance(plan, CounterPlan)
    assert (plan.position, plan.after, plan.up_to) == (1, 2, 7)
    (status,) = tidegate.status(counter.project)
    assert (status.state, status.watermark, status.version, status.error) == ("Active", "2", 1, None)
    (shown,) = tidegate.show_watermarks(counter.project, "numbers")
    assert (shown.value, shown.version) == ("2", 1)
    assert shown.tracking == status.tracking == "counter"
    (history,) = tidegate.watermark_history(counter.project, "numbers")
    assert [each.watermark for each in history.positions] == ["2"]
    assert [each.position for each in history.positions] == [1]
    checks = [each for each in tidegate.doctor(counter.project) if "numbers" in each.name]
    assert [(each.verdict, each.detail.partition(";")[0]) for each in checks[:1]] == [("ok", "it counts to 7")]
    assert {each.verdict for each in checks} <= {"ok", "warn"}


def shell(counter: Counter, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    """What a command prints for the project, whatever file it names."""
    monkeypatch.setattr("tidegate.commands.project.load_file", lambda *given, **options: counter.project)
    command = 2 if arguments[0] == "watermark" else 1
    given = [*arguments[:command], "pipelines.yml", *arguments[command:]]
    result = CliRunner().invoke(cli, given, prog_name="tidegate")
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_command_line_prints_it_in_its_own_words(counter: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    counter.count_to(2)
    counter.path.write_text("7")
    assert "would count  from 3 to 7" in shell(counter, monkeypatch, "plan")
    (plan,) = json.loads(shell(counter, monkeypatch, "plan", "--json"))["plans"]
    assert (plan["after"], plan["up_to"], plan["position"]) == (2, 7, 1)
    status = shell(counter, monkeypatch, "status")
    assert "counted to" in status
    assert "the last number" in status
    (source,) = json.loads(shell(counter, monkeypatch, "status", "--json"))["sources"]
    assert (source["tracking"], source["watermark"]) == ("counter", "2")
    assert "remembers" not in source
    shown = shell(counter, monkeypatch, "watermark", "show", "-p", "numbers")
    assert "counted to" in shown
    assert "digit" in shown
    (view,) = json.loads(shell(counter, monkeypatch, "watermark", "show", "-p", "numbers", "--json"))["watermarks"]
    assert (view["tracking"], view["value"]) == ("counter", "2")


def test_its_watermark_is_moved_by_hand(counter: Counter) -> None:
    counter.count_to(2)
    assert tidegate.set_watermark(counter.project, "numbers", to="5").applied
    counter.count_to(6)
    assert counter.numbers() == [1, 2, 6]
    assert tidegate.reset_watermark(counter.project, "numbers").after == "0"


def test_it_recovers_from_a_state_that_cannot_be_read(counter: Counter) -> None:
    counter.count_to(2)
    counter.count_to(4)
    (check,) = tidegate.recover(counter.project, "numbers")
    assert check.verdict == "ok"
    table = Path(counter.project.pipelines[0].sink.table.uri.removeprefix("file://"))
    (newest,) = (table / "_tidegate" / "numbers" / "counter").glob(f"{2:020d}-*.json")
    newest.unlink()
    DeltaTable(str(table)).create_checkpoint()
    DeltaTable(str(table)).alter.set_table_description("a foreign commit")
    for version in (0, 1):
        (table / "_delta_log" / f"{version:020d}.json").unlink()
    stopped = tidegate.recover(counter.project, "numbers")[0]
    assert stopped.verdict == "fail"
    check_names(stopped.remedy, "--accept previous --accept doubles", "position 1")
    assert tidegate.recover(counter.project, "numbers", accept=("mirror",))[0].verdict == "ok"
    assert counter.count_to(5).ok
    assert counter.numbers() == [1, 2, 3, 4, 5]


def test_it_is_reconciled_and_fenced_with_its_table(counter: Counter) -> None:
    counter.count_to(2)
    report = tidegate.reconcile(counter.project)
    assert (report.sources[0].compared, report.sources[0].notes) == (False, ("numbers are not compared",))
    assert report.tables[0].data_files == 1
    assert tidegate.reconcile(counter.project, clean=True).ok


def test_what_makes_no_sense_for_it_is_refused_in_its_words(counter: Counter) -> None:
    with raises(TidegateError, "'numbers'", "files"):
        tidegate.files(counter.project, "numbers")
    with raises(TidegateError, "'numbers'", "numbers are not replayed"):
        tidegate.replay(counter.project, "numbers", files="*")
