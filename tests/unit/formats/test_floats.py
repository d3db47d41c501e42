"""What a float column takes: the nearest of a fraction, a whole number exactly or not at all, no false 0."""

from __future__ import annotations

import io
import json
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.long_runs import examples
from tidegate.core.files.plan import FileGroup, FileSlice
from tidegate.formats.json import Decoder
from tidegate.formats.strict_lines import RecordRules, StrictLineReader
from tidegate.schema.types import arrow_schema
from tidegate.specs.files import Format
from tidegate.specs.locations import Location
from tidegate.specs.table import FieldSpec, Numbers
from tidegate.tasks.dead_letters import DeadLetterTarget
from tidegate.tasks.read_task import ReadTask
from tidegate.tasks.task import read_group_at_once

pytestmark = pytest.mark.usefixtures("each_reader")

FIELDS = (FieldSpec("f", "float64"), FieldSpec("g", "float32"), FieldSpec("l", "list", items=FieldSpec("e", "float64")))
REFUSED = [
    ("f", "9007199254740993"),
    ("f", "-9007199254740993"),
    ("f", "1152921504606847001"),
    ("f", "123456789012345678901234567890"),
    ("g", "16777217"),
    ("g", "-33554433"),
    ("g", "9007199254740993"),
    ("f", "1e-400"),
    ("f", "-1E-400"),
    ("f", "1e-324"),
    ("f", "0." + "0" * 330 + "1"),
    ("f", "1" * 3 + "e-340"),
    ("g", "1e-46"),
    ("g", "0." + "0" * 50 + "1"),
    ("f", "1e309"),
    ("g", "1e39"),
]
TAKEN = [
    ("f", "9007199254740992"),
    ("f", "9007199254740994"),
    ("f", "1152921504606846976"),
    ("f", "1e300"),
    ("f", "9007199254740993.0"),
    ("f", "9.007199254740993e15"),
    ("f", "0.1"),
    ("f", "5e-324"),
    ("f", "0e-400"),
    ("f", "0.000"),
    ("f", "-0"),
    ("f", "0"),
    ("g", "16777216"),
    ("g", "16777218"),
    ("g", "16777217.5"),
    ("g", "0.1"),
    ("g", "1e-45"),
    ("g", "0e-99"),
]
NEIGHBOURS = {"alone": b"", "good": b'{"f":1.5,"g":0}\n' * 3, "undeclared": b'{"f":0,"zz":1}\n', "bad": b"nonsense\n"}


