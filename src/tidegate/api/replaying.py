"""Reading a range of a column source again, chunk by chunk."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.api.opening import Config, agreed, load, replayed_source, spark_engine
from tidegate.core.columns.replay import ChunkInterval, ReplayConfig, chunk_columns
from tidegate.observe.events import Emit, ignore
from tidegate.reports.correction import ColumnReplayReport
from tidegate.specs.columns import ColumnSource, Value

if TYPE_CHECKING:
    from tidegate.runs.bound_source import ColumnBound


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
    allow_overlap: bool = False,
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
    With ``save_watermark`` production goes on at the end of the contiguous finished chunks. An append whose rows the
    next run would append again is refused unless ``allow_overlap`` says that no run follows.
    """
    from tidegate.commands.column_replay import ColumnReplay
    from tidegate.runs.loop import stops_on_signals
    from tidegate.storage.options import absolute

    flag = stop or threading.Event()
    project = load(config, pipeline=pipeline)
    bound = replayed_source(project, pipeline, source, ColumnSource)
    bounds = [_bound(bound, each, chunk_column) for each in (start, end)]
    wanted = ReplayConfig(bounds[0], bounds[1], chunk, save_watermark, chunk_column)
    own = bound.pipeline.sink.table
    table = own if into is None else replace(own, uri=absolute(into, Path.cwd()))
    written = replace(bound.pipeline, sink=replace(bound.pipeline.sink, table=table))
    with spark_engine(project.spark, emit, flag, columns=(written,)) as engine, stops_on_signals(flag):
        replay = ColumnReplay(
            bound,
            engine,
            wanted,
            into=None if table.uri == own.uri else table,
            skip_gap=skip_gap,
            allow_overlap=allow_overlap,
            fresh=fresh,
            max_workers=max_workers,
            emit=emit,
            stop=flag,
        )
        return replay.run(confirm)


def _bound(bound: ColumnBound, given: Value, chunk_column: str | None) -> Value:
    """A bound; text is read as a value of the watermark's kind, a date among times as its midnight in UTC."""
    from tidegate.core.columns.values import value_of

    if not isinstance(given, str):
        return given
    state = bound.state_of(bound.positions.open(read_only=True))
    columns = chunk_columns(bound.source, chunk_column)
    stored = None if state is None or not columns else state.values.get(columns[0])
    plain = value_of(given)
    if type(plain) is date and isinstance(stored, datetime) and stored.tzinfo is not None:
        return datetime.combine(plain, time(), UTC)
    return plain if stored is None else value_of(given, stored)
