"""What tasks have finished, and when a commit of it is due."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.core.files.plan import FileGroup
from tidegate.core.files.state import Covered, NotReached, Refused
from tidegate.sink.read_task import GroupResult, ReadTask


@dataclass(frozen=True, slots=True)
class FinishedGroup:
    """A group that a task has read; its results tell of each of its files."""

    task: ReadTask
    group: FileGroup
    results: tuple[GroupResult, ...]


@dataclass(frozen=True, slots=True)
class CommitLimits:
    """A commit is due once so many Parquet files or source files are finished since the last one, or once so many
    seconds have passed and anything is finished; None is no limit.
    """

    data_files: int | None = None
    source_files: int | None = None
    seconds: float | None = None

    def times(self, number: int) -> CommitLimits:
        """So many times as many files, at any time."""
        return CommitLimits(
            None if self.data_files is None else self.data_files * number,
            None if self.source_files is None else self.source_files * number,
        )

    def are_reached(self, finished: FinishedResults, seconds: float = 0.0) -> bool:
        """Whether a commit of ``finished`` is due, so many seconds after the last one."""
        return bool(finished.results) and (
            (self.data_files is not None and finished.data_files >= self.data_files)
            or (self.source_files is not None and finished.source_files >= self.source_files)
            or (self.seconds is not None and seconds >= self.seconds)
        )


@dataclass(slots=True)
class FinishedResults:
    """What is finished and not committed. ``files`` were read at least in part, ``source_files`` to their end."""

    results: list[GroupResult] = field(default_factory=list)
    files: int = 0
    source_files: int = 0
    source_bytes: int = 0
    data_files: int = 0

    def add(self, result: GroupResult) -> None:
        """Count one in."""
        self.results.append(result)
        self.data_files += len(result.data_files)
        for outcome in result.outcomes:
            self.files += not isinstance(outcome, NotReached)
            match outcome:
                case Covered(eof=True, size=size) | Refused(size=size):
                    self.source_files += 1
                    self.source_bytes += size
                case _:
                    pass
