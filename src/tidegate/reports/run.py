"""Results of commands: plans, run reports, statuses, watermarks, checks.

``to_json()`` turns each value into plain JSON types; these are what ``--json`` prints and the command line reference
documents. Nothing here does any work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from tidegate.core.files.discovery import FutureSeal, LeftOut
    from tidegate.core.files.plan import Plan

Verdict = Literal["ok", "warn", "fail"]


def _plain(value: object) -> Any:
    """The JSON form of a field's value."""
    own = getattr(value, "to_json", None)
    if callable(own):
        return own()
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        case Enum():
            return value.value
        case Mapping():
            return {str(key): _plain(entry) for key, entry in value.items()}
        case tuple() | list():
            return [_plain(entry) for entry in value]
        case _ if is_dataclass(value) and not isinstance(value, type):
            return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
        case _:
            return value


class Report:
    """Base of the values below; the JSON form has the fields by name."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON types; times are ISO 8601 in UTC."""
        assert is_dataclass(self)
        return {each.name: _plain(getattr(self, each.name)) for each in fields(self)}


@dataclass(frozen=True, slots=True)
class FailedFile(Report):
    """A file that could not be read; the watermark of its partition waits below it."""

    path: str
    reason: str
    attempts: int


@dataclass(frozen=True, slots=True)
class FailedUnit(Report):
    """A work unit that failed: its unit, the start of its partition, the reason, and the failures in a row."""

    unit: str
    start: str
    reason: str
    failures: int


@dataclass(frozen=True, slots=True)
class WorkProgress(Report):
    """The work units of a source: ``done``, ``open`` (they run or wait), ``failed`` at the last try.

    ``retired`` units are no longer asked for, ``unfinished`` ones are not caught up. If none runs now,
    ``next_eligible`` is when one may run again.
    """

    done: int = 0
    open: int = 0
    failed: int = 0
    retired: int = 0
    unfinished: int = 0
    next_eligible: str | None = None


@dataclass(frozen=True, slots=True)
class SourcePlan(Report):
    """What a run would do for one source; ``notes`` concern table and lane, the plan has its own.

    ``pending_units`` wait for ``tidegate commit``; the plan is made on top of them.
    """

    pipeline: str
    source: str
    plan: Plan
    table_uri: str
    lane: str = "arrow"
    notes: tuple[str, ...] = ()
    pending_units: int = 0

    @property
    def position(self) -> int:
        """The position of the plan."""
        return self.plan.version


@dataclass(frozen=True, slots=True)
class SourceReport(Report):
    """What a run did for one source; ``exit_code`` is that of the error's class, 0 without one.

    ``bad_records`` and ``dead_files`` went to the dead-letter table. ``staged`` is the number of units left for
    ``tidegate commit``. ``unknown_fields`` are fields without a column, with their counts. ``work_units`` were read and
    committed, ``failed_units`` were not. ``empty``: the location has no file at all.
    """

    pipeline: str
    source: str
    state: str
    watermark: str | None
    files: int
    bytes: int
    rows: int
    commits: int
    failed: tuple[FailedFile, ...] = ()
    skipped: tuple[tuple[str, int], ...] = ()
    table_version: int | None = None
    error: str | None = None
    seconds: float = 0.0
    exit_code: int = 0
    bad_records: int = 0
    dead_files: int = 0
    staged: int = 0
    unknown_fields: Mapping[str, int] = field(default_factory=dict)
    work_units: int = 0
    failed_units: tuple[FailedUnit, ...] = ()
    empty: bool = False

    def to_json(self) -> dict[str, Any]:
        """The fields, with each skipped pair as ``{"reason", "count"}``."""
        skipped = [{"reason": str(reason), "count": count} for reason, count in self.skipped]
        return Report.to_json(self) | {"skipped": skipped}


@dataclass(frozen=True, slots=True)
class RunReport(Report):
    """What a run did; ``ok`` only if everything requested succeeded."""

    sources: tuple[SourceReport, ...]
    ok: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class IngestReport(Report):
    """What ``ingest`` detected about a source, the configuration that does the same, and the result of its run.

    ``found`` has labels and findings. ``variables`` must be set before the configuration is used again, ``saved`` is
    its file, and ``run`` is None if nothing was run.
    """

    pipeline: str
    found: tuple[tuple[str, str], ...]
    yaml: str
    variables: tuple[str, ...] = ()
    saved: str | None = None
    run: RunReport | None = None


