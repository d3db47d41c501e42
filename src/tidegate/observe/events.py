"""The event stream: what a run does, as values that progress bars, logs and metrics consume.

An event is a frozen dataclass; ``name`` is its stable name in JSON logs. Emitters take an ``Emit`` and never
know who listens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to one source of one pipeline."""

    name: ClassVar[str] = "event"
    level: ClassVar[str] = "info"

    pipeline: str
    source: str


@dataclass(frozen=True, slots=True)
class PollStarted(Event):
    name: ClassVar[str] = "poll_started"
    level: ClassVar[str] = "debug"
    version: int
    table_version: int = -1


@dataclass(frozen=True, slots=True)
class Listed(Event):
    """The listing is complete."""

    name: ClassVar[str] = "listed"
    level: ClassVar[str] = "debug"
    new_files: int
    new_bytes: int
    list_requests: int
    listed_keys: int
    seconds: float


@dataclass(frozen=True, slots=True)
class FileFiltered(Event):
    """Files were not taken, all for one reason; ``example`` is one of them."""

    name: ClassVar[str] = "file_filtered"
    level: ClassVar[str] = "debug"
    reason: str
    count: int
    example: str


@dataclass(frozen=True, slots=True)
class PlanMade(Event):
    name: ClassVar[str] = "plan_made"
    units: int
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class WaveStarted(Event):
    """Tasks for these units were handed to Spark."""

    name: ClassVar[str] = "wave_started"
    level: ClassVar[str] = "debug"
    units: int
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class WaveProgressed(Event):
    """``done`` of ``units`` tasks of the running wave are finished (an estimate, for progress bars)."""

    name: ClassVar[str] = "wave_progressed"
    level: ClassVar[str] = "debug"
    done: int
    units: int


@dataclass(frozen=True, slots=True)
class WaveFinished(Event):
    """The tasks of a wave have answered; nothing of it is committed yet.

    ``write_seconds`` has one number per data file; ``most_uploads`` and ``most_parts`` are the most at once in a task.
    """

    name: ClassVar[str] = "wave_finished"
    level: ClassVar[str] = "debug"
    units: int
    failed_units: int
    data_files: int
    bytes_written: int
    write_seconds: tuple[float, ...]
    uploads: int
    multipart_uploads: int
    most_uploads: int
    most_parts: int
    seconds: float


@dataclass(frozen=True, slots=True)
class FileRefused(Event):
    """A file could not be read; its partition's watermark waits below it."""

    name: ClassVar[str] = "file_refused"
    level: ClassVar[str] = "error"
    path: str
    reason: str
    attempts: int
    will_retry: bool


@dataclass(frozen=True, slots=True)
class FileChanged(Event):
    """A file is not the one that was listed; it is planned again."""

    name: ClassVar[str] = "file_changed"
    level: ClassVar[str] = "warning"
    path: str


@dataclass(frozen=True, slots=True)
class DeadLetters(Event):
    """Bad lines, and files that are given up, were committed to the dead-letter table."""

    name: ClassVar[str] = "dead_letters"
    level: ClassVar[str] = "warning"
    records: int
    files: int
    example: str
    table_uri: str
    kinds: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Committed(Event):
    """Rows and watermark became visible in one commit."""

    name: ClassVar[str] = "committed"
    position: int
    table_version: int
    source_files: int
    source_bytes: int
    data_files: int
    rows: int
    seconds: float
    finished_files: int = 0
    finished_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Staged(Event):
    """A unit was left for the committer: its rows become visible with ``tidegate commit``."""

    name: ClassVar[str] = "staged"
    position: int
    source_files: int
    source_bytes: int
    data_files: int
    rows: int
    seconds: float


@dataclass(frozen=True, slots=True)
class CommitContested(Event):
    """Another run of this source committed first; this one plans again."""

    name: ClassVar[str] = "commit_contested"
    level: ClassVar[str] = "warning"
    detail: str


@dataclass(frozen=True, slots=True)
class CommitFailed(Event):
    """A commit ended with an error: ``failed``, or ``unknown`` when the log could not be read in time."""

    name: ClassVar[str] = "commit_failed"
    level: ClassVar[str] = "error"
    outcome: str
    error: str


@dataclass(frozen=True, slots=True)
class DuplicatesRefused(Event):
    """Files or units that are in the table already were offered again, and not taken; ``example`` is one of them."""

    name: ClassVar[str] = "duplicates_refused"
    level: ClassVar[str] = "warning"
    count: int
    example: str


@dataclass(frozen=True, slots=True)
class TableCared(Event):
    """The table was cared for; ``files`` were removed or replaced, ``bytes`` in all."""

    name: ClassVar[str] = "table_cared"
    operation: str
    files: int
    bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class TableCareFailed(Event):
    """Caring for the table failed; rows and positions are as they were, and it is tried again later."""

    name: ClassVar[str] = "table_care_failed"
    level: ClassVar[str] = "warning"
    operation: str
    error: str


@dataclass(frozen=True, slots=True)
class PartitionAdvanced(Event):
    name: ClassVar[str] = "partition_watermark_advanced"
    level: ClassVar[str] = "debug"
    partition: str
    before: str | None
    after: str


