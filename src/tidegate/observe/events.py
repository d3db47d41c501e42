"""The event stream: what a run does, as values for progress bars, logs and metrics.

``name`` is the stable name of an event in JSON logs. Code that emits takes an ``Emit`` and does not know who listens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, dataclass_transform


@dataclass_transform(frozen_default=True)
@dataclass(frozen=True, eq=False, repr=False)
class Event:
    """Something that happened to one source of one pipeline; each kind of event is a frozen dataclass.

    All kinds share the methods below: generating them per class would slow down commands that only look.
    """

    name: ClassVar[str] = "event"
    level: ClassVar[str] = "info"

    pipeline: str
    source: str

    def __init_subclass__(cls, *, name: str, level: str = "info") -> None:
        super().__init_subclass__()
        cls.name, cls.level = name, level
        dataclass(frozen=True, eq=False, repr=False)(cls)

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if type(self) is type(other) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __repr__(self) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


class RunStarted(Event, name="run_started", level="debug"):
    """A run begins; its id ``run`` is also in its commits, in recorded outcomes, and in every later line of a log."""

    run: str
    mode: str


class PollStarted(Event, name="poll_started", level="debug"):
    version: int
    table_version: int = -1


class Listed(Event, name="listed", level="debug"):
    """The listing is complete."""

    new_files: int
    new_bytes: int
    list_requests: int
    listed_keys: int
    seconds: float


class FileFiltered(Event, name="file_filtered", level="debug"):
    """Files were skipped for one reason; ``example`` is one of them."""

    reason: str
    count: int
    example: str


class PlanMade(Event, name="plan_made"):
    units: int
    files: int
    bytes: int


class WaveStarted(Event, name="wave_started", level="debug"):
    """Tasks begin to read the files of a plan; ``units`` is the number of file groups."""

    units: int
    files: int
    bytes: int


class WaveProgressed(Event, name="wave_progressed", level="debug"):
    """``done`` of ``units`` groups of the plan are read; these bytes and rows are not committed yet."""

    done: int
    units: int
    bytes: int = 0
    rows: int = 0


class WaveFinished(Event, name="wave_finished", level="debug"):
    """The results of tasks since the last commit, which are committed next.

    ``write_seconds`` has one number per data file; ``most_uploads`` and ``most_parts`` are the most at once in a task.
    """

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


class UploadsChanged(Event, name="uploads_changed", level="debug"):
    """The number of files and parts that tasks are uploading now."""

    files: int
    parts: int


class TasksReading(Event, name="tasks_reading", level="debug"):
    """The source bytes and rows that tasks have read in unfinished groups."""

    bytes: int
    rows: int


class FileRefused(Event, name="file_refused", level="error"):
    """A file could not be read; its partition's watermark waits below it."""

    path: str
    reason: str
    attempts: int
    will_retry: bool


class FileChanged(Event, name="file_changed", level="warning"):
    """A file is not the listed one; it is planned again."""

    path: str


class DeadLetters(Event, name="dead_letters", level="warning"):
    """Bad lines and given-up files were committed to the dead-letter table."""

    records: int
    files: int
    example: str
    table_uri: str
    kinds: Mapping[str, int] = field(default_factory=dict)


class Committed(Event, name="committed"):
    """Rows and watermark became visible in one commit; null for what was not counted.

    ``unchanged`` rows were read and left the table as it was.
    """

    position: int
    table_version: int
    source_files: int
    source_bytes: int
    data_files: int
    rows: int
    seconds: float
    finished_files: int = 0
    finished_bytes: int = 0
    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None
    unchanged: int | None = None


class RowsUnchanged(Event, name="rows_unchanged"):
    """Rows were read again, and the table has them all: nothing is committed."""

    rows: int


class Staged(Event, name="staged"):
    """A unit was left for the committer: its rows become visible with ``tidegate commit``."""

    position: int
    source_files: int
    source_bytes: int
    data_files: int
    rows: int
    seconds: float


class CommitContested(Event, name="commit_contested", level="warning"):
    """Another run of this source committed first; this one plans again."""

    detail: str


class CommitFailed(Event, name="commit_failed", level="error"):
    """A commit ended with an error: ``failed``, or ``unknown`` if the log could not be read in time."""

    outcome: str
    error: str


class DuplicatesRefused(Event, name="duplicates_refused", level="warning"):
    """Files or units already in the table were offered again and refused; ``example`` is one of them."""

    count: int
    example: str


class TableCared(Event, name="table_cared"):
    """Table maintenance is done; ``files`` were removed or replaced, ``bytes`` in all."""

    operation: str
    files: int
    bytes: int
    seconds: float


class TableCareFailed(Event, name="table_care_failed", level="warning"):
    """Table maintenance failed; rows and positions are unchanged, and it is retried later."""

    operation: str
    error: str


