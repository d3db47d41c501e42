"""How long planning work units takes, and how large their state is: ``python -m benchmarks.unit_planning``.

Three layouts of the same number of work units, each planned three times: nothing was read yet; everything was read but
the last partition; and every unit has a history of its own, so that nothing can be decided for several at once.
"""

from __future__ import annotations

import argparse
import base64
import json
import time
import zlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from benchmarks.report import machine, medians, store, table
from tidegate.core.units.planner import advance_units, plan_units
from tidegate.core.units.state import Coverage, UnitEntry, Units, UnitState, decode_units, encode_units
from tidegate.specs.columns import FunctionRead
from tidegate.specs.units import PartitionKind, TimeRange, TimeWatermark, UnitSource, WorkUnits

SIZES = (200_000, 1_000_000)
START = datetime(2000, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def layouts(size: int) -> dict[str, tuple[int, int]]:
    """Units and partitions of each layout."""
    return {
        f"200 × {size // 200:,}": (200, size // 200),
        f"{size:,} × 1": (size, 1),
        f"1 × {size:,}": (1, size),
    }


def source_of(partitions: int) -> UnitSource:
    """A source with so many hours."""
    end = (START + partitions * HOUR).isoformat()
    watermark = TimeWatermark("system", TimeRange(START.isoformat(), end, allow_future=True))
    return UnitSource("s", FunctionRead("m:f"), watermark, work=WorkUnits(partition=PartitionKind.HOURLY))


def done_of(source: UnitSource, units: Units) -> UnitState:
    """A state in which everything but the last partition was read."""
    plan = plan_units("p", source, None, units, 0, START)
    first, last = plan.partitions[0].start, plan.partitions[-1].start
    covered: Coverage = ((first, last),) if first < last else ((first, last + 1),)
    return replace(advance_units(None, plan, []), entries=dict.fromkeys(units.values, UnitEntry(covered)))


def apart(state: UnitState) -> UnitState:
    """The same state, with a history of its own for each unit."""
    entries = {
        unit: replace(entry, coverage=((entry.coverage[0][0], entry.coverage[0][1] + number),))
        for number, (unit, entry) in enumerate(state.entries.items())
    }
    return replace(state, entries=entries)


def seconds(source: UnitSource, units: Units, state: UnitState | None, rounds: int) -> list[float]:
    """CPU seconds of each round: planning has one thread and waits for nothing."""
    found = []
    for _ in range(rounds):
        start = time.process_time()
        plan_units("p", source, state, units, 0, START)
        found.append(time.process_time() - start)
    return found


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES))
    chosen = parser.parse_args()
    rows: list[tuple[object, ...]] = []
    sizes: list[tuple[object, ...]] = []
    for size in chosen.sizes:
        for name, (count, partitions) in layouts(size).items():
            source = source_of(partitions)
            units = Units(tuple(f"survey-{number:07}" for number in range(count)))
            done = done_of(source, units)
            states = {"nothing read": None, "all but the last": done, "each its own": apart(done)}
            found = medians({label: seconds(source, units, each, chosen.rounds) for label, each in states.items()})
            rows.append((f"{size:,}", name, *(f"{found[label]:.3f} s" for label in states)))
            sizes.append((f"{size:,}", name, *_sizes(done), *_sizes(apart(done))))
    print(machine())
    header = ("work units", "units × partitions", "nothing read", "all but the last", "each its own")
    table("Planning, CPU seconds", header, rows)
    packed = ("work units", "units × partitions", "JSON", "in the log", "each its own: JSON", "in the log")
    table("The state", packed, sizes)
    store("unit_planning", {"planning": rows, "state": sizes})


def _sizes(state: UnitState) -> tuple[str, str]:
    text = json.dumps(encode_units(state), separators=(",", ":"))
    assert decode_units(json.loads(text)).entries == state.entries
    return f"{len(text) / 1000:,.1f} KB", f"{len(base64.b64encode(zlib.compress(text.encode(), 6))) / 1000:,.1f} KB"


if __name__ == "__main__":
    main()
