"""The table port over the ``deltalake`` library, and rows of tables without Spark.

A watermark that a person sets, a fence, a failed file: such a change adds nothing to the table. Its entry has
``commitInfo`` and ``txn`` and is put at the next version if nobody was first, which is all that the Delta protocol
requires of a writer that adds no file, whatever features the table has. Only in-commit timestamps concern the entry
itself: they follow that of the entry before. Where whole files replace others, the entry has their actions as well, and
only tables that the library may append to and remove rows from get one.

The library's errors are mapped here, once. They are only shown: the outcome of a commit is read from the log.
"""

from __future__ import annotations

import json
import queue
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from tidegate.errors import StateError, StorageError, StorageUnavailable, TableError, TidegateError
from tidegate.protocol.documents import CommitTag, parse_tags
from tidegate.protocol.log import DIRECTORY, DeltaLog, LogEntry, entry_path, newest_checkpoint
from tidegate.protocol.table import (
    ActiveFile,
    Add,
    CommitNote,
    Snapshot,
    TableFacts,
    TableProtocol,
    TableSize,
    arrow_schema,
)
from tidegate.protocol.table_checks import check_protocol
from tidegate.specs.masking import Mask, shorten
from tidegate.storage.options import client_settings, of_scheme, retry_options, secrets, split_uri
from tidegate.storage.stores import open_store

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.specs.locations import Location
    from tidegate.storage.port import ObjectStore


Item = TypeVar("Item")

# Only for a better message than the library gives, so the search is bounded.
_PROTOCOL_SEARCH = 100
# 0.3 KB of memory each, for as long as the source is bound.
_KEPT_FILES = 20_000
"""A table with more files is loaded anew for each commit instead of being kept."""

_FEW = 8
_AHEAD = 4
# A put without a time limit would never notice that its consumer has gone, and join() would hang.
_LOOK_EVERY_SECS = 0.1
_STORAGE = re.compile(r"Generic \w+ error|Error performing [A-Za-z]+ ")
"""Marks in errors of the library that the store failed."""

_DECORATION = re.compile(r"\x1b\[[0-9;]*m|\s+0: <unknown>.*", re.DOTALL)
"""Colours and native stack traces in the library's messages."""


