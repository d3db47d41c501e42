"""Event logs: one sentence or one JSON line per event, and the way of events to several listeners.

A JSON line has ``ts`` (ISO 8601, UTC), ``level``, ``event`` (its stable name), ``run`` (the id of the run),
``pipeline``, ``source`` and ``fields``.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from enum import IntEnum
from types import TracebackType
from typing import Any, Self

from tidegate.observe import events
from tidegate.observe.events import CommitFailed, Emit, Event, FailureTraced, FileRefused, SourceFailed, UnitRejected
from tidegate.reports.wording import count, duration, row_changes, size, visible
from tidegate.specs.masking import Mask

LOGGER = logging.getLogger("tidegate")
"""Where events go besides: who uses Tidegate as a library decides which of them are kept, and where."""
# Without a handler of its own, logging would print warnings of a library on standard error.
LOGGER.addHandler(logging.NullHandler())

_OUTCOMES = {"failed": "failed", "retired": "is retired", "thin": "is left for a later run"}


def facts(event: Event) -> dict[str, Any]:
    """The event's own fields, without pipeline and source."""
    return {each.name: getattr(event, each.name) for each in fields(event) if each.name not in ("pipeline", "source")}


def subject(event: Event) -> str:
    """The subject of the event: ``pipeline/source``, or less if it concerns more than one source."""
    return "/".join(filter(None, (event.pipeline, event.source)))


def label_event(event: Event, text: str) -> str:
    """A text about an event, after its subject if it has one."""
    return f"{about}: {text}" if (about := subject(event)) else text


def sentence(event: Event) -> str:
    """The event in words; an event without a sentence shows its fields."""
    if isinstance(event, FailureTraced):
        # A trace may quote a file, and a file may hold escape sequences that rewrite the terminal.
        return "\n  ".join(visible(line) for line in event.trace.expandtabs(4).splitlines())
    words = _reading_words(event) or _work_unit_words(event) or _commit_words(event)
    shown = " ".join(f"{name}={value}" for name, value in facts(event).items())
    return visible(words or f"{event.name} {shown}".rstrip())


def _reading_words(event: Event) -> str:
    match event:
        case events.RunStarted():
            return f"run {event.run} begins ({event.mode})"
        case events.SessionStarting():
            return f"starting Spark ({event.where})"
        case events.Listed():
            return (
                f"listed {count(event.new_files, 'new file')} ({size(event.new_bytes)}) with"
                f" {count(event.list_requests, 'LIST request')} in {duration(event.seconds)}"
            )
        case events.FileFiltered():
            return f"{count(event.count, 'file')} not taken: {event.reason}, e.g. {event.example}"
        case events.WaveFinished():
            return (
                f"wrote {count(event.data_files, 'data file')} ({size(event.bytes_written)}),"
                f" {event.multipart_uploads} in parts, {event.most_uploads} at once, in {duration(event.seconds)}"
            )
        case events.PlanMade() if event.files == 0:
            return "nothing new"
        case events.PlanMade() | events.WaveStarted():
            verb = "planned" if isinstance(event, events.PlanMade) else "reading"
            return f"{verb} {count(event.files, 'file')} ({size(event.bytes)}) in {count(event.units, 'unit')}"
        case events.FileRefused():
            then = "it will be retried" if event.will_retry else "it goes to the dead letters"
            return f"cannot read {event.path}: {event.reason} ({count(event.attempts, 'attempt')}; {then})"
        case events.ReadFixed():
            return f"reading {event.asked} ({event.load_type})"
        case events.RowsLeftOut():
            detail = f": {event.detail}" if event.detail else ""
            return f"{count(event.count, 'row')} left out: {event.reason} ({event.columns}){detail}"
        case events.ChunkFinished():
            came = f"failed: {event.error}" if event.error else f"{count(event.rows, 'row')} committed"
            return f"chunk from {event.low} to {event.high}: {came} ({event.done:,} of {event.chunks:,})"
        case events.AnotherRun():
            then = "leaving it to that run" if event.decision == "skip" else "waiting for it to finish"
            since = f"another run of this source has been active since {event.since}"
            return f"{since}: {then} (on_conflict: {event.decision})"
        case events.UnitRejected():
            return f"rejected {event.path}: {event.reason}"
        case events.FileChanged():
            return f"{event.path} has changed since it was listed; it is planned again"
        case events.DeadLetters():
            what = [count(number, word) for number, word in ((event.records, "line"), (event.files, "file")) if number]
            return f"dead letters: {' and '.join(what)}, e.g. of {event.example} (in {event.table_uri})"
        case events.ComparisonProgressed():
            return f"{event.stage}: {event.count:,} so far"
        case events.SourceReconciled():
            found = ((event.late, "late"), (event.changed, "changed"), (event.repaired, "repaired"))
            told = ", ".join(f"{number:,} {what}" for number, what in found if number) or "no problems found"
            read = f"; {count(event.ingested_files, 'late file')} read" if event.ingested_files else ""
            return f"compared {count(event.listed, 'file')} with what was committed: {told}{read}"
        case events.LateFilesFound():
            return f"{count(event.count, 'file')} arrived late, e.g. {event.example}"
        case _:
            return ""