@dataclass(frozen=True, slots=True)
class InitReport(Report):
    """The files of a new project; ``variables`` is the file that names the variables to set before a run, if any."""

    folder: str
    files: tuple[str, ...]
    next_commands: tuple[str, ...]
    variables: str = ""


@dataclass(frozen=True, slots=True)
class SourceStatus(Report):
    """The status of one source: its position, its lag and backlog, and where that was read from.

    ``version`` is the position (the number of commits of this source). ``backlog_complete`` is false if the listing was
    cut off, so that the backlog is a lower bound. ``open_letters`` are unanswered dead letters. ``remembered`` is the
    number of paths in a path set. ``pending_units`` with ``pending_files`` Parquet files wait for ``tidegate commit``,
    the oldest for ``pending_seconds``; they are not part of the backlog. ``state_files`` is the number of files that
    the state names. ``work_units`` is the progress of work units. ``empty``: the location has no file at all, read or
    not. ``updated`` is when the newest state was planned, ``last_commit_at`` when it was committed; ``lag_seconds``
    counts from there. ``future_seals`` are seals that a clock set that was ahead once: backlog and lag are then
    unknown. ``left_out`` is what ``partition_filter`` leaves out of a first run that is still to come.
    """

    pipeline: str
    source: str
    table_uri: str
    state: str
    watermark: str | None
    version: int
    table_version: int | None
    updated: datetime | None
    lag_seconds: float | None
    backlog_files: int
    backlog_bytes: int
    backlog_complete: bool
    in_progress: int
    failed: tuple[FailedFile, ...] = ()
    open_partitions: int = 0
    sealed: int = 0
    shown_from: Literal["mirror", "document", "none"] = "none"
    open_letters: int = 0
    notes: tuple[str, ...] = ()
    error: str | None = None
    tracking: Literal["watermark", "set", "columns", "units"] = "watermark"
    remembered: int = 0
    pending_units: int = 0
    pending_files: int = 0
    pending_seconds: float | None = None
    state_files: int = 0
    work_units: WorkProgress | None = None
    empty: bool = False
    last_commit_at: datetime | None = None
    future_seals: tuple[FutureSeal, ...] = ()
    left_out: LeftOut | None = None


def shown_state(recorded: str, empty: bool) -> str:
    """The state of a source as people see it: an emptied location is neither active nor idle.

    >>> shown_state("Idle", empty=True), shown_state("Initial", empty=True)
    ('Empty', 'Initial')
    """
    return "Empty" if empty and recorded in ("Active", "Idle") else recorded


@dataclass(frozen=True, slots=True)
class WatermarkView(Report):
    """The complete recorded state of one source; ``remembered`` is the number of paths in its set, if it has one.

    For work units, ``partitions`` has by unit what was read; ``failed_units`` and ``retired`` ones follow. ``updated``
    is when the state was planned, ``last_commit_at`` when it was committed.
    """

    pipeline: str
    source: str
    version: int
    state: str
    value: str | None
    partitions: Mapping[str, str]
    files: Mapping[str, Any]
    sealed: Mapping[str, Any]
    last_committed_file: str | None
    updated: datetime | None
    tracking: Literal["watermark", "set", "columns", "units"] = "watermark"
    remembered: int = 0
    failed_units: tuple[FailedUnit, ...] = ()
    retired: Mapping[str, str] = field(default_factory=dict)
    last_commit_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Check(Report):
    """One check of ``doctor``; ``remedy`` is empty if all is well."""

    name: str
    verdict: Verdict
    detail: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Adoption(Report):
    """The position that an older program left for one source, and whether it was taken over.

    ``trace`` is where it was found and ``form`` its format; both are empty without one. ``findings`` are what the old
    program may have left out or doubled; they are only reported. ``next_files`` is the number of files that the next
    run reads. ``adopted`` and ``version`` are what was written, ``error`` why nothing was.
    """

    pipeline: str
    source: str
    table_uri: str
    trace: str = ""
    form: str = ""
    written: datetime | None = None
    state: str = "Initial"
    watermark: str | None = None
    partitions: Mapping[str, str] = field(default_factory=dict)
    in_progress: Mapping[str, int] = field(default_factory=dict)
    last_committed_file: str | None = None
    findings: tuple[Check, ...] = ()
    next_files: int = 0
    adopted: bool = False
    version: int = 0
    table_version: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class LettersReport(Report):
    """The fate of dead letters: ``answered`` of the selected ``letters`` are done.

    ``still_bad`` has the id, the file and today's reason of each other one; ``position`` is that of the commit, None if
    there was nothing to commit.
    """

    pipeline: str
    source: str
    table_uri: str
    letters: int
    answered: int = 0
    rows: int = 0
    new_letters: int = 0
    still_bad: tuple[tuple[str, str, str], ...] = ()
    position: int | None = None
    table_version: int | None = None


