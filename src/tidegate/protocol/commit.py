"""COMMIT and RESOLVE: the files of a change and its state become visible in one Delta commit, exactly once.

::

    COMMIT   1   write the document of this attempt: it holds the complete new state
             2a  take a fresh snapshot: still the same table, every source still where it was opened
              b  add the columns and set the properties that the table lacks; then again from a
              c  send one Delta commit: the files, and the new position of every source
              d  whatever that returned or raised: RESOLVE
    RESOLVE      read the log from the first base of this commit to its end
                 our attempt is there                     -> done
                 not there, no source has moved           -> again from 2a: same files, same attempt
                 not there, a source has moved            -> lost to another run; what was written is forgotten
                 the log cannot be read                   -> again until the deadline, then "outcome unknown"
    DONE         force the log to disk, then pay the follow-ups (``follow_ups``)

An error never means failure: only the log says what happened. Nothing that was written is ever deleted, and nothing
after the commit can undo it. One commit may move several sources of a table, all or none; the first of them leads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

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
from tidegate.observe.events import ColumnsAdded, CommitContested, CommitFailed, Committed
from tidegate.protocol import documents, follow_ups
from tidegate.protocol.change import (
    NOT_COUNTED,
    AppendFiles,
    Change,
    DataFile,
    NoRows,
    ReplaceFiles,
    ReplaceRows,
    Requirement,
    RowChanges,
    RowCount,
    SparkWrite,
    Write,
    write_files,
)
from tidegate.protocol.delta import put_entry
from tidegate.protocol.documents import Document, Parent, digest
from tidegate.protocol.log import LogEntry, sync_entries
from tidegate.protocol.open import check_restore, overwrite_warnings, unseen_warning
from tidegate.protocol.position import Deadline, Position, TableContext
from tidegate.protocol.table import ActiveFile, Add, CommitNote, Snapshot, arrow_schema, no_rows, schema_json
from tidegate.protocol.table_checks import (
    check_changes,
    check_requirement,
    columns_of_new_table,
    columns_to_add,
    costs_rows,
    lane_reasons,
    name_new_columns,
)
from tidegate.reports.wording import count
from tidegate.storage.local import lock_log

if TYPE_CHECKING:
    import pyarrow as pa

# Properties that vanish again after each try would otherwise keep the commit busy until its deadline.
MOST_SETTINGS = 5
"""How often a commit tries to set the properties of its table."""

# Waiting cannot cure these; every other error may be the storage, and is retried until the deadline.
_FINAL = (StateError, UnsupportedTable, SchemaMismatch)
_FEW = 16
# A commit may have 10,000 files: one HEAD after the other would take minutes on object storage.
_HEADS = 16


@dataclass(frozen=True, slots=True)
class Member:
    """One source of a commit: its opened position, its change, and the number of positions it moves."""

    site: TableContext
    opened: Position
    change: Change
    steps: int = 1


def commit(site: TableContext, opened: Position, change: Change) -> Position:
    """The position after ``change``.

    Raises ``CommitLost`` if another run of the source came first, ``OutcomeUnknown`` if the log could not be read in
    time, ``ObjectMissing``/``ObjectChanged`` for a data file that is not as written, ``SchemaMismatch`` and
    ``UnsupportedTable`` for a table that cannot take it, ``RowsRefused`` for rows that Spark does not write,
    ``StateError`` for a table that is not the opened one.
    """
    return commit_together([Member(site, opened, change)])[0]


def commit_together(members: Sequence[Member]) -> tuple[Position, ...]:
    """The positions after the changes of all ``members``, sources of one table, in one Delta commit.

    Raises as ``commit`` does; then none of them has moved.
    """
    check_changes([(member.change, member.opened.data_files) for member in members])
    members = [replace(member, change=replace(member.change, debts=collect_debts(member))) for member in members]
    for member in members:
        # OPEN pays what the newest position owes, and no other: an older debt would be forgotten with this commit.
        if member.opened.unpaid:
            follow_ups.pay(member.site, member.opened)
    lead = members[0].site
    # Before any document is written: a file that is gone or short would make every reader of the table fail.
    adds = tuple(add for member in members for add in measure(member.site, member.change.write.data_files))
    # One name for all members: RESOLVE looks for it in the entry, which is theirs together.
    name = lead.attempts()
    written = [_write_document(member, name) for member in members]
    try:
        with lead.turn():
            attempt = Attempt(written, adds, lead.pace.start())
            entry = attempt.run()
    except CommitLost:
        raise
    except TidegateError as error:
        outcome = "unknown" if isinstance(error, OutcomeUnknown) else "failed"
        for member in members:
            key = member.site.key
            member.site.emit(CommitFailed(key.pipeline, key.source, outcome, str(error)))
        raise
    _force_to_disk(members, entry)
    failpoint("state.done.before")
    return tuple(_finish(each, attempt, entry) for each in attempt.members)


def collect_debts(member: Member) -> tuple[Mapping[str, Any], ...]:
    """The debts of a member: those of its change, of its work areas, then those of every move of its state."""
    write = member.change.write
    work = write.debts if isinstance(write, SparkWrite) else ()
    return (*member.change.debts, *work, *member.site.owed(member.opened.state, member.change.next.complete))


def measure(site: TableContext, files: Sequence[DataFile]) -> tuple[Add, ...]:
    """The add action of every file, after checking that the store has all of it."""
    if len(files) <= _FEW:
        return tuple(_measure_file(site, file) for file in files)
    with ThreadPoolExecutor(_HEADS, "head") as pool:
        return tuple(pool.map(lambda file: _measure_file(site, file), files))


def _measure_file(site: TableContext, file: DataFile) -> Add:
    try:
        found = site.store.head(file.path)
    except ObjectMissing as error:
        raise ObjectMissing(
            f"data file {site.uri}/{file.path} disappeared before its commit",
            "plan again; if this repeats, find out who removes files there (VACUUM with a short retention?)",
        ) from error
    # The library silently adds a missing or truncated file, and every later read of the table fails.
    if found.size != file.size:
        raise ObjectChanged(
            f"data file {site.uri}/{file.path} has {found.size} bytes and was written with {file.size}",
            "plan again: the run reads and writes its rows once more",
        )
    return file.to_add(found.modified)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenMember(Member):
    """A member whose document is written."""

    document: Document
    sha256: str


def _write_document(member: Member, attempt: str) -> WrittenMember:
    """Step 1."""
    document = new_document(member, attempt)
    content = document.to_bytes()
    failpoint("state.document.before")
    member.site.store.put(member.site.key.document(document.version, attempt), content)
    failpoint("state.document.after")
    return WrittenMember(
        member.site, member.opened, member.change, member.steps, document=document, sha256=digest(content)
    )


def new_document(member: Member, attempt: str) -> Document:
    site, opened, change = member.site, member.opened, member.change
    return Document(
        key=site.key,
        identity=site.identity,
        version=opened.version + member.steps,
        attempt=attempt,
        parent=opened.parent,
        table_id=opened.table_id,
        delta_version=opened.table_version,
        state=change.next.complete,
        coverage=change.coverage,
        data_files=change.write.data_files,
        rows=change.write.rows,
        written_at=site.pace.now().isoformat(),
        dead_letter_files=change.letters.files,
        debts=change.debts,
        action=change.action,
        letters=max(0, opened.letters + change.letters.opened),
        run=site.run,
    )


class Attempt:
    """Step 2: one attempt to commit, repeated until the log shows its outcome."""

    def __init__(self, members: Sequence[WrittenMember], adds: tuple[Add, ...], deadline: Deadline) -> None:
        self.members = members
        self.lead = members[0]
        self.site = self.lead.site
        self.deadline = deadline
        self.table_id = next((each.opened.table_id for each in members if each.opened.table_id is not None), None)
        self.schema_json = next((each.opened.schema_json for each in members if each.opened.schema_json), None)
        self.warnings: tuple[str, ...] = ()
        self.needs_frames: tuple[str, ...] = ()
        self._adds = adds
        self._checked = min(each.opened.table_version for each in members)
        self._first_base: int | None = None
        self.brought_columns: tuple[str, ...] = ()
        self._added_columns: tuple[str, ...] = ()
        self._brings_columns = False
        self._settings = 0
        self._sent = False
        self._came_back_at: int | None = None
        self._unclear = False
        self._problem: BaseException | None = None
        writes = [each.change.write for each in members]
        # Several sources can only append files, which ``check_changes`` has checked.
        self.write = writes[0] if len(writes) == 1 else write_files([group for each in writes for group in each.groups])

    @property
    def by_spark(self) -> bool:
        """Whether Spark writes this table, and thus its checkpoints."""
        return isinstance(self.write, SparkWrite) or bool(self.needs_frames)

    def new_columns(self) -> tuple[pa.Schema, tuple[str, ...]]:
        """The columns and partition columns of a table that begins with these rows."""
        return columns_of_new_table(self.write.groups, self.site.evolution)

    def run(self) -> LogEntry:
        """Repeat the steps until our attempt is in the log."""
        while True:
            entry = self._step()
            if entry is not None:
                return entry
            if self.deadline.passed:
                raise self._too_late() from self._problem
            self.deadline.pause()

    def _step(self) -> LogEntry | None:
        """Steps a to d once; None to repeat them."""
        try:
            snapshot = self._fresh_snapshot()
            unmoved = self._is_unmoved(snapshot)
        except _FINAL:
            raise
        except TidegateError as error:
            self._problem = error
            return None
        if self._first_base is None:
            # Of the first try, and kept: an earlier try may be durable although it raised, so RESOLVE must search from
            # there.
            self._first_base = -1 if snapshot is None else snapshot.facts.version
        if unmoved:
            if snapshot is not None and (self._add_columns(snapshot) or self._set_properties(snapshot)):
                return None
            self._send(snapshot)
        found = self._resolve()
        # Only now: the log has shown that no earlier try took effect, and Spark would refuse the same rows again.
        if found is None and not self._unclear and isinstance(self._problem, RowsRefused):
            raise self._problem
        return found

    def _is_unmoved(self, snapshot: Snapshot | None) -> bool:
        """Whether every source is still where it was opened; without this check, rows double."""
        return all(each.site.position_in(snapshot) == each.opened.version for each in self.members)

    def _fresh_snapshot(self) -> Snapshot | None:
        """Step a: the newest snapshot, checked as in OPEN, and still of the opened table."""
        snapshot = self.site.delta.snapshot()
        if snapshot is None:
            if self.table_id is not None:
                raise self._table_replaced("there is no table any more")
            return None
        facts = snapshot.facts
        self.needs_frames = lane_reasons(facts, self.site.uri)
        for requirement in self.write.requires:
            check_requirement(requirement, facts, self.site.uri)
        # Somebody dropped and recreated the table: its log starts over, and our position would mean nothing in it.
        if self.table_id not in (None, facts.table_id):
            raise self._table_replaced(f"it is now table {facts.table_id}")
        self.table_id, self.schema_json = facts.table_id, facts.schema_json
        # A RESTORE that came between OPEN and now has taken rows that the new state still counts as read.
        if self._is_unmoved(snapshot) and facts.version > self._checked:
            seen = self.site.log.between(self._checked + 1, facts.version + 1)
            self.warnings += unseen_warning(check_restore(self.site, self._checked, facts.version, seen))
            self.warnings += overwrite_warnings(seen)
            self._checked = facts.version
        return snapshot

    def _table_replaced(self, found: str) -> StateError:
        return StateError(
            f"{self.site.key}: table {self.table_id} at {self.site.uri} was replaced while this run was "
            f"writing: {found}",
            "put the table back and run again, or write into a new table_uri",
        )

    def _add_columns(self, snapshot: Snapshot) -> bool:
        """Step b: add new columns of the files; True if a fresh snapshot is needed.

        Spark adds them in the commit that writes the rows.
        """
        match self.write:
            case ReplaceRows(predicate=None, schema=schema):
                self.brought_columns = name_new_columns(snapshot.facts, schema)
                return False
            case SparkWrite():
                pass
            # Only Spark may change the columns of such a table, and there is no row that needs them yet.
            case _ if self.needs_frames:
                return False
        try:
            fields = columns_to_add(snapshot.facts, self.write, self.site.evolution)
        except ReplacesTable as error:
            return self._replace_columns(snapshot, error)
        self._brings_columns = bool(fields)
        # Kept once they are added: the next try finds them in the table.
        self.brought_columns = name_new_columns(snapshot.facts, fields) if fields else self.brought_columns
        if not fields or isinstance(self.write, SparkWrite):
            return False
        names = tuple(field.name for field in fields)
        added = False
        with self._record_failure():
            failpoint("state.columns.before")
            with self._lock_log():
                self.site.delta.add_columns(snapshot, fields)
            failpoint("state.columns.after")
            added = True
        # Added twice and still missing: without this, the attempt would add them again until its deadline.
        if added and names == self._added_columns:
            raise SchemaMismatch(
                f"columns {', '.join(names)} were added to {self.site.uri}, but the table still lacks them",
                "add them to the table with Spark, or write into another table",
            )
        if added:
            self._added_columns = names
        return True

    def _replace_columns(self, snapshot: Snapshot, error: ReplacesTable) -> bool:
        """With ``overwrite`` a table without rows takes the columns of the files. Rows are never dropped here."""
        # Decision 0013: rows leave a table only when a person has agreed.
        if snapshot.active_paths():
            raise costs_rows(error)
        note = CommitNote({}, self.site.pace.now_ms(), "tidegate: columns replaced")
        with self._record_failure():
            failpoint("state.columns.before")
            with self._lock_log():
                self.site.delta.overwrite(snapshot, no_rows(self.new_columns()[0]), note)
            failpoint("state.columns.after")
        return True

    def _set_properties(self, snapshot: Snapshot) -> bool:
        """Step b: set missing properties; True if a fresh snapshot is needed."""
        found = snapshot.facts.properties
        missing = {name: value for name, value in self.site.properties.items() if found.get(name) != value}
        if not missing:
            return False
        if self.needs_frames or self._settings == MOST_SETTINGS:
            why = "; ".join(self.needs_frames) or self._problem or "they are removed again after each attempt"
            raise TableError(
                f"properties of {self.site.uri} cannot be set here ({', '.join(missing)}): {why}",
                "correct sink.table_properties, or set them with Spark",
            )
        self._settings += 1
        with self._record_failure():
            failpoint("state.properties.before")
            with self._lock_log():
                self.site.delta.set_properties(snapshot, missing)
            failpoint("state.properties.after")
        return True

    @contextmanager
    def _record_failure(self) -> Iterator[None]:
        """Record any exception for the final message. Only the log decides the outcome."""
        try:
            yield
        # Broad on purpose: the same error may follow a durable commit and a real conflict, so its kind decides nothing.
        except Exception as error:
            self._problem = error

    def _send(self, snapshot: Snapshot | None) -> None:
        """Step c."""
        if snapshot is None and Requirement.TABLE in self.write.requires:
            raise self._no_table()
        note = self._note()
        # Before the call: from here on the commit may be durable, whatever comes back.
        self._sent = True
        with self._record_failure():
            failpoint("state.commit.before")
            with self._lock_log():
                # Inside, since a refusal may come after an earlier attempt that did succeed: the log decides first.
                for condition in (each for member in self.members for each in member.change.preconditions):
                    condition.check()
                self._write(snapshot, note)
            if isinstance(self.write, SparkWrite) and snapshot is not None:
                # A MERGE or DELETE that matches nothing returns without a log entry.
                self._came_back_at = snapshot.facts.version
            failpoint("state.commit.after")

    def _no_table(self) -> TableError:
        if isinstance(self.write, NoRows):
            return TableError(
                f"{self.site.key}: there is no table at {self.site.uri} and no schema to create it with",
                "declare schema.fields: the table is created with them",
            )
        return TableError(
            f"{self.site.key}: there is no table at {self.site.uri} to replace rows of", "run the pipeline first"
        )

    def _note(self) -> CommitNote:
        """What the log will have: the new position of every source, and the tag of its document."""
        versions = {each.site.key.app_id: each.document.version for each in self.members}
        tags = [documents.new_tag(each.document, each.sha256, each.change.next.embedded) for each in self.members]
        return CommitNote(versions, self.site.pace.now_ms(), documents.user_metadata(tags))

    def _lock_log(self) -> AbstractContextManager[None]:
        """While inside, no other process of Tidegate writes the log, if Spark could replace its entry."""
        return lock_log(self.site.store.location, always=self.by_spark)

    def _write(self, snapshot: Snapshot | None, note: CommitNote) -> None:
        delta, write = self.site.delta, self.write
        if snapshot is None:
            if isinstance(write, SparkWrite):
                write.frame.write(note, None, new_columns=self._brings_columns)
            else:
                delta.create(*self.new_columns(), self._adds, note, self.site.properties)
            return
        match write:
            # If Spark's statement returned and left no log entry, it found nothing to do in this version of the
            # table: then the position moves alone, below.
            case SparkWrite() if snapshot.facts.version != self._came_back_at:
                table = arrow_schema(snapshot.facts.schema_json)
                write.frame.write(note, table, new_columns=self._brings_columns)
            # An entry of our own: the library refuses some of these features, and silently ignores others.
            case SparkWrite() | NoRows() if self.needs_frames:
                put_entry(self.site.store, snapshot.facts, note)
            case AppendFiles() | SparkWrite() | NoRows():
                delta.append(snapshot, self._adds, note)
            case ReplaceRows(predicate=None):
                with write.read(write.schema) as rows:
                    delta.overwrite(snapshot, rows, note)
            case ReplaceRows(predicate=str(predicate)):
                with write.read(arrow_schema(snapshot.facts.schema_json)) as rows:
                    delta.replace(snapshot, predicate, rows, note)
            case ReplaceFiles(removed=removed):
                delta.replace_files(snapshot, self._find_visible(snapshot, removed), self._adds, note)

    def _find_visible(self, snapshot: Snapshot, removed: frozenset[str]) -> tuple[ActiveFile, ...]:
        """The files to remove, as the snapshot has them; ``RowsRefused`` if one is not visible any more."""
        found = tuple(file for file in snapshot.active_files() if file.path in removed)
        gone = removed - {file.path for file in found}
        # No source has moved, so that it was not an earlier try of ours.
        if gone:
            raise RowsRefused(
                f"{self.site.key}: {count(len(gone), 'data file')} of {self.site.uri} (e.g. {min(gone)}) left the table"
                " before the commit: somebody rewrote or removed the rows",
                "nothing was changed; give the same command again",
            )
        return found

    def _resolve(self) -> LogEntry | None:
        """Step d: the outcome according to the log."""
        base = -1 if self._first_base is None else self._first_base
        try:
            expected = [(each.site, each.opened.version) for each in self.members]
            outcome = resolve(expected, self.lead.document.attempt, base)
        except TidegateError as error:
            self._problem, self._unclear = error, True
            return None
        self._unclear = False
        match outcome:
            case Done(entry):
                return entry
            case Lost(site, version, by):
                problem = f"position {version + 1} was taken by {by}"
                site.emit(CommitContested(site.key.pipeline, site.key.source, problem))
                raise commit_lost(site, version, by)
            case NotThere():
                return None

    def _too_late(self) -> TidegateError:
        waited = f"after {self.deadline.seconds:.0f} s"
        document = self.lead.document
        position = f"{self.site.key}: position {document.version} (attempt {document.attempt})"
        if self._sent and self._unclear:
            return OutcomeUnknown(
                f"{position}: {waited} the log of {self.site.uri} is still unreadable ({self._problem}), so "
                "whether the commit took effect is unknown",
                "run again when the storage responds: the next run finds out and continues from there",
            )
        return StorageUnavailable(
            f"{position} could not be committed; given up {waited} (last problem: {self._problem})",
            "nothing was lost: run again; to retry for longer, raise global.commit_deadline_secs",
        )


@dataclass(frozen=True, slots=True)
class Done:
    """Our attempt is in this log entry."""

    entry: LogEntry


@dataclass(frozen=True, slots=True)
class NotThere:
    """Our attempt is not in the log and no source has moved: it may be sent again."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Another run moved a source on from ``version``; ``by`` names its attempt."""

    site: TableContext
    version: int
    by: str


