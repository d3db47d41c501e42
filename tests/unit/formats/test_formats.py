"""Files of every format by the same walk: the same rows, dead letters, progress and refusals."""

from __future__ import annotations

import contextlib
import io
import json
import os
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.format_files import ENDINGS, written
from tidegate.core.files.plan import FileGroup, FileSlice
from tidegate.core.files.state import Changed, Covered, FileOutcome, Refused
from tidegate.errors import ObjectChanged
from tidegate.formats.avro_types import NativePlan, UnknownType
from tidegate.formats.csv import CsvDialect
from tidegate.formats.port import Fetcher
from tidegate.parquet.partitions import Partitioning
from tidegate.parquet.writer import WriterSettings
from tidegate.schema.dead_letter import Letter, letter_of
from tidegate.schema.types import arrow_schema
from tidegate.specs.columns import CsvOptions
from tidegate.specs.files import Format
from tidegate.specs.locations import Location
from tidegate.specs.table import FieldSpec, Numbers, PartitionBy
from tidegate.storage.stores import open_store
from tidegate.tasks.dead_letters import DeadLetterTarget
from tidegate.tasks.read_task import GroupResult, ReadTask, open_format
from tidegate.tasks.task import Reread, read_group_at_once, reread

FIELDS = (
    FieldSpec("id", "int64", nullable=False),
    FieldSpec("ts", "timestamp"),
    FieldSpec("day", "date"),
    FieldSpec("price", "decimal(12,2)"),
    FieldSpec("share", "float64"),
    FieldSpec("ok", "boolean"),
    FieldSpec("text", "string"),
)
IDS = (FieldSpec("id", "int64", nullable=False), FieldSpec("text", "string"))
EVERY = sorted(ENDINGS)


def row(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "ts": datetime(2024, 1, number % 28 + 1, 12, 0, 0, 250, UTC),
        "day": date(2024, 2, number % 28 + 1),
        "price": Decimal(number) / 4,
        "share": number / 8,
        "ok": number % 2 == 0,
        "text": None if number % 5 == 0 else f'a, "b"\nç {number}',
    }


class FileSource:
    """A source and a table in a temporary directory."""

    def __init__(self, root: Path) -> None:
        self.source, self.table, self.letters = (root / name for name in ("source", "table", "letters"))
        for each in (self.source, self.table, self.letters):
            each.mkdir()

    def put(self, path: str, data: bytes) -> FileSlice:
        target = self.source / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        return FileSlice(path, len(data))

    def task(self, format: str, fields: tuple[FieldSpec, ...] = FIELDS, **changes: Any) -> ReadTask:
        task = ReadTask(
            source=Location(self.source.as_uri()),
            table=Location(self.table.as_uri()),
            fields=fields,
            file_schema=arrow_schema(fields).serialize().to_pybytes(),
            format=Format(format),
            letters=DeadLetterTarget(Location(self.letters.as_uri()), "p", "s", "r"),
        )
        return replace(task, **changes)

    def rows(self, result: GroupResult | Reread) -> list[dict[str, Any]]:
        files = result.data_files if isinstance(result, GroupResult) else result.files
        found = [pq.read_table(self.table / file.path, partitioning=None) for file in files]
        return [each for table in found for each in table.to_pylist()]

    def kept(self, result: GroupResult) -> list[Letter]:
        found = [pq.read_table(self.letters / file.path) for file in result.letter_files]
        return [letter_of(each) for table in found for each in table.to_pylist()]


@pytest.fixture
def place(tmp_path: Path) -> FileSource:
    return FileSource(tmp_path)


def read(place: FileSource, format: str, data: bytes, **changes: Any) -> tuple[GroupResult, FileOutcome]:
    each = place.put(f"a{ENDINGS[format]}", data)
    result = read_group_at_once(place.task(format, **changes), FileGroup(0, (each,)))
    return result, result.outcomes[0]


def refusal(outcome: FileOutcome) -> str:
    assert isinstance(outcome, Refused)
    return outcome.reason


@pytest.mark.parametrize("format", EVERY)
def test_every_format_gives_the_same_rows(place: FileSource, format: str) -> None:
    rows = [row(number) for number in range(300)]
    result, outcome = read(place, format, written(format, rows))
    assert isinstance(outcome, Covered), outcome
    assert (outcome.start, outcome.end, outcome.eof, outcome.rows, outcome.bad) == (0, 300, True, 300, 0)
    assert place.rows(result) == rows
    assert result.unknown_fields == {}


