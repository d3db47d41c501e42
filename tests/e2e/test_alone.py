"""Where Spark has written a table before, everything that a commit writes into its log waits for the lock."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import Any

import pytest

from support.lake import FIELDS, Lake
from tidegate.state.delta import DeltaLakeTable
from tidegate.storage.exclusion import LOCK


@pytest.mark.parametrize("method", ["append", "add_columns", "set_properties", "overwrite"])
def test_the_log_is_written_under_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    lake = Lake(tmp_path, pipeline_settings={"schema_evolution": "overwrite"} if method == "overwrite" else {})
    lake.arrive("date=2026-01-28/0.ndjson", records=0 if method == "overwrite" else 10)
    assert lake.run().ok
    lock = tmp_path / "lake/events" / LOCK
    lock.touch()
    held: list[bool] = []
    original: Any = getattr(DeltaLakeTable, method)

    def watched(self: DeltaLakeTable, *given: Any) -> None:
        with lock.open() as other:
            try:
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
                held.append(False)
            except BlockingIOError:
                held.append(True)
        original(self, *given)

    monkeypatch.setattr(DeltaLakeTable, method, watched)
    text = [FIELDS[0], {"name": "ts", "type": "string"}, FIELDS[2]]
    lake.schema = {"fields": text if method == "overwrite" else [*FIELDS, {"name": "more", "type": "string"}]}
    lake.sink_settings = {"table_properties": {"delta.checkpointInterval": "7"}}
    lake.arrive("date=2026-01-28/1.ndjson")
    assert lake.run().ok
    assert held == [True]
    lake.assert_exactly_once()
