"""Units of a source: from its list, from nothing, and from secondary inputs of every format."""

from __future__ import annotations

import gzip
import json
import pickle
import string
import struct
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from support.avro_files import avro_file, record_of
from support.errors import raises
from tidegate.core.units.state import Units
from tidegate.errors import SourceError
from tidegate.sources.units.inputs import read_units
from tidegate.specs.columns import CsvOptions, FunctionRead
from tidegate.specs.locations import Location
from tidegate.specs.units import InputFormat, SecondaryInput, UnitSource, UnitWatermark
from tidegate.storage.stores import open_store

ROWS: list[dict[str, object]] = [
    {"id": 1, "status": "OK", "region": "eu", "token": "canary-1"},
    {"id": 2, "status": "Success", "region": "us", "token": "canary-2"},
    {"id": 3, "status": "not OK", "region": "eu", "token": "canary-3"},
    {"id": 4, "status": None, "region": "eu", "token": "canary-4"},
    {"id": None, "status": "OK", "region": "eu", "token": "canary-5"},
    {"id": 2, "status": "OK", "region": "us", "token": "canary-2"},
]
FILTERS = {"status": "(OK|Success)"}


def write(format: InputFormat, folder: Path, rows: list[dict[str, object]]) -> None:
    table = pa.Table.from_pylist(rows)
    if format is InputFormat.DELTA:
        write_deltalake(str(folder), table, mode="append")
        return
    folder.mkdir(parents=True, exist_ok=True)
    match format:
        case InputFormat.PARQUET:
            pq.write_table(table, folder / "a.parquet")
        case InputFormat.CSV:
            pacsv.write_csv(table, folder / "a.csv")
        case InputFormat.JSON:
            (folder / "a.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
        case InputFormat.AVRO:
            fields = [{"name": name, "type": ["null", "long" if name == "id" else "string"]} for name in rows[0]]
            with open(folder / "a.avro", "wb") as file:
                fastavro.writer(file, {"type": "record", "name": "row", "fields": fields}, rows)


def units_of(folder: Path, format: InputFormat = InputFormat.JSON, **settings: object) -> Units:
    made = SecondaryInput(("id",), Location(folder.as_uri()), format)
    return read(replace(made, **settings))  # type: ignore[arg-type]


def read(*inputs: SecondaryInput, name: str = "surveyId") -> Units:
    return read_units(UnitSource("answers", FunctionRead("x"), unit=UnitWatermark(name), inputs=inputs))


def test_a_list_gives_its_values_in_order_as_variables() -> None:
    found = read_units(UnitSource("s", FunctionRead("x"), unit=UnitWatermark("id", ("b", "a"))))
    assert found.values == ("b", "a")
    assert found.variables == {"b": {"id": "b"}, "a": {"id": "a"}}
    assert found.version is None


def test_without_a_unit_watermark_there_is_one_unit_without_a_name() -> None:
    assert read_units(UnitSource("s", FunctionRead("x"))) == Units(("",))


@pytest.mark.parametrize("format", list(InputFormat))
def test_one_unit_per_distinct_row_that_passes_every_filter(format: InputFormat, tmp_path: Path) -> None:
    write(format, tmp_path / "in", ROWS)
    found = units_of(tmp_path / "in", format, filters=FILTERS)
    assert found.values == ("1", "2")
    assert found.variables == {unit: {"surveyId": unit, "id": unit} for unit in ("1", "2")}
    assert (found.repeated, found.filtered) == (1, 3)
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize("format", list(InputFormat))
def test_several_fields_make_one_value_and_a_variable_each(format: InputFormat, tmp_path: Path) -> None:
    write(format, tmp_path / "in", ROWS)
    found = units_of(tmp_path / "in", format, fields=("region", "id"), filters=FILTERS)
    assert found.values == ('{"id":"1","region":"eu"}', '{"id":"2","region":"us"}')
    assert found.variables[found.values[1]] == {"id": "2", "region": "us"}


@pytest.mark.parametrize("format", list(InputFormat))
def test_a_missing_field_is_an_error_with_the_nearest_name(format: InputFormat, tmp_path: Path) -> None:
    write(format, tmp_path / "in", ROWS)
    with raises(SourceError, "'regoin'", "'region'"):
        units_of(tmp_path / "in", format, fields=("regoin",))
    with raises(SourceError, "'state'", "'status'"):
        units_of(tmp_path / "in", format, filters={"state": "x"})


@pytest.mark.parametrize("format", list(InputFormat))
def test_a_missing_input_is_an_error_and_never_zero_units(format: InputFormat, tmp_path: Path) -> None:
    with raises(SourceError, "gone"):
        units_of(tmp_path / "gone", format)
    (tmp_path / "gone").mkdir()
    with raises(SourceError, "gone"):
        units_of(tmp_path / "gone", format)


@pytest.mark.parametrize("format", [each for each in InputFormat if each is not InputFormat.DELTA])
def test_what_is_no_file_of_the_format_is_an_error_that_names_it(format: InputFormat, tmp_path: Path) -> None:
    write(format, tmp_path / "in", ROWS)
    (tmp_path / "in" / "b.bin").write_bytes(b"\xff\xfe\x00 nothing of that kind")
    with raises(SourceError, "in/b.bin"):
        units_of(tmp_path / "in", format)


@pytest.mark.parametrize("format", [InputFormat.DELTA, InputFormat.PARQUET, InputFormat.CSV, InputFormat.AVRO])
def test_zero_rows_are_zero_units(format: InputFormat, tmp_path: Path) -> None:
    write(format, tmp_path / "in", ROWS)
    assert units_of(tmp_path / "in", format, filters={"status": "nothing"}).values == ()


def test_an_empty_json_file_has_zero_units(tmp_path: Path) -> None:
    for content in ("", "\n", "[]", " [ ] "):
        (tmp_path / "a.json").write_text(content)
        assert units_of(tmp_path / "a.json").values == ()


def test_the_name_of_the_variable_can_be_given(tmp_path: Path) -> None:
    write(InputFormat.JSON, tmp_path / "in", ROWS[:1])
    assert units_of(tmp_path / "in", variable="survey").variables == {"1": {"survey": "1", "id": "1"}}


def test_authentication_fields_are_secrets_and_no_part_of_the_value(tmp_path: Path) -> None:
    write(InputFormat.JSON, tmp_path / "in", [*ROWS[:2], {"id": 9, "status": "OK", "token": None}])
    found = units_of(tmp_path / "in", auth_fields=("token",))
    assert found.values == ("1", "2", "9")
    assert {unit: {name: each.value for name, each in kept.items()} for unit, kept in found.secrets.items()} == {
        "1": {"token": "canary-1"},
        "2": {"token": "canary-2"},
        "9": {},
    }
    assert "canary" not in repr(found)
    assert "token" not in found.variables["1"]


def test_one_unit_with_two_secrets_is_refused_without_showing_them(tmp_path: Path) -> None:
    write(InputFormat.JSON, tmp_path / "in", [ROWS[0], {**ROWS[0], "token": "canary-other"}])
    with raises(SourceError, "unit '1'", "token", "filters") as caught:
        units_of(tmp_path / "in", auth_fields=("token",))
    assert "canary" not in str(caught.value)


def test_an_input_for_all_units_gives_them_secrets(tmp_path: Path) -> None:
    write(InputFormat.JSON, tmp_path / "ids", ROWS[:2])
    write(InputFormat.JSON, tmp_path / "login", ROWS[2:3])
    login = SecondaryInput(("token",), Location((tmp_path / "login").as_uri()), InputFormat.JSON, for_all=True)
    ids = SecondaryInput(("id",), Location((tmp_path / "ids").as_uri()), InputFormat.JSON)
    found = read(ids, login)
    assert {name: each.value for name, each in found.shared.items()} == {"token": "canary-3"}
    assert found.values == ("1", "2")
    assert "canary" not in repr(found)
    assert read_units(UnitSource("s", FunctionRead("x"), inputs=(login,))).values == ("",)
    with raises(SourceError, "2 rows"):
        read(ids, replace(login, location=ids.location))


def test_several_inputs_make_units_together_from_the_same_fields(tmp_path: Path) -> None:
    write(InputFormat.JSON, tmp_path / "a", ROWS[:2])
    write(InputFormat.PARQUET, tmp_path / "b", ROWS[1:3])
    first = SecondaryInput(("id",), Location((tmp_path / "a").as_uri()), InputFormat.JSON)
    second = SecondaryInput(("id",), Location((tmp_path / "b").as_uri()), InputFormat.PARQUET)
    found = read(first, second)
    assert (found.values, found.repeated) == (("1", "2", "3"), 1)
    with raises(SourceError, "fields", "auth_fields"):
        read(first, replace(second, fields=("region",)))


def test_a_delta_input_is_read_at_one_version(tmp_path: Path) -> None:
    write(InputFormat.DELTA, tmp_path / "in", ROWS[:1])
    assert units_of(tmp_path / "in", InputFormat.DELTA).version == "version 0"
    write(InputFormat.DELTA, tmp_path / "in", ROWS[1:2])
    found = units_of(tmp_path / "in", InputFormat.DELTA)
    assert (found.version, found.values) == ("version 1", ("1", "2"))
    DeltaTable(str(tmp_path / "in")).delete("id = 1")
    assert units_of(tmp_path / "in", InputFormat.DELTA).values == ("2",)


def test_a_table_of_a_pipeline_that_has_not_run_names_the_pipeline(tmp_path: Path) -> None:
    with raises(SourceError, "'survey_list'"):
        units_of(tmp_path / "in", InputFormat.DELTA, pipeline="survey_list")


def test_the_version_of_files_changes_with_any_of_them(tmp_path: Path) -> None:
    write(InputFormat.JSON, tmp_path / "in", ROWS[:1])
    before = units_of(tmp_path / "in").version
    assert units_of(tmp_path / "in").version == before
    (tmp_path / "in" / "b.json").write_text('{"id": 7}\n')
    (tmp_path / "in" / "_SUCCESS").write_text("")
    found = units_of(tmp_path / "in")
    assert found.values == ("1", "7")
    assert found.version != before


def test_an_input_may_be_a_single_file_and_lie_in_object_storage() -> None:
    location = Location("memory://inputs/ids")
    open_store(location).put("a b.json", b'[{"id": "x"}, {"id": "y"}]')
    for uri in (location.uri, f"{location.uri}/a%20b.json"):
        made = SecondaryInput(("id",), Location(uri), InputFormat.JSON)
        assert read(made).values == ("x", "y")


def test_compressed_files_are_read_and_broken_ones_refused(tmp_path: Path) -> None:
    whole = gzip.compress(b"id\n" + b"".join(b"%d\n" % number for number in range(5000)))
    (tmp_path / "a.csv.gz").write_bytes(whole)
    assert len(units_of(tmp_path / "a.csv.gz", InputFormat.CSV).values) == 5000
    (tmp_path / "a.csv.gz").write_bytes(whole[:-20])
    with raises(SourceError, "a.csv.gz"):
        units_of(tmp_path / "a.csv.gz", InputFormat.CSV)


def test_csv_is_read_as_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text('made by\tx\n007\t"a\tb"\nNULL\tz\n"NULL"\tq\n')
    how = CsvOptions(header=False, columns=("id", "name"), null_values=("NULL",), skip_rows=1)
    found = units_of(tmp_path / "a.tsv", InputFormat.CSV, csv=how)
    assert (found.values, found.filtered) == (("007", "NULL"), 1)


PLAIN: list[tuple[pa.Array, tuple[str, ...]]] = [
    (pa.array([5, 10], pa.int16()), ("10", "5")),
    (pa.array([2**63], pa.uint64()), ("9223372036854775808",)),
    (pa.array([True, False]), ("false", "true")),
    (pa.array([1.5, 5.0]), ("1.5", "5.0")),
    (pa.array([Decimal("0.0000000010")], pa.decimal128(20, 10)), ("0.0000000010",)),
    (pa.array([date(2020, 1, 2)]), ("2020-01-02",)),
    (pa.array([datetime(2020, 1, 2, 3, 4)], pa.timestamp("ns")), ("2020-01-02T03:04:00",)),
    (pa.array([datetime(2020, 1, 2, 3, 4, tzinfo=UTC)], pa.timestamp("us", "Asia/Tokyo")), ("2020-01-02T03:04:00Z",)),
    (pa.array(["a", "b", "a"]).dictionary_encode(), ("a", "b")),
    (pa.array(["ä"], pa.large_string()), ("ä",)),
    (pa.array(["", None], pa.string()), ()),
    (pa.nulls(2), ()),
]


@pytest.mark.parametrize(("column", "values"), PLAIN, ids=lambda each: str(getattr(each, "type", "")))
def test_values_have_a_plain_and_stable_text(column: pa.Array, values: tuple[str, ...], tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": column}), tmp_path / "a.parquet")
    assert units_of(tmp_path / "a.parquet", InputFormat.PARQUET).values == values


@pytest.mark.parametrize(("value", "told"), [({"a": 1}, "an object"), ([1], "a list")])
def test_objects_and_lists_are_no_units(value: object, told: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"id": value}))
    pq.write_table(pa.table({"id": [value]}), tmp_path / "a.parquet")
    for format in (InputFormat.JSON, InputFormat.PARQUET):
        with raises(SourceError, f"a.{format}", "field 'id'", told):
            units_of(tmp_path / f"a.{format}", format)


