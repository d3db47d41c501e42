"""Rounds with real processes: several work on one scratch table at once, and most of them are killed.

Half of the kills hit a failpoint, half a random moment of what turns out to be a worker's life. In between files
arrive, and others append and compact. What the workers do depends on the machine, so a seed repeats the plan of a
round, not its course.

Half of the kills hit the driver at a failpoint and everything else right after it, half hit all at a random moment.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from tidegate import failpoints
from tidegate.experiments.rounds import (
    ANYWHERE,
    COLUMNS,
    NOW,
    RUN_AGAIN,
    FaultCounts,
    NotExactlyOnce,
    RoundEvidence,
    Runner,
    scratch_project,
)
from tidegate.experiments.workers import Workers, kill_session
from tidegate.failpoints import VARIABLE
from tidegate.protocol.maintenance import append_foreign_rows, compact_as_stranger
from tidegate.runs.engine import InProcessLane
from tidegate.runs.loop import Running
from tidegate.specs.locations import Location, Options

TARGET = f"{__name__}:work"


def work(task: Mapping[str, Any]) -> int:
    """0 if every pass succeeded, else the code of what went wrong, which goes to standard error."""
    failpoints.arm(task["failpoints"])
    place = Location(task["uri"], Options(task["options"]))
    project = scratch_project(place, columns=task["columns"], checkpoint_every=task["checkpoint_every"])
    running = Running(project, InProcessLane(), 2, clock=lambda: NOW)
    for _ in range(task["passes"]):
        for source in running.once(project.pipelines).sources:
            if source.error or source.failed:
                print(source.error or source.failed, file=sys.stderr)
                return source.exit_code or 1
    return 0


LIVES_PER_COMPARISON = 8
PASSES = 3
FIRST_LIFE, SHORTEST_LIFE, LONGEST_LIFE = 0.4, 0.1, 5.0


class KillRound:
    """A scratch table below ``place`` and the processes that die over it."""

    def __init__(self, place: Location, seed: str, tally: FaultCounts) -> None:
        self._place, self._tally = place, tally
        self._chance = random.Random(seed)
        self._evidence = RoundEvidence(place, self._chance, tally)
        self._columns = 0
        self._life_secs = FIRST_LIFE

    def play(self, kills: int, over: Callable[[], bool]) -> None:
        """Go on until so many were killed, or it is over; raises :class:`NotExactlyOnce`."""
        self._tally.rounds += 1
        wanted = self._tally.kills + kills
        lives = 0
        with Workers(TARGET) as workers:
            while self._tally.kills < wanted and not over():
                self._life(workers, min(self._chance.randint(1, 3), wanted - self._tally.kills))
                lives += 1
                if lives % LIVES_PER_COMPARISON == 0:
                    self._settle()
        self._settle()
        self._evidence.close()

    def _life(self, workers: Workers, number: int) -> None:
        """Some workers start at once and die, or are through before that."""
        self._evidence.arrivals.arrive(self._chance.randint(1, 4))
        started: list[tuple[int, str | None]] = []
        for _ in range(number):
            place = self._chance.choice(ANYWHERE) if self._chance.random() < 0.5 else None
            started.append((workers.start(self._task(place)), place))
        for pid, place in started:
            if place is None:
                time.sleep(self._chance.random() * self._life_secs)
                kill_session(pid)
        for pid, place in started:
            self._count(workers, workers.wait(pid), place)
        self._evidence.look()

    def _task(self, place: str | None) -> dict[str, Any]:
        if place in COLUMNS and self._evidence.table_exists:
            self._columns = min(self._columns + 1, 8)
        nth = self._chance.choice((1, 1, 1, 2))
        return {
            "uri": self._place.uri,
            "options": dict(self._place.options),
            "columns": self._columns,
            "checkpoint_every": 2,
            "passes": PASSES,
            "failpoints": f"{place}=kill@{nth}" if place else "",
        }

    def _count(self, workers: Workers, code: int, place: str | None) -> None:
        killed = code == -signal.SIGKILL
        if place is None:
            life = self._life_secs * (1.15 if killed else 0.75)
            self._life_secs = min(max(life, SHORTEST_LIFE), LONGEST_LIFE)
        if killed:
            self._tally.kills += 1
            if place is not None:
                self._tally.failures[place, "kill"] += 1
        elif code not in (0, *RUN_AGAIN):
            raise NotExactlyOnce([f"a worker that nobody killed ended with {code}: {workers.said()}"])

    def _settle(self) -> None:
        """Others append and compact, a whole pass brings everything; then both readers compare."""
        if self._evidence.table_exists:
            import pyarrow as pa

            ids = self._evidence.arrivals.foreign(2)
            append_foreign_rows(self._evidence.table, pa.table({"id": ids, "text": ["foreign"] * len(ids)}))
            compact_as_stranger(self._evidence.table)
            self._tally.happened.update(append=1, optimize=1)
        project = scratch_project(self._place, columns=self._columns)
        Runner(project, self._tally, timedelta(0)).bring_everything()
        self._evidence.compare()


LIFE = (4.0, 16.0)
LONGEST_RUN = 180.0
OF_THE_DRIVER = tuple(
    place for place in ANYWHERE if place.startswith(("runs.", "state.")) and not place.startswith("state.columns")
)


class SparkRound:
    """A scratch table below ``place``, written by ``tidegate run`` with a configuration file of its own."""

    def __init__(self, place: Location, seed: str, tally: FaultCounts) -> None:
        self._place, self._tally = place, tally
        self._chance = random.Random(seed)
        self._evidence = RoundEvidence(place, self._chance, tally)

    def play(self, kills: int, over: Callable[[], bool]) -> None:
        """Go on until so many trees were killed, or it is over; raises :class:`NotExactlyOnce`."""
        self._tally.rounds += 1
        wanted = self._tally.spark_kills + kills
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / "chaos.yml"
            config.touch(mode=0o600)
            config.write_text(json.dumps(self._config()))
            while self._tally.spark_kills < wanted and not over():
                self._life(config)
            self._settle(config)
        self._evidence.close()

    def _config(self) -> dict[str, object]:
        options = {"storage_options": dict(self._place.options)} if self._place.options else {}
        fields = [{"name": "id", "type": "int64", "nullable": False}, {"name": "text", "type": "string"}]
        source = {"source_uri": f"{self._place.uri}/source", "use_watermark": True, "poll_interval_secs": 1}
        pipeline = {
            "source": {**source, **options},
            "schema": {"fields": fields},
            "sink": {"table_uri": f"{self._place.uri}/table", **options},
        }
        return {"pipelines": {"chaos": pipeline}, "global": {"poll_jitter_secs": 0}, "spark": {"master": "local[2]"}}

    def _life(self, config: Path) -> None:
        self._evidence.arrivals.arrive(self._chance.randint(2, 5))
        place = self._chance.choice(OF_THE_DRIVER) if self._chance.random() < 0.5 else None
        life = self._chance.uniform(*LIFE)
        run = self._start(config, place)
        try:
            run.wait(life if place is None else 3 * LIFE[1])
        except subprocess.TimeoutExpired:
            place = None
        finally:
            kill_session(run.pid)
        if run.wait() >= 0:
            raise NotExactlyOnce([f"`tidegate run` ended by itself with {run.returncode}"])
        self._tally.spark_kills += 1
        if place is not None:
            self._tally.failures[place, "kill"] += 1
        self._evidence.look()

    def _start(self, config: Path, place: str | None) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tidegate", "run", str(config), "--continuous", "-q"]
        armed = {VARIABLE: f"{place}=kill"} if place else {}
        quiet = subprocess.DEVNULL
        return subprocess.Popen(
            command, env=os.environ | armed, stdout=quiet, stderr=quiet, stdin=quiet, start_new_session=True
        )

    def _settle(self, config: Path) -> None:
        command = [sys.executable, "-m", "tidegate", "run", str(config), "-q"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_RUN)
        if done.returncode:
            raise NotExactlyOnce([f"a run to which nothing happened did not succeed: {done.stderr[-2000:]}"])
        self._evidence.compare()
