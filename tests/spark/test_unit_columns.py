"""Work units of a function whose columns are not those of the others: only they fail."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate.core.calendar import DAY, EPOCH
from tidegate.schema.types import TIMESTAMP
from tidegate.sources.reader import UnitRequest
from tidegate.sources.units.work import UnitFailure, UnitWave, UnitWork, UnitWritten
from tidegate.spark.work_units import carry_out
from tidegate.specs.columns import FunctionRead
from tidegate.specs.locations import Location
from tidegate.specs.project import PipelineSpec
from tidegate.specs.table import SchemaSpec, SinkSpec
from tidegate.specs.units import UnitSource, WorkUnits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

OWN = [("_tidegate_unit", pa.string()), ("_tidegate_segment", TIMESTAMP)]
KINDS = {"text": "'x'", "list": "array(1)", "number": "1"}


def answers(session: SparkSession, request: UnitRequest) -> DataFrame:
    """One row, whose only column is of the kind that the unit is called by."""
    if request.unit == "refused":
        return session.range(1).selectExpr("no_such_column as value")
    if request.unit == "breaks":
        return session.range(1).selectExpr("1 as value", "if(id >= 0, raise_error('no'), 'x') as extra")
    if request.unit == "thin":
        return session.range(0).selectExpr("1 as value", "'x' as thinned")
    return session.range(1).selectExpr(f"{KINDS[request.unit]} as value")


@pytest.mark.parametrize("table", [pa.schema([*OWN, ("value", pa.int32())]), None])
def test_only_units_with_other_columns_fail(spark: SparkSession, tmp_path: Path, table: pa.Schema | None) -> None:
    source = UnitSource("calls", FunctionRead(f"{__name__}:answers"))
    place = Location((tmp_path / "table").as_uri())
    pipeline = PipelineSpec("answers", (source,), SchemaSpec(infer=True), SinkSpec(place))
    units = ("text", "list", "refused", "number") if table is not None else ("number", "text", "list", "refused")
    works = tuple(UnitWork(unit, 0, ((0, DAY),)) for unit in units)
    wave = UnitWave(pipeline, source, works, Location((tmp_path / "scratch").as_uri()), EPOCH, table=table)
    results = dict(zip(units, carry_out(spark, wave, lambda: False).results, strict=True))
    assert [unit for unit, result in results.items() if not isinstance(result, UnitFailure)] == ["number"]
    told = [result.problem for result in results.values() if isinstance(result, UnitFailure)]
    assert sum("value" in each for each in told) == 2


def test_units_that_fail_while_they_are_read_give_no_columns(spark: SparkSession, tmp_path: Path) -> None:
    """The files of the others are written again without them."""
    source = UnitSource("calls", FunctionRead(f"{__name__}:answers"), work=WorkUnits(min_records=1))
    place = Location((tmp_path / "table").as_uri())
    pipeline = PipelineSpec("answers", (source,), SchemaSpec(infer=True), SinkSpec(place))
    works = tuple(UnitWork(unit, 0, ((0, DAY),)) for unit in ("number", "breaks", "thin"))
    wave = UnitWave(pipeline, source, works, Location((tmp_path / "scratch").as_uri()), EPOCH)
    done = carry_out(spark, wave, lambda: False)
    number, breaks, thin = done.results
    assert isinstance(breaks, UnitFailure)
    assert isinstance(thin, UnitWritten)
    assert isinstance(number, UnitWritten)
    (file,) = number.data_files
    names = ["_tidegate_unit", "_tidegate_segment", "value"]
    assert pq.read_schema(tmp_path / "table" / file.path).names == names
    assert done.columns is not None
    assert done.columns.names == names
