"""Before a commit counts, everything it refers to is on disk; the log entry after that, and before it is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.lake import Lake
from tidegate.observe.events import Committed, Event
from tidegate.storage import local


@pytest.fixture
def forced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Files in the order in which they are forced, and the moments at which a commit is told."""
    seen: list[str] = []

    def force(descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        seen.append(os.path.relpath(path, tmp_path))

    monkeypatch.setattr(local, "force", force)
    return seen


def is_log(path: str) -> bool:
    return "/_delta_log/0" in path


def test_data_and_documents_come_before_the_entry_and_the_entry_before_the_report(
    tmp_path: Path, forced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(tmp_path)
    lake.arrive("d/1.ndjson")
    lake.write("d/2.ndjson", "nonsense\n")

    def emit(event: Event) -> None:
        if isinstance(event, Committed):
            forced.append("told")

    for number in range(2):
        forced.clear()
        if number:
            lake.arrive("d/3.ndjson")
        lake.run(emit)
        entry = f"lake/events/_delta_log/{number:020d}.json"
        log = forced.index("lake/events/_delta_log", forced.index(entry))
        data = [at for at, path in enumerate(forced) if path.startswith("lake/events/") and path.endswith(".parquet")]
        documents = [at for at, path in enumerate(forced) if "/_tidegate/events/default/.tidegate-" in path]
        assert data
        assert documents
        assert max(data) < forced.index(entry) < log < forced.index("told")
        assert min(documents) < forced.index(entry)
        for at in data:
            assert forced[at + 1] == os.path.dirname(forced[at])
        letters = f"lake/events_dead_letters/_delta_log/{0:020d}.json"
        assert (letters in forced) == (number == 0)
    lake.assert_exactly_once()


def test_entries_that_others_left_unforced_are_forced_too(tmp_path: Path, forced: list[str]) -> None:
    lake = Lake(tmp_path)
    lake.arrive("d/1.ndjson")
    lake.run()
    lake.arrive("d/2.ndjson")
    forced.clear()
    lake.run()
    assert [path[-7:] for path in forced if is_log(path) and path.startswith("lake/events/")] == ["00.json", "01.json"]


def test_sync_off_forces_nothing(tmp_path: Path, forced: list[str]) -> None:
    lake = Lake(tmp_path, sink_settings={"sync": False})
    lake.arrive("d/1.ndjson")
    lake.write("d/2.ndjson", "nonsense\n")
    lake.run()
    lake.assert_exactly_once()
    assert forced == []
