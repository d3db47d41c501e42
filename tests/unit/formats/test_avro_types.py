"""Every logical type of Avro on every base type, in unions, containers and used again by name, by both readers.

Expected values are those of ``fastavro``. ``UNLIKE_FASTAVRO`` has the pairs that it reads in another way than the
specification, with the reason.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pyarrow.parquet as pq
import pytest

from support.avro_files import SYNC, avro_file, avro_head, record_of
from tidegate.core.files.plan import FileGroup, FileSlice
from tidegate.core.files.state import Covered, FileOutcome, Refused
from tidegate.formats.avro import AvroFile
from tidegate.formats.samples import Sampler
from tidegate.formats.strict_lines import bad_kind
from tidegate.schema.dead_letter import Letter, letter_of
from tidegate.schema.literals import SWITCH, find_native
from tidegate.schema.types import arrow_schema
from tidegate.specs.files import Format, PathSource
from tidegate.specs.locations import Location
from tidegate.specs.table import FieldSpec, Numbers
from tidegate.storage.stores import open_store
from tidegate.tasks.dead_letters import DeadLetterTarget
from tidegate.tasks.read_task import ReadTask
from tidegate.tasks.task import read_group_at_once, reread


@pytest.fixture(params=["native", "python"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each test that reads runs with both readers."""
    if request.param == "python":
        monkeypatch.setenv(SWITCH, "0")
    elif find_native() is None:
        pytest.skip("tidegate-native is not installed")
    return str(request.param)


@dataclass(frozen=True)
class Result:
    """What came of one file."""

    rows: list[dict[str, Any]]
    letters: list[Letter]
    outcome: FileOutcome
    fields: tuple[FieldSpec, ...]
    task: ReadTask

    @property
    def types(self) -> dict[str, str]:
        return {field.name: field.type for field in self.fields}


class Reading:
    """Reads files as a run does, with declared or inferred columns."""

    def __init__(self, root: Path) -> None:
        self._root = root
        for name in ("source", "table", "letters"):
            (root / name).mkdir()

    def __call__(
        self, data: bytes, fields: tuple[FieldSpec, ...] | None = None, start: int = 0, **changes: Any
    ) -> Result:
        (self._root / "source" / "a.avro").write_bytes(data)
        file = FileSlice("a.avro", len(data), start_record=start)
        declared = fields if fields is not None else self.infer(file)
        task = ReadTask(
            source=self._location("source"),
            table=self._location("table"),
            fields=declared,
            file_schema=arrow_schema(declared).serialize().to_pybytes(),
            format=Format.AVRO,
            letters=DeadLetterTarget(self._location("letters"), "p", "s", "r"),
        )
        found = read_group_at_once(replace(task, **changes), FileGroup(0, (file,)))
        rows = [row for each in found.data_files for row in self._rows("table", each.path)]
        letters = [letter_of(row) for each in found.letter_files for row in self._rows("letters", each.path)]
        return Result(rows, letters, found.outcomes[0], declared, task)

    def infer(self, file: FileSlice) -> tuple[FieldSpec, ...]:
        source = PathSource("s", self._location("source"), format=Format.AVRO)
        return Sampler(open_store(source.location), source).infer([file]).fields

    def retry(self, result: Result, fields: tuple[FieldSpec, ...]) -> tuple[list[dict[str, Any]], list[str]]:
        task = replace(result.task, fields=fields, file_schema=arrow_schema(fields).serialize().to_pybytes())
        found = reread(task, result.letters)
        return [row for each in found.files for row in self._rows("table", each.path)], [why for _, why in found.bad]

    def _location(self, name: str) -> Location:
        return Location((self._root / name).as_uri())

    def _rows(self, folder: str, path: str) -> list[dict[str, Any]]:
        return list(pq.read_table(self._root / folder / path, partitioning=None).to_pylist())


@pytest.fixture
def read(tmp_path: Path, reader: str) -> Reading:
    return Reading(tmp_path)


# --- The table: every logical type on every base type

UID = UUID("550e8400-e29b-41d4-a716-446655440000")