Outcome = Done | NotThere | Lost


def resolve(expected: Sequence[tuple[TableContext, int]], attempt: str, first_base: int) -> Outcome:
    """RESOLVE: the outcome of ``attempt``, which wanted to move sources of one table on from these positions.

    ``first_base`` is the table version that the commit first built on, -1 without a table. Raises a ``StorageError``
    while the log cannot be read; then nothing is known.
    """
    failpoint("state.resolve.before")
    site = expected[0][0]
    ours, _ = _search(site, attempt, first_base)
    if ours is not None:
        return Done(ours)
    # The position is read after the search, so a commit between the two can only look like a loss; hence the second
    # search, up to the snapshot, before anything is called lost.
    snapshot = site.delta.snapshot()
    moved = [(each, version) for each, version in expected if each.position_in(snapshot) != version]
    if not moved:
        return NotThere()
    last = -1 if snapshot is None else snapshot.facts.version
    ours, end = _search(site, attempt, first_base)
    if ours is not None:
        return Done(ours)
    # The log was cleaned up under the search: an entry that nobody can read may be ours, so this is no loss.
    if end <= last:
        raise StorageUnavailable(
            f"{site.key}: log entry {end} of {site.uri} is gone (the table is at version {last}), so "
            f"whether attempt {attempt} was committed cannot be read",
            "run again: the next OPEN decides",
        )
    return Lost(*moved[0], _rival(*moved[0], last))


