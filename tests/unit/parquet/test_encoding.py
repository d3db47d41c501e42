"""Encodings are chosen by what the first rows look like."""

from __future__ import annotations

import uuid

import pyarrow as pa

from tidegate.parquet.parquet_file import SAMPLED_ROWS, ChosenEncodings, choose_encodings

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
    chosen = choose_encodings(batch)
    assert set(chosen.dictionaries) == {"event", "status", "user.country", "tags.list.element", "empty"}
    assert set(chosen.differences) == {"id", "user.n"}


def test_short_files_take_the_encodings_of_those_before_once_these_agree() -> None:
    usual = ChosenEncodings()
    counting, repeating = pa.record_batch({"n": pa.array(range(ROWS))}), pa.record_batch({"n": pa.array([1] * ROWS)})
    assert [usual.of(counting).differences for _ in range(8)] == [("n",)] * 8
    assert usual.of(repeating) == usual.of(counting), "taken for granted"
    assert "n" in {name for _ in range(40) for name in usual.of(repeating).dictionaries}, "looked at now and then"
    assert usual.of(pa.record_batch({"other": pa.array(range(ROWS))})).differences == ("other",)
    long = pa.record_batch({"n": pa.array(range(SAMPLED_ROWS))})
    assert usual.of(long).differences == ("n",), "a long file is always looked at"
