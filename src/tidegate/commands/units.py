"""Work units: list them, show one, retry them, forget them.

The ordinary protocol commits the new state alone: no row changes. When a later run reads the work units again, it
replaces their rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from tidegate.commands.project import Config, agree, source_named, unit_sources
from tidegate.config.document import nearest
from tidegate.core.units.plan import TimePartition, UnitPlan, WhySkipped, WorkUnit
from tidegate.core.units.planner import failure_start
from tidegate.core.units.state import Failure, UnitEntry, UnitState, clip, high_of
from tidegate.core.units.time_range import cut
from tidegate.errors import TidegateError
from tidegate.reports.units import UnitLine, UnitList, UnitsMove, UnitView, WorkUnitLine
from tidegate.reports.wording import count
from tidegate.runs.tracker import UnitBound
from tidegate.runs.units import OPEN_REASONS, UnitLook, look, maybe_utc, spans, starting_at, utc
from tidegate.specs.units import Replace


@dataclass(frozen=True, slots=True)
class UnitsQuery:
    """A query of units: by name, by partition, only failed ones; ``limit`` 0 means all."""

    units: Collection[str] = ()
    partition: str | None = None
    failed: bool = False
    limit: int = 50


@dataclass(slots=True)
class _Numbers:
    """The work units of one unit, counted by outcome."""

    done: int = 0
    open: int = 0
    eligible: list[int] = field(default_factory=list)


def units(
    config: Config,
    pipeline: str,
    source: str | None = None,
    *,
    names: Collection[str] = (),
    partition: str | None = None,
    failed: bool = False,
    limit: int = 50,
    now: datetime | None = None,
) -> tuple[UnitList, ...]:
    """The units of a pipeline's sources, with the number of done, open and failed work units. Changes nothing.

    ``names`` selects units, ``partition`` is the start of the only partition to count, ``failed`` leaves out units
    without trouble. At most ``limit`` per source, those with trouble first; 0: all.
    """
    sources = unit_sources(config, pipeline, source)
    query = UnitsQuery(frozenset(names), partition, failed, limit)
    return tuple(_list_units(bound, now or datetime.now(UTC), query) for bound in sources)


def _list_units(bound: UnitBound, now: datetime, wanted: UnitsQuery) -> UnitList:
    looked = look(bound, now)
    plan, state = looked.plan, looked.state or UnitState()
    check_known(bound, looked, wanted.units)
    one = starting_at(plan.partitions, wanted.partition, plan.zone) if wanted.partition is not None else None
    lines = [each for each in _lines(plan, state, one) if _is_wanted(each, wanted)]
    lines.sort(key=lambda each: _ORDER.index(each.state))
    shown = lines[: wanted.limit] if wanted.limit else lines
    return UnitList(
        pipeline=bound.pipeline.name,
        source=bound.source.name,
        position=looked.opened.version,
        zone=plan.zone,
        grid=plan.grid,
        partitions=1 if one else len(plan.partitions),
        total=len(lines),
        units=tuple(shown),
        input_version=plan.input_version,
        notes=(*looked.opened.warnings, *plan.notes),
    )


_ORDER = ("failed", "retired", "open", "done", "stale")


def _is_wanted(line: UnitLine, wanted: UnitsQuery) -> bool:
    named = not wanted.units or line.unit in wanted.units
    return named and (not wanted.failed or line.state in ("failed", "retired"))


def check_known(bound: UnitBound, looked: UnitLook, units: Collection[str]) -> None:
    """Raise for a unit name that neither the plan nor the state has."""
    state = looked.state or UnitState()
    known = {*looked.plan.units, *state.entries, *state.retired}
    for unit in units:
        if unit not in known:
            hint = nearest(unit, list(known)) if len(known) < _COMPARED else ""
            raise TidegateError(f"{bound.key}: there is no unit {unit!r}", hint or "`tidegate units list` shows all")


# Searching for a similar name among a million units would take longer than the command.
_COMPARED = 10_000


def _lines(plan: UnitPlan, state: UnitState, one: TimePartition | None) -> Iterator[UnitLine]:
    numbers = _numbers(plan, one)
    failures: dict[str, list[Failure]] = {}
    for (unit, start), failure in state.failures.items():
        if one is None or start == failure_start(one.start, one.nominal_end):
            failures.setdefault(unit, []).append(failure)
    for unit in (*plan.units, *plan.stale):
        found, failed = numbers.get(unit, _Numbers()), failures.get(unit, [])
        retired = state.retired.get(unit)
        yield UnitLine(
            unit=unit,
            state=_state(unit in numbers, found, failed, retired),
            done=found.done,
            open=found.open,
            failed=len(failed),
            read_up_to=_read_up_to(state.entries.get(unit), one),
            next_eligible=utc(min(found.eligible)) if found.eligible and not found.open else None,
            reason=retired or (failed[-1].reason if failed else ""),
        )


def _state(is_there: bool, found: _Numbers, failed: Sequence[Failure], retired: str | None) -> str:
    if not is_there:
        return "stale"
    if retired is not None:
        return "retired"
    return "failed" if failed else "open" if found.open else "done"


def _numbers(plan: UnitPlan, one: TimePartition | None) -> dict[str, _Numbers]:
    """The work units of each unit, counted in all partitions or in one."""
    found = {unit: _Numbers() for unit in plan.units}
    for group in plan.runs:
        if one is None or group.pattern.start == one.start:
            for unit in group.units:
                found[unit].open += 1
    for each in plan.skipped:
        amount = each.partitions if one is None else int(each.first <= one.start <= each.last)
        if not amount or each.why is WhySkipped.RETIRED:
            continue
        for unit in each.units:
            if each.why in OPEN_REASONS:
                found[unit].open += amount
            elif each.why is not WhySkipped.GRACE_OVER:
                found[unit].done += amount
            if each.eligible is not None:
                found[unit].eligible.append(each.eligible)
    return found


def _read_up_to(entry: UnitEntry | None, one: TimePartition | None) -> str | None:
    if entry is None or not entry.coverage:
        return None
    return maybe_utc(entry.coverage[-1][1] if one is None else high_of(entry.coverage, one.start, one.nominal_end))


def unit(
    config: Config, pipeline: str, name: str, source: str | None = None, *, now: datetime | None = None
) -> UnitView:
    """One unit of a source, partition by partition: what was read and what would run. Changes nothing."""
    bound = source_named(unit_sources(config, pipeline, source), source)
    return view_unit(bound, now or datetime.now(UTC), name)


def view_unit(bound: UnitBound, now: datetime, unit: str) -> UnitView:
    """One unit, partition by partition."""
    looked = look(bound, now)
    check_known(bound, looked, (unit,))
    plan, state = looked.plan, looked.state or UnitState()
    entry = state.entries.get(unit, UnitEntry())
    line = next(each for each in _lines(plan, state, None) if each.unit == unit)
    return UnitView(
        pipeline=bound.pipeline.name,
        source=bound.source.name,
        unit=unit,
        state=line.state,
        position=looked.opened.version,
        zone=plan.zone,
        grid=plan.grid,
        coverage=spans(entry.coverage),
        left=spans(entry.left),
        work_units=tuple(_work_units(plan, state, entry, unit)),
        variables=dict(looked.units.variables.get(unit, {})),
        retired=state.retired.get(unit),
        notes=looked.opened.warnings,
    )


def _work_units(plan: UnitPlan, state: UnitState, entry: UnitEntry, unit: str) -> Iterator[WorkUnitLine]:
    running: dict[int, WorkUnit] = {group.pattern.start: group.pattern for group in plan.runs if unit in group.units}
    skipped = [each for each in plan.skipped if unit in each.units]
    for partition in plan.partitions if unit in plan.units else ():
        work = running.get(partition.start)
        skip = next((each for each in skipped if each.first <= partition.start <= each.last), None)
        failure = state.failures.get((unit, failure_start(partition.start, partition.nominal_end)))
        yield WorkUnitLine(
            start=utc(partition.start),
            end=utc(partition.end),
            nominal_end=maybe_utc(partition.nominal_end),
            why=work.why.value if work else skip.why.value if skip else "",
            low=maybe_utc(work.low if work else None),
            high=maybe_utc(work.high if work else None),
            high_watermark=maybe_utc(high_of(entry.coverage, partition.start, partition.nominal_end)),
            eligible=maybe_utc(skip.eligible if skip else None),
            failures=0 if failure is None else failure.count,
            reason="" if failure is None else failure.reason,
        )


Confirm = Callable[[UnitsMove], bool]


@dataclass(frozen=True, slots=True)
class Chosen:
    """A selection of work units: those of some units, or of all (None), in one partition or in all."""

    units: frozenset[str] | None = None
    partition: TimePartition | None = None


def retry_units(
    config: Config,
    pipeline: str,
    source: str | None = None,
    *,
    names: Collection[str] = (),
    partition: str | None = None,
    confirm: Confirm = agree,
) -> UnitsMove:
    """Forget failures of work units, so that none waits, and that units are retired, if ``confirm`` agrees.

    Without ``names``, of all units. The ordinary protocol commits the position; no row changes. ``CommitLost`` if
    another run came first.
    """

    def forget(state: UnitState, chosen: Chosen) -> UnitState:
        units, one = chosen.units, chosen.partition
        if one is None:
            return state.forget_failures(units)
        start = failure_start(one.start, one.nominal_end)
        kept = {
            key: failure
            for key, failure in state.failures.items()
            if key[1] != start or (units is not None and key[0] not in units)
        }
        return replace(state, failures=kept)

    bound = source_named(unit_sources(config, pipeline, source), source)
    return _edit(bound.for_edit(), "units retry", names, partition, forget, confirm)


def reset_units(
    config: Config,
    pipeline: str,
    source: str | None = None,
    *,
    names: Collection[str] = (),
    partition: str | None = None,
    confirm: Confirm = agree,
) -> UnitsMove:
    """Forget what was read of units, in one partition or in all, so that the next run reads it again.

    Their rows stay until then; the next run replaces them. See :func:`retry_units`.
    """

    def forget(state: UnitState, chosen: Chosen) -> UnitState:
        one = chosen.partition
        low, high = (None, None) if one is None else (one.start, one.nominal_end)
        return state.without_units(chosen.units, low, high)

    bound = source_named(unit_sources(config, pipeline, source), source)
    return _edit(bound.for_edit(), "units reset", names, partition, forget, confirm)


def _choose(bound: UnitBound, state: UnitState, units: Collection[str], partition: str | None) -> Chosen:
    known = {*state.entries, *state.retired, *(unit for unit, _ in state.failures)}
    for unit in units:
        if unit not in known:
            raise TidegateError(
                f"{bound.key}: nothing is recorded for a unit {unit!r}",
                nearest(unit, list(known)) or "`tidegate units list` shows all",
            )
    one = None
    if partition is not None:
        one = starting_at(cut(bound.source, datetime.now(UTC)).partitions, partition, bound.source.timezone)
    return Chosen(frozenset(units) if units else None, one)


def _edit(
    bound: UnitBound,
    action: str,
    names: Collection[str],
    partition: str | None,
    forget: Callable[[UnitState, Chosen], UnitState],
    confirm: Confirm,
) -> UnitsMove:
    opened = bound.positions.open()
    before = bound.state_of(opened)
    if opened.table_version < 0 or before is None:
        raise TidegateError(
            f"{bound.key}: nothing was read yet, so there is nothing to change", "run the pipeline first"
        )
    chosen = _choose(bound, before, names, partition)
    after = forget(before, chosen)
    failures = before.failures.keys() - after.failures.keys()
    retired = before.retired.keys() - after.retired.keys()
    read = {unit: entry for unit, entry in before.entries.items() if entry != after.entries[unit]}
    touched = {*(unit for unit, _ in failures), *retired, *read}
    move = UnitsMove(
        pipeline=bound.pipeline.name,
        source=bound.source.name,
        action=action,
        partition=None if chosen.partition is None else utc(chosen.partition.start),
        units=tuple(sorted(touched)),
        failures=len(failures),
        retired=len(retired),
        ranges=sum(len(_forgotten(before, unit, chosen)) for unit in read),
        notes=(*opened.warnings, *_remarks(bound, before, after, touched, action)),
        version=opened.version,
        table_version=opened.table_version,
    )
    if not touched or not confirm(move):
        return move
    state = bound.tracker.encode(after)
    done = bound.record_edit(opened, state, action)
    return replace(move, version=done.version, table_version=done.table_version, applied=True)


def _forgotten(state: UnitState, unit: str, chosen: Chosen) -> tuple[tuple[int, int], ...]:
    coverage, one = state.entries[unit].coverage, chosen.partition
    return coverage if one is None else clip(coverage, one.start, one.nominal_end)


def _remarks(
    bound: UnitBound, before: UnitState, after: UnitState, touched: Collection[str], action: str
) -> Iterator[str]:
    if not touched:
        yield "nothing changes: nothing is recorded for these work units"
        return
    if action == "units reset":
        yield f"the next run reads them again; {_what_happens_to_rows(bound.source.replace)}"
        kept = sum(1 for unit in touched if unit in after.retired)
        if kept:
            yield f"{count(kept, 'unit')} stay retired; `tidegate units retry` brings them back"
    else:
        yield "the next run retries them; rows that were read stay"


def _what_happens_to_rows(replaced: Replace) -> str:
    """What becomes of the rows in the table when work units are read again."""
    if replaced is Replace.NONE:
        return "their rows stay, and it appends what it reads (replace: none)"
    how = "by their keys" if replaced is Replace.MERGE_KEYS else "and only those"
    return f"until then their rows stay, then it replaces them, {how}"