def _search(site: TableContext, attempt: str, first_base: int) -> tuple[LogEntry | None, int]:
    """The log entry of the attempt, and the version before which every entry was searched."""
    end = first_base + 1
    for entry in site.log.tail(first_base + 1):
        tag = entry.tag_of(site.key)
        if tag is not None and tag.attempt == attempt:
            return entry, end
        end = entry.version + 1
    return None, end


def _rival(site: TableContext, version: int, table_version: int) -> str:
    """The attempt that moved the source on from ``version``, for the message."""
    for entry in site.log.backwards(table_version, site.search_commits):
        tag = entry.tag_of(site.key)
        if tag is not None and tag.version > version:
            return f"attempt {tag.attempt} at table version {entry.version}"
    return "another run"


def commit_lost(site: TableContext, version: int, by: str) -> CommitLost:
    """The error of a run whose source another one moved."""
    return CommitLost(
        f"{site.key}: position {version + 1} was taken by {by}; this run discards what it wrote",
        "plan again from the new position; let only one run work on a source",
    )


def _force_to_disk(members: Sequence[Member], entry: LogEntry) -> None:
    """DONE: force data files of a library or Spark to disk, then the log up to the commit.

    Files of tasks and documents were forced when they were closed. The log is forced from the version that the commit
    was planned with, since the writers of entries in between may have died before doing so.
    """
    site = members[0].site
    if not site.store.location.is_forced:
        return
    # Nobody else forces what the library and Spark write: a power cut would leave a log entry whose files are not
    # whole.
    if isinstance(members[0].change.write, ReplaceRows | SparkWrite):
        site.store.sync(site.log.read_added_paths(entry.version, site.key))
    sync_entries(site.store, max(min(each.opened.table_version for each in members), 0))