@pytest.mark.parametrize("format", EVERY)
def test_reading_goes_on_in_the_middle(place: FileSource, format: str) -> None:
    data = written(format, [row(number) for number in range(300)], row_group=70)
    each = place.put(f"a{ENDINGS[format]}", data)
    for start in (1, 69, 70, 71, 299, 300):
        result = read_group_at_once(place.task(format), FileGroup(0, (replace(each, start_record=start),)))
        assert [found["id"] for found in place.rows(result)] == list(range(start, 300))
        assert isinstance(result.outcomes[0], Covered)
        assert (result.outcomes[0].start, result.outcomes[0].end) == (start, 300)
    result = read_group_at_once(place.task(format), FileGroup(0, (replace(each, start_record=301),)))
    assert "301 of its" in refusal(result.outcomes[0])


@pytest.mark.slow
@pytest.mark.parametrize("format", EVERY)
def test_a_large_file_is_left_in_the_middle_and_continued(place: FileSource, format: str) -> None:
    rows = [{"id": number, "text": os.urandom(300).hex()} for number in range(20_000)]
    each = place.put(f"a{ENDINGS[format]}", written(format, rows, row_group=4000))
    small = WriterSettings(file_size=1024 * 1024, row_group_size=512 * 1024)
    settings = {"writer": small, "commit_batch_files": 2, "whole_files": False, "held_bytes": 1024 * 1024}
    task = place.task(format, IDS, **settings)
    found: list[int] = []
    rounds = 0
    while True:
        result = read_group_at_once(task, FileGroup(0, (replace(each, rounds=rounds),)))
        (outcome,) = result.outcomes
        assert isinstance(outcome, Covered), outcome
        found += [one["id"] for one in place.rows(result)]
        assert outcome.end == len(found)
        each, rounds = replace(each, start_record=outcome.end), rounds + 1
        if outcome.eof:
            break
    assert found == list(range(20_000))
    assert rounds > 1


@pytest.mark.parametrize("format", EVERY)
def test_a_bad_record_is_kept_with_its_number_and_read_again_when_the_schema_takes_it(
    place: FileSource, format: str
) -> None:
    rows = [{"id": number, "share": 0.5 if number == 3 else float(number), "text": "x"} for number in range(6)]
    fields = (IDS[0], FieldSpec("share", "int64"), IDS[1])
    result, outcome = read(place, format, written(format, rows), fields=fields)
    assert isinstance(outcome, Covered), outcome
    assert (outcome.end, outcome.rows, outcome.bad) == (6, 5, 1)
    assert [each["id"] for each in place.rows(result)] == [0, 1, 2, 4, 5]
    (letter,) = place.kept(result)
    assert (letter.line, letter.reason) == (4, "'share': 0.5 has a fraction, the column is int64")
    assert letter.text is not None
    assert "0.5" in letter.text
    still = reread(place.task(format, fields), [letter])
    assert [reason for _, reason in still.bad] == [letter.reason]
    wider = (IDS[0], FieldSpec("share", "float64"), IDS[1])
    assert place.rows(reread(place.task(format, wider), [letter])) == [{"id": 3, "share": 0.5, "text": "x"}]


@pytest.mark.parametrize("format", EVERY)
def test_a_bad_record_refuses_its_file_where_that_is_wanted(place: FileSource, format: str) -> None:
    rows = [{"id": number, "share": 2.0 if number != 3 else 0.5} for number in range(6)]
    fields = (IDS[0], FieldSpec("share", "int64"))
    result, outcome = read(place, format, written(format, rows), fields=fields, letters=None)
    noun = "line" if format == "ndjson" else "record"
    assert refusal(outcome) == f"{noun} 4: 'share': 0.5 has a fraction, the column is int64"
    assert place.rows(result) == []


@pytest.mark.parametrize("format", EVERY)
def test_a_file_that_was_rewritten_or_removed_is_not_read(place: FileSource, format: str) -> None:
    each = place.put(f"a{ENDINGS[format]}", written(format, [row(1)]))
    place.put(each.path, written(format, [row(number) for number in range(9)]))
    gone = FileSlice(f"gone{ENDINGS[format]}", 5)
    other = place.put(f"b{ENDINGS[format]}", written(format, [row(1)]))
    tagged = replace(other, etag="another")
    result = read_group_at_once(place.task(format), FileGroup(0, (each, gone, tagged)))
    assert result.outcomes == tuple(Changed(each.path) for each in (each, gone, tagged))
    assert place.rows(result) == []


@pytest.mark.slow
@pytest.mark.parametrize("format", EVERY)
def test_a_file_that_is_rewritten_while_it_is_read_is_noticed(place: FileSource, format: str) -> None:
    rows = [{"id": number, "text": os.urandom(100).hex()} for number in range(40_000)]
    each = place.put(f"a{ENDINGS[format]}", written(format, rows, row_group=10_000))
    store = open_store(Location(place.source.as_uri()))
    each = replace(each, etag=store.head(each.path).etag)
    fetch = Fetcher(store)
    reading = open_format(place.task(format, IDS), Partitioning(None, arrow_schema(IDS)))
    with contextlib.closing(fetch.open(each, seeks=reading.seeks)) as raw:
        decoded = reading.read(raw, each)
        assert next(decoded).lines
        with (place.source / each.path).open("r+b") as file:
            file.write(b"?")
        with pytest.raises(ObjectChanged):
            list(decoded)


