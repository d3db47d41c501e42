"""Checks of ``doctor`` at the source: an API is sent one request, tables and files are listed, a database logged in to.

They ask as a run would, by the same drivers and clients, and read no row of a database and no second page of an API.
What only a run can find out is told as not tried.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from typing import Any

import pyarrow.parquet as pq

from tidegate.core.columns.planner import plan_columns
from tidegate.core.columns.predicates import Bound
from tidegate.core.dialects.registry import dialect_of
from tidegate.core.units.planner import plan_units
from tidegate.core.units.state import Units
from tidegate.errors import SourceError, SourceMissing, TidegateError
from tidegate.protocol.delta import pin_table
from tidegate.protocol.position import utc_now
from tidegate.reports.checks import Check, not_tried
from tidegate.reports.page import names
from tidegate.reports.wording import count
from tidegate.runs.check_jobs import REACH
from tidegate.runs.checks import CheckSettings, collect_checks
from tidegate.runs.database_checks import (
    COLUMNS_SHOWN,
    ONLY_RUN,
    DatabaseCheck,
    NamedColumn,
    check_answer,
    compare_columns,
    tell_address,
)
from tidegate.runs.tracker import ColumnBound, UnitBound
from tidegate.sources.http.bounds import Part, parts, upper
from tidegate.sources.http.client import Received, RequestPace, RetryableFailure, Sender, public_url, request_of
from tidegate.sources.http.responses import FirstPage, read_first_page
from tidegate.sources.reader import address_of
from tidegate.sources.units.fetch import FileAddress, SegmentRequest, first_request
from tidegate.sources.units.work import UnitWork, fill_query, values_of
from tidegate.specs.columns import (
    ColumnSource,
    HttpRead,
    JdbcRead,
    NullWatermark,
    PaginationKind,
    Retries,
    TableFormat,
    TableRead,
)
from tidegate.specs.locations import Location
from tidegate.specs.masking import Mask
from tidegate.specs.project import PipelineSpec
from tidegate.specs.units import FileRead, NotFound, UnitSource
from tidegate.storage.options import split_uri
from tidegate.storage.port import Scope, SeekableInput
from tidegate.storage.stores import open_store

REQUEST_SECONDS = 10.0
"""Below the time limit of a check, so that the client itself says what it waited for."""


def check_columns(bound: ColumnBound, name: str, by: CheckSettings) -> Iterator[Check]:
    """Examine the source of a pipeline that follows columns."""
    source, pipeline = bound.source, bound.pipeline
    read, after = columns_named(pipeline, source)
    match source.read:
        case JdbcRead() as asked:
            declared = [NamedColumn("schema.fields", each.name) for each in pipeline.schema.fields]
            database = DatabaseCheck(name, asked, bound, by, source.filter_expression)
            yield from database.look([*read, *declared])
        case HttpRead() as asked:
            part = _first_part(bound, utc_now())
            if part is None:
                yield not_tried(name, f"http: {asked.uri}: nothing can be new now, so no request is due", ONLY_RUN)
            else:
                yield from _check_api(name, asked, part, read, is_declared=bool(pipeline.schema.fields))
        case TableRead() as asked:
            yield from _check_table(name, asked, read, source.name)
        case asked:
            yield not_tried(name, f"{asked.type_name}: {asked.uri}; only a run calls it", "run the pipeline")
    if after:
        told = ", ".join(f"{each.key} {each.name}" for each in after)
        yield not_tried(name, f"columns after the transform, which only a run makes: {told}", ONLY_RUN)


def check_units(bound: UnitBound, name: str, units: Units, by: CheckSettings) -> Iterator[Check]:
    """Examine a source of work units by the first one that would run now."""
    work = _first_work(bound, units)
    # Values of a secondary input may be secrets that the configuration does not know.
    mask = Mask.of(*(each.value for each in (() if work is None else work.secrets.values())))
    yield from mask.deep(tuple(collect_checks(name, lambda: _check_work(bound, name, work, by))))


def _check_work(bound: UnitBound, name: str, work: UnitWork | None, by: CheckSettings) -> Iterator[Check]:
    source = bound.source
    read, after = columns_named(bound.pipeline, source)
    wanted = [*read, *after] if bound.pipeline.transform is None else read
    match source.read:
        case JdbcRead() as asked:
            if asked.query is not None and work is None:
                yield check_answer(name, asked)
                yield not_tried(name, "no work unit would run now, so its query has no values", ONLY_RUN)
                return
            if asked.query is not None and work is not None:
                values = values_of(source, work, work.segments[0])
                asked = replace(asked, query=fill_query(asked.query, values, dialect_of(asked.url)))
            yield from DatabaseCheck(name, asked, bound, by).look(wanted)
        case (HttpRead() | FileRead()) as asked if work is None:
            yield not_tried(
                name, f"{asked.type_name}: no work unit would run now, so there is no address to try", ONLY_RUN
            )
        case HttpRead() | FileRead() as asked:
            assert work is not None
            yield from _check_unit(name, source, asked, first_request(source, work))
        case asked:
            yield not_tried(name, f"{asked.type_name}: {asked.uri}; only a run calls it", "run the pipeline")


def columns_named(
    pipeline: PipelineSpec, source: ColumnSource | UnitSource
) -> tuple[list[NamedColumn], list[NamedColumn]]:
    """The columns of the source that the configuration names; and those after a transform, if there is one."""
    load, partition_by = pipeline.sink.load, pipeline.sink.partition_by
    read = {"watermark_columns": getattr(source, "watermark_columns", ()), "time_column": _one(source, "time_column")}
    read["partition_column"] = _one(source.read, "partition_column")
    after = {
        "merge_keys": load.merge_keys,
        "tie_break": load.tie_break,
        "deduplicate": load.deduplicate,
        "scd2_effective_column": _one(load, "scd2_effective_column"),
        "scd2_attributes": load.scd2_attributes,
        "partition_by.column": _one(partition_by, "column"),
    }
    # Tidegate adds these itself.
    added = {*pipeline.sink.metadata_columns, _get_name(source, "unit_column"), _get_name(source, "segment_column")}
    before, later = (
        [NamedColumn(key, each) for key, columns in group.items() for each in columns if each not in added]
        for group in (read, after)
    )
    return (before, later) if pipeline.transform is not None else ([*before, *later], [])


def _get_name(holder: object, key: str) -> str | None:
    found: str | None = getattr(holder, key, None)
    return found


def _one(holder: object, key: str) -> tuple[str, ...]:
    found = _get_name(holder, key)
    return () if found is None else (found,)


def _first_part(bound: ColumnBound, now: datetime) -> Part | None:
    """The first request of the next run, by the state that is known without opening the table."""
    source, pipeline = bound.source, bound.pipeline
    try:
        recorded = bound.read_recorded()
        version = 0 if recorded is None else recorded.version
        state = bound.decode_recorded(recorded)
        plan = plan_columns(pipeline.name, source, pipeline.sink.load, state, version, now)
        caps = {column: Bound(value, inclusive=True) for column, value in upper(source, pipeline.schema, now).items()}
        found = parts(source, replace(plan.reads, nulls=NullWatermark.INCLUDE).capped(caps), now)
    except TidegateError:
        return Part()  # the checks of the table tell it
    return found[0] if found else None


def _first_work(bound: UnitBound, units: Units) -> UnitWork | None:
    recorded = bound.read_recorded()
    version = 0 if recorded is None else recorded.version
    state: Any = bound.decode_recorded(recorded)
    plan = plan_units(bound.pipeline.name, bound.source, state, units, version, utc_now())
    first = next(plan.works(), None)
    return None if first is None or not first.segments else UnitWork.of(first, units)


def pause_of(read: HttpRead) -> float:
    """The seconds that the rate limit of a server asks for before a request."""
    return 0.0 if read.rate_limit is None else read.rate_limit.per_seconds / read.rate_limit.requests


def _reason_against(read: HttpRead) -> tuple[str, str] | None:
    """Why no request is sent for a check, and what to do about it; None if one is."""
    if read.method.upper() == "POST" and not read.idempotent:
        return "a POST may change something at the server", "set idempotent: true if it may be repeated without harm"
    if pause_of(read) > REQUEST_SECONDS:
        return f"the rate limit asks for {pause_of(read):g} s between two requests", ONLY_RUN
    return None


def _open_sender(read: HttpRead) -> tuple[HttpRead, Sender]:
    """A sender for one request that is not repeated."""
    limited = replace(read, retries=Retries(0), timeout_secs=min(read.timeout_secs, REQUEST_SECONDS))
    return limited, Sender(limited, RequestPace(limited.rate_limit, 1))


def _check_api(
    name: str, read: HttpRead, part: Part, wanted: Sequence[NamedColumn], *, is_declared: bool
) -> Iterator[Check]:
    """Send the first request of a read, and look at its response as the read would."""
    told = f"{read.method.upper()} {public_url(request_of(read, part).url)}"
    if (against := _reason_against(read)) is not None:
        yield check_answer(name, read)
        yield not_tried(name, f"{told}: {against[0]}", against[1])
        return
    limited, sender = _open_sender(read)
    with closing(sender):
        page = _ask_once(read, lambda: read_first_page(limited, part, sender))
    where = f"in {read.records!r}" if read.records else "in a list"
    yield Check(name, "ok", f"{told}: {count(page.records, 'record')} {where}; {_describe_pages(read, page)}")
    missing = [each for each in wanted if each.name not in page.fields]
    if page.records and missing and not is_declared:
        yield from compare_columns(name, wanted, page.fields, "no record of the first page: it")
    elif page.records and missing:
        for each in missing:
            told = f"{each.key}: no record of the first page has {each.name!r}, which would then be null"
            yield Check(name, "warn", told, f"correct it; the fields are {names(page.fields, COLUMNS_SHOWN)}")


def _ask_once(read: HttpRead, ask: Callable[[], Received]) -> Received:
    """What ``ask`` brings; a failure that a run would try again gets the remedy of somebody who waits."""
    try:
        return ask()
    except SourceError as error:
        if not isinstance(error.__cause__, RetryableFailure):
            raise
        if str(error.__cause__).startswith("status"):
            remedy = f"the server fails now: try later; a run repeats the request ({read.retries.attempts} retries)"
        else:
            remedy = f"{REACH}; a run waits up to {read.timeout_secs:g} s for a response (timeout_secs)"
        raise SourceError(error.problem, remedy) from None


def _describe_pages(read: HttpRead, page: FirstPage) -> str:
    paging = read.pagination
    if paging is None:
        return "nothing in the response says that there is more"
    if paging.kind is PaginationKind.NONE:
        return "one response is read, whatever it says (pagination: none)"
    more = "another page follows" if page.has_next else "no other page follows"
    return f"pages by {paging.kind.value}: {more}"


def _check_unit(
    name: str, source: UnitSource, read: HttpRead | FileRead, request: SegmentRequest | FileAddress
) -> Iterator[Check]:
    """Try the first address of a work unit: an API as for a read, a download without its content."""
    if isinstance(request, FileAddress):
        yield _list_first(name, read.type_name, request.root)
        if request.folder != request.root or not request.is_literal:
            yield not_tried(name, f"whether the files of each work unit are there, such as {request.display}", ONLY_RUN)
        return
    try:
        if isinstance(read, HttpRead):
            yield from _check_api(name, request.read, request.part, (), is_declared=True)
        else:
            yield _begin_download(name, request)
    except SourceMissing as error:
        if source.work.not_found is NotFound.FAIL:
            raise
        told = f"{error.problem}; not_found: {source.work.not_found.value} takes that as an answer"
        yield Check(name, "warn", told, "check the path if you expect this work unit to have rows")


def _begin_download(name: str, asked: SegmentRequest) -> Check:
    request = request_of(asked.read, asked.part)
    told = f"{request.method} {public_url(request.url)}"
    if (against := _reason_against(asked.read)) is not None:
        return not_tried(name, f"{told}: {against[0]}", against[1])
    _, sender = _open_sender(asked.read)
    with closing(sender):
        kind = _ask_once(asked.read, lambda: sender.fetch(request, lambda each: each.headers.get("content-type", "")))
        return Check(
            name, "ok", f"{told} answers with {sender.excerpt(kind, 80) or 'a file'}; its content was not read"
        )


def _check_table(name: str, read: TableRead, wanted: Sequence[NamedColumn], source: str) -> Iterator[Check]:
    """Whether there is a table, and whether it has the columns; of files only a run knows that, unless of Parquet."""
    listed = _list_first(name, read.format.value, read.location)
    yield listed
    if listed.verdict != "ok":
        return
    found = _columns_in(read, source)
    if found is not None:
        yield from compare_columns(name, wanted, found, "the table")
    elif wanted:
        told = ", ".join(dict.fromkeys(each.name for each in wanted))
        yield not_tried(name, f"whether the {read.format.value} files have the columns {told}", ONLY_RUN)


def _columns_in(read: TableRead, source: str) -> Sequence[str] | None:
    """The columns of a table by its metadata, of Parquet by the first file; None where only reading would tell."""
    match read.format:
        case TableFormat.DELTA:
            table = pin_table(read.location)
            if table is None:
                problem = f"there is no Delta table at {read.uri}"
                raise SourceError(problem, "correct source_uri, or run the pipeline that writes it first")
            return table.columns
        case TableFormat.ICEBERG:
            from tidegate.sources.iceberg import IcebergTable

            return [each["name"] for each in IcebergTable(read.location, source).fields]
        case TableFormat.PARQUET:
            store = open_store(read.location)
            files = (each for each in store.list(scope=Scope()) if each.path.endswith(".parquet"))
            first = next(files, None)
            # Partition columns stand in the path.
            if first is None or "=" in first.path:
                return None
            with pq.ParquetFile(SeekableInput(store, first.path)) as parquet:
                return list(parquet.schema_arrow.names)
        case _:
            return None


def _list_first(name: str, kind: str, location: Location) -> Check:
    if next(iter(open_store(location).list(scope=Scope())), None) is None:
        return Check(name, "warn", f"{kind}: there is nothing at {location.uri}", "correct source_uri")
    return Check(name, "ok", f"{kind}: {location.uri} answers")


def describe_place(source: Any) -> str:
    """Where a source is, for messages."""
    asked = source.request
    return tell_address(asked) if isinstance(asked, JdbcRead) else str(source.uri)


def server_of(source: Any) -> Hashable:
    """What a source is asked of, so that others of the same server wait for it; None for local files and functions."""
    match source.request:
        case JdbcRead() as read:
            return ("jdbc", read.connection, read.url, read.user, read.password)
        case HttpRead() as read:
            return ("http", address_of(read))
    return store_of(location_of(source))


def location_of(source: Any) -> Location | None:
    """Where the files or the table of a source lie; None for other sources."""
    found = getattr(source.read, "location", None) or getattr(source, "location", None)
    return found if isinstance(found, Location) else None


def store_of(location: Location | None) -> Hashable:
    """The bucket of a location; None for local disks."""
    if location is None or not location.is_located:
        return None
    scheme, authority, _ = split_uri(location.uri)
    return None if scheme in ("file", "memory") else (scheme, authority, location.options)
