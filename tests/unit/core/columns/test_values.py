"""Values of watermark columns: kinds, and which of two is the greater."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal

import pytest

from tidegate.core.columns.values import greatest, is_above, kind_of
from tidegate.errors import WatermarkError
from tidegate.specs.columns import Value

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
    with pytest.raises(WatermarkError, match="cannot be a watermark"):
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
        with pytest.raises(WatermarkError, match="cannot be compared") as caught:
            is_above(*pair)
        assert "tidegate watermark set" in caught.value.remedy


@pytest.mark.parametrize("value", [float("nan"), float("inf"), Decimal("NaN"), Decimal("-Infinity")])
def test_what_is_no_number_is_never_compared(value: Value) -> None:
    with pytest.raises(WatermarkError, match="cannot be compared"):
        greatest(1, value)
