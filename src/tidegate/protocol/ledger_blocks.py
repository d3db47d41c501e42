"""Entries of the ledger, and its blocks: what 256 positions brought, in one immutable Parquet file.

One row per range of a file that a commit covered, and one without a file for a commit that covered none; fields of the
whole commit are repeated in its rows, except the lists of data files, which only its first row has.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from tidegate.errors import ObjectMissing, StateError
from tidegate.protocol.change import Coverage, SourceKey, State
from tidegate.protocol.documents import SCHEMA_VERSION, Document, Parent, Won, check_schema_version
from tidegate.storage.port import ObjectStore, SeekableInput

if TYPE_CHECKING:
    import pyarrow as pa


REPLAYED_FILES = "replay of data files"
"""The action of a replay that took whole data files; ``replay`` found its rows by a predicate."""

PASS_OVER_NOTHING = frozenset(
    {
        "run",
        "commit",
        "reconcile",
        "replay",
        REPLAYED_FILES,
        "dlq retry",
        "dlq discard",
        "recover",
        "watermark reset",
        "units reset",
        "units retry",
        "schema replace",
    }
)
"""Actions of commits that finish only what they, or earlier commits, cover."""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """The winner of one position.

    ``written_at`` is ISO 8601 in UTC, just before the commit. ``table_version`` is None if it was not recorded.
    ``data_files`` are paths relative to the table. ``watermark_state`` and ``watermark`` are those after the commit.
    ``gap`` is None, or says why only the position is known: then its coverage is unknown, not empty.
    """

    version: int
    attempt: str
    action: str
    written_at: str
    table_version: int | None
    rows: int
    coverage: tuple[Coverage, ...]
    data_files: tuple[str, ...]
    gap: str | None = None
    sha256: str | None = None
    parent: Parent | None = None
    watermark_state: str | None = None
    watermark: str | None = None
    dead_letter_files: tuple[str, ...] = ()

    @property
    def moves(self) -> bool:
        """Whether a command moved the position past files that nothing covers: only its document names them."""
        return self.gap is None and self.action not in PASS_OVER_NOTHING


Describe = Callable[[State], tuple[str | None, str | None]]
"""The name of a recorded state, such as ``Active``, and its watermark; each None if it has none."""


def describe_state(state: State) -> tuple[str | None, str | None]:
    """Take both from the document, where most kinds of state have them under ``watermark``."""
    match state.get("watermark"):
        case {"state": str(name), "value": str(value)}:
            return name, value
        case {"state": str(name)}:
            return name, None
        case str(text):
            return "Active", text
        case _:
            return None, None


def from_document(
    document: Document, sha256: str, note: Won | None, describe: Describe = describe_state
) -> LedgerEntry:
    """The entry of a winner's document and its note; ``ValueError`` if its time is unreadable."""
    state, value = describe(document.state)
    return LedgerEntry(
        version=document.version,
        attempt=document.attempt,
        action=document.action,
        written_at=datetime.fromisoformat(document.written_at).astimezone(UTC).isoformat(),
        table_version=None if note is None else note.table_version,
        rows=document.rows,
        coverage=document.coverage,
        data_files=tuple(file.path for file in document.data_files) or (() if note is None else note.added),
        sha256=sha256,
        parent=document.parent,
        watermark_state=state,
        watermark=value,
        dead_letter_files=tuple(file.path for file in document.dead_letter_files),
    )


def gap(version: int, reason: str, attempt: str = "", sha256: str | None = None) -> LedgerEntry:
    """The entry of a committed position about which nothing else is known."""
    return LedgerEntry(version, attempt, "unknown", "", None, 0, (), (), gap=reason, sha256=sha256)


# Decision 0006: some ten thousand rows, read by one request, and at most 511 documents wait.
SIZE = 256
ROWS_PER_GROUP = 65_536
# One request for all of a usual block; a source with very many files per commit has blocks that should not be in memory
# whole.
WHOLE_UP_TO = 32 * 1024 * 1024
_ROWS_PER_BATCH = 16_384
_NAME = re.compile(r"(\d{20})-(\d{20})\.parquet")
_VERSION_KEY = b"tidegate.schema_version"
_RANGE = {
    "file": "file",
    "size": "size",
    "etag": "etag",
    "from": "start",
    "to": "end",
    "eof": "eof",
    "rows": "rows",
    "bad": "bad",
}
_LISTS = ("data_files", "dead_letter_files")
_OF_COMMIT = {
    "position": "version",
    "commit_rows": "rows",
    **{name: name for name in ("attempt", "action", "table_version", "watermark_state", "watermark", "gap", "sha256")},
}
"""Columns that repeat a field of the entry."""


