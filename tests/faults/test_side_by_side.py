"""Four sources at work at once: a kill in the commit of one, or another process beside, loses and doubles no row."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from faults.failing import KILLED
from faults.worker import FINE
from support.lake import FIELDS, write_config
from support.long_runs import chosen
from tidegate.experiments.workers import Workers
from tidegate.failpoints import PLACES
from tidegate.protocol.delta import query
from tidegate.specs.locations import Location

SOURCES = ("north", "east", "south", "west")
COMMIT = tuple(place for place in PLACES if place.startswith("state.") and "gathered" not in place)
REACHED = tuple(
    place
    for place in ("runs.planned", "runs.read", "runs.commit.before", "runs.commit.after", *COMMIT)
    if place.split(".")[1] in {"planned", "read", "commit", "document", "resolve", "done", "won", "mirror"}
)


class FourSources:
    """Four folders, tracked by watermarks, into one table or into four."""

    def __init__(self, root: Path, *, tables: int) -> None:
        self.root = root
        self.expected: list[int] = []
        self._tables = [f"table{number}" for number in range(tables)]
        source = {"use_watermark": True, "checkpoint": {"interval_files": 1}}
        pipelines = {
            name: {
                "sources": {
                    each: {**source, "source_uri": f"data/{each}"} for each in SOURCES[at :: len(self._tables)]
                },
                "schema": {"fields": FIELDS},
                "sink": {"table_uri": name},
            }
            for at, name in enumerate(self._tables)
        }
        self.config = write_config(root / "tidegate.yml", {"pipelines": pipelines})

    def arrive(self, name: str, records: int = 5) -> None:
        for each in SOURCES:
            ids = range(len(self.expected), len(self.expected) + records)
            self.expected += ids
            path = self.root / "data" / each / "date=2026-01-28" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(json.dumps({"id": number}) + "\n" for number in ids))

    def assert_exactly_once(self) -> None:
        found: Counter[int] = Counter()
        for name in self._tables:
            rows = query(Location((self.root / name).as_uri()), "select id from t")
            found.update(row["id"] for row in rows)
        assert found == Counter(self.expected)


@pytest.mark.parametrize("tables", [1, 4])
@pytest.mark.parametrize(
    "place",
    chosen(REACHED, "runs.commit.before", "state.document.after", "state.commit.before", "state.commit.after"),
)
def test_a_kill_in_the_commit_of_one_of_four_sources_loses_nothing(
    workers: Workers, tmp_path: Path, place: str, tables: int
) -> None:
    lake = FourSources(tmp_path, tables=tables)
    lake.arrive("1.ndjson")
    assert workers.wait(workers.start({"config": str(lake.config)})) == FINE
    for number in range(2, 5):
        lake.arrive(f"{number}.ndjson")
    for nth in (3, 2):
        task = {"config": str(lake.config), "failpoints": f"{place}=kill@{nth}"}
        assert workers.wait(workers.start(task)) == KILLED
    assert workers.wait(workers.start({"config": str(lake.config)})) == FINE
    lake.assert_exactly_once()


@pytest.mark.parametrize("tables", [1, 4])
def test_two_processes_with_four_sources_each_bring_every_row_once(
    workers: Workers, tmp_path: Path, tables: int
) -> None:
    lake = FourSources(tmp_path, tables=tables)
    for number in range(1, 5):
        lake.arrive(f"{number}.ndjson")
    at_once = [workers.start({"config": str(lake.config)}) for _ in range(2)]
    assert [workers.wait(each) for each in at_once] == [FINE, FINE]
    lake.assert_exactly_once()
