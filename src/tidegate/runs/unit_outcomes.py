"""What became of the work units of a wave, by the rules of their source: done, failed, retired, or left for later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tidegate.planning.unit_plan import WorkUnit
from tidegate.sources.units.work import UnitFailure, UnitWritten
from tidegate.unit_specs import NotFound, Span, UnitSource
from tidegate.watermarks.calendar import milliseconds, shifted, zone_named


@dataclass(slots=True)
class Outcomes:
    """``done`` with what was written, ``failed`` and ``thin`` with the reason, ``retired`` units with theirs."""

    done: list[tuple[WorkUnit, UnitWritten]] = field(default_factory=list)
    failed: list[tuple[WorkUnit, str]] = field(default_factory=list)
    thin: list[tuple[WorkUnit, str]] = field(default_factory=list)
    retired: dict[str, str] = field(default_factory=dict)
    retired_works: list[tuple[WorkUnit, str]] = field(default_factory=list)


def sorted_out(
    source: UnitSource, works: Sequence[WorkUnit], results: Sequence[UnitWritten | UnitFailure], now: datetime
) -> Outcomes:
    """Each work unit to where it belongs."""
    found = Outcomes()
    for work, result in zip(works, results, strict=True):
        if isinstance(result, UnitFailure):
            _refused(source, work, result, found)
        elif result.rows < source.work.min_records:
            _thin(source, work, result.rows, now, found)
        else:
            found.done.append((work, result))
    return found


def _refused(source: UnitSource, work: WorkUnit, result: UnitFailure, found: Outcomes) -> None:
    reason = f"{result.problem}; {result.remedy}" if result.remedy else result.problem
    if not result.not_found or source.work.not_found is NotFound.FAIL:
        found.failed.append((work, reason))
    elif source.work.not_found is NotFound.EMPTY:
        found.done.append((work, UnitWritten()))
    else:
        found.retired[work.unit] = reason
        found.retired_works.append((work, reason))


def _thin(source: UnitSource, work: WorkUnit, rows: int, now: datetime, found: Outcomes) -> None:
    """Fewer rows than there must be: a failure, unless the partition may still be incomplete."""
    reason = f"{rows:,} rows, and min_records is {source.work.min_records:,}"
    after = source.work.min_records_after
    if after is None:
        found.failed.append((work, reason))
    elif work.nominal_end is None or _deadline(work.nominal_end, after, source) > milliseconds(now):
        found.thin.append((work, f"{reason}; it may still be incomplete (min_records_after)"))
    else:
        found.failed.append((work, f"{reason}, and its time is over (min_records_after)"))


def _deadline(end: int, after: Span, source: UnitSource) -> int:
    return shifted(end, zone_named(source.timezone), later=after)
