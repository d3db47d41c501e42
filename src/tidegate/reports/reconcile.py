"""All files of sources and tables, compared with what was committed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidegate.reports.page import (
    Block,
    Cell,
    Columns,
    Gap,
    Heading,
    Line,
    Style,
    after_gap,
    cell,
    facts,
    line,
    source_name,
    table,
)
from tidegate.reports.report import Report, View, combine_codes
from tidegate.reports.status import FailedFile, name_cell
from tidegate.reports.wording import count, duration, size

if TYPE_CHECKING:
    from tidegate.core.files.discovery import FutureSeal


SHOWN = 20
NAMES = 10_000
"""The most names kept per kind; counts are always complete."""


@dataclass(frozen=True, slots=True)
class FoundFiles(Report):
    """Files of one kind: their number, total size, and up to 10,000 names, ascending."""

    count: int = 0
    bytes: int = 0
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceComparison(Report):
    """One source compared with the ledger of its commits.

    ``late``, like everything else here, is what is left at the end; ``ingested_files`` and ``ingested_rows`` are what
    ``ingest=True`` read, ``failed`` the late files that it could not read. ``compared`` is false for a column source:
    its rows are not compared. ``future_seals`` are seals that a clock set that was ahead once; ``ingest`` takes them
    back.
    """

    pipeline: str
    source: str
    version: int = 0
    listed: FoundFiles = field(default_factory=FoundFiles)
    ingested: int = 0
    late: FoundFiles = field(default_factory=FoundFiles)
    changed: FoundFiles = field(default_factory=FoundFiles)
    waiting: FoundFiles = field(default_factory=FoundFiles)
    unfinished: FoundFiles = field(default_factory=FoundFiles)
    unexplained: FoundFiles = field(default_factory=FoundFiles)
    excluded: FoundFiles = field(default_factory=FoundFiles)
    gone: FoundFiles = field(default_factory=FoundFiles)
    given_up: FoundFiles = field(default_factory=FoundFiles)
    repaired: FoundFiles = field(default_factory=FoundFiles)
    ingested_files: int = 0
    ingested_rows: int = 0
    commits: int = 0
    failed: tuple[FailedFile, ...] = ()
    notes: tuple[str, ...] = ()
    error: str | None = None
    exit_code: int = 0
    compared: bool = True
    future_seals: tuple[FutureSeal, ...] = ()

    @property
    def needs_someone(self) -> bool:
        """Whether there are findings that no run will repair."""
        found = self.late.count or self.changed.count or self.repaired.count
        return bool(self.error or found or self.future_seals)


@dataclass(frozen=True, slots=True)
class FoundDataFile(Report):
    """A Parquet file below the table; ``modified`` is the store's time."""

    path: str
    size: int
    modified: datetime


@dataclass(frozen=True, slots=True)
class FoundDataFiles(Report):
    """Data files of one kind: their number, total size, the oldest, and up to 10,000 by path."""

    count: int = 0
    bytes: int = 0
    oldest: datetime | None = None
    files: tuple[FoundDataFile, ...] = ()


@dataclass(frozen=True, slots=True)
class TableComparison(Report):
    """The Parquet files below one table compared with its log.

    ``orphans`` are Tidegate's own, older than the limit and in no entry of the log; ``young`` ones are not that old and
    may still be committed; ``foreign`` ones were written by something else. ``removed`` are those that ``clean=True``
    deleted, after it had fenced the sources in ``fenced``.
    """

    table_uri: str
    data_files: int = 0
    orphans: FoundDataFiles = field(default_factory=FoundDataFiles)
    young: FoundDataFiles = field(default_factory=FoundDataFiles)
    foreign: FoundDataFiles = field(default_factory=FoundDataFiles)
    removed: FoundDataFiles = field(default_factory=FoundDataFiles)
    fenced: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    error: str | None = None
    exit_code: int = 0

    @property
    def needs_someone(self) -> bool:
        """Whether there are orphans that nobody removes."""
        return bool(self.error or self.orphans.count)


@dataclass(frozen=True, slots=True)
class ReconcileReport(Report):
    """The comparison of sources and tables; ``ok`` if nothing was found, or all of it was repaired."""

    sources: tuple[SourceComparison, ...]
    tables: tuple[TableComparison, ...]
    ok: bool
    seconds: float

    def code(self, *, stopped: bool = False) -> int:
        """Return the code that all findings share, else 1; 130 if the comparison was stopped."""
        compared: tuple[SourceComparison | TableComparison, ...] = (*self.sources, *self.tables)
        # Waiting and unfinished files are for the next run, and no reason to wake anybody.
        codes = {result.exit_code or 1 for result in compared if result.needs_someone}
        return combine_codes(codes, ok=self.ok, stopped=stopped)

    def describe(self, view: View) -> Iterator[Block]:
        """Yield the sources, the tables, then the findings by name with their remedies."""
        now = datetime.now(UTC)
        yield table(SOURCES, self.sources)
        yield Gap()
        yield table(_table_columns(now), self.tables)
        for source in self.sources:
            yield from _source_details(source)
        for compared in self.tables:
            yield from _table_details(compared, now)
        yield Gap()
        took = f"compared in {duration(self.seconds)}"
        result = Cell(f"no problems found; {took}", Style.GOOD)
        yield facts(("result", result if self.ok else Cell(f"something needs attention; {took}", Style.BAD)))