BASES: dict[str, tuple[Any, Any, str]] = {
    "boolean": ("boolean", True, "boolean"),
    "int": ("int", 19_000, "int32"),
    "long": ("long", 1_700_000_000_123, "int64"),
    "float": ("float", 1.5, "float32"),
    "double": ("double", 2.5, "float64"),
    "bytes": ("bytes", b"\x00\x7b", "binary"),
    "string": ("string", str(UID).upper(), "string"),
    "fixed4": ({"type": "fixed", "size": 4}, b"\xff\xff\xff\x85", "binary"),
    "fixed8": ({"type": "fixed", "size": 8}, b"12345678", "binary"),
    "fixed12": ({"type": "fixed", "size": 12}, b"\x01\0\0\0\x02\0\0\0\x03\0\0\0", "binary"),
    "fixed16": ({"type": "fixed", "size": 16}, UID.bytes, "binary"),
    "enum": ({"type": "enum", "symbols": ["A", "B"]}, "B", "string"),
    "record": ({"type": "record", "fields": [{"name": "x", "type": "long"}]}, {"x": 1}, "struct"),
    "array": ({"type": "array", "items": "long"}, [1, 2], "list"),
    "map": ({"type": "map", "values": "long"}, {"k": 1}, "map"),
}
"""Each with a stored value and the type of its column."""

LOGICAL: dict[str, dict[str, Any]] = {
    **{
        name: {"logicalType": name}
        for name in (
            *(
                "date",
                "time-millis",
                "time-micros",
                "uuid",
                "duration",
                "never-heard-of",
                "tidegate.date",
                "big-decimal",
            ),
            *(f"{local}timestamp-{unit}" for local in ("", "local-") for unit in ("millis", "micros", "nanos")),
        )
    },
    "decimal": {"logicalType": "decimal", "precision": 5, "scale": 2},
    "wide": {"logicalType": "decimal", "precision": 50, "scale": 2},
    "widest": {"logicalType": "decimal", "precision": 77},
    "no-precision": {"logicalType": "decimal"},
    "precision-0": {"logicalType": "decimal", "precision": 0},
    "precision-text": {"logicalType": "decimal", "precision": "5"},
    "scale-above": {"logicalType": "decimal", "precision": 3, "scale": 4},
    "scale-negative": {"logicalType": "decimal", "precision": 3, "scale": -1},
    "not-a-text": {"logicalType": 5},
}


_INSTANT = datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC)
_MICROS = datetime(1970, 1, 20, 16, 13, 20, 123, UTC)
_NANOS = datetime(1970, 1, 1, 0, 28, 20, 0, UTC)

COUNTS: dict[tuple[str, str], tuple[Any, Any, str]] = {
    ("date", "int"): (19_000, date(2022, 1, 8), "date"),
    ("time-millis", "int"): (19_000, time(0, 0, 19), "json"),
    ("time-micros", "long"): (19_000_007, time(0, 0, 19, 7), "json"),
    ("timestamp-millis", "long"): (1_700_000_000_123, _INSTANT, "timestamp"),
    ("timestamp-micros", "long"): (1_700_000_000_123, _MICROS, "timestamp"),
    ("timestamp-nanos", "long"): (1_700_000_000_000, _NANOS, "timestamp"),
    ("local-timestamp-millis", "long"): (1_700_000_000_123, _INSTANT, "timestamp"),
    ("local-timestamp-micros", "long"): (1_700_000_000_123, _MICROS, "timestamp"),
    ("local-timestamp-nanos", "long"): (1_700_000_000_000, _NANOS, "timestamp"),
    ("uuid", "string"): (str(UID).upper(), str(UID), "string"),
    ("uuid", "fixed16"): (UID.bytes, str(UID), "string"),
    ("decimal", "bytes"): (b"\x00\x7b", Decimal("1.23"), "decimal(5,2)"),
    ("decimal", "fixed4"): (b"\xff\xff\xff\x85", Decimal("-1.23"), "decimal(5,2)"),
    ("decimal", "fixed8"): (b"\0" * 7 + b"{", Decimal("1.23"), "decimal(5,2)"),
    ("decimal", "fixed12"): (b"\0" * 11 + b"{", Decimal("1.23"), "decimal(5,2)"),
    ("decimal", "fixed16"): (b"\0" * 15 + b"{", Decimal("1.23"), "decimal(5,2)"),
    ("wide", "bytes"): (b"\x00\x7b", Decimal("1.23"), "json"),
}
"""The pairs that the specification names, each with a stored value, the value of the column and its type.

``duration`` stays bytes, since no table has intervals. In all other pairs the logical type is ignored.
"""

