"""The greatest values of watermark columns over batches of rows."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from tidegate.specs.columns import WatermarkMode
from tidegate.tasks.row_task import Greatest

NAN = float("nan")


@pytest.mark.parametrize("values", [[[1.0, NAN]], [[NAN, 1.0]], [[1.0], [NAN]], [[NAN], [1.0]]])
def test_not_a_number_is_seen_since_every_read_would_bring_its_row_again(values: list[list[float]]) -> None:
    seen = Greatest(("u",))
    for each in values:
        seen.see(pa.record_batch({"u": each}))
    found = seen.values["u"]
    assert isinstance(found, float)
    assert math.isnan(found)


@pytest.mark.parametrize("values", [[[1.0, NAN]], [[NAN], [1.0]], [[1.0], [NAN]]])
def test_not_a_number_is_seen_in_a_cursor(values: list[list[float]]) -> None:
    seen = Greatest(("u", "id"), WatermarkMode.TUPLE)
    for each in values:
        seen.see(pa.record_batch({"u": each, "id": list(range(len(each)))}))
    found = seen.values["u"]
    assert isinstance(found, float)
    assert math.isnan(found)


def test_the_greatest_cursor_over_batches() -> None:
    seen = Greatest(("u", "id"), WatermarkMode.TUPLE)
    schema = pa.schema([("u", pa.int64()), ("id", pa.int64())])
    for batch in ({"u": [1, 2, 2], "id": [9, 1, 3]}, {"u": [2], "id": [2]}, {"u": [None], "id": [7]}):
        seen.see(pa.record_batch(batch, schema=schema))
    assert (seen.values, seen.nulls) == ({"u": 2, "id": 3}, 1)
