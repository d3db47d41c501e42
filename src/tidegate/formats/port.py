"""The port of file formats: files as streams of plain bytes, and blocks of decoded rows from files and dead letters.

A file is decompressed to its end or not at all: a missing end, a wrong checksum, bytes after the last member and
content other than declared are errors that name the file and the finding. Small files of a remote store are fetched
ahead: a group of thousands would otherwise wait for one response after the other. Only a few files are kept in memory.

A format converts some rows to columns at once, exactly or not at all, and one row to a JSON value. Rows that cannot be
converted at once are tried in groups, and then one by one by the strict reader of JSON lines.
"""

from __future__ import annotations

import io
import json
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, BinaryIO, NamedTuple, Protocol, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import zstandard
from isal import igzip_lib, isal_zlib

from tidegate.core.files.plan import FileSlice
from tidegate.errors import SourceError
from tidegate.formats.strict_lines import BadLine, RecordRules, StrictLineReader, Suspicious
from tidegate.reports.wording import count
from tidegate.schema.literals import Pairs
from tidegate.schema.types import arrow_schema
from tidegate.specs.files import Compression
from tidegate.storage.port import ObjectStore, SeekableInput

_PLAIN_READ = 1024 * 1024
_FEED = {Compression.GZIP: 128 * 1024, Compression.ZSTD: 8 * 1024}
"""Compressed bytes read at once."""

LARGEST_PIECE = 4 * 1024 * 1024
"""The most plain bytes passed on at once."""

_ZSTD_STEP = 1024
"""Compressed bytes per step of zstd, whose library does not limit the output of a step: four bytes may become 128 KiB,
so this is at most 32 MiB.
"""

LARGEST_WINDOW = 128 * 1024 * 1024
"""The most memory that a zstd frame may need to look back."""

_MAGIC = {Compression.GZIP: b"\x1f\x8b", Compression.ZSTD: b"\x28\xb5\x2f\xfd"}
_ENDINGS = {
    ".gz": Compression.GZIP,
    ".gzip": Compression.GZIP,
    ".zst": Compression.ZSTD,
    ".zstd": Compression.ZSTD,
}
_DECOMPRESSORS: dict[Compression, Callable[[], Any]] = {
    # 31 asks for a gzip header, and for its checksum to be verified.
    Compression.GZIP: lambda: isal_zlib.decompressobj(31),
    Compression.ZSTD: lambda: zstandard.ZstdDecompressor(max_window_size=LARGEST_WINDOW).decompressobj(),
}
_IsalError: type[Exception] = igzip_lib.IsalError  # type: ignore[assignment]  # its stub names an instance


def compression_of(path: str, declared: Compression) -> Compression:
    """Return the compression of a file: as declared, or for ``auto`` by its ending.

    >>> compression_of("date=2024-01-28/a.ndjson.gz", Compression.AUTO)
    <Compression.GZIP: 'gzip'>
    """
    if declared is not Compression.AUTO:
        return declared
    return _ENDINGS.get("." + path.lower().rpartition(".")[2], Compression.NONE)


def compression_by_content(first: bytes) -> Compression:
    """Detect the compression by the first bytes of a file."""
    return next((kind for kind, magic in _MAGIC.items() if first.startswith(magic)), Compression.NONE)


def chunks(raw: BinaryIO, path: str, declared: Compression) -> Iterator[bytes]:
    """Decompress ``raw`` piece by piece; raises :class:`SourceError` if it is truncated."""
    compression = compression_of(path, declared)
    first = raw.read(_FEED.get(compression, _PLAIN_READ))
    _check_beginning(path, first, compression, declared)
    pieces = _read_pieces(first, raw, compression)
    return pieces if compression is Compression.NONE else _decompress(pieces, path, compression)


def _read_pieces(first: bytes, raw: BinaryIO, compression: Compression) -> Iterator[bytes]:
    size = _FEED.get(compression, _PLAIN_READ)
    piece = first
    while piece:
        yield piece
        piece = raw.read(size)


