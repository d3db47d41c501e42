"""The row predicate: every row of its table, and what ties, caps, nulls and cursors make of it."""

from __future__ import annotations

import pytest

from tidegate.core.columns.predicates import (
    Bound,
    ColumnRange,
    RowFilter,
    SourceRuntime,
    matches,
    null_predicate,
    predicate,
    rename_columns,
    window_of,
)
from tidegate.core.dialects.dialect import SPARK, Dialect
from tidegate.core.dialects.registry import DIALECTS
from tidegate.specs.columns import NullWatermark, Value, WatermarkMode

A, B = ColumnRange("a", Bound(1)), ColumnRange("b", Bound(2))
CAPS = {"a": Bound(7, inclusive=True), "b": Bound(9, inclusive=True)}
INCLUDE = NullWatermark.INCLUDE
CURSOR = RowFilter((A, B), WatermarkMode.TUPLE)


def plain(rows: RowFilter) -> str | None:
    """The predicate without the quotes around names."""
    text = predicate(rows, Dialect())
    return None if text is None else text.replace('"', "")


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (RowFilter((ColumnRange("u", Bound(5)),)), "u > 5"),
        (RowFilter((ColumnRange("u", Bound(5, inclusive=True), Bound(9)),)), "u >= 5 AND u < 9"),
        (RowFilter((A, B), extra="f"), "(a > 1 OR b > 2) AND (f)"),
        (
            RowFilter((A, B), extra="f").capped(CAPS),
            "(a > 1 OR b > 2) AND (a <= 7 OR a IS NULL) AND (b <= 9 OR b IS NULL) AND (f)",
        ),
        (RowFilter((A, ColumnRange("b", any_value=True))), "a > 1 OR b IS NOT NULL"),
        (RowFilter((ColumnRange("a"), ColumnRange("b"))), None),
        (RowFilter(), None),
    ],
)
def test_the_table_of_predicates(rows: RowFilter, text: str | None) -> None:
    assert plain(rows) == text


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (RowFilter(extra="f"), "(f)"),
        (RowFilter(extra="f -- why"), "(f -- why\n)"),
        (RowFilter((ColumnRange("u", Bound(5)),), extra="a = 1 OR b = 2"), "u > 5 AND (a = 1 OR b = 2)"),
        (RowFilter((ColumnRange("u", Bound(5), Bound(9, inclusive=True)),)), "u > 5 AND u <= 9"),
        (RowFilter((ColumnRange("u", None, Bound(9, inclusive=True)),)), "u <= 9"),
        (
            RowFilter((ColumnRange("a"), ColumnRange("b"))).capped(CAPS),
            "(a IS NOT NULL OR b IS NOT NULL) AND (a <= 7 OR a IS NULL) AND (b <= 9 OR b IS NULL)",
        ),
        (
            RowFilter((ColumnRange("a"), ColumnRange("b")), nulls=INCLUDE).capped(CAPS),
            "(a <= 7 OR a IS NULL) AND (b <= 9 OR b IS NULL)",
        ),
        (RowFilter((A, B), nulls=INCLUDE), "a > 1 OR b > 2 OR (a IS NULL AND b IS NULL)"),
        (RowFilter((A,), nulls=INCLUDE), "a > 1 OR a IS NULL"),
        (RowFilter((A,), nulls=INCLUDE).capped(CAPS), "(a > 1 OR a IS NULL) AND (a <= 7 OR a IS NULL)"),
        (
            RowFilter((A, ColumnRange("b", any_value=True, only_null=True))).capped({"a": CAPS["a"]}),
            "(a > 1 OR b IS NOT NULL) AND (a <= 7 OR a IS NULL) AND b IS NULL",
        ),
        (CURSOR, "(a >= 1 AND (a > 1 OR (a = 1 AND b > 2))) AND b IS NOT NULL"),
        (
            CURSOR.capped(CAPS),
            "(a >= 1 AND (a > 1 OR (a = 1 AND b > 2))) AND b IS NOT NULL"
            " AND (a <= 7 AND (a < 7 OR (a = 7 AND b <= 9)))",
        ),
        (
            RowFilter((ColumnRange("a", Bound(1, inclusive=True)), ColumnRange("b")), WatermarkMode.TUPLE),
            "a >= 1 AND b IS NOT NULL",
        ),
        (RowFilter((ColumnRange("a"), ColumnRange("b")), WatermarkMode.TUPLE), None),
        (
            RowFilter((A, B), WatermarkMode.TUPLE, INCLUDE),
            "(a >= 1 AND (a > 1 OR (a = 1 AND b > 2))) OR a IS NULL OR b IS NULL",
        ),
        (
            RowFilter((*CURSOR.ranges, ColumnRange("c", Bound(3))), WatermarkMode.TUPLE),
            "(a >= 1 AND (a > 1 OR (a = 1 AND (b > 2 OR (b = 2 AND c > 3))))) AND b IS NOT NULL AND c IS NOT NULL",
        ),
    ],
)
def test_other_predicates(rows: RowFilter, text: str | None) -> None:
    assert plain(rows) == text


