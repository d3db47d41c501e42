"""``Connection.date_backward`` reads look-back from a connection's ``configure``."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tidegate.core.columns.look_back import Connection
from tidegate.specs.columns import LookBack


@pytest.mark.parametrize(
    ("configure", "found"),
    [
        ({}, LookBack()),
        ({"backward_days": 7}, LookBack(days=7)),
        ({"backward": {"days": 7, "months": 1, "closing_day": 25}}, LookBack(days=7, months=1, closing_day=25)),
        ({"backward_days": 3, "backward_hours": 2, "backward": {"days": 7}}, LookBack(days=7, hours=2)),
        ({"backward": {"value": Decimal("0.5")}}, LookBack(value=Decimal("0.5"))),
        ({"backward_days": 1, "timezone": "Asia/Tokyo"}, LookBack(days=1, timezone="Asia/Tokyo")),
        ({"backward_days": 0, "driver": "org.Driver"}, LookBack()),
    ],
)
def test_look_back_of_a_connection(configure: dict[str, object], found: LookBack) -> None:
    assert Connection("shop", configure).date_backward == found


@pytest.mark.parametrize("configure", [{"backward": {"dais": 7}}, {"backward_days": -1}, {"timezone": "nowhere"}])
def test_what_cannot_be_understood_is_an_error(configure: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"dais|days|nowhere"):
        _ = Connection("shop", configure).date_backward
