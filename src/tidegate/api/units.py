"""Work units: listed, looked at, tried again, forgotten."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import UTC, datetime

from tidegate.api.opening import Config, agreed, unit_sources
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

    sources = unit_sources(config, pipeline, source)
    wanted = UnitsQuery(frozenset(names), partition, failed, limit)
    return tuple(listed(bound, now or datetime.now(UTC), wanted) for bound in sources)


def unit(
    config: Config, pipeline: str, name: str, source: str | None = None, *, now: datetime | None = None
) -> UnitView:
    """One unit of a source, partition by partition: what was read of it and what would run. Touches nothing."""
    from tidegate.commands.units import viewed
    from tidegate.runs.bound_source import source_named

    bound = source_named(unit_sources(config, pipeline, source), source)
    return viewed(bound, now or datetime.now(UTC), name)


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
    from tidegate.runs.bound_source import source_named

    bound = source_named(unit_sources(config, pipeline, source), source)
    return units.retry_units(bound, names, partition, datetime.now(UTC), confirm)


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
    from tidegate.runs.bound_source import source_named

    bound = source_named(unit_sources(config, pipeline, source), source)
    return units.reset_units(bound, names, partition, datetime.now(UTC), confirm)
