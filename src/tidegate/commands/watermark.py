"""Watermarks: show them, list their history, move them by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidegate.commands.files import moment_of, newest_position
from tidegate.commands.project import Config, agree, load, source_of, sources_of
from tidegate.protocol.ledger_blocks import LedgerEntry
from tidegate.reports.watermark import PositionView, WatermarkHistory, WatermarkView
from tidegate.runs.tracker import Editable, Summary, TrackedSource, WatermarkEdit, refuse

if TYPE_CHECKING:
    from tidegate.reports.watermark import WatermarkMove


def show_watermarks(config: Config, pipeline: str, source: str | None = None) -> tuple[WatermarkView, ...]:
    """The complete recorded state of a pipeline's sources."""
    return tuple(map(watermark_of, sources_of(load(config, pipeline=pipeline), pipeline, source)))


def watermark_history(
    config: Config, pipeline: str, source: str | None = None, *, limit: int = 20
) -> tuple[WatermarkHistory, ...]:
    """The positions of a pipeline's sources, newest first, with the watermark after each; ``limit`` 0: all."""
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
    confirm: Callable[[WatermarkMove], bool] = agree,
) -> WatermarkMove:
    """Set the watermark of one partition to the path ``to``, up or down, if ``confirm`` agrees to the consequences.

    A column source takes ``values`` instead, as text by column; with ``inclusive`` the next read includes rows at these
    values. The ordinary protocol commits the position; no row changes. Files below a watermark that moved up are never
    read, files above one that moved down are read again. ``CommitLost`` if another run came first.
    """
    return _edit(source_of(config, pipeline, source), WatermarkEdit(to, values, inclusive), confirm)


def reset_watermark(
    config: Config,
    pipeline: str,
    source: str | None = None,
    *,
    partition: str | None = None,
    confirm: Callable[[WatermarkMove], bool] = agree,
) -> WatermarkMove:
    """Forget the position of one partition (``""`` is the top level), or of the whole source; see ``set_watermark``."""
    return _edit(source_of(config, pipeline, source), WatermarkEdit(reset=True, partition=partition), confirm)


def _edit(source: TrackedSource, edit: WatermarkEdit, confirm: Callable[[WatermarkMove], bool]) -> WatermarkMove:
    if not isinstance(source.tracker, Editable):
        raise refuse(source, "watermark", "it has no watermark that a person may move")
    return source.tracker.edit(source, edit, datetime.now(UTC), confirm)


def watermark_of(source: TrackedSource) -> WatermarkView:
    """The complete recorded state of a source."""
    recorded = source.read_recorded()
    summary: Summary = source.tracker.summary(source.decode_recorded(recorded))
    return WatermarkView(
        *source.names,
        version=0 if recorded is None else recorded.version,
        state=summary.state or ("Initial" if recorded is None else "Active"),
        value=summary.value,
        partitions=dict(summary.partitions),
        files=summary.files,
        sealed=summary.sealed,
        last_committed_file=summary.last_committed_file,
        updated=summary.updated,
        tracking=summary.tracking,
        remembered=summary.remembered,
        failed_units=summary.failed_units,
        retired=summary.retired,
        last_commit_at=source.last_commit_at(recorded),
        facts=summary.facts,
        tables=summary.tables(),
    )


def history_of(bound: TrackedSource, limit: int) -> WatermarkHistory:
    """The positions of a source, newest first; ``limit`` 0 means all."""
    newest, notes = newest_position(bound)
    views: list[PositionView] = []
    complete = True
    for entry in bound.ledger.newest_first(newest):
        if limit and len(views) == limit:
            complete = False
            break
        views.append(_view(entry))
    return WatermarkHistory(bound.pipeline.name, bound.source.name, tuple(views), complete, notes)


def _view(entry: LedgerEntry) -> PositionView:
    return PositionView(
        position=entry.version,
        committed_at=moment_of(entry),
        action=entry.action,
        files=len({item.file for item in entry.coverage}),
        records=sum(item.end - item.start for item in entry.coverage),
        rows=entry.rows,
        bad=sum(item.bad for item in entry.coverage),
        data_files=len(entry.data_files),
        table_version=entry.table_version,
        state=entry.watermark_state,
        watermark=entry.watermark,
        gap=entry.gap,
    )
