"""``tidegate dlq``: letters are shown, read again, and closed only after an answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tidegate.reports.render import to_lines
from tidegate.schema.dead_letter import Letters
from unit.cli import standin
from unit.cli.standin import StandIn, document, invoke, text

START = ("t.yml", "-p", "events")
EVENTS = {"config": Path("t.yml"), "pipeline": "events"}
TWO = standin.LETTERS * 2


@pytest.mark.parametrize(
    ("arguments", "call"),
    [
        (("dlq", "list", *START, "--limit", "7"), ("list_letters", {**EVENTS, "limit": 8})),
        (
            ("dlq", "discard", *START, "--id", "1f", "--id", "2f", "--file", "a/*", "--reason", "x", "--dry-run"),
            ("list_letters", {**EVENTS, "ids": ("1f", "2f"), "file": "a/*", "reason": "x"}),
        ),
    ],
)
def test_arguments_reach_the_function(arguments: tuple[str, ...], call: tuple[str, dict[str, Any]]) -> None:
    api = StandIn()
    result = invoke(*arguments, api=api)
    assert api.calls == [call]
    assert (result.exit_code, "error" in result.stderr) == (0, False)


def test_dlq_list_shows_letters_and_show_their_text_without_control_characters() -> None:
    listed = invoke("dlq", "list", "t.yml", "-p", "events")
    assert "1f0c6f6b0c2d4e5a" in listed.stdout
    assert "not JSON" in listed.stdout
    assert "once the configuration takes them: tidegate dlq retry t.yml -p events" in listed.stdout
    assert "once a new file has them right: tidegate dlq discard t.yml -p events" in listed.stdout
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


def test_letters_are_json_when_asked() -> None:
    found = document(invoke("dlq", "list", *START, "--json"))
    assert (found["letters"][0]["id"], found["more"]) == (standin.LETTERS[0].id, False)
    assert document(invoke("dlq", "list", *START, "--json", "--limit", "1", api=StandIn(list_letters=TWO)))["more"]


def test_a_list_that_was_cut_says_so() -> None:
    assert "… and more; --limit shows them" in text(Letters(TWO, 1).page())
    assert "… and more" not in text(Letters(TWO, 2).page())
    assert "no open dead letter matches" in text(Letters(()).page())


def test_a_letter_of_two_lines_is_shown_on_two_lines() -> None:
    letter = replace(standin.LETTERS[0], text="id,price\n2,abc")
    assert [line.strip() for line in to_lines(letter.page())][-2:] == ["id,price", "2,abc"]


def test_dlq_retry_can_only_look_and_takes_yes() -> None:
    api = StandIn()
    assert "1f0c6f6b0c2d4e5a" in invoke("dlq", "retry", "t.yml", "-p", "events", "--dry-run", api=api).stdout
    assert [name for name, _ in api.calls] == ["list_letters"]
    invoke("dlq", "retry", "t.yml", "-p", "events", "--yes", api=api)
    assert api.calls[-1][0] == "retry_letters"
