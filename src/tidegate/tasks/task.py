"""Tasks over files: read a group into the table, file after file, and read dead letters again.

A file counts as far as it was read, or not at all. Bad lines go into the dead-letter table and are cut or abandoned
together with the rows.

Small files of lines are gathered and decoded together, because a call would cost more than their few records; a bad
line goes to the dead letters or refuses its own file, and no other. A file of medium size is buffered until its end
and only then written. A large one begins after a cut, so that everything written since is its own and can be
abandoned; the task may also stop inside it, at the end of a block, once enough is written for one commit.

No Spark in here: a task is the same in a Spark worker, in a test and in a benchmark.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import groupby, pairwise
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from tidegate.core.files.plan import FileGroup, FileSlice
from tidegate.core.files.state import Changed, Covered, FileOutcome, NotReached, Refused
from tidegate.errors import AccessDenied, BadRecord, ObjectChanged, ObjectMissing, SourceError, StorageError
from tidegate.failpoints import failpoint
from tidegate.formats.json import BLOCK_BYTES, LONGEST_LINE, MOST_RECORDS, LineFormat, LineTooLong
from tidegate.formats.port import Decoded, Fetcher, FormatReader, Rejected, place_in
from tidegate.parquet.parquet_file import FinishedFile, Lines, RowOrigin, keep_memory
from tidegate.parquet.partitions import METADATA_COLUMNS, Partitioning
from tidegate.parquet.writer import RollingWriter
from tidegate.schema.dead_letter import Letter
from tidegate.schema.literals import escape_halves, find_native
from tidegate.schema.types import arrow_schema
from tidegate.specs.files import Format
from tidegate.storage.port import ObjectStore, name_limits
from tidegate.storage.stores import open_store
from tidegate.tasks.dead_letters import DeadLetterWriter
from tidegate.tasks.read_task import GroupResult, Hear, ReadTask, TaskActivity, open_format


def read_group(task: ReadTask, group: FileGroup, hear: Hear | None = None) -> Iterator[GroupResult]:
    """Read a group of files: one result, or several that together cover each file; ``hear`` gets its activity.

    If the storage fails, the group is a failure. If memory runs out, its files are read one by one, and only those are
    refused for which it runs out again; past the time limit the others are not reached.
    """
    started = time.monotonic()
    problem = ""
    try:
        result = read_group_at_once(task, group, hear)
    except StorageError as error:
        result = GroupResult.of_failure(group, error)
    # pyo3 panics derive from BaseException, so that `except Exception` would let one file end the worker.
    except BaseException as error:
        problem = _describe_breakdown(error)
        if not problem or not group.files:
            raise
    if not problem:
        yield result
    elif group.files == 1:
        (only,) = group.slices
        yield GroupResult(group.number, (Refused(only.path, only.size, only.etag, escape_halves(problem)),))
    else:
        for position, file in enumerate(group.slices):
            if position and task.seconds is not None and time.monotonic() - started >= task.seconds:
                yield GroupResult(group.number, (NotReached(file.path),))
            else:
                yield from read_group(task, FileGroup(group.number, (file,)), hear)


def _describe_breakdown(error: BaseException) -> str:
    """Describe a failure below Python, if an error shows one; else empty."""
    if isinstance(error, MemoryError):
        return f"ran out of memory while reading the file ({error or 'no details'})"
    if type(error).__name__ == "PanicException":
        return f"native code panicked while reading the file ({error})"
    return ""


def read_group_at_once(task: ReadTask, group: FileGroup, hear: Hear | None = None) -> GroupResult:
    """Read one group. The result is complete and durable; after an error nothing counts."""
    keep_memory()
    with contextlib.closing(GroupWalk(task, hear)) as walk:
        result = walk.read(group)
    failpoint("sink.unit.after")
    return result


SMALL_FILE = 256 * 1024
"""Listed size up to which a file is gathered with its neighbours."""

_BAD_BYTES = 250
"""Memory of a bad record besides its text."""

_ROUNDS_OF_EQUAL_SIZE = 2


@dataclass(frozen=True, slots=True)
class _Small:
    """A small file in memory: its text and number of lines."""

    slice: FileSlice
    text: bytes
    lines: int


class _Denied(SourceError):
    """Access to the file is denied, which says nothing about the file."""


@contextlib.contextmanager
def _mark_denials() -> Iterator[None]:
    try:
        yield
    except AccessDenied as error:
        raise _Denied(error.problem, error.remedy) from error


TELL_SECONDS = 0.5
"""Seconds between two reports of how much a task has read."""


class _Activity:
    """Passes every change of uploads to ``hear``, and now and then the bytes read; thread-safe."""

    def __init__(self, hear: Hear) -> None:
        self._hear = hear
        self._now = TaskActivity()
        self._reported_at = time.monotonic()
        # Uploads report from their own threads.
        self._lock = threading.Lock()

    def report_uploads(self, files: int, parts: int) -> None:
        """Report how many files, and parts of files, are being uploaded."""
        with self._lock:
            self._now = replace(self._now, files=files, parts=parts)
            self._hear(self._now)

    @property
    def is_due(self) -> bool:
        """True if a report of the bytes read is due."""
        return time.monotonic() - self._reported_at >= TELL_SECONDS

    def report_read(self, size: int, rows: int) -> None:
        """Report bytes and rows as read."""
        with self._lock:
            self._reported_at = time.monotonic()
            self._now = replace(self._now, bytes=size, rows=rows)
            self._hear(self._now)

    def end(self) -> None:
        """End the group, whose result covers it."""
        with self._lock:
            if self._now.bytes or self._now.rows:
                self._hear(replace(self._now, bytes=0, rows=0))


class GroupWalk:
    """Reads one group of files into the table."""

    def __init__(self, task: ReadTask, hear: Hear | None = None) -> None:
        self._task = task
        self._started = time.monotonic()
        self._table = open_store(task.table)
        self._activity = None if hear is None else _Activity(hear)
        self._bytes = self._rows = 0
        if self._activity is not None:
            self._table.uploads.listen = self._activity.report_uploads
        self._fetch = Fetcher(open_store(task.source))
        partitioning = Partitioning(task.partition_by, arrow_schema(task.fields))
        self._format = open_format(task, partitioning)
        self._lines = self._format if isinstance(self._format, LineFormat) else None
        self._landing = TableWriter(task, partitioning, self._table)
        self._outcomes: dict[str, FileOutcome] = {}
        self._gathered: list[_Small] = []
        self._gathered_bytes = self._gathered_lines = 0

    def read(self, group: FileGroup) -> GroupResult:
        """Read file after file until the group is done or enough is written, at least one; then close every file."""
        outcomes = self._read_files(group)
        files, letters = self._landing.finish()
        return GroupResult(
            number=group.number,
            outcomes=outcomes,
            data_files=files,
            rows=sum(file.record_count for file in files),
            letter_files=letters,
            unknown_fields={escape_halves(name): count for name, count in self._format.unknown.items() if count},
            seconds=time.monotonic() - self._started,
            uploads=self._table.uploads.counts,
            bad_kinds=self._landing.bad_kinds(),
            lacks_native=self._task.wants_native and self._lines is not None and find_native() is None,
        )

    def _read_files(self, group: FileGroup) -> tuple[FileOutcome, ...]:
        # Each costs a round trip: they are fetched ahead while the ones before are decoded.
        self._fetch.expect([file for file in group.slices if _is_small(file)])
        for position, file in enumerate(group.slices):
            if position and (self._is_full(file) or self._is_late()):
                self._outcomes[file.path] = NotReached(file.path)
            elif not (_is_small(file) and self._gather(file)):
                self._decode_gathered()
                self._outcomes[file.path] = self._read_file(file)
                self._bytes += file.size
        self._decode_gathered()
        return tuple(self._outcomes[file.path] for file in group.slices)

    def close(self) -> None:
        """Stop, and drop what is not finished."""
        self._fetch.close()
        self._landing.close()
        if self._activity is not None:
            self._activity.end()

    def _is_full(self, file: FileSlice) -> bool:
        """True if there are enough files for a commit; twice as many in each round from a file's third on."""
        # Every round reads the file from its start to skip what is committed; rounds of equal size would be quadratic.
        rounds = max(file.rounds - _ROUNDS_OF_EQUAL_SIZE + 1, 0)
        return self._landing.files >= self._task.commit_batch_files << min(rounds, 20)

    def _is_late(self) -> bool:
        return self._task.seconds is not None and time.monotonic() - self._started >= self._task.seconds

    def _open(self, file: FileSlice) -> BinaryIO:
        failpoint("sink.file.before", file.path)
        with _mark_denials():
            return self._fetch.open(file, seeks=self._format.seeks)

    def _decode(self, file: FileSlice) -> Iterator[Decoded]:
        """Yield the uncommitted records of a file."""
        with contextlib.closing(self._open(file)) as raw, _mark_denials():
            for block in self._format.read(raw, file):
                decoded = self._landing.reject_long_paths(block, [(file.path, block.batch.num_rows)])
                self._rows += decoded.batch.num_rows
                if self._activity is not None and self._activity.is_due:
                    self._activity.report_read(self._bytes + min(place_in(raw), file.size), self._rows)
                yield decoded

    def _read_file(self, file: FileSlice) -> FileOutcome:
        """Read one file alone."""
        walk = _FileWalk(self._landing, file, self._task)
        try:
            for decoded in self._decode(file):
                self._landing.tick()
                walk.take(decoded)
                if walk.is_large and not self._task.whole_files and self._should_stop_inside(file):
                    return walk.cover(eof=False)
            return walk.cover(eof=True)
        except (BadRecord, SourceError, LineTooLong, ObjectChanged, ObjectMissing) as error:
            self._raise_if_fatal(error)
            walk.give_up()
            return self._failure(file, error, walk.line)

    def _raise_if_fatal(self, error: Exception) -> None:
        """Raise if bad records end the run (``on_bad_record: fail_run``)."""
        if isinstance(error, BadRecord) and self._task.fail_run:
            raise error

    def _should_stop_inside(self, file: FileSlice) -> bool:
        """True if the task should stop inside a file; the time limit counts only in early rounds."""
        # Later rounds go on past the time limit: each begins by skipping what is committed, which may take longer than
        # that.
        return self._is_full(file) or (file.rounds < _ROUNDS_OF_EQUAL_SIZE and self._is_late())

    def _gather(self, file: FileSlice) -> bool:
        """Read a small file and add it to the gathered ones; False if it is not small after all."""
        if self._lines is None:
            return False
        try:
            with contextlib.closing(self._open(file)) as raw:
                lines = self._lines.blocks(raw, file)
                text = next(lines, b"")
                # A small gzip file may hold gigabytes; its size is known only when it is read.
                if next(lines, None) is not None:
                    return False
        except (SourceError, LineTooLong, ObjectChanged, ObjectMissing) as error:
            self._outcomes[file.path] = self._failure(file, error, 0)
            return True
        self._gathered.append(_Small(file, text, text.count(b"\n")))
        self._gathered_bytes += len(text)
        self._gathered_lines += self._gathered[-1].lines
        # Lines count too: millions of tiny bad records would take gigabytes (5 MiB of commas took 2.2 GiB).
        if self._gathered_bytes >= BLOCK_BYTES or self._gathered_lines >= MOST_RECORDS:
            self._decode_gathered()
        return True

    def _decode_gathered(self) -> None:
        """Decode the gathered files together; each is refused or covered on its own."""
        files, self._gathered = self._gathered, []
        self._gathered_bytes = self._gathered_lines = 0
        if not files or self._lines is None:
            return
        self._landing.tick()
        decoded = self._lines.decode(b"".join([file.text for file in files]))
        bounds = np.cumsum([0, *(file.lines for file in files)])
        rows = bounds if decoded.offsets is None else np.searchsorted(decoded.offsets, bounds)
        decoded = self._landing.reject_long_paths(
            decoded, [(file.slice.path, int(count)) for file, count in zip(files, np.diff(rows), strict=True)]
        )
        self._bytes += sum(file.slice.size for file in files)
        self._rows += decoded.batch.num_rows
        if self._activity is not None and self._activity.is_due:
            self._activity.report_read(self._bytes, self._rows)
        rows = bounds if decoded.offsets is None else np.searchsorted(decoded.offsets, bounds)
        rejected = _group_by_file(decoded.rejected, bounds)
        refused: set[int] = set()
        for number, (file, (start, end)) in enumerate(zip(files, pairwise(rows.tolist()), strict=True)):
            bad = rejected.get(number, [])
            try:
                self._landing.refuse(file.slice, 0, bad)
                self._outcomes[file.slice.path] = _cover(file, end - start, len(bad))
            except BadRecord as error:
                self._raise_if_fatal(error)
                self._outcomes[file.slice.path] = self._failure(file.slice, error, 0)
                refused.add(number)
        # One write for all of them, the usual case: each would otherwise cost a slice per file.
        if not refused and not self._landing.distinguishes_files:
            others = [(file.slice.path, int(start)) for file, start in zip(files[1:], bounds[1:], strict=False)]
            self._landing.write(decoded.batch, files[0].slice.path, decoded.offsets, 0, others)
            return
        self._write_apart(decoded, files, bounds, rows, refused)

    def _write_apart(
        self, decoded: Decoded, files: list[_Small], bounds: np.ndarray, rows: np.ndarray, refused: set[int]
    ) -> None:
        for number, (start, end) in enumerate(pairwise(rows.tolist())):
            if number not in refused and end > start:
                lines = None if decoded.offsets is None else decoded.offsets[start:end] - bounds[number]
                batch = decoded.batch.slice(start, end - start)
                self._landing.write(batch, files[number].slice.path, lines, 0)

    def _failure(self, file: FileSlice, error: Exception, line: int) -> FileOutcome:
        noun = self._format.noun
        match error:
            case ObjectChanged() | ObjectMissing():
                # Not refused: nothing is wrong with the file, and a new listing shows what it is now.
                return Changed(file.path)
            case BadRecord():
                reason = f"{noun} {error.line}: {error.reason}"
            case LineTooLong():
                reason = f"a {noun} after {noun} {line} is longer than {LONGEST_LINE // 2**20} MiB"
            case _:
                reason = str(error).removeprefix(f"{file.path}: ")
        # A missing permission must not use up the attempts after which a file becomes a dead letter.
        return Refused(file.path, file.size, file.etag, escape_halves(reason), counts=not isinstance(error, _Denied))


