"""Rows of many partitions that wait to be divided together.

A piece of a batch costs about the same whether it has one row or a hundred, so a thousand partition values make
pieces of single rows out of every batch. Gathered first and divided once, there are as many pieces in all as there
would be of one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidegate.sink.origins import Origin
from tidegate.sink.partitions import Partition, Rows

Divide = Callable[[pa.RecordBatch], list[tuple[Partition, pa.RecordBatch, Rows]]]
"""The rows of each partition of a batch, and which rows of it they are, ascending."""

_SPARSE_ROWS = 1024
"""Rows per partition value below which a batch is better gathered than divided."""


def is_sparse(rows: int, partitions: int) -> bool:
    """Whether a batch falls into pieces so small that gathering pays."""
    return partitions > 1 and rows < partitions * _SPARSE_ROWS


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of one partition; ``source_file`` is that of the first."""

    partition: Partition
    rows: pa.RecordBatch
    source_file: str
    origin: Origin


class Gathering:
    """Batches in the order they came. ``memory`` are their Arrow bytes, the times those of the first and the last."""

    def __init__(self) -> None:
        self.memory = 0
        self.first_at = self.last_at = 0.0
        self._batches: list[pa.RecordBatch] = []
        self._source_files: list[str] = []
        self._origins: list[Origin] = []
        self._divide: Divide

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self._batches

    def takes(self, batch: pa.RecordBatch) -> bool:
        """Whether ``batch`` can be divided together with what waits."""
        return not self._batches or bool(batch.schema.equals(self._batches[0].schema))

    def add(
        self, batch: pa.RecordBatch, size: int, divide: Divide, source_file: str, origin: Origin, now: float
    ) -> None:
        """Take the rows of a batch of ``size`` bytes; all that wait are divided in the way that came with the last."""
        if not self._batches:
            self.first_at = now
        self.last_at = now
        self.memory += size
        self._divide = divide
        self._batches.append(batch)
        self._source_files.append(source_file)
        self._origins.append(origin)

    def pieces(self) -> Iterator[Piece]:
        """What waits, by partition, in each the rows in the order they came; no batch is needed any more."""
        source_files, origin = self._source_files, Origin.joined(self._origins)
        ends = np.cumsum([batch.num_rows for batch in self._batches])
        for partition, rows, positions in self._divide(self._joined()):
            first = 0 if isinstance(positions, slice) else int(positions[0])
            source_file = source_files[int(np.searchsorted(ends, first, side="right"))]
            yield Piece(partition, rows, source_file, origin.of(positions))

    def _joined(self) -> pa.RecordBatch:
        """All rows as one batch, which is then the only one that has them."""
        joined = pa.concat_batches(self._batches)
        self.forget()
        return joined

    def forget(self) -> None:
        """Let go of all rows."""
        self.memory = 0
        self._batches, self._source_files, self._origins = [], [], []
