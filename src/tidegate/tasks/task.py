"""Tasks over files: read a group into the table, file after file, and read dead letters again.

A file counts as far as it was read, or not at all. Bad lines go into the dead-letter table, and are cut and abandoned
together with the rows.

Small files of lines are gathered and decoded together, because a call would cost more than their few records; a bad
line goes to the dead letters or refuses its own file, and no other. A file of medium size is held until its end and
only then written. A large one begins after a cut, so that everything written since is its own and can be abandoned; the
task may also stop inside it, at the end of a block, once enough is written for one commit.

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
from tidegate.specs.project import Format
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
        result = read_unit(task, group, hear)
    except StorageError as error:
        result = GroupResult.of_failure(group, error)
    except BaseException as error:
        problem = _breakdown(error)
        if not problem or not group.files:
            raise
    if not problem:
        yield result
    elif group.files == 1:
        (each,) = group.slices
        yield GroupResult(group.number, (Refused(each.path, each.size, each.etag, escape_halves(problem)),))
    else:
        for position, each in enumerate(group.slices):
            if position and task.seconds is not None and time.monotonic() - started >= task.seconds:
                yield GroupResult(group.number, (NotReached(each.path),))
            else:
                yield from read_group(task, FileGroup(group.number, (each,)), hear)


def _breakdown(error: BaseException) -> str:
    """The failure below Python, if an error shows one; else empty."""
    if isinstance(error, MemoryError):
        return f"memory ran out while it was read ({error or 'no more is said'})"
    if type(error).__name__ == "PanicException":
        return f"native code panicked while it was read ({error})"
    return ""


def read_unit(task: ReadTask, unit: FileGroup, hear: Hear | None = None) -> GroupResult:
    """Read one group. The result is complete and durable; after an error nothing counts."""
    keep_memory()
    with contextlib.closing(GroupWalk(task, hear)) as walk:
        result = walk.read(unit)
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
def _denials() -> Iterator[None]:
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
        self._told = time.monotonic()
        self._lock = threading.Lock()

    def uploading(self, files: int, parts: int) -> None:
        """So many files, and parts of files, are being uploaded."""
        with self._lock:
            self._now = replace(self._now, files=files, parts=parts)
            self._hear(self._now)

    @property
    def is_due(self) -> bool:
        """Whether a report of the bytes read is due."""
        return time.monotonic() - self._told >= TELL_SECONDS

    def read(self, size: int, rows: int) -> None:
        """Count bytes and rows as read."""
        with self._lock:
            self._told = time.monotonic()
            self._now = replace(self._now, bytes=size, rows=rows)
            self._hear(self._now)

    def end(self) -> None:
        """End the group, whose result covers it."""
        with self._lock:
            if self._now.bytes or self._now.rows:
                self._hear(replace(self._now, bytes=0, rows=0))


class GroupWalk:
    """One group under way."""

    def __init__(self, task: ReadTask, hear: Hear | None = None) -> None:
        self._task = task
        self._started = time.monotonic()
        self._table = open_store(task.table)
        self._activity = None if hear is None else _Activity(hear)
        self._bytes = self._rows = 0
        if self._activity is not None:
            self._table.uploads.listen = self._activity.uploading
        self._fetch = Fetcher(open_store(task.source))
        partitioning = Partitioning(task.partition_by, arrow_schema(task.fields))
        self._format = open_format(task, partitioning)
        self._lines = self._format if isinstance(self._format, LineFormat) else None
        self._landing = TableWriter(task, partitioning, self._table)
        self._outcomes: dict[str, FileOutcome] = {}
        self._gathered: list[_Small] = []
        self._gathered_bytes = self._gathered_lines = 0

    def read(self, unit: FileGroup) -> GroupResult:
        """Read file after file until the group is done or enough is written, at least one; then close every file."""
        outcomes = self._read_files(unit)
        files, letters = self._landing.finish()
        return GroupResult(
            number=unit.number,
            outcomes=outcomes,
            data_files=files,
            rows=sum(file.record_count for file in files),
            letter_files=letters,
            unknown_fields={escape_halves(name): count for name, count in self._format.unknown.items() if count},
            seconds=time.monotonic() - self._started,
            uploads=self._table.uploads.counts,
            bad_kinds=self._landing.bad_kinds(),
            lacks_native=self._task.has_native and self._lines is not None and find_native() is None,
        )

    def _read_files(self, unit: FileGroup) -> tuple[FileOutcome, ...]:
        self._fetch.expect([file for file in unit.slices if _is_small(file)])
        for position, each in enumerate(unit.slices):
            if position and (self._is_full(each) or self._is_late()):
                self._outcomes[each.path] = NotReached(each.path)
            elif not (_is_small(each) and self._gather(each)):
                self._decode_gathered()
                self._outcomes[each.path] = self._outcome(each)
                self._bytes += each.size
        self._decode_gathered()
        return tuple(self._outcomes[file.path] for file in unit.slices)

    def close(self) -> None:
        """Stop, and drop what is not finished."""
        self._fetch.close()
        self._landing.close()
        if self._activity is not None:
            self._activity.end()

    def _is_full(self, each: FileSlice) -> bool:
        """Whether there are enough files for a commit; twice as many in each round from a file's third on."""
        rounds = max(each.rounds - _ROUNDS_OF_EQUAL_SIZE + 1, 0)
        return self._landing.files >= self._task.commit_batch_files << min(rounds, 20)

    def _is_late(self) -> bool:
        return self._task.seconds is not None and time.monotonic() - self._started >= self._task.seconds

    def _opened(self, each: FileSlice) -> BinaryIO:
        failpoint("sink.file.before", each.path)
        with _denials():
            return self._fetch.seekable(each) if self._format.seeks else self._fetch(each)

    def _decoded(self, each: FileSlice) -> Iterator[Decoded]:
        """The uncommitted records of a file."""
        with contextlib.closing(self._opened(each)) as raw, _denials():
            for found in self._format.read(raw, each):
                decoded = self._landing.checked(found, [(each.path, found.batch.num_rows)])
                self._rows += decoded.batch.num_rows
                if self._activity is not None and self._activity.is_due:
                    self._activity.read(self._bytes + min(place_in(raw), each.size), self._rows)
                yield decoded

    def _outcome(self, each: FileSlice) -> FileOutcome:
        """Read one file by itself."""
        file = _FileWalk(self._landing, each, self._task)
        try:
            for decoded in self._decoded(each):
                self._landing.tick()
                file.take(decoded)
                if file.is_large and not self._task.whole_files and self._is_enough_in_the_middle(each):
                    return file.covered(eof=False)
            return file.covered(eof=True)
        except (BadRecord, SourceError, LineTooLong, ObjectChanged, ObjectMissing) as error:
            self._stop_at(error)
            file.give_up()
            return self._failure(each, error, file.line)

    def _stop_at(self, error: Exception) -> None:
        """Raise if a bad record ends the task."""
        if isinstance(error, BadRecord) and self._task.fail_run:
            raise error

    def _is_enough_in_the_middle(self, each: FileSlice) -> bool:
        """Whether to stop inside a file; the time limit counts only in the first rounds, which reread little."""
        return self._is_full(each) or (each.rounds < _ROUNDS_OF_EQUAL_SIZE and self._is_late())

    def _gather(self, each: FileSlice) -> bool:
        """Read a small file and add it to the others; False if it is not small after all."""
        if self._lines is None:
            return False
        try:
            with contextlib.closing(self._opened(each)) as raw:
                lines = self._lines.blocks(raw, each)
                text = next(lines, b"")
                if next(lines, None) is not None:
                    return False
        except (SourceError, LineTooLong, ObjectChanged, ObjectMissing) as error:
            self._outcomes[each.path] = self._failure(each, error, 0)
            return True
        self._gathered.append(_Small(each, text, text.count(b"\n")))
        self._gathered_bytes += len(text)
        self._gathered_lines += self._gathered[-1].lines
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
        decoded = self._landing.checked(
            decoded, [(file.slice.path, int(count)) for file, count in zip(files, np.diff(rows), strict=True)]
        )
        self._bytes += sum(file.slice.size for file in files)
        self._rows += decoded.batch.num_rows
        if self._activity is not None and self._activity.is_due:
            self._activity.read(self._bytes, self._rows)
        rows = bounds if decoded.offsets is None else np.searchsorted(decoded.offsets, bounds)
        rejected = _by_file(decoded.rejected, bounds)
        refused: set[int] = set()
        for number, (file, (start, end)) in enumerate(zip(files, pairwise(rows.tolist()), strict=True)):
            bad = rejected.get(number, [])
            try:
                self._landing.refuse(file.slice, 0, bad)
                self._outcomes[file.slice.path] = _covered(file, end - start, len(bad))
            except BadRecord as error:
                self._stop_at(error)
                self._outcomes[file.slice.path] = self._failure(file.slice, error, 0)
                refused.add(number)
        if not refused and not self._landing.tells_files_apart:
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

    def _failure(self, each: FileSlice, error: Exception, line: int) -> FileOutcome:
        noun = self._format.noun
        match error:
            case ObjectChanged() | ObjectMissing():
                return Changed(each.path)
            case BadRecord():
                reason = f"{noun} {error.line}: {error.reason}"
            case LineTooLong():
                reason = f"a {noun} after {noun} {line} is longer than {LONGEST_LINE // 2**20} MiB"
            case _:
                reason = str(error).removeprefix(f"{each.path}: ")
        return Refused(each.path, each.size, each.etag, escape_halves(reason), counts=not isinstance(error, _Denied))


