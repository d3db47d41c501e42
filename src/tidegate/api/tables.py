"""Care for the Delta table of a pipeline."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidegate.api.opening import Config, agreed, load, pipelines_of, sources_of
from tidegate.reports.run import TableCareReport
from tidegate.reports.schema import TableRewrite

if TYPE_CHECKING:
    from tidegate.runs.maintenance import TableMaintenance


def widen_table(
    config: Config,
    pipeline: str,
    *,
    column: str,
    to: str,
    confirm: Callable[[TableRewrite], bool] = agreed,
) -> TableRewrite:
    """Rewrite a table with the wider type ``to`` of one column, in one commit, if ``confirm`` agrees.

    ``column`` may be a path (``user.age``, ``tags.element``, ``prices.value``). The positions of all sources stay.
    """
    from tidegate.commands.schema import widen

    project = load(config, pipeline=pipeline)
    return widen(sources_of(project, pipeline)[0], column, to, confirm)


def optimize_table(
    config: Config, pipeline: str, *, target_mb: int | None = None, dry_run: bool = False
) -> TableCareReport:
    """Put the rows of small data files together; no row changes, and runs may go on meanwhile. No Spark."""
    return _care(config, pipeline).optimize(target_mb, dry_run=dry_run)


def vacuum_table(
    config: Config, pipeline: str, *, retention_hours: int | None = None, force: bool = False, dry_run: bool = False
) -> TableCareReport:
    """Remove data files that left the table longer ago than that; at least a day unless ``force``. No Spark.

    Versions that need them cannot be read or restored any more. What runs have written and not committed stays.
    """
    return _care(config, pipeline).vacuum(retention_hours, force=force, dry_run=dry_run)


def checkpoint_table(config: Config, pipeline: str, *, dry_run: bool = False) -> TableCareReport:
    """Write a Delta checkpoint of the newest version, so that the table loads fast. No Spark."""
    return _care(config, pipeline).checkpoint(dry_run=dry_run)


def _care(config: Config, pipeline: str) -> TableMaintenance:
    from tidegate.runs.maintenance import TableMaintenance

    return TableMaintenance(pipelines_of(load(config, pipeline=pipeline), pipeline)[0])
