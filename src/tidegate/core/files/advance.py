"""The next state of a file source, once rows are committed.

**Watermarks.** The watermark of a partition is the greatest name below which everything listed is finished. It moves up
over finished files, without gaps, and never back. A name that finished above a gap is kept. A truncated listing shows
each partition up to some name, so walking over listed names only is safe. Nothing is sealed after such a listing:
partitions that it did not show may be older.

A plan is carried out in many commits. ``PathSteps`` reads its listing once, so that a step costs what it commits and
what the state has, however much was listed. A finished file stays finished, so only the partitions of the outcomes are
searched again for their first unfinished file.

**Sets.** Finished paths go into the next segment; only files in progress or failed stay in the state.

``apply_commits`` repeats lost steps from the coverage of their commits, by the same rules.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Generic, TypeVar

from tidegate.core.files.discovery import Directories, DirectoryCounts, is_sealed, seal_cold_start, seals_after
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
    file_statuses,
    greater,
    greatest_path,
    group_by_partition,
    progress_after,
    shrink_windows,
)
from tidegate.specs.files import LateFiles, PathSource


class ListedPartitions:
    """The listing of a plan: names ascending, by partition; all of them if ``complete``.

    ``seen_from`` is the state of the viewer: partitions that are sealed there count as not listed.
    """

    def __init__(self, layout: Layout, listed: Sequence[SourceFile], complete: bool) -> None:
        self.complete = complete
        self.seen_from = PathState()
        self._layout = layout
        self._listed = listed
        self._names: dict[str, list[str]] = {}
        for file in listed:
            partition, _, name = file.path.rpartition("/")
            self._names.setdefault(partition, []).append(name)
        for names in self._names.values():
            # Not every store lists in order.
            names.sort()

    def partitions(self) -> Iterator[str]:
        """Yield the listed partitions."""
        return (partition for partition in self._names if not is_sealed(self._layout, self.seen_from, partition))

    def names(self, partition: str) -> Sequence[str]:
        """Return the listed names of one partition."""
        names = self._names.get(partition)
        return () if names is None or is_sealed(self._layout, self.seen_from, partition) else names

    def covers(self, partition: str, name: str) -> bool:
        """True if ``name`` would be listed if it existed."""
        names = self.names(partition)
        return self.complete or bool(names and name <= names[-1])

    def has(self, partition: str, name: str) -> bool:
        """Whether ``name`` is listed."""
        names = self.names(partition)
        at = bisect_left(names, name)
        return at < len(names) and names[at] == name

    @cached_property
    def files(self) -> Mapping[str, SourceFile]:
        """The listed files by path."""
        return {file.path: file for file in self._listed}


class FirstUnread:
    """The smallest unfinished name of each partition that has one; it only moves up."""

    def __init__(self, layout: Layout, shown: ListedPartitions, status_of: Callable[[str], FileStatus]) -> None:
        self._shown = shown
        self._at: dict[str, int] = {}
        for partition in shown.partitions():
            self._find(partition, 0, status_of)
        # Reversed, so that the least is popped from the end as partitions finish.
        self._order = sorted(self._at, reverse=True)
        self._starts: dict[str, list[tuple[datetime, str]]] = {}
        for partition in self._at:
            if time := layout.time_of(partition):
                self._starts.setdefault(time.prefix, []).append((time.start, partition))
        for starts in self._starts.values():
            starts.sort(reverse=True)

    def move(self, partitions: Iterable[str], status_of: Callable[[str], FileStatus]) -> None:
        """Update these partitions, in which more files may be finished."""
        for partition in partitions:
            if (at := self._at.pop(partition, None)) is not None:
                self._find(partition, at, status_of)

    def _find(self, partition: str, at: int, status_of: Callable[[str], FileStatus]) -> None:
        names, is_finished = self._shown.names(partition), status_of(partition).is_finished
        while at < len(names) and is_finished(names[at]):
            at += 1
        if at < len(names):
            self._at[partition] = at

    def __contains__(self, partition: str) -> bool:
        return partition in self._at

    def least(self) -> tuple[str, str] | None:
        """Return the least partition with an unfinished name, and that name."""
        while self._order and self._order[-1] not in self._at:
            self._order.pop()
        if not self._order:
            return None
        partition = self._order[-1]
        return partition, self._shown.names(partition)[self._at[partition]]

    def oldest(self) -> dict[str, datetime]:
        """Return the start of the oldest partition with an unfinished name, by the levels before the time."""
        oldest: dict[str, datetime] = {}
        for prefix, starts in self._starts.items():
            while starts and starts[-1][1] not in self._at:
                starts.pop()
            if starts:
                oldest[prefix] = starts[-1][0]
        return oldest


@dataclass(slots=True)
class StepBuilder:
    """Watermarks, files and windows while a step is made from ``start``; call the methods in order."""

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
        return self.source.late_files is LateFiles.WINDOW

    @property
    def changed(self) -> bool:
        """True if there is anything to commit."""
        now = (self.watermarks, self.files, self.windows)
        return now != (self.start.partition_watermarks, self.start.files, self.start.late_window)

    def apply(self, outcomes: Sequence[FileOutcome]) -> None:
        """Record the outcome of each file; an outcome of a finished file changes nothing."""
        status_of = file_statuses(self.source, self.start)
        statuses: dict[str, FileStatus] = {}
        for outcome in outcomes:
            partition, name = split(outcome.path)
            if partition not in statuses:
                statuses[partition] = status_of(partition)
            before = self.files.get(outcome.path)
            # Repeating a step must change nothing: recovery applies commits that the state may have already.
            if isinstance(before, Finished) or (before is None and statuses[partition].is_finished(name)):
                continue
            after = progress_after(before, outcome)
            if after is not None:
                self.files[outcome.path] = after

    def forget_removed(self) -> None:
        """Drop unfinished files that were removed at the source, unless some of their lines are committed."""
        for path, progress in list(self.files.items()):
            if isinstance(progress, Finished) or progress.records:
                continue
            partition, name = split(path)
            # Only a listing that would have shown it proves that a file is gone.
            if self.shown.covers(partition, name) and not self.shown.has(partition, name):
                del self.files[path]

    def walk(self) -> None:
        """Move each watermark over the finished names that follow it, and add them to the window."""
        moved: list[tuple[str, str | None, str]] = []
        for partition, progress in sorted(group_by_partition(self.files).items()):
            before = self.watermarks.get(partition)
            after = _walk_finished(before, self.shown.names(partition), progress)
            if after is None:
                continue
            if after != before:
                self.watermarks[partition] = after
                moved.append((partition, before, after))
            done = [name for name, file in progress.items() if isinstance(file, Finished) and name <= after]
            for name in done:
                del self.files[join(partition, name)]
            if done and self.looks_back:
                # A window begins where the watermark stood: what finished before it is unknown by name.
                window = self.windows.get(partition, LateWindow((), before))
                self.windows[partition] = window.with_names(done)
        self.advanced = tuple(moved)

    def fit_windows(self) -> None:
        """Cut the windows to their size; a late unread file that falls out is kept by name."""
        if not self.looks_back:
            self.windows = {}
            return
        active = {partition for partition, _, _ in self.advanced}
        fitting = shrink_windows(self.windows, self.source.late_window, self.source.late_window_total, active)
        self._keep_late(
            {partition: window for partition, window in self.windows.items() if fitting[partition] != window},
            fitting,
        )
        self.windows = {
            partition: window
            for partition, window in fitting.items()
            # An empty window at the watermark says what a missing one says.
            if window.names or window.above != self.watermarks.get(partition)
        }

    def _keep_late(self, cut: Mapping[str, LateWindow], fitting: Mapping[str, LateWindow]) -> None:
        if not cut:
            return
        progress = group_by_partition(self.files)
        for partition, window in cut.items():
            status = FileStatus(self.watermarks.get(partition), window, progress.get(partition, {}))
            names, above = self.shown.names(partition), fitting[partition].above or ""
            for name in names[bisect_right(names, window.above or "") : bisect_right(names, above)]:
                path = join(partition, name)
                if path not in self.files and not status.is_finished(name):
                    file = self.shown.files[path]
                    # Below the window nothing is searched, so without this entry the file would never be read.
                    self.files[path] = RecordsRead(0, file.size, file.etag, rounds=0)


def _walk_finished(before: str | None, names: Sequence[str], progress: Mapping[str, FileProgress]) -> str | None:
    """Return the greatest name that follows the watermark without a gap."""
    at = 0 if before is None else bisect_right(names, before)
    reached = before
    while at < len(names) and isinstance(progress.get(names[at]), Finished):
        reached = names[at]
        at += 1
    return reached


T = TypeVar("T")
S = TypeVar("S", PathState, SetState)


@dataclass(frozen=True, slots=True)
class Advance(Generic[S]):
    """A step of the state; without ``changed`` there is nothing to commit.

    ``advanced`` has (partition, name before, name after); ``sealed`` the partitions that left the state; ``full``: no
    more files may wait above gaps or fail, so stop reading and plan again. ``finished`` files go into the next segment
    of a set, which ``state`` does not refer to yet.
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
    seals_by: datetime | None = None,
) -> Advance[PathState]:
    """Advance the state over the rows of ``outcomes``, once: the first of ``PathSteps``."""
    steps = PathSteps(source, listed, now, complete=complete, directories=directories, seals_by=seals_by)
    return steps.after(state, outcomes)


