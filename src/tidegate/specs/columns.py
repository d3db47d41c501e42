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

from tidegate.errors import ConfigError
from tidegate.specs.locations import Location, Options, Secret, hosts_of, identity_of


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """How CSV files are written; without a ``delimiter`` it is a comma, and a tab in ``.tsv`` files.

    A quote inside quotes is doubled, or ``escape`` is before it. ``columns`` name the cells of files without a header.
    An unquoted cell that is one of ``null_values`` is null. ``skip_rows`` lines before the header are passed over.
    """

    delimiter: str | None = None
    quote: str | None = '"'
    escape: str | None = None
    header: bool = True
    columns: tuple[str, ...] = ()
    null_values: tuple[str, ...] = ("",)
    skip_rows: int = 0


Value = bool | int | float | str | Decimal | datetime | date | time
"""A value of a watermark column."""

Watermark = Mapping[str, Value | None]
"""The greatest value seen, by column; None where every value was null."""


@dataclass(frozen=True, slots=True)
class LookBack:
    """How far below the stored watermark the next read begins, for sources that correct old rows.

    ``value`` is for numbers, the others are for times; ``closing_day`` keeps the previous month open up to
    and including that day. ``timezone`` says where months begin.
    """

    days: int = 0
    hours: int = 0
    months: int = 0
    years: int = 0
    closing_day: int | None = None
    value: int | Decimal = 0
    timezone: str = "UTC"

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


@dataclass(frozen=True, slots=True)
class JdbcRead:
    """A table or a query of a database; exactly one of ``table`` and ``query`` is given.

    ``driver`` is the class of the JDBC driver, ``packages`` are Maven coordinates to fetch and ``jars`` files to use
    for it; for the databases we know they are filled in. ``partition_column`` and ``parallelism`` divide the read.
    Without a ``reader`` rows come by JDBC.
    """

    url: str
    connection: str = ""
    user: str | None = None
    password: Secret | None = None
    table: str | None = None
    query: str | None = None
    driver: str | None = None
    packages: tuple[str, ...] = ()
    jars: tuple[str, ...] = ()
    partition_column: str | None = None
    parallelism: int | None = None
    fetch_size: int = 10_000
    properties: Options = field(default_factory=Options)
    reader: RowReader | None = None

    def __post_init__(self) -> None:
        if self.fetch_size < 1:
            raise ConfigError((f"fetch_size is {self.fetch_size}, and must be at least 1",))


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
class TableRead:
    """A Delta or Iceberg table, or files that are scanned as one table.

    ``sheet`` is for Excel: the name of the sheet, the first one where there is none. ``lines`` tells whether JSON is
    one object per line. ``pattern`` is a glob of the files' names.
    """

    format: TableFormat
    location: Location
    csv: CsvOptions = field(default_factory=CsvOptions)
    sheet: str | None = None
    lines: bool = True
    pattern: str | None = None
    follow_links: bool = False


class AuthKind(StrEnum):
    """How requests authenticate."""

    NONE = "none"
    BEARER = "bearer"
    BASIC = "basic"
    API_KEY = "api_key"
    OAUTH2 = "oauth2"


@dataclass(frozen=True, slots=True)
class HttpAuth:
    """Credentials; ``name`` and ``place`` are for API keys, the URL and scope for OAuth2.

    With the place ``path``, a path has ``{{name}}`` where the key goes: identities, messages and state know it by that
    name only. Other places are ``header`` and ``params``.
    """

    kind: AuthKind = AuthKind.NONE
    token: Secret | None = None
    user: str | None = None
    password: Secret | None = None
    name: str = "X-API-Key"
    place: str = "header"
    token_url: str | None = None
    client_id: str | None = None
    client_secret: Secret | None = None
    scope: str | None = None

    @property
    def path_variable(self) -> str | None:
        """The name that stands for the key in paths; None where it goes elsewhere."""
        return self.name if self.kind is AuthKind.API_KEY and self.place == "path" else None


class PaginationKind(StrEnum):
    """How a server divides an answer into pages."""

    NONE = "none"
    OFFSET = "offset"
    PAGE = "page"
    CURSOR = "cursor"
    NEXT_LINK = "next_link"


@dataclass(frozen=True, slots=True)
class Pagination:
    """``param`` carries the offset, the page number or the cursor; ``size_param`` how many records a page has.

    ``next`` is the path of the cursor or the link in the answer (without it the ``Link`` header is read);
    ``last_field`` is the field of the last record that is the cursor instead. ``total`` is the path of the number of
    all records, ``more`` that of a flag which is true while there is more. More pages than ``max_pages`` are an error,
    and so is a response at the end that says there is more, except in the fields at ``ignore``.
    """

    kind: PaginationKind = PaginationKind.NONE
    param: str | None = None
    size_param: str | None = None
    size: int | None = None
    start: int | None = None
    next: str | None = None
    total: str | None = None
    max_pages: int = 10_000
    last_field: str | None = None
    more: str | None = None
    ignore: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RateLimit:
    """At most so many requests in so many seconds, all tasks together."""

    requests: int
    per_seconds: float = 1.0


@dataclass(frozen=True, slots=True)
class Retries:
    """Tries after the first, for 429, 5xx and time-outs; a ``Retry-After`` over ``max_wait_secs`` is an error."""

    attempts: int = 5
    base_secs: float = 0.5
    max_wait_secs: float = 60.0


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
    """Where the bounds go in a request: ``mapping`` is column → parameter of the lower bound.

    ``to_param`` takes the upper bound, ``location`` is ``params`` or ``body``, ``format`` a name of
    :class:`ParamFormat` or a strftime pattern. ``split`` divides the range into so many requests beside each other.
    """

    mapping: Mapping[str, str] = field(default_factory=dict)
    to_param: str | None = None
    location: str = "params"
    format: str = "iso"
    split: int = 1


