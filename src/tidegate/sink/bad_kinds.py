"""The kinds of bad lines: few enough to count by, where reasons name columns and values."""

from __future__ import annotations

import re

_NOT_CSV = re.compile(
    r"\d+ cells instead of |cell \d+ (has a quote|goes on behind)|a carriage return outside|'.*?': not UTF-8"
)
"""How a reason begins that is about the cells of a record, not about the value of one."""

_SIGNS = (
    ("not JSON", "not_json"),
    ("not UTF-8", "not_json"),
    ("not Unicode", "not_json"),
    ("not readable", "not_json"),
    ("nested too deeply", "not_json"),
    ("required ", "missing"),
    ("is repeated", "repeated_key"),
    ("has a fraction", "lossy"),
    ("digits behind the point", "lossy"),
    ("is too large for", "lossy"),
    ("is too small for", "lossy"),
    ("cannot hold exactly", "lossy"),
    ("lies outside the years", "lossy"),
    ("not an object but", "wrong_type"),
    (" is not ", "wrong_type"),
    (" does not fit ", "wrong_type"),
    (" is neither true nor false", "wrong_type"),
)


def bad_kind(reason: str) -> str:
    """The kind of a reason.

    >>> bad_kind("7 cells instead of 8")
    'not_csv'
    >>> bad_kind("required field 'id' is missing"), bad_kind("'n': 12.7 has a fraction, the column is int64")
    ('missing', 'lossy')
    """
    if _NOT_CSV.match(reason):
        return "not_csv"
    return next((kind for sign, kind in _SIGNS if sign in reason), "other")
