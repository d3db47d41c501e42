"""COMMIT: make the files of a change and its state visible in one Delta commit, exactly once.

The document goes first; then a fresh snapshot, its checks and one commit, again and again until the log shows
our attempt, or shows that another run was first, or the time is over. Nothing that raises is believed and
nothing that was written is ever deleted: the log alone tells what happened (``resolving``).

Several sources of one table may be moved by one commit, all or none; the first of them leads.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.errors import (
    CommitLost,
    OutcomeUnknown,
    ReplacesTable,
    RowsRefused,
    SchemaMismatch,
    StateError,
    StorageUnavailable,
    TableError,
    TidegateError,
    UnsupportedTable,
)
from tidegate.failpoints import failpoint
from tidegate.observe.events import CommitContested, CommitFailed
from tidegate.state import bare_entry, debts, marks
from tidegate.state.arrow import arrow_schema, no_rows
from tidegate.state.documents import Document, digest
from tidegate.state.done import done, make_durable
from tidegate.state.features import check_replaceable, check_table, lane_reasons
from tidegate.state.files import Change, Replacement, Written
from tidegate.state.fitting import check_changes, columns_of_new_table, columns_to_add, costs_rows
from tidegate.state.frames import Frame
from tidegate.state.log import LogEntry
from tidegate.state.opened import Opened
from tidegate.state.opening import check_restore, position, unseen_warning
from tidegate.state.pace import Deadline
from tidegate.state.preparing import measured, prepared
from tidegate.state.resolving import Done, Lost, NotThere, lost, resolve
from tidegate.state.site import Site
from tidegate.state.table import Add, CommitNote, Snapshot
from tidegate.storage.exclusion import alone

if TYPE_CHECKING:
    import pyarrow as pa

MOST_SETTINGS = 5
_FINAL = (StateError, UnsupportedTable, SchemaMismatch)


@dataclass(frozen=True, slots=True)
class Member:
    """One source of a commit: where it was opened, what becomes of it, and by how many positions it moves on."""

    site: Site
    opened: Opened
    change: Change
    steps: int = 1


def commit(site: Site, opened: Opened, change: Change) -> Opened:
    """The position after ``change``.

    Raises ``CommitLost`` when another run of the source was first, ``OutcomeUnknown`` when the log could not
    be read in time, ``ObjectMissing``/``ObjectChanged`` for a data file that is not as it was written,
    ``SchemaMismatch`` and ``UnsupportedTable`` for a table that cannot take it, ``RowsRefused`` for rows that Spark
    does not write, ``StateError`` for a table that is not the opened one.
    """
    return commit_together([Member(site, opened, change)])[0]


def commit_together(members: Sequence[Member]) -> tuple[Opened, ...]:
    """The positions after the changes of all ``members``, sources of one table, in one Delta commit; raises as
    ``commit`` does, and then none of them has moved.
    """
    check_changes([(member.change, member.opened.data_files) for member in members])
    for member in members:
        if member.opened.unpaid:
            debts.pay(member.site, member.opened)
    lead = members[0].site
    deadline = lead.pace.start()
    adds = tuple(add for member in members for add in measured(member.site, member.change.data_files))
    name = lead.attempts()
    written = tuple(WrittenMember.put(member, name) for member in members)
    attempt = Attempt(written, adds, deadline)
    try:
        entry = attempt.run()
    except TidegateError as error:
        _tell_failure(written, error)
        raise
    make_durable(written, entry)
    failpoint("state.done.before")
    return tuple(done(each, attempt, entry) for each in written)


def _tell_failure(members: Sequence[WrittenMember], error: TidegateError) -> None:
    """A commit that was lost to another run is told where that is found out."""
    if isinstance(error, CommitLost):
        return
    outcome = "unknown" if isinstance(error, OutcomeUnknown) else "failed"
    for each in members:
        each.site.emit(CommitFailed(each.site.key.pipeline, each.site.key.source, outcome, str(error)))


@dataclass(frozen=True, slots=True)
class WrittenMember:
    """A member whose document is written."""

    site: Site
    opened: Opened
    change: Change
    document: Document
    sha256: str

    @classmethod
    def put(cls, member: Member, attempt: str) -> WrittenMember:
        """Write the document of this attempt."""
        document = prepared(member.site, member.opened, member.change, attempt, member.steps)
        content = document.to_bytes()
        failpoint("state.document.before")
        member.site.store.put(member.site.key.document(document.version, document.attempt), content)
        failpoint("state.document.after")
        return cls(member.site, member.opened, member.change, document, digest(content))

    def mark(self) -> marks.Mark:
        """What the log will say about this member."""
        return marks.mark(
            self.site.key,
            self.site.identity,
            self.document.version,
            self.document.attempt,
            self.sha256,
            self.change.embedded,
            debts=self.document.debts,
            letters=self.document.letters,
        )


class Attempt:
    """One attempt to commit: the loop of steps a to d."""

    def __init__(self, members: tuple[WrittenMember, ...], adds: tuple[Add, ...], deadline: Deadline) -> None:
        lead = members[0]
        self.members = members
        self.site, self.opened, self.change, self.document = lead.site, lead.opened, lead.change, lead.document
        self.deadline = deadline
        self.table_id = next((each.opened.table_id for each in members if each.opened.table_id is not None), None)
        self.schema_json = next((each.opened.schema_json for each in members if each.opened.schema_json), None)
        self.warnings: tuple[str, ...] = ()
        self._adds = adds
        self._checked = min(each.opened.table_version for each in members)
        self._first_base: int | None = None
        self._asked_for: tuple[str, ...] = ()
        self.needs_frames: tuple[str, ...] = ()
        self._brings_columns = False
        self._settings = 0
        self._sent = False
        self._came_back_at: int | None = None
        self._unclear = False
        self._problem: BaseException | None = None

    def run(self) -> LogEntry:
        """Go on until our attempt is in the log."""
        while True:
            entry = self._step()
            if entry is not None:
                return entry
            if self.deadline.passed:
                raise self._too_late() from self._problem
            self.deadline.pause()

    def _step(self) -> LogEntry | None:
        """Steps a to d once; None means: again."""
        try:
            snapshot = self._fresh()
            unmoved = self._unmoved(snapshot)
        except _FINAL:
            raise
        except TidegateError as error:
            self._problem = error
            return None
        if self._first_base is None:
            self._first_base = -1 if snapshot is None else snapshot.facts.version
        if unmoved:
            if snapshot is not None and (self._add_columns(snapshot) or self._set_properties(snapshot)):
                return None
            self._send(snapshot)
        found = self._resolve()
        if found is None and not self._unclear and isinstance(self._problem, RowsRefused):
            raise self._problem
        return found

    def _unmoved(self, snapshot: Snapshot | None) -> bool:
        """Whether every source is still where it was opened; without this look, rows double."""
        return all(position(each.site, snapshot) == each.opened.version for each in self.members)

    def _fresh(self) -> Snapshot | None:
        """Step a: the newest snapshot, checked like in OPEN, and still the table that was opened."""
        snapshot = self.site.delta.snapshot()
        if snapshot is None:
            if self.table_id is not None:
                raise self._replaced("there is no table any more")
            return None
        facts = snapshot.facts
        self.needs_frames = lane_reasons(facts, self.site.uri)
        if self._adds or self._replacement is not None:
            check_table(facts, self.site.uri)
        if self._replacement is not None:
            check_replaceable(facts, self.site.uri)
        if self.table_id not in (None, facts.table_id):
            raise self._replaced(f"it is now table {facts.table_id}")
        self.table_id, self.schema_json = facts.table_id, facts.schema_json
        if self._unmoved(snapshot) and facts.version > self._checked:
            self.warnings += unseen_warning(check_restore(self.site, self._checked, facts.version))
            self._checked = facts.version
        return snapshot

    def _replaced(self, found: str) -> StateError:
        return StateError(
            f"{self.site.key}: table {self.table_id} at {self.site.uri} was replaced while this run was "
            f"writing: {found}",
            "put the table back and run again, or write into a new table_uri",
        )

    @property
    def _replacement(self) -> Replacement | None:
        """The rows to put in the place of others; a commit of several sources has none."""
        return self.change.replacement if len(self.members) == 1 else None

    @property
    def frame(self) -> Frame | None:
        """The rows that Spark writes, if it does; a commit of several sources has none."""
        return self.change.frame if len(self.members) == 1 else None

    @property
    def by_spark(self) -> bool:
        """Whether Spark writes this table, so that its checkpoints are made by Spark, too."""
        return self.frame is not None or bool(self.needs_frames)

    def _add_columns(self, snapshot: Snapshot) -> bool:
        """Step b: add the columns the files bring along; True when a fresh snapshot is needed.

        Spark adds them in the commit that writes the rows.
        """
        if self._replacement is not None and self._replacement.columns is not None:
            return False
        if self.by_spark and self.frame is None:
            return False
        try:
            fields = columns_to_add(snapshot.facts, [each.change for each in self.members], self.site.evolution)
        except ReplacesTable as error:
            return self._replace_columns(snapshot, error)
        self._brings_columns = bool(fields)
        if not fields or self.frame is not None:
            return False
        names = tuple(field.name for field in fields)
        try:
            failpoint("state.columns.before")
            with self._alone():
                self.site.delta.add_columns(snapshot, fields)
            failpoint("state.columns.after")
        except Exception as error:
            self._problem = error
            return True
        if names == self._asked_for:
            raise SchemaMismatch(
                f"columns {', '.join(names)} were added to {self.site.uri}, and the table still lacks them",
                "add them to the table with Spark, or write into another table",
            )
        self._asked_for = names
        return True

    def _replace_columns(self, snapshot: Snapshot, error: ReplacesTable) -> bool:
        """With ``overwrite`` a table without rows takes the columns of the files; rows go only if somebody says so."""
        if snapshot.active_paths():
            raise costs_rows(error)
        try:
            failpoint("state.columns.before")
            with self._alone():
                self.site.delta.overwrite(snapshot, no_rows(self.new_columns()[0]), self._remark("columns replaced"))
            failpoint("state.columns.after")
        except Exception as problem:
            self._problem = problem
        return True

    def _remark(self, text: str) -> CommitNote:
        return CommitNote({}, self.site.pace.now_ms(), f"tidegate: {text}")

    def _set_properties(self, snapshot: Snapshot) -> bool:
        """The properties that the table shall have and has not; True when a fresh snapshot is needed."""
        found = snapshot.facts.properties
        wanted = {name: value for name, value in self.site.properties.items() if found.get(name) != value}
        if not wanted:
            return False
        if self.needs_frames or self._settings == MOST_SETTINGS:
            why = "; ".join(self.needs_frames) or self._problem or "they vanish"
            raise TableError(
                f"properties of {self.site.uri} cannot be set here ({', '.join(wanted)}): {why}",
                "correct sink.table_properties, or set them with Spark",
            )
        self._settings += 1
        try:
            failpoint("state.properties.before")
            with self._alone():
                self.site.delta.set_properties(snapshot, wanted)
            failpoint("state.properties.after")
        except Exception as error:
            self._problem = error
        return True

    @property
    def written(self) -> tuple[Written, ...]:
        """What the members wrote, columns with files."""
        return tuple(written for each in self.members for written in each.change.written)

    def new_columns(self) -> tuple[pa.Schema, tuple[str, ...]]:
        """The columns and partition columns of a table that begins with these files."""
        return columns_of_new_table(self.written, self.site.evolution)

    def _note(self) -> CommitNote:
        versions = {each.site.key.app_id: each.document.version for each in self.members}
        text = marks.user_metadata([each.mark() for each in self.members])
        return CommitNote(versions, self.site.pace.now_ms(), text)

    def _send(self, snapshot: Snapshot | None) -> None:
        """Step c: one commit; whatever it raises is remembered for the message and decides nothing."""
        key, note = self.site.key, self._note()
        if snapshot is None and not self.written:
            raise TableError(
                f"{key}: there is no table at {self.site.uri} and no schema to create it with",
                "declare schema.fields: the table is created with them",
            )
        if snapshot is None and self._replacement is not None:
            raise TableError(
                f"{key}: there is no table at {self.site.uri} to replace rows of", "run the pipeline first"
            )
        self._sent = True
        try:
            failpoint("state.commit.before")
            with self._alone():
                self._write(snapshot, note)
            if self.frame is not None and snapshot is not None:
                self._came_back_at = snapshot.facts.version
            failpoint("state.commit.after")
        except Exception as error:
            self._problem = error

    def _alone(self) -> AbstractContextManager[None]:
        """While inside, no other process of Tidegate writes the log where Spark could replace its entry."""
        return alone(self.site.store.location, always=self.by_spark)

    def _write(self, snapshot: Snapshot | None, note: CommitNote) -> None:
        """The one commit: a new table, more files, or other rows in the place of some.

        A statement of Spark that came back and left no entry in the log found nothing to do in this version of the
        table: then the position moves alone.
        """
        delta, replacement, frame = self.site.delta, self._replacement, self.frame
        if frame is not None and (snapshot is None or snapshot.facts.version != self._came_back_at):
            table = None if snapshot is None else arrow_schema(snapshot.facts.schema_json)
            frame.write(note, table, new_columns=self._brings_columns)
        elif snapshot is None:
            delta.create(*self.new_columns(), self._adds, note, self.site.properties)
        elif self.needs_frames:
            bare_entry.put(self.site.store, snapshot.facts, note)
        elif replacement is None:
            delta.append(snapshot, self._adds, note)
        elif replacement.columns is not None:
            with replacement.rows(replacement.columns) as rows:
                delta.overwrite(snapshot, rows, note)
        else:
            columns = arrow_schema(snapshot.facts.schema_json)
            with replacement.rows(columns) as rows:
                delta.replace(snapshot, replacement.predicate, rows, note)

    def _resolve(self) -> LogEntry | None:
        """Step d: what the log says."""
        base = -1 if self._first_base is None else self._first_base
        try:
            expected = [(each.site, each.opened.version) for each in self.members]
            outcome = resolve(expected, self.document.attempt, base)
        except TidegateError as error:
            self._problem, self._unclear = error, True
            return None
        self._unclear = False
        match outcome:
            case Done(entry):
                return entry
            case Lost(site, version, by):
                site.emit(
                    CommitContested(site.key.pipeline, site.key.source, f"position {version + 1} was taken by {by}")
                )
                raise lost(site, version, by)
            case NotThere():
                return None

    def _too_late(self) -> TidegateError:
        waited = f"after {self.deadline.seconds:.0f} s"
        position_ = f"{self.site.key}: position {self.document.version} (attempt {self.document.attempt})"
        if self._sent and self._unclear:
            return OutcomeUnknown(
                f"{position_}: {waited} the log of {self.site.uri} is still unreadable ({self._problem}), so "
                "whether the commit took effect is unknown",
                "run again when the storage answers: the next run finds out and goes on from there",
            )
        return StorageUnavailable(
            f"{position_} could not be committed; given up {waited} (last problem: {self._problem})",
            "nothing was lost: run again; for more patience raise global.commit_deadline_secs",
        )
