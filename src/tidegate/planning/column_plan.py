"""The plan of a column source: which rows a run would read, before the source was asked how far it goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tidegate.column_specs import Value, Watermark
from tidegate.watermarks.chunks import Chunk
from tidegate.watermarks.column_state import ColumnState
from tidegate.watermarks.row_filter import RowFilter
from tidegate.watermarks.windows import SourceRuntime


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """What to read of one source at ``position``: a pure value, equal arguments give equal plans.

    ``stored`` is the watermark of the source's columns, ``effective`` where the read begins after look-back. ``reads``
    has no caps yet except those of ``safety_lag``, which are also in ``lag_caps``. ``full``: everything is read.
    ``window``: rows of the table that lie in the range are replaced. ``lag_until`` is the moment that safety_lag
    allows, for columns whose kind is not known before the source was asked; ``horizon`` is the one up to which times
    are taken for what they are (``future_tolerance``), None where nothing limits them or ``lag_until`` does.
    """

    pipeline: str
    source: str
    position: int
    now: datetime
    stored: Watermark = field(default_factory=dict)
    effective: Watermark = field(default_factory=dict)
    reads: RowFilter = field(default_factory=RowFilter)
    full: bool = False
    lag_caps: Mapping[str, Value] = field(default_factory=dict)
    window: bool = False
    chunk: Chunk | None = None
    notes: tuple[str, ...] = ()
    lag_until: datetime | None = None
    source_timezone: str = "UTC"
    horizon: datetime | None = None


@dataclass(frozen=True, slots=True)
class Fixed:
    """A read whose end is fixed: the rows, and the state that covers exactly them.

    ``window`` says which rows of the table are replaced, by the columns' names in the source. ``nothing``: no row can
    be there, so that neither read nor commit is due.
    """

    rows: RowFilter
    state: ColumnState
    runtime: SourceRuntime
    window: RowFilter | None = None
    nothing: bool = False