_INVALID = ("precision-text", "scale-above", "scale-negative")
UNLIKE_FASTAVRO = {
    ("uuid", "fixed16"): "Avro 1.12 allows it; fastavro knows uuid on strings only",
    ("timestamp-nanos", "long"): "new in Avro 1.12; fastavro gives the number",
    ("local-timestamp-nanos", "long"): "new in Avro 1.12; fastavro gives the number",
    ("widest", "bytes"): "more digits than any column holds, so it stays bytes",
    **{(name, base): "invalid, so it is ignored; fastavro refuses the file" for name in _INVALID for base in BASES},
    **{
        (name, base): "invalid, so it is ignored; fastavro fails at the first value"
        for name in ("no-precision", "precision-0")
        for base in ("bytes", "fixed4", "fixed8", "fixed12", "fixed16")
    },
    **{
        (name, base): "more digits than the size has room for, so it is ignored; fastavro refuses the file"
        for name in ("wide", "widest")
        for base in ("fixed4", "fixed8", "fixed12", "fixed16")
    },
}
PAIRS = [(name, base) for name in LOGICAL for base in BASES]
NAMED = [(name, base) for name, base in PAIRS if base.startswith(("fixed", "enum", "record"))]
BEYOND_NATIVE = {("wide", "bytes")}
"""Files with these are read in Python."""


def column(name: str, base: str) -> str:
    return f"{base}_{name}".replace("-", "_").replace(".", "_")


def type_of(name: str, base: str) -> dict[str, Any]:
    schema = BASES[base][0]
    whole = schema if isinstance(schema, dict) else {"type": schema}
    own_name = {"name": f"T_{column(name, base)}"} if (name, base) in NAMED else {}
    return {**whole, **own_name, **LOGICAL[name]}


def expected(name: str, base: str) -> tuple[Any, Any, str]:
    """The stored value, the value of the column, and its type."""
    _, value, kind = BASES[base]
    return COUNTS.get((name, base), (value, value, kind))


def declared(name: str, kind: str) -> FieldSpec:
    number = FieldSpec("element", "int64")
    match kind:
        case "struct":
            return FieldSpec(name, kind, fields=(FieldSpec("x", "int64"),))
        case "list":
            return FieldSpec(name, kind, items=number)
        case "map":
            return _map_of(name, number)
        case _:
            return FieldSpec(name, kind)


def _map_of(name: str, values: FieldSpec) -> FieldSpec:
    key = FieldSpec("key", "string", nullable=False)
    return FieldSpec(name, "map", keys=key, values=replace(values, name="value"))


def in_table(value: Any, field: FieldSpec) -> Any:
    """A value as a table gives it back."""
    if value is None:
        return None
    if field.type == "map" and field.values is not None:
        return [(key, in_table(each, field.values)) for key, each in value.items()]
    if field.type == "list" and field.items is not None:
        return [in_table(each, field.items) for each in value]
    if field.type == "struct":
        return {each.name: in_table(value[each.name], each) for each in field.fields}
    return value


def out_of_json(found: Any, like: Any) -> Any:
    """What JSON shows of a value, as a value of the same kind."""
    match like:
        case bytes():
            return base64.b64decode(found)
        case Decimal():
            return Decimal(str(found))
        case datetime():
            moment = datetime.fromisoformat(found)
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        case date():
            return date.fromisoformat(found)
        case time():
            return time.fromisoformat(found)
        case dict():
            return {key: out_of_json(found[key], each) for key, each in like.items()}
        case list():
            return [out_of_json(*pair) for pair in zip(found, like, strict=True)]
        case _:
            return found


def check_reader(data: bytes, is_native: bool) -> None:
    """Each reader must have read the file itself."""
    assert (AvroFile(io.BytesIO(data), "a.avro")._native is not None) == is_native


def check_column(rows: list[dict[str, Any]], field: FieldSpec, values: list[Any]) -> None:
    found = [row[field.name] for row in rows]
    if field.type == "json":
        parsed = [None if each is None else json.loads(each) for each in found]
        found = [None if each is None else out_of_json(each, like) for each, like in zip(parsed, values, strict=True)]
        assert found == values, field
    else:
        assert found == [in_table(value, field) for value in values], field


