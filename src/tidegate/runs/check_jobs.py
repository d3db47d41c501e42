"""Carries out checks side by side: one that hangs, or a server that does not answer, holds up no other.

Each job has a thread of its own and a time limit. A thread cannot be ended: one that is overdue is left behind, and
nobody waits for it. What else asks the same server is then not tried, so that fifty sources of a server that is down
take one time limit, and a wrong password is not sent fifty times.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from tidegate.errors import safe_text
from tidegate.reports.checks import Check, CheckProgress, not_tried

LIMIT_SECONDS = 15.0
LONG_SECONDS = 60.0
"""For what may take long although everything is well, such as the listing of a large prefix."""

MOST_AT_ONCE = 8
TICK_SECONDS = 0.2
REACH = "check the address, that the server runs, and that this machine reaches it (firewall, VPN, proxy)"


def _never(check: Check) -> bool:
    return False


@dataclass(frozen=True, slots=True, eq=False)
class CheckJob:
    """Checks under one name that ask one ``server`` at ``place``; None: none that others ask, too.

    The first job of a server runs alone, then up to ``width`` of them at once. A check for which ``is_down`` is true
    ends the jobs of its server, as does one that is overdue. ``overdue`` is what it means to take longer than
    ``seconds``: by default a failure.
    """

    name: str
    look: Callable[[], Sequence[Check]]
    place: str
    server: Hashable = None
    width: int = 4
    seconds: float = LIMIT_SECONDS
    is_down: Callable[[Check], bool] = _never
    overdue: Check | None = None


@dataclass(slots=True)
class _Round:
    """The jobs of one call: those that wait, those under way, and what was found by each."""

    jobs: Sequence[CheckJob]
    found: dict[CheckJob, Sequence[Check]] = field(default_factory=dict)
    begun: dict[CheckJob, float] = field(default_factory=dict)
    answered: set[Hashable] = field(default_factory=set)
    down: dict[Hashable, CheckJob] = field(default_factory=dict)
    results: queue.SimpleQueue[tuple[CheckJob, Sequence[Check]]] = field(default_factory=queue.SimpleQueue)

    def carry_out(self, show: Callable[[CheckProgress], None]) -> None:
        waiting = deque(self.jobs)
        while waiting or self.begun:
            for job in self._next(waiting):
                self.begun[job] = time.monotonic()
                threading.Thread(target=self._look, args=(job,), daemon=True, name=job.name).start()
            show(CheckProgress(len(self.found), len(self.jobs), tuple(dict.fromkeys(job.name for job in self.begun))))
            self._collect()
            self._give_up()

    def _next(self, waiting: deque[CheckJob]) -> Iterator[CheckJob]:
        """Take the jobs that may begin now from those that wait; what asks a server that is down is not tried."""
        busy = Counter(job.server for job in self.begun)
        for job in tuple(waiting):
            if job.server is not None and job.server in self.down:
                waiting.remove(job)
                first = self.down[job.server]
                self.found[job] = () if first.name == job.name else (_leave_out(job, first),)
                continue
            room = job.width if job.server in self.answered else 1
            if sum(busy.values()) < MOST_AT_ONCE and (job.server is None or busy[job.server] < room):
                waiting.remove(job)
                busy[job.server] += 1
                yield job

    def _look(self, job: CheckJob) -> None:
        try:
            found = job.look()
        # The edge of a thread: whatever a driver raises is the failure of this check, and of no other.
        except Exception as error:
            problem = f"unexpected {type(error).__name__}: {safe_text(error)}"
            found = (Check(job.name, "fail", problem, "run the pipeline with --debug to see where it comes from"),)
        self.results.put((job, found))

    def _collect(self) -> None:
        try:
            job, found = self.results.get(timeout=TICK_SECONDS)
        except queue.Empty:
            return
        if self.begun.pop(job, None) is None:
            return  # given up before
        self.found[job] = found
        self.answered.add(job.server)
        if any(map(job.is_down, found)):
            self.down.setdefault(job.server, job)

    def _give_up(self) -> None:
        now = time.monotonic()
        for job in [job for job, begun in self.begun.items() if now - begun > job.seconds]:
            del self.begun[job]
            self.found[job] = (job.overdue or _no_answer(job),)
            if job.overdue is None:
                self.down.setdefault(job.server, job)


def carry_out(
    jobs: Sequence[CheckJob], show: Callable[[CheckProgress], None] = lambda progress: None
) -> list[tuple[CheckJob, Sequence[Check]]]:
    """Carry out all jobs, a few at a time, and give the checks of each; ``show`` hears how far it is."""
    made = _Round(jobs)
    made.carry_out(show)
    return [(job, made.found[job]) for job in jobs]


def _no_answer(job: CheckJob) -> Check:
    return Check(
        job.name,
        "fail",
        f"{job.place}: no answer within {job.seconds:g} s",
        f"{REACH}; a run waits longer",
    )


def _leave_out(job: CheckJob, first: CheckJob) -> Check:
    return not_tried(
        job.name,
        f"its server is that of {first.name!r}, which failed",
        f"repair {first.name!r}, then run `tidegate doctor` again",
    )
