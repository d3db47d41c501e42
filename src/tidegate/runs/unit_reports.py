"""What a source of work units shows without touching anything: what would run and why, and how far it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from tidegate.core.calendar import iso, milliseconds, zone_named
from tidegate.core.units.plan import RunGroup, SkippedUnits, TimePartition, UnitPlan, WhySkipped
from tidegate.core.units.planner import plan_units
from tidegate.core.units.state import Units, UnitState
from tidegate.errors import TidegateError
from tidegate.observe.wording import count
from tidegate.protocol.position import Position
from tidegate.reports.run import WorkProgress
from tidegate.reports.units import PartitionLine, PlannedUnits, SkippedWork, UnitSourcePlan
from tidegate.runs.bound_source import UnitBound
from tidegate.runs.presence import attempts_before
from tidegate.runs.tracker import Backlog
from tidegate.runs.unit_source import attempted, maybe_utc, utc
from tidegate.sources.units.inputs import read_units
from tidegate.specs.columns import HttpRead, JdbcRead
from tidegate.specs.units import FileRead

OPEN_REASONS = frozenset({WhySkipped.CAPPED, WhySkipped.WAITING})
"""Why work units do not run that a later run carries out, without anything new."""


@dataclass(frozen=True, slots=True)
class UnitLook:
    """A source as it is found: its position, its state, its units and the plan for them."""

    opened: Position
    state: UnitState | None
    units: Units
    plan: UnitPlan


def look(bound: UnitBound, now: datetime, *, accept_new_partitions: bool = False) -> UnitLook:
    """The plan of the next run, by the same steps, with nothing written."""
    opened = bound.open(read_only=True)
    state = bound.state_of(opened) or attempted(bound, attempts_before(bound, opened))
    units = read_units(bound.source)
    plan = plan_units(
        bound.pipeline.name,
        bound.source,
        state,
        units,
        opened.version,
        now,
        accept_new_partitions=accept_new_partitions,
    )
    return UnitLook(opened, state, units, plan)


def plan_of(bound: UnitBound, now: datetime, *, accept_new_partitions: bool = False) -> UnitSourcePlan:
    """What the next run would read, and why it would not read the rest."""
    looked = look(bound, now, accept_new_partitions=accept_new_partitions)
    plan, units = looked.plan, looked.units
    return UnitSourcePlan(
        pipeline=bound.pipeline.name,
        source=bound.source.name,
        table_uri=bound.pipeline.sink.table.uri,
        kind=type_of(bound),
        source_uri=bound.source.uri,
        position=looked.opened.version,
        now=utc(milliseconds(now)),
        zone=plan.zone,
        grid=plan.grid,
        run=plan.run,
        replace=bound.source.replace.value,
        work_units=len(plan.partitions) * len(plan.units),
        would_run=plan.count,
        reasons=reasons_of(plan),
        job_cutoff=maybe_utc(plan.job_cutoff),
        partitions=tuple(_partition_lines(plan)),
        units=plan.units,
        runs=tuple(_planned(each) for each in plan.runs),
        skipped=tuple(_skipped(each) for each in plan.skipped),
        stale=plan.stale,
        input_version=plan.input_version,
        repeated=units.repeated,
        filtered=units.filtered,
        notes=(*looked.opened.warnings, *plan.notes, *plan.remarks, *_input_notes(units), *_obstacles(plan)),
    )


def type_of(bound: UnitBound) -> str:
    """What kind of source it is, in the word of the configuration."""
    match bound.source.read:
        case JdbcRead():
            return "jdbc"
        case HttpRead():
            return "http"
        case FileRead(format=format_):
            return f"{format_.value} files"
        case _:
            return "python"


def reasons_of(plan: UnitPlan) -> dict[str, int]:
    """How many work units run or do not, by reason."""
    found = Counter[str]()
    for group in plan.runs:
        found[group.pattern.why.value] += len(group.units)
    for each in plan.skipped:
        found[each.why.value] += each.count
    return dict(found)


def _partition_lines(plan: UnitPlan) -> Iterator[PartitionLine]:
    """Each partition with its work units by reason; ranges are counted where they begin and end."""
    numbers = {each.start: number for number, each in enumerate(plan.partitions)}
    running = [Counter[str]() for _ in plan.partitions]
    changes = [Counter[str]() for _ in range(len(plan.partitions) + 1)]
    for group in plan.runs:
        running[numbers[group.pattern.start]][group.pattern.why.value] += len(group.units)
    for each in plan.skipped:
        changes[numbers[each.first]][each.why.value] += len(each.units)
        changes[numbers[each.last] + 1][each.why.value] -= len(each.units)
    skipped = Counter[str]()
    for partition, here, change in zip(plan.partitions, running, changes, strict=False):
        for why, number in change.items():
            skipped[why] += number
        reasons = dict(here) | {why: number for why, number in skipped.items() if number}
        yield PartitionLine(utc(partition.start), utc(partition.end), maybe_utc(partition.nominal_end), reasons)


def _planned(group: RunGroup) -> PlannedUnits:
    work = group.pattern
    return PlannedUnits(
        start=utc(work.start),
        nominal_end=maybe_utc(work.nominal_end),
        units=group.units,
        low=utc(work.low),
        high=utc(work.high),
        why=work.why.value,
        before=maybe_utc(work.before),
        segments=spans(work.segments),
        replaces=work.replaces,
        failures=work.failures,
    )


def _skipped(each: SkippedUnits) -> SkippedWork:
    return SkippedWork(
        each.why.value, each.units, each.partitions, utc(each.first), utc(each.last), maybe_utc(each.eligible)
    )


def _input_notes(units: Units) -> Iterator[str]:
    if units.filtered:
        rows = count(units.filtered, "row")
        yield f"{rows} of the secondary input made no unit: not passed by its filters, or without a value in its fields"
    if units.repeated:
        yield f"{count(units.repeated, 'row')} of the secondary input gave a unit that was there already"


def _obstacles(plan: UnitPlan) -> Iterator[str]:
    if not plan.units:
        yield "there are no units, so nothing runs"
    if plan.stale:
        stale = count(len(plan.stale), "unit")
        yield f"{stale} read before, and not there any more: whatever comes back goes on where it was"


def backlog_of(bound: UnitBound, state: UnitState | None, version: int, now: datetime) -> Backlog:
    """What a run would do now; servers are not asked."""
    plan = plan_units(bound.pipeline.name, bound.source, state, read_units(bound.source), version, now)
    progress = progress_of(plan, state)
    notes = (*plan.notes, *_obstacles(plan))
    return Backlog(complete=True, behind=progress.open > 0, notes=notes, work_units=progress)


def progress_of(plan: UnitPlan, state: UnitState | None) -> WorkProgress:
    """The work units of a plan by what has become of them."""
    reasons = Counter(reasons_of(plan))
    later = sum(reasons[why.value] for why in OPEN_REASONS)
    retired, unfinished = reasons[WhySkipped.RETIRED.value], reasons[WhySkipped.GRACE_OVER.value]
    skipped = sum(each.count for each in plan.skipped)
    eligible = [each.eligible for each in plan.skipped if each.eligible is not None]
    known = frozenset(plan.units)
    failures = {} if state is None else state.failures
    return WorkProgress(
        done=skipped - later - retired - unfinished,
        open=plan.count + later,
        failed=sum(1 for unit, _ in failures if unit in known),
        retired=retired,
        unfinished=unfinished,
        next_eligible=utc(min(eligible)) if eligible and not plan.count else None,
    )


def spans(ranges: Sequence[tuple[int, int]]) -> tuple[tuple[str, str], ...]:
    """Ranges as texts."""
    return tuple((utc(low), utc(high)) for low, high in ranges)


def starting_at(partitions: Sequence[TimePartition], text: str, zone: str) -> TimePartition:
    """The partition that begins where ``text`` says, in UTC or as clocks of ``zone`` show it."""
    known = zone_named(zone)
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        raise _no_partition(partitions, text, zone) from None
    moment = milliseconds(given if given.tzinfo else given.replace(tzinfo=known))
    found = next((each for each in partitions if each.start == moment), None)
    if found is None:
        raise _no_partition(partitions, text, zone)
    return found


def _no_partition(partitions: Sequence[TimePartition], text: str, zone: str) -> TidegateError:
    where = zone_named(zone)
    if not partitions:
        return TidegateError(f"no partition begins at {text!r}: there are none", "look at the range of the source")
    first, last = (iso(each.start, where) for each in (partitions[0], partitions[-1]))
    return TidegateError(
        f"no partition begins at {text!r}", f"they begin from {first} to {last}; `tidegate plan` shows them"
    )
