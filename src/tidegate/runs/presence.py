"""Notes of runs at work on a source, and attempts before the first position.

A note beside the state is renewed while a pass runs, and removed at its end. It only saves work and requests:
correctness never needs it. It may be removed, overwritten or outdated at any time; then two runs work at the same time,
and one of them wins each commit. The age of a note comes from the clock of the store, and from watching whether it
changes: the clocks of machines may differ. A note whose process is known to be gone, or that nobody renewed for a
minute, is void, so that a crash locks nobody out.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from uuid import uuid4

from tidegate.core.json_shape import load_json
from tidegate.errors import ObjectExists, ObjectMissing, RunStopped, StorageError, TidegateError
from tidegate.observe import events
from tidegate.protocol.change import SourceKey, State
from tidegate.protocol.position import Attempts, forget_attempts, note_attempt, shown_attempts, utc_now
from tidegate.reports.run import SourceReport
from tidegate.reports.wording import count, duration
from tidegate.runs.tracker import AnySource, Clock
from tidegate.specs.project import OnConflict
from tidegate.storage.port import ObjectStore


@dataclass(frozen=True, slots=True)
class Courtesy:
    """How often a note is renewed and checked, and the age at which it is void, in seconds.

    A poll does not wait (``waits``): its other sources would stand still meanwhile. It looks again at the next poll.
    """

    renew_secs: float = 5.0
    look_secs: float = 1.0
    # Twelve renewals: a slow store may delay one or two, and a crashed run locks nobody out for longer than a minute.
    worthless_secs: float = 60.0
    waits: bool = True


@dataclass(frozen=True, slots=True)
class Note:
    """The note of a run; ``process`` shows on one machine whether it still exists, ``beat`` counts up."""

    run: str
    since: str
    process: str | None = None
    beat: int = 0

    def to_bytes(self) -> bytes:
        """The content of the object."""
        told = {"run": self.run, "since": self.since, "process": self.process, "beat": self.beat}
        return json.dumps(told).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Note:
        """Decode a note; a damaged one is that of an unknown run."""
        try:
            data = load_json(content)
            process = data["process"]
            return cls(str(data["run"]), str(data["since"]), None if process is None else str(process), data["beat"])
        # It still shows that somebody is there; its age decides, as for any other.
        except (ValueError, KeyError, TypeError):
            return cls("", "an unknown time")


@contextmanager
def claim_source(
    store: ObjectStore,
    key: SourceKey,
    policy: OnConflict,
    emit: events.Emit,
    stop: threading.Event,
    courtesy: Courtesy,
    clock: Clock = utc_now,
) -> Iterator[bool]:
    """Whether the source may be worked on now; inside, other runs see that it is. ``store`` is that of the table.

    False if another run is at work and ``policy`` is to skip. Raises :class:`RunStopped` if ``stop`` is set while it
    waits. With ``race`` it neither reads nor writes notes.
    """
    if policy is OnConflict.RACE:
        yield True
        return
    since = clock().isoformat(timespec="seconds").replace("+00:00", "Z")
    claim = _AtWorkNote(store, key, emit, stop, courtesy, Note(str(uuid4()), since, _this_process()))
    try:
        is_free = claim.take(policy)
    # A note saves work and decides nothing; a store that refuses it must not stop the run.
    except StorageError as error:
        claim.warn(error)
        yield True
        return
    if not is_free:
        yield False
        return
    with claim.keep_alive():
        yield True


def note_of(store: ObjectStore, key: SourceKey) -> Note | None:
    """The note of a run that is at work, or died; None without one."""
    try:
        found = Note.from_bytes(store.get(key.at_work))
    except ObjectMissing:
        return None
    return None if _is_gone(found.process) else found


def who_is_at_work(
    store: ObjectStore, key: SourceKey, now: datetime, courtesy: Courtesy | None = None
) -> tuple[str, ...]:
    """A sentence about the run that is at work on the source, or died; empty without one."""
    note = note_of(store, key)
    if note is None:
        return ()
    try:
        seen = store.head(key.at_work).modified
    except ObjectMissing:
        return ()
    silent = (now - seen).total_seconds()
    if silent < (courtesy or Courtesy()).worthless_secs:
        return (f"a run has been at work since {note.since}",)
    return (f"a run that began at {note.since} gave no sign of life for {duration(silent)}: the next run ignores it",)


@dataclass(slots=True)
class _ObservedNote:
    """Another run's note as last seen to change; ``age`` was its age then."""

    content: bytes
    age: float
    at: float = field(default_factory=time.monotonic)

    def age_of(self, content: bytes) -> float:
        """The time since it was last renewed."""
        if content != self.content:
            self.content, self.age, self.at = content, 0.0, time.monotonic()
        return self.age + time.monotonic() - self.at