def test_bytes_are_no_units(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [b"x"]}), tmp_path / "a.parquet")
    with raises(SourceError, "'id'", "bytes"):
        units_of(tmp_path / "a.parquet", InputFormat.PARQUET)


def test_a_filter_that_is_no_regular_expression_is_an_error(tmp_path: Path) -> None:
    write(InputFormat.JSON, tmp_path / "in", ROWS)
    with raises(SourceError, "'('"):
        units_of(tmp_path / "in", filters={"status": "("})


WRONG: list[tuple[str, str]] = [
    ('{"id": 1}\n{"id": 2\n', "line 2 … JSON"),
    ('{"id": 1} {"id": 2}\n', "line 1 … follows … object"),
    ("5\n", "line 1 … object"),
    ('[{"id": 1} {"id": 2}]', "element 1 … follows … object"),
    ('[{"id": 1}, 5]', "element 2 … object"),
    ('[{"id": 1}, {"id": }]', "element 2 … JSON"),
    ('[{"id": 1}, ]', "element 2 … JSON"),
    ('[{"id": 1}, ', "array … truncated"),
    ('[{"id": 1}', "array … truncated"),
    ('[{"id": 1}] x', "follows … array"),
]


@pytest.mark.parametrize(("content", "told"), WRONG)
def test_json_that_is_not_whole_is_refused_at_its_place(content: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(content)
    with raises(SourceError, told):
        units_of(tmp_path / "a.json")


def as_lines(rows: list[dict[str, object]]) -> str:
    return "\n".join(map(json.dumps, rows))


@pytest.mark.parametrize("written", [json.dumps, lambda rows: json.dumps(rows, indent=2), as_lines])
def test_records_over_many_blocks_are_each_read_once(
    written: Callable[[list[dict[str, object]]], str], tmp_path: Path
) -> None:
    rows: list[dict[str, object]] = [{"id": number, "text": "ü" * 400} for number in range(3000)]
    (tmp_path / "a.json").write_text("\ufeff" + written(rows), encoding="utf-8")
    found = units_of(tmp_path / "a.json")
    assert set(found.values) == set(map(str, range(3000)))
    assert found.repeated == 0


def test_numbers_keep_the_text_they_were_written_with(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"id": 1.50}\n{"id": 123456789012345678901234567890}\n{"id": true}')
    assert units_of(tmp_path / "a.json").values == ("1.50", "123456789012345678901234567890", "true")


def test_logical_types_of_avro_give_their_texts(tmp_path: Path) -> None:
    kinds: dict[str, Any] = {
        "id": {"type": "fixed", "name": "Id", "size": 16, "logicalType": "uuid"},
        "again": "Id",
        "day": {"type": "int", "logicalType": "date"},
        "at": {"type": "long", "logicalType": "timestamp-nanos"},
        "wrong": {"type": "long", "logicalType": "time-millis"},
    }
    uid = UUID(int=7)
    rows = [{"id": uid.bytes, "again": uid.bytes, "day": day, "at": 1_000, "wrong": 5} for day in (0, 10**8)]
    (tmp_path / "a.avro").write_bytes(avro_file(record_of(kinds), rows))
    found = units_of(tmp_path / "a.avro", InputFormat.AVRO, fields=("id", "again", "at", "wrong"))
    texts = {"id": str(uid), "again": str(uid), "at": "1970-01-01T00:00:00.000001Z", "wrong": "5"}
    assert [json.loads(value) for value in found.values] == [texts]
    with pytest.raises(SourceError) as refused:
        units_of(tmp_path / "a.avro", InputFormat.AVRO, fields=("day",))
    assert "a.avro: record 2: 'day': " in refused.value.problem


def deletion_vector(*rows: int) -> dict[str, object]:
    """A vector of these rows, as the log has a small one: a bitmap in base 85 within the entry."""
    containers = struct.pack("<IIHHI", 12346, 1, 0, len(rows) - 1, 16) + struct.pack(f"<{len(rows)}H", *rows)
    content = struct.pack("<IQI", 1681511377, 1, 0) + containers
    letters = string.digits + string.ascii_lowercase + string.ascii_uppercase + ".-:+=^!/*?&<>()[]{}@%$#"
    padded = content + bytes(-len(content) % 4)
    numbers = struct.unpack(f">{len(padded) // 4}I", padded)
    text = "".join(letters[number // 85**power % 85] for number in numbers for power in (4, 3, 2, 1, 0))
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(content), "cardinality": len(rows)}


def test_rows_that_a_deletion_vector_hides_are_no_units(tmp_path: Path) -> None:
    write(InputFormat.DELTA, tmp_path / "in", ROWS[:3])
    log = tmp_path / "in" / "_delta_log"
    entries = [json.loads(line) for line in (log / f"{0:020d}.json").read_text().splitlines()]
    add = next(entry["add"] for entry in entries if "add" in entry)
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    actions = [
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}},
        {"remove": {"path": add["path"], "dataChange": True, "deletionTimestamp": add["modificationTime"]}},
        {"add": {**add, "deletionVector": deletion_vector(0, 2)}},
    ]
    (log / f"{1:020d}.json").write_text("\n".join(map(json.dumps, actions)))
    assert units_of(tmp_path / "in", InputFormat.DELTA).values == ("2",)
