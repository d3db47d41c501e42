"""What a state says about the directories of a source: known, above known ones, open, read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache, partial

from tidegate.specs import LateFiles, PathSource
from tidegate.watermarks.layout import Layout
from tidegate.watermarks.path_state import PathState
from tidegate.watermarks.paths import join, split
from tidegate.watermarks.sealing import is_directory_sealed, is_sealed, opened


@dataclass(frozen=True, slots=True)
class Places:
    """Questions about directories, answered from one state at one moment.

    ``partitions`` hold files that the state tells something about; ``above`` are all directories above them.
    """

    partitions: frozenset[str]
    above: frozenset[str]
    is_open: Callable[[str], bool]
    is_partition_open: Callable[[str], bool]
    remembered: Callable[[str], frozenset[str]] = field(repr=False)

    @classmethod
    def of(cls, source: PathSource, state: PathState, now: datetime) -> Places:
        """The places of ``source`` as ``state`` tells them."""
        partitions = frozenset(state.partition_watermarks) | {split(path)[0] for path in state.files}
        layout, start = Layout.of(source), opened(source, state, now)

        def is_open(directory: str) -> bool:
            return not is_directory_sealed(layout, start, directory)

        def is_partition_open(partition: str) -> bool:
            return not is_sealed(layout, start, partition)

        return cls(
            partitions,
            frozenset(directory for partition in partitions for directory in _above(partition)),
            lru_cache(None)(is_open),
            lru_cache(None)(is_partition_open),
            lru_cache(None)(partial(_remembered, source, state)),
        )

    def is_remembered(self, path: str) -> bool:
        """Whether the late window names ``path`` as read."""
        partition, name = split(path)
        return name in self.remembered(partition)


def _above(partition: str) -> list[str]:
    """Every directory above ``partition``, the root included."""
    levels = partition.split("/") if partition else []
    return ["/".join(levels[:depth]) for depth in range(len(levels))]


def _remembered(source: PathSource, state: PathState, partition: str) -> frozenset[str]:
    window = state.late_window.get(partition) if source.late_files is LateFiles.WINDOW else None
    if window is None:
        return frozenset()
    return frozenset(name for name in window.names if join(partition, name) not in state.files)
