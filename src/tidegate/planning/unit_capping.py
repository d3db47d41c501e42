"""Who runs when more work units could run than may: those that never succeeded first, then the oldest.

A work unit that failed waits longer after each failure, then comes after those that were tried longer ago or never.
Half of the places, and a single one in every second run, are kept for units that succeeded before, so that broken ones
starve nobody. Places that nobody else wants are given away.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tidegate.planning.unit_plan import WhySkipped, WorkUnit
from tidegate.watermarks.unit_state import Failure

LONGEST_WAIT = 64


class Candidate(NamedTuple):
    """Work units of partition ``number`` that are decided alike; ``succeeded``: their units, in any partition."""

    number: int
    units: tuple[str, ...]
    pattern: WorkUnit
    failure: Failure | None = None
    succeeded: bool = False

    def waits(self, run: int) -> bool:
        """Whether they wait in run number ``run``, because they failed."""
        return self.failure is not None and run <= self._waits_until

    @property
    def _waits_until(self) -> int:
        return 0 if self.failure is None else self.last_tried + min(2**self.failure.count, LONGEST_WAIT)

    @property
    def last_tried(self) -> int:
        """The run in which they failed for the last time."""
        return 0 if self.failure is None else self.failure.run

    @property
    def urgency(self) -> tuple[bool, int, int, int]:
        """Never succeeded first, the oldest partition first; then the oldest high watermark; then who failed less."""
        before, failures = self.pattern.before, self.pattern.failures
        return (before is not None, self.pattern.start if before is None else before, failures, self.number)


def capped(
    candidates: Iterable[Candidate], cap: int, run: int
) -> tuple[list[Candidate], list[tuple[Candidate, WhySkipped]]]:
    """At most ``cap`` work units that run, and the others with the reason why they do not."""
    ordered = sorted(candidates, key=lambda each: each.urgency)
    waiting = [each for each in ordered if each.waits(run)]
    ready = [each for each in ordered if not each.waits(run)]
    proven = [each for each in ready if each.succeeded and each.failure is None]
    others = [each for each in ready if not (each.succeeded and each.failure is None)]
    others.sort(key=lambda each: each.last_tried)
    places = _Places(cap)
    proven_left = places.fill(proven, cap // 2 or 1 - run % 2)
    others_left = places.fill(others, cap)
    proven_left = places.fill(proven_left, cap)
    waiting_left = places.fill(sorted(waiting, key=lambda each: each._waits_until), cap)
    left = [(each, WhySkipped.CAPPED) for each in (*proven_left, *others_left)]
    return places.taken, left + [(each, WhySkipped.WAITING) for each in waiting_left]


class _Places:
    """The places of one run, and who has them."""

    def __init__(self, free: int) -> None:
        self.free = free
        self.taken: list[Candidate] = []

    def fill(self, candidates: list[Candidate], most: int) -> list[Candidate]:
        """Give at most ``most`` places to the first of them, and return those that got none."""
        left: list[Candidate] = []
        most = min(most, self.free)
        for each in candidates:
            fitting = min(most, len(each.units))
            if fitting:
                self.taken.append(each._replace(units=each.units[:fitting]))
                self.free -= fitting
                most -= fitting
            if fitting < len(each.units):
                left.append(each._replace(units=each.units[fitting:]))
        return left
