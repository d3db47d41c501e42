"""Replays of column sources by times: columns without a zone, and ends that are still to come."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.column_lake import ColumnLake, InProcessColumnEngine
from support.errors import raises
from tidegate.commands.column_replay import ColumnReplay
from tidegate.commands.project import sources_of
from tidegate.core.columns.predicates import RowFilter
from tidegate.core.columns.replay import ReplayConfig
from tidegate.errors import SourceError, WatermarkError
from tidegate.reports.replay import ColumnReplayReport
from tidegate.runs.in_process import ArrowReader
from tidegate.sources.reader import GreatestValues
from tidegate.specs.columns import ColumnSource, TableRead, Value
from tidegate.specs.table import SchemaSpec

LOCAL = pa.schema([pa.field("id", pa.int64()), pa.field("at", pa.timestamp("us"))])
DAY = datetime(2026, 1, 1)


class LocalTimes(InProcessColumnEngine):
    """A database whose times have no zone: the greatest values have none, the rows have moments."""

    def reader(self, source: ColumnSource, schema: SchemaSpec, now: datetime) -> ArrowReader:
        assert isinstance(source.read, TableRead)
        rows = pq.read_table(Path(source.read.location.uri.removeprefix("file://")))
        return _LocalReader(source, lambda: rows, fixed_first=True)


class _LocalReader(ArrowReader):
    def read(self, rows: RowFilter) -> pa.Table:
        found = super().read(rows)
        moments = found.column("at").cast(pa.timestamp("us", "UTC"))
        return found.set_column(1, pa.field("at", moments.type), moments)

    def greatest(self, rows: RowFilter) -> GreatestValues:
        seen = super().greatest(rows)
        return GreatestValues({name: _local(value) for name, value in seen.values.items()}, seen.nulls)


def _local(value: Value | None) -> Value | None:
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


def replayed(lake: ColumnLake, end: datetime) -> ColumnReplayReport:
    place = sources_of(lake.project, "orders")[0]
    assert place is not None
    return ColumnReplay(place, LocalTimes(), ReplayConfig(DAY, end, save_watermark=True), skip_gap=True).run()


@pytest.fixture
def lake(tmp_path: Path) -> ColumnLake:
    """Three rows in the source, one a day."""
    lake = ColumnLake(tmp_path, {"watermark_columns": ["at"]}, schema=LOCAL)
    lake.arrive(*({"id": number, "at": DAY + timedelta(days=number)} for number in range(3)))
    return lake


def test_an_end_without_a_zone_is_saved_for_a_column_without_one(lake: ColumnLake) -> None:
    report = replayed(lake, DAY + timedelta(days=2))
    assert report.ok, report.chunks
    assert report.saved is not None
    assert lake.ids() == [0, 1]


def test_an_end_with_a_zone_is_refused_for_a_column_without_one(lake: ColumnLake) -> None:
    place = sources_of(lake.project, "orders")[0]
    assert place is not None
    config = ReplayConfig(DAY.replace(tzinfo=UTC), DAY.replace(day=3, tzinfo=UTC), save_watermark=True)
    report = ColumnReplay(place, _Zoned(), config, skip_gap=True).run()
    assert "2026-01-03 00:00:00+00:00 (a time with a zone)" in str(report.chunks[0].error)


class _Zoned(LocalTimes):
    """The same database, asked with bounds that have a zone."""

    def reader(self, source: ColumnSource, schema: SchemaSpec, now: datetime) -> ArrowReader:
        found = super().reader(source, schema, now)
        return _ZonedReader(found.source, found.rows, found.fixed_first)


class _ZonedReader(_LocalReader):
    def read(self, rows: RowFilter) -> pa.Table:
        return super().read(RowFilter())


def test_an_end_that_is_still_to_come_is_not_saved(lake: ColumnLake) -> None:
    with raises(WatermarkError, "orders/default", "later than", "watermark"):
        replayed(lake, datetime.now(UTC).replace(tzinfo=None) + timedelta(days=1))


class _Typed(InProcessColumnEngine):
    """A database that knows that its column holds moments, and is away for the chunks that begin at ``away``."""

    def __init__(self, away: datetime | None = None) -> None:
        self.away = away

    def reader(self, source: ColumnSource, schema: SchemaSpec, now: datetime) -> ArrowReader:
        found = super().reader(source, schema, now)
        reader = _TypedReader(found.source, found.rows, found.fixed_first)
        reader.away = self.away
        return reader


class _TypedReader(ArrowReader):
    away: datetime | None = None

    def kinds(self, columns: Sequence[str]) -> dict[str, str]:
        return dict.fromkeys(columns, "datetime")

    def read(self, rows: RowFilter) -> pa.Table:
        lower = rows.ranges[0].lower if rows.ranges else None
        if lower is not None and lower.value == self.away:
            raise SourceError("the source is away", "wait")
        return super().read(rows)


def test_a_first_fill_by_dates_goes_on_with_the_same_dates(tmp_path: Path) -> None:
    lake = ColumnLake(tmp_path, {"watermark_columns": ["at"]})
    start = datetime(2025, 1, 1, tzinfo=UTC)
    lake.arrive(*({"id": number, "at": start + timedelta(days=31 * number)} for number in range(3)))
    place = sources_of(lake.project, "orders")[0]
    assert place is not None
    config = ReplayConfig(date(2025, 1, 1), date(2025, 3, 1), {"months": 1}, save_watermark=True)
    first = ColumnReplay(place, _Typed(datetime(2025, 2, 1, tzinfo=UTC)), config).run()
    assert [each.fate for each in first.chunks] == ["done", "failed"]
    assert (first.chunks[0].low, first.saved) == ("2025-01-01T00:00:00+00:00", "at=2025-02-01T00:00:00+00:00")
    again = ColumnReplay(place, _Typed(), config).run(lambda planned: False)
    assert [each.fate for each in again.chunks] == ["skipped", "planned"]
    assert again.resumed
    lake.run()
    lake.assert_exactly_once()
