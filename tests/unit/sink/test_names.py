"""UUIDv7."""

from __future__ import annotations

import time
import uuid

from tidegate.sink.parquet_file import uuid7


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
