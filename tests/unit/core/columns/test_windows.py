"""The window of a read: lower and upper bound by column."""

from __future__ import annotations

from tidegate.core.columns.predicates import Bound, ColumnRange, RowFilter, SourceRuntime, rename_columns, window_of

RUNTIME = SourceRuntime({"u": 10}, {"u": 3}, {"u": 12})


def test_the_window_goes_from_the_effective_watermark_to_the_new_one() -> None:
    assert window_of(RUNTIME, replace_by_watermark=True) == {"u": (3, 12)}


def test_without_replacement_there_is_no_window() -> None:
    assert window_of(RUNTIME, replace_by_watermark=False) is None


def test_with_a_bound_missing_there_is_no_window() -> None:
    for runtime in (
        SourceRuntime(),
        SourceRuntime(None, {"u": 3}, {"u": 12}),
        SourceRuntime({"u": 10}, None, {"u": 12}),
        SourceRuntime({"u": 10}, {"u": 3}, None),
        SourceRuntime({"u": 10}, {"u": None}, {"u": 12}),
        SourceRuntime({"u": 10}, {"u": 3}, {"u": None}),
    ):
        assert window_of(runtime, replace_by_watermark=True) is None


def test_only_columns_with_both_bounds_are_in_the_window() -> None:
    runtime = SourceRuntime({"a": 1, "b": None}, {"a": 1, "b": None}, {"a": 2, "b": 5})
    assert window_of(runtime, replace_by_watermark=True) == {"a": (1, 2)}


def test_a_column_may_have_another_name_in_the_table() -> None:
    rows = RowFilter((ColumnRange("a", Bound(1)), ColumnRange("b", Bound(2))))
    assert rename_columns(rows, {"a": "day"}).columns == ("day", "b")
