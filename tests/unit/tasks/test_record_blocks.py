"""Records of an API as rows: exact, named where they do not fit, and only those of their part."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime
from typing import Any

import pytest

from support.errors import raises
from tidegate.errors import SourceError
from tidegate.sources.http.bounds import Part
from tidegate.sources.http.responses import LineBlock
from tidegate.specs.table import FieldSpec, SchemaSpec
from tidegate.tasks.unit_columns import RecordBlocks

FIELDS = (FieldSpec("id", "int64"), FieldSpec("at", "timestamp"))


def blocks(*parts: Part, schema: SchemaSpec | None = None) -> RecordBlocks:
    columns = (FIELDS, schema or SchemaSpec(fields=FIELDS), parts or (Part(),), "https://a.example/v1")
    return RecordBlocks(*pickle.loads(pickle.dumps(columns)))


def block(*records: Any, part: int = 0, first: int = 1) -> LineBlock:
    return LineBlock(part, 3, first, b"".join(json.dumps(record).encode() + b"\n" for record in records))


def test_values_have_the_declared_types() -> None:
    rows = blocks().rows(block({"id": 1, "at": "2026-04-03T09:15:00+02:00"}, {"id": 2}))
    assert rows.to_pylist() == [
        {"id": 1, "at": datetime(2026, 4, 3, 7, 15, tzinfo=UTC)},
        {"id": 2, "at": None},
    ]


@pytest.mark.parametrize("value", ["two", 1.5, 2**63, [1], {"a": 1}])
def test_a_record_that_does_not_fit_is_named_and_never_null(value: Any) -> None:
    with raises(SourceError, "https://a.example/v1", "page 3", "record 12", "'id'"):
        blocks().rows(block({"id": 1}, {"id": value}, first=11))


def test_fields_that_no_column_takes_are_counted() -> None:
    decoder = blocks()
    decoder.rows(block({"id": 1, "more": 5}, {"id": 2, "more": None}))
    assert decoder.unknown == {"more": 2}


def test_a_part_takes_its_own_stretch_and_the_first_what_has_no_value() -> None:
    decoder = blocks(Part(column="id", upto=5), Part(column="id", after=5, upto=8), Part(column="id", after=8))
    records = [{"id": number} for number in (1, 5, 6, 8, 9, None)]
    taken = [decoder.rows(block(*records, part=part)).column("id").to_pylist() for part in range(3)]
    assert taken == [[1, 5, None], [6, 8], [9]]


def test_moments_are_divided_as_moments() -> None:
    cut = datetime(2026, 4, 3, 8, tzinfo=UTC)
    decoder = blocks(Part(column="at", upto=cut), Part(column="at", after=cut))
    records = [{"at": "2026-04-03T10:00:00+02:00"}, {"at": "2026-04-03T08:00:00.000001Z"}]
    assert [len(decoder.rows(block(*records, part=part))) for part in range(2)] == [1, 1]


def test_a_range_of_another_kind_is_told() -> None:
    with raises(SourceError, "'at'", "'x'", "timestamp", "schema.fields"):
        blocks(Part(column="at", upto="x")).rows(block({"id": 1, "at": None}))
