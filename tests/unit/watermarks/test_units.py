"""Units as they are written."""

from __future__ import annotations

import pytest

from tidegate.errors import WatermarkError
from tidegate.watermarks.units import unit_values


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("id1,id2,id3", ("id1", "id2", "id3")),
        ("id1, id2 , id3", ("id1", "id2", "id3")),
        (" id1 ", ("id1",)),
        (["id1", " id2 "], ("id1", "id2")),
        (["a,b", "c"], ("a,b", "c")),
    ],
)
def test_units_are_a_text_or_a_list_and_are_trimmed(given: str | list[str], expected: tuple[str, ...]) -> None:
    assert unit_values(given) == expected


@pytest.mark.parametrize("given", ["id1,id2,id1", "id1, id1 ", ["id1", "id2", " id1"]])
def test_a_unit_that_is_there_twice_is_refused_by_name(given: str | list[str]) -> None:
    with pytest.raises(WatermarkError, match="'id1' is there more than once"):
        unit_values(given)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("", "'' has no unit"),
        ("  ", "has no unit"),
        (",", "',' has no unit"),
        ([], r"\[\] has no unit"),
        ("id1,,id2", "'id1,,id2' has an empty unit"),
        ("id1,", "has an empty unit"),
        (["id1", " "], "has an empty unit"),
    ],
)
def test_empty_units_are_refused_with_their_text(given: str | list[str], problem: str) -> None:
    with pytest.raises(WatermarkError, match=problem):
        unit_values(given)
