"""``config show`` for sources of work units.

Keys that mean nothing for a kind are left out, so that what is printed loads without a notice.
"""

from __future__ import annotations

from typing import Any

from tidegate.config.column_canonical import csv_keys, duration, name_of_connection, request_keys
from tidegate.config.problems import masked
from tidegate.specs.columns import FunctionRead, HttpRead, JdbcRead
from tidegate.specs.masking import MASK
from tidegate.specs.project import Compression, PipelineSpec
from tidegate.specs.units import (
    FileFormat,
    FileRead,
    InputFormat,
    PartialPartition,
    RangeParam,
    Replace,
    SecondaryInput,
    Span,
    TimeWatermark,
    UnitSource,
    UnitWatermark,
    WorkUnits,
)

_PARTIAL: dict[PartialPartition, bool | str] = {
    PartialPartition.NEVER: False,
    PartialPartition.MULTI_DAY: True,
    PartialPartition.ALWAYS: "all",
}
_OF_RECORDS = ("records", "error", "pagination", "max_response_mb")


def unit_source(pipeline: PipelineSpec, source: UnitSource) -> dict[str, Any]:
    """One source, with every key of its kind."""
    watermark = ([_time(source.time)] if source.time else []) + ([_unit(source.unit)] if source.unit else [])
    data: dict[str, Any] = {
        **_read(name_of_connection(pipeline, source), source),
        "watermark": watermark,
        "secondary_input": [_input(each) for each in source.inputs],
        "work_unit": _work(source),
        "timezone": source.timezone,
        "poll_interval_secs": source.poll_interval_secs,
    }
    data["params"] = data.get("params", {}) | {each.name: _param(source, each) for each in source.params}
    if source.time:
        data |= {
            "grace_period": span_text(source.grace),
            "abstinent_period": span_text(source.abstinent),
            "catch_up": source.catch_up,
            "time_column": source.time_column,
        }
    if source.replace is not Replace.MERGE_KEYS:
        data |= {"unit_column": source.unit_column, "segment_column": source.segment_column}
    if source.replace in (Replace.SEGMENTS, Replace.UNIT):
        data["replace"] = source.replace.value
    return data


def _time(watermark: TimeWatermark) -> dict[str, Any]:
    given = watermark.range
    bounds: dict[str, Any] = {"from": given.start, "to": given.end}
    for key, rounding in (("from_round", given.start_round), ("to_round", given.end_round)):
        bounds[key] = rounding.value if rounding is not None else None
    return {"name": watermark.name, "type": "datetime", "range": {**bounds, "allow_future": given.allow_future}}


def _unit(watermark: UnitWatermark) -> dict[str, Any]:
    units = {"units": list(watermark.units)} if watermark.units else {}
    return {"name": watermark.name, "type": "unit", **units}


def _input(each: SecondaryInput) -> dict[str, Any]:
    place = {"pipeline": each.pipeline} if each.pipeline else {"path": masked(each.location.uri)}
    data: dict[str, Any] = {
        **place,
        "format": each.format.value,
        "fields": list(each.fields),
        "filters": dict(each.filters),
        "category": "authentication" if each.for_all else "units",
        "storage_options": dict.fromkeys(each.location.options, MASK),
    }
    if each.format is InputFormat.CSV:
        data["csv"] = csv_keys(each.csv)
    if each.auth_fields:
        data["auth_fields"] = list(each.auth_fields)
    if each.variable is not None:
        data["as"] = each.variable
    return data


def _work(source: UnitSource) -> dict[str, Any]:
    work = source.work
    data: dict[str, Any] = {
        "partition": _partition(work),
        "partial_partition": _PARTIAL[work.partial],
        "min_units": work.min_units,
        "min_records": work.min_records,
        "parallelism_max": work.parallelism_max,
        "pacing_seconds": work.pacing_seconds,
        "breaker_failures": work.breaker_failures,
        "group_units": work.group_units,
        "group_seconds": work.group_seconds,
    }
    if work.min_records and work.min_records_after is not None:
        data["min_records_after"] = span_text(work.min_records_after)
    if isinstance(source.read, HttpRead) or (isinstance(source.read, FileRead) and source.read.http):
        data["not_found"] = work.not_found.value
    return data


def _partition(work: WorkUnits) -> str | list[dict[str, str]]:
    if not work.sub_ranges:
        return work.partition.value
    return [{"partition": each.kind.value, "from": each.start, "to": each.end} for each in work.sub_ranges]


def span_text(span: Span) -> str:
    """A length of time as the file has it.

    >>> span_text(Span(3))
    'P3D'
    """
    text = duration(span.elapsed).removeprefix("P") if span.elapsed else ""
    return f"P{span.days}D{text}"


def _param(source: UnitSource, param: RangeParam) -> dict[str, Any]:
    watermark = source.time.name if source.time else ""
    return {
        "watermark": watermark,
        "bound": param.bound.value,
        "format": param.format,
        "timezone": param.timezone,
    }


def _read(connection: str, source: UnitSource) -> dict[str, Any]:
    match source.read:
        case JdbcRead() as read:
            given = {"type": "jdbc", "connection": connection, "table": read.table, "query": read.query}
            return {**given, "fetch_size": read.fetch_size}
        case HttpRead() as read:
            return {"type": "http", "connection": connection, **request_keys(read)}
        case FunctionRead() as read:
            return {"type": "python", "function": read.function, "options": dict.fromkeys(read.options, MASK)}
        case FileRead() as read:
            return {"type": "download", **_files(connection, read)}


def _files(connection: str, read: FileRead) -> dict[str, Any]:
    data: dict[str, Any] = {"format": read.format.value}
    if read.format not in (FileFormat.PARQUET, FileFormat.AVRO):
        data["compression"] = Compression(read.compression).value
    if read.format is FileFormat.CSV:
        data["csv"] = csv_keys(read.csv)
    if read.http is not None:
        asked = request_keys(read.http)
        return data | {"connection": connection} | {key: asked[key] for key in asked if key not in _OF_RECORDS}
    assert read.location is not None
    options = dict.fromkeys(read.location.options, MASK)
    links = {"follow_links": read.follow_links}
    return data | {"source_uri": masked(read.location.uri), **links, "storage_options": options}