@dataclass(frozen=True, slots=True)
class DeltaSnapshot:
    """One loaded version of the table; some calls make the library read storage again."""

    facts: TableFacts
    table: Any
    map_errors: Callable[[str], AbstractContextManager[None]]
    newest: Callable[[], Iterable[LogEntry]] = tuple
    _positions: dict[str, int | None] = field(default_factory=dict)

    def transaction_version(self, app_id: str) -> int | None:
        if app_id not in self._positions:
            self._positions[app_id] = self._find_position(app_id)
        return self._positions[app_id]

    def _find_position(self, app_id: str) -> int | None:
        # The library reads every entry since the last checkpoint, and the checkpoint; the newest ``txn`` decides, and
        # the newest entry nearly always has it.
        for entry in self.newest():
            if app_id in entry.transactions:
                return entry.transactions[app_id]
        with self.map_errors("read a position of"):
            found = self.table.transaction_version(app_id)
        return None if found is None else int(found)

    def active_paths(self) -> frozenset[str]:
        with self.map_errors("list the files of"):
            column = self.table.get_add_actions(flatten=True).column("path")
        return frozenset(unquote(str(path)) for path in column.to_pylist())

    def active_files(self) -> tuple[ActiveFile, ...]:
        return tuple(_active(row, self.facts.partition_columns) for row in self.file_statistics())

    def size(self) -> TableSize:
        with self.map_errors("list the files of"):
            adds = self.table.get_add_actions(flatten=True)
            sizes = adds.column("size_bytes").to_pylist()
            rows = adds.column("num_records").to_pylist()
        return TableSize(len(sizes), sum(sizes), sum(each or 0 for each in rows))

    def file_statistics(self) -> list[dict[str, Any]]:
        """The log's statistics of each visible data file: ``path``, ``num_records``, ``max.COLUMN``, …"""
        with self.map_errors("list the files of"):
            found: list[dict[str, Any]] = self.table.get_add_actions(flatten=True).to_struct_array().to_pylist()
        return found

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(arrow_schema(self.facts.schema_json).names)

    def rows(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Its rows with only these columns, some thousands at a time, whatever is committed meanwhile."""
        import pyarrow
        from deltalake import QueryBuilder

        names = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
        with self.map_errors("read"):
            # Not to_pyarrow_table(): after it a short-lived process aborts at exit about every second time (code 134).
            for batch in QueryBuilder().register("t", self.table).execute(f"SELECT {names} FROM t"):
                yield pyarrow.record_batch(batch)


@dataclass(frozen=True, slots=True)
class _BaseTable:
    """A table as our commit to ``version`` found it, and what that commit is known by."""

    table: Any
    version: int
    tags: tuple[CommitTag, ...]

    def is_in(self, entry: LogEntry | None) -> bool:
        """Whether the log has that commit at that version: then what was loaded before it is still what is there."""
        return entry is not None and entry.tags == self.tags


class DeltaLakeTable:
    """The table at ``location``; ``store`` is the same place, for what the library does badly."""

    def __init__(self, location: Location, store: ObjectStore) -> None:
        if "%" in split_uri(location.uri)[2]:
            raise StorageError(
                f"table {location.uri}: the Delta library cannot open a path with a percent sign in it",
                "use another name for the table's directory",
            )
        self._location = location
        self._store = store
        # A list, because ``pop`` gives the table to one caller only: the library changes it in place.
        self._is_large = False
        self._kept: list[_BaseTable] = []

    @property
    def _options(self) -> dict[str, str]:
        """Options for the library: the same names, times, retries and endpoint as the store."""
        options, scheme = self._location.options, split_uri(self._location.uri)[0]
        if scheme == "file":
            return {}
        http = {name: str(value) for name, value in client_settings(options, scheme).items()}
        return http | retry_options(options) | of_scheme(options, scheme)

    def snapshot(self) -> Snapshot | None:
        return self._update_kept() or self._load_snapshot()

    def _update_kept(self) -> Snapshot | None:
        """The newest snapshot, from the table that our last commit was built on; None if it has to be loaded.

        On S3 loading takes two dozen requests, this takes four. The entry of our commit names its attempt, so a table
        that was dropped, made anew or put back from a backup meanwhile does not have it.
        """
        try:
            kept = self._kept.pop()
        except IndexError:
            return None
        log = DeltaLog(self._store)
        ours = log.entry(kept.version)
        if ours is None or not kept.is_in(ours):
            return None
        # What the library cannot bring up to date is loaded, and that says what is wrong.
        with suppress(TableError), self._map_errors("update"):
            kept.table.update_incremental()
            facts = _facts(kept.table)
            if facts.version >= kept.version:
                return DeltaSnapshot(facts, kept.table, self._map_errors, lambda: _newest(log, facts.version, ours))
        return None

    def _keep(self, base: DeltaSnapshot, note: CommitNote) -> None:
        """Keep the table that our commit was built on. If it was rebased, the log will not have it there."""
        tags = parse_tags(note.user_metadata)
        # It is only there to save requests, and the commit is durable.
        with suppress(TidegateError), self._map_errors("list the files of"):
            if tags and not self._is_large:
                self._is_large = base.table.get_add_actions().num_rows > _KEPT_FILES
            if tags and not self._is_large:
                self._kept[:] = [_BaseTable(base.table, base.facts.version + 1, tags)]

    def _load_snapshot(self) -> Snapshot | None:
        table = self._load()
        # The table may have been created between the two looks; only if a second load finds none is the log broken.
        if table is None and not DeltaLog(self._store).is_empty():
            table = self._load()
            if table is None:
                raise StateError(
                    f"{self._location.uri}/_delta_log has entries, but they do not make a table",
                    "the log is incomplete: put the missing entries back from a backup",
                )
        if table is None:
            return None
        facts = _facts(table)
        return DeltaSnapshot(facts, table, self._map_errors, lambda: DeltaLog(self._store).backwards(facts.version, 1))

    def _load(self) -> Any | None:
        from deltalake import DeltaTable

        try:
            with self._map_errors("load"):
                return DeltaTable(self._location.uri, storage_options=self._options)
        except _Missing:
            return None
        except TableError:
            self._explain()
            raise

    def _explain(self) -> None:
        """Name the feature if a table cannot be loaded because of one that the library does not know."""
        log = DeltaLog(self._store)
        # The caller raises what the library said; a search for a better message must not hide it.
        with suppress(StorageError):
            for entry in log.backwards(max(log.versions(), default=-1), _PROTOCOL_SEARCH):
                if entry.protocol is not None:
                    check_protocol(entry.protocol, self._location.uri)
                    return

    def create(
        self,
        schema: pa.Schema,
        partition_columns: tuple[str, ...],
        adds: Sequence[Add],
        note: CommitNote,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        from deltalake import Schema
        from deltalake.transaction import create_table_with_add_actions

        with self._map_errors("create"):
            create_table_with_add_actions(
                self._location.uri,
                Schema.from_arrow(schema),
                _adds(adds),
                # Of two creators both would win with the library's retries: rows doubled, table id replaced.
                mode="error",
                partition_by=list(partition_columns),
                configuration=dict(properties or {}),
                storage_options=self._options,
                **_settings(note),
            )

    def rows(self, sql: str, action: str = "read", *, needed: bool = False) -> Iterator[dict[str, Any]]:
        """The rows of ``sql`` over the newest version, named ``t``.

        Without a table: none, or :class:`TableError` if one is ``needed``.
        """
        from deltalake import QueryBuilder

        table = self._load()
        if table is None:
            if needed:
                raise TableError(f"cannot {action} table {self._location.uri}: it does not exist", "check table_uri")
            return
        with self._map_errors(action):
            for batch in QueryBuilder().register("t", table).execute(sql):
                yield from batch.to_struct_array().to_pylist()

    def append(self, base: Snapshot, adds: Sequence[Add], note: CommitNote) -> None:
        assert isinstance(base, DeltaSnapshot)
        with self._map_errors("append to"):
            base.table.create_write_transaction(
                _adds(adds),
                mode="append",
                schema=base.table.schema(),
                partition_by=list(base.facts.partition_columns),
                # The library's own retries stay on: it rebases over foreign appends, and refuses our app id since the
                # base.
                **_settings(note, retries=None),
            )
        self._keep(base, note)

    def replace(self, base: Snapshot, predicate: str, rows: pa.RecordBatchReader, note: CommitNote) -> None:
        self._overwrite("replace rows of", base, rows, note, predicate=predicate)

    def replace_files(
        self, base: Snapshot, removed: Sequence[ActiveFile], adds: Sequence[Add], note: CommitNote
    ) -> None:
        # An entry of our own: the library removes by a predicate only, and nothing in these rows says which they are.
        removes = [file.to_remove(note.last_updated_ms, changes_data=True) for file in removed]
        actions = [*removes, *(add.to_action(changes_data=True) for add in adds)]
        with self._map_errors("replace files of"):
            put_entry(self._store, base.facts, note, actions)

    def overwrite(self, base: Snapshot, rows: pa.RecordBatchReader, note: CommitNote) -> None:
        self._overwrite("replace the columns of", base, rows, note, schema_mode="overwrite")

    def _overwrite(
        self, action: str, base: Snapshot, rows: pa.RecordBatchReader, note: CommitNote, **what: Any
    ) -> None:
        from deltalake import write_deltalake

        assert isinstance(base, DeltaSnapshot)
        with self._map_errors(action):
            write_deltalake(
                base.table,
                rows,
                mode="overwrite",
                # No retries: removes that are rebased over a concurrent OPTIMIZE are accepted and bring rows back
                # twice.
                **_settings(note),
                **what,
            )

    @contextmanager
    def all_rows(self, base: Snapshot) -> Iterator[Iterator[pa.RecordBatch]]:
        assert isinstance(base, DeltaSnapshot)
        with self._map_errors("read"), _prefetch(base.rows(base.columns)) as batches:
            yield batches

    def add_columns(self, base: Snapshot, fields: Sequence[pa.Field]) -> None:
        import pyarrow
        from deltalake import Schema

        assert isinstance(base, DeltaSnapshot)
        with self._map_errors("add columns to"):
            base.table.alter.add_columns(Schema.from_arrow(pyarrow.schema(fields)).fields, **_settings())

    def set_properties(self, base: Snapshot, properties: Mapping[str, str]) -> None:
        assert isinstance(base, DeltaSnapshot)
        with self._map_errors("set properties of"):
            base.table.alter.set_table_properties(dict(properties), raise_if_not_exists=False, **_settings())

    def checkpoint(self) -> None:
        table = self._load()
        if table is not None:
            with self._map_errors("checkpoint"):
                table.create_checkpoint()
            if self._location.is_forced:
                self._store.sync([*newest_checkpoint(self._store)[1], f"{DIRECTORY}/_last_checkpoint"])

    @contextmanager
    def _map_errors(self, action: str) -> Iterator[None]:
        """Map everything that the library raises, including panics of its native code."""
        from deltalake.exceptions import DeltaError, TableNotFoundError

        try:
            yield
        except TidegateError:
            raise
        # A panic of the native code is a BaseException, not an Exception.
        except BaseException as error:
            problem = f"cannot {action} table {self._location.uri}: {self._message(error)}"
            if isinstance(error, TableNotFoundError):
                raise _Missing(problem) from error
            if type(error).__name__ == "PanicException":
                raise StorageUnavailable(problem, "retry") from error
            of_library = isinstance(error, (DeltaError, ValueError, TypeError)) or type(error) is Exception
            if isinstance(error, OSError) or (of_library and _STORAGE.search(str(error))):
                raise StorageUnavailable(problem, "check the storage and retry") from error
            if of_library:
                raise TableError(problem, "see the table's history") from error
            raise

    def _message(self, error: BaseException) -> str:
        """A foreign error on one line, without secrets."""
        masked = Mask.of(*secrets(self._location.options))(str(error))
        text = " ".join(_DECORATION.sub(" ", masked).split()).replace(" ↳ ", ": ")
        return f"{shorten(text)} ({type(error).__name__})"


class _Missing(TableError):
    """The library found no table."""


def _active(row: Mapping[str, Any], partition_columns: tuple[str, ...]) -> ActiveFile:
    values = tuple((name, _format_value(row.get(f"partition.{name}"))) for name in partition_columns)
    logged = str(row["path"])
    return ActiveFile(unquote(logged), logged, int(row["size_bytes"]), int(row["num_records"] or 0), values)


def _format_value(value: object) -> str | None:
    """A partition value in Delta's form."""
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case datetime():
            return value.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
        case date():
            return value.isoformat()
        case _:
            return str(value)


def _newest(log: DeltaLog, version: int, ours: LogEntry) -> Iterator[LogEntry]:
    """The newest entries, from ``version`` down to our own; those of others in between only if they are few."""
    since = version - ours.version
    found = list(log.backwards(version, min(since, _FEW)))
    yield from found
    # An entry that is gone may have had a newer position than ours.
    if len(found) == since:
        yield ours


def _facts(table: Any) -> TableFacts:
    protocol, metadata = table.protocol(), table.metadata()
    return TableFacts(
        version=int(table.version()),
        table_id=str(metadata.id),
        protocol=TableProtocol(
            protocol.min_reader_version,
            protocol.min_writer_version,
            tuple(protocol.reader_features or ()),
            tuple(protocol.writer_features or ()),
        ),
        schema_json=table.schema().to_json(),
        partition_columns=tuple(metadata.partition_columns),
        properties={name: str(value) for name, value in metadata.configuration.items()},
    )


def _adds(adds: Sequence[Add]) -> list[Any]:
    from deltalake.transaction import AddAction

    return [AddAction(add.path, add.size, dict(add.partition_values), add.modified_ms, True, add.stats) for add in adds]


def _settings(note: CommitNote | None = None, retries: int | None = 0) -> dict[str, Any]:
    """How the library commits: with the positions and tags of ``note``, and nothing afterwards."""
    from deltalake import CommitProperties, Transaction

    if note is None:
        properties = CommitProperties(max_commit_retries=retries)
    else:
        when = note.last_updated_ms
        properties = CommitProperties(
            app_transactions=[Transaction(app_id, version, when) for app_id, version in note.transactions.items()],
            custom_metadata={"userMetadata": note.user_metadata},
            max_commit_retries=retries,
        )
    return {"commit_properties": properties, "post_commithook_properties": no_hooks()}


def no_hooks() -> Any:
    """No checkpoint and no clean-up after a commit."""
    from deltalake import PostCommitHookProperties

    # A failing hook raises after the commit is durable, and its clean-up removes entries that OPEN still needs.
    return PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


def put_entry(store: ObjectStore, facts: TableFacts, note: CommitNote, files: Sequence[Mapping[str, Any]] = ()) -> None:
    """Write the entry after version ``facts.version``, which replaces ``files``; ``ObjectExists`` if there is one."""
    info: dict[str, Any] = {
        "timestamp": note.last_updated_ms,
        "operation": "WRITE",
        "operationParameters": {"mode": "Overwrite" if files else "Append", "partitionBy": "[]"},
        "isBlindAppend": not files,
        "userMetadata": note.user_metadata,
        "engineInfo": "tidegate",
    }
    if facts.properties.get("delta.enableInCommitTimestamps", "").lower() == "true":
        info = {"inCommitTimestamp": _next_timestamp(store, facts, note), **info}
    lines = [{"commitInfo": info}, *files, *note.to_actions()]
    content = "".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines)
    # Put-if-absent is the Delta protocol's own way to serialise writers; at a taken version RESOLVE decides.
    store.put_if_absent(entry_path(facts.version + 1), content.encode())