class _FileWalk:
    """One file by itself: held until its end, or written as it is read once it is large."""

    def __init__(self, landing: TableWriter, each: FileSlice, task: ReadTask) -> None:
        self._landing = landing
        self._slice = each
        self._most_held = task.held_bytes if task.whole_files else min(task.held_bytes, task.writer.file_size)
        self._keeps_bad = task.letters is not None
        self._rows = 0
        self._bad = 0
        self._held: list[tuple[Decoded, int]] = []
        self._held_bytes = 0
        self.line = each.start_record
        self.is_large = False

    def take(self, decoded: Decoded) -> None:
        """Take the next block; raises :class:`BadRecord` if bad lines refuse their file."""
        self._held.append((decoded, self.line))
        self._held_bytes += decoded.batch.nbytes + sum(_BAD_BYTES + len(bad.text) for bad in decoded.rejected)
        if decoded.rejected and not self._keeps_bad:
            self._landing.refuse(self._slice, self.line, decoded.rejected)
        self.line += decoded.lines
        if not self.is_large and self._held_bytes > self._most_held:
            self._landing.cut()
            self.is_large = True
        if self.is_large:
            self._hand_on()

    def covered(self, *, eof: bool) -> Covered:
        """Write what is held, and return the covered lines."""
        self._hand_on()
        each = self._slice
        return Covered(each.path, each.size, each.etag, each.start_record, self.line, eof, self._rows, self._bad)

    def give_up(self) -> None:
        """Abandon everything of the file."""
        if self.is_large:
            self._landing.abandon()

    def _hand_on(self) -> None:
        held, self._held = self._held, []
        for decoded, line in held:
            self._landing.write(decoded.batch, self._slice.path, decoded.offsets, line)
            self._landing.refuse(self._slice, line, decoded.rejected)
            self._rows += decoded.batch.num_rows
            self._bad += len(decoded.rejected)


