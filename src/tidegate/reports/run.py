"""What a run did, and what ``ingest`` found out before it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from shlex import quote
from typing import Any

from tidegate.core.files.discovery import Reason
from tidegate.core.units.plan import WhySkipped
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
    fold_blocks,
    line,
    names,
    source_name,
    table,
)
from tidegate.reports.report import Report, View, combine_codes, hide_from_json
from tidegate.reports.status import FailedFile, FailedUnit, describe_failed_files, name_cell, state_cell
from tidegate.reports.wording import ROW_CHANGES, count, duration, row_changes, size

FIELDS_SHOWN = 5
UNITS_SHOWN = 10
SOURCES_SHOWN = 3
NORMAL = frozenset(
    {Reason.INTERNAL, Reason.TABLE, Reason.MARKER, Reason.PATTERN, Reason.EXCLUDED, Reason.SEALED, Reason.READ}
    | {Reason.BELOW, Reason.PENDING, WhySkipped.DONE, WhySkipped.UP_TO_DATE, WhySkipped.ABSTINENT}
)
"""Reasons to skip that need no attention."""
NOT_SAVED = "pipelines.yml"


@dataclass(frozen=True, slots=True)
class SourceReport(Report):
    """What a run did for one source; ``exit_code`` is that of the error's class, 0 without one.

    ``bad_records`` and ``dead_files`` went to the dead-letter table. ``staged`` is the number of units left for
    ``tidegate commit``. ``unknown_fields`` are fields without a column, with their counts. ``work_units`` were read
    and committed, ``failed_units`` were not. ``empty``: the location has no file at all. ``block`` is the block of
    tables that the pipeline came from. ``inserted``, ``updated`` and ``deleted`` are what the commits did to the
    rows of the table, and ``unchanged`` the rows that were read and left it as it was; None where nobody counted.
    For people alone, ``folded`` says how many tables of a block are added up.
    """

    pipeline: str
    source: str
    state: str
    watermark: str | None
    files: int
    bytes: int
    rows: int
    commits: int
    failed: tuple[FailedFile, ...] = ()
    skipped: tuple[tuple[str, int], ...] = ()
    table_version: int | None = None
    error: str | None = None
    seconds: float = 0.0
    exit_code: int = 0
    bad_records: int = 0
    dead_files: int = 0
    staged: int = 0
    unknown_fields: Mapping[str, int] = field(default_factory=dict)
    work_units: int = 0
    failed_units: tuple[FailedUnit, ...] = ()
    empty: bool = False
    block: str | None = None
    inserted: int | None = 0
    updated: int | None = 0
    deleted: int | None = 0
    unchanged: int | None = 0
    folded: str = hide_from_json("")

    def to_json(self) -> dict[str, Any]:
        """The fields, with each skipped pair as ``{"reason", "count"}``."""
        skipped = [{"reason": str(reason), "count": count} for reason, count in self.skipped]
        return Report.to_json(self) | {"skipped": skipped}


@dataclass(frozen=True, slots=True)
class RunReport(Report):
    """What a run did; ``ok`` only if everything requested succeeded. ``run`` is its id in logs and commits."""

    sources: tuple[SourceReport, ...]
    ok: bool
    seconds: float
    engine: str = "spark"
    run: str = ""

    def code(self, *, stopped: bool = False) -> int:
        """Return the code that all failed sources share, else 1; 130 if the run was stopped before it was done."""
        codes = {source.exit_code or 1 for source in self.sources if source.error}
        # Files and work units that failed are no error of the source, but the run did not read everything either.
        codes |= {1 for source in self.sources if source.failed or source.failed_units}
        return combine_codes(codes, ok=self.ok, stopped=stopped)

    def describe(self, view: View) -> Iterator[Block]:
        """Yield a row per source and the result, then what went wrong; with ``verbose`` also normal skips."""
        if not self.sources:
            yield line("nothing to run: no source was selected")
            return
        shown = self.sources if view.verbose else fold_blocks(self.sources, _fails, _add_up)
        yield table(COLUMNS, shown)
        yield Gap()
        watermarks = [(f"watermark of {source_name(each)}", each.watermark) for each in self.sources if view.verbose]
        done = f"{count(sum(source.rows for source in self.sources), 'row')} in {duration(self.seconds)}"
        done += "" if self.engine == "spark" else f", by the {self.engine} engine"
        result = Cell(done, Style.GOOD) if self.ok else Cell(f"not everything succeeded; {done}", Style.BAD)
        yield facts(*watermarks, ("result", result))
        changes = ((source_name(each), row_changes(each)) for each in shown)
        notes = (line(f"{name}: {changed}", label="rows") for name, changed in changes if changed)
        troubles = (trouble for source in self.sources for trouble in _troubles(source, view))
        yield from after_gap(chain(notes, troubles, _errors(self)))


@dataclass(frozen=True, slots=True)
class IngestReport(Report):
    """What ``ingest`` detected about a source, the configuration that does the same, and the result of its run.

    ``found`` has labels and findings. ``variables`` must be set before the configuration is used again, ``saved`` is
    its file, and ``run`` is None if nothing was run.
    """

    pipeline: str
    found: tuple[tuple[str, str], ...]
    yaml: str
    variables: tuple[str, ...] = ()
    saved: str | None = None
    run: RunReport | None = None

    def code(self, *, stopped: bool = False) -> int:
        """Return the code of the run; 0 without one."""
        return 0 if self.run is None else self.run.code(stopped=stopped)

    def findings(self, view: View) -> Iterator[Block]:
        """Yield what was found out, before the run begins."""
        yield facts(*self.found)
        yield Gap()

    def describe(self, view: View) -> Iterator[Block]:
        """Yield the result of the run, and the configuration that does the same."""
        if self.run is not None:
            # Without a file, hints name the placeholder of the help texts: nobody can run a command on no file.
            told = View() if self.saved is None else View(config=quote(self.saved))
            shown = tuple(self.run.describe(told))
            yield from shown
            if self.saved is None and any(isinstance(each, Line) and told.config in each.text.text for each in shown):
                yield line(f"{told.config} is the configuration below, once it is saved", label="note")
            yield Gap()
        yield Heading(f"As a configuration ({self.saved or f'not saved: add --save {NOT_SAVED}'})")
        yield Gap()
        yield from map(line, self.yaml.splitlines())
        if self.variables:
            yield Gap()
            yield line(f"set before use: {', '.join(self.variables)}", Style.WARN)
        if self.saved:
            yield Gap()
            yield line(f"$ tidegate run {quote(self.saved)}", Style.STRONG)


def _fails(source: SourceReport) -> bool:
    return source.error is not None or bool(source.failed)


def _add_up(block: str, tables: Sequence[SourceReport], told: str) -> SourceReport:
    """The tables of a block in one row."""
    sums: dict[str, Any] = {
        name: sum(getattr(each, name) for each in tables) for name in ("files", "bytes", "rows", "commits", "seconds")
    }
    sums |= add_up_changes(tables)
    state = "Active" if any(each.state == "Active" for each in tables) else tables[0].state
    return SourceReport(block, "", state, None, **sums, block=block, folded=told)


def add_up_changes(reports: Sequence[SourceReport]) -> dict[str, int | None]:
    """What became of rows in all ``reports``; None if one of them did not count it."""
    counts = {name: [getattr(each, name) for each in reports] for name in ROW_CHANGES}
    return {name: None if None in numbers else sum(numbers) for name, numbers in counts.items()}


def _is_units(source: SourceReport) -> bool:
    return bool(source.work_units or source.failed_units)


COLUMNS: Columns[SourceReport] = {
    "~source": name_cell,
    "state": lambda source: Cell("failed", Style.BAD) if source.error else state_cell(source.state),
    ">files": lambda source: count(source.work_units, "unit") if _is_units(source) else source.files,
    ">size": lambda source: None if _is_units(source) else size(source.bytes),
    ">rows": lambda source: source.rows,
    "?>commits": lambda source: f"{source.staged:,} staged" if source.staged else source.commits,
    ">failed": lambda source: cell(len(source.failed) + len(source.failed_units) or None, Style.BAD),
    ">time": lambda source: duration(source.seconds),
}
"""The table of ``tidegate run``."""


def _troubles(source: SourceReport, view: View) -> Iterator[Line]:
    name = source_name(source)
    yield from describe_failed_files(name, source.failed)
    yield from _describe_failed_units(source, view.config)
    if source.bad_records or source.dead_files:
        letters = [(source.bad_records, "bad record"), (source.dead_files, "file")]
        what = " and ".join(count(number, word) for number, word in letters if number)
        hint = f"tidegate dlq list {view.config} -p {source.pipeline}"
        became = "became a dead letter" if source.bad_records + source.dead_files == 1 else "became dead letters"
        yield line(f"{name}: {what} {became} ({hint})", Style.WARN, "note")
    if source.staged:
        staged = count(source.staged, "unit")
        yield line(f"{name}: {staged} staged, waiting for `tidegate commit {view.config}`", label="note")
    if source.unknown_fields:
        fields = count(len(source.unknown_fields), "field")
        most = ", ".join(islice(source.unknown_fields, FIELDS_SHOWN))
        yield line(f"{name}: {fields} without a column, e.g. {most}", label="note")
    for reason, skipped in source.skipped:
        if view.verbose or reason not in NORMAL:
            what = "left to another active run" if reason == "another_run" else f"{skipped:,} skipped: {reason}"
            yield line(f"{name}: {what}", label="note")


def _errors(report: RunReport) -> Iterator[Line]:
    """Yield the errors, each once with all sources that it stopped."""
    # A storage that is down stops every source with the same words; once is enough.
    errors: dict[str, list[str]] = {}
    for source in report.sources:
        if source.error:
            errors.setdefault(source.error, []).append(source_name(source))
    for error, stopped in errors.items():
        yield line(f"{names(stopped, SOURCES_SHOWN)}: {error}", Style.BAD, "error")


def _describe_failed_units(source: SourceReport, config: str) -> Iterator[Line]:
    for failed in source.failed_units[:UNITS_SHOWN]:
        unit = f"{failed.unit} from {failed.start}" if failed.unit else f"from {failed.start}"
        tries = f" ({failed.failures:,} times in a row)" if failed.failures > 1 else ""
        yield line(f"{source_name(source)}: work unit {unit} failed{tries}: {failed.reason}", Style.BAD, "error")
    left = len(source.failed_units) - UNITS_SHOWN
    if left > 0:
        hint = f"tidegate units list {config} -p {source.pipeline} --failed"
        yield line(f"{source_name(source)}: {count(left, 'more work unit')} failed ({hint})", Style.BAD, "error")
