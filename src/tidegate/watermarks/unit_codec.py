"""The state of a source of work units as JSON, and back; anything that is not one is refused.

``{"schema_version": 1, "kind": "unit", "zone", "grid", "runs", "tick", "entries": [[units, coverage, starts, left,
settled], …], "failures": [[unit, start, count, run, reason], …], "retired": {unit: reason}, "input_version",
"updated"}``. Units that were read alike share one entry, of which empty ends are left out. Moments are counted in
``tick`` milliseconds, the most that all are multiples of; of several only the first is one, the others are distances.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, chain, pairwise
from math import gcd

from tidegate.errors import StateError
from tidegate.watermarks.coverage import Coverage
from tidegate.watermarks.json_shape import SCHEMA_VERSION, Node, check_version
from tidegate.watermarks.json_shape import is_newer as is_newer
from tidegate.watermarks.unit_state import Failure, UnitEntry, UnitState

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


def encode(state: UnitState) -> dict[str, object]:
    """The complete state; equal states give equal text."""
    alike: dict[UnitEntry, list[str]] = {}
    for unit, entry in state.entries.items():
        alike.setdefault(entry, []).append(unit)
    tick = gcd(*chain.from_iterable(_moments(entry) for entry in alike)) or 1
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": KIND,
        "zone": state.zone,
        "grid": state.grid,
        "runs": state.runs,
        "tick": tick,
        "entries": sorted(_encoded(sorted(units), entry, tick) for entry, units in alike.items()),
        "failures": [[*key, each.count, each.run, each.reason] for key, each in sorted(state.failures.items())],
        "retired": dict(sorted(state.retired.items())),
        "input_version": state.input_version,
        "updated": None if state.updated is None else state.updated.isoformat(),
    }


def decode(data: Mapping[str, object]) -> UnitState:
    """The state in ``data``; ``StateError`` names what is not understood, and nothing is guessed."""
    if not data:
        return UnitState()
    root = Node(data, "state")
    check_version(root)
    if "kind" not in root or root.get("kind").text() != KIND:
        raise StateError(
            "the recorded state is not one of work units, and the source is now followed by time ranges and units",
            "give the source its former type again; or another name and another table, to read everything anew",
        )
    root.only(_KEYS)
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


def _encoded(units: list[str], entry: UnitEntry, tick: int) -> list[object]:
    parts: list[object] = [
        units,
        _distances(tuple(chain(*entry.coverage)), tick),
        _distances(entry.starts, tick),
        _distances(tuple(chain(*entry.left)), tick),
        None if entry.settled is None else entry.settled // tick,
    ]
    while parts[-1] is None or parts[-1] == []:
        parts.pop()
    return parts


def _distances(moments: Sequence[int], tick: int) -> list[int]:
    return [(each - before) // tick for before, each in pairwise((0, *moments))]


def _entries(node: Node, tick: int) -> dict[str, UnitEntry]:
    entries: dict[str, UnitEntry] = {}
    for each in node.items():
        parts = list(each.items())
        if not 1 <= len(parts) <= 5:
            raise each.refusal("units and up to four things about them")
        units = [unit.text() for unit in parts[0].items()]
        entry = UnitEntry(
            coverage=_intervals(parts[1], tick) if len(parts) > 1 else (),
            starts=_ascending(parts[2], tick) if len(parts) > 2 else (),
            left=_intervals(parts[3], tick) if len(parts) > 3 else (),
            settled=parts[4].whole() * tick if len(parts) > 4 and not parts[4].is_null else None,
        )
        before = len(entries)
        entries.update(dict.fromkeys(units, entry))
        if not units or len(entries) != before + len(units):
            raise parts[0].refusal("units, each of them once")
    return entries


def _ascending(node: Node, tick: int) -> tuple[int, ...]:
    distances = [each.whole() for each in node.items()]
    if any(distance <= 0 for distance in distances[1:]):
        raise node.refusal("a moment and distances above 0")
    return tuple(each * tick for each in accumulate(distances))


def _intervals(node: Node, tick: int) -> Coverage:
    moments = _ascending(node, tick)
    if len(moments) % 2:
        raise node.refusal("beginnings and ends of intervals")
    return tuple(zip(moments[::2], moments[1::2], strict=True))


def _failures(node: Node) -> dict[tuple[str, int], Failure]:
    failures: dict[tuple[str, int], Failure] = {}
    for each in node.items():
        parts = list(each.items())
        if len(parts) != 5:
            raise each.refusal("unit, start, count, run and reason of a failure")
        unit, start, count, run, reason = parts
        if not count.integer():
            raise count.refusal("how often it failed, 1 or more")
        key = unit.text(), start.whole()
        if key in failures:
            raise each.refusal("each work unit once")
        failures[key] = Failure(count.integer(), run.integer(), reason.text())
    return failures
