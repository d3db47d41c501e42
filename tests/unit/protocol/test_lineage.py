"""Which data files have rows of which source files, as far as the ledger and the log know."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from uuid import uuid4

import pytest

from tidegate.protocol.change import Coverage, SourceKey
from tidegate.protocol.ledger_blocks import REPLAYED_FILES, LedgerEntry, gap
from tidegate.protocol.lineage import Lineage, RowFiles, history_of
from tidegate.protocol.log import entry_path
from tidegate.protocol.memory import MemorySnapshot, encode
from tidegate.protocol.table import TableFacts, TableProtocol
from tidegate.specs.locations import Location
from tidegate.storage.memory import forget
from tidegate.storage.port import ObjectStore
from tidegate.storage.stores import open_store

KEY = SourceKey("p", "s")


@pytest.fixture
def store() -> Iterator[ObjectStore]:
    name = uuid4().hex
    yield open_store(Location(f"memory://{name}/table"))
    forget(name)


def entry(version: int, files: str, data: str, action: str = "run", bad: str = "") -> LedgerEntry:
    """A commit of ``files``, one row each, into ``data``; those in ``bad`` also had a bad line."""
    coverage = tuple(Coverage(each, 1, None, 0, 1, True, rows=1, bad=each in bad) for each in files)
    return LedgerEntry(version, "a", action, "2026-01-28T00:00:00+00:00", version, len(files), coverage, tuple(data))


def find(store: ObjectStore, active: str, files: str, *entries: LedgerEntry) -> RowFiles:
    facts = TableFacts(9, "id", TableProtocol(1, 2), "{}")
    return Lineage(store, MemorySnapshot(facts, {}, frozenset(active)), history_of(KEY, entries)).find(files)


def told(found: RowFiles) -> tuple[str, str, int]:
    return "".join(file.path for file in found.data_files), "".join(sorted(found.shared)), len(found.obstacles)


def test_a_commit_is_the_smallest_part(store: ObjectStore) -> None:
    entries = entry(1, "ab", "X"), entry(2, "c", "Y"), entry(3, "bd", "Z")
    assert told(find(store, "XYZ", "c", *entries)) == ("Y", "", 0)
    assert told(find(store, "XYZ", "a", *entries)) == ("X", "b", 0)
    assert told(find(store, "XYZ", "ab", *entries)) == ("XZ", "d", 0)
    assert told(find(store, "XYZ", "abd", *entries)) == ("XZ", "", 0)


def test_commits_that_a_replay_took_are_forgotten(store: ObjectStore) -> None:
    entries = entry(1, "ab", "X"), entry(2, "ab", "Y", REPLAYED_FILES)
    assert told(find(store, "Y", "ab", *entries)) == ("Y", "", 0)


def test_a_retried_line_may_be_from_every_file_that_had_bad_ones(store: ObjectStore) -> None:
    retried = replace(entry(3, "", "Z", "dlq retry"), rows=1)
    entries = entry(1, "a", "X", bad="a"), entry(2, "bc", "Y", bad="b"), retried
    assert told(find(store, "XYZ", "a", *entries)) == ("XZ", "b", 0)
    assert told(find(store, "XYZ", "bc", *entries)) == ("YZ", "a", 0)


def test_files_without_a_row_share_nothing(store: ObjectStore) -> None:
    first = entry(1, "a", "X")
    empty = Coverage("b", 0, None, 0, 0, True)
    assert told(find(store, "X", "a", replace(first, coverage=(*first.coverage, empty)))) == ("X", "", 0)


def test_a_gap_is_an_obstacle_while_data_files_are_unexplained(store: ObjectStore) -> None:
    assert told(find(store, "XY", "a", entry(1, "a", "X"), gap(2, "its document is missing")))[2] == 1
    assert told(find(store, "X", "a", entry(1, "a", "X"), gap(2, "its document is missing")))[2] == 0
    nameless = replace(entry(2, "b", ""), rows=1)
    assert told(find(store, "XY", "a", entry(1, "a", "X"), nameless))[2] == 1


def test_a_file_that_nobody_read_is_an_obstacle_only_beside_rows_of_an_unknown_writer(store: ObjectStore) -> None:
    assert told(find(store, "X", "z", entry(1, "a", "X"))) == ("", "", 0)
    assert told(find(store, "XF", "z", entry(1, "a", "X")))[2] == 1
    assert told(find(store, "XF", "a", entry(1, "a", "X"))) == ("X", "", 0)


def put(store: ObjectStore, version: int, operation: str, removed: str, added: str, *, changes: bool) -> None:
    actions = [
        {"commitInfo": {"operation": operation}},
        *({"remove": {"path": path, "dataChange": changes}} for path in removed),
        *({"add": {"path": path, "dataChange": changes}} for path in added),
    ]
    store.put(entry_path(version), encode(actions))


def test_rows_are_followed_through_the_log(store: ObjectStore) -> None:
    entries = entry(1, "a", "X"), entry(2, "b", "Y"), entry(3, "c", "Z")
    put(store, 3, "OPTIMIZE", "XY", "O", changes=False)
    put(store, 4, "DELETE", "O", "P", changes=True)
    assert told(find(store, "PZ", "a", *entries)) == ("P", "b", 0)
    assert told(find(store, "PZ", "ab", *entries)) == ("P", "", 0)
    put(store, 5, "DELETE", "P", "", changes=True)
    assert told(find(store, "Z", "a", *entries)) == ("", "", 0)


def test_rows_that_others_may_have_mixed_or_that_left_no_trace_are_obstacles(store: ObjectStore) -> None:
    entries = entry(1, "a", "X"), entry(2, "b", "Y")
    assert "no longer says" in find(store, "Y", "a", *entries).obstacles[0]
    put(store, 3, "MERGE", "X", "M", changes=True)
    assert "MERGE at table version 3" in find(store, "YM", "a", *entries).obstacles[0]
    put(store, 4, "OPTIMIZE", "YF", "O", changes=False)
    assert "a writer that the ledger does not know" in find(store, "OM", "b", *entries).obstacles[0]


def test_a_replay_by_a_predicate_has_rows_of_what_it_rewrote(store: ObjectStore) -> None:
    entries = entry(1, "ab", "X"), entry(2, "a", "R", "replay")
    assert find(store, "R", "b", *entries).obstacles
    tag = '{"tidegate":[{"pipeline":"p","source":"s","version":2,"attempt":"a","schema_version":1,"sha256":"0"}]}'
    actions = [
        {"commitInfo": {"operation": "WRITE", "userMetadata": tag}},
        {"remove": {"path": "X", "dataChange": True}},
        {"add": {"path": "R", "dataChange": True}},
    ]
    store.put(entry_path(3), encode(actions))
    assert told(find(store, "R", "b", *entries)) == ("R", "a", 0)


def test_two_spellings_of_a_partition_value_lose_no_row(store: ObjectStore) -> None:
    ours, theirs = {"at": "2026-01-01 00:00:00.000000"}, {"at": "2026-01-01 00:00:00"}
    actions = [
        {"commitInfo": {"operation": "OPTIMIZE"}},
        {"remove": {"path": "X", "dataChange": False, "partitionValues": ours}},
        {"add": {"path": "O", "dataChange": False, "partitionValues": theirs}},
    ]
    store.put(entry_path(3), encode(actions))
    assert told(find(store, "OY", "a", entry(1, "a", "X"), entry(2, "b", "Y"))) == ("O", "", 0)


def test_a_file_that_another_program_began_is_an_obstacle_beside_rows_of_an_unknown_writer(store: ObjectStore) -> None:
    rest = replace(entry(1, "a", "X"), coverage=(Coverage("a", 1, None, 5, 6, True, rows=1),))
    assert told(find(store, "XF", "a", rest))[2] == 1
    whole = replace(entry(2, "a", "Y"), coverage=(Coverage("a", 1, None, 1, 2, True, rows=1),))
    assert told(find(store, "XYF", "a", entry(1, "a", "X"), whole)) == ("XY", "", 0)


def test_many_rewrites_of_many_files_are_followed_once_each(store: ObjectStore) -> None:
    levels = ["abcdefghijklmnopqrst", *("".join(chr(0x4E00 + 20 * n + k) for k in range(20)) for n in range(12))]
    for version, (before, after) in enumerate(pairwise(levels), 2):
        put(store, version, "DELETE", before, after, changes=True)
    assert len(find(store, levels[-1], "f", entry(1, "f", levels[0])).data_files) == 20
