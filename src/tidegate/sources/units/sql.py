"""Queries with ``{{variables}}``: each becomes a typed, escaped literal in the language of the database.

A literal brings its own quotes. A variable inside quotes or a comment would be something else than a value, so it is
refused, whatever the value is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date
from zoneinfo import ZoneInfo

from tidegate.column_specs import ParamFormat, Value
from tidegate.errors import SourceError
from tidegate.sources.units.variables import VARIABLE, Segment, moment_of, own_values, range_text
from tidegate.sources.units.work import UnitWork
from tidegate.unit_specs import Bounding, RangeParam, UnitSource
from tidegate.watermarks.dialects import Dialect, literal

_DOUBLED = "{0}(?:[^{0}]|{0}{0})*(?:{0}|\\Z)"
_WITH_BACKSLASH = "{0}(?:[^{0}\\\\]|\\\\.|{0}{0})*(?:{0}|\\Z)"
_BRACKETS = r"\[(?:[^\]]|\]\])*(?:\]|\Z)"
_DOLLARS = r"\$(?P<tag>\w*)\$.*?(?:\$(?P=tag)\$|\Z)"
_LINE = r"--[^\n]*"
_BLOCK = r"/\*(?:(?!/\*|\*/).)*(?:\*/|/\*.*|\Z)"
_ORACLE = r"\b[nN]?[qQ]'.*"
"""A comment inside a comment, and Oracle's own quotes, are taken to reach to the end: no variable may follow them."""


def filled(query: str, values: Mapping[str, Value], dialect: Dialect) -> str:
    """``query`` with a literal for each of its variables; ``SourceError`` for one that has no value or no place."""
    parts = []
    for text, is_variable in _pieces(query, dialect):
        inside = VARIABLE.search(text)
        if is_variable and inside is not None:
            parts.append(_literal(inside.group(1), values, dialect))
        elif inside is not None:
            raise SourceError(
                f"the query has {inside.group()} inside {text.strip()[:60]!r}, where it would be no value",
                "leave out the quotes: a variable becomes a literal with quotes of its own; build texts in SQL ('…' || "
                f"{inside.group()})",
            )
        else:
            parts.append(text)
    return "".join(parts)


def values_of(source: UnitSource, work: UnitWork, segment: Segment) -> dict[str, Value]:
    """What the variables of one read stand for: texts of the unit, and the bounds as their formats say."""
    return {**own_values(source, work), **{each.name: bound(source, each, segment) for each in source.params}}


def bound(source: UnitSource, param: RangeParam, segment: Segment) -> Value:
    """One end of a range as a value for SQL: a moment, a day, a local time, a number, or the text of a pattern."""
    moment = moment_of(segment[param.bound is Bounding.HIGH])
    match param.format:
        case ParamFormat.ISO:
            return moment
        case ParamFormat.DATETIME | ParamFormat.DATETIME_MS:
            return moment.astimezone(ZoneInfo(param.timezone or source.timezone)).replace(tzinfo=None)
        case ParamFormat.DATE:
            return date.fromisoformat(str(range_text(source, param, segment)))
        case _:
            return range_text(source, param, segment)


def _literal(name: str, values: Mapping[str, Value], dialect: Dialect) -> str:
    if name not in values:
        known = ", ".join(sorted(values)) or "none"
        raise SourceError(f"the query uses {{{{{name}}}}}, which has no value", f"its variables are: {known}")
    return literal(values[name], dialect)


def _pieces(query: str, dialect: Dialect) -> Iterator[tuple[str, bool]]:
    """The query as variables, things in quotes, comments, and what lies between them."""
    end = 0
    for found in re.finditer(_tokens(dialect), query, re.DOTALL):
        yield query[end : found.start()], False
        yield found.group(), found.lastgroup == "variable"
        end = found.end()
    yield query[end:], False


def _tokens(dialect: Dialect) -> str:
    escapes = _WITH_BACKSLASH if dialect is Dialect.MYSQL else _DOUBLED
    found = [r"(?P<variable>\{\{[^{}]*\}\})", _LINE, _BLOCK]
    if dialect is Dialect.POSTGRESQL:
        found += [r"\b[eE]" + _WITH_BACKSLASH.format("'"), _DOLLARS]
    if dialect is Dialect.MYSQL:
        found += ["#[^\n]*"]
    if dialect is Dialect.ORACLE:
        found += [_ORACLE]
    if dialect in (Dialect.SQLSERVER, Dialect.SQLITE):
        found += [_BRACKETS]
    return "|".join([*found, escapes.format("'"), escapes.format('"'), _DOUBLED.format("`")])