class PartitionAdvanced(Event, name="partition_watermark_advanced", level="debug"):
    partition: str
    before: str | None
    after: str


class PartitionSealed(Event, name="partition_sealed", level="debug"):
    partition: str


class WatermarkStateChanged(Event, name="watermark_state_changed", level="debug"):
    before: str
    after: str
    value: str | None


class LateFilesFound(Event, name="late_files_found"):
    count: int
    example: str


class ComparisonProgressed(Event, name="comparison_progressed", level="debug"):
    """``reconcile`` has processed ``count`` items of ``stage``; emitted every few thousand."""

    stage: str
    count: int


class SourceReconciled(Event, name="source_reconciled"):
    """A whole source was compared with what was committed; ``ingested_files`` came late and were read."""

    listed: int
    late: int
    changed: int
    repaired: int
    ingested_files: int


class Notice(Event, name="notice", level="warning"):
    """A message for people; not an error."""

    text: str


class ColumnsInferred(Notice, name="columns_inferred"):
    """The columns of a new table, inferred from its files."""


class ColumnsAdded(Event, name="columns_added"):
    """A commit brought columns, or fields inside columns, that the table did not have."""

    columns: tuple[str, ...]


class FutureSealFound(Notice, name="future_seal_found", level="warning"):
    """A clock that was ahead has sealed folders that are not old: their new files are not read."""

    prefix: str
    below: str
    folder: str | None


class UnitRejected(Event, name="unit_rejected", level="error"):
    """A staged unit, or a meta, cannot be committed; it was put aside, and its source files are read again."""

    path: str
    reason: str


class CommitterLooked(Event, name="committer_looked", level="debug"):
    """A committer is done with a source: it is at ``position``, and ``waiting`` units are left."""

    position: int
    waiting: int
    error: str | None = None


class SessionStarting(Event, name="session_starting"):
    """Spark is starting, which takes some seconds."""

    where: str


class RunRecorded(Event, name="run_recorded", level="debug"):
    """How a pass ended is recorded, or will be soon; ``totals`` add up all recorded runs, this one included."""

    totals: Mapping[str, float]


class SourceFinished(Event, name="source_finished"):
    """One pass over one source is over; ``empty``: its location has no file at all.

    ``outcome`` is how it ended: succeeded, incomplete, failed, refused or stopped; ``outcome_since`` is when runs began
    to end like this. ``first_run_at``, ``last_success_at`` and ``last_data_at`` are those of all recorded runs, this
    one included. ``exit_code`` is that of its error, 0 without one; ``open_letters`` are unanswered dead
    letters, None if their number is not known.
    """

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
    empty: bool = False
    outcome: str = ""
    last_success_at: datetime | None = None
    last_data_at: datetime | None = None
    outcome_since: datetime | None = None
    first_run_at: datetime | None = None
    exit_code: int = 0
    open_letters: int | None = None


class SourceFailed(Event, name="source_failed", level="error"):
    """One pass over one source stopped with an error."""

    error: str


class FailureTraced(Event, name="failure_traced", level="debug"):
    """The origin of the error that stopped a pass: a traceback and, for Spark, the end of its log."""

    trace: str


class ReadFixed(Event, name="read_fixed"):
    """The rows of a column source to read now: ``asked`` is the condition in the language of the source."""

    asked: str
    load_type: str


class RowsLeftOut(Event, name="rows_left_out", level="warning"):
    """Rows of a column source that are left out; ``detail`` says what happens to them."""

    reason: str
    count: int
    columns: str
    detail: str = ""


class ChunkFinished(Event, name="chunk_finished"):
    """A chunk of a replay is committed or failed; ``done`` of ``chunks`` are processed."""

    low: str
    high: str
    rows: int
    done: int
    chunks: int
    error: str | None = None


class AnotherRun(Event, name="another_run", level="warning"):
    """Another run has been at work on the source ``since`` then; ``decision`` is ``wait`` or ``skip``."""

    since: str
    decision: str


class WorkUnitsPlanned(Event, name="work_units_planned"):
    """The work units of a run, out of all that ranges and units make; ``run`` is its number."""

    units: int
    skipped: int
    run: int


class WorkUnitFailed(Event, name="work_unit_failed", level="warning"):
    """A work unit without a result; ``outcome`` is ``failed``, ``retired`` or ``thin``."""

    unit: str
    start: str
    outcome: str
    reason: str
    failures: int


class WorkUnitsFinished(Event, name="work_units_finished"):
    """A group of work units is processed; ``done`` of ``planned`` are committed so far, ``failed`` are not."""

    done: int
    failed: int
    planned: int


Emit = Callable[[Event], None]


def ignore(event: Event) -> None:
    """A consumer that ignores every event."""
