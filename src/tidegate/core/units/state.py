"""The state of a source of work units: covered times and failures per unit, and its JSON form.

``{"schema_version": 1, "kind": "unit", "zone", "grid", "runs", "tick", "entries": [[units, coverage, starts, left,
settled], …], "failures": [[unit, start, count, run, reason], …], "retired": {unit: reason}, "input_version",
"updated"}``. Units with equal reads share one entry, without its empty end. Moments are counted in ``tick``
milliseconds, the greatest common divisor; after the first moment of a list come distances.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import accumulate, chain, pairwise
from math import gcd

from tidegate.core.calendar import iso, zone_named
from tidegate.core.json_shape import SCHEMA_VERSION, Node, state_of_kind
from tidegate.errors import WatermarkError
from tidegate.specs.locations import Secret

ANONYMOUS = ""
"""The unit of a source without a unit watermark."""


@dataclass(frozen=True, slots=True)
class Units:
    """All units of one plan, each value once, in order.

    ``variables`` fill requests, by value; ``secrets`` are the same but must never be shown; ``shared`` are secrets of
    all units. ``version`` identifies the state of the inputs. ``repeated`` rows had a unit that was there already,
    ``filtered`` ones did not pass the filters.
    """

    values: tuple[str, ...] = (ANONYMOUS,)
    variables: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    secrets: Mapping[str, Mapping[str, Secret]] = field(default_factory=dict, repr=False)
    shared: Mapping[str, Secret] = field(default_factory=dict, repr=False)
    version: str | None = None
    repeated: int = 0
    filtered: int = 0


Coverage = tuple[tuple[int, int], ...]


def add_range(coverage: Coverage, low: int, high: int) -> Coverage:
    """Add ``[low, high)`` to ``coverage``."""
    if low >= high:
        return coverage
    before = [span for span in coverage if span[1] < low]
    after = [span for span in coverage if span[0] > high]
    touched = coverage[len(before) : len(coverage) - len(after)]
    if touched:
        low, high = min(low, touched[0][0]), max(high, touched[-1][1])
    return (*before, (low, high), *after)


def remove_range(coverage: Coverage, low: int, high: int) -> Coverage:
    """Remove ``[low, high)`` from ``coverage``."""
    pieces = (piece for begin, end in coverage for piece in ((begin, min(end, low)), (max(begin, high), end)))
    return tuple(piece for piece in pieces if piece[0] < piece[1]) if low < high else coverage


def clip(coverage: Coverage, low: int, high: int | None) -> Coverage:
    """Keep the part of ``coverage`` inside ``[low, high)``; without ``high``, everything above ``low``."""
    pieces = ((max(begin, low), end if high is None else min(end, high)) for begin, end in coverage)
    return tuple(piece for piece in pieces if piece[0] < piece[1])


def interval_at(coverage: Coverage, moment: int) -> tuple[int, int] | None:
    place = bisect_right(coverage, moment, key=lambda span: span[0]) - 1
    return coverage[place] if place >= 0 and moment < coverage[place][1] else None


def high_of(coverage: Coverage, start: int, nominal_end: int | None) -> int | None:
    """The end of the contiguous coverage from ``start``; None if the start itself is not covered."""
    interval = interval_at(coverage, start)
    if interval is None:
        return None
    return interval[1] if nominal_end is None else min(interval[1], nominal_end)


STARTS_KEPT = 32
"""Starts of segments that a unit remembers: the state must not grow with every read."""

EARLIEST, LATEST = -(2**62), 2**62


@dataclass(frozen=True, slots=True)
class Failure:
    """A work unit that failed ``count`` times in a row, last in run number ``run``."""

    count: int
    run: int
    reason: str


@dataclass(frozen=True, slots=True)
class UnitEntry:
    """The record of one unit.

    ``coverage`` was read. ``starts`` are the greatest starts of segments that are not starts of partitions. ``left``
    was forgotten on request, and the table may have its rows. Rows below ``settled`` were read in partitions of another
    kind and are not read again.
    """

    coverage: Coverage = ()
    starts: tuple[int, ...] = ()
    left: Coverage = ()
    settled: int | None = None


@dataclass(frozen=True, slots=True)
class UnitState:
    """The position of a source of work units.

    ``grid`` and ``zone`` determine the identities of work units, ``runs`` is the number of runs. ``failures`` are by
    unit and partition start (0 without partitions), ``retired`` has the reasons.
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
        """Forget what was read in ``[low, high)`` for ``units``; None means all, or without bound.

        The state remembers that the table may have rows, so that reading again replaces them. ``WatermarkError`` if
        they were read in partitions of another kind and cannot be identified.
        """
        begin, end = EARLIEST if low is None else low, LATEST if high is None else high
        named = None if units is None else frozenset(units)
        entries = {
            unit: _forget(unit, entry, begin, end) if named is None or unit in named else entry
            for unit, entry in self.entries.items()
        }
        return replace(self, entries=entries)

    def forget_failures(self, units: Collection[str] | None) -> UnitState:
        """Forget the failures of ``units`` and retire none of them; None means all."""
        named = None if units is None else frozenset(units)
        if named is None:
            return replace(self, failures={}, retired={})
        return replace(
            self,
            failures={key: failure for key, failure in self.failures.items() if key[0] not in named},
            retired={unit: reason for unit, reason in self.retired.items() if unit not in named},
        )


