"""New projects: ``init``, ``demo``, and imported properties files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidegate.reports.page import Block, Cell, Column, Fit, Gap, Heading, Style, after_gap, facts, line, tabulate
from tidegate.reports.report import Report, View
from tidegate.reports.wording import count, duration
from tidegate.specs.project import ProjectSpec, TableBlock


@dataclass(frozen=True, slots=True)
class InitReport(Report):
    """The files of a new project; ``variables`` is the file that names the variables to set before a run, if any."""

    folder: str
    files: tuple[str, ...]
    next_commands: tuple[str, ...]
    variables: str = ""

    def describe(self, view: View) -> Iterator[Block]:
        """Yield what was written, and what to do next."""
        yield Heading(f"Written into {self.folder}")
        yield from map(line, self.files)
        yield Gap()
        yield Heading("Next")
        if self.variables:
            yield line(f"edit pipelines.yml, and set the variables of {self.variables}")
        yield from (line(f"$ {command}", Style.STRONG) for command in self.next_commands)


@dataclass(frozen=True, slots=True)
class DemoStep(Report):
    """One step of the demo: title and text, then a table, or a command with the report that it gave.

    A ``command`` is ``tidegate NAME CONFIG``.
    """

    title: str
    text: str = ""
    command: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    report: Report | None = None

    def describe(self, view: View) -> Iterator[Block]:
        """Yield the title, the text, the command and what it prints, or the table."""
        yield Heading(self.title)
        yield from map(line, self.text.splitlines())
        if self.command:
            yield line(f"$ {self.command}", Style.STRONG)
        if self.columns:
            columns = [_column(title, [row[index] for row in self.rows]) for index, title in enumerate(self.columns)]
            yield tabulate(columns, self.rows)
        if self.report is not None:
            yield from self.report.describe(replace(view, config=self.command.split(" ", 2)[-1]))
        yield Gap()


@dataclass(frozen=True, slots=True)
class DemoReport(Report):
    """What the demo made, and where; ``next_commands`` can be tried afterwards."""

    folder: str
    config: str
    steps: tuple[DemoStep, ...]
    ok: bool
    seconds: float
    next_commands: tuple[str, ...] = ()

    def code(self, *, stopped: bool = False) -> int:
        """Return 1 if a step failed."""
        return int(not self.ok)

    def describe(self, view: View) -> Iterator[Block]:
        """Yield where the files of the demo are, and commands to try on them; the steps were shown as they happened."""
        result = Cell(f"done in {duration(self.seconds)}", Style.GOOD)
        if not self.ok:
            result = Cell("the demo failed", Style.BAD)
        yield Heading("Done")
        yield facts(("result", result), ("folder", self.folder), ("configuration", self.config))
        if self.next_commands:
            yield Gap()
            yield Heading("Try next")
        yield from (line(f"$ {command}", Style.STRONG) for command in self.next_commands)


@dataclass(frozen=True, slots=True)
class PropertyNote(Report):
    """A property of a file, by its line, and why it was not converted as it stands.

    ``changes_what_is_read``: without it the pipeline reads other data than the job did.
    """

    line: int
    name: str
    reason: str
    changes_what_is_read: bool = False


@dataclass(frozen=True, slots=True)
class PropertiesImport(Report):
    """A properties file converted into a configuration.

    ``carried`` properties are in ``yaml``, ``left`` ones are not or only in part, ``not_needed`` ones have no purpose
    here. The environment ``variables`` must be set before ``yaml`` is used: secrets, and what the file did not define.
    ``reads_the_same`` is False if the pipeline would read other data than the job did, or does not load yet.
    """

    origin: str
    yaml: str
    carried: tuple[str, ...] = ()
    left: tuple[PropertyNote, ...] = ()
    not_needed: tuple[PropertyNote, ...] = ()
    variables: tuple[str, ...] = ()
    reads_the_same: bool = True

    def code(self, *, stopped: bool = False) -> int:
        """Return 1 if the pipeline would read other data than the job."""
        return int(not self.reads_the_same)

    def remarks(self) -> Iterator[str]:
        """Yield what is not converted, line by line, and which variables to set."""
        for note in self.left:
            warning = " (reads other data)" if note.changes_what_is_read else ""
            yield f"{self.origin}:{note.line}: not converted{warning}: {note.name}: {note.reason}"
        for note in self.not_needed:
            yield f"{self.origin}:{note.line}: not needed: {note.name}: {note.reason}"
        if self.variables:
            yield f"set before use: {', '.join(self.variables)}"
        numbers = (len(self.carried), len(self.left), len(self.not_needed))
        yield "{:,} converted, {:,} not converted, {:,} not needed".format(*numbers)

    def describe(self, view: View) -> Iterator[Block]:
        """Yield the configuration, then the remarks."""
        yield from map(line, self.yaml.splitlines())
        yield from after_gap(map(line, self.remarks()))


def _column(title: str, values: Sequence[str]) -> Column:
    """Align numbers to the right, and shorten paths."""
    is_number = bool(values) and all(map(_is_number, values))
    return Column(title, right=is_number, fit=Fit.MIDDLE if any("/" in value for value in values) else Fit.WHOLE)


def _is_number(text: str) -> bool:
    return text.replace(",", "").replace(".", "", 1).removeprefix("-").isdigit()


@dataclass(frozen=True, slots=True)
class ProjectCheck(Report):
    """A configuration without problems."""

    project: ProjectSpec

    def to_json(self) -> dict[str, Any]:
        """Return the pipelines with what they read and write."""
        pipelines = [
            {
                "name": pipeline.name,
                "sources": [{"name": source.name, "source_uri": source.uri} for source in pipeline.sources],
                "table_uri": pipeline.sink.table.uri,
            }
            for pipeline in self.project.pipelines
        ]
        notices = list(self.project.notices)
        return {"ok": True, "config": self.project.origin, "pipelines": pipelines, "notices": notices}

    def describe(self, view: View) -> Iterator[Block]:
        """Yield one row per source."""
        rows = tuple(
            (Cell(f"{pipeline.name}/{source.name}", Style.STRONG), source.uri, pipeline.sink.table.uri)
            for pipeline in self.project.pipelines
            for source in pipeline.sources
            if pipeline.block is None
        )
        rows += tuple(map(self._describe_block, self.project.blocks))
        numbers = f"{count(len(rows), 'source')}"
        if not self.project.blocks:
            numbers = f"{count(len(self.project.pipelines), 'pipeline')}, {numbers}"
        yield line(f"{self.project.origin} is correct: {numbers}", Style.GOOD)
        yield Gap()
        yield tabulate(("source", "~reads", "~writes"), rows)
        yield from after_gap(line(text, Style.WARN, "notice") for text in self.project.notices)

    def _describe_block(self, block: TableBlock) -> tuple[Cell, str, str]:
        """The row of a block: the tables that runs remember, and what selects them."""
        known = [each for each in self.project.pipelines if each.block == block.name and each.name != block.name]
        told = count(len(known), "table") if known else "tables not known before the first run"
        reads = f"{block.read.uri.partition('#')[0]}#{', '.join(block.selection.tables)}"
        return Cell(f"{block.name} ({told})", Style.STRONG), reads, block.template.sink.table.uri
