"""The next state of a file source, once rows are committed.

**Watermarks.** The watermark of a partition is the greatest name below which everything listed is finished. It moves up
over finished files, without gaps, and never back. A name that finished above a gap is kept. A listing that was cut off
shows each partition up to some name, so walking over listed names only is safe. Nothing is sealed after such a listing:
what it did not show may be older.

**Sets.** Finished paths go into the next segment; only files in progress or failed stay in the state.

``apply_commits`` repeats lost steps from the coverage of their commits, by the same rules.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Generic, TypeVar

from tidegate.core.files.discovery import Directories, count_directories, is_sealed, seal_cold_start, seals_after
from tidegate.core.files.paths import Layout, SourceFile, join, sort_key, split
from tidegate.core.files.state import (
    Active,
    Covered,
    FileOutcome,
    FileProgress,
    FileStatus,
    Finished,
    Idle,
    Initial,
    LateWindow,
    PathState,
    RecordsRead,
    Segment,
    SetState,
    Unfinished,
    WatermarkState,
    by_partition,
    file_statuses,
    greater,
    greatest_path,
    progress_after,
    shrink_windows,
)
from tidegate.specs.project import LateFiles, PathSource


@dataclass(frozen=True, slots=True)
class ListedPartitions:
    """What the listing showed of the open partitions: names ascending; all of them if ``complete``."""

    names: Mapping[str, Sequence[str]]
    files: Sequence[SourceFile]
    complete: bool

    @classmethod
    def of(cls, listed: Sequence[SourceFile], complete: bool, is_sealed: Callable[[str], bool]) -> ListedPartitions:
        """The listed files by partition, without those that are sealed by now."""
        grouped: dict[str, list[str]] = {}
        for file in listed:
            partition, _, name = file.path.rpartition("/")
            grouped.setdefault(partition, []).append(name)
        return cls(
            {partition: sorted(names) for partition, names in grouped.items() if not is_sealed(partition)},
            listed,
            complete,
        )

    def covers(self, partition: str, name: str) -> bool:
        """Whether ``name`` would have been shown if it were there."""
        names = self.names.get(partition, ())
        return self.complete or bool(names and name <= names[-1])

    def has(self, partition: str, name: str) -> bool:
        """Whether ``name`` was shown."""
        names = self.names.get(partition, ())
        at = bisect_left(names, name)
        return at < len(names) and names[at] == name


@dataclass(slots=True)
class StepBuilder:
    """Watermarks, files and windows while a step is made from ``start``; call the methods in their order."""

    source: PathSource
    start: PathState
    shown: ListedPartitions
    watermarks: dict[str, str] = field(init=False)
    files: dict[str, FileProgress] = field(init=False)
    windows: dict[str, LateWindow] = field(init=False)
    advanced: tuple[tuple[str, str | None, str], ...] = ()

    def __post_init__(self) -> None:
        self.watermarks = dict(self.start.partition_watermarks)
        self.files = dict(self.start.files)
        self.windows = dict(self.start.late_window)

    @property
    def looks_back(self) -> bool:
        """Whether late files are looked for."""
        return self.source.late_files is LateFiles.WINDOW

    @property
    def changed(self) -> bool:
        """Whether there is anything to commit."""
        now = (self.watermarks, self.files, self.windows)
        return now != (self.start.partition_watermarks, self.start.files, self.start.late_window)

    def apply(self, outcomes: Sequence[FileOutcome]) -> None:
        """Record what became of each file; an outcome for a finished file changes nothing."""
        standing_of = file_statuses(self.source, self.start)
        standing: dict[str, FileStatus] = {}
        for outcome in outcomes:
            partition, name = split(outcome.path)
            if partition not in standing:
                standing[partition] = standing_of(partition)
            before = self.files.get(outcome.path)
            if isinstance(before, Finished) or (before is None and standing[partition].is_finished(name)):
                continue
            after = progress_after(before, outcome)
            if after is not None:
                self.files[outcome.path] = after

    def forget_what_is_gone(self) -> None:
        """Drop unfinished files that were removed at the source, unless some of their lines are committed."""
        for path, progress in list(self.files.items()):
            if isinstance(progress, Finished) or progress.records:
                continue
            partition, name = split(path)
            if self.shown.covers(partition, name) and not self.shown.has(partition, name):
                del self.files[path]

    def walk(self) -> None:
        """Move each watermark over the finished names that follow it, and remember those in the window."""
        moved: list[tuple[str, str | None, str]] = []
        for partition, progress in sorted(by_partition(self.files).items()):
            before = self.watermarks.get(partition)
            after = _reached(before, self.shown.names.get(partition, ()), progress)
            if after is None:
                continue
            if after != before:
                self.watermarks[partition] = after
                moved.append((partition, before, after))
            self._remember(partition, before, [name for name, each in progress.items() if _done(each, name, after)])
        self.advanced = tuple(moved)

    def _remember(self, partition: str, before: str | None, done: list[str]) -> None:
        for name in done:
            del self.files[join(partition, name)]
        if done and self.looks_back:
            window = self.windows.get(partition, LateWindow((), before))
            self.windows[partition] = window.including(done)

    def fit_windows(self) -> None:
        """Cut the windows to their size; a late file that is not read yet and falls out is kept by name."""
        if not self.looks_back:
            self.windows = {}
            return
        whole = self.windows
        active = {partition for partition, _, _ in self.advanced}
        fitting = shrink_windows(whole, self.source.late_window, self.source.late_window_total, active)
        self._keep_late(
            {partition: window for partition, window in whole.items() if fitting[partition] != window},
            fitting,
        )
        self.windows = {
            partition: window
            for partition, window in fitting.items()
            if window.names or window.above != self.watermarks.get(partition)
        }

    def _keep_late(self, cut: Mapping[str, LateWindow], fitting: Mapping[str, LateWindow]) -> None:
        if not cut:
            return
        progress = by_partition(self.files)
        sizes: dict[str, SourceFile] = {}
        for partition, window in cut.items():
            standing = FileStatus(self.watermarks.get(partition), window, progress.get(partition, {}))
            names = self.shown.names.get(partition, ())
            for name in names[: bisect_right(names, fitting[partition].above or "")]:
                path = join(partition, name)
                if path not in self.files and not standing.is_finished(name):
                    sizes = sizes or {file.path: file for file in self.shown.files}
                    self.files[path] = RecordsRead(0, sizes[path].size, sizes[path].etag, rounds=0)


def _reached(before: str | None, names: Sequence[str], progress: Mapping[str, FileProgress]) -> str | None:
    """The greatest name that follows the watermark without a gap."""
    reached = before
    for name in names[bisect_right(names, before) if before is not None else 0 :]:
        if not isinstance(progress.get(name), Finished):
            break
        reached = name
    return reached


def _done(progress: FileProgress, name: str, watermark: str) -> bool:
    return isinstance(progress, Finished) and name <= watermark


T = TypeVar("T")
S = TypeVar("S", PathState, SetState)


@dataclass(frozen=True, slots=True)
class Advance(Generic[S]):
    """A step of the state; without ``changed`` there is nothing to commit.

    ``advanced`` has (partition, name before, name after); ``sealed`` the partitions that left the state;
    ``full`` means that as many files wait above gaps, or failed, as may be: stop reading and plan again. ``finished``
    are the files that the next segment of a set has to hold, which ``state`` does not refer to yet.
    """

    state: S
    advanced: tuple[tuple[str, str | None, str], ...] = ()
    sealed: tuple[str, ...] = ()
    changed: bool = False
    full: bool = False
    finished: tuple[SourceFile, ...] = ()


def advance(
    source: PathSource,
    state: PathState,
    listed: Sequence[SourceFile],
    outcomes: Sequence[FileOutcome],
    now: datetime,
    *,
    complete: bool,
    directories: Directories | None = None,
) -> Advance[PathState]:
    """The state once the rows of ``outcomes`` are committed.

    ``listed``, ``complete``, ``directories`` and ``now`` are those of the plan, in every commit of that plan.
    ``StateError`` if an outcome does not begin where the recorded progress ends.
    """
    layout = Layout.of(source)
    shown = ListedPartitions.of(listed, complete, lambda partition: is_sealed(layout, state, partition))
    start = seal_cold_start(source, state, now, shown.names)
    step = StepBuilder(source, start, shown)
    step.apply(outcomes)
    step.forget_what_is_gone()
    step.walk()
    if start is state and not step.changed:
        return Advance(state, full=_is_full(source, state))
    step.fit_windows()
    return _step_of(source, start, step, now, directories or Directories())


def idle(state: S, listed_any: bool) -> S:
    """The state after a poll that found nothing to read; ``listed_any`` tells whether there are files at all.

    Files in progress or failed still wait, so the source is not idle yet. One that was emptied is not idle either: its
    watermark stays as it was.
    """
    if isinstance(state.watermark, Initial) or not listed_any or any(True for _ in state.unfinished()):
        return state
    return replace(state, watermark=Idle(state.watermark.value))


def _step_of(
    source: PathSource, start: PathState, step: StepBuilder, now: datetime, directories: Directories
) -> Advance[PathState]:
    """The step as a state: its greatest paths, what it seals, and when it was made."""
    state = replace(
        start,
        watermark=_watermark(start, step),
        partition_watermarks=step.watermarks,
        files=step.files,
        late_window=step.windows,
        window_lost=False,
        last_update_ts=int(now.timestamp()),
    )
    unread = _first_unread(source, state, step.shown)
    state = replace(state, last_committed_file=_last_committed(state, unread))
    sealed: tuple[str, ...] = ()
    if step.shown.complete:
        state, sealed = _sealed(source, state, unread, now, directories)
    return Advance(state, step.advanced, sealed, changed=True, full=_is_full(source, state))


def _is_full(source: PathSource, state: PathState | SetState) -> bool:
    return len(state.files) >= source.max_islands


def _watermark(start: PathState, step: StepBuilder) -> WatermarkState:
    value = greater(start.value, greatest_path(step.watermarks))
    return Active(value) if step.advanced and value is not None else start.watermark


def _first_unread(source: PathSource, state: PathState, shown: ListedPartitions) -> dict[str, str]:
    """The smallest listed name that is not finished, per partition that has one."""
    standing_of = file_statuses(source, state)
    unread: dict[str, str] = {}
    for partition, names in shown.names.items():
        is_finished = standing_of(partition).is_finished
        first = next((name for name in names if not is_finished(name)), None)
        if first is not None:
            unread[partition] = first
    return unread


def _last_committed(state: PathState, unread: dict[str, str]) -> str | None:
    """The greatest path at or below which everything listed is finished."""
    finished = [join(partition, name) for partition, name in state.partition_watermarks.items()]
    if state.last_committed_file is not None:
        finished.append(state.last_committed_file)
    if unread:
        partition = min(unread)
        barrier = sort_key(join(partition, unread[partition]))
        window = state.late_window.get(partition)
        finished.extend(join(partition, name) for name in (window.names if window else ()))
        finished = [path for path in finished if sort_key(path) < barrier]
    return max(finished, key=sort_key, default=None)


def _sealed(
    source: PathSource, state: PathState, unread: dict[str, str], now: datetime, directories: Directories
) -> tuple[PathState, tuple[str, ...]]:
    """The state without the partitions that are old enough, and which these are."""
    layout = Layout.of(source)
    islands = {split(path)[0] for path, progress in state.files.items() if isinstance(progress, Finished)}
    finished = {*state.partition_watermarks, *islands}
    state = replace(state, sealed=seals_after(source, state, finished, unread, now))
    known = {*finished, *state.first_unfinished, *state.late_window}
    dropped = {partition for partition in known if is_sealed(layout, state, partition)} - set(unread)
    kept = replace(
        state,
        partition_watermarks=_without(state.partition_watermarks, dropped),
        late_window=_without(state.late_window, dropped),
        files={path: each for path, each in state.files.items() if split(path)[0] not in dropped},
        sealed=count_directories(source, state, directories),
    )
    return kept, tuple(sorted(dropped))


def _without(entries: Mapping[str, T], dropped: set[str]) -> dict[str, T]:
    return {key: value for key, value in entries.items() if key not in dropped}


def apply_commits(
    source: PathSource,
    state: PathState,
    commits: Sequence[Sequence[Covered]],
    listed: Sequence[SourceFile],
    now: datetime,
) -> PathState:
    """The state after ``commits``, oldest first, each with the ranges that it made visible.

    ``listed`` is what lies above ``state`` now; it is taken for cut off, so that nothing is sealed or forgotten.
    ``StateError`` where a range does not begin where the progress before it ends: a commit in between is missing.
    """
    for ranges in commits:
        state = advance(source, state, listed, ranges, now, complete=False).state
    return state


def advance_set(
    source: PathSource,
    state: SetState,
    listed: Sequence[SourceFile],
    outcomes: Sequence[FileOutcome],
    now: datetime,
    *,
    complete: bool,
) -> Advance[SetState]:
    """The state once the rows of ``outcomes`` are committed and their segment is written.

    ``listed`` are the files that the plan saw and that are in no segment, all of them if ``complete``.
    ``StateError`` if an outcome does not begin where the recorded progress ends.
    """
    files: dict[str, Unfinished] = dict(state.files)
    finished: dict[str, SourceFile] = {}
    for outcome in outcomes:
        if outcome.path in finished:
            continue
        after = progress_after(files.get(outcome.path), outcome)
        if isinstance(after, Finished) and isinstance(outcome, Covered):
            files.pop(outcome.path, None)
            finished[outcome.path] = SourceFile(outcome.path, outcome.size, outcome.etag)
        elif after is not None and not isinstance(after, Finished):
            files[outcome.path] = after
    if complete:
        there = {file.path for file in listed}
        files = {path: each for path, each in files.items() if each.records or path in there}
    if not finished and files == state.files:
        return Advance(state, full=_is_full(source, state))
    last = max(finished, key=sort_key, default=None)
    after_step = replace(
        state,
        watermark=state.watermark if last is None else Active(last),
        files=files,
        last_update_ts=int(now.timestamp()),
    )
    return Advance(after_step, changed=True, full=_is_full(source, after_step), finished=tuple(finished.values()))


ALIKE = 8
"""So many segments of about the same size are merged into one."""


def segments_to_merge(segments: Sequence[Segment], added: int) -> tuple[Segment, ...]:
    """The segments that go into the new one together with ``added`` paths.

    Those are the ones that are not larger, as soon as there are enough of them, and again what has then about
    the size of the result. So there are never more than seven of one size.

    >>> few = [Segment(str(n), 1, 0) for n in range(6)]
    >>> len(segments_to_merge(few, 1)), len(segments_to_merge([*few, Segment("6", 1, 0)], 1))
    (0, 7)
    """
    merged: list[Segment] = []
    rest, total = list(segments), added
    while True:
        alike = [segment for segment in rest if _rank(segment.count) <= _rank(total)]
        if len(alike) < ALIKE - 1:
            return tuple(merged)
        merged += alike
        rest = [segment for segment in rest if segment not in alike]
        total += sum(segment.count for segment in alike)


def with_segment(state: SetState, merged: Sequence[Segment], new: Segment) -> SetState:
    """The state that refers to ``new`` in place of what was merged into it."""
    return replace(state, segments=(*(each for each in state.segments if each not in merged), new))


def _rank(count: int) -> int:
    """Counts of one rank differ by less than a factor of ``ALIKE``."""
    return max(0, count.bit_length() - 1) // (ALIKE.bit_length() - 1)
