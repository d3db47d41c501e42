"""The kinds of bad lines: few enough to count by, where reasons name columns and values."""

from __future__ import annotations

_SIGNS = (
    ("not JSON", "not_json"),
    ("not UTF-8", "not_json"),
    ("not readable", "not_json"),
    ("required ", "missing"),
    ("is repeated", "repeated_key"),
    ("has a fraction", "lossy"),
    ("digits behind the point", "lossy"),
    ("is too large for", "lossy"),
    ("lies outside the years", "lossy"),
    ("not an object but", "wrong_type"),
    (" is not ", "wrong_type"),
    (" does not fit ", "wrong_type"),
)


def bad_kind(reason: str) -> str:
    """The kind of a reason.

    >>> bad_kind("required field 'id' is missing"), bad_kind("'n': 12.7 has a fraction, the column is int64")
    ('missing', 'lossy')
    """
    return next((kind for sign, kind in _SIGNS if sign in reason), "other")
