"""A small model checker for real code: actors are threads that hand one baton on, and every choice is tried.

Whenever an actor is about to touch shared storage, it asks the run which actor goes next and how the
operation ends (normally, with a crash, with a lost response …). A run is repeatable: the list of its choices
is its name. ``explore`` walks the tree of choices depth first and cuts off where it meets a state that it has
seen: the storage's content and what every actor has observed so far.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field


class Abandoned(BaseException):
    """Unwinds an actor whose run is over; not an ``Exception``, so that no handler keeps it."""


class Violation(AssertionError):
    """Something happened that must never happen."""


@dataclass(slots=True)
class Actor:
    """One process: ``history`` stands for everything it has observed, hence for its memory."""

    name: str
    body: Callable[[Actor], None]
    history: int = 0
    over: bool = False
    error: BaseException | None = None
    baton: threading.Lock = field(default_factory=threading.Lock)

    def observe(self, *facts: Hashable) -> None:
        self.history = hash((self.history, *facts))


class Seen(Exception):
    """The run reached a state that another run went on from."""


class Run:
    """One execution: takes ``choices`` first, then the first option everywhere."""

    def __init__(self, choices: Sequence[int], budgets: dict[str, int], seen: set[int]) -> None:
        self.taken: list[int] = []
        self.branches: list[tuple[int, int]] = []
        self.budgets = dict(budgets)
        self.shared: Callable[[], Hashable] = lambda: None
        self.actors: list[Actor] = []
        self.cut = False
        self._choices = choices
        self._seen = seen
        self._finished = threading.Lock()
        self._over = False

    def choose(self, label: Hashable, options: int) -> int:
        """One of ``options``; remembers the others unless the state is known."""
        if options == 1:
            return 0
        at = len(self.taken)
        if at < len(self._choices):
            chosen = self._choices[at]
        else:
            state = hash(
                (
                    label,
                    options,
                    self.shared(),
                    *(self._memory(actor) for actor in self.actors),
                    *sorted(self.budgets.items()),
                )
            )
            if state in self._seen:
                self.cut = True
                raise Seen
            self._seen.add(state)
            chosen = 0
            self.branches.append((at, options))
        self.taken.append(chosen)
        return chosen

    @staticmethod
    def _memory(actor: Actor) -> tuple[int, bool]:
        return actor.history, actor.over

    def turn(self, actor: Actor) -> None:
        """Let the run decide who goes next; returns when it is this actor's turn."""
        if self._over:
            raise Abandoned
        others = [each for each in self.actors if each is not actor and not each.over]
        may_switch = self.budgets.get("switches", 99) > 0
        try:
            chosen = self.choose(("turn", actor.name), 1 + (len(others) if may_switch else 0))
        except Seen:
            self._stop()
            raise Abandoned from None
        if chosen:
            self.budgets["switches"] = self.budgets.get("switches", 99) - 1
            others[chosen - 1].baton.release()
            self._wait(actor)

    def pick(self, actor: Actor, label: Hashable, options: int) -> int:
        """Like ``choose``, for an actor's operation."""
        try:
            return self.choose((label, actor.name), options)
        except Seen:
            self._stop()
            raise Abandoned from None

    def _wait(self, actor: Actor) -> None:
        actor.baton.acquire()
        if self._over:
            raise Abandoned

    def _stop(self) -> None:
        """End the run: every waiting actor unwinds."""
        if not self._over:
            self._over = True
            for each in self.actors:
                if each.baton.locked():
                    each.baton.release()
            self._finished.release()

    def _body(self, actor: Actor) -> None:
        try:
            self._wait(actor)
            actor.body(actor)
        except Abandoned:
            pass
        except BaseException as error:
            actor.error = error
        actor.over = True
        if self._over:
            return
        left = [each for each in self.actors if not each.over]
        if not left or isinstance(actor.error, Violation):
            self._stop()
            return
        try:
            left[self.choose(("next", actor.name), len(left))].baton.release()
        except Seen:
            self._stop()

    def execute(self) -> None:
        """Run all actors to their end, or until the run is cut."""
        for actor in self.actors:
            actor.baton.acquire()
        self._finished.acquire()
        threads = [threading.Thread(target=self._body, args=(actor,), daemon=True) for actor in self.actors]
        for thread in threads:
            thread.start()
        try:
            first = self.choose("first", len(self.actors))
            self.actors[first].baton.release()
        except Seen:
            self._stop()
        self._finished.acquire()
        for thread in threads:
            thread.join()


class RandomRun(Run):
    """A run that chooses by dice instead of by plan, the first option more often than the others."""

    def __init__(self, dice: random.Random, budgets: dict[str, int]) -> None:
        super().__init__((), budgets, set())
        self._dice = dice

    def choose(self, label: Hashable, options: int) -> int:
        chosen = self._dice.randrange(options) if options > 1 and self._dice.random() < 0.4 else 0
        self.taken.append(chosen)
        return chosen


@dataclass(frozen=True, slots=True)
class Report:
    """What an exploration did; ``violation`` is the first it met, with the choices that lead there."""

    runs: int
    states: int
    complete: bool
    violation: str | None = None
    choices: tuple[int, ...] = ()


def explore(scene: Callable[[Run], Callable[[], None]], budgets: dict[str, int], max_runs: int) -> Report:
    """Try every choice of ``scene``, up to ``max_runs`` runs.

    ``scene`` fills the run's actors and gives a function that judges a run that went to its end.
    """
    seen: set[int] = set()
    stack: list[tuple[int, ...]] = [()]
    runs = 0
    while stack and runs < max_runs:
        run = Run(stack.pop(), budgets, seen)
        runs += 1
        violation = _carried_out(scene, run)
        if violation is not None:
            return Report(runs, len(seen), False, violation, tuple(run.taken))
        for at, options in run.branches:
            stack.extend((*run.taken[:at], other) for other in range(1, options))
    return Report(runs, len(seen), not stack)


def wander(scene: Callable[[Run], Callable[[], None]], budgets: dict[str, int], seeds: range) -> Report:
    """One random run per seed: goes deeper than ``explore`` and proves less."""
    for seed in seeds:
        run = RandomRun(random.Random(seed), budgets)
        violation = _carried_out(scene, run)
        if violation is not None:
            return Report(seed - seeds.start + 1, 0, False, f"seed {seed}: {violation}", tuple(run.taken))
    return Report(len(seeds), 0, True)


def _carried_out(scene: Callable[[Run], Callable[[], None]], run: Run) -> str | None:
    """Execute and judge one run; the violation it met, if any."""
    judge = scene(run)
    run.execute()
    try:
        for actor in run.actors:
            if actor.error is not None:
                raise actor.error
        if not run.cut:
            judge()
    except Violation as violation:
        return str(violation)
    return None
