"""``config show`` for sources that are followed by columns, their connections, load strategies and state providers.

Keys that mean nothing for a kind are left out, so that what is printed loads without a notice.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any

from tidegate.config.problems import masked, masked_address
from tidegate.specs.columns import (
    AuthKind,
    ColumnSource,
    CsvOptions,
    FunctionRead,
    HttpAuth,
    HttpRead,
    JdbcRead,
    LoadType,
    LookBack,
    Pagination,
    PaginationKind,
    Read,
    StateSpec,
    TableFormat,
    TableRead,
)
from tidegate.specs.jdbc_addresses import shown_address
from tidegate.specs.locations import Secret
from tidegate.specs.masking import MASK, looks_secret
from tidegate.specs.project import PathSource, PipelineSpec, every_source
from tidegate.specs.units import FileRead, UnitSource


def connections(pipelines: tuple[PipelineSpec, ...]) -> dict[str, Any]:
    """The connections that the pipelines use, by name."""
    reads = [
        (name_of_connection(pipeline, source), request_of(source))
        for pipeline in pipelines
        for source in every_source(pipeline)
        if not isinstance(source, PathSource)
    ]
    found: dict[str, Any] = {}
    for name, read in reads:
        if isinstance(read, JdbcRead):
            found[name] = _database(read)
        elif isinstance(read, HttpRead):
            found[name] = _api(read)
    return found


def name_of_connection(pipeline: PipelineSpec, source: ColumnSource | UnitSource) -> str:
    """The name of a source's connection; one that was made in Python without a name gets one."""
    read = request_of(source)
    given = read.connection if isinstance(read, JdbcRead | HttpRead) else ""
    return given or f"{pipeline.name}.{source.name}"


def request_of(source: ColumnSource | UnitSource) -> Read | None:
    """What is asked of a server, a database or a function; None for files that are not downloaded."""
    return source.read.http if isinstance(source.read, FileRead) else source.read


def _database(read: JdbcRead) -> dict[str, Any]:
    return {
        "type": "jdbc",
        "url": shown_address(read.url),
        "user": read.user,
        "password": _hidden(read.password),
        "driver": read.driver,
        "packages": list(read.packages),
        "jars": list(read.jars),
        "properties": dict.fromkeys(read.properties, MASK),
    }


def _api(read: HttpRead) -> dict[str, Any]:
    limit = read.rate_limit
    return {
        "type": "http",
        "url": masked(read.url),
        "auth": _auth(read.auth),
        "rate_limit": {"requests": limit.requests, "per_seconds": limit.per_seconds} if limit else None,
        "retries": {
            "attempts": read.retries.attempts,
            "base_secs": read.retries.base_secs,
            "max_wait_secs": read.retries.max_wait_secs,
        },
        "timeout_secs": read.timeout_secs,
        "allowed_origins": list(read.allowed_origins),
    }


def _hidden(secret: Secret | None) -> str | None:
    return MASK if secret is not None else None


def _auth(auth: HttpAuth) -> dict[str, Any]:
    keys: dict[AuthKind, dict[str, Any]] = {
        AuthKind.NONE: {},
        AuthKind.BEARER: {"token": _hidden(auth.token)},
        AuthKind.BASIC: {"user": auth.user, "password": _hidden(auth.password)},
        AuthKind.API_KEY: {"token": _hidden(auth.token), "name": auth.name, "place": auth.place},
        AuthKind.OAUTH2: {
            "token_url": auth.token_url,
            "client_id": auth.client_id,
            "client_secret": _hidden(auth.client_secret),
            "scope": auth.scope,
        },
    }
    return {"type": auth.kind.value, **keys[auth.kind]}


def column_source(pipeline: PipelineSpec, source: ColumnSource) -> dict[str, Any]:
    """One source, with every key of its kind."""
    return {**_read(name_of_connection(pipeline, source), source), **_followed(source)}


def _read(connection: str, source: ColumnSource) -> dict[str, Any]:
    match source.read:
        case JdbcRead() as read:
            return {
                "type": "jdbc",
                "connection": connection,
                "table": read.table,
                "query": read.query,
                "partition_column": read.partition_column,
                "parallelism": read.parallelism,
                "fetch_size": read.fetch_size,
            }
        case HttpRead() as read:
            return {"type": "http", "connection": connection, **request_keys(read), **_bounds(read)}
        case TableRead() as read:
            return _table(read)
        case FunctionRead() as read:
            return {"type": "python", "function": read.function, "options": dict.fromkeys(read.options, MASK)}


def _table(read: TableRead) -> dict[str, Any]:
    data: dict[str, Any] = {"type": read.format.value, "source_uri": masked(read.location.uri)}
    if read.format is TableFormat.CSV:
        data["csv"] = csv_keys(read.csv)
    if read.format is TableFormat.EXCEL:
        data["sheet"] = read.sheet
    if read.format is TableFormat.JSON:
        data["lines"] = read.lines
    if read.format not in (TableFormat.DELTA, TableFormat.ICEBERG):
        data |= {"pattern": read.pattern, "follow_links": read.follow_links}
    return {**data, "storage_options": dict.fromkeys(read.location.options, MASK)}


def csv_keys(csv: CsvOptions) -> dict[str, Any]:
    """How CSV files are written."""
    return {
        "delimiter": csv.delimiter,
        "quote": csv.quote or "none",
        "escape": csv.escape,
        "header": csv.header,
        "columns": list(csv.columns),
        "null_values": list(csv.null_values),
        "skip_rows": csv.skip_rows,
        "encoding": "utf-8",
    }


