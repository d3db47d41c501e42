"""One work unit as a task sees it, and what became of it. Picklable; nothing in here is shown to people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from tidegate.locations import Location, Secret
from tidegate.specs import PipelineSpec
from tidegate.state.files import DataFile
from tidegate.unit_specs import UnitSource

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class UnitWork:
    """What to read: each of ``segments`` is ``[low, high)`` in milliseconds, read by itself.

    ``variables`` and ``secrets`` are those of the unit and of all units together.
    """

    unit: str
    start: int
    segments: tuple[tuple[int, int], ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, Secret] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class UnitWave:
    """Work units that are carried out together.

    Their rows become Parquet files at ``place`` (None: the folder of the table), one unit per file; what is fetched is
    kept below ``scratch`` meanwhile. ``table`` has the columns of the table, None where there is none yet.
    """

    pipeline: PipelineSpec
    source: UnitSource
    works: tuple[UnitWork, ...]
    scratch: Location
    now: datetime
    place: Location | None = None
    table: pa.Schema | None = None

    def keeps(self, result: UnitWritten | UnitFailure) -> bool:
        """Whether the rows of a work unit get into the table: it was written, and has not too few of them."""
        return isinstance(result, UnitWritten) and result.rows >= self.source.work.min_records


@dataclass(frozen=True, slots=True)
class UnitWritten:
    """A work unit whose rows are all written; nothing is visible yet.

    ``left_out`` rows had a time outside the range, or none. ``unknown_fields`` had a value that no column takes, by
    path.
    """

    data_files: tuple[DataFile, ...] = ()
    rows: int = 0
    left_out: int = 0
    requests: int = 0
    unknown_fields: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UnitFailure:
    """A work unit of which nothing counts; ``not_found``: the server does not know it."""

    problem: str
    remedy: str
    not_found: bool = False


@dataclass(frozen=True, slots=True)
class WaveResult:
    """What became of each work unit of a wave, in its order.

    ``columns`` are those of the rows as written, partition columns included; None where no rows came and none are
    declared.
    """

    results: tuple[UnitWritten | UnitFailure, ...]
    columns: pa.Schema | None = None
    partition_columns: tuple[str, ...] = ()