def _decompress(pieces: Iterator[bytes], path: str, compression: Compression) -> Iterator[bytes]:
    """Decompress every member or frame, one after the other."""
    new = _DECOMPRESSORS[compression]
    step = _zstd_step if compression is Compression.ZSTD else _gzip_step
    member = new()
    members = 0
    try:
        for fed in pieces:
            rest = fed
            while rest:
                if member.eof:
                    # Zeros behind a gzip member are padding; anything else there is damage.
                    rest = rest.lstrip(b"\0") if compression is Compression.GZIP else rest
                    if not rest:
                        break
                    member, members = new(), members + 1
                plain, rest = step(member, rest)
                for start in range(0, len(plain), LARGEST_PIECE):
                    yield plain[start : start + LARGEST_PIECE]
    except (_IsalError, zstandard.ZstdError) as error:
        raise SourceError(
            f"{path}: {_describe_damage(compression, members, str(error))}", "write the file again"
        ) from error
    # A stream that was cut off raises no error: only its end is missing.
    if not member.eof:
        raise SourceError(f"{path}: the {compression} data is truncated", "write the whole file again")


def _gzip_step(member: Any, fed: bytes) -> tuple[bytes, bytes]:
    """Return some plain bytes, and the rest of ``fed``."""
    plain = member.decompress(fed, LARGEST_PIECE)
    return plain, member.unused_data if member.eof else member.unconsumed_tail


def _zstd_step(member: Any, fed: bytes) -> tuple[bytes, bytes]:
    plain = member.decompress(fed[:_ZSTD_STEP])
    return plain, (member.unused_data if member.eof else b"") + fed[_ZSTD_STEP:]


def _describe_damage(compression: Compression, members: int, error: str) -> str:
    if "too much memory" in error:
        return f"its zstd frames look back further than {LARGEST_WINDOW // 2**20} MiB, which is the limit"
    where = f"something other than a new member follows member {members}" if members else "it is damaged"
    return f"not valid {compression}, {where} ({error})"


def _check_beginning(path: str, first: bytes, compression: Compression, declared: Compression) -> None:
    expected = _MAGIC.get(compression, b"")
    detected = compression_by_content(first)
    if detected is compression or (expected and first and expected.startswith(first)):
        return
    because = "by its ending" if declared is Compression.AUTO else "as configured"
    looks = "empty" if not first else "plain text" if detected is Compression.NONE else f"{detected} data"
    what = "not compressed" if compression is Compression.NONE else f"compressed with {compression}"
    raise SourceError(
        f"{path}: should be {what} ({because}), but it is {looks}",
        "set `compression` of the source to what its files are, or write the file again",
    )


AHEAD = 16
_THREADS = 8


def place_in(raw: BinaryIO) -> int:
    """Return the position in a stream; 0 if it is no longer known."""
    try:
        return raw.tell()
    except (OSError, ValueError):
        return 0


