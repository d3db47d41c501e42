"""Paths of source files: partition and name, their order, globs, and the time in a partition's path.

A path is relative to the source's location. Comparing whole paths would be wrong: ``d=1-x/a`` sorts before
``d=1/a`` because ``-`` sorts before ``/``. The order is that of the UTF-8 bytes, which is also the order of
Python's own strings (code points), so names may be compared as they are.

A template uses only fields that divide time into hours, days, months or years, and each needs the coarser ones beside
it. Without them prefixes would repeat, and nothing would tell older from newer.

``region=asia/date=2024-01-28/hour=14`` begins at 14:00 and lasts an hour; ``region=asia``, the levels before
the time, is its prefix. A path without a recognised time has none, and is never sealed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache

from tidegate.core.calendar import EARLIEST, Period
from tidegate.errors import ConfigError
from tidegate.specs.files import PartitionFilter, PathSource

ROOT = ""
"""The partition of files directly at the location."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A listed file; ``etag`` if the store has one."""

    path: str
    size: int
    etag: str | None = None


def split(path: str) -> tuple[str, str]:
    """Split a path at its last ``/`` into partition and file name.

    >>> split("date=2024-01-28/hour=14/a.json"), split("a.json")
    (('date=2024-01-28/hour=14', 'a.json'), ('', 'a.json'))
    """
    partition, _, name = path.rpartition("/")
    return partition, name


def join(partition: str, name: str) -> str:
    """Return the path of ``name`` in ``partition``."""
    return f"{partition}/{name}" if partition else name


def sort_key(path: str) -> tuple[bytes, bytes]:
    """The order of paths: by partition, then by name, in UTF-8 byte order."""
    partition, name = split(path)
    # UTF-8 byte order is what object stores list in; Java and SQL collations differ from it.
    return partition.encode(), name.encode()


def just_below(name: str) -> str | None:
    """Return a string that sorts just below ``name``, to list from there; ``None`` if there is none.

    >>> just_below("1706450400-a.json")
    '1706450400-a.jso'
    """
    # Dropping a character is enough: between the two no other listed name would be missed, only a few listed again.
    return name[:-1] or None


def same_content(size: int | None, etag: str | None, file: SourceFile) -> bool:
    """Compare the recorded size and etag with those of ``file``; missing ones are not compared."""
    if size is not None and size != file.size:
        return False
    return etag is None or file.etag is None or etag == file.etag


Fields = dict[Period, int]

