"""What got slower between two runs of the benchmarks.

    python -m benchmarks.compare BEFORE.json AFTER.json [--noise 1.15]

Each file is what ``make bench`` wrote into ``benchmarks/history``, or the result of one benchmark. Compared is what
stands below a key ``seconds`` or ``peak_mib``: a number, or several of which the median counts. Ratios within
``--noise`` are not told. The exit code is 1 where something got slower. Numbers of two machines say little about the
code; that is told then.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import report

MEASURED = ("seconds", "peak_mib")
NOISE = 1.15


@dataclass(frozen=True, slots=True)
class Change:
    """One number before and after."""

    name: str
    before: float
    after: float

    @property
    def ratio(self) -> float:
        return self.after / self.before


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is slower, what is faster, each with the greatest change first, and what only one of the two measured."""

    slower: tuple[Change, ...]
    faster: tuple[Change, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]


def measurements(result: Any, name: str = "", *, measured: bool = False) -> Iterator[tuple[str, float]]:
    """Every number that is compared, by the path to it; those of a list by their median."""
    match result:
        case Mapping():
            for key, value in result.items():
                inside = key in MEASURED
                path = name if inside else f"{name} · {key}" if name else str(key)
                yield from measurements(value, path, measured=measured or inside)
        case bool() | str() | None:
            return
        case int() | float() if measured and result > 0:
            yield name, float(result)
        case list() if measured and result and all(isinstance(each, int | float) for each in result):
            yield name, statistics.median(result)
        case list():
            for number, each in enumerate(result):
                yield from measurements(each, f"{name} · {number + 1}", measured=measured)


def compare(before: Any, after: Any, noise: float = NOISE) -> Comparison:
    """The changes from one result to another that are larger than ``noise``."""
    old, new = dict(measurements(before)), dict(measurements(after))
    changes = [Change(name, old[name], new[name]) for name in old.keys() & new.keys()]
    return Comparison(
        tuple(sorted((each for each in changes if each.ratio > noise), key=lambda each: -each.ratio)),
        tuple(sorted((each for each in changes if each.ratio < 1 / noise), key=lambda each: each.ratio)),
        tuple(sorted(old.keys() - new.keys())),
        tuple(sorted(new.keys() - old.keys())),
    )


def show(found: Comparison) -> None:
    """Tables of what changed."""
    for title, changes in (("slower", found.slower), ("faster", found.faster)):
        rows = [(each.name, f"{each.before:.3f}", f"{each.after:.3f}", f"{each.ratio:.2f}") for each in changes]
        if rows:
            report.table(title, ("measured", "before", "after", "times"), rows)
    for title, names in (("measured only before", found.only_before), ("measured only after", found.only_after)):
        if names:
            print(f"{title}: {', '.join(names)}")
    if not found.slower:
        print("nothing got slower")


def main(arguments: list[str] | None = None) -> int:
    """1 where something got slower."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--noise", type=float, default=NOISE, help="ratios up to this are not told")
    given = parser.parse_args(arguments)
    before, after = (json.loads(path.read_text()) for path in (given.before, given.after))
    if before.get("machine") != after.get("machine"):
        print(f"two machines: {before.get('machine')}; {after.get('machine')}")
    found = compare(before, after, given.noise)
    show(found)
    return 1 if found.slower else 0


if __name__ == "__main__":
    sys.exit(main())