class _FileWalk:
    """Reads one file alone: buffers it until its end, or writes it as it is read once it is large."""

    def __init__(self, landing: TableWriter, file: FileSlice, task: ReadTask) -> None:
        self._landing = landing
        self._slice = file
        self._most_buffered = task.held_bytes if task.whole_files else min(task.held_bytes, task.writer.file_size)
        self._keeps_bad = task.letters is not None
        self._rows = 0
        self._bad = 0
        self._buffered: list[tuple[Decoded, int]] = []
        self._buffered_bytes = 0
        self.line = file.start_record
        self.is_large = False

    def take(self, decoded: Decoded) -> None:
        """Take the next block; raises :class:`BadRecord` if bad lines refuse their file."""
        self._buffered.append((decoded, self.line))
        self._buffered_bytes += decoded.batch.nbytes + sum(_BAD_BYTES + len(bad.text) for bad in decoded.rejected)
        if decoded.rejected and not self._keeps_bad:
            self._landing.refuse(self._slice, self.line, decoded.rejected)
        self.line += decoded.lines
        if not self.is_large and self._buffered_bytes > self._most_buffered:
            # From here on everything since the cut is this file's own, and can be abandoned without touching others.
            self._landing.cut()
            self.is_large = True
        if self.is_large:
            self._write_buffered()

    def cover(self, *, eof: bool) -> Covered:
        """Write what is buffered, and return the covered lines."""
        self._write_buffered()
        file = self._slice
        return Covered(file.path, file.size, file.etag, file.start_record, self.line, eof, self._rows, self._bad)

    def give_up(self) -> None:
        """Abandon everything that was written of the file."""
        if self.is_large:
            self._landing.abandon()

    def _write_buffered(self) -> None:
        buffered, self._buffered = self._buffered, []
        for decoded, line in buffered:
            self._landing.write(decoded.batch, self._slice.path, decoded.offsets, line)
            self._landing.refuse(self._slice, line, decoded.rejected)
            self._rows += decoded.batch.num_rows
            self._bad += len(decoded.rejected)


