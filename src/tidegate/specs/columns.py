"""Column sources and the ways to load their rows, as plain values.

Standard library only; frozen; picklable. ``config/`` makes them from YAML, Python code may make them directly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Literal

from tidegate.errors import ConfigError
from tidegate.specs.keys import (
    Checked,
    Columns,
    Count,
    CountOrNone,
    Fraction,
    Function,
    Glob,
    Key,
    Name,
    Place,
    Query,
    Range,
    Seconds,
    Zone,
)
from tidegate.specs.locations import Location, Options, Secret, hosts_of, identity_of


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """The dialect of CSV files."""

    delimiter: Annotated[
        str | None, Checked("character"), Key("The separator between cells; unset: a comma, in .tsv files a tab.")
    ] = None
    quote: Annotated[
        str | None, Checked("quote"), Key("The character around quoted cells; none: no cell is quoted.")
    ] = '"'
    escape: Annotated[
        str | None,
        Checked("character"),
        Key(
            "The character before a quote inside quotes; unset: such quotes are doubled. Doubled ones are read either"
            " way."
        ),
    ] = None
    header: Annotated[bool, Key("Whether the first record of each file names its columns.")] = True
    columns: Annotated[
        tuple[str, ...], Key("The columns of files without a header, in order; unset: the declared columns.")
    ] = ()
    null_values: Annotated[tuple[str, ...], Checked("cells"), Key("Unquoted cells that mean null.")] = ("",)
    skip_rows: Annotated[CountOrNone, Key("Lines to skip at the beginning of each file.")] = 0


Value = bool | int | float | str | Decimal | datetime | date | time
"""A value of a watermark column."""

Watermark = Mapping[str, Value | None]
"""The greatest value seen, by column; None where every value was null."""


@dataclass(frozen=True, slots=True)
class LookBack:
    """How far below the stored watermark a read begins again, for sources that correct old rows."""

    days: Annotated[CountOrNone, Key("Days below the watermark.", unset=True)] = 0
    hours: Annotated[CountOrNone, Key("Hours below the watermark.", unset=True)] = 0
    months: Annotated[CountOrNone, Key("Months below the watermark.", unset=True)] = 0
    years: Annotated[CountOrNone, Key("Years below the watermark.", unset=True)] = 0
    closing_day: Annotated[
        int | None,
        Range(1, 31),
        Key("Up to and including this day of the month, the previous month is read again."),
    ] = None
    value: Annotated[int | Decimal, Checked("number"), Key("Amount below the watermark, for numbers.", unset=True)] = 0
    timezone: Annotated[Zone, Key("The time zone of closing_day; unset: UTC.", unset=True)] = "UTC"

    @property
    def is_off(self) -> bool:
        """Whether nothing is read again."""
        return not (self.days or self.hours or self.months or self.years or self.closing_day or self.value)


class WatermarkMode(StrEnum):
    """How several watermark columns work together: each by itself, or as one lexicographic cursor."""

    ANY = "any"
    TUPLE = "tuple"


class NullWatermark(StrEnum):
    """What becomes of rows that have null in every watermark column."""

    EXCLUDE = "exclude"
    INCLUDE = "include"
    ERROR = "error"


class RowReader(StrEnum):
    """By which driver the rows of a database are read."""

    ADBC = "adbc"
    JDBC = "jdbc"


_ASKED_FIRST = "the greatest value when the run begins, asked first"
_BY_ROWS = "the greatest value of what is read"


class ReadFacts:
    """What others ask of a read, whatever it reads; a kind of read says what is different with it.

    Each also has ``type_name``, the kind in the word of the configuration, and ``uri``: what it reads, without anything
    secret.
    """

    __slots__ = ()

    @property
    def tables_read(self) -> tuple[str, ...]:
        """Addresses and names of Delta tables that it reads; none unless it says so."""
        return ()

    @property
    def request(self) -> JdbcRead | HttpRead | None:
        """What is asked of a database or a server; None for tables, files and functions."""
        return None

    @property
    def knows_greatest(self) -> bool:
        """Whether the source itself gives its greatest values, before any row is read."""
        return False

    @property
    def upper_bound(self) -> str:
        """How the upper bound of a read is set, in words."""
        return _BY_ROWS

    @property
    def is_fetched(self) -> bool:
        """Whether our own tasks fetch work units: they stop by the clock, which a statement of Spark cannot."""
        return False

    @property
    def ignores_more(self) -> bool:
        """Whether one response is read, even if it says that there is more."""
        return False

    @property
    def notes(self) -> Mapping[str, str]:
        """Facts that may change without making it another source."""
        return {}


@dataclass(frozen=True, slots=True)
class JdbcRead(ReadFacts):
    """A table or a query of a database; exactly one of ``table`` and ``query`` is given.

    A file gives the address, the user and the driver in the connection, the rest in the source.
    """

    url: Annotated[str, Checked("jdbc_url"), Key("The JDBC address, without credentials.")]
    connection: Annotated[Name, Key("The name of a connection of type jdbc.", required=True)] = ""
    user: Annotated[str | None, Key("The user.")] = None
    password: Annotated[Secret | None, Key("The user's password; never shown.")] = None
    table: Annotated[str | None, Key("The table, with its schema: public.orders.")] = None
    query: Annotated[Query | None, Key("A query, instead of a table.")] = None
    driver: Annotated[str | None, Key("The driver class; unset: the usual one for the address.")] = None
    packages: Annotated[
        tuple[str, ...],
        Checked("packages"),
        Key("Maven coordinates of the driver; unset: the usual ones for the address."),
    ] = ()
    jars: Annotated[tuple[str, ...], Key("Jar files of the driver, instead of packages.")] = ()
    partition_column: Annotated[
        str | None, Key("The column that splits a read into parallel queries; unset: the first watermark column.")
    ] = None
    parallelism: Annotated[
        int | None, Range(1, 10_000), Key("Connections at once; unset: as many as Spark has tasks.")
    ] = None
    fetch_size: Annotated[Count, Key("Rows per round trip.")] = 10_000
    properties: Annotated[Options, Key("Additional properties of the connection; never shown.")] = field(
        default_factory=Options
    )
    reader: Annotated[
        RowReader | None, Key("The driver that reads the rows; adbc: of PostgreSQL only; unset: jdbc.")
    ] = None
    max_connections: Annotated[
        int | None,
        Range(1, 10_000),
        Key("The most connections of a run to this database at once, over all of its tables; unset: no limit."),
    ] = None

    def __post_init__(self) -> None:
        if self.fetch_size < 1:
            raise ConfigError((f"fetch_size is {self.fetch_size}, and must be at least 1",))

    type_name = "jdbc"
    knows_greatest = True
    upper_bound = _ASKED_FIRST

    @property
    def uri(self) -> str:
        # Not the query itself: people correct queries, and the source stays the same one.
        return f"{identity_of(self.url)}#{self.table or 'query'}"

    @property
    def request(self) -> JdbcRead:
        return self

    @property
    def notes(self) -> Mapping[str, str]:
        return {"hosts": hosts} if (hosts := hosts_of(self.url)) else {}


_SCANS = ("parquet", "csv", "json", "excel")


class TableFormat(StrEnum):
    """What a table or a prefix of files holds."""

    DELTA = "delta"
    ICEBERG = "iceberg"
    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"
    EXCEL = "excel"

    @property
    def is_pushed_down(self) -> bool:
        """Whether the scan itself applies the predicate."""
        return self in (TableFormat.DELTA, TableFormat.ICEBERG, TableFormat.PARQUET)


@dataclass(frozen=True, slots=True)
class TableRead(ReadFacts):
    """A Delta or Iceberg table, or files that are scanned as one table."""

    format: Annotated[TableFormat, Key("The format of the table or files.", name="type")]
    location: Annotated[Location, Key("The path or address of the table or files.", name="source_uri")]
    csv: Annotated[CsvOptions, Key("The dialect of CSV files.", kinds=("csv",))] = field(default_factory=CsvOptions)
    sheet: Annotated[str | None, Key("The sheet of Excel files; unset: the first one.", kinds=("excel",))] = None
    lines: Annotated[bool, Key("Whether JSON files have one object per line.", kinds=("json",))] = True
    pattern: Annotated[Glob | None, Key("Reads only files whose names match this glob.", kinds=_SCANS)] = None
    follow_links: Annotated[
        bool,
        Key("Follows symbolic links below source_uri; otherwise a link is an error. Local disks only.", kinds=_SCANS),
    ] = False
    name: Annotated[
        str | None,
        Checked("table_name"),
        Key("The name of the table in Spark's catalog, instead of source_uri.", name="table", kinds=("delta",)),
    ] = None

    @property
    def type_name(self) -> str:
        return self.format.value

    @property
    def tables_read(self) -> tuple[str, ...]:
        """The table, by its address and its name in a catalog."""
        return (self.uri, *(() if self.name is None else (self.name,)))

    @property
    def uri(self) -> str:
        return self.location.uri

    @property
    def knows_greatest(self) -> bool:
        return self.format.is_pushed_down

    @property
    def upper_bound(self) -> str:
        return _ASKED_FIRST if self.knows_greatest else _BY_ROWS


class AuthKind(StrEnum):
    """How requests authenticate."""

    NONE = "none"
    BEARER = "bearer"
    BASIC = "basic"
    API_KEY = "api_key"
    OAUTH2 = "oauth2"


@dataclass(frozen=True, slots=True)
class HttpAuth:
    """How requests authenticate.

    With the place ``path``, a path has ``{{name}}`` where the key goes: identities, messages and state know it by that
    name only. Other places are ``header`` and ``params``.
    """

    kind: Annotated[AuthKind, Key("How requests authenticate.", name="type")] = AuthKind.NONE
    token: Annotated[Secret | None, Key("The token, or the API key; never shown.", needed=("bearer", "api_key"))] = None
    user: Annotated[str | None, Key("The user, for basic.", needed=("basic",))] = None
    password: Annotated[Secret | None, Key("The password, for basic; never shown.", needed=("basic",))] = None
    name: Annotated[str, Key("The header, parameter or part of the path for an API key.", kinds=("api_key",))] = (
        "X-API-Key"
    )
    place: Annotated[
        Literal["header", "params", "path"],
        Key("Where an API key goes; path: where the source's path has {{name}}.", kinds=("api_key",)),
    ] = "header"
    token_url: Annotated[
        str | None, Checked("http_url"), Key("The address that issues OAuth2 tokens.", needed=("oauth2",))
    ] = None
    client_id: Annotated[str | None, Key("The client id, for OAuth2.", needed=("oauth2",))] = None
    client_secret: Annotated[Secret | None, Key("The client's secret; never shown.", needed=("oauth2",))] = None
    scope: Annotated[str | None, Key("The scope, for OAuth2.", kinds=("oauth2",))] = None

    @property
    def path_variable(self) -> str | None:
        """The name that stands for the key in paths; None where it goes elsewhere."""
        return self.name if self.kind is AuthKind.API_KEY and self.place == "path" else None


_PAGED = ("offset", "page", "cursor", "next_link")


class PaginationKind(StrEnum):
    """How a server divides an answer into pages."""

    NONE = "none"
    OFFSET = "offset"
    PAGE = "page"
    CURSOR = "cursor"
    NEXT_LINK = "next_link"


@dataclass(frozen=True, slots=True)
class Pagination:
    """How the server divides an answer into pages.

    Without ``next``, links are taken from the ``Link`` header. A response at the end that says there is more is an
    error, except in the fields at ``ignore``.
    """

    kind: Annotated[
        PaginationKind,
        Key("The kind of pages; unset: one response, which must be everything.", name="type", unset=True),
    ] = PaginationKind.NONE
    param: Annotated[
        str | None, Key("The parameter for the offset, page number or cursor.", kinds=("offset", "page", "cursor"))
    ] = None
    size_param: Annotated[str | None, Key("The parameter for the page size.", kinds=_PAGED)] = None
    size: Annotated[Count | None, Key("Records per page.", kinds=_PAGED)] = None
    start: Annotated[
        CountOrNone | None, Key("The first offset or page; unset: offset 0, page 1.", kinds=("offset", "page"))
    ] = None
    next: Annotated[
        Place | None,
        Key(
            "The path to the cursor or link in the answer; links may also come in a header.",
            kinds=("next_link", "cursor"),
        ),
    ] = None
    total: Annotated[Place | None, Key("The path to the total number of records in the answer.", kinds=_PAGED)] = None
    max_pages: Annotated[Count, Key("More pages than this are an error.", kinds=_PAGED)] = 10_000
    last_field: Annotated[
        str | None,
        Key("The field of the last record whose value is the next cursor; instead of next.", kinds=("cursor",)),
    ] = None
    more: Annotated[Place | None, Key("The path to a flag that is true while there is more.", kinds=_PAGED)] = None
    ignore: Annotated[
        tuple[str, ...],
        Checked("places"),
        Key("Paths to fields that seem to say there is more, and do not.", kinds=_PAGED),
    ] = ()


@dataclass(frozen=True, slots=True)
class RateLimit:
    """How many requests the server gets per time, all tasks together."""

    requests: Annotated[Count, Key("Requests")]
    per_seconds: Annotated[Seconds, Key("in this many seconds.")] = 1.0


@dataclass(frozen=True, slots=True)
class Retries:
    """What happens on 429, 5xx and time-outs."""

    attempts: Annotated[CountOrNone, Key("Retries after the first try.")] = 5
    base_secs: Annotated[Seconds, Key("Seconds before the first retry; they double each time.")] = 0.5
    max_wait_secs: Annotated[Seconds, Key("The longest wait in seconds; a Retry-After above it is an error.")] = 60.0


class ParamFormat(StrEnum):
    """How a watermark is written into a request; anything else is a strftime pattern."""

    ISO = "iso"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIMESTAMP_MS = "timestamp_ms"
    DATETIME = "datetime"
    DATETIME_MS = "datetime_ms"


@dataclass(frozen=True, slots=True)
class WatermarkParams:
    """Where the bounds of a read go in the requests to an API."""

    mapping: Annotated[
        Mapping[str, str],
        Key("Maps a watermark column to the parameter for its lower bound.", name="watermark_param_mapping"),
    ] = field(default_factory=dict)
    to_param: Annotated[str | None, Key("The parameter for the upper bound.", name="watermark_to_param")] = None
    location: Annotated[
        Literal["params", "body"],
        Key("Whether the bounds go into the query string or into the body.", name="watermark_param_location"),
    ] = "params"
    format: Annotated[
        str,
        Checked("param_format"),
        Key(
            "How bounds are written: iso, date, timestamp, timestamp_ms, datetime, datetime_ms, or strftime.",
            name="watermark_param_format",
        ),
    ] = "iso"
    split: Annotated[
        int,
        Range(1, 10_000),
        Key("Parallel requests that split the range between the bounds.", name="watermark_split"),
    ] = 1


@dataclass(frozen=True, slots=True)
class HttpRead(ReadFacts):
    """Records of an HTTP API.

    A file gives the server and how to treat it in the connection, the rest in the source. Without ``pagination`` one
    response must be everything: one that says there is more fails the read. :class:`Pagination` of kind ``none`` reads
    one response whatever it says.
    """

    url: Annotated[str, Checked("http_url"), Key("The beginning of every address, without credentials.")]
    path: Annotated[str, Checked("http_path"), Key("What follows the connection's url.", unset=True)] = ""
    connection: Annotated[Name, Key("The name of a connection of type http.", required=True)] = ""
    method: Annotated[Literal["GET", "POST"], Key("GET or POST.")] = "GET"
    params: Annotated[Mapping[str, str], Checked("params"), Key("Query parameters of each request.")] = field(
        default_factory=dict
    )
    headers: Annotated[Options, Key("Additional headers; never shown.")] = field(default_factory=Options)
    body: Annotated[Mapping[str, object] | None, Checked("json_object"), Key("The JSON object that a POST sends.")] = (
        field(default=None, repr=False)
    )
    records: Annotated[
        Place, Key("The path to the list of records in the answer; unset: the answer is the list.", unset=True)
    ] = ""
    error: Annotated[Place | None, Key("The path to an error in answers with status 200.")] = None
    auth: Annotated[HttpAuth, Key("Who asks.")] = field(default_factory=HttpAuth)
    pagination: Annotated[Pagination | None, Key("How the server divides an answer into pages.")] = None
    rate_limit: Annotated[RateLimit | None, Key("How many requests the server gets per time.")] = None
    retries: Annotated[Retries, Key("What happens after errors of the server.")] = field(default_factory=Retries)
    timeout_secs: Annotated[Seconds, Key("Seconds that one request may take.")] = 60.0
    idempotent: Annotated[bool, Key("Whether a POST may be repeated after a failure.")] = False
    watermark: WatermarkParams = field(default_factory=WatermarkParams)
    parallelism: Annotated[int | None, Range(1, 10_000), Key("Requests at once.")] = None
    max_response_mb: Annotated[int, Range(1, 65_536), Key("A larger answer is an error (MB of 1,048,576 bytes).")] = 512
    allowed_origins: Annotated[
        tuple[str, ...],
        Checked("origins"),
        Key("Other servers that links and redirects may lead to; they get no credentials."),
    ] = ()
    max_in_flight: Annotated[int, Range(1, 10_000), Key("Requests at once, over all tasks.")] = 16
    response_types: Annotated[
        tuple[str, ...],
        Checked("content_types"),
        Key("Further content types to read as JSON, such as text/plain."),
    ] = ()

    type_name = "http"
    is_fetched = True

    @property
    def uri(self) -> str:
        """The address without a user, a password and parameters."""
        # Part of the recorded identity: a password in it would be in every state and log entry.
        return f"{re.sub(r'//[^/@]*@', '//', self.url.split('?')[0])}{self.path}"

    @property
    def request(self) -> HttpRead:
        return self

    @property
    def upper_bound(self) -> str:
        param = self.watermark.to_param
        sent = f"the moment when the run begins, sent as {param!r}"
        return _BY_ROWS if param is None else sent

    @property
    def ignores_more(self) -> bool:
        return self.pagination is not None and self.pagination.kind is PaginationKind.NONE


@dataclass(frozen=True, slots=True)
class FunctionRead(ReadFacts):
    """A Python function, called in the driver; it returns a DataFrame."""

    function: Annotated[Function, Key("module:function, called with the session and a request.")]
    options: Annotated[Options, Key("Passed to the function; never shown.")] = field(default_factory=Options)

    type_name = "python"

    @property
    def uri(self) -> str:
        return f"python:{self.function}"


Read = JdbcRead | TableRead | HttpRead | FunctionRead

UserFunction = str | Callable[..., object]
"""A function of the user's own: ``module:function``, or the function itself."""


