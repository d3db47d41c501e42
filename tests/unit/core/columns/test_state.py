"""The state of a column source: how it advances, and its text and JSON."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from support.errors import raises
from tidegate.core.columns.state import (
    ColumnState,
    decode_columns,
    encode_columns,
    greatest,
    is_above,
    kind_of,
    value_of,
)
from tidegate.core.json_shape import is_newer
from tidegate.core.watermark_text import INCLUSIVE, WatermarkSerializer, is_watermark_empty, without_inclusive
from tidegate.errors import StateError, WatermarkError
from tidegate.specs.columns import Value

NOW = datetime(2026, 3, 8, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("stored", "seen", "expected"),
    [
        ({}, {"a": 5}, {"a": 5}),
        ({"a": 5}, {"a": 9}, {"a": 9}),
        ({"a": 9}, {"a": 5}, {"a": 9}),
        ({"a": 9}, {"a": None}, {"a": 9}),
        ({"a": 9}, {}, {"a": 9}),
        ({"a": 9}, {"b": None}, {"a": 9, "b": None}),
        ({"a": None}, {"a": 0}, {"a": 0}),
        ({"a": 1, "b": 2}, {"a": 0, "b": 3}, {"a": 1, "b": 3}),
    ],
)
def test_a_watermark_never_goes_backwards_and_null_replaces_nothing(
    stored: dict[str, Value | None], seen: dict[str, Value | None], expected: dict[str, Value | None]
) -> None:
    advanced = ColumnState(stored).advance(seen, NOW)
    assert (dict(advanced.values), advanced.updated) == (expected, NOW)


@pytest.mark.parametrize(("seen", "left"), [(9, set()), (5, set()), (4, {"a"}), (None, {"a"})])
def test_a_column_is_inclusive_until_a_row_at_its_value_was_read(seen: int | None, left: set[str]) -> None:
    advanced = ColumnState({"a": 5, "b": 1}, frozenset({"a"})).advance({"a": seen, "b": 2}, NOW)
    assert advanced.inclusive == left


def test_a_changed_type_names_the_column() -> None:
    with raises(WatermarkError, "'a'", "9 (text)", "10 (a whole number)"):
        ColumnState({"a": 10}).advance({"a": "9"}, NOW)
    with raises(WatermarkError, "'b'", "10 (a whole number)", "9 (text)"):
        ColumnState({"a": 1, "b": 10}).advance_cursor(("a", "b"), {"a": 1, "b": "9"}, NOW)


@pytest.mark.parametrize(
    ("stored", "inclusive", "seen", "expected", "left"),
    [
        ((5, 7), (), (5, 8), (5, 8), ()),
        ((5, 7), (), (5, 6), (5, 7), ()),
        ((5, 7), (), (6, 1), (6, 1), ()),
        ((5, 7), (), (4, 9), (5, 7), ()),
        ((5, 7), (), (None, None), (5, 7), ()),
        ((5, 900), ("a",), (5, 1), (5, 1), ()),
        ((5, 900), ("a",), (4, 1), (5, 900), ("a",)),
        ((5, None), (), (5, 1), (5, 1), ()),
        ((None, None), (), (5, 1), (5, 1), ()),
    ],
)
def test_a_cursor_moves_as_a_whole(
    stored: tuple[int, ...],
    inclusive: tuple[str, ...],
    seen: tuple[int, ...],
    expected: tuple[int, ...],
    left: tuple[str, ...],
) -> None:
    state = ColumnState(dict(zip("ab", stored, strict=True)), frozenset(inclusive))
    advanced = state.advance_cursor(("a", "b"), dict(zip("ab", seen, strict=True)), NOW)
    assert tuple(advanced.values.values()) == expected
    assert advanced.inclusive == set(left)


def test_a_state_comes_back_from_its_text() -> None:
    state = ColumnState({"b": NOW, "a": None}, frozenset({"b"}), NOW)
    assert (
        state.serialize() == '{"__inclusive__": ["b"], "a": null, "b": {"__datetime__": "2026-03-08T12:00:00+00:00"}}'
    )
    assert ColumnState.of_text(state.serialize(), NOW) == state
    assert ColumnState.of_text(None) == ColumnState()


def test_an_inclusive_column_without_a_value_is_forgotten() -> None:
    assert ColumnState.of_text('{"__inclusive__": ["b"], "a": 1}').inclusive == frozenset()


@pytest.mark.parametrize("text", ['{"a": [1]}', '{"a": {"b": 1}}', "{oops"])
def test_a_text_that_is_not_one_value_per_column_is_refused(text: str) -> None:
    with pytest.raises(WatermarkError):
        ColumnState.of_text(text)


def test_a_state_comes_back_from_its_json() -> None:
    state = ColumnState({"a": 5}, frozenset({"a"}), NOW)
    encoded = encode_columns(state)
    assert encoded == {
        "schema_version": 1,
        "kind": "column",
        "watermark": '{"__inclusive__": ["a"], "a": 5}',
        "update_ts": 1772971200,
    }
    assert decode_columns(encoded) == state
    assert decode_columns(encode_columns(ColumnState())) == ColumnState()
    assert decode_columns({}) == ColumnState()


@pytest.mark.parametrize(
    "changed",
    [
        {"schema_version": 2},
        {"kind": "path"},
        {"kind": None},
        {"watermark": "{oops"},
        {"watermark": {"a": 5}},
        {"update_ts": "now"},
        {"update_ts": 10**18},
        {"more": 1},
    ],
)
def test_a_damaged_state_is_an_error(changed: dict[str, Any]) -> None:
    with pytest.raises(StateError):
        decode_columns({**encode_columns(ColumnState({"a": 5})), **changed})


def test_a_state_of_another_kind_is_an_error() -> None:
    with raises(StateError, "watermark columns"):
        decode_columns({"schema_version": 1, "watermark": {"state": "Initial"}})


def test_a_newer_state_is_known_to_be_newer() -> None:
    assert is_newer({"schema_version": 2})
    assert not is_newer(encode_columns(ColumnState()))


def test_a_state_follows_the_spelling_of_the_configuration() -> None:
    state = ColumnState({"AT": 1, "id": 2, "x": 3}, frozenset({"AT"}))
    assert state.respell(("At", "id")) == ColumnState({"At": 1, "id": 2, "x": 3}, frozenset({"At"}))
    assert state.respell(("AT", "at")) == state


MOMENT = datetime(2026, 4, 3, 9, 15, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, "bool"),
        (1, "int"),
        (1.5, "float"),
        (Decimal("1.5"), "decimal"),
        ("a", "text"),
        (MOMENT, "datetime"),
        (MOMENT.replace(tzinfo=None), "datetime_naive"),
        (MOMENT.date(), "date"),
        (MOMENT.time(), "time"),
    ],
)
def test_every_value_has_a_kind(value: Value, kind: str) -> None:
    assert kind_of(value) == kind


def test_another_object_has_no_kind() -> None:
    with raises(WatermarkError, "watermark", "numbers, text, dates or times"):
        kind_of([1])  # type: ignore[arg-type]  # on purpose


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (None, None, None),
        (None, 5, 5),
        (5, None, 5),
        (5, 9, 9),
        (9, 5, 9),
        (10, Decimal("9.99"), 10),
        (Decimal("9.99"), 10.0, 10.0),
        (0, None, 0),
        ("", None, ""),
        ("a", "b", "b"),
        (time(9), time(10), time(10)),
        (False, True, True),
        (date(2026, 1, 1), date(2026, 1, 2), date(2026, 1, 2)),
        (Decimal("12345678901234567890.1"), Decimal("12345678901234567890.2"), Decimal("12345678901234567890.2")),
        (2**53, 2**53 + 1, 2**53 + 1),
        (float(2**53), 2**53 + 1, 2**53 + 1),
    ],
)
def test_the_greater_of_two(one: Value | None, other: Value | None, expected: Value | None) -> None:
    assert greatest(one, other) == expected


def test_of_equal_values_the_first_stays() -> None:
    assert str(greatest(Decimal("1.0"), 1)) == "1.0"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (9, "10"),
        (MOMENT, MOMENT.replace(tzinfo=None)),
        (MOMENT.date(), MOMENT),
        (MOMENT.time(), MOMENT),
        (True, 1),
        (1, MOMENT),
    ],
)
def test_values_of_different_kinds_are_never_compared(one: Value, other: Value) -> None:
    for pair in ((one, other), (other, one)):
        with raises(WatermarkError, "tidegate watermark set", "compared") as caught:
            is_above(*pair)
        assert "tidegate watermark set" in caught.value.remedy


@pytest.mark.parametrize("value", [float("nan"), float("inf"), Decimal("NaN"), Decimal("-Infinity")])
def test_what_is_no_number_is_never_compared(value: Value) -> None:
    with raises(WatermarkError, "compared"):
        greatest(1, value)


NAIVE = datetime(2026, 4, 3, 9, 15)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("-5", -5),
        ("10.50", Decimal("10.50")),
        ("2026-04-03", date(2026, 4, 3)),
        ("2026-04-03T09:15", NAIVE),
        ("2026-04-03 09:15:00.5", NAIVE.replace(microsecond=500_000)),
        ("2026-04-03T09:15:00Z", NAIVE.replace(tzinfo=UTC)),
        ("2026-04-03T09:15Z", NAIVE.replace(tzinfo=UTC)),
        ("2026-04-03 09:15:00+07:00", NAIVE.replace(tzinfo=timezone(timedelta(hours=7)))),
        ("abc", "abc"),
        ("2026-04", "2026-04"),
        ("", ""),
    ],
)
def test_a_text_is_what_it_looks_like(text: str, value: Value) -> None:
    found = value_of(text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "like", "value"),
    [
        ("5", 1, 5),
        ("5", 1.5, 5.0),
        ("5", Decimal(1), Decimal(5)),
        ("5", "text", "5"),
        (" 5 ", "text", " 5 "),
        (" 5 ", 1, 5),
        ("2026-04-03", date.min, date(2026, 4, 3)),
        ("2026-04-03", datetime.min, datetime(2026, 4, 3)),
        ("2026-04-03T09:15:00+00:00", NAIVE.replace(tzinfo=UTC), NAIVE.replace(tzinfo=UTC)),
        ("09:15", time(), time(9, 15)),
        ("True", False, True),
    ],
)
def test_a_text_becomes_a_value_of_the_kind_of_another(text: str, like: Value, value: Value) -> None:
    found = value_of(text, like)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "like"),
    [
        ("abc", 1),
        ("1.5", 1),
        ("nan", 1.5),
        ("NaN", Decimal(1)),
        ("abc", Decimal(1)),
        ("yes", True),
        ("2026-04-03T09:15:00", NAIVE.replace(tzinfo=UTC)),
        ("2026-04-03T09:15:00Z", NAIVE),
        ("2026-04-03T09:15:00", date.min),
        ("2026-02-30", date.min),
        ("2026-02-30", None),
        ("2026-02-30T09:15", None),
    ],
)
def test_what_is_no_such_value_is_refused(text: str, like: Value | None) -> None:
    with raises(WatermarkError, "2026-04-03T09:15:00+00:00"):
        value_of(text, like)


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