@dataclass(frozen=True, slots=True)
class TableCareReport(Report):
    """What was done for a table, or would be with ``dry_run``.

    ``optimize``: ``files_before`` became ``files_after``; ``vacuum``: ``files_before`` were removed, which had left the
    table more than ``retention_hours`` ago. ``table_version`` is the version afterwards.
    """

    pipeline: str
    table_uri: str
    operation: Literal["optimize", "vacuum", "checkpoint"]
    dry_run: bool
    table_version: int
    files_before: int = 0
    bytes_before: int = 0
    files_after: int = 0
    bytes_after: int = 0
    retention_hours: int | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class DemoStep(Report):
    """One step of the demo: title, text, the command that does the same, and a table to show."""

    title: str
    text: str = ""
    command: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class DemoReport(Report):
    """What the demo made, and where; ``next_commands`` can be tried afterwards."""

    folder: str
    config: str
    steps: tuple[DemoStep, ...]
    ok: bool
    seconds: float
    next_commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ColumnSourcePlan(Report):
    """What a run would read of one column source.

    ``stored`` is the watermark by column, as text, ``effective`` where the read begins after look-back; both are empty
    on a first run. ``predicate`` is the condition in the language of the source. The run fixes the upper bounds;
    ``cap`` says how.
    """

    pipeline: str
    source: str
    table_uri: str
    kind: str
    source_uri: str
    load_type: str
    position: int
    stored: Mapping[str, str | None]
    effective: Mapping[str, str | None]
    predicate: str
    full: bool
    cap: str
    window: bool = False
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The fields, with ``tracking: columns``, which distinguishes these plans from those of files."""
        return Report.to_json(self) | {"tracking": "columns"}


@dataclass(frozen=True, slots=True)
class ChaosLimits:
    """The limits of an experiment: it ends once all are reached, or when the time is over."""

    failures: int = 1000
    kills: int = 10
    spark_kills: int = 0
    minutes: float = 10.0


@dataclass(frozen=True, slots=True)
class PlaceFailures(Report):
    """The number of failures at one failpoint, by kind."""

    place: str
    raised: int = 0
    lost: int = 0
    killed: int = 0


@dataclass(frozen=True, slots=True)
class ChaosProgress:
    """The progress of an experiment."""

    doing: str
    done: int
    wanted: int
    commits: int
    rows: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ChaosReport(Report):
    """What an experiment did and found; ``ok`` only if the table had every row once at every comparison.

    ``failures`` were raised inside this process, ``kills`` and ``spark_kills`` are SIGKILLs of other processes, with
    Spark the whole tree. ``rival_passes`` to ``optimizes`` happened in the middle of a pass. Each of the ``rounds`` had
    a table of its own. ``letters`` of the lines were no records and must be dead letters. ``lost`` and ``doubled``
    count rows; ``problems`` says which, and where they lie.
    """

    uri: str
    seed: int
    ok: bool
    finished: bool
    failures: int
    kills: int
    spark_kills: int
    places: tuple[PlaceFailures, ...]
    rival_passes: int
    foreign_appends: int
    optimizes: int
    rounds: int
    passes: int
    commits: int
    contested: int
    files: int
    rows: int
    letters: int
    comparisons: int
    lost: int
    doubled: int
    problems: tuple[str, ...]
    seconds: float
