"""Declared columns and forms of CSV files, in the words of the configuration."""

from __future__ import annotations

import re
from typing import Any

from tidegate.config.importing.given import Given, listed

_TYPES = {
    "string": "string",
    "enum": "string",
    "int": "int32",
    "integer": "int32",
    "long": "int64",
    "float": "float32",
    "double": "float64",
    "number": "float64",
    "boolean": "boolean",
    "bytes": "binary",
    "date": "date",
    "timestamp": "timestamp",
}
_CSV = {
    "ms.csv.column.header.index": "columnHeaderIndex",
    "ms.csv.separator": "fieldSeparator",
    "ms.csv.quote.character": "quoteCharacter",
    "ms.csv.escape.character": "escapeCharacter",
    "ms.csv.skip.lines": "linesToSkip",
}
_WITHOUT_EQUAL = ("recordSeparator", "columnProjection", "defaultFieldType", "maxFailures", "keepNullString")


def columns(given: Given) -> list[dict[str, Any]]:
    """``schema.fields``; empty where there are none, or one of them has no equal."""
    name = "ms.output.schema"
    try:
        return [_column(each) for each in given.data(name, list)]
    except _NoEqual as exc:
        given.leave(name, f"{exc}; columns are found by looking at the first rows, or declare schema.fields")
        return []


class _NoEqual(Exception):
    """A column that cannot be declared."""


def _column(each: Any) -> dict[str, Any]:
    if not isinstance(each, dict) or "columnName" not in each or "dataType" not in each:
        raise _NoEqual("a column has no columnName or no dataType")
    nullable = str(each.get("isNullable", "true")).lower() != "false"
    found = {"name": str(each["columnName"]), **_type(each["dataType"])}
    return found if nullable else {**found, "nullable": False}


def _type(given: Any) -> dict[str, Any]:
    """A type by its name, or as an object with what is inside it."""
    kind = given.get("type") if isinstance(given, dict) else given
    if isinstance(kind, dict | list):
        return _union(kind) if isinstance(kind, list) else _type(kind)
    inside = given if isinstance(given, dict) else {}
    match str(kind).lower():
        case "record" | "struct":
            below = listed(inside.get("values")) or listed(inside.get("fields"))
            return {"type": "struct", "fields": [_column(each) for each in below]}
        case "array" | "list":
            return {"type": "list", "items": _inner(inside.get("items"))}
        case "map":
            return {"type": "map", "keys": "string", "values": _inner(inside.get("values"))}
        case word if word in _TYPES:
            return {"type": _TYPES[word]}
        case word:
            raise _NoEqual(f"the type {word!r} has no equal")


def _inner(given: Any) -> Any:
    if given is None:
        raise _NoEqual("a list or map does not say what it holds")
    found = _type(given["dataType"] if isinstance(given, dict) and "dataType" in given else given)
    return found["type"] if set(found) == {"type"} else found


def _union(kinds: list[Any]) -> dict[str, Any]:
    others = [each for each in kinds if each != "null"]
    if len(others) != 1:
        raise _NoEqual("a union of several types has no equal")
    return _type(others[0])


def csv(given: Given) -> dict[str, Any]:
    """``source.csv``: files had no header and backslashes before quotes, unless they said otherwise."""
    found = given.data("ms.csv", dict)
    found |= {word: text for name, word in _CSV.items() if (text := given.text(name)) is not None}
    header = _whole(found.get("columnHeaderIndex"), -1)
    if (given.text("ms.csv.column.header") or "").lower() == "true":
        header = max(header, 0)
    skipped = _whole(found.get("linesToSkip"), header + 1)
    if header >= 0 and skipped != header + 1:
        given.leave("ms.csv", "lines between the header and the data are not passed over; remove them from the files")
    for word in _WITHOUT_EQUAL:
        if word in found:
            given.leave("ms.csv", f"{word} has no equal; schema.fields says names, order and types of columns")
    made: dict[str, Any] = {
        "delimiter": _letter(found.get("fieldSeparator", ",")),
        "quote": _letter(found.get("quoteCharacter", '"')),
        "escape": _letter(found.get("escapeCharacter", "\\")),
        "header": header >= 0,
        "skip_rows": header if header >= 0 else skipped,
    }
    return {key: value for key, value in made.items() if value != _DEFAULTS[key]}


_DEFAULTS = {"delimiter": ",", "quote": '"', "escape": None, "header": True, "skip_rows": 0}


def _whole(written: object, otherwise: int) -> int:
    text = str(written)
    return int(text) if re.fullmatch(r"-?[0-9]{1,9}", text) else otherwise


def _letter(written: object) -> str:
    """A character, which may be written as ``u0009``."""
    text = str(written)
    code = re.fullmatch(r"\\?u([0-9A-Fa-f]{4})", text)
    letter = chr(int(code[1], 16)) if code else text
    return "tab" if letter == "\t" else letter
