"""The streaming reader that the fault tests rely on sees what a stream sees, and notices what would break one."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable

from support.errors import raises
from support.lake import Lake
from tidegate.errors import TableError
from tidegate.experiments.rounds import Follower
from tidegate.protocol.maintenance import compact_as_stranger
from tidegate.storage.stores import open_store


@pytest.fixture
def follower(lake: Lake) -> Follower:
    return Follower(open_store(lake.table))


def test_rows_come_by_once_as_they_are_committed(lake: Lake, follower: Follower) -> None:
    assert follower.catch_up() == 0
    lake.run()
    assert follower.catch_up() == 1
    assert sorted(follower.seen.elements()) == lake.expected
    lake.arrive("date=2026-01-28/hour=13/0.ndjson")
    lake.run()
    follower.catch_up()
    assert sorted(follower.seen.elements()) == lake.expected
    assert (follower.version, follower.positions, follower.doubled) == (2, 2, set())
    assert (follower.versions[0], follower.versions[60]) == ([0], [1])


def test_rewritten_files_bring_no_rows(lake: Lake, follower: Follower) -> None:
    lake.run()
    lake.arrive("date=2026-01-28/hour=13/0.ndjson")
    lake.run()
    compact_as_stranger(lake.table)
    assert follower.catch_up() == 3
    assert sorted(follower.seen.elements()) == lake.expected


def test_a_row_that_is_committed_again_is_noticed(lake: Lake, follower: Follower) -> None:
    lake.run()
    lake.write("date=2026-01-28/hour=13/0.ndjson", '{"id": 7, "event": "again"}\n')
    lake.run()
    follower.catch_up()
    assert follower.doubled == {7}
    assert follower.versions[7] == [0, 1]


def test_removed_rows_break_the_stream(lake: Lake, follower: Follower) -> None:
    lake.run()
    DeltaTable(lake.table.uri).delete("id < 5")
    with raises(TableError, "version 1", "removes"):
        follower.catch_up()
