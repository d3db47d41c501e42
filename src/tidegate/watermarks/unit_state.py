"""How far each unit of a source was read: covered times, where segments begin, failures and retired units."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from tidegate.errors import WatermarkError
from tidegate.watermarks.calendar import iso, zone_named
from tidegate.watermarks.coverage import Coverage, joined, within, without

STARTS_KEPT = 32
EARLIEST, LATEST = -(2**62), 2**62


@dataclass(frozen=True, slots=True)
class Failure:
    """A work unit that failed ``count`` times in a row, for the last time in run number ``run``."""

    count: int
    run: int
    reason: str


@dataclass(frozen=True, slots=True)
class UnitEntry:
    """What is known of one unit.

    ``coverage`` was read. ``starts`` are where segments of its rows begin, apart from the beginnings of partitions:
    the greatest of them. ``left`` was forgotten on request, and rows of it may be in the table. Rows below ``settled``
    were read in partitions of another kind and are not read again.
    """

    coverage: Coverage = ()
    starts: tuple[int, ...] = ()
    left: Coverage = ()
    settled: int | None = None


@dataclass(frozen=True, slots=True)
class UnitState:
    """The position of a source of work units.

    ``grid`` and ``zone`` say what the identities of work units were made by, ``runs`` how many runs there were.
    ``failures`` are by unit and partition start (0 where there are no partitions), ``retired`` has the reasons.
    """

    zone: str = "UTC"
    grid: str = ""
    runs: int = 0
    entries: Mapping[str, UnitEntry] = field(default_factory=dict)
    failures: Mapping[tuple[str, int], Failure] = field(default_factory=dict)
    retired: Mapping[str, str] = field(default_factory=dict)
    input_version: str | None = None
    updated: datetime | None = None

    def without_units(self, units: Collection[str] | None, low: int | None, high: int | None) -> UnitState:
        """Without what was read in ``[low, high)`` for ``units``; None means all, or without bound.

        It is remembered that rows may be there, so that reading again replaces them. ``WatermarkError`` where they were
        read in partitions of another kind, so that they cannot be told apart.
        """
        begin, end = EARLIEST if low is None else low, LATEST if high is None else high
        named = None if units is None else frozenset(units)
        entries = {
            unit: _forgotten(unit, entry, begin, end) if named is None or unit in named else entry
            for unit, entry in self.entries.items()
        }
        return replace(self, entries=entries)

    def retried(self, units: Collection[str] | None) -> UnitState:
        """Without the failures of ``units``, and with none of them retired; None means all."""
        named = None if units is None else frozenset(units)
        if named is None:
            return replace(self, failures={}, retired={})
        return replace(
            self,
            failures={key: failure for key, failure in self.failures.items() if key[0] not in named},
            retired={unit: reason for unit, reason in self.retired.items() if unit not in named},
        )


def _forgotten(unit: str, entry: UnitEntry, low: int, high: int) -> UnitEntry:
    forgotten, left = within(entry.coverage, low, high), entry.left
    if forgotten and entry.settled is not None and forgotten[0][0] < entry.settled:
        raise WatermarkError(
            f"unit {unit!r} cannot be reset below {entry.settled} (milliseconds since 1970): that was read in other "
            "partitions, of which no single one can be replaced",
            "reset only what is later; to read everything anew, give the source another name and another table",
        )
    for piece in forgotten:
        left = joined(left, *piece)
    return replace(entry, coverage=without(entry.coverage, low, high), left=left)


def settled(state: UnitState) -> UnitState:
    """The same state for partitions of another kind: what was read is never divided or read again by them."""
    entries = {
        unit: replace(entry, starts=(), settled=max(entry.coverage[-1][1], entry.settled or EARLIEST))
        if entry.coverage
        else entry
        for unit, entry in state.entries.items()
    }
    return replace(state, entries=entries, failures={})


def watermark_text(state: UnitState | None) -> str | None:
    """How far the units were read, on one line; None where nothing was.

    >>> watermark_text(UnitState(entries={"a": UnitEntry(((0, 86_400_000),)), "b": UnitEntry(((0, 3_600_000),))}))
    '1970-01-01 01:00 to 1970-01-02 (2 units)'
    """
    highs = [entry.coverage[-1][1] for entry in state.entries.values() if entry.coverage] if state else []
    if state is None or not highs:
        return None
    zone = zone_named(state.zone)
    texts = [iso(each, zone) for each in sorted({min(highs), max(highs)})]
    many = f" ({len(highs):,} units)" if len(highs) > 1 else ""
    return " to ".join(texts) + many