class PathSteps:
    """The steps of one plan over its listing.

    ``listed``, ``complete``, ``directories``, ``now`` and ``seals_by`` are those of the plan, for all its commits.
    Steps are cheap as long as each builds on the one before.
    """

    def __init__(
        self,
        source: PathSource,
        listed: Sequence[SourceFile],
        now: datetime,
        *,
        complete: bool,
        directories: Directories | None = None,
        seals_by: datetime | None = None,
    ) -> None:
        self._source = source
        self._now = now
        self._seals_by = seals_by or now
        self._layout = Layout.of(source)
        self._shown = ListedPartitions(self._layout, listed, complete)
        self._directories = directories or Directories()
        self._reached: PathState | None = None
        self._unread: FirstUnread | None = None
        self._counts: DirectoryCounts | None = None

    def after(self, state: PathState, outcomes: Sequence[FileOutcome]) -> Advance[PathState]:
        """Return the state once the rows of ``outcomes`` are committed on top of ``state``.

        ``StateError`` if an outcome does not begin where the recorded progress ends.
        """
        source, shown = self._source, self._shown
        shown.seen_from = state
        start = seal_cold_start(source, state, self._now, shown.partitions())
        step = StepBuilder(source, start, shown)
        step.apply(outcomes)
        step.forget_removed()
        step.walk()
        if start is state and not step.changed:
            return Advance(state, full=_is_full(source, state))
        step.fit_windows()
        value = greater(start.value, greatest_path(step.watermarks))
        after = replace(
            start,
            watermark=Active(value) if step.advanced and value is not None else start.watermark,
            partition_watermarks=step.watermarks,
            files=step.files,
            late_window=step.windows,
            window_lost=False,
            last_update_ts=int(self._now.timestamp()),
        )
        unread = self._first_unread(state, after, outcomes)
        after = replace(after, last_committed_file=_last_committed(after, unread))
        sealed: tuple[str, ...] = ()
        if shown.complete:
            after, sealed = self._seal_old(after, unread)
        self._reached = after
        return Advance(after, step.advanced, sealed, changed=True, full=_is_full(source, after))

    def _first_unread(self, before: PathState, after: PathState, outcomes: Sequence[FileOutcome]) -> FirstUnread:
        status_of = file_statuses(self._source, after)
        # Only a step from the state that the last one made may reuse what was found; a contested commit starts anew.
        if self._unread is None or before is not self._reached:
            self._unread = FirstUnread(self._layout, self._shown, status_of)
            self._counts = None
        else:
            self._unread.move({split(outcome.path)[0] for outcome in outcomes}, status_of)
        return self._unread

    def _seal_old(self, state: PathState, unread: FirstUnread) -> tuple[PathState, tuple[str, ...]]:
        """Drop the partitions that are old enough to be sealed; return the state and these partitions."""
        layout = self._layout
        islands = {split(path)[0] for path, progress in state.files.items() if isinstance(progress, Finished)}
        finished = {*state.partition_watermarks, *islands}
        seals = seals_after(self._source, layout, state, finished, unread.oldest(), self._seals_by)
        moved = replace(state, sealed=seals)
        partitions = {*finished, *state.first_unfinished, *state.late_window}
        # A file that is still unread keeps its partition open, however old.
        dropped = {
            partition for partition in partitions if partition not in unread and is_sealed(layout, moved, partition)
        }
        if self._counts is None:
            self._counts = DirectoryCounts(layout, state.sealed_below, self._directories)
        kept = replace(
            state,
            partition_watermarks=_without(state.partition_watermarks, dropped),
            late_window=_without(state.late_window, dropped),
            files={path: progress for path, progress in state.files.items() if split(path)[0] not in dropped},
            sealed=self._counts.update_counts(seals),
        )
        return kept, tuple(sorted(dropped))