def _work_unit_words(event: Event) -> str:
    match event:
        case events.WorkUnitsPlanned():
            skipped = f", {event.skipped:,} skipped" if event.skipped else ""
            return f"planned {count(event.units, 'work unit')}{skipped}" if event.units else f"nothing new{skipped}"
        case events.WorkUnitFailed():
            name = f"{event.unit} from {event.start}" if event.unit else f"from {event.start}"
            return f"work unit {name} {_OUTCOMES.get(event.outcome, event.outcome)}: {event.reason}"
        case events.WorkUnitsFinished():
            failed = f", {event.failed:,} failed" if event.failed else ""
            return f"{event.done:,} of {count(event.planned, 'work unit')} done{failed}"
        case _:
            return ""


def _commit_words(event: Event) -> str:
    match event:
        case events.PartitionAdvanced():
            before = event.before or "its start"
            return f"watermark of partition '{event.partition}' moved from {before} to {event.after}"
        case events.PartitionSealed():
            return f"sealed partition '{event.partition}'"
        case events.WatermarkStateChanged():
            at = f" at {event.value}" if event.value else ""
            return f"state changed from {event.before} to {event.after}{at}"
        case events.Committed():
            files = (
                f" of {count(event.source_files, 'file')} ({size(event.source_bytes)})" if event.source_files else ""
            )
            changes = row_changes(event)
            what = f"{count(event.rows, 'row')}{files}" + (f" ({changes})" if changes else "")
            return f"committed {what} as table version {event.table_version}"
        case events.RowsUnchanged():
            return f"nothing to commit: the table has all of {count(event.rows, 'row')} already"
        case events.Staged():
            return (
                f"staged {count(event.rows, 'row')} of {count(event.source_files, 'file')}"
                f" ({size(event.source_bytes)}) as unit {event.position}, waiting for `tidegate commit`"
            )
        case events.ColumnsAdded():
            return f"new {'column' if len(event.columns) == 1 else 'columns'} in the table: {', '.join(event.columns)}"
        case events.CommitterLooked():
            left = f", {count(event.waiting, 'unit')} left" if event.waiting else ""
            return f"looked for staged units: at position {event.position}{left}"
        case events.CommitContested():
            return f"another run committed first, planning again: {event.detail}"
        case events.CommitFailed():
            return f"no commit ({event.outcome}): {event.error}"
        case events.DuplicatesRefused():
            return f"{count(event.count, 'duplicate')} not taken, e.g. {event.example}"
        case events.TableCared():
            return f"{event.operation}: {count(event.files, 'file')} ({size(event.bytes)}) in {duration(event.seconds)}"
        case events.TableCareFailed():
            return f"{event.operation} failed and will be retried later: {event.error}"
        case events.Notice():
            return event.text
        case events.RunRecorded():
            runs, failures = (int(event.totals.get(each, 0)) for each in ("times", "failures"))
            return f"recorded as run {runs:,} of this source, {failures:,} of which failed"
        case events.SourceFinished():
            failed = f", {count(event.failed_files, 'file')} failed" if event.failed_files else ""
            done = count(event.staged, "staged unit") if event.staged else count(event.commits, "commit")
            state = "failed" if event.failed else event.state
            files = "" if event.rows and not event.source_files else f"{count(event.source_files, 'file')}, "
            return f"{state}: {files}{count(event.rows, 'row')}, {done}{failed} in {duration(event.seconds)}"
        case events.SourceFailed():
            return f"failed: {event.error}"
        case _:
            return ""


class Level(IntEnum):
    """How important an event is; a log shows its own level and above."""

    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40

    @classmethod
    def parse(cls, name: str) -> Level:
        """The level with that name, in any case; ``KeyError`` if there is none."""
        return cls[name.strip().upper()]


@dataclass(frozen=True, slots=True)
class TextLog:
    """Writes lines such as ``2026-01-28 14:30:05Z info    events/asia: committed …``."""

    write: Callable[[str], object]
    level: Level = Level.INFO
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    traces: bool = False
    """Whether to write the origin of errors at every level."""
    runs: list[str] = field(default_factory=list)
    """The id of the run that the events belong to, once it has begun."""

    def __call__(self, event: Event) -> None:
        if isinstance(event, events.RunStarted):
            self.runs[:] = [event.run]
        if Level.parse(event.level) >= self.level or (self.traces and isinstance(event, FailureTraced)):
            self.write(self.line(event, self.now().astimezone(UTC)) + "\n")

    def line(self, event: Event, moment: datetime) -> str:
        """One event as text."""
        return f"{moment:%Y-%m-%d %H:%M:%SZ} {event.level:<7} {label_event(event, sentence(event))}"


