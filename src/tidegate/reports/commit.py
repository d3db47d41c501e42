"""What a committer did with staged batches, and files that were added to a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.reports.page import (
    Block,
    Cell,
    Columns,
    Gap,
    Heading,
    Style,
    cell,
    facts,
    line,
    source_name,
    table,
)
from tidegate.reports.report import Report, View, combine_codes
from tidegate.reports.status import name_cell
from tidegate.reports.wording import count, duration, size

FILES_SHOWN = 100


@dataclass(frozen=True, slots=True)
class RejectedUnit(Report):
    """Something that the committer rejected; it lies in ``_staging/rejected/`` now."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class StagedSource(Report):
    """What a committer did for one source: ``units`` committed, ``waiting`` ones left, its new ``position``."""

    pipeline: str
    source: str
    position: int
    units: int = 0
    rows: int = 0
    waiting: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class TableCommit(Report):
    """What a committer did for one table; ``exit_code`` is that of the error's class, 0 without one.

    ``files`` and ``rows`` became visible, ``foreign`` of the files came from metas without a unit. ``dropped`` units
    and ``duplicates`` were committed before; ``unknown`` units belong to sources that are not in the configuration;
    ``aging`` ones have waited so long that a VACUUM could remove their files.
    """

    table_uri: str
    table_version: int | None = None
    commits: int = 0
    units: int = 0
    files: int = 0
    rows: int = 0
    foreign: int = 0
    duplicates: int = 0
    dropped: int = 0
    waiting: int = 0
    unknown: int = 0
    aging: int = 0
    rejected: tuple[RejectedUnit, ...] = ()
    sources: tuple[StagedSource, ...] = ()
    error: str | None = None
    exit_code: int = 0

    def describe(self, view: View) -> Iterator[Block]:
        """Yield one row per source, then what was dropped, rejected or failed."""
        yield Heading(self.table_uri)
        if self.sources:
            yield table(SOURCES, self.sources)
        counted = (
            (self.foreign, "file", "of other writers committed"),
            (self.duplicates, "meta", "dropped: another meta already names the same files"),
            (self.dropped, "unit", "dropped: already committed"),
            (self.unknown, "unit", "left alone: the source is not in the configuration"),
            (self.aging, "unit", "waited so long that a VACUUM may remove their files"),
        )
        yield from (line(f"{count(number, noun)} {text}", label="note") for number, noun, text in counted if number)
        yield from (line(f"{unit.path}: {unit.reason}", Style.BAD, "rejected") for unit in self.rejected)
        for source in self.sources:
            if source.error:
                yield line(f"{source_name(source)}: {source.error}", Style.BAD, "error")
        if self.error:
            yield line(self.error, Style.BAD, "error")


@dataclass(frozen=True, slots=True)
class CommitReport(Report):
    """What a committer did; ``ok`` only if nothing was rejected and nothing that could be committed is left."""

    tables: tuple[TableCommit, ...]
    ok: bool
    seconds: float

    def code(self, *, stopped: bool = False) -> int:
        """Return the code that all errors share, else 1; 130 if it was stopped before everything was committed."""
        codes = {committed.exit_code for committed in self.tables if committed.exit_code}
        # A rejected unit is no error of its table, but a script must not take it for a success.
        codes |= {1 for committed in self.tables if committed.rejected}
        return combine_codes(codes, ok=self.ok and not stopped, stopped=stopped)

    def describe(self, view: View) -> Iterator[Block]:
        """Yield one section per table, and the result."""
        for committed in self.tables:
            yield from committed.describe(view)
            yield Gap()
        rows = count(sum(committed.rows for committed in self.tables), "row")
        commits = count(sum(committed.commits for committed in self.tables), "commit")
        done = f"{rows} by {commits} in {duration(self.seconds)}"
        result = Cell(done, Style.GOOD) if self.ok else Cell(f"not everything was committed; {done}", Style.BAD)
        yield facts(("result", result))


@dataclass(frozen=True, slots=True)
class AdoptedFile(Report):
    """A Parquet file below a table that is not in its log; ``refused`` says why it cannot be added."""

    path: str
    size: int
    etag: str | None
    rows: int = 0
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class FileAdoption(Report):
    """Foreign Parquet files below ``prefix`` that were, or would be, added to a table; ``known`` are in its log."""

    table_uri: str
    prefix: str
    files: tuple[AdoptedFile, ...] = ()
    known: int = 0
    adopted: int = 0
    rows: int = 0
    table_version: int | None = None

    def code(self, *, stopped: bool = False) -> int:
        """Return 1 if a file was refused."""
        return int(any(file.refused for file in self.files))

    def describe(self, view: View) -> Iterator[Block]:
        """Yield the files, and whether they were added."""
        if not self.files:
            known = f"; {count(self.known, 'file')} there in its log" if self.known else ""
            yield line(f"nothing to add: no new Parquet file below {self.prefix!r} of {self.table_uri}{known}")
            return
        left = len(self.files) - FILES_SHOWN
        taken = [file for file in self.files if file.refused is None]
        done = Cell("not added", Style.DIM)
        if self.adopted:
            done = Cell(f"added in table version {self.table_version}", Style.GOOD)
        yield Heading(f"{self.table_uri}: files below {self.prefix!r} that are not in its log")
        yield table(FILES, self.files[:FILES_SHOWN], f"and {left:,} more" if left > 0 else "")
        yield Gap()
        yield facts(
            ("files", f"{len(taken):,} of {len(self.files):,}"),
            ("size", size(sum(file.size for file in taken))),
            ("rows", sum(file.rows for file in taken)),
            ("in the log already", self.known),
            ("result", done),
        )


SOURCES: Columns[StagedSource] = {
    "~source": name_cell,
    ">commits": lambda source: source.position,
    ">units": lambda source: source.units,
    ">rows": lambda source: source.rows,
    ">waiting": lambda source: cell(source.waiting or None, Style.WARN),
}
"""The table of ``tidegate commit``."""

FILES: Columns[AdoptedFile] = {
    "~file": lambda file: file.path,
    ">size": lambda file: size(file.size),
    "?etag": lambda file: file.etag,
    ">rows": lambda file: file.rows,
    "=refused": lambda file: cell(file.refused, Style.BAD),
}
"""The table of ``tidegate commit --adopt``."""
