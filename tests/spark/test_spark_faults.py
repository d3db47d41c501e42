"""Faults of a cluster: tasks that raise, workers and executors that are killed, two copies of one task.

One cluster for all of them; see ``cluster_faults.py`` for what befalls which task.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.lake import Lake

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

SCRIPT = Path(__file__).with_name("cluster_faults.py")
SURVIVED = ("raised", "worker-killed", "speculated", "executor-lost")
ROWS = 80


class Cluster:
    """The lakes that the cluster filled, and what it told of each."""

    def __init__(self, folder: Path) -> None:
        self.lakes = {
            name: Lake(folder / name, {"checkpoint": {"interval_files": 2}}) for name in (*SURVIVED, "given-up")
        }
        for lake in self.lakes.values():
            for number in range(8):
                lake.arrive(f"date=2026-01-28/hour=12/{number}.ndjson.gz")
            assert lake.config
        command = [sys.executable, str(SCRIPT), str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=500, cwd=folder)
        assert done.returncode == 0, done.stderr[-3000:]
        self.told: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])

    def orphans(self, name: str) -> set[str]:
        """Parquet files in the table's folder that no commit names."""
        from deltalake import DeltaTable

        table = self.lakes[name].root / "lake" / "events"
        named = set(DeltaTable(str(table)).file_uris()) if (table / "_delta_log").exists() else set()
        assert all(Path(each.removeprefix("file://")).exists() for each in named), "a file that is named is there"
        return {path.name for path in table.glob("*.parquet")} - {Path(each).name for each in named}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    return Cluster(tmp_path_factory.mktemp("cluster"))


@pytest.mark.parametrize("name", SURVIVED)
def test_every_row_is_there_once_and_what_lost_attempts_wrote_is_named_nowhere(cluster: Cluster, name: str) -> None:
    told = cluster.told[name]
    assert (told["error"], told["rows"]) == (None, ROWS)
    assert "0-1" in told["attempts"] or "1-1" in told["attempts"], "no task was tried a second time"
    assert cluster.orphans(name), "the lost attempt had written a file"
    cluster.lakes[name].assert_exactly_once()


def test_the_executor_was_killed_while_tasks_were_reading(cluster: Cluster) -> None:
    assert "executor-killed" in cluster.told["executor-lost"]["attempts"]


def test_a_task_that_always_fails_ends_the_run_and_the_next_one_completes_it(cluster: Cluster) -> None:
    told, lake = cluster.told["given-up"], cluster.lakes["given-up"]
    assert "Spark gave up on a task: " in told["error"]
    assert any(each.endswith("-2") for each in told["attempts"])
    assert lake.ids() == []
    assert cluster.orphans("given-up")
    assert lake.run().ok
    lake.assert_exactly_once()
