"""What looking at column sources gives back: what a run would ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.reports import Report


@dataclass(frozen=True, slots=True)
class ColumnSourcePlan(Report):
    """What a run would ask one column source for.

    ``stored`` is the watermark by column, as text, ``effective`` where the read begins after look-back; both are empty
    on a first run. ``predicate`` is the condition in the language of the source. The upper bounds are fixed by the run:
    ``cap`` says how.
    """

    pipeline: str
    source: str
    table_uri: str
    kind: str
    source_uri: str
    load_type: str
    position: int
    stored: Mapping[str, str | None]
    effective: Mapping[str, str | None]
    predicate: str
    full: bool
    cap: str
    window: bool = False
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The fields, with ``tracking: columns``, which tells these plans from those of files."""
        return Report.to_json(self) | {"tracking": "columns"}