@pytest.mark.parametrize("name", [name for name in LOGICAL if not name.startswith("tidegate.")])
def test_the_table_is_what_fastavro_reads(name: str) -> None:
    """The expectations themselves; where they differ, fastavro must differ indeed."""
    for base in BASES:
        value, wanted, _ = expected(name, base)
        data = avro_file(record_of({"v": type_of(name, base)}), [{"v": value}])
        try:
            (found,) = [record["v"] for record in fastavro.reader(io.BytesIO(data))]  # type: ignore[index,call-overload]
        except Exception as error:
            found = error
        if isinstance(found, UUID):
            found = str(found)
        if isinstance(found, datetime):
            found = found.replace(tzinfo=UTC)
        assert (found != wanted) == ((name, base) in UNLIKE_FASTAVRO), (name, base, found)


@dataclass(frozen=True)
class Wrap:
    """Where a type stands: its schema, values in it, and its column."""

    schema: Callable[[Any], Any]
    values: Callable[[Any], list[Any]]
    field: Callable[[FieldSpec], FieldSpec] = lambda field: field


WRAPS = {
    "alone": Wrap(lambda kind: kind, lambda value: [value, value]),
    "null first": Wrap(lambda kind: ["null", kind], lambda value: [value, None]),
    "null last": Wrap(lambda kind: [kind, "null"], lambda value: [None, value]),
    "in an array": Wrap(
        lambda kind: {"type": "array", "items": ["null", kind]},
        lambda value: [[value, None, value], []],
        lambda field: FieldSpec(field.name, "list", items=replace(field, name="element")),
    ),
    "in a map": Wrap(
        lambda kind: {"type": "map", "values": kind},
        lambda value: [{"a": value, "b": value}, {}],
        lambda field: _map_of(field.name, field),
    ),
    "in a record": Wrap(
        lambda kind: {"type": "record", "name": "R", "fields": [{"name": "inner", "type": kind}]},
        lambda value: [{"inner": value}, {"inner": value}],
        lambda field: FieldSpec(field.name, "struct", fields=(replace(field, name="inner"),)),
    ),
    "among others": Wrap(
        lambda kind: ["null", {"type": "fixed", "name": "Other", "size": 1}, kind],
        lambda value: [value, None],
        lambda field: FieldSpec(field.name, "json"),
    ),
}


PLACES = [(wrap, True) for wrap in WRAPS] + [(wrap, False) for wrap in WRAPS if wrap != "among others"]
"""Each with declared and inferred columns; an inferred column of values of several kinds takes texts alone."""


def with_own_names(schema: Any, suffix: str) -> Any:
    """The same schema with names that no other field defines."""
    if isinstance(schema, list):
        return [with_own_names(each, suffix) for each in schema]
    if not isinstance(schema, dict):
        return schema
    changed = {key: with_own_names(each, suffix) for key, each in schema.items() if key != "fields"}
    if "fields" in schema:
        changed["fields"] = [{**each, "type": with_own_names(each["type"], suffix)} for each in schema["fields"]]
    if schema.get("name") in ("R", "Other"):
        changed["name"] += suffix
    return changed


@pytest.mark.slow
@pytest.mark.parametrize(("wrap", "is_declared"), PLACES)
@pytest.mark.parametrize(
    "pairs", [[each for each in PAIRS if each not in BEYOND_NATIVE], BEYOND_NATIVE], ids=["", "wide"]
)
def test_a_logical_type_counts_on_its_base_type_alone(
    read: Reading, reader: str, wrap: str, pairs: list[tuple[str, str]], is_declared: bool
) -> None:
    where = WRAPS[wrap]
    fields, specs, records = {}, [], [{}, {}]
    wanted: dict[str, list[Any]] = {}
    for name, base in pairs:
        own = column(name, base)
        value, shown, kind = expected(name, base)
        fields[own] = with_own_names(where.schema(type_of(name, base)), f"_{own}")
        spec = where.field(declared(own, kind))
        specs.append(FieldSpec(own, "json") if kind == "json" else spec)
        for record, each in zip(records, where.values(value), strict=True):
            record[own] = each
        wanted[own] = where.values(shown)
    data = avro_file(record_of(fields), records)
    check_reader(data, reader == "native" and pairs is not BEYOND_NATIVE and wrap != "among others")
    result = read(data, tuple(specs) if is_declared else None)
    assert isinstance(result.outcome, Covered), result.outcome
    assert [letter.reason for letter in result.letters] == []
    assert result.types == {spec.name: spec.type for spec in specs}
    for field in result.fields:
        check_column(result.rows, field, wanted[field.name])


