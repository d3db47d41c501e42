"""Which work units of one unit run, with which range and why; decided once for all units that were read alike.

A work unit runs whole if it has no high watermark; else if its end lies above the cut-offs, or if it is unfinished and
may catch up. It is read again from its high watermark less the grace period on.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from tidegate.errors import WatermarkError
from tidegate.planning.time_partitions import Cut
from tidegate.planning.unit_plan import Range, TimePartition, WhyRun, WhySkipped, WorkUnit
from tidegate.unit_specs import Replace, UnitSource
from tidegate.watermarks.calendar import iso, shifted
from tidegate.watermarks.coverage import interval_at, joined, within
from tidegate.watermarks.time_bounds import first_above
from tidegate.watermarks.unit_state import Failure, UnitEntry

NOTHING = UnitEntry()


@dataclass(frozen=True, slots=True)
class Skip:
    """Partitions number ``first`` to ``last`` that do not run, for one reason."""

    why: WhySkipped
    first: int
    last: int
    eligible: int | None = None


class Deciding:
    """What all decisions of one plan have in common; without a cut-off where nothing was read so far."""

    def __init__(self, source: UnitSource, zone: ZoneInfo, cut: Cut) -> None:
        self.source, self.zone, self.cut = source, zone, cut
        self.job_cutoff: int | None = None
        self.starts = [each.start for each in cut.partitions]
        self.ends = [each.end for each in cut.partitions]
        self._has_grace, self._abstains = not source.grace.is_zero, not source.abstinent.is_zero
        self._has_segments = source.replace is Replace.SEGMENTS
        self._is_whole = source.replace is Replace.UNIT or source.time is None
        self._tells_rows_by_partition = source.replace in (Replace.SEGMENTS, Replace.UNIT)

    def see(self, entries: Iterable[UnitEntry]) -> None:
        """Set the cut-off of the job: the greatest high watermark of all, less the grace period."""
        highs = [high for high in map(self._greatest_high, entries) if high is not None]
        self.job_cutoff = self.before_grace(max(highs)) if highs else None

    def _greatest_high(self, entry: UnitEntry) -> int | None:
        """The greatest high watermark of the unit's partitions."""
        for low, high in reversed(entry.coverage):
            last = bisect_left(self.starts, high) - 1
            if last >= 0 and self.starts[last] >= low:
                nominal = self.cut.partitions[last].nominal_end
                return high if nominal is None else min(high, nominal)
            if last < 0:
                return None
        return None

    def before_grace(self, moment: int) -> int:
        """``moment`` less the grace period."""
        return shifted(moment, self.zone, earlier=self.source.grace) if self._has_grace else moment

    def decided(self, entry: UnitEntry, failures: Mapping[int, Failure]) -> Iterator[tuple[int, WorkUnit] | Skip]:
        """Each partition once, oldest first: one that runs, with its number, or several that do not."""
        if entry is NOTHING and not failures:
            yield from enumerate(map(self._new, self.cut.partitions))
            return
        number = 0
        for low, high in entry.coverage:
            begin, end = bisect_left(self.starts, low, number), bisect_left(self.starts, high, number)
            for each in range(number, begin):
                yield each, self._first(each, entry, failures)
            if begin < end:
                above = end - 1 if self.job_cutoff is None else bisect_right(self.ends, self.job_cutoff, begin, end - 1)
                if begin < above:
                    yield Skip(WhySkipped.DONE, begin, above - 1)
                for each in range(above, end):
                    yield self._again(each, high, entry, failures)
            number = max(number, end)
        for each in range(number, len(self.starts)):
            yield each, self._first(each, entry, failures)

    def _first(self, number: int, entry: UnitEntry, failures: Mapping[int, Failure]) -> WorkUnit:
        """A partition that was not read at its start, whatever was read behind that."""
        partition = self.cut.partitions[number]
        low = partition.start
        if self._tells_rows_by_partition and interval_at(entry.left, low) is not None:
            low = self._segment_start(partition, low, entry)
        replaces = _may_have_rows(entry, low, partition.nominal_end)
        return self._work(partition, low, self._top(partition, low, entry), WhyRun.FIRST, None, replaces, failures)

    def _new(self, partition: TimePartition) -> WorkUnit:
        """A partition of which nothing was read and nothing failed."""
        start, end = partition.start, partition.end
        return WorkUnit(
            "", start, partition.nominal_end, start, end, WhyRun.FIRST, None, self._segments(start, end), False, 0
        )

    def _again(
        self, number: int, covered: int, entry: UnitEntry, failures: Mapping[int, Failure]
    ) -> tuple[int, WorkUnit] | Skip:
        """A partition that was read from its start up to ``covered`` or beyond its end."""
        partition, source = self.cut.partitions[number], self.source
        nominal, end = partition.nominal_end, partition.end
        own = covered if nominal is None or covered < nominal else nominal
        cutoff = self._cutoff(own)
        settled = self._settled(entry)
        if settled is not None:
            self._check_not_divided(partition, settled, own)
            cutoff = max(cutoff, min(own, settled))
        is_above_job = self.job_cutoff is None or end > self.job_cutoff
        is_unfinished = nominal is None or own < nominal
        is_wanted = is_above_job or (is_unfinished and source.catch_up)
        if is_wanted and end > cutoff:
            low = self._low(partition, own, entry)
            why = WhyRun.NEW if is_above_job else WhyRun.CATCH_UP
            top, replaces = self._top(partition, low, entry), _may_have_rows(entry, low, nominal)
            return number, self._work(partition, low, top, why, own, replaces, failures)
        if end > cutoff:
            return Skip(WhySkipped.GRACE_OVER if is_unfinished else WhySkipped.DONE, number, number)
        if is_wanted and self._abstains and end > self.before_grace(own):
            return Skip(WhySkipped.ABSTINENT, number, number, self._eligible(partition, cutoff))
        return Skip(WhySkipped.UP_TO_DATE if is_unfinished else WhySkipped.DONE, number, number)

    def _cutoff(self, own: int) -> int:
        """The cut-off of a work unit with this high watermark."""
        if not self._abstains:
            return self.before_grace(own)
        return shifted(own, self.zone, later=self.source.abstinent, earlier=self.source.grace)

    def _eligible(self, partition: TimePartition, cutoff: int) -> int | None:
        """From when on the partition will end above ``cutoff``."""
        if partition.nominal_end is not None and partition.nominal_end <= cutoff:
            return None
        return first_above(self.cut.bound, self.cut.rounding, cutoff, self.zone)

    def _settled(self, entry: UnitEntry) -> int | None:
        """Below which rows cannot be replaced, as they were not read in these partitions."""
        return entry.settled if self._tells_rows_by_partition else None

    def _check_not_divided(self, partition: TimePartition, settled: int, read: int) -> None:
        """Refuse to replace a work unit as a whole that was in part read in partitions of another kind."""
        whole = partition.nominal_end is not None and read >= partition.nominal_end
        if self.source.replace is Replace.UNIT and partition.start < settled and not whole:
            raise WatermarkError(
                f"the work unit from {iso(partition.start, self.zone)} on was read in part, up to "
                f"{iso(read, self.zone)}, in other partitions, and replace: unit would have to replace all of it",
                "give the partitions their former values; or choose another way to replace, such as time_column",
            )

    def _low(self, partition: TimePartition, own: int, entry: UnitEntry) -> int:
        """Where a partition is read again from: its high watermark less grace, or further down to where rows divide."""
        if self._is_whole:
            return self._segment_start(partition, partition.start, entry)
        low = max(partition.start, self.before_grace(own))
        if self._has_segments and (low < own or interval_at(entry.left, own) is not None):
            low = self._segment_start(partition, low, entry)
        settled = self._settled(entry)
        return low if settled is None else max(low, min(own, settled))

    def _segment_start(self, partition: TimePartition, low: int, entry: UnitEntry) -> int:
        """The greatest known beginning of a segment that is not above ``low``."""
        place = bisect_right(entry.starts, low)
        known = entry.starts[place - 1] if place else None
        if partition.nominal_end is not None:
            return partition.start if known is None else max(known, partition.start)
        if known is not None:
            return known
        there = entry.coverage
        for piece in entry.left:
            there = joined(there, *piece)
        interval = interval_at(there, low)
        return partition.start if interval is None else min(interval[0], partition.start)

    def _top(self, partition: TimePartition, low: int, entry: UnitEntry) -> int:
        """Where reading ends: never below what was read before, which is replaced; before what is settled."""
        if not entry.coverage or entry.coverage[-1][1] <= low:
            return partition.end
        inside, settled = within(entry.coverage, low, partition.nominal_end), self._settled(entry)
        if settled is not None:
            ahead = next((begin for begin, _ in inside if low < begin < settled), None)
            if ahead is not None:
                self._check_not_divided(partition, settled, ahead)
                return min(ahead, partition.end)
        return max(partition.end, inside[-1][1]) if inside else partition.end

    def _work(
        self,
        partition: TimePartition,
        low: int,
        high: int,
        why: WhyRun,
        before: int | None,
        replaces: bool,
        failures: Mapping[int, Failure],
    ) -> WorkUnit:
        failed = failures.get(failure_start(partition.start, partition.nominal_end)) if failures else None
        start, nominal, segments = partition.start, partition.nominal_end, self._segments(low, high)
        count = failed.count if failed else 0
        return WorkUnit("", start, nominal, low, high, why, before, segments, replaces, count)

    def _segments(self, low: int, high: int) -> tuple[Range, ...]:
        """The range, divided where the next read will begin."""
        if self._has_segments and self._has_grace:
            middle = self.before_grace(high)
            if low < middle < high:
                return ((low, middle), (middle, high))
        return ((low, high),)


def failure_start(start: int, nominal_end: int | None) -> int:
    """By which number the failures of a work unit are kept: where there are no partitions, its start may move."""
    return 0 if nominal_end is None else start


def _may_have_rows(entry: UnitEntry, low: int, end: int | None) -> bool:
    """Whether rows that were read from ``low`` on may be in the table."""
    return bool(within(entry.coverage + entry.left, low, end))