@dataclass(frozen=True, slots=True)
class ColumnSource:
    """A source whose position is the greatest value seen per watermark column.

    ``watermark_filter`` and ``watermark_window`` replace our choice of the rows to read, and of the rows of the table
    to replace.
    """

    name: str
    read: Read
    watermark_columns: Annotated[
        Columns, Key("The columns whose greatest values mark what is new; unset: every run reads everything.")
    ] = ()
    mode: Annotated[
        WatermarkMode,
        Key(
            "any: a row is new if one column is; tuple: the columns form one cursor, most significant first.",
            name="watermark_mode",
        ),
    ] = WatermarkMode.ANY
    filter_expression: Annotated[
        str | None, Key("A condition in the query language of the source; only matching rows are read.")
    ] = None
    look_back: LookBack = field(default_factory=LookBack)
    safety_lag: Annotated[timedelta | None, Key("Leaves rows younger than this to a later run, such as PT5M.")] = None
    # A day ahead is a time zone or a slow clock; more is an error in the data, such as 9999-12-31.
    future_tolerance: Annotated[
        timedelta | None,
        Key("Rows further in the future than this wait until their time has come; none: no row waits."),
    ] = timedelta(days=1)
    null_watermark: Annotated[
        NullWatermark, Key("Rows with null in every watermark column: left out and counted, read, or an error.")
    ] = NullWatermark.EXCLUDE
    source_timezone: Annotated[Zone, Key("The time zone of times that have none.")] = "UTC"
    poll_interval_secs: Annotated[Count, Key("Seconds between polls of a continuous run.")] = 60
    max_pass_secs: Annotated[
        Count | None, Key("Stops a pass that takes longer than so many seconds, as a failure; what it committed stays.")
    ] = None
    expect_every: Annotated[
        timedelta | None, Key("How often new data must come, such as PT2H; without any for longer, the source is late.")
    ] = None
    watermark_operator: Annotated[
        UserFunction,
        Checked("operator"),
        Key("Which rows are new: > above the watermark, >= also at it, or a module:function that decides."),
    ] = ">"
    watermark_filter: Annotated[
        UserFunction | None,
        Checked("function"),
        Key("module:function that selects rows instead of the comparison with the watermark."),
    ] = None
    watermark_window: Annotated[
        UserFunction | None,
        Checked("function"),
        Key("module:function that chooses the window of the table to replace, within what was read."),
    ] = None

    @property
    def tables_read(self) -> tuple[str, ...]:
        """Addresses and names of the tables that it reads."""
        return self.read.tables_read

    @property
    def uri(self) -> str:
        """What the source is, without anything secret: for identities and messages."""
        return self.read.uri

    @property
    def request(self) -> JdbcRead | HttpRead | None:
        """What is asked of a database or a server; None for tables, files and functions."""
        return self.read.request

    def name_connection(self, name: str) -> ColumnSource:
        """The source with that name for its connection, if it has one without a name."""
        asked = self.request
        return replace(self, read=replace(asked, connection=asked.connection or name)) if asked else self

    @property
    def takes_turns(self) -> bool:
        """Runs race: whoever loses a commit has only asked twice."""
        return False

    @property
    def notes(self) -> Mapping[str, str]:
        """Facts that may change without making it another source: the hosts of its database."""
        return self.read.notes


