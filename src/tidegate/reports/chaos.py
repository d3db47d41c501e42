"""An experiment that tries to lose or double rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.reports.page import Block, Cell, Columns, Fact, Gap, Style, after_gap, facts, line, table
from tidegate.reports.report import Report, View
from tidegate.reports.wording import count, duration


@dataclass(frozen=True, slots=True)
class ChaosLimits:
    """The limits of an experiment: it ends once all are reached, or when the time is over."""

    failures: int = 1000
    kills: int = 10
    spark_kills: int = 0
    minutes: float = 10.0


@dataclass(frozen=True, slots=True)
class PlaceFailures(Report):
    """The number of failures at one failpoint, by kind."""

    place: str
    raised: int = 0
    lost: int = 0
    killed: int = 0


@dataclass(frozen=True, slots=True)
class ChaosProgress:
    """The progress of an experiment."""

    doing: str
    done: int
    wanted: int
    commits: int
    rows: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ChaosReport(Report):
    """What an experiment did and found; ``ok`` only if the table had every row once at every comparison.

    ``failures`` were raised inside this process, ``kills`` and ``spark_kills`` are SIGKILLs of other processes, with
    Spark the whole tree. ``rival_passes`` to ``optimizes`` happened in the middle of a pass. Each of the ``rounds`` had
    a table of its own. ``letters`` of the lines were no records and must be dead letters. ``lost`` and ``doubled``
    count rows; ``problems`` says which, and where they lie.
    """

    uri: str
    seed: int
    ok: bool
    finished: bool
    failures: int
    kills: int
    spark_kills: int
    places: tuple[PlaceFailures, ...]
    rival_passes: int
    foreign_appends: int
    optimizes: int
    rounds: int
    passes: int
    commits: int
    contested: int
    files: int
    rows: int
    letters: int
    comparisons: int
    lost: int
    doubled: int
    problems: tuple[str, ...]
    seconds: float

    def code(self, *, stopped: bool = False) -> int:
        """Return 1 if a row was lost or doubled."""
        return int(not self.ok)

    def describe(self, view: View) -> Iterator[Block]:
        """Yield the failures by place, then the findings."""
        yield table(PLACES, self.places)
        yield Gap()
        yield facts(*_facts(self))
        yield from after_gap(line(problem, Style.BAD, "found") for problem in self.problems)


PLACES: Columns[PlaceFailures] = {
    "failpoint": lambda place: place.place,
    ">crashes": lambda place: place.raised or None,
    ">lost answers": lambda place: place.lost or None,
    ">kills": lambda place: place.killed or None,
}
"""The table of ``tidegate chaos``."""


def _facts(report: ChaosReport) -> Iterator[Fact]:
    yield "injected failures", report.failures
    yield "killed processes", f"{report.kills:,}, and {count(report.spark_kills, 'run')} with Spark"
    rivals = count(report.rival_passes, "pass", "passes")
    foreign = count(report.foreign_appends, "foreign append")
    yield "meanwhile", f"{rivals} of a rival, {foreign}, {report.optimizes:,} OPTIMIZE"
    yield "passes", f"{report.passes:,} in {count(report.rounds, 'round')}"
    yield "commits", f"{report.commits:,}, {report.contested:,} lost to a rival"
    yield "produced", f"{count(report.rows, 'row')} in {count(report.files, 'file')}"
    yield "comparisons", f"{report.comparisons:,}, each by a batch and by a streaming reader"
    yield "seed", str(report.seed)
    late = "" if report.finished else "; time was up before everything was done"
    yield "time", duration(report.seconds) + late
    verdict = f"{report.lost:,} lost, {report.doubled:,} doubled"
    yield "result", Cell(verdict if report.ok else f"{verdict}: WRONG", Style.GOOD if report.ok else Style.BAD)