@pytest.mark.parametrize("is_declared", [True, False], ids=["declared", "inferred"])
@pytest.mark.parametrize("namespace", ["", "com.example"])
def test_every_named_type_is_used_again_by_its_name(
    read: Reading, reader: str, namespace: str, is_declared: bool
) -> None:
    """As code generators write schemas: defined at the first use, then named, with or without the namespace."""
    fields, specs, records = {}, [], [{}, {}]
    wanted: dict[str, list[Any]] = {}
    for name, base in NAMED:
        value, shown, kind = expected(name, base)
        defined = type_of(name, base)
        again = f"{namespace}.{defined['name']}" if namespace else defined["name"]
        uses = {
            "first": (WRAPS["alone"], defined),
            "second": (WRAPS["alone"], defined["name"]),
            "full": (WRAPS["null first"], again),
            "object": (WRAPS["null last"], {"type": defined["name"]}),
            "many": (WRAPS["in an array"], again),
        }
        for use, (where, schema) in uses.items():
            own = f"{column(name, base)}_{use}"
            fields[own] = where.schema(schema)
            spec = where.field(declared(own, kind))
            specs.append(FieldSpec(own, "json") if kind == "json" else spec)
            for record, each in zip(records, where.values(value), strict=True):
                record[own] = each
            wanted[own] = where.values(shown)
    whole = record_of(fields, **({"namespace": namespace} if namespace else {}))
    data = avro_file(whole, records)
    check_reader(data, reader == "native")
    result = read(data, tuple(specs) if is_declared else None)
    assert isinstance(result.outcome, Covered), result.outcome
    assert [letter.reason for letter in result.letters] == []
    assert result.types == {spec.name: spec.type for spec in specs}
    for field in result.fields:
        check_column(result.rows, field, wanted[field.name])


DECIMAL = {"type": "fixed", "name": "Dec", "size": 4, "logicalType": "decimal", "precision": 5, "scale": 2}


def test_names_have_the_namespace_of_what_is_around_them(read: Reading) -> None:
    inner = {
        "type": "record",
        "name": "Inner",
        "namespace": "other",
        "fields": [{"name": "own", "type": {**DECIMAL, "scale": 1}}, {"name": "own_again", "type": "Dec"}],
    }
    schema = record_of({"a": DECIMAL, "in": inner, "b": "Dec", "c": "other.Dec", "d": "outer.Dec"}, namespace="outer")
    cents = b"\0\0\0{"
    record = {"a": cents, "in": {"own": cents, "own_again": cents}, "b": cents, "c": cents, "d": cents}
    result = read(avro_file(schema, [record]))
    hundredths, tenths = Decimal("1.23"), Decimal("12.3")
    assert result.rows == [
        {
            "a": hundredths,
            "in": {"own": tenths, "own_again": tenths},
            "b": hundredths,
            "c": tenths,
            "d": hundredths,
        }
    ]


def test_an_alias_is_no_name_in_the_schema_of_a_file(read: Reading) -> None:
    """Aliases map a writer's names to a reader's; inside one schema the specification knows names only."""
    good = avro_file(record_of({"a": {**DECIMAL, "aliases": ["Old"]}, "b": "Dec"}), [{"a": b"1234", "b": b"1234"}])
    result = read(good.replace(b'"b", "type": "Dec"', b'"b", "type": "Old"'), (FieldSpec("a", "decimal(5,2)"),))
    assert isinstance(result.outcome, Refused)
    assert "Old" in result.outcome.reason


def test_what_does_not_matter_for_reading_refuses_no_file(read: Reading) -> None:
    schema = record_of({"a": {"type": "long", "logicalType": "timestamp-millis"}})
    schema["fields"][0] |= {"default": "not a number", "aliases": "not a list", "logicalType": "date"}
    data = avro_file(record_of({"a": "long"}), [{"a": 0}])
    head = avro_file(schema | {"fields": []}, [])
    assert data.endswith(head[-16:])
    result = read(_with_schema(data, schema))
    assert result.rows == [{"a": datetime(1970, 1, 1, tzinfo=UTC)}]


def _with_schema(data: bytes, schema: Any) -> bytes:
    """A file with another schema in its head."""
    return avro_head(schema) + data[data.index(SYNC) + len(SYNC) :]


# --- Values at the edges, and beyond them

DAY = 86_400_000_000
FIRST, LAST = -719_162, 2_932_896


