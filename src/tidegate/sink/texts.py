"""Text as the values it stands for: moments, dates and bytes, whole columns at a time, exactly or not at all.

Moments are ISO 8601 with ``T`` or a space, an optional fraction and an optional offset; without one they are
UTC. Anything finer than a microsecond would be lost, so only zeros may stand there. Moments and dates lie in the
years 1 to 9999, as in the calendar of everything that reads the table.
"""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, date, datetime

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.schema.types import TIMESTAMP

_NAIVE = pa.timestamp("us")
_MOMENTS = (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
_DATES = (date.min, date.max)
_REWRITES = (
    (r"^(\d{4}-\d{2}-\d{2})$", r"\1T00Z"),
    (r"^(\d{4}-\d{2}-\d{2}[T ][0-9:.]+)$", r"\1Z"),
    (r"(\.\d{6})0+(Z|[+-][0-9:]+)$", r"\1\2"),
)
"""Makes every accepted form one that Arrow parses as a moment with an offset."""


def moments(texts: pa.Array) -> pa.Array:
    """Microseconds UTC; raises ``pa.ArrowInvalid`` if a single text is not a moment.

    >>> str(moments(pa.array(["2024-01-28T14:00:00+02:00"]))[0])
    '2024-01-28 12:00:00+00:00'
    """
    for attempt in (_with_offsets, _without_offsets):
        try:
            return in_calendar(attempt(texts))
        except pa.ArrowInvalid:
            continue
    for pattern, replacement in _REWRITES:
        texts = pc.replace_substring_regex(texts, pattern, replacement)
    return in_calendar(_with_offsets(texts))


def _with_offsets(texts: pa.Array) -> pa.Array:
    return pc.cast(texts, TIMESTAMP)


def _without_offsets(texts: pa.Array) -> pa.Array:
    return pc.cast(pc.cast(texts, _NAIVE), TIMESTAMP)


def dates(texts: pa.Array) -> pa.Array:
    """Days; raises ``pa.ArrowInvalid`` if a single text is not ``YYYY-MM-DD``."""
    return in_calendar(pc.cast(texts, pa.date32()))


def in_calendar(times: pa.Array) -> pa.Array:
    """``times``, moments or dates; raises ``pa.ArrowInvalid`` if one lies outside the years 1 to 9999."""
    first, last = (pa.scalar(end, times.type) for end in (_DATES if pa.types.is_date(times.type) else _MOMENTS))
    found = pc.min_max(times)
    outside = pc.or_(pc.less(found["min"], first), pc.greater(found["max"], last))
    if outside.as_py():
        raise pa.ArrowInvalid("a time outside the years 1 to 9999")
    return times


def bytes_of(texts: pa.Array) -> pa.Array:
    """Bytes from base64; raises ``pa.ArrowInvalid`` if a single text is something else."""
    try:
        decoded = [None if text is None else _base64(text) for text in texts.to_pylist()]
    except (binascii.Error, ValueError) as error:
        raise pa.ArrowInvalid(f"not base64: {error}") from error
    return pa.array(decoded, pa.binary())


def _base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
