"""What reading a planned file gave, and what that makes of the file's recorded progress."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from tidegate.errors import StateError
from tidegate.watermarks.path_state import Failed, FileProgress, Finished, RecordsRead, Unfinished

REASON_LIMIT = 500
"""Longest reason that is kept, so that a long message does not swell the state."""


@dataclass(frozen=True, slots=True)
class Covered:
    """Lines ``start <= n < end`` are in the commit; with ``eof`` nothing of the file is left to read.

    Lines in the dead-letter table count: a file that is given up for good is covered to its end. ``rows`` lines
    became rows of the table, ``bad`` ones are dead letters; a file that was given up has a letter and no lines.
    """

    path: str
    size: int
    etag: str | None
    start: int
    end: int
    eof: bool
    rows: int = 0
    bad: int = 0


@dataclass(frozen=True, slots=True)
class Refused:
    """The file, or the rest of it, could not be read; only an attempt that ``counts`` brings it nearer to being
    given up.
    """

    path: str
    size: int
    etag: str | None
    reason: str
    counts: bool = True


@dataclass(frozen=True, slots=True)
class Changed:
    """The file was not the one that was listed; nothing of it was read."""

    path: str


@dataclass(frozen=True, slots=True)
class NotReached:
    """The task stopped before this file."""

    path: str


FileOutcome = Covered | Refused | Changed | NotReached


def progress_after(before: Unfinished | None, outcome: FileOutcome) -> FileProgress | None:
    """The progress of an unfinished file after ``outcome``; ``None`` where there is nothing to remember."""
    match outcome:
        case Covered():
            return _covered(before, outcome)
        case Refused():
            return _refused(before, outcome)
        case Changed():
            return _changed(before)
        case NotReached():
            return before
        case _:
            assert_never(outcome)


def _covered(before: Unfinished | None, outcome: Covered) -> FileProgress:
    expected = before.records if before else 0
    if outcome.start != expected:
        raise StateError(
            f"{outcome.path}: lines {outcome.start} to {outcome.end} were read, but {expected} lines are committed",
            "nothing was written; plan again",
        )
    if outcome.eof:
        return Finished()
    rounds = before.rounds if isinstance(before, RecordsRead) else 0
    return RecordsRead(outcome.end, outcome.size, outcome.etag, rounds + 1)


def _refused(before: Unfinished | None, outcome: Refused) -> Failed:
    reason = outcome.reason[:REASON_LIMIT]
    records = before.records if before else 0
    again = isinstance(before, Failed) and (before.size, before.etag) == (outcome.size, outcome.etag)
    attempts = before.attempts + outcome.counts if again and isinstance(before, Failed) else int(outcome.counts)
    return Failed(attempts, reason, outcome.size, outcome.etag, records)


def _changed(before: Unfinished | None) -> Unfinished | None:
    """Without committed lines the new content is simply read; with them it does not fit what is committed."""
    if before is None or before.records == 0:
        return before
    attempts = before.attempts + 1 if isinstance(before, Failed) else 1
    reason = f"changed after {before.records} of its lines were committed"
    return Failed(attempts, reason, before.size, before.etag, before.records)
