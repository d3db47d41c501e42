"""Rounds with ``tidegate run`` on Spark: the whole tree of processes (driver, Java, Python workers) is killed.

Half of the kills hit the driver at a failpoint and everything else right after it, half hit all at a random moment.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tidegate.failpoints import VARIABLE
from tidegate.runs.chaos_faults import ANYWHERE, Tally
from tidegate.runs.chaos_round import Evidence, NotExactlyOnce
from tidegate.runs.forking import kill_session
from tidegate.specs import Location

LIFE = (4.0, 16.0)
LONGEST_RUN = 180.0
OF_THE_DRIVER = tuple(
    place for place in ANYWHERE if place.startswith(("runs.", "state.")) and not place.startswith("state.columns")
)


class SparkRound:
    """A scratch table below ``place``, written by ``tidegate run`` with a configuration file of its own."""

    def __init__(self, place: Location, seed: str, tally: Tally) -> None:
        self._place, self._tally = place, tally
        self._chance = random.Random(seed)
        self._evidence = Evidence(place, self._chance, tally)

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
