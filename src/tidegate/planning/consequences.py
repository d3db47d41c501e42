"""What a changed state would mean for the files that are there: which are read again, which are never read.

Both states are asked about every file by the same rules that the planner uses. The listing may be a stream: only
counts and a few examples are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache

from tidegate.planning.discovery import is_new, is_partition_open
from tidegate.planning.reasons import EXAMPLES
from tidegate.specs import PathSource
from tidegate.watermarks.path_state import Failed, FileProgress, Finished, PathState
from tidegate.watermarks.paths import SourceFile, join, split


@dataclass(slots=True)
class Found:
    """Some files: how many, how large, and up to three of them."""

    files: int = 0
    bytes: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, file: SourceFile) -> None:
        """One more."""
        self.files += 1
        self.bytes += file.size
        if len(self.examples) < EXAMPLES:
            self.examples.append(file.path)


@dataclass(frozen=True, slots=True)
class Consequences:
    """``again`` were finished and would be read once more, ``never`` were to be read and would not be any more.

    ``from_start`` are those of the files asked about of which something was committed and that would be read from
    their first line. ``notes`` tell in sentences what becomes of recorded progress, failures and late windows.
    """

    again: Found
    never: Found
    listed: int
    notes: tuple[str, ...] = ()
    from_start: frozenset[str] = frozenset()


def consequences(
    source: PathSource,
    before: PathState,
    after: PathState,
    files: Iterable[SourceFile],
    now: datetime,
    asked: Collection[str] = (),
) -> Consequences:
    """The difference that ``after`` makes to ``files``; ``asked`` are paths to be told about by name."""
    was_due, is_due = _due(source, before, now), _due(source, after, now)
    again, never, listed = Found(), Found(), 0
    from_start: set[str] = set()
    for file in files:
        listed += 1
        due = was_due(file.path), is_due(file.path)
        if file.path in asked and due[1] and (not due[0] or _loses_lines(before, after, file.path)):
            from_start.add(file.path)
        if due == (False, True):
            again.add(file)
        elif due == (True, False):
            never.add(file)
    return Consequences(again, never, listed, tuple(_notes(before, after, is_due)), frozenset(from_start))


def _loses_lines(before: PathState, after: PathState, path: str) -> bool:
    """Whether the committed lines of a file in progress are forgotten."""
    progress = before.files.get(path)
    return progress is not None and path not in after.files and (isinstance(progress, Finished) or progress.records > 0)


def _due(source: PathSource, state: PathState, now: datetime) -> Callable[[str], bool]:
    """Whether a file is still to be read."""
    unfinished = is_new(source, state)
    is_open = cache(lambda partition: is_partition_open(source, state, partition, now))
    return lambda path: is_open(split(path)[0]) and unfinished(path)


def _notes(before: PathState, after: PathState, is_due: Callable[[str], bool]) -> Iterator[str]:
    dropped = [(path, each) for path, each in sorted(before.files.items()) if path not in after.files]
    unfinished = [(path, each) for path, each in dropped if not isinstance(each, Finished)]
    yield from (_fate(path, each) for path, each in unfinished[:EXAMPLES])
    if len(unfinished) > EXAMPLES:
        yield f"{len(unfinished) - EXAMPLES:,} more that failed or are in progress are forgotten"
    stays = sum(_is_moved(before, after, path) for path, _ in before.unfinished() if path in after.files)
    if stays:
        yield f"{stays:,} that failed or are in progress above the new watermark stay as they are"
    islands = sum(is_due(path) for path, each in dropped if isinstance(each, Finished))
    if islands:
        yield f"{islands:,} that finished above a gap are no longer remembered by name"
    lost = sum(not is_due(path) for path in _remembered(before) - _remembered(after))
    if lost:
        yield f"{lost:,} names leave the late window: what comes late beside them is not noticed any more"


def _is_moved(before: PathState, after: PathState, path: str) -> bool:
    """Whether the watermark of the file's partition is another one."""
    partition, _ = split(path)
    return before.partition_watermarks.get(partition) != after.partition_watermarks.get(partition)


def _remembered(state: PathState) -> set[str]:
    return {join(partition, name) for partition, window in state.late_window.items() for name in window.names}


def _fate(path: str, progress: FileProgress) -> str:
    lines = 0 if isinstance(progress, Finished) else progress.records
    what = f"failed ({progress.reason})" if isinstance(progress, Failed) else "is in progress"
    kept = f"; {lines:,} of its lines are in the table and stay there" if lines else ""
    return f"{path} {what}, which is forgotten{kept}"
