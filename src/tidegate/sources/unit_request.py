"""What a Python function that serves as a source is asked for, where that is a work unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tidegate.locations import Secret


@dataclass(frozen=True, slots=True)
class UnitRequest:
    """Rows of ``unit`` from ``low`` up to, but not including, ``high``; both moments have a zone.

    ``variables`` are what the unit brings along, ``secrets`` the same for what must never show. With a time column,
    rows outside the range are left out afterwards in any case. ``now`` is the moment of the run.
    """

    unit: str
    variables: Mapping[str, str]
    low: datetime
    high: datetime
    now: datetime
    options: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, Secret] = field(default_factory=dict, repr=False)
