"""What one response shows about an API: its records, and the fields that may grow."""

from __future__ import annotations

import doctest
from typing import Any

import pytest

from support.errors import raises
from tidegate.errors import ConfigError
from tidegate.sources.http import envelope, survey
from tidegate.sources.http.survey import growing_fields, locate_records

ONE = [{"id": 1}]


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (ONE, ""),
        ([], ""),
        ({"data": ONE}, "data"),
        ({"orders": ONE, "total": 1}, "orders"),
        ({"data": [], "meta": {}}, "data"),
        ({"response": {"docs": ONE, "numFound": 1}}, "response.docs"),
        ({"hits": {"total": {"value": 1}, "hits": ONE}}, "hits.hits"),
        ({"results": ONE, "facets": [{"name": "a"}]}, "results"),
        ({"columns": [{"name": "id"}], "rows": ONE}, "rows"),
        ({"items": [], "tags": ["a"]}, "items"),
        ({"link": [{"relation": "self", "url": "/"}], "entry": ONE}, "entry"),
        ({"data": ONE, "included": [{"id": 2}]}, "data"),
    ],
    ids=str,
)
def test_where_the_records_are(body: Any, place: str) -> None:
    assert locate_records(body, "https://api") == place


@pytest.mark.parametrize(
    "body",
    [
        {},
        None,
        7,
        {"data": {"id": 1}, "included": [{"id": 2}]},
        {"men": ONE, "women": ONE},
        {"data": ["a", "b"]},
        {"data": [{"id": 1}, None]},
        {"hourly": {"time": [1, 2], "rain": [0, 1]}},
        [1, 2],
    ],
    ids=str,
)
def test_what_has_no_records_is_refused(body: Any) -> None:
    with raises(ConfigError, "https://api"):
        locate_records(body, "https://api")


AT = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("records", "fields"),
    [
        ([{"id": 1, "created_at": AT, "updated_at": AT}], ["updated_at", "created_at", "id"]),
        ([{"updatedAt": 1767225600}], ["updatedAt"]),
        ([{"updated_at": AT}, {"updated_at": None}], []),
        ([{"updated_at": AT}, {"name": "x"}], []),
        ([{"updated_at": AT}, {"updated_at": "2026-01-01T01:00:00+01:00"}], []),
        ([{"updated_at": AT}, {"updated_at": "2026-01-01T00:00:00.5Z"}], []),
        ([{"updated_on": "2026-01-01"}], []),
        ([{"id": 1}, {"id": 1}], []),
        ([{"id": "a"}], []),
        ([], []),
    ],
    ids=str,
)
def test_fields_that_may_grow(records: list[dict[str, Any]], fields: list[str]) -> None:
    assert list(growing_fields(records)) == fields


@pytest.mark.parametrize("module", [envelope, survey])
def test_examples(module: Any) -> None:
    result = doctest.testmod(module)
    assert (result.failed, result.attempted > 0) == (0, True)
