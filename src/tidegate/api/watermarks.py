"""Watermarks, as they are, as they were, and moved by hand."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from tidegate.api.opening import Config, agreed, load, open_places, places_of
from tidegate.corrections import WatermarkMove
from tidegate.ledger_reports import WatermarkHistory
from tidegate.reports import WatermarkView


def show_watermarks(config: Config, pipeline: str, source: str | None = None) -> tuple[WatermarkView, ...]:
    """The recorded state of a pipeline's sources, in full."""
    from tidegate.runs.looking import watermark_of

    return tuple(watermark_of(place) for place in places_of(config, pipeline, source))


def watermark_history(
    config: Config, pipeline: str, source: str | None = None, *, limit: int = 20
) -> tuple[WatermarkHistory, ...]:
    """The positions of a pipeline's sources, newest first, with the watermark that each left; ``limit`` 0: all."""
    from tidegate.runs.ledger import history_of

    return tuple(history_of(place, limit) for place in places_of(config, pipeline, source))


def set_watermark(
    config: Config,
    pipeline: str,
    source: str | None = None,
    *,
    to: str,
    confirm: Callable[[WatermarkMove], bool] = agreed,
) -> WatermarkMove:
    """Set the watermark of one partition to the path ``to``, up or down, if ``confirm`` agrees to what that means.

    The position is committed by the ordinary protocol and no row is touched: files below a watermark that moved up
    are never read, files above one that moved down are read again. ``CommitLost`` when another run was first.
    """
    from tidegate.runs.looking import place_named
    from tidegate.runs.moving import move_watermark, target_of

    place = place_named(open_places(load(config, pipeline=pipeline), pipeline), source)
    return move_watermark(place, target_of(place.source, to), datetime.now(UTC), confirm)


def reset_watermark(
    config: Config,
    pipeline: str,
    source: str | None = None,
    *,
    partition: str | None = None,
    confirm: Callable[[WatermarkMove], bool] = agreed,
) -> WatermarkMove:
    """Forget the position of one partition (``""`` is the top level), or of the whole source; see ``set_watermark``."""
    from tidegate.runs.looking import place_named
    from tidegate.runs.moving import Target, move_watermark

    place = place_named(open_places(load(config, pipeline=pipeline), pipeline), source)
    target = Target(None if partition is None else partition.strip("/"))
    return move_watermark(place, target, datetime.now(UTC), confirm)
