"""What a run did, and what ``ingest`` found out before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.reports.report import Report
from tidegate.reports.status import FailedFile, FailedUnit


@dataclass(frozen=True, slots=True)
class SourceReport(Report):
    """What a run did for one source; ``exit_code`` is that of the error's class, 0 without one.

    ``bad_records`` and ``dead_files`` went to the dead-letter table. ``staged`` is the number of units left for
    ``tidegate commit``. ``unknown_fields`` are fields without a column, with their counts. ``work_units`` were read and
    committed, ``failed_units`` were not. ``empty``: the location has no file at all.
    """

    pipeline: str
    source: str
    state: str
    watermark: str | None
    files: int
    bytes: int
    rows: int
    commits: int
    failed: tuple[FailedFile, ...] = ()
    skipped: tuple[tuple[str, int], ...] = ()
    table_version: int | None = None
    error: str | None = None
    seconds: float = 0.0
    exit_code: int = 0
    bad_records: int = 0
    dead_files: int = 0
    staged: int = 0
    unknown_fields: Mapping[str, int] = field(default_factory=dict)
    work_units: int = 0
    failed_units: tuple[FailedUnit, ...] = ()
    empty: bool = False

    def to_json(self) -> dict[str, Any]:
        """The fields, with each skipped pair as ``{"reason", "count"}``."""
        skipped = [{"reason": str(reason), "count": count} for reason, count in self.skipped]
        return Report.to_json(self) | {"skipped": skipped}


@dataclass(frozen=True, slots=True)
class RunReport(Report):
    """What a run did; ``ok`` only if everything requested succeeded."""

    sources: tuple[SourceReport, ...]
    ok: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class IngestReport(Report):
    """What ``ingest`` detected about a source, the configuration that does the same, and the result of its run.

    ``found`` has labels and findings. ``variables`` must be set before the configuration is used again, ``saved`` is
    its file, and ``run`` is None if nothing was run.
    """

    pipeline: str
    found: tuple[tuple[str, str], ...]
    yaml: str
    variables: tuple[str, ...] = ()
    saved: str | None = None
    run: RunReport | None = None
