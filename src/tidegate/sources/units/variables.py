"""Variables of a work unit: ``{{name}}`` in paths, parameters, headers, bodies and addresses of files.

A variable is one of the unit, a secret of it, or a parameter made of the range that is read. One without a value is
told before anything is sent. Secrets are put in where they are needed and taken out of every message.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from tidegate.errors import SourceError
from tidegate.locations import Secret
from tidegate.masking import Mask
from tidegate.sources.http.formats import rounded_up, written
from tidegate.sources.units.work import UnitWork
from tidegate.unit_specs import Bounding, RangeParam, UnitSource

Segment = tuple[int, int]
"""``[low, high)`` in milliseconds."""

VARIABLE = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Variables:
    """What ``{{name}}`` stands for in one read; a secret never shows."""

    values: Mapping[str, str | int] = field(default_factory=dict)
    secrets: Mapping[str, Secret] = field(default_factory=dict, repr=False)

    def value(self, name: str) -> str | int:
        """The value of one variable; raises :class:`SourceError` with the names that are known."""
        if name in self.values:
            return self.values[name]
        if name in self.secrets:
            return self.secrets[name].value
        known = ", ".join(sorted({*self.values, *self.secrets})) or "none"
        raise SourceError(
            f"the variable {{{{{name}}}}} has no value; known are: {known}",
            "correct its name, name the unit watermark or a field of the secondary input like it, or add it to params",
        )

    def filled(self, text: str, written: Callable[[str], str] = str) -> str:
        """``text`` with every variable replaced; ``written`` makes what stands there of a value."""
        return VARIABLE.sub(lambda found: written(str(self.value(found[1]))), text)

    def filled_deep(self, value: object) -> object:
        """A JSON value with every variable in its texts replaced; one that is the whole text may become a number."""
        match value:
            case str():
                alone = VARIABLE.fullmatch(value)
                return self.filled(value) if alone is None else self.value(alone[1])
            case Mapping():
                return {name: self.filled_deep(each) for name, each in value.items()}
            case list() | tuple():
                return [self.filled_deep(each) for each in value]
            case _:
                return value

    def hidden(self, text: str) -> str:
        """A message without secrets, in whichever way they are written."""
        return Mask.of(*(each.value for each in self.secrets.values()))(text)


def variables_of(source: UnitSource, work: UnitWork, segment: Segment) -> Variables:
    """The variables of one read: of the unit, and of the range."""
    ranges = {each.name: range_text(source, each, segment) for each in source.params}
    return Variables({**own_values(source, work), **ranges}, work.secrets)


def own_values(source: UnitSource, work: UnitWork) -> dict[str, str]:
    """The variables of the unit alone; its value is one of them."""
    named = {} if source.unit is None else {source.unit.name: work.unit}
    return {**named, **work.variables}


def range_text(source: UnitSource, param: RangeParam, segment: Segment) -> str | int:
    """A bound of the range as a parameter has it.

    A format may be coarser than the bound. Both bounds are then rounded down, so that ranges follow each other as they
    did, without gap and overlap; where a time column leaves out what is too much, the upper one is rounded up.
    """
    zone = param.timezone or source.timezone
    moment = moment_of(segment[param.bound is Bounding.HIGH]).astimezone(ZoneInfo(zone))
    if param.bound is Bounding.HIGH and source.time_column is not None:
        return rounded_up(moment, param.format, zone)
    return written(moment, param.format, zone)


def moment_of(milliseconds: int) -> datetime:
    """A moment that is told in milliseconds since 1970."""
    return _EPOCH + timedelta(milliseconds=milliseconds)


def names_in(value: object) -> Iterator[str]:
    """The variables that a text, or a JSON value of any depth, uses."""
    match value:
        case str():
            yield from VARIABLE.findall(value)
        case Mapping():
            yield from (name for each in value.values() for name in names_in(each))
        case list() | tuple():
            yield from (name for each in value for name in names_in(each))


def sent(source: UnitSource, variables: Variables, used: Iterable[str]) -> tuple[tuple[str, str | int], ...]:
    """The parameters of the range that are sent as such: those that are not used as variables."""
    elsewhere = set(used)
    return tuple((each.name, variables.value(each.name)) for each in source.params if each.name not in elsewhere)
