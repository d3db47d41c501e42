"""Watermarks, units and partitions, in the words of the configuration."""

from __future__ import annotations

import json
from typing import Any

from tidegate.config.importing.given import Given, listed, mapped
from tidegate.config.ms_keys import MS_KEYS
from tidegate.core.units.time_bounds import check_bound
from tidegate.errors import WatermarkError
from tidegate.specs.units import PartitionKind

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
    """``watermark``: each time range and list of units, the first of each type."""
    made: dict[str, dict[str, Any]] = {}
    for each in given.data("ms.watermark", list):
        kind = each.get("type") if isinstance(each, dict) else None
        if kind not in ("datetime", "unit") or kind in made:
            given.leave("ms.watermark", "a second watermark of one type, or one of another type, has no equal")
        elif kind == "datetime":
            made[kind] = {"name": str(each.get("name", "system")), "type": kind, "range": _range(given, each)}
        elif str(each.get("units") or "").strip():
            made[kind] = {"name": str(each.get("name", "unit")), "type": kind, "units": _units(given, each["units"])}
    return list(made.values())


def _range(given: Given, each: dict[str, Any]) -> dict[str, str]:
    bounds = mapped(each.get("range"))
    return {
        "from": _bound(given, "from", str(bounds.get("from", "")), "2000-01-01"),
        "to": _bound(given, "to", str(bounds.get("to", "-")), "-"),
    }


def _bound(given: Given, which: str, text: str, sample: str) -> str:
    """A bound as it was; a variable of the environment where it cannot be understood."""
    try:
        check_bound(text, is_end=which == "to")
    except WatermarkError as exc:
        variable = given.secret(which, sample)
        given.leave("ms.watermark", f"{which}: {exc}; set {variable[2:-1]}")
        return variable
    return text


def _units(given: Given, units: Any) -> list[str]:
    words = [str(each).strip() for each in (units if isinstance(units, list) else str(units).split(","))]
    found = list(dict.fromkeys(word for word in words if word))
    if len(found) < len(words):
        given.leave("ms.watermark", "units that are empty or given twice are left out")
    return found


def secondary_inputs(given: Given) -> list[dict[str, Any]]:
    """``secondary_input``: rows that make units, and rows with credentials."""
    made = []
    for each in given.data("ms.secondary.input", list):
        category = str(each.get("category", "activation")).lower() if isinstance(each, dict) else ""
        if category not in _CATEGORIES:
            given.leave("ms.secondary.input", f"the category {category!r} has no equal; rows are read, not sent")
            continue
        if not listed(each.get("fields")):
            given.leave("ms.secondary.input", "an input names no fields, so that nothing is read of it")
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
    if filters := mapped(each.get("filters")):
        made["filters"] = {name: str(pattern) for name, pattern in filters.items()}
    if category != "units":
        made["category"] = category
    for key in each:
        if key not in ("path", "fields", "filters", "category", "format"):
            given.leave("ms.secondary.input", f"{key} has no equal; pipelines run after those whose tables they read")
    return made


def settings(given: Given) -> dict[str, Any]:
    """``work_unit`` and the periods beside it."""
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
    """A number above zero; zero is the default here as it was there."""
    text = given.text(name)
    if text is not None and not text.isdecimal():
        given.leave(name, "is not a whole number")
    return int(text) or None if text is not None and text.isdecimal() else None


def _partition(given: Given) -> str | dict[str, list[str]] | None:
    text = given.text("ms.work.unit.partition")
    if text is None:
        return None
    kinds = [each.value for each in PartitionKind]
    if text.lower() in kinds:
        return text.lower()
    try:
        found = json.loads(text)
        parts = {kind: [str(bound) for bound in bounds] for kind, bounds in found.items()}
        for kind, (start, end) in parts.items():
            PartitionKind(kind)
            check_bound(start, is_end=False)
            check_bound(end, is_end=True)
    except (ValueError, AttributeError, TypeError, WatermarkError):
        given.leave(
            "ms.work.unit.partition", f"is none of {', '.join(kinds)}, and no parts of a range; set work_unit.partition"
        )
        return None
    return parts
