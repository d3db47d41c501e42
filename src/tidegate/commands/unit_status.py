"""Plan and status of sources of work units: what would run and why, and where they stand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tidegate.core.calendar import EPOCH, iso, milliseconds, zone_named
from tidegate.core.units.plan import RunGroup, SkippedUnits, TimePartition, UnitPlan, WhySkipped
from tidegate.core.units.planner import plan_units
from tidegate.core.units.state import Coverage, Units, UnitState, unit_watermark_text
from tidegate.errors import TidegateError
from tidegate.observe.wording import count
from tidegate.protocol.mirror import Recorded
from tidegate.protocol.notes import read_attempts
from tidegate.protocol.position import Position
from tidegate.reports.run import FailedUnit, SourceStatus, WatermarkView, WorkProgress
from tidegate.reports.units import PartitionLine, PlannedUnits, SkippedWork, UnitSourcePlan
from tidegate.runs.bound_source import UnitPlace, decoded_units
from tidegate.runs.presence import attempts_before
from tidegate.sources.units.inputs import read_units
from tidegate.specs.columns import HttpRead, JdbcRead
from tidegate.specs.units import FileRead

OPEN_REASONS = frozenset({WhySkipped.CAPPED, WhySkipped.WAITING})
"""Why work units do not run that a later run carries out, without anything new."""


@dataclass(frozen=True, slots=True)
class Looked:
    """A source as it is found: its position, its state, its units and the plan for them."""

    opened: Position
    state: UnitState | None
    units: Units
    plan: UnitPlan


def look(place: UnitPlace, now: datetime, *, accept_new_partitions: bool = False) -> Looked:
    """The plan of the next run, by the same steps, with nothing written."""
    opened = place.open(read_only=True)
    state = place.state_of(opened) or place.attempted(attempts_before(place, opened))
    units = read_units(place.source)
    plan = plan_units(
        place.pipeline.name,
        place.source,
        state,
        units,
        opened.version,
        now,
        accept_new_partitions=accept_new_partitions,
    )
    return Looked(opened, state, units, plan)


def planned_units(place: UnitPlace, now: datetime, *, accept_new_partitions: bool = False) -> UnitSourcePlan:
    """What the next run would read, and why it would not read the rest."""
    looked = look(place, now, accept_new_partitions=accept_new_partitions)
    plan, units = looked.plan, looked.units
    return UnitSourcePlan(
        pipeline=place.pipeline.name,
        source=place.source.name,
        table_uri=place.pipeline.sink.table.uri,
        kind=kind_of(place),
        source_uri=place.source.uri,
        position=looked.opened.version,
        now=utc(milliseconds(now)),
        zone=plan.zone,
        grid=plan.grid,
        run=plan.run,
        replace=place.source.replace.value,
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


def kind_of(place: UnitPlace) -> str:
    """What kind of source it is, in the word of the configuration."""
    match place.source.read:
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


def unit_status(place: UnitPlace, now: datetime) -> SourceStatus:
    """Where a source stands by its mirror or documents, and what a run would do now; servers are not asked."""
    recorded: Recorded | None = None
    state: UnitState | None = None
    try:
        recorded = place.recorded()
        state = _known(place, recorded)
        units = read_units(place.source)
        version = 0 if recorded is None else recorded.version
        plan = plan_units(place.pipeline.name, place.source, state, units, version, now)
        return _status(place, recorded, state, now, progress_of(plan, state), (*plan.notes, *_obstacles(plan)))
    except TidegateError as error:
        return _status(place, recorded, state, now, None, (), str(error))


def _known(place: UnitPlace, recorded: Recorded | None) -> UnitState | None:
    """The recorded coverage or, where there is none, what is known of failures."""
    if recorded is not None:
        return decoded_units(recorded.state)
    return place.attempted(read_attempts(place.table_store, place.key, place.positions.site.identity))


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


def _status(
    place: UnitPlace,
    recorded: Recorded | None,
    state: UnitState | None,
    now: datetime,
    progress: WorkProgress | None,
    notes: Sequence[str],
    error: str | None = None,
) -> SourceStatus:
    updated = None if state is None else state.updated
    behind = progress is not None and progress.open > 0
    lag = (now - updated).total_seconds() if behind and updated is not None else None
    name = "Initial" if recorded is None else "Active" if behind else "Idle"
    return SourceStatus(
        pipeline=place.pipeline.name,
        source=place.source.name,
        table_uri=place.pipeline.sink.table.uri,
        state="Unknown" if error else name,
        watermark=None if state is None else unit_watermark_text(state),
        version=0 if recorded is None else recorded.version,
        table_version=None if recorded is None or recorded.table_version < 0 else recorded.table_version,
        updated=updated,
        lag_seconds=lag if behind or recorded is None or error else 0.0,
        backlog_files=0,
        backlog_bytes=0,
        backlog_complete=error is None,
        in_progress=0,
        shown_from="none" if recorded is None else "mirror" if recorded.shown_by == "mirror" else "document",
        notes=tuple(notes),
        error=error,
        tracking="units",
        work_units=progress,
    )


def unit_watermark(place: UnitPlace) -> WatermarkView:
    """The recorded coverage of a source, unit by unit, in full."""
    recorded = place.recorded()
    state = _known(place, recorded)
    known = state or UnitState(zone=place.source.timezone)
    return WatermarkView(
        pipeline=place.pipeline.name,
        source=place.source.name,
        version=0 if recorded is None else recorded.version,
        state="Initial" if recorded is None else "Active",
        value=None if state is None else unit_watermark_text(state),
        partitions={unit: coverage_text(entry.coverage, known.zone) for unit, entry in known.entries.items()},
        files={},
        sealed={},
        last_committed_file=None,
        updated=known.updated,
        tracking="units",
        failed_units=failed_units(known),
        retired=dict(known.retired),
    )


def failed_units(state: UnitState) -> tuple[FailedUnit, ...]:
    """The work units that failed when they were tried last."""
    return tuple(
        FailedUnit(unit, utc(start), failure.reason, failure.count) for (unit, start), failure in state.failures.items()
    )


def coverage_text(coverage: Coverage, zone: str) -> str:
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
