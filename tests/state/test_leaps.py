"""Positions that a source never had: a commit of several units moves it by as many, and everything still reads on."""

from __future__ import annotations

from uuid import uuid4

import pytest

from state.history import KEY, ledger, quick
from state.lake import Lake
from support.errors import raises
from tidegate import failpoints
from tidegate.errors import CommitLost, StateError
from tidegate.protocol import documents
from tidegate.protocol.commit import Member, commit_together
from tidegate.protocol.ledger import Ledger
from tidegate.protocol.ledger_blocks import blocks
from tidegate.protocol.log import DIRECTORY
from tidegate.protocol.position import Position
from tidegate.protocol.store import PositionStore
from tidegate.specs.locations import Location


@pytest.fixture
def lake() -> Lake:
    return Lake(Location(f"memory://{uuid4().hex}/table"))


def leap(positions: PositionStore, opened: Position, lake: Lake, steps: int) -> Position:
    """A commit that moves the source by ``steps``."""
    start = int((opened.state or {"next": 0})["next"])
    (after,) = commit_together([Member(positions.site, opened, lake.change(start, start + 1), steps)])
    assert after.version == opened.version + steps
    return after


def leaps(lake: Lake, *steps: int) -> Position:
    positions = quick(lake)
    opened = positions.open()
    for each in steps:
        opened = leap(positions, opened, lake, each)
    return opened


def versions(lake: Lake, opened: Position) -> list[int]:
    found = ledger(lake, opened.parent)
    assert [each.gap for each in found] == [None] * len(found)
    return [each.version for each in found]


def test_a_position_after_a_leap_is_opened(lake: Lake) -> None:
    after = leaps(lake, 3, 5)
    opened = quick(lake).open()
    assert (opened.version, opened.state, opened.parent) == (8, {"next": 2}, after.parent)


def test_the_ledger_has_no_gap_where_there_was_no_position(lake: Lake) -> None:
    after = leaps(lake, 1, 3, 1, 5)
    assert versions(lake, after) == [1, 4, 5, 10]
    assert [each.version for each in Ledger(lake.store, KEY).newest_first(after.parent)] == [10, 5, 4, 1]


def test_lost_notes_do_not_hide_a_leap(lake: Lake) -> None:
    after = leaps(lake, 1, 3, 1, 5)
    for found in list(lake.store.list(KEY.directory)):
        if found.path.endswith(".won"):
            lake.store.delete(found.path)
    assert versions(lake, after) == [1, 4, 5, 10]


def test_a_lost_document_is_a_gap_and_not_a_leap(lake: Lake) -> None:
    after = leaps(lake, 1, 1, 3)
    (lost,) = [name for name in documents.names(lake.store, KEY, 2, 2) if name.ending == "json"]
    lake.store.delete(KEY.document(2, lost.attempt))
    assert [(each.version, each.gap is None) for each in ledger(lake, after.parent)] == [
        (1, True),
        (2, False),
        (5, True),
    ]


def test_of_two_leaps_from_one_position_one_is_lost_whatever_their_width(lake: Lake) -> None:
    first, second = quick(lake), quick(lake)
    leaps(lake, 1)
    one, other = first.open(), second.open()
    leap(first, one, lake, 5)
    with pytest.raises(CommitLost):
        leap(second, other, lake, 2)
    assert versions(lake, first.open()) == [1, 6]


def test_blocks_hold_what_there_is_of_them_even_nothing(lake: Lake) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidegate.protocol.follow_ups.LOOK_EVERY", 10**6)
        after = leaps(lake, 2, 1000, 300, 1, 400)
    before = ledger(lake, after.parent)
    assert after.parent is not None
    assert Ledger(lake.store, KEY).compact(after.parent).blocks == 5
    assert [block.first for block in blocks(lake.store, KEY)] == [1, 257, 513, 769, 1025]
    assert ledger(lake, after.parent) == before
    assert versions(lake, after) == [2, 1002, 1302, 1303, 1703]
    assert list(Ledger(lake.store, KEY).newest_first(after.parent)) == before[::-1]


def test_a_commit_gathers_as_many_blocks_as_it_moved_over(lake: Lake) -> None:
    after = leaps(lake, 700, 700, 700)
    assert [block.last for block in blocks(lake.store, KEY)] == [256 * number for number in range(1, 8)]
    assert versions(lake, after) == [700, 1400, 2100]


def test_documents_that_were_only_tried_are_gathered_with_their_block(lake: Lake) -> None:
    positions, rival = quick(lake), quick(lake)
    leaps(lake, 1)
    mine, others = positions.open(), rival.open()
    after = leap(positions, mine, lake, 300)
    with pytest.raises(CommitLost):
        leap(rival, others, lake, 7)
    after = leap(positions, after, lake, 300)
    assert after.parent is not None
    Ledger(lake.store, KEY).compact(after.parent)
    assert {name.version for name in documents.names(lake.store, KEY)} == {301, 601}
    assert versions(lake, after) == [1, 301, 601]


def test_a_first_attempt_to_leap_that_came_to_nothing_is_no_trace_of_a_position(lake: Lake) -> None:
    positions = quick(lake)
    failpoints.arm("state.document.after=raise")
    try:
        with pytest.raises(failpoints.InjectedFailure):
            leap(positions, positions.open(), lake, 4)
    finally:
        failpoints.arm("")
    assert [name.version for name in documents.names(lake.store, KEY)] == [4]
    opened = quick(lake).open()
    assert opened.first_run
    assert leap(positions, opened, lake, 2).version == 2


def test_a_forgotten_position_after_a_leap_stops(lake: Lake) -> None:
    leaps(lake, 4)
    for found in list(lake.store.list()):
        if not found.path.endswith(".json") or found.path.startswith((DIRECTORY, KEY.mirror)):
            lake.store.delete(found.path)
    assert quick(lake).open().first_run
    leaps(lake, 4, 2)
    for found in list(lake.store.list(DIRECTORY)):
        lake.store.delete(found.path)
    for found in list(lake.store.list(KEY.directory)):
        if found.path.endswith(".won"):
            lake.store.delete(found.path)
    lake.store.delete(KEY.mirror)
    with raises(StateError, "p/s", "no table", "fresh start"):
        quick(lake).open()