def _is_small(each: FileSlice) -> bool:
    return each.size <= SMALL_FILE and not each.start_record


def _by_file(rejected: tuple[Rejected, ...], bounds: np.ndarray) -> dict[int, list[Rejected]]:
    """The bad lines by file, with their line in that file."""
    found: dict[int, list[Rejected]] = {}
    for each in rejected:
        number = int(np.searchsorted(bounds, each.offset, side="right")) - 1
        own = Rejected(each.offset - int(bounds[number]), each.reason, each.text)
        found.setdefault(number, []).append(own)
    return found


def _covered(file: _Small, rows: int, bad: int) -> Covered:
    each = file.slice
    return Covered(each.path, each.size, each.etag, 0, file.lines, eof=True, rows=rows, bad=bad)


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
    def tells_files_apart(self) -> bool:
        """Whether a row's source file decides where it goes or what it contains."""
        return bool(self._partitioning.from_path or self._task.metadata_columns)

    @property
    def files(self) -> int:
        """How many files are closed."""
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

    def checked(self, decoded: Decoded, files: Sequence[tuple[str, int]]) -> Decoded:
        """The records whose partition values make a path; others are rejected. ``files`` have so many rows each."""
        keys = self._partitioning
        if not keys.from_path:
            return decoded.without(keys.without_path(decoded.batch, "", self._limits))
        bad: dict[int, str] = {}
        start = 0
        for path, count in files:
            found = keys.without_path(decoded.batch.slice(start, count), path, self._limits)
            bad |= {start + row: reason for row, reason in found.items()}
            start += count
        return decoded.without(bad)

    def refuse(self, each: FileSlice, first_line: int, rejected: Sequence[Rejected]) -> None:
        """Keep bad lines of one file as letters; without letters raise :class:`BadRecord` for the first."""
        if not rejected:
            return
        if self._letters is None:
            raise BadRecord(each.path, first_line + rejected[0].offset + 1, rejected[0].reason, self._noun)
        self._letters.records(each, first_line, rejected)

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
    """Decode the records of ``letters``, which come file by file."""
    found = Reread()
    partitioning = Partitioning(task.partition_by, arrow_schema(task.fields))
    format = open_format(task, partitioning)
    landing = TableWriter(replace(task, letters=None), partitioning, open_store(task.table))
    with contextlib.closing(landing):
        for block in _blocks(letters):
            _take(format, landing, block, found)
        found.files, _ = landing.finish()
    return found


def _blocks(letters: Iterable[Letter]) -> Iterator[list[Letter]]:
    """Letters of one file at a time, of about a block's size."""
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


def _take(format: FormatReader, landing: TableWriter, block: list[Letter], found: Reread) -> None:
    path = block[0].file or ""
    found_rows = format.reread([letter.content for letter in block], path)
    decoded = landing.checked(found_rows, [(path, found_rows.batch.num_rows)])
    kept = np.arange(len(block)) if decoded.offsets is None else decoded.offsets
    lines = np.array([(block[offset].line or 1) - 1 for offset in kept], np.int64)
    landing.write(decoded.batch, block[0].file or "", lines, 0)
    found.good.extend(block[offset] for offset in kept)
    found.bad.extend((block[rejection.offset], rejection.reason) for rejection in decoded.rejected)
    answered = {*kept.tolist(), *(rejection.offset for rejection in decoded.rejected)}
    found.bad.extend((letter, "blank line") for offset, letter in enumerate(block) if offset not in answered)