def _count_compared(
    make: Callable[[SourceComparison], int], style: Style = Style.NORMAL
) -> Callable[[SourceComparison], Cell | None]:
    """Format a number of files; a dash for none, or if the source was not compared."""
    return lambda source: None if source.error or not source.compared else cell(make(source) or None, style)


def _count_listed(source: SourceComparison) -> object:
    if source.error:
        return Cell("failed", Style.BAD)
    return source.listed.count if source.compared else "not compared"


SOURCES: Columns[SourceComparison] = {
    "~source": name_cell,
    ">listed": _count_listed,
    ">ingested": lambda source: None if source.error or not source.compared else source.ingested,
    ">late": _count_compared(lambda source: source.late.count, Style.BAD),
    ">changed": _count_compared(lambda source: source.changed.count, Style.BAD),
    ">waiting": _count_compared(lambda source: source.waiting.count),
    "?>unfinished": _count_compared(lambda source: source.unfinished.count, Style.WARN),
    "?>given up": _count_compared(lambda source: source.given_up.count + source.repaired.count, Style.WARN),
    "?>gone": _count_compared(lambda source: source.gone.count),
}
"""The first table of ``tidegate reconcile``."""


def _table_columns(now: datetime) -> Columns[TableComparison]:
    """Return the columns of the second table; of a table that could not be read, all numbers are 0."""

    def oldest(table: TableComparison) -> str | None:
        return _age(table.orphans.oldest, now) if table.orphans.oldest else None

    return {
        "~table": lambda table: Cell(table.table_uri, Style.STRONG),
        ">data files": lambda table: Cell("failed", Style.BAD) if table.error else table.data_files,
        ">orphans": lambda table: cell(table.orphans.count or None, Style.WARN),
        "?>size": lambda table: size(table.orphans.bytes) if table.orphans.count else None,
        "?>oldest": oldest,
        "?>young": lambda table: table.young.count or None,
        "?>removed": lambda table: cell(table.removed.count or None, Style.GOOD),
    }


def _age(moment: datetime, now: datetime) -> str:
    return duration((now - moment).total_seconds())


def _source_details(source: SourceComparison) -> Iterator[Block]:
    name = source_name(source)
    if source.ingested_files or source.commits:
        read = f"{count(source.ingested_files, 'late file')} read, {count(source.ingested_rows, 'row')}"
        yield Gap()
        yield line(f"{name}: {read} in {count(source.commits, 'commit')}", Style.GOOD)
    yield from _list_names(f"{name}: late, not read by any run", source.late, "read them with --ingest")
    remedy = "the table has their old rows; replay the files, or leave them"
    yield from _list_names(f"{name}: changed after they were read", source.changed, remedy)
    remedy = (
        "`tidegate dlq retry` reads them as they are now; where a part is in the table, `tidegate replay` replaces it"
    )
    yield from _list_names(f"{name}: changed after they were given up", source.repaired, remedy)
    yield from _list_names(f"{name}: the ledger does not say whether they were read", source.unexplained)
    yield from after_gap(_source_lines(source, name))


def _source_lines(source: SourceComparison, name: str) -> Iterator[Line]:
    yield from (line(f"{name}: {file.path}: {file.reason}", Style.BAD, "failed") for file in source.failed[:SHOWN])
    if source.excluded.count:
        files = count(source.excluded.count, "file")
        yield line(f"{name}: {files} older than the start that partition_filter set", label="note")
    yield from (line(f"{name}: {note}", Style.WARN, "note") for note in (*map(str, source.future_seals), *source.notes))
    if source.error:
        yield line(f"{name}: {source.error}", Style.BAD, "error")


def _list_names(title: str, files: FoundFiles, remedy: str = "") -> Iterator[Block]:
    if files.count:
        yield from _examples(title, files, map(line, files.names[:SHOWN]), remedy)


def _examples(
    title: str, files: FoundFiles | FoundDataFiles, examples: Iterable[Block], remedy: str
) -> Iterator[Block]:
    """Yield a heading, examples of the files, how many more there are, and the remedy."""
    yield Gap()
    yield Heading(f"{title}: {count(files.count, 'file')}, {size(files.bytes)}")
    yield from examples
    if files.count > SHOWN:
        yield line(f"… and {files.count - SHOWN:,} more; --json names up to 10,000", Style.DIM)
    if remedy:
        yield line(remedy, label="remedy")


def _table_details(compared: TableComparison, now: datetime) -> Iterator[Block]:
    yield from _list_data_files(
        f"{compared.table_uri}: orphans, in no commit", compared.orphans, now, "remove them with --clean"
    )
    yield from _list_data_files(f"{compared.table_uri}: removed", compared.removed, now)
    lines = [line(note, label="note") for note in compared.notes]
    if compared.fenced:
        lines.append(line(f"fenced by an empty commit: {', '.join(compared.fenced)}", label="note"))
    if compared.error:
        lines.append(line(compared.error, Style.BAD, "error"))
    yield from after_gap(lines)


def _list_data_files(title: str, files: FoundDataFiles, now: datetime, remedy: str = "") -> Iterator[Block]:
    if files.count:
        columns: Columns[FoundDataFile] = {
            "~file": lambda file: file.path,
            ">size": lambda file: size(file.size),
            ">age": lambda file: _age(file.modified, now),
        }
        yield from _examples(title, files, (table(columns, files.files[:SHOWN]),), remedy)
