"""Column sources: the keys they share; tables, functions and databases as sources. APIs are in ``http``."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import unquote

from tidegate.config import values as v
from tidegate.config.document import Absolute, Block, Loc, Notes, Problem, Scalar, Spot, find, problem
from tidegate.config.models import Context, Field, Model, Parts, dump, fields, keys_of, kinds_of, make, part
from tidegate.config.normal_form import TABLES
from tidegate.config.values import LIST, check, duration, refusal, text, texts, word_of
from tidegate.core.columns.look_back import look_back_of
from tidegate.specs.columns import ColumnSource, FunctionRead, JdbcRead, LookBack, Read, TableRead, WatermarkParams
from tidegate.specs.keys import Key
from tidegate.specs.locations import Location, holds_credentials, public_address
from tidegate.specs.table import SinkSpec

_TIME = re.compile(r"P(?:(\d{1,6})D)?(?:T(?:(\d{1,6})H)?(?:(\d{1,6})M)?(?:(\d{1,8})S)?)?")
OWN_KEYS = ("watermark_operator", "watermark_filter", "watermark_window")
"""Keys that replace a part of the read by the user's own code."""
NEEDS_COLUMNS = ("watermark_mode", "safety_lag", "future_tolerance", "null_watermark", "backward", *OWN_KEYS)
"""Keys of a source that have an effect only with ``watermark_columns``."""
PACE_KEYS = ("poll_interval_secs", "max_pass_secs", "expect_every")
COLUMN_KEYS = (
    ("watermark_columns", "filter_expression", "source_timezone", *PACE_KEYS),
    (*NEEDS_COLUMNS, "timezone"),
)
"""Keys of every column source in the order of ``config show``; the second half is for those with columns."""

TIMES = ("timestamp", "date")


@check(show=duration, of=timedelta)
def lag(value: object) -> timedelta | None:
    """An ISO 8601 duration of days, hours, minutes and seconds; ``none``."""
    word = word_of(value)
    if word.lower() == "none":
        return None
    match = _TIME.fullmatch(word)
    days, hours, minutes, rest = (int(part or 0) for part in match.groups()) if match else (0, 0, 0, 0)
    found = timedelta(days=days, hours=hours, minutes=minutes, seconds=rest)
    if not found:
        raise refusal("is not a duration", "allowed: 'PT5M', 'PT90S', 'PT2H', 'P1D', 'none'; above zero")
    return found


@check()
def operator(value: object) -> str:
    """``>``, ``>=``, or a function that returns one of them."""
    return v.function(value) if ":" in word_of(value) else v.choose(value, ">", ">=")


class BackwardModel(Model):
    """How far below the stored watermark a read begins again."""

    spec: ClassVar = LookBack
    takes: ClassVar[Parts] = (part(LookBack, "days:value"),)


def short_forms() -> dict[str, Field]:
    """``backward_days`` for ``backward: {days: …}``, and so on."""
    return {
        f"backward_{name}": replace(key, name=f"backward_{name}", key=Key(f"Short for backward.{name}."), owner=None)
        for name, key in fields(BackwardModel).items()
    }


class LookBackModel(Model):
    """The keys of look-back; those of `backward` win, key by key."""

    takes: ClassVar[Parts] = ("backward", short_forms, part(LookBack, "timezone"))
    backward: Annotated[BackwardModel | None, Key("How far below the watermark a read begins.")] = None

    def backward_keys(self) -> dict[str, object]:
        """The look-back keys that the block sets."""
        given = {key: self[key] for key in fields(LookBackModel) if key not in ("backward", "timezone")}
        if self["backward"] is not None:
            given["backward"] = {key: value for key, value in self["backward"].given.items() if value is not None}
        return {key: value for key, value in given.items() if value is not None and value != {}}


class WatermarkParamModel(Model):
    """Where the bounds of a read go in the requests to an API."""

    takes: ClassVar[Parts] = (part(WatermarkParams),)


class ConfigureModel(LookBackModel, WatermarkParamModel):
    """Another place for look-back keys and for the bounds of requests."""


