"""The ledger: which files were ingested when, and by which commit."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.commands.project import Config, file_sources
from tidegate.core.files.paths import matches_path
from tidegate.errors import StateError, TableError, TidegateError
from tidegate.protocol import ledger_blocks
from tidegate.protocol.change import Coverage
from tidegate.protocol.documents import Parent
from tidegate.protocol.ledger import Compacted
from tidegate.protocol.ledger_blocks import LedgerEntry
from tidegate.protocol.position import Position
from tidegate.reports.ledger import (
    FileRange,
    FilesReport,
    FileTotals,
    IngestedFile,
    LedgerCompaction,
    LedgerExport,
    LedgerGap,
)
from tidegate.runs.file_source import FileSource
from tidegate.runs.tracker import TrackedSource

if TYPE_CHECKING:
    import pyarrow as pa


def files(
    config: Config,
    pipeline: str,
    source: str | None = None,
    *,
    match: str | None = None,
    since: datetime | None = None,
    position: int | None = None,
    limit: int = 50,
) -> FilesReport:
    """Which files were ingested when and by which commit, newest first; ``limit`` 0: all."""
    return files_of(file_sources(config, pipeline, source), FilesQuery(match, since, position), limit)


def compact_ledger(config: Config, pipeline: str, source: str | None = None) -> tuple[LedgerCompaction, ...]:
    """Gather old documents of a pipeline's sources into blocks of the ledger; runs do the same bit by bit."""
    return tuple(compact_source(bound) for bound in file_sources(config, pipeline, source))


@dataclass(frozen=True, slots=True)
class FilesQuery:
    """A query of the ledger: a pattern of paths, the earliest commit time, one position."""

    match: str | None = None
    since: datetime | None = None
    position: int | None = None

    def matches(self, file: str) -> bool:
        """Whether the path fits; a pattern without ``/`` matches the file name alone."""
        return self.match is None or matches_path(self.match, file)


def moment_of(entry: LedgerEntry) -> datetime | None:
    """When the entry was written; None for a gap."""
    return datetime.fromisoformat(entry.written_at) if entry.written_at else None


@dataclass(slots=True)
class _IngestedRange:
    file: str
    size: int
    etag: str | None
    given_up: bool
    ranges: list[FileRange] = field(default_factory=list)


class FileLines:
    """Collects the lines of one source, at most ``limit`` of them, 0 for all.

    A reading begins at record 0: an older range that ends where the line begins belongs to it, and any other range
    of the same file is an earlier reading, with a line of its own.
    """

    def __init__(self, pipeline: str, source: str, wanted: FilesQuery, limit: int) -> None:
        self._names = (pipeline, source)
        self._wanted = wanted
        self._limit = limit
        self._lines: list[_IngestedRange] = []
        self._begun: dict[str, _IngestedRange] = {}
        self.complete = True

    def add(self, entry: LedgerEntry) -> bool:
        """Add the ranges of the next older position; True if nothing older matters."""
        for item in reversed(entry.coverage):
            if self._wanted.matches(item.file):
                self._take(entry, item)
        return not self.complete and not self._begun

    def _take(self, entry: LedgerEntry, item: Coverage) -> None:
        line = self._begun.pop(item.file, None)
        if line is None or line.ranges[-1].start != item.end:
            # Not the end yet: lines that have begun still need their older ranges.
            if self._limit and len(self._lines) == self._limit:
                self.complete = False
                return
            line = _IngestedRange(item.file, item.size, item.etag, item.given_up)
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

    def files(self) -> tuple[IngestedFile, ...]:
        """The lines so far, newest first."""
        return tuple(self._report(line) for line in self._lines)

    def _report(self, line: _IngestedRange) -> IngestedFile:
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


_CLOCKS_APART = 256
"""Positions in a row below ``since`` that end the search: clocks of several machines differ."""


def files_of(sources: Sequence[FileSource], wanted: FilesQuery, limit: int) -> FilesReport:
    """The ingested files of these sources, newest first; ``limit`` 0 means all."""
    found = [_files_of(bound, wanted, limit) for bound in sources]
    lines = sorted((line for lines, *_ in found for line in lines), key=_newest, reverse=True)
    shown = tuple(lines[:limit] if limit else lines)
    return FilesReport(
        files=shown,
        totals=_totals(shown),
        complete=all(complete for _, complete, *_ in found) and len(shown) == len(lines),
        gaps=tuple(gap for _, _, gaps, _ in found for gap in gaps),
        notes=tuple(note for *_, notes in found for note in notes),
    )


