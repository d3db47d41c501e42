"""Python names of older frameworks, thin: dataflows with their window, replays of several, ``MergeOverwriteStrategy``.

Pipelines write by the same statement, with their position in it. Nothing heavy is loaded before a write.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from tidegate.commands.column_replay import replay_range
from tidegate.commands.project import Config, agree, load, pipelines_of
from tidegate.commands.run import run
from tidegate.core.columns.predicates import SourceRuntime, operator_of, window_of
from tidegate.core.columns.replay import ReplayConfig
from tidegate.errors import ConfigError
from tidegate.observe.events import Emit, ignore
from tidegate.protocol.providers import WatermarkManager
from tidegate.reports.replay import ColumnReplayReport
from tidegate.reports.run import RunReport
from tidegate.schema.names import spell
from tidegate.spark.filters import apply_watermark_filter
from tidegate.spark.frames import columns_of, fit_types
from tidegate.spark.loading.strategies import KeyOverwrite
from tidegate.spark.loading.target import Guard, Keys, TableWindow, Target
from tidegate.specs.columns import ColumnSource, Value, Watermark
from tidegate.specs.project import PipelineSpec, ProjectSpec, StateSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_OWNER = "MergeOverwriteStrategy"


class MergeOverwriteStrategy:
    """Replaces all rows of a table whose key occurs in the rows to write.

    With ``replace_by_watermark`` and a ``watermark_window`` (``dataflow.watermark_window``: column → lower and upper
    bound, both included) it also replaces all rows in the window.
    """

    def __init__(
        self,
        merge_keys: Sequence[str],
        watermark_window: Mapping[str, tuple[Value, Value]] | None = None,
        *,
        replace_by_watermark: bool = False,
        max_delete_fraction: float = 0.5,
        allow_empty_window: bool = False,
    ) -> None:
        self._keys = tuple(merge_keys)
        self._window = watermark_window if replace_by_watermark else None
        self._max_delete_fraction = max_delete_fraction
        self._allow_empty_window = allow_empty_window

    def write(self, frame: DataFrame, path: str) -> None:
        """Write ``frame`` into the existing Delta table at ``path`` in one commit.

        ``RowsRefused`` if more of the window would be deleted than allowed.
        """
        kept = frame.localCheckpoint()
        table = columns_of(kept.sparkSession.read.format("delta").load(path), f"table {path}")
        strategy = self._strategy(kept.columns)
        strategy.check(kept)
        strategy.save(fit_types(kept, table), Target(path, table))

    def _strategy(self, columns: Sequence[str]) -> KeyOverwrite:
        bounds = {spell(name, columns): each for name, each in (self._window or {}).items()}
        window = TableWindow.of_bounds(bounds, _OWNER) if bounds else None
        guard = Guard(_OWNER, self._max_delete_fraction, self._allow_empty_window)
        return KeyOverwrite(Keys(tuple(spell(name, columns) for name in self._keys), _OWNER), window, guard)


Window = dict[str, tuple[Value, Value]]


class Runtime(Protocol):
    """The watermarks of a read: stored, after look-back, and after the read."""

    @property
    def watermark_before(self) -> Watermark | None: ...
    @property
    def watermark_effective(self) -> Watermark | None: ...
    @property
    def watermark_after(self) -> Watermark | None: ...


class DataFlow:
    """One column source of a pipeline; ``dataflow_id`` is ``{pipeline}/{source}``.

    :meth:`run` and ``run_replay`` use what a subclass overrides: the window, the filter, the operator. ``watermarks``
    keeps the copies of its state; the position stays in the log. ``watermark_window`` is the last result of
    :meth:`apply_watermark_window`: start and end per column, None if nothing is replaced.
    """

    def __init__(
        self,
        config: Config,
        pipeline: str,
        source: str | None = None,
        *,
        watermarks: WatermarkManager | None = None,
    ) -> None:
        self._loaded: ProjectSpec = load(config, pipeline=pipeline)
        self.pipeline: PipelineSpec = pipelines_of(self._loaded, pipeline)[0]
        self.source: ColumnSource = _find_source(self.pipeline, source)
        self.watermark_window: Window | None = None
        self._watermarks = watermarks

    @property
    def dataflow_id(self) -> str:
        """The name that providers use."""
        return f"{self.pipeline.name}/{self.source.name}"

    @property
    def project(self) -> ProjectSpec:
        """The configuration with the overrides of this dataflow."""
        methods: dict[str, Any] = {"watermark_window": self.apply_watermark_window}
        for name, field in _OVERRIDDEN.items():
            if _overrides(self, name):
                methods[field] = getattr(self, name)
        if self.source.watermark_window is not None and not _overrides(self, "apply_watermark_window"):
            del methods["watermark_window"]
        source = replace(self.source, **methods)
        sources = tuple(source if each is self.source else each for each in self.pipeline.sources)
        pipeline = replace(self.pipeline, sources=sources)
        pipelines = tuple(pipeline if each is self.pipeline else each for each in self._loaded.pipelines)
        state = self._loaded.state if self._watermarks is None else StateSpec(self._watermarks)
        return replace(self._loaded, pipelines=pipelines, state=state)

    def run(self, *, emit: Emit = ignore, stop: threading.Event | None = None) -> RunReport:
        """Run the pipeline once, as ``tidegate.run`` does."""
        return run(self.project, self.pipeline.name, emit=emit, stop=stop)

    def watermark_operator(self, *, replay: bool = False) -> str:
        """The comparison between a row's value and the watermark."""
        return operator_of(self.source, replay=replay)

    def apply_watermark_filter(self, frame: Any, watermark: Watermark | None, watermark_operator: str = ">") -> Any:
        """The new rows of a DataFrame."""
        return apply_watermark_filter(frame, watermark, watermark_operator)

    def apply_watermark_window(self, source_runtime: Runtime) -> Window | None:
        """The window of a read, kept as ``watermark_window``: only with replace_by_watermark and known bounds."""
        runtime = SourceRuntime(
            source_runtime.watermark_before,
            source_runtime.watermark_effective,
            source_runtime.watermark_after,
        )
        replaces = self.pipeline.sink.load.replace_by_watermark
        self.watermark_window = window_of(runtime, replace_by_watermark=replaces)
        return self.watermark_window

    def __repr__(self) -> str:
        return f"DataFlow({self.dataflow_id!r})"


