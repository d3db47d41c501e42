"""Sources of work units: time ranges crossed with units."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import unquote

from tidegate.config.column_source import TIMES, FunctionModel, JdbcReadModel, rows_problems, table_or_query_problems
from tidegate.config.document import Absolute, Problem, Scalar, Spot, nearest, sentence
from tidegate.config.http import HttpRequestModel, RequestModel, request_problems, show_request
from tidegate.config.models import Context, Model, Parts, dump, make, old_names, part
from tidegate.config.normal_form import is_unit_source
from tidegate.config.schema import column_types
from tidegate.config.sink import STRATEGY_KEYS, key_problems
from tidegate.config.units import (
    Param,
    ParamModel,
    WatermarkModel,
    WorkUnitModel,
    input_problems,
    is_clear,
    is_fixed_end,
    is_period,
    notice_unused_params,
    notice_unused_units,
    param_problems,
    unit_variables,
    uses_range,
    variable_problems,
    variables_used,
    watermark_problems,
    watermarks,
)
from tidegate.config.values import VARIABLE, address, check, refusal, text
from tidegate.schema.names import name_problem
from tidegate.specs.columns import FunctionRead, HttpRead, JdbcRead, LoadType
from tidegate.specs.keys import Checked, CountOrNone, Key, Name
from tidegate.specs.locations import Location
from tidegate.specs.table import SinkSpec
from tidegate.specs.units import (
    SEGMENT_COLUMN,
    UNIT_COLUMN,
    FileFormat,
    FileRead,
    RangeParam,
    Replace,
    SecondaryInput,
    Span,
    TimeWatermark,
    UnitRead,
    UnitSource,
    UnitWatermark,
)

_OF_OTHER_LOADS = tuple(key for key in STRATEGY_KEYS if key not in ("merge_keys", "tie_break", "skip_unchanged"))
_PERIODS = ("grace_period", "abstinent_period")
_REQUEST_KEYS = ("path", "method", "headers", "body", "idempotent", "parallelism", "max_response_mb")
_MADE = {"unit_column": UNIT_COLUMN, "segment_column": SEGMENT_COLUMN}
_OF_TIME = ("grace_period_days", "grace_period", "abstinent_period_days", "abstinent_period", "catch_up")


@check()
def http_template(value: object) -> str:
    """What follows the address of an API, with ``{{variables}}``."""
    path = text(value).strip()
    fixed = VARIABLE.sub("", path)
    if "://" in fixed or "?" in fixed or "#" in fixed:
        raise refusal("is not a path", "write it like /surveys/{{surveyId}}; put parameters into params")
    return "/" + path.lstrip("/")


@check()
def file_template(value: object) -> str:
    """A path or an address of object storage with ``{{variables}}``, in whose last parts are ``*`` and ``?``."""
    written = text(value)
    address(Scalar(VARIABLE.sub("x", written).replace("?", "x"), written, 0))
    return written


@check()
def column(value: object) -> str:
    """The name of a column of the table."""
    found = text(value)
    if wrong := name_problem(found):
        raise refusal(wrong)
    return found


PathTemplate = Annotated[
    str | None, Checked("http_template"), Key("What follows the connection's url, with variables.")
]


class UnitSourceModel(Model):
    """Keys of every source of work units."""

    reads: ClassVar[type[UnitRead]]
    step: ClassVar[str] = "<unit source>"
    takes: ClassVar[Parts] = (
        "watermark",
        part(UnitSource, "secondary_input:work_unit"),
        "params",
        "grace_period_days",
        part(UnitSource, "grace_period"),
        "abstinent_period_days",
        part(UnitSource, "abstinent_period:time_column"),
        "replace",
        part(UnitSource, "unit_column:expect_every"),
    )
    watermark: Annotated[
        tuple[WatermarkModel, ...], Key("The time range and the units; at most one of each.", old="ms.watermark")
    ] = ()
    params: Annotated[dict[str, Param], Key("Query parameters of each request, and variables.")] = field(
        default_factory=dict
    )
    grace_period_days: Annotated[
        CountOrNone | None,
        Key("Days before the high watermark to read again; short for grace_period.", old="ms.grace.period.days"),
    ] = None
    abstinent_period_days: Annotated[
        CountOrNone | None,
        Key("Days before a work unit may run again; short for abstinent_period.", old="ms.abstinent.period.days"),
    ] = None
    replace: Annotated[
        Literal[Replace.SEGMENTS, Replace.UNIT, Replace.NONE] | None,
        Key("What is replaced when a work unit is read again: its segments, all of it, or nothing."),
    ] = None

    def source(self, name: str, context: Context, sink: SinkSpec) -> UnitSource:
        """The source; ``sink`` is the table of its pipeline."""
        marks = [each.build(context) for each in self["watermark"]]
        time = next((each for each in marks if isinstance(each, TimeWatermark)), None)
        made = make(
            UnitSource,
            self.given,
            context,
            name=name,
            read=self.read(context),
            time=time,
            grace=self["grace_period"] or Span(self["grace_period_days"] or 0),
            abstinent=self["abstinent_period"] or Span(self["abstinent_period_days"] or 0),
            params=tuple(
                make(RangeParam, param.given, context, name=each)
                for each, param in self["params"].items()
                if param["watermark"] is not None
            ),
            replace=self._replacement(sink, followed=time is not None),
        )
        unit = next((each for each in marks if isinstance(each, UnitWatermark)), _unit_of_inputs(made.inputs))
        return replace(made, unit=unit)

    def _replacement(self, sink: SinkSpec, *, followed: bool) -> Replace:
        """Which rows are replaced: those with equal keys, else what the source says, else what it can tell apart."""
        if sink.load.type is LoadType.MERGE_UPSERT:
            return Replace.MERGE_KEYS
        if self["replace"] is not None or not followed:
            return Replace(self["replace"] or Replace.UNIT)
        return Replace.TIME_COLUMN if self["time_column"] is not None else Replace.SEGMENTS

    def literal_params(self) -> dict[str, str]:
        """The parameters that are texts."""
        return {name: param["value"] for name, param in self["params"].items() if param["value"] is not None}

    @abstractmethod
    def read(self, context: Context) -> UnitRead:
        """What is read for each work unit."""

    @classmethod
    def show_source(cls, source: UnitSource) -> dict[str, Any]:
        """Every key that applies to this type of source."""
        bounds = {
            each.name: ParamModel.show_of(source.time.name if source.time else "", each) for each in source.params
        }
        given = {
            "watermark": [WatermarkModel.show(each) for each in (source.time, source.unit) if each],
            "work_unit": WorkUnitModel.show_of(source),
        }
        data = cls.show_read(source.read)
        keys = ["watermark", "secondary_input", "work_unit", "timezone", "poll_interval_secs", "max_pass_secs"]
        keys += ["expect_every"]
        data |= dump(cls, source, keys, given)
        data["params"] = data.get("params", {}) | bounds
        keys = ["grace_period", "abstinent_period", "catch_up", "time_column"] if source.time else []
        keys += ["unit_column", "segment_column"] if source.replace is not Replace.MERGE_KEYS else []
        keys += ["replace"] if source.replace in (Replace.SEGMENTS, Replace.UNIT, Replace.NONE) else []
        return data | dump(cls, source, keys)

    @classmethod
    @abstractmethod
    def show_read(cls, read: Any) -> dict[str, Any]:
        """What is read, in the words of the file."""


def _unit_of_inputs(inputs: Iterable[SecondaryInput]) -> UnitWatermark | None:
    """The units of a secondary input alone, named after its variable."""
    made = next((each for each in inputs if not each.for_all), None)
    return None if made is None else UnitWatermark(made.variable or ".".join(made.fields))


MS_KEYS = old_names(UnitSourceModel)
"""Name in properties files → the path of the key below a source."""


class UnitHttpModel(UnitSourceModel, HttpRequestModel):
    """Records of an HTTP API, for each work unit."""

    reads: ClassVar = HttpRead
    step: ClassVar[str] = "<http-unit source>"
    type: Annotated[Literal["http"], Key("The kind of source; unset: that of the connection.")] = "http"
    path: PathTemplate = None

    def read(self, context: Context) -> HttpRead:
        return self.request(context, path=self["path"] or "", params=self.literal_params())

    @classmethod
    def show_read(cls, read: HttpRead) -> dict[str, Any]:
        return show_request(cls, read)


class UnitJdbcModel(UnitSourceModel, JdbcReadModel):
    """A table or a query of a database, for each work unit."""

    reads: ClassVar = JdbcRead
    step: ClassVar[str] = "<jdbc-unit source>"
    type: Annotated[Literal["jdbc"], Key("The kind of source; unset: that of the connection.")] = "jdbc"

    read = JdbcReadModel.read

    @classmethod
    def show_read(cls, read: JdbcRead) -> dict[str, Any]:
        return dump(cls, read, ("type", "connection", "table", "query", "fetch_size"))


class UnitPythonModel(FunctionModel, UnitSourceModel):
    """A Python function that returns a DataFrame, called for each work unit."""

    reads: ClassVar = FunctionRead
    step: ClassVar[str] = "<python-unit source>"


class DownloadModel(UnitSourceModel, RequestModel):
    """Files whose addresses are made from variables."""

    reads: ClassVar = FileRead
    step: ClassVar[str] = "<download source>"
    takes: ClassVar[Parts] = (
        "type",
        part(FileRead, "source_uri"),
        "connection",
        "path",
        part(FileRead, "format", "compression:csv", "sheet", "follow_links"),
        part(Location, "storage_options"),
    )
    type: Annotated[Literal["download"], Key("The kind of source.")]
    connection: Annotated[Name | None, Key("The connection of type http, instead of source_uri.")] = None
    path: PathTemplate = None

    def read(self, context: Context) -> FileRead:
        timezone = self["timezone"] if self["format"] is FileFormat.EXCEL else "UTC"
        if self["connection"] is not None:
            server = self.request(context, path=self["path"] or "", params=self.literal_params())
            others: dict[str, Any] = {"location": None, "http": server, "follow_links": False}
        else:
            uri = _absolute_template(self["source_uri"] or "", context.absolute)
            others = {"location": Location(uri, self["storage_options"])}
        return make(FileRead, self.given, context, timezone=timezone, **others)

    @classmethod
    def show_read(cls, read: FileRead) -> dict[str, Any]:
        fits = {
            "type": True,
            "format": True,
            "compression": read.format not in (FileFormat.PARQUET, FileFormat.AVRO, FileFormat.EXCEL),
            "csv": read.format is FileFormat.CSV,
            "sheet": read.format is FileFormat.EXCEL,
        }
        data = dump(cls, read, [key for key in fits if fits[key]])
        if read.http is None:
            return data | dump(cls, read, ("source_uri", "follow_links", "storage_options"))
        asked = show_request(cls, read.http)
        del asked["max_response_mb"]
        return data | asked


def _absolute_template(written: str, absolute: Absolute) -> str:
    """The address of a template: its braces, ``*`` and ``?`` stay as they are written."""
    uri = absolute(written)
    return uri if "://" in written else re.sub("%7B|%7D|%2A|%3F", lambda found: unquote(found[0]), uri)


def unit_problems(pipeline: Spot, sources: Mapping[str, Spot]) -> Iterator[Problem]:
    """Problems of one pipeline; ``sources`` are those that are not reported already."""
    units = {name: source for name, source in sources.items() if is_unit_source(source.block)}
    others = [source for name, source in sources.items() if name not in units]
    if units and others:
        text = f"is not a source of work units, and {next(iter(units))!r} is; give each kind a pipeline of its own"
        yield others[0].problem(text)
    for source in units.values():
        found = list(_source_problems(source, pipeline))
        # A misspelt variable may be the time that is missing: one problem, not two.
        yield from found or repeat_problems(source, pipeline)
    if units:
        yield from _pipeline_problems(pipeline)


def _source_problems(source: Spot, pipeline: Spot) -> Iterator[Problem]:
    yield from input_problems(source)
    for key in _PERIODS:
        yield from source.both(key, f"{key}_days")
    yield from _kind_problems(source)
    if is_clear(source):
        yield from watermark_problems(source)
        yield from _range_problems(source, pipeline)
        yield from param_problems(source)
        yield from variable_problems(source)
    yield from _column_problems(source, pipeline)


def _range_problems(source: Spot, pipeline: Spot) -> Iterator[Problem]:
    """Keys that need a time range."""
    if watermarks(source, "datetime"):
        return
    kind = source.below("work_unit").get("partition")
    if kind is not None and kind != "none":
        text = "splits a time range, and there is none; give a watermark of type datetime, or remove it"
        yield source.problem(text, "work_unit", "partition")
    if source.text("replace") == "segments" and pipeline.below("sink").text("load_type") != "merge_upsert":
        text = "segments are parts of a time range, and there is none; allowed: unit, none"
        yield source.problem(text, "replace")
    if source.text("time_column") is not None:
        yield source.problem("is compared with a time range, and there is none; remove it", "time_column")


def _reads_whole(source: Spot, pipeline: Spot) -> bool:
    """Whether each read of a unit gets the same rows, whatever the range, and nothing tells which are new."""
    merges = pipeline.below("sink").text("load_type") == "merge_upsert"
    is_told_apart = merges or source.has("time_column") or uses_range(source)
    return bool(watermarks(source, "datetime")) and not is_told_apart


def _comes_once(source: Spot) -> bool:
    """Whether a unit is meant to be read a single time: it then abstains, or the range never moves on.

    A run that would read it again all the same stops, so nothing has to be decided beforehand.
    """
    stays = is_period(source, "abstinent_period") or all(map(is_fixed_end, watermarks(source, "datetime")))
    return stays and not is_period(source, "grace_period")


def repeat_problems(source: Spot, pipeline: Spot) -> Iterator[Problem]:
    """Sources that would append the same rows again and again, and do not say that they should."""
    if not is_clear(source) or not _reads_whole(source, pipeline) or source.text("replace") == "none":
        return
    is_file = source.text("type") == "download"
    again = "the same file is read again and its rows are" if is_file else "the same rows are read again and"
    history = "`replace: none` (every read is kept, as history)"
    by_time = "`time_column: NAME` (only rows of the range are taken)"
    if source.below("work_unit").get("partition") not in (None, "none"):
        yield source.problem(
            f"the request does not contain the time: for each time partition {again} appended once more; write "
            f"{history} or {by_time}, or remove the partition and write `replace: unit` (a source that was read in "
            "partitions then needs one run with --accept-new-partitions)",
            "work_unit",
            "partition",
        )
        return
    if source.text("replace") == "unit" or _comes_once(source):
        return
    owner = "unit" if unit_variables(source) else "source"
    yield source.problem(
        f"the request does not contain the time: each day the range moves on, {again} appended once more; write "
        f"`replace: unit` (what is read replaces all rows of its {owner}), {history} or {by_time}. A table that was "
        f"loaded without it may have doubled rows: unit replaces them at the next read of their {owner}, none leaves "
        "them as they are, and with either `tidegate plan` counts them",
        "replace",
    )


def _kind_problems(source: Spot) -> Iterator[Problem]:
    """Problems of one type of source."""
    kind = str(source.text("type"))
    if kind == "jdbc":
        yield from table_or_query_problems(source)
    if kind in ("http", "download"):
        yield from request_problems(source)
    if kind != "download":
        return
    if source.has("sheet") and source.text("format") != "excel":
        yield source.problem("works only with workbooks; set format: excel, or remove it", "sheet")
    connected, placed = source.has("connection"), source.has("source_uri")
    if connected == placed:
        yield from source.both("source_uri", "connection")
        if not placed:
            yield source.problem("is missing; give it, or 'connection'", "source_uri")
        return
    if connected and not source.has("path"):
        yield source.problem("is missing; the server of the connection has more than one file", "path")
    if connected and source.has("storage_options"):
        text = "works only with object storage, and the connection is of type http; remove it"
        yield source.problem(text, "storage_options")
    if connected and source.has("max_response_mb"):
        text = "limits pages of records, and this source downloads files of any size; remove it"
        yield source.problem(text, "max_response_mb")
    for key in _REQUEST_KEYS if placed else ():
        if source.has(key):
            yield source.problem("works only with requests to a server; give 'connection', or remove it", key)


def _column_problems(source: Spot, pipeline: Spot) -> Iterator[Problem]:
    """Problems of the columns by which a work unit that is read again finds its old rows."""
    merges = pipeline.below("sink").text("load_type") == "merge_upsert"
    if merges and source.has("replace"):
        text = "has no effect with load_type merge_upsert, which replaces rows with equal merge_keys; remove it"
        yield source.problem(text, "replace")
    declared = column_types(pipeline)
    column = source.text("time_column")
    if column is not None and declared and column not in declared:
        text = sentence(f"{column.raw!r} is not a declared column", nearest(column, declared))
        yield source.problem(text, "time_column")
    elif column is not None and declared and declared[column] not in TIMES:
        text = f"{column.raw!r} is of type {declared[column]}; allowed: a timestamp or date column"
        yield source.problem(text, "time_column")
    yield from _unit_column_problems(source, declared, merges=merges)


def _unit_column_problems(source: Spot, declared: Mapping[str, str], *, merges: bool) -> Iterator[Problem]:
    """Unit and segment columns whose names are taken."""
    made = {key: str(source.text(key) or name) for key, name in _MADE.items()}
    if made["unit_column"].lower() == made["segment_column"].lower():
        yield source.problem("is also the unit_column; use another name", "segment_column")
    for key, name in made.items():
        if not merges and name.lower() in {column.lower() for column in declared}:
            yield source.problem(f"{name!r} is also a declared column; use another name", key)
        if merges and source.has(key):
            text = "has no effect with load_type merge_upsert, whose tables have no such column; remove it"
            yield source.problem(text, key)


def same_unit_column_problems(pipelines: Mapping[str, Spot]) -> Iterator[Problem]:
    """Sources of one table that would take each other's rows for their own."""
    first: dict[str, str] = {}
    for name, pipeline in pipelines.items():
        if pipeline.below("sink").text("load_type") == "merge_upsert":
            continue
        for each, source in pipeline.each("sources"):
            if not is_unit_source(source.block):
                continue
            column = str(source.text("unit_column") or UNIT_COLUMN)
            title = first.setdefault(column.lower(), f"{name}/{each}")
            if title != f"{name}/{each}":
                text = f"{column!r} also marks the rows of {title} in the same table; use another name"
                yield source.problem(text, "unit_column")


