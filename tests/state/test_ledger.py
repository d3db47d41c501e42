"""The ledger tells what every commit brought in: winners only, none left out, whatever is missing beside them."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from state.history import KEY, attempts, drop_note, winner
from state.lake import Lake
from support.errors import raises
from tidegate.errors import CommitLost, StateError
from tidegate.protocol import documents
from tidegate.protocol.ledger import Ledger
from tidegate.protocol.ledger_blocks import LedgerEntry
from tidegate.protocol.position import Position
from tidegate.specs.locations import Location
from tidegate.storage.memory import forget


@pytest.fixture
def lake() -> Iterator[Lake]:
    name = uuid4().hex
    yield Lake(Location(f"memory://{name}/table"))
    forget(name)


def commits(lake: Lake, count: int) -> Position:
    positions = lake.positions()
    opened = positions.open()
    for _ in range(count):
        opened = positions.commit(opened, lake.change(opened.version, opened.version + 1))
    return opened


def contested(lake: Lake, losers: int = 1) -> Position:
    """One more position, for which ``losers`` other runs tried too."""
    others = [lake.positions() for _ in range(losers)]
    opened = [other.open() for other in others]
    now = commits(lake, 1)
    for other, at in zip(others, opened, strict=True):
        with pytest.raises(CommitLost):
            other.commit(at, lake.change(900, 901))
    return now


def files(found: Iterator[LedgerEntry]) -> list[tuple[int, tuple[str, ...], bool]]:
    return [(each.version, tuple(item.file for item in each.coverage), each.gap is not None) for each in found]


class TestWinners:
    def test_an_entry_says_what_its_commit_brought(self, lake: Lake) -> None:
        change = lake.change(0, 2, action="replay")
        opened = lake.positions().commit(lake.positions().open(), change)
        (entry,) = Ledger(lake.store, KEY).entries()
        assert (entry.version, entry.action, entry.rows, entry.table_version) == (1, "replay", 2, 0)
        assert entry.coverage == change.coverage
        assert entry.data_files == tuple(file.path for file in change.write.data_files)
        assert opened.parent is not None
        assert (entry.attempt, entry.sha256) == (opened.parent.attempt, opened.parent.sha256)

    def test_attempts_that_lost_are_not_in_it(self, lake: Lake) -> None:
        commits(lake, 1)
        contested(lake, losers=2)
        opened = commits(lake, 1)
        assert len(attempts(lake, 2)) == 3
        expected = [(1, ("file-0",), False), (2, ("file-1",), False), (3, ("file-2",), False)]
        assert files(Ledger(lake.store, KEY).entries(newest=opened.parent)) == expected
        assert files(Ledger(lake.store, KEY).entries()) == expected

    def test_without_notes_the_chain_of_parents_tells_the_winners(self, lake: Lake) -> None:
        for _ in range(4):
            opened = contested(lake)
        complete = list(Ledger(lake.store, KEY).entries(newest=opened.parent))
        for version in (1, 2, 4):
            drop_note(lake, version)
        found = list(Ledger(lake.store, KEY).entries(newest=opened.parent))
        assert files(iter(found)) == files(iter(complete))
        assert [each.attempt for each in found] == [each.attempt for each in complete]
        assert [each.table_version for each in found] == [None, None, 2, None]

    def test_a_second_note_does_not_decide_and_the_chain_does(self, lake: Lake) -> None:
        contested(lake)
        opened = commits(lake, 1)
        (loser,) = attempts(lake, 1) - {winner(lake, 1)}
        lake.store.put(KEY.won(1, loser), b"{}")
        assert files(Ledger(lake.store, KEY).entries(newest=opened.parent))[0] == (1, ("file-0",), False)

    def test_an_attempt_in_flight_is_not_in_it(self, lake: Lake) -> None:
        opened = commits(lake, 2)
        stored = documents.read(lake.store, KEY, 2, winner(lake, 2))
        assert stored is not None
        lake.store.put(KEY.document(3, "in-flight"), b"{}")
        assert [each.version for each in Ledger(lake.store, KEY).entries(newest=opened.parent)] == [1, 2]
        assert [each.version for each in Ledger(lake.store, KEY).entries()] == [1, 2]

    def test_the_newest_position_is_known_before_its_note_is_written(self, lake: Lake) -> None:
        opened = contested(lake)
        drop_note(lake, 1)
        assert files(Ledger(lake.store, KEY).entries(newest=opened.parent)) == [(1, ("file-0",), False)]
        assert files(Ledger(lake.store, KEY).entries()) == []

    def test_it_begins_where_it_is_asked_to(self, lake: Lake) -> None:
        opened = commits(lake, 4)
        assert [each.version for each in Ledger(lake.store, KEY).entries(start=3, newest=opened.parent)] == [3, 4]
        assert [each.version for each in Ledger(lake.store, KEY).entries(start=5, newest=opened.parent)] == []

    def test_a_source_that_never_committed_has_an_empty_one(self, lake: Lake) -> None:
        assert list(Ledger(lake.store, KEY).entries()) == []


class TestGaps:
    def test_a_missing_document_is_a_gap_and_not_left_out(self, lake: Lake) -> None:
        opened = commits(lake, 3)
        lost = KEY.document(2, winner(lake, 2))
        lake.store.delete(lost)
        found = list(Ledger(lake.store, KEY).entries(newest=opened.parent))
        assert files(iter(found)) == [(1, ("file-0",), False), (2, (), True), (3, ("file-2",), False)]
        assert found[1].gap == f"document {lost} is missing"

    def test_so_is_a_damaged_one_and_one_that_was_changed(self, lake: Lake) -> None:
        opened = commits(lake, 3)
        for version, change in ((1, lambda data: data[:40]), (2, lambda data: data.replace(b"file-1", b"file-9"))):
            path = KEY.document(version, winner(lake, version))
            lake.store.put(path, change(lake.store.get(path)))
        found = list(Ledger(lake.store, KEY).entries(newest=opened.parent))
        assert [each.gap is not None and each.gap.endswith("is damaged") for each in found] == [True, True, False]

    def test_a_position_without_any_object_is_a_gap(self, lake: Lake) -> None:
        opened = commits(lake, 4)
        for version in (1, 2):
            lake.store.delete(KEY.document(version, winner(lake, version)))
            drop_note(lake, version)
        found = list(Ledger(lake.store, KEY).entries(newest=opened.parent))
        assert [(each.version, each.gap is None) for each in found] == [(1, False), (2, False), (3, True), (4, True)]
        assert found[0].gap == "its document is missing"

    def test_where_nothing_tells_the_winner_no_attempt_is_taken(self, lake: Lake) -> None:
        contested(lake)
        opened = commits(lake, 1)
        drop_note(lake, 1)
        lake.store.put(KEY.document(2, winner(lake, 2)), b"{}")
        found = list(Ledger(lake.store, KEY).entries(newest=opened.parent))
        assert found[0].gap == "2 attempts are there, and nothing shows which one won"
        assert found[0].coverage == ()

    def test_a_document_that_was_changed_does_not_tell_the_winner_below_it(self, lake: Lake) -> None:
        contested(lake)
        opened = commits(lake, 2)
        won, (lost,) = winner(lake, 1), attempts(lake, 1) - {winner(lake, 1)}
        drop_note(lake, 1)
        path = KEY.document(2, winner(lake, 2))
        lake.store.put(path, lake.store.get(path).replace(won.encode(), lost.encode()))
        found = list(Ledger(lake.store, KEY).entries(newest=opened.parent))
        assert found[0].gap == "2 attempts are there, and nothing shows which one won"
        assert found[1].gap == f"document {path} is damaged"

    def test_a_damaged_note_still_names_its_attempt(self, lake: Lake) -> None:
        contested(lake)
        commits(lake, 1)
        lake.store.put(KEY.won(1, winner(lake, 1)), b"{")
        found = next(Ledger(lake.store, KEY).entries())
        assert (found.gap, found.table_version, found.coverage[0].file) == (None, None, "file-0")

    def test_a_document_of_a_newer_tidegate_stops(self, lake: Lake) -> None:
        commits(lake, 1)
        lake.store.put(KEY.document(1, winner(lake, 1)), b'{"schema_version": 99}')
        with raises(StateError, "schema_version 99"):
            list(Ledger(lake.store, KEY).entries())