def _next_timestamp(store: ObjectStore, facts: TableFacts, note: CommitNote) -> int:
    """A timestamp later than that of the entry before, as the protocol requires."""
    before = DeltaLog(store).entry(facts.version)
    if before is None:
        raise StorageUnavailable(
            f"{store.location.uri}/{entry_path(facts.version)} is gone, so the time of the next entry is unknown",
            "retry",
        )
    if before.in_commit_ms is None:
        raise TableError(
            f"{store.location.uri}/{entry_path(facts.version)} has no in-commit timestamp, but the table requires it",
            "see the table's history",
        )
    return max(note.last_updated_ms, before.in_commit_ms + 1)


_LAST = "\U0010ffff"
"""Sorts after everything that may follow a prefix."""


def pin_table(location: Location) -> DeltaSnapshot | None:
    """The newest version of the table at ``location``, with fixed rows; None without a table."""
    snapshot = DeltaLakeTable(location, open_store(location)).snapshot()
    assert snapshot is None or isinstance(snapshot, DeltaSnapshot)
    return snapshot


def query(table: Location, sql: str) -> list[dict[str, Any]]:
    """The rows of ``sql`` over the newest version of ``table``, named ``t``."""
    return list(DeltaLakeTable(table, open_store(table)).rows(sql, needed=True))