def test_names_are_quoted_and_text_is_escaped_for_the_database() -> None:
    rows = RowFilter((ColumnRange('a" OR 1=1', Bound("x' OR '1'='1")),))
    assert predicate(rows, Dialect()) == "\"a\"\" OR 1=1\" > 'x'' OR ''1''=''1'"


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        (DIALECTS["postgresql"], """CAST("u" AS TEXT) COLLATE "C" > 'a'"""),
        (DIALECTS["mysql"], "CAST(CONVERT(`u` USING utf8mb4) AS BINARY) > 'a'"),
        (DIALECTS["sqlserver"], "CAST([u] AS NVARCHAR(MAX)) COLLATE Latin1_General_100_BIN2 > N'a'"),
        (DIALECTS["sqlite"], """"u" COLLATE BINARY > 'a'"""),
        (SPARK, "`u` > 'a'"),
    ],
)
def test_text_is_compared_by_its_characters_whatever_language_the_database_has(dialect: Dialect, text: str) -> None:
    assert predicate(RowFilter((ColumnRange("u", Bound("a")),)), dialect) == text


def test_a_uuid_is_compared_as_it_is() -> None:
    value = "01926abc-0000-7000-8000-000000000000"
    assert predicate(RowFilter((ColumnRange("u", Bound(value)),)), DIALECTS["postgresql"]) == f"\"u\" > '{value}'"


@pytest.mark.parametrize(
    ("rows", "row", "expected"),
    [
        (RowFilter((A,)), {"a": 1}, False),
        (RowFilter((A,)), {"a": 2}, True),
        (RowFilter((A,)), {"a": None}, False),
        (RowFilter((A,), nulls=INCLUDE), {"a": None}, True),
        (RowFilter((ColumnRange("a", Bound(1, inclusive=True), Bound(9)),)), {"a": 1}, True),
        (RowFilter((ColumnRange("a", Bound(1, inclusive=True), Bound(9)),)), {"a": 9}, False),
        (RowFilter((A, B)).capped(CAPS), {"a": 5, "b": 10}, False),
        (RowFilter((A, B)).capped(CAPS), {"a": 5, "b": None}, True),
        (RowFilter((A, B)).capped(CAPS), {"a": 0, "b": 9}, True),
        (RowFilter((A, B)).capped(CAPS), {"a": 1, "b": 2}, False),
        (RowFilter((A, ColumnRange("b", any_value=True))), {"a": 0, "b": 0}, True),
        (RowFilter((A, ColumnRange("b", any_value=True))), {"a": 0, "b": None}, False),
        (RowFilter((A, ColumnRange("b", any_value=True, only_null=True))), {"a": 5, "b": 1}, False),
        (RowFilter((ColumnRange("a"),)), {"a": None}, True),
        (RowFilter(), {"a": None}, True),
        (CURSOR, {"a": 1, "b": 2}, False),
        (CURSOR, {"a": 1, "b": 3}, True),
        (CURSOR, {"a": 2, "b": 0}, True),
        (CURSOR, {"a": 2, "b": None}, False),
        (CURSOR.capped(CAPS), {"a": 7, "b": 9}, True),
        (CURSOR.capped(CAPS), {"a": 7, "b": 10}, False),
        (CURSOR.capped(CAPS), {"a": 6, "b": 10}, True),
    ],
)
def test_the_same_by_hand(rows: RowFilter, row: dict[str, Value | None], expected: bool) -> None:
    assert matches(rows, row) is expected


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (RowFilter((A, B)), '"a" IS NULL AND "b" IS NULL'),
        (RowFilter((A, B), extra="f"), '("a" IS NULL AND "b" IS NULL) AND (f)'),
        (RowFilter((A,), extra="f"), '"a" IS NULL AND (f)'),
        (CURSOR, '"a" IS NULL OR "b" IS NULL'),
        (RowFilter(), None),
    ],
)
def test_rows_without_a_watermark_can_be_counted(rows: RowFilter, text: str | None) -> None:
    assert null_predicate(rows, Dialect()) == text


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