def decoded(line: str, neighbours: str, **options: Any) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows and reasons that a line gives among others."""
    beside = NEIGHBOURS[neighbours]
    found = Decoder(RecordRules(FIELDS, **options)).decode(beside + line.encode() + b"\n" + beside)
    own = beside.count(b"\n")
    offsets = range(found.lines) if found.offsets is None else found.offsets.tolist()
    rows = [row for row, offset in zip(found.batch.to_pylist(), offsets, strict=True) if offset == own]
    return rows, [each.reason for each in found.rejected if each.offset == own]


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize(("column", "text"), REFUSED)
def test_a_number_that_would_become_another_is_a_bad_record(column: str, text: str, neighbours: str) -> None:
    for line in (f'{{"{column}":{text}}}', f'{{"{column}" : {text} ,"l":[0]}}'):
        rows, reasons = decoded(line, neighbours)
        assert rows == []
        assert f"'{column}': " in reasons[0]
        assert any(words in reasons[0] for words in ("cannot hold exactly", "too small for", "too large for"))


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize(("column", "text"), TAKEN)
def test_other_numbers_are_the_nearest_there_is(column: str, text: str, neighbours: str) -> None:
    rows, reasons = decoded(f'{{"{column}":{text}}}', neighbours)
    assert reasons == []
    expected = float(np.float32(float(text))) if column == "g" else float(text)
    assert rows[0][column] == expected


@settings(max_examples=examples(3000, 300))
@given(
    st.integers(2**53 - 4, 10**19 - 1) | st.integers(2**52, 2**53).map(lambda whole: 10 * whole + 5),
    st.integers(0, 22),
    st.sampled_from(["", "-"]),
    st.integers(-3, 3),
)
def test_fractions_of_many_digits_are_the_nearest_there_is(digits: int, behind: int, sign: str, power: int) -> None:
    padded = str(digits).zfill(behind + 1)
    text = f"{sign}{padded[: len(padded) - behind]}.{padded[len(padded) - behind :] or 0}e{power}"
    for one in (text, text.removesuffix("e0")):
        rows, reasons = decoded(f'{{"f":{one}}}', "alone")
        assert (reasons, rows[0]["f"]) == ([], float(one))


@pytest.mark.parametrize("text", ["9007199254740993", "1e-400"])
def test_the_same_holds_inside_lists_and_beside_values_to_rescue(text: str) -> None:
    assert "l[1]" in decoded(f'{{"l":[0,{text}]}}', "good")[1][0]
    fields = (*FIELDS, FieldSpec("left", "string"))
    found = Decoder(RecordRules(fields, rescued="left")).decode(f'{{"f":{text}}}\n{{"f":0}}\n'.encode())
    assert [row["left"] for row in found.batch.to_pylist()] == [f'{{"f":{text}}}', None]


def test_lenient_numbers_are_rounded() -> None:
    rows, _ = decoded('{"f":9007199254740993,"g":1e-60}', "alone", numbers=Numbers.LENIENT)
    assert (rows[0]["f"], rows[0]["g"]) == (9007199254740992.0, 0.0)


def written(folder: Path, format: Format, content: bytes, fields: tuple[FieldSpec, ...]) -> tuple[int, int]:
    """Rows and bad records of one file."""
    (folder / "file").write_bytes(content)
    task = ReadTask(
        source=Location(folder.as_uri()),
        table=Location((folder / "table").as_uri()),
        fields=fields,
        file_schema=arrow_schema(fields).serialize().to_pybytes(),
        format=format,
        letters=DeadLetterTarget(Location((folder / "letters").as_uri()), "p", "s", "r"),
    )
    result = read_group_at_once(task, FileGroup(0, (FileSlice("file", len(content)),)))
    assert set(result.bad_kinds) <= {"lossy"}
    return result.rows, sum(result.bad_kinds.values())


WHOLE = [1, 2**53, 2**53 + 1, 2**53 + 2, -(2**53) - 1]


def _parquet(array: pa.Array) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"f": array}), sink)
    return sink.getvalue()


def _avro() -> bytes:
    sink = io.BytesIO()
    schema = {"type": "record", "name": "r", "fields": [{"name": "f", "type": "long"}]}
    fastavro.writer(sink, schema, [{"f": value} for value in WHOLE])
    return sink.getvalue()


@pytest.mark.parametrize(
    ("format", "content"),
    [
        (Format.CSV, ("f\n" + "\n".join(map(str, WHOLE)) + "\n").encode()),
        (Format.JSON, json.dumps([{"f": value} for value in WHOLE]).encode()),
        (Format.NDJSON, b"".join(json.dumps({"f": value}).encode() + b"\n" for value in WHOLE)),
        (Format.PARQUET, _parquet(pa.array(WHOLE, pa.int64()))),
        (Format.PARQUET, _parquet(pa.array(WHOLE, pa.decimal128(38, 0)))),
        (Format.AVRO, _avro()),
    ],
    ids=["csv", "json", "ndjson", "parquet", "decimal in parquet", "avro"],
)
def test_every_format_keeps_whole_numbers_or_refuses_them(tmp_path: Path, format: Format, content: bytes) -> None:
    assert written(tmp_path, format, content, FIELDS[:1]) == (3, 2)


def test_cells_and_doubles_that_would_become_0_are_bad_records(tmp_path: Path) -> None:
    cells = b"f\n0\n0.0\n1e-400\n0e5\n-1e-999\n5e-324\n"
    assert written(tmp_path, Format.CSV, cells, FIELDS[:1]) == (4, 2)
    narrow = (FieldSpec("f", "float32"),)
    assert written(tmp_path, Format.PARQUET, _parquet(pa.array([0.0, 1e-300, 1.5])), narrow) == (2, 1)


@settings(max_examples=examples(200), deadline=None)
@given(st.floats(-(2.0**100), 2.0**100, width=32), st.integers(-3, 3), st.booleans())
def test_the_nearest_float32_does_not_depend_on_neighbours(value: float, step: int, is_whole: bool) -> None:
    between = (np.float64(value) + np.float64(np.nextafter(np.float32(value), np.float32(np.inf)))) / 2
    text = f"{between:.40f}"[: 60 + step] if abs(between) < 1e15 else repr(float(between))
    line = f'{{"g":{text}}}' if not is_whole else f'{{"g":{int(between)}}}'
    alone, good, bad = (decoded(line, neighbours) for neighbours in ("alone", "good", "bad"))
    assert alone == good == bad


@settings(max_examples=examples(200))
@given(st.integers(0, 0x7F7FFFFE), st.sampled_from([-1, 0, 1]), st.booleans())
def test_the_nearest_of_two_floats_is_taken_or_the_even_one(bits: int, side: int, negative: bool) -> None:
    low, high = (float(np.uint32(each).view(np.float32)) for each in (bits, bits + 1))
    middle = Decimal((low + high) / 2)
    with localcontext(prec=400):
        written = middle + side * middle.scaleb(-100)
    expected = (low if bits % 2 == 0 else high) if side == 0 else (low, high)[side > 0]
    sign = "-" if negative else ""
    read = StrictLineReader(RecordRules(FIELDS, numbers=Numbers.LENIENT)).read(f'{{"g":{sign}{written}}}'.encode())
    assert read["g"] == (-expected if negative else expected)
