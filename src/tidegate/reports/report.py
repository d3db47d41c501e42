"""The base of all reports: values that know their JSON form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any


class Report:
    """Base of the values below; the JSON form has the fields by name."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON types; times are ISO 8601 in UTC."""
        assert is_dataclass(self)
        return {each.name: _plain(getattr(self, each.name)) for each in fields(self)}


def _plain(value: object) -> Any:
    """The JSON form of a field's value."""
    own = getattr(value, "to_json", None)
    if callable(own):
        return own()
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        case Enum():
            return value.value
        case Mapping():
            return {str(key): _plain(entry) for key, entry in value.items()}
        case tuple() | list():
            return [_plain(entry) for entry in value]
        case _ if is_dataclass(value) and not isinstance(value, type):
            return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
        case _:
            return value
