"""The state of a column source: how it advances, and its text and JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tidegate.core.columns.state import ColumnState, decode_columns, encode_columns
from tidegate.core.json_shape import is_newer
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
    advanced = ColumnState(stored).advanced(seen, NOW)
    assert (dict(advanced.values), advanced.updated) == (expected, NOW)


@pytest.mark.parametrize(("seen", "left"), [(9, set()), (5, set()), (4, {"a"}), (None, {"a"})])
def test_a_column_is_inclusive_until_a_row_at_its_value_was_read(seen: int | None, left: set[str]) -> None:
    advanced = ColumnState({"a": 5, "b": 1}, frozenset({"a"})).advanced({"a": seen, "b": 2}, NOW)
    assert advanced.inclusive == left


def test_a_changed_type_names_the_column() -> None:
    with pytest.raises(WatermarkError, match=r"watermark column 'a': 9 \(text\) and 10 \(a whole number\)"):
        ColumnState({"a": 10}).advanced({"a": "9"}, NOW)
    with pytest.raises(WatermarkError, match="watermark column 'b'"):
        ColumnState({"a": 1, "b": 10}).advanced_cursor(("a", "b"), {"a": 1, "b": "9"}, NOW)


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
    advanced = state.advanced_cursor(("a", "b"), dict(zip("ab", seen, strict=True)), NOW)
    assert tuple(advanced.values.values()) == expected
    assert advanced.inclusive == set(left)


def test_a_state_comes_back_from_its_text() -> None:
    state = ColumnState({"b": NOW, "a": None}, frozenset({"b"}), NOW)
    assert state.text() == '{"__inclusive__": ["b"], "a": null, "b": {"__datetime__": "2026-03-08T12:00:00+00:00"}}'
    assert ColumnState.of_text(state.text(), NOW) == state
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
    with pytest.raises(StateError, match="not one of watermark columns"):
        decode_columns({"schema_version": 1, "watermark": {"state": "Initial"}})


def test_a_newer_state_is_known_to_be_newer() -> None:
    assert is_newer({"schema_version": 2})
    assert not is_newer(encode_columns(ColumnState()))


def test_a_state_follows_the_spelling_of_the_configuration() -> None:
    state = ColumnState({"AT": 1, "id": 2, "x": 3}, frozenset({"AT"}))
    assert state.spelled(("At", "id")) == ColumnState({"At": 1, "id": 2, "x": 3}, frozenset({"At"}))
    assert state.spelled(("AT", "at")) == state
