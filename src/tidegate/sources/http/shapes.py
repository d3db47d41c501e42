"""Which records tell something new about the columns: so few that columns can be inferred from all records of a read.

Nothing is learnt from null, an empty list or an object without keys: a column that never had a value has no type yet,
and is left out until it has one.
"""

from __future__ import annotations

from typing import Any

from tidegate.schema.infer import MOST_KEYS, number_kind
from tidegate.schema.literals import Literal, NotJson, Pairs, compact, parse


class Shapes:
    """What was seen at which path; takes records one after the other."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, str]] = set()
        self._members: dict[str, int] = {}

    def telling(self, record: bytes) -> bytes | None:
        """The record without what tells nothing, if the rest tells something new; of those without JSON, the first."""
        try:
            value = _filled(parse(record))
        except NotJson:
            return record if self._is_new("", "unreadable") else None
        return compact(value).encode() if self._adds(value, "") else None

    def _adds(self, value: Any, path: str) -> bool:
        new = self._is_new(path, _kind(value))
        if isinstance(value, Pairs):
            for key, item in value:
                known = self._members.get(path, 0)
                if known <= MOST_KEYS and self._adds(item, f"{path}\0{key}"):
                    new = True
        elif isinstance(value, list):
            for item in value:
                new = self._adds(item, f"{path}\0\0") or new
        return new

    def _is_new(self, path: str, kind: str) -> bool:
        if (path, kind) in self._seen:
            return False
        self._seen.add((path, kind))
        parent = path.rpartition("\0")[0]
        self._members[parent] = self._members.get(parent, 0) + 1
        return True


def _kind(value: Any) -> str:
    if isinstance(value, Literal):
        return number_kind(value)
    return type(value).__name__


def _filled(value: Any) -> Any:
    """The same without members and items that are null or empty."""
    if isinstance(value, Pairs):
        return Pairs((key, kept) for key, item in value if not _is_empty(kept := _filled(item)))
    if isinstance(value, list):
        return [kept for item in value if not _is_empty(kept := _filled(item))]
    return value


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, list) and not value)
