"""What goes wrong in an experiment, and the count of it: failures at failpoints, and what others do meanwhile.

A *turn* is one pass of one runner with the failures and the events that are to befall it. Turns nest: an event at a
failpoint of one runner may be a whole pass of another, with failures of its own. All happens in one thread, so that
a seed gives the same experiment again.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tidegate.chaos_report import PlaceFailures
from tidegate.failpoints import PLACES
from tidegate.observe import events

IN_PROCESS = ("raise", "lose")
COLD_START = ("state.cold_start.before", "state.cold_start.after")
COLUMNS = ("state.columns.before", "state.columns.after")
ANYWHERE = tuple(
    place for place in PLACES if place not in (*COLD_START, "state.debt.before") and not place.startswith("staging.")
)
"""Places of an ordinary pass. Nothing in an experiment is staged or owes a further debt; only first runs start cold."""

EVENT_PLACES = tuple(place for place in ANYWHERE if place.startswith(("runs.", "state.")))

Happening = Callable[[], None]


@dataclass(slots=True)
class Tally:
    """Everything an experiment counts."""

    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    happened: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    spark_kills: int = 0
    rounds: int = 0
    passes: int = 0
    commits: int = 0
    contested: int = 0
    files: int = 0
    rows: int = 0
    letters: int = 0
    comparisons: int = 0
    lost: int = 0
    doubled: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def injected(self) -> int:
        """Failures inside this process."""
        return sum(number for (_, way), number in self.failures.items() if way in IN_PROCESS)

    def listen(self, event: events.Event) -> None:
        """Count what runs say."""
        self.contested += isinstance(event, events.CommitContested)

    def places(self) -> tuple[PlaceFailures, ...]:
        """The failures by place, in the order of a pass."""
        return tuple(
            PlaceFailures(place, *(self.failures[place, way] for way in ("raise", "lose", "kill"))) for place in PLACES
        )


@dataclass(slots=True)
class _Turn:
    ways: dict[str, str]
    happenings: dict[str, Happening]


class Faults:
    """The rule of every failpoint while an experiment runs (see :func:`tidegate.failpoints.arm_by`)."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._turns: list[_Turn] = []

    @property
    def depth(self) -> int:
        """How many turns are under way, one inside the other."""
        return len(self._turns)

    def __call__(self, place: str) -> str | None:
        if not self._turns:
            return None
        turn = self._turns[-1]
        happening = turn.happenings.pop(place, None)
        if happening is not None:
            happening()
        way = turn.ways.pop(place, None)
        if way is not None:
            self._tally.failures[place, way] += 1
        return way

    @contextmanager
    def turn(self, ways: dict[str, str], happenings: dict[str, Happening] | None = None) -> Iterator[None]:
        """While inside, each of ``ways`` and ``happenings`` befalls the pass once, if it gets there."""
        self._turns.append(_Turn(ways, happenings or {}))
        try:
            yield
        finally:
            self._turns.pop()


def some_ways(chance: random.Random) -> dict[str, str]:
    """What befalls one pass: one failure, or two."""
    return {place: chance.choice(IN_PROCESS) for place in chance.sample(ANYWHERE, chance.choice((1, 1, 2)))}