@pytest.mark.parametrize("format", EVERY)
def test_partition_columns_come_from_the_path(place: FileSource, format: str) -> None:
    slices = tuple(
        place.put(f"country={country}/a{ENDINGS[format]}", written(format, [row(number)]))
        for number, country in enumerate(("de", "fr"))
    )
    result = read_group_at_once(place.task(format, partition_by=PartitionBy("country=%s", None)), FileGroup(0, slices))
    assert sorted(file.path.partition("/")[0] for file in result.data_files) == ["country=de", "country=fr"]
    taken = place.put(f"country=de/b{ENDINGS[format]}", written(format, [{"id": 1, "country": "de"}]))
    result = read_group_at_once(
        place.task(format, IDS, partition_by=PartitionBy("country=%s", None), letters=None), FileGroup(0, (taken,))
    )
    assert "partition column that comes from the path" in refusal(result.outcomes[0])


@pytest.mark.parametrize("format", EVERY)
def test_what_the_schema_does_not_have_is_counted(place: FileSource, format: str) -> None:
    rows = [{"id": number, "extra": number, "text": "x"} for number in range(7)]
    result, _ = read(place, format, written(format, rows), fields=IDS)
    assert result.unknown_fields == {"extra": 7}
    assert [each["text"] for each in place.rows(result)] == ["x"] * 7


@pytest.mark.parametrize("format", ["csv", "parquet", "avro"])
def test_columns_may_be_absent_or_in_another_order(place: FileSource, format: str) -> None:
    slices = tuple(
        place.put(f"{number}{ENDINGS[format]}", written(format, rows))
        for number, rows in enumerate(([{"text": "a", "id": 1}], [{"id": 2}], [{"text": "b"}], [{"other": 1}]))
    )
    result = read_group_at_once(place.task(format, IDS), FileGroup(0, slices))
    assert place.rows(result) == [{"id": 1, "text": "a"}, {"id": 2, "text": None}]
    assert "has no column 'id', which is required; it has text" in refusal(result.outcomes[2])
    assert "has no column 'id'" in refusal(result.outcomes[3])
    nullable = (FieldSpec("id", "int64"), IDS[1])
    result = read_group_at_once(place.task(format, nullable), FileGroup(0, slices[3:]))
    assert "has none of the declared columns; it has other" in refusal(result.outcomes[0])


@pytest.mark.parametrize("format", ["csv", "json"])
def test_text_formats_may_be_compressed(place: FileSource, format: str) -> None:
    each = place.put(f"a{ENDINGS[format]}.gz", written(format, [row(1), row(2)], gzip=True))
    result = read_group_at_once(place.task(format), FileGroup(0, (each,)))
    assert place.rows(result) == [row(1), row(2)]


@pytest.mark.parametrize("format", ["csv", "json"])
def test_a_file_without_a_byte_holds_no_record(place: FileSource, format: str) -> None:
    _, outcome = read(place, format, b"")
    assert isinstance(outcome, Covered), outcome
    assert (outcome.end, outcome.rows, outcome.eof) == (0, 0, True)


@pytest.mark.parametrize("format", ["parquet", "avro"])
@pytest.mark.parametrize("kept", [0.0, 0.3, 0.99])
def test_a_file_that_is_cut_is_refused(place: FileSource, format: str, kept: float) -> None:
    data = written(format, [row(number) for number in range(3000)], row_group=500)
    result, outcome = read(place, format, data[: int(len(data) * kept)])
    assert "not a whole" in refusal(outcome)
    assert place.rows(result) == []


@pytest.mark.parametrize("format", ["parquet", "avro"])
def test_a_file_that_is_something_else_is_refused(place: FileSource, format: str) -> None:
    _, outcome = read(place, format, b'{"id": 1}\n' * 100)
    assert "not a whole" in refusal(outcome)


@pytest.mark.parametrize("format", ["parquet", "avro"])
def test_a_file_whose_types_never_fit_is_refused_whole(place: FileSource, format: str) -> None:
    rows = [{"id": 1, "text": b"bytes"}]
    _, outcome = read(place, format, written(format, rows), fields=IDS)
    assert "column 'text' is binary, which is never string" in refusal(outcome)


@pytest.mark.parametrize("format", ["parquet", "avro"])
def test_a_file_without_rows_is_covered(place: FileSource, format: str) -> None:
    schema = pa.schema([("id", pa.int64())]) if format == "parquet" else None
    _, outcome = read(place, format, written(format, [], schema=schema), fields=IDS)
    assert isinstance(outcome, Covered), outcome
    assert (outcome.end, outcome.eof) == (0, True)


