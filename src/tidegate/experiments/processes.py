"""Rounds with real processes: several work on one scratch table at once, and most of them are killed.

Each reads three sources side by side, which share the files and the table.

Half of the kills hit a failpoint, half a random moment; with Spark they hit the driver first and everything else right
after. In between files arrive, and others append and compact. The workers' course depends on the machine, so a seed
repeats the plan of a round, not its course.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from tidegate import failpoints
from tidegate.experiments.rounds import (
    ANYWHERE,
    COLUMNS,
    NOW,
    RUN_AGAIN,
    SHARES,
    NotExactlyOnce,
    Runner,
    ScratchRound,
    scratch_project,
)
from tidegate.experiments.workers import Workers, kill_session
from tidegate.failpoints import VARIABLE
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop
from tidegate.specs.locations import Location, Options

TARGET = f"{__name__}:work"


def work(task: Mapping[str, Any]) -> int:
    """Run the passes of a worker: 0 if all succeeded, else the code of the error, which goes to standard error."""
    failpoints.arm(task["failpoints"])
    place = Location(task["uri"], Options(task["options"]))
    project = scratch_project(place, columns=task["columns"], checkpoint_every=task["checkpoint_every"], shares=SHARES)
    running = Loop(project, InProcessEngine(), 2, clock=lambda: NOW)
    for _ in range(task["passes"]):
        for source in running.once(project.pipelines).sources:
            if source.error or source.failed:
                print(source.error or source.failed, file=sys.stderr)
                return source.exit_code or 1
    return 0


PASSES = 3
FIRST_LIFE, SHORTEST_LIFE, LONGEST_LIFE = 0.4, 0.1, 5.0


class KillRound(ScratchRound):
    """A scratch table and the processes that die over it."""

    title = "kills"
    counter = "kills"
    most = 25
    steps_per_comparison = 8
    _columns = 0
    _life_secs = FIRST_LIFE

    @contextmanager
    def _stage(self) -> Iterator[None]:
        with Workers(TARGET) as self._workers:
            yield

    def _step(self, left: int) -> None:
        """Start some workers at once; each dies, or finishes before that."""
        number = min(self._chance.randint(1, 3), left)
        self._evidence.arrivals.arrive(self._chance.randint(1, 4))
        started: list[tuple[int, str | None]] = []
        for _ in range(number):
            place = self._chance.choice(ANYWHERE) if self._chance.random() < 0.5 else None
            started.append((self._workers.start(self._task(place)), place))
        for pid, place in started:
            if place is None:
                time.sleep(self._chance.random() * self._life_secs)
                kill_session(pid)
        for pid, place in started:
            self._count(self._workers.wait(pid), place)

    def _task(self, place: str | None) -> dict[str, Any]:
        # These failpoints are reached only if the configuration has a column that the table lacks.
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

    def _count(self, code: int, place: str | None) -> None:
        killed = code == -signal.SIGKILL
        if place is None:
            # Longer after a kill, shorter after a finish: on any machine, kills then fall on every part of a pass.
            life = self._life_secs * (1.15 if killed else 0.75)
            self._life_secs = min(max(life, SHORTEST_LIFE), LONGEST_LIFE)
        if killed:
            self._tally.kills += 1
            if place is not None:
                self._tally.failures[place, "kill"] += 1
        elif code not in (0, *RUN_AGAIN):
            raise NotExactlyOnce([f"a worker that nobody killed ended with {code}: {self._workers.last_lines()}"])

    def _settle(self) -> None:
        """Append and compact as others do, complete a whole pass, and let both readers compare."""
        if self._evidence.table_exists:
            self._evidence.append(2)
            self._evidence.compact()
        project = scratch_project(self._place, columns=self._columns, shares=SHARES)
        Runner(project, self._tally, timedelta(0)).bring_everything()
        self._evidence.compare()


LIFE = (4.0, 16.0)
LONGEST_RUN = 180.0
# Kills hit the driver first; and this round never adds a column, so those places are not reached.
OF_THE_DRIVER = tuple(
    place for place in ANYWHERE if place.startswith(("runs.", "state.")) and not place.startswith("state.columns")
)


class SparkRound(ScratchRound):
    """A scratch table that ``tidegate run`` writes with its own configuration file."""

    title = "kills with Spark"
    counter = "spark_kills"
    most = 5
    steps_per_comparison = most + 1  # a comparison takes a whole run: one at the end

    @contextmanager
    def _stage(self) -> Iterator[None]:
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / "chaos.yml"
            # Before anything is written: the storage options may hold keys.
            config.touch(mode=0o600)
            config.write_text(json.dumps(self._project()))
            self._command = [sys.executable, "-m", "tidegate", "run", str(config), "-q"]
            yield

    def _project(self) -> dict[str, object]:
        options = {"storage_options": dict(self._place.options)} if self._place.options else {}
        fields = [{"name": "id", "type": "int64", "nullable": False}, {"name": "text", "type": "string"}]
        source = {"source_uri": f"{self._place.uri}/source", "use_watermark": True, "poll_interval_secs": 1}
        pipeline = {
            "sources": {name: {**source, **options, "pattern": glob} for name, glob in SHARES.items()},
            "schema": {"fields": fields},
            "sink": {"table_uri": f"{self._place.uri}/table", **options},
        }
        return {"pipelines": {"chaos": pipeline}, "global": {"poll_jitter_secs": 0}, "spark": {"master": "local[2]"}}

    def _step(self, left: int) -> None:
        """Let a run live for a while, then kill all its processes."""
        self._evidence.arrivals.arrive(self._chance.randint(2, 5))
        place = self._chance.choice(OF_THE_DRIVER) if self._chance.random() < 0.5 else None
        life = self._chance.uniform(*LIFE)
        run = self._start(place)
        try:
            # A run may never reach its failpoint; then it dies at a random moment after all.
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

    def _start(self, place: str | None) -> subprocess.Popen[bytes]:
        armed = {VARIABLE: f"{place}=kill"} if place else {}
        quiet = subprocess.DEVNULL
        return subprocess.Popen(
            [*self._command, "--continuous"],
            env=os.environ | armed,
            stdout=quiet,
            stderr=quiet,
            stdin=quiet,
            # So that Java and its Python workers can be killed right after the driver.
            start_new_session=True,
        )

    def _settle(self) -> None:
        done = subprocess.run(self._command, capture_output=True, text=True, timeout=LONGEST_RUN)
        if done.returncode:
            raise NotExactlyOnce([f"a run to which nothing happened did not succeed: {done.stderr[-2000:]}"])
        self._evidence.compare()
