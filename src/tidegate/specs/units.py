"""Sources of work units (time ranges crossed with units), as plain values.

A work unit is one partition of the range for one unit value, with a high watermark of its own. Standard library only;
frozen; picklable. ``config/`` makes them from YAML, Python code may make them directly.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from typing import Any
from urllib.parse import unquote

from tidegate.specs.columns import ColumnSource, CsvOptions, FunctionRead, HttpRead, JdbcRead
from tidegate.specs.locations import Location

UNIT_COLUMN = "_tidegate_unit"
SEGMENT_COLUMN = "_tidegate_segment"
NOW = "-"


class PartitionKind(StrEnum):
    """The size of partitions; they are counted from the start of the range."""

    NONE = "none"
    HOURLY = "hourly"
    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"
    YEARLY = "yearly"

    @property
    def is_multi_day(self) -> bool:
        """Whether one piece has several days."""
        return self in (PartitionKind.WEEKLY, PartitionKind.MONTHLY, PartitionKind.YEARLY)


class Rounding(StrEnum):
    """The unit to which a relative bound is rounded down."""

    NONE = "none"
    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"


class PartialPartition(StrEnum):
    """Whether the last, incomplete partition is read: never, if it spans several days, or always."""

    NEVER = "never"
    MULTI_DAY = "multi_day"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class TimeRange:
    """``[start, end)`` as it is written: ISO dates and times, ``PnD``, ``PnDTmH``, ``PnDTmHkM``, and ``-`` for now.

    ``end`` may lie in the future only with ``allow_future``: it would hold up every later run.
    """

    start: str
    end: str = NOW
    start_round: Rounding | None = None
    end_round: Rounding | None = None
    allow_future: bool = False


@dataclass(frozen=True, slots=True)
class SubRange:
    """A part of the range with pieces of its own size; several of them follow each other without gap or overlap."""

    start: str
    end: str
    kind: PartitionKind


@dataclass(frozen=True, slots=True)
class Span:
    """A length of time: calendar days in the zone of the source, then elapsed hours and minutes."""

    days: int = 0
    elapsed: timedelta = timedelta(0)

    @property
    def is_zero(self) -> bool:
        """Whether it has no length."""
        return self.days == 0 and not self.elapsed


@dataclass(frozen=True, slots=True)
class TimeWatermark:
    """The time range that a source is read for, under a name."""

    name: str
    range: TimeRange


@dataclass(frozen=True, slots=True)
class UnitWatermark:
    """The values that a source is read for, under a name; empty where a secondary input gives them."""

    name: str
    units: tuple[str, ...] = ()


class InputFormat(StrEnum):
    """What a secondary input is."""

    DELTA = "delta"
    PARQUET = "parquet"
    JSON = "json"
    CSV = "csv"
    AVRO = "avro"


def filter_expression(pattern: str) -> re.Pattern[str]:
    """A filter of a secondary input, compiled; ``re.error`` where it is none. Brackets in a set mean themselves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return re.compile(pattern)


@dataclass(frozen=True, slots=True)
class SecondaryInput:
    """Rows that units are made of: one unit per distinct row of ``fields`` that passes all ``filters``.

    ``pipeline`` names the pipeline whose table it is, where it is one of the same configuration; ``location`` is given
    in any case. ``filters`` are regular expressions for the whole text of a field. ``variable`` is the name by which
    a single field is used. ``auth_fields`` are secret variables of each unit, no part of its value. With
    ``for_all`` it has exactly one row, whose fields are secret variables of every unit, and makes no units.
    """

    fields: tuple[str, ...]
    location: Location
    format: InputFormat = InputFormat.DELTA
    pipeline: str | None = None
    filters: Mapping[str, str] = field(default_factory=dict)
    variable: str | None = None
    auth_fields: tuple[str, ...] = ()
    for_all: bool = False
    csv: CsvOptions = field(default_factory=CsvOptions)


class NotFound(StrEnum):
    """What a 404 means for a work unit: failed, done without rows, or never again."""

    FAIL = "fail"
    EMPTY = "empty"
    RETIRE = "retire"


@dataclass(frozen=True, slots=True)
class WorkUnits:
    """How work units are cut, chosen and carried out.

    ``sub_ranges`` take the place of ``partition``. At most ``parallelism_max`` are planned per run, their starts
    ``pacing_seconds`` apart. One that reads fewer rows than ``min_records`` has failed; with ``min_records_after`` only
    from that long after the end of its partition, and before that it is left for a later run. After
    ``breaker_failures`` failures in a row (0: never) the rest is left for the next run. ``group_units`` and
    ``group_seconds`` say how much goes into one commit.
    """

    partition: PartitionKind = PartitionKind.NONE
    sub_ranges: tuple[SubRange, ...] = ()
    partial: PartialPartition = PartialPartition.MULTI_DAY
    min_units: int = 0
    min_records: int = 0
    min_records_after: Span | None = None
    parallelism_max: int | None = None
    pacing_seconds: float = 0.0
    not_found: NotFound = NotFound.FAIL
    breaker_failures: int = 10
    group_units: int = 1000
    group_seconds: float = 10.0


class Bounding(StrEnum):
    """Which end of the range that is read a parameter has."""

    LOW = "low"
    HIGH = "high"


@dataclass(frozen=True, slots=True)
class RangeParam:
    """A named value made of the range that is read: a parameter of requests, or a variable ``{{name}}``.

    ``format`` is a name of :class:`~tidegate.specs.columns.ParamFormat` or a strftime pattern; ``timezone`` the zone it
    is written in, the source's where there is none.
    """

    name: str
    bound: Bounding
    format: str = "iso"
    timezone: str | None = None


