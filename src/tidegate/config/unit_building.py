"""Checked models → specs, for sources of work units."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from urllib.parse import unquote

from tidegate.config.column_building import Absolute, Connections, csv_options, http_read, jdbc_read, request
from tidegate.config.unit_models import (
    DownloadModel,
    ParamModel,
    RangeModel,
    SecondaryInputModel,
    UnitHttpModel,
    UnitJdbcModel,
    UnitPythonModel,
    UnitSourceModel,
    WatermarkModel,
    WorkUnitModel,
)
from tidegate.core.pipeline_order import ordered
from tidegate.specs.columns import FunctionRead, LoadType
from tidegate.specs.locations import Location
from tidegate.specs.project import PipelineSpec, SinkSpec
from tidegate.specs.units import (
    FileRead,
    PartitionKind,
    RangeParam,
    Replace,
    SecondaryInput,
    Span,
    TimeRange,
    TimeWatermark,
    UnitRead,
    UnitSource,
    UnitWatermark,
    WorkUnits,
)

Sinks = Mapping[str, SinkSpec]


def unit_source(
    name: str, model: UnitSourceModel, connections: Connections, sinks: Sinks, sink: SinkSpec, absolute: Absolute
) -> UnitSource:
    """A source of work units; ``sinks`` are those of all pipelines, ``sink`` is its own."""
    time = next((_time(each) for each in model.watermark if each.type == "datetime"), None)
    inputs = tuple(_input(each, sinks, absolute) for each in model.secondary_input)
    return UnitSource(
        name=name,
        read=_read(model, connections, absolute),
        time=time,
        unit=_unit(model.watermark, inputs),
        inputs=inputs,
        work=_work(model.work_unit),
        grace=_span(model.grace_period, model.grace_period_days),
        abstinent=_span(model.abstinent_period, model.abstinent_period_days),
        catch_up=model.catch_up,
        timezone=model.timezone,
        params=tuple(_param(each, param) for each, param in model.params.items() if param.watermark is not None),
        replace=_replace(model, sink, followed=time is not None),
        time_column=model.time_column,
        unit_column=model.unit_column,
        segment_column=model.segment_column,
        poll_interval_secs=model.poll_interval_secs,
    )


def _time(model: WatermarkModel) -> TimeWatermark:
    assert model.range is not None
    return TimeWatermark(model.name, _range(model.range))


def _range(model: RangeModel) -> TimeRange:
    return TimeRange(
        start=model.from_.strip(),
        end=model.to.strip(),
        start_round=model.from_round or model.round,
        end_round=model.to_round or model.round,
        allow_future=model.allow_future,
    )


def _unit(models: Iterable[WatermarkModel], inputs: Iterable[SecondaryInput]) -> UnitWatermark | None:
    """The unit watermark; one that only a secondary input tells of has the name of its variable."""
    given = next((UnitWatermark(each.name, each.units) for each in models if each.type == "unit"), None)
    made = next((each for each in inputs if not each.for_all), None)
    if given is not None or made is None:
        return given
    return UnitWatermark(made.variable or ".".join(made.fields))


def _input(model: SecondaryInputModel, sinks: Sinks, absolute: Absolute) -> SecondaryInput:
    if model.pipeline is not None:
        sink: SinkSpec | None = sinks[model.pipeline]
        pipeline: str | None = model.pipeline
    else:
        uri = absolute(model.path or "")
        pipeline, sink = next(((name, each) for name, each in sinks.items() if each.table.uri == uri), (None, None))
    location = sink.table if sink is not None else Location(absolute(model.path or ""))
    if model.storage_options:
        location = Location(location.uri, model.storage_options)
    return SecondaryInput(
        fields=model.fields,
        location=location,
        format=model.format,
        pipeline=pipeline,
        filters=model.filters,
        variable=model.as_,
        auth_fields=model.auth_fields,
        for_all=model.category == "authentication",
        csv=csv_options(model.csv),
    )


def _work(model: WorkUnitModel) -> WorkUnits:
    return WorkUnits(
        partition=model.partition if isinstance(model.partition, PartitionKind) else PartitionKind.NONE,
        sub_ranges=() if isinstance(model.partition, PartitionKind) else model.partition,
        partial=model.partial_partition,
        min_units=model.min_units,
        min_records=model.min_records,
        min_records_after=model.min_records_after,
        parallelism_max=model.parallelism_max,
        pacing_seconds=model.pacing_seconds,
        not_found=model.not_found,
        breaker_failures=model.breaker_failures,
        group_units=model.group_units,
        group_seconds=model.group_seconds,
    )


def _span(given: Span | None, days: int | None) -> Span:
    return given if given is not None else Span(days or 0, timedelta(0))


def _param(name: str, model: ParamModel) -> RangeParam:
    return RangeParam(name, model.bound, model.format, model.timezone)


def _replace(model: UnitSourceModel, sink: SinkSpec, *, followed: bool) -> Replace:
    """What gives way: rows with equal keys, else what the source says, else what it can tell apart."""
    if sink.load.type is LoadType.MERGE_UPSERT:
        return Replace.MERGE_KEYS
    if model.replace is not None or not followed:
        return Replace(model.replace or Replace.UNIT)
    return Replace.TIME_COLUMN if model.time_column is not None else Replace.SEGMENTS


def _read(model: UnitSourceModel, connections: Connections, absolute: Absolute) -> UnitRead:
    plain = {name: param.value for name, param in model.params.items() if param.value is not None}
    match model:
        case UnitHttpModel():
            return replace(http_read(model, connections[model.connection]), path=model.path or "", params=plain)
        case UnitJdbcModel():
            return jdbc_read(model, connections[model.connection], absolute)
        case UnitPythonModel():
            return FunctionRead(model.function, model.options)
        case DownloadModel():
            return _files(model, connections, plain, absolute)
    raise AssertionError(model)


def _files(model: DownloadModel, connections: Connections, params: Mapping[str, str], absolute: Absolute) -> FileRead:
    if model.connection is not None:
        asked = request(model, model.connection, connections[model.connection])
        server = replace(asked, path=model.path or "", params=params)
        return FileRead(model.format, None, server, model.compression.value, csv_options(model.csv))
    location = Location(_template(model.source_uri or "", absolute), model.storage_options)
    return FileRead(
        model.format, location, None, model.compression.value, csv_options(model.csv), follow_links=model.follow_links
    )


def _template(written: str, absolute: Absolute) -> str:
    """The address of a template: its braces, ``*`` and ``?`` stay as they are written."""
    uri = absolute(written)
    return uri if "://" in written else re.sub("%7B|%7D|%2A|%3F", lambda found: unquote(found[0]), uri)


def in_order(pipelines: tuple[PipelineSpec, ...]) -> tuple[PipelineSpec, ...]:
    """The pipelines, each after those whose tables it has as secondary inputs."""
    by_name = {pipeline.name: pipeline for pipeline in pipelines}
    return tuple(by_name[name] for name in ordered(tuple(by_name), _needs(pipelines)))


def _needs(pipelines: tuple[PipelineSpec, ...]) -> dict[str, list[str]]:
    read = {
        pipeline.name: {each.location.uri for source in pipeline.unit_sources for each in source.inputs}
        for pipeline in pipelines
    }
    return {
        name: [other.name for other in pipelines if other.name != name and other.sink.table.uri in uris]
        for name, uris in read.items()
    }
