"""Where each listed file of a partition stands: finished, late, in progress, failed or new.

One definition, used by the planner to decide what to read and by ``advance`` to decide how far it is
finished.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tidegate.core.files.paths import split
from tidegate.core.files.state import FileProgress, Finished, LateWindow, PathState
from tidegate.specs.project import LateFiles, PathSource


@dataclass(frozen=True, slots=True)
class FileStatus:
    """What is known about the names of one partition; without ``window`` late ones are not looked for."""

    watermark: str | None
    window: LateWindow | None
    progress: Mapping[str, FileProgress]
    remembered: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "remembered", frozenset(self.window.names if self.window else ()))

    @property
    def is_blank(self) -> bool:
        """Whether nothing is known: every name is new."""
        return self.watermark is None and not self.progress

    def is_above(self, name: str) -> bool:
        """Whether ``name`` is greater than the watermark."""
        return self.watermark is None or name > self.watermark

    def is_known(self, name: str) -> bool:
        """Whether ``name`` itself is remembered as finished."""
        return name in self.remembered or isinstance(self.progress.get(name), Finished)

    def is_finished(self, name: str) -> bool:
        """Whether there is nothing to read: finished, or below everything that is looked at."""
        progress = self.progress.get(name)
        if progress is not None:
            return isinstance(progress, Finished)
        if self.is_above(name):
            return False
        if self.window is None or not self.window.reaches(name):
            return True
        return name in self.remembered


def file_statuses(source: PathSource, state: PathState) -> Callable[[str], FileStatus]:
    """A function that gives the standing of each partition; the files of the state are grouped once."""
    progress = by_partition(state.files)
    looks_back = source.late_files is LateFiles.WINDOW

    def standing(partition: str) -> FileStatus:
        window = state.late_window.get(partition) if looks_back else None
        return FileStatus(state.partition_watermarks.get(partition), window, progress.get(partition, {}))

    return standing


def by_partition(files: Mapping[str, FileProgress]) -> dict[str, dict[str, FileProgress]]:
    """The same entries, by partition and then by name."""
    grouped: dict[str, dict[str, FileProgress]] = {}
    for path, progress in files.items():
        partition, name = split(path)
        grouped.setdefault(partition, {})[name] = progress
    return grouped
