"""The time in a partition's path: by the source's template, or by levels such as ``date=…/hour=…``.

``region=asia/date=2024-01-28/hour=14`` begins at 14:00 and lasts an hour; ``region=asia``, the levels before
the time, is its prefix. A path without a recognised time has none, and is then never sealed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from tidegate.specs import PathSource
from tidegate.watermarks.periods import Period
from tidegate.watermarks.templates import Fields, Template, merged, parse_template

_DATE = re.compile(r"(\d{4})-(\d{2})(?:-(\d{2}))?|(\d{4})(\d{2})(\d{2})", re.ASCII)
_NUMBERS: Mapping[str, tuple[Period, re.Pattern[str]]] = {
    "year": (Period.YEAR, re.compile(r"\d{4}", re.ASCII)),
    "month": (Period.MONTH, re.compile(r"\d{1,2}", re.ASCII)),
    "day": (Period.DAY, re.compile(r"\d{1,2}", re.ASCII)),
    "hour": (Period.HOUR, re.compile(r"\d{1,2}", re.ASCII)),
}
_DATES = frozenset({"date", "dt", "day", "month"})
_FIRST = (1, 1, 1, 0)


@dataclass(frozen=True, slots=True)
class PartitionTime:
    """The span of time that a directory names, and the levels before the time."""

    prefix: str
    start: datetime
    period: Period

    @property
    def end(self) -> datetime:
        """Where the next one of its kind begins."""
        return self.period.shifted(self.start, 1)


@dataclass(frozen=True, slots=True)
class Layout:
    """How the directories of a source name time."""

    template: Template | None = None

    @classmethod
    def of(cls, source: PathSource) -> Layout:
        """The layout that the source's settings describe."""
        given = source.partition_filter
        return cls(parse_template(given.prefix_template) if given else None)

    def time_of(self, directory: str) -> PartitionTime | None:
        """The time in ``directory``; ``None`` where none is recognised."""
        levels = directory.split("/")
        return self._by_template(levels) or _by_names(levels, {}, None)

    def _by_template(self, levels: Sequence[str]) -> PartitionTime | None:
        if self.template is None:
            return None
        fields = self.template.read(levels)
        if not fields:
            return None
        deeper = levels[len(self.template.levels) :]
        return _by_names(deeper, fields, self.template.prefix)


def _by_names(levels: Sequence[str], known: Fields, prefix: str | None) -> PartitionTime | None:
    """The time in ``key=value`` levels, together with what is known already."""
    fields = known
    for number, level in enumerate(levels):
        found = _recognised(level)
        if not found:
            continue
        both = merged(fields, found.items())
        if both is None:
            return None
        fields = both
        if prefix is None:
            prefix = "/".join(levels[:number])
    return _span(prefix, fields) if prefix is not None else None


def _recognised(level: str) -> Fields:
    key, _, value = level.partition("=")
    if key in _NUMBERS and _NUMBERS[key][1].fullmatch(value):
        return {_NUMBERS[key][0]: int(value)}
    match = _DATE.fullmatch(value) if key in _DATES else None
    if match is None:
        return {}
    numbers = (int(group) for group in match.groups() if group is not None)
    return dict(zip(Period, numbers, strict=False))


def _span(prefix: str, fields: Fields) -> PartitionTime | None:
    """The span of the coarsest fields that follow each other without a gap."""
    values: list[int] = []
    for period in Period:
        if period not in fields:
            break
        values.append(fields[period])
    if not values:
        return None
    year, month, day, hour = [*values, *_FIRST[len(values) :]]
    try:
        start = datetime(year, month, day, hour, tzinfo=UTC)
    except ValueError:
        return None
    return PartitionTime(prefix, start, list(Period)[len(values) - 1])
