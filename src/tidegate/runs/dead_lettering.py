"""Bad records and given-up files of a pass: what they add to its commits, and the limits that stop it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.errors import LimitReached, StateError
from tidegate.planning.plan import GivenUp
from tidegate.runs.place import Place
from tidegate.sink.letters import Letterbox, LetterPlace
from tidegate.sink.task import UnitResult
from tidegate.state.dead_letters import debt
from tidegate.state.files import DataFile
from tidegate.state.opened import Opened
from tidegate.watermarks.outcomes import Covered, FileOutcome, Refused

FRACTION_FROM = 100
"""Lines from which on the share of bad ones says something."""


@dataclass(frozen=True, slots=True)
class Letters:
    """Letter files that a commit brings along, and how many letters they hold."""

    files: tuple[DataFile, ...] = ()
    count: int = 0

    @classmethod
    def of(cls, results: Iterable[UnitResult]) -> Letters:
        """Those that tasks wrote."""
        files = tuple(file for result in results for file in result.letter_files)
        return cls(files, sum(file.record_count for file in files))

    def debts(self, place: Place, opened: Opened) -> tuple[dict[str, Any], ...]:
        """What the commit owes to the dead-letter table; checks that it may."""
        if not self.files:
            return ()
        place.letters.check(self.files)
        _check_not_ahead(place, opened)
        return (debt(place.letters.uri, self.files),)


def _check_not_ahead(place: Place, opened: Opened) -> None:
    """Stop where new letters would be taken for known ones: the dead-letter table is ahead of the table.

    A rival that moved the source meanwhile is no such case: then the table is ahead, too, and the commit is lost.
    """
    ahead = place.letters.position(opened)
    if ahead > opened.version and place.positions.position() == opened.version:
        raise StateError(
            f"{place.key}: dead-letter table {place.letters.uri} is at position {ahead}, and its table at "
            f"{opened.version}: one of them was put back from a copy; new letters would be taken for known ones",
            "set error_handling.dlq_path to a new place",
        )


def given_up(place: Place, run: str, files: Sequence[GivenUp]) -> tuple[Letters, tuple[Covered, ...]]:
    """Letters for files that are not read on, written here; the outcomes that let the watermark pass them."""
    letters = letterbox(place, run)
    with contextlib.closing(letters):
        for each in files:
            letters.file(each.slice, each.reason, each.stage.value)
        finished = letters.cut()
    outcomes = tuple(
        Covered(one.path, one.size, one.etag, one.start_record, one.start_record, eof=True, bad=1)
        for one in (each.slice for each in files)
    )
    return Letters(finished, len(files)), outcomes


def letterbox(place: Place, run: str, fingerprint: str = "") -> Letterbox:
    """For letters that are written by the driver."""
    target = place.pipeline.dead_letters
    return Letterbox(LetterPlace(target, place.pipeline.name, place.source.name, run, fingerprint))


class Limits:
    """How much may go wrong in one pass; :meth:`check` raises before the commit that would exceed it."""

    def __init__(self, place: Place) -> None:
        self._handling = place.pipeline.error_handling
        self._name = f"{place.pipeline.name}/{place.source.name}"
        self._failures = 0
        self._bad = 0
        self._lines = 0

    def check(self, outcomes: Sequence[FileOutcome]) -> None:
        """Raise if these, with what was committed before, are too many."""
        handling = self._handling
        failures, bad, lines = self._with(outcomes)
        wrong = [
            each.path for each in outcomes if isinstance(each, Refused) or (isinstance(each, Covered) and each.bad)
        ]
        last = wrong[-1] if wrong else "an earlier file"
        if handling.max_failures and failures > handling.max_failures:
            raise self._reached(f"{failures} files could not be read", "max_failures", handling.max_failures, last)
        if handling.max_bad_records and bad > handling.max_bad_records:
            raise self._reached(f"{bad} bad records", "max_bad_records", handling.max_bad_records, last)
        share = handling.max_bad_fraction
        if share and lines >= FRACTION_FROM and bad > share * lines:
            raise self._reached(f"{bad} of {lines} records are bad", "max_bad_fraction", share, last)

    def keep(self, outcomes: Sequence[FileOutcome]) -> None:
        """These are committed: they count from now on."""
        self._failures, self._bad, self._lines = self._with(outcomes)

    def _with(self, outcomes: Sequence[FileOutcome]) -> tuple[int, int, int]:
        covered = [each for each in outcomes if isinstance(each, Covered)]
        return (
            self._failures + sum(isinstance(each, Refused) for each in outcomes),
            self._bad + sum(each.bad for each in covered),
            self._lines + sum(each.end - each.start for each in covered),
        )

    def _reached(self, found: str, key: str, limit: float, example: str) -> LimitReached:
        return LimitReached(
            f"{self._name}: {found} in this run, error_handling.{key} is {limit:g}; e.g. in {example}",
            f"what exceeded the limit was not committed; correct the files or the schema, or raise {key}",
        )
