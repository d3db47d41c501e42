"""Where rows come from: the source files of a batch, and the line of each of its rows.

A data file remembers, per source file, the range of records that its rows lie in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidegate.state.files import FileRange

Lines = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Origin:
    """The rows of one block of lines. File ``n`` begins at line ``starts[n]`` of the block.

    ``lines`` has the line of each row in the block, ascending where there are several files; ``first_line`` is the
    line of the file that the block begins at, where there is one.
    """

    files: tuple[str, ...]
    starts: Lines
    lines: Lines
    first_line: int = 0

    @classmethod
    def of_file(cls, file: str, lines: Lines, first_line: int = 0) -> Origin:
        """Rows of one file."""
        return cls((file,), np.zeros(1, np.int64), lines, first_line)

    @classmethod
    def joined(cls, origins: Sequence[Origin]) -> Origin:
        """The rows of several blocks, one after the other, as if they were one block."""
        files: list[str] = []
        starts: list[int] = []
        lines: list[Lines] = []
        end = 0
        for origin in origins:
            follows = len(origin.files) == 1 and files[-1:] == list(origin.files)
            begin = starts[-1] if follows else end
            if not follows:
                files.extend(origin.files)
                starts.extend((origin.starts + begin).tolist())
            lines.append(origin.lines + (begin + origin.first_line))
            end = max(end, int(lines[-1].max(initial=0)) + 1, starts[-1] + 1)
        return cls(tuple(files), np.array(starts), np.concatenate(lines))

    def of(self, rows: slice | Lines) -> Origin:
        """Some of the rows."""
        return Origin(self.files, self.starts, self.lines[rows], self.first_line)

    def ranges(self) -> tuple[FileRange, ...]:
        """Per file that has rows here, the records from its first row to its last."""
        if not len(self.lines):
            return ()
        if len(self.files) == 1:
            return (self._range(0, self.lines),)
        numbers = np.searchsorted(self.starts, self.lines, side="right") - 1
        found, firsts = np.unique(numbers, return_index=True)
        return tuple(
            self._range(int(number), lines)
            for number, lines in zip(found, np.split(self.lines, firsts[1:]), strict=True)
        )

    def _range(self, number: int, lines: Lines) -> FileRange:
        shift = self.first_line - int(self.starts[number])
        return FileRange(self.files[number], int(lines.min()) + shift, int(lines.max()) + shift + 1)


class Covering:
    """The ranges of one data file while it grows: one per source file, in the order they came."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, int]] = {}

    def add(self, ranges: tuple[FileRange, ...]) -> None:
        """Take these in; ranges of the same file become the range that holds both."""
        for each in ranges:
            start, end = self._found.get(each.file, (each.start, each.end))
            self._found[each.file] = (min(start, each.start), max(end, each.end))

    def ranges(self) -> tuple[FileRange, ...]:
        """All of them."""
        return tuple(FileRange(file, start, end) for file, (start, end) in self._found.items())
