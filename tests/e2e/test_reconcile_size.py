"""A comparison needs no more memory for many files than for few."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from support.changes import moved
from support.lake import Lake
from support.reconciling import places_of
from tidegate import SourceComparison
from tidegate.core.files.state import drop_window, encode_paths
from tidegate.protocol.change import Coverage
from tidegate.runs.file_source import FileSource, watermarks_of
from tidegate.runs.reconcile import Reconciling
from tidegate.storage.memory import MemoryStore, Space
from tidegate.storage.port import ObjectInfo, Scope

PER_COMMIT = 1000
MOMENT = datetime(2026, 1, 28, tzinfo=UTC)


def names(count: int) -> Iterator[str]:
    return (f"date=2026-01-{1 + number * 28 // count:02d}/{number:08d}-0190e6b8.ndjson.gz" for number in range(count))


class Endless(MemoryStore):
    """A store that makes its listing up while it is read, so that it holds nothing itself."""

    files = 0

    def list(
        self,
        prefix: str = "",
        after: str | None = None,
        *,
        known: Callable[[str], bool] | None = None,
        scope: Scope | None = None,
    ) -> Iterator[ObjectInfo]:
        for name in names(self.files):
            yield ObjectInfo(name, 100, "e", MOMENT)


def place_with(folder: Path, files: int) -> FileSource:
    """A source of so many files, all but the first of each commit ingested, and its ledger."""
    lake = Lake(folder)
    lake.arrive("date=2026-01-01/0.ndjson")
    lake.run()
    (place,) = places_of(lake.project)
    opened = place.positions.open()
    wanted = {f"date=2026-01-{day:02d}": "9" for day in range(1, 29)}
    state = encode_paths(replace(watermarks_of(opened), partition_watermarks=wanted, late_window={}))
    group: list[Coverage] = []
    for number, name in enumerate(names(files), 1):
        group.append(Coverage(name, 100, "e", 0, 10, True, 10))
        if number % PER_COMMIT == 0:
            opened = place.positions.commit(
                opened, moved(state, embedded=drop_window(state), coverage=tuple(group[1:]))
            )
            group = []
    store = Endless(place.source.location, Space())
    store.files = files
    return replace(place, tracker=replace(place.tracker, store=store))


def compared(place: FileSource) -> tuple[int, SourceComparison]:
    tracemalloc.start()
    try:
        report = Reconciling([place], [place]).all()
        return tracemalloc.get_traced_memory()[1], report.sources[0]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_ten_times_the_files_need_about_the_same_memory(tmp_path: Path) -> None:
    few, _ = compared(place_with(tmp_path / "few", 3_000))
    many, source = compared(place_with(tmp_path / "many", 30_000))
    assert (source.listed.count, source.ingested, source.late.count, source.gone.count) == (30_000, 29_970, 30, 1)
    assert many < few + 5_000_000
