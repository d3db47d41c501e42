"""The port of column sources: who reads them, and what is asked before and after.

A read is capped: databases and tables are asked for their greatest values first, then for the rows up to them. Where a
source cannot be asked, what one read brought tells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from tidegate.column_specs import Value
from tidegate.watermarks.row_filter import RowFilter


@dataclass(frozen=True, slots=True)
class Seen:
    """The greatest value per watermark column; None where every row has null.

    ``nulls`` counts the rows that have null in every watermark column (in a cursor: in any).
    """

    values: Mapping[str, Value | None] = field(default_factory=dict)
    nulls: int = 0


class Reader(Protocol):
    """Reads one column source. Both questions are about the same state of the source where it has states.

    ``fixed_first``: :meth:`greatest` is asked before the read. Otherwise the batch that :meth:`read` brings tells.
    """

    @property
    def fixed_first(self) -> bool:
        """Whether the source itself knows its greatest values."""

    def greatest(self, rows: RowFilter) -> Seen:
        """The greatest values among the rows that match, by one aggregate; of a cursor the greatest tuple.

        Rows with null in every watermark column are counted, whatever ``rows.nulls`` says.
        """

    def read(self, rows: RowFilter) -> Any:
        """The rows that match, as a Spark DataFrame with the columns of the source."""


@runtime_checkable
class Typed(Protocol):
    """A reader that knows the kinds of its columns before anything is read."""

    def kinds(self, columns: Sequence[str]) -> Mapping[str, str]:
        """``datetime``, ``datetime_naive`` or ``date`` for columns of times; other columns are left out."""


@runtime_checkable
class Bounded(Protocol):
    """A reader whose source is told where to end: the upper bounds are fixed before anything is asked."""

    def upper(self, now: datetime) -> Mapping[str, Value]:
        """The greatest values that are asked for, by column; nothing where none is sent."""