class FileFormat(StrEnum):
    """What downloaded files hold."""

    NDJSON = "ndjson"
    CSV = "csv"
    PARQUET = "parquet"
    AVRO = "avro"
    JSON = "json"
    EXCEL = "excel"


@dataclass(frozen=True, slots=True)
class FileRead:
    """Files whose addresses are made from a template with ``{{variables}}``.

    Either ``http`` has server and path, or ``location`` is an address of object storage or a folder, in whose last
    parts ``*`` and ``?`` stand for any letters: then files are listed first. ``compression`` is a word of
    :class:`~tidegate.specs.project.Compression`. Of workbooks ``sheet`` is read, the first one where it is None;
    ``timezone`` is where their times belong.
    """

    format: FileFormat
    location: Location | None = None
    http: HttpRead | None = None
    compression: str = "auto"
    csv: CsvOptions = field(default_factory=CsvOptions)
    follow_links: bool = False
    sheet: str | None = None
    timezone: str = "UTC"


UnitRead = HttpRead | JdbcRead | FunctionRead | FileRead


class Replace(StrEnum):
    """Which rows of the table a work unit replaces when it is read again.

    ``segments``: rows of the segments that are read again, ``time_column``: rows of the unit in the range that is read
    again, ``merge_keys``: rows with equal keys, ``unit``: the whole work unit, which is then always read as a whole,
    ``none``: no rows at all; every read is appended, as history.
    """

    SEGMENTS = "segments"
    TIME_COLUMN = "time_column"
    MERGE_KEYS = "merge_keys"
    UNIT = "unit"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class UnitSource:
    """A source whose position is, for each unit, which time ranges were read.

    Without ``time`` there is one range without end that is always read as a whole; without ``unit`` there is one
    unit without a name. ``time_column`` is the column by which rows outside the range are left out.
    ``unit_column`` and ``segment_column`` are the columns of the table that tell rows of one work unit from others.
    """

    name: str
    read: UnitRead
    time: TimeWatermark | None = None
    unit: UnitWatermark | None = None
    inputs: tuple[SecondaryInput, ...] = ()
    work: WorkUnits = field(default_factory=WorkUnits)
    grace: Span = field(default_factory=Span)
    abstinent: Span = field(default_factory=Span)
    catch_up: bool = True
    timezone: str = "UTC"
    params: tuple[RangeParam, ...] = ()
    replace: Replace = Replace.SEGMENTS
    time_column: str | None = None
    unit_column: str = UNIT_COLUMN
    segment_column: str = SEGMENT_COLUMN
    poll_interval_secs: int = 60

    @property
    def uri(self) -> str:
        """What the source is, without anything secret: for identities and messages."""
        match self.read:
            case FileRead(http=HttpRead() as http):
                return ColumnSource(self.name, http).uri
            case FileRead(location=Location() as location):
                return location.uri
            case HttpRead() | JdbcRead() | FunctionRead() as read:
                return ColumnSource(self.name, read).uri
            case _:
                return ""

    @property
    def request(self) -> JdbcRead | HttpRead | None:
        """What is asked of a database or a server, for downloads too; None for files of a storage and functions."""
        read = self.read.http if isinstance(self.read, FileRead) else self.read
        return read if isinstance(read, JdbcRead | HttpRead) else None

    @property
    def requests_by_time(self) -> bool:
        """Whether requests contain the time range, so that another range gets other rows.

        A function is handed the range and is trusted to use it. A server is sent every parameter of the range.
        """
        match self.read:
            case FunctionRead():
                return True
            case JdbcRead(query=query):
                return self._has_bound(query or "")
            case FileRead(location=Location() as location):
                return self._has_bound(unquote(location.uri))
            case _:
                return bool(self.params)

    def _has_bound(self, template: str) -> bool:
        names = "|".join(re.escape(each.name) for each in self.params)
        return bool(names) and re.search(rf"\{{\{{\s*(?:{names})\s*\}}\}}", template) is not None

    @property
    def repeats_rows(self) -> bool:
        """Whether a unit that is read for another range would have the same rows in the table once more."""
        if self.time is None or self.time_column is not None or self.requests_by_time:
            return False
        return self.replace is Replace.SEGMENTS or (self.replace is Replace.UNIT and self._is_cut)

    @property
    def replaces_all(self) -> bool:
        """Whether each read of a unit, for whatever range, replaces all rows of that unit."""
        is_told_apart = self.time is None or self.requests_by_time or self._is_cut
        return self.replace is Replace.UNIT and not is_told_apart

    @property
    def _is_cut(self) -> bool:
        return self.work.partition is not PartitionKind.NONE or bool(self.work.sub_ranges)

    def name_connection(self, name: str) -> UnitSource:
        """The source with that name for its connection, if it has one without a name."""
        asked = self.request
        if asked is None or asked.connection:
            return self
        named: Any = replace(asked, connection=name)
        return replace(self, read=replace(self.read, http=named) if isinstance(self.read, FileRead) else named)

    @property
    def takes_turns(self) -> bool:
        """Two runs at once would ask a server for the same."""
        return True

    @property
    def rows(self) -> ColumnSource:
        """The source as a column source, for writers that know nothing of work units."""
        read = self.read
        if isinstance(read, FileRead):
            read = read.http or FunctionRead(self.uri)
        return ColumnSource(self.name, read, source_timezone=self.timezone, poll_interval_secs=self.poll_interval_secs)