def _is_small(file: FileSlice) -> bool:
    return file.size <= SMALL_FILE and not file.start_record


def _group_by_file(rejected: tuple[Rejected, ...], bounds: np.ndarray) -> dict[int, list[Rejected]]:
    """Group bad lines by file, each with its line in that file."""
    by_file: dict[int, list[Rejected]] = {}
    for rejection in rejected:
        number = int(np.searchsorted(bounds, rejection.offset, side="right")) - 1
        own = Rejected(rejection.offset - int(bounds[number]), rejection.reason, rejection.text)
        by_file.setdefault(number, []).append(own)
    return by_file


def _cover(file: _Small, rows: int, bad: int) -> Covered:
    slice_ = file.slice
    return Covered(slice_.path, slice_.size, slice_.etag, 0, file.lines, eof=True, rows=rows, bad=bad)


class TableWriter:
    """Writes rows of source files; keeps what is finished."""

    def __init__(self, task: ReadTask, partitioning: Partitioning, table: ObjectStore) -> None:
        self._task = task
        self._partitioning = partitioning
        self._limits = name_limits(task.table)
        self._writer = RollingWriter(table, task.writer)
        self._schema = pa.ipc.read_schema(pa.py_buffer(task.file_schema))
        self._ingested_at = datetime.now(UTC)
        self._files: list[FinishedFile] = []
        self._noun = "line" if task.format is Format.NDJSON else "record"
        self._letters = None if task.letters is None else DeadLetterWriter(task.letters)
        self._letter_files: list[FinishedFile] = []

    @property
    def distinguishes_files(self) -> bool:
        """True if a row's source file decides where it goes or what it contains."""
        return bool(self._partitioning.from_path or self._task.metadata_columns)

    @property
    def files(self) -> int:
        """Number of closed files."""
        return len(self._files) + self._writer.rolled_files

    def write(
        self,
        batch: pa.RecordBatch,
        path: str,
        lines: Lines | None,
        first_line: int,
        others: Sequence[tuple[str, int]] = (),
    ) -> None:
        """Take the rows of one source file, or of several that need not be distinguished.

        ``lines`` has the line of each row, from ``first_line``; None if they are consecutive. ``others`` are the
        further files, each with its first line.
        """
        if lines is None:
            lines = np.arange(batch.num_rows)
        files, starts = zip((path, 0), *others, strict=True)
        origin = RowOrigin(files, np.array(starts), lines, first_line)
        complete = self._with_metadata(batch, path, lines, first_line)
        divide = partial(self._partitioning.split, path=path, schema=self._schema)
        self._writer.scatter(complete, divide, self._uri(path), origin)

    def reject_long_paths(self, decoded: Decoded, files: Sequence[tuple[str, int]]) -> Decoded:
        """Reject records whose partition values make no path in this storage; ``files`` have so many rows each."""
        keys = self._partitioning
        if not keys.from_path:
            return decoded.without(keys.find_too_long(decoded.batch, "", self._limits))
        bad: dict[int, str] = {}
        start = 0
        for path, count in files:
            too_long = keys.find_too_long(decoded.batch.slice(start, count), path, self._limits)
            bad |= {start + row: reason for row, reason in too_long.items()}
            start += count
        return decoded.without(bad)

    def refuse(self, file: FileSlice, first_line: int, rejected: Sequence[Rejected]) -> None:
        """Keep bad lines of one file as letters; without letters raise :class:`BadRecord` for the first."""
        if not rejected:
            return
        if self._letters is None:
            raise BadRecord(file.path, first_line + rejected[0].offset + 1, rejected[0].reason, self._noun)
        self._letters.add_records(file, first_line, rejected)

    def bad_kinds(self) -> dict[str, int]:
        """The number of letters by kind."""
        return {} if self._letters is None else dict(self._letters.kinds)

    def tick(self) -> None:
        """Close files that have been open for too long."""
        self._writer.tick()

    def cut(self) -> None:
        """Close every file, so that what is written next can be abandoned alone."""
        self._files.extend(self._writer.cut())
        if self._letters is not None:
            self._letter_files.extend(self._letters.cut())

    def abandon(self) -> None:
        """Drop what was written since the last cut."""
        self._writer.abandon()
        if self._letters is not None:
            self._letters.abandon()

    def finish(self) -> tuple[tuple[FinishedFile, ...], tuple[FinishedFile, ...]]:
        """Close every file; returns all finished files of the table and of the dead-letter table."""
        self.cut()
        return tuple(self._files), tuple(self._letter_files)

    def close(self) -> None:
        """Stop, and drop what is not finished."""
        self._writer.close()
        if self._letters is not None:
            self._letters.close()

    def _with_metadata(self, batch: pa.RecordBatch, path: str, lines: Lines, first_line: int) -> pa.RecordBatch:
        for name in self._task.metadata_columns:
            kind = METADATA_COLUMNS[name]
            if name == "_source_record":
                column = pa.array(lines + first_line, kind)
            else:
                value = self._uri(path) if name == "_source_file" else self._ingested_at
                column = pa.repeat(pa.scalar(value, kind), batch.num_rows)
            batch = batch.append_column(pa.field(name, kind), column)
        return batch

    def _uri(self, path: str) -> str:
        return f"{self._task.source.uri}/{path}"


