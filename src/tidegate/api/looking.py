"""What would be read, where everything stands, and whether this machine is ready."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime

from tidegate.api.opening import Config, load, sources_of
from tidegate.reports.run import ColumnSourcePlan, SourcePlan, SourceStatus
from tidegate.reports.units import UnitSourcePlan


def plan(
    config: Config, pipeline: str | None = None, *, now: datetime | None = None, accept_new_partitions: bool = False
) -> tuple[SourcePlan | ColumnSourcePlan | UnitSourcePlan, ...]:
    """What a run would read at ``now``, per source, and why everything else is skipped. Touches nothing.

    ``accept_new_partitions`` plans work units although their partitions are others than those that were read.
    """
    from tidegate.commands.status import plan_of

    moment = now or datetime.now(UTC)
    sources = sources_of(load(config, pipeline=pipeline), pipeline)
    return tuple(plan_of(each, moment, accept_new_partitions=accept_new_partitions) for each in sources)


def status(config: Config, pipeline: str | None = None) -> tuple[SourceStatus, ...]:
    """Where every source stands: state, watermark, lag and backlog; from mirror or documents, without Spark."""
    from tidegate.commands.status import status_of

    now = datetime.now(UTC)
    return tuple(status_of(each, now) for each in sources_of(load(config, pipeline=pipeline), pipeline))


def serve(
    config: Config,
    pipeline: str | None = None,
    *,
    address: str | None = None,
    every: float = 15.0,
    started: Callable[[str], None] = lambda address: None,
    stop: threading.Event | None = None,
) -> None:
    """Serve metrics and health of pipelines that run elsewhere, until ``stop`` is set or a signal comes.

    The numbers are those of ``status``, at most ``every`` seconds old. ``address`` is that of the configuration unless
    it is given; ``started`` hears it once it answers.
    """
    from tidegate.runs.loop import stops_on_signals
    from tidegate.web.pages import standing

    flag = stop or threading.Event()
    project = load(config, pipeline=pipeline)
    where, legacy = address or project.metrics.address, project.metrics.legacy_names
    with (
        stops_on_signals(flag),
        standing(lambda: status(project, pipeline), where, every, legacy_names=legacy) as found,
    ):
        started(found)
        flag.wait()