def _newest(line: IngestedFile) -> tuple[float, int]:
    return (line.committed_at.timestamp() if line.committed_at else 0.0, line.position)


def _totals(lines: Sequence[IngestedFile]) -> FileTotals:
    commits = {(line.pipeline, line.source, each.position) for line in lines for each in line.ranges}
    return FileTotals(
        files=len(lines),
        bytes=sum(line.size for line in lines),
        records=sum(line.records for line in lines),
        rows=sum(line.rows for line in lines),
        bad=sum(line.bad for line in lines),
        commits=len(commits),
    )


def _files_of(
    bound: FileSource, wanted: FilesQuery, limit: int
) -> tuple[tuple[IngestedFile, ...], bool, tuple[LedgerGap, ...], tuple[str, ...]]:
    newest, notes = newest_position(bound)
    lines = FileLines(bound.pipeline.name, bound.source.name, wanted, limit)
    gaps: list[LedgerGap] = []
    for entry in _entries(bound, wanted, newest):
        if entry.gap is not None:
            _add_gap(gaps, bound, entry)
        elif lines.add(entry):
            return lines.files(), False, tuple(gaps), notes
    return lines.files(), lines.complete, tuple(gaps), notes


def newest_position(bound: TrackedSource) -> tuple[Parent | None, tuple[str, ...]]:
    """The position that OPEN finds; if OPEN stops, the newest note that the ledger can be read up to."""
    try:
        return bound.positions.open(read_only=True).parent, ()
    # The ledger is most wanted when a table cannot be opened.
    except (StateError, TableError) as error:
        return None, (f"{bound.key}: the newest position may be missing, because the table cannot be opened: {error}",)


def _entries(bound: FileSource, wanted: FilesQuery, newest: Parent | None) -> Iterator[LedgerEntry]:
    if wanted.position is not None:
        for entry in bound.ledger.entries(start=wanted.position, newest=newest):
            if entry.version == wanted.position:
                yield entry
            return
        return
    older = 0
    for entry in bound.ledger.newest_first(newest):
        moment = moment_of(entry)
        if wanted.since is None or moment is None or moment >= wanted.since:
            older = 0
            yield entry
        elif (older := older + 1) >= _CLOCKS_APART:
            return


def _add_gap(gaps: list[LedgerGap], bound: FileSource, entry: LedgerEntry) -> None:
    """Add a gap; gaps come newest first, and neighbours with the same reason join."""
    reason = entry.gap or ""
    if gaps and gaps[-1].first == entry.version + 1 and gaps[-1].reason == reason:
        gaps[-1] = replace(gaps[-1], first=entry.version)
    else:
        gaps.append(LedgerGap(bound.pipeline.name, bound.source.name, entry.version, entry.version, reason))


def export_ledger(config: Config, pipeline: str, source: str | None = None, *, to: Path) -> LedgerExport:
    """Export the complete ledger of a pipeline's sources as one local Parquet file for SQL."""
    import pyarrow as pa

    sources = file_sources(config, pipeline, source)
    text = pa.string()
    columns = pa.schema([("pipeline", text), ("source", text), *ledger_blocks.schema()])
    # A reader must never find half a file under the final name.
    part = to.with_name(f".{to.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as sink:
            rows = ledger_blocks.write(
                sink, (batch for bound in sources for batch in _batches(bound, columns)), columns
            )
        part.replace(to)
    except OSError as error:
        raise TidegateError(f"{to} cannot be written ({error})", "name a file in a folder that exists") from error
    finally:
        part.unlink(missing_ok=True)
    return LedgerExport(str(to), len(sources), rows)


def _batches(bound: FileSource, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of one source, with the names that blocks keep only in their path."""
    import pyarrow as pa

    newest, _ = newest_position(bound)
    for batch in bound.ledger.record_batches(newest):
        names = [pa.repeat(pa.scalar(name), batch.num_rows) for name in (bound.key.pipeline, bound.key.source)]
        yield pa.RecordBatch.from_arrays([*names, *batch.columns], schema=columns)


def compact_source(bound: FileSource) -> LedgerCompaction:
    """Gather every block that is due; stops where OPEN would."""
    opened: Position = bound.positions.open(read_only=True)
    done = Compacted()
    if opened.parent is not None:
        done = bound.ledger.compact(opened.parent)
    return LedgerCompaction(bound.pipeline.name, bound.source.name, done.blocks, done.removed)