class ColumnSourceModel(LookBackModel):
    """Keys of every column source."""

    reads: ClassVar[type[Read]]
    step: ClassVar[str] = "<column source>"
    takes: ClassVar[Parts] = (
        part(ColumnSource, "watermark_columns:null_watermark", "watermark_operator:watermark_window"),
        part(ColumnSource, "source_timezone:expect_every"),
    )
    configure: Annotated[ConfigureModel, Key("Another place for look-back keys and for the bounds of requests.")]

    def source(self, name: str, context: Context, sink: SinkSpec) -> ColumnSource:
        """The source. Without a look-back of its own it takes its connection's."""
        connection = self.get("connection")
        above: LookBackModel | None = context.connections[connection]["configure"] if connection else None
        zones = (self["timezone"], self["configure"]["timezone"], above["timezone"] if above else None)
        look_back = look_back_of(
            self["configure"].backward_keys() | self.backward_keys(),
            above=above.backward_keys() if above else None,
            timezone=next((zone for zone in zones if zone), "UTC"),
        )
        return make(ColumnSource, self.given, context, name=name, read=self.read(context), look_back=look_back)

    @abstractmethod
    def read(self, context: Context) -> Read:
        """What is read."""

    @classmethod
    def show_source(cls, source: ColumnSource) -> dict[str, Any]:
        """Every key of this type of source; watermark keys only if it has watermark columns."""
        given = {"backward": BackwardModel.show(source.look_back)}
        always, with_columns = COLUMN_KEYS
        keys = (*always, *with_columns) if source.watermark_columns else always
        return {**cls.show_read(source.read), **dump(cls, source, keys, given)}

    @classmethod
    @abstractmethod
    def show_read(cls, read: Any) -> dict[str, Any]:
        """What is read, as keys of the file."""


class TableSourceModel(ColumnSourceModel):
    """A Delta or Iceberg table, or files that are scanned as one table."""

    reads: ClassVar = TableRead
    step: ClassVar[str] = "<table source>"
    takes: ClassVar[Parts] = (part(TableRead), part(Location, "storage_options"))

    def read(self, context: Context) -> TableRead:
        return make(TableRead, self.given, context)

    @classmethod
    def show_read(cls, read: TableRead) -> dict[str, Any]:
        fits = [name for name, key in kinds_of(cls).items() if read.format in key.allowed]
        return dump(cls, read, ("type", "source_uri", *fits, "storage_options"))


class FunctionModel(Model):
    """A Python function that the file names."""

    takes: ClassVar[Parts] = ("type", part(FunctionRead))
    type: Annotated[Literal["python"], Key("The kind of source.")]

    def read(self, context: Context) -> FunctionRead:
        return make(FunctionRead, self.given, context)

    @classmethod
    def show_read(cls, read: FunctionRead) -> dict[str, Any]:
        return dump(cls, read, ("type", "function", "options"))


class PythonSourceModel(FunctionModel, ColumnSourceModel):
    """A Python function that returns a DataFrame."""

    reads: ClassVar = FunctionRead
    step: ClassVar[str] = "<python source>"


def column_source_problems(source: Spot, declared: Mapping[str, str]) -> Iterator[Problem]:
    """Problems of one column source of any type; ``declared`` maps columns to types."""
    kind = str(source.text("type"))
    for key, kinds in kinds_of(TableSourceModel).items() if kind in TABLES else ():
        if source.has(key) and kind not in kinds.allowed:
            allowed = ", ".join(kinds.allowed)
            yield source.problem(f"works only with type {allowed}; this source is of type {kind}", key)
    yield from _configure_problems(source, kind)
    if source.has("watermark_filter") and (kind == "http" or source.has("connection")):
        text = "works only with tables, files and functions; for a database or an API, use filter_expression"
        yield source.problem(text, "watermark_filter")
    columns = [str(word) for word in source.words("watermark_columns")]
    leading = columns[:1] if source.text("watermark_mode") == "tuple" else columns
    yield from _look_back_problems(source, {column: declared.get(column, "") for column in leading})
    yield from _lag_problems(source, {column: declared.get(column, "") for column in leading})


def _configure_problems(source: Spot, kind: str) -> Iterator[Problem]:
    """Keys given twice, in ``configure`` and beside it; request keys on a source that sends no requests."""
    for key, node in source.below("configure").block.items():
        if node is not None and source.has(key):
            yield source.problem("also given on the source; remove one of the two", "configure", key)
        if key in keys_of(WatermarkParams) and kind != "http":
            text = f"works only with type http; this source is of type {kind}"
            yield source.problem(text, "configure", key)