WHOLE = ("overwrite", "full_load")
"""Load types that read the source in full and replace the table."""
MERGES = ("merge_upsert", "merge_overwrite", "scd2")


class LoadType(StrEnum):
    """What becomes of the rows that were read."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    FULL_LOAD = "full_load"
    MERGE_UPSERT = "merge_upsert"
    MERGE_OVERWRITE = "merge_overwrite"
    SCD2 = "scd2"

    @property
    def reads_everything(self) -> bool:
        """Whether each run reads the source in full and replaces the table."""
        return self in WHOLE

    @property
    def is_idempotent(self) -> bool:
        """Whether rows that are read again replace their earlier versions."""
        return self is not LoadType.APPEND


@dataclass(frozen=True, slots=True)
class Load:
    """The load strategy and its settings."""

    type: Annotated[LoadType, Key("How rows are written.", name="load_type")] = LoadType.APPEND
    merge_keys: Annotated[Columns, Key("The columns that identify a row, for merges.", needed=MERGES)] = ()
    tie_break: Annotated[
        Columns,
        Key(
            "Columns that decide between rows with equal keys and watermarks: the greatest wins.",
            kinds=("append", "merge_upsert", "scd2"),
        ),
    ] = ()
    skip_unchanged: Annotated[
        bool,
        Key(
            "Leaves rows alone that are read again and equal those of the table; without it they are written again.",
            kinds=("merge_upsert",),
        ),
    ] = True
    replace_by_watermark: Annotated[
        bool,
        Key(
            "Replaces the whole window that look-back read again, including rows that the source deleted.",
            kinds=("merge_overwrite",),
        ),
    ] = False
    max_delete_fraction: Annotated[
        Fraction,
        Key("The share of the window's rows that one replacement may remove.", kinds=("merge_overwrite",)),
    ] = 0.5
    allow_empty_window: Annotated[
        bool,
        Key("Whether an empty read may empty its window.", kinds=("append", "merge_overwrite", *WHOLE)),
    ] = False
    deduplicate: Annotated[
        Columns,
        Key("Keys by which an append with look-back recognises rows that the table already has.", kinds=("append",)),
    ] = ()
    window_columns: Annotated[Mapping[str, str], Key("Maps a watermark column to its name after the transform.")] = (
        field(default_factory=dict)
    )
    scd2_effective_column: Annotated[
        str | None, Key("The column with the beginning of a version.", kinds=("scd2",))
    ] = None
    scd2_attributes: Annotated[
        Columns,
        Key("The columns whose change makes a version; unset: all but keys and watermarks.", kinds=("scd2",)),
    ] = ()