def _pipeline_problems(pipeline: Spot) -> Iterator[Problem]:
    """Pipeline keys that work units do not support."""
    yield from rows_problems(pipeline)
    sink = pipeline.below("sink")
    kind = sink.text("load_type")
    if kind is not None and kind not in ("append", "merge_upsert"):
        text = f"{kind.raw!r} does not work with work units; allowed: append, merge_upsert"
        yield sink.problem(text, "load_type")
    else:
        yield from key_problems(sink, str(kind or "append"), _OF_OTHER_LOADS)
    for key in _OF_OTHER_LOADS:
        if sink.has(key):
            yield sink.problem("has no effect with work units; remove it", key)
    if pipeline.text("schema_evolution") == "overwrite":
        text = "overwrite would remove the rows of other work units; allowed: merge, strict"
        yield pipeline.problem(text, "schema_evolution")


def unit_notices(source: Spot) -> Iterator[str]:
    """Notices about one source."""
    if not is_clear(source):
        return
    followed = bool(watermarks(source, "datetime"))
    for key in _OF_TIME if not followed else ():
        if source.has(key):
            yield f"{source.path(key)} has no effect without a datetime watermark"
    sink = source.top.below("pipelines", str(source.loc[1]), "sink")
    if sink.text("load_type") == "merge_upsert" and not source.has("time_column") and not sink.words("tie_break"):
        yield (
            f"{source.path()}: of rows with equal merge_keys the last one read wins, even if it is "
            "older; give 'time_column', or sink.tie_break"
        )
    work = source.below("work_unit")
    if work.has("min_records_after") and not str(work.text("min_records") or "0").strip("0"):
        yield f"{work.path('min_records_after')} has no effect without min_records"
    if work.has("not_found") and not source.has("connection"):
        yield f"{work.path('not_found')} has no effect without an HTTP server"
    if source.text("type") == "python":
        return
    used = variables_used(source)
    yield from notice_unused_units(source, used)
    if followed:
        yield from notice_unused_params(source, used)
        yield from _notice_repeated_reads(source, merges=sink.text("load_type") == "merge_upsert")


def _notice_repeated_reads(source: Spot, *, merges: bool) -> Iterator[str]:
    """Notices about requests without the time, where that is no mistake for sure."""
    if uses_range(source) or source.has("time_column") or source.text("replace") in ("unit", "none"):
        return
    if merges:
        yield (
            f"{source.path()}: the range is used nowhere, so every range reads the same; "
            "give 'time_column', or params with 'watermark'"
        )
        return
    yield (
        f"{source.path()}: the request does not contain the time, so each unit is read once, and a run that would read "
        "one again stops; 'replace: unit' or 'replace: none' says what it does instead"
    )