def test_a_number_without_end_survives_beside_a_bad_record(place: FileSource) -> None:
    rows = [{"id": 1, "share": float("nan")}, {"id": None, "share": 1.0}, {"id": 3, "share": float("inf")}]
    fields = (IDS[0], FieldSpec("share", "float64"))
    for format in ("parquet", "avro"):
        result, outcome = read(place, format, written(format, rows), fields=fields)
        assert isinstance(outcome, Covered), outcome
        assert [str(each["share"]) for each in place.rows(result)] == ["nan", "inf"]
        assert place.kept(result)[0].reason == "required field 'id' is null"


# --- Parquet

PARQUET_CASES: list[tuple[Any, pa.DataType, str, Any]] = [
    (7, pa.int8(), "int64", 7),
    (7, pa.uint64(), "int32", 7),
    (7, pa.int64(), "float64", 7.0),
    (7, pa.int64(), "decimal(10,2)", Decimal("7.00")),
    (7.0, pa.float32(), "int64", 7),
    (0.1, pa.float64(), "decimal(10,2)", Decimal("0.10")),
    (Decimal("1.50"), pa.decimal128(9, 2), "decimal(10,1)", Decimal("1.5")),
    ("1.50", pa.string(), "decimal(10,1)", Decimal("1.5")),
    ("x", pa.large_string(), "string", "x"),
    ("x", pa.dictionary(pa.int8(), pa.string()), "string", "x"),
    (b"x", pa.binary(1), "binary", b"x"),
    (datetime(2024, 1, 1, 5), pa.timestamp("ns"), "timestamp", datetime(2024, 1, 1, 5, tzinfo=UTC)),
    (datetime(2024, 1, 1, 5), pa.timestamp("ms", "Europe/Berlin"), "timestamp", datetime(2024, 1, 1, 5, tzinfo=UTC)),
    ("2024-01-01 05:00", pa.string(), "timestamp", datetime(2024, 1, 1, 5, tzinfo=UTC)),
    (date(2024, 1, 1), pa.date64(), "date", date(2024, 1, 1)),
    (date(2024, 1, 1), pa.date32(), "timestamp", datetime(2024, 1, 1, tzinfo=UTC)),
    ('{"a": [1]}', pa.string(), "json", '{"a":[1]}'),
    ({"a": [1.5]}, pa.struct([("a", pa.list_(pa.float64()))]), "json", '{"a":[1.5]}'),
    (None, pa.null(), "int64", None),
]


@pytest.mark.parametrize(("value", "type", "declared", "expected"), PARQUET_CASES)
def test_parquet_types_are_cast_exactly(
    place: FileSource, value: Any, type: pa.DataType, declared: str, expected: Any
) -> None:
    if pa.types.is_timestamp(type) and type.tz:
        value = value.replace(tzinfo=UTC)
    schema = pa.schema([("v", type)])
    data = written("parquet", [{"v": value}, {"v": None}], schema=schema)
    result, outcome = read(place, "parquet", data, fields=(FieldSpec("v", declared),))
    assert isinstance(outcome, Covered), outcome
    assert [each["v"] for each in place.rows(result)] == [expected, None]


@pytest.mark.parametrize(
    ("value", "type", "declared", "reason"),
    [
        (2**40, pa.int64(), "int32", "'v': 1099511627776 is too large for int32"),
        (1e300, pa.float64(), "float32", "'v': 1e+300 is too large for float32"),
        (1.139, pa.float64(), "decimal(10,2)", "'v': 1.139 has more than 2 digits behind the point"),
        (10**9, pa.int64(), "decimal(10,2)", "'v': 1000000000 is too large for decimal(10,2)"),
        (1, pa.timestamp("ns"), "timestamp", '"1970-01-01T00:00:00.000000001" is not an ISO 8601 moment'),
        ("soon", pa.string(), "timestamp", "'v': \"soon\" is not an ISO 8601 moment"),
        ("{", pa.string(), "json", "not JSON"),
    ],
)
def test_parquet_values_that_would_be_bent_are_bad_records(
    place: FileSource, value: Any, type: pa.DataType, declared: str, reason: str
) -> None:
    data = written("parquet", [{"v": None}, {"v": value}], schema=pa.schema([("v", type)]))
    result, outcome = read(place, "parquet", data, fields=(FieldSpec("v", declared),))
    assert isinstance(outcome, Covered), outcome
    assert (outcome.rows, outcome.bad) == (1, 1)
    (letter,) = place.kept(result)
    assert letter.line == 2
    assert reason in (letter.reason or "")
    assert set(json.loads(letter.text or "")) == {"v"}


