"""Writes dead letters: the task that meets them writes them, and they become visible after its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from tidegate.core.files.plan import FileSlice
from tidegate.errors import LimitReached
from tidegate.formats.port import Rejected
from tidegate.formats.strict_lines import bad_kind
from tidegate.parquet.parquet_file import FinishedFile, uuid7
from tidegate.parquet.partitions import Partition
from tidegate.parquet.writer import RollingWriter, WriterSettings
from tidegate.schema.dead_letter import (
    FILE,
    RECORD,
    RESOLUTION,
    Letter,
    letter_id,
    letter_ids,
    letter_rows,
    letter_schema,
)
from tidegate.specs.locations import Location
from tidegate.specs.table import ParquetCodec
from tidegate.storage.stores import open_store

_SETTINGS = WriterSettings(row_group_size=16 * 1024 * 1024, codec=ParquetCodec.ZSTD)
# A reason quotes the value, and a value may have megabytes; the letter has the whole line anyway.
_REASON_LIMIT = 2000


@dataclass(frozen=True, slots=True)
class DeadLetterTarget:
    """Where dead letters go, and their common fields; a task writes at most ``limit`` of them, 0 for any number."""

    table: Location
    pipeline: str
    source: str
    run: str
    schema_fingerprint: str = ""
    limit: int = 0


class DeadLetterWriter:
    """Writes the dead letters of a task, or of the driver; :meth:`cut` returns finished files."""

    def __init__(self, place: DeadLetterTarget) -> None:
        self._place = place
        self._writer: RollingWriter | None = None
        self._at = datetime.now(UTC)
        self.count = 0
        self.kinds: Counter[str] = Counter()
        self._cut_at = 0
        self._kinds_at_cut: Counter[str] = Counter()

    def add_records(self, file: FileSlice, first_line: int, rejected: Iterable[Rejected]) -> None:
        """Add bad lines of one file; their offsets count from ``first_line`` (from 0)."""
        place = self._place
        rejected = list(rejected)
        for reason, count in Counter(rejection.reason for rejection in rejected).items():
            self.kinds[bad_kind(reason)] += count
        if rejected:
            self._write(self._rows_of(file, first_line, rejected), file.path)
        if place.limit and self.count > place.limit:
            raise LimitReached(
                f"{place.pipeline}/{place.source}: more than {place.limit} bad records in one task; the last is "
                f"{file.path}, line {first_line + 1} and after",
                "nothing of it was committed; correct the files or the schema, or raise error_handling.max_bad_records",
            )

    def add_file(self, file: FileSlice, reason: str, stage: str) -> None:
        """Add a file that could not be read from ``start_record`` on."""
        self._put([self._letter(FILE, file, file.start_record + 1, reason, stage)])

    def mark_resolved(self, letters: Iterable[Letter], how: str) -> None:
        """Mark dead letters as resolved."""
        place = self._place
        common = (RESOLUTION, place.pipeline, place.source, self._at, place.run)
        self._put([Letter(str(uuid7()), *common, reason=how, resolves=letter.id) for letter in letters])

    def cut(self) -> tuple[FinishedFile, ...]:
        """Close the open file; returns everything finished since the last cut."""
        self._cut_at, self._kinds_at_cut = self.count, self.kinds.copy()
        return () if self._writer is None else self._writer.cut()

    def abandon(self) -> None:
        """Drop what was written since the last cut."""
        # Letters of a file that is given up must not count: it is read again, and its bad lines are found anew.
        self.count, self.kinds = self._cut_at, self._kinds_at_cut.copy()
        if self._writer is not None:
            self._writer.abandon()

    def close(self) -> None:
        """Stop, and drop what is not finished."""
        if self._writer is not None:
            self._writer.close()

    def _rows_of(self, file: FileSlice, first_line: int, rejected: list[Rejected]) -> pa.RecordBatch:
        """Build a letter for each bad line."""
        # As columns: a file may hold millions of bad lines, and an object for each cost several times as much.
        common = self._letter(RECORD, file, 0, "", "decode")
        lines = [first_line + rejection.offset + 1 for rejection in rejected]
        texts = [_decode_text(rejection.text) for rejection in rejected]
        differing: dict[str, list[Any]] = {
            "id": letter_ids(common.pipeline, common.source, common.run, file.path, lines),
            "line": lines,
            "reason": [rejection.reason[:_REASON_LIMIT] for rejection in rejected],
            "text": texts,
            "raw": [rejection.text if text is None else None for rejection, text in zip(rejected, texts, strict=True)],
        }
        arrays = [
            pa.array(differing[field.name], field.type)
            if field.name in differing
            else pa.repeat(pa.scalar(getattr(common, field.name), field.type), len(rejected))
            for field in letter_schema()
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=letter_schema())

    def _letter(self, kind: str, slice_: FileSlice, line: int, reason: str, stage: str) -> Letter:
        place = self._place
        return Letter(
            id=letter_id(place.pipeline, place.source, place.run, slice_.path, line),
            kind=kind,
            pipeline=place.pipeline,
            source=place.source,
            at=self._at,
            run=place.run,
            file=slice_.path,
            size=slice_.size,
            etag=slice_.etag,
            line=line,
            reason=reason[:_REASON_LIMIT],
            stage=stage,
            schema_fingerprint=place.schema_fingerprint,
        )

    def _put(self, letters: list[Letter]) -> None:
        if letters:
            self._write(letter_rows(letters), letters[0].file or "")

    def _write(self, rows: pa.RecordBatch, file: str) -> None:
        if self._writer is None:
            self._writer = RollingWriter(open_store(self._place.table), _SETTINGS)
        self._writer.write(rows, Partition(), file)
        self.count += rows.num_rows


def _decode_text(content: bytes) -> str | None:
    """Decode a line; None if it is not UTF-8."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None
