"""Prefix templates such as ``date=%Y-%m-%d/hour=%H``: written from a time, and read back from a path.

Only fields that divide time into hours, days, months or years can be used, and each needs the coarser ones
beside it: without them the prefixes would repeat, and older could not be told from newer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from tidegate.errors import ConfigError
from tidegate.watermarks.periods import EARLIEST, Period

Fields = dict[Period, int]

_DIRECTIVES: Mapping[str, tuple[Period, int]] = {
    "Y": (Period.YEAR, 4),
    "m": (Period.MONTH, 2),
    "d": (Period.DAY, 2),
    "H": (Period.HOUR, 2),
}
_ALLOWED = "%Y, %m, %d and %H (%F is short for %Y-%m-%d)"
_TOKEN = re.compile(r"%(.?)|[^%]+", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Level:
    """One directory level of a template: literal text and fields in turn."""

    parts: tuple[str | Period, ...]
    pattern: re.Pattern[str]

    @property
    def fields(self) -> tuple[Period, ...]:
        """The fields of this level, in order."""
        return tuple(part for part in self.parts if isinstance(part, Period))

    def render(self, moment: datetime) -> str:
        """The directory name of ``moment``."""
        return "".join(_digits(part, moment) if isinstance(part, Period) else part for part in self.parts)

    def read(self, name: str) -> Fields | None:
        """The fields in a directory's name, or ``None`` if it does not fit."""
        match = self.pattern.fullmatch(name)
        if match is None:
            return None
        return merged({}, zip(self.fields, map(int, match.groups()), strict=True))


@dataclass(frozen=True, slots=True)
class Template:
    """A checked template; ``finest`` is its period."""

    levels: tuple[Level, ...]
    finest: Period

    @property
    def prefix(self) -> str:
        """The levels before the first one that holds a field."""
        first = next(number for number, level in enumerate(self.levels) if level.fields)
        return "/".join(level.render(EARLIEST) for level in self.levels[:first])

    def render(self, moment: datetime) -> str:
        """The directory of ``moment``, in UTC."""
        return "/".join(level.render(moment.astimezone(UTC)) for level in self.levels)

    def read(self, directories: Sequence[str]) -> Fields | None:
        """The fields in a path, as far as it goes; ``None`` if a level does not fit."""
        fields: Fields | None = {}
        for level, name in zip(self.levels, directories, strict=False):
            found = level.read(name)
            fields = None if found is None or fields is None else merged(fields, found.items())
            if fields is None:
                return None
        return fields


def merged(fields: Fields, found: Iterable[tuple[Period, int]]) -> Fields | None:
    """Both sets of fields, or ``None`` where they contradict each other."""
    result = dict(fields)
    for period, value in found:
        if result.setdefault(period, value) != value:
            return None
    return result


@lru_cache(maxsize=256)
def parse_template(text: str) -> Template:
    """The template, checked; ``ConfigError`` names what cannot be used in it."""
    levels = tuple(_level(text, level) for level in text.strip("/").split("/"))
    used = {period for level in levels for period in level.fields}
    if not used:
        raise _refusal(text, "has no time in it", f"use {_ALLOWED}")
    finest = max(used, key=list(Period).index)
    missing = [period for period in list(Period)[: list(Period).index(finest)] if period not in used]
    if missing:
        names = ", ".join(_directive(period) for period in missing)
        raise _refusal(text, f"has {_directive(finest)} without {names}", "its prefixes would repeat; add them")
    return Template(levels, finest)


def _level(text: str, level: str) -> Level:
    if not level:
        raise _refusal(text, "has an empty level", "write one '/' between directories")
    parts = tuple(part for match in _TOKEN.finditer(level) for part in _parts(text, match))
    fits = (rf"(\d{{{_width(part)}}})" if isinstance(part, Period) else re.escape(part) for part in parts)
    return Level(parts, re.compile("".join(fits), re.ASCII))


def _parts(text: str, token: re.Match[str]) -> tuple[str | Period, ...]:
    match token.group(1):
        case None:
            return (token.group(),)
        case "%":
            return ("%",)
        case "F":
            return (Period.YEAR, "-", Period.MONTH, "-", Period.DAY)
        case directive if directive in _DIRECTIVES:
            return (_DIRECTIVES[directive][0],)
        case directive:
            raise _refusal(text, f"has %{directive}, which is not a field for directories", f"use {_ALLOWED}")


def _refusal(text: str, problem: str, remedy: str) -> ConfigError:
    return ConfigError((f"prefix_template {text!r} {problem}; {remedy}",))


def _directive(period: Period) -> str:
    return next(f"%{letter}" for letter, (known, _) in _DIRECTIVES.items() if known is period)


def _width(period: Period) -> int:
    return next(width for known, width in _DIRECTIVES.values() if known is period)


def _digits(period: Period, moment: datetime) -> str:
    return f"{getattr(moment, period.value):0{_width(period)}d}"
