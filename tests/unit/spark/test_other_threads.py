"""A session is found by every thread of its process."""

from __future__ import annotations

import pytest

from tidegate.spark import session


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
