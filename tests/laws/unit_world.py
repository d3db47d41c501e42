"""A source of rows that come late, a table of segments, and runs over work units between them, some of which fail."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from tidegate.core.calendar import milliseconds, shift, zone_named
from tidegate.core.units.plan import UnitPlan, WorkUnit
from tidegate.core.units.planner import advance_units, plan_units
from tidegate.core.units.state import (
    Coverage,
    UnitEntry,
    Units,
    UnitState,
    add_range,
    decode_units,
    encode_units,
    high_of,
    interval_at,
    remove_range,
)
from tidegate.specs.units import Replace, UnitSource

BEGIN = datetime(2026, 3, 26, tzinfo=UTC)
HOUR = 3_600_000
DISTANCE = timedelta(hours=6, minutes=20)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a unit, about ``time``; it can be read from ``arrival`` on."""

    unit: str
    time: int
    arrival: int


@dataclass(slots=True)
class UnitWorld:
    """Rows of the source by unit, the table by unit and segment, and what is known from successful reads."""

    units: tuple[str, ...]
    delays: tuple[int, ...]
    days: int = 20
    rows: dict[str, list[Row]] = field(default_factory=dict)
    table: dict[str, dict[int, list[Row]]] = field(default_factory=dict)
    covered: dict[str, Coverage] = field(default_factory=dict)
    returned: set[Row] = field(default_factory=set)
    state: UnitState | None = None

    def __post_init__(self) -> None:
        times = [milliseconds(BEGIN + number * DISTANCE) for number in range(int(timedelta(self.days) / DISTANCE))]
        delays = [self.delays[number % len(self.delays)] * HOUR for number in range(len(times))]
        for unit in self.units:
            self.rows[unit] = [Row(unit, time, time + delay) for time, delay in zip(times, delays, strict=True)]
            self.table[unit] = {}

    def plan(self, source: UnitSource, now: datetime, units: tuple[str, ...], accept: bool) -> UnitPlan:
        """What would run, by a state that has been JSON."""
        if self.state is not None:
            self.state = decode_units(encode_units(self.state))
        return plan_units("shop", source, self.state, Units(units), 0, now, accept_new_partitions=accept)

    def run(self, source: UnitSource, plan: UnitPlan, failing: int) -> bool:
        """Carry out a plan, of which work units fail by the bits of ``failing``; whether none did."""
        works = list(plan.works())
        fails = [bool(failing >> (number % 16) & 1) for number in range(len(works))]
        done = [work for work, failed in zip(works, fails, strict=True) if not failed]
        for work in done:
            self._write(source, work, milliseconds(plan.now))
        failed = [(work, "refused") for work, bad in zip(works, fails, strict=True) if bad]
        half = len(done) // 2
        self.state = advance_units(self.state, plan, done[:half], failed)
        self.state = advance_units(self.state, plan, done[half:])
        return not failed

    def reset(self, units: tuple[str, ...], low: int, high: int) -> None:
        """Forget what was read."""
        assert self.state is not None
        self.state = self.state.without_units(units, low, high)
        self.covered |= {unit: remove_range(self.covered.get(unit, ()), low, high) for unit in units}

    def _write(self, source: UnitSource, work: WorkUnit, now: int) -> None:
        assert work.low < work.high
        assert (work.segments[0][0], work.segments[-1][1]) == (work.low, work.high)
        table = self.table[work.unit]
        for segment, rows in table.items():
            if source.replace is Replace.MERGE_KEYS:
                kept = [row for row in rows if not (work.low <= row.time < work.high and row.arrival <= now)]
            elif source.replace is Replace.TIME_COLUMN:
                kept = [row for row in rows if not work.low <= row.time < work.high]
            else:
                kept = [] if work.low <= segment < work.high else rows
            assert work.replaces or kept == rows
            table[segment] = kept
        for low, high in work.segments:
            read = [row for row in self._between(work.unit, low, high) if row.arrival <= now]
            table.setdefault(low, []).extend(read)
            self.returned.update(read)
        self.covered[work.unit] = add_range(self.covered.get(work.unit, ()), work.low, work.high)

    def check(self) -> None:
        """Coverage is what succeeded; what it covers and was read is in the table, and nothing is there twice."""
        assert self.state is not None
        found = {unit: entry.coverage for unit, entry in self.state.entries.items() if entry.coverage}
        assert found == {unit: coverage for unit, coverage in self.covered.items() if coverage}
        there = self._there()
        assert [row for row, count in there.items() if count != 1] == []
        assert [row for row in self.returned if row not in there and self._is_covered(row)] == []

    def check_late_rows(self, source: UnitSource, plan: UnitPlan, before: UnitState | None) -> None:
        """After a run without failures every row within the grace period that had come is there."""
        assert self.state is not None
        now, zone, there = milliseconds(plan.now), zone_named(source.timezone), self._there()
        for unit in plan.units:
            entry = UnitEntry() if before is None else before.entries.get(unit, UnitEntry())
            settled = self.state.entries.get(unit, UnitEntry()).settled
            for partition in plan.partitions:
                low, own = partition.start, high_of(entry.coverage, partition.start, partition.nominal_end)
                if own is not None and plan.job_cutoff is not None:
                    low = max(low, plan.job_cutoff, shift(own, zone, earlier=source.grace))
                if settled is not None and source.replace in (Replace.SEGMENTS, Replace.UNIT):
                    if partition.start < settled and (own is None or own < settled):
                        continue
                    low = max(low, settled)
                rows = self._between(unit, low, partition.end)
                assert [row for row in rows if row.arrival <= now and row not in there] == []

    def _there(self) -> Counter[Row]:
        return Counter(row for segments in self.table.values() for rows in segments.values() for row in rows)

    def _between(self, unit: str, low: int, high: int) -> list[Row]:
        rows = self.rows[unit]
        begin, end = (bisect_left(rows, moment, key=lambda row: row.time) for moment in (low, high))
        return rows[begin:end]

    def _is_covered(self, row: Row) -> bool:
        return interval_at(self.covered.get(row.unit, ()), row.time) is not None
