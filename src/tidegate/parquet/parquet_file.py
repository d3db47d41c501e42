"""One growing Parquet file: rows collect in Arrow form, become row groups, and end as a finished file.

Every block is parsed into some tens of megabytes that live for a moment. The C library returns such pieces to the
kernel at once, which hands them out again page by page, each zeroed first: a tenth of a task's time. Kept pieces cost
nothing; the peak stays the same.

A data file records, per source file, the range of records of its rows.

A dictionary pays off if values repeat; otherwise it costs time and space. Whole numbers, dates and moments that do not
repeat are written as differences (``DELTA_BINARY_PACKED``), which halves them and takes less time than plain.
"""

from __future__ import annotations

import ctypes
import io
import resource
import secrets
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidegate.failpoints import failpoint
from tidegate.parquet.partitions import Partition
from tidegate.parquet.statistics import delta_statistics, float_columns
from tidegate.protocol.change import DataFile, RecordRange
from tidegate.specs.table import ParquetCodec
from tidegate.storage.port import Output


def uuid7() -> str:
    """A version 7 UUID: milliseconds, then the microseconds within them, then 62 random bits."""
    nanoseconds = time.time_ns()
    milliseconds, rest = divmod(nanoseconds, 1_000_000)
    # In the 12 bits that are free: names of one process then sort in the order in which they were made.
    fraction = rest * 4096 // 1_000_000
    value = (milliseconds & (2**48 - 1)) << 80 | 0x7 << 76 | fraction << 64 | 0b10 << 62 | secrets.randbits(62)
    return str(uuid.UUID(int=value))


_MEGABYTE = 1024 * 1024
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
_SETTINGS = {_TRIM_THRESHOLD: 1024 * _MEGABYTE, _TOP_PAD: 64 * _MEGABYTE, _MMAP_THRESHOLD: 32 * _MEGABYTE}
_OTHER_FILES = 256
"""Other open files and connections of a process."""


@cache
def keep_memory() -> bool:
    """Ask the C library, once per process, to keep freed memory; False if it is not glibc."""
    try:
        tell = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return all(list(map(tell, _SETTINGS.keys(), _SETTINGS.values())))


