"""One Parquet file while it grows: rows collect in Arrow form, become row groups, end as a finished file."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidegate.failpoints import failpoint
from tidegate.sink.encoding import choose
from tidegate.sink.partitions import Partition
from tidegate.sink.statistics import delta_statistics, float_columns
from tidegate.specs import ParquetCodec
from tidegate.state.files import DataFile
from tidegate.storage.port import Output

_SLACK = 64 * 1024
_SMALL_PIECE = 4096
_CODECS = {ParquetCodec.UNCOMPRESSED: "none"}


@dataclass(frozen=True, slots=True)
class FinishedFile(DataFile):
    """A data file of the table, with the source file its first row came from and how long it took to write."""

    source_file: str | None = None
    write_seconds: float = field(default=0.0, compare=False)


class _Valve(io.RawIOBase):
    """What the Parquet writer writes to; once shut, its last words (it insists on a footer) go nowhere."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self.shut = False

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return len(data) if self.shut else self._output.write(data)

    def tell(self) -> int:
        return 0 if self.shut else self._output.tell()

    def flush(self) -> None:
        """Nothing to do: the output is flushed when it is closed."""


class GrowingFile:
    """A Parquet file of one partition. Rows are held until :meth:`flush`; it ends with :meth:`seal`."""

    def __init__(self, path: str, partition: Partition, source_file: str, opened_at: float) -> None:
        self.path = path
        self.partition = partition
        self.opened_at = opened_at
        self.written_at = opened_at
        self.held_bytes = 0
        self._source_file = source_file
        self._held: list[pa.RecordBatch] = []
        self._output: Output | None = None
        self._valve: _Valve
        self._writer: pq.ParquetWriter | None = None
        self._footers: list[pq.FileMetaData] = []
        self._unordered: set[int] = set()
        self._seconds = 0.0

    def hold(self, batch: pa.RecordBatch, now: float) -> int:
        """Take rows; they stay in memory. Gives how many bytes that adds."""
        size = int(batch.nbytes)
        self._held.append(_by_itself(batch, size))
        self.held_bytes += size
        self.written_at = now
        return size

    @property
    def written_bytes(self) -> int:
        """What row groups have been written so far, compressed."""
        return self._output.tell() if self._output is not None else 0

    def flush(self, open_output: Callable[[str], Output], codec: ParquetCodec) -> tuple[int, int]:
        """Write what is held as one row group; gives its Arrow bytes and its bytes in the file."""
        if not self._held:
            return 0, 0
        started = time.perf_counter()
        table = pa.Table.from_batches(_joined(self._held))
        if self._writer is None:
            self._output = open_output(self.path)
            self._valve = _Valve(self._output)
            self._writer = parquet_writer(self._valve, self._held[0], codec, self._footers)
        before, held = self.written_bytes, self.held_bytes
        self._note_nan(table)
        self._writer.write_table(table, row_group_size=max(len(table), 1))
        self._held, self.held_bytes = [], 0
        self._seconds += time.perf_counter() - started
        return held, self.written_bytes - before

    def seal(self) -> FinishedFile:
        """Write the footer; the file is described, its output is still to be closed."""
        assert self._writer is not None
        assert self._output is not None
        started = time.perf_counter()
        self._writer.close()
        footer = self._footers[0]
        stats = delta_statistics(footer, footer.schema.to_arrow_schema(), frozenset(self._unordered))
        return FinishedFile(
            path=self.path,
            size=self._output.tell(),
            record_count=footer.num_rows,
            partition_values=self.partition.as_mapping(),
            stats=stats,
            source_file=self._source_file,
            write_seconds=self._seconds + time.perf_counter() - started,
        )

    def upload(self) -> None:
        """Close the output: after this the file is in the store."""
        assert self._output is not None
        try:
            failpoint("sink.upload.before")
            self._output.close()
            failpoint("sink.upload.after")
        except BaseException:
            self._output.abort()
            raise

    def abort(self) -> None:
        """Give up; nothing of this file stays behind."""
        self._held, self.held_bytes = [], 0
        if self._output is not None and self._writer is not None:
            self._valve.shut = True
            with suppress(Exception):  # after a failed write it has no footer to give, and what failed is on its way
                self._writer.close()
            self._output.abort()

    def _note_nan(self, table: pa.Table) -> None:
        for number, path in float_columns(table.schema).items():
            if number not in self._unordered and _has_nan(table, path):
                self._unordered.add(number)


def _by_itself(batch: pa.RecordBatch, size: int) -> pa.RecordBatch:
    """A copy where ``batch`` is a small part of something larger, which it would keep in memory as a whole."""
    if batch.get_total_buffer_size() <= 2 * size + _SLACK:
        return batch
    return batch.take(pa.array(np.arange(batch.num_rows)))


def _joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Many small pieces as one: the encoder's cost per piece would exceed that of copying them."""
    rows = sum(batch.num_rows for batch in batches)
    return [pa.concat_batches(batches)] if rows < _SMALL_PIECE * len(batches) else batches


def parquet_writer(
    sink: Any, first: pa.RecordBatch, codec: ParquetCodec, footers: list[pq.FileMetaData]
) -> pq.ParquetWriter:
    """A writer with statistics and page index, encodings chosen from the first rows."""
    return pq.ParquetWriter(
        sink,
        first.schema,
        compression=_CODECS.get(codec, codec.value),
        write_statistics=True,
        write_page_index=True,
        metadata_collector=footers,
        **choose(first).options(),
    )


def _has_nan(table: pa.Table, path: tuple[str, ...]) -> bool:
    column = table.column(path[0])
    if len(path) > 1:
        column = pc.struct_field(column, list(path[1:]))
    return bool(pc.any(pc.is_nan(column)).as_py())
