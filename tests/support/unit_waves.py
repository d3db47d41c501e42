"""Waves of work units for tests: short to write, carried out in this process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from servers.api import Api
from tidegate.sources.units.work import UnitFailure, UnitWave, UnitWork, UnitWritten
from tidegate.specs.columns import HttpRead, Pagination, PaginationKind, Retries
from tidegate.specs.locations import Location
from tidegate.specs.project import PipelineSpec
from tidegate.specs.table import FieldSpec, SchemaSpec, SinkSpec
from tidegate.specs.units import Bounding, RangeParam, UnitRead, UnitSource, UnitWatermark
from tidegate.tasks.unit_share import carry_out_here

NOW = datetime(2026, 3, 1, tzinfo=UTC)
FIELDS = (FieldSpec("id", "int64"), FieldSpec("at", "timestamp"))
RANGE = (RangeParam("since", Bounding.LOW), RangeParam("until", Bounding.HIGH))
PAGED = Pagination(PaginationKind.PAGE)


def ms(day: int, month: int = 2, hour: int = 0) -> int:
    """A moment of 2026 in milliseconds."""
    return int(datetime(2026, month, day, hour, tzinfo=UTC).timestamp() * 1000)


def surveys(api: Api, **given: Any) -> HttpRead:
    """The responses of one survey."""
    settings = {"records": "data", "pagination": PAGED, "retries": Retries(2, 0.0, 1.0), **given}
    return HttpRead(api.url, settings.pop("path", "/surveys/{{surveyId}}/responses"), **settings)


def source(read: UnitRead, **given: Any) -> UnitSource:
    settings = {"unit": UnitWatermark("surveyId"), "params": RANGE, **given}
    return UnitSource("s", read, **settings)


def work(unit: str, *days: int, **given: Any) -> UnitWork:
    """A work unit of February with segments between these days."""
    bounds = [ms(day) for day in days or (1, 21)]
    return UnitWork(unit, bounds[0], tuple(pairwise(bounds)), **given)


def wave(
    folder: Path,
    of: UnitSource,
    works: Sequence[UnitWork],
    schema: SchemaSpec | None = None,
    table: pa.Schema | None = None,
    **given: Any,
) -> UnitWave:
    sink = SinkSpec(Location((folder / "table").as_uri()), **given)
    pipeline = PipelineSpec("p", (of,), schema or SchemaSpec(FIELDS), sink)
    return UnitWave(pipeline, of, tuple(works), Location((folder / "scratch").as_uri()), NOW, None, table)


def carried_out(given: UnitWave) -> list[UnitWritten | UnitFailure]:
    """What became of each work unit; nothing that was fetched is left."""
    results = [each for each in carry_out_here(given).results if each is not None]
    left = Path(given.scratch.uri.removeprefix("file://"))
    if all(isinstance(each, UnitWritten) for each in results):
        assert not [each for each in left.rglob("*") if each.is_file()]
    return results


def rows(folder: Path, result: UnitWritten | UnitFailure | None, of: UnitWork | None = None) -> list[dict[str, Any]]:
    """The rows of one work unit as they were written: those ``of`` it, where others share its files."""
    assert isinstance(result, UnitWritten), result
    found = [
        row for file in result.data_files for row in pq.ParquetFile(folder / "table" / file.path).read().to_pylist()
    ]
    return found if of is None else [row for row in found if _belongs(row, of)]


def _belongs(row: dict[str, Any], to: UnitWork) -> bool:
    low = int(row["_tidegate_segment"].timestamp() * 1000)
    return row["_tidegate_unit"] == to.unit and low in {segment[0] for segment in to.segments}


def failure(result: UnitWritten | UnitFailure | None) -> UnitFailure:
    assert isinstance(result, UnitFailure), result
    return result


def inferred(**given: Any) -> SchemaSpec:
    return replace(SchemaSpec(infer=True), **given)
