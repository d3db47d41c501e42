"""Edits of a file source's state by a person, and their consequences for the files at the source.

A run only moves a watermark up, over files that it committed. A person moves it anywhere: everything at or below it
counts as finished, everything above it that is not known as finished will be read.

Consequences compare both states, file by file, by the planner's own rules. The listing may be a stream: only counts and
a few examples are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from tidegate.core.files.discovery import EXAMPLES, is_due, is_sealed, seal_cold_start
from tidegate.core.files.paths import Layout, SourceFile, join, matches_path, sort_key, split
from tidegate.core.files.state import (
    Active,
    Failed,
    Finished,
    Initial,
    LateWindow,
    PathState,
    Unfinished,
    greater,
    greatest_path,
)
from tidegate.errors import TidegateError
from tidegate.specs.files import PathSource

T = TypeVar("T")


def move_watermark(source: PathSource, state: PathState, partition: str, name: str, now: datetime) -> PathState:
    """Move the watermark of ``partition`` to ``name``.

    Progress and failures at or below ``name`` are forgotten; above it they stay, and so do files finished above a gap.
    A lower watermark keeps the part of the late window up to the new one; a higher one starts with an empty window, or
    the files that it skipped would count as late.
    """
    _check_open(source, state, partition)
    before = state.partition_watermarks.get(partition)
    if before == name:
        return state
    goes_down = before is not None and name < before
    window = state.late_window.get(partition) if goes_down else None
    after = _edit_partition(state, partition, name, None if window is None else _cut_window(window, name), now)
    last = _last_committed(after, join(partition, name)) if goes_down else state.last_committed_file
    return replace(after, last_committed_file=last)


def begin_behind(partition: str, name: str, now: datetime) -> PathState:
    """Return the state of a source that begins after a file: that file and all before it count as finished."""
    path = join(partition, name)
    return PathState(
        watermark=Active(path),
        partition_watermarks={partition: name},
        last_committed_file=path,
        # What lies before belongs to whoever filled the table; nothing is known of it by name.
        sealed_below=partition,
        last_update_ts=int(now.timestamp()),
    )


def forget_partition(source: PathSource, state: PathState, partition: str, now: datetime) -> PathState:
    """Forget ``partition``: all its files are to be read, as if it were new."""
    _check_open(source, state, partition)
    if not knows(state, partition):
        raise TidegateError(
            f"nothing is recorded about partition {partition or '(top level)'!r} of source {source.name!r}",
            "see `tidegate watermark show` for those that have a position",
        )
    after = _edit_partition(state, partition, None, None, now)
    return replace(after, last_committed_file=_last_committed(after, f"{partition}/" if partition else ""))


def _edit_partition(
    state: PathState, partition: str, name: str | None, window: LateWindow | None, now: datetime
) -> PathState:
    """Set watermark and window of ``partition``, and adjust files and greatest path.

    The greatest path stays, unless it was that of the partition.
    """
    watermarks = _set_entry(state.partition_watermarks, partition, name)
    others = None if state.value is not None and split(state.value)[0] == partition else state.value
    value = greater(others, greatest_path(watermarks))
    stays = name is None and state.value == value
    return replace(
        state,
        watermark=state.watermark if stays else Initial() if value is None else Active(value),
        partition_watermarks=watermarks,
        files={path: file for path, file in state.files.items() if not _is_forgotten(path, partition, name)},
        late_window=_set_entry(state.late_window, partition, window),
        last_update_ts=int(now.timestamp()),
    )


def blank_state(now: datetime) -> PathState:
    """Return the state of an unknown source, without seals: the cold start is still to come."""
    return PathState(last_update_ts=int(now.timestamp()))


def knows(state: PathState, partition: str) -> bool:
    """True if anything is recorded about ``partition``."""
    return (
        partition in state.partition_watermarks
        or partition in state.late_window
        or any(split(path)[0] == partition for path in state.files)
    )


def _check_open(source: PathSource, state: PathState, partition: str) -> None:
    if is_sealed(Layout.of(source), state, partition):
        raise TidegateError(
            f"partition {partition!r} of source {source.name!r} is sealed: it has no watermark any more, and its files"
            " are not looked at",
            f"to read its files again, replay them: `tidegate replay --partition '{partition}'`",
        )


def _cut_window(window: LateWindow, name: str) -> LateWindow | None:
    """Keep the part of the window that a lower watermark still covers; None if it begins above that."""
    if not window.reaches(name):
        return None
    return LateWindow(tuple(kept for kept in window.names if kept <= name), window.above)


def _is_forgotten(path: str, partition: str, name: str | None) -> bool:
    """True if ``path`` lies in the partition, and at or below ``name`` if given."""
    folder, file_name = split(path)
    return folder == partition and (name is None or file_name <= name)


def _set_entry(entries: Mapping[str, T], key: str, value: T | None) -> dict[str, T]:
    """Set a new value for ``key``, or drop it."""
    rest = {other: entry for other, entry in entries.items() if other != key}
    return rest if value is None else {**rest, key: value}


def _last_committed(state: PathState, barrier: str) -> str | None:
    """Return the greatest finished path not above ``barrier``; unchanged if it already lies below."""
    last, limit = state.last_committed_file, sort_key(barrier)
    if last is None or sort_key(last) <= limit:
        return last
    finished = (join(partition, name) for partition, name in state.partition_watermarks.items())
    return max((path for path in finished if sort_key(path) <= limit), key=sort_key, default=None)


_WILD = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Selection:
    """Files by ``pattern`` (as in ``source.pattern``) or below ``directory``; exactly one is given."""

    pattern: str | None = None
    directory: str | None = None

    def __post_init__(self) -> None:
        if (self.pattern is None) == (self.directory is None):
            raise ValueError("Selection: give a pattern or a directory")

    def __str__(self) -> str:
        return f"files {self.pattern}" if self.directory is None else f"partition {self.directory or '(top level)'}"

    @property
    def prefix(self) -> str:
        """The directory that contains everything selected.

        >>> Selection("date=2026-01-28/hour=1*/*.gz").prefix
        'date=2026-01-28'
        """
        if self.directory is not None:
            return self.directory
        fixed: list[str] = []
        for level in (self.pattern or "").removeprefix("/").split("/")[:-1]:
            if _WILD & set(level):
                break
            fixed.append(level)
        return "/".join(fixed)

    def selects(self, path: str) -> bool:
        """True if the file at ``path`` is selected."""
        if self.directory is not None:
            return not self.directory or path.startswith(f"{self.directory}/")
        return matches_path(self.pattern or "", path)


@dataclass(frozen=True, slots=True)
class Sorted:
    """``finished`` files are at or below their watermark, ``due`` ones are left to the next run."""

    finished: tuple[SourceFile, ...]
    due: tuple[SourceFile, ...]


def sort_by_state(source: PathSource, state: PathState, files: Iterable[SourceFile], now: datetime) -> Sorted:
    """Sort files by whether ``state`` has them finished; those of sealed partitions are."""
    is_read = is_due(source, seal_cold_start(source, state, now))
    parts: tuple[list[SourceFile], list[SourceFile]] = [], []
    for file in files:
        parts[is_read(file.path)].append(file)
    return Sorted(*map(tuple, parts))


@dataclass(slots=True)
class Found:
    """A number of files, their size, and up to three examples."""

    files: int = 0
    bytes: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, file: SourceFile) -> None:
        self.files += 1
        self.bytes += file.size
        if len(self.examples) < EXAMPLES:
            self.examples.append(file.path)


@dataclass(frozen=True, slots=True)
class Consequences:
    """``again``: finished files that would be read again. ``never``: unread files that would never be read.

    ``from_start``: files of ``asked`` with committed lines that would be read from their first line. ``notes`` say in
    words what happens to recorded progress, failures and late windows.
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
    """Tell what ``after`` changes for ``files``; ``asked`` are paths to report by name."""
    was_due, will_be = (is_due(source, seal_cold_start(source, state, now)) for state in (before, after))
    again, never, listed = Found(), Found(), 0
    from_start: set[str] = set()
    for file in files:
        listed += 1
        due = was_due(file.path), will_be(file.path)
        if file.path in asked and due[1] and (not due[0] or _loses_lines(before, after, file.path)):
            from_start.add(file.path)
        if due == (False, True):
            again.add(file)
        elif due == (True, False):
            never.add(file)
    return Consequences(again, never, listed, tuple(_describe_changes(before, after, will_be)), frozenset(from_start))