def _finish(member: WrittenMember, attempt: Attempt, entry: LogEntry) -> Position:
    """DONE: the new position, with its follow-ups paid as far as possible."""
    site, opened, document, change = member.site, member.opened, member.document, member.change
    created = next(iter(attempt.write.groups), None)
    match attempt.write:
        case ReplaceRows(predicate=None, schema=schema):
            columns: pa.Schema | None = schema
        case _:
            columns = attempt.new_columns()[0] if attempt.schema_json is None and created else None
    now = Position(
        key=site.key,
        identity=site.identity,
        version=document.version,
        state=change.next.complete,
        table_version=entry.version,
        table_id=attempt.table_id or entry.table_id,
        schema_json=attempt.schema_json if columns is None else schema_json(columns),
        partition_columns=opened.partition_columns if opened.table_id else created.partition_columns if created else (),
        committed_at=entry.version,
        delta_version=document.delta_version,
        parent=Parent(document.version, document.attempt, member.sha256),
        data_files=frozenset(file.path for file in change.write.data_files),
        debts=document.debts,
        letters=document.letters,
        warnings=attempt.warnings,
        needs_frames=attempt.needs_frames,
        rows=_count_rows(change.write, entry),
        changes=_count_changes(change.write, entry),
    )
    # Nothing from here on may fail the commit: it is durable, and what cannot be paid now the next OPEN pays.
    now = replace(now, unpaid=not follow_ups.pay_if_possible(site, now))
    _check_rows(site, change.write, entry)
    site.emit(_event(member, now, attempt, entry))
    if member is attempt.lead and attempt.brought_columns:
        site.emit(ColumnsAdded(site.key.pipeline, site.key.source, attempt.brought_columns))
    # Spark writes the checkpoints of the tables that it commits to; the library may not know their features.
    if not attempt.by_spark:
        follow_ups.checkpoint(site, now, opened.version)
    follow_ups.compact_ledger(site, now, opened.version)
    return now


