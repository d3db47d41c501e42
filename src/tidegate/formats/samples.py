"""Samples of a source's files, to infer its columns.

An unreadable file contributes nothing; the read itself refuses it later. Only if no file can be read do the reasons
become the error.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice
from typing import BinaryIO, cast

import pyarrow as pa

from tidegate.core.files.plan import FileSlice
from tidegate.errors import AccessDenied, ObjectChanged, ObjectMissing, SourceError, TidegateError
from tidegate.formats.avro import AvroFile
from tidegate.formats.csv import sampled_records
from tidegate.formats.json import LineTooLong, line_blocks
from tidegate.formats.parquet import open_parquet, own_schema
from tidegate.formats.port import chunks
from tidegate.formats.strict_lines import BadLine
from tidegate.observe.wording import count
from tidegate.schema.inference import Inference, Row, infer_cells, infer_json
from tidegate.schema.types import infer_types
from tidegate.specs.project import Format, PathSource
from tidegate.storage.port import ObjectStore, SeekableInput

SAMPLED_FILES = 10
SAMPLED_LINES = 1000
MOST_SMALL_FILES = 50
SMALL_BYTES = 8 * 1024 * 1024
"""Total bytes up to which all files are sampled."""

_UNREADABLE = (SourceError, BadLine, ObjectMissing, ObjectChanged, LineTooLong, pa.ArrowException, OSError)


def spread(slices: Sequence[FileSlice]) -> Sequence[FileSlice]:
    """All of a few or small files; of many a few, evenly from the first to the last."""
    last = len(slices) - 1
    if last < MOST_SMALL_FILES and sum(each.size for each in slices) <= SMALL_BYTES:
        return slices
    return slices if last < SAMPLED_FILES else [slices[n * last // (SAMPLED_FILES - 1)] for n in range(SAMPLED_FILES)]


class Sampler:
    """Samples files of one source; records which could not be read, and why."""

    def __init__(self, store: ObjectStore, source: PathSource, lines: int = SAMPLED_LINES) -> None:
        self._store = store
        self._source = source
        self._lines = lines
        self._failures: list[str] = []
        self._denied: AccessDenied | None = None

    def infer(
        self,
        slices: Sequence[FileSlice],
        *,
        forbidden: tuple[str, ...] = (),
        coerce_conflicts_to_utf8: bool = False,
        rescued: bool = False,
        moments: bool = False,
    ) -> Inference:
        """The columns of these files; raises :class:`SourceError` if none shows any.

        A file that may not be read contributes nothing: its reader refuses that file alone.
        """
        try:
            match self._source.format:
                case Format.CSV:
                    return self._of_cells(slices, forbidden, moments)
                case Format.PARQUET | Format.AVRO:
                    return infer_types(self._schemas(slices), forbidden=forbidden)
                case _:
                    return infer_json(
                        (self._first_lines(each) for each in slices),
                        coerce_conflicts_to_utf8=coerce_conflicts_to_utf8,
                        forbidden=forbidden,
                        rescued=rescued,
                        moments=moments,
                    )
        except SourceError as error:
            if self._denied is not None:
                raise self._denied from error
            if not self._failures:
                raise
            raise SourceError(
                f"{error.problem}; {count(len(self._failures), 'file')} cannot be read: {self._failures[0]}",
                "replace what cannot be read, or declare schema.fields: then it becomes a dead letter",
            ) from error

    @contextlib.contextmanager
    def _noting_failure(self, each: FileSlice) -> Iterator[None]:
        try:
            yield
        except (*_UNREADABLE, AccessDenied) as error:
            if isinstance(error, AccessDenied):
                self._denied = self._denied or error
            text = error.problem if isinstance(error, TidegateError) else str(error)
            self._failures.append(text if each.path in text else f"{each.path}: {text}")

    def _first_lines(self, each: FileSlice) -> Sequence[bytes]:
        """The first JSON lines of a file, or elements of its array."""
        found: list[bytes] = []
        with self._noting_failure(each), closing(self._open(each)) as raw:
            is_array = self._source.format is Format.JSON
            whole = line_blocks(raw, each.path, self._source.compression, is_array=is_array)
            found.extend(islice((line for block in whole for line in block.splitlines()), self._lines))
        return found

    def _of_cells(self, slices: Sequence[FileSlice], forbidden: tuple[str, ...], moments: bool) -> Inference:
        samples: list[list[Row]] = []
        unreadable = 0
        for each in slices:
            rows: list[Row] = []
            with self._noting_failure(each), closing(self._open(each)) as raw:
                plain = chunks(raw, each.path, self._source.compression)
                for sheet, record in islice(sampled_records(plain, self._source.csv, each.path), self._lines):
                    try:
                        cells = sheet.cells(record)
                        rows.append({name: None if cell is None else cell.decode() for name, cell, _ in cells})
                    except (BadLine, UnicodeDecodeError):
                        unreadable += 1
            samples.append(rows)
        return infer_cells(samples, unreadable=unreadable, forbidden=forbidden, moments=moments)

    def _schemas(self, slices: Sequence[FileSlice]) -> Iterator[tuple[str, pa.Schema, int]]:
        for each in slices:
            found: tuple[pa.Schema, int] | None = None
            with self._noting_failure(each):
                found = self._own_schema(each)
            if found is not None:
                yield each.path, *found

    def _own_schema(self, each: FileSlice) -> tuple[pa.Schema, int]:
        if self._source.format is Format.PARQUET:
            raw = cast(BinaryIO, SeekableInput(self._store, each.path, etag=each.etag, size=each.size))
            file = open_parquet(raw)
            return own_schema(file), file.metadata.num_rows
        with closing(self._open(each)) as stream:
            return AvroFile(stream, each.path).schema, 1

    def _open(self, each: FileSlice) -> BinaryIO:
        return self._store.open_input(each.path, etag=each.etag, size=each.size)
