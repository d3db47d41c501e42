"""Failpoints do what they are told, where and when they are told, and nothing otherwise."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from support.errors import raises
from tidegate import failpoints
from tidegate.errors import StorageUnavailable, from_json, to_json
from tidegate.failpoints import PLACES, InjectedFailure, LostResponse, arm, arm_by, failpoint

PLACE, OTHER = "state.commit.after", "runs.planned"


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    arm("")


def reached(times: int, place: str = PLACE) -> list[int]:
    """How often ``place`` was reached when it acted."""
    acted = []
    for number in range(1, times + 1):
        try:
            failpoint(place)
        except (InjectedFailure, LostResponse):
            acted.append(number)
    return acted


def test_nothing_happens_at_a_place_that_is_not_armed() -> None:
    arm(f"{PLACE}=raise")
    failpoint(OTHER)
    arm("")
    failpoint(PLACE)


def test_raise_is_a_crash_and_no_error_of_ours() -> None:
    arm(f"{PLACE}=raise")
    with raises(InjectedFailure, PLACE):
        failpoint(PLACE)


def test_lose_is_what_storage_raises_when_an_answer_is_lost() -> None:
    arm(f"{PLACE}=lose")
    with raises(StorageUnavailable, PLACE) as lost:
        failpoint(PLACE)
    assert lost.value.retryable
    assert type(pickle.loads(pickle.dumps(lost.value))) is LostResponse
    assert type(from_json(to_json(lost.value))) is LostResponse


@pytest.mark.parametrize(("armed", "acted"), [("", [1]), ("@1", [1]), ("@3", [3])])
def test_a_place_acts_once_at_the_time_that_is_named(armed: str, acted: list[int]) -> None:
    arm(f"{PLACE}=raise{armed}")
    assert reached(5) == acted


def test_a_chance_is_the_same_again_with_the_same_seed() -> None:
    histories = []
    for seed in ("7", "7", "8"):
        arm(f"{PLACE}=lose%0.3", seed)
        histories.append(reached(200))
    assert histories[0] == histories[1] != histories[2]
    assert 30 < len(histories[0]) < 90


def test_a_star_is_every_place_that_is_not_named_otherwise() -> None:
    arm(f"*=raise%1, {PLACE}=raise@2")
    assert all(reached(1, place) == [1] for place in PLACES if place != PLACE)
    assert reached(2) == [2]


def test_a_rule_decides_everywhere_until_something_else_is_armed() -> None:
    seen: list[str] = []
    arm_by(lambda place: seen.append(place))
    for place in PLACES:
        failpoint(place)
    arm("")
    failpoint(PLACE)
    assert seen == list(PLACES)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{PLACE}=explode", "NAME=kill|raise|lose|stop|crash|exhaust|sleep:SECONDS"),
        ("state.comit.after=kill", "'state.comit.after'"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_changes_nothing(text: str, told: str) -> None:
    arm(f"{PLACE}=raise")
    with raises(ValueError, told):
        arm(text)
    assert reached(1) == [1]


def test_a_text_chooses_the_files_and_a_place_may_have_several_rules() -> None:
    arm("sink.file.before=raise~bad, sink.file.before=exhaust~worse")
    failpoint("sink.file.before", "date=1/good.ndjson")
    failpoint("sink.file.before")
    with pytest.raises(MemoryError):
        failpoint("sink.file.before", "date=1/worse.ndjson")
    with pytest.raises(InjectedFailure):
        failpoint("sink.file.before", "date=1/bad.ndjson")
    failpoint("sink.file.before", "date=1/bad.ndjson")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "code"), [("kill", -signal.SIGKILL), ("crash", -signal.SIGSEGV), ("raise", 1), ("lose", 1), ("sleep:0", 0)]
)
def test_the_variable_arms_a_process(way: str, code: int) -> None:
    program = f"from tidegate.failpoints import failpoint; failpoint({PLACE!r})"
    env = {**os.environ, failpoints.VARIABLE: f"{PLACE}={way}"}
    assert subprocess.run([sys.executable, "-c", program], env=env, capture_output=True).returncode == code