def _look_back_problems(source: Spot, kinds: Mapping[str, str]) -> Iterator[Problem]:
    """Look-back in days on a number column, or by a number on a time column, if the types are declared."""
    found = backward(source)
    for column, kind in kinds.items():
        fits = [key for key in found.keys if (key == "value") == (kind not in TIMES)]
        if found.keys and kind and (not fits or not _is_number_or_time(kind)):
            use = "backward: {value: …}" if kind not in TIMES else "backward: {days: …}"
            use = use if _is_number_or_time(kind) else "another column; look-back is for numbers and times"
            text = f"a look-back by {', '.join(found.keys)} does not fit {column!r}, which is of type {kind}; use {use}"
            yield problem(source.root, found.place, text)


def _lag_problems(source: Spot, kinds: Mapping[str, str]) -> Iterator[Problem]:
    """A safety lag although no watermark column has times, if the types are declared."""
    given = str(source.text("safety_lag") or "none").strip().lower() != "none"
    if given and kinds and all(kinds.values()) and not any(kind in TIMES for kind in kinds.values()):
        found = ", ".join(f"{column!r}, which is of type {kind}" for column, kind in kinds.items())
        text = f"has no effect on {found}; use a timestamp or date column, or backward: {{value: …}} with a merge"
        yield source.problem(text, "safety_lag")


def _is_number_or_time(kind: str) -> bool:
    return kind in (*TIMES, "int32", "int64", "float32", "float64") or kind.startswith("decimal")


def rows_problems(pipeline: Spot) -> Iterator[Problem]:
    """Pipeline keys that only file sources support."""
    if pipeline.text("delivery") == "staged":
        yield pipeline.problem("staged works only with file sources; set delivery: direct", "delivery")
    if pipeline.below("schema").has("rescued"):
        text = "works only with file sources; remove it"
        yield pipeline.problem(text, "schema", "rescued")
    sink = pipeline.below("sink")
    for name in sink.words("metadata_columns"):
        text = f"{str(name)!r} describes files, and these sources have none; add such a column in a transform"
        yield sink.problem(text, "metadata_columns")
    by = sink.below("partition_by")
    template = by.text("prefix_template")
    if template is not None and "=" in template and not by.has("column"):
        text = "takes values from file paths, and these sources have none; give 'column', or only column names"
        yield by.problem(text, "prefix_template")


@dataclass(frozen=True, slots=True)
class Backward:
    """The look-back of a source: its keys above zero, and their place in the file."""

    keys: tuple[str, ...]
    place: Loc


def backward(source: Spot) -> Backward:
    """The look-back of the source, directly or in its ``configure``; otherwise the connection's."""
    own = _backward_places(source, source.below("configure"))
    if own:
        return Backward(_keep_positive(source.root, own), own[next(iter(own))])
    above = _backward_places(connection_of(source).below("configure"))
    return Backward(_keep_positive(source.root, above), (*source.loc, "connection") if above else source.loc)


def connection_of(source: Spot) -> Spot:
    """The connection that the source names; an empty block if there is none."""
    return source.top.below("connections", str(source.text("connection") or ""))


def _backward_places(*blocks: Spot) -> dict[str, Loc]:
    """Where each key of look-back is given; nested keys win over short forms."""
    found: dict[str, Loc] = {}
    for each in blocks:
        found |= {key.removeprefix("backward_"): (*each.loc, key) for key in each.block if key.startswith("backward_")}
    for each in blocks:
        found |= {key: (*each.loc, "backward", key) for key in each.below("backward").block}
    return {key: place for key, place in found.items() if isinstance(find(blocks[0].root, place), Scalar)}


def _keep_positive(root: Block, given: Mapping[str, Loc]) -> tuple[str, ...]:
    return tuple(key for key, place in given.items() if str(find(root, place)).strip("0._ "))


def note_columns(source: Spot, notes: Notes) -> None:
    """Problems and notices of a column source: keys of file sources, short forms, keys without watermark columns."""
    if source.has("use_watermark"):
        kind = source.text("type")
        text = f"works only with type files; set type: files and format: {kind}, or give watermark_columns"
        notes.add(source.problem(text, "use_watermark"), (*source.loc, "use_watermark"))
    for place in (source, source.below("configure")):
        note_short_forms(place, notes)
    for key in NEEDS_COLUMNS if not source.has("watermark_columns") else ():
        if source.has(key):
            notes.notices.append(f"{source.path(key)} has no effect without watermark_columns")