@dataclass(frozen=True, slots=True)
class PartitionSealed(Event):
    name: ClassVar[str] = "partition_sealed"
    level: ClassVar[str] = "debug"
    partition: str


@dataclass(frozen=True, slots=True)
class WatermarkStateChanged(Event):
    name: ClassVar[str] = "watermark_state_changed"
    level: ClassVar[str] = "debug"
    before: str
    after: str
    value: str | None


@dataclass(frozen=True, slots=True)
class LateFilesFound(Event):
    name: ClassVar[str] = "late_files_found"
    count: int
    example: str


@dataclass(frozen=True, slots=True)
class ComparisonProgressed(Event):
    """``reconcile`` has gone through ``count`` things of what ``stage`` names; told every some thousands."""

    name: ClassVar[str] = "comparison_progressed"
    level: ClassVar[str] = "debug"
    stage: str
    count: int


@dataclass(frozen=True, slots=True)
class SourceReconciled(Event):
    """Everything in a source was compared with what was committed; ``ingested_files`` came late and were read."""

    name: ClassVar[str] = "source_reconciled"
    listed: int
    late: int
    changed: int
    repaired: int
    ingested_files: int


@dataclass(frozen=True, slots=True)
class Notice(Event):
    """Something a person should know; not an error."""

    name: ClassVar[str] = "notice"
    level: ClassVar[str] = "warning"
    text: str


@dataclass(frozen=True, slots=True)
class UnitRejected(Event):
    """A staged unit, or a meta, cannot be committed; it was put aside, and its source files are read again."""

    name: ClassVar[str] = "unit_rejected"
    level: ClassVar[str] = "error"
    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class CommitterLooked(Event):
    """A committer has dealt with what waited of a source: it is at ``position``, and ``waiting`` units are left."""

    name: ClassVar[str] = "committer_looked"
    level: ClassVar[str] = "debug"
    position: int
    waiting: int
    error: str | None = None


@dataclass(frozen=True, slots=True)
class SessionStarting(Event):
    """Spark is being started; takes some seconds."""

    name: ClassVar[str] = "session_starting"
    where: str


@dataclass(frozen=True, slots=True)
class SourceFinished(Event):
    """One pass over one source is over."""

    name: ClassVar[str] = "source_finished"
    state: str
    watermark: str | None
    source_files: int
    rows: int
    failed_files: int
    commits: int
    seconds: float
    state_files: int = 0
    failed: bool = False
    staged: int = 0
    failed_units: int = 0


@dataclass(frozen=True, slots=True)
class SourceFailed(Event):
    """One pass over one source stopped with an error."""

    name: ClassVar[str] = "source_failed"
    level: ClassVar[str] = "error"
    error: str


@dataclass(frozen=True, slots=True)
class ReadFixed(Event):
    """The rows of a column source that are read now: ``asked`` is the condition in the language of the source."""

    name: ClassVar[str] = "read_fixed"
    level: ClassVar[str] = "info"
    asked: str
    load_type: str


@dataclass(frozen=True, slots=True)
class RowsLeftOut(Event):
    """Rows of a column source that are not taken; ``detail`` says what becomes of them, where that is to be said."""

    name: ClassVar[str] = "rows_left_out"
    level: ClassVar[str] = "warning"
    reason: str
    count: int
    columns: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ChunkFinished(Event):
    """A chunk of a replay is committed, or failed; ``done`` of ``chunks`` are dealt with."""

    name: ClassVar[str] = "chunk_finished"
    level: ClassVar[str] = "info"
    low: str
    high: str
    rows: int
    done: int
    chunks: int
    error: str | None = None


@dataclass(frozen=True, slots=True)
class AnotherRun(Event):
    """Another run of the source is at work ``since`` then; ``decision`` is ``wait`` or ``skip``."""

    name: ClassVar[str] = "another_run"
    level: ClassVar[str] = "warning"
    since: str
    decision: str


@dataclass(frozen=True, slots=True)
class WorkUnitsPlanned(Event):
    """Which work units a run carries out, of all that its ranges and units make; ``run`` is its number."""

    name: ClassVar[str] = "work_units_planned"
    level: ClassVar[str] = "info"
    units: int
    skipped: int
    run: int


@dataclass(frozen=True, slots=True)
class WorkUnitFailed(Event):
    """A work unit of which nothing is kept; ``outcome`` is ``failed``, ``retired`` or ``thin``."""

    name: ClassVar[str] = "work_unit_failed"
    level: ClassVar[str] = "warning"
    unit: str
    start: str
    outcome: str
    reason: str
    failures: int


@dataclass(frozen=True, slots=True)
class WorkUnitsFinished(Event):
    """A group of work units was dealt with; ``done`` of ``planned`` are committed so far, ``failed`` are not."""

    name: ClassVar[str] = "work_units_finished"
    level: ClassVar[str] = "info"
    done: int
    failed: int
    planned: int


Emit = Callable[[Event], None]


def ignore(event: Event) -> None:
    """The consumer that listens to nothing."""
