"""The rolling Parquet writer: rows in, finished files of about the wanted size out, in bounded memory.

A row group has parts that do not grow with its rows (dictionaries, headers), so a small one takes more bytes per row
than a large one. So sizes are learned by order of magnitude.

A piece of a batch costs about the same whether it has one row or a hundred, so a thousand partition values make pieces
of single rows out of every batch. Gathered first and divided once, there are as many pieces in all as there would be of
one batch. They stay parts of the divided batch: a thousand copies would take longer than writing them. Such a batch is
in memory until its last part is written. Once there are too many of them the larger parts are written, and the rest is
copied.

One file is open per partition value. All rows that wait for their row group are in memory together, never more than a
row group's worth of Arrow bytes over all open files; past that the fullest is flushed. A *cut* closes every open file,
so that what was written before it does not depend on what comes after. A thread of the writer closes files that have
been open or idle for too long, even while nothing comes; they belong to the next cut like all others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tidegate.errors import StorageError
from tidegate.failpoints import failpoint
from tidegate.parquet.parquet_file import (
    ChosenEncodings,
    FinishedFile,
    GrowingFile,
    RowOrigin,
    detach,
    files_at_once,
    uuid7,
)
from tidegate.parquet.partitions import Partition, Rows
from tidegate.specs.table import ParquetCodec
from tidegate.storage.port import ObjectStore, Output, Upload


class Ticker:
    """Calls ``tick`` every ``seconds``, in its own thread, until :meth:`stop` returns."""

    def __init__(self, tick: Callable[[], None], seconds: float) -> None:
        self._tick = tick
        self._seconds = seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tick", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop; no tick begins afterwards."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._seconds):
            self._tick()


_OTHER_ROWS = 1.25
"""How much a row group must differ from one of its size to be of another kind."""


class SizeModel:
    """Estimates file bytes from Arrow bytes, by the last row group of each order of magnitude."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[int, int]] = {}

    @property
    def knows_nothing(self) -> bool:
        """True before the first row group."""
        return not self._seen

    def learn(self, held: int, written: int) -> None:
        """Learn that ``held`` Arrow bytes became ``written`` bytes, and forget what contradicts it."""
        before = self._seen.get(held.bit_length())
        if before is not None:
            expected = before[1] * held / before[0]
            if not expected / _OTHER_ROWS <= written <= expected * _OTHER_ROWS:
                self._seen.clear()
        self._seen[held.bit_length()] = (held, written)

    def estimate(self, held: int) -> float:
        """Estimate the file bytes of ``held`` Arrow bytes: interpolated, or by the ratio of the nearest size seen."""
        below, at_most = 0, 0
        for seen, written in sorted(self._seen.values()):
            if held <= seen:
                return at_most + (written - at_most) * (held - below) / (seen - below)
            below, at_most = seen, written
        return held * at_most / below if below else float(held)


Divide = Callable[[pa.RecordBatch], list[tuple[Partition, pa.RecordBatch, Rows]]]
"""The rows of each partition of a batch, and their positions, ascending."""

_SPARSE_ROWS = 1024
"""Rows per partition value below which a batch is better gathered than divided."""


def is_sparse(rows: int, partitions: int) -> bool:
    """True if a batch falls into pieces so small that gathering pays."""
    return partitions > 1 and rows < partitions * _SPARSE_ROWS


class PartitionBuffer:
    """Batches in order of arrival. ``memory`` are their Arrow bytes, the times those of the first and the last."""

    def __init__(self) -> None:
        self.memory = 0
        self.first_at = self.last_at = 0.0
        self._batches: list[pa.RecordBatch] = []
        self._source_files: list[str] = []
        self._origins: list[RowOrigin] = []
        self._divide: Divide

    @property
    def is_empty(self) -> bool:
        """True if nothing waits."""
        return not self._batches

    def accepts(self, batch: pa.RecordBatch) -> bool:
        """True if ``batch`` can be divided together with what waits."""
        return not self._batches or bool(batch.schema.equals(self._batches[0].schema))

    def add(
        self, batch: pa.RecordBatch, size: int, divide: Divide, source_file: str, origin: RowOrigin, now: float
    ) -> None:
        """Add a batch of ``size`` bytes; the last ``divide`` divides everything that waits."""
        if not self._batches:
            self.first_at = now
        self.last_at = now
        self.memory += size
        self._divide = divide
        self._batches.append(batch)
        self._source_files.append(source_file)
        self._origins.append(origin)

    def pieces(self) -> Iterator[tuple[pa.RecordBatch, Partition, str, RowOrigin]]:
        """Yield the waiting rows by partition, in order of arrival; releases the batches.

        With the rows of a partition come the source file of the first, and their origin.
        """
        source_files, origin = self._source_files, RowOrigin.join(self._origins)
        ends = np.cumsum([batch.num_rows for batch in self._batches])
        for partition, rows, positions in self._divide(self._join()):
            first = 0 if isinstance(positions, slice) else int(positions[0])
            source_file = source_files[int(np.searchsorted(ends, first, side="right"))]
            yield rows, partition, source_file, origin.of(positions)

    def _join(self) -> pa.RecordBatch:
        """Join all rows into one batch, which alone has them afterwards."""
        joined = pa.concat_batches(self._batches)
        self.forget()
        return joined

    def forget(self) -> None:
        """Drop all rows."""
        self.memory = 0
        self._batches, self._source_files, self._origins = [], [], []