@dataclass(slots=True)
class Reread:
    """The result of rereading letters: files with the rows that are good now, and why the others still are bad."""

    files: tuple[FinishedFile, ...] = ()
    good: list[Letter] = field(default_factory=list)
    bad: list[tuple[Letter, str]] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """The number of rows in the files."""
        return sum(file.record_count for file in self.files)


def reread(task: ReadTask, letters: Iterable[Letter]) -> Reread:
    """Decode the records of ``letters`` once more; they come file by file."""
    result = Reread()
    partitioning = Partitioning(task.partition_by, arrow_schema(task.fields))
    format = open_format(task, partitioning)
    # A letter that is still bad stays open; a second letter about the same line would double it.
    landing = TableWriter(replace(task, letters=None), partitioning, open_store(task.table))
    with contextlib.closing(landing):
        for block in _group_letters(letters):
            _reread_block(format, landing, block, result)
        result.files, _ = landing.finish()
    return result


def _group_letters(letters: Iterable[Letter]) -> Iterator[list[Letter]]:
    """Group letters by file, into blocks of about the size of a read."""
    for _, group in groupby(letters, key=lambda letter: letter.file):
        block: list[Letter] = []
        size = 0
        for letter in group:
            block.append(letter)
            size += len(letter.content)
            if size >= BLOCK_BYTES:
                yield block
                block, size = [], 0
        if block:
            yield block


def _reread_block(format: FormatReader, landing: TableWriter, block: list[Letter], result: Reread) -> None:
    path = block[0].file or ""
    again = format.reread([letter.content for letter in block], path)
    decoded = landing.reject_long_paths(again, [(path, again.batch.num_rows)])
    kept = np.arange(len(block)) if decoded.offsets is None else decoded.offsets
    lines = np.array([(block[offset].line or 1) - 1 for offset in kept], np.int64)
    landing.write(decoded.batch, block[0].file or "", lines, 0)
    result.good.extend(block[offset] for offset in kept)
    result.bad.extend((block[rejection.offset], rejection.reason) for rejection in decoded.rejected)
    answered = {*kept.tolist(), *(rejection.offset for rejection in decoded.rejected)}
    result.bad.extend((letter, "blank line") for offset, letter in enumerate(block) if offset not in answered)
