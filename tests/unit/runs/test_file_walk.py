"""Results grouped into commits, and what of a plan is left."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.files.plan import FileGroup, FileSlice
from tidegate.core.files.state import Changed, Covered, NotReached, Refused
from tidegate.parquet.parquet_file import FinishedFile
from tidegate.runs.file_walk import ADDS_PER_COMMIT, coverage_of, find_unread, in_commits
from tidegate.tasks.read_task import CommitLimits, GroupResult

FILES = tuple(FileSlice(name, 10, "e") for name in "abcde")


def result(number: int, files: int) -> GroupResult:
    return GroupResult(number, (), tuple(FinishedFile(f"{number}-{at}", 1, 1, {}) for at in range(files)))


def test_results_go_together_in_the_order_of_their_units() -> None:
    (group,) = in_commits([result(2, 1), result(1, 1)])
    assert [each.number for each in group] == [1, 2]


def test_a_commit_never_holds_more_files_than_allowed() -> None:
    half = ADDS_PER_COMMIT // 2
    groups = list(in_commits([result(number, half) for number in range(5)]))
    assert [len(group) for group in groups] == [2, 2, 1]


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12), st.integers(1, 10), st.integers(1, 10))
def test_a_commit_exceeds_its_limits_by_a_single_result_only(
    sizes: list[tuple[int, int]], data_files: int, source_files: int
) -> None:
    results = [replace(result(n, adds), outcomes=covered(n, sources)) for n, (adds, sources) in enumerate(sizes)]
    commits = list(in_commits(reversed(results), CommitLimits(data_files, source_files)))
    assert [each for group in commits for each in group] == results
    for group in commits:
        adds, sources = (sum(sizes[each.number][at] for each in group) for at in (0, 1))
        assert len(group) == 1 or (adds <= data_files and sources <= source_files)
    for group, following in pairwise(commits):
        together = [sizes[each.number] for each in (*group, following[0])]
        assert sum(adds for adds, _ in together) > data_files or sum(each for _, each in together) > source_files


def covered(number: int, files: int) -> tuple[Covered, ...]:
    return tuple(Covered(f"{number}-{at}", 1, "e", 0, 1, True) for at in range(files))


def test_only_what_was_covered_is_coverage() -> None:
    outcomes = (Covered("a", 10, "e", 0, 5, True), Refused("b", 10, "e", "bad"), Changed("c"), NotReached("d"))
    covered = coverage_of([GroupResult(1, outcomes)])
    assert [(each.file, each.start, each.end, each.eof) for each in covered] == [("a", 0, 5, True)]


def test_left_are_files_that_were_not_reached_and_the_rest_of_those_read_in_part() -> None:
    outcomes = (
        Covered("a", 10, "e", 0, 5, True),
        Covered("b", 10, "e", 0, 7, False),
        Refused("c", 10, "e", "bad"),
        Changed("d"),
        NotReached("e"),
    )
    (unit,) = find_unread([FileGroup(1, FILES)], outcomes)
    assert [(each.path, each.start_record, each.rounds) for each in unit.slices] == [("b", 7, 1), ("e", 0, 0)]


def test_a_unit_that_gave_no_result_is_left_whole() -> None:
    unit = FileGroup(1, FILES)
    assert find_unread([unit], ()) == (unit,)
