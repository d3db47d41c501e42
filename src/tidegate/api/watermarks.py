"""Watermarks, as they are, as they were, and moved by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidegate.api.opening import Config, agreed, load, sources_of
from tidegate.reports.correction import WatermarkMove
from tidegate.reports.ledger import WatermarkHistory
from tidegate.reports.run import WatermarkView

if TYPE_CHECKING:
    from tidegate.runs.tracker import WatermarkEdit


def show_watermarks(config: Config, pipeline: str, source: str | None = None) -> tuple[WatermarkView, ...]:
    """The recorded state of a pipeline's sources, in full."""
    from tidegate.commands.status import watermark_of

    return tuple(map(watermark_of, sources_of(load(config, pipeline=pipeline), pipeline, source)))


def watermark_history(
    config: Config, pipeline: str, source: str | None = None, *, limit: int = 20
) -> tuple[WatermarkHistory, ...]:
    """The positions of a pipeline's sources, newest first, with the watermark that each left; ``limit`` 0: all."""
    from tidegate.commands.files import history_of

    sources = sources_of(load(config, pipeline=pipeline), pipeline, source)
    return tuple(history_of(each, limit) for each in sources)


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
    from tidegate.runs.tracker import WatermarkEdit

    return _edit(config, pipeline, source, WatermarkEdit(to, values, inclusive), confirm)


def reset_watermark(
    config: Config,
    pipeline: str,
    source: str | None = None,
    *,
    partition: str | None = None,
    confirm: Callable[[WatermarkMove], bool] = agreed,
) -> WatermarkMove:
    """Forget the position of one partition (``""`` is the top level), or of the whole source; see ``set_watermark``."""
    from tidegate.runs.tracker import WatermarkEdit

    return _edit(config, pipeline, source, WatermarkEdit(reset=True, partition=partition), confirm)


def _edit(
    config: Config,
    pipeline: str,
    source: str | None,
    edit: WatermarkEdit,
    confirm: Callable[[WatermarkMove], bool],
) -> WatermarkMove:
    from tidegate.runs.bound_source import source_named

    chosen = source_named(sources_of(load(config, pipeline=pipeline), pipeline), source)
    move: WatermarkMove = chosen.tracker.edit(chosen, edit, datetime.now(UTC), confirm)
    return move
