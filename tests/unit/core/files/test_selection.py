"""Which files a person means."""

from __future__ import annotations

import pytest

from tidegate.core.files.edit import Selection


@pytest.mark.parametrize(
    ("selection", "taken", "left"),
    [
        (Selection("*.gz"), ["a.gz", "d=1/h=2/a.gz"], ["a.json"]),
        (Selection("d=1/*.gz"), ["d=1/a.gz"], ["d=1/h=2/a.gz", "d=10/a.gz", "a.gz"]),
        (Selection("d=1/**/a.gz"), ["d=1/a.gz", "d=1/h=2/a.gz"], ["d=1/b.gz"]),
        (Selection(directory="d=1"), ["d=1/a", "d=1/h=2/a"], ["d=10/a", "d=1-x/a", "a"]),
        (Selection(directory=""), ["a", "d=1/a"], []),
    ],
    ids=str,
)
def test_a_selection_takes_files(selection: Selection, taken: list[str], left: list[str]) -> None:
    assert [path for path in [*taken, *left] if selection.takes(path)] == taken


@pytest.mark.parametrize(
    ("pattern", "prefix"),
    [("*.gz", ""), ("d=1/*.gz", "d=1"), ("d=1/h=*/x/a", "d=1"), ("d=1/h=2/a", "d=1/h=2"), ("[ab]/c", ""), ("**/a", "")],
)
def test_everything_selected_lies_below_the_prefix(pattern: str, prefix: str) -> None:
    assert Selection(pattern).prefix == prefix


@pytest.mark.parametrize(("pattern", "directory"), [(None, None), ("a", "b")])
def test_a_selection_is_by_pattern_or_by_directory(pattern: str | None, directory: str | None) -> None:
    with pytest.raises(ValueError, match="give a pattern or a directory"):
        Selection(pattern, directory)