@cache
def files_at_once(wanted: int) -> int:
    """How many files this process may have open for writing, at most ``wanted``; raises its limit if possible."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    needed = wanted + _OTHER_FILES
    if soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(hard, needed)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return min(wanted, max(soft - _OTHER_FILES, soft // 2))


Lines = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RowOrigin:
    """The rows of one block of lines. File ``n`` begins at line ``starts[n]`` of the block.

    ``lines`` has the line of each row in the block, ascending if there are several files; ``first_line`` is the line of
    the file at which the block begins, if there is one file.
    """

    files: tuple[str, ...]
    starts: Lines
    lines: Lines
    first_line: int = 0

    @classmethod
    def of_file(cls, file: str, lines: Lines, first_line: int = 0) -> RowOrigin:
        """Rows of one file."""
        return cls((file,), np.zeros(1, np.int64), lines, first_line)

    @classmethod
    def join(cls, origins: Sequence[RowOrigin]) -> RowOrigin:
        """Join the rows of several blocks, one after the other, into one block."""
        files: list[str] = []
        starts: list[int] = []
        lines: list[Lines] = []
        end = 0
        for origin in origins:
            follows = len(origin.files) == 1 and files[-1:] == list(origin.files)
            begin = starts[-1] if follows else end
            if not follows:
                files.extend(origin.files)
                starts.extend((origin.starts + begin).tolist())
            lines.append(origin.lines + (begin + origin.first_line))
            end = max(end, int(lines[-1].max(initial=0)) + 1, starts[-1] + 1)
        return cls(tuple(files), np.array(starts), np.concatenate(lines))

    def of(self, rows: slice | Lines) -> RowOrigin:
        """The origin of some of the rows."""
        return RowOrigin(self.files, self.starts, self.lines[rows], self.first_line)

    def ranges(self) -> tuple[RecordRange, ...]:
        """Return the records from the first to the last row, per file with rows here."""
        if not len(self.lines):
            return ()
        if len(self.files) == 1:
            return (self._range(0, self.lines),)
        numbers = np.searchsorted(self.starts, self.lines, side="right") - 1
        with_rows, firsts = np.unique(numbers, return_index=True)
        return tuple(
            self._range(int(number), lines)
            for number, lines in zip(with_rows, np.split(self.lines, firsts[1:]), strict=True)
        )

    def _range(self, number: int, lines: Lines) -> RecordRange:
        shift = self.first_line - int(self.starts[number])
        return RecordRange(self.files[number], int(lines.min()) + shift, int(lines.max()) + shift + 1)


class Covering:
    """The ranges of one growing data file: one per source file, in order of arrival."""

    def __init__(self) -> None:
        self._spans: dict[str, tuple[int, int]] = {}

    def add(self, ranges: tuple[RecordRange, ...]) -> None:
        """Add ranges; two ranges of one source file become one that spans both."""
        for interval in ranges:
            start, end = self._spans.get(interval.file, (interval.start, interval.end))
            self._spans[interval.file] = (min(start, interval.start), max(end, interval.end))

    def ranges(self) -> tuple[RecordRange, ...]:
        return tuple(RecordRange(file, start, end) for file, (start, end) in self._spans.items())


SAMPLED_ROWS, _LEAST_SAMPLED = 8192, 512
_WORTHWHILE = 0.5


@dataclass(frozen=True, slots=True)
class Encodings:
    """Parquet column paths with a dictionary, and those written as differences."""

    dictionaries: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()

    def options(self) -> dict[str, Any]:
        """The encodings as arguments of ``pq.ParquetWriter``."""
        return {
            "use_dictionary": list(self.dictionaries),
            "column_encoding": dict.fromkeys(self.differences, "DELTA_BINARY_PACKED") or None,
        }


def choose_encodings(batch: pa.RecordBatch) -> Encodings:
    """Choose the encodings of a file that begins with ``batch``; of a short one a quarter is examined."""
    dictionaries = []
    differences = []
    sample = min(SAMPLED_ROWS, max(batch.num_rows // 4, _LEAST_SAMPLED))
    columns = list(leaves(batch.slice(0, sample)))
    times = Counter(path for path, _ in columns)
    for path, values in columns:
        if times[path] > 1:  # ``a.b`` may be a column or a field of the struct ``a``: they cannot be told apart
            continue
        if _repeats(values):
            dictionaries.append(path)
        elif _is_whole(values.type):
            differences.append(path)
    return Encodings(tuple(dictionaries), tuple(differences))


_AGREEING, _LOOK_AGAIN = 8, 32


class ChosenEncodings:
    """Encodings of many short files: those of earlier files, once several have agreed; now and then one is examined.

    Examining a file of two thousand rows takes a third of the time of writing it.
    """

    def __init__(self) -> None:
        self._schema: pa.Schema | None = None
        self._usual = Encodings()
        self._agreeing = self._taken = 0

    def of(self, batch: pa.RecordBatch) -> Encodings:
        """Choose the encodings of a file that begins with ``batch``."""
        is_known = batch.num_rows < SAMPLED_ROWS and self._schema is not None and batch.schema.equals(self._schema)
        if is_known and self._agreeing >= _AGREEING and self._taken < _LOOK_AGAIN:
            self._taken += 1
            return self._usual
        chosen = choose_encodings(batch)
        self._agreeing = self._agreeing + 1 if is_known and chosen == self._usual else 1
        self._schema, self._usual, self._taken = batch.schema, chosen, 0
        return chosen


def _repeats(values: pa.Array) -> bool:
    if pa.types.is_boolean(values.type):
        return False
    filled = len(values) - values.null_count
    if filled == 0:
        return not _is_whole(values.type)
    return bool(len(values.unique()) - bool(values.null_count) <= filled * _WORTHWHILE)


def _is_whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date32(kind))


def leaves(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.Array]]:
    """Yield the Parquet columns of a batch by their paths."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        yield from _leaves_below(name, column)