class Fetcher:
    """Opens files of one store. Files announced by :meth:`expect` are opened in that order."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._is_local = store.location.uri.startswith(("file:", "memory:"))
        self._pool: ThreadPoolExecutor | None = None
        self._waiting: deque[FileSlice] = deque()
        self._fetched: dict[str, Future[bytes]] = {}

    def expect(self, slices: Sequence[FileSlice]) -> None:
        """Announce small files, in order."""
        if not self._is_local and len(slices) > 1:
            self._waiting = deque(slices)
            self._pool = self._pool or ThreadPoolExecutor(_THREADS, thread_name_prefix="fetch")

    def open(self, file: FileSlice, *, seeks: bool = False) -> BinaryIO:
        """Open exactly the listed object, with random access if the reader ``seeks``; raises as the store does."""
        if (fetched := self._take_prefetched(file)) is not None:
            return fetched
        if seeks:
            return cast(BinaryIO, SeekableInput(self._store, file.path, etag=file.etag, size=file.size))
        return self._store.open_input(file.path, etag=file.etag, size=file.size)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def _take_prefetched(self, file: FileSlice) -> BinaryIO | None:
        while self._pool is not None and self._waiting and len(self._fetched) < AHEAD:
            ahead = self._waiting.popleft()
            self._fetched[ahead.path] = self._pool.submit(self._read, ahead)
        fetched = self._fetched.pop(file.path, None)
        return None if fetched is None else io.BytesIO(fetched.result())

    def _read(self, file: FileSlice) -> bytes:
        with self._store.open_input(file.path, etag=file.etag, size=file.size) as raw:
            return raw.read()


GROUP = 256
"""Rows of a suspicious block that are tried together."""


class FormatReader(Protocol):
    """Reads files of one format into the declared columns, in bounded memory.

    ``unknown`` counts what the files have and the schema lacks, by path. ``noun`` is the word for a record. ``seeks``:
    files must be opened with random access.
    """

    noun: str
    seeks: bool

    @property
    def unknown(self) -> Counter[str]: ...

    def read(self, raw: BinaryIO, file: FileSlice) -> Iterator[Decoded]:
        """Yield the records from ``file.start_record`` on; raises ``SourceError`` for an unreadable file."""

    def reread(self, contents: Sequence[bytes], path: str) -> Decoded:
        """Decode the records in dead letters of the file at ``path``: content ``n`` is record ``n``."""


def scan(
    format: FormatReader, store: ObjectStore, slices: Iterable[FileSlice], remedy: str
) -> Iterator[pa.RecordBatch]:
    """Yield the records of these files; the first bad one raises :class:`SourceError`."""
    with closing(Fetcher(store)) as fetcher:
        for file in slices:
            with closing(fetcher.open(file, seeks=format.seeks)) as raw:
                name_record = partial("{}, {} {}".format, file.path, format.noun)
                yield from refuse_bad_records(format.read(raw, file), name_record, remedy)


def refuse_bad_records(
    blocks: Iterable[Decoded], name_record: Callable[[int], str], remedy: str
) -> Iterator[pa.RecordBatch]:
    """Yield the records of one file; raises :class:`SourceError` at the first bad one, named by its number from 1."""
    before = 0
    for decoded in blocks:
        if decoded.rejected:
            first = decoded.rejected[0]
            raise SourceError(f"{name_record(before + first.offset + 1)}: {first.reason}", remedy)
        before += decoded.lines
        yield decoded.batch


def check_start(file: FileSlice, records: int) -> None:
    """Raise :class:`SourceError` if a file has fewer records than are committed."""
    if records < file.start_record:
        raise SourceError(
            f"{file.path}: has {count(records, 'record')}, but {file.start_record:,} of its records are committed",
            "the file was truncated after it was read; restore it",
        )


class Rejected(NamedTuple):
    """Line ``offset`` (from 0) of the block is not a record."""

    offset: int
    reason: str
    text: bytes


@dataclass(frozen=True, slots=True)
class Decoded:
    """A block: its physical ``lines``, the records, and the lines that are none.

    ``offsets`` has the physical line of each record, from 0 at the block's beginning; None if record ``n`` is line
    ``n``. ``text`` gives a line as a dead letter keeps it, as long as the block is there; None if it is not.
    """

    batch: pa.RecordBatch
    lines: int
    offsets: npt.NDArray[np.int64] | None = None
    rejected: tuple[Rejected, ...] = ()
    text: Callable[[int], bytes] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of_good(cls, batch: pa.RecordBatch) -> Decoded:
        """Build a block without bad records."""
        return cls(batch, batch.num_rows)

    @classmethod
    def join(
        cls, batches: Sequence[pa.RecordBatch], schema: pa.Schema, lines: int, kept: Sequence[int], bad: list[Rejected]
    ) -> Decoded:
        """Join batches with the records on the lines ``kept``."""
        whole = one_batch(batches, schema)
        offsets = None if len(kept) == lines else np.array(kept, np.int64)
        return cls(whole, lines, offsets, tuple(sorted(bad, key=lambda rejection: rejection.offset)))

    def without(self, bad: Mapping[int, str]) -> Decoded:
        """Reject these records for the given reasons, and drop the text of the block."""
        if not bad:
            return replace(self, text=None) if self.text is not None else self
        places = np.arange(self.batch.num_rows) if self.offsets is None else self.offsets
        kept = np.setdiff1d(np.arange(self.batch.num_rows), list(bad))
        rejected = [Rejected(int(places[row]), reason, self._find_text(row, places)) for row, reason in bad.items()]
        every = tuple(sorted((*self.rejected, *rejected), key=lambda rejection: rejection.offset))
        return Decoded(self.batch.take(pa.array(kept)), self.lines, places[kept], every)

    def _find_text(self, row: int, places: npt.NDArray[np.int64]) -> bytes:
        if self.text is not None:
            return self.text(int(places[row]))
        (values,) = self.batch.slice(row, 1).to_pylist()
        return json.dumps(values, default=str, ensure_ascii=False).encode("utf-8", "backslashreplace")


def one_batch(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Concatenate batches."""
    if len(batches) == 1:
        return batches[0]
    joined = pa.Table.from_batches(batches, schema).combine_chunks().to_batches()
    return joined[0] if joined else pa.RecordBatch.from_pylist([], schema)


