"""What a Python function that serves as a source is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tidegate.watermarks.row_filter import RowFilter


@dataclass(frozen=True, slots=True)
class FunctionRequest:
    """The rows that are wanted, in several forms: the function may use any of them, or none.

    ``rows`` has the bounds per column as values, ``predicate`` the same as a condition in Spark SQL (None: every row).
    Rows that do not match are left out afterwards in any case. ``now`` is the moment of the run.
    """

    columns: tuple[str, ...]
    rows: RowFilter
    predicate: str | None
    now: datetime
    options: Mapping[str, str] = field(default_factory=dict)
