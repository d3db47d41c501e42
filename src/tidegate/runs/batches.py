"""What came back from tasks: grouped into commits, turned into coverage, and what of the plan is left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

from tidegate.planning.plan import FileSlice, Unit
from tidegate.sink.task import UnitResult
from tidegate.state.files import Coverage
from tidegate.watermarks.outcomes import Covered, FileOutcome, NotReached

ADDS_PER_COMMIT = 10_000


def in_commits(results: Iterable[UnitResult]) -> Iterator[tuple[UnitResult, ...]]:
    """Whole results in the order of their units, together as long as a commit does not grow too large."""
    group: list[UnitResult] = []
    adds = 0
    for result in sorted(results, key=lambda result: result.number):
        if group and adds + len(result.data_files) > ADDS_PER_COMMIT:
            yield tuple(group)
            group, adds = [], 0
        group.append(result)
        adds += len(result.data_files)
    if group:
        yield tuple(group)


def first_files(units: Sequence[Unit], files: int) -> tuple[Unit, ...]:
    """The first units with at most ``files`` files together, at least one: what may fail at once is bounded."""
    total = accumulate(unit.files for unit in units)
    return tuple(unit for unit, so_far in zip(units, total, strict=True) if so_far <= files) or tuple(units[:1])


def coverage_of(results: Iterable[UnitResult]) -> tuple[Coverage, ...]:
    """The record ranges that these results hold."""
    return tuple(
        Coverage(each.path, each.size, each.etag, each.start, each.end, each.eof, each.rows, each.bad)
        for result in results
        for each in result.outcomes
        if isinstance(each, Covered)
    )


def left_of(units: Sequence[Unit], outcomes: Iterable[FileOutcome]) -> tuple[Unit, ...]:
    """The units that are still to be read: files that were not reached, and the rest of those read in part."""
    by_path = {outcome.path: outcome for outcome in outcomes}
    left = (
        Unit(unit.number, tuple(rest for each in unit.slices if (rest := _rest(each, by_path.get(each.path)))))
        for unit in units
    )
    return tuple(unit for unit in left if unit.slices)


def _rest(each: FileSlice, outcome: FileOutcome | None) -> FileSlice | None:
    match outcome:
        case None | NotReached():
            return each
        case Covered(eof=False, end=end):
            return replace(each, start_record=end, rounds=each.rounds + 1)
        case _:
            return None
