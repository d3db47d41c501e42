"""Samples of a source's files, to infer its columns.

An unreadable file contributes nothing; the read itself refuses it later. Only if no file can be read do the reasons
become the error. The same holds for a file whose columns contradict those of most files.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import pyarrow as pa

from tidegate.core.files.plan import FileSlice
from tidegate.errors import AccessDenied, ObjectChanged, ObjectMissing, SourceError, TidegateError
from tidegate.formats.avro import AvroFile
from tidegate.formats.csv import sample_records
from tidegate.formats.json import LineTooLong, line_blocks
from tidegate.formats.parquet import open_parquet, read_schema
from tidegate.formats.port import Fetcher, chunks
from tidegate.formats.strict_lines import BadLine
from tidegate.reports.wording import count
from tidegate.schema.inference import Inference, Row, draft_of, infer_cells, infer_json, kinds_seen
from tidegate.schema.majority import FileColumns, find_majority
from tidegate.schema.names import DECLARE_OTHERS, MOST_COLUMNS, explain_forbidden, merge_fields
from tidegate.schema.types import infer_types, kinds_of, kinds_of_fields
from tidegate.specs.files import Format, PathSource
from tidegate.specs.table import FieldSpec
from tidegate.storage.port import ObjectStore

SAMPLED_FILES = 10
SAMPLED_LINES = 1000
MOST_SMALL_FILES = 50
SMALL_BYTES = 8 * 1024 * 1024
"""Total bytes up to which all files are sampled."""

_UNREADABLE = (SourceError, BadLine, ObjectMissing, ObjectChanged, LineTooLong, pa.ArrowException, OSError)


def spread(slices: Sequence[FileSlice]) -> Sequence[FileSlice]:
    """Choose files to sample: all of a few or small ones; of many a few, evenly from the first to the last."""
    last = len(slices) - 1
    if last < MOST_SMALL_FILES and sum(file.size for file in slices) <= SMALL_BYTES:
        return slices
    return slices if last < SAMPLED_FILES else [slices[n * last // (SAMPLED_FILES - 1)] for n in range(SAMPLED_FILES)]


@dataclass(frozen=True, slots=True)
class _Sample:
    """What was read of one file: lines, records of cells, or a schema and the number of its records."""

    path: str
    content: Any
    unreadable: int = 0
    width: int = 0

    @property
    def records(self) -> int:
        """Number of records that the sample stands for."""
        return int(self.content[1]) if isinstance(self.content, tuple) else len(self.content)

    @property
    def too_wide(self) -> str:
        """Why its columns do not count if there are far too many; else empty."""
        return f"it has {self.width:,} columns; at most {MOST_COLUMNS:,} are inferred" * (self.width > MOST_COLUMNS)


Join = Callable[[Sequence[_Sample]], Inference]

_CELL = "text"
"""The kind of every column of cells: they differ by their names alone."""

_JSON_KINDS = {"string": "string", "timestamp": "string", "boolean": "boolean", "struct": "object", "list": "list"}


class Sampler:
    """Samples files of one source; records which could not be read, and why."""

    def __init__(self, store: ObjectStore, source: PathSource, lines: int = SAMPLED_LINES) -> None:
        self._fetcher = Fetcher(store)
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
        known: tuple[FieldSpec, ...] = (),
    ) -> Inference:
        """Infer the columns of these files; raises :class:`SourceError` if none shows any.

        A file that may not be read contributes nothing: its reader refuses that file alone. Where files contradict each
        other, those of the majority count, or that agree with the ``known`` columns; ``set_aside`` has the others.
        """
        join = self._choose_join(forbidden, coerce_conflicts_to_utf8, rescued, moments)
        samples = self._samples(slices)
        wide = tuple(f"{sample.path}: {sample.too_wide}" for sample in samples if sample.too_wide)
        try:
            narrow = [sample for sample in samples if not sample.too_wide]
            if wide and not narrow:
                raise SourceError(f"no columns can be inferred: {wide[0]}", DECLARE_OTHERS)
            inference = self._infer_agreed(join, narrow, known, forbidden)
        except SourceError as error:
            if self._denied is not None:
                raise self._denied from error
            if not self._failures:
                raise
            raise SourceError(
                f"{error.problem}; {count(len(self._failures), 'file')} cannot be read: {self._failures[0]}",
                "replace what cannot be read, or declare schema.fields: then it becomes a dead letter",
            ) from error
        return replace(inference, set_aside=wide + inference.set_aside)

    def _infer_agreed(
        self, join: Join, samples: Sequence[_Sample], known: tuple[FieldSpec, ...], forbidden: tuple[str, ...]
    ) -> Inference:
        """Infer the columns of all samples or, where they contradict each other, of the majority."""
        problem: SourceError | None = None
        inference: Inference | None = None
        try:
            inference = join(samples)
        except SourceError as error:
            problem = error
        if inference is not None and (not inference.problems or len(samples) == 1):
            return inference
        # Files without rows have no vote when files contradict each other.
        filled = {sample.path for sample in samples if sample.records} or {sample.path for sample in samples}
        votes = [replace(self._columns(sample, join, forbidden), votes=sample.path in filled) for sample in samples]
        majority = find_majority(votes, self._kinds_of_known(known))
        kept = [sample for sample in samples if sample.path in majority.kept & filled]
        agreed = self._try_join(join, kept) if 0 < len(kept) < len(samples) else None
        if agreed is not None and majority.ties and problem is not None:
            raise no_majority(majority.ties, self._add_others(agreed.fields, join, samples))
        if agreed is not None and not majority.ties:
            odd = tuple(f"{path}: {reason}" for path, reason in sorted(majority.odd.items()))
            return replace(agreed, set_aside=odd)
        if problem is not None:
            raise problem
        assert inference is not None
        return inference

    def _add_others(
        self, fields: tuple[FieldSpec, ...], join: Join, samples: Sequence[_Sample]
    ) -> tuple[FieldSpec, ...]:
        """Add the fields that only other samples have."""
        for sample in sorted(samples, key=lambda sample: sample.path):
            # A sample that shows no columns has nothing to add to a draft.
            with contextlib.suppress(SourceError):
                fields = merge_fields(fields, join([sample]).fields)
        return fields

    def _try_join(self, join: Join, samples: Sequence[_Sample]) -> Inference | None:
        try:
            inference = join(samples)
        except SourceError:
            return None
        return None if inference.problems else inference

    def _choose_join(self, forbidden: tuple[str, ...], coerce: bool, rescued: bool, moments: bool) -> Join:
        match self._source.format:
            case Format.CSV:
                return lambda samples: infer_cells(
                    [sample.content for sample in samples],
                    unreadable=sum(sample.unreadable for sample in samples),
                    forbidden=forbidden,
                    moments=moments,
                )
            case Format.PARQUET | Format.AVRO:
                return lambda samples: infer_types(
                    [(sample.path, *sample.content) for sample in samples], forbidden=forbidden
                )
            case _:
                return lambda samples: infer_json(
                    [sample.content for sample in samples],
                    coerce_conflicts_to_utf8=coerce,
                    forbidden=forbidden,
                    rescued=rescued,
                    moments=moments,
                )

    def _columns(self, sample: _Sample, join: Join, forbidden: tuple[str, ...]) -> FileColumns:
        """Return what a file votes for; nothing if it has no record."""
        match self._source.format:
            case Format.CSV:
                kinds = dict.fromkeys(sample.content[0] if sample.content else (), _CELL)
            case Format.PARQUET | Format.AVRO:
                kinds = kinds_of(sample.content[0])
            case _:
                try:
                    inference = join([sample])
                except SourceError:
                    return FileColumns(sample.path, {})
                too_many = "" if inference.report else "; ".join(inference.problems)
                return FileColumns(sample.path, *kinds_seen(inference), too_many)
        taken = "; ".join(explain_forbidden(name) for name in kinds if name in forbidden)
        return FileColumns(sample.path, kinds, problem=taken)

    def _kinds_of_known(self, known: tuple[FieldSpec, ...]) -> dict[str, str]:
        match self._source.format:
            case Format.CSV:
                return {field.name: _CELL for field in known}
            case Format.PARQUET | Format.AVRO:
                return dict(kinds_of_fields(known))
            case _:
                return {field.name: _JSON_KINDS.get(field.type, "number") for field in known}

    def _samples(self, slices: Sequence[FileSlice]) -> list[_Sample]:
        match self._source.format:
            case Format.CSV:
                return [self._read_rows(file) for file in slices]
            case Format.PARQUET | Format.AVRO:
                return list(self._schemas(slices))
            case _:
                return [_Sample(file.path, self._first_lines(file)) for file in slices]

    @contextlib.contextmanager
    def _record_failure(self, file: FileSlice) -> Iterator[None]:
        try:
            yield
        except (*_UNREADABLE, AccessDenied) as error:
            if isinstance(error, AccessDenied):
                self._denied = self._denied or error
            text = error.problem if isinstance(error, TidegateError) else str(error)
            self._failures.append(text if file.path in text else f"{file.path}: {text}")

    def _first_lines(self, file: FileSlice) -> Sequence[bytes]:
        """Read the first JSON lines of a file, or elements of its array."""
        lines: list[bytes] = []
        with self._record_failure(file), closing(self._fetcher.open(file)) as raw:
            is_array = self._source.format is Format.JSON
            blocks = line_blocks(raw, file.path, self._source.compression, is_array=is_array)
            lines.extend(islice((line for block in blocks for line in block.splitlines()), self._lines))
        return lines

    def _read_rows(self, file: FileSlice) -> _Sample:
        """Read the first records of a CSV file as cells."""
        rows: list[Row] = []
        unreadable = 0
        with self._record_failure(file), closing(self._fetcher.open(file)) as raw:
            plain = chunks(raw, file.path, self._source.compression)
            for sheet, record in islice(sample_records(plain, self._source.csv, file.path), self._lines):
                if len(sheet.names) > MOST_COLUMNS:
                    return _Sample(file.path, [], width=len(sheet.names))
                try:
                    cells = sheet.cells(record)
                    rows.append({name: None if cell is None else cell.decode() for name, cell, _ in cells})
                except (BadLine, UnicodeDecodeError):
                    unreadable += 1
        return _Sample(file.path, rows, unreadable)

    def _schemas(self, slices: Sequence[FileSlice]) -> Iterator[_Sample]:
        for file in slices:
            schema: tuple[pa.Schema, int] | None = None
            with self._record_failure(file):
                schema = self._read_schema(file)
            if schema is not None:
                yield _Sample(file.path, schema, width=len(schema[0]))

    def _read_schema(self, file: FileSlice) -> tuple[pa.Schema, int]:
        if self._source.format is Format.PARQUET:
            parquet = open_parquet(self._fetcher.open(file, seeks=True))
            return read_schema(parquet), parquet.metadata.num_rows
        with closing(self._fetcher.open(file)) as raw:
            # The header has no number of records, and counting them would read the whole file.
            return AvroFile(raw, file.path).schema, 1


def no_majority(ties: Sequence[str], draft: Sequence[FieldSpec]) -> SourceError:
    """Build the error for files that contradict each other half and half, with columns to paste and correct."""
    return SourceError(
        "no columns can be inferred, because as many files have one thing as another: " + "; ".join(ties),
        f"declare the columns that you want, for instance `{draft_of(draft)}`; files with others are then refused one "
        "by one",
    )
