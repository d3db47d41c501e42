"""Which rows of a table give way when work units are read again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReplacedUnit:
    """Rows of ``unit`` whose segment, or whose time column, lies in ``[low, high)``, in milliseconds."""

    unit: str
    low: int
    high: int
