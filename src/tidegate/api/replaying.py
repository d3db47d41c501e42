"""Reading a range of a column source again, chunk by chunk."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from tidegate.api.opening import Config, agreed, column_place_named, load, spark_lane
from tidegate.column_specs import Value
from tidegate.errors import ConfigError
from tidegate.locations import Location
from tidegate.observe.events import Emit, ignore
from tidegate.replay_reports import ColumnReplayReport
from tidegate.specs import PipelineSpec
from tidegate.watermarks.chunks import ChunkInterval, ReplayConfig


def replay_range(
    config: Config,
    pipeline: str,
    source: str | None = None,
    *,
    start: Value,
    end: Value,
    chunk: Mapping[str, object] | ChunkInterval | None = None,
    chunk_column: str | None = None,
    save_watermark: bool = False,
    skip_gap: bool = False,
    into: str | None = None,
    max_workers: int = 1,
    fresh: bool = False,
    confirm: Callable[[ColumnReplayReport], bool] = agreed,
    emit: Emit = ignore,
    stop: threading.Event | None = None,
) -> ColumnReplayReport:
    """Read ``start <= value < end`` of a column source again and replace what its table has there.

    Bounds given as text are read as values of the watermark column. In chunks such as ``{"months": 1}``, each one
    commit; an unfinished replay goes on where it was, a finished one begins anew, ``fresh`` begins anew in any case.
    With ``save_watermark`` production goes on at the end of the contiguous finished chunks.
    """
    from tidegate.runs.column_replay import ColumnReplay
    from tidegate.runs.stopping import stops_on_signals
    from tidegate.storage.opening import absolute

    flag = stop or threading.Event()
    project = load(config, pipeline=pipeline)
    place = column_place_named(project, pipeline, source)
    if place is None:
        raise ConfigError((f"pipeline {pipeline!r} reads files; a range is for sources that are followed by columns",))
    bounds = [_bound(place, each, chunk_column) for each in (start, end)]
    wanted = ReplayConfig(bounds[0], bounds[1], chunk, save_watermark, chunk_column)
    table = None
    if into is not None:
        table = Location(absolute(into, Path.cwd()), place.pipeline.sink.table.options)
    with (
        spark_lane(
            project.spark, emit, flag, columns=(place.pipeline if table is None else _into(place.pipeline, table),)
        ) as lane,
        stops_on_signals(flag),
    ):
        replay = ColumnReplay(
            place,
            lane,  # type: ignore[arg-type]  # the Spark lane reads columns, too
            wanted,
            into=table,
            skip_gap=skip_gap,
            fresh=fresh,
            max_workers=max_workers,
            emit=emit,
            stop=flag,
        )
        return replay.run(confirm)


def _into(pipeline: PipelineSpec, table: Location) -> PipelineSpec:
    return replace(pipeline, sink=replace(pipeline.sink, table=table))


def _bound(place: object, given: Value, chunk_column: str | None) -> Value:
    """A bound; text is read as a value of the kind that the watermark has."""
    from tidegate.runs.column_place import ColumnPlace
    from tidegate.watermarks.value_text import value_of

    assert isinstance(place, ColumnPlace)
    if not isinstance(given, str):
        return given
    state = place.state_of(place.positions.open(read_only=True))
    columns = (chunk_column,) if chunk_column else place.source.watermark_columns[:1]
    stored = None if state is None or not columns else state.values.get(columns[0])
    return value_of(given, stored)
