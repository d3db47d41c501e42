"""The dead-letter table: files of tasks become visible there after the main commit, exactly once.

They are a debt of the main commit. The dead-letter commit has the application id with the table's id, and the same
version, so that the next snapshot shows a durable commit, and paying twice changes nothing. Errors decide nothing; the
table is read again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tidegate.errors import (
    ObjectMissing,
    SchemaMismatch,
    StateError,
    StorageUnavailable,
    TidegateError,
    UnsupportedTable,
)
from tidegate.failpoints import failpoint
from tidegate.observe.events import Emit, Notice, ignore
from tidegate.protocol.change import DataFile, SourceKey
from tidegate.protocol.delta import literal
from tidegate.protocol.documents import encode
from tidegate.protocol.log import application_ids, sync_entries
from tidegate.protocol.maintenance import clean_log
from tidegate.protocol.position import Pace, Position
from tidegate.protocol.store import open_delta
from tidegate.protocol.table import Add, CommitNote, DeltaTablePort, arrow_schema
from tidegate.protocol.table_checks import check_table
from tidegate.schema.dead_letter import LETTER_COLUMNS, RESOLUTION, Letter, letter_of, letter_schema
from tidegate.storage.stores import open_store

if TYPE_CHECKING:
    from tidegate.storage.port import ObjectStore

KIND = "dead_letters"
# These stay as they are until a person acts; all others are retried, since the main commit is already durable.
_FINAL = (StateError, SchemaMismatch, UnsupportedTable, ObjectMissing)


def debt(uri: str, files: Sequence[DataFile]) -> dict[str, Any]:
    """The debt of a commit with these letter files."""
    return {"kind": KIND, "uri": uri, "files": [file.to_json() for file in files]}


class DeadLetterTable:
    """One dead-letter table; several sources and pipelines may share it."""

    def __init__(
        self,
        store: ObjectStore,
        delta: DeltaTablePort,
        pace: Pace | None = None,
        *,
        checkpoint_every: int = 10,
        emit: Emit = ignore,
    ) -> None:
        self.store = store
        self.delta = delta
        self._pace = pace or Pace()
        self._checkpoint_every = checkpoint_every
        self._emit = emit

    @property
    def uri(self) -> str:
        return self.store.location.uri

    def pay(self, opened: Position, owed: Mapping[str, Any]) -> None:
        """Make the letter files of a committed position visible, unless they are; at the promised place."""
        # The path may have been reconfigured since; letters must go where the commit promised them.
        table = self if owed["uri"] == self.uri else self._open_other(str(owed["uri"]))
        table.commit(_app_id(opened), opened.version, [DataFile.from_json(each) for each in owed["files"]], opened.key)

    def _open_other(self, uri: str) -> DeadLetterTable:
        location = replace(self.store.location, uri=uri)
        store = open_store(location)
        every, emit = self._checkpoint_every, self._emit
        return DeadLetterTable(store, open_delta(location, store), self._pace, checkpoint_every=every, emit=emit)

    def check(self, files: Sequence[DataFile]) -> None:
        """Raise ``ObjectMissing`` unless all letter files exist: the main commit must not owe missing files."""
        for file in files:
            self.store.head(file.path)

    def position(self, opened: Position) -> int:
        """The source's position up to which letters are committed here."""
        snapshot = self.delta.snapshot() if opened.table_id is not None else None
        return 0 if snapshot is None else snapshot.transaction_version(_app_id(opened)) or 0

    def writers(self) -> frozenset[str]:
        """The application ids of all sources with letters here, without the ids of their tables."""
        return frozenset(app_id.rpartition("/")[0] for app_id in application_ids(self.store))

    def commit(self, app_id: str, version: int, files: Sequence[DataFile], key: SourceKey) -> None:
        """Append ``files`` as version ``version`` of the source, unless the table has that version."""
        deadline = self._pace.start()
        while True:
            try:
                self._send(app_id, version, files, key)
                return
            except _FINAL:
                raise
            except TidegateError as error:
                if deadline.passed:
                    raise StorageUnavailable(
                        f"{key}: the dead letters of position {version} could not be committed to {self.uri} "
                        f"(last problem: {error})",
                        "nothing is lost: the next run commits them before it reads anything",
                    ) from error
            deadline.pause()

    def open_letters(self, pipeline: str, source: str | None = None) -> Iterator[Letter]:
        """The open letters of a pipeline, oldest first."""
        columns = ", ".join(f'l."{name}"' for name in LETTER_COLUMNS)
        sql = f"select {columns} {_open_letters(pipeline, source)} order by l.at, l.file, l.line"
        yield from map(letter_of, self.delta.rows(sql))

    def count_by_reason(self, pipeline: str, source: str, most: int) -> list[tuple[str, int, datetime]]:
        """The ``most`` frequent reasons of a source's open letters, the number of each, and when its first came."""
        sql = (
            f"select coalesce(l.reason, '') as reason, count(*) as letters, min(l.at) as first "
            f"{_open_letters(pipeline, source)} group by 1 order by 2 desc, 1 limit {most}"
        )
        return [(row["reason"], row["letters"], row["first"]) for row in self.delta.rows(sql)]

    def _send(self, app_id: str, version: int, files: Sequence[DataFile], key: SourceKey) -> None:
        """Send one commit, unless a fresh snapshot shows that we, or another process, made it already."""
        snapshot = self.delta.snapshot()
        # Also after a lost response: what a failed call did shows in the next snapshot, so errors need no RESOLVE.
        if snapshot is not None and (snapshot.transaction_version(app_id) or 0) >= version:
            return
        adds = [self._add(file) for file in files]
        metadata = encode({"tidegate_letters": {"pipeline": key.pipeline, "source": key.source, "version": version}})
        note = CommitNote({app_id: version}, self._pace.now_ms(), metadata.decode())
        failpoint("state.letters.before")
        if snapshot is None:
            self.delta.create(letter_schema(), (), adds, note)
        else:
            check_table(snapshot.facts, self.uri)
            self._check_columns(snapshot.facts.schema_json)
            self.delta.append(snapshot, adds, note)
        # The debt is noted as paid after this; a power cut must not take letters that count as delivered.
        sync_entries(self.store, 0 if snapshot is None else snapshot.facts.version)
        failpoint("state.letters.after")
        self._checkpoint(0 if snapshot is None else snapshot.facts.version + 1, key)

    def _checkpoint(self, version: int, key: SourceKey) -> None:
        """Write a checkpoint every so many commits of the table, then clean its log; neither fails a commit."""
        if self._checkpoint_every <= 0 or (version + 1) % self._checkpoint_every:
            return
        try:
            self.delta.checkpoint()
            clean_log(self.store, datetime.fromtimestamp(self._pace.now_ms() / 1000, UTC), of_positions=False)
        # The letters are committed, and a missing checkpoint only makes the next load slower.
        except Exception as error:
            text = (
                f"Tidegate could not write a Delta checkpoint of the dead letters {self.uri} ({error}); it "
                "retries later"
            )
            self._emit(Notice(key.pipeline, key.source, text))

    def _check_columns(self, found: str) -> None:
        names = set(arrow_schema(found).names)
        missing = [name for name in LETTER_COLUMNS if name not in names]
        if missing:
            raise SchemaMismatch(
                f"{self.uri} is not a dead-letter table: it has no column {', '.join(missing)}",
                "give error_handling.dlq_path a path of its own",
            )

    def _add(self, file: DataFile) -> Add:
        try:
            found = self.store.head(file.path)
        except ObjectMissing as error:
            raise StateError(
                f"committed dead letters that were not yet visible are gone: {self.uri}/{file.path}",
                "put the file back from a backup; without one, write into a new table_uri, which reads all again",
            ) from error
        return file.to_add(found.modified)


def _open_letters(pipeline: str, source: str | None) -> str:
    """The part of a statement that selects open letters as ``l``."""
    mine = f"l.pipeline = {literal(pipeline)}" + (f" and l.source = {literal(source)}" if source else "")
    answered = f"select resolves from t where kind = '{RESOLUTION}' and resolves is not null"
    return (
        f"from t l left join ({answered}) r on l.id = r.resolves "
        f"where r.resolves is null and l.kind <> '{RESOLUTION}' and {mine}"
    )


def _app_id(opened: Position) -> str:
    """The owner of the letters: one source of one table; another table with the same names is another owner."""
    # Without the table's id, a table that was dropped and started over would find its versions taken, and lose its
    # letters.
    return f"{opened.key.app_id}/{opened.table_id}"
