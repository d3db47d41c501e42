"""Fetches a work unit: every segment of it, or nothing.

What is asked is made up for all segments before anything is sent, so that a variable without a value costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from uuid import uuid4

from tidegate.column_specs import HttpRead
from tidegate.errors import SourceError, SourceMissing
from tidegate.locations import Location
from tidegate.sources.units.downloads import any_kind, downloaded
from tidegate.sources.units.fetched import Fetched, FetchedFile, FetchTask, failure_of
from tidegate.sources.units.listing import Address, address_of, listed
from tidegate.sources.units.paging import Pages
from tidegate.sources.units.requests import Ask, asked
from tidegate.sources.units.senders import Senders
from tidegate.sources.units.variables import Variables, variables_of
from tidegate.sources.units.work import UnitFailure, UnitWork
from tidegate.unit_specs import FileRead, PartitionKind, Replace, UnitSource

__all__ = ["Senders", "fetch_unit"]

_HOUR = 3_600_000
_LENGTHS = {
    PartitionKind.HOURLY: _HOUR,
    PartitionKind.DAILY: 25 * _HOUR,
    PartitionKind.WEEKLY: (7 * 24 + 1) * _HOUR,
    PartitionKind.MONTHLY: (31 * 24 + 1) * _HOUR,
    PartitionKind.YEARLY: (366 * 24 + 1) * _HOUR,
}
"""Milliseconds from the start of a partition to a moment that surely lies in the next one."""


def fetch_unit(task: FetchTask, work: UnitWork, index: int, senders: Senders | None = None) -> Fetched | UnitFailure:
    """Fetch every segment of a work unit; what fails tells why, and nothing of it counts."""
    if senders is None:
        with closing(Senders(task.slots)) as own:
            return fetch_unit(task, work, index, own)
    hidden = Variables(secrets=work.secrets).hidden
    walk = _Walk(task, index, senders)
    before = senders.requests
    try:
        for segment, ask in enumerate(_asks(task.source, work)):
            walk.take(ask, segment)
    except Exception as error:
        return failure_of(error, hidden, not_found=isinstance(error, SourceMissing) and walk.is_empty)
    files = tuple(file.renamed(hidden(file.where)) for file in walk.files)
    return Fetched(index, work.unit, work.segments, files, senders.requests - before, tuple(walk.pages.telling))


def _asks(source: UnitSource, work: UnitWork) -> Sequence[Ask | Address]:
    """What is asked for each segment; raises where two of them, or two partitions, would get the same rows."""
    asks = [_ask(source, variables_of(source, work, segment)) for segment in work.segments]
    if source.time_column is not None or source.replace is Replace.MERGE_KEYS:
        return asks
    if any(each in asks[:place] for place, each in enumerate(asks)):
        raise SourceError(
            f"source {source.name!r}: the {len(asks)} segments of a work unit would all get the same rows",
            "use the range in the request or the address (params), or set replace: unit, or time_column",
        )
    length = _LENGTHS.get(source.work.partition)
    if source.params and length is not None and not source.work.sub_ranges:
        first, second = work.start, work.start + length
        around = [(first, second), (second, second + length)]
        one, other = (_ask(source, variables_of(source, work, each)) for each in around)
        if one == other:
            raise SourceError(
                f"source {source.name!r}: two {source.work.partition} partitions that follow each other would get the"
                " same rows",
                "write the range in a finer format (params), or set larger partitions, or time_column",
            )
    return asks


def _ask(source: UnitSource, variables: Variables) -> Ask | Address:
    match source.read:
        case HttpRead() as read:
            return asked(source, read, variables)
        case FileRead(http=HttpRead() as read):
            return asked(source, any_kind(read), variables)
        case FileRead(location=Location() as template):
            return address_of(template, variables)
        case _:
            raise SourceError(f"source {source.name!r} is neither an HTTP API nor files", "correct its type")


class _Walk:
    """One work unit on its way into files."""

    def __init__(self, task: FetchTask, index: int, senders: Senders) -> None:
        self.files: list[FetchedFile] = []
        self.pages = Pages(task, senders)
        self._task = task
        self._index = index
        self._senders = senders

    @property
    def is_empty(self) -> bool:
        """Whether nothing was found of the work unit so far."""
        return not self.files and not self.pages.counts.pages

    def take(self, ask: Ask | Address, segment: int) -> None:
        """Fetch one segment."""
        read = self._task.source.read
        name = f"{self._index:06d}-{segment:03d}-{uuid4()}"
        if isinstance(read, FileRead) and isinstance(ask, Address):
            self.files += listed(ask, segment, read.compression, follow_links=read.follow_links)
            return
        assert isinstance(ask, Ask)
        if isinstance(read, FileRead):
            found = downloaded(self._task, read, self._senders, ask, segment, name)
        else:
            found = self.pages.taken(ask, segment, name)
        self.files += [] if found is None else [found]
