"""Encodings are chosen by what the first rows look like."""

from __future__ import annotations

import uuid

import pyarrow as pa

from tidegate.sink.parquet_file import choose

ROWS = 1000


def test_repeating_values_get_a_dictionary_and_counting_ones_differences() -> None:
    batch = pa.record_batch(
        {
            "id": pa.array(range(ROWS)),
            "name": [str(uuid.uuid4()) for _ in range(ROWS)],
            "event": ["click", "view"] * (ROWS // 2),
            "status": [200, 404] * (ROWS // 2),
            "ok": [True, False] * (ROWS // 2),
            "user": pa.array([{"country": "DE", "n": number} for number in range(ROWS)]),
            "tags": [["a", "b"]] * ROWS,
            "empty": pa.nulls(ROWS, pa.string()),
        }
    )
    chosen = choose(batch)
    assert set(chosen.dictionaries) == {"event", "status", "user.country", "tags.list.element", "empty"}
    assert set(chosen.differences) == {"id", "user.n"}
