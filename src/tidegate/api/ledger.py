"""Which files were ingested when, and by which commit."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from tidegate.api.opening import Config, places_of
from tidegate.reports.ledger import FilesReport, LedgerCompaction, LedgerExport


def files(
    config: Config,
    pipeline: str,
    source: str | None = None,
    *,
    match: str | None = None,
    since: datetime | None = None,
    position: int | None = None,
    limit: int = 50,
) -> FilesReport:
    """Which files were ingested when and by which commit, newest first; ``limit`` 0: all."""
    from tidegate.commands.files import FilesQuery, files_of

    return files_of(places_of(config, pipeline, source), FilesQuery(match, since, position), limit)


def export_ledger(config: Config, pipeline: str, source: str | None = None, *, to: Path) -> LedgerExport:
    """The complete ledger of a pipeline's sources as one local Parquet file, for SQL."""
    from tidegate.commands.files import export

    return export(places_of(config, pipeline, source), to)


def compact_ledger(config: Config, pipeline: str, source: str | None = None) -> tuple[LedgerCompaction, ...]:
    """Gathers old documents of a pipeline's sources into blocks of the ledger; runs do the same bit by bit."""
    from tidegate.commands.files import compact_place

    return tuple(compact_place(place) for place in places_of(config, pipeline, source))