_REPRESENTATIVE = 128 * 1024
"""Arrow bytes from which a row group is representative; in smaller ones the frame outweighs the rows."""

_COLUMN_FOOTER = 256
"""The size of a column in a footer, before one has been seen."""

_STEP = 1 / 20
"""Share of a file that is added at once: the most by which a file can become too large."""

_SHORT = 1 / 20
"""Share by which a file may miss its size; one that misses it by more takes further rows."""

_ROOM = 7 / 8
"""Share of the memory that may stay in use when row groups are written because it is full."""

_GATHERED, _MOST_GATHERED = 1 / 4, 32 * 1024 * 1024
"""Share of the memory for rows that wait to be divided into partitions, and the most bytes."""

_UNSEEN = 4
"""The most files' worth of Arrow bytes held: rows of a file may compress worse than those before them."""

_SPOOLED_FILES = 64
"""Full files' worth of bytes that may be written and not closed, in the temporary files of a remote table."""


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """When files roll and how they are written; sizes in bytes, times in seconds, None is never.

    ``open_files`` are partition values at once, ``open_outputs`` those with row groups already written.
    """

    file_size: int = 128 * 1024 * 1024
    row_group_size: int = 128 * 1024 * 1024
    codec: ParquetCodec = ParquetCodec.SNAPPY
    rollover_secs: float | None = None
    inactivity_secs: float | None = None
    open_files: int = 10_000
    open_outputs: int = 1_000
    uploads: int = 4
    upload: Upload = field(default_factory=Upload)

    @property
    def tick_secs(self) -> float | None:
        """Seconds between checks, so that files roll in time; None if time does not matter."""
        times = [secs for secs in (self.rollover_secs, self.inactivity_secs) if secs is not None]
        return min(1.0, min(times) / 4) if times else None