@dataclass(frozen=True, slots=True)
class LedgerBlock:
    """The positions ``first`` to ``last``; ``size`` is that of the file in bytes."""

    first: int
    last: int
    path: str
    size: int


def first_of(version: int) -> int:
    """The start of the block with a position.

    >>> first_of(1), first_of(256), first_of(257)
    (1, 1, 257)
    """
    return (version - 1) // SIZE * SIZE + 1


def block_path(key: SourceKey, first: int) -> str:
    """The path of the block that begins at ``first``, relative to the table."""
    return f"{key.ledger}/{first:020d}-{first + SIZE - 1:020d}.parquet"


def parse_block(key: SourceKey, path: str, size: int = 0) -> LedgerBlock | None:
    """The block with that name; None for any other object."""
    match = _NAME.fullmatch(path.removeprefix(f"{key.ledger}/"))
    return None if match is None else LedgerBlock(int(match[1]), int(match[2]), path, size)


def blocks(store: ObjectStore, key: SourceKey, start: int = 1) -> Iterator[LedgerBlock]:
    """The blocks with positions from ``start`` on, ascending."""
    for found in store.list(key.ledger, f"{key.ledger}/{first_of(start):020d}"):
        block = parse_block(key, found.path, found.size)
        if block is not None:
            yield block


def find_block(store: ObjectStore, key: SourceKey, version: int) -> LedgerBlock | None:
    """The block with a position; None if there is none yet."""
    path = block_path(key, first_of(version))
    try:
        return parse_block(key, path, store.head(path).size)
    except ObjectMissing:
        return None


@lru_cache(maxsize=1)
def schema() -> pa.Schema:
    import pyarrow as pa

    text, number = pa.string(), pa.int64()
    return pa.schema(
        [
            pa.field("position", number, nullable=False),
            pa.field("attempt", text, nullable=False),
            pa.field("action", text, nullable=False),
            ("committed_at", pa.timestamp("us", "UTC")),
            ("table_version", number),
            ("file", text),
            ("size", number),
            ("etag", text),
            ("from", number),
            ("to", number),
            ("eof", pa.bool_()),
            ("rows", number),
            ("bad", number),
            ("commit_rows", number),
            ("watermark_state", text),
            ("watermark", text),
            ("gap", text),
            ("sha256", text),
            ("parent_position", number),
            ("parent_attempt", text),
            ("parent_sha256", text),
            ("data_files", pa.list_(text)),
            ("dead_letter_files", pa.list_(text)),
        ]
    )


def encode(key: SourceKey, entries: Iterable[LedgerEntry]) -> bytes:
    """The content of a block; equal entries give equal bytes."""
    sink = io.BytesIO()
    write(sink, batches(entries), schema().with_metadata(_about(key)))
    return sink.getvalue()


def _about(key: SourceKey) -> dict[bytes, bytes]:
    return {
        _VERSION_KEY: str(SCHEMA_VERSION).encode(),
        b"tidegate.pipeline": key.pipeline.encode(),
        b"tidegate.source": key.source.encode(),
    }


def write(sink: Any, parts: Iterable[pa.RecordBatch], columns: pa.Schema) -> int:
    """Write batches as one Parquet file, row group by row group, and return the number of rows."""
    import pyarrow.parquet as pq

    rows = 0
    with pq.ParquetWriter(sink, columns, compression="zstd") as writer:
        for part in parts:
            writer.write_batch(part.replace_schema_metadata(columns.metadata))
            rows += part.num_rows
    return rows


def batches(entries: Iterable[LedgerEntry]) -> Iterator[pa.RecordBatch]:
    """Entries as rows; a batch is about a row group."""
    waiting: list[LedgerEntry] = []
    rows = 0
    for entry in entries:
        waiting.append(entry)
        rows += len(entry.coverage) or 1
        if rows >= ROWS_PER_GROUP:
            yield _batch(waiting)
            waiting, rows = [], 0
    if waiting:
        yield _batch(waiting)


