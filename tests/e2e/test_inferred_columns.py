"""Inferred columns: checked before anything is written, remembered after the first commit, never a dead end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import tidegate
from support.errors import raises
from support.lake import Lake
from tidegate.failpoints import InjectedFailure, arm
from tidegate.observe.events import Notice
from tidegate.schema.names import MOST_LEVELS


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path, schema={"infer": True})


def remembered(lake: Lake) -> Path:
    return lake.root / "lake/events/_tidegate/events/schema.json"


def table(lake: Lake) -> DeltaTable:
    return DeltaTable(str(lake.root / "lake/events"))


def rows(lake: Lake) -> list[dict[str, Any]]:
    return pa.table(table(lake).scan()).to_pylist()


def parquet(lake: Lake, name: str, columns: dict[str, pa.Array]) -> None:
    lake.source_settings = {**lake.source_settings, "format": "parquet"}
    target = lake.root / "data" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), target)


def error_of(lake: Lake) -> str:
    report = lake.run()
    assert not report.ok
    return report.sources[0].error or ""


@contextmanager
def armed(text: str) -> Iterator[None]:
    arm(text)
    try:
        yield
    finally:
        arm("")


class TestNothingUnusableIsRemembered:
    def test_a_first_file_of_empty_objects_is_told_at_once_and_blocks_nothing(self, lake: Lake) -> None:
        lake.write("d/1.ndjson", "{}\n{}\n")
        assert "no sampled record has a field" in error_of(lake)
        assert not remembered(lake).exists()
        lake.write("d/2.ndjson", '{"id": 1}\n')
        assert lake.run().ok
        assert [row["id"] for row in rows(lake)] == [None, None, 1]
        assert remembered(lake).exists()

    def test_a_run_that_fails_before_its_commit_remembers_nothing(self, lake: Lake) -> None:
        lake.write("d/1.ndjson", '{"id": 1}\n')
        with armed("runs.commit.before=raise"), pytest.raises(InjectedFailure):
            lake.run()
        assert not remembered(lake).exists()
        lake.write("d/1.ndjson", '{"other": "x"}\n')
        assert lake.run().ok
        assert rows(lake) == [{"other": "x"}]

    def test_a_crash_right_after_the_commit_still_remembers(self, lake: Lake) -> None:
        lake.write("d/1.ndjson", '{"j": {}}\n')
        with armed("state.won.before=raise"):
            lake.run()
        assert not remembered(lake).exists()
        lake.write("d/2.ndjson", '{"j": {"a": 1}}\n')
        assert lake.run().ok
        assert sorted(row["j"] for row in rows(lake)) == ['{"a":1}', "{}"]

    def test_update_replaces_what_is_damaged(self, lake: Lake) -> None:
        lake.write("d/1.ndjson", '{"id": 1}\n')
        assert lake.run().ok
        remembered(lake).write_text("{")
        lake.write("d/2.ndjson", '{"id": 2, "more": true}\n')
        assert "schema infer --update" in error_of(lake)
        assert tidegate.infer_schema(lake.config, "events", update=True).applied
        assert lake.run().ok
        assert sorted((row["id"], row["more"]) for row in rows(lake)) == [(1, None), (2, True)]

    def test_update_replaces_what_no_table_was_written_with(self, lake: Lake) -> None:
        lake.write("d/1.ndjson", '{"id": "x"}\n')
        remembered(lake).parent.mkdir(parents=True)
        remembered(lake).write_text(json.dumps({"fields": [{"name": "old", "type": "int64"}], "records": 1}))
        assert tidegate.infer_schema(lake.config, "events", update=True).applied
        assert lake.run().ok
        assert rows(lake) == [{"id": "x"}]


class TestNumbers:
    @pytest.mark.parametrize(
        ("texts", "kind", "found"),
        [
            (["1", "9223372036854775807"], pa.int64(), [1, 9223372036854775807]),
            (["1", "18446744073709551615"], pa.decimal128(20, 0), [1, 18446744073709551615]),
            (["1", "1.5"], pa.float64(), [1.0, 1.5]),
            (["1", "1.5", "9007199254740993"], pa.string(), ["1", "1.5", "9007199254740993"]),
            (["123456789012345678901"], pa.string(), ["123456789012345678901"]),
            (["1e-400", "1"], pa.string(), ["1e-400", "1"]),
            (["1e400"], pa.string(), ["1e400"]),
        ],
    )
    def test_no_number_is_bent(self, lake: Lake, texts: list[str], kind: pa.DataType, found: list[Any]) -> None:
        lake.write("d/1.ndjson", "".join(f'{{"n": {text}}}\n' for text in texts))
        assert lake.run().ok
        assert table(lake).schema().to_arrow().field("n").type == kind
        assert [row["n"] for row in rows(lake)] == found

    @pytest.mark.parametrize(
        ("cells", "kind"),
        [
            (["1", "9223372036854775807"], pa.int64()),
            (["18446744073709551615"], pa.decimal128(20, 0)),
            (["1.5", "9007199254740993"], pa.string()),
            (["123456789012345678901"], pa.string()),
            (["1e400"], pa.string()),
        ],
    )
    def test_no_cell_is_bent(self, lake: Lake, cells: list[str], kind: pa.DataType) -> None:
        lake.source_settings = {"format": "csv"}
        lake.write("d/1.csv", "n\n" + "".join(f"{cell}\n" for cell in cells))
        assert lake.run().ok
        assert table(lake).schema().to_arrow().field("n").type == kind
        assert sorted(str(row["n"]) for row in rows(lake)) == sorted(cells)


class TestDepth:
    @pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":'])
    def test_what_is_nested_too_deep_for_readers_is_text(self, lake: Lake, opening: str) -> None:
        closing = opening.replace("[", "]").replace('{"a":', "}")[::-1] if opening != '[{"a":' else "}]"
        lake.write("d/1.ndjson", f'{{"deep": {opening * 60}1{closing * 60}, "id": 1}}\n')
        assert lake.run().ok
        lake.write("d/2.ndjson", '{"id": 2}\n')
        assert lake.run().ok
        (deep, other) = sorted(rows(lake), key=lambda row: row["id"])
        assert other["deep"] is None
        value, levels = deep["deep"], 0
        while not isinstance(value, str):
            value, levels = (value["a"] if isinstance(value, dict) else value[0]), levels + 1
        assert levels == MOST_LEVELS
        for file in table(lake).file_uris():
            pq.read_table(file)

    def test_a_declared_schema_that_is_too_deep_is_refused(self, tmp_path: Path) -> None:
        items: Any = "string"
        for _ in range(MOST_LEVELS + 1):
            items = {"type": "list", "items": items}
        lake = Lake(tmp_path, schema={"fields": [{"name": "a", **items}]})
        lake.write("d/1.ndjson", "{}\n")
        with raises(tidegate.ConfigError, "pipelines.events.schema.fields[0]", "33 levels"):
            lake.run()


class TestNames:
    def test_columns_of_csv_files_lose_what_a_table_cannot_have(self, lake: Lake) -> None:
        lake.source_settings = {"format": "csv"}
        lake.write("d/1.csv", "Order Date,total (EUR)\n2026-01-28,1.5\n")
        assert lake.run().ok
        lake.write("d/2.csv", "total (EUR),Order Date\n2.5,2026-01-29\nx,2026-01-30\n")
        lake.run()
        assert sorted((row["Order_Date"], row["total_EUR"]) for row in rows(lake)) == [
            ("2026-01-28", 1.5),
            ("2026-01-29", 2.5),
        ]

    def test_columns_of_parquet_files_do_so_too(self, lake: Lake) -> None:
        names = ("user name", "a b", "a;b")
        parquet(lake, "d/1.parquet", {name: pa.array([name]) for name in names})
        error = error_of(lake)
        assert "'a;b' contains ';'" in error
        assert "leaves out and counts all others" in error
        lake.schema = {"fields": [{"name": "user_name", "type": "string"}]}
        assert lake.run().ok
        assert rows(lake) == [{"user_name": "user name"}]

    def test_a_column_that_would_get_the_name_of_a_partition_is_left_out_as_before(self, tmp_path: Path) -> None:
        lake = Lake(tmp_path, schema={"fields": [{"name": "id", "type": "int64"}]})
        lake.source_settings = {"format": "csv"}
        lake.sink_settings = {"partition_by": {"prefix_template": "my_day=%Y"}}
        lake.write("my_day=2026/1.csv", "id,my day\n1,x\n")
        assert lake.run().ok
        assert rows(lake) == [{"id": 1, "my_day": "2026"}]

    def test_a_name_with_a_dot_beside_a_struct_is_read(self, tmp_path: Path) -> None:
        lake = Lake(tmp_path, schema={"fields": [{"name": "a.b", "type": "int64"}]})
        parquet(lake, "d/1.parquet", {"a.b": pa.array([1]), "a": pa.array([{"b": 2}])})
        assert lake.run().ok
        assert rows(lake) == [{"a.b": 1}]

    def test_remedies_for_names_of_json_fields_help(self, lake: Lake) -> None:
        lake.write("d/1.ndjson", '{"id": 1, "user name": "ann", "": 2, "ID": 3}\n')
        error = error_of(lake)
        for words in (
            "'user name' contains ' '",
            "'' is empty",
            "'ID' and 'id' differ only",
            "schema.rescued",
            "left out",
        ):
            assert words in error
        lake.schema = {"infer": True, "rescued": True}
        assert lake.run().ok
        assert [(row["id"], json.loads(row["_rescued"])) for row in rows(lake)] == [
            (1, {"user name": "ann", "": 2, "ID": 3})
        ]

    def test_the_remedy_for_a_field_that_is_a_key_of_the_path_helps(self, lake: Lake) -> None:
        lake.sink_settings = {"partition_by": {"prefix_template": "land=%Y"}}
        lake.write("land=2026/1.ndjson", '{"id": 1, "land": "de"}\n')
        assert "{prefix_template: land, column: land}" in error_of(lake)
        lake.sink_settings = {"partition_by": {"prefix_template": "land", "column": "land"}}
        assert lake.run().ok
        assert rows(lake) == [{"id": 1, "land": "de"}]


class TestFiles:
    def test_types_that_no_table_has_are_kept_as_text(self, lake: Lake) -> None:
        parquet(
            lake,
            "d/1.parquet",
            {
                "counts": pa.array([[(1, "a"), (2, "b")]], pa.map_(pa.int32(), pa.string())),
                "at": pa.array([time(12, 30, 1)], pa.time32("s")),
                "odd": pa.array([{"a b": 1}]),
                "nested": pa.array([{"x": {"y": float("nan")}, "z": None}]),
            },
        )
        assert lake.run().ok
        (row,) = rows(lake)
        assert (row["counts"], row["at"], row["odd"]) == ('{"1":"a","2":"b"}', "12:30:01.000", '{"a b":1}')
        assert str(row["nested"]["x"]["y"]) == "nan"

    def test_a_file_that_cannot_be_read_is_named_with_its_reason(self, lake: Lake) -> None:
        parquet(lake, "d/1.parquet", {"id": pa.array([1])})
        (lake.root / "data/d/1.parquet").write_bytes(b"PAR1 something else PAR1")
        error = error_of(lake)
        assert "1 file cannot be read: d/1.parquet" in error
        assert "dead letter" in error

    def test_a_key_that_is_no_unicode_is_a_bad_line(self, lake: Lake) -> None:
        lake.write("d/1.ndjson", '{"id": 1, "x\\uDFAA": 3}\n{"id": 2}\n')
        report = lake.run()
        assert (report.sources[0].rows, report.sources[0].bad_records) == (1, 1)
        assert rows(lake) == [{"id": 2}]

    def test_many_columns_are_told_in_one_line(self, lake: Lake) -> None:
        lake.write("d/1.ndjson", json.dumps({f"c{number}": {"a": 1, "b": None} for number in range(40)}) + "\n")
        assert lake.run().ok
        told = [event.text for event in lake.seen if isinstance(event, Notice)]
        assert len([text for text in told if text.startswith("inferred 40 columns (80 fields inside them)")]) == 1
        assert len(told) < 3
