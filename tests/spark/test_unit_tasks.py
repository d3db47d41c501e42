"""Work units of an API through Spark: one wave is two jobs, and what each task did arrives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from servers.api import Api, running
from servers.surveys import keep_surveys
from support.unit_waves import RANGE, failure, inferred, rows, source, surveys, wave, work
from tidegate.sources.units.work import UnitWritten
from tidegate.spark.engine import SparkEngine
from tidegate.specs.columns import AuthKind, HttpAuth, RateLimit
from tidegate.specs.locations import Secret
from tidegate.specs.project import SparkSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def api() -> Iterator[Api]:
    with running() as server:
        yield server


def test_a_wave_is_fetched_and_written_by_tasks(
    spark: SparkSession, api: Api, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """One unit the server does not know, one has no rows; columns are those of all; nothing secret shows."""
    records = [{"id": day, "at": f"2026-02-{day:02d}T12:00:00+00:00"} for day in range(1, 21)]
    units = [f"survey {number}/'x'" for number in range(12)]
    keep_surveys(api, dict.fromkeys(units, records) | {"none": [], "more": [{"id": 1, "at": None, "extra": 1.5}]})
    read = surveys(
        api,
        auth=HttpAuth(AuthKind.BEARER, Secret("canary-{{key}}")),
        rate_limit=RateLimit(1000),
    )
    works = [work(unit, 1, 11, 21, secrets={"key": Secret("canary")}) for unit in (*units, "gone", "none", "more")]
    given = wave(tmp_path, source(read, params=RANGE), works, inferred())
    result = SparkEngine(SparkSpec()).carry_out(given)
    *full, gone, none, more = result.results
    for each, of in zip(full, works, strict=False):
        assert [row["id"] for row in rows(tmp_path, each, of)] == list(range(1, 21))
    assert failure(gone).not_found
    assert rows(tmp_path, none) == []
    assert [row["extra"] for row in rows(tmp_path, more, works[-1])] == [1.5, 1.5]
    files = {file.path for each in (*full, more) if isinstance(each, UnitWritten) for file in each.data_files}
    assert len(files) == 1, "few rows are one file"
    assert result.columns is not None
    assert result.columns.names == ["_tidegate_unit", "_tidegate_segment", "id", "at", "extra"]
    assert all(each.headers["authorization"] == "Bearer canary-canary" for each in api.asked)
    assert not [each for each in (tmp_path / "scratch").rglob("*") if each.is_file()]
    assert "canary" not in "".join([str(result), *capfd.readouterr()])
