"""Timing, the machine's description and tables: what all benchmarks print and store alike."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RESULTS = Path(__file__).parent / "results"
HISTORY = Path(__file__).parent / "history"
"""Runs of all benchmarks, a file each, named by the day; part of the repository."""


def machine() -> str:
    """One line about the machine, for the record."""
    model = (
        next(
            (
                line.split(":")[1].strip()
                for line in Path("/proc/cpuinfo").read_text().splitlines()
                if "model name" in line
            ),
            platform.processor(),
        )
        if Path("/proc/cpuinfo").exists()
        else platform.processor()
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{os.cpu_count()} cores ({model}), {memory:.0f} GiB, {platform.system()}, Python {platform.python_version()}"
    )


def alternate(
    contenders: Mapping[str, Callable[[int], object]], rounds: int, slow: Mapping[str, int] | None = None
) -> dict[str, list[float]]:
    """Seconds per contender and round; contenders take turns, so that a slow moment hits all alike.

    Each round begins with another one, and what the one before has written is on disk before the next begins.
    ``slow`` contenders take part in that many rounds only.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            work = contenders[name]
            if turn >= (slow or {}).get(name, rounds):
                continue
            os.sync()
            start = time.perf_counter()
            work(turn)
            seconds[name].append(time.perf_counter() - start)
            print(f"  round {turn + 1}  {name:<28} {seconds[name][-1]:8.2f} s", flush=True)
    return seconds


def consumed(frame: DataFrame) -> None:
    """Compute every row of a Spark DataFrame and keep none."""
    frame.write.format("noop").mode("overwrite").save()


def medians(seconds: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The median of each contender's rounds."""
    return {name: statistics.median(values) for name, values in seconds.items()}


def side_by_side(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """How many times as fast ours is: the median of the rounds in which both took part, each a ratio of its own."""
    return statistics.median(other / own for own, other in zip(ours, theirs, strict=False))


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a Markdown table, ready for the README."""
    print(f"\n{title}\n\n| " + " | ".join(header) + " |\n|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")
    print(flush=True)


def gather(folder: Path, results: Path = RESULTS, since: float = 0.0) -> Path | None:
    """One file in ``folder``, named by the moment, of what was stored since then; None where nothing was."""
    files = sorted(path for path in results.glob("*.json") if path.stat().st_mtime >= since)
    if not files:
        return None
    found = {path.stem: json.loads(path.read_text()) for path in files}
    now = datetime.now(UTC)
    whole = {"date": now.isoformat(timespec="seconds"), "machine": machine(), "benchmarks": found}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{now:%Y-%m-%dT%H%M}.json"
    path.write_text(json.dumps(whole, indent=2) + "\n")
    return path


def store(name: str, result: Mapping[str, object]) -> None:
    """Keep the numbers of this run as JSON (not part of the repository)."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps({"machine": machine(), **result}, indent=2) + "\n")
