"""How long staged files may wait: a VACUUM takes Parquet files that no log entry names once they are old enough."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta

PROPERTY = "delta.deletedFileRetentionDuration"
DEFAULT = timedelta(days=7)
_PART = re.compile(r"(\d+)\s+(microsecond|millisecond|second|minute|hour|day|week)s?", re.IGNORECASE)


def retention(properties: Mapping[str, str]) -> timedelta:
    """After which time a VACUUM takes files; a week where the table does not say.

    >>> retention({PROPERTY: "interval 1 week 2 days"}).days, retention({}).days
    (9, 7)
    """
    parts = _PART.findall(properties.get(PROPERTY, ""))
    total = sum((timedelta(**{f"{unit.lower()}s": int(number)}) for number, unit in parts), timedelta())
    return total if parts else DEFAULT
