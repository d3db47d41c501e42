"""The plan of a source of work units: which run, over which range, and why the others do not.

All moments are milliseconds since 1970, all ranges half-open. A plan may have a hundred thousand named tuples, which
are faster to make than frozen dataclasses.

A work unit that failed waits longer after each failure, then comes after those tried longer ago or never. Half of the
places (of a single place, every second run) are kept for units that succeeded before, so broken ones starve nobody.
Unused places go to the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from tidegate.core.units.state import Failure
from tidegate.errors import WatermarkError

Range = tuple[int, int]


class TimePartition(NamedTuple):
    """``[start, end)`` of the planned range; ``nominal_end`` is where it will end once it is full.

    Without a nominal end it is never finished.
    """

    start: int
    end: int
    nominal_end: int | None


class WhyRun(StrEnum):
    """Why a work unit runs."""

    FIRST = "first"
    NEW = "new"
    CATCH_UP = "catch_up"


class WhySkipped(StrEnum):
    """Why a work unit does not run.

    ``done``: its end is not above the cut-off of the job; ``grace_over``: it is unfinished, but below the cut-off, and
    catching up is off; ``abstinent``: it was read too recently; ``up_to_date``: read up to the end of the plan;
    ``waiting``: it failed before and waits its turn; ``capped``: more than ``parallelism_max``; ``retired``: the
    server does not know it.
    """

    DONE = "done"
    GRACE_OVER = "grace_over"
    ABSTINENT = "abstinent"
    UP_TO_DATE = "up_to_date"
    WAITING = "waiting"
    CAPPED = "capped"
    RETIRED = "retired"


class WorkUnit(NamedTuple):
    """One work unit that runs, for ``[low, high)``.

    ``start`` is its partition's nominal start and, with ``unit``, its identity. ``before`` is its high watermark so
    far. ``segments`` divide the range where the next read will begin. ``replaces``: the table may have rows of it.
    ``follows`` is the segment before them, whose rows stay.
    """

    unit: str
    start: int
    nominal_end: int | None
    low: int
    high: int
    why: WhyRun
    before: int | None = None
    segments: tuple[Range, ...] = ()
    replaces: bool = False
    failures: int = 0
    follows: Range | None = None


class RunGroup(NamedTuple):
    """Work units of one partition with the same decision; ``works`` yields them one by one."""

    units: tuple[str, ...]
    pattern: WorkUnit

    def works(self) -> Iterator[WorkUnit]:
        return (self.pattern._replace(unit=unit) for unit in self.units)


@dataclass(frozen=True, slots=True)
class SkippedUnits:
    """Work units skipped for one reason: all ``units`` in ``partitions`` consecutive partitions.

    ``first`` and ``last`` are the starts of the first and the last partition; ``eligible`` is the moment from which
    they may run again, if known.
    """

    why: WhySkipped
    units: tuple[str, ...]
    partitions: int
    first: int
    last: int
    eligible: int | None = None

    @property
    def count(self) -> int:
        return len(self.units) * self.partitions


@dataclass(frozen=True, slots=True)
class UnitPlan:
    """What a run would read of one source at ``position``: a pure value, equal arguments give equal plans.

    ``grid`` is what identities depend on (watermark, kind of partition, beginning). ``run`` is the number of a run with
    this plan. ``runs`` are in the order of execution. ``stale`` are units that only the state has. ``job_cutoff`` is
    None if nothing was read so far. ``settles``: partitions differ from before, and what was read in the old ones is
    not read again. ``notes`` belong to every run, ``remarks`` only explain the plan. ``repeats`` are units whose rows
    a run would append although the table has them.
    """

    pipeline: str
    source: str
    position: int
    now: datetime
    zone: str
    grid: str
    run: int
    partitions: tuple[TimePartition, ...] = ()
    units: tuple[str, ...] = ()
    input_version: str | None = None
    job_cutoff: int | None = None
    runs: tuple[RunGroup, ...] = ()
    skipped: tuple[SkippedUnits, ...] = ()
    stale: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    settles: bool = False
    remarks: tuple[str, ...] = ()
    repeats: tuple[str, ...] = ()

    @property
    def refusal(self) -> WatermarkError | None:
        """Why no run may carry this plan out: it would append rows that the table already has."""
        if not self.repeats:
            return None
        others = f" and {len(self.repeats) - 1:,} more" if len(self.repeats) > 1 else ""
        return WatermarkError(
            f"source {self.source!r}: {self.repeats[0]!r}{others} would be read again, but the request does not "
            "contain the time: the same rows would be appended once more",
            "set `replace: unit` (what is read replaces all rows of its unit) or `replace: none` (every read is kept, "
            "as history); until then nothing is read, and no row is deleted",
        )

    def works(self) -> Iterator[WorkUnit]:
        for group in self.runs:
            yield from group.works()

    @property
    def count(self) -> int:
        return sum(len(group.units) for group in self.runs)


LONGEST_WAIT = 64
"""Runs that a failing work unit waits at most: the wait doubles with every failure."""


class Candidate(NamedTuple):
    """Work units of partition ``number`` with the same decision; ``succeeded``: their units, in any partition."""

    number: int
    units: tuple[str, ...]
    pattern: WorkUnit
    failure: Failure | None = None
    succeeded: bool = False

    def waits(self, run: int) -> bool:
        """True if they wait in run number ``run`` because they failed."""
        return self.failure is not None and run <= self._waits_until

    @property
    def _waits_until(self) -> int:
        return 0 if self.failure is None else self.last_tried + min(2**self.failure.count, LONGEST_WAIT)

    @property
    def last_tried(self) -> int:
        return 0 if self.failure is None else self.failure.run

    @property
    def urgency(self) -> tuple[bool, int, int, int]:
        """Sort key: never succeeded first, by oldest partition; then oldest high watermark; then fewest failures."""
        before, failures = self.pattern.before, self.pattern.failures
        return (before is not None, self.pattern.start if before is None else before, failures, self.number)


def cap_runs(
    candidates: Iterable[Candidate], cap: int, run: int
) -> tuple[list[Candidate], list[tuple[Candidate, WhySkipped]]]:
    """Choose at most ``cap`` work units to run; return them, and the others with the reason why they wait."""
    ordered = sorted(candidates, key=lambda candidate: candidate.urgency)
    waiting = [candidate for candidate in ordered if candidate.waits(run)]
    ready = [candidate for candidate in ordered if not candidate.waits(run)]
    proven = [candidate for candidate in ready if candidate.succeeded and candidate.failure is None]
    others = [candidate for candidate in ready if not (candidate.succeeded and candidate.failure is None)]
    others.sort(key=lambda other: other.last_tried)
    places = _Places(cap)
    # Half of the places go to units that work: with few places, units that keep failing would take all of them.
    proven_left = places.fill(proven, cap // 2 or 1 - run % 2)
    others_left = places.fill(others, cap)
    proven_left = places.fill(proven_left, cap)
    waiting_left = places.fill(sorted(waiting, key=lambda candidate: candidate._waits_until), cap)
    left = [(candidate, WhySkipped.CAPPED) for candidate in (*proven_left, *others_left)]
    return places.taken, left + [(candidate, WhySkipped.WAITING) for candidate in waiting_left]


class _Places:
    """The places of one run, and the work units that got them."""

    def __init__(self, free: int) -> None:
        self.free = free
        self.taken: list[Candidate] = []

    def fill(self, candidates: list[Candidate], most: int) -> list[Candidate]:
        """Give at most ``most`` places to the first candidates, and return the others."""
        left: list[Candidate] = []
        most = min(most, self.free)
        for candidate in candidates:
            fitting = min(most, len(candidate.units))
            if fitting:
                self.taken.append(candidate._replace(units=candidate.units[:fitting]))
                self.free -= fitting
                most -= fitting
            if fitting < len(candidate.units):
                left.append(candidate._replace(units=candidate.units[fitting:]))
        return left
