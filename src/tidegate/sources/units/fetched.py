"""What was fetched for a work unit: files that its rows are made of. Picklable; no records are in here."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.locations import Location
from tidegate.planning.plan import FileSlice
from tidegate.sources.units.variables import Segment
from tidegate.sources.units.work import UnitFailure
from tidegate.specs import Compression
from tidegate.unit_specs import UnitSource

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class FetchTask:
    """Everything that fetching needs besides the work unit.

    ``slots`` tasks fetch beside each other and share the rate limit. ``infers``: what is fetched also tells the
    columns.
    """

    source: UnitSource
    scratch: Location
    slots: int = 1
    infers: bool = False


@dataclass(frozen=True, slots=True)
class FetchedFile:
    """A file of one segment, below ``location``; ``where`` is what messages call it.

    ``pages`` tells how many records came up to the end of each page, for a file that is pages of an API.
    ``is_scratch``: it was made for this read and goes with it.
    """

    segment: int
    where: str
    location: Location
    slice: FileSlice
    compression: Compression
    pages: tuple[int, ...] = ()
    is_scratch: bool = True

    def renamed(self, where: str) -> FetchedFile:
        """The same under another name for messages."""
        return replace(self, where=where)

    def place(self, record: int, noun: str) -> str:
        """The record with this number, from 1, for messages."""
        if not self.pages:
            return f"{self.where}, {noun} {record}"
        page = bisect_right(self.pages, record - 1)
        before = self.pages[page - 1] if page else 0
        return f"{self.where}, page {page + 1}, record {record - before}"


@dataclass(frozen=True, slots=True)
class Fetched:
    """All files of the work unit number ``index`` of a wave, in their order; there may be none.

    ``telling`` are records that tell what its columns are, where columns are inferred.
    """

    index: int
    unit: str
    segments: tuple[Segment, ...]
    files: tuple[FetchedFile, ...] = ()
    requests: int = 0
    telling: tuple[bytes, ...] = field(default=(), repr=False)


def failure_of(error: Exception, hidden: Callable[[str], str] = str, *, not_found: bool = False) -> UnitFailure:
    """An error as what became of the work unit, without secrets."""
    if isinstance(error, TidegateError):
        return UnitFailure(hidden(error.problem), hidden(error.remedy), not_found)
    return UnitFailure(hidden(f"{type(error).__name__}: {error}"), "nothing of this work unit is kept; it runs again")