def batch_of(records: Iterable[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Convert records of Python values to a batch."""
    return pa.RecordBatch.from_struct_array(pa.array(records, pa.struct(list(schema))))


class Rows(Protocol):
    """A block of rows in the form of its format."""

    def __len__(self) -> int: ...

    def columns(self, start: int, end: int) -> dict[str, pa.Array]:
        """Rows from ``start`` to before ``end`` as declared columns, by name; raises :class:`Suspicious`."""

    def record(self, number: int) -> Pairs:
        """One row as a JSON object; raises :class:`BadLine`."""

    def to_text(self, number: int) -> bytes:
        """One row as a dead letter keeps it."""


class RowDecoder:
    """Decodes blocks of rows into the declared columns; missing columns are null."""

    def __init__(self, rules: RecordRules) -> None:
        self.schema = arrow_schema(rules.fields)
        self._filled = rules.filled
        self._reader = StrictLineReader(replace(rules, rescued=None))

    def decode(self, rows: Rows, lines: int, places: npt.NDArray[np.int64] | None = None) -> Decoded:
        """Decode a block of ``lines`` records; ``rows`` are those at ``places`` (None: all)."""

        def find_text(place: int) -> bytes:
            return rows.to_text(place if places is None else int(np.searchsorted(places, place)))

        try:
            return Decoded(self._decode_at_once(rows, 0, len(rows)), lines, places, text=find_text)
        except Suspicious:
            pass
        batches: list[pa.RecordBatch] = []
        kept: list[int] = []
        bad: list[tuple[int, str]] = []
        for start in range(0, len(rows), GROUP):
            end = min(start + GROUP, len(rows))
            try:
                batches.append(self._decode_at_once(rows, start, end))
                kept.extend(range(start, end))
            except Suspicious:
                self._decode_one_by_one(rows, range(start, end), batches, kept, bad)
        all_places = np.arange(len(rows)) if places is None else places
        rejected = [Rejected(int(all_places[number]), reason, rows.to_text(number)) for number, reason in bad]
        return replace(Decoded.join(batches, self.schema, lines, all_places[kept].tolist(), rejected), text=find_text)

    def _decode_one_by_one(
        self, rows: Rows, numbers: range, batches: list[pa.RecordBatch], kept: list[int], bad: list[tuple[int, str]]
    ) -> None:
        records: list[dict[str, Any]] = []
        for number in numbers:
            try:
                records.append(self._reader.record(rows.record(number)))
            except BadLine as error:
                alone = self._try_alone(rows, number)
                if alone is None:
                    bad.append((number, str(error)))
                    continue
                batches += [batch_of(records, self.schema), alone]
                records = []
            kept.append(number)
        batches.append(batch_of(records, self.schema))

    def _try_alone(self, rows: Rows, number: int) -> pa.RecordBatch | None:
        """Decode a row without a JSON form: among good rows it would pass, and neighbours must not decide."""
        try:
            return self._decode_at_once(rows, number, number + 1)
        except Suspicious:
            return None

    def _decode_at_once(self, rows: Rows, start: int, end: int) -> pa.RecordBatch:
        columns = rows.columns(start, end)
        arrays = [
            columns[field.name] if field.name in columns else pa.nulls(end - start, field.type) for field in self.schema
        ]
        for column, array in zip(self.schema, arrays, strict=True):
            # Arrow itself accepts nulls in a column that must have none.
            if not column.nullable and array.null_count:
                raise Suspicious(f"a null in {column.name}")
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        if any(pc.any(pc.equal(batch.column(name), "")).as_py() for name in self._filled):
            raise Suspicious("an empty text in a column that must be filled")
        return batch