_DIGITS = {Period.YEAR: 4, Period.MONTH: 2, Period.DAY: 2, Period.HOUR: 2}
_LETTERS = {Period.YEAR: "Y", Period.MONTH: "m", Period.DAY: "d", Period.HOUR: "H"}
_DIRECTIVES = {letter: period for period, letter in _LETTERS.items()}
_ALLOWED = "%Y, %m, %d and %H (%F is short for %Y-%m-%d)"
_TOKEN = re.compile(r"%(.?)|[^%]+", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TemplateLevel:
    """One directory level of a template: literal text and fields in turn."""

    parts: tuple[str | Period, ...]
    pattern: re.Pattern[str]

    @property
    def fields(self) -> tuple[Period, ...]:
        return tuple(part for part in self.parts if isinstance(part, Period))

    def render(self, moment: datetime) -> str:
        texts = (
            f"{getattr(moment, part):0{_DIGITS[part]}d}" if isinstance(part, Period) else part for part in self.parts
        )
        return "".join(texts)

    def read(self, name: str) -> Fields | None:
        """Return the fields in a directory name; ``None`` if it does not fit."""
        match = self.pattern.fullmatch(name)
        if match is None:
            return None
        return merge_fields({}, zip(self.fields, map(int, match.groups()), strict=True))


@dataclass(frozen=True, slots=True)
class Template:
    """A checked template; ``finest`` is its period."""

    levels: tuple[TemplateLevel, ...]
    finest: Period

    @property
    def prefix(self) -> str:
        """The levels before the first one with a field."""
        first = next(number for number, level in enumerate(self.levels) if level.fields)
        return "/".join(level.render(EARLIEST) for level in self.levels[:first])

    def render(self, moment: datetime) -> str:
        """The directory for ``moment``, in UTC."""
        return "/".join(level.render(moment.astimezone(UTC)) for level in self.levels)

    def read(self, directories: Sequence[str]) -> Fields | None:
        """Return the fields in a path, as far as it goes; ``None`` if a level does not fit."""
        fields: Fields | None = {}
        for level, name in zip(self.levels, directories, strict=False):
            level_fields = level.read(name)
            fields = None if level_fields is None or fields is None else merge_fields(fields, level_fields.items())
            if fields is None:
                return None
        return fields


def merge_fields(fields: Fields, more: Iterable[tuple[Period, int]]) -> Fields | None:
    """Merge both sets of fields; ``None`` if they contradict each other."""
    result = dict(fields)
    for period, value in more:
        if result.setdefault(period, value) != value:
            return None
    return result


@lru_cache(maxsize=256)
def parse_template(text: str) -> Template:
    """Parse and check a template; ``ConfigError`` names what it cannot use."""
    levels = tuple(_parse_level(text, level) for level in text.strip("/").split("/"))
    used = {period for level in levels for period in level.fields}
    if not used:
        raise _refusal(text, "has no time in it", f"use {_ALLOWED}")
    finest = max(used, key=list(Period).index)
    missing = [period for period in list(Period)[: list(Period).index(finest)] if period not in used]
    if missing:
        names = ", ".join(f"%{_LETTERS[period]}" for period in missing)
        raise _refusal(text, f"has %{_LETTERS[finest]} without {names}", "its prefixes would repeat; add them")
    return Template(levels, finest)


def _parse_level(text: str, level: str) -> TemplateLevel:
    if not level:
        raise _refusal(text, "has an empty level", "write one '/' between directories")
    parts = tuple(part for match in _TOKEN.finditer(level) for part in _parse_token(text, match))
    fits = (rf"(\d{{{_DIGITS[part]}}})" if isinstance(part, Period) else re.escape(part) for part in parts)
    return TemplateLevel(parts, re.compile("".join(fits), re.ASCII))


def _parse_token(text: str, token: re.Match[str]) -> tuple[str | Period, ...]:
    match token.group(1):
        case None:
            return (token.group(),)
        case "%":
            return ("%",)
        case "F":
            return (Period.YEAR, "-", Period.MONTH, "-", Period.DAY)
        case directive if directive in _DIRECTIVES:
            return (_DIRECTIVES[directive],)
        case directive:
            raise _refusal(text, f"has %{directive}, which is not a field for directories", f"use {_ALLOWED}")


def _refusal(text: str, problem: str, remedy: str) -> ConfigError:
    return ConfigError((f"prefix_template {text!r} {problem}; {remedy}",))


_DATE = re.compile(r"(\d{4})-(\d{2})(?:-(\d{2}))?|(\d{4})(\d{2})(\d{2})", re.ASCII)
_NUMBERS: Mapping[str, tuple[Period, re.Pattern[str]]] = {
    "year": (Period.YEAR, re.compile(r"\d{4}", re.ASCII)),
    "month": (Period.MONTH, re.compile(r"\d{1,2}", re.ASCII)),
    "day": (Period.DAY, re.compile(r"\d{1,2}", re.ASCII)),
    "hour": (Period.HOUR, re.compile(r"\d{1,2}", re.ASCII)),
}
_DATES = frozenset({"date", "dt", "day", "month"})
_FIRST = (1, 1, 1, 0)


@dataclass(frozen=True, slots=True)
class PartitionTime:
    """The span of time that a directory names, and the levels before the time."""

    prefix: str
    start: datetime
    period: Period

    @property
    def end(self) -> datetime:
        """Where the next directory of its kind begins."""
        return self.period.shift(self.start, 1)


@dataclass(frozen=True, slots=True)
class Layout:
    """How the directories of a source name time; results are cached, since a poll asks once per file."""

    template: Template | None = None
    _times: dict[str, PartitionTime | None] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, source: PathSource) -> Layout:
        given = source.partition_filter
        return cls(parse_template(given.prefix_template) if given else None)

    def time_of(self, directory: str) -> PartitionTime | None:
        """Return the time in ``directory``; ``None`` if there is none."""
        if directory not in self._times:
            levels = directory.split("/")
            self._times[directory] = self._time_in_template(levels) or _time_in_names(levels, {}, None)
        return self._times[directory]

    def _time_in_template(self, levels: Sequence[str]) -> PartitionTime | None:
        if self.template is None:
            return None
        fields = self.template.read(levels)
        if not fields:
            return None
        deeper = levels[len(self.template.levels) :]
        return _time_in_names(deeper, fields, self.template.prefix)


