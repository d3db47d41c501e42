"""The work units of one task: many are fetched at once, and small ones share files for their rows.

A work unit still counts as a whole or not at all. It is decoded before any of its rows goes into a shared file, so that
a bad record, or too few of them, excludes that work unit and no other. A large one gets its own files. If a shared file
cannot be written, each work unit is written by itself, and only the one to blame fails.

If the columns are known, fetched records are written at once. If all work units of the wave decide them, small
responses wait in a few packs, files of the scratch area with many responses each.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from queue import SimpleQueue
from tempfile import SpooledTemporaryFile
from uuid import uuid4

import numpy as np
import pyarrow as pa
import zstandard

from tidegate.core.files.plan import FileSlice
from tidegate.errors import SourceError, StorageError
from tidegate.schema.types import arrow_schema
from tidegate.sources.http.client import in_flight
from tidegate.sources.units.fetch import Senders
from tidegate.sources.units.work import (
    Fetched,
    FetchedFile,
    FetchTask,
    UnitFailure,
    UnitWave,
    UnitWork,
    UnitWritten,
    WaveResult,
    failure_of,
)
from tidegate.specs.files import Compression
from tidegate.specs.locations import Location
from tidegate.specs.units import NotFound, UnitSource
from tidegate.storage.port import Output
from tidegate.storage.stores import open_store
from tidegate.tasks.row_task import write_batches
from tidegate.tasks.unit_task import (
    UnitRows,
    WriteTask,
    add_own_columns,
    are_within,
    fetch,
    fetch_task,
    plan_write,
    write,
    write_wave,
)

_FILES_IN_FLIGHT = 16
"""Work units at once whose files lie in a store, which has no connection to limit them."""

_HELD_BYTES = 8 * 1024 * 1024
"""Arrow bytes up to which a work unit is small and shares files with others (decision 0027)."""

_TOGETHER_BYTES = 1024 * 1024
"""Bytes of JSON lines of small work units that are decoded together."""

_PACK_BYTES = 16 * 1024 * 1024
_KEPT_IN_MEMORY = 8 * 1024 * 1024

Outcome = UnitWritten | UnitFailure


def most_in_flight(source: UnitSource, works: int) -> int:
    """Return how many of ``works`` work units may be under way at once, over all tasks."""
    read = source.http
    return in_flight(read, works) if read is not None else max(1, min(works, _FILES_IN_FLIGHT))


class _ShareQueue:
    """Decides which work unit of a task begins next, and how many may be under way: none once it is time to stop.

    Units take turns. One that fails waits until all others are done, so that it delays none of them. Until the first
    success, and after each failure, only as many are under way as may still fail.
    """

    def __init__(self, task: FetchTask, works: Sequence[tuple[int, UnitWork]], clock: Callable[[], float]) -> None:
        self._task = task
        self._clock = clock
        self._end = None if task.seconds is None else clock() + task.seconds
        self._left: dict[str, deque[tuple[int, UnitWork]]] = {}
        for number, work in works:
            self._left.setdefault(work.unit, deque()).append((number, work))
        self._put_off: deque[tuple[int, UnitWork]] = deque()
        self._failing: set[str] = set()
        self._units = {number: work.unit for number, work in works}
        self._streak = 0
        self._trusts = task.failures is None
        self._is_first = True

    def next(self, under_way: int) -> tuple[int, UnitWork] | None:
        """The next work unit, while ``under_way`` are; None if none may begin now.

        Somewhat more than there are threads may be under way, so that these never wait for the writer.
        """
        most = self._task.in_flight + self._task.in_flight // 2
        if not self._trusts:
            most = min(most, (self._task.failures or 0) - self._streak)
        is_late = self._end is not None and self._clock() >= self._end
        # At least one, however late: a group that fetched nothing would never make progress.
        if under_way >= most or (is_late and not self._is_first):
            return None
        self._is_first = False
        return self._take_next()

    def note(self, number: int, outcome: Fetched | UnitFailure) -> None:
        """Count one that was tried."""
        fails = isinstance(outcome, UnitFailure) and not (
            outcome.not_found and self._task.source.work.not_found is not NotFound.FAIL
        )
        self._streak = self._streak + 1 if fails else 0
        self._trusts = self._task.failures is None or not fails
        if fails:
            self._failing.add(self._units[number])

    def _take_next(self) -> tuple[int, UnitWork] | None:
        while self._left:
            unit = next(iter(self._left))
            works = self._left.pop(unit)
            if unit in self._failing:
                self._put_off += works
                continue
            item = works.popleft()
            if works:
                self._left[unit] = works
            return item
        return self._put_off.popleft() if self._put_off else None


def fetch_share(
    task: FetchTask, works: Sequence[tuple[int, UnitWork]], *, clock: Callable[[], float] = time.monotonic
) -> Iterator[tuple[int, Fetched | UnitFailure]]:
    """Fetch the work units of one task, as many at once as allowed; yields each when it arrives.

    Those not begun, because the time is over or too many failed in a row, are not yielded.
    """
    turns = _ShareQueue(task, works, clock)
    done: SimpleQueue[Future[tuple[int, Fetched | UnitFailure]]] = SimpleQueue()
    under_way = 0
    with closing(Senders(task.slots)) as senders:

        def fetch_one(number: int, work: UnitWork) -> tuple[int, Fetched | UnitFailure]:
            return number, fetch(task, work, number, senders)

        # Threads, not asyncio: client, retries and limits stay as they are, and decoding leaves the interpreter lock.
        pool = ThreadPoolExecutor(task.in_flight, thread_name_prefix="fetch")
        try:
            while True:
                while (item := turns.next(under_way)) is not None:
                    pool.submit(fetch_one, *item).add_done_callback(done.put)
                    under_way += 1
                if not under_way:
                    return
                number, outcome = done.get().result()
                under_way -= 1
                turns.note(number, outcome)
                yield number, outcome
        finally:
            # A consumer that gives up must not wait for requests that have not been sent.
            pool.shutdown(cancel_futures=True)


def pack_share(task: FetchTask, works: Sequence[tuple[int, UnitWork]]) -> Iterator[tuple[int, Fetched | UnitFailure]]:
    """Fetch work units that other tasks write: small responses go into packs, complete when the iterator ends."""
    with closing(_PackWriter(task.scratch)) as packer:
        for number, outcome in fetch_share(task, works):
            yield number, packer.pack(outcome) if isinstance(outcome, Fetched) else outcome


class _PackWriter:
    """Puts the contents of many small files into few files of the scratch area."""

    def __init__(self, scratch: Location) -> None:
        self._scratch = scratch
        self._path = ""
        self._output: Output | None = None

    def pack(self, fetched: Fetched) -> Fetched:
        """Move the contents of small files into packs."""
        return replace(fetched, files=tuple(map(self._pack_file, fetched.files)))

    def _pack_file(self, file: FetchedFile) -> FetchedFile:
        if file.content is None:
            return file
        if self._output is None:
            self._path = f"pack-{uuid4()}"
            self._output = open_store(self._scratch).open_output(self._path)
        offset = self._output.tell()
        self._output.write(file.content)
        if self._output.tell() >= _PACK_BYTES:
            self.close()
        return replace(file, slice=replace(file.slice, path=self._path), content=None, offset=offset)

    def close(self) -> None:
        """Finish the open pack."""
        output, self._output = self._output, None
        if output is not None:
            output.close()


class _PackReader:
    """Reads packs, and keeps one of them."""

    def __init__(self) -> None:
        self._place: tuple[Location, str] | None = None
        self._bytes = b""

    def unpack(self, fetched: Fetched) -> Fetched:
        """Read the contents of small files back from packs."""
        return replace(fetched, files=tuple(map(self._unpack_file, fetched.files)))

    def _unpack_file(self, file: FetchedFile) -> FetchedFile:
        if file.offset is None:
            return file
        place = (file.location, file.slice.path)
        if place != self._place:
            self._place, self._bytes = place, open_store(file.location).get(file.slice.path)
        return replace(file, content=self._bytes[file.offset : file.offset + file.slice.size])


def unpack_all(fetched: Iterable[tuple[int, Fetched]]) -> Iterator[tuple[int, Fetched]]:
    """Yield work units with the contents of their small files; one pack is in memory at a time."""
    packs = _PackReader()
    for number, unit in fetched:
        yield number, packs.unpack(unit)


def write_share(task: WriteTask, fetched: Iterable[tuple[int, Fetched | UnitFailure]]) -> Iterator[tuple[int, Outcome]]:
    """Write the work units of one task; an outcome for each that came."""
    left = iter(fetched)
    while True:
        with closing(_ShareRows(task, left)) as shared:
            rows = task.rows
            try:
                files = () if rows is None else write_batches(rows, shared.batches()).data_files
                if rows is None:
                    yield from shared.write_without_rows()
            except Exception:
                # Fetching failed, not writing: that is the task's own error, and no work unit's.
                if shared.is_waiting:
                    raise
                yield from shared.outcomes
                # Nobody knows which unit broke the shared file: written alone, only the one to blame fails.
                yield from ((number, write(task, unit)) for number, unit in shared.restore_kept())
                continue
            yield from shared.outcomes
            yield from ((number, replace(written, data_files=files)) for number, written in shared.written)
            return


class _ShareRows:
    """The rows of small work units, for shared files; ``outcomes`` are those of all others.

    ``written`` are the small ones. Their input is kept until they are written, on disk if it is large.
    """

    def __init__(self, task: WriteTask, fetched: Iterator[tuple[int, Fetched | UnitFailure]]) -> None:
        self.outcomes: list[tuple[int, Outcome]] = []
        self.written: list[tuple[int, UnitWritten]] = []
        self.is_waiting = False
        self._task = task
        self._fetched = fetched
        self._kept: list[tuple[int, Fetched]] = []
        self._content = SpooledTemporaryFile(_KEPT_IN_MEMORY)  # noqa: SIM115  # closed by close()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of small work units, several per batch."""
        together: list[tuple[int, Fetched]] = []
        size = 0
        for number, unit in self._items():
            if isinstance(unit, UnitFailure):
                self.outcomes.append((number, unit))
            elif (lines := _small_pages(self._task, unit)) is None:
                yield from self._decode_alone(number, unit)
            else:
                together.append((number, unit))
                size += lines
                if size >= _TOGETHER_BYTES:
                    yield from self._decode_together(together)
                    together, size = [], 0
        yield from self._decode_together(together)

    def write_without_rows(self) -> Iterator[tuple[int, Outcome]]:
        """Yield the outcome of every work unit if there are no columns to write."""
        for number, unit in self._items():
            yield number, unit if isinstance(unit, UnitFailure) else write(self._task, unit)

    def restore_kept(self) -> Iterator[tuple[int, Fetched]]:
        """Yield the small ones as they came."""
        for number, unit in self._kept:
            yield number, replace(unit, files=tuple(map(self._restore, unit.files)))

    def close(self) -> None:
        """Release what was kept."""
        self._content.close()

    def _items(self) -> Iterator[tuple[int, Fetched | UnitFailure]]:
        """The incoming work units; an error while waiting belongs to the task."""
        while True:
            self.is_waiting = True
            item = next(self._fetched, None)
            self.is_waiting = False
            if item is None:
                return
            yield item

    def _decode_together(self, units: Sequence[tuple[int, Fetched]]) -> Iterator[pa.RecordBatch]:
        """Decode several work units at once; if one is bad, each by itself."""
        try:
            rows = UnitBlock(self._task, [unit for _, unit in units]) if units else None
        except Exception:
            for number, unit in units:
                yield from self._decode_alone(number, unit)
            return
        if rows is None:
            return
        thin = [self._take(number, unit, written) for (number, unit), written in zip(units, rows.written, strict=True)]
        yield rows.without(thin)

    def _decode_alone(self, number: int, fetched: Fetched) -> Iterator[pa.RecordBatch]:
        """Decode one work unit; yields nothing if it fails, or is large and written by itself."""
        rows = UnitRows(self._task, fetched)
        held: list[pa.RecordBatch] = []
        size = 0
        try:
            for batch in rows.batches():
                held.append(batch)
                size += int(batch.nbytes)
                if size > _HELD_BYTES:
                    break
        except Exception as error:
            self.outcomes.append((number, failure_of(error)))
            return
        if size > _HELD_BYTES:
            self.outcomes.append((number, write(self._task, fetched)))
        elif not self._take(number, fetched, rows.to_result((), sum(batch.num_rows for batch in held))):
            yield from held

    def _take(self, number: int, fetched: Fetched, written: UnitWritten) -> bool:
        """Record a small work unit; returns whether to leave out its rows, because there are none or too few."""
        if not written.rows or written.rows < self._task.source.work.min_records:
            self.outcomes.append((number, written))
            return True
        self.written.append((number, written))
        self._kept.append((number, replace(fetched, files=tuple(map(self._put_away, fetched.files)))))
        return False

    def _put_away(self, file: FetchedFile) -> FetchedFile:
        if file.content is None:
            return file
        offset = self._content.tell()
        self._content.write(file.content)
        return replace(file, content=None, offset=offset)

    def _restore(self, file: FetchedFile) -> FetchedFile:
        if file.offset is None:
            return file
        self._content.seek(file.offset)
        return replace(file, content=self._content.read(file.slice.size))


