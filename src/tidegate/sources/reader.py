"""The port of column sources, and what a Python function that serves as a source is asked for.

A read is capped: databases and tables are asked for their greatest values first, then for the rows up to them. Where a
source cannot be asked, the rows of one read give the cap.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeVar, runtime_checkable
from urllib.parse import urlsplit

from tidegate.core.columns.predicates import RowFilter, SqlDialect, dialect_of, predicate
from tidegate.errors import SourceError
from tidegate.sources.http.bounds import describe
from tidegate.specs.columns import ColumnSource, FunctionRead, HttpRead, JdbcRead, TableRead, Value
from tidegate.specs.locations import Secret
from tidegate.specs.user_code import call

Address = tuple[str, int]

_PORTS = {"postgresql": 5432, "redshift": 5439, "mysql": 3306, "mariadb": 3306, "sqlserver": 1433, "oracle": 1521}
_HOST = r"(\[[0-9A-Fa-f:.]+\]|[^\[\]/:;,?@\\()=\s]+)"
_PLACES = re.compile(rf"{_HOST}(?:\\[^:;/,?]*)?(?::(\d+))?(?=$|[/:;,?])")


def address_of(source: ColumnSource) -> Address | None:
    """Host and port of a source; None where it has none, or where its address has a form that we do not know."""
    match source.read:
        case JdbcRead(url=url):
            return jdbc_address(url)
        case HttpRead(url=url):
            parts = urlsplit(url)
            port = parts.port or (443 if parts.scheme == "https" else 80)
            return None if parts.hostname is None else (parts.hostname, port)
        case _:
            return None


def jdbc_address(url: str) -> Address | None:
    r"""The first host and port in a JDBC address.

    >>> jdbc_address("jdbc:postgresql://db/orders")
    ('db', 5432)
    >>> jdbc_address("jdbc:oracle:thin:@db:1600:XE")
    ('db', 1600)
    >>> jdbc_address("jdbc:sqlserver://db\\sales:1500;encrypt=true")
    ('db', 1500)
    >>> jdbc_address("jdbc:sqlite:/orders.db")
    """
    kind, _, rest = url.removeprefix("jdbc:").partition(":")
    port = _PORTS.get(kind.lower())
    _, slashes, place = rest.partition("//")
    if not slashes:
        _, _, place = rest.partition("@")
    found = _PLACES.match(place.rpartition("@")[2] if "@" in place.split("/")[0] else place)
    if found is None or (found[2] is None and port is None):
        return None
    return found[1].strip("[]"), int(found[2] or port or 0)


EVERYTHING = "every row"


def explain(source: ColumnSource, rows: RowFilter) -> str:
    """The condition that is sent to ``source``: SQL, request parameters, or what Spark filters after a full scan."""
    match source.read:
        case JdbcRead(url=url):
            return _where(rows, dialect_of(url))
        case TableRead(format=format_) if format_.is_pushed_down:
            return _where(rows, SqlDialect.SPARK)
        case TableRead():
            return f"full scan, filtered in Spark: {_where(rows, SqlDialect.SPARK)}"
        case FunctionRead(function=function):
            return f"{function}, filtered in Spark: {_where(rows, SqlDialect.SPARK)}"
        case HttpRead():
            return describe(source, rows)


def _where(rows: RowFilter, dialect: SqlDialect) -> str:
    condition = predicate(rows, dialect)
    return EVERYTHING if condition is None else f"WHERE {condition}"


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


@dataclass(frozen=True, slots=True)
class UnitRequest:
    """Rows of ``unit`` from ``low`` up to, but not including, ``high``; both moments have a zone.

    ``variables`` are what the unit brings along, ``secrets`` the same for what must never show. With a time column,
    rows outside the range are left out afterwards in any case. ``now`` is the moment of the run.
    """

    unit: str
    variables: Mapping[str, str]
    low: datetime
    high: datetime
    now: datetime
    options: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, Secret] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class GreatestValues:
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

    def greatest(self, rows: RowFilter) -> GreatestValues:
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


Frame = TypeVar("Frame")


def choose_rows(
    source: ColumnSource,
    rows: RowFilter,
    frame_of: Callable[[RowFilter], Frame],
    select: Callable[[Frame, RowFilter], Frame],
) -> Frame:
    """The rows that the user's filter chooses, with our caps; it gets the rows, the watermark and the operator."""
    assert source.watermark_filter is not None, "asked for sources that have one"
    wide = rows.without_lower()
    frame, remedy = frame_of(wide), "return the wanted rows, in the type in which they came"
    key = f"source {source.name}: watermark_filter"
    found = call(source.watermark_filter, key, remedy, frame, rows.watermark, rows.operator)
    if not isinstance(found, type(frame)):
        raise SourceError(f"{key} returned {type(found).__name__}", remedy)
    return select(found, rows if rows.strict else wide)
