"""Parts of a read that are a user's own, as a configuration names them: ``support.custom_watermarks:even``."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc

ASKED: list[tuple[Any, str]] = []
"""The watermark and the operator of each call of a filter."""
RUNTIMES: list[Any] = []


def even(frame: Any, watermark: Any, watermark_operator: str) -> Any:
    """Rows of an Arrow table whose id is even, whatever the watermark."""
    ASKED.append((dict(watermark), watermark_operator))
    return frame.filter(pc.equal(pc.bit_wise_and(frame["id"], 1), 0))


def everything(frame: Any, watermark: Any, watermark_operator: str) -> Any:
    return frame


def new_or_open(frame: Any, watermark: Any, watermark_operator: str) -> Any:
    """Rows of a DataFrame that are new, and whatever is still open."""
    above = f"id {watermark_operator} {watermark['id']}" if watermark else "true"
    return frame.where(f"{above} OR note = 'open'")


def nothing(frame: Any, watermark: Any, watermark_operator: str) -> None:
    return None


def failing(*given: Any, **named: Any) -> Any:
    raise KeyError("no such thing")


def inclusive(*, replay: bool) -> str:
    return ">="


def exclusive(*, replay: bool) -> str:
    return ">"


def odd_sign(*, replay: bool) -> str:
    return "<"


def last_two(source_runtime: Any) -> dict[str, tuple[int, int]]:
    """A window of two values below the new watermark."""
    RUNTIMES.append(source_runtime)
    upper = source_runtime.watermark_after["id"]
    return {"id": (upper - 2, upper)}


def too_wide(source_runtime: Any) -> dict[str, tuple[int, int]]:
    return {"id": (0, source_runtime.watermark_after["id"])}


def no_window(source_runtime: Any) -> None:
    return None
