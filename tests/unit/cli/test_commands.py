"""Each command calls its function with what was given, shows the result, and ends with the right code."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tidegate.cli.invocation import Invocation
from tidegate.cli.main import cli
from tidegate.errors import (
    AccessDenied,
    CommitLost,
    ConfigError,
    EnvironmentProblem,
    StateError,
    TidegateError,
)
from tidegate.reports.run import Check, RunReport
from unit.cli import standin
from unit.cli.standin import StandIn


def invoke(*arguments: str, api: StandIn | None = None, env: dict[str, str] | None = None) -> Result:
    # Without a stand-in of the level, the variable of the surrounding shell would decide.
    environment: dict[str, str | None] = {"TIDEGATE_LOG": None, **(env or {})}
    invocation = Invocation(api=api or StandIn())
    return CliRunner(env=environment).invoke(cli, list(arguments), prog_name="tidegate", obj=invocation)


def document(result: Result) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(result.stdout)
    return value


def test_status_is_json_when_asked() -> None:
    result = invoke("status", "t.yml", "--json")
    assert document(result) == {"sources": [each.to_json() for each in standin.STATUS]}
    assert document(result)["sources"][0]["updated"] == "2026-01-28T14:30:05Z"
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "call"),
    [
        (("plan", "t.yml"), ("plan", Path("t.yml"), None)),
        (("plan", "t.yml", "-p", "events"), ("plan", Path("t.yml"), "events")),
        (("run", "t.yml"), ("run", Path("t.yml"), None, "once")),
        (("run", "t.yml", "--once"), ("run", Path("t.yml"), None, "once")),
        (("run", "t.yml", "-p", "e", "--continuous"), ("run", Path("t.yml"), "e", "continuous")),
        (("status", "t.yml", "--pipeline", "e"), ("status", Path("t.yml"), "e")),
        (("watermark", "show", "t.yml", "-p", "e"), ("watermarks", Path("t.yml"), "e", None)),
        (("watermark", "show", "t.yml", "-p", "e", "-s", "a"), ("watermarks", Path("t.yml"), "e", "a")),
        (("config", "check", "t.yml"), ("load", Path("t.yml"))),
        (("doctor",), ("doctor", None)),
        (("chaos", "x"), ("chaos", "x", 1000, 10, 0, None, 10.0, False, {})),
        (
            ("chaos", "s3://b/x", "--failures", "5", "--kills", "0", "--spark-kills", "2", "--seed", "7", "-o", "K=a="),
            ("chaos", "s3://b/x", 5, 0, 2, 7, 10.0, False, {"K": "a="}),
        ),
        (
            ("recover", "t.yml", "-p", "e", "--accept", "restore"),
            ("recover", Path("t.yml"), "e", None, ("restore",)),
        ),
        (
            ("adopt", "t.yml", "-p", "e", "--yes"),
            ("adopt", Path("t.yml"), "e", None, False, 600.0, False, False),
        ),
        (
            ("adopt", "t.yml", "-p", "e", "-s", "a", "--dry-run", "--quiet-for", "5", "--fresh", "--read-skipped"),
            ("adopt", Path("t.yml"), "e", "a", True, 5.0, True, True),
        ),
        (("doctor", "t.yml"), ("doctor", Path("t.yml"))),
        (("demo",), ("demo", None)),
        (("demo", "here"), ("demo", Path("here"))),
    ],
)
def test_arguments_reach_the_function(arguments: tuple[str, ...], call: tuple[Any, ...]) -> None:
    api = StandIn()
    result = invoke(*arguments, api=api)
    assert api.calls == [call]
    assert (result.exit_code, "error" in result.stderr) == (0, False)


@pytest.mark.parametrize(
    ("arguments", "keys"),
    [
        (("plan", "t.yml"), {"plans"}),
        (("run", "t.yml"), {"sources", "ok", "seconds"}),
        (("watermark", "show", "t.yml", "-p", "e"), {"watermarks"}),
        (("config", "check", "t.yml"), {"ok", "config", "pipelines", "notices"}),
        (("doctor",), {"ok", "checks"}),
        (("demo",), {"folder", "config", "steps", "ok", "seconds", "next_commands"}),
        (("version",), {"tidegate", "pyspark", "deltalake", "obstore", "pyarrow", "python"}),
    ],
)
def test_json_is_one_object_on_standard_output(arguments: tuple[str, ...], keys: set[str]) -> None:
    assert set(document(invoke(*arguments, "--json"))) == keys


def test_skipped_counts_are_objects_in_json() -> None:
    source = document(invoke("run", "t.yml", "--json"))["sources"][0]
    assert source["skipped"] == [{"reason": "duplicate", "count": 2}]


ASIA, EUROPE = standin.REPORT.sources
DENIED = replace(ASIA, error="denied", exit_code=4)
LOST = replace(EUROPE, error="lost", exit_code=6)
HALF_READ = replace(EUROPE, failed=(standin.FAILED,))


@pytest.mark.parametrize(
    ("sources", "stopped", "code"),
    [
        ((DENIED, EUROPE), False, 4),
        ((DENIED, LOST), False, 1),
        ((ASIA, HALF_READ), False, 1),
        ((DENIED, HALF_READ), False, 1),
        ((replace(ASIA, error="no code"),), False, 1),
        ((ASIA, EUROPE), True, 130),
        ((DENIED, EUROPE), True, 4),
        ((ASIA, EUROPE), False, 1),
    ],
)
def test_a_run_that_is_not_ok_never_ends_with_0(sources: Any, stopped: bool, code: int) -> None:
    api = StandIn(report=RunReport(sources, ok=False, seconds=1), stops=stopped)
    assert invoke("run", "t.yml", api=api).exit_code == code


def test_a_continuous_run_that_was_stopped_and_lost_nothing_ends_with_0() -> None:
    assert invoke("run", "t.yml", "--continuous", api=StandIn(stops=True)).exit_code == 0


def test_status_that_could_not_be_read_ends_with_1() -> None:
    statuses = (standin.STATUS[0], replace(standin.STATUS[1], error="no answer"))
    assert invoke("status", "t.yml", api=StandIn(statuses=statuses)).exit_code == 1


def test_a_failed_check_ends_with_1_and_a_warning_with_0() -> None:
    failed = (Check("java", "fail", "none found", "install Java 17"),)
    assert invoke("doctor", api=StandIn(checks=failed)).exit_code == 1
    assert invoke("doctor").exit_code == 0


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


def test_problems_of_a_configuration_stand_on_a_line_each() -> None:
    error = ConfigError(("t.yml: a: unknown key", "t.yml: b: not a number"))
    result = invoke("config", "check", "t.yml", api=StandIn(raises=error))
    assert result.stderr.splitlines() == [
        "error: 2 problems in the configuration",
        "  t.yml: a: unknown key",
        "  t.yml: b: not a number",
    ]
    assert result.exit_code == 2


def test_one_problem_of_a_configuration_is_one_line() -> None:
    result = invoke("config", "check", "t.yml", api=StandIn(raises=ConfigError(("t.yml: a: unknown key",))))
    assert result.stderr == "error: t.yml: a: unknown key\n"


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
    ("arguments", "message"),
    [
        (("plan",), "Missing argument 'CONFIG'"),
        (("plan", "t.yml", "--jsn"), "--jsn"),
        (("nonsense",), "nonsense"),
        (("run", "t.yml", "--once", "--continuous"), "--once and --continuous exclude each other"),
        (("watermark", "show", "t.yml"), "--pipeline"),
        (("status", "t.yml", "--log-level", "loud"), "loud"),
    ],
)
def test_wrong_usage_names_what_is_wrong_and_where_to_look(arguments: tuple[str, ...], message: str) -> None:
    api = StandIn()
    result = invoke(*arguments, api=api)
    assert message in result.stderr.splitlines()[0]
    assert result.stderr.splitlines()[-1].startswith("remedy: see tidegate")
    assert (result.exit_code, api.calls) == (2, [])


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
    result = CliRunner(env={"TIDEGATE_LOG": "debug"}).invoke(
        cli, ["-q", "--log-level", "error", "run", "t.yml"], obj=Invocation(api=StandIn())
    )
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
    assert {frozenset(line) for line in lines} == {frozenset({"ts", "level", "event", "pipeline", "source", "fields"})}


def test_the_demo_shows_its_steps_numbered_and_then_what_to_try() -> None:
    lines = invoke("demo").stdout.splitlines()
    assert [line for line in lines if line and not line.startswith(" ")] == [
        "1. Data",
        "2. The table",
        "That was it",
        "Try next",
    ]


def test_a_checked_configuration_names_sources_tables_and_notices() -> None:
    shown = invoke("config", "check", "t.yml").stdout
    assert "t.yml is correct: 1 pipeline, 2 sources" in shown
    assert "notice: global.connection_pooling means nothing here" in shown


def test_the_canonical_form_is_yaml_with_defaults_and_is_printed_alone() -> None:
    result = invoke("config", "show", "t.yml")
    assert "source_uri: file:///data/asia" in result.stdout
    assert "late_window: 1000" in result.stdout
    assert (result.exit_code, result.stderr) == (0, "")


def test_the_schema_of_configurations_is_json() -> None:
    assert "pipelines" in document(invoke("config", "schema"))["properties"]


def test_chaos_refuses_a_storage_option_that_is_none() -> None:
    result = invoke("chaos", "x", "--option", "nothing")
    assert result.exit_code == 2
    assert "'nothing' is not KEY=VALUE" in result.stderr


def test_chaos_ends_with_1_if_a_row_is_missing_or_doubled() -> None:
    assert invoke("chaos", "x").exit_code == 0
    wrong = replace(standin.CHAOS, ok=False, doubled=1, problems=("doubled: id 7",))
    result = invoke("chaos", "x", "--json", api=StandIn(chaos_report=wrong))
    assert result.exit_code == 1
    assert document(result)["problems"] == ["doubled: id 7"]


def test_dlq_list_shows_letters_and_show_their_text_without_control_characters() -> None:
    listed = invoke("dlq", "list", "t.yml", "-p", "events")
    assert "1f0c6f6b0c2d4e5a" in listed.stdout
    assert "not JSON" in listed.stdout
    shown = invoke("dlq", "show", "t.yml", "1f0c", "-p", "events")
    assert "oops" in shown.stdout
    assert "\x1b" not in shown.stdout


def test_dlq_retry_ends_with_1_while_letters_are_still_bad() -> None:
    result = invoke("dlq", "retry", "t.yml", "-p", "events", "--reason", "JSON")
    assert result.exit_code == 1
    assert "2 of 3 letters read again, 2 rows committed" in result.stdout


def test_dlq_discard_asks_first() -> None:
    api = StandIn()
    assert invoke("dlq", "discard", "t.yml", "-p", "events", api=api).exit_code != 0
    assert not [call for call in api.calls if call[0] == "discard_letters"]
    invoke("dlq", "discard", "t.yml", "-p", "events", "--yes", api=api)
    assert [call for call in api.calls if call[0] == "discard_letters"]