def whole(number: int, size: int = 0) -> bytes:
    return number.to_bytes(size or (number.bit_length() + 8) // 8, "big", signed=True)


@dataclass(frozen=True)
class Edges:
    """A type with stored values that it allows, as they are read, and values that it does not allow."""

    schema: Any
    good: dict[Any, Any]
    bad: dict[Any, tuple[str, Any]]
    """Each with the kind of the reason and what the dead letter shows."""


def _moments(unit: int, zone: str) -> Edges:
    name = {1000: "millis", 1: "micros"}[unit]
    low, high = FIRST * DAY // unit, (LAST + 1) * DAY // unit - 1
    end = "Z" if not zone else ""
    last = datetime(9999, 12, 31, 23, 59, 59, 999_999 if unit == 1 else 999_000, UTC)
    return Edges(
        {"type": "long", "logicalType": f"{zone}timestamp-{name}"},
        {
            low: datetime(1, 1, 1, tzinfo=UTC),
            high: last,
            -1: datetime(1970, 1, 1, tzinfo=UTC) - timedelta(microseconds=unit),
        },
        {
            high + 1: ("lossy", f"+10000-01-01T00:00:00{end}"),
            low - 1: ("lossy", f"+0000-12-31T23:59:59.{999_999 if unit == 1 else 999_000}{end}"),
            -(2**63): ("lossy", None),
            2**63 - 1: ("lossy", None),
        },
    )


EDGES = {
    "date": Edges(
        {"type": "int", "logicalType": "date"},
        {FIRST: date(1, 1, 1), LAST: date(9999, 12, 31), 0: date(1970, 1, 1), -1: date(1969, 12, 31)},
        {
            LAST + 1: ("lossy", "+10000-01-01"),
            FIRST - 1: ("lossy", "+0000-12-31"),
            -(2**31): ("lossy", "-5877641-06-23"),
            2**31 - 1: ("lossy", "+5881580-07-11"),
        },
    ),
    "time-millis": Edges(
        {"type": "int", "logicalType": "time-millis"},
        {0: time(0), 86_399_999: time(23, 59, 59, 999_000)},
        {86_400_000: ("wrong_type", "24:00:00"), -1: ("wrong_type", "-00:00:00.001000")},
    ),
    "time-micros": Edges(
        {"type": "long", "logicalType": "time-micros"},
        {0: time(0), DAY - 1: time(23, 59, 59, 999_999)},
        {DAY: ("wrong_type", "24:00:00"), -1: ("wrong_type", "-00:00:00.000001"), 2**63 - 1: ("wrong_type", None)},
    ),
    "timestamp-millis": _moments(1000, ""),
    "timestamp-micros": _moments(1, ""),
    "local-timestamp-millis": _moments(1000, "local-"),
    "local-timestamp-micros": _moments(1, "local-"),
    "decimal": Edges(
        {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
        {
            whole(9999): Decimal("99.99"),
            whole(-9999): Decimal("-99.99"),
            b"": Decimal("0.00"),
            whole(7, 40): Decimal("0.07"),
        },
        {
            whole(10_000): ("lossy", Decimal("100.00")),
            whole(-10_000): ("lossy", Decimal("-100.00")),
            whole(10**60): ("lossy", Decimal(10**58)),
            b"\x7f" + bytes(1000): ("lossy", None),
        },
    ),
    "fixed decimal": Edges(
        {"type": "fixed", "name": "F", "size": 2, "logicalType": "decimal", "precision": 4},
        {whole(9999, 2): Decimal(9999), whole(-9999, 2): Decimal(-9999)},
        {whole(10_000, 2): ("lossy", Decimal(10_000)), b"\x80\0": ("lossy", Decimal(-32_768))},
    ),
    "decimal of 38 digits": Edges(
        {"type": "bytes", "logicalType": "decimal", "precision": 38},
        {whole(10**38 - 1): Decimal(10**38 - 1), whole(1 - 10**38): Decimal(1 - 10**38)},
        {whole(10**38): ("lossy", Decimal(10**38)), whole(-(10**38), 17): ("lossy", Decimal(-(10**38)))},
    ),
    "uuid": Edges(
        {"type": "string", "logicalType": "uuid"},
        {str(UID): str(UID), str(UID).upper(): str(UID), UID.hex: str(UID)},
        {"": ("wrong_type", ""), "550e8400": ("wrong_type", "550e8400"), f"{UID}0": ("wrong_type", f"{UID}0")},
    ),
}
EDGE_WRAPS = {key: wrap for key, wrap in WRAPS.items() if key != "null last"}


@pytest.mark.parametrize("wrap", EDGE_WRAPS)
@pytest.mark.parametrize("name", EDGES)
def test_a_value_out_of_range_is_a_bad_record_and_the_rest_is_read(read: Reading, name: str, wrap: str) -> None:
    edges, where = EDGES[name], WRAPS[wrap]
    values = [*edges.good, *edges.bad, *edges.good]
    records = [{"id": number, "v": where.values(value)[0]} for number, value in enumerate(values)]
    data = avro_file(record_of({"id": "long", "v": where.schema(edges.schema)}), records, sync_interval=40)
    fields = (FieldSpec("id", "int64"), FieldSpec("v", "json")) if wrap == "among others" else None
    result = read(data, fields)
    first, last = len(edges.good), len(edges.good) + len(edges.bad)
    assert isinstance(result.outcome, Covered), result.outcome
    assert (result.outcome.end, result.outcome.bad) == (len(records), len(edges.bad))
    assert [row["id"] for row in result.rows] == [*range(first), *range(last, len(records))]
    check_column(result.rows, result.fields[1], [where.values(each)[0] for each in [*edges.good.values()] * 2])
    assert [letter.line for letter in result.letters] == list(range(first + 1, last + 1))
    path = "v.inner" if wrap == "in a record" else "v"
    for letter, (kind, shown) in zip(result.letters, edges.bad.values(), strict=True):
        assert letter.reason.startswith(f"{path!r}: ")
        assert bad_kind(letter.reason) == kind
        told = json.loads(letter.text or "", parse_float=Decimal)
        assert told["id"] == letter.line - 1
        if shown is not None:
            assert told["v"] == where.values(shown)[0]


@pytest.mark.parametrize("name", EDGES)
def test_declared_columns_change_nothing_about_it(read: Reading, name: str) -> None:
    """Also where the column would have room: a value that its own type does not allow is none."""
    edges = EDGES[name]
    room = {"decimal": "decimal(38,2)", "fixed decimal": "decimal(38,2)", "decimal of 38 digits": "decimal(38,0)"}
    kind = room.get(name, {"date": "timestamp", "uuid": "string"}.get(name, "json" if "time-" in name else "timestamp"))
    values = [*edges.bad, *edges.good]
    data = avro_file(record_of({"v": ["null", edges.schema], "w": "long"}), [{"v": each, "w": 1} for each in values])
    for start in (0, 1, len(edges.bad), len(values) - 1):
        result = read(data, (FieldSpec("v", kind),), start)
        assert len(result.rows) == min(len(edges.good), len(values) - start)
        assert [letter.line for letter in result.letters] == list(range(start + 1, len(edges.bad) + 1))
    refused = read(data, (FieldSpec("v", kind),), letters=None).outcome
    assert isinstance(refused, Refused)
    assert refused.reason.startswith("record 1: 'v': ")


def test_a_column_that_is_not_read_makes_no_record_bad(read: Reading) -> None:
    day = {"type": "int", "logicalType": "date"}
    inner = {"type": "record", "name": "I", "fields": [{"name": "n", "type": "long"}, {"name": "d", "type": day}]}
    schema = record_of({"id": "long", "d": day, "i": inner, "l": {"type": "array", "items": "I"}})
    good = {"n": 1, "d": 0}
    bad = {"n": 1, "d": 10**8}
    records = [
        {"id": 1, "d": 10**8, "i": good, "l": []},
        {"id": 2, "d": 0, "i": bad, "l": [good, bad]},
        {"id": 3, "d": 0, "i": good, "l": [good]},
    ]
    numbers = FieldSpec("i", "struct", fields=(FieldSpec("n", "int64"),))
    fields = (FieldSpec("id", "int64"), numbers, FieldSpec("l", "list", items=replace(numbers, name="element")))
    result = read(avro_file(schema, records), fields)
    assert result.letters == []
    assert [row["id"] for row in result.rows] == [1, 2, 3]
    assert result.rows[1] == {"id": 2, "i": {"n": 1}, "l": [{"n": 1}, {"n": 1}]}
    everything = read(avro_file(schema, records))
    assert [letter.reason.partition(":")[0] for letter in everything.letters] == ["'d'", "'i.d'"]


def test_a_dead_letter_is_read_again_when_the_column_takes_it(read: Reading) -> None:
    schema = record_of({"id": "long", "v": EDGES["decimal"].schema, "d": EDGES["date"].schema, "f": "double"})
    records = [
        {"id": 1, "v": whole(123_456), "d": 0, "f": float("nan")},
        {"id": 2, "v": whole(1), "d": LAST + 1, "f": 0.1},
    ]
    result = read(avro_file(schema, records))
    assert [json.loads(letter.text or "")["f"] for letter in result.letters] == ["nan", 0.1]
    rows, still = read.retry(result, result.fields)
    assert (rows, len(still)) == ([], 2)
    wider = tuple(replace(each, type="decimal(10,2)") if each.name == "v" else each for each in result.fields)
    rows, still = read.retry(result, (*(each for each in wider if each.name != "f"),))
    assert rows == [{"id": 1, "v": Decimal("1234.56"), "d": date(1970, 1, 1)}]
    assert len(still) == 1


@pytest.mark.parametrize("numbers", list(Numbers))
@pytest.mark.parametrize("name", [name for name in EDGES if name == "date" or "timestamp" in name])
def test_a_moment_out_of_range_is_never_read_again_as_another_one(read: Reading, name: str, numbers: Numbers) -> None:
    edges = EDGES[name]
    result = read(avro_file(record_of({"v": edges.schema}), [{"v": each} for each in edges.bad]))
    changed = replace(result, task=replace(result.task, numbers=numbers))
    assert read.retry(changed, result.fields)[0] == []
    assert len(read.retry(changed, (FieldSpec("v", "timestamp"),))[1]) == len(edges.bad)


def test_nanoseconds_are_kept_to_the_microsecond_or_not_at_all(read: Reading) -> None:
    """As in Parquet files: a moment is never rounded."""
    edges = {0: 0, 1000: 1, -1000: -1, 9_223_372_036_854_775_000: 9_223_372_036_854_775}
    schema = record_of({"v": ["null", {"type": "long", "logicalType": "timestamp-nanos"}]})
    result = read(avro_file(schema, [{"v": each} for each in (*edges, 1001, -(2**63))]))
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert [row["v"] for row in result.rows] == [epoch + timedelta(microseconds=each) for each in edges.values()]
    assert [letter.line for letter in result.letters] == [5, 6]
    assert [json.loads(letter.text or "")["v"] for letter in result.letters] == [
        "1970-01-01T00:00:00.000001001Z",
        "1677-09-21T00:12:43.145224192Z",
    ]


def test_a_number_that_its_column_cannot_hold_is_a_bad_record(read: Reading) -> None:
    """A whole number in a union with fractions has the type of the fractions."""
    schema = record_of({"v": ["long", "double"]})
    result = read(avro_file(schema, [{"v": each} for each in (2**53, 2**53 + 1, 0.5)]))
    assert [row["v"] for row in result.rows] == [2.0**53, 0.5]
    assert [(letter.line, bad_kind(letter.reason)) for letter in result.letters] == [(2, "wrong_type")]
    assert json.loads(result.letters[0].text or "") == {"v": 2**53 + 1}
    longer = avro_file(record_of({"v": "long"}), [{"v": each} for each in (2**31 - 1, 2**31, -(2**63))])
    result = read(_with_schema(longer, record_of({"v": "int"})))
    assert [row["v"] for row in result.rows] == [2**31 - 1]
    assert [letter.line for letter in result.letters] == [2, 3]


def test_values_of_several_kinds_keep_their_branch(read: Reading) -> None:
    """A date and a timestamp in one union, both of them numbers; NaN, which JSON does not have, is text."""
    kinds = [
        {"type": "int", "logicalType": "date"},
        {"type": "long", "logicalType": "timestamp-nanos"},
        "double",
        "string",
    ]
    stored = record_of({"v": ["int", "long", "double", "string"]})
    values = [
        ("int", 1),
        ("long", 2**40 + 1),
        ("double", float("nan")),
        ("double", 1.5),
        ("string", "x"),
        ("int", 10**8),
    ]
    data = avro_file(stored, [{"v": each} for each in values])
    result = read(_with_schema(data, record_of({"v": kinds})), (FieldSpec("v", "json"),))
    assert [json.loads(row["v"]) for row in result.rows] == [
        "1970-01-02",
        "1970-01-01T00:18:19.511627777+00:00",
        "nan",
        1.5,
        "x",
    ]
    assert [letter.line for letter in result.letters] == [6]
