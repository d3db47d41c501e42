"""What cannot be read says so before anything is asked."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tidegate.column_specs import ColumnSource, TableFormat, TableRead
from tidegate.errors import EnvironmentProblem
from tidegate.locations import Location
from tidegate.spark.readers.opening import open_reader
from tidegate.specs import SchemaSpec


def test_iceberg_is_refused_with_a_way_around_it() -> None:
    source = ColumnSource("orders", TableRead(TableFormat.ICEBERG, Location("file:///lake/orders")), ("id",))
    session: Any = None
    with pytest.raises(EnvironmentProblem, match=r"orders: Iceberg has no runtime yet.*type: python"):
        open_reader(session, source, SchemaSpec(), datetime(2026, 6, 1, tzinfo=UTC))