def _small_pages(task: WriteTask, fetched: Fetched) -> int | None:
    """The bytes of JSON lines in the in-memory pages of a work unit; None if it is written by itself."""
    size = 0
    for file in fetched.files:
        if file.content is None or file.line_bytes is None:
            return None
        size += file.line_bytes
    return None if size > _TOGETHER_BYTES or fetched.index in task.refused else size


class UnitBlock:
    """The rows of several work units of an API, decoded as one block, at the cost of one small work unit.

    ``written`` has each of them, without files. Raises if a record is bad; decoding each by itself shows which one.
    """

    def __init__(self, task: WriteTask, units: Sequence[Fetched]) -> None:
        files = [(place, file) for place, unit in enumerate(units) for file in unit.files]
        segments = [units[place].segments[file.segment] for place, file in files]
        counts = [file.pages[-1] for _, file in files]
        decoded, unknown = _decode_lines(task, [file for _, file in files])
        # Rows are given to work units by their number; a blank line or one record over two lines would shift all that
        # follow.
        if decoded.num_rows != sum(counts):
            raise SourceError("the records cannot be told apart", "each work unit is decoded by itself")
        self._units = np.repeat(np.array([place for place, _ in files], np.int64), counts)
        source, low = task.source, pa.array(np.repeat(np.array([low for low, _ in segments], np.int64), counts))
        names = pa.array([unit.unit for unit in units], pa.string()).take(pa.array(self._units))
        rows = add_own_columns(decoded, source, names, low)
        if source.time_column is not None:
            high = pa.array(np.repeat(np.array([high for _, high in segments], np.int64), counts))
            inside = are_within(decoded, source.time_column, low, high, source.timezone).fill_null(False)
            rows = rows.filter(inside)
            self._units = self._units[inside.to_numpy(zero_copy_only=False)]
        self._rows = rows
        came = np.bincount([place for place, _ in files], counts, len(units)).astype(int)
        kept = np.bincount(self._units, minlength=len(units))
        self.written = [
            UnitWritten((), int(kept[place]), int(came[place] - kept[place]), unit.requests, {} if place else unknown)
            for place, unit in enumerate(units)
        ]

    def without(self, left_out: Sequence[bool]) -> pa.RecordBatch:
        """Return the rows without those of the left-out work units."""
        if not any(left_out):
            return self._rows
        return self._rows.filter(pa.array(~np.array(left_out)[self._units]))


