"""``tidegate table`` and ``tidegate serve`` pass on what they are given and show what they get."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from tidegate.cli.invocation import Invocation
from tidegate.cli.main import cli
from unit.cli.standin import StandIn


def run(*arguments: str) -> tuple[Result, StandIn]:
    api = StandIn()
    return CliRunner().invoke(cli, arguments, obj=Invocation(api=api)), api


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
    result, _ = run("table", *arguments, "pipelines.yml", "-p", "events")
    assert result.exit_code == 0
    assert shown in result.output
    assert "file:///lake/events (version 18)" in result.output


def test_options_reach_the_functions() -> None:
    _, api = run("table", "optimize", "pipelines.yml", "-p", "events", "--target-mb", "7", "--dry-run")
    assert api.calls[-1][0] == "optimize"
    assert api.calls[-1][-2:] == (7, True)
    _, api = run("table", "vacuum", "pipelines.yml", "-p", "events", "--retention-hours", "0", "--force")
    assert api.calls[-1][-3:] == (0, True, False)


def test_the_result_is_printed_as_json() -> None:
    result, _ = run("table", "vacuum", "pipelines.yml", "-p", "events", "--json")
    said = json.loads(result.stdout)
    assert (said["operation"], said["files_before"], said["retention_hours"]) == ("vacuum", 40, 168)


def test_serve_tells_where_it_listens_unless_it_shall_be_quiet() -> None:
    result, api = run("serve", "pipelines.yml", "--address", "127.0.0.1:0", "--every", "60")
    assert result.stderr == "serving http://127.0.0.1:9090/metrics, /health and /ready\n"
    assert api.calls[-1][-2:] == ("127.0.0.1:0", 60.0)
    assert run("serve", "pipelines.yml", "-q")[0].stderr == ""
