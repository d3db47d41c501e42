"""The report of a pass over one source, and its bad records and given-up files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from tidegate.core.files.plan import GivenUp
from tidegate.core.files.state import Covered, FileOutcome, Refused
from tidegate.errors import LimitReached, StateError, TidegateError
from tidegate.observe.events import Emit, SourceFinished
from tidegate.protocol.change import DataFile
from tidegate.protocol.dead_letters import debt
from tidegate.protocol.position import Position
from tidegate.reports.run import SourceReport
from tidegate.runs.bound_source import Place
from tidegate.sink.dead_letters import DeadLetterTarget, DeadLetterWriter
from tidegate.sink.read_task import GroupResult

SHOWN_UNKNOWN_FIELDS = 10

SKIPPED = "Skipped"
"""The state of a source that was left to another run."""

ANOTHER_RUN = "another_run"
"""The reason why it was left out."""


def told_once(name: tuple[str, str], error: TidegateError) -> str:
    """The error without the name of the source in front: that is told beside it."""
    return str(error).removeprefix(f"{'/'.join(name)}: ")


class RowTotals(Protocol):
    """What a pass that has no files has done."""

    rows: int
    commits: int
    table_version: int | None


def not_begun(name: tuple[str, str], error: TidegateError | None, seconds: float) -> SourceReport:
    """The report of a source that could not even be opened."""
    told = None if error is None else told_once(name, error)
    code = 0 if error is None else error.exit_code
    return SourceReport(*name, "Unknown", None, 0, 0, 0, 0, error=told, seconds=seconds, exit_code=code)


def left_out(name: tuple[str, str], seconds: float, emit: Emit) -> SourceReport:
    """The report of a source that was left to another run, which is no failure; its end is told."""
    report = replace(not_begun(name, None, seconds), state=SKIPPED, skipped=((ANOTHER_RUN, 1),))
    emit(finished(report, failed=False))
    return report


def rows_report(
    name: tuple[str, str],
    totals: RowTotals,
    watermark: str | None,
    error: TidegateError | None,
    seconds: float,
    *,
    is_first: bool,
) -> SourceReport:
    """The report of a pass over a source that has no files; ``is_first``: nothing of it was ever committed."""
    return replace(
        not_begun(name, error, seconds),
        state="Active" if totals.commits else "Initial" if is_first else "Idle",
        watermark=watermark,
        rows=totals.rows,
        commits=totals.commits,
        table_version=totals.table_version,
    )


def finished(report: SourceReport, *, failed: bool, state_files: int = 0) -> SourceFinished:
    """The event that ends a pass, from its report."""
    return SourceFinished(
        report.pipeline,
        report.source,
        state=report.state,
        watermark=report.watermark,
        source_files=report.files,
        rows=report.rows,
        failed_files=len(report.failed),
        commits=report.commits,
        seconds=report.seconds,
        state_files=state_files,
        failed=failed,
        staged=report.staged,
        failed_units=len(report.failed_units),
    )


def unknown_words(counts: Mapping[str, int], rescued: str | None = None) -> str:
    """Fields of the source that no column takes, most frequent first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{name} ({count:,})" for name, count in ordered[:SHOWN_UNKNOWN_FIELDS])
    more = f" and {len(ordered) - SHOWN_UNKNOWN_FIELDS} more" if len(ordered) > SHOWN_UNKNOWN_FIELDS else ""
    if rescued is not None:
        return f"fields and values that fit no column were kept in {rescued!r}: {shown}{more}"
    return f"fields that the schema does not declare were left out: {shown}{more}"


FRACTION_FROM = 100
"""Lines from which on the share of bad ones says something."""


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Letter files that a commit brings along, and how many letters they hold."""

    files: tuple[DataFile, ...] = ()
    count: int = 0

    @classmethod
    def of(cls, results: Iterable[GroupResult]) -> DeadLetters:
        """Those that tasks wrote."""
        files = tuple(file for result in results for file in result.letter_files)
        return cls(files, sum(file.record_count for file in files))

    def debts(self, place: Place, opened: Position) -> tuple[dict[str, Any], ...]:
        """What the commit owes to the dead-letter table; checks that it may."""
        if not self.files:
            return ()
        place.letters.check(self.files)
        _check_not_ahead(place, opened)
        return (debt(place.letters.uri, self.files),)


def _check_not_ahead(place: Place, opened: Position) -> None:
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


def given_up(place: Place, run: str, files: Sequence[GivenUp]) -> tuple[DeadLetters, tuple[Covered, ...]]:
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
    return DeadLetters(finished, len(files)), outcomes


def letterbox(place: Place, run: str, fingerprint: str = "") -> DeadLetterWriter:
    """For letters that are written by the driver."""
    target = place.pipeline.dead_letters
    return DeadLetterWriter(DeadLetterTarget(target, place.pipeline.name, place.source.name, run, fingerprint))


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
