"""Runs on data that is made for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from tidegate.api.looking import status
from tidegate.api.opening import load, spark_lane
from tidegate.api.running import run_on
from tidegate.observe.events import Emit, ignore
from tidegate.reports.chaos import ChaosLimits, ChaosProgress, ChaosReport
from tidegate.reports.run import DemoReport, DemoStep, RunReport
from tidegate.specs.project import SparkSpec


def demo(
    folder: Path | None = None, emit: Emit = ignore, show: Callable[[DemoStep], None] = lambda step: None
) -> DemoReport:
    """A first run that needs nothing: makes data, ingests it twice, and shows table, watermarks and status."""
    from tidegate.commands.demo import Demo

    flag = threading.Event()
    with spark_lane(SparkSpec(), emit, flag) as lane:

        def run_again(config: Path) -> RunReport:
            return run_on(load(config), None, "once", emit, flag, lane)

        return Demo(folder or Path("tidegate-demo"), run_again, status, show).play()


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
    from tidegate.experiments.chaos import Chaos, any_seed
    from tidegate.specs.locations import Location, Options
    from tidegate.storage.options import absolute

    place = Location(absolute(uri, Path.cwd()), Options(options or {}))
    limits = ChaosLimits(failures, kills, spark_kills, minutes)
    return Chaos(place, limits, any_seed() if seed is None else seed, keep, show).play()
