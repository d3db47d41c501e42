"""Time, as the protocol needs it: what time it is, how long to go on, how long to wait between attempts."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 5.0


def utc_now() -> datetime:
    """The time of day, aware."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Pace:
    """How a commit spends time; tests replace the four callables."""

    deadline_secs: float = 120.0
    now: Callable[[], datetime] = utc_now
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = random.random

    def start(self) -> Deadline:
        """A deadline that begins now."""
        return Deadline(self, self.monotonic())

    def now_ms(self) -> int:
        """Milliseconds since 1970, as Delta's ``txn.lastUpdated`` wants them."""
        return int(self.now().timestamp() * 1000)


class Deadline:
    """Time left for one commit, with pauses that grow and never march in step with another process."""

    def __init__(self, pace: Pace, started: float) -> None:
        self._pace = pace
        self._started = started
        self._pauses = 0

    @property
    def passed(self) -> bool:
        """True when the time is over."""
        return self.seconds >= self._pace.deadline_secs

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return self._pace.monotonic() - self._started

    def pause(self) -> None:
        """Wait a little, longer each time."""
        longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**self._pauses)
        self._pauses += 1
        self._pace.sleep(longest * (0.5 + self._pace.random() / 2))