def test_nested_parquet_is_fitted_at_any_depth(place: FileSource) -> None:
    user = FieldSpec("user", "struct", fields=(FieldSpec("id", "int64", nullable=False), FieldSpec("name", "string")))
    tags = FieldSpec("tags", "list", items=FieldSpec("element", "int64"))
    marks = FieldSpec("marks", "map", keys=FieldSpec("key", "string"), values=FieldSpec("value", "int64"))
    kind = pa.schema(
        [
            ("user", pa.struct([("extra", pa.int64()), ("id", pa.int32())])),
            ("tags", pa.list_(pa.float64())),
            ("marks", pa.map_(pa.string(), pa.int32())),
        ]
    )
    rows = [
        {"user": {"id": 1, "extra": 2}, "tags": [1.0, None], "marks": [("a", 1)]},
        {"user": {"id": None, "extra": 2}, "tags": None, "marks": None},
        {"user": None, "tags": [0.5], "marks": None},
        {"user": None, "tags": [], "marks": [("a", 1), ("a", 2)]},
        {"user": None, "tags": [], "marks": []},
    ]
    data = written("parquet", rows, schema=kind)
    result, outcome = read(place, "parquet", data, fields=(user, tags, marks))
    assert isinstance(outcome, Covered), outcome
    assert place.rows(result) == [
        {"user": {"id": 1, "name": None}, "tags": [1, None], "marks": [("a", 1)]},
        {"user": None, "tags": [], "marks": []},
    ]
    assert [letter.line for letter in place.kept(result)] == [2, 3, 4]
    assert result.unknown_fields == {"user.extra": 5}


# --- Avro


def avro(fields: list[Any], records: list[dict[str, Any]], codec: str = "null") -> bytes:
    out = io.BytesIO()
    schema = fastavro.parse_schema({"type": "record", "name": "row", "fields": fields})
    fastavro.writer(out, schema, records, codec=codec)
    return out.getvalue()


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "bzip2"])
def test_avro_codecs(place: FileSource, codec: str) -> None:
    result, _ = read(place, "avro", written("avro", [row(1), row(2)], codec=codec))
    assert place.rows(result) == [row(1), row(2)]


