"""Checks side by side: one that hangs fails alone, and its server is not asked again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from tidegate.reports.checks import Check, CheckProgress, not_tried
from tidegate.runs.check_jobs import CheckJob, carry_out


def passing(name: str) -> Callable[[], Sequence[Check]]:
    return lambda: (Check(name, "ok", "fine"),)


def hang() -> Sequence[Check]:
    threading.Event().wait()
    return ()


def results(*jobs: CheckJob) -> list[tuple[str, str]]:
    return [(each.name, each.result) for _, checks in carry_out(jobs) for each in checks]


def test_a_check_that_hangs_fails_alone_and_says_how_long_it_had() -> None:
    found = carry_out((CheckJob("a", hang, "db:1", "one", seconds=0.05), CheckJob("b", passing("b"), "db:2", "two")))
    (late,), (fine,) = (checks for _, checks in found)
    assert (late.result, late.detail) == ("failed", "db:1: no answer within 0.05 s")
    assert "firewall" in late.remedy
    assert fine.result == "passed"


def test_a_server_that_does_not_answer_is_asked_once() -> None:
    jobs = [CheckJob(name, hang, "db:1", "one", seconds=0.05) for name in ("a", "b", "c")]
    assert results(*jobs) == [("a", "failed"), ("b", "not tried"), ("c", "not tried")]


def test_a_refused_login_is_not_repeated() -> None:
    tried: list[str] = []

    def refuse(name: str) -> Sequence[Check]:
        tried.append(name)
        return (Check(name, "fail", "no", "password"),)

    def is_login(check: Check) -> bool:
        return check.remedy == "password"

    jobs = [CheckJob(name, lambda name=name: refuse(name), "db", "one", is_down=is_login) for name in ("a", "b")]
    assert results(*jobs) == [("a", "failed"), ("b", "not tried")]
    assert tried == ["a"]


def test_what_may_take_long_is_not_a_failure() -> None:
    slow = CheckJob("a", hang, "bucket", "one", seconds=0.05, overdue=not_tried("a", "it takes long", "wait"))
    assert results(slow, CheckJob("b", passing("b"), "bucket", "one")) == [("a", "not tried"), ("b", "passed")]


def test_whatever_a_check_raises_is_its_own_failure() -> None:
    def fail() -> Sequence[Check]:
        raise RuntimeError("oops")

    (broken,), (fine,) = (
        checks for _, checks in carry_out((CheckJob("a", fail, "x"), CheckJob("b", passing("b"), "y")))
    )
    assert (broken.result, broken.detail) == ("failed", "unexpected RuntimeError: oops")
    assert fine.result == "passed"


def test_at_most_so_many_ask_one_server_at_once_and_the_first_goes_alone() -> None:
    lock, now, most = threading.Lock(), 0, []

    def look() -> Sequence[Check]:
        nonlocal now
        with lock:
            now += 1
            most.append(now)
        threading.Event().wait(0.02)
        with lock:
            now -= 1
        return ()

    carry_out([CheckJob(str(number), look, "db", "one", width=2) for number in range(6)])
    assert (most[0], max(most) <= 2, len(most)) == (1, True, 6)


def test_progress_is_heard_from_the_beginning() -> None:
    heard: list[CheckProgress] = []
    carry_out((CheckJob("source a", passing("a"), "x"),), heard.append)
    assert str(heard[0]) == "0 of 1 check done, waiting for source a"