def literal(text: str) -> str:
    """``text`` as an SQL literal.

    >>> print(literal("it's"))
    'it''s'
    """
    return "'" + text.replace("'", "''") + "'"


def rows_by_value(table: Location, column: str, prefix: str, *, outside: bool = False) -> Iterator[tuple[str, int]]:
    """The values of a text column that begin with ``prefix``, with the number of their rows.

    With ``outside``, all others: null comes as the empty text.
    """
    inside = f'"{column}" >= {literal(prefix)} AND "{column}" < {literal(prefix + _LAST)}'
    where = f'NOT ({inside}) OR "{column}" IS NULL' if outside else inside
    sql = f"SELECT coalesce(\"{column}\", '') AS value, count(*) AS n FROM t WHERE {where} GROUP BY 1"
    for row in DeltaLakeTable(table, open_store(table)).rows(sql, f"read column {column!r} of", needed=True):
        yield str(row["value"]), int(row["n"])


class _Stopped(BaseException):
    """The consumer has stopped."""


class _Prefetch(threading.Thread):
    """Reads ``source`` in a thread: the Delta library cannot read while it writes; both block the same native threads.

    Hands its items over; an exception is raised where they are taken.
    """

    def __init__(self, source: Iterable[object]) -> None:
        super().__init__(name="prefetch", daemon=True)
        self.stopped = threading.Event()
        self.error: Exception | None = None
        self._source = source
        self._items: queue.Queue[tuple[object, ...]] = queue.Queue(_AHEAD)

    def run(self) -> None:
        with suppress(_Stopped):
            try:
                for item in self._source:
                    self._put((item,))
            except Exception as error:
                self.error = error
            self._put(())

    def _put(self, item: tuple[object, ...]) -> None:
        while not self.stopped.is_set():
            try:
                return self._items.put(item, timeout=_LOOK_EVERY_SECS)
            except queue.Full:
                continue
        raise _Stopped

    def items(self) -> Iterator[object]:
        while item := self._items.get():
            yield item[0]
        if self.error is not None:
            raise self.error


@contextmanager
def _prefetch(source: Iterable[Item]) -> Iterator[Iterator[Item]]:
    """Read ``source`` in a thread while inside."""
    thread = _Prefetch(source)
    thread.start()
    try:
        yield thread.items()  # type: ignore[misc]  # the thread passes on the source's items
    finally:
        thread.stopped.set()
        thread.join()
