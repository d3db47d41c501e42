"""A state carried forward by coverage: the same as if its commits had been made from it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws.world import NOW, files, read, source
from support.long_runs import examples
from tidegate.core.files.advance import advance, apply_commits
from tidegate.core.files.state import Covered, Finished, PathState, RecordsRead
from tidegate.errors import StateError
from tidegate.specs.project import Lateness

OF = source(pattern="*", lateness=Lateness(never=True))
ABC = ["d/a", "d/b", "d/c"]


def test_a_range_to_the_end_finishes_its_file_and_moves_the_watermark() -> None:
    state = apply_commits(OF, PathState(), [read("d/a"), read("d/b")], files(*ABC), NOW)
    assert state.partition_watermarks == {"d": "b"}
    assert state.value == "d/b"


def test_above_a_gap_it_is_an_island() -> None:
    state = apply_commits(OF, PathState(), [read("d/a", "d/c")], files(*ABC), NOW)
    assert (state.partition_watermarks, state.files) == ({"d": "a"}, {"d/c": Finished()})


def test_what_is_not_listed_moves_no_watermark_and_stays_finished() -> None:
    state = apply_commits(OF, PathState(), [read("d/a", "d/c")], (), NOW)
    assert state.partition_watermarks == {}
    assert state.files == {"d/a": Finished(), "d/c": Finished()}


def test_a_range_in_the_middle_is_progress_and_is_followed_by_the_next() -> None:
    first = Covered("d/a", 100, None, 0, 40, eof=False)
    state = apply_commits(OF, PathState(), [[first]], files(*ABC), NOW)
    assert state.files == {"d/a": RecordsRead(40, 100)}
    rest = Covered("d/a", 100, None, 40, 90, eof=True)
    assert apply_commits(OF, state, [[rest]], files(*ABC), NOW).partition_watermarks == {"d": "a"}


def test_a_range_that_does_not_follow_is_refused() -> None:
    with pytest.raises(StateError, match="0 lines are committed"):
        apply_commits(OF, PathState(), [[Covered("d/a", 100, None, 40, 90, eof=True)]], files(*ABC), NOW)


@settings(deadline=None, max_examples=examples(60))
@given(st.permutations([f"d={day}/{name}" for day in "12" for name in "abcde"]), st.integers(0, 3))
def test_it_finishes_exactly_what_the_commits_had_finished(order: list[str], base: int) -> None:
    listed = files(*sorted(order))
    commits = [read(*order[at : at + 2]) for at in range(0, 8, 2)]
    states = [PathState()]
    for outcomes in commits:
        states.append(advance(OF, states[-1], listed, outcomes, NOW, complete=True).state)
    rebuilt = apply_commits(OF, states[base], commits[base:], listed, NOW)
    assert (rebuilt.partition_watermarks, rebuilt.files) == (states[-1].partition_watermarks, states[-1].files)
