"""Whose columns count when files contradict each other."""

from __future__ import annotations

from itertools import permutations

from tidegate.schema.majority import FileColumns, Majority, find_majority


def votes(*files: dict[str, str]) -> list[FileColumns]:
    return [FileColumns(str(number), kinds) for number, kinds in enumerate(files)]


def of_any_order(files: list[FileColumns]) -> Majority:
    first, *others = (find_majority(each) for each in permutations(files))
    assert all(each == first for each in others)
    return first


def test_an_odd_file_has_no_vote_on_other_columns() -> None:
    found = of_any_order(
        votes({"id": "number"}, {"id": "number"}, {"id": "number", "n": "string"}, {"id": "string", "n": "number"})
    )
    assert (set(found.odd), found.ties) == ({"3"}, ())
    assert found.odd["3"] == "'id' is string here, and number in 3 files"


def test_the_others_vote_again_without_an_odd_file() -> None:
    """With the vote of the file that is odd by id, n is a tie; without it, it is not."""
    good, odd = {"id": "number"}, {"id": "string", "n": "number"}
    found = of_any_order(votes(good | {"n": "string"}, good | {"n": "string"}, good | {"n": "number"}, good, good, odd))
    assert (set(found.odd), found.ties) == ({"2", "5"}, ())


def test_a_tie_of_files_that_are_not_odd_stays_one() -> None:
    found = of_any_order(votes({"id": "number", "n": "number"}, {"id": "number", "n": "string"}, {"id": "number"}))
    assert found.ties == ("'n' is number in 1 file and 'n' is string in 1 file",)


def test_a_file_without_records_has_no_vote_but_can_be_odd() -> None:
    empty = [FileColumns(name, {"id": "string"}, votes=False) for name in "abc"]
    found = of_any_order([*votes({"id": "number"}), *empty])
    assert (found.kept, found.ties) == ({"0"}, ())


def test_known_columns_are_decided() -> None:
    found = find_majority(votes({"id": "string"}, {"id": "string"}, {"id": "number"}), {"id": "number"})
    assert found.kept == {"2"}
    assert found.odd["0"] == "'id' is string here, and number in 1 file"
