"""Rows between the Arrow tasks that decoded them and Spark, which writes them: Parquet files in a work area."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tidegate.specs import Location, PipelineSpec


@dataclass(frozen=True, slots=True)
class WorkRows:
    """What one commit of the DataFrame lane is about to write.

    ``files`` are those that count, relative to ``work``: others in there were left by tasks that were tried again.
    Partition columns are in ``columns`` and, as directories, in the paths. ``partitioned_by`` is how a table that does
    not exist yet is to be partitioned. ``sizes`` are those of the files in bytes, and ``rows`` how many are in
    them, where that is known: both are compared with what a statement finds.
    """

    pipeline: PipelineSpec
    work: Location
    files: tuple[str, ...]
    columns: pa.Schema
    partitioned_by: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    rows: int | None = None
