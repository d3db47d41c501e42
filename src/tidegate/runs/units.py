"""Work units: the time ranges read of each unit, the failures, what would run and why, and the progress."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import ClassVar

from tidegate.core.calendar import EPOCH, iso, milliseconds, zone_named
from tidegate.core.columns.planner import one_response_note
from tidegate.core.units.plan import RunGroup, SkippedUnits, TimePartition, UnitPlan, WhySkipped
from tidegate.core.units.planner import plan_units
from tidegate.core.units.state import Units, UnitState, decode_units, encode_units, unit_watermark_text
from tidegate.errors import TidegateError
from tidegate.protocol.change import Identity, SourceKey, State
from tidegate.protocol.position import Attempts, Position, utc_now
from tidegate.reports.checks import Check, not_tried
from tidegate.reports.plan import WOULD_STOP, PartitionLine, PlannedUnits, SkippedWork, UnitSourcePlan
from tidegate.reports.status import FailedUnit, WorkProgress
from tidegate.reports.watermark import StateTable
from tidegate.reports.wording import count
from tidegate.runs.checks import CheckSettings, collect_checks
from tidegate.runs.pass_ import Pass
from tidegate.runs.tracker import (
    AnySource,
    Backlog,
    Copied,
    Described,
    Examinable,
    HasPassRules,
    KnowsAttempts,
    PassRules,
    Summary,
    Tracker,
    UnitBound,
    Walk,
)
from tidegate.sources.units.inputs import read_units
from tidegate.specs.units import Replace, UnitSource

REMEMBERS = "time ranges and units"
ALL = "(all)"
"""The unit of a source without units."""

OPEN_REASONS = frozenset({WhySkipped.CAPPED, WhySkipped.WAITING})
"""Reasons of work units that a later run carries out, without anything new."""


@dataclass(frozen=True, slots=True)
class UnitTracker(Tracker, Described, HasPassRules, KnowsAttempts, Copied, Examinable):
    """What was read of one source of work units."""

    key: SourceKey
    source: UnitSource

    kind: ClassVar[str] = "unit"
    reads: ClassVar[str] = "has work units"
    instead: ClassVar[Mapping[str, str]] = {
        "replay": "use `tidegate units reset`",
        "watermark": "use `tidegate units reset` or `tidegate units retry`",
        "reconcile": "work units: this command does not compare their rows with the source; `tidegate units reset` "
        "makes a run read some again",
    }
    copy_in_debt: ClassVar[bool] = False
    # Each loss is to another run that committed work units of the same plan, so that fewer are left.
    pass_rules: ClassVar[PassRules] = PassRules(50, in_a_row=True)

    @property
    def identity(self) -> Identity:
        """What is read."""
        rows = self.source.rows
        return Identity(self.kind, self.source.uri, None, rows.notes)

    def decode(self, recorded: State | None) -> UnitState | None:
        return None if recorded is None else decode_units(recorded)

    def fresh(self) -> UnitState:
        return UnitState(zone=self.source.timezone)

    def encode(self, state: UnitState) -> dict[str, object]:
        return encode_units(state)

    def make_copy(self, state: UnitState) -> dict[str, object]:
        """What was read; units with equal reads stand together."""
        alike: dict[tuple[tuple[int, int], ...], list[str]] = {}
        for unit, entry in state.entries.items():
            if entry.coverage:
                alike.setdefault(entry.coverage, []).append(unit)
        read = [
            {"units": sorted(units), "read": [[utc(low), utc(high)] for low, high in coverage]}
            for coverage, units in sorted(alike.items())
        ]
        return {"kind": self.kind, "zone": state.zone, "coverage": read}

    def walk(self, run: Pass) -> Walk:
        """Wave after wave."""
        from tidegate.runs.unit_walk import UnitWalk

        return UnitWalk(run)

    def summary(self, state: UnitState | None) -> Summary:
        if state is None:
            return Summary("units", brief="nothing read", remembers=REMEMBERS)
        text = unit_watermark_text(state)
        return Summary(
            "units",
            watermark=text,
            value=text,
            brief=text or "nothing read",
            remembers=REMEMBERS,
            tables=lambda: _state_tables(state),
            updated=state.updated,
            partitions=_Coverage(state),
            failed_units=_list_failed_units(state),
            retired=dict(state.retired),
        )

    def plan(self, source: UnitBound, now: datetime, *, accept_new_partitions: bool = False) -> UnitSourcePlan:
        """What the next run would read, and why it would skip the rest."""
        looked = look(source, now, accept_new_partitions=accept_new_partitions)
        plan, units = looked.plan, looked.units
        return UnitSourcePlan(
            *source.names,
            table_uri=source.table_uri,
            kind=self.type_name,
            source_uri=self.source.uri,
            position=looked.opened.version,
            now=utc(milliseconds(now)),
            zone=plan.zone,
            grid=plan.grid,
            run=plan.run,
            replace=self.source.replace.value,
            requests_by_time=self.source.requests_by_time,
            work_units=len(plan.partitions) * len(plan.units),
            would_run=plan.count,
            reasons=_reasons(plan),
            job_cutoff=maybe_utc(plan.job_cutoff),
            partitions=tuple(_partition_lines(plan)),
            units=plan.units,
            runs=tuple(_describe_group(each) for each in plan.runs),
            skipped=tuple(_describe_skipped(each) for each in plan.skipped),
            stale=plan.stale,
            input_version=plan.input_version,
            repeated=units.repeated,
            filtered=units.filtered,
            notes=(
                *looked.opened.warnings,
                *plan.notes,
                *one_response_note(self.source.read),
                *plan.remarks,
                *_input_notes(units),
                *_obstacles(plan),
                *_explain_doubled_rows(self.source, plan, looked.state),
            ),
        )

    def state_after_attempts(self, attempts: Attempts | None) -> UnitState | None:
        """The failures that earlier runs know; nothing of it counts as read."""
        if attempts is None or attempts.failures is None:
            return None
        try:
            found = decode_units(attempts.failures)
        # The file is a courtesy beside the table; damaged, it only means that earlier failures are forgotten.
        except (TidegateError, ValueError, KeyError, TypeError, AttributeError):
            return None
        # Never the entries: without a table nothing can have been read.
        return UnitState(zone=self.source.timezone, runs=found.runs, failures=found.failures)

    def backlog(self, source: UnitBound, state: UnitState | None, version: int, now: datetime) -> Backlog:
        """What a run would do now; servers are not asked."""
        plan = plan_units(source.pipeline.name, self.source, state, read_units(self.source), version, now)
        progress = _progress(plan, state)
        notes = (*plan.notes, *_obstacles(plan))
        return Backlog(complete=True, behind=progress.open > 0, notes=notes, work_units=progress)

    def source_checks(self, source: UnitBound, by: CheckSettings) -> list[Check]:
        """Whether its units can be read, and whether the source answers for the first of them."""
        from tidegate.runs.source_checks import check_units

        name, inputs = f"source {self.key}", f"units of {self.key}"
        try:
            units = read_units(self.source)
        except TidegateError as error:
            remedy = f"repair {inputs!r} first"
            failed = Check(inputs, "fail", error.problem, error.remedy)
            return [not_tried(name, "without its units there is no address to try", remedy), failed]
        found = collect_checks(name, lambda: check_units(source, name, units, by))
        if self.source.unit is None and not self.source.inputs:
            return found
        return [*found, *collect_checks(inputs, lambda: _input_check(inputs, units))]

    def table_checks(
        self, source: UnitBound, name: str, position: Position, state: UnitState | None
    ) -> Iterator[Check]:
        """What failed, and how much would run."""
        if state is not None and state.failures:
            failed = count(len(state.failures), "work unit")
            remedy = f"tidegate units list CONFIG -p {source.pipeline.name} --failed"
            yield Check(name, "warn", f"{failed} failed at the last try", remedy)
        units = read_units(self.source)
        plan = plan_units(source.pipeline.name, self.source, state, units, position.version, utc_now())
        if plan.refusal is not None:
            yield Check(name, "warn", f"{WOULD_STOP}{plan.refusal.problem}", plan.refusal.remedy)
        else:
            yield Check(name, "ok", f"{count(plan.count, 'work unit')} would run now")

    @property
    def type_name(self) -> str:
        """The kind of source, in the word of the configuration."""
        return self.source.read.type_name


def _list_failed_units(state: UnitState) -> tuple[FailedUnit, ...]:
    return tuple(
        FailedUnit(unit, utc(start), failure.reason, failure.count) for (unit, start), failure in state.failures.items()
    )


def _state_tables(state: UnitState) -> tuple[StateTable, ...]:
    failed = {
        f"{each.unit or ALL} from {each.start}": {"Failed": {"attempts": each.failures, "reason": each.reason}}
        for each in _list_failed_units(state)
    }
    return (
        StateTable("unit", "read", _Coverage(state), "unit", unnamed=ALL),
        StateTable("failed work unit", "why", failed, "work unit"),
        StateTable("retired unit", "why", state.retired, "unit"),
    )


@dataclass(frozen=True, slots=True)
class _Coverage(Mapping[str, str]):
    """What was read of each unit, in words made on demand: a source may have very many units."""

    state: UnitState

    def __getitem__(self, unit: str) -> str:
        return coverage_text(self.state.entries[unit].coverage, self.state.zone)

    def __iter__(self) -> Iterator[str]:
        return iter(self.state.entries)

    def __len__(self) -> int:
        return len(self.state.entries)


@dataclass(frozen=True, slots=True)
class UnitLook:
    """A look at a source: its position, its state, its units and their plan."""

    opened: Position
    state: UnitState | None
    units: Units
    plan: UnitPlan


def look(bound: AnySource, now: datetime, *, accept_new_partitions: bool = False) -> UnitLook:
    """The plan of the next run, by the same steps, without writing anything."""
    opened = bound.open(read_only=True)
    state = bound.state_of(opened) or bound.state_after_attempts(bound.attempts(opened))
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


def _reasons(plan: UnitPlan) -> dict[str, int]:
    """The number of work units by reason."""
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
    # Differences at both ends: a skipped range may span a year of partitions and thousands of units.
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


def _describe_group(group: RunGroup) -> PlannedUnits:
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


def _describe_skipped(each: SkippedUnits) -> SkippedWork:
    return SkippedWork(
        each.why.value, each.units, each.partitions, utc(each.first), utc(each.last), maybe_utc(each.eligible)
    )


def _input_notes(units: Units) -> Iterator[str]:
    if units.filtered:
        rows = count(units.filtered, "row")
        yield f"{rows} of the secondary input made no unit: excluded by its filters, or without a value in a field"
    if units.repeated:
        yield f"{count(units.repeated, 'row')} of the secondary input repeat a unit"


def _obstacles(plan: UnitPlan) -> Iterator[str]:
    if not plan.units:
        yield "there are no units, so nothing runs"
    if plan.stale:
        stale = count(len(plan.stale), "unit")
        yield f"{stale} read before, now gone; a unit that comes back continues where it stopped"
    if plan.refusal is not None:
        yield f"{WOULD_STOP}{plan.refusal.problem}; {plan.refusal.remedy}"


def _explain_doubled_rows(source: UnitSource, plan: UnitPlan, state: UnitState | None) -> Iterator[str]:
    """What runs have appended more than once, because the requests do not contain the time."""
    by_read = source.replace in (Replace.SEGMENTS, Replace.UNIT, Replace.NONE) and not source.requests_by_time
    if state is None or source.time is None or not by_read:
        return
    doubled = [unit for unit, entry in state.entries.items() if len(entry.starts) > 1]
    if not doubled:
        return
    read = count(len(doubled), "unit was", "units were")
    then = "" if source.replace is Replace.NONE else "; with replace: unit, the next read of a unit replaces them"
    yield f"{read} read more than once, and the table may have the rows of each read{then}"
    gone = len(set(doubled) - set(plan.units))
    if gone:
        yield f"{count(gone, 'of them is', 'of them are')} gone from the source: these rows stay as they are"


def _progress(plan: UnitPlan, state: UnitState | None) -> WorkProgress:
    """The work units of a plan by outcome."""
    reasons = Counter(_reasons(plan))
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
    """The partition that begins at ``text``, in UTC or in the time zone ``zone``."""
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


def _input_check(name: str, units: Units) -> Iterator[Check]:
    version = f" ({units.version})" if units.version else ""
    left = f"; {count(units.filtered, 'row')} filtered" if units.filtered else ""
    told = f"{count(len(units.values), 'unit')}{version}{left}"
    yield Check(name, "ok" if units.values else "warn", told, "" if units.values else "nothing runs without units")


def coverage_text(coverage: Sequence[tuple[int, int]], zone: str) -> str:
    """What was read, for people.

    >>> coverage_text(((0, 86_400_000), (172_800_000, 259_200_000)), "UTC")
    '1970-01-01 to 1970-01-02, 1970-01-03 to 1970-01-04'
    """
    where = zone_named(zone)
    return ", ".join(f"{iso(low, where)} to {iso(high, where)}" for low, high in coverage) or "nothing"


def utc(moment: int) -> str:
    """Milliseconds since 1970 as ISO 8601 in UTC, with milliseconds if it has any.

    >>> utc(0), utc(1_582_281_462_123)
    ('1970-01-01T00:00:00Z', '2020-02-21T10:37:42.123Z')
    """
    time = EPOCH + timedelta(milliseconds=moment)
    return (
        time.astimezone(UTC).isoformat(timespec="milliseconds" if moment % 1000 else "seconds").replace("+00:00", "Z")
    )


def maybe_utc(moment: int | None) -> str | None:
    """The same, or None."""
    return None if moment is None else utc(moment)