class TerminalLog(TextLog):
    """Writes lines such as ``warning: events/asia: 3 files arrived late …``, for someone who watches."""

    def line(self, event: Event, moment: datetime) -> str:
        """One event as text, without its time."""
        return f"{event.level}: {label_event(event, sentence(event))}"


class JsonLog(TextLog):
    """Writes one JSON object per line."""

    def line(self, event: Event, moment: datetime) -> str:
        """One event as JSON."""
        line = {
            "ts": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": event.level,
            "event": event.name,
            "run": self.runs[0] if self.runs else None,
            "pipeline": event.pipeline,
            "source": event.source,
            "fields": facts(event),
        }
        # A field of another type must not cost the line, and with it the event.
        return json.dumps(line, default=str)


def log_events(emit: Emit) -> Emit:
    """An ``Emit`` that passes on every event, after a record of it to the logger ``tidegate`` of the standard library.

    A record has ``event`` (its stable name), ``pipeline``, ``source``, ``run`` and ``fields``.
    """
    run: str | None = None

    def emit_and_log(event: Event) -> None:
        nonlocal run
        if isinstance(event, events.RunStarted):
            run = event.run
        level = Level.parse(event.level)
        if LOGGER.isEnabledFor(level):
            names = {"event": event.name, "pipeline": event.pipeline, "source": event.source, "run": run}
            LOGGER.log(level, "%s", label_event(event, sentence(event)), extra={**names, "fields": facts(event)})
        emit(event)

    return emit_and_log


@contextmanager
def keep_records() -> Iterator[None]:
    """While inside, records reach only handlers of the logger itself: the command line shows the events already."""
    before, LOGGER.propagate = LOGGER.propagate, False
    try:
        yield
    finally:
        LOGGER.propagate = before


def mask_events(emit: Emit, mask: Mask) -> Emit:
    """An ``Emit`` that passes on every event without the secrets of ``mask``."""
    return emit if not mask.secrets else lambda event: emit(mask.deep(event))


def one_at_a_time(emit: Emit) -> Emit:
    """An ``Emit`` for threads that emit at the same time; ``emit`` gets one event after the other."""
    # Reentrant: a signal handler may emit on the thread that is emitting already.
    turn = threading.RLock()

    def emit_in_turn(event: Event) -> None:
        with turn:
            emit(event)

    return emit_in_turn


def fanout(*consumers: Emit) -> Emit:
    """An ``Emit`` that passes every event to each consumer, in order, from any thread.

    A consumer that can no longer write (a closed pipe, a full disk) is dropped, and data keeps moving.
    """
    listening = list(consumers)
    # A signal handler may emit on the thread that is emitting already.
    turn = threading.RLock()

    def emit(event: Event) -> None:
        with turn:
            for consumer in tuple(listening):
                try:
                    consumer(event)
                # ValueError is what a closed stream raises.
                except (OSError, ValueError):
                    listening.remove(consumer)

    return emit


# The table of results names them once more; twice on one screen reads like two failures.
_TOLD_BY_RESULTS = (CommitFailed, FileRefused, SourceFailed, UnitRejected)


class _Held:
    """A block at whose end an emitter releases what it kept back."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end(failed=error is not None)

    def end(self, *, failed: bool) -> None:
        """End the block."""


class ErrorsOnce(_Held):
    """Passes events to ``emit``; an error that stops several sources once, and the other sources at the end."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._stopped: dict[str, list[str]] = {}

    def __call__(self, event: Event) -> None:
        if isinstance(event, SourceFailed):
            names = self._stopped.setdefault(event.error, [])
            names.append(subject(event))
            if len(names) > 1:
                return
        self._emit(event)

    def end(self, *, failed: bool) -> None:
        """Emit which other sources each error stopped."""
        for first, *others in self._stopped.values():
            if others:
                with suppress(OSError, ValueError):  # the listener may be gone
                    self._emit(SourceFailed("", "", f"{', '.join(others)}: for the same reason as {first}"))


class DeferredErrors(_Held):
    """Passes events to ``emit``, but errors that the result repeats only if an exception leaves the block."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._held: list[Event] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, _TOLD_BY_RESULTS):
            self._held.append(event)
        else:
            self._emit(event)

    def end(self, *, failed: bool) -> None:
        """Emit what was kept back if there will be no result."""
        for event in self._held if failed else ():
            self._emit(event)
