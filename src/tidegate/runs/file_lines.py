"""Ranges of files, met newest first, put together to one line per reading of a file."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from tidegate.ledger_reports import FileRange, IngestedFile
from tidegate.planning.globs import matches_path
from tidegate.state.files import Coverage
from tidegate.state.ledger import LedgerEntry


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which files are asked for: a pattern of paths, committed since a moment, at one position."""

    match: str | None = None
    since: datetime | None = None
    position: int | None = None

    def takes(self, file: str) -> bool:
        """Whether the path fits; a pattern without ``/`` is about the file's name alone."""
        return self.match is None or matches_path(self.match, file)


def moment_of(entry: LedgerEntry) -> datetime | None:
    """When the entry was written, None for a gap."""
    return datetime.fromisoformat(entry.written_at) if entry.written_at else None


@dataclass(slots=True)
class _Line:
    file: str
    size: int
    etag: str | None
    given_up: bool
    ranges: list[FileRange] = field(default_factory=list)

    def goes_on_from(self, item: Coverage) -> bool:
        """Whether an older range of the file ends where this line begins."""
        return self.ranges[-1].start == item.end


class FileLines:
    """Collects the lines of one source, at most ``limit`` of them, 0 for all.

    A reading begins at record 0: an older range that ends where the line begins belongs to it, and any other range
    of the same file is an earlier reading, with a line of its own.
    """

    def __init__(self, pipeline: str, source: str, wanted: Wanted, limit: int) -> None:
        self._names = (pipeline, source)
        self._wanted = wanted
        self._limit = limit
        self._lines: list[_Line] = []
        self._begun: dict[str, _Line] = {}
        self.complete = True

    def add(self, entry: LedgerEntry) -> bool:
        """Take the ranges of the next older position; True when nothing older is of interest any more."""
        for item in reversed(entry.coverage):
            if self._wanted.takes(item.file):
                self._take(entry, item)
        return not self.complete and not self._begun

    def _take(self, entry: LedgerEntry, item: Coverage) -> None:
        line = self._begun.pop(item.file, None)
        if line is None or not line.goes_on_from(item):
            if self._limit and len(self._lines) == self._limit:
                self.complete = False
                return
            line = _Line(item.file, item.size, item.etag, item.given_up)
            self._lines.append(line)
        line.ranges.append(
            FileRange(
                position=entry.version,
                table_version=entry.table_version,
                action=entry.action,
                committed_at=moment_of(entry),
                start=item.start,
                end=item.end,
                eof=item.eof,
                rows=item.rows,
                bad=item.bad,
            )
        )
        if item.start > 0:
            self._begun[item.file] = line

    def shown(self) -> tuple[IngestedFile, ...]:
        """The lines so far, newest first."""
        return tuple(self._shown(line) for line in self._lines)

    def _shown(self, line: _Line) -> IngestedFile:
        newest, oldest = line.ranges[0], line.ranges[-1]
        return IngestedFile(
            *self._names,
            file=line.file,
            size=line.size,
            etag=line.etag,
            finished=newest.eof and oldest.start == 0 and not line.given_up,
            records=newest.end - oldest.start,
            rows=sum(each.rows for each in line.ranges),
            bad=sum(each.bad for each in line.ranges),
            position=newest.position,
            table_version=newest.table_version,
            action=newest.action,
            committed_at=newest.committed_at,
            ranges=tuple(reversed(line.ranges)),
            given_up=line.given_up,
        )
