"""The native reader of Avro and the library are one: same rows, or both refuse, wherever a file is bent or cut."""

from __future__ import annotations

import io
import random
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.avro_files import avro_file, avro_head
from support.long_runs import examples
from tidegate.errors import SourceError
from tidegate.formats import avro
from tidegate.formats.avro import AvroFile
from tidegate.formats.port import Rejected
from tidegate.schema.literals import SWITCH, find_native

pytestmark = pytest.mark.skipif(find_native() is None, reason="tidegate-native is not installed")

PLAIN = ("boolean", "int", "long", "float", "double", "bytes", "string")
DAY = 86_400_000_000
LOGICAL: dict[str, tuple[str, int, int]] = {
    "date": ("int", -719_162, 2_932_896),
    "time-millis": ("int", 0, DAY // 1000 - 1),
    "time-micros": ("long", 0, DAY - 1),
    "timestamp-millis": ("long", -719_162 * DAY // 1000, 2_932_897 * DAY // 1000 - 1),
    "timestamp-micros": ("long", -719_162 * DAY, 2_932_897 * DAY - 1),
    "local-timestamp-micros": ("long", -719_162 * DAY, 2_932_897 * DAY - 1),
    "timestamp-nanos": ("long", -(2**63), 2**63 - 1),
}
"""Base type, first and last value."""

STRAY = (("long", "date"), ("int", "timestamp-millis"), ("bytes", "uuid"), ("string", "decimal"), ("long", "unheard"))
"""Logical types that do not count where they stand."""
ODD = (["long", "string"], "null", ["null", "int", "double"], {"type": "map", "values": ["null", "long", "string"]})
"""Types that the native reader leaves to the library."""


class Maker:
    """Makes schemas and records that fit them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._names = 0
        self._defined: dict[str, dict[str, Any]] = {}

    def record(self, depth: int = 0) -> dict[str, Any]:
        fields = [{"name": f"f{n}", "type": self._type(depth)} for n in range(self.random.randint(1, 5))]
        return {"type": "record", "name": self._name(), "fields": fields}

    def value(self, schema: Any) -> Any:
        pick = self.random
        match schema:
            case list():
                return self.value(pick.choice(schema))
            case str() if schema in self._defined:
                return self.value(self._defined[schema])
            case {"logicalType": str(kind)} if kind in LOGICAL and schema["type"] == LOGICAL[kind][0]:
                return self._number(*LOGICAL[kind])
            case {"type": "string", "logicalType": "uuid"}:
                return pick.choice((str, lambda uid: uid.hex, lambda _: "none"))(UUID(int=pick.getrandbits(128)))
            case {"type": "bytes", "logicalType": "decimal", "precision": precision}:
                return self._decimal(precision).to_bytes(pick.choice((9, 20)), "big", signed=True)
            case {"type": "fixed", "logicalType": "decimal", "precision": precision, "size": size}:
                return self._decimal(precision).to_bytes(size, "big", signed=True)
            case {"type": str(base)} if base in PLAIN:
                return self._plain(base)
            case {"type": "record", "fields": fields}:
                return {each["name"]: self.value(each["type"]) for each in fields}
            case {"type": "enum", "symbols": symbols}:
                return pick.choice(symbols)
            case {"type": "fixed", "size": size}:
                return pick.randbytes(size)
            case {"type": "array", "items": items}:
                return [self.value(items) for _ in range(pick.randrange(4))]
            case {"type": "map", "values": values}:
                return {f"k{n}": self.value(values) for n in range(pick.randrange(4))}
            case _:
                return self._plain(schema)

    def _type(self, depth: int) -> Any:
        pick = self.random
        if pick.random() < 0.05:
            return pick.choice(ODD)
        kind = pick.choice(
            ("plain", "logical", "decimal", "enum", "fixed", "array", "map", "record")[: 5 if depth > 2 else 8]
        )
        if self._defined and pick.random() < 0.1:
            kind = "again"
        found: Any = {
            "plain": lambda: pick.choice(PLAIN),
            "logical": self._logical,
            "decimal": self._decimal_type,
            "enum": lambda: self._define({"type": "enum", "symbols": ["A", "B", "C"]}),
            "fixed": lambda: self._define({"type": "fixed", "size": pick.randint(1, 5), "logicalType": "uuid"}),
            "again": lambda: pick.choice(list(self._defined)),
            "array": lambda: {"type": "array", "items": self._type(depth + 1)},
            "map": lambda: {"type": "map", "values": self._type(depth + 1)},
            "record": lambda: self.record(depth + 1),
        }[kind]()
        is_union = isinstance(found, list) or found == "null"
        return found if is_union or pick.random() < 0.5 else pick.choice((["null", found], [found, "null"]))

    def _name(self) -> str:
        self._names += 1
        return f"T{self._names}"

    def _plain(self, kind: str) -> Any:
        pick = self.random
        return {
            "null": None,
            "boolean": pick.random() < 0.5,
            "int": pick.choice((0, -1, 2**31 - 1, -(2**31))),
            "long": pick.choice((0, 300, 2**63 - 1, -(2**63))),
            "float": pick.choice((0.0, -1.5, float("inf"))),
            "double": pick.choice((0.1, 1e300)),
            "bytes": pick.randbytes(pick.randrange(4)),
            "string": pick.choice(("", "a", "ü€😀")),
        }[kind]

    def _logical(self) -> Any:
        pick = self.random
        if pick.random() < 0.2:
            base, name = pick.choice(STRAY)
            return {"type": base, "logicalType": name, "precision": 3}
        if pick.random() < 0.3:
            text = {"type": "string", "logicalType": "uuid"}
            return text if pick.random() < 0.5 else self._define({**text, "type": "fixed", "size": 16})
        name = pick.choice(list(LOGICAL))
        return {"type": LOGICAL[name][0], "logicalType": name}

    def _decimal_type(self) -> Any:
        decimal = {"logicalType": "decimal", "precision": 9, "scale": 2}
        if self.random.random() < 0.5:
            return {**decimal, "type": "bytes"}
        return self._define({**decimal, "type": "fixed", "size": self.random.randint(5, 20)})

    def _define(self, schema: dict[str, Any]) -> dict[str, Any]:
        """A type with a name, which may be used again."""
        name = self._name()
        self._defined[name] = {**schema, "name": name}
        return self._defined[name]

    def _number(self, base: str, first: int, last: int) -> int:
        """A value of a logical type; some are beyond it."""
        bits = 31 if base == "int" else 63
        beyond = [each for each in (first - 1, last + 1, -(2**bits), 2**bits - 1) if -(2**bits) <= each < 2**bits]
        return self.random.choice(beyond) if self.random.random() < 0.02 else self.random.randint(first, last)

    def _decimal(self, precision: int) -> int:
        limit = 10**precision
        return (
            self.random.choice((limit, -limit))
            if self.random.random() < 0.02
            else self.random.randrange(1 - limit, limit)
        )


def rows(data: bytes, start: int) -> tuple[str, list[Rejected], int] | None:
    """All rows from ``start`` on in words, bad records, and how many records there are; None for a refused file."""
    rejected: list[Rejected] = []
    batches, lines = [], 0
    try:
        file = AvroFile(io.BytesIO(data), "a.avro")
        for block in file.batches(start):
            rejected += [each._replace(offset=lines + each.offset) for each in block.rejected]
            lines += block.lines
            batches.append(block.batch)
    except SourceError:
        return None
    found = pa.Table.from_batches(batches, file.schema)
    found.validate(full=True)
    assert lines == found.num_rows + len(rejected) == max(file.records - start, 0)
    return repr(found.to_pylist()), rejected, file.records


@settings(max_examples=examples(10_000, 150), deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from((40, 500, 16_000)),
    st.sampled_from((0, 0, 3, 20)),
    st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 255)), max_size=3),
    st.none() | st.integers(0, 2**20),
)
def test_both_readers_give_the_same_rows_or_refuse_a_file(
    seed: int, interval: int, start: int, changed: list[tuple[int, int]], cut: int | None
) -> None:
    maker = Maker(seed)
    schema = maker.record()
    records = [maker.value(schema) for _ in range(maker.random.randrange(40))]
    data = bytearray(avro_file(schema, records, sync_interval=interval))
    first = len(avro_head(schema))
    for place, byte in changed if len(data) > first else ():
        data[first + place % (len(data) - first)] = byte
    if cut is not None:
        del data[first + cut % (len(data) - first + 1) :]
    with pytest.MonkeyPatch.context() as patch:
        found = rows(bytes(data), start)
        patch.setenv(SWITCH, "0")
        assert rows(bytes(data), start) == found
    if not changed and cut is None:
        assert found is not None
        assert found[2] == len(records)


def test_blocks_are_read_together_and_parted_where_they_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.BytesIO()
    schema = {
        "type": "record",
        "name": "row",
        "fields": [{"name": "id", "type": "long"}, {"name": "s", "type": "string"}],
    }
    fastavro.writer(out, fastavro.parse_schema(schema), [{"id": n, "s": "x"} for n in range(5000)], sync_interval=100)
    (block,) = AvroFile(io.BytesIO(out.getvalue()), "a.avro").batches()
    assert block.batch.column(0).to_pylist() == list(range(5000))
    monkeypatch.setattr(avro, "_LARGEST_BATCH", 300)
    batches = [block.batch for block in AvroFile(io.BytesIO(out.getvalue()), "a.avro").batches(1234)]
    assert [each for batch in batches for each in batch.column(0).to_pylist()] == list(range(1234, 5000))
    assert max(batch.num_rows for batch in batches) <= 100


def test_an_odd_record_takes_nothing_from_those_around_it() -> None:
    """A text that is a UUID in other letters is read by the library alone."""
    schema = {
        "type": "record",
        "name": "row",
        "fields": [{"name": "u", "type": {"type": "string", "logicalType": "uuid"}}],
    }
    texts = [str(UUID(int=n)) for n in range(20)]
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(schema), [{"u": text} for text in texts], sync_interval=250)
    upper = out.getvalue().replace(texts[10].encode(), texts[10].upper().encode())
    blocks = AvroFile(io.BytesIO(upper), "a.avro").batches()
    found = [each for block in blocks for each in block.batch.column(0).to_pylist()]
    assert found == texts
