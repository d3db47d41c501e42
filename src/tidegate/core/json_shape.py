"""JSON documents of a known shape: every surprise becomes an error that names its place."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tidegate.errors import StateError

_MISSING: object = object()


def load_json(content: bytes | str) -> Any:
    """Parse JSON; ``ValueError`` if it is invalid or nested too deeply."""
    try:
        return json.loads(content)
    # Whoever can write into the folder of a table can write anything there; a RecursionError would end the command.
    except RecursionError:
        raise ValueError("nested too deeply") from None


class Node:
    """A value in a document, and the path of keys that leads to it."""

    __slots__ = ("_path", "_value")

    def __init__(self, value: object, path: str) -> None:
        self._value = value
        self._path = path

    def __contains__(self, key: str) -> bool:
        return key in self.as_mapping()

    @property
    def is_null(self) -> bool:
        """Whether the value is ``null`` or missing."""
        return self._value is None or self._value is _MISSING

    @property
    def is_text(self) -> bool:
        return isinstance(self._value, str)

    def get(self, key: str, default: object = _MISSING) -> Node:
        """The value under ``key``, which may be missing."""
        return Node(self.as_mapping().get(key, default), f"{self._path}.{key}")

    def only(self, keys: Sequence[str]) -> Node:
        """This object, if it has no other keys; else an error."""
        for key in self.as_mapping():
            if key not in keys:
                # An unknown key may be what a newer program relies on; ignoring it would write a state without it.
                raise self.get(key).refusal("no such key")
        return self

    def entries(self) -> Iterator[tuple[str, Node]]:
        for key, value in self.as_mapping().items():
            yield key, Node(value, f"{self._path}[{key!r}]")

    def items(self) -> Iterator[Node]:
        if not isinstance(self._value, list | tuple):
            raise self.refusal("a list")
        for number, value in enumerate(self._value):
            yield Node(value, f"{self._path}[{number}]")

    def text(self) -> str:
        if not isinstance(self._value, str):
            raise self.refusal("a string")
        return self._value

    def integer(self) -> int:
        """The value, a whole number, 0 or more."""
        if not isinstance(self._value, int) or isinstance(self._value, bool) or self._value < 0:
            raise self.refusal("a whole number, 0 or more")
        return self._value

    def any_integer(self) -> int:
        if not isinstance(self._value, int) or isinstance(self._value, bool):
            raise self.refusal("a whole number")
        return self._value

    def boolean(self) -> bool:
        if not isinstance(self._value, bool):
            raise self.refusal("true or false")
        return self._value

    def optional_text(self) -> str | None:
        return None if self.is_null else self.text()

    def optional_integer(self) -> int | None:
        return None if self.is_null else self.integer()

    def moment(self) -> datetime:
        """The value, an ISO 8601 time with its zone."""
        try:
            moment = datetime.fromisoformat(self.text())
        except ValueError:
            raise self.refusal("an ISO 8601 time") from None
        if moment.tzinfo is None:
            raise self.refusal("an ISO 8601 time with its zone")
        return moment.astimezone(UTC)

    def seconds(self) -> datetime | None:
        """The value, seconds since 1970; None for 0."""
        try:
            return datetime.fromtimestamp(self.integer(), UTC) if self.integer() else None
        except (OverflowError, ValueError, OSError):
            raise self.refusal("seconds since 1970") from None

    def refusal(self, expected: str) -> StateError:
        """The error that names what was expected here."""
        try:
            shown = "nothing" if self._value is _MISSING else repr(self._value)[:80]
        except RecursionError:
            shown = "something that is nested deeply"
        return StateError(
            f"{self._path}: expected {expected}, found {shown}",
            "the document is damaged or another program wrote it; it is not used, and nothing was written",
        )

    def as_mapping(self) -> Mapping[str, object]:
        if not isinstance(self._value, Mapping):
            raise self.refusal("an object")
        return self._value


SCHEMA_VERSION = 1


def seconds_of(moment: datetime | None) -> int:
    """The number that :meth:`Node.seconds` reads."""
    return 0 if moment is None else int(moment.timestamp())


def utc_text(moment: datetime) -> str:
    """Format a moment in ISO 8601, in UTC; :meth:`Node.moment` reads it."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def check_version(root: Node) -> None:
    """Refuse a state that a newer version wrote."""
    version = root.get("schema_version", SCHEMA_VERSION).integer()
    if version > SCHEMA_VERSION:
        raise StateError(
            f"state has schema_version {version}, this program knows {SCHEMA_VERSION}",
            "use the newer program that wrote it; nothing was written",
        )


def is_newer(data: Mapping[str, object]) -> bool:
    """True if a newer version wrote ``data``, so that this one cannot read it."""
    version = data.get("schema_version")
    return isinstance(version, int) and version > SCHEMA_VERSION


def state_of_kind(data: Mapping[str, object], kind: str, keys: Sequence[str], of: str, by: str) -> Node:
    """Return the root of a state of ``kind`` with only these ``keys``; ``of`` and ``by`` name the kind in errors."""
    root = Node(data, "state")
    check_version(root)
    if "kind" not in root or root.get("kind").text() != kind:
        raise StateError(
            f"the recorded state is not one of {of}, and the source is now followed by {by}",
            "give the source its former type again; or another name and another table, to read everything anew",
        )
    return root.only(keys)
