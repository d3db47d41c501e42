"""A record whose partition value makes no path in its store is a dead letter; everything else is read."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegate
from servers.s3 import Server
from support.bucket import Bucket
from support.lake import Lake
from tidegate.commands.dead_letters import retry
from tidegate.commands.project import sources_of
from tidegate.parquet.parquet_file import uuid7
from tidegate.parquet.partitions import FILE_NAME_BYTES
from tidegate.runs.file_edit import DeadLetterSelection
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop
from tidegate.sources.units.work import UnitFailure, UnitWave, UnitWork, UnitWritten
from tidegate.specs.columns import FunctionRead
from tidegate.specs.locations import Location
from tidegate.specs.project import PipelineSpec
from tidegate.specs.table import PartitionBy, SchemaSpec, SinkSpec
from tidegate.specs.units import UnitSource

FIELDS = [{"name": "id", "type": "int64"}, {"name": "k", "type": "string"}]
BY = {"partition_by": {"prefix_template": "k", "column": "k"}}
FITS = "x" * 253
"""With ``k=`` before it, 255 bytes."""


def lake_of(root: Path, format_: str = "ndjson", **handling: Any) -> Lake:
    settings = {"error_handling": handling} if handling else {}
    return Lake(
        root,
        source_settings={"format": format_},
        sink_settings=BY,
        schema={"fields": FIELDS},
        pipeline_settings=settings,
    )


def written(format_: str, rows: list[dict[str, Any]]) -> bytes:
    match format_:
        case "ndjson":
            return "".join(json.dumps({**row, "more": 1}, ensure_ascii=False) + "\n" for row in rows).encode()
        case "json":
            return json.dumps([{**row, "more": 1} for row in rows], ensure_ascii=False).encode()
        case "csv":
            return ("id,k\n" + "".join(f"{row['id']},{row['k']}\n" for row in rows)).encode()
        case _:
            output = io.BytesIO()
            pq.write_table(pa.Table.from_pylist(rows), output)
            return output.getvalue()


def put(lake: Lake, name: str, content: bytes) -> None:
    path = lake.root / "data/d" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


@pytest.mark.usefixtures("each_reader")
@pytest.mark.parametrize("format_", ["ndjson", "json", "csv", "parquet"])
@pytest.mark.parametrize("long", ["x" * 254, "ü" * 127, ":" * 85, "x" * 300], ids=["ascii", "utf-8", "escaped", "300"])
def test_a_value_that_makes_no_path_is_a_dead_letter(tmp_path: Path, format_: str, long: str) -> None:
    lake = lake_of(tmp_path, format_)
    rows = [{"id": 0, "k": FITS}, {"id": 1, "k": long}, {"id": 2, "k": "b"}, {"id": 3, "k": "ü" * 126}]
    put(lake, f"1.{format_}", written(format_, rows))
    put(lake, f"2.{format_}", written(format_, [{"id": 4, "k": "b"}]))
    (source,) = lake.run().sources
    assert (source.error, source.failed, source.bad_records, source.files) == (None, (), 1, 2)
    assert sorted(row["id"] for row in lake.rows("select id from t")) == [0, 2, 3, 4]
    (letter,) = tidegate.list_letters(lake.config, "events")
    assert (letter.file, letter.line) == (f"d/1.{format_}", 2)
    reason = letter.reason or ""
    assert "'k'" in reason
    assert "255" in reason
    content = letter.content.decode()
    assert long in content
    if format_ in ("ndjson", "json"):
        assert json.loads(content) == {"id": 1, "k": long, "more": 1}
    assert lake.run().sources[0].error is None


def test_a_letter_whose_value_still_makes_no_path_stays(tmp_path: Path) -> None:
    lake = lake_of(tmp_path)
    put(lake, "1.ndjson", written("ndjson", [{"id": 1, "k": "y" * 300}]))
    assert lake.run().sources[0].bad_records == 1
    (place,) = sources_of(lake.project, "events")
    retry(place, DeadLetterSelection(), InProcessEngine)
    (letter,) = tidegate.list_letters(lake.config, "events")
    assert "302 bytes" in (letter.reason or "")


def test_a_bad_record_refuses_its_file_where_that_is_the_rule(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, on_bad_record="fail_file")
    put(lake, "1.ndjson", written("ndjson", [{"id": 1, "k": "y" * 300}, {"id": 2, "k": "b"}]))
    put(lake, "2.ndjson", written("ndjson", [{"id": 3, "k": "b"}]))
    (source,) = lake.run().sources
    assert [(each.path, "line 1" in each.reason) for each in source.failed] == [("d/1.ndjson", True)]
    assert [row["id"] for row in lake.rows("select id from t")] == [3]


def test_small_files_that_are_decoded_together_keep_their_lines(tmp_path: Path) -> None:
    lake = lake_of(tmp_path)
    for number in range(5):
        rows = [{"id": 10 * number, "k": "a"}, {"id": 10 * number + 1, "k": "z" * (300 if number % 2 else 3)}]
        put(lake, f"{number}.ndjson", written("ndjson", rows))
    (source,) = lake.run().sources
    assert (source.rows, source.bad_records) == (8, 2)
    letters = tidegate.list_letters(lake.config, "events")
    assert sorted((letter.file, letter.line) for letter in letters) == [("d/1.ndjson", 2), ("d/3.ndjson", 2)]
    assert {json.loads(letter.content)["id"] for letter in letters} == {11, 31}


def test_a_path_that_is_too_long_as_a_whole(tmp_path: Path) -> None:
    keys = "/".join(f"k{number}" for number in range(16))
    fields = [{"name": f"k{number}", "type": "string"} for number in range(16)]
    lake = Lake(
        tmp_path,
        sink_settings={"partition_by": {"prefix_template": keys, "column": "k0"}},
        schema={"fields": [{"name": "id", "type": "int64"}, *fields]},
    )
    lake.write("d/1.ndjson", json.dumps({"id": 1} | {f"k{number}": "v" * 251 for number in range(16)}) + "\n")
    lake.write("d/2.ndjson", json.dumps({"id": 2}) + "\n")
    (source,) = lake.run().sources
    assert (source.error, source.bad_records, source.rows) == (None, 1, 1)


def test_names_of_data_files_have_the_length_that_the_limit_counts_on() -> None:
    assert len(f"{uuid7()}.parquet") == FILE_NAME_BYTES


def numbers(session: object, request: Any) -> pa.Table:
    """Rows of a function, one of them with a long key."""
    return pa.table({"id": [1, 2], "k": ["b", "y" * 300]})


def test_a_column_source_says_which_column_is_too_long(tmp_path: Path) -> None:
    source = {"type": "python", "function": f"{__name__}:numbers", "watermark_columns": ["id"]}
    body = {"pipelines": {"p": {"source": source, "sink": {"table_uri": "lake/p", **BY}}}}
    (tmp_path / "p.yml").write_text(json.dumps(body))
    made = tidegate.load(tmp_path / "p.yml")
    (report,) = Loop(made, InProcessEngine(), 1).once(made.pipelines).sources
    assert report.error is not None
    assert "'k'" in report.error
    assert "302 bytes" in report.error
    assert report.rows == 0


def of_unit(session: object, request: Any) -> pa.Table:
    """Rows whose key is as long as their unit says."""
    return pa.table({"id": [1], "k": ["y" * int(request.unit)]})


def test_only_the_work_unit_with_a_long_value_fails(tmp_path: Path) -> None:
    source = UnitSource("calls", FunctionRead(f"{__name__}:of_unit"))
    table = Location((tmp_path / "table").as_uri())
    pipeline = PipelineSpec("p", (source,), SchemaSpec(infer=True), SinkSpec(table, partition_by=PartitionBy("k", "k")))
    works = tuple(UnitWork(unit, 0, ((0, 1000),)) for unit in ("3", "300", "4"))
    wave = UnitWave(pipeline, source, works, table, datetime(2026, 3, 5, tzinfo=UTC))
    one, bad, other = InProcessEngine().carry_out(wave).results
    assert isinstance(one, UnitWritten)
    assert isinstance(other, UnitWritten)
    assert isinstance(bad, UnitFailure)
    assert "'k'" in bad.problem
    assert "302 bytes" in bad.problem


@pytest.mark.s3
def test_a_key_of_s3_has_at_most_1024_bytes(s3: Server, tmp_path: Path) -> None:
    bucket = Bucket(s3, tmp_path)
    prefix = len(bucket.table.uri.removeprefix("s3://").partition("/")[2]) + 1
    fits = 1024 - prefix - len("event=") - 1 - 44
    body = json.loads(bucket.config.read_text())
    body["pipelines"]["events"]["sink"]["partition_by"] = {"prefix_template": "event", "column": "event"}
    config = tmp_path / "long.yml"
    config.write_text(json.dumps(body))
    lines = [{"id": 1, "event": "x" * fits}, {"id": 2, "event": "x" * (fits + 1)}, {"id": 3, "event": "b"}]
    bucket.store.put("d/1.ndjson", "".join(json.dumps(line) + "\n" for line in lines).encode())
    made = tidegate.load(config)
    (source,) = Loop(made, InProcessEngine(), 1).once(made.pipelines).sources
    assert (source.error, source.rows, source.bad_records) == (None, 2, 1)
    (letter,) = tidegate.list_letters(config, "events")
    assert letter.line == 2
    assert "bytes" in (letter.reason or "")


def test_inferred_columns_that_are_all_partition_keys_are_an_error(tmp_path: Path) -> None:
    """Files have no column then, and cannot hold rows."""
    by = {"partition_by": {"prefix_template": "k/id", "column": "k"}}
    lake = Lake(tmp_path, sink_settings=by, schema={"infer": True})
    lake.write("d/1.ndjson", "".join(f'{{"id": {number}, "k": "a"}}\n' for number in range(5)))
    report = lake.run()
    (source,) = report.sources
    assert (report.ok, source.rows) == (False, 0)
    assert source.error is not None
    assert "'k', 'id'" in source.error
    lake.sink_settings = by | {"metadata_columns": ["_source_record"]}
    (source,) = lake.run().sources
    assert (source.error, source.rows) == (None, 5)
    assert sorted(row["id"] for row in lake.rows("select id from t")) == list(range(5))