def _forget(unit: str, entry: UnitEntry, low: int, high: int) -> UnitEntry:
    forgotten, left = clip(entry.coverage, low, high), entry.left
    if forgotten and entry.settled is not None and forgotten[0][0] < entry.settled:
        raise WatermarkError(
            f"unit {unit!r} cannot be reset below {entry.settled} (milliseconds since 1970): that was read in other "
            "partitions, of which no single one can be replaced",
            "reset only what is later; to read everything anew, give the source another name and another table",
        )
    for piece in forgotten:
        left = add_range(left, *piece)
    return replace(entry, coverage=remove_range(entry.coverage, low, high), left=left)


def settle(state: UnitState) -> UnitState:
    """Prepare the state for partitions of another kind, which never divide or repeat what was read."""
    entries = {
        unit: replace(entry, starts=(), settled=max(entry.coverage[-1][1], entry.settled or EARLIEST))
        if entry.coverage
        else entry
        for unit, entry in state.entries.items()
    }
    return replace(state, entries=entries, failures={})


def unit_watermark_text(state: UnitState | None) -> str | None:
    """Tell on one line how far the units were read; None if nothing was.

    >>> unit_watermark_text(UnitState(entries={"a": UnitEntry(((0, 86_400_000),)), "b": UnitEntry(((0, 3_600_000),))}))
    '1970-01-01 01:00 to 1970-01-02 (2 units)'
    """
    highs = [entry.coverage[-1][1] for entry in state.entries.values() if entry.coverage] if state else []
    if state is None or not highs:
        return None
    zone = zone_named(state.zone)
    texts = [iso(high, zone) for high in sorted({min(highs), max(highs)})]
    many = f" ({len(highs):,} units)" if len(highs) > 1 else ""
    return " to ".join(texts) + many


KIND = "unit"
_KEYS = (
    "schema_version",
    "kind",
    "zone",
    "grid",
    "runs",
    "tick",
    "entries",
    "failures",
    "retired",
    "input_version",
    "updated",
    "delta_version",
)


def encode_units(state: UnitState) -> dict[str, object]:
    """Encode the complete state; equal states give equal text."""
    alike: dict[UnitEntry, list[str]] = {}
    for unit, entry in state.entries.items():
        alike.setdefault(entry, []).append(unit)
    # Daily ranges become small numbers; the state of a hundred thousand units goes into every commit.
    tick = gcd(*chain.from_iterable(_moments(entry) for entry in alike)) or 1
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": KIND,
        "zone": state.zone,
        "grid": state.grid,
        "runs": state.runs,
        "tick": tick,
        "entries": sorted(_encode_entry(sorted(units), entry, tick) for entry, units in alike.items()),
        "failures": [
            [*key, failure.count, failure.run, failure.reason] for key, failure in sorted(state.failures.items())
        ],
        "retired": dict(sorted(state.retired.items())),
        "input_version": state.input_version,
        "updated": None if state.updated is None else state.updated.isoformat(),
    }