def _batch(entries: Sequence[LedgerEntry]) -> pa.RecordBatch:
    """The rows of whole entries; fields of a commit are made once and repeated."""
    import pyarrow as pa

    covered = [(number, item) for number, entry in enumerate(entries) for item in entry.coverage or (None,)]
    heads = [_head(entry) for entry in entries]
    owners = pa.array([number for number, _ in covered], pa.int64())
    columns: list[pa.Array] = []
    for column in schema():
        if column.name in _RANGE:
            read = attrgetter(_RANGE[column.name])
            columns.append(pa.array([None if item is None else read(item) for _, item in covered], column.type))
        elif column.name in _LISTS:
            columns.append(pa.array(_on_first_rows([head[column.name] for head in heads], covered), column.type))
        else:
            columns.append(pa.array([head[column.name] for head in heads], column.type).take(owners))
    return pa.RecordBatch.from_arrays(columns, schema=schema())


def _on_first_rows(lists: Sequence[Any], covered: Sequence[tuple[int, Coverage | None]]) -> list[Any]:
    return [None if row and covered[row - 1][0] == number else lists[number] for row, (number, _) in enumerate(covered)]


def _head(entry: LedgerEntry) -> dict[str, Any]:
    parent = entry.parent
    return {name: getattr(entry, each) for name, each in _OF_COMMIT.items()} | {
        "committed_at": datetime.fromisoformat(entry.written_at) if entry.written_at else None,
        "parent_position": None if parent is None else parent.version,
        "parent_attempt": None if parent is None else parent.attempt,
        "parent_sha256": None if parent is None else parent.sha256,
        "data_files": entry.data_files,
        "dead_letter_files": entry.dead_letter_files,
    }


def read_block(store: ObjectStore, block: LedgerBlock) -> Iterator[LedgerEntry]:
    """The entries of a block, ascending; ``StateError`` if it is damaged or from a newer Tidegate."""
    waiting: LedgerEntry | None = None
    for batch in read_batches(store, block):
        for entry in entries_in(batch):
            if waiting is not None and waiting.version == entry.version:
                waiting = replace(waiting, coverage=waiting.coverage + entry.coverage)
                continue
            if waiting is not None:
                yield waiting
            waiting = entry
    if waiting is not None:
        yield waiting


def read_batches(store: ObjectStore, block: LedgerBlock) -> Iterator[pa.RecordBatch]:
    """The rows of a block; a small one is fetched in one request, a large one piece by piece."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        whole = block.size <= WHOLE_UP_TO
        file = pq.ParquetFile(io.BytesIO(store.get(block.path)) if whole else SeekableInput(store, block.path))
        metadata = file.schema_arrow.metadata or {}
        check_schema_version({"schema_version": int(metadata.get(_VERSION_KEY, b"0"))}, block.path)
        yield from file.iter_batches(_ROWS_PER_BATCH, columns=schema().names)
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise StateError(
            f"block {store.location.uri}/{block.path} of the ledger cannot be read ({error})",
            "put it back from a backup; what positions "
            f"{block.first} to {block.last} covered is unknown without it, the table itself is not touched",
        ) from error


def entries_in(batch: pa.RecordBatch) -> Iterator[LedgerEntry]:
    """The entries in one batch; the last one may continue in the next."""
    positions = batch.column("position").to_pylist()
    begins = [row for row, position in enumerate(positions) if not row or positions[row - 1] != position]
    heads = batch.take(begins).drop_columns(list(_RANGE)).to_pylist()
    ranges = zip(*(batch.column(name).to_pylist() for name in _RANGE), strict=True)
    covered = [None if values[0] is None else Coverage(*values) for values in ranges]
    for head, begin, end in zip(heads, begins, [*begins[1:], len(positions)], strict=True):
        yield _entry(head, tuple(item for item in covered[begin:end] if item is not None))


def _entry(head: dict[str, Any], coverage: tuple[Coverage, ...]) -> LedgerEntry:
    parent, moment = head["parent_position"], head["committed_at"]
    return LedgerEntry(
        **{each: head[name] for name, each in _OF_COMMIT.items()},
        written_at="" if moment is None else moment.isoformat(),
        coverage=coverage,
        data_files=tuple(head["data_files"] or ()),
        parent=None if parent is None else Parent(parent, head["parent_attempt"], head["parent_sha256"]),
        dead_letter_files=tuple(head["dead_letter_files"] or ()),
    )
