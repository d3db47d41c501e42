"""A session is found by every thread of its process, and its tasks are jobs without a query if it is our own."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.spark import engine, session
from tidegate.specs.project import SparkSpec


class Made:
    """As pyspark remembers a session that some thread made."""

    def __init__(self, java: object) -> None:
        self.sparkContext = type("Context", (), {"_jsc": java})()


@pytest.mark.parametrize("running", [True, False])
def test_a_session_of_another_thread_is_found_unless_it_was_stopped(
    monkeypatch: pytest.MonkeyPatch, running: bool
) -> None:
    from pyspark.sql import SparkSession

    made = Made(object() if running else None)
    monkeypatch.setattr(SparkSession, "_instantiatedSession", made)
    monkeypatch.setattr(SparkSession, "getActiveSession", classmethod(lambda cls: None))
    assert session.active_session() is (made if running else None)


@pytest.mark.parametrize("ours", [True, False])
def test_only_a_session_of_our_own_has_jobs_without_a_query(monkeypatch: pytest.MonkeyPatch, ours: bool) -> None:
    """Platforms forbid them in some of theirs."""
    made, slots = Made(object()), list[Any]()

    def parallelize(numbers: list[int], partitions: int) -> object:
        slots.append((numbers, partitions))
        return slots

    monkeypatch.setattr(made.sparkContext, "parallelize", parallelize, raising=False)
    monkeypatch.setattr(engine, "take_session", lambda spec: None if ours else made)
    monkeypatch.setattr(engine, "open_session", lambda spec, **settings: made)
    shared = engine.SharedSession(SparkSpec(), lambda where: None, lambda: False, tuple, None)
    found = [shared.slot(), shared.slot()]
    assert (found, slots) == (([slots, slots], [([0], 1)]) if ours else ([None, None], []))
