"""The cold start with a partition filter: which prefixes are looked at, and from when on."""

from __future__ import annotations

from datetime import datetime

from tidegate.errors import ConfigError
from tidegate.specs import PartitionFilter
from tidegate.watermarks.periods import EARLIEST
from tidegate.watermarks.templates import parse_template


def cold_start_prefixes(given: PartitionFilter, now: datetime) -> tuple[str, ...]:
    """The directories of the current period and of ``lookback`` earlier ones, in UTC, oldest first.

    >>> from datetime import UTC, datetime
    >>> cold_start_prefixes(PartitionFilter("d=%Y-%m-%d", 1), datetime(2026, 1, 1, tzinfo=UTC))
    ('d=2025-12-31', 'd=2026-01-01')
    """
    template = parse_template(given.prefix_template)
    current = template.finest.floor(now)
    starts = (template.finest.shifted(current, -back) for back in range(_checked(given.lookback), -1, -1))
    return tuple(template.render(start) for start in starts if start > EARLIEST)


def cold_start_bound(given: PartitionFilter, now: datetime) -> datetime:
    """The start of the oldest prefix: what ends before it is not looked at."""
    finest = parse_template(given.prefix_template).finest
    return finest.shifted(finest.floor(now), -_checked(given.lookback))


def _checked(lookback: int) -> int:
    if lookback < 0:
        raise ConfigError((f"partition_filter.lookback is {lookback}; give 0 or more periods",))
    return lookback
