"""What holds for any content: the standard library reads the same, and neighbours do not decide about a record."""

from __future__ import annotations

import csv
import io
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from support.format_files import written
from support.long_runs import examples
from tidegate.core.files.plan import FileSlice
from tidegate.parquet.partitions import Partitioning
from tidegate.schema.types import arrow_schema
from tidegate.specs.files import Format
from tidegate.specs.locations import Location
from tidegate.specs.table import FieldSpec
from tidegate.tasks.read_task import ReadTask, open_format

Outcome = tuple[int, dict[str, Any] | str]
"""The place of a record, and its row or the reason why it has none."""

CELLS = [b"1", b"007", b"1.0", b"1.5", b"x", b"", b'""', b"0x1F", b"1e3", b"true", b"nan", b"-", b"+1", b"1_0", b'"1"']
CELLS += [b"1e0x1", b"-0X1", b"Infinity", b"nan(1)", b" 1", b"1 ", b"1e999", b"\t1", b"99999999999999999999"]
TEXTS = [b"", b'""', b'"a""b"', b'a"b', b'"a"b', "é".encode(), b"\xff", b'"x\ny"', b'"x,y"', b"a,b", b"a\rb"]
TYPES = ["int32", "int64", "float64", "decimal(4,1)", "boolean", "string", "json"]


def outcomes(format: Format, data: bytes, fields: tuple[FieldSpec, ...]) -> list[Outcome]:
    nowhere = Location("memory://nowhere")
    task = ReadTask(nowhere, nowhere, fields, b"", format=format)
    reading = open_format(task, Partitioning(None, arrow_schema(fields)))
    found: list[Outcome] = []
    before = 0
    for decoded in reading.read(io.BytesIO(data), FileSlice(f"a.{format}", len(data))):
        places = range(decoded.lines) if decoded.offsets is None else decoded.offsets.tolist()
        rows = decoded.batch.to_pylist()
        found += [(before + place, row) for place, row in zip(places, rows, strict=True)]
        found += [(before + each.offset, each.reason) for each in decoded.rejected]
        before += decoded.lines
    return sorted(found, key=lambda each: each[0])


@settings(deadline=None)
@given(st.lists(st.tuples(*[st.text(st.sampled_from('a1,;"\n\r é'), max_size=6)] * 3), max_size=8))
def test_csv_says_what_the_standard_library_wrote(rows: list[tuple[str, str, str]]) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows([("a", "b", "c"), *rows])
    fields = tuple(FieldSpec(name, "string") for name in "abc")
    expected = [{name: cell or None for name, cell in zip("abc", row, strict=True)} for row in rows]
    assert [row for _, row in outcomes(Format.CSV, text.getvalue().encode(), fields)] == expected


@settings(deadline=None, max_examples=examples(60))
@given(
    st.lists(st.tuples(st.sampled_from(CELLS), st.sampled_from(TEXTS)), min_size=1, max_size=6),
    st.sampled_from(TYPES),
    st.booleans(),
)
def test_a_csv_record_is_the_same_beside_any_others(
    records: list[tuple[bytes, bytes]], type: str, nullable: bool
) -> None:
    fields = (FieldSpec("v", type, nullable), FieldSpec("t", "string"))
    lines = [b",".join(record) + b"\n" for record in records]
    together = outcomes(Format.CSV, b"v,t\n" + b"".join(lines), fields)
    alone = [outcomes(Format.CSV, b"v,t\n" + line, fields) for line in lines]
    assert [found for _, found in together] == [found for ((_, found),) in alone]


VALUES: dict[pa.DataType, list[Any]] = {
    pa.int64(): [0, -1, 2**31, 2**53 + 1, 2**62, None],
    pa.float64(): [0.0, 1.0, 0.5, 1e300, 1.139, None],
    pa.decimal128(20, 3): [Decimal(1), Decimal("1.500"), Decimal("1.239"), Decimal(10**12), None],
    pa.string(): ["", "1.5", "x", "2024-01-28", "2024-01-28T00:00:00Z", "{}", None],
}


@settings(deadline=None, max_examples=examples(80))
@given(st.data(), st.sampled_from(sorted(VALUES, key=str)), st.booleans())
def test_a_parquet_row_is_the_same_beside_any_others(data: st.DataObject, kind: pa.DataType, nullable: bool) -> None:
    numbers = ["int32", "int64", "float32", "float64", "decimal(6,1)", "json"]
    declared = data.draw(st.sampled_from(["string", "timestamp", "date", "json"] if kind == pa.string() else numbers))
    values = data.draw(st.lists(st.sampled_from(VALUES[kind]), min_size=1, max_size=6))
    fields = (FieldSpec("v", declared, nullable),)

    def read(chosen: list[Any]) -> list[Outcome]:
        file = written("parquet", [{"v": value} for value in chosen], schema=pa.schema([("v", kind)]))
        return outcomes(Format.PARQUET, file, fields)

    assert [found for _, found in read(values)] == [read([value])[0][1] for value in values]
