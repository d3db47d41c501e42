"""What all commands share: errors and their codes, wrong usage, and the log."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from tidegate.cli.main import cli
from tidegate.errors import AccessDenied, CommitLost, EnvironmentProblem, StateError, TidegateError
from unit.cli import standin
from unit.cli.standin import StandIn, document, invoke


def test_versions_are_json_when_asked() -> None:
    assert set(document(invoke("version", "--json"))) == {
        "tidegate",
        "pyspark",
        "deltalake",
        "obstore",
        "pyarrow",
        "python",
        "json_reader",
    }


@pytest.mark.parametrize(
    "error",
    [
        TidegateError("it broke", "mend it"),
        EnvironmentProblem("no Java", "install Java 17"),
        AccessDenied("s3://x: no", "check the credentials"),
        StateError("position forgotten", "ask doctor"),
        CommitLost("another run committed", "plan again"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_is_a_message_a_remedy_and_the_code_of_its_class(error: TidegateError) -> None:
    result = invoke("plan", "t.yml", api=StandIn(raises=error))
    assert result.stderr.splitlines() == [f"error: {error.problem}", f"remedy: {error.remedy}"]
    assert (result.stdout, result.exit_code) == ("", error.exit_code)


def test_errors_are_json_too_when_asked() -> None:
    result = invoke("status", "t.yml", "--json", api=StandIn(raises=CommitLost("lost", "plan again")))
    assert document(result)["error"] == {
        "kind": "CommitLost",
        "problems": ["lost"],
        "remedy": "plan again",
        "exit_code": 6,
        "retryable": True,
    }
    assert result.stderr.startswith("error: lost\n")


def test_an_unexpected_exception_is_one_line_and_70() -> None:
    result = invoke("run", "t.yml", api=StandIn(raises=KeyError("x")))
    assert result.stderr.splitlines() == [
        "error: unexpected KeyError: 'x'",
        "remedy: run again with --debug to see where",
    ]
    assert result.exit_code == 70


@pytest.mark.parametrize("arguments", [("--debug", "plan", "t.yml"), ("plan", "t.yml", "--debug")])
def test_debug_shows_the_traceback_wherever_it_stands(arguments: tuple[str, ...]) -> None:
    result = invoke(*arguments, api=StandIn(raises=KeyError("x")))
    assert "Traceback (most recent call last)" in result.stderr
    assert "standin.py" in result.stderr
    assert result.exit_code == 70


@pytest.mark.parametrize(
    ("arguments", "message", "remedy"),
    [
        (("plan",), "Missing argument 'CONFIG'", "for example: tidegate plan pipelines.yml"),
        (("plan", "t.yml", "--jsn"), "--jsn", "for example: tidegate plan pipelines.yml"),
        (("nonsense",), "nonsense", "the commands are setup, demo, "),
        (("runn",), "runn", "did you mean 'run'?"),
        (("dlq", "discrd"), "discrd", "did you mean 'discard'?"),
        (("run", "t.yml", "--once", "--continuous"), "--once and --continuous do not", "for example: tidegate run "),
        (("status", "t.yml", "--log-level", "loud"), "loud", "for example: tidegate status pipelines.yml"),
    ],
)
def test_wrong_usage_names_what_is_wrong_and_how_it_is_right(
    arguments: tuple[str, ...], message: str, remedy: str
) -> None:
    api = StandIn()
    result = invoke(*arguments, api=api)
    assert message in result.stderr.splitlines()[0]
    assert result.stderr.splitlines()[-1].startswith(f"remedy: {remedy}")
    assert (result.exit_code, api.calls) == (2, [])


def test_the_only_pipeline_need_not_be_named() -> None:
    api = StandIn()
    assert invoke("watermark", "show", "t.yml", api=api).exit_code == 0
    assert api.calls[-1] == ("show_watermarks", {"config": Path("t.yml"), "pipeline": "events"})


def test_one_of_several_pipelines_must_be_named() -> None:
    two = replace(
        standin.PROJECT, pipelines=(*standin.PROJECT.pipelines, replace(standin.PROJECT.pipelines[0], name="b"))
    )
    api = StandIn(load=two)
    result = invoke("watermark", "show", "t.yml", api=api)
    assert result.stderr == "error: pipelines.yml has several pipelines; name one with -p: events, b\n"
    assert (result.exit_code, [name for name, _ in api.calls]) == (2, ["load"])


def test_wrong_usage_is_json_too_when_asked() -> None:
    assert document(invoke("plan", "--json"))["error"]["kind"] == "UsageError"


@pytest.mark.parametrize("arguments", [(), ("config",), ("watermark",)])
def test_a_command_of_commands_alone_shows_its_help(arguments: tuple[str, ...]) -> None:
    result = invoke(*arguments)
    assert "Examples:" in result.stderr
    assert (result.exit_code, result.stdout) == (2, "")


def log_of(*arguments: str, env: dict[str, str] | None = None) -> list[str]:
    return invoke("run", "t.yml", *arguments, env=env).stderr.splitlines()


def test_a_run_without_a_terminal_tells_milestones_and_warnings() -> None:
    lines = log_of()
    assert lines[0] == "events/asia: planned 4 files (3.9 KiB) in 2 units"
    assert [line for line in lines if " warning " in line and line.endswith("no newline at its end")]


def test_quiet_leaves_only_errors() -> None:
    assert log_of("-q") == []


def test_a_log_level_replaces_the_milestones() -> None:
    lines = log_of("--log-level", "info")
    assert all(line.endswith("Z info   ") or "Z info " in line or "Z warning " in line for line in lines)
    assert len([line for line in lines if "committed 100 rows" in line]) == 1


def test_the_variable_sets_the_log_level_and_the_option_wins() -> None:
    debug = len(log_of(env={"TIDEGATE_LOG": "DEBUG"}))
    assert debug == len(standin.emitted())
    assert len(log_of("--log-level", "error", env={"TIDEGATE_LOG": "debug"})) < debug


def test_the_option_before_the_command_wins_over_the_variable() -> None:
    result = invoke("-q", "--log-level", "error", "run", "t.yml", env={"TIDEGATE_LOG": "debug"})
    assert result.stderr == ""


def test_a_wrong_level_in_the_variable_is_named() -> None:
    result = invoke("run", "t.yml", env={"TIDEGATE_LOG": "loud"})
    assert "TIDEGATE_LOG" in result.stderr
    assert result.exit_code == 2


def test_a_json_log_is_one_object_per_line_and_nothing_else() -> None:
    lines = [json.loads(line) for line in log_of("--log-format", "json")]
    assert [line["event"] for line in lines] == [
        "plan_made",
        "session_starting",
        "notice",
        "committed",
        "source_finished",
    ]
    assert {frozenset(line) for line in lines} == {
        frozenset({"ts", "level", "event", "run", "pipeline", "source", "fields"})
    }


def test_a_value_that_looks_like_the_option_for_json_is_a_value() -> None:
    assert invoke("status", "t.yml", "-p", "--json").stdout.startswith("  source")


def test_examples_are_never_broken_across_lines() -> None:
    shown = CliRunner().invoke(cli, ["table", "widen", "--help"], terminal_width=40).stdout
    assert "  tidegate table widen pipelines.yml -p events --column id --type int64\n" in shown
