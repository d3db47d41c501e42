"""COMMIT: make the files of a change and its state visible in one Delta commit, exactly once.

The document goes first; then a fresh snapshot, its checks and one commit, again and again until the log shows
our attempt, or shows that another run was first, or the time is over. Nothing that raises is believed and
nothing that was written is ever deleted: the log alone tells what happened (``resolving``).
"""

from __future__ import annotations

from dataclasses import replace

from tidegate.errors import (
    OutcomeUnknown,
    SchemaMismatch,
    StateError,
    StorageUnavailable,
    TableError,
    TidegateError,
    UnsupportedTable,
)
from tidegate.failpoints import failpoint
from tidegate.observe.events import CommitContested, Committed, Notice
from tidegate.state import compacting, debts, marks
from tidegate.state.arrow import arrow_schema, schema_json
from tidegate.state.documents import Document, Parent, digest
from tidegate.state.features import check_replaceable, check_table
from tidegate.state.files import Change
from tidegate.state.fitting import check_change, columns_to_add
from tidegate.state.log import LogEntry
from tidegate.state.opened import Opened
from tidegate.state.opening import check_restore, position, unseen_warning
from tidegate.state.pace import Deadline
from tidegate.state.preparing import measured, prepared
from tidegate.state.resolving import Done, Lost, NotThere, lost, resolve
from tidegate.state.site import Site
from tidegate.state.table import Add, CommitNote, Snapshot

_FINAL = (StateError, UnsupportedTable, SchemaMismatch)


def commit(site: Site, opened: Opened, change: Change) -> Opened:
    """The position after ``change``.

    Raises ``CommitLost`` when another run of the source was first, ``OutcomeUnknown`` when the log could not
    be read in time, ``ObjectMissing``/``ObjectChanged`` for a data file that is not as it was written,
    ``SchemaMismatch`` and ``UnsupportedTable`` for a table that cannot take it, ``StateError`` for a table
    that is not the opened one.
    """
    check_change(change, opened.data_files)
    if opened.unpaid:
        debts.pay(site, opened)
    deadline = site.pace.start()
    adds = measured(site, change.data_files)
    document = prepared(site, opened, change)
    content = document.to_bytes()
    failpoint("state.document.before")
    site.store.put(site.key.document(document.version, document.attempt), content)
    failpoint("state.document.after")
    attempt = _Attempt(site, opened, change, document, digest(content), adds, deadline)
    entry = attempt.run()
    failpoint("state.done.before")
    return _done(site, opened, attempt, entry)


