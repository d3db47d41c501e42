"""Work units: listed, looked at, tried again, forgotten."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import UTC, datetime

from tidegate.api.opening import Config, agreed, load, open_unit_places, unit_place_named
from tidegate.reports.units import UnitList, UnitsMove, UnitView


def units(
    config: Config,
    pipeline: str,
    source: str | None = None,
    *,
    names: Collection[str] = (),
    partition: str | None = None,
    failed: bool = False,
    limit: int = 50,
    now: datetime | None = None,
) -> tuple[UnitList, ...]:
    """The units of a pipeline's sources: how many of their work units are done, open and failed. Touches nothing.

    ``names`` are those that are asked for, ``partition`` is where the only partition begins that counts, ``failed``
    leaves out units without trouble. At most ``limit`` per source, those with trouble first; 0: all.
    """
    from tidegate.commands.units import UnitsQuery, listed

    project = load(config, pipeline=pipeline)
    places = open_unit_places(project, pipeline, source) or (unit_place_named(project, pipeline, source),)
    wanted = UnitsQuery(frozenset(names), partition, failed, limit)
    return tuple(listed(place, now or datetime.now(UTC), wanted) for place in places)


def unit(
    config: Config, pipeline: str, name: str, source: str | None = None, *, now: datetime | None = None
) -> UnitView:
    """One unit of a source, partition by partition: what was read of it and what would run. Touches nothing."""
    from tidegate.commands.units import viewed

    place = unit_place_named(load(config, pipeline=pipeline), pipeline, source)
    return viewed(place, now or datetime.now(UTC), name)


def retry_units(
    config: Config,
    pipeline: str,
    source: str | None = None,
    *,
    names: Collection[str] = (),
    partition: str | None = None,
    confirm: Callable[[UnitsMove], bool] = agreed,
) -> UnitsMove:
    """Forget failures of work units, so that none of them waits, and that units are retired, if ``confirm`` agrees.

    Without ``names``, of all units. The position is committed by the ordinary protocol and no row is touched.
    ``CommitLost`` when another run was first.
    """
    from tidegate.commands import units

    place = unit_place_named(load(config, pipeline=pipeline), pipeline, source)
    return units.retry_units(place, names, partition, datetime.now(UTC), confirm)


def reset_units(
    config: Config,
    pipeline: str,
    source: str | None = None,
    *,
    names: Collection[str] = (),
    partition: str | None = None,
    confirm: Callable[[UnitsMove], bool] = agreed,
) -> UnitsMove:
    """Forget what was read of units, in one partition or in all, so that the next run reads it again.

    Their rows stay until then, and are replaced by what is read. See :func:`retry_units`.
    """
    from tidegate.commands import units

    place = unit_place_named(load(config, pipeline=pipeline), pipeline, source)
    return units.reset_units(place, names, partition, datetime.now(UTC), confirm)
