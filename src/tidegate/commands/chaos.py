"""Chaos: a bounded, seeded experiment on the user's own storage that tries to make Tidegate lose or double a row.

It needs an empty place on any storage that Tidegate can write to. There it plays rounds, each with a source and a
table of its own: first inside this process with failures at failpoints (``rounds``), then with worker processes that
are killed (``processes``). Correct tables are removed; wrong ones are kept and reported.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tidegate.errors import ConfigError, StorageError, StorageUnavailable
from tidegate.experiments.processes import KillRound, SparkRound
from tidegate.experiments.rounds import FaultCounts, NotExactlyOnce, Round, ScratchRound
from tidegate.reports.chaos import ChaosLimits, ChaosProgress, ChaosReport
from tidegate.specs.locations import Location, Options
from tidegate.storage.options import absolute_uri, check_spelling, split_uri
from tidegate.storage.stores import open_store


def chaos(
    uri: str,
    *,
    failures: int = 1000,
    kills: int = 10,
    spark_kills: int = 0,
    seed: int | None = None,
    minutes: float = 10.0,
    keep: bool = False,
    options: Mapping[str, str] | None = None,
    show: Callable[[ChaosProgress], None] = lambda progress: None,
) -> ChaosReport:
    """Try to make Tidegate lose or double a row, in scratch tables below ``uri``, which must be empty.

    Ends after that many failures and killed processes, or after ``minutes``. ``options`` are the storage options of
    ``uri``; ``keep`` leaves all tables there. Do not use beside other runs in this process.
    """
    check_spelling(uri)
    bound = Location(absolute_uri(uri, Path.cwd()), Options(options or {}))
    limits = ChaosLimits(failures, kills, spark_kills, minutes)
    return Chaos(
        bound, limits, random.SystemRandom().randrange(1_000_000_000) if seed is None else seed, keep, show
    ).play()


_COUNTS = (
    *("kills", "spark_kills", "rounds", "passes", "commits", "contested"),
    *("files", "rows", "letters", "comparisons", "lost", "doubled"),
)
Show = Callable[[ChaosProgress], None]


@dataclass(slots=True)
class Chaos:
    """The experiment at ``place``; ``seed`` decides everything inside this process."""

    place: Location
    limits: ChaosLimits
    seed: int
    keep: bool = False
    show: Show = lambda progress: None
    _tally: FaultCounts = field(default_factory=FaultCounts)
    _started: float = field(default_factory=time.monotonic)

    def play(self) -> ChaosReport:
        """Play all rounds, up to the first finding. Raises ``ConfigError`` for a place that is not empty."""
        self._check_empty()
        limits = self.limits
        parts: tuple[tuple[type[ScratchRound], int, float], ...] = (
            # Shares of the time: processes and sessions take seconds to start, and must get their turn on a slow
            # storage, too.
            (Round, limits.failures, 0.6 if limits.kills or limits.spark_kills else 1.0),
            (KillRound, limits.kills, 0.85 if limits.spark_kills else 1.0),
            (SparkRound, limits.spark_kills, 1.0),
        )
        return self._report(all(self._rounds(*part) for part in parts))

    def _rounds(self, kind: type[ScratchRound], wanted: int, until: float) -> bool:
        """Play rounds until ``wanted`` is done or the time is up; False after a finding."""

        def count_done() -> int:
            return int(getattr(self._tally, kind.counter))

        def over() -> bool:
            tally = self._tally
            self.show(ChaosProgress(kind.title, count_done(), wanted, tally.commits, tally.rows, self._seconds))
            return self._seconds >= self.limits.minutes * 60 * until

        while count_done() < wanted and not over():
            number = self._tally.rounds + 1
            place = Location(f"{self.place.uri}/round-{number:04d}", self.place.options)
            try:
                kind(place, f"{self.seed}-{number}", self._tally).play(min(kind.most, wanted - count_done()), over)
            except NotExactlyOnce as error:
                return self._record_problems(number, error.problems)
            except (StorageError, OSError) as error:
                raise StorageUnavailable(
                    f"the experiment stopped in round {number} of seed {self.seed}: {error}",
                    f"look at the storage; {self.place.uri} keeps what is there",
                ) from error
            # An error that no injected failure explains is a finding as well, and the seed repeats it.
            except Exception as error:
                return self._record_problems(
                    number, [f"unexpected {type(error).__name__}: {error}", f"see {place.uri}"]
                )
            # Only correct tables: a wrong one is the evidence.
            if not self.keep:
                self._remove(place)
        if wanted:
            over()
        return True

    def _record_problems(self, number: int, problems: list[str]) -> bool:
        self._tally.problems += [f"round {number} of seed {self.seed}: {line}" for line in problems]
        return False

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._started

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
            places=tally.places(),
            rival_passes=tally.happened["rival"],
            foreign_appends=tally.happened["append"],
            optimizes=tally.happened["optimize"],
            **{name: getattr(tally, name) for name in _COUNTS},
            problems=tuple(tally.problems),
            seconds=self._seconds,
        )
