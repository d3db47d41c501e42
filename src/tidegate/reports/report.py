"""The base of all reports: a report is a value that knows its JSON form, its page and its exit code.

``--json`` prints ``to_json()``, which the command line reference documents; people see ``page()``, on a terminal, as
plain lines or, in a notebook, as HTML.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from itertools import chain
from typing import Any

from tidegate.reports.page import Block, Gap, Page, Style, facts, line, sections
from tidegate.reports.render import STYLESHEET, to_html
from tidegate.specs.masking import recall_mask

# What shells report for a program that SIGINT ended.
INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class View:
    """How a report is shown: with more details if ``verbose``, wide grids only if they fit ``width`` characters.

    Hints name commands for the file ``config``, quoted for a shell.
    """

    verbose: bool = False
    width: int = 100
    config: str = "CONFIG"


def to_json(value: object) -> Any:
    """Turn a value into JSON types: dataclasses by field name, times as ISO 8601 in UTC, enums by value."""
    # First: what has a documented form of its own may be a dataclass too.
    own = getattr(value, "to_json", None)
    if callable(own):
        return own()
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        case Enum():
            return value.value
        case Mapping():
            return {str(key): to_json(entry) for key, entry in value.items()}
        case tuple() | list():
            return [to_json(entry) for entry in value]
        case _ if is_dataclass(value) and not isinstance(value, type):
            return _fields_to_json(value)
        case _:
            return value


def _fields_to_json(value: Any) -> dict[str, Any]:
    return {each.name: to_json(getattr(value, each.name)) for each in fields(value) if each.metadata.get("json", True)}


def hide_from_json(default: Any) -> Any:
    """Declare a field that only people see: words of a tracker that the JSON form says by other fields."""
    return field(default=default, metadata={"json": False})


class Report:
    """Base of the reports and of their parts."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        """Return the fields by name, as JSON types."""
        return _fields_to_json(self)

    def describe(self, view: View) -> Iterator[Block]:
        """Yield what people see; a part of a report that has no view of its own shows its fields."""
        assert is_dataclass(self)
        yield facts(*((each.name.replace("_", " "), getattr(self, each.name)) for each in fields(self)))

    def consequences(self, view: View) -> Iterator[Block]:
        """Yield what people see before they confirm a change: all, unless a report divides it."""
        return self.describe(view)

    def outcome(self, view: View) -> Iterator[Block]:
        """Yield what people see after a change that they confirmed."""
        return self.describe(view)

    def page(self, view: View | None = None) -> Page:
        """Return what people see, as a page."""
        return tuple(self.describe(view or View()))

    def code(self, *, stopped: bool = False) -> int:
        """Return the exit code of a command with this result; ``stopped`` if a signal cut it short."""
        return 0

    def _repr_html_(self) -> str:
        """Notebooks show this; like everything else that is shown, without known secrets."""
        return f"<style>{STYLESHEET}</style>\n{to_html(recall_mask().deep(self.page()))}"


class ChangeReport(Report):
    """Base of the reports whose consequences are shown first, and whose outcome is only what was done then."""

    __slots__ = ()
    applied: bool

    def describe(self, view: View) -> Iterator[Block]:
        """Yield the consequences, then the outcome."""
        yield from self.consequences(view)
        yield from self.outcome(view)

    def outcome(self, view: View) -> Iterator[Block]:
        """Yield what was done, or that nothing was."""
        yield Gap()
        if self.applied:
            yield from self.describe_change()
        else:
            yield line(self.explain_unchanged(), Style.DIM)

    def explain_unchanged(self) -> str:
        """Return what to say if nothing was done."""
        return "nothing was changed"

    def describe_change(self) -> Iterator[Block]:
        """Yield what was done."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Sections(Report):
    """Reports of the same kind, one below the other, ``apart`` or not; ``key`` is what JSON calls them."""

    key: str
    reports: Sequence[Report]
    nothing: str = "nothing to show: no source was selected"
    apart: bool = True

    def to_json(self) -> dict[str, Any]:
        """Return the reports under their key."""
        return {self.key: to_json(list(self.reports))}

    def describe(self, view: View) -> Iterator[Block]:
        """Yield one section per report."""
        parts = (report.describe(view) for report in self.reports)
        yield from sections(parts, self.nothing) if self.apart else chain.from_iterable(parts)


def combine_codes(codes: Iterable[int], *, ok: bool, stopped: bool) -> int:
    """Return 0 on success, the code that all errors share, else 1; 130 if stopped without an error."""
    distinct = set(codes)
    if ok:
        return 0
    # An error says more than the signal that came after it.
    if stopped and not distinct:
        return INTERRUPTED
    # Several kinds of failure have no code in common that a script could act on.
    return distinct.pop() if len(distinct) == 1 else 1
