"""Why something is not read: every skipped file is counted under one of these reasons."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

EXAMPLES = 3


class Reason(StrEnum):
    """Why a file is not read, in words for people; the texts are stable."""

    INTERNAL = "internal name (begins with _ or .)"
    TABLE = "belongs to a table of this configuration"
    LINK = "symbolic link, not followed (follow_links)"
    LINK_AGAIN = "leads to files that are listed under another name"
    LINK_BROKEN = "symbolic link that leads nowhere"
    NAME = "name that cannot be used"
    SPECIAL = "neither a file nor a directory"
    MARKER = "directory marker"
    SUFFIX = "not an ending of the source's format"
    PATTERN = "does not match the pattern"
    EXCLUDED = "excluded"
    SEALED = "partition is sealed"
    READ = "already read"
    REWRITTEN = "changed after it was read"
    PENDING = "pending in staging"
    BELOW = "at or below the watermark"
    GIVEN_UP = "failed too often, goes to the dead letters"
    CHANGED = "changed after a part of it was read"
    GONE = "removed before it was finished"
    UNSEEN = "begun, and behind a link or a name that is left out now"
    ISLANDS_FULL = "too many files wait for an unfinished one below"
    TOO_MANY_FAILED = "too many files failed, new ones wait"


@dataclass(frozen=True, slots=True)
class Skipped:
    """How many things were skipped for one reason, with up to three of them."""

    reason: Reason
    count: int
    examples: tuple[str, ...] = ()

    def __str__(self) -> str:
        more = ", …" if self.count > len(self.examples) else ""
        return f"{self.count:,} left out, {self.reason}: {', '.join(self.examples)}{more}"


class ReasonCounts:
    """Counts skipped things while they are found."""

    __slots__ = ("_counts", "_examples")

    def __init__(self) -> None:
        self._counts: dict[Reason, int] = {}
        self._examples: dict[Reason, list[str]] = {}

    def add(self, reason: Reason, path: str) -> None:
        """One more."""
        self.include(Skipped(reason, 1, (path,)))

    def include(self, skipped: Skipped) -> None:
        """Those that someone else has counted."""
        self._counts[skipped.reason] = self._counts.get(skipped.reason, 0) + skipped.count
        examples = self._examples.setdefault(skipped.reason, [])
        if len(examples) < EXAMPLES:
            examples.extend(skipped.examples[: EXAMPLES - len(examples)])

    def result(self) -> tuple[Skipped, ...]:
        """What was counted, in the order of the reasons."""
        return tuple(
            Skipped(reason, self._counts[reason], tuple(self._examples[reason]))
            for reason in Reason
            if self._counts.get(reason)
        )


def tallied(skipped: Iterable[Skipped]) -> tuple[Skipped, ...]:
    """The same counts with one entry per reason."""
    tally = ReasonCounts()
    for each in skipped:
        tally.include(each)
    return tally.result()