def mark_idle(state: S, listed_any: bool) -> S:
    """Mark the watermark idle after a poll that found nothing to read; ``listed_any``: there are files at all.

    A source with files in progress or failed is not idle yet. Neither is one that was emptied: its watermark stays.
    """
    if isinstance(state.watermark, Initial) or not listed_any or any(True for _ in state.find_unfinished()):
        return state
    return replace(state, watermark=Idle(state.watermark.value))


def _is_full(source: PathSource, state: PathState | SetState) -> bool:
    return len(state.files) >= source.max_islands


def _last_committed(state: PathState, unread: FirstUnread) -> str | None:
    """Return the greatest path at or below which everything listed is finished."""
    finished = list(state.partition_watermarks.items())
    if state.last_committed_file is not None:
        finished.append(split(state.last_committed_file))
    barrier = unread.least()
    if barrier is not None:
        window = state.late_window.get(barrier[0])
        finished.extend((barrier[0], name) for name in (window.names if window else ()))
        finished = [path for path in finished if path < barrier]
    return join(*max(finished)) if finished else None


def _without(entries: Mapping[str, T], dropped: set[str]) -> dict[str, T]:
    return {key: value for key, value in entries.items() if key not in dropped}


def apply_commits(
    source: PathSource,
    state: PathState,
    commits: Sequence[Sequence[Covered]],
    listed: Sequence[SourceFile],
    now: datetime,
) -> PathState:
    """Return the state after ``commits``, oldest first, each with the ranges that it made visible.

    ``listed`` is what lies above ``state`` now; it counts as truncated, so nothing is sealed or forgotten.
    ``StateError`` if a range does not begin where the progress before it ends: a commit in between is missing.
    """
    steps = PathSteps(source, listed, now, complete=False)
    for ranges in commits:
        state = steps.after(state, ranges).state
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
    """Advance the state over the rows of ``outcomes``, once: the first of ``SetSteps``."""
    return SetSteps(source, listed, now, complete=complete).after(state, outcomes)


