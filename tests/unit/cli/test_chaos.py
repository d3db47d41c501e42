"""``tidegate chaos``: what it passes on, what it found, and how it ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from unit.cli import standin
from unit.cli.standin import StandIn, document, invoke, text


@pytest.mark.parametrize(
    ("arguments", "call"),
    [
        (("chaos", "x"), ("chaos", {"uri": "x", "options": {}})),
        (
            ("chaos", "s3://b/x", "--failures", "5", "--kills", "0", "--spark-kills", "2", "--seed", "7", "-o", "K=a="),
            (
                "chaos",
                {"uri": "s3://b/x", "failures": 5, "kills": 0, "spark_kills": 2, "seed": 7, "options": {"K": "a="}},
            ),
        ),
    ],
)
def test_arguments_reach_the_function(arguments: tuple[str, ...], call: tuple[str, dict[str, Any]]) -> None:
    api = StandIn()
    result = invoke(*arguments, api=api)
    assert api.calls == [call]
    assert (result.exit_code, "error" in result.stderr) == (0, False)


def test_chaos_refuses_a_storage_option_that_is_none() -> None:
    result = invoke("chaos", "x", "--option", "nothing")
    assert result.exit_code == 2
    assert "'nothing' is not KEY=VALUE" in result.stderr


def test_chaos_ends_with_1_if_a_row_is_missing_or_doubled() -> None:
    assert invoke("chaos", "x").exit_code == 0
    wrong = replace(standin.CHAOS, ok=False, doubled=1, problems=("doubled: id 7",))
    result = invoke("chaos", "x", "--json", api=StandIn(chaos=wrong))
    assert result.exit_code == 1
    assert document(result)["problems"] == ["doubled: id 7"]


def test_an_experiment_shows_its_failures_by_place_and_its_result() -> None:
    shown = text(standin.CHAOS.page())
    assert "state.commit.after        9             6      1" in shown
    assert "0 lost, 0 doubled" in shown
    assert "WRONG" not in shown


def test_an_experiment_that_found_something_says_what() -> None:
    wrong = replace(standin.CHAOS, ok=False, lost=2, problems=("round 1 of seed 4: missing: id 7 of a.ndjson",))
    shown = text(wrong.page())
    assert "2 lost, 0 doubled: WRONG" in shown
    assert "found: round 1 of seed 4: missing: id 7 of a.ndjson" in shown


def test_an_experiment_that_ran_out_of_time_says_so() -> None:
    assert "time was up before everything was done" in text(replace(standin.CHAOS, finished=False).page())
