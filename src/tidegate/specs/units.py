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
from typing import Annotated, Any
from urllib.parse import unquote

from tidegate.specs.columns import ColumnSource, CsvOptions, FunctionRead, HttpRead, JdbcRead, ReadFacts
from tidegate.specs.files import Compression
from tidegate.specs.keys import Checked, Columns, Count, CountOrNone, Key, Name, Seconds, Zone
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

    start: Annotated[
        str,
        Checked("start_bound"),
        Key("The beginning: a date or time, or PnD, PnDTmH before now.", name="from"),
    ]
    end: Annotated[str, Checked("end_bound"), Key("The end: the same, or - for now.", name="to")] = NOW
    start_round: Annotated[Rounding | None, Key("Rounds only the beginning.", name="from_round")] = None
    end_round: Annotated[Rounding | None, Key("Rounds only the end.", name="to_round")] = None
    allow_future: Annotated[bool, Key("Whether the end may lie in the future.")] = False


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
    range: Annotated[TimeRange, Key("The time range, for datetime.", unset=True)]


@dataclass(frozen=True, slots=True)
class UnitWatermark:
    """The values that a source is read for, under a name; empty where a secondary input gives them."""

    name: Annotated[
        str,
        Checked("variable"),
        Key("The name of the watermark; that of units is also their variable."),
    ]
    units: Annotated[
        tuple[str, ...],
        Checked("units"),
        Key("The values, for unit; unset: a secondary input lists them."),
    ] = ()


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
    in any case. With ``for_all`` it has exactly one row, whose fields are secret variables of every unit, and makes no
    units.
    """

    fields: Annotated[Columns, Key("The fields whose values make a unit; each is a variable.")]
    location: Annotated[Location, Key("The path or address of the rows.", name="path", unset=True)]
    format: Annotated[InputFormat, Key("The format of the rows.")] = InputFormat.DELTA
    pipeline: Annotated[Name | None, Key("A pipeline of this file: its table has the rows.")] = None
    filters: Annotated[
        Mapping[str, str],
        Checked("filters"),
        Key("Regular expressions that must match the whole text of fields."),
    ] = field(default_factory=dict)
    variable: Annotated[
        str | None,
        Checked("variable"),
        Key("The variable of a single field; the unit watermark's name when unset.", name="as"),
    ] = None
    auth_fields: Annotated[Columns, Key("Fields that become secret variables of their unit.")] = ()
    for_all: bool = False
    csv: Annotated[CsvOptions, Key("The dialect of CSV files.")] = field(default_factory=CsvOptions)


class NotFound(StrEnum):
    """What a 404 means for a work unit: failed, done without rows, or never again."""

    FAIL = "fail"
    EMPTY = "empty"
    RETIRE = "retire"


@dataclass(frozen=True, slots=True)
class WorkUnits:
    """How work units are cut, chosen and run; ``sub_ranges`` take the place of ``partition``."""

    partition: Annotated[
        PartitionKind,
        Checked("partition"),
        Key("How the range is split into time partitions.", old="ms.work.unit.partition"),
    ] = PartitionKind.NONE
    sub_ranges: tuple[SubRange, ...] = ()
    partial: Annotated[
        PartialPartition,
        Checked("partial"),
        Key(
            "Whether the last time partition is read before it is complete.",
            name="partial_partition",
            old="ms.work.unit.partial.partition",
        ),
    ] = PartialPartition.MULTI_DAY
    min_units: Annotated[CountOrNone, Key("Fewer units than this are an error.", old="ms.work.unit.min.units")] = 0
    min_records: Annotated[
        CountOrNone,
        Key("A work unit that reads fewer records than this has failed.", old="ms.work.unit.min.records"),
    ] = 0
    min_records_after: Annotated[
        Span | None,
        Key("Until this long after its end, a time partition with fewer records waits instead of failing."),
    ] = None
    parallelism_max: Annotated[
        Count | None, Key("The most work units in one run.", old="ms.work.unit.parallelism.max")
    ] = None
    pacing_seconds: Annotated[
        float,
        Checked("pause"),
        Key("Seconds between the starts of two work units.", old="ms.work.unit.pacing.seconds"),
    ] = 0.0
    not_found: Annotated[NotFound, Key("What 404 means: failed, done without rows, or never again.")] = NotFound.FAIL
    breaker_failures: Annotated[CountOrNone, Key("Failures in a row after which a run stops asking; 0 = never.")] = 10
    group_units: Annotated[Count, Key("Work units per commit.")] = 1000
    group_seconds: Annotated[Seconds, Key("Seconds until a commit is due.")] = 10.0


class Bounding(StrEnum):
    """Which end of the range that is read a parameter has."""

    LOW = "low"
    HIGH = "high"


@dataclass(frozen=True, slots=True)
class RangeParam:
    """A named value made of the range that is read: a parameter of requests, or a variable ``{{name}}``."""

    name: str
    bound: Annotated[Bounding, Key("Which end of the range: low or high.")] = Bounding.LOW
    format: Annotated[str, Checked("param_format"), Key("The format of the time.")] = "iso"
    timezone: Annotated[Zone | None, Key("The time zone of the text; unset: that of the source.")] = None


class FileFormat(StrEnum):
    """What downloaded files hold."""

    NDJSON = "ndjson"
    CSV = "csv"
    PARQUET = "parquet"
    AVRO = "avro"
    JSON = "json"
    EXCEL = "excel"


@dataclass(frozen=True, slots=True)
class FileRead(ReadFacts):
    """Files whose addresses are made from a template with ``{{variables}}``.

    Either ``http`` has server and path, or ``location`` is an address of object storage or a folder, in whose last
    parts ``*`` and ``?`` stand for any letters: then files are listed first. ``timezone`` is where the times of
    workbooks belong.
    """

    format: Annotated[FileFormat, Key("The format of the files.")]
    location: Annotated[
        Location | None,
        Checked("file_template"),
        Key("The path or address of the files, with variables, * and ?.", name="source_uri"),
    ] = None
    http: HttpRead | None = None
    compression: Annotated[Compression, Key("The compression of the files; auto: by file extension.")] = (
        Compression.AUTO
    )
    csv: Annotated[CsvOptions, Key("The dialect of CSV files.")] = field(default_factory=CsvOptions)
    follow_links: Annotated[
        bool,
        Key(
            "Follows symbolic links below the fixed part of source_uri; otherwise a link is an error. Local disks only."
        ),
    ] = False
    sheet: Annotated[str | None, Key("The sheet of Excel files; unset: the first one.")] = None
    timezone: str = "UTC"

    is_fetched = True

    @property
    def type_name(self) -> str:
        return f"{self.format.value} files"

    @property
    def uri(self) -> str:
        place = self.http or self.location
        return "" if place is None else place.uri

    @property
    def request(self) -> HttpRead | None:
        """What is asked of a server, if the files are downloaded."""
        return self.http


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
    inputs: Annotated[
        tuple[SecondaryInput, ...],
        Key("Where the units come from.", name="secondary_input", old="ms.secondary.input"),
    ] = ()
    work: Annotated[WorkUnits, Key("How work units are cut, chosen and run.", name="work_unit")] = field(
        default_factory=WorkUnits
    )
    grace: Annotated[Span, Key("The same as a duration, such as P3DT6H.", name="grace_period", unset=True)] = field(
        default_factory=Span
    )
    abstinent: Annotated[Span, Key("The same as a duration.", name="abstinent_period", unset=True)] = field(
        default_factory=Span
    )
    catch_up: Annotated[
        bool, Key("Whether later runs finish time partitions that were read before they were complete.")
    ] = True
    timezone: Annotated[Zone, Key("The time zone in which days and months begin.", old="ms.timezone")] = "UTC"
    params: tuple[RangeParam, ...] = ()
    replace: Replace = Replace.SEGMENTS
    time_column: Annotated[
        str | None,
        Key("The time column: rows outside the range are left out, and rows inside it replaced."),
    ] = None
    unit_column: Annotated[str, Checked("column"), Key("The table column for the unit.")] = UNIT_COLUMN
    segment_column: Annotated[str, Checked("column"), Key("The table column for the beginning of the segment.")] = (
        SEGMENT_COLUMN
    )
    poll_interval_secs: Annotated[Count, Key("Seconds between polls of a continuous run.")] = 60
    max_pass_secs: Annotated[
        Count | None, Key("Stops a pass that takes longer than so many seconds, as a failure; what it committed stays.")
    ] = None
    expect_every: Annotated[
        timedelta | None, Key("How often new data must come, such as PT2H; without any for longer, the source is late.")
    ] = None

    @property
    def tables_read(self) -> tuple[str, ...]:
        """The tables from which the units come."""
        return tuple(each.location.uri for each in self.inputs)

    @property
    def uri(self) -> str:
        """What the source is, without anything secret: for identities and messages."""
        return self.read.uri

    @property
    def request(self) -> JdbcRead | HttpRead | None:
        """What is asked of a database or a server, for downloads too; None for files of a storage and functions."""
        return self.read.request

    @property
    def http(self) -> HttpRead | None:
        """What is asked of a server, for downloads too."""
        return self.request if isinstance(self.request, HttpRead) else None

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
