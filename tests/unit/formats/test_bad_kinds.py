"""Bad records of every format are counted by kind."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate.core.files.plan import FileGroup, FileSlice
from tidegate.observe.metrics import BAD_KINDS
from tidegate.schema.types import arrow_schema
from tidegate.specs.files import Format
from tidegate.specs.locations import Location
from tidegate.specs.table import FieldSpec
from tidegate.tasks.dead_letters import DeadLetterTarget
from tidegate.tasks.read_task import ReadTask
from tidegate.tasks.task import read_group_at_once

FIELDS = (
    FieldSpec("id", "int64", nullable=False),
    FieldSpec("ok", "boolean"),
    FieldSpec("small", "int32"),
    FieldSpec("data", "json"),
    FieldSpec("ts", "timestamp"),
)


def kinds(folder: Path, format: Format, content: bytes) -> dict[str, int]:
    """What one file of the format counts as bad."""
    (folder / "file").write_bytes(content)
    task = ReadTask(
        source=Location(folder.as_uri()),
        table=Location((folder / "table").as_uri()),
        fields=FIELDS,
        file_schema=arrow_schema(FIELDS).serialize().to_pybytes(),
        format=format,
        letters=DeadLetterTarget(Location((folder / "letters").as_uri()), "p", "s", "r"),
    )
    result = read_group_at_once(task, FileGroup(0, (FileSlice("file", len(content)),)))
    assert result.bad_kinds.keys() <= set(BAD_KINDS)
    return dict(result.bad_kinds)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (b"1,true", "not_csv"),
        (b'1,"true,1,,', "not_csv"),
        (b'1,"true"x,1,,', "not_csv"),
        (b"1,tr\xffue,1,,", "not_csv"),
        (b",true,1,,", "missing"),
        (b"x,true,1,,", "wrong_type"),
        (b"1,maybe,1,,", "wrong_type"),
        (b"1,true,1,,yesterday", "wrong_type"),
        (b"1,true,3000000000,,", "lossy"),
        (b"1,true,1.5,,", "lossy"),
        (b"1,true,1,{,", "not_json"),
    ],
)
def test_a_bad_record_of_a_csv_file(tmp_path: Path, line: bytes, kind: str) -> None:
    good = b"2,false,2,,\n"
    found = kinds(tmp_path, Format.CSV, b"id,ok,small,data,ts\n" + good + line + b"\n")
    assert found == {kind: 1}


COLUMNS: list[tuple[str, pa.DataType, Any, str]] = [
    ("id", pa.int64(), None, "missing"),
    ("small", pa.int64(), 3_000_000_000, "lossy"),
    ("small", pa.float64(), 1.5, "lossy"),
    ("ts", pa.string(), "yesterday", "wrong_type"),
    ("data", pa.string(), "{", "not_json"),
]


@pytest.mark.parametrize(("name", "type", "value", "kind"), COLUMNS)
def test_a_bad_record_of_a_parquet_file(tmp_path: Path, name: str, type: pa.DataType, value: Any, kind: str) -> None:
    columns = {"id": pa.array([1, 2], pa.int64())} | {name: pa.array([None if name != "id" else 1, value], type)}
    content = io.BytesIO()
    pq.write_table(pa.table(columns), content)
    assert kinds(tmp_path, Format.PARQUET, content.getvalue()) == {kind: 1}


@pytest.mark.parametrize(
    ("name", "type", "value", "kind"),
    [
        ("id", ["null", "long"], None, "missing"),
        ("small", ["null", "long"], 3_000_000_000, "lossy"),
        ("ts", ["null", "string"], "yesterday", "wrong_type"),
        ("data", ["null", "string"], "{", "not_json"),
    ],
)
def test_a_bad_record_of_an_avro_file(tmp_path: Path, name: str, type: list[str], value: Any, kind: str) -> None:
    fields = {"id": "long", name: type}
    schema = {"type": "record", "name": "r", "fields": [{"name": key, "type": each} for key, each in fields.items()]}
    content = io.BytesIO()
    fastavro.writer(content, schema, [{"id": 1, name: 1 if name == "id" else None}, {"id": 2, name: value}])
    assert kinds(tmp_path, Format.AVRO, content.getvalue()) == {kind: 1}