def decode_units(data: Mapping[str, object]) -> UnitState:
    """Decode a state; ``StateError`` names what it cannot read, and nothing is guessed."""
    if not data:
        return UnitState()
    root = state_of_kind(data, KIND, _KEYS, "work units", "time ranges and units")
    tick = root.get("tick").integer()
    if not tick:
        raise root.get("tick").refusal("milliseconds, 1 or more")
    updated = root.get("updated")
    return UnitState(
        zone=root.get("zone").text(),
        grid=root.get("grid").text(),
        runs=root.get("runs").integer(),
        entries=_entries(root.get("entries"), tick),
        failures=_failures(root.get("failures")),
        retired={unit: reason.text() for unit, reason in root.get("retired").entries()},
        input_version=root.get("input_version").optional_text(),
        updated=None if updated.is_null else updated.moment(),
    )


def _moments(entry: UnitEntry) -> Iterable[int]:
    return chain(*entry.coverage, entry.starts, *entry.left, () if entry.settled is None else (entry.settled,))


def _encode_entry(units: list[str], entry: UnitEntry, tick: int) -> list[object]:
    parts: list[object] = [
        units,
        _distances(tuple(chain(*entry.coverage)), tick),
        _distances(entry.starts, tick),
        _distances(tuple(chain(*entry.left)), tick),
        None if entry.settled is None else entry.settled // tick,
    ]
    # The state goes into every commit, and most sources never reset a unit.
    while parts[-1] is None or parts[-1] == []:
        parts.pop()
    return parts


def _distances(moments: Sequence[int], tick: int) -> list[int]:
    return [(moment - before) // tick for before, moment in pairwise((0, *moments))]


def _entries(node: Node, tick: int) -> dict[str, UnitEntry]:
    entries: dict[str, UnitEntry] = {}
    for item in node.items():
        parts = list(item.items())
        if not 1 <= len(parts) <= 5:
            raise item.refusal("units and up to four things about them")
        units = [unit.text() for unit in parts[0].items()]
        entry = UnitEntry(
            coverage=_intervals(parts[1], tick) if len(parts) > 1 else (),
            starts=_decode_ascending(parts[2], tick) if len(parts) > 2 else (),
            left=_intervals(parts[3], tick) if len(parts) > 3 else (),
            settled=parts[4].any_integer() * tick if len(parts) > 4 and not parts[4].is_null else None,
        )
        before = len(entries)
        entries.update(dict.fromkeys(units, entry))
        if not units or len(entries) != before + len(units):
            raise parts[0].refusal("units, each of them once")
    return entries


def _decode_ascending(node: Node, tick: int) -> tuple[int, ...]:
    distances = [item.any_integer() for item in node.items()]
    if any(distance <= 0 for distance in distances[1:]):
        raise node.refusal("a moment and distances above 0")
    return tuple(ticks * tick for ticks in accumulate(distances))


def _intervals(node: Node, tick: int) -> Coverage:
    moments = _decode_ascending(node, tick)
    if len(moments) % 2:
        raise node.refusal("beginnings and ends of intervals")
    return tuple(zip(moments[::2], moments[1::2], strict=True))


def _failures(node: Node) -> dict[tuple[str, int], Failure]:
    failures: dict[tuple[str, int], Failure] = {}
    for item in node.items():
        parts = list(item.items())
        if len(parts) != 5:
            raise item.refusal("unit, start, count, run and reason of a failure")
        unit, start, count, run, reason = parts
        if not count.integer():
            raise count.refusal("how often it failed, 1 or more")
        key = unit.text(), start.any_integer()
        if key in failures:
            raise item.refusal("each work unit once")
        failures[key] = Failure(count.integer(), run.integer(), reason.text())
    return failures
