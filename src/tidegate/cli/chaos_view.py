"""How an experiment is shown: what was done to the tables, by place, and what was found."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.cli.pages import Block, Cell, Column, Facts, Gap, Line, Page, Style, Table, cell
from tidegate.observe.wording import count, duration
from tidegate.reports.chaos import ChaosProgress, ChaosReport, PlaceFailures

_COLUMNS = (
    Column("failpoint"),
    Column("crashes", right=True),
    Column("lost answers", right=True),
    Column("kills", right=True),
)


def progress_line(progress: ChaosProgress) -> str:
    """How far it is, on one line."""
    return (
        f"{progress.done:,} of {progress.wanted:,} {progress.doing}, {count(progress.commits, 'commit')}, "
        f"nothing lost or doubled so far ({duration(progress.seconds)})"
    )


def render_chaos(report: ChaosReport) -> Page:
    """The whole report."""
    return tuple(_blocks(report))


def _blocks(report: ChaosReport) -> Iterator[Block]:
    yield Table(_COLUMNS, tuple(map(_row, report.places)))
    yield Gap()
    yield Facts(tuple(_facts(report)))
    if report.problems:
        yield Gap()
        yield from (Line(Cell(problem, Style.BAD), "found") for problem in report.problems)


def _row(place: PlaceFailures) -> tuple[Cell, ...]:
    return (Cell(place.place), *(cell(f"{n:,}" if n else None) for n in (place.raised, place.lost, place.killed)))


def _facts(report: ChaosReport) -> Iterator[tuple[str, Cell]]:
    yield "injected failures", Cell(f"{report.failures:,}")
    yield "killed processes", Cell(f"{report.kills:,}, and {count(report.spark_kills, 'run')} with Spark")
    yield (
        "meanwhile",
        Cell(
            f"{count(report.rival_passes, 'pass', 'passes')} of a rival, "
            f"{count(report.foreign_appends, 'foreign append')}, {report.optimizes:,} OPTIMIZE"
        ),
    )
    yield "passes", Cell(f"{report.passes:,} in {count(report.rounds, 'round')}")
    yield "commits", Cell(f"{report.commits:,}, {report.contested:,} lost to a rival")
    yield "produced", Cell(f"{count(report.rows, 'row')} in {count(report.files, 'file')}")
    yield "comparisons", Cell(f"{report.comparisons:,}, each by a batch and by a streaming reader")
    yield "seed", Cell(str(report.seed))
    yield "time", Cell(duration(report.seconds) + ("" if report.finished else "; it was over before all was done"))
    verdict = f"{report.lost:,} lost, {report.doubled:,} doubled"
    yield "result", Cell(verdict if report.ok else f"{verdict}: WRONG", Style.GOOD if report.ok else Style.BAD)