_OVERRIDDEN = {"watermark_operator": "watermark_operator", "apply_watermark_filter": "watermark_filter"}
"""Methods that a subclass may override, with the field of a source that each one replaces."""


def _overrides(flow: DataFlow, name: str) -> bool:
    return getattr(type(flow), name) is not getattr(DataFlow, name)


def run_replay(
    dataflows: DataFlow | Iterable[DataFlow],
    config: ReplayConfig,
    *,
    skip_gap: bool = False,
    allow_overlap: bool = False,
    into: str | None = None,
    max_workers: int = 1,
    fresh: bool = False,
    again: bool = False,
    confirm: Callable[[ColumnReplayReport], bool] = agree,
    emit: Emit = ignore,
    stop: threading.Event | None = None,
) -> tuple[ColumnReplayReport, ...]:
    """Replay the same range of each dataflow, one after the other, as ``replay_range`` does."""
    chosen = (dataflows,) if isinstance(dataflows, DataFlow) else tuple(dataflows)
    if into is not None and len(chosen) > 1:
        raise ConfigError(("replay: into one table goes one dataflow; each would take the place of the one before",))
    return tuple(
        replay_range(
            each.project,
            each.pipeline.name,
            each.source.name,
            start=config.start,
            end=config.end,
            chunk=config.chunk_interval,
            chunk_column=config.chunk_column,
            save_watermark=config.save_watermark,
            skip_gap=skip_gap,
            allow_overlap=allow_overlap,
            into=into,
            max_workers=max_workers,
            fresh=fresh,
            again=again,
            confirm=confirm,
            emit=emit,
            stop=stop,
        )
        for each in chosen
    )


def _find_source(pipeline: PipelineSpec, source: str | None) -> ColumnSource:
    found = [each for each in pipeline.of(ColumnSource) if source in (None, each.name)]
    if len(found) == 1:
        return found[0]
    known = ", ".join(each.name for each in pipeline.of(ColumnSource)) or "none"
    raise ConfigError((f"pipeline {pipeline.name!r}: name one of its column sources: {known}",))
