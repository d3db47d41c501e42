"""Values that people write."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal

import pytest

from tidegate.core.columns.values import value_of
from tidegate.errors import WatermarkError
from tidegate.specs.columns import Value

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
    with pytest.raises(WatermarkError, match="is not a"):
        value_of(text, like)
