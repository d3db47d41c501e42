"""Pipelines come after those whose tables they read, and otherwise stay where they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.config.overlaps import cycle, ordered

NAMES = "abcdef"
NEEDS = st.dictionaries(st.sampled_from(NAMES), st.sets(st.sampled_from(NAMES), max_size=3), max_size=6)


@pytest.mark.parametrize(
    ("needs", "expected"),
    [
        ({}, "abcdef"),
        ({"a": "f"}, "fabcde"),
        ({"a": "c", "c": "f", "b": "f"}, "fcabde"),
        ({"f": "abc"}, "abcdef"),
        ({"a": "ed", "d": "e"}, "edabcf"),
    ],
)
def test_the_order(needs: dict[str, str], expected: str) -> None:
    assert "".join(ordered(NAMES, needs)) == expected


@given(NEEDS)
def test_each_comes_after_what_it_needs_unless_they_wait_for_each_other(needs: dict[str, set[str]]) -> None:
    found = ordered(NAMES, needs)
    assert sorted(found) == sorted(NAMES)
    circle = cycle(NAMES, needs)
    if circle:
        assert all(after in needs[name] for name, after in zip(circle, circle[1:] + circle[:1], strict=True))
    else:
        assert all(found.index(other) < found.index(name) for name in needs for other in needs[name])


@given(NEEDS)
def test_a_circle_is_found_where_there_is_one(needs: dict[str, set[str]]) -> None:
    reached = {name: set(needs.get(name, ())) for name in NAMES}
    for _ in NAMES:
        reached = {name: below.union(*(reached[each] for each in below)) for name, below in reached.items()}
    assert bool(cycle(NAMES, needs)) == any(name in below for name, below in reached.items())
