"""RESOLVE: whether our commit is in the log. Errors are not asked; the log is.

Entries from the first base of the commit on are read up to the end. Our attempt is there: done. It is not
there and the source is still where it was: the same attempt may be sent again. It is not there and the source
moved: lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from tidegate.errors import CommitLost, StorageUnavailable
from tidegate.failpoints import failpoint
from tidegate.protocol.log import LogEntry
from tidegate.protocol.open import position
from tidegate.protocol.position import TableContext


@dataclass(frozen=True, slots=True)
class Done:
    """Our attempt is in this log entry."""

    entry: LogEntry


@dataclass(frozen=True, slots=True)
class NotThere:
    """Our attempt is not in the log and the source has not moved: it may be sent again."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A source moved on from ``version`` and it was not us; ``by`` names the attempt that did it."""

    site: TableContext
    version: int
    by: str


Outcome = Done | NotThere | Lost


def resolve(expected: Sequence[tuple[TableContext, int]], attempt: str, first_base: int) -> Outcome:
    """What became of ``attempt``, which wanted to move sources of one table on from these positions.

    ``first_base`` is the table version that the commit first built on, -1 without a table. Raises a
    ``StorageError`` while the log cannot be read; then nothing is known.
    """
    failpoint("state.resolve.before")
    site = expected[0][0]
    found = _tail(site, attempt, first_base)
    if isinstance(found, Done):
        return found
    snapshot = site.delta.snapshot()
    moved = [(each, version) for each, version in expected if position(each, snapshot) != version]
    if not moved:
        return NotThere()
    last = -1 if snapshot is None else snapshot.facts.version
    seen = _tail(site, attempt, first_base)
    match seen:
        case Done():
            return seen
        case _Unseen(end=end) if end <= last:
            raise StorageUnavailable(
                f"{site.key}: log entry {end} of {site.uri} is gone (the table is at version {last}), so "
                f"whether attempt {attempt} was committed cannot be read",
                "run again: the next OPEN decides",
            )
        case _Unseen():
            return Lost(*moved[0], _rival(moved[0][0], moved[0][1], last))
        case _:
            assert_never(seen)


@dataclass(frozen=True, slots=True)
class _Unseen:
    """No entry before ``end``, the first missing one, is ours."""

    end: int


def _tail(site: TableContext, attempt: str, first_base: int) -> Done | _Unseen:
    end = first_base + 1
    for entry in site.log.tail(first_base + 1):
        mark = entry.mark_of(site.key)
        if mark is not None and mark.attempt == attempt:
            return Done(entry)
        end = entry.version + 1
    return _Unseen(end)


def _rival(site: TableContext, version: int, table_version: int) -> str:
    """Who moved the source on from ``version``, for the message."""
    for entry in site.log.backwards(table_version, site.search_commits):
        mark = entry.mark_of(site.key)
        if mark is not None and mark.version > version:
            return f"attempt {mark.attempt} at table version {entry.version}"
    return "another run"


def lost(site: TableContext, version: int, by: str) -> CommitLost:
    """The error of a run whose source was moved by another."""
    return CommitLost(
        f"{site.key}: position {version + 1} was taken by {by}; what this run wrote is forgotten",
        "plan again from the new position; one run per source is enough",
    )
