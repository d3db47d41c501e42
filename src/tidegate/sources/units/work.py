"""One work unit as a task sees it: its variables, its queries, and its fetched files.

A variable is one of the unit, a secret of it, or a parameter made from the range. One without a value is reported
before anything is sent. Secrets are filled in where they are needed and masked in every message.

A literal has its own quotes. A variable inside quotes or a comment would not be a value, so it is refused, whatever the
value is.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from tidegate.core.columns.predicates import Bound, ColumnRange, RowFilter
from tidegate.core.dialects.dialect import DOUBLED, Dialect
from tidegate.core.files.plan import FileSlice
from tidegate.core.units.plan import WorkUnit
from tidegate.core.units.state import Units
from tidegate.errors import SourceError, TidegateError
from tidegate.protocol.change import DataFile
from tidegate.sources.http.bounds import format_value, round_up
from tidegate.specs.columns import ParamFormat, Value
from tidegate.specs.files import Compression
from tidegate.specs.locations import Location, Secret
from tidegate.specs.masking import Mask
from tidegate.specs.project import PipelineSpec
from tidegate.specs.units import Bounding, RangeParam, UnitSource

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class UnitWork:
    """What to read: each of ``segments`` is ``[low, high)`` in milliseconds, read by itself.

    ``variables`` and ``secrets`` are those of the unit and of all units together. ``follows`` is the segment that was
    read before these and is not read again.
    """

    unit: str
    start: int
    segments: tuple[tuple[int, int], ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, Secret] = field(default_factory=dict, repr=False)
    follows: tuple[int, int] | None = None

    @classmethod
    def of(cls, work: WorkUnit, units: Units) -> UnitWork:
        """A work unit with everything that its task needs."""
        return cls(
            unit=work.unit,
            start=work.start,
            segments=work.segments,
            variables=units.variables.get(work.unit, {}),
            secrets={**units.shared, **units.secrets.get(work.unit, {})},
            follows=work.follows,
        )


@dataclass(frozen=True, slots=True)
class UnitWave:
    """Work units that are carried out together.

    Their rows become Parquet files at ``place`` (None: the folder of the table), small ones in shared files; fetched
    files lie below ``scratch`` meanwhile. ``table`` has the columns of the table, None without a table. After
    ``seconds``, or ``failures`` in a row, no further work unit is begun; None is never.
    """

    pipeline: PipelineSpec
    source: UnitSource
    works: tuple[UnitWork, ...]
    scratch: Location
    now: datetime
    place: Location | None = None
    table: pa.Schema | None = None
    seconds: float | None = None
    failures: int | None = None

    def keeps(self, result: UnitWritten | UnitFailure) -> bool:
        """True if the rows of a work unit get into the table: it was written, and does not have too few of them."""
        return isinstance(result, UnitWritten) and result.rows >= self.source.work.min_records


@dataclass(frozen=True, slots=True)
class UnitWritten:
    """A work unit whose rows are all written; nothing is visible yet.

    ``data_files`` have its rows; other kept work units of the wave may share them. ``left_out`` rows had a time outside
    the range, or none. ``unknown_fields`` have no column, by path.
    """

    data_files: tuple[DataFile, ...] = ()
    rows: int = 0
    left_out: int = 0
    requests: int = 0
    unknown_fields: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UnitFailure:
    """A work unit of which nothing counts; ``not_found``: the server does not know it."""

    problem: str
    remedy: str
    not_found: bool = False


@dataclass(frozen=True, slots=True)
class WaveResult:
    """The outcome of each work unit of a wave, in order; None for one that was not begun.

    ``columns`` are those of the written rows, partition columns included; None if there were no rows and none are
    declared.
    """

    results: tuple[UnitWritten | UnitFailure | None, ...]
    columns: pa.Schema | None = None
    partition_columns: tuple[str, ...] = ()


Segment = tuple[int, int]
"""``[low, high)`` in milliseconds."""

VARIABLE = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Variables:
    """The values of ``{{name}}`` in one read; secrets are never shown."""

    values: Mapping[str, str | int] = field(default_factory=dict)
    secrets: Mapping[str, Secret] = field(default_factory=dict, repr=False)

    def value(self, name: str) -> str | int:
        """The value of one variable; raises :class:`SourceError` with the known names."""
        if name in self.values:
            return self.values[name]
        if name in self.secrets:
            return self.secrets[name].value
        names = ", ".join(sorted({*self.values, *self.secrets})) or "none"
        raise SourceError(
            f"the variable {{{{{name}}}}} has no value; known are: {names}",
            "correct its name, give the unit watermark or a field of the secondary input this name, or add it to "
            "params",
        )

    def fill(self, text: str, write: Callable[[str], str] = str, *, kept: str | None = None) -> str:
        """Replace every variable in ``text`` but ``kept``; ``write`` formats a value."""
        return VARIABLE.sub(lambda match: match[0] if match[1] == kept else write(str(self.value(match[1]))), text)

    def fill_deep(self, value: object) -> object:
        """Replace every variable in the texts of a JSON value; a text that is one variable may become a number."""
        match value:
            case str():
                alone = VARIABLE.fullmatch(value)
                return self.fill(value) if alone is None else self.value(alone[1])
            case Mapping():
                return {name: self.fill_deep(item) for name, item in value.items()}
            case list() | tuple():
                return [self.fill_deep(item) for item in value]
            case _:
                return value

    def mask(self, text: str) -> str:
        """Mask secrets in a message, in any encoding."""
        return Mask.of(*(secret.value for secret in self.secrets.values()))(text)


def variables_of(source: UnitSource, work: UnitWork, segment: Segment) -> Variables:
    """The variables of one read: of the unit, and of the range."""
    ranges = {param.name: range_text(source, param, segment) for param in source.params}
    return Variables({**own_values(source, work), **ranges}, work.secrets)


def own_values(source: UnitSource, work: UnitWork) -> dict[str, str]:
    """The variables of the unit alone, its value included."""
    named = {} if source.unit is None else {source.unit.name: work.unit}
    return {**named, **work.variables}


def range_text(source: UnitSource, param: RangeParam, segment: Segment) -> str | int:
    """A bound of the range as a parameter.

    A format may be coarser than the bound. Both bounds are then rounded down, so that ranges still follow each other
    without gap and overlap; if a time column removes the surplus, the upper one is rounded up.
    """
    zone = param.timezone or source.timezone
    moment = moment_of(segment[param.bound is Bounding.HIGH]).astimezone(ZoneInfo(zone))
    if param.bound is Bounding.HIGH and source.time_column is not None:
        return round_up(moment, param.format, zone)
    return format_value(moment, param.format, zone)


def moment_of(milliseconds: int) -> datetime:
    """The moment that many milliseconds after 1970-01-01."""
    return _EPOCH + timedelta(milliseconds=milliseconds)


def time_range(source: UnitSource, low: datetime, high: datetime) -> RowFilter:
    """The rows from ``low`` up to ``high``; all of them without a time column."""
    if source.time_column is None:
        return RowFilter()
    return RowFilter((ColumnRange(source.time_column, Bound(low, inclusive=True), Bound(high)),))


def widen_range(source: UnitSource, low: int, high: int) -> RowFilter:
    """Widen the range near a clock change, where local times have no order; the surplus is removed."""
    return time_range(
        source, moment_of(low) - _slack(low, source.timezone), moment_of(high) + _slack(high, source.timezone)
    )


def _slack(milliseconds: int, zone: str) -> timedelta:
    near, day = moment_of(milliseconds), timedelta(days=1)
    offsets = {(near + step).astimezone(ZoneInfo(zone)).utcoffset() for step in (-day, timedelta(0), day)}
    return day if len(offsets) > 1 else timedelta(0)


def names_in(value: object) -> Iterator[str]:
    """The variables in a text, or in a JSON value of any depth."""
    match value:
        case str():
            yield from VARIABLE.findall(value)
        case Mapping():
            yield from (name for item in value.values() for name in names_in(item))
        case list() | tuple():
            yield from (name for item in value for name in names_in(item))


def sent_params(source: UnitSource, variables: Variables, used: Iterable[str]) -> tuple[tuple[str, str | int], ...]:
    """The parameters of the range to send: those not used as variables."""
    elsewhere = set(used)
    return tuple((param.name, variables.value(param.name)) for param in source.params if param.name not in elsewhere)


@dataclass(frozen=True, slots=True)
class FetchTask:
    """Everything that fetching needs besides the work unit.

    ``slots`` tasks fetch at once and share the rate limit; each has ``in_flight`` work units under way at once, and
    begins none after ``seconds`` or ``failures`` in a row. ``infers``: fetched records also show the columns.
    """

    source: UnitSource
    scratch: Location
    slots: int = 1
    infers: bool = False
    in_flight: int = 1
    seconds: float | None = None
    failures: int | None = None


@dataclass(frozen=True, slots=True)
class FetchedFile:
    """A file of one segment, below ``location``; ``where`` is its name in messages.

    ``pages`` has the number of records up to the end of each page, for pages of an API. ``is_scratch``: it was made for
    this read and goes with it. A small one is its ``content``, or the part of a larger file that begins at ``offset``;
    ``line_bytes`` is the uncompressed size of its lines, if known.
    """

    segment: int
    where: str
    location: Location
    slice: FileSlice
    compression: Compression
    pages: tuple[int, ...] = ()
    is_scratch: bool = True
    content: bytes | None = field(default=None, repr=False)
    offset: int | None = None
    line_bytes: int | None = None

    def place(self, record: int, noun: str) -> str:
        """The record with this number, from 1, for messages."""
        if not self.pages:
            return f"{self.where}, {noun} {record}"
        page = bisect_right(self.pages, record - 1)
        before = self.pages[page - 1] if page else 0
        return f"{self.where}, page {page + 1}, record {record - before}"


@dataclass(frozen=True, slots=True)
class Fetched:
    """All files of the work unit number ``index`` of a wave, in order; there may be none.

    ``samples`` are records that show its columns, if columns are inferred.
    """

    index: int
    unit: str
    segments: tuple[Segment, ...]
    files: tuple[FetchedFile, ...] = ()
    requests: int = 0
    samples: tuple[bytes, ...] = field(default=(), repr=False)


def failure_of(error: Exception, mask: Callable[[str], str] = str, *, not_found: bool = False) -> UnitFailure:
    """Turn an error into the failure of a work unit, without secrets."""
    if isinstance(error, TidegateError):
        return UnitFailure(mask(error.problem), mask(error.remedy), not_found)
    return UnitFailure(mask(f"{type(error).__name__}: {error}"), "this work unit was discarded; it runs again")


_VARIABLE = r"(?P<variable>\{\{[^{}]*\}\})"
_LINE = r"--[^\n]*"
_BLOCK = r"/\*(?:(?!/\*|\*/).)*(?:\*/|/\*.*|\Z)"
"""A comment inside a comment counts to the end: no variable may follow it."""


def fill_query(query: str, values: Mapping[str, Value], dialect: Dialect) -> str:
    """Fill ``query`` with a literal for each of its variables; ``SourceError`` for one without a value or a place."""
    parts = []
    for text, is_variable in _split_query(query, dialect):
        inside = VARIABLE.search(text)
        if is_variable and inside is not None:
            parts.append(_fill_literal(inside.group(1), values, dialect))
        elif inside is not None:
            raise SourceError(
                f"the query has {inside.group()} inside {text.strip()[:60]!r}, where it would not be a value",
                "leave out the quotes: a variable becomes a literal with quotes of its own; build texts in SQL ('…' || "
                f"{inside.group()})",
            )
        else:
            parts.append(text)
    return "".join(parts)


def values_of(source: UnitSource, work: UnitWork, segment: Segment) -> dict[str, Value]:
    """The values of the variables of one read: texts of the unit, and the bounds in their formats."""
    return {**own_values(source, work), **{param.name: bound_value(source, param, segment) for param in source.params}}


def bound_value(source: UnitSource, param: RangeParam, segment: Segment) -> Value:
    """One end of a range as a value for SQL: a moment, a day, a local time, a number, or the text of a pattern."""
    moment = moment_of(segment[param.bound is Bounding.HIGH])
    match param.format:
        case ParamFormat.ISO:
            return moment
        case ParamFormat.DATETIME | ParamFormat.DATETIME_MS:
            return moment.astimezone(ZoneInfo(param.timezone or source.timezone)).replace(tzinfo=None)
        case ParamFormat.DATE:
            return date.fromisoformat(str(range_text(source, param, segment)))
        case _:
            return range_text(source, param, segment)


def _fill_literal(name: str, values: Mapping[str, Value], dialect: Dialect) -> str:
    if name not in values:
        names = ", ".join(sorted(values)) or "none"
        raise SourceError(f"the query uses {{{{{name}}}}}, which has no value", f"its variables are: {names}")
    return dialect.literal(values[name])


def _split_query(query: str, dialect: Dialect) -> Iterator[tuple[str, bool]]:
    """The query as variables, quoted parts, comments, and what lies between them."""
    quoted = [dialect.inside_quotes.format("'"), dialect.inside_quotes.format('"'), DOUBLED.format("`")]
    tokens = "|".join([_VARIABLE, _LINE, _BLOCK, *dialect.comments, *quoted])
    end = 0
    for token in re.finditer(tokens, query, re.DOTALL):
        yield query[end : token.start()], False
        yield token.group(), token.lastgroup == "variable"
        end = token.end()
    yield query[end:], False
