"""Chaos: the proof, on the user's own storage, that no row is lost or doubled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tidegate.experiments.chaos import Chaos, any_seed
from tidegate.reports.run import ChaosLimits, ChaosProgress, ChaosReport
from tidegate.specs.locations import Location, Options
from tidegate.storage.options import absolute


def chaos(
    uri: str,
    *,
    failures: int = 1000,
    kills: int = 10,
    spark_kills: int = 0,
    seed: int | None = None,
    minutes: float = 10.0,
    keep: bool = False,
    options: Mapping[str, str] | None = None,
    show: Callable[[ChaosProgress], None] = lambda progress: None,
) -> ChaosReport:
    """Try to make Tidegate lose or double a row, in tables of its own below ``uri``, which must be empty.

    Ends when that many failures were injected and that many processes killed, or after ``minutes``. ``options`` are
    the storage options of ``uri``, ``keep`` leaves everything there. Not for use beside other runs in this process.
    """
    bound = Location(absolute(uri, Path.cwd()), Options(options or {}))
    limits = ChaosLimits(failures, kills, spark_kills, minutes)
    return Chaos(bound, limits, any_seed() if seed is None else seed, keep, show).play()