@dataclass(frozen=True, slots=True)
class HttpRead:
    """Records of an HTTP API; ``records`` is the path of their list in the answer, empty for the answer itself.

    A ``POST`` is repeated after a failure only if it is ``idempotent``. ``error`` is the path of what tells an error
    in an answer with status 200. Links and redirects are followed to the server itself and to ``allowed_origins``.
    At most ``max_in_flight`` requests are under way at once, over all tasks. ``response_types`` are content types of
    answers that are JSON all the same. Without ``pagination`` one response must be everything: one that says there is
    more fails the read. :class:`Pagination` of kind ``none`` reads one response whatever it says.
    """

    url: str
    path: str = ""
    connection: str = ""
    method: str = "GET"
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Options = field(default_factory=Options)
    body: Mapping[str, object] | None = field(default=None, repr=False)
    records: str = ""
    error: str | None = None
    auth: HttpAuth = field(default_factory=HttpAuth)
    pagination: Pagination | None = None
    rate_limit: RateLimit | None = None
    retries: Retries = field(default_factory=Retries)
    timeout_secs: float = 60.0
    idempotent: bool = False
    watermark: WatermarkParams = field(default_factory=WatermarkParams)
    parallelism: int | None = None
    max_response_mb: int = 512
    allowed_origins: tuple[str, ...] = ()
    max_in_flight: int = 16
    response_types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FunctionRead:
    """``module:function``, called in the driver with the session and a request; it returns a DataFrame.

    ``options`` are handed to it as they are.
    """

    function: str
    options: Options = field(default_factory=Options)


Read = JdbcRead | TableRead | HttpRead | FunctionRead

UserFunction = str | Callable[..., object]
"""A function of the user's own: ``module:function``, or the function itself."""


@dataclass(frozen=True, slots=True)
class ColumnSource:
    """A source whose position is the greatest value seen per watermark column.

    Without ``watermark_columns`` everything is read each time. ``filter_expression`` is a condition in the language of
    the source. ``source_timezone`` is the zone of times without one. ``safety_lag`` leaves out younger rows, for
    sources whose transactions commit late. ``future_tolerance`` leaves rows further in the future for later runs, so
    that no such value becomes the watermark; None accepts every time. ``watermark_operator`` is ``>``, ``>=``, or a
    function that returns one of them. ``watermark_filter`` and ``watermark_window`` replace our choice of the rows to
    read, and of the rows of the table to replace.
    """

    name: str
    read: Read
    watermark_columns: tuple[str, ...] = ()
    mode: WatermarkMode = WatermarkMode.ANY
    filter_expression: str | None = None
    look_back: LookBack = field(default_factory=LookBack)
    safety_lag: timedelta | None = None
    future_tolerance: timedelta | None = timedelta(days=1)
    null_watermark: NullWatermark = NullWatermark.EXCLUDE
    source_timezone: str = "UTC"
    poll_interval_secs: int = 60
    watermark_operator: UserFunction = ">"
    watermark_filter: UserFunction | None = None
    watermark_window: UserFunction | None = None

    @property
    def uri(self) -> str:
        """What the source is, without anything secret: for identities and messages."""
        match self.read:
            case JdbcRead(url=url, table=table):
                return f"{identity_of(url)}#{table or 'query'}"
            case TableRead(location=location):
                return location.uri
            case HttpRead(url=url, path=path):
                return f"{_without_user(url.split('?')[0])}{path}"
            case FunctionRead(function=function):
                return f"python:{function}"

    @property
    def request(self) -> JdbcRead | HttpRead | None:
        """What is asked of a database or a server; None for tables, files and functions."""
        return self.read if isinstance(self.read, JdbcRead | HttpRead) else None

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
        match self.read:
            case JdbcRead(url=url):
                return {"hosts": hosts} if (hosts := hosts_of(url)) else {}
            case _:
                return {}


def _without_user(url: str) -> str:
    """An address without a user and a password before its host."""
    return re.sub(r"//[^/@]*@", "//", url)


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
        return self in (LoadType.OVERWRITE, LoadType.FULL_LOAD)

    @property
    def is_idempotent(self) -> bool:
        """Whether rows that are read again replace their earlier versions."""
        return self is not LoadType.APPEND


@dataclass(frozen=True, slots=True)
class Load:
    """The load strategy and its settings.

    ``tie_break`` decides between rows of one batch with equal keys and watermarks. ``deduplicate`` names the keys by
    which an append with look-back leaves out what is there. ``window_columns`` maps watermark columns to their names
    after a transform. ``scd2_effective_column`` is when a version began, ``scd2_attributes`` the columns whose change
    makes one (all others than keys and watermarks, where there are none).
    """

    type: LoadType = LoadType.APPEND
    merge_keys: tuple[str, ...] = ()
    tie_break: tuple[str, ...] = ()
    replace_by_watermark: bool = False
    max_delete_fraction: float = 0.5
    allow_empty_window: bool = False
    deduplicate: tuple[str, ...] = ()
    window_columns: Mapping[str, str] = field(default_factory=dict)
    scd2_effective_column: str | None = None
    scd2_attributes: tuple[str, ...] = ()
