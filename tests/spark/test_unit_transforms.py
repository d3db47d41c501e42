"""Work units through a transform: rows and coverage still become visible together, and what is read again replaces."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.unit_lake import survey_lake
from tidegate.protocol.delta import query
from tidegate.spark.engine import SparkEngine
from tidegate.specs.locations import Location
from tidegate.specs.project import SparkSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_rows_are_transformed_and_replaced(spark: SparkSession, tmp_path: Path) -> None:
    """The transform makes a date of a time; a unit that comes back empty leaves nothing."""
    sql = {"sql": "select * except (at), cast(at as date) as at, upper(_tidegate_unit) as who from source"}
    with survey_lake(tmp_path, source_settings={"grace_period_days": 3}, units="a,b", transform=sql) as lake:
        lake.lane = lambda: SparkEngine(SparkSpec())  # type: ignore[assignment, return-value]
        lake.arrive("a", "01-05", "02-20")
        lake.arrive("b", "02-20")
        lake.ran("02-21")
        lake.records["b"].clear()
        lake.arrive("a", "02-19")
        lake.ran("02-22")
        lake.assert_exactly_once()
        rows = query(Location((tmp_path / "lake/responses").as_uri()), "select who, at from t order by at")
        assert [(row["who"], str(row["at"])) for row in rows] == [
            ("A", "2020-01-05"),
            ("A", "2020-02-19"),
            ("A", "2020-02-20"),
        ]
        lake.transform = {"sql": "select id from source"}
        lake.arrive("b", "02-21")
        assert "_tidegate_unit" in (lake.run("02-23").sources[0].error or "")