def test_avro_unions_logical_types_and_names(place: FileSource) -> None:
    point = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "int"}]}
    fields = [
        {"name": "id", "type": ["int", "long"]},
        {"name": "any", "type": ["null", "string", "long"]},
        {"name": "uid", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "at", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
        {"name": "first", "type": point},
        {"name": "second", "type": ["null", "Point"]},
        {"name": "more", "type": {"type": "map", "values": "Kind"}},
    ]
    common = {
        "uid": "12345678-1234-5678-1234-567812345678",
        "kind": "A",
        "at": datetime(2024, 1, 1, 5),
        "first": {"x": 1},
        "second": {"x": 2},
        "more": {"k": "B"},
    }
    records = [{"id": 1, "any": "x", **common}, {"id": 2, "any": 5, **common}, {"id": 3, "any": None, **common}]
    place_of = FieldSpec("first", "struct", fields=(FieldSpec("x", "int64"),))
    declared = (
        FieldSpec("id", "int64"),
        FieldSpec("any", "string"),
        FieldSpec("uid", "string"),
        FieldSpec("kind", "string"),
        FieldSpec("at", "timestamp"),
        place_of,
        replace(place_of, name="second"),
        FieldSpec("more", "map", keys=FieldSpec("key", "string"), values=FieldSpec("value", "string")),
    )
    expected = {**common, "at": datetime(2024, 1, 1, 5, tzinfo=UTC), "more": [("k", "B")]}
    data = avro(fields, records)
    result, _ = read(place, "avro", data, fields=declared)
    assert place.rows(result) == [{"id": 1, "any": "x", **expected}, {"id": 3, "any": None, **expected}]
    assert place.kept(result)[0].reason == "'any': a number (5) does not fit a string column"
    result, _ = read(place, "avro", data, fields=declared, coerce_conflicts_to_utf8=True)
    assert [each["any"] for each in place.rows(result)] == ["x", "5", None]
    result, _ = read(place, "avro", data, fields=(FieldSpec("any", "json"),))
    assert [each["any"] for each in place.rows(result)] == ['"x"', "5", None]


def test_an_avro_file_that_is_not_of_records_is_refused(place: FileSource) -> None:
    out = io.BytesIO()
    fastavro.writer(out, "long", [1, 2])
    _, outcome = read(place, "avro", out.getvalue(), fields=IDS)
    assert "its schema is not a record" in refusal(outcome)


# --- CSV


def csv_rows(
    place: FileSource, text: bytes, fields: tuple[FieldSpec, ...] = IDS, **options: Any
) -> list[dict[str, Any]]:
    result, outcome = read(place, "csv", text, fields=fields, csv=CsvOptions(**options))
    assert isinstance(outcome, Covered), outcome
    return place.rows(result)


def test_csv_files_without_a_header(place: FileSource) -> None:
    assert csv_rows(place, b"1,a\n2,b", header=False) == [{"id": 1, "text": "a"}, {"id": 2, "text": "b"}]
    named = csv_rows(place, b"a,x,1\n", header=False, columns=("text", "other", "id"))
    assert named == [{"id": 1, "text": "a"}]


def test_csv_header_only_and_lines_before_it(place: FileSource) -> None:
    assert csv_rows(place, b"id,text\n") == []
    assert csv_rows(place, b'\xef\xbb\xbfReport "x\n\n"id","text"\r\n1,a\r\n', skip_rows=1) == [{"id": 1, "text": "a"}]


def test_csv_nulls_and_empty_texts(place: FileSource) -> None:
    rows = csv_rows(place, b'id,text\n1,\n2,""\n3,NA\n4,"NA"\n', null_values=("", "NA"))
    assert [each["text"] for each in rows] == [None, "", None, "NA"]


def test_csv_dialects(place: FileSource) -> None:
    expected = [{"id": 1, "text": "a;'b"}]
    assert csv_rows(place, b"id;text\n1;'a;\\'b'\n", delimiter=";", quote="'", escape="\\") == expected
    assert csv_rows(place, b'id|text\n1|"a\n', delimiter="|", quote=None) == [{"id": 1, "text": '"a'}]
    each = place.put("a.tsv", b"id\ttext\n1\ta,b\n")
    assert place.rows(read_group_at_once(place.task("csv", IDS), FileGroup(0, (each,)))) == [{"id": 1, "text": "a,b"}]


def test_csv_blank_lines_count_as_records_without_a_row(place: FileSource) -> None:
    result, outcome = read(place, "csv", b"id,text\n1,a\n\r\n\n2,b\nx,c\n", fields=IDS, metadata_columns=())
    assert isinstance(outcome, Covered), outcome
    assert (outcome.end, outcome.rows, outcome.bad) == (5, 2, 1)
    assert place.kept(result)[0].line == 5


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"1,a,b", "3 cells instead of 2"),
        (b"1", "1 cells instead of 2"),
        (b'1,"a"b', "cell 2 goes on behind its closing quote"),
        (b"1,\xff", "'text': not UTF-8 at byte 1"),
        (b"0x1F,a", "'id': \"0x1F\" is not a number, the column is int64"),
        (b" 1,a", "'id': \" 1\" is not a number, the column is int64"),
        (b"1.5,a", "'id': 1.5 has a fraction, the column is int64"),
        (b"9223372036854775808,a", "is too large for int64"),
        (b",a", "required field 'id' is null"),
        (b"1,a\rb", "a carriage return outside quotes"),
    ],
)
@pytest.mark.parametrize("neighbours", [0, 2, 600])
def test_a_bad_csv_record_is_kept_with_its_header(place: FileSource, line: bytes, reason: str, neighbours: int) -> None:
    good = b"".join(b"%d,x\n" % number for number in range(neighbours))
    result, outcome = read(place, "csv", b"id,text\n" + good + line + b"\n" + good, fields=IDS)
    assert isinstance(outcome, Covered), outcome
    assert (outcome.rows, outcome.bad) == (2 * neighbours, 1)
    (letter,) = place.kept(result)
    assert letter.line == neighbours + 1
    assert reason in (letter.reason or "")
    assert letter.content == b"id,text\n" + line
    assert [told for _, told in reread(place.task("csv", IDS), [letter]).bad] == [letter.reason]


MEANS_NULL = "; if it means null, add 'n/a' to csv.null_values"


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("int64", "'v': \"n/a\" is not a number, the column is int64"),
        ("decimal(10,2)", "'v': \"n/a\" is not a number, the column is decimal(10,2)"),
        ("boolean", "'v': \"n/a\" is neither true nor false"),
        ("timestamp", "'v': \"n/a\" is not a timestamp"),
        ("date", "'v': \"n/a\" is not a date"),
    ],
)
def test_a_word_for_null_names_the_key_that_makes_it_null(place: FileSource, kind: str, reason: str) -> None:
    fields = (FieldSpec("v", kind),)
    result, _ = read(place, "csv", b"v\nn/a\n", fields=fields)
    (letter,) = place.kept(result)
    assert letter.reason == reason + MEANS_NULL
    (quoted,) = place.kept(read(place, "csv", b'v\n"n/a"\n', fields=fields)[0])
    assert "null_values" not in (quoted.reason or "")


@pytest.mark.parametrize("end", [b"", b"\n", b"\n3,c\n"])
def test_a_csv_file_that_ends_inside_quotes_keeps_that_record_as_a_letter(place: FileSource, end: bytes) -> None:
    result, outcome = read(place, "csv", b'id,text\n1,"a"\n2,"b' + end, fields=IDS)
    assert isinstance(outcome, Covered), outcome
    assert place.rows(result) == [{"id": 1, "text": "a"}]
    (letter,) = place.kept(result)
    assert "cell 2 has a quote that is not closed" in letter.reason


