"""Column sources, as the modules that work on columns see them."""

from __future__ import annotations

from tidegate.core.columns.state import text_of
from tidegate.runs.bound_source import BoundSource, StateKind
from tidegate.specs.columns import ColumnSource, Watermark

ColumnBound = BoundSource[ColumnSource, StateKind]
"""A column source, whatever keeps copies of its watermark."""


def shown_values(values: Watermark) -> dict[str, str | None]:
    """Values as people read them."""
    return {column: None if value is None else text_of(value) for column, value in values.items()}
