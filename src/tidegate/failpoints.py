"""Named places where a process can be made to die, to fail or to lose a response: for tests, and for ``chaos``.

``TIDEGATE_FAILPOINTS="state.commit.before=kill, sink.upload.after=raise@3"`` switches them on: ``kill`` sends this
process SIGKILL, ``crash`` SIGSEGV, ``raise`` raises :class:`InjectedFailure`, ``lose`` raises :class:`LostResponse`,
``exhaust`` raises :class:`MemoryError`, ``stop`` sends SIGSTOP, ``sleep:SECONDS`` waits. ``@n`` means the nth time the
place is reached, ``%p`` each time with chance ``p`` (``TIDEGATE_FAILPOINTS_SEED`` makes it repeatable), ``~TEXT`` only
for a file whose path contains the text; ``*`` is every place. Without the variable a failpoint is one lookup in an
empty dictionary.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from itertools import count

from tidegate.errors import StorageUnavailable

VARIABLE = "TIDEGATE_FAILPOINTS"
SEED_VARIABLE = "TIDEGATE_FAILPOINTS_SEED"
EVERY = "*"
WAYS = ("kill", "raise", "lose")
_OTHER_WAYS = ("stop", "crash", "exhaust")

PLACES: dict[str, str] = {
    "runs.planned": "the plan is made, nothing is read",
    "sink.file.before": "in a task: a file is about to be opened; its path is what `~TEXT` is compared with",
    "sink.rows.before": "in a task: rows are decoded, and not handed to the writer",
    "sink.upload.before": "in a task: a Parquet file is complete, and not in the store",
    "sink.upload.after": "in a task: it is in the store, and nobody knows of it",
    "sink.unit.after": "in a task: a whole unit is read and written, its result not handed over",
    "runs.read": "a commit is due, the driver has what goes into it, and nothing is committed",
    "runs.commit.before": "the next state is known, the commit has not begun",
    "staging.meta.before": "staged delivery: the Parquet files are there, and the meta of one of them is not",
    "staging.meta.after": "a meta is written, the signal of the unit is not",
    "staging.unit.before": "every meta is written, and the signal is about to be",
    "staging.unit.after": "the signal is durable, and the response has not arrived",
    "state.set.before": "a source is tracked by a set: the part of the set with the files of this commit is "
    "not uploaded",
    "state.set.after": "it is uploaded, and nothing refers to it",
    "state.document.before": "the state document is not written",
    "state.document.after": "it is written, the commit is not made",
    "state.columns.before": "a new column is needed and not in the table",
    "state.columns.after": "the column is in the table, the rows are not",
    "state.properties.before": "a property is wanted that the table has not",
    "state.properties.after": "the table has it, the rows are not there",
    "state.commit.before": "the Delta commit is about to be sent",
    "state.commit.after": "it is durable, and the response has not arrived",
    "state.resolve.before": "the log is about to be asked what happened",
    "state.done.before": "our attempt is in the log, and nothing after it is done",
    "state.won.before": "the note of the winner is not written",
    "state.won.after": "it is written",
    "state.debt.before": "something else that is owed after a commit is about to be done",
    "state.provider.before": "the commit is durable, and the state provider has the watermark before it",
    "state.provider.after": "the state provider has the new one",
    "state.letters.before": "rows are visible, dead letters are not",
    "state.letters.after": "both are",
    "state.mirror.before": "the mirror is old",
    "state.mirror.after": "the mirror is new",
    "state.checkpoint.before": "a Delta checkpoint is about to be made",
    "state.rewrite.before": "table care: larger files are written, and the small ones are in the table",
    "state.rewrite.after": "table care: the small files are replaced, and the response has not arrived",
    "state.block.before": "old documents are read, and their block of the ledger is not written",
    "state.block.after": "the block is written, and the documents it holds are still there",
    "state.gathered.before": "the block was read back, and no document is removed",
    "state.gathered.after": "a few more documents of the block are removed",
    "state.cold_start.before": "a bounded first run found nothing, and has not recorded its bound",
    "state.cold_start.after": "it has",
    "staging.commit.listed": "committer: what waits is listed, nothing of it is read",
    "staging.commit.before": "committer: the next state of every source is known, the commit has not begun",
    "staging.clear.before": "committer: the commit is durable, and everything that it took still waits",
    "staging.clear.rejected": "committer: what is kept of a rejected unit is written, and the unit still waits",
    "staging.clear.metas": "committer: metas are taken away, and their units still wait",
    "staging.clear.after": "committer: everything that was taken is taken away",
    "runs.fence.after": "reconcile: a source has its fence, its orphans are all there",
    "runs.orphan.before": "an orphan is about to be removed",
    "runs.commit.after": "the commit is done, the run goes on",
}
"""Every failpoint in the order of a pass, with what is true there. Tests compare it with code and docs."""

Rule = Callable[[str], str | None]
"""Called each time a place is reached: the action there, None for nothing."""


class InjectedFailure(Exception):
    """Raised by the action ``raise``: as if the program had crashed there."""


class LostResponse(StorageUnavailable):
    """Raised by the action ``lose``: what came before it has happened all the same."""


class _Rules:
    """The rules of one place, each for files whose path contains a text; the first that fits acts."""

    def __init__(self) -> None:
        self._rules: list[tuple[str, Rule]] = []

    def add(self, about: str, rule: Rule) -> None:
        self._rules.append((about, rule))

    def __call__(self, name: str, path: str = "") -> str | None:
        actions = (rule(name) for about, rule in self._rules if about in path)
        return next((action for action in actions if action is not None), None)


class _Countdown:
    """Acts the nth time it is reached."""

    def __init__(self, action: str, nth: int) -> None:
        self._action, self._nth, self._calls = action, nth, count(1)

    def __call__(self, name: str) -> str | None:
        return self._action if next(self._calls) == self._nth else None


class _Chance:
    """Acts at random."""

    def __init__(self, action: str, share: float, seed: str) -> None:
        self._action, self._share, self._random = action, share, random.Random(seed or None)

    def __call__(self, name: str) -> str | None:
        return self._action if self._random.random() < self._share else None


def _parse(text: str, seed: str) -> dict[str, Rule]:
    rules: dict[str, _Rules] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, action = (part.strip() for part in item.partition("="))
        action, _, about = action.partition("~")
        action, _, share = action.partition("%")
        action, _, nth = action.partition("@")
        if action not in (*WAYS, *_OTHER_WAYS) and not action.startswith("sleep:"):
            known = "|".join((*WAYS, *_OTHER_WAYS))
            raise ValueError(f"{VARIABLE}: {item!r} is not NAME={known}|sleep:SECONDS[@N|%P][~TEXT]")
        if name != EVERY and name not in PLACES:
            raise ValueError(f"{VARIABLE}: no failpoint is named {name!r}; known are {', '.join(PLACES)}")
        rule: Rule = _Chance(action, float(share), seed) if share else _Countdown(action, int(nth or 1))
        rules.setdefault(name, _Rules()).add(about, rule)
    return dict(rules)


_armed = _parse(os.environ.get(VARIABLE, ""), os.environ.get(SEED_VARIABLE, ""))


def arm(text: str, seed: str = "") -> None:
    """Replace the armed failpoints of this process; the empty string disarms all."""
    rules = _parse(text, seed)
    _armed.clear()
    _armed.update(rules)


def arm_by(rule: Rule) -> None:
    """Let ``rule`` decide at every place, until something else is armed."""
    _armed.clear()
    _armed[EVERY] = rule


def failpoint(name: str, path: str = "") -> None:
    """Do nothing unless ``name`` is armed; ``path`` is the file concerned, if any."""
    if not _armed:
        return
    rule = _armed.get(name) or _armed.get(EVERY)
    action = None if rule is None else rule(name, path) if isinstance(rule, _Rules) else rule(name)
    if action is not None:
        _act(name, action)


def _act(name: str, action: str) -> None:
    match action:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "exhaust":
            raise MemoryError(name)
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "raise":
            raise InjectedFailure(name)
        case "lose":
            raise LostResponse(f"the response was lost on purpose at {name}", f"unset {VARIABLE} and run again")
        case _:
            time.sleep(float(action.removeprefix("sleep:")))
