"""Blocks of the ledger: what 256 positions brought, in one immutable Parquet file below the source's directory.

One row per range of a file that a commit covered, and one without a file for a commit that covered none; what
belongs to the whole commit is repeated in its rows, except the lists of data files, which its first row has.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tidegate.errors import ObjectMissing, StateError
from tidegate.state.documents import SCHEMA_VERSION, Parent, check_schema_version
from tidegate.state.files import Coverage
from tidegate.state.identity import SourceKey
from tidegate.state.ledger_entry import LedgerEntry
from tidegate.state.ranged import Ranged

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.storage.port import ObjectStore

SIZE = 256
ROWS_PER_GROUP = 65_536
WHOLE_UP_TO = 32 * 1024 * 1024
_ROWS_PER_BATCH = 16_384
_NAME = re.compile(r"(\d{20})-(\d{20})\.parquet")
_VERSION_KEY = b"tidegate.schema_version"


@dataclass(frozen=True, slots=True)
class Block:
    """The positions ``first`` to ``last``; ``size`` is that of the file in bytes."""

    first: int
    last: int
    path: str
    size: int


def first_of(version: int) -> int:
    """Where the block that holds a position begins.

    >>> first_of(1), first_of(256), first_of(257)
    (1, 1, 257)
    """
    return (version - 1) // SIZE * SIZE + 1


def block_path(key: SourceKey, first: int) -> str:
    """Where the block that begins at ``first`` lies, relative to the table."""
    return f"{key.ledger}/{first:020d}-{first + SIZE - 1:020d}.parquet"


def parse_block(key: SourceKey, path: str, size: int = 0) -> Block | None:
    """The block of that name; None for any other object."""
    match = _NAME.fullmatch(path.removeprefix(f"{key.ledger}/"))
    return None if match is None else Block(int(match[1]), int(match[2]), path, size)


def blocks(store: ObjectStore, key: SourceKey, start: int = 1) -> Iterator[Block]:
    """The blocks with positions from ``start`` on, ascending."""
    for found in store.list(key.ledger, f"{key.ledger}/{first_of(start):020d}"):
        block = parse_block(key, found.path, found.size)
        if block is not None:
            yield block


def find_block(store: ObjectStore, key: SourceKey, version: int) -> Block | None:
    """The block that holds a position, None when there is none yet."""
    path = block_path(key, first_of(version))
    try:
        return parse_block(key, path, store.head(path).size)
    except ObjectMissing:
        return None


@lru_cache(maxsize=1)
def schema() -> pa.Schema:
    """The columns of a block."""
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
    """The content of a block; the same entries give the same bytes."""
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
    """Write batches as one Parquet file, row group by row group; gives the number of rows."""
    import pyarrow.parquet as pq

    rows = 0
    with pq.ParquetWriter(sink, columns, compression="zstd") as writer:
        for part in parts:
            writer.write_batch(part.replace_schema_metadata(columns.metadata))
            rows += part.num_rows
    return rows


def batches(entries: Iterable[LedgerEntry]) -> Iterator[pa.RecordBatch]:
    """Entries as rows, as many to a batch as a row group holds."""
    import pyarrow as pa

    waiting: list[dict[str, Any]] = []
    for entry in entries:
        waiting.extend(_rows(entry))
        if len(waiting) >= ROWS_PER_GROUP:
            yield pa.RecordBatch.from_pylist(waiting, schema())
            waiting = []
    if waiting:
        yield pa.RecordBatch.from_pylist(waiting, schema())


def _rows(entry: LedgerEntry) -> Iterator[dict[str, Any]]:
    parent = entry.parent
    common = {
        "position": entry.version,
        "attempt": entry.attempt,
        "action": entry.action,
        "committed_at": datetime.fromisoformat(entry.written_at) if entry.written_at else None,
        "table_version": entry.table_version,
        "commit_rows": entry.rows,
        "watermark_state": entry.watermark_state,
        "watermark": entry.watermark,
        "gap": entry.gap,
        "sha256": entry.sha256,
        "parent_position": None if parent is None else parent.version,
        "parent_attempt": None if parent is None else parent.attempt,
        "parent_sha256": None if parent is None else parent.sha256,
    }
    lists = {"data_files": list(entry.data_files), "dead_letter_files": list(entry.dead_letter_files)}
    for number, item in enumerate(entry.coverage or (None,)):
        covered = {} if item is None else item.to_json()
        yield {**common, **covered, **(lists if number == 0 else {})}


def read_block(store: ObjectStore, block: Block) -> Iterator[LedgerEntry]:
    """The entries of a block, ascending; ``StateError`` when it is damaged or a newer Tidegate wrote it."""
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


def read_batches(store: ObjectStore, block: Block) -> Iterator[pa.RecordBatch]:
    """The rows of a block; a small one is fetched by one request, a large one piece by piece."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        whole = block.size <= WHOLE_UP_TO
        file = pq.ParquetFile(io.BytesIO(store.get(block.path)) if whole else Ranged(store, block.path))
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
    """The entries in one batch; the last one may go on in the next."""
    columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
    positions = columns["position"]
    begin = 0
    for end in range(1, len(positions) + 1):
        if end < len(positions) and positions[end] == positions[begin]:
            continue
        yield _entry(columns, begin, end)
        begin = end


def _entry(columns: dict[str, list[Any]], begin: int, end: int) -> LedgerEntry:
    """The entry that the rows ``begin <= n < end`` hold."""
    row = {name: values[begin] for name, values in columns.items()}
    ranges = ("file", "size", "etag", "from", "to", "eof", "rows", "bad")
    covered = zip(*(columns[name][begin:end] for name in ranges), strict=True)
    parent = row["parent_position"]
    moment = row["committed_at"]
    return LedgerEntry(
        version=row["position"],
        attempt=row["attempt"],
        action=row["action"],
        written_at="" if moment is None else moment.isoformat(),
        table_version=row["table_version"],
        rows=row["commit_rows"],
        coverage=tuple(Coverage(*values) for values in covered if values[0] is not None),
        data_files=tuple(row["data_files"] or ()),
        gap=row["gap"],
        sha256=row["sha256"],
        parent=None if parent is None else Parent(parent, row["parent_attempt"], row["parent_sha256"]),
        watermark_state=row["watermark_state"],
        watermark=row["watermark"],
        dead_letter_files=tuple(row["dead_letter_files"] or ()),
    )