def _decode_lines(task: WriteTask, files: Sequence[FetchedFile]) -> tuple[pa.RecordBatch, dict[str, int]]:
    """Decode small files of JSON lines, and count values without a column; raises if a record is bad."""
    decompress = zstandard.ZstdDecompressor().decompressobj
    lines = b"".join(decompress().decompress(file.content or b"") for file in files)
    if not files:
        return pa.RecordBatch.from_pylist([], arrow_schema(task.fields)), {}
    whole = FetchedFile(
        0, "", files[0].location, FileSlice("records", len(lines)), Compression.NONE, content=lines, pages=(1,)
    )
    rows = UnitRows(task, Fetched(0, "", ((0, 0),)))
    return pa.concat_batches(rows.records(whole)), dict(rows.unknown)


def fetch_and_write(
    needs: tuple[FetchTask, WriteTask], works: Sequence[tuple[int, UnitWork]]
) -> Iterator[tuple[int, Outcome]]:
    """Fetch work units and write them as they come; for columns known before."""
    fetching, writing = needs
    yield from write_share(writing, fetch_share(fetching, works))


def write_packed(task: WriteTask, fetched: Sequence[tuple[int, Fetched]]) -> Iterator[tuple[int, Outcome]]:
    """Write work units that :func:`pack_share` fetched."""
    yield from write_share(task, unpack_all(fetched))


