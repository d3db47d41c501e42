"""An experiment that tries to lose or double rows."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.reports.report import Report


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