def _leaves_below(path: str, array: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    kind = array.type
    if pa.types.is_struct(kind):
        for child, values in zip(kind, array.flatten(), strict=True):
            yield from _leaves_below(f"{path}.{child.name}", values)
    elif pa.types.is_map(kind):
        yield from _leaves_below(f"{path}.key_value.key", array.keys)
        yield from _leaves_below(f"{path}.key_value.value", array.items)
    elif pa.types.is_list(kind):
        yield from _leaves_below(f"{path}.list.element", array.flatten())
    else:
        yield path, array


_SLACK = 64 * 1024
_SMALL_ROWS, _SMALL_BYTES, _PIECES = 4096, 256 * 1024, 16
"""Pieces with fewer rows and bytes than these are joined, that many at a time."""

_JOINED_BYTES = 64 * 1024
_COLUMN_OVERHEAD = 512
_CODECS = {ParquetCodec.UNCOMPRESSED: "none"}


@dataclass(frozen=True, slots=True)
class FinishedFile(DataFile):
    """A data file of the table, with the source file of its first row.

    ``ranges`` are the records of its rows, per source file; ``write_seconds`` is the time of encoding.
    """

    source_file: str | None = None
    ranges: tuple[RecordRange, ...] = ()
    write_seconds: float = 0.0


class _ChunkedOutput(io.RawIOBase):
    """Collects the small writes of the Parquet writer and passes them on joined; :meth:`flush` passes all.

    Once shut, it discards what the writer still writes (it insists on a footer).
    """

    def __init__(self, output: Output) -> None:
        self._output = output
        self._waiting = bytearray()
        self.shut = False

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if self.shut:
            return len(data)
        if len(data) >= _JOINED_BYTES:
            self.flush()
            return self._output.write(data)
        self._waiting += data
        if len(self._waiting) >= _JOINED_BYTES:
            self.flush()
        return len(data)

    def tell(self) -> int:
        return 0 if self.shut else self._output.tell() + len(self._waiting)

    def flush(self) -> None:
        waiting, self._waiting = self._waiting, bytearray()
        if waiting and not self.shut:
            self._output.write(bytes(waiting))


class GrowingFile:
    """A Parquet file of one partition. Rows are buffered until :meth:`flush`; it ends with :meth:`seal`.

    ``held_bytes`` are the Arrow bytes of the buffered rows, ``memory`` the memory they take.
    """

    def __init__(self, path: str, partition: Partition, source_file: str, opened_at: float) -> None:
        self.path = path
        self.partition = partition
        self.opened_at = opened_at
        self.written_at = opened_at
        self.held_bytes = 0
        self.memory = 0
        self._source_file = source_file
        self._covering = Covering()
        self._held: list[pa.RecordBatch] = []
        self._small: list[pa.RecordBatch] = []
        self._output: Output | None = None
        self._chunked: _ChunkedOutput
        self._writer: pq.ParquetWriter | None = None
        self._footers: list[pq.FileMetaData] = []
        self._unordered: set[int] = set()
        self._seconds = 0.0

    @property
    def has_output(self) -> bool:
        """True once row groups have been written, so that a file is open."""
        return self._output is not None

    def hold(
        self,
        batch: pa.RecordBatch,
        size: int,
        now: float,
        ranges: tuple[RecordRange, ...] = (),
        *,
        is_part: bool = False,
    ) -> int:
        """Buffer rows of ``size`` bytes; returns the change in memory.

        ``is_part``: they belong to a larger batch, which :meth:`keep_own` releases.
        """
        before = self.memory
        self.held_bytes += size
        self.memory += size + _overhead(batch)
        self.written_at = now
        self._covering.add(ranges)
        if is_part or batch.num_rows >= _SMALL_ROWS or size >= _SMALL_BYTES:
            self._join_small()
            self._held.append(batch)
        else:
            self._small.append(batch)
            if len(self._small) == _PIECES:
                self._join_small()
        return self.memory - before

    def keep_own(self) -> None:
        """Copy the rows if they are parts of something larger."""
        if self._held:
            self._held = [pa.concat_batches([*self._held, *self._small])]
            self._small = []

    @property
    def written_bytes(self) -> int:
        """The compressed bytes of the row groups written so far."""
        return self._output.tell() if self._output is not None else 0

    def flush(
        self, open_output: Callable[[str], Output], codec: ParquetCodec, encodings: ChosenEncodings | None = None
    ) -> tuple[int, int]:
        """Write the buffered rows as one row group; returns its Arrow bytes and its bytes in the file."""
        if not self._held and not self._small:
            return 0, 0
        started = time.perf_counter()
        self._join_small()
        table = pa.Table.from_batches(self._held)
        with_nan = nan_columns(self._held)
        if self._writer is None:
            self._output = open_output(self.path)
            self._chunked = _ChunkedOutput(self._output)
            chosen = (encodings or ChosenEncodings()).of(self._held[0])
            self._writer = parquet_writer(self._chunked, self._held[0], codec, self._footers, chosen, with_nan)
        before, held = self.written_bytes, self.held_bytes
        if with_nan:
            floats = float_columns(table.schema).items()
            self._unordered |= {number for number, path in floats if ".".join(path) in with_nan}
        self._writer.write_table(table, row_group_size=max(len(table), 1))
        self._chunked.flush()
        self._forget_held()
        self._seconds += time.perf_counter() - started
        return held, self.written_bytes - before

    def seal(self) -> FinishedFile:
        """Write the footer and describe the file; its output stays open."""
        assert self._writer is not None
        assert self._output is not None
        started = time.perf_counter()
        self._writer.close()
        self._chunked.flush()
        footer = self._footers[0]
        stats = delta_statistics(footer, footer.schema.to_arrow_schema(), frozenset(self._unordered))
        return FinishedFile(
            path=self.path,
            size=self._output.tell(),
            record_count=footer.num_rows,
            partition_values=self.partition.as_mapping(),
            stats=stats,
            source_file=self._source_file,
            ranges=self._covering.ranges(),
            write_seconds=round(self._seconds + time.perf_counter() - started, 6),
        )

    def upload(self) -> None:
        """Close the output, which puts the file into the store."""
        assert self._output is not None
        try:
            failpoint("sink.upload.before")
            self._output.close()
            failpoint("sink.upload.after")
        # Also for an interrupt: a multipart upload that nobody ends is charged for ever.
        except BaseException:
            self._output.abort()
            raise

    def abort(self) -> None:
        """Give up and leave nothing behind."""
        self._forget_held()
        if self._output is not None and self._writer is not None:
            self._chunked.shut = True
            with suppress(Exception):  # after a failed write it has no footer, and the first error is on its way
                self._writer.close()
            self._output.abort()

    def _join_small(self) -> None:
        """Join small pieces: each costs memory and encoder more than its rows do."""
        if self._small:
            joined = pa.concat_batches(self._small)
            self.memory += _overhead(joined) - sum(map(_overhead, self._small))
            self._held.append(joined)
            self._small = []

    def _forget_held(self) -> None:
        self._held, self._small = [], []
        self.held_bytes = self.memory = 0


def detach(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
    """Return a batch to keep, and its Arrow bytes; a small part of something larger is copied."""
    # A slice keeps its whole parent in memory. Small batches are always copied: that costs less than checking.
    whole = batch.get_total_buffer_size()
    if batch.num_rows >= _SMALL_ROWS or whole >= _SMALL_BYTES:
        size = int(batch.nbytes)
        if whole <= 2 * size + _SLACK:
            return batch, size
    copy = pa.concat_batches([batch])
    return copy, int(copy.get_total_buffer_size())


def _overhead(batch: pa.RecordBatch) -> int:
    """Memory of a batch besides its rows: its columns are objects with padded buffers."""
    return _COLUMN_OVERHEAD * int(batch.num_columns)


def parquet_writer(
    sink: Any,
    first: pa.RecordBatch,
    codec: ParquetCodec,
    footers: list[pq.FileMetaData],
    encodings: Encodings,
    with_nan: frozenset[str],
) -> pq.ParquetWriter:
    """Open a writer with statistics and page index for a file that begins with the rows ``first``."""
    # Bounds leave NaN out, so readers that search for it would skip the file: such columns get no statistics.
    paths = [path for path, _ in leaves(first) if path not in with_nan] if with_nan else True
    return pq.ParquetWriter(
        sink,
        first.schema,
        compression=_CODECS.get(codec, codec.value),
        write_statistics=paths,
        write_page_index=True,
        metadata_collector=footers,
        **encodings.options(),
    )


def nan_columns(batches: list[pa.RecordBatch]) -> frozenset[str]:
    """Find the Parquet columns with a NaN, by path."""
    paths: set[str] = set()
    table = pa.Table.from_batches(batches)
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_floating(column.type):
            paths |= {name} if _has_nan(column) else set()
        elif pa.types.is_nested(column.type):
            parts = (part for chunk in column.chunks for part in _leaves_below(name, chunk))
            paths |= {path for path, values in parts if pa.types.is_floating(values.type) and _has_nan(values)}
    return frozenset(paths)


def _has_nan(values: pa.Array | pa.ChunkedArray) -> bool:
    return bool(pc.any(pc.is_nan(values)).as_py())
