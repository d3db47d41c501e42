"""Rounds with real processes: several at once work on one scratch table, and most of them are killed.

Half of the kills hit a failpoint, half a random moment of what turns out to be a worker's life. In between files
arrive, and others append and compact. What the workers do depends on the machine, so a seed repeats the plan of a
round, not its course.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from tidegate.runs.chaos_faults import ANYWHERE, COLUMNS, Tally
from tidegate.runs.chaos_round import RUN_AGAIN, Evidence, NotExactlyOnce, Runner
from tidegate.runs.chaos_source import scratch_project
from tidegate.runs.chaos_worker import TARGET
from tidegate.runs.forking import Workers, kill_session
from tidegate.specs import Location
from tidegate.state.strangers import append_rows, compact

LIVES_PER_COMPARISON = 8
PASSES = 3
FIRST_LIFE, SHORTEST_LIFE, LONGEST_LIFE = 0.4, 0.1, 5.0


class KillRound:
    """A scratch table below ``place`` and the processes that die over it."""

    def __init__(self, place: Location, seed: str, tally: Tally) -> None:
        self._place, self._tally = place, tally
        self._chance = random.Random(seed)
        self._evidence = Evidence(place, self._chance, tally)
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
            append_rows(self._evidence.table, pa.table({"id": ids, "text": ["foreign"] * len(ids)}))
            compact(self._evidence.table)
            self._tally.happened.update(append=1, optimize=1)
        project = scratch_project(self._place, columns=self._columns)
        Runner(project, self._tally, timedelta(0)).bring_everything()
        self._evidence.compare()
