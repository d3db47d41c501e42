"""``tidegate doctor`` and ``recover``: checks, remedies, and the code that sums them up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tidegate.reports.checks import Check, Checks
from tidegate.reports.render import to_lines
from unit.cli import standin
from unit.cli.standin import StandIn, document, invoke, text


@pytest.mark.parametrize(
    ("arguments", "call"),
    [
        (("doctor",), ("doctor", {})),
        (("doctor", "t.yml"), ("doctor", {"config": Path("t.yml")})),
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
