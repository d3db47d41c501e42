"""The late window: the greatest finished names of a partition; a name that is not among them is late.

A file may appear below its partition's watermark, even while it is being listed. Inside the window every
finished name is known, so what is not among them has not been read. Below it nothing is known and nothing is
looked for. A partition without a window has an empty one that starts at its watermark.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LateWindow:
    """All finished names greater than ``above``, ascending; ``None``: from the partition's start."""

    names: tuple[str, ...]
    above: str | None = None

    def reaches(self, name: str) -> bool:
        """Whether ``name`` lies inside the window."""
        return self.above is None or name > self.above

    def including(self, names: Iterable[str]) -> LateWindow:
        """The window with more finished names; those below it are not kept."""
        return LateWindow(tuple(sorted({*self.names, *filter(self.reaches, names)})), self.above)

    def with_at_most(self, count: int) -> LateWindow:
        """The window with its ``count`` greatest names, starting above the greatest one it lost."""
        excess = len(self.names) - count
        if excess <= 0:
            return self
        return LateWindow(self.names[excess:], self.names[excess - 1])


def fitted(windows: Mapping[str, LateWindow], each: int, total: int, active: Collection[str]) -> dict[str, LateWindow]:
    """The windows with at most ``each`` names, and ``total`` over all.

    Partitions that are not ``active`` shrink first, the smallest partition first.
    """
    sized = {partition: window.with_at_most(each) for partition, window in windows.items()}
    excess = sum(len(window.names) for window in sized.values()) - total
    for partition in sorted(sized, key=lambda partition: (partition in active, partition)):
        if excess <= 0:
            break
        before = len(sized[partition].names)
        sized[partition] = sized[partition].with_at_most(max(0, before - excess))
        excess -= before - len(sized[partition].names)
    return sized