def request_keys(read: HttpRead) -> dict[str, Any]:
    """What each request has."""
    data: dict[str, Any] = {
        "path": read.path or None,
        "method": read.method,
        "params": _without_secrets(read.params),
        "headers": dict.fromkeys(read.headers, MASK),
        "body": _without_secrets(read.body) if read.body is not None else None,
        "idempotent": read.idempotent,
        "records": read.records or None,
        "error": read.error,
        "pagination": _pagination(read.pagination),
        "parallelism": read.parallelism,
        "max_response_mb": read.max_response_mb,
    }
    if read.method == "GET":
        del data["body"], data["idempotent"]
    return data


def _bounds(read: HttpRead) -> dict[str, Any]:
    return {
        "watermark_param_mapping": dict(read.watermark.mapping),
        "watermark_to_param": read.watermark.to_param,
        "watermark_param_location": read.watermark.location,
        "watermark_param_format": read.watermark.format,
        "watermark_split": read.watermark.split,
    }


def _without_secrets(body: Mapping[str, object]) -> dict[str, Any]:
    return {name: MASK if looks_secret(name) else _shown(value) for name, value in body.items()}


def _shown(value: object) -> object:
    if isinstance(value, Mapping):
        return _without_secrets(value)
    return [_shown(each) for each in value] if isinstance(value, list | tuple) else value


def _pagination(pages: Pagination) -> dict[str, Any]:
    if pages.kind is PaginationKind.NONE:
        return {"type": "none"}
    data: dict[str, Any] = {
        "type": pages.kind.value,
        "param": pages.param,
        "size_param": pages.size_param,
        "size": pages.size,
        "start": pages.start,
        "next": pages.next,
        "total": pages.total,
        "max_pages": pages.max_pages,
    }
    return {key: value for key, value in data.items() if value is not None}


def _followed(source: ColumnSource) -> dict[str, Any]:
    data: dict[str, Any] = {
        "watermark_columns": list(source.watermark_columns),
        "filter_expression": source.filter_expression,
        "source_timezone": source.source_timezone,
        "poll_interval_secs": source.poll_interval_secs,
    }
    if not source.watermark_columns:
        return data
    return data | {
        "watermark_mode": source.mode.value,
        "safety_lag": duration(source.safety_lag),
        "future_tolerance": duration(source.future_tolerance),
        "null_watermark": source.null_watermark.value,
        "backward": _backward(source.look_back),
        "timezone": source.look_back.timezone,
    }


def _backward(look_back: LookBack) -> dict[str, Any]:
    """Every key, so that it takes the place of the connection's look-back."""
    value = look_back.value
    return {
        "days": look_back.days,
        "hours": look_back.hours,
        "months": look_back.months,
        "years": look_back.years,
        "closing_day": look_back.closing_day,
        "value": str(value) if isinstance(value, Decimal) else value,
    }


def duration(lag: timedelta | None) -> str:
    """A duration as ISO 8601; ``none``.

    >>> duration(timedelta(days=1, minutes=5))
    'P1DT5M'
    """
    if lag is None:
        return "none"
    hours, rest = divmod(lag.seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    times = "".join(f"{value}{unit}" for value, unit in ((hours, "H"), (minutes, "M"), (seconds, "S")) if value)
    days = f"{lag.days}D" if lag.days else ""
    return f"P{days}T{times}" if times else f"P{days}"


def load_keys(pipeline: PipelineSpec) -> dict[str, Any]:
    """The keys of a load strategy that mean something with it."""
    load = pipeline.sink.load
    data: dict[str, Any] = {"load_type": load.type.value, "format": "delta"}
    if pipeline.unit_sources and load.type is LoadType.MERGE_UPSERT:
        data |= {"merge_keys": list(load.merge_keys), "tie_break": list(load.tie_break)}
    if not pipeline.column_sources:
        return data
    if load.type in (LoadType.MERGE_UPSERT, LoadType.MERGE_OVERWRITE, LoadType.SCD2):
        data["merge_keys"] = list(load.merge_keys)
    if load.tie_break:
        data["tie_break"] = list(load.tie_break)
    if load.type is LoadType.MERGE_OVERWRITE:
        data["replace_by_watermark"] = load.replace_by_watermark
    if load.type is LoadType.MERGE_OVERWRITE:
        data["max_delete_fraction"] = load.max_delete_fraction
    if load.type in (LoadType.APPEND, LoadType.MERGE_OVERWRITE) or load.type.reads_everything:
        data["allow_empty_window"] = load.allow_empty_window
    if load.type is LoadType.APPEND:
        data["deduplicate"] = list(load.deduplicate)
    if load.window_columns:
        data["window_columns"] = dict(load.window_columns)
    if load.type is LoadType.SCD2:
        data["scd2_effective_column"] = load.scd2_effective_column
        data["scd2_attributes"] = list(load.scd2_attributes)
    return data


def state_keys(state: StateSpec) -> dict[str, Any]:
    """The state provider, without user, password and parameters in its address."""
    return {
        "provider": state.provider.value,
        "url": masked_address(state.url.value) if state.url is not None else None,
        "storage_options": dict.fromkeys(state.options, MASK),
    }
