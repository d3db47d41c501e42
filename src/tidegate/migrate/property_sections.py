"""Converts properties of columns, CSV, watermarks, secondary inputs and work units into configuration sections."""

from __future__ import annotations

import re
from typing import Any

from tidegate.config.work_units import MS_KEYS
from tidegate.core.json_shape import load_json
from tidegate.core.units.time_range import parse_bound
from tidegate.errors import WatermarkError
from tidegate.migrate.properties import Given, as_list, as_mapping
from tidegate.specs.units import PartitionKind

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
    """``schema.fields``; empty if there are none, or one cannot be declared."""
    name = "ms.output.schema"
    try:
        return [_column(each) for each in given.data(name, list)]
    except _NoEqual as exc:
        given.leave(name, f"{exc}; columns are inferred from the first rows, or declare schema.fields")
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
    """A type, from its name or an object that describes it."""
    kind = given.get("type") if isinstance(given, dict) else given
    if isinstance(kind, dict | list):
        return _union(kind) if isinstance(kind, list) else _type(kind)
    inside = given if isinstance(given, dict) else {}
    match str(kind).lower():
        case "record" | "struct":
            below = as_list(inside.get("values")) or as_list(inside.get("fields"))
            return {"type": "struct", "fields": [_column(each) for each in below]}
        case "array" | "list":
            return {"type": "list", "items": _inner(inside.get("items"))}
        case "map":
            return {"type": "map", "keys": "string", "values": _inner(inside.get("values"))}
        case word if word in _TYPES:
            return {"type": _TYPES[word]}
        case word:
            raise _NoEqual(f"the type {word!r} has no equivalent")


def _inner(given: Any) -> Any:
    if given is None:
        raise _NoEqual("a list or map has no type for its items")
    found = _type(given["dataType"] if isinstance(given, dict) and "dataType" in given else given)
    return found["type"] if set(found) == {"type"} else found


def _union(kinds: list[Any]) -> dict[str, Any]:
    others = [each for each in kinds if each != "null"]
    if len(others) != 1:
        raise _NoEqual("a union of several types has no equivalent")
    return _type(others[0])


def csv(given: Given) -> dict[str, Any]:
    """``source.csv``. Jobs default to no header and a backslash before quotes."""
    found = given.data("ms.csv", dict)
    found |= {word: text for name, word in _CSV.items() if (text := given.text(name)) is not None}
    header = _whole(found.get("columnHeaderIndex"), -1)
    if (given.text("ms.csv.column.header") or "").lower() == "true":
        header = max(header, 0)
    skipped = _whole(found.get("linesToSkip"), header + 1)
    if header >= 0 and skipped != header + 1:
        given.leave("ms.csv", "lines between the header and the data cannot be skipped; remove them from the files")
    for word in _WITHOUT_EQUAL:
        if word in found:
            given.leave("ms.csv", f"{word} has no equivalent; schema.fields sets names, order and types of columns")
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
    """A character, plain or written as ``u0009``."""
    text = str(written)
    code = re.fullmatch(r"\\?u([0-9A-Fa-f]{4})", text)
    letter = chr(int(code[1], 16)) if code else text
    return "tab" if letter == "\t" else letter


_NUMBERS = (
    "ms.work.unit.min.units",
    "ms.work.unit.min.records",
    "ms.work.unit.parallelism.max",
    "ms.work.unit.pacing.seconds",
    "ms.grace.period.days",
    "ms.abstinent.period.days",
)
_CATEGORIES = {"activation": "units", "authentication": "authentication"}


def watermarks(given: Given) -> list[dict[str, Any]]:
    """``watermark``: the first time range and the first list of units."""
    made: dict[str, dict[str, Any]] = {}
    for each in given.data("ms.watermark", list):
        kind = each.get("type") if isinstance(each, dict) else None
        if kind not in ("datetime", "unit") or kind in made:
            text = "only one datetime and one unit watermark are converted"
            given.leave("ms.watermark", text, changes=True)
        elif kind == "datetime":
            made[kind] = {"name": str(each.get("name", "system")), "type": kind, "range": _range(given, each)}
        elif str(each.get("units") or "").strip():
            made[kind] = {"name": str(each.get("name", "unit")), "type": kind, "units": _units(given, each["units"])}
    return list(made.values())


