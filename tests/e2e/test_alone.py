"""Where Spark has written a table before, everything that a commit writes into its log waits for the lock."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidegate
from support.lake import FIELDS, Lake
from tidegate.protocol.delta import DeltaLakeTable
from tidegate.storage.local import LOCK, LocalStore


def watch(monkeypatch: pytest.MonkeyPatch, lock: Path, of: type, method: str) -> list[bool]:
    """Whether the lock is held, each time that the method is called."""
    held: list[bool] = []
    original: Any = getattr(of, method)

    def watched(self: Any, *given: Any) -> Any:
        with lock.open() as other:
            try:
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
                held.append(False)
            except BlockingIOError:
                held.append(True)
        return original(self, *given)

    monkeypatch.setattr(of, method, watched)
    return held


@pytest.mark.parametrize("method", ["append", "add_columns", "set_properties", "overwrite"])
def test_the_log_is_written_under_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    lake = Lake(tmp_path, pipeline_settings={"schema_evolution": "overwrite"} if method == "overwrite" else {})
    lake.arrive("date=2026-01-28/0.ndjson", records=0 if method == "overwrite" else 10)
    assert lake.run().ok
    lock = tmp_path / "lake/events" / LOCK
    lock.touch()
    held = watch(monkeypatch, lock, DeltaLakeTable, method)
    text = [FIELDS[0], {"name": "ts", "type": "string"}, FIELDS[2]]
    lake.schema = {"fields": text if method == "overwrite" else [*FIELDS, {"name": "more", "type": "string"}]}
    lake.sink_settings = {"table_properties": {"delta.checkpointInterval": "7"}}
    lake.arrive("date=2026-01-28/1.ndjson")
    assert lake.run().ok
    assert held == [True]
    lake.assert_exactly_once()


@pytest.mark.parametrize(
    ("of", "method", "care"),
    [
        (LocalStore, "put_if_absent", lambda lake: tidegate.optimize_table(lake.config, "events")),
        (DeltaLakeTable, "overwrite", lambda lake: tidegate.widen_table(lake.config, "events", column="n", to="int64")),
    ],
)
def test_table_care_writes_the_log_under_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of: type, method: str, care: Callable[[Lake], object]
) -> None:
    lake = Lake(tmp_path, schema={"fields": [*FIELDS, {"name": "n", "type": "int32"}]})
    for number in range(2):
        lake.arrive(f"date=2026-01-28/{number}.ndjson")
        assert lake.run().ok
    lock = tmp_path / "lake/events" / LOCK
    lock.touch()
    held = watch(monkeypatch, lock, of, method)
    care(lake)
    assert held == [True]
    lake.assert_exactly_once()
