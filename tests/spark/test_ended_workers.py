"""A file that ends the worker that reads it keeps nothing else from being ingested, and becomes a dead letter.

One Spark session for all of it, in a process of its own: see ``ended_workers.py``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tidegate
from spark.ended_workers import RUNS
from support.lake import Lake

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]

FAILPOINTS = "sink.file.before=kill~killing,sink.file.before=crash~crashing,sink.file.before=exhaust%1~greedy"
SCRIPT = Path(__file__).with_name("ended_workers.py")
KILLED = "ended the worker (it was killed or vanished, most often for lack of memory)"
CRASHED = "ended the worker (SIGSEGV, segmentation fault)"
KILLING = "date=2026-01-28/hour=11/killing.ndjson"
DEADLY = {
    KILLING: KILLED,
    "date=2026-01-28/hour=12/crashing.ndjson.gz": CRASHED,
    "date=2026-01-28/hour=12/greedy.ndjson": "ran out of memory while reading the file (sink.file.before)",
}


def deadly_in(name: str) -> dict[str, str]:
    """The files of a scenario that end workers, with the reasons."""
    return DEADLY if name == "watermark" else {KILLING: KILLED}


def lake_of(root: Path, name: str) -> Lake:
    """Good files around those that end workers."""
    attempts = {"max_attempts": RUNS[name], "use_watermark": name != "set"}
    lake = Lake(root / name, attempts, settings={"spark": {"master": "local[2]"}})
    if name == "staged":
        lake.pipeline_settings = {"delivery": "staged"}
    if name == "transform":
        lake.pipeline_settings = {"transform": {"sql": "select * from source"}}
    for hour in (11, 12):
        for number in range(2):
            lake.arrive(f"date=2026-01-28/hour={hour}/{number}.ndjson.gz")
    for path in deadly_in(name):
        lake.write(path, '{"id": 1000}\n')
    assert lake.config
    return lake


class Ran:
    """The lakes, and what their runs told."""

    def __init__(self, folder: Path) -> None:
        self.lakes = {name: lake_of(folder, name) for name in RUNS}
        command = [sys.executable, str(SCRIPT), str(folder)]
        env = {**os.environ, "TIDEGATE_FAILPOINTS": FAILPOINTS}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=280, cwd=folder)
        assert done.returncode == 0, done.stderr[-3000:]
        self.told: dict[str, list[dict[str, Any]]] = json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return Ran(tmp_path_factory.mktemp("ended"))


def test_the_first_run_reads_everything_else_and_counts_an_attempt(ran: Ran) -> None:
    first = ran.told["watermark"][0]
    assert (first["error"], first["rows"], first["dead"], first["ok"]) == (None, 40, 0, False)
    assert first["failed"] == {path: [1, reason] for path, reason in DEADLY.items()}


@pytest.mark.parametrize("name", RUNS)
def test_after_max_attempts_they_are_dead_letters_and_every_other_row_is_there_once(ran: Ran, name: str) -> None:
    last, lake, deadly = ran.told[name][-1], ran.lakes[name], deadly_in(name)
    assert (last["error"], last["dead"], last["failed"], last["ok"]) == (None, len(deadly), {}, False)
    lake.assert_exactly_once()
    often = "failed once" if RUNS[name] == 1 else f"failed {RUNS[name]} times"
    letters = {each.file: each.reason for each in tidegate.list_letters(lake.config, "events")}
    assert letters == {path: f"{often}: {reason}" for path, reason in deadly.items()}
    assert {each.file for each in tidegate.files(lake.config, "events").files if each.given_up} == set(deadly)


@pytest.mark.parametrize("name", RUNS)
def test_they_hold_nothing_up_afterwards(ran: Ran, name: str) -> None:
    (source,) = tidegate.status(ran.lakes[name].config)
    assert (source.backlog_files, source.failed, source.open_letters) == (0, (), len(deadly_in(name)))
