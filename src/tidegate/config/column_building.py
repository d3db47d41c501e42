"""Checked models → specs, for sources that are followed by columns, load strategies and state providers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from urllib.parse import unquote

from tidegate.config.blocks import CsvModel
from tidegate.config.column_models import (
    ColumnSourceModel,
    LoadModel,
    LookBackModel,
    PythonSourceModel,
    StateModel,
    TableSourceModel,
    WatermarkParamModel,
)
from tidegate.config.database_models import JdbcConnectionModel, JdbcReadModel, JdbcSourceModel
from tidegate.config.http_models import (
    AuthModel,
    HttpConnectionModel,
    HttpRequestModel,
    HttpSourceModel,
    PaginationModel,
    RequestModel,
)
from tidegate.core.columns.look_back import look_back_of
from tidegate.specs.columns import (
    ColumnSource,
    CsvOptions,
    FunctionRead,
    HttpAuth,
    HttpRead,
    JdbcRead,
    Load,
    LookBack,
    Pagination,
    ProviderKind,
    RateLimit,
    Read,
    Retries,
    StateSpec,
    TableRead,
    WatermarkParams,
)
from tidegate.specs.locations import Location, Options, Secret

Absolute = Callable[[str], str]
Connection = JdbcConnectionModel | HttpConnectionModel
Connections = Mapping[str, Connection]


def column_source(name: str, model: ColumnSourceModel, connections: Connections, absolute: Absolute) -> ColumnSource:
    """A source that is followed by columns."""
    above = connections[model.connection].configure if isinstance(model, JdbcSourceModel | HttpSourceModel) else None
    return ColumnSource(
        name=name,
        read=_read(model, connections, absolute),
        watermark_columns=model.watermark_columns,
        mode=model.watermark_mode,
        filter_expression=model.filter_expression,
        look_back=_look_back(model, above),
        safety_lag=model.safety_lag,
        future_tolerance=model.future_tolerance,
        null_watermark=model.null_watermark,
        source_timezone=model.source_timezone,
        poll_interval_secs=model.poll_interval_secs,
    )


def _look_back(model: ColumnSourceModel, above: LookBackModel | None) -> LookBack:
    """The source's look-back as a whole, or the connection's where the source has none."""
    zones = (model.timezone, model.configure.timezone, above.timezone if above else None)
    own = _backward(model.configure) | _backward(model)
    return look_back_of(
        own, above=_backward(above) if above else None, timezone=next((zone for zone in zones if zone), "UTC")
    )


def _backward(model: LookBackModel) -> dict[str, object]:
    """What a block says of look-back: only the keys it has."""
    given = model.model_dump(include=set(LookBackModel.model_fields) - {"timezone"}, exclude_none=True)
    return {key: value for key, value in given.items() if value != {}}


def _read(model: ColumnSourceModel, connections: Connections, absolute: Absolute) -> Read:
    match model:
        case TableSourceModel():
            return TableRead(
                format=model.type,
                location=Location(absolute(model.source_uri), model.storage_options),
                csv=csv_options(model.csv),
                sheet=model.sheet,
                lines=model.lines,
                pattern=model.pattern,
                follow_links=model.follow_links,
            )
        case PythonSourceModel():
            return FunctionRead(model.function, model.options)
        case JdbcSourceModel():
            read = jdbc_read(model, connections[model.connection], absolute)
            return replace(read, partition_column=model.partition_column, parallelism=model.parallelism)
        case HttpSourceModel():
            asked = http_read(model, connections[model.connection])
            return replace(asked, path=model.path or "", params=model.params, watermark=_watermark(model))
    raise AssertionError(model)


def jdbc_read(model: JdbcReadModel, connection: Connection, absolute: Absolute) -> JdbcRead:
    """A table or a query of a database."""
    assert isinstance(connection, JdbcConnectionModel)
    return JdbcRead(
        url=_with_path(connection.url, r"(jdbc:sqlite:)(?!:|/|file:)(.+)", absolute),
        connection=model.connection,
        user=connection.user,
        password=connection.password,
        table=model.table,
        query=model.query,
        driver=connection.driver,
        packages=connection.packages,
        jars=tuple(absolute(jar) for jar in connection.jars),
        fetch_size=model.fetch_size,
        properties=connection.properties,
    )


def _with_path(url: str, form: str, absolute: Absolute) -> str:
    """``url`` with the relative path of a file in it made absolute; ``form`` has what is before it and the path."""
    found = re.fullmatch(form, url)
    return found[1] + _path(found[2], absolute) if found else url


def _path(written: str, absolute: Absolute) -> str:
    return unquote(absolute(written).removeprefix("file://"))


def http_read(model: HttpRequestModel, connection: Connection) -> HttpRead:
    """Requests that answer with records; path, parameters and bounds are for the source to add."""
    return replace(
        request(model, model.connection, connection),
        records=model.records or "",
        error=model.error,
        pagination=_pagination(model.pagination),
    )


def request(model: RequestModel, name: str, connection: Connection) -> HttpRead:
    """Requests to the server of the connection ``name``."""
    assert isinstance(connection, HttpConnectionModel)
    limit = connection.rate_limit
    retries = connection.retries
    return HttpRead(
        url=connection.url,
        connection=name,
        method=model.method,
        headers=Options({**connection.headers, **model.headers}),
        body=model.body,
        auth=_auth(connection.auth),
        rate_limit=RateLimit(limit.requests, limit.per_seconds) if limit else None,
        retries=Retries(retries.attempts, retries.base_secs, retries.max_wait_secs),
        timeout_secs=connection.timeout_secs,
        allowed_origins=connection.allowed_origins,
        idempotent=model.idempotent,
        parallelism=model.parallelism,
        max_response_mb=model.max_response_mb,
    )


def _auth(model: AuthModel) -> HttpAuth:
    return HttpAuth(
        kind=model.type,
        token=model.token,
        user=model.user,
        password=model.password,
        name=model.name,
        place=model.place,
        token_url=model.token_url,
        client_id=model.client_id,
        client_secret=model.client_secret,
        scope=model.scope,
    )


def _pagination(model: PaginationModel) -> Pagination:
    return Pagination(
        kind=model.type,
        param=model.param,
        size_param=model.size_param,
        size=model.size,
        start=model.start,
        next=model.next,
        total=model.total,
        max_pages=model.max_pages,
    )


def _watermark(model: HttpSourceModel) -> WatermarkParams:
    """Where bounds go: as the source says, else as its ``configure`` does."""
    keys = set(WatermarkParamModel.model_fields)
    given = {key: getattr(block, key) for block in (model.configure, model) for key in keys & block.model_fields_set}
    found = WatermarkParamModel.model_construct(**given)
    return WatermarkParams(
        mapping=found.watermark_param_mapping,
        to_param=found.watermark_to_param,
        location=found.watermark_param_location,
        format=found.watermark_param_format,
        split=found.watermark_split,
    )


def csv_options(model: CsvModel) -> CsvOptions:
    """How CSV files are written."""
    return CsvOptions(
        delimiter=model.delimiter,
        quote=None if model.quote == "none" else model.quote,
        escape=model.escape,
        header=model.header,
        columns=model.columns,
        null_values=model.null_values,
        skip_rows=model.skip_rows,
    )


def load(model: LoadModel) -> Load:
    """The load strategy."""
    return Load(
        type=model.load_type,
        merge_keys=model.merge_keys,
        tie_break=model.tie_break,
        replace_by_watermark=model.replace_by_watermark,
        max_delete_fraction=model.max_delete_fraction,
        allow_empty_window=model.allow_empty_window,
        deduplicate=model.deduplicate,
        window_columns=model.window_columns,
        scd2_effective_column=model.scd2_effective_column,
        scd2_attributes=model.scd2_attributes,
    )


def state(model: StateModel, absolute: Absolute) -> StateSpec:
    """The state provider; paths start at the directory of the file."""
    url = model.url
    if url is not None and model.provider is ProviderKind.FILE:
        url = Secret(absolute(url.value))
    elif url is not None:
        url = Secret(_with_path(url.value, r"(sqlite(?:\+\w+)?:///)(?!/|:|file:)([^?]+)", absolute))
    return StateSpec(model.provider, url, model.storage_options)
