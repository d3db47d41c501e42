"""Lines rewritten so that the vectorised way can read them: values for text columns as text, unknown fields gone.

Needed where no parser can help: ``json`` columns, conflicting values that ``coerce_conflicts_to_utf8`` keeps as
text, unknown fields beside maps. A rewritten line means the same, to the digit: a line goes through the quick JSON
library only if that gives back the very same characters (spaces aside), else through the exact one, which keeps
numbers as they were written and repeated keys for others to find.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import orjson

from tidegate.schema.literals import Literal, NotJson, Pairs, compact, parse, rescued_text
from tidegate.specs import FieldSpec

_KEY = "\0"
"""Marks a key of a map in a path: part of where a value stood, but not of the name of its field."""

_MEMBER = re.compile(rf"\[\d+\]|{_KEY}[^.]*\.")

Rewrite = Callable[[Any, str], Any]
"""A JSON value (never null) and its path, to the value that is written instead."""


class Mender:
    """Rewrites lines; ``unknown`` counts the fields with a value that it left out, by path.

    With ``rescued`` what it leaves out goes into that field of the record, as JSON text by path.
    """

    def __init__(
        self, fields: tuple[FieldSpec, ...], *, coerce: bool, kept: tuple[str, ...] = (), rescued: str | None = None
    ) -> None:
        self._coerce = coerce
        self._rescued = rescued
        self._left: list[tuple[str, Any]] = []
        self._record = self._object(fields, kept)
        self.unknown: Counter[str] = Counter()

    def mend(self, line: bytes) -> bytes:
        """The line to read instead; one that is no JSON object is given back as it is."""
        try:
            value = orjson.loads(line)
            written = orjson.dumps(value)
        except (orjson.JSONDecodeError, orjson.JSONEncodeError):
            # a number beyond its range, or nested deeper than it writes
            return self._exactly(line)
        if written != line and written.replace(b" ", b"") != line.replace(b" ", b""):
            return self._exactly(line)
        if not isinstance(value, dict):
            return line
        record = self._record(value, "")
        if self._left:
            record[self._rescued] = self._rescue()
        return orjson.dumps(record)

    def _exactly(self, line: bytes) -> bytes:
        try:
            value = parse(line)
            if not isinstance(value, Pairs):
                return line
            record = self._record(value, "")
            if self._left:
                record.append((self._rescued, self._rescue()))
            return compact(record).encode()
        except (NotJson, UnicodeEncodeError, RecursionError):
            self._left.clear()
            return line

    def _rescue(self) -> str:
        """What the record left out so far, as text."""
        left, self._left = self._left, []
        return rescued_text((path, _text(value, path)) for path, value in left)

    def _leave_out(self, path: str, value: Any) -> None:
        self.unknown[_MEMBER.sub("", path)] += 1
        if self._rescued is not None:
            self._left.append((path.replace(_KEY, ""), value))

    def _rewrite(self, field: FieldSpec) -> Rewrite | None:
        """How values of a column are rewritten; None for as they are."""
        match field.type:
            case "json":
                return _text
            case "string" if self._coerce:
                return _text_unless_text
            case "struct":
                return self._object(field.fields)
            case "list" if field.items is not None:
                return _items(self._rewrite(field.items))
            case "map" if field.values is not None:
                return _values(self._rewrite(field.values))
            case _:
                return None

    def _object(self, fields: tuple[FieldSpec, ...], kept: tuple[str, ...] = ()) -> Rewrite:
        rewrites = {field.name: self._rewrite(field) for field in fields} | dict.fromkeys(kept)

        def rewrite(value: Any, path: str) -> Any:
            if isinstance(value, dict):
                return dict(changed(value.items(), path))
            return Pairs(changed(value, path)) if isinstance(value, Pairs) else value

        def changed(pairs: Iterable[tuple[str, Any]], path: str) -> Iterator[tuple[str, Any]]:
            for key, item in pairs:
                if key in rewrites:
                    change = rewrites[key]
                    yield key, item if change is None or item is None else change(item, f"{path}{key}.")
                elif item is not None:
                    self._leave_out(f"{path}{key}", item)

        return rewrite


def _items(change: Rewrite | None) -> Rewrite | None:
    if change is None:
        return None

    def rewrite(value: Any, path: str) -> Any:
        if not isinstance(value, list) or isinstance(value, Pairs):
            return value
        return [item if item is None else change(item, f"{path[:-1]}[{index}].") for index, item in enumerate(value)]

    return rewrite


def _values(change: Rewrite | None) -> Rewrite | None:
    if change is None:
        return None

    def rewrite(value: Any, path: str) -> Any:
        if isinstance(value, Pairs):
            return Pairs((key, item if item is None else change(item, f"{path}{_KEY}{key}.")) for key, item in value)
        if isinstance(value, dict):
            return {key: item if item is None else change(item, f"{path}{_KEY}{key}.") for key, item in value.items()}
        return value

    return rewrite


def _text(value: Any, path: str) -> str:
    return compact(value) if _is_exact(value) else orjson.dumps(value).decode()


def _text_unless_text(value: Any, path: str) -> str:
    return value if isinstance(value, str) and not isinstance(value, Literal) else _text(value, path)


def _is_exact(value: Any) -> bool:
    return isinstance(value, Literal | Pairs) or (isinstance(value, list) and any(map(_is_exact, value)))
