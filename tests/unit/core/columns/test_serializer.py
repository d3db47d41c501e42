"""Watermarks as text: every row of the table of the serialisation."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from tidegate.core.columns.values import INCLUSIVE, WatermarkSerializer, is_watermark_empty, without_inclusive
from tidegate.errors import WatermarkError

serialize = WatermarkSerializer.serialize
deserialize = WatermarkSerializer.deserialize


@pytest.mark.parametrize(
    ("watermark", "text"),
    [
        (
            {"updated_at": datetime(2026, 4, 3, 9, 15, tzinfo=UTC)},
            '{"updated_at": {"__datetime__": "2026-04-03T09:15:00+00:00"}}',
        ),
        (
            {"u": datetime(2026, 4, 3, 9, 15, tzinfo=timezone(timedelta(hours=7)))},
            '{"u": {"__datetime__": "2026-04-03T09:15:00+07:00"}}',
        ),
        ({"u": datetime(2026, 4, 3, 9, 15, 0, 123)}, '{"u": {"__datetime__": "2026-04-03T09:15:00.000123"}}'),
        ({"b": 1, "a": 2}, '{"a": 2, "b": 1}'),
        ({"u": date(2026, 4, 3)}, '{"u": {"__date__": "2026-04-03"}}'),
        ({"u": time(9, 15)}, '{"u": {"__time__": "09:15:00"}}'),
        ({"u": Decimal("10.50")}, '{"u": {"__decimal__": "10.50"}}'),
        ({"u": None, "v": 1.5, "w": "text", "x": True}, '{"u": null, "v": 1.5, "w": "text", "x": true}'),
        ({"u": [{"v": [date(2026, 4, 3)]}]}, '{"u": [{"v": [{"__date__": "2026-04-03"}]}]}'),
        ({"u": 1, INCLUSIVE: ["u"]}, '{"__inclusive__": ["u"], "u": 1}'),
    ],
)
def test_a_watermark_has_this_text_and_comes_back_from_it(watermark: dict[str, Any], text: str) -> None:
    assert serialize(watermark) == text
    back = deserialize(text)
    assert back == watermark
    assert str(back) == str(dict(sorted(watermark.items())))


def test_the_offset_is_kept() -> None:
    moment = datetime(2026, 4, 3, 9, 15, tzinfo=timezone(timedelta(hours=7)))
    back = deserialize(serialize({"u": moment}))
    assert back is not None
    assert back["u"].utcoffset() == timedelta(hours=7)


class Text(str):
    """Something that would not come back as what it was."""


@pytest.mark.parametrize(
    "watermark",
    [
        {"u": float("nan")},
        {"u": float("inf")},
        {"u": Decimal("NaN")},
        {"u": Decimal("Infinity")},
        {1: 2},
        {"u": {1: 2}},
        {"u": {"__datetime__": "2026-04-03"}},
        {"__decimal__": "1"},
        {"u": {"__date__": 1, "other": 2}},
        {"u": object()},
        {"u": (1, 2)},
        {"u": {1, 2}},
        {"u": b"bytes"},
        {"u": Text("text")},
        {"u": [float("-inf")]},
        {"u": 10**5000},
        {INCLUSIVE: "u"},
        {INCLUSIVE: [1]},
        [1],
        None,
    ],
)
def test_what_would_not_come_back_is_refused_on_save(watermark: Any) -> None:
    with pytest.raises(WatermarkError):
        serialize(watermark)


@pytest.mark.parametrize("text", [None, "", "  \n", "null", "None", "{}", " null ", " {} "])
def test_an_empty_text_is_no_watermark(text: str | None) -> None:
    assert deserialize(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "{oops",
        "[1]",
        "1",
        '"text"',
        "none",
        '{"u": {"__datetime__": "yesterday"}}',
        '{"u": {"__datetime__": 5}}',
        '{"u": {"__datetime__": null}}',
        '{"u": {"__datetime__": "2026-04-03T09:15:00", "zone": "UTC"}}',
        '{"u": {"__date__": "2026-02-30"}}',
        '{"u": {"__time__": "25:00"}}',
        '{"u": {"__decimal__": "ten"}}',
        '{"u": {"__decimal__": "NaN"}}',
        '{"__datetime__": "2026-04-03T09:15:00"}',
        '{"u": NaN}',
        '{"u": -Infinity}',
        '{"u": 1e999}',
        '{"u": 1, "u": 2}',
        '{"__inclusive__": "u"}',
        '{"u": 1} and more',
        f'{{"u": {"9" * 5000}}}',
        f'{{"u": {"[" * 5000}',
    ],
)
def test_a_damaged_text_is_an_error_and_never_a_first_run(text: str) -> None:
    with pytest.raises(WatermarkError) as caught:
        deserialize(text)
    assert "not taken for a first run" in caught.value.remedy


def test_equal_watermarks_have_equal_text() -> None:
    assert serialize({"b": 1, "a": {"d": 1, "c": 2}}) == serialize({"a": {"c": 2, "d": 1}, "b": 1})


def test_the_text_is_plain_json() -> None:
    assert json.loads(serialize({"größe": "ü"})) == {"größe": "ü"}


@pytest.mark.parametrize(
    "watermark", [None, {}, {"a": None, "b": None}, {INCLUSIVE: ["a"]}, {"a": None, INCLUSIVE: []}]
)
def test_a_watermark_without_values_is_empty(watermark: dict[str, Any] | None) -> None:
    assert is_watermark_empty(watermark)


@pytest.mark.parametrize("watermark", [{"a": None, "b": 1}, {"b": 0}, {"a": ""}, {"a": False}])
def test_a_watermark_with_any_value_is_not_empty(watermark: dict[str, Any]) -> None:
    assert not is_watermark_empty(watermark)


def test_the_reserved_key_is_taken_apart() -> None:
    assert without_inclusive({"a": 1, INCLUSIVE: ["a"]}) == ({"a": 1}, frozenset({"a"}))
    assert without_inclusive({"a": 1}) == ({"a": 1}, frozenset())
