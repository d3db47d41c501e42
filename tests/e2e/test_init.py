"""A new project checks, runs and tests itself as it is written, and overwrites nothing."""

from __future__ import annotations

import json
import os
import re
import runpy
from pathlib import Path
from typing import get_args

import pytest
import yaml

import tidegate
from servers import api as api_server
from servers.api import Answer, Asked
from support.errors import raises
from tidegate import ConfigError
from tidegate.commands.init import Kind
from tidegate.config import load
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop
from tidegate.specs.units import Replace, UnitSource

KINDS: tuple[Kind, ...] = get_args(Kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_project_is_correct_and_tests_itself(kind: Kind, tmp_path: Path) -> None:
    report = tidegate.init(tmp_path / "new", kind)
    assert all((tmp_path / "new" / name).is_file() for name in report.files)
    runpy.run_path(str(tmp_path / "new" / "test_pipelines.py"))["test_the_configuration_is_correct"]()


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_line_names_the_schema_to_editors(kind: Kind, tmp_path: Path) -> None:
    tidegate.init(tmp_path, kind)
    first = (tmp_path / "pipelines.yml").read_text().splitlines()[0]
    named = tmp_path / first.removeprefix("# yaml-language-server: $schema=")
    keys = json.loads(named.read_text())["properties"]
    assert set(yaml.safe_load((tmp_path / "pipelines.yml").read_text())) <= set(keys)


@pytest.mark.parametrize("kind", KINDS)
def test_every_variable_of_the_configuration_is_in_the_example(kind: Kind, tmp_path: Path) -> None:

    tidegate.init(tmp_path, kind)
    used = set(re.findall(r"\$\{(\w+)", (tmp_path / "pipelines.yml").read_text()))
    assert used == {
        line.partition("=")[0] for line in (tmp_path / ".env.example").read_text().splitlines() if line[0] != "#"
    }


def test_the_files_of_a_server_are_correct_once_their_comments_are_removed(tmp_path: Path) -> None:
    tidegate.init(tmp_path, "api")
    config = tmp_path / "pipelines.yml"
    config.write_text(re.sub(r"(?m)^  # (?=files:|  )", "  ", config.read_text()))
    project = tidegate.load(config)
    (source,) = project.pipeline("files").sources
    assert isinstance(source, UnitSource)
    assert (source.replace, source.requests_by_time, project.notices) == (Replace.UNIT, False, ())


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / ".env.example").write_text("mine")
    with raises(ConfigError, ".env.example"):
        tidegate.init(tmp_path, "api")
    assert [path.name for path in tmp_path.iterdir()] == [".env.example"]


def run(folder: Path, **env: str) -> int:
    project = load(folder / "pipelines.yml", env={**os.environ, **env})
    report = Loop(project, InProcessEngine(), 2).once(project.pipelines)
    assert report.ok, report
    return report.sources[0].rows


def test_a_project_for_files_runs(tmp_path: Path) -> None:
    tidegate.init(tmp_path)
    assert (run(tmp_path), run(tmp_path)) == (2, 0)


def test_a_project_for_an_api_runs(tmp_path: Path) -> None:
    tidegate.init(tmp_path, "api")

    def orders(asked: Asked) -> Answer:
        since = asked.params.get("since", "")
        rows = [{"id": number, "updated_at": f"2026-01-0{number}T00:00:00Z"} for number in (1, 2, 3)]
        first = asked.params["page"] == "1"
        return Answer({"data": [row for row in rows if first and str(row["updated_at"]) > since]})

    with api_server.running() as server:
        server.routes["/orders"] = orders
        assert run(tmp_path, API_URL=server.url, API_TOKEN="not-a-secret") == 3
        assert run(tmp_path, API_URL=server.url, API_TOKEN="not-a-secret") == 0
        assert server.asked[0].headers["authorization"] == "Bearer not-a-secret"