def write_fetched(
    wave: UnitWave,
    fetched: Mapping[int, Fetched | UnitFailure],
    write_all: Callable[[WriteTask, Mapping[int, Fetched]], Mapping[int, Outcome]],
) -> WaveResult:
    """Write what was fetched and remove it from the scratch area; leftovers go with the area.

    The columns do not depend on which response came first.
    """
    try:
        return write_wave(
            wave, dict(sorted(fetched.items())), lambda left: plan_write(wave, list(left.values())), write_all
        )
    finally:
        files = [file for unit in fetched.values() if isinstance(unit, Fetched) for file in unit.files]
        for location, path in {(file.location, file.slice.path): None for file in files if file.is_scratch}:
            # Leftovers go with the work area; the result must not fail over them.
            with suppress(StorageError):
                open_store(location).delete(path)


def write_declared_wave(wave: UnitWave, carry_out: Callable[[WriteTask], Mapping[int, Outcome]]) -> WaveResult:
    """Carry out a wave with declared columns: ``carry_out`` fetches and writes at the same time."""
    task = plan_write(wave, ())
    done = carry_out(task)
    return WaveResult(tuple(map(done.get, range(len(wave.works)))), task.columns, task.partition_columns)


def carry_out_here(wave: UnitWave) -> WaveResult:
    """Read and write the work units of a wave in this process."""
    task = fetch_task(wave, 1, most_in_flight(wave.source, len(wave.works)))
    works = list(enumerate(wave.works))
    if wave.pipeline.schema.fields:
        return write_declared_wave(wave, lambda plan: dict(fetch_and_write((task, plan), works)))
    fetched = dict(pack_share(task, works))
    return write_fetched(wave, fetched, lambda plan, left: dict(write_packed(plan, list(left.items()))))
