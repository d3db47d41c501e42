"""Sources of work units, as the modules that work on them see them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, timedelta

from tidegate.core.calendar import EPOCH, iso, zone_named
from tidegate.core.units.state import UnitState, decode_units
from tidegate.errors import TidegateError
from tidegate.protocol.notes import Attempts
from tidegate.reports.run import FailedUnit
from tidegate.runs.bound_source import UnitBound


def attempted(source: UnitBound, attempts: Attempts | None) -> UnitState | None:
    """What earlier runs know of failures, for a source without a position; nothing of it counts as read."""
    if attempts is None or attempts.failures is None:
        return None
    try:
        found = decode_units(attempts.failures)
    except (TidegateError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return UnitState(zone=source.source.timezone, runs=found.runs, failures=found.failures)


def failed_units(state: UnitState) -> tuple[FailedUnit, ...]:
    """The work units that failed when they were tried last."""
    return tuple(
        FailedUnit(unit, utc(start), failure.reason, failure.count) for (unit, start), failure in state.failures.items()
    )


def coverage_text(coverage: Sequence[tuple[int, int]], zone: str) -> str:
    """What was read, as people read it.

    >>> coverage_text(((0, 86_400_000), (172_800_000, 259_200_000)), "UTC")
    '1970-01-01 to 1970-01-02, 1970-01-03 to 1970-01-04'
    """
    where = zone_named(zone)
    return ", ".join(f"{iso(low, where)} to {iso(high, where)}" for low, high in coverage) or "nothing"


def utc(moment: int) -> str:
    """Milliseconds since 1970 as ISO 8601 in UTC, to the millisecond where it has any.

    >>> utc(0), utc(1_582_281_462_123)
    ('1970-01-01T00:00:00Z', '2020-02-21T10:37:42.123Z')
    """
    time = EPOCH + timedelta(milliseconds=moment)
    return (
        time.astimezone(UTC).isoformat(timespec="milliseconds" if moment % 1000 else "seconds").replace("+00:00", "Z")
    )


def maybe_utc(moment: int | None) -> str | None:
    """The same, where there is a moment."""
    return None if moment is None else utc(moment)
