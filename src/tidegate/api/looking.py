"""What would be read, where everything stands, and whether this machine is ready."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

from tidegate.api.opening import Config, load, open_column_places, open_places, open_unit_places
from tidegate.reports.run import ColumnSourcePlan, SourcePlan, SourceStatus
from tidegate.reports.units import UnitSourcePlan
from tidegate.specs.project import OnConflict

if TYPE_CHECKING:
    from tidegate.runs.bound_source import ColumnPlace, Place, UnitPlace

AnyPlan = TypeVar("AnyPlan", bound=SourcePlan | ColumnSourcePlan | UnitSourcePlan)


def plan(
    config: Config, pipeline: str | None = None, *, now: datetime | None = None, accept_new_partitions: bool = False
) -> tuple[SourcePlan | ColumnSourcePlan | UnitSourcePlan, ...]:
    """What a run would read at ``now``, per source, and why everything else is skipped. Touches nothing.

    ``accept_new_partitions`` plans work units although their partitions are others than those that were read.
    """
    from tidegate.commands.status import planned

    moment = now or datetime.now(UTC)
    project = load(config, pipeline=pipeline)
    plans: list[SourcePlan | ColumnSourcePlan | UnitSourcePlan] = []
    plans += [_noted(place, planned(place, moment)) for place in open_places(project, pipeline)]
    if columns := open_column_places(project, pipeline):
        from tidegate.commands.status import planned_columns

        plans += [_noted(place, planned_columns(place, moment)) for place in columns]
    if units := open_unit_places(project, pipeline):
        from tidegate.commands.unit_status import planned_units

        plans += [
            _noted(place, planned_units(place, moment, accept_new_partitions=accept_new_partitions)) for place in units
        ]
    return tuple(plans)


def _noted(place: Place | ColumnPlace | UnitPlace, found: AnyPlan) -> AnyPlan:
    """With what failed before there was a position."""
    from tidegate.runs.presence import attempts_note

    position = found.plan.version if isinstance(found, SourcePlan) else found.position
    return found if position else replace(found, notes=(*found.notes, *attempts_note(place)))


def status(config: Config, pipeline: str | None = None) -> tuple[SourceStatus, ...]:
    """Where every source stands: state, watermark, lag and backlog; from mirror or documents, without Spark."""
    from tidegate.commands.status import status_of

    now = datetime.now(UTC)
    project = load(config, pipeline=pipeline)
    files = open_places(project, pipeline)
    statuses = [status_of(place, now) for place in files]
    if columns := open_column_places(project, pipeline):
        from tidegate.commands.status import column_status

        statuses += [column_status(place, now) for place in columns]
    if units := open_unit_places(project, pipeline):
        from tidegate.commands.unit_status import unit_status

        statuses += [unit_status(place, now) for place in units]
    places: list[Place | ColumnPlace | UnitPlace] = [*files, *columns, *units]
    return tuple(_at_work(place, known, now) for place, known in zip(places, statuses, strict=True))


def _at_work(place: Place | ColumnPlace | UnitPlace, known: SourceStatus, now: datetime) -> SourceStatus:
    """With who is at work on the source, where runs of it say so, and with what failed before there was a position."""
    if known.error is not None:
        return known
    from tidegate.runs.presence import attempts_note

    if not known.version:
        known = replace(known, notes=(*known.notes, *attempts_note(place)))
    if place.pipeline.conflict is OnConflict.RACE:
        return known
    from tidegate.runs.presence import who_is_at_work

    return replace(known, notes=(*known.notes, *who_is_at_work(place.table_store, place.key, now)))


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
