"""``tidegate doctor`` and ``recover``: checks, remedies, and the code that sums them up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tidegate.reports.checks import Check, Checks, not_tried
from tidegate.reports.render import to_lines
from tidegate.reports.report import View
from unit.cli import standin
from unit.cli.standin import StandIn, document, invoke, text


@pytest.mark.parametrize(
    ("arguments", "call"),
    [
        (("doctor",), ("doctor", {})),
        (("doctor", "t.yml"), ("doctor", {"config": Path("t.yml")})),
        (
            ("doctor", "t.yml", "-p", "e", "--deep"),
            ("doctor", {"config": Path("t.yml"), "pipeline": "e", "deep": True}),
        ),
        (
            ("recover", "t.yml", "-p", "e", "--accept", "restore"),
            ("recover", {"config": Path("t.yml"), "pipeline": "e", "accept": ("restore",)}),
        ),
    ],
)
def test_arguments_reach_the_function(arguments: tuple[str, ...], call: tuple[str, dict[str, Any]]) -> None:
    api = StandIn()
    result = invoke(*arguments, api=api)
    assert api.calls == [call]
    assert (result.exit_code, "error" in result.stderr) == (0, False)


def test_a_failed_check_ends_with_1_and_a_warning_with_0() -> None:
    failed = (Check("java", "fail", "none found", "install Java 17"),)
    assert invoke("doctor", api=StandIn(doctor=failed)).exit_code == 1
    assert invoke("doctor").exit_code == 0


def test_checks_are_json_when_asked() -> None:
    assert set(document(invoke("doctor", "--json"))) == {"ok", "checks"}


@pytest.mark.parametrize(
    ("verdicts", "summary"),
    [
        (("ok",), "no problems found"),
        (("ok", "warn"), "nothing failed, 1 warning"),
        (("fail", "warn", "fail"), "2 checks failed, 1 warning"),
    ],
)
def test_doctor_sums_up(verdicts: tuple[str, ...], summary: str) -> None:
    checks = tuple(Check(f"c{number}", verdict, "d") for number, verdict in enumerate(verdicts))  # type: ignore[arg-type]
    assert list(to_lines(Checks(checks).page()))[-1].strip() == summary


def test_doctor_tells_remedies_only_for_what_is_not_well() -> None:
    shown = text(Checks(standin.CHECKS).page())
    assert "java: install Java 17 or 21" in shown
    assert "python:" not in shown


def test_what_was_not_tried_is_listed_and_no_success() -> None:
    left = not_tried("source a", "no driver", "install it")
    shown = list(to_lines(Checks((Check("b", "ok", "d"), left)).page()))
    assert shown[-1].strip() == "no problems found in what was tried; 1 not tried"
    assert any("source a: install it" in line for line in shown)
    assert any(line.split()[:2] == ["not", "tried"] for line in shown)
    assert (left.verdict, left.to_json()["result"], Checks((left,)).code()) == ("warn", "not tried", 0)


def test_equal_remedies_are_told_once() -> None:
    checks = tuple(Check(f"source {name}", "fail", "no", "do this") for name in "abcde")
    (told,) = [line for line in to_lines(Checks(checks).page()) if "do this" in line]
    assert told.strip() == "source a, source b, source c and 2 more: do this"


def test_many_tables_of_a_block_are_one_row_unless_verbose() -> None:
    tables = [
        Check(f"source shop.{number}", "ok", "fine", block="shop", pipeline=f"shop.{number}") for number in "123456"
    ]
    tables[2] = replace(tables[2], verdict="fail", detail="gone")
    other = Check("source x", "ok", "fine", block="few", pipeline="few.x")
    checks = Checks((*tables, other))
    shown = [" ".join(line.split()) for line in to_lines(checks.page())]
    assert "fail shop (6 tables) 6 checks: 5 passed, 1 failed" in shown
    assert "fail source shop.3 gone" in shown
    assert [line for line in shown if "source shop." in line] == ["fail source shop.3 gone"]
    assert "ok source x fine" in shown
    assert len([line for line in to_lines(checks.page(View(verbose=True))) if "source shop." in line]) == 6
