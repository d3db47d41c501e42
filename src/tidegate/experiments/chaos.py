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
from tidegate.errors import ConfigError, StorageError, StorageUnavailable
from tidegate.experiments.rounds import FaultCounts, Faults, NotExactlyOnce, Round
from tidegate.reports.chaos import ChaosLimits, ChaosProgress, ChaosReport
from tidegate.specs.locations import Location
from tidegate.storage.options import split_uri
from tidegate.storage.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

FAILURES_PER_ROUND = 150
KILLS_PER_ROUND = 25
SPARK_KILLS_PER_ROUND = 5

Show = Callable[[ChaosProgress], None]


class _Playback(Protocol):
    def play(self, number: int, over: Callable[[], bool]) -> None: ...


@dataclass(frozen=True, slots=True)
class _Part:
    """One kind of chaos: how much of it is wanted, at most how much per round, and until which share of the time."""

    name: str
    wanted: int
    per_round: int
    until: float
    done: Callable[[], int]
    round_at: Callable[[Location, str], _Playback]


@dataclass(slots=True)
class Chaos:
    """The experiment at ``place``; ``seed`` decides everything that happens inside this process."""

    place: Location
    limits: ChaosLimits
    seed: int
    keep: bool = False
    show: Show = lambda progress: None
    _tally: FaultCounts = field(default_factory=FaultCounts)
    _started: float = field(default_factory=time.monotonic)

    def play(self) -> ChaosReport:
        """All rounds; ends at the first finding. Raises ``ConfigError`` for a place that is not empty."""
        self._check_empty()
        faults = Faults(self._tally)
        with _armed(faults):
            ok = self._rounds(self._failures(faults))
        return self._report(ok and self._rounds(self._kills()) and self._rounds(self._spark_kills()))

    def _failures(self, faults: Faults) -> _Part:
        limits, tally = self.limits, self._tally
        until = 0.6 if limits.kills or limits.spark_kills else 1.0

        def round_at(place: Location, seed: str) -> Round:
            return Round(place, seed, faults, tally)

        return _Part("failures", limits.failures, FAILURES_PER_ROUND, until, lambda: tally.injected, round_at)

    def _kills(self) -> _Part:
        from tidegate.experiments.processes import KillRound

        limits, tally = self.limits, self._tally
        until = 0.85 if limits.spark_kills else 1.0

        def round_at(place: Location, seed: str) -> KillRound:
            return KillRound(place, seed, tally)

        return _Part("kills", limits.kills, KILLS_PER_ROUND, until, lambda: tally.kills, round_at)

    def _spark_kills(self) -> _Part:
        from tidegate.experiments.processes import SparkRound

        limits, tally = self.limits, self._tally

        def round_at(place: Location, seed: str) -> SparkRound:
            return SparkRound(place, seed, tally)

        done = lambda: tally.spark_kills  # noqa: E731
        return _Part("kills with Spark", limits.spark_kills, SPARK_KILLS_PER_ROUND, 1.0, done, round_at)

    def _rounds(self, part: _Part) -> bool:
        """Rounds until all that is wanted is done or its time is over; False at a finding."""

        def over() -> bool:
            self._tell(part)
            return self._seconds >= self.limits.minutes * 60 * part.until

        while part.done() < part.wanted and not over():
            number = self._tally.rounds + 1
            place = Location(f"{self.place.uri}/round-{number:04d}", self.place.options)
            try:
                round_ = part.round_at(place, f"{self.seed}-{number}")
                round_.play(min(part.per_round, part.wanted - part.done()), over)
            except NotExactlyOnce as error:
                return self._found(number, error.problems)
            except (StorageError, OSError) as error:
                raise StorageUnavailable(
                    f"the experiment stopped in round {number} of seed {self.seed}: {error}",
                    f"look at the storage; {self.place.uri} keeps what is there",
                ) from error
            except Exception as error:
                return self._found(number, [f"unexpected {type(error).__name__}: {error}", f"see {place.uri}"])
            if not self.keep:
                self._remove(place)
        if part.wanted:
            self._tell(part)
        return True

    def _found(self, number: int, problems: list[str]) -> bool:
        self._tally.problems += [f"round {number} of seed {self.seed}: {line}" for line in problems]
        return False

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._started

    def _tell(self, part: _Part) -> None:
        tally = self._tally
        self.show(ChaosProgress(part.name, part.done(), part.wanted, tally.commits, tally.rows, self._seconds))

    def _check_empty(self) -> None:
        first = next(iter(open_store(self.place).list()), None)
        if first is not None:
            raise ConfigError(
                (
                    f"{self.place.uri} is not empty: it holds {first.path}; name a place that is empty or does not "
                    "exist: chaos makes tables and files of its own there",
                )
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
            letters=tally.letters,
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
