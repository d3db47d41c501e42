"""Compares a file at the source with what was committed: ingested, late, waiting, changed.

One decision per file, from the state of the source and the ledger's record of that file. A file is *late* exactly if no
run will read it and no commit covers it. If the ledger does not know, it is *unexplained* and never late: reading it
again could double its rows.

What a clock that was ahead has sealed is opened again with what the ledger knows of it, so nothing is read twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

from tidegate.core.files.discovery import PARTITIONS_AT_ONCE, is_due, is_sealed, list_after
from tidegate.core.files.paths import Layout, SourceFile, join, same_content, split
from tidegate.core.files.state import (
    Active,
    Failed,
    Finished,
    LateWindow,
    PathState,
    RecordsRead,
    Seal,
    file_statuses,
    greater,
    greatest_path,
    shrink_windows,
)
from tidegate.specs.files import LateFiles, PathSource


class Finding(StrEnum):
    """The status of a listed file."""

    INGESTED = "ingested"
    LATE = "late"
    WAITING = "waiting"
    CHANGED = "changed"
    GIVEN_UP = "given up"
    REPAIRED = "repaired"
    UNFINISHED = "unfinished"
    UNEXPLAINED = "unexplained"
    EXCLUDED = "excluded"


@dataclass(frozen=True, slots=True)
class CommittedFile:
    """The ledger's record of a file: its first ``records`` lines are committed, and with ``eof`` all of it.

    ``given_up``: a dead letter stands for the rest.
    """

    size: int
    etag: str | None
    records: int
    eof: bool
    given_up: bool = False


@dataclass(frozen=True, slots=True)
class Move:
    """A command that moved the position without reading: ``after`` may pass files that ``before`` did not."""

    before: PathState
    after: PathState


@dataclass(frozen=True, slots=True)
class History:
    """The history of a position: its cold start, moves by hand, and whether all of it is known."""

    cold_start: PathState | None = None
    moves: tuple[Move, ...] = ()
    is_whole: bool = True


class Comparing:
    """Decides about the files of one source; fastest if asked partition by partition."""

    def __init__(self, source: PathSource, state: PathState, history: History) -> None:
        self._source = source
        self._state = state
        self._history = history
        self._layout = Layout.of(source)
        self._is_due = is_due(source, state)
        self._status_of = lru_cache(PARTITIONS_AT_ONCE)(file_statuses(source, state))
        self._partitions = frozenset(state.partition_watermarks) | {split(path)[0] for path in state.files}
        self._above = frozenset(parent for partition in self._partitions for parent in _parents(partition))
        self._out_of_sight_up_to = lru_cache(PARTITIONS_AT_ONCE)(self._bound_above)
        self._moves = [(is_due(source, move.before), is_due(source, move.after)) for move in history.moves]

    def decide(self, file: SourceFile, committed: CommittedFile | None) -> Finding:
        """Decide about ``file``, given what is committed of it."""
        if committed is not None and committed.eof:
            same = same_content(committed.size, committed.etag, file)
            if committed.given_up:
                return Finding.GIVEN_UP if same else Finding.REPAIRED
            return Finding.INGESTED if same else Finding.CHANGED
        progress = self._state.files.get(file.path)
        if isinstance(progress, Finished):
            return Finding.UNEXPLAINED
        if progress is not None:
            begun = isinstance(progress, Failed) or progress.records or committed is not None
            return Finding.UNFINISHED if begun else Finding.WAITING
        if self._is_due(file.path):
            return Finding.WAITING
        return self._decide_passed(file, committed)

    def is_out_of_sight(self, file: SourceFile) -> bool:
        """True if only a poll of everything sees a waiting file.

        It lies in a folder inside a known partition, which is listed from its bound on, and sorts below that bound.
        """
        bound = self._out_of_sight_up_to(split(file.path)[0])
        return bound is not None and file.path <= bound

    def _bound_above(self, directory: str) -> str | None:
        """Return the path up to which nothing below ``directory`` is listed, because a partition above has a bound."""
        while directory and directory not in self._partitions:
            directory = split(directory)[0]
            if directory in self._partitions and directory not in self._above:
                after = list_after(self._source, self._state, directory)
                return None if after is None else join(directory, after)
        return None

    def _decide_passed(self, file: SourceFile, committed: CommittedFile | None) -> Finding:
        """Decide about a file that no run will look at."""
        partition, name = split(file.path)
        cold_start = self._history.cold_start
        if committed is None and cold_start is not None and is_sealed(self._layout, cold_start, partition):
            return Finding.EXCLUDED
        # Where the ledger has a gap or a command moved the position, asking beats doubling rows (decision 0007).
        is_moved_over = any(before(file.path) and not after(file.path) for before, after in self._moves)
        if self._status_of(partition).is_known(name) or not self._history.is_whole or is_moved_over:
            return Finding.UNEXPLAINED
        if committed is not None and not same_content(committed.size, committed.etag, file):
            return Finding.CHANGED
        return Finding.LATE


def _parents(directory: str) -> Iterator[str]:
    while directory:
        directory = split(directory)[0]
        yield directory


def reopen_partitions(
    source: PathSource,
    state: PathState,
    seals: Mapping[str, Seal],
    known: Iterable[str],
    unread: Iterable[tuple[SourceFile, int]],
) -> PathState:
    """Lower the ``seals``; in the partitions that they open, ``known`` paths count as finished.

    ``known`` is ascending. ``unread`` are other files, each with the number of its committed lines: the next run reads
    the rest of those in open partitions.
    """
    layout, after = Layout.of(source), replace(state, sealed=dict(seals))

    @lru_cache(PARTITIONS_AT_ONCE)
    def opens(partition: str) -> bool:
        return is_sealed(layout, state, partition) and not is_sealed(layout, after, partition)

    names: dict[str, deque[str]] = {}
    for partition, name in map(split, known):
        if partition not in state.partition_watermarks and opens(partition):
            # One more than the window holds: the oldest becomes the name above which it begins.
            names.setdefault(partition, deque(maxlen=source.late_window + 1)).append(name)
    watermarks = {**state.partition_watermarks, **{partition: kept[-1] for partition, kept in names.items()}}
    windows = dict(state.late_window)
    if source.late_files is LateFiles.WINDOW:
        windows |= {partition: LateWindow(tuple(kept)) for partition, kept in names.items()}
        windows = shrink_windows(windows, source.late_window, source.late_window_total, state.late_window)
    begun = {
        file.path: RecordsRead(records, file.size, file.etag, rounds=0)
        for file, records in unread
        if file.path not in state.files and opens(split(file.path)[0])
    }
    value = greater(state.value, greatest_path(watermarks))
    return replace(
        after,
        watermark=state.watermark if value in (None, state.value) else Active(value),
        partition_watermarks=watermarks,
        late_window=windows,
        files={**state.files, **begun},
    )