def _time_in_names(levels: Sequence[str], known: Fields, prefix: str | None) -> PartitionTime | None:
    """Read the time in ``key=value`` levels, combined with the known fields."""
    fields = known
    for number, level in enumerate(levels):
        level_fields = _recognise_level(level)
        if not level_fields:
            continue
        both = merge_fields(fields, level_fields.items())
        if both is None:
            return None
        fields = both
        if prefix is None:
            prefix = "/".join(levels[:number])
    return _span(prefix, fields) if prefix is not None else None


def _recognise_level(level: str) -> Fields:
    key, _, value = level.partition("=")
    if key in _NUMBERS and _NUMBERS[key][1].fullmatch(value):
        return {_NUMBERS[key][0]: int(value)}
    match = _DATE.fullmatch(value) if key in _DATES else None
    if match is None:
        return {}
    numbers = (int(group) for group in match.groups() if group is not None)
    return dict(zip(Period, numbers, strict=False))


def _span(prefix: str, fields: Fields) -> PartitionTime | None:
    """Return the span of the coarsest fields up to the first gap."""
    values: list[int] = []
    for period in Period:
        if period not in fields:
            break
        values.append(fields[period])
    if not values:
        return None
    year, month, day, hour = [*values, *_FIRST[len(values) :]]
    try:
        start = datetime(year, month, day, hour, tzinfo=UTC)
    except ValueError:
        return None
    return PartitionTime(prefix, start, list(Period)[len(values) - 1])


def cold_start_prefixes(given: PartitionFilter, now: datetime) -> tuple[str, ...]:
    """Return the directories of the current period and of ``lookback`` earlier ones, in UTC, oldest first.

    >>> from datetime import UTC, datetime
    >>> cold_start_prefixes(PartitionFilter("d=%Y-%m-%d", 1), datetime(2026, 1, 1, tzinfo=UTC))
    ('d=2025-12-31', 'd=2026-01-01')
    """
    template = parse_template(given.prefix_template)
    current = template.finest.floor(now)
    starts = (template.finest.shift(current, -back) for back in range(_check_lookback(given.lookback), -1, -1))
    return tuple(template.render(start) for start in starts if start > EARLIEST)


def cold_start_bound(given: PartitionFilter, now: datetime) -> datetime:
    """Return the start of the oldest prefix: what ends before it is ignored."""
    finest = parse_template(given.prefix_template).finest
    return finest.shift(finest.floor(now), -_check_lookback(given.lookback))


def _check_lookback(lookback: int) -> int:
    if lookback < 0:
        raise ConfigError((f"partition_filter.lookback is {lookback}; give 0 or more periods",))
    return lookback


_GLOB_TOKEN = re.compile(r"\*\*/|\*\*|\*|\?|\[!?\]?[^\]]*\]|.", re.DOTALL)


_WILD = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


@lru_cache(maxsize=1024)
def compile_glob(pattern: str) -> re.Pattern[str]:
    """Compile a glob to a regular expression for whole paths.

    >>> bool(compile_glob("**/*.json").fullmatch("a/b/c.json")), bool(compile_glob("*.json").fullmatch("a/b.json"))
    (True, False)
    """
    return re.compile("".join(_translate_token(token) for token in _GLOB_TOKEN.findall(pattern)), re.DOTALL)


def _translate_token(token: str) -> str:
    if token in _WILD:
        return _WILD[token]
    if token.startswith("[") and len(token) > 1:
        # A regular expression gives both a meaning inside brackets that a glob does not.
        inside = token[1:-1].replace("\\", "\\\\").replace("[", "\\[")
        return f"(?!/)[^{inside[1:]}]" if inside.startswith("!") else f"(?!/)[{inside}]"
    return re.escape(token)


def matches_path(pattern: str, path: str) -> bool:
    """Match the file name, or the whole path if the pattern has a ``/``, which may also be its first character.

    >>> matches_path("*.csv", "old/a.csv"), matches_path("/*.csv", "old/a.csv"), matches_path("/*.csv", "a.csv")
    (True, False, True)
    """
    whole = "/" in pattern
    return compile_glob(pattern.removeprefix("/")).fullmatch(path if whole else path.rpartition("/")[2]) is not None


def matches_any_level(pattern: str, path: str) -> bool:
    """Match the path as a whole or, for a pattern without ``/``, any of its levels."""
    if "/" in pattern:
        return compile_glob(pattern.removeprefix("/")).fullmatch(path) is not None
    return any(compile_glob(pattern).fullmatch(level) for level in path.split("/"))
