"""Which files a person means: those that a pattern matches, or all below one directory; and which of them can be
read again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from tidegate.planning.discovery import is_new, is_partition_open
from tidegate.planning.globs import matches_path
from tidegate.specs import PathSource
from tidegate.watermarks.path_state import PathState
from tidegate.watermarks.paths import SourceFile, split

_WILD = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Selection:
    """Files by ``pattern`` (as ``source.pattern`` reads it) or below ``directory``; exactly one is given."""

    pattern: str | None = None
    directory: str | None = None

    def __post_init__(self) -> None:
        if (self.pattern is None) == (self.directory is None):
            raise ValueError("Selection: give a pattern or a directory")

    def __str__(self) -> str:
        return f"files {self.pattern}" if self.directory is None else f"partition {self.directory or '(top level)'}"

    @property
    def prefix(self) -> str:
        """The directory below which everything selected lies.

        >>> Selection("date=2026-01-28/hour=1*/*.gz").prefix
        'date=2026-01-28'
        """
        if self.directory is not None:
            return self.directory
        fixed: list[str] = []
        for level in (self.pattern or "").split("/")[:-1]:
            if _WILD & set(level):
                break
            fixed.append(level)
        return "/".join(fixed)

    def takes(self, path: str) -> bool:
        """Whether the file at ``path`` is meant."""
        if self.directory is not None:
            return not self.directory or path.startswith(f"{self.directory}/")
        return matches_path(self.pattern or "", path)


@dataclass(frozen=True, slots=True)
class Sorted:
    """``finished`` files are at or below their watermark, ``due`` ones are left to the next run."""

    finished: tuple[SourceFile, ...]
    due: tuple[SourceFile, ...]


def sorted_by_state(source: PathSource, state: PathState, files: Iterable[SourceFile], now: datetime) -> Sorted:
    """The files by whether ``state`` says that they are finished; those of sealed partitions are."""
    unfinished = is_new(source, state)
    is_open = cache(lambda partition: is_partition_open(source, state, partition, now))
    finished: list[SourceFile] = []
    due: list[SourceFile] = []
    for file in files:
        is_due = is_open(split(file.path)[0]) and unfinished(file.path)
        (due if is_due else finished).append(file)
    return Sorted(tuple(finished), tuple(due))