def _range(given: Given, each: dict[str, Any]) -> dict[str, str]:
    bounds = as_mapping(each.get("range"))
    return {
        "from": _bound(given, "from", str(bounds.get("from", "")), "2000-01-01"),
        "to": _bound(given, "to", str(bounds.get("to", "-")), "-"),
    }


def _bound(given: Given, which: str, text: str, sample: str) -> str:
    """A bound as written; an environment variable if it cannot be parsed."""
    try:
        parse_bound(text, is_end=which == "to")
    except WatermarkError as exc:
        variable = given.secret(which, sample)
        given.leave("ms.watermark", f"{which}: {exc}; set {variable[2:-1]}", changes=True)
        return variable
    return text


def _units(given: Given, units: Any) -> list[str]:
    words = [str(each).strip() for each in (units if isinstance(units, list) else str(units).split(","))]
    found = list(dict.fromkeys(word for word in words if word))
    if len(found) < len(words):
        given.leave("ms.watermark", "empty and repeated units are left out")
    return found


def secondary_inputs(given: Given) -> list[dict[str, Any]]:
    """``secondary_input``: inputs with units, and inputs with credentials."""
    made = []
    for each in given.data("ms.secondary.input", list):
        category = str(each.get("category", "activation")).lower() if isinstance(each, dict) else ""
        if category not in _CATEGORIES:
            text = f"the category {category!r} has no equivalent; rows are read, not sent"
            given.leave("ms.secondary.input", text, changes=True)
            continue
        if not as_list(each.get("fields")):
            given.leave("ms.secondary.input", "an input without fields is not read")
            continue
        made.append(_input(given, each, _CATEGORIES[category]))
    return made


def _input(given: Given, each: dict[str, Any], category: str) -> dict[str, Any]:
    path = str(each.get("path", ""))
    made: dict[str, Any] = {"path": path or given.secret("input")}
    if "${" in path:
        text = "set the variables in its path, or write pipeline: NAME instead of path for a table of this file"
        given.leave("ms.secondary.input", text)
    else:
        made["format"] = "avro"
    made["fields"] = [str(field) for field in each["fields"]]
    if filters := as_mapping(each.get("filters")):
        made["filters"] = {name: str(pattern) for name, pattern in filters.items()}
    if category != "units":
        made["category"] = category
    for key in each:
        if key not in ("path", "fields", "filters", "category", "format"):
            given.leave("ms.secondary.input", f"{key} has no equivalent; a pipeline runs after those that it names")
    return made


def settings(given: Given) -> dict[str, Any]:
    """``work_unit``, the periods and the time zone."""
    made: dict[str, Any] = {}
    values: dict[str, Any] = {name: _number(given, name) for name in _NUMBERS}
    values["ms.work.unit.partition"] = _partition(given)
    values["ms.work.unit.partial.partition"] = {"false": False}.get(
        (given.text("ms.work.unit.partial.partition") or "").lower()
    )
    values["ms.timezone"] = given.text("ms.timezone")
    for name, value in values.items():
        if value is not None:
            *above, last = MS_KEYS[name]
            holder = made.setdefault(above[0], {}) if above else made
            holder[last] = value
    return made


def _number(given: Given, name: str) -> int | None:
    """A number above zero; None for zero, the default."""
    text = given.text(name)
    if text is not None and not text.isdecimal():
        given.leave(name, "is not a whole number", changes=True)
    return int(text) or None if text is not None and text.isdecimal() else None


def _partition(given: Given) -> str | dict[str, list[str]] | None:
    text = given.text("ms.work.unit.partition")
    if text is None:
        return None
    kinds = [each.value for each in PartitionKind]
    if text.lower() in kinds:
        return text.lower()
    try:
        found = load_json(text)
        parts = {kind: [str(bound) for bound in bounds] for kind, bounds in found.items()}
        for kind, (start, end) in parts.items():
            PartitionKind(kind)
            parse_bound(start, is_end=False)
            parse_bound(end, is_end=True)
    except (ValueError, AttributeError, TypeError, WatermarkError):
        text = f"is neither one of {', '.join(kinds)} nor parts of a range; set work_unit.partition"
        given.leave("ms.work.unit.partition", text, changes=True)
        return None
    return parts