class _Attempt:
    """One attempt to commit one change: the loop of steps a to d."""

    def __init__(
        self,
        site: Site,
        opened: Opened,
        change: Change,
        document: Document,
        sha256: str,
        adds: tuple[Add, ...],
        deadline: Deadline,
    ) -> None:
        self.site, self.opened, self.change = site, opened, change
        self.document, self.sha256 = document, sha256
        self.deadline = deadline
        self.table_id = opened.table_id
        self.schema_json = opened.schema_json
        self.warnings: tuple[str, ...] = ()
        self._adds = adds
        self._checked = opened.table_version
        self._first_base: int | None = None
        self._asked_for: tuple[str, ...] = ()
        self._sent = False
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
            if snapshot is not None and self._add_columns(snapshot):
                return None
            self._send(snapshot)
        return self._resolve()

    def _unmoved(self, snapshot: Snapshot | None) -> bool:
        """Whether the source is still where it was opened; without this look, rows double."""
        return position(self.site, snapshot) == self.opened.version

    def _fresh(self) -> Snapshot | None:
        """Step a: the newest snapshot, checked like in OPEN, and still the table that was opened."""
        snapshot = self.site.delta.snapshot()
        if snapshot is None:
            if self.table_id is not None:
                raise self._replaced("there is no table any more")
            return None
        facts = snapshot.facts
        check_table(facts, self.site.uri)
        if self.change.replacement is not None:
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

    def _add_columns(self, snapshot: Snapshot) -> bool:
        """Step b: add the columns the files bring along; True when a fresh snapshot is needed."""
        fields = columns_to_add(snapshot.facts, self.change, self.site.evolution)
        if not fields:
            return False
        names = tuple(field.name for field in fields)
        try:
            failpoint("state.columns.before")
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

    def _send(self, snapshot: Snapshot | None) -> None:
        """Step c: one commit; whatever it raises is remembered for the message and decides nothing."""
        document, key = self.document, self.site.key
        mark = marks.mark(
            key,
            self.site.identity,
            document.version,
            document.attempt,
            self.sha256,
            self.change.embedded,
            debts=document.debts,
            letters=document.letters,
        )
        now = self.site.pace.now_ms()
        note = CommitNote({key.app_id: document.version}, now, marks.user_metadata([mark]))
        if snapshot is None and self.change.schema is None:
            raise TableError(
                f"{key}: there is no table at {self.site.uri} and no schema to create it with",
                "declare a schema, or fix the state with the cold-start document instead",
            )
        if snapshot is None and self.change.replacement is not None:
            raise TableError(
                f"{key}: there is no table at {self.site.uri} to replace rows of", "run the pipeline first"
            )
        self._sent = True
        try:
            failpoint("state.commit.before")
            self._write(snapshot, note)
            failpoint("state.commit.after")
        except Exception as error:
            self._problem = error

    def _write(self, snapshot: Snapshot | None, note: CommitNote) -> None:
        """The one commit: a new table, more files, or other rows in the place of some."""
        delta, replacement = self.site.delta, self.change.replacement
        if snapshot is None:
            delta.create(self.change.schema, self.change.partition_columns, self._adds, note)
        elif replacement is None:
            delta.append(snapshot, self._adds, note)
        else:
            columns = arrow_schema(snapshot.facts.schema_json)
            with replacement.rows(columns) as rows:
                delta.replace(snapshot, replacement.predicate, rows, note)

    def _resolve(self) -> LogEntry | None:
        """Step d: what the log says."""
        base = -1 if self._first_base is None else self._first_base
        try:
            outcome = resolve(self.site, self.opened.version, self.document.attempt, base)
        except TidegateError as error:
            self._problem, self._unclear = error, True
            return None
        self._unclear = False
        match outcome:
            case Done(entry):
                return entry
            case Lost(by):
                self._contested(by)
                raise lost(self.site, self.opened.version, by)
            case NotThere():
                return None

    def _contested(self, by: str) -> None:
        key = self.site.key
        self.site.emit(CommitContested(key.pipeline, key.source, f"position {self.document.version} was taken by {by}"))

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


def _done(site: Site, opened: Opened, attempt: _Attempt, entry: LogEntry) -> Opened:
    """DONE: the new position, its debts paid as far as possible; every so often a Delta checkpoint and a block."""
    document, change = attempt.document, attempt.change
    now = Opened(
        key=site.key,
        identity=site.identity,
        version=document.version,
        state=change.state,
        table_version=entry.version,
        table_id=attempt.table_id or entry.table_id,
        schema_json=attempt.schema_json or schema_json(change.schema),
        partition_columns=opened.partition_columns if opened.table_id else change.partition_columns,
        committed_at=entry.version,
        delta_version=document.delta_version,
        parent=Parent(document.version, document.attempt, attempt.sha256),
        data_files=frozenset(file.path for file in change.data_files),
        debts=document.debts,
        letters=document.letters,
        warnings=attempt.warnings,
    )
    now = replace(now, unpaid=not debts.pay_if_possible(site, now))
    site.emit(_event(site, now, attempt))
    _checkpoint(site, now)
    _compact(site, now)
    return now


def _event(site: Site, now: Opened, attempt: _Attempt) -> Committed:
    files = {item.file: item.size for item in attempt.change.coverage}
    return Committed(
        site.key.pipeline,
        site.key.source,
        position=now.version,
        table_version=now.table_version,
        source_files=len(files),
        source_bytes=sum(files.values()),
        data_files=len(attempt.change.data_files),
        rows=attempt.change.rows,
        seconds=attempt.deadline.seconds,
    )


def _checkpoint(site: Site, now: Opened) -> None:
    """A Delta checkpoint keeps loading the table fast; without it everything is still right."""
    if site.checkpoint_every <= 0 or now.version % site.checkpoint_every:
        return
    try:
        failpoint("state.checkpoint.before")
        site.delta.checkpoint()
    except Exception as error:
        text = f"no Delta checkpoint at table version {now.table_version} ({error}); tried again later"
        site.emit(Notice(site.key.pipeline, site.key.source, text))


def _compact(site: Site, now: Opened) -> None:
    """Every so often one block of old documents is gathered; without it there are only more objects."""
    if now.version % compacting.LOOK_EVERY or now.parent is None:
        return
    try:
        compacting.compact(site.store, site.key, now.parent, most=1)
    except Exception as error:
        text = f"old documents below position {now.version} are not gathered yet ({error}); tried again later"
        site.emit(Notice(site.key.pipeline, site.key.source, text))
