"""The in-memory twin of the Delta adapter: a real log with the same conflicts, over any object store, without Delta.

It writes entries in Delta's form and decides conflicts as the library does, so that the whole protocol runs over it: in
the model test every interleaving, with ``memory://`` locations without a disk. There is no Parquet in it: a data file
is whatever bytes lie at its path.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from uuid import uuid4

from tidegate.errors import ObjectExists, TableError
from tidegate.protocol.log import DeltaLog, entry_path
from tidegate.protocol.table import (
    ActiveFile,
    Add,
    CommitNote,
    Snapshot,
    TableFacts,
    TableProtocol,
    TableSize,
    arrow_schema,
    log_path,
    schema_json,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.storage.port import ObjectStore

Action = Mapping[str, Any]


class Conflict(TableError):
    """Another commit since the base is in the way."""


@dataclass(frozen=True, slots=True)
class MemorySnapshot:
    """The log replayed up to one version."""

    facts: TableFacts
    transactions: Mapping[str, int]
    active: frozenset[str]

    def transaction_version(self, app_id: str) -> int | None:
        return self.transactions.get(app_id)

    def active_paths(self) -> frozenset[str]:
        return self.active

    def active_files(self) -> tuple[ActiveFile, ...]:
        return tuple(ActiveFile(path, log_path(path), 0, 0) for path in sorted(self.active))

    def size(self) -> TableSize:
        return TableSize(len(self.active), 0, 0)


def encode(actions: Sequence[Action]) -> bytes:
    return "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions).encode()


def decode(content: bytes) -> tuple[Action, ...]:
    return tuple(json.loads(line) for line in content.splitlines() if line.strip())


def replay(entries: Sequence[Sequence[Action]]) -> MemorySnapshot:
    """The table that these entries, from version 0 on, describe."""
    transactions: dict[str, int] = {}
    active: set[str] = set()
    metadata: Action = {}
    protocol: Action = {}
    for action in (action for entry in entries for action in entry):
        match action:
            case {"txn": txn}:
                transactions[txn["appId"]] = txn["version"]
            case {"add": add}:
                active.add(unquote(add["path"]))
            case {"remove": remove}:
                active.discard(unquote(remove["path"]))
            case {"metaData": found}:
                metadata = found
            case {"protocol": found}:
                protocol = found
    facts = TableFacts(
        version=len(entries) - 1,
        table_id=metadata["id"],
        protocol=TableProtocol(
            protocol["minReaderVersion"],
            protocol["minWriterVersion"],
            tuple(protocol.get("readerFeatures") or ()),
            tuple(protocol.get("writerFeatures") or ()),
        ),
        schema_json=metadata["schemaString"],
        partition_columns=tuple(metadata["partitionColumns"]),
        properties=dict(metadata.get("configuration") or {}),
    )
    return MemorySnapshot(facts, transactions, frozenset(active))


def in_the_way(ours: Sequence[Action], theirs: Sequence[Action]) -> str | None:
    """Why an append must not follow an entry it has not seen; None if it may."""
    apps = {action["txn"]["appId"] for action in ours if "txn" in action}
    for action in theirs:
        match action:
            case {"txn": {"appId": app}} if app in apps:
                return f"a concurrent transaction of {app}"
            case {"metaData": _}:
                return "the metadata changed"
            case {"protocol": _}:
                return "the protocol changed"
            # An OPTIMIZE removes with dataChange false, and appends go past it, as in the library.
            case {"remove": {"dataChange": True}}:
                return "data was deleted"
    return None


class MemoryDelta:
    """A table with its log in ``store``; without ``guarded`` as the library behaves without its creation guard."""

    def __init__(
        self, store: ObjectStore, *, guarded: bool = True, new_id: Callable[[], str] = lambda: str(uuid4())
    ) -> None:
        self._store = store
        self._guarded = guarded
        self._new_id = new_id

    def snapshot(self) -> Snapshot | None:
        versions = DeltaLog(self._store).versions()
        if not versions:
            return None
        return replay([decode(self._store.get(entry_path(version))) for version in versions])

    def create(
        self,
        schema: pa.Schema,
        partition_columns: tuple[str, ...],
        adds: Sequence[Add],
        note: CommitNote,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        facts = TableFacts(0, self._new_id(), TableProtocol(1, 2), "", partition_columns, properties or {})
        metadata = _metadata(facts, schema)
        protocol = {"minReaderVersion": 1, "minWriterVersion": 2}
        actions: list[Action] = [{"protocol": protocol}, {"metaData": metadata}, *_body(adds, note)]
        version = 0
        while True:
            try:
                self._store.put_if_absent(entry_path(version), encode([_info("CREATE TABLE", note), *actions]))
                return
            except ObjectExists as error:
                if self._guarded:
                    raise Conflict(f"there is a table at {self._store.location.uri}", "append to it") from error
                version += 1

    def rows(self, sql: str) -> Iterator[Mapping[str, Any]]:
        raise TableError("a table in memory cannot be asked in SQL", "use a table on disk")

    def append(self, base: Snapshot, adds: Sequence[Add], note: CommitNote) -> None:
        ours = [_info("WRITE", note), *_body(adds, note)]
        version = base.facts.version + 1
        while True:
            try:
                self._store.put_if_absent(entry_path(version), encode(ours))
                return
            except ObjectExists as error:
                reason = in_the_way(ours, decode(self._store.get(entry_path(version))))
                if reason is not None:
                    raise Conflict(f"cannot append: {reason} at version {version}", "load again") from error
                version += 1

    def replace(self, base: Snapshot, predicate: str, rows: pa.RecordBatchReader, note: CommitNote) -> None:
        """Always refused: without Parquet there are no rows to distinguish."""
        raise TableError(
            f"rows of {self._store.location.uri} cannot be replaced: a table in memory holds files, not rows",
            "replay into a table on disk or in object storage",
        )

    def replace_files(
        self, base: Snapshot, removed: Sequence[ActiveFile], adds: Sequence[Add], note: CommitNote
    ) -> None:
        removes = [file.to_remove(note.last_updated_ms, changes_data=True) for file in removed]
        self._follow(base, [_info("WRITE", note), *removes, *_body(adds, note)])

    def overwrite(self, base: Snapshot, rows: pa.RecordBatchReader, note: CommitNote) -> None:
        """New columns without a row: the old files leave."""
        if any(batch.num_rows for batch in rows):
            raise TableError("a table in memory holds files, not rows", "use a table on disk or in object storage")
        removed = [{"remove": {"path": log_path(path), "dataChange": True}} for path in sorted(base.active_paths())]
        metadata = {"metaData": _metadata(base.facts, rows.schema)}
        self._follow(base, [_info("WRITE", note), metadata, *removed, *_body((), note)])

    def all_rows(self, base: Snapshot) -> AbstractContextManager[Iterator[pa.RecordBatch]]:
        raise TableError("a table in memory holds files, not rows", "use a table on disk or in object storage")

    def add_columns(self, base: Snapshot, fields: Sequence[pa.Field]) -> None:
        import pyarrow

        new = {field.name: field for field in fields}
        kept = [new.pop(field.name, field) for field in arrow_schema(base.facts.schema_json)]
        metadata = _metadata(base.facts, pyarrow.schema([*kept, *new.values()]))
        self._follow(base, [{"commitInfo": {"operation": "ADD COLUMN"}}, {"metaData": metadata}])

    def set_properties(self, base: Snapshot, properties: Mapping[str, str]) -> None:
        known = _metadata(base.facts, arrow_schema(base.facts.schema_json))
        metadata = {**known, "configuration": {**base.facts.properties, **properties}}
        self._follow(base, [{"commitInfo": {"operation": "SET TBLPROPERTIES"}}, {"metaData": metadata}])

    def _follow(self, base: Snapshot, actions: Sequence[Action]) -> None:
        """Write these actions as the entry after ``base``, or not at all."""
        version = base.facts.version + 1
        try:
            self._store.put_if_absent(entry_path(version), encode(actions))
        except ObjectExists as error:
            raise Conflict(f"version {version} was taken", "load again") from error

    def checkpoint(self) -> None:
        """Do nothing: the log is replayed from its start."""


def _metadata(facts: TableFacts, schema: pa.Schema) -> Action:
    return {
        "id": facts.table_id,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema_json(schema),
        "partitionColumns": list(facts.partition_columns),
        "configuration": dict(facts.properties),
    }


def _info(operation: str, note: CommitNote) -> Action:
    return {
        "commitInfo": {
            "timestamp": note.last_updated_ms,
            "operation": operation,
            "userMetadata": note.user_metadata,
        }
    }


def _body(adds: Sequence[Add], note: CommitNote) -> list[Action]:
    return [*(add.to_action(changes_data=True) for add in adds), *note.to_actions()]
