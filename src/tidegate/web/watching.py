"""Watching a process that goes on: one listener for metrics, one for health, and the pages that show both."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tidegate.observe.events import Emit
from tidegate.observe.fanning import fanout
from tidegate.observe.health import Health, SourceHealth
from tidegate.observe.metrics import Family, Labels, Metrics
from tidegate.specs import PipelineSpec, ProjectSpec, every_source
from tidegate.web.server import Answer, Pages, serving, text


@contextlib.contextmanager
def watched(
    project: ProjectSpec,
    pipelines: Sequence[PipelineSpec],
    emit: Emit,
    interval: Callable[[PipelineSpec], float] | None = None,
) -> Iterator[Emit]:
    """Serves metrics and health of what is emitted while inside, where ``metrics.enabled`` says so.

    ``interval`` has the seconds between two looks at a source, if they are not those between two polls of it.
    Listens before it gives control, so that an address that is taken stops everything before it begins.
    """
    if not project.metrics.enabled:
        yield emit
        return
    intervals = {
        (pipeline.name, source.name): (
            interval(pipeline) if interval else float(source.poll_interval_secs + project.poll_jitter_secs)
        )
        for pipeline in pipelines
        for source in every_source(pipeline)
    }
    metrics, health = Metrics(intervals), Health(intervals)
    pages: Pages = {
        "/metrics": lambda: metrics_page(metrics.families(), health.sources(), legacy=project.metrics.legacy_names),
        "/health": lambda: health_page(health.sources()),
        "/ready": lambda: text("ready\n") if health.ready else text("nothing is read yet\n", 503),
    }
    with serving(project.metrics.address, pages):
        yield fanout(emit, metrics, health)


def metrics_page(families: Sequence[Family], sources: Sequence[SourceHealth], *, legacy: bool) -> Answer:
    """``/metrics``."""
    from tidegate.web.exposition import exposition

    healthy: dict[Labels, float] = {(each.pipeline, each.source): float(each.healthy) for each in sources}
    known = [replace(each, values=healthy) if each.metric.name == "source_healthy" else each for each in families]
    return exposition(known, legacy_names=legacy)


def health_page(sources: Sequence[SourceHealth]) -> Answer:
    """``/health``: 200 if every source is well, else 503; which is not, and why."""
    healthy = all(each.healthy for each in sources)
    content = {"healthy": healthy, "sources": [each.to_json() for each in sources]}
    body = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    return Answer(200 if healthy else 503, "application/json", body.encode())
