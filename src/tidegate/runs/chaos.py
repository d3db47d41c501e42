"""``tidegate chaos``: a bounded, seeded experiment that tries to make Tidegate lose or double a row.

It needs an empty place on any storage that Tidegate can write to. There it makes rounds, each with a source and a
table of its own: inside this process with failures at failpoints (:mod:`chaos_round`), then with worker processes
that are killed (:mod:`chaos_kills`). What is right is removed; what is wrong is kept and told precisely.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from tidegate import failpoints
from tidegate.chaos_report import ChaosLimits, ChaosProgress, ChaosReport
from tidegate.errors import TidegateError
from tidegate.runs.chaos_faults import Faults, Tally
from tidegate.runs.chaos_round import NotExactlyOnce, Round
from tidegate.specs import Location
from tidegate.storage.opening import open_store, split_uri

if TYPE_CHECKING:
    from collections.abc import Iterator

FAILURES_PER_ROUND = 150
KILLS_PER_ROUND = 25
SPARK_KILLS_PER_ROUND = 5

Show = Callable[[ChaosProgress], None]


class _Playable(Protocol):
    def play(self, number: int, over: Callable[[], bool]) -> None: ...


@dataclass(slots=True)
class Chaos:
    """The experiment at ``place``; ``seed`` decides everything that happens inside this process."""

    place: Location
    limits: ChaosLimits
    seed: int
    keep: bool = False
    show: Show = lambda progress: None
    _tally: Tally = field(default_factory=Tally)
    _started: float = field(default_factory=time.monotonic)

    def play(self) -> ChaosReport:
        """All rounds; ends at the first finding. Raises ``TidegateError`` for a place that is not empty."""
        self._check_empty()
        return self._report(self._in_process() and self._with_kills() and self._with_spark())

    def _in_process(self) -> bool:
        faults = Faults(self._tally)

        def next_round(place: Location, seed: str) -> Round:
            return Round(place, seed, faults, self._tally)

        limits = self.limits
        share = 0.6 if limits.kills or limits.spark_kills else 1.0
        with _armed(faults):
            return self._rounds(
                "failures", lambda: self._tally.injected, limits.failures, FAILURES_PER_ROUND, share, next_round
            )

    def _with_kills(self) -> bool:
        from tidegate.runs.chaos_kills import KillRound

        def next_round(place: Location, seed: str) -> KillRound:
            return KillRound(place, seed, self._tally)

        share = 0.85 if self.limits.spark_kills else 1.0
        return self._rounds("kills", lambda: self._tally.kills, self.limits.kills, KILLS_PER_ROUND, share, next_round)

    def _with_spark(self) -> bool:
        from tidegate.runs.chaos_spark import SparkRound

        def next_round(place: Location, seed: str) -> SparkRound:
            return SparkRound(place, seed, self._tally)

        return self._rounds(
            "kills with Spark",
            lambda: self._tally.spark_kills,
            self.limits.spark_kills,
            SPARK_KILLS_PER_ROUND,
            1.0,
            next_round,
        )

    def _rounds(
        self,
        what: str,
        done: Callable[[], int],
        wanted: int,
        per_round: int,
        share: float,
        next_round: Callable[[Location, str], _Playable],
    ) -> bool:
        """Rounds until ``wanted`` is reached or that share of the time is over; False at a finding."""

        def over() -> bool:
            self._tell(what, done(), wanted)
            return self._seconds >= self.limits.minutes * 60 * share

        while done() < wanted and not over():
            number = self._tally.rounds + 1
            place = Location(f"{self.place.uri}/round-{number:04d}", self.place.options)
            try:
                next_round(place, f"{self.seed}-{number}").play(min(per_round, wanted - done()), over)
            except NotExactlyOnce as error:
                self._tally.problems += [f"round {number} of seed {self.seed}: {line}" for line in error.problems]
                return False
            if not self.keep:
                self._remove(place)
        if wanted:
            self._tell(what, done(), wanted)
        return True

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._started

    def _tell(self, what: str, done: int, wanted: int) -> None:
        self.show(ChaosProgress(what, done, wanted, self._tally.commits, self._tally.rows, self._seconds))

    def _check_empty(self) -> None:
        first = next(iter(open_store(self.place).list()), None)
        if first is not None:
            raise TidegateError(
                f"{self.place.uri} is not empty: it holds {first.path}",
                "name a place that is empty or does not exist; chaos makes tables and files of its own there",
            )

    def _remove(self, place: Location) -> None:
        if split_uri(place.uri)[0] == "file":
            shutil.rmtree("/" + split_uri(place.uri)[2], ignore_errors=True)
            return
        store = open_store(place)
        for each in list(store.list()):
            store.delete(each.path)

    def _report(self, ok: bool) -> ChaosReport:
        tally, limits = self._tally, self.limits
        finished = (
            tally.injected >= limits.failures
            and tally.kills >= limits.kills
            and tally.spark_kills >= limits.spark_kills
        )
        return ChaosReport(
            uri=self.place.uri,
            seed=self.seed,
            ok=ok,
            finished=finished,
            failures=tally.injected,
            kills=tally.kills,
            spark_kills=tally.spark_kills,
            places=tally.places(),
            rival_passes=tally.happened["rival"],
            foreign_appends=tally.happened["append"],
            optimizes=tally.happened["optimize"],
            rounds=tally.rounds,
            passes=tally.passes,
            commits=tally.commits,
            contested=tally.contested,
            files=tally.files,
            rows=tally.rows,
            comparisons=tally.comparisons,
            lost=tally.lost,
            doubled=tally.doubled,
            problems=tuple(tally.problems),
            seconds=self._seconds,
        )


@contextmanager
def _armed(faults: Faults) -> Iterator[None]:
    failpoints.arm_by(faults)
    try:
        yield
    finally:
        failpoints.arm("")


def any_seed() -> int:
    """A seed for an experiment whose seed nobody named."""
    return random.SystemRandom().randrange(1_000_000_000)
