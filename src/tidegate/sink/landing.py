"""Decoded rows on their way into the table: metadata columns, partitions, the table's types, the rolling writer.

Bad lines go beside them into the dead-letter table, cut and abandoned together with the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial

import numpy as np
import pyarrow as pa

from tidegate.errors import BadRecord
from tidegate.planning.plan import FileSlice
from tidegate.sink.decoder import Rejected
from tidegate.sink.letters import Letterbox
from tidegate.sink.origins import Lines, Origin
from tidegate.sink.parquet import FinishedFile
from tidegate.sink.partitions import METADATA_COLUMNS, Partitioning
from tidegate.sink.read_task import ReadTask
from tidegate.sink.writer import RollingWriter
from tidegate.specs import Format
from tidegate.storage.port import ObjectStore


class Landing:
    """Writes rows of source files; keeps what is finished."""

    def __init__(self, task: ReadTask, partitioning: Partitioning, table: ObjectStore) -> None:
        self._task = task
        self._partitioning = partitioning
        self._writer = RollingWriter(table, task.writer)
        self._schema = pa.ipc.read_schema(pa.py_buffer(task.file_schema))
        self._ingested_at = datetime.now(UTC)
        self._files: list[FinishedFile] = []
        self._noun = "line" if task.format is Format.NDJSON else "record"
        self._letters = None if task.letters is None else Letterbox(task.letters)
        self._letter_files: list[FinishedFile] = []

    @property
    def tells_files_apart(self) -> bool:
        """Whether a row's source file matters for where it goes or what it holds."""
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
        """Take the rows of one source file, or of several where they need not be told apart.

        ``lines`` has the line of each row, from ``first_line``; None when they follow each other. ``others`` are the
        further files, each with the line that it begins at.
        """
        if lines is None:
            lines = np.arange(batch.num_rows)
        files, starts = zip((path, 0), *others, strict=True)
        origin = Origin(files, np.array(starts), lines, first_line)
        complete = self._with_metadata(batch, path, lines, first_line)
        divide = partial(self._partitioning.split, path=path, schema=self._schema)
        self._writer.scatter(complete, divide, self._uri(path), origin)

    def refuse(self, each: FileSlice, first_line: int, rejected: Sequence[Rejected]) -> None:
        """Keep bad lines of one file as letters; :class:`BadRecord` for the first where there are none."""
        if not rejected:
            return
        if self._letters is None:
            raise BadRecord(each.path, first_line + rejected[0].offset + 1, rejected[0].reason, self._noun)
        self._letters.records(each, first_line, rejected)

    def bad_kinds(self) -> dict[str, int]:
        """How many lines became letters, by kind."""
        return {} if self._letters is None else dict(self._letters.kinds)

    def tick(self) -> None:
        """Close what has been open for too long."""
        self._writer.tick()

    def cut(self) -> None:
        """Close every file, so that what is written next can be abandoned alone."""
        self._files.extend(self._writer.cut())
        if self._letters is not None:
            self._letter_files.extend(self._letters.cut())

    def abandon(self) -> None:
        """Forget what was written since the last cut."""
        self._writer.abandon()
        if self._letters is not None:
            self._letters.abandon()

    def finish(self) -> tuple[tuple[FinishedFile, ...], tuple[FinishedFile, ...]]:
        """Close every file; all that were finished, of the table and of the dead-letter table."""
        self.cut()
        return tuple(self._files), tuple(self._letter_files)

    def close(self) -> None:
        """Stop; what is not finished is given up."""
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
