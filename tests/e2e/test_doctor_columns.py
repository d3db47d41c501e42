"""``doctor`` compares the declared schema with the table before a run stumbles over it."""

from __future__ import annotations

from pathlib import Path

import pytest

import tidegate
from support.lake import FIELDS, Lake
from tidegate import Check

NAME = "table of events/default"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path)
    lake.arrive("1.ndjson")
    lake.run()
    return lake


def told(lake: Lake, *fields: dict[str, object]) -> list[Check]:
    lake.schema = {"fields": list(fields)}
    return [each for each in tidegate.doctor(lake.config) if each.name == NAME]


def test_the_same_columns_are_fine(lake: Lake) -> None:
    assert "the declared schema and the table have the same columns" in [each.detail for each in told(lake, *FIELDS)]


def test_new_columns_and_those_that_are_not_declared_are_named(lake: Lake) -> None:
    found = told(lake, *FIELDS[:2], {"name": "more", "type": "string"})
    assert ("ok", "the schema declares columns that the table does not have yet: more") in [
        (each.verdict, each.detail) for each in found
    ]
    assert ("warn", "the table has columns that the schema does not declare: event") in [
        (each.verdict, each.detail) for each in found
    ]


def test_a_type_that_does_not_fit_fails(lake: Lake) -> None:
    found = told(lake, {"name": "id", "type": "string"}, *FIELDS[1:])
    assert [each.verdict for each in found if "'id'" in each.detail] == ["fail"]
