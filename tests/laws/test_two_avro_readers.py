"""The native reader of Avro and the library are one: same rows, or both refuse, wherever a file is bent or cut."""

from __future__ import annotations

import io
import random
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.long_runs import examples
from tidegate.errors import SourceError
from tidegate.formats import avro
from tidegate.formats.avro import AvroFile
from tidegate.schema.literals import SWITCH, find_native

pytestmark = pytest.mark.skipif(find_native() is None, reason="tidegate-native is not installed")

PLAIN = ("boolean", "int", "long", "float", "double", "bytes", "string")
LOGICAL = (
    ("int", "date"),
    ("int", "time-millis"),
    ("long", "time-micros"),
    ("long", "timestamp-millis"),
    ("long", "timestamp-micros"),
    ("long", "local-timestamp-micros"),
    ("string", "uuid"),
)
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
ODD = (["long", "string"], "null", ["null", "int", "double"], {"type": "map", "values": ["null", "long", "string"]})
"""Types that the native reader leaves to the library."""


class Maker:
    """Makes schemas and records that fit them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._names = 0

    def record(self, depth: int = 0) -> dict[str, Any]:
        fields = [{"name": f"f{n}", "type": self._type(depth)} for n in range(self.random.randint(1, 5))]
        return {"type": "record", "name": self._name(), "fields": fields}

    def value(self, schema: Any) -> Any:
        pick = self.random
        match schema:
            case list():
                return self.value(pick.choice(schema))
            case {"logicalType": kind}:
                return self._logical(kind)
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
        base, logical = pick.choice(LOGICAL)
        found: Any = {
            "plain": lambda: pick.choice(PLAIN),
            "logical": lambda: {"type": base, "logicalType": logical},
            "decimal": lambda: DECIMAL,
            "enum": lambda: {"type": "enum", "name": self._name(), "symbols": ["A", "B", "C"]},
            "fixed": lambda: {"type": "fixed", "name": self._name(), "size": pick.randint(1, 5)},
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

    def _logical(self, kind: str) -> Any:
        pick = self.random
        moment = datetime(1, 1, 1, tzinfo=UTC) + timedelta(milliseconds=pick.randrange(3_000_000_000_000))
        return {
            "date": date.fromordinal(pick.randint(1, 3_652_059)),
            "time-millis": time(pick.randrange(24), 5, 6, 7000),
            "time-micros": time(pick.randrange(24), 5, 6, 7),
            "timestamp-millis": moment,
            "timestamp-micros": moment,
            "local-timestamp-micros": moment.replace(tzinfo=None),
            "uuid": str(UUID(int=pick.getrandbits(128))),
            "decimal": Decimal(pick.randrange(-(10**9) + 1, 10**9)).scaleb(-2),
        }[kind]


def rows(data: bytes, start: int) -> tuple[str, int] | None:
    """All rows from ``start`` on in words, and how many records there are; None where the file is refused."""
    try:
        file = AvroFile(io.BytesIO(data), "a.avro")
        found = pa.Table.from_batches(list(file.batches(start)), file.schema)
    except SourceError:
        return None
    found.validate(full=True)
    return repr(found.to_pylist()), file.records


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
    head, whole = io.BytesIO(), io.BytesIO()
    parsed = fastavro.parse_schema(schema)
    records = [maker.value(schema) for _ in range(maker.random.randrange(40))]
    fastavro.writer(head, parsed, [], sync_marker=b"s" * 16)
    fastavro.writer(whole, parsed, records, sync_interval=interval, sync_marker=b"s" * 16)
    data = bytearray(whole.getvalue())
    first = len(head.getvalue())
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
        assert found[1] == len(records)


def test_blocks_are_read_together_and_parted_where_they_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.BytesIO()
    schema = {
        "type": "record",
        "name": "row",
        "fields": [{"name": "id", "type": "long"}, {"name": "s", "type": "string"}],
    }
    fastavro.writer(out, fastavro.parse_schema(schema), [{"id": n, "s": "x"} for n in range(5000)], sync_interval=100)
    (batch,) = AvroFile(io.BytesIO(out.getvalue()), "a.avro").batches()
    assert batch.column(0).to_pylist() == list(range(5000))
    monkeypatch.setattr(avro, "_LARGEST_BATCH", 300)
    batches = list(AvroFile(io.BytesIO(out.getvalue()), "a.avro").batches(1234))
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
    found = [each for batch in AvroFile(io.BytesIO(upper), "a.avro").batches() for each in batch.column(0).to_pylist()]
    assert found == texts
