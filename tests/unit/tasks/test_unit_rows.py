"""From what was fetched to rows: columns of a wave, what is left out by its time, and files that units share."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from servers.api import Answer, Api, Asked, running
from support.errors import check_names, raises
from support.unit_waves import FIELDS, carried_out, failure, inferred, ms, rows, source, surveys, wave, work
from tidegate.errors import SchemaMismatch, SourceError
from tidegate.schema.types import TIMESTAMP
from tidegate.sources.units.work import UnitWave, UnitWritten
from tidegate.specs.locations import Location
from tidegate.specs.table import FieldSpec, PartitionBy, SchemaSpec
from tidegate.specs.units import Replace
from tidegate.tasks.unit_share import carry_out_here
from tidegate.tasks.unit_task import filter_within


@pytest.fixture
def api() -> Iterator[Api]:
    with running() as server:
        yield server


def units(api: Api, **records: list[dict[str, Any]]) -> None:
    for name, each in records.items():
        api.routes[f"/surveys/{name}/responses"] = partial(_first_page, each)


def _first_page(records: list[dict[str, Any]], asked: Asked) -> Answer:
    return Answer({"data": records if asked.params["page"] == "1" else []})


def test_small_units_share_a_file_that_knows_what_is_in_it(api: Api, tmp_path: Path) -> None:
    units(api, a=[{"id": 1}, {"id": 2}], b=[{"id": 3}])
    works = [work("a"), work("b")]
    results = carried_out(wave(tmp_path, source(surveys(api)), works))
    assert [[row["id"] for row in rows(tmp_path, *each)] for each in zip(results, works, strict=True)] == [[1, 2], [3]]
    (file,) = {
        file.path: file for each in results if isinstance(each, UnitWritten) for file in each.data_files
    }.values()
    written = pq.ParquetFile(tmp_path / "table" / file.path).read()
    assert written.schema.names == ["_tidegate_unit", "_tidegate_segment", "id", "at"]
    stats = json.loads(file.stats or "")
    assert [stats[bound]["_tidegate_unit"] for bound in ("minValues", "maxValues")] == ["a", "b"]
    assert stats["minValues"]["_tidegate_segment"].startswith("2026-02-01T00:00:00")


def test_columns_are_inferred_from_all_units_of_a_wave(api: Api, tmp_path: Path) -> None:
    units(api, a=[{"id": 1, "x": None}], b=[{"id": 2, "x": {"deep": [1]}}], c=[{"id": 1.5}], d=[])
    given = wave(tmp_path, source(surveys(api)), [work(unit) for unit in "abcd"], inferred())
    result = carry_out_here(given)
    assert result.columns is not None
    deep = pa.struct([("deep", pa.list_(pa.field("element", pa.int64())))])
    own = [("_tidegate_unit", pa.string()), ("_tidegate_segment", TIMESTAMP)]
    assert result.columns == pa.schema([*own, ("id", pa.float64()), ("x", deep)])
    found = [
        row["id"] for each, of in zip(result.results, given.works, strict=True) for row in rows(tmp_path, each, of)
    ]
    assert found == [1.0, 2.0, 1.5]


def test_nothing_tells_columns_where_no_records_come(api: Api, tmp_path: Path) -> None:
    units(api, a=[])
    result = carry_out_here(wave(tmp_path, source(surveys(api)), [work("a")], inferred()))
    assert (result.results, result.columns) == ((UnitWritten(requests=1),), None)


def test_records_without_a_value_are_rows_of_the_table_or_told(api: Api, tmp_path: Path) -> None:
    units(api, a=[{"id": None}, {}])
    given = source(surveys(api)), [work("a")], inferred()
    (result,) = carried_out(wave(tmp_path, *given))
    check_names(failure(result).problem, "no record", "value")
    table = pa.schema([("_tidegate_unit", pa.string()), ("id", pa.int64()), ("naive", pa.timestamp("us"))])
    (result,) = carried_out(wave(tmp_path, *given, table))
    assert [row["id"] for row in rows(tmp_path, result)] == [None, None]


def test_units_that_contradict_the_most_are_told_and_the_others_written(api: Api, tmp_path: Path) -> None:
    odd = {"b": [{"x": "text"}], "c": [{"X": 1}], "e": [{"x": 1, "bad name": 2}]}
    units(api, a=[{"x": 1}], d=[{"x": 2}], **odd)
    works = [work(unit) for unit in "abcde"]
    results = carried_out(wave(tmp_path, source(surveys(api)), works, inferred()))
    assert [rows(tmp_path, results[number], works[number])[0]["x"] for number in (0, 3)] == [1, 2]
    check_names(failure(results[1]).problem, "page 1", "record 1")
    check_names(failure(results[2]).problem, "'X'", "'x'", "upper and lower case")
    check_names(failure(results[4]).problem, "bad")
    assert all(failure(results[number]).remedy for number in (1, 2, 4))


def test_the_types_of_the_table_are_kept(api: Api, tmp_path: Path) -> None:
    units(
        api,
        a=[{"id": 1, "at": "2026-02-03T00:00:00Z", "s": {"a": 1, "new": "x"}, "l": [1], "extra": True}],
        b=[{"id": 2, "at": "no time"}],
    )
    table = pa.schema(
        [
            ("id", pa.decimal128(20, 2)),
            ("at", TIMESTAMP),
            ("s", pa.struct([("a", pa.float64())])),
            ("l", pa.list_(pa.field("element", pa.float64()))),
        ]
    )
    given = wave(tmp_path, source(surveys(api)), [work("a"), work("b")], inferred(), table)
    result = carry_out_here(given)
    assert result.columns is not None
    types = {each.name: each.type for each in result.columns}
    assert (types["id"], types["at"], types["extra"]) == (pa.decimal128(20, 2), TIMESTAMP, pa.bool_())
    assert types["s"] == pa.struct([("a", pa.float64()), ("new", pa.string())])
    assert types["l"].value_type == pa.float64()
    assert rows(tmp_path, result.results[0])[0]["at"] == datetime(2026, 2, 3, tzinfo=UTC)
    assert "page 1, record 1: " in failure(result.results[1]).problem


def test_declared_columns_are_widened_to_the_tables(api: Api, tmp_path: Path) -> None:
    units(api, a=[{"id": 1}])
    schema = SchemaSpec((FieldSpec("id", "int32"),))
    (result,) = carried_out(wave(tmp_path, source(surveys(api)), [work("a")], schema, pa.schema([("id", pa.int64())])))
    assert isinstance(result, UnitWritten)
    (file,) = result.data_files
    assert pq.ParquetFile(tmp_path / "table" / file.path).schema_arrow.field("id").type == pa.int64()
    with raises(SchemaMismatch, "'id'", "string", "int32"):
        carry_out_here(wave(tmp_path, source(surveys(api)), [work("a")], schema, pa.schema([("id", pa.string())])))


def test_fields_that_no_column_takes_are_counted(api: Api, tmp_path: Path) -> None:
    units(api, a=[{"id": 1, "more": 1}, {"id": 2, "more": 2}])
    (result,) = carried_out(wave(tmp_path, source(surveys(api)), [work("a")]))
    assert isinstance(result, UnitWritten)
    assert result.unknown_fields == {"more": 2}


def test_rows_outside_their_segment_or_without_a_time_are_left_out_and_counted(api: Api, tmp_path: Path) -> None:
    times = ["2026-01-31T23:59:59.999Z", "2026-02-01T00:00:00Z", "2026-02-10T23:59:59Z", "2026-02-11T00:00:00Z", None]
    everything = [{"id": number, "at": at} for number, at in enumerate(times)]
    units(api, a=everything)
    of = source(surveys(api), time_column="at", params=(), replace=Replace.TIME_COLUMN)
    (result,) = carried_out(wave(tmp_path, of, [work("a", 1, 11, 12)]))
    assert [(row["id"], row["_tidegate_segment"].day) for row in rows(tmp_path, result)] == [(1, 1), (2, 1), (3, 11)]
    assert isinstance(result, UnitWritten)
    assert (result.rows, result.left_out) == (3, 7)


@pytest.mark.parametrize(
    ("schema", "column", "problem"),
    [
        (
            SchemaSpec((FieldSpec("id", "int64"), FieldSpec("at", "string"))),
            "at",
            "time_column … 'at' … string",
        ),
        (SchemaSpec(FIELDS), "when", "time_column … 'when' … id, at"),
    ],
)
def test_a_time_column_must_tell_a_time(
    api: Api, tmp_path: Path, schema: SchemaSpec, column: str, problem: str
) -> None:
    units(api, a=[{"id": 1, "at": "x"}])
    with raises(SourceError, problem):
        carry_out_here(wave(tmp_path, source(surveys(api), time_column=column), [work("a")], schema))


MOMENTS: list[tuple[pa.DataType, list[Any], str, list[int]]] = [
    (pa.timestamp("us", tz="UTC"), [datetime(2026, 3, 28, 23, tzinfo=UTC), None], "Europe/Berlin", [0]),
    (pa.timestamp("us", tz="UTC"), [datetime(2026, 3, 28, 22, 59, 59, 999999, tzinfo=UTC)], "Europe/Berlin", []),
    (
        pa.timestamp("us"),
        [datetime(2026, 3, 29), datetime(2026, 3, 28, 23, 59), datetime(2026, 3, 30)],
        "Europe/Berlin",
        [0],
    ),
    (pa.timestamp("us"), [datetime(2026, 3, 29, 2, 30)], "Europe/Berlin", [0]),
    (pa.date32(), [datetime(2026, 3, 28), datetime(2026, 3, 29), datetime(2026, 3, 30)], "Europe/Berlin", [1]),
    (pa.timestamp("ns"), [datetime(2026, 3, 28, 23)], "UTC", [0]),
]


@pytest.mark.parametrize(("kind", "values", "zone", "kept"), MOMENTS)
def test_times_belong_to_the_zone_of_the_source(
    kind: pa.DataType, values: list[Any], zone: str, kept: list[int]
) -> None:
    low = int(datetime(2026, 3, 28, 23, tzinfo=UTC).timestamp() * 1000)
    day = pa.RecordBatch.from_arrays([pa.array(values, kind), pa.array(range(len(values)))], names=["t", "n"])
    assert filter_within(day, "t", low, low + 23 * 3600 * 1000, zone).column("n").to_pylist() == kept


def test_the_segment_column_is_the_beginning_of_the_segment(api: Api, tmp_path: Path) -> None:
    api.routes["/all"] = partial(_first_page, [{"id": 1}])
    of = source(surveys(api, path="/all"), unit=None, unit_column="_u", segment_column="_s")
    (result,) = carried_out(wave(tmp_path, of, [work("", 3, 5)]))
    (row,) = rows(tmp_path, result)
    assert (row["_u"], int(row["_s"].timestamp() * 1000)) == ("", ms(3))


def test_keys_make_the_columns_of_units_needless(api: Api, tmp_path: Path) -> None:
    units(api, a=[{"id": 1}])
    (result,) = carried_out(wave(tmp_path, source(surveys(api), replace=Replace.MERGE_KEYS), [work("a")]))
    assert rows(tmp_path, result) == [{"id": 1, "at": None}]


def test_the_names_of_these_columns_are_not_taken_by_records(api: Api, tmp_path: Path) -> None:
    units(api, a=[{"_TIDEGATE_UNIT": 1}])
    with raises(SchemaMismatch, "'s'", "'_tidegate_unit'", "unit_column"):
        carry_out_here(wave(tmp_path, source(surveys(api)), [work("a")], inferred()))


def test_partitions_and_work_areas(api: Api, tmp_path: Path) -> None:
    units(api, a=[{"id": 1, "at": "2026-02-03T10:00:00Z"}, {"id": 2, "at": "2026-02-04T10:00:00Z"}])
    by = PartitionBy("day=%Y-%m-%d", "at")
    given = wave(tmp_path, source(surveys(api)), [work("a")], partition_by=by)
    result = carry_out_here(given)
    assert result.partition_columns == ("day",)
    (written,) = result.results
    assert isinstance(written, UnitWritten)
    assert sorted(file.partition_values["day"] or "" for file in written.data_files) == ["2026-02-03", "2026-02-04"]
    place = Location((tmp_path / "area").as_uri())
    there = carry_out_here(UnitWave(given.pipeline, given.source, given.works, given.scratch, given.now, place))
    (aside,) = there.results
    assert isinstance(aside, UnitWritten)
    (file,) = aside.data_files
    assert pq.ParquetFile(tmp_path / "area" / file.path).schema_arrow.names[-1] == "day"
