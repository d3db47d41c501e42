"""The recorded outcomes of the last runs of a source, beside its state.

``{pipeline}/{source}.runs.json`` holds a :class:`RunHistory`. It only tells: correctness never needs it. It may be
removed, overwritten by another run or out of date at any time.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING

from tidegate.core.run_history import MOST_ENTRIES, PastRun, RunHistory
from tidegate.errors import ObjectMissing, StorageError

if TYPE_CHECKING:
    from tidegate.protocol.change import SourceKey
    from tidegate.storage.port import ObjectStore


def read_history(store: ObjectStore, key: SourceKey) -> RunHistory:
    """The recorded runs of a source; none if nothing is recorded. ``store`` is that of the table."""
    try:
        return RunHistory.from_bytes(store.get(key.runs))
    except ObjectMissing:
        return RunHistory()


def record_runs(
    store: ObjectStore, key: SourceKey, runs: Sequence[PastRun], counts: Mapping[str, float] | None = None
) -> RunHistory:
    """Add runs to the history of a source, and what counters grew by; :class:`StorageError` if that cannot be done."""
    history = read_history(store, key).count(counts or {})
    for each in runs:
        history = history.add(each)
    store.put(key.runs, history.to_bytes())
    return history


class RunRecorder:
    """Records the passes of one process, each source's at most every ``every`` seconds unless they end otherwise.

    A continuous run polls every second, and each record is a write to the store of the table.
    """

    def __init__(self, every: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._every = every
        self._clock = clock
        self._histories: dict[SourceKey, RunHistory] = {}
        self._waiting: dict[SourceKey, tuple[ObjectStore, list[PastRun], Counter[str]]] = {}
        self._recorded: dict[SourceKey, tuple[float, PastRun]] = {}

    def note(
        self, store: ObjectStore, key: SourceKey, run: PastRun, counts: Mapping[str, float] | None = None
    ) -> tuple[RunHistory, StorageError | None]:
        """Record a pass, or keep it for the next record; returns the history with it, and why it is not recorded.

        ``counts`` is what the counters of its metrics have grown by.
        """
        _, waiting, counted = self._waiting.setdefault(key, (store, [], Counter()))
        for name, number in (counts or {}).items():
            # Whole numbers, whatever counts them.
            counted[name] += int(number)
        if waiting and waiting[-1].is_like(run):
            waiting[-1] = waiting[-1].add(run)
        else:
            waiting.append(run)
            # The oldest go first if the store stays away for long.
            del waiting[:-MOST_ENTRIES]
        self._histories[key] = self._histories.get(key, RunHistory()).count(counts or {}).add(run)
        at, last = self._recorded.get(key, (-inf, None))
        problem: StorageError | None = None
        if last is None or not last.is_like(run) or self._clock() - at >= self._every:
            try:
                self._record(key)
            except StorageError as error:
                problem = error
                # A store that is away costs minutes of retries, which no pass should spend each time.
                self._recorded[key] = self._clock(), run
        return self._histories[key], problem

    def flush(self) -> None:
        """Record what waits, as far as possible."""
        for key in list(self._waiting):
            with suppress(StorageError):
                self._record(key)

    def _record(self, key: SourceKey) -> None:
        store, waiting, counted = self._waiting[key]
        if waiting:
            self._histories[key] = record_runs(store, key, waiting, counted)
            self._recorded[key] = self._clock(), waiting[-1]
            waiting.clear()
            counted.clear()
