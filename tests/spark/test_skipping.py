"""Readers skip files by the statistics in the log, nested ones too, and never a file that has a wanted row."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from support.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SCHEMA = {
    "fields": [
        {"name": "id", "type": "int64"},
        {"name": "at", "type": "timestamp"},
        {"name": "price", "type": "float64"},
        {"name": "cost", "type": "decimal(20,4)"},
        {"name": "note", "type": "string"},
        {
            "name": "who",
            "type": "struct",
            "fields": [
                {"name": "age", "type": "int32"},
                {"name": "home", "type": "struct", "fields": [{"name": "city", "type": "string"}]},
            ],
        },
    ]
}
FILES = 6


def record(number: int) -> dict[str, Any]:
    file = number // 10
    long = "z" * 70 if file == 3 else ""
    return {
        "id": number,
        "at": f"2026-01-{file + 1:02d}T00:00:00.{number % 10:03d}5Z",
        "price": number / 8,
        "cost": f"{number}.0001",
        "note": f"{'abcdef'[file]}{long}{number % 10}",
        "who": None if number % 7 == 0 else {"age": file * 10, "home": {"city": f"c{file}"}},
    }


FILTERS = {
    "who.age = 30": 1,
    "who.age > 39": 2,
    "who.home.city = 'c2'": 1,
    "who.home.city < 'c1'": 1,
    "who.age is null": 6,
    "at >= timestamp '2026-01-02 00:00:00.0095'": 5,
    "at = timestamp '2026-01-06 00:00:00.0035'": 1,
    "price > 7.0": 1,
    "cost between 20.0001 and 29.0001": 1,
    "note > 'd' and note < 'e'": 1,
    "note = 'dzzz'": 0,
    f"note = 'd{'z' * 70}5'": 1,
}
"""Conditions, and in how many of the files a reader has to look."""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = Lake(tmp_path_factory.mktemp("lake"), schema=SCHEMA)
    for file in range(FILES):
        lines = [json.dumps(record(number)) for number in range(file * 10, file * 10 + 10)]
        lake.write(f"{file}.ndjson", "".join(f"{line}\n" for line in lines))
        assert lake.run().ok
    return lake


def ids(found: DataFrame) -> list[int]:
    return sorted(row["id"] for row in found.select("id").collect())


def test_spark_and_delta_rs_find_every_row_and_open_only_some_files(spark: SparkSession, lake: Lake) -> None:
    table = spark.read.format("delta").load(str(lake.root / "lake/events"))
    everything = spark.read.parquet(*(str(path) for path in (lake.root / "lake/events").glob("*.parquet"))).cache()
    assert len(table.inputFiles()) == FILES
    for condition, files in FILTERS.items():
        expected = ids(everything.where(condition))
        assert ids(table.where(condition)) == expected, condition
        assert len(table.where(condition).inputFiles()) == files, condition
        if "timestamp" not in condition:
            assert [row["id"] for row in lake.rows(f"select id from t where {condition} order by id")] == expected
    everything.unpersist()