def _count_rows(write: Write, entry: LogEntry) -> int:
    match write:
        case SparkWrite(counts=RowCount.LOGGED | RowCount.EXACT) if entry.rows is not None:
            return entry.rows
        case _:
            return write.rows


def _count_changes(write: Write, entry: LogEntry) -> RowChanges:
    """What the commit did to rows: by the log, whatever the statement returned, and whichever attempt it was."""
    match write:
        case AppendFiles():
            return RowChanges(inserted=write.rows)
        case SparkWrite(frame=frame):
            # Without metrics the position moved alone: the statement found nothing to do.
            found = entry.changes or (NOT_COUNTED if entry.adds else RowChanges())
            return found.count_rest(frame.offered)
        case ReplaceRows() | ReplaceFiles():
            return NOT_COUNTED
        case NoRows():
            return RowChanges()


def _check_rows(site: TableContext, write: Write, entry: LogEntry) -> None:
    """``TableError`` if Spark wrote other rows than were gathered; the commit stays durable all the same.

    This is the third check. Before the statement the files of the work area are checked, and Spark must not skip
    missing files. What gets past both must not count as good. Only the log decides the outcome of the commit.
    """
    is_exact = isinstance(write, SparkWrite) and write.counts is RowCount.EXACT
    if not is_exact or entry.rows in (None, write.rows):
        return
    problem = TableError(
        f"{site.key}: {count(write.rows, 'row')} gathered, but Spark wrote {entry.rows} into {site.uri} (table version "
        f"{entry.version}); the position has moved with that commit",
        "find out who changes files below _tidegate there; then remove the rows of this commit with Spark, and go back "
        "with `tidegate watermark set`, or from a set of paths with `tidegate watermark reset --all`",
    )
    site.emit(CommitFailed(site.key.pipeline, site.key.source, "failed", str(problem)))
    raise problem


def _event(member: WrittenMember, now: Position, attempt: Attempt, entry: LogEntry) -> Committed:
    site, change = member.site, member.change
    files = {item.file: item.size for item in change.coverage}
    finished = {item.file: item.size for item in change.coverage if item.eof}
    given_up = max(change.letters.opened - sum(item.bad for item in change.coverage), 0)
    return Committed(
        site.key.pipeline,
        site.key.source,
        position=now.version,
        table_version=now.table_version,
        source_files=len(files),
        source_bytes=sum(files.values()),
        data_files=entry.adds if isinstance(change.write, SparkWrite) else len(change.write.data_files),
        rows=now.rows,
        seconds=attempt.deadline.seconds,
        finished_files=max(len(finished) - given_up, 0),
        finished_bytes=sum(finished.values()),
        inserted=now.changes.inserted,
        updated=now.changes.updated,
        deleted=now.changes.deleted,
        unchanged=now.changes.unchanged,
    )
