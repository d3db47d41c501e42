"""Parameters of requests: fixed values, bounds of the range, pages, and what a POST sends."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tidegate.config.importing.given import Given, is_secret
from tidegate.config.unit_variables import VARIABLE

_PATTERN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|.", re.DOTALL)
_DIRECTIVES = {
    "yyyy": "%Y",
    "uuuu": "%Y",
    "yy": "%y",
    "MM": "%m",
    "dd": "%d",
    "HH": "%H",
    "mm": "%M",
    "ss": "%S",
    "SSSSSS": "%f",
    "DDD": "%j",
    "Z": "%z",
    "XX": "%z",
    "xx": "%z",
}
PAGES = ("pagestart", "pagesize", "pageno", "session")
STRUCTURED = ("object", "jsonobject", "jsonarray")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One named parameter; ``value`` is a fixed one, ``bound`` a block of the range, ``unit`` a variable."""

    name: str
    kind: str
    value: Any = None
    bound: dict[str, Any] | None = None
    unit: str | None = None


def parameters(given: Given, times: tuple[str, ...]) -> dict[str, Parameter]:
    """The parameters by name; ``times`` are the names of datetime watermarks."""
    key = "ms.parameters" if given.has("ms.parameters") else "ms.parameter"
    found = [_parameter(given, key, each, times) for each in given.data(key, list) if isinstance(each, dict)]
    return {each.name: each for each in found if each is not None}


def _parameter(given: Given, key: str, each: dict[str, Any], times: tuple[str, ...]) -> Parameter | None:
    name, kind = str(each.get("name", "")), str(each.get("type", "list")).lower()
    if not name:
        given.leave(key, "a parameter has no name")
        return None
    if kind == "watermark":
        watermark = str(each.get("watermark", "system"))
        if watermark not in times:
            return Parameter(name, kind, unit=watermark)
        return Parameter(name, kind, bound=_bound(given, key, name, watermark, each))
    if kind in PAGES:
        return Parameter(name, kind)
    value = each.get("value")
    if kind in STRUCTURED:
        return Parameter(name, kind, _object(value) if kind == "object" else value)
    if is_secret(name, str(value)):
        return Parameter(name, "secret", given.secret(name))
    return Parameter(name, "list", str(value) if not isinstance(value, bool) else str(value).lower())


def _object(value: Any) -> Any:
    """An object that is written as a list of parameters."""
    if not isinstance(value, list):
        return value
    return {str(each.get("name")): each.get("value") for each in value if isinstance(each, dict)}


def _bound(given: Given, key: str, name: str, watermark: str, each: dict[str, Any]) -> dict[str, Any]:
    end = str(each.get("value", each.get("range", "low"))).lower()
    made: dict[str, Any] = {"watermark": watermark, "bound": "high" if end in ("high", "to") else "low"}
    kind, pattern = str(each.get("format", "")).lower(), each.get("pattern")
    if kind in ("epoc-second", "epoch-second", "epoc.second", "epoch.second"):
        made["format"] = "timestamp"
    elif kind != "datetime" and not pattern:
        made["format"] = "timestamp_ms"
    elif pattern:
        written = strftime(str(pattern))
        if written is None:
            given.leave(key, f"the pattern of {name!r} has no equal; it is written as iso now: {pattern}")
        made["format"] = written or "iso"
    if each.get("timezone"):
        made["timezone"] = str(each["timezone"])
    return made


def strftime(pattern: str) -> str | None:
    """A pattern of Java as one of strftime; None where a letter has no equal.

    >>> strftime("yyyy-MM-dd'T'HH:mm:ss'Z'")
    '%Y-%m-%dT%H:%M:%SZ'
    """
    made = ""
    for found in _PATTERN.finditer(pattern):
        if found[1] is not None:
            made += (found[1].replace("''", "'") or "'").replace("%", "%%")
        elif found[2] is None:
            made += found[0].replace("%", "%%")
        elif found[0] in _DIRECTIVES:
            made += _DIRECTIVES[found[0]]
        else:
            return None
    return made if "%" in made.replace("%%", "") else None


def names_in(value: Any) -> Iterator[str]:
    """The variables that a text, or what holds texts, uses."""
    match value:
        case str():
            yield from VARIABLE.findall(value)
        case dict():
            yield from (name for below in value.values() for name in names_in(below))
        case list():
            yield from (name for below in value for name in names_in(below))


def filled(value: Any, known: dict[str, Parameter]) -> Any:
    """A text, or what holds texts, with fixed parameters put in; others stay variables."""

    def put(found: re.Match[str]) -> str:
        parameter = known.get(found[1])
        if parameter is None:
            return found[0]
        if parameter.unit is not None:
            return f"{{{{{parameter.unit}}}}}"
        return str(parameter.value) if parameter.kind in ("list", "primitive", "secret") else found[0]

    match value:
        case str():
            return VARIABLE.sub(put, value)
        case dict():
            return {name: filled(below, known) for name, below in value.items()}
        case list():
            return [filled(below, known) for below in value]
        case _:
            return value