def note_short_forms(holder: Spot, notes: Notes) -> None:
    """``backward_days`` beside ``backward: {days: …}``."""
    for key in holder.below("backward").block:
        if holder.has(f"backward_{key}"):
            notes.notices.append(f"{holder.path(f'backward_{key}')} has no effect beside backward.{key}")


_COORDINATE = re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+", re.ASCII)


@check()
def jdbc_url(value: object) -> str:
    """The address of a database, without credentials in it."""
    where = text(value).strip()
    if not re.match(r"jdbc:[a-z0-9]+(?:[+_.-][a-z0-9]+)*:.", where) or not where.isprintable():
        raise refusal("is not a JDBC address", "write it like jdbc:postgresql://host:5432/database")
    if "${" in where:
        raise refusal("contains '${'", "set the environment variable; a doubled '$' is a plain '$'")
    if holds_credentials(where):
        raise refusal("contains credentials", "put them into user, password and properties")
    return where


@check(LIST)
def packages(value: object) -> tuple[str, ...]:
    """Maven coordinates."""
    found = texts(value)
    if not all(_COORDINATE.fullmatch(each) for each in found):
        raise refusal("contains something that is not a Maven coordinate", "allowed: group:artifact:version")
    return found


class JdbcConnectionModel(Model):
    """A database."""

    step: ClassVar[str] = "<jdbc connection>"
    takes: ClassVar[Parts] = (
        "type",
        part(JdbcRead, "url", "user:password", "driver:jars", "properties", "max_connections"),
    )
    type: Annotated[Literal["jdbc"], Key("The kind of connection.")]
    configure: Annotated[LookBackModel, Key("Look-back of sources without one of their own.")]

    @classmethod
    def show(cls, spec: JdbcRead) -> dict[str, Any]:
        """The connection of a read; its look-back is shown with the sources."""
        keys = [key for key in fields(cls) if key != "configure"]
        return dump(cls, spec, keys, {"url": public_address(spec.url)})


class JdbcReadModel(Model):
    """What is read of a database, and how."""

    step: ClassVar[str] = "<jdbc source>"
    takes: ClassVar[Parts] = (part(JdbcRead, "connection", "table:query", "fetch_size"),)

    def read(self, context: Context) -> JdbcRead:
        given = {**context.connections[self["connection"]].given, **self.given}
        url = with_path(given["url"], r"(jdbc:sqlite:)(?!:|/|file:)(.+)", context.absolute)
        jars = tuple(context.absolute(jar) for jar in given["jars"])
        return make(JdbcRead, given, context, url=url, jars=jars)


class JdbcSourceModel(ColumnSourceModel, JdbcReadModel):
    """A table or a query of a database."""

    reads: ClassVar = JdbcRead
    step: ClassVar[str] = "<jdbc source>"
    takes: ClassVar[Parts] = ("type", part(JdbcRead, "partition_column:parallelism", "reader"))
    type: Annotated[Literal["jdbc"], Key("The kind of source; unset: that of the connection.")] = "jdbc"
    read = JdbcReadModel.read

    @classmethod
    def show_read(cls, read: JdbcRead) -> dict[str, Any]:
        keys = ("type", "connection", "table", "query", "partition_column", "parallelism", "fetch_size", "reader")
        return dump(cls, read, keys)


def with_path(url: str, form: str, absolute: Absolute) -> str:
    """``url`` with its relative file path made absolute; ``form`` matches the text before the path, then the path."""
    found = re.fullmatch(form, url)
    return found[1] + unquote(absolute(found[2]).removeprefix("file://")) if found else url


def table_or_query_problems(source: Spot) -> Iterator[Problem]:
    """``table`` and ``query`` both given, or neither."""
    yield from source.both("query", "table")
    if not source.has("table") and not source.has("query"):
        yield source.problem("needs 'table' or 'query'")


def reader_problems(source: Spot) -> Iterator[Problem]:
    """``reader: adbc`` for another database than PostgreSQL."""
    url = connection_of(source).text("url")
    if source.text("reader") == "adbc" and url is not None and not url.startswith("jdbc:postgresql:"):
        text = f"adbc reads PostgreSQL only, and the connection {str(source.text('connection'))!r} is another database"
        yield source.problem(f"{text}; set reader: jdbc", "reader")