class SetSteps:
    """The steps of one plan; ``listed`` are the files that it saw outside all segments, all of them if ``complete``."""

    def __init__(self, source: PathSource, listed: Sequence[SourceFile], now: datetime, *, complete: bool) -> None:
        self._source = source
        self._listed = listed
        self._now = now
        self._complete = complete

    @cached_property
    def _listed_paths(self) -> frozenset[str]:
        return frozenset(file.path for file in self._listed)

    def after(self, state: SetState, outcomes: Sequence[FileOutcome]) -> Advance[SetState]:
        """Return the state once the rows of ``outcomes`` are committed on top of ``state``, with their segment.

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
        if self._complete:
            files = {
                path: progress for path, progress in files.items() if progress.records or path in self._listed_paths
            }
        if not finished and files == state.files:
            return Advance(state, full=_is_full(self._source, state))
        last = max(finished, key=sort_key, default=None)
        after_step = replace(
            state,
            watermark=state.watermark if last is None else Active(last),
            files=files,
            last_update_ts=int(self._now.timestamp()),
        )
        full = _is_full(self._source, after_step)
        return Advance(after_step, changed=True, full=full, finished=tuple(finished.values()))


ALIKE = 8
"""Number of segments of about the same size that are merged into one: each path is then written five to seven times
in all, and a million paths make a few dozen segments (decision 0009)."""


def segments_to_merge(segments: Sequence[Segment], added: int) -> tuple[Segment, ...]:
    """Choose the segments to merge with ``added`` new paths.

    Those are the segments that are not larger, once there are enough of them, and then those of about the size of the
    result. So there are never more than seven of one size.
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
    """Put ``new`` in place of the merged segments."""
    return replace(state, segments=(*(segment for segment in state.segments if segment not in merged), new))


def _rank(count: int) -> int:
    """Return the size class of a count; counts of one class differ by less than a factor of ``ALIKE``."""
    return max(0, count.bit_length() - 1) // (ALIKE.bit_length() - 1)
