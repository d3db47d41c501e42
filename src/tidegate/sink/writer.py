"""The rolling Parquet writer: rows in, finished files of about the wanted size out, in bounded memory.

One file is open per partition value. All rows that wait for their row group are in memory together, never
more than a row group's worth of Arrow bytes over all open files; past that the fullest is flushed. A *cut*
closes every open file, so that what was written before it does not depend on what comes after.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

import pyarrow as pa

from tidegate.errors import StorageError
from tidegate.failpoints import failpoint
from tidegate.sink.names import uuid7
from tidegate.sink.parquet import FinishedFile, GrowingFile, parquet_writer
from tidegate.sink.partitions import Partition
from tidegate.specs import ParquetCodec
from tidegate.storage.port import ObjectStore, Output, Upload

_TELLING = 128 * 1024
"""Arrow bytes from which a row group says something about the ratio; in smaller ones the frame outweighs the rows."""


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """When files roll and how they are written; sizes in bytes, times in seconds, None is never."""

    file_size: int = 128 * 1024 * 1024
    row_group_size: int = 128 * 1024 * 1024
    codec: ParquetCodec = ParquetCodec.SNAPPY
    rollover_secs: float | None = None
    inactivity_secs: float | None = None
    open_files: int = 500
    uploads: int = 4
    upload: Upload = field(default_factory=Upload)


class RollingWriter:
    """Writes into one table. Files are finished when :meth:`cut` returns them, not before."""

    def __init__(
        self, store: ObjectStore, settings: WriterSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._open: dict[Partition, GrowingFile] = {}
        self._rolled: list[FinishedFile] = []
        self._uploads: list[Future[None]] = []
        self._pool: ThreadPoolExecutor | None = None
        self._ratio: float | None = None
        self._held_bytes = 0

    @property
    def rolled_files(self) -> int:
        """Files closed since the last cut."""
        return len(self._rolled)

    def write(self, batch: pa.RecordBatch, partition: Partition, source_file: str) -> None:
        """Take rows of one partition; rolls its file when that is full or old."""
        if not batch.num_rows:
            return
        failpoint("sink.rows.before")
        now = self._clock()
        file = self._open.pop(partition, None)
        if file is None:
            file = GrowingFile(f"{partition.directory}{uuid7()}.parquet", partition, source_file, now)
        self._open[partition] = file
        self._held_bytes += file.hold(batch, now)
        if self._estimate(file, batch) >= self._settings.file_size:
            self._roll(file)
        self._bound_memory()
        self.tick()

    def tick(self) -> None:
        """Roll what has been open or idle for too long; to be called while there is nothing to write, too."""
        rollover, inactivity = self._settings.rollover_secs, self._settings.inactivity_secs
        if rollover is None and inactivity is None:
            return
        now = self._clock()
        for file in list(self._open.values()):
            old = rollover is not None and now - file.opened_at >= rollover
            idle = inactivity is not None and now - file.written_at >= inactivity
            if old or idle:
                self._roll(file)

    def cut(self) -> tuple[FinishedFile, ...]:
        """Close every open file; all that was finished since the last cut, durably in the store."""
        for file in list(self._open.values()):
            self._roll(file)
        for upload in self._uploads:
            upload.result()
        finished, self._rolled, self._uploads = tuple(self._rolled), [], []
        return finished

    def abandon(self) -> None:
        """Forget everything since the last cut; the files are removed as far as the store allows."""
        for file in self._open.values():
            file.abort()
        self._open.clear()
        self._held_bytes = 0
        for upload in self._uploads:
            with suppress(Exception):
                upload.result()
        for finished in self._rolled:
            with suppress(StorageError):
                self._store.delete(finished.path)
        self._rolled, self._uploads = [], []

    def close(self) -> None:
        """Give up what is open and stop uploading."""
        for file in self._open.values():
            file.abort()
        self._open.clear()
        if self._pool is not None:
            self._pool.shutdown(wait=True)

    def _estimate(self, file: GrowingFile, batch: pa.RecordBatch) -> float:
        """Bytes the file would have now: written ones plus the held ones at the ratio seen so far."""
        if self._ratio is None and file.held_bytes >= self._settings.file_size:
            self._ratio = self._probe(batch)
        return file.written_bytes + file.held_bytes * (1.0 if self._ratio is None else self._ratio)

    def _probe(self, batch: pa.RecordBatch) -> float:
        """The ratio that a batch compresses at."""
        sink = pa.BufferOutputStream()
        with parquet_writer(sink, batch, self._settings.codec, []) as writer:
            writer.write_batch(batch)
        return float(sink.tell() / max(batch.nbytes, 1))

    def _bound_memory(self) -> None:
        while self._held_bytes >= self._settings.row_group_size:
            self._flush(max(self._open.values(), key=lambda file: file.held_bytes))
        while len(self._open) > self._settings.open_files:
            self._roll(next(iter(self._open.values())))

    def _flush(self, file: GrowingFile) -> None:
        held, written = file.flush(self._open_output, self._settings.codec)
        self._held_bytes -= held
        if held >= _TELLING:
            self._ratio = written / held

    def _open_output(self, path: str) -> Output:
        return self._store.open_output(path, self._settings.upload)

    def _roll(self, file: GrowingFile) -> None:
        self._flush(file)
        del self._open[file.partition]
        self._rolled.append(file.seal())
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._settings.uploads, thread_name_prefix="upload")
        pending = [upload for upload in self._uploads if not upload.done()]
        if len(pending) >= self._settings.uploads:
            pending[0].result()
        self._uploads.append(self._pool.submit(file.upload))