def test_a_csv_letter_is_read_again_when_the_dialect_is_right(place: FileSource) -> None:
    result, _ = read(place, "csv", b"id;text\n1;a\n", fields=(FieldSpec("id", "int64"), IDS[1]))
    assert "has none of the declared columns" in refusal(result.outcomes[0])
    result, _ = read(place, "csv", b"id,text\nnone,a\n", fields=IDS)
    nullable = (FieldSpec("id", "int64"), IDS[1])
    again = reread(place.task("csv", nullable, csv=CsvOptions(null_values=("none",))), place.kept(result))
    assert place.rows(again) == [{"id": None, "text": "a"}]


@pytest.mark.parametrize(
    ("cell", "type", "expected"),
    [
        (b"12.0", "int64", 12),
        (b"+5", "int32", 5),
        (b"007", "int64", 7),
        (b"1e3", "int64", 1000),
        (b".5", "float64", 0.5),
        (b"-1.25e-2", "float32", -0.0125),
        (b"1.50", "decimal(5,1)", Decimal("1.5")),
        (b"TRUE", "boolean", True),
        (b"2024-01-28 14:00:00", "timestamp", datetime(2024, 1, 28, 14, tzinfo=UTC)),
        (b"2024-01-28T14:00:00+02:00", "timestamp", datetime(2024, 1, 28, 12, tzinfo=UTC)),
        (b"2024-01-28", "date", date(2024, 1, 28)),
        (b"YWI=", "binary", b"ab"),
        (b'"{""a"": 1}"', "json", '{"a":1}'),
    ],
)
def test_csv_cells(place: FileSource, cell: bytes, type: str, expected: Any) -> None:
    (found,) = csv_rows(place, b"v\n" + cell + b"\n", (FieldSpec("v", type),))
    assert found["v"] == pytest.approx(expected) if type == "float32" else found["v"] == expected


@pytest.mark.parametrize(
    ("cell", "type"),
    [
        (b"yes", "boolean"),
        (b"1", "boolean"),
        (b"1.55", "decimal(5,1)"),
        (b"1e400", "float64"),
        (b"nan", "float64"),
        (b"1706450400", "timestamp"),
        (b"28.01.2024", "date"),
        (b"{", "json"),
        (b"1_000", "decimal(5,1)"),
        (b"1e0x1", "decimal(5,1)"),
        (b"0X1F", "int32"),
        (b"-Infinity", "float32"),
        (str(2**128 + 5).encode(), "int64"),
        (str(2**128 + 5).encode(), "decimal(10,2)"),
        (b"1298074214633706909132624082305024", "int64"),
        (b"9" * 39, "decimal(38,0)"),
        (b"3452823669209384634633746074317682114", "decimal(38,2)"),
        (b"0." + b"0" * 40 + b"1", "decimal(10,2)"),
        (b"1e-41", "decimal(10,2)"),
        (b"1e-77", "int64"),
        (b"1e-1000000000", "decimal(10,2)"),
        (b"1e-1000000000", "int32"),
    ],
)
def test_csv_cells_that_say_something_else(place: FileSource, cell: bytes, type: str) -> None:
    result, outcome = read(place, "csv", b"v\n" + cell + b"\n", fields=(FieldSpec("v", type),))
    assert isinstance(outcome, Covered), outcome
    assert (outcome.rows, outcome.bad) == (0, 1)
    assert len(place.kept(result)) == 1


@pytest.mark.parametrize(
    ("text", "type", "expected"),
    [
        (b"9" * 38, "decimal(38,0)", Decimal("9" * 38)),
        (b"-" + b"9" * 38, "decimal(38,0)", Decimal("-" + "9" * 38)),
        (b"9" * 20 + b"." + b"9" * 17, "decimal(38,18)", Decimal("9" * 20 + "." + "9" * 17)),
        (b"9223372036854775807.000", "int64", 2**63 - 1),
        (b"1e2", "int64", 100),
    ],
)
def test_csv_numbers_of_many_digits_are_read_exactly(place: FileSource, text: bytes, type: str, expected: Any) -> None:
    (found,) = csv_rows(place, b"v\n" + text + b"\n", (FieldSpec("v", type),))
    assert found["v"] == expected


def test_a_carriage_return_in_the_middle_of_a_csv_record_is_a_bad_record(place: FileSource) -> None:
    for text in (b"id,text\n\r1,a\n", b'id,text\n1,""\r\r\n'):
        _, outcome = read(place, "csv", text, fields=IDS)
        assert isinstance(outcome, Covered), outcome
        assert (outcome.rows, outcome.bad) == (0, 1)


def test_a_csv_block_may_end_between_carriage_return_and_line_end() -> None:
    dialect = CsvDialect(",", '"', None)
    whole = b'1,"a"\r\n2,"b"\r\n'
    for length in range(len(whole)):
        ends = dialect.neat_ends(whole[:length])
        assert ends is not None, whole[:length]
        assert list(ends) == [end for end in (7, 14) if end <= length]
    assert dialect.neat_ends(b"1,a\r2,b\n") is None


