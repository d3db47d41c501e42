"""UUIDv7."""

from __future__ import annotations

import random
import time
import uuid

import pytest

from tidegate.parquet.parquet_file import uuid7


def test_names_are_version_7_and_carry_the_time() -> None:
    before = time.time_ns() // 1_000_000
    made = uuid.UUID(uuid7())
    assert made.version == 7
    assert made.variant == uuid.RFC_4122
    assert before <= made.int >> 80 <= time.time_ns() // 1_000_000


def test_names_are_unique_and_ascend_in_time() -> None:
    names = []
    for _ in range(200):
        names.append(uuid7())
        time.sleep(0.00001)
    assert len(set(names)) == 200
    assert names == sorted(names)


def test_writers_need_not_agree_even_with_the_same_clock_and_random_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in processes that were forked from one."""
    monkeypatch.setattr("time.time_ns", lambda: 1_706_450_400_000_000_000)
    names = []
    for _ in range(2):
        random.seed(7)
        names += [uuid7() for _ in range(100)]
    assert len(set(names)) == 200
