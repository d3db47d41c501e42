"""Watermarks, as they are, as they were, and moved by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from tidegate.api.opening import (
    Config,
    agreed,
    column_place_named,
    load,
    open_column_places,
    open_places,
    open_unit_places,
    other_places,
    places_of,
    refuse_units,
)
from tidegate.errors import TidegateError
from tidegate.reports.correction import WatermarkMove
from tidegate.reports.ledger import WatermarkHistory
from tidegate.reports.run import WatermarkView


def show_watermarks(config: Config, pipeline: str, source: str | None = None) -> tuple[WatermarkView, ...]:
    """The recorded state of a pipeline's sources, in full."""
    project = load(config, pipeline=pipeline)
    if units := open_unit_places(project, pipeline, source):
        from tidegate.commands.unit_status import unit_watermark

        return tuple(unit_watermark(place) for place in units)
    if columns := open_column_places(project, pipeline, source):
        from tidegate.commands.status import column_watermark

        return tuple(column_watermark(place) for place in columns)
    from tidegate.commands.status import watermark_of

    return tuple(watermark_of(place) for place in places_of(config, pipeline, source))


def watermark_history(
    config: Config, pipeline: str, source: str | None = None, *, limit: int = 20
) -> tuple[WatermarkHistory, ...]:
    """The positions of a pipeline's sources, newest first, with the watermark that each left; ``limit`` 0: all."""
    from tidegate.commands.files import history_of

    project = load(config, pipeline=pipeline)
    places = other_places(project, pipeline, source) or places_of(project, pipeline, source)
    return tuple(history_of(place, limit) for place in places)


def set_watermark(
    config: Config,
    pipeline: str,
    source: str | None = None,
    *,
    to: str | None = None,
    values: Mapping[str, str] | None = None,
    inclusive: bool = False,
    confirm: Callable[[WatermarkMove], bool] = agreed,
) -> WatermarkMove:
    """Set the watermark of one partition to the path ``to``, up or down, if ``confirm`` agrees to what that means.

    A source that is followed by columns takes ``values`` instead, by column as text; with ``inclusive`` the next read
    takes rows at these values, too. The position is committed by the ordinary protocol and no row is touched: files
    below a watermark that moved up are never read, files above one that moved down are read again. ``CommitLost`` when
    another run was first.
    """
    from tidegate.commands.watermark import move_watermark, target_of
    from tidegate.runs.bound_source import place_named

    project = load(config, pipeline=pipeline)
    refuse_units(project, pipeline, "reset|retry")
    columns = column_place_named(project, pipeline, source)
    if (columns is None) != (values is None) or (columns is None) == (to is None):
        wanted = "the path of a file (to)" if columns is None else "values of its watermark columns (values)"
        raise TidegateError(f"the watermark of {pipeline!r} is something else", f"give {wanted}")
    if columns is not None and values is not None:
        from tidegate.commands.watermark import set_columns

        return set_columns(columns, values, datetime.now(UTC), confirm, inclusive=inclusive)
    place = place_named(open_places(project, pipeline), source)
    return move_watermark(place, target_of(place.source, to or ""), datetime.now(UTC), confirm)


def reset_watermark(
    config: Config,
    pipeline: str,
    source: str | None = None,
    *,
    partition: str | None = None,
    confirm: Callable[[WatermarkMove], bool] = agreed,
) -> WatermarkMove:
    """Forget the position of one partition (``""`` is the top level), or of the whole source; see ``set_watermark``."""
    from tidegate.commands.watermark import EditTarget, move_watermark
    from tidegate.runs.bound_source import place_named

    project = load(config, pipeline=pipeline)
    refuse_units(project, pipeline, "reset|retry")
    columns = column_place_named(project, pipeline, source)
    if columns is not None:
        if partition is not None:
            raise TidegateError(f"{pipeline!r} is followed by columns and has no partitions", "leave partition out")
        from tidegate.commands.watermark import reset_columns

        return reset_columns(columns, datetime.now(UTC), confirm)
    place = place_named(open_places(project, pipeline), source)
    target = EditTarget(None if partition is None else partition.strip("/"))
    return move_watermark(place, target, datetime.now(UTC), confirm)
