"""COMMIT and DONE: make the files of a change and its state visible in one Delta commit, exactly once.

The document goes first; then a fresh snapshot, its checks and one commit, again and again until the log shows
our attempt, or shows that another run was first, or the time is over. Nothing that raises is believed and
nothing that was written is ever deleted: the log alone tells what happened (``resolving``).

Several sources of one table may be moved by one commit, all or none; the first of them leads.

Nothing here can make the commit undone.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidegate.errors import (
    CommitLost,
    ObjectChanged,
    ObjectMissing,
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
from tidegate.observe.events import CommitContested, CommitFailed, Committed, Notice, TableCared, TableCareFailed
from tidegate.protocol import delta as delta_module
from tidegate.protocol import documents, follow_ups, ledger
from tidegate.protocol.change import Change, DataFile, Frame, Replacement, Written
from tidegate.protocol.documents import Document, Parent, digest
from tidegate.protocol.ledger_blocks import SIZE
from tidegate.protocol.log import LogEntry, sync_entries
from tidegate.protocol.maintenance import clean_log
from tidegate.protocol.open import check_restore, position, unseen_warning
from tidegate.protocol.position import Deadline, Position, TableContext
from tidegate.protocol.resolve import Done, Lost, NotThere, lost, resolve
from tidegate.protocol.table import Add, CommitNote, Snapshot, arrow_schema, no_rows, schema_json
from tidegate.protocol.table_checks import (
    check_changes,
    check_replaceable,
    check_table,
    columns_of_new_table,
    columns_to_add,
    costs_rows,
    lane_reasons,
)
from tidegate.storage.durability import alone

if TYPE_CHECKING:
    import pyarrow as pa

_MANY = 16
_HEADS = 16


def measured(site: TableContext, files: Sequence[DataFile]) -> tuple[Add, ...]:
    """The add action of every file, after asking the store whether it is there in full."""
    if len(files) <= _MANY:
        return tuple(_measure(site, file) for file in files)
    with ThreadPoolExecutor(_HEADS, "head") as pool:
        return tuple(pool.map(lambda file: _measure(site, file), files))


def _measure(site: TableContext, file: DataFile) -> Add:
    try:
        found = site.store.head(file.path)
    except ObjectMissing as error:
        raise ObjectMissing(
            f"data file {site.uri}/{file.path} is gone before it was committed",
            "plan again; if it repeats, check who removes files there (VACUUM with a short retention?)",
        ) from error
    if found.size != file.size:
        raise ObjectChanged(
            f"data file {site.uri}/{file.path} has {found.size} bytes and was written with {file.size}",
            "plan again: its rows are read and written once more",
        )
    stats = file.stats if file.stats is not None else json.dumps({"numRecords": file.record_count})
    return Add(file.path, file.size, file.partition_values, int(found.modified.timestamp() * 1000), stats)


def prepared(site: TableContext, opened: Position, change: Change, attempt: str, steps: int = 1) -> Document:
    """The document of an attempt to commit ``change`` on top of ``opened``, ``steps`` positions further on."""
    return Document(
        key=site.key,
        identity=site.identity,
        version=opened.version + steps,
        attempt=attempt,
        parent=opened.parent,
        table_id=opened.table_id,
        delta_version=opened.table_version,
        state=change.state,
        coverage=change.coverage,
        data_files=change.data_files,
        rows=change.rows,
        written_at=site.pace.now().isoformat(),
        dead_letter_files=change.dead_letter_files,
        debts=change.debts,
        action=change.action,
        letters=max(0, opened.letters + change.letters),
    )


MOST_SETTINGS = 5
_FINAL = (StateError, UnsupportedTable, SchemaMismatch)


@dataclass(frozen=True, slots=True)
class Member:
    """One source of a commit: where it was opened, what becomes of it, and by how many positions it moves on."""

    site: TableContext
    opened: Position
    change: Change
    steps: int = 1


def commit(site: TableContext, opened: Position, change: Change) -> Position:
    """The position after ``change``.

    Raises ``CommitLost`` when another run of the source was first, ``OutcomeUnknown`` when the log could not
    be read in time, ``ObjectMissing``/``ObjectChanged`` for a data file that is not as it was written,
    ``SchemaMismatch`` and ``UnsupportedTable`` for a table that cannot take it, ``RowsRefused`` for rows that Spark
    does not write, ``StateError`` for a table that is not the opened one.
    """
    return commit_together([Member(site, opened, change)])[0]


def commit_together(members: Sequence[Member]) -> tuple[Position, ...]:
    """The positions after the changes of all ``members``, sources of one table, in one Delta commit; raises as
    ``commit`` does, and then none of them has moved.
    """
    check_changes([(member.change, member.opened.data_files) for member in members])
    for member in members:
        if member.opened.unpaid:
            follow_ups.pay(member.site, member.opened)
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

    site: TableContext
    opened: Position
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

    def mark(self) -> documents.CommitTag:
        """What the log will say about this member."""
        return documents.mark(
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
        text = documents.user_metadata([each.mark() for each in self.members])
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
            delta_module.put(self.site.store, snapshot.facts, note)
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


CLEAN_LOG = "clean_log"


def done(member: WrittenMember, attempt: Attempt, entry: LogEntry) -> Position:
    """DONE: the new position, its debts paid as far as possible; every so often a Delta checkpoint and a block."""
    site, opened, document, change = member.site, member.opened, member.document, member.change
    created = next(iter(attempt.written), None)
    now = Position(
        key=site.key,
        identity=site.identity,
        version=document.version,
        state=change.state,
        table_version=entry.version,
        table_id=attempt.table_id or entry.table_id,
        schema_json=_replaced_columns(change)
        or attempt.schema_json
        or schema_json(attempt.new_columns()[0] if created else None),
        partition_columns=opened.partition_columns if opened.table_id else created.partition_columns if created else (),
        committed_at=entry.version,
        delta_version=document.delta_version,
        parent=Parent(document.version, document.attempt, member.sha256),
        data_files=frozenset(file.path for file in change.data_files),
        debts=document.debts,
        letters=document.letters,
        warnings=attempt.warnings,
        needs_frames=attempt.needs_frames,
        rows=change.rows if change.frame is None or change.rows_known or entry.rows is None else entry.rows,
    )
    now = replace(now, unpaid=not follow_ups.pay_if_possible(site, now))
    _check_rows(site, change, entry)
    site.emit(_event(member, now, attempt, entry))
    if not attempt.by_spark:
        _checkpoint(site, now, opened.version)
    _compact(site, now, opened.version)
    return now


def make_durable(members: Sequence[WrittenMember], entry: LogEntry) -> None:
    """Force the commit to disk: the data files that a library or Spark wrote for it, then the log up to it.

    What tasks wrote, and the documents, were forced when they were closed. The log is forced from the version on that
    the commit was planned with, since whoever wrote the entries between may have died before doing so.
    """
    site = members[0].site
    if not site.store.location.is_forced:
        return
    change = members[0].change
    if change.frame is not None or change.replacement is not None:
        site.store.sync(site.log.added(entry.version, site.key))
    sync_entries(site.store, max(min(each.opened.table_version for each in members), 0))


def _check_rows(site: TableContext, change: Change, entry: LogEntry) -> None:
    """``TableError`` where Spark wrote other rows than were gathered for it; that the commit is durable stays true.

    It is the last of three looks: files of a work area are asked for before the statement, and Spark is told not to
    pass over any that it misses. What gets by both must not be counted as good. The outcome of a commit is decided by
    the log alone, as ever: this only says what it is worth.
    """
    wanted, found = change.written_rows, entry.rows
    if change.frame is None or wanted is None or found is None or found == wanted:
        return
    problem = TableError(
        f"{site.key}: {wanted} rows were gathered, and Spark wrote {found} of them into {site.uri} (table version "
        f"{entry.version}); the position has moved with that commit",
        "look who changes files below _tidegate there; then go back with 'tidegate watermark set', or read that part "
        "again with 'tidegate replay'",
    )
    site.emit(CommitFailed(site.key.pipeline, site.key.source, "failed", str(problem)))
    raise problem


def _replaced_columns(change: Change) -> str | None:
    """The columns that the commit gave the table; None where they are what they were."""
    columns = None if change.replacement is None else change.replacement.columns
    return None if columns is None else schema_json(columns)


def _event(member: WrittenMember, now: Position, attempt: Attempt, entry: LogEntry) -> Committed:
    site, change = member.site, member.change
    files = {item.file: item.size for item in change.coverage}
    finished = {item.file: item.size for item in change.coverage if item.eof}
    given_up = max(change.letters - sum(item.bad for item in change.coverage), 0)
    return Committed(
        site.key.pipeline,
        site.key.source,
        position=now.version,
        table_version=now.table_version,
        source_files=len(files),
        source_bytes=sum(files.values()),
        data_files=len(change.data_files) if change.frame is None else entry.adds,
        rows=now.rows,
        seconds=attempt.deadline.seconds,
        finished_files=max(len(finished) - given_up, 0),
        finished_bytes=sum(finished.values()),
    )


def _passed(before: int, now: int, every: int) -> bool:
    """Whether a multiple of ``every`` was reached on the way from ``before`` to ``now``."""
    return every > 0 and now // every > before // every


def _checkpoint(site: TableContext, now: Position, before: int) -> None:
    """A Delta checkpoint keeps loading the table fast; without it everything is still right."""
    if not _passed(before, now.version, site.checkpoint_every):
        return
    try:
        failpoint("state.checkpoint.before")
        site.delta.checkpoint()
    except Exception as error:
        text = f"no Delta checkpoint at table version {now.table_version} ({error}); tried again later"
        site.emit(Notice(site.key.pipeline, site.key.source, text))
        return
    _clean_log(site)


def _clean_log(site: TableContext) -> None:
    """Entries that a checkpoint sums up, that are old enough and that nobody needs; they do no harm while they stay."""
    started = time.monotonic()
    names = site.key.pipeline, site.key.source
    try:
        cleaned = clean_log(site.store, datetime.fromtimestamp(site.pace.now_ms() / 1000, UTC))
    except Exception as error:
        site.emit(TableCareFailed(*names, CLEAN_LOG, str(error)))
        return
    if cleaned.files:
        site.emit(TableCared(*names, CLEAN_LOG, cleaned.files, cleaned.bytes, time.monotonic() - started))


def _compact(site: TableContext, now: Position, before: int) -> None:
    """Every so often a block of old documents is gathered, or as many as the commit moved over; without it there are
    only more objects.
    """
    if now.parent is None or not _passed(before, now.version, ledger.LOOK_EVERY):
        return
    try:
        ledger.compact(site.store, site.key, now.parent, most=1 + (now.version - before) // SIZE)
    except Exception as error:
        text = f"old documents below position {now.version} are not gathered yet ({error}); tried again later"
        site.emit(Notice(site.key.pipeline, site.key.source, text))