def _loses_lines(before: PathState, after: PathState, path: str) -> bool:
    """True if the committed lines of a file in progress are forgotten."""
    progress = before.files.get(path)
    return progress is not None and path not in after.files and (isinstance(progress, Finished) or progress.records > 0)


def _describe_changes(before: PathState, after: PathState, is_due: Callable[[str], bool]) -> Iterator[str]:
    dropped = [(path, progress) for path, progress in sorted(before.files.items()) if path not in after.files]
    yield from describe_forgotten({path: each for path, each in dropped if not isinstance(each, Finished)})
    kept = [split(path)[0] for path, _ in before.find_unfinished() if path in after.files]
    stays = sum(
        before.partition_watermarks.get(partition) != after.partition_watermarks.get(partition) for partition in kept
    )
    if stays:
        yield f"{stays:,} that failed or are in progress above the new watermark stay as they are"
    islands = sum(is_due(path) for path, progress in dropped if isinstance(progress, Finished))
    if islands:
        yield f"{islands:,} that finished above a gap are no longer remembered by name"
    lost = sum(not is_due(path) for path in _window_paths(before) - _window_paths(after))
    if lost:
        names = "1 name leaves" if lost == 1 else f"{lost:,} names leave"
        yield f"{names} the late window: what comes late beside them is not noticed any more"


def describe_forgotten(files: Mapping[str, Unfinished]) -> Iterator[str]:
    """Tell which files that failed or are in progress are forgotten, some by name."""
    for path, progress in sorted(files.items())[:EXAMPLES]:
        yield _describe_forgotten(path, progress)
    if len(files) > EXAMPLES:
        yield f"{len(files) - EXAMPLES:,} more that failed or are in progress are forgotten"


def _window_paths(state: PathState) -> set[str]:
    return {join(partition, name) for partition, window in state.late_window.items() for name in window.names}


def _describe_forgotten(path: str, progress: Unfinished) -> str:
    what = f"failed ({progress.reason})" if isinstance(progress, Failed) else "is in progress"
    kept = f"; {progress.records:,} of its lines are in the table and stay there" if progress.records else ""
    return f"{path} {what}, which is forgotten{kept}"
