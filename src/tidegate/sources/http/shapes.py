"""Which records tell something new about the columns: so few that columns can be inferred from all records of a read.

Nothing is learnt from null, an empty list or an object without keys: a column that never had a value has no type yet,
and is left out until it has one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidegate.errors import SourceError
from tidegate.schema.infer import LONGEST_WHOLE, MOST_KEYS
from tidegate.schema.literals import Literal, NotJson, Pairs, compact, parse

MOST_LEVELS = 200


class Shapes:
    """What was seen at which path; takes records one after the other.

    Raises :class:`SourceError` for one with more levels than columns can have, or with text that is not Unicode.
    """

    def __init__(self) -> None:
        self._seen: set[tuple[str, str]] = set()
        self._members: dict[str, int] = {}

    def telling(self, record: bytes) -> bytes | None:
        """The record without what tells nothing, if the rest tells something new; of those without JSON, the first."""
        try:
            value = parse(record)
        except NotJson:
            return record if self._is_new("", "unreadable") else None
        _check_levels(value)
        value = _filled(value)
        return _encoded(value) if self._adds(value, "") else None

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
        is_whole = len(value) <= LONGEST_WHOLE and value.lstrip("-").isdigit() and -(2**63) <= int(value) < 2**63
        return "whole" if is_whole else "number"
    return type(value).__name__


def _encoded(value: Any) -> bytes:
    try:
        return compact(value).encode()
    except UnicodeEncodeError as error:
        raise SourceError(
            "a record has half a surrogate pair in a text or a name, which is not Unicode",
            "declare schema.fields, or have the server send Unicode",
        ) from error


def _check_levels(value: Any) -> None:
    """Refuse objects and lists inside each other that are too many to be looked at one in the other."""
    level = [value]
    for _ in range(MOST_LEVELS + 1):
        level = [item for each in level if isinstance(each, list) for item in _items(each)]
        if not level:
            return
    raise SourceError(
        f"a record is nested in more than {MOST_LEVELS} levels, too deep for columns to be found in it",
        "declare schema.fields, or have the server send less of it",
    )


def _items(value: list[Any]) -> Iterator[Any]:
    return (item for _, item in value) if isinstance(value, Pairs) else iter(value)


def _filled(value: Any) -> Any:
    """The same without members and items that are null or empty."""
    if isinstance(value, Pairs):
        return Pairs((key, kept) for key, item in value if not _is_empty(kept := _filled(item)))
    if isinstance(value, list):
        return [kept for item in value if not _is_empty(kept := _filled(item))]
    return value


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, list) and not value)
