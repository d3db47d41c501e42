"""No event that leaves a command has a secret of the project, whoever emits it."""

from __future__ import annotations

import ast
import inspect
import textwrap
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidegate
from support.canary import CANARY
from support.lake import Lake
from tidegate.config import show
from tidegate.errors import EnvironmentProblem
from tidegate.observe.events import Emit, Event, SessionStarting, WaveStarted
from tidegate.observe.logs import JsonLog, TextLog

SECRET = "events"
"""Also the name of the pipeline: an event that passes by the mask shows it."""

SPARK = {
    "remote": f"sc://127.0.0.1:1/;use_ssl=true;token={CANARY};x-tenant=header-{CANARY}",
    "config": {"spark.hadoop.fs.s3a.secret.key": SECRET, "spark.jars.repositories": "https://me:pw-of-repo@host/maven"},
}
SHOWN = (CANARY, "pw-of-repo")


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A table with one file in it, and two to read; Spark's server refuses, and says all it was given."""

    def refuse(*given: object) -> None:
        raise RuntimeError(f"no answer from {SPARK['remote']}, https://me:pw-of-repo@host/maven")

    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("tidegate.spark.session._start_with", refuse)
    # Names are shown even if a secret is called alike; here one that shows betrays an event that passed by the mask.
    monkeypatch.setattr("tidegate.specs.project.ProjectSpec.shown_names", lambda project: iter(()))
    lake = Lake(tmp_path / "lake", sink_settings={"metadata_columns": ["_source_file"]}, settings={"spark": SPARK})
    lake.arrive("date=2026-01-28/1.ndjson")
    assert lake.run().ok
    lake.arrive("date=2026-01-28/2.ndjson")
    lake.arrive("date=2026-01-28/0.ndjson")
    return lake


def run(lake: Lake, emit: Emit) -> object:
    return tidegate.run(lake.config, emit=emit)


def commit(lake: Lake, emit: Emit) -> object:
    return tidegate.commit(lake.config, emit=emit)


def reconcile(lake: Lake, emit: Emit) -> object:
    return tidegate.reconcile(lake.config, ingest=True, emit=emit)


def replay(lake: Lake, emit: Emit) -> object:
    return tidegate.replay(lake.config, "events", files="**", emit=emit)


@pytest.mark.parametrize("command", [run, commit, reconcile, replay])
def test_every_event_is_without_secrets(lake: Lake, command: Callable[[Lake, Emit], object]) -> None:
    seen: list[Event] = []
    lines: list[str] = []
    text, machine = TextLog(lines.append), JsonLog(lines.append)

    def emit(event: Event) -> None:
        seen.append(event)
        text(event)
        machine(event)

    told = ""
    try:
        told = f"{command(lake, emit)}"
    except EnvironmentProblem as error:
        told = "".join(traceback.format_exception(error))
    assert seen
    assert not [event for event in seen if SECRET in (event.pipeline, event.source)]
    told += f"{seen} {lines} {[path.read_text() for path in (lake.root.parent / 'home').rglob('*.log')]}"
    assert not [secret for secret in SHOWN if secret in told], told
    if command in (run, replay):
        where = [event.where for event in seen if isinstance(event, SessionStarting)]
        assert where == ["sc://127.0.0.1:1/;use_ssl=true;token=***;x-tenant=***"]
    if command is replay:
        assert [event for event in seen if isinstance(event, WaveStarted)]


def emitting() -> list[Any]:
    """The exported functions that emit."""
    functions = [each for name in tidegate.__all__ if inspect.isfunction(each := getattr(tidegate, name))]
    return [each for each in functions if "emit" in inspect.signature(each).parameters]


def test_a_command_hands_its_emitter_only_to_the_mask_or_to_another_command() -> None:
    commands = {each.__name__: each for each in emitting()}
    assert {"run", "commit", "adopt_files", "reconcile", "replay", "replay_range", "retry_letters"} <= set(commands)
    for name, command in commands.items():
        tree = ast.parse(textwrap.dedent(inspect.getsource(command)))
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        taken = {
            id(value)
            for call in calls
            if isinstance(call.func, ast.Name) and call.func.id in {"without_secrets", "open_emitter", *commands}
            for value in (*call.args, *(each.value for each in call.keywords))
        }
        used = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == "emit"]
        assert used, name
        if name != "demo":  # its project is its own, without secrets
            assert not [node.lineno for node in used if id(node) not in taken], name


def test_config_show_has_no_header_of_a_remote_address(lake: Lake) -> None:
    shown = show(lake.project)
    assert "sc://127.0.0.1:1/;use_ssl=true;token=***;x-tenant=***" in shown
    assert not [secret for secret in SHOWN if secret in shown]
