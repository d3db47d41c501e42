"""What ``doctor`` looks at of sources of work units: who listens, the inputs, the plan, the table. Changes nothing.

No credentials are sent and no row of the source is read: whether a server lets us in is told by the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidegate.column_specs import ColumnSource, HttpRead, JdbcRead
from tidegate.observe.wording import count
from tidegate.planning.unit_planner import plan_units
from tidegate.reports import Check
from tidegate.runs.column_examining import answers, driver_check, tested_check
from tidegate.runs.examining import guarded, writable
from tidegate.runs.place import utc_now
from tidegate.runs.unit_looking import kind_of
from tidegate.runs.unit_place import UnitPlace
from tidegate.sources.units.inputs import read_units
from tidegate.spark.packages import packages_of
from tidegate.unit_specs import FileRead
from tidegate.watermarks.unit_state import watermark_text


def examine_units(places: Sequence[UnitPlace]) -> tuple[Check, ...]:
    """Each source of work units, its inputs and its table."""
    return tuple(check for place in places for check in (*_source(place), *_inputs(place), *_table(place)))


def _source(place: UnitPlace) -> list[Check]:
    name, source = f"source {place.key}", place.source

    def look() -> Iterator[Check]:
        read = source.read.http if isinstance(source.read, FileRead) else source.read
        if isinstance(read, HttpRead | JdbcRead):
            yield answers(name, kind_of(place), ColumnSource(source.name, read))
        else:
            yield Check(name, "ok", f"{kind_of(place)}: {source.uri}; the run tells whether it can be read")
        if isinstance(read, JdbcRead):
            yield driver_check(name, read, packages_of([source]))
            yield from tested_check(name, read)

    return guarded(name, look)


def _inputs(place: UnitPlace) -> list[Check]:
    """Whether the units can be read, and how many there are."""
    name, source = f"units of {place.key}", place.source
    if source.unit is None and not source.inputs:
        return []

    def look() -> Iterator[Check]:
        units = read_units(source)
        version = f" ({units.version})" if units.version else ""
        left = f"; {count(units.filtered, 'row')} filtered" if units.filtered else ""
        told = f"{count(len(units.values), 'unit')}{version}{left}"
        yield Check(name, "ok" if units.values else "warn", told, "" if units.values else "nothing runs without units")

    return guarded(name, look)


def _table(place: UnitPlace) -> list[Check]:
    name, uri = f"table of {place.key}", place.pipeline.sink.table.uri

    def look() -> Iterator[Check]:
        opened = place.open(read_only=True)
        at = f"at version {opened.table_version}" if opened.table_version >= 0 else "not made yet"
        state = place.state_of(opened)
        stored = watermark_text(state) or "nothing read"
        yield Check(name, "ok", f"{uri} {at}; this source is at position {opened.version} ({stored})")
        for warning in opened.warnings:
            yield Check(name, "warn", warning)
        if state is not None and state.failures:
            failed = count(len(state.failures), "work unit")
            remedy = f"tidegate units list CONFIG -p {place.pipeline.name} --failed"
            yield Check(name, "warn", f"{failed} failed when tried last", remedy)
        units = read_units(place.source)
        plan = plan_units(place.pipeline.name, place.source, state, units, opened.version, utc_now())
        yield Check(name, "ok", f"{count(plan.count, 'work unit')} would run now")
        yield from writable(name, uri)

    return guarded(name, look)