class RollingWriter:
    """Writes rolling files into one table; files count once :meth:`cut` has returned them."""

    def __init__(
        self, store: ObjectStore, settings: WriterSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        # The ticker closes files in its own thread, and a roll may happen inside a write.
        self._lock = threading.RLock()
        self._ticker: Ticker | None = None
        self._failure: Exception | None = None
        self._open: dict[Partition, GrowingFile] = {}
        self._rolled: list[FinishedFile] = []
        self._uploads: list[Future[None]] = []
        self._pool: ThreadPoolExecutor | None = None
        self._sizes = SizeModel()
        self._encodings = ChosenEncodings()
        self._footer = 0
        self._memory = self._divided = self._outputs = self._spooled = 0
        self._gathering = PartitionBuffer()
        self._most_gathered = min(settings.row_group_size * _GATHERED, _MOST_GATHERED)
        self._tick_secs = settings.tick_secs
        self._most_outputs = files_at_once(settings.open_outputs)

    @property
    def rolled_files(self) -> int:
        """Files closed since the last cut."""
        return len(self._rolled)

    def write(
        self, batch: pa.RecordBatch, partition: Partition, source_file: str, origin: RowOrigin | None = None
    ) -> None:
        """Take rows of one partition; rolls its file if that is full or old.

        ``origin`` is where each row comes from; without it the files know only their first ``source_file``.
        """
        with self._lock:
            self._raise_failure()
            self._divide_gathered()
            self._add_rows(batch, partition, source_file, origin)
            self._roll_due()

    def scatter(self, batch: pa.RecordBatch, divide: Divide, source_file: str, origin: RowOrigin) -> None:
        """Take rows of several partitions, to be divided by ``divide``.

        If they are few for each, they are gathered first; ``divide`` then gets the rows of several calls at once.
        """
        with self._lock:
            self._raise_failure()
            if not self._gathering.accepts(batch):
                self._divide_gathered()
            own, size = detach(batch)
            pieces = divide(own) if self._gathering.is_empty else []
            if pieces and (size >= self._most_gathered or not is_sparse(own.num_rows, len(pieces))):
                for partition, rows, positions in pieces:
                    self._add_rows(rows, partition, source_file, origin.of(positions))
            elif own.num_rows:
                self._gather(own, size, divide, source_file, origin)
            self._roll_due()

    def tick(self) -> None:
        """Close files that have been open or idle for too long."""
        with self._lock:
            self._raise_failure()
            self._roll_due()

    def cut(self) -> tuple[FinishedFile, ...]:
        """Close every open file; returns everything finished since the last cut, durable in the store."""
        with self._lock:
            self._raise_failure()
            self._divide_gathered()
            for file in list(self._open.values()):
                self._roll(file)
            for upload in self._uploads:
                upload.result()
            finished, self._rolled, self._uploads = tuple(self._rolled), [], []
            return finished

    def abandon(self) -> None:
        """Drop everything since the last cut, and remove its files as far as the store allows."""
        with self._lock:
            self._abort_open()
            self._failure = None
            for upload in self._uploads:
                with suppress(Exception):
                    upload.result()
            for finished in self._rolled:
                # Files that no commit names are invisible; those that stay are orphans for `reconcile --clean`.
                with suppress(StorageError):
                    self._store.delete(finished.path)
            self._rolled, self._uploads = [], []

    def close(self) -> None:
        """Drop what is open, and stop uploading."""
        if self._ticker is not None:
            # Before the lock: the ticker may be waiting for it, and stop() waits for the ticker.
            self._ticker.stop()
        with self._lock:
            self._abort_open()
        if self._pool is not None:
            self._pool.shutdown(wait=True)

    def _abort_open(self) -> None:
        for file in self._open.values():
            file.abort()
        self._open.clear()
        self._gathering.forget()
        self._memory = self._divided = self._outputs = self._spooled = 0

    def _gather(self, batch: pa.RecordBatch, size: int, divide: Divide, source_file: str, origin: RowOrigin) -> None:
        self._gathering.add(batch, size, divide, source_file, origin, self._clock())
        self._memory += size
        self._start_ticker()
        if self._gathering.memory >= self._most_gathered:
            self._divide_gathered()
        self._bound_memory()

    def _divide_gathered(self) -> None:
        """Divide the gathered rows. After a failure nothing more can be finished, only abandoned."""
        if self._gathering.is_empty:
            return
        times = self._gathering.first_at, self._gathering.last_at
        self._memory -= self._gathering.memory
        self._divided += self._gathering.memory
        try:
            for piece in self._gathering.pieces():
                self._add_rows(*piece, times)
        except Exception as error:
            self._failure = error
            raise

    def _add_rows(
        self,
        batch: pa.RecordBatch,
        partition: Partition,
        source_file: str,
        origin: RowOrigin | None,
        times: tuple[float, float] | None = None,
    ) -> None:
        """Add rows in pieces that are small compared with a file.

        ``times`` are the arrival times of the first and the last gathered rows; these stay parts of a larger batch.
        """
        own, whole = detach(batch) if times is None else (batch, int(batch.nbytes))
        share = self._sizes.estimate(whole) / (self._settings.file_size * _STEP)
        step = max(int(own.num_rows / max(share, 1.0)), 1)
        for start in range(0, own.num_rows, step):
            failpoint("sink.rows.before")
            taken, size = own, whole
            if step < own.num_rows:
                part = own.slice(start, step)
                taken, size = detach(part) if times is None else (part, int(part.nbytes))
            first, last = times or (self._clock(),) * 2
            file = self._file_of(partition, source_file, first, own.num_columns)
            ranges = () if origin is None else origin.of(slice(start, start + step)).ranges()
            self._memory += file.hold(taken, size, last, ranges, is_part=times is not None)
            if self._is_full(file):
                self._roll(file)
            self._bound_memory()
            self._bound_files()

    def _file_of(self, partition: Partition, source_file: str, now: float, columns: int) -> GrowingFile:
        """Return the open file of a partition, marked as most recently used."""
        file = self._open.pop(partition, None)
        if file is None:
            file = GrowingFile(f"{partition.directory}{uuid7()}.parquet", partition, source_file, now)
            self._footer = self._footer or _COLUMN_FOOTER * columns
            self._start_ticker()
        self._open[partition] = file
        return file

    def _is_full(self, file: GrowingFile) -> bool:
        """True once the file has reached its target size, counting written bytes, buffered rows and the footer."""
        size = self._settings.file_size
        # How well rows compress is only known once some are written: the first time after half a file's worth.
        if file.held_bytes >= (size // 2 if self._sizes.knows_nothing else size * _UNSEEN):
            self._flush(file)
        if file.written_bytes + self._sizes.estimate(file.held_bytes) + self._footer < size:
            return False
        self._flush(file)
        return file.written_bytes + self._footer >= size * (1 - _SHORT)

    def _bound_memory(self) -> None:
        """Write the rows of the fullest files once there are too many; of small files several, so that it lasts."""
        if self._divided >= self._settings.row_group_size:
            self._release_divided()
        if self._memory < self._settings.row_group_size:
            return
        for file in sorted(self._open.values(), key=lambda file: file.memory, reverse=True):
            self._flush(file)
            if self._memory < self._settings.row_group_size * _ROOM:
                return

    def _release_divided(self) -> None:
        """Release all parts of divided batches: write those of files that hold much, copy the others."""
        much = self._settings.row_group_size // (2 * max(len(self._open), 1))
        for file in list(self._open.values()):
            if file.memory >= much:
                self._flush(file)
            else:
                file.keep_own()
        self._divided = 0

    def _bound_files(self) -> None:
        while len(self._open) > self._settings.open_files:
            self._roll(next(iter(self._open.values())))
        while self._outputs > self._most_outputs:
            self._roll(next(file for file in self._open.values() if file.has_output))
        if self._spooled >= _SPOOLED_FILES * self._settings.file_size:
            self._roll(max(self._open.values(), key=lambda file: file.written_bytes))

    def _flush(self, file: GrowingFile) -> None:
        self._memory -= file.memory
        self._outputs += not file.has_output
        held, written = file.flush(self._open_output, self._settings.codec, self._encodings)
        self._spooled += written
        # In small row groups headers and dictionaries outweigh the rows, which would spoil the estimate.
        if held >= min(_REPRESENTATIVE, self._settings.file_size // 2):
            self._sizes.learn(held, written)

    def _open_output(self, path: str) -> Output:
        return self._store.open_output(path, self._settings.upload)

    def _roll(self, file: GrowingFile) -> None:
        self._flush(file)
        written = file.written_bytes
        finished = file.seal()
        self._footer = finished.size - written
        self._spooled -= written
        self._outputs -= 1
        del self._open[file.partition]
        self._rolled.append(finished)
        self._uploads.append(self._submit_upload(file))

    def _submit_upload(self, file: GrowingFile) -> Future[None]:
        """Start the upload of a sealed file; waits while ``max_concurrent_uploads`` are under way."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._settings.uploads, thread_name_prefix="upload")
        pending = [upload for upload in self._uploads[-self._settings.uploads :] if not upload.done()]
        if len(pending) >= self._settings.uploads:
            # Sealed files wait in memory or on disk for their upload: a slow store must slow the writer down.
            pending[0].result()
        return self._pool.submit(self._upload, file)

    def _upload(self, file: GrowingFile) -> None:
        with self._store.uploads.file():
            file.upload()

    def _start_ticker(self) -> None:
        """Start the thread that closes files in time, whether or not rows arrive."""
        if self._tick_secs is not None and self._ticker is None:
            self._ticker = Ticker(self._tick_in_background, self._tick_secs)

    def _tick_in_background(self) -> None:
        """Tick in the background; the next call raises its error."""
        with self._lock:
            if self._failure is None:
                try:
                    self._roll_due()
                except Exception as error:  # raised again in the caller's thread
                    self._failure = error

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _roll_due(self) -> None:
        if self._tick_secs is None:
            return
        now = self._clock()
        if self._files_due(now) or now - self._gathering.first_at >= self._tick_secs:
            self._divide_gathered()
        for file in self._files_due(now):
            self._roll(file)

    def _files_due(self, now: float) -> list[GrowingFile]:
        rollover, inactivity = self._settings.rollover_secs, self._settings.inactivity_secs
        return [
            file
            for file in self._open.values()
            if (rollover is not None and now - file.opened_at >= rollover)
            or (inactivity is not None and now - file.written_at >= inactivity)
        ]
