"""Commands that change a position or rows: they ask first, and refuse where nobody can answer."""

from __future__ import annotations

import pytest

from unit.cli.standin import StandIn
from unit.cli.test_commands import document, invoke

SET = ("watermark", "set", "t.yml", "-p", "events")
RESET = ("watermark", "reset", "t.yml", "-p", "events")
REPLAY = ("replay", "t.yml", "-p", "events")
COMPLETE = [(*SET, "--to", "d=1/a"), (*RESET, "--all"), (*REPLAY, "--files", "*.gz")]


@pytest.mark.parametrize("arguments", COMPLETE, ids=["set", "reset", "replay"])
def test_without_a_terminal_or_an_answer_nothing_is_begun(arguments: tuple[str, ...]) -> None:
    api = StandIn()
    for given in (arguments, (*arguments, "--json")):
        result = invoke(*given, api=api)
        assert result.exit_code == 2
        assert "give --yes, or --dry-run" in result.stderr
    assert api.calls == []


@pytest.mark.parametrize("arguments", COMPLETE, ids=["set", "reset", "replay"])
def test_a_dry_run_shows_what_it_would_mean_and_ends_well(arguments: tuple[str, ...]) -> None:
    result = invoke(*arguments, "--dry-run")
    assert result.exit_code == 0
    assert "nothing was changed" in result.stdout
    assert "read again" in result.stdout
    assert document(invoke(*arguments, "--dry-run", "--json"))["applied"] is False


@pytest.mark.parametrize("arguments", COMPLETE, ids=["set", "reset", "replay"])
def test_with_yes_it_is_done(arguments: tuple[str, ...]) -> None:
    result = invoke(*arguments, "--yes")
    assert result.exit_code == 0
    assert "committed:" in result.stdout
    assert document(invoke(*arguments, "--yes", "--json"))["applied"] is True


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (SET, "--to PATH"),
        ((*SET, "--to", "a", "--name", "b"), "--to PATH"),
        ((*SET, "--partition", "d=1"), "--to PATH"),
        (RESET, "--partition DIR or --all"),
        ((*RESET, "--all", "--partition", "d=1"), "--partition DIR or --all"),
        (REPLAY, "--files PATTERN or --partition DIR"),
        ((*REPLAY, "--files", "*", "--partition", "d=1"), "--files PATTERN or --partition DIR"),
    ],
)
def test_what_is_meant_must_be_said_once(arguments: tuple[str, ...], told: str) -> None:
    result = invoke(*arguments, "--yes")
    assert (result.exit_code, told in result.stderr) == (2, True)


@pytest.mark.parametrize(("partition", "path"), [("d=1/", "d=1/a"), ("", "a")])
def test_directory_and_name_are_a_path(partition: str, path: str) -> None:
    api = StandIn()
    invoke(*SET, "--partition", partition, "--name", "a", "--yes", api=api)
    assert api.calls[0][-3:] == (path, None, False)
