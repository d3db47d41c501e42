"""One step of the watermark in the making: apply outcomes, forget what is gone, walk, cut the windows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tidegate.specs import LateFiles, PathSource
from tidegate.watermarks.late_window import LateWindow, fitted
from tidegate.watermarks.outcomes import FileOutcome, progress_after
from tidegate.watermarks.path_state import FileProgress, Finished, PathState, RecordsRead
from tidegate.watermarks.paths import SourceFile, join, split
from tidegate.watermarks.standing import Standing, by_partition, standings


@dataclass(frozen=True, slots=True)
class Shown:
    """What the listing showed of the open partitions: names ascending; all of them if ``complete``."""

    names: Mapping[str, Sequence[str]]
    files: Sequence[SourceFile]
    complete: bool

    @classmethod
    def of(cls, listed: Sequence[SourceFile], complete: bool, is_sealed: Callable[[str], bool]) -> Shown:
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
class Step:
    """Watermarks, files and windows while a step is made from ``start``; call the methods in their order."""

    source: PathSource
    start: PathState
    shown: Shown
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
        standing_of = standings(self.source, self.start)
        standing: dict[str, Standing] = {}
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
        fitting = fitted(whole, self.source.late_window, self.source.late_window_total, active)
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
            standing = Standing(self.watermarks.get(partition), window, progress.get(partition, {}))
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