def test_avro_symbols_that_many_fields_repeat_are_not_copied_for_each() -> None:
    """The native reader takes a copy of an enum's symbols for each field; too many go to the other reader."""
    symbols = [f"S{number}" for number in range(1_000)]
    enum = {"type": "enum", "name": "E", "symbols": symbols}
    few = [{"name": f"f{number}", "type": "E" if number else enum} for number in range(50)]
    many = [{"name": f"f{number}", "type": "E" if number else enum} for number in range(150)]
    plans = [NativePlan(), NativePlan()]
    assert plans[0].of({"type": "record", "name": "R", "fields": few})[0] == "record"
    with pytest.raises(UnknownType):
        plans[1].of({"type": "record", "name": "R", "fields": many})


def test_a_decimal_that_a_larger_scale_has_no_room_for_is_no_other_number(place: FileSource) -> None:
    data = written("parquet", [{"v": Decimal("1298074214633706909132624082305024")}])
    _, outcome = read(place, "parquet", data, fields=(FieldSpec("v", "decimal(38,18)"),))
    assert isinstance(outcome, Covered), outcome
    assert (outcome.rows, outcome.bad) == (0, 1)


@pytest.mark.parametrize(
    "size", ["1180591620717411303424", '"4"', "-1", "0"], ids=["far too large", "text", "negative", "nothing"]
)
def test_an_avro_schema_with_a_size_that_is_none_refuses_its_file_alone(place: FileSource, size: str) -> None:
    fixed = f'{{"type": "fixed", "name": "f", "size": {size}}}'
    schema = f'{{"type": "record", "name": "r", "fields": [{{"name": "v", "type": {fixed}}}]}}'.encode()
    length = len(schema) << 1
    header = b"Obj\x01\x02\x16avro.schema" + bytes([length & 0x7F | 0x80, length >> 7]) + schema + b"\x00"
    content = header + b"s" * 16 + b"\x02\x08" + b"abcd" + b"s" * 16
    _, outcome = read(place, "avro", content, fields=(FieldSpec("v", "binary"),))
    assert isinstance(outcome, Covered | Refused)


def test_csv_cells_hold_json_for_nested_columns(place: FileSource) -> None:
    tags = FieldSpec("tags", "list", items=FieldSpec("element", "int64"))
    rows = csv_rows(place, b'id,tags\n1,"[1, 2]"\n2,\n', (IDS[0], tags))
    assert rows == [{"id": 1, "tags": [1, 2]}, {"id": 2, "tags": None}]


def test_lenient_numbers_are_bent(place: FileSource) -> None:
    for format in ("csv", "parquet", "avro"):
        data = written(format, [{"v": 1.7}])
        result, _ = read(place, format, data, fields=(FieldSpec("v", "int64"),), numbers=Numbers.LENIENT)
        assert place.rows(result) == [{"v": 1}]


def test_a_csv_header_with_a_column_twice_is_refused(place: FileSource) -> None:
    _, outcome = read(place, "csv", b"id,text,id\n1,a,2\n", fields=IDS)
    assert "has column 'id' twice" in refusal(outcome)


# --- JSON arrays


def test_a_bad_element_is_kept_and_the_others_are_read(place: FileSource) -> None:
    text = b'[\n  {"id": 1, "text": "a"},\n  {"id": },\n  7,\n  {"id": 2,\n   "text": "b"},\n]'
    result, outcome = read(place, "json", text, fields=IDS)
    assert isinstance(outcome, Covered), outcome
    assert (outcome.end, outcome.rows, outcome.bad) == (5, 2, 3)
    assert place.rows(result) == [{"id": 1, "text": "a"}, {"id": 2, "text": "b"}]
    assert [(letter.line, letter.text) for letter in place.kept(result)] == [(2, '{"id": }'), (3, "7"), (5, ",")]


@pytest.mark.parametrize("text", [b'[{"id": 1}', b'[{"id": 1}] []', b"nothing", b'{"id": 1}\n{"id": 2}\n'])
def test_what_is_no_array_is_refused(place: FileSource, text: bytes) -> None:
    result, outcome = read(place, "json", text, fields=IDS)
    assert refusal(outcome)
    assert place.rows(result) == []


def test_small_arrays_are_decoded_together_and_refused_apart(place: FileSource) -> None:
    slices = [place.put(f"{number}.json", written("json", [{"id": number}], indent=2)) for number in range(5)]
    slices.append(place.put("5.json", b'[{"id": 5}'))
    result = read_group_at_once(place.task("json", IDS), FileGroup(0, tuple(slices)))
    assert [each["id"] for each in place.rows(result)] == [0, 1, 2, 3, 4]
    assert [type(each) for each in result.outcomes] == [Covered] * 5 + [Refused]
