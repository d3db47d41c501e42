"""What became of rows, by the metrics of a log entry."""

from __future__ import annotations

import json

import pytest

from tidegate.protocol.change import RowChanges
from tidegate.protocol.log import parse_entry


def found(operation: str, mode: str | None = None, **metrics: object) -> RowChanges | None:
    info = {
        "operation": operation,
        "operationMetrics": {name: str(value) for name, value in metrics.items()},
        **({} if mode is None else {"operationParameters": {"mode": mode}}),
    }
    return parse_entry(1, json.dumps({"commitInfo": info}).encode()).changes


def test_a_merge_has_three_numbers_and_does_not_know_what_it_was_spared() -> None:
    counted = {"numTargetRowsInserted": 1, "numTargetRowsUpdated": 2, "numTargetRowsDeleted": 3, "numSourceRows": 9}
    assert found("MERGE", **counted) == RowChanges(1, 2, 3, None)


@pytest.mark.parametrize(
    ("mode", "metrics", "changes"),
    [
        ("Append", {"numOutputRows": 5}, RowChanges(5)),
        ("Overwrite", {"numOutputRows": 5}, RowChanges(5, 0, None)),
        ("Overwrite", {"numOutputRows": 5, "numCopiedRows": 3, "numDeletedRows": 4}, RowChanges(2, 0, 4)),
    ],
)
def test_rows_that_are_copied_are_not_inserted(mode: str, metrics: dict[str, int], changes: RowChanges) -> None:
    assert found("WRITE", mode, **metrics) == changes


def test_entries_of_others_say_nothing_about_rows() -> None:
    assert found("WRITE", "Append", num_added_rows=5) is None
    assert found("MERGE", numTargetRowsInserted="many", numTargetRowsUpdated=1) is None
    assert found("OPTIMIZE", numOutputRows=5) is None
    assert parse_entry(1, b"").changes is None
