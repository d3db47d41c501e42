"""A report on a broken project, shown to somebody who has never seen Tidegate: what, since when, what now."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from deltalake import DeltaTable

import tidegate
from support.html import Reading
from support.lake import FIELDS, write_config
from tidegate.cli.main import cli
from tidegate.commands import report as command
from tidegate.commands.report import report_of
from tidegate.core.health import HealthLevel
from tidegate.protocol.position import Pace
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop

NOW = datetime.now(UTC)
NAMES = ("events", "orders", "clicks", "sensors")


def arrive(root: Path, name: str, file: str, text: str | None = None) -> None:
    path = root / "data" / name / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('{"id": 1}\n{"id": 2}\n' if text is None else text)


def run(config: Path, at: datetime, *names: str) -> None:
    project = tidegate.load(config)
    chosen = [each for each in project.pipelines if each.name in (names or NAMES)]
    Loop(project, InProcessEngine(), 2, clock=lambda: at, pace=Pace(now=lambda: at)).once(chosen)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """One source is well, one has a restored table, one an unreadable file, one is late, and one has not run."""
    settings: dict[str, dict[str, Any]] = {name: {} for name in (*NAMES, "new")}
    settings["sensors"] = {"expect_every": "PT1H"}
    pipelines = {
        name: {
            "source": {"source_uri": f"data/{name}/", "use_watermark": True, **more},
            "schema": {"fields": FIELDS},
            "sink": {"table_uri": f"lake/{name}"},
        }
        for name, more in settings.items()
    }
    (tmp_path / "data" / "new").mkdir(parents=True)
    config = write_config(tmp_path / "shop.yml", {"pipelines": pipelines})
    for number in range(2):
        for name in NAMES:
            bad = "not json\n" if name == "events" else ""
            arrive(tmp_path, name, f"d=1/{number}.ndjson", f'{bad}{{"id": {number}}}\n')
        run(config, NOW - timedelta(days=2 - number))
    DeltaTable(str(tmp_path / "lake" / "orders")).restore(0)
    arrive(tmp_path, "clicks", "d=1/9.ndjson.gz", "no gzip")
    arrive(tmp_path, "events", "d=1/9.ndjson")
    for hours in (3, 2):
        run(config, NOW - timedelta(hours=hours), "events", "orders", "clicks")
    return config


def made(config: Path) -> Any:
    return report_of(tidegate.load(config), None, NOW)


def test_a_stranger_reads_what_is_broken_since_when_what_is_lost_and_what_to_run(config: Path) -> None:
    html = made(config).to_html()
    text = " ".join(" ".join(Reading(html).texts).split())
    broken = text.partition("What is broken")[2].partition("Sources health")[0]
    since = (NOW - timedelta(hours=3)).strftime("%Y-%m-%d %H:%M:%SZ, 3 h ago")
    for part in (
        "✖ orders/default is failing",
        "the table was restored",
        f"since {since}",
        "took out of the table",
        f"tidegate recover {config} -p orders --accept restore",
        "▲ clicks/default is degraded",
        "d=1/9.ndjson.gz",
        f"tidegate run {config} -p clicks",
        "✖ sensors/default is failing",
        "late: no new data",
    ):
        assert part in broken, part
    assert "events/default" not in broken
    assert "<script" not in html
    assert "http" not in html.replace("http-equiv", "")


def test_the_report_has_days_dead_letters_and_the_next_run_of_each_source(config: Path, tmp_path: Path) -> None:
    arrive(tmp_path, "events", "d=2/1.ndjson")
    found = {each.pipeline: each for each in made(config).sources}
    events = found["events"]
    assert [day.rows for day in events.days][-3:] == [1, 1, 2]
    assert [day.files for day in events.days][-3:] == [1, 1, 1]
    assert [day.failing for day in found["orders"].days][-2:] == [False, True]
    ((letter),) = events.dead_letters
    assert (letter.letters, "not JSON" in letter.reason) == (2, True)
    assert (events.next_run.files, events.next_run.error) == (1, None)
    assert "restored" in found["orders"].next_run.error
    assert found["new"].health.level is HealthLevel.WAITING
    assert made(config).health is HealthLevel.FAILING


def test_a_table_whose_next_run_would_refuse_is_failing_before_any_run_did(config: Path, tmp_path: Path) -> None:
    DeltaTable(str(tmp_path / "lake" / "events")).restore(0)
    (events, *_) = made(config).sources
    assert events.health.level is HealthLevel.FAILING
    assert events.health.since is None
    assert events.health.command == f"tidegate recover {config} -p events --accept restore"


def test_a_run_that_would_stop_for_its_configuration_is_told_too(config: Path, tmp_path: Path) -> None:
    arrive(tmp_path, "events", "d=2/1.ndjson")
    body = json.loads(config.read_text())
    body["pipelines"]["events"]["sink"]["partition_by"] = {"prefix_template": "date=%Y-%m-%d", "column": "ts"}
    (events, *_) = made(write_config(config, body)).sources
    assert "partition" in events.next_run.error
    assert (events.health.level, events.health.reason) == (HealthLevel.FAILING, events.next_run.error)


def test_a_source_that_cannot_be_read_hides_no_other(config: Path, tmp_path: Path) -> None:
    for each in (tmp_path / "lake" / "events" / "_delta_log").iterdir():
        each.write_text("{")
    found = {each.pipeline: each for each in made(config).sources}
    assert not found["events"].health.level.is_fine
    assert found["orders"].days[-1].failing
    assert "events/default" in made(config).to_html()


def test_a_pipeline_that_cannot_be_bound_hides_no_other(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bind = command.bind_each

    def refuse(project: Any, name: str | None) -> Any:
        if name == "orders":
            raise tidegate.TidegateError("orders/default: no such provider")
        return bind(project, name)

    monkeypatch.setattr(command, "bind_each", refuse)
    found = {each.pipeline: each for each in made(config).sources}
    assert (found["orders"].health.level, found["orders"].health.reason) == (HealthLevel.UNKNOWN, "no such provider")
    assert found["events"].health.level is HealthLevel.HEALTHY


def test_long_histories_are_cut_and_the_report_says_how_far_they_reach(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "MOST_COMMITS", 1)
    (events, *_) = made(config).sources
    assert [day.rows for day in events.days][-3:] == [None, None, 2]
    assert events.days_from == NOW - timedelta(hours=3)


def test_the_command_writes_a_file_or_json_and_changes_nothing(config: Path, tmp_path: Path) -> None:
    def files() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in (tmp_path / "lake").rglob("*") if path.is_file()}

    before = files()
    target = tmp_path / "report.html"
    assert CliRunner().invoke(cli, ["report", str(config), "--html", str(target)]).exit_code == 0
    assert "What is broken" in target.read_text()
    told = CliRunner().invoke(cli, ["report", str(config), "-p", "orders", "--json"])
    assert (told.exit_code, json.loads(told.stdout)["health"]) == (0, "failing")
    assert files() == before


def test_a_secret_in_an_error_is_not_in_the_report(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tidegate.load(config)
    events, *rest = project.pipelines
    options = tidegate.Options({"aws_secret_access_key": "wJalrXUtnFEMI-K7MDENG"})
    table = replace(events.sink.table, options=options)
    project = replace(project, pipelines=(replace(events, sink=replace(events.sink, table=table)), *rest))

    def refuse(*_: Any) -> Any:
        raise tidegate.TidegateError("the key wJalrXUtnFEMI-K7MDENG was refused")

    monkeypatch.setattr(command, "plan_of", refuse)
    assert "wJalrXUtnFEMI" not in report_of(project, None, NOW).to_html()