class _AtWorkNote:
    """The note of one pass, from put to removal."""

    def __init__(
        self,
        store: ObjectStore,
        key: SourceKey,
        emit: events.Emit,
        stop: threading.Event,
        courtesy: Courtesy,
        note: Note,
    ) -> None:
        self._store = store
        self._key = key
        self._emit = emit
        self._stop = stop
        self._courtesy = courtesy
        self._note = note
        self._over = threading.Event()
        self._trouble: StorageError | None = None

    def take(self, policy: OnConflict) -> bool:
        """Put the note once no other is in the way; False if the source is to be skipped."""
        watched: _ObservedNote | None = None
        told = False
        while not self._put():
            other = self._content()
            if other is None:
                continue
            # The clocks of two machines may differ by more than a minute, so the age begins with the store's own clock.
            watched = watched or _ObservedNote(other, self._age())
            note = Note.from_bytes(other)
            if _is_gone(note.process) or watched.age_of(other) >= self._courtesy.worthless_secs:
                self._take_away(other, note)
                continue
            if not told:
                self._emit(events.AnotherRun(self._key.pipeline, self._key.source, note.since, policy.value))
                told = True
            if policy is OnConflict.SKIP or not self._courtesy.waits:
                return False
            # Jitter: of several runs that wait, each sees the note go at another moment.
            if self._stop.wait(self._courtesy.look_secs * (0.5 + random.random())):
                raise RunStopped("stopped while waiting for another run of the source")
        return True

    def warn(self, error: StorageError) -> None:
        """Warn that others may not see this run, or this run not them."""
        text = f"Tidegate cannot see or show whether another run works on this source; going on ({error})"
        self._emit(events.Notice(self._key.pipeline, self._key.source, text))

    @contextmanager
    def keep_alive(self) -> Iterator[None]:
        """While inside, the note is renewed; then it is removed."""
        thread = threading.Thread(target=self._renew, name=f"at work on {self._key}", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            # Bounded: a store that does not answer must not hold the end of a run; the note then ages away.
            thread.join(self._courtesy.renew_secs)
            with suppress(StorageError):
                self._remove()
            if self._trouble is not None:
                self.warn(self._trouble)

    def _put(self) -> bool:
        """Put the note; returns whether it is there and ours."""
        try:
            self._store.put_if_absent(self._key.at_work, self._note.to_bytes())
        except ObjectExists:
            # The client may have repeated a put whose response was lost, and meets its own note.
            return self._content() == self._note.to_bytes()
        return True

    def _content(self) -> bytes | None:
        try:
            return self._store.get(self._key.at_work)
        except ObjectMissing:
            return None

    def _age(self) -> float:
        """The age of the note by the clock of the store, which also shows when something was put just now."""
        probe = f"{self._key.at_work}.{self._note.run}"
        try:
            self._store.put(probe, b"")
            now = self._store.head(probe).modified
            return max(0.0, (now - self._store.head(self._key.at_work).modified).total_seconds())
        except ObjectMissing:
            return 0.0
        finally:
            with suppress(StorageError):
                self._store.delete(probe)

    def _take_away(self, content: bytes, note: Note) -> None:
        """Remove a void note, unless it was renewed or replaced just now."""
        # Two waiting runs may find the same note void: the second must not remove what the first has put in its place.
        if self._content() == content:
            self._store.delete(self._key.at_work)
            silent = duration(self._courtesy.worthless_secs)
            why = "its process is gone" if _is_gone(note.process) else f"no sign of life for {silent}"
            text = f"a run of this source that began at {note.since} did not end properly ({why}); going on"
            self._emit(events.Notice(self._key.pipeline, self._key.source, text))

    def _renew(self) -> None:
        """Renew until the pass is over, or another run declared this one dead: then both work at the same time."""
        while not self._over.wait(self._courtesy.renew_secs):
            try:
                held = self._content()
                # Putting ours back would make two runs fight over one object; the commits decide between them.
                if held is not None and Note.from_bytes(held).run != self._note.run:
                    return
                self._note = replace(self._note, beat=self._note.beat + 1)
                self._store.put(self._key.at_work, self._note.to_bytes())
            except StorageError as error:
                self._trouble = self._trouble or error

    def _remove(self) -> None:
        held = self._content()
        if held is not None and Note.from_bytes(held).run == self._note.run:
            self._store.delete(self._key.at_work)


def _this_process() -> str | None:
    """This process, so that others on the same machine see whether it is gone; None if unknown."""
    return _process(os.getpid(), _began)


def _is_gone(process: str | None) -> bool:
    """Whether a process of this machine is over; false if unknown here."""
    if process is None:
        return False
    machine, _, rest = process.rpartition(" ")[0].rpartition(" ")
    here = _process(int(rest), _began_or_never) if rest.isascii() and rest.isdigit() else None
    return here is not None and here.rpartition(" ")[0].rpartition(" ")[0] == machine and here != process


def _process(number: int, began: Callable[[int], str]) -> str | None:
    """A process as ``machine number start``; the machine is this boot of it, and this space of process numbers."""
    try:
        # A process number means something only within one boot and one container; and it is reused, hence the start
        # time.
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')} {number} {began(number)}"
    except (OSError, ValueError, IndexError):
        return None


def _began(number: int) -> str:
    state, *facts = Path(f"/proc/{number}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    # A zombie keeps its number and start time until its parent asks for it.
    return facts[18] if state not in "ZX" else "over"


def _began_or_never(number: int) -> str:
    try:
        return _began(number)
    except FileNotFoundError:
        return "never"


def settle_attempts(
    bound: AnySource,
    is_first: bool,
    before: Attempts | None,
    report: SourceReport,
    clock: Clock,
    failures: State | None = None,
) -> None:
    """At the end of a pass, note that nothing was committed and why, or forget what was noted ``before``.

    ``is_first``: the pass found no position.
    """
    problem = _problem(report)
    if is_first and problem and not (report.commits or report.staged):
        note_attempt(bound.table_store, bound.key, bound.positions.site.identity, clock(), problem, failures)
    elif before is not None:
        forget_attempts(bound.table_store, bound.key)


def _problem(report: SourceReport) -> str:
    if report.error:
        return report.error
    if report.failed_units:
        first = report.failed_units[0]
        name = f"{first.unit} from {first.start}" if first.unit else f"from {first.start}"
        return f"{count(len(report.failed_units), 'work unit')} failed, {name} among them: {first.reason}"
    if report.failed:
        return f"{count(len(report.failed), 'file')} cannot be read, {report.failed[0].path} among them"
    return ""


def attempts_note(bound: AnySource) -> tuple[str, ...]:
    """A note for plans and status that no run has succeeded yet; none if a position is recorded."""
    try:
        found = shown_attempts(bound.table_store, bound.key, bound.positions.site.identity)
    except TidegateError:
        return ()
    return () if found is None else (found.words(),)
