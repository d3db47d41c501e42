"""Old documents become blocks: the ledger says the same before and after, whoever was killed in between."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from servers.s3 import Server
from state.history import KEY, QuickDelta, attempts, drop_note, ledger, quick, winner
from state.lake import IDENTITY, Lake
from support import scripts
from support.errors import raises
from tidegate import failpoints
from tidegate.errors import CommitLost, StateError
from tidegate.observe.events import Notice
from tidegate.protocol import documents
from tidegate.protocol.documents import Parent
from tidegate.protocol.ledger import Compacted, Ledger
from tidegate.protocol.ledger_blocks import block_path, blocks
from tidegate.protocol.log import DIRECTORY
from tidegate.protocol.memory import MemoryDelta
from tidegate.protocol.position import Position, TableContext
from tidegate.protocol.store import PositionStore
from tidegate.specs.locations import Location
from tidegate.storage.memory import forget, space

COMMITS = 600
GATHERER = Path(__file__).with_name("gatherer.py")
BLOCK = block_path(KEY, 1)


def versions(lake: Lake) -> set[int]:
    return {name.version for name in documents.names(lake.store, KEY)}


@pytest.fixture(scope="module")
def history() -> Iterator[tuple[str, Position]]:
    """600 positions of which some were contested and some lost their note; nothing of it is compacted."""
    name = uuid4().hex
    lake = Lake(Location(f"memory://{name}/table"))
    positions, other = quick(lake), quick(lake)
    opened = positions.open()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidegate.protocol.follow_ups.LOOK_EVERY", COMMITS + 1)
        for version in range(1, COMMITS + 1):
            behind = other.open() if version in (1, 100, 256, 257, 400) else None
            opened = positions.commit(opened, lake.change(version, version + version % 3))
            if behind is not None:
                with pytest.raises(CommitLost):
                    other.commit(behind, lake.change(900, 901))
    for version in (100, 255, 256, 300):
        drop_note(lake, version)
    yield name, opened
    forget(name)


@pytest.fixture
def lake(history: tuple[str, Position]) -> Iterator[Lake]:
    """A copy of that history."""
    name = uuid4().hex
    space(name).objects.update(space(history[0]).objects)
    yield Lake(Location(f"memory://{name}/table"))
    forget(name)


@pytest.fixture
def newest(history: tuple[str, Position]) -> Parent:
    parent = history[1].parent
    assert parent is not None
    return parent


class TestTheLedgerSaysTheSame:
    def test_before_and_after(self, lake: Lake, newest: Parent) -> None:
        before = ledger(lake, newest)
        done = Ledger(lake.store, KEY).compact(newest)
        assert done.blocks == 1
        assert done.removed == 2 * 256
        assert [block.path for block in blocks(lake.store, KEY)] == [BLOCK]
        assert min(versions(lake)) == 257
        assert ledger(lake, newest) == before
        assert [each.version for each in before] == list(range(1, COMMITS + 1))
        assert all(each.gap is None for each in before)

    def test_newest_first_is_the_same_backwards(self, lake: Lake, newest: Parent) -> None:
        expected = ledger(lake, newest)[::-1]
        assert list(Ledger(lake.store, KEY).newest_first(newest)) == expected
        Ledger(lake.store, KEY).compact(newest)
        assert list(Ledger(lake.store, KEY).newest_first(newest)) == expected
        assert list(Ledger(lake.store, KEY).newest_first()) == expected

    @pytest.mark.parametrize("start", [1, 2, 256, 257, 300, 600, 601])
    def test_from_any_position_on(self, lake: Lake, newest: Parent, start: int) -> None:
        Ledger(lake.store, KEY).compact(newest)
        found = [each.version for each in Ledger(lake.store, KEY).entries(start=start, newest=newest)]
        assert found == list(range(start, COMMITS + 1))

    def test_a_commit_of_many_files_is_read_back_whole(self, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tidegate.protocol.ledger_blocks.ROWS_PER_GROUP", 10)
        monkeypatch.setattr("tidegate.protocol.ledger_blocks._ROWS_PER_BATCH", 7)
        monkeypatch.setattr("tidegate.protocol.ledger_blocks.WHOLE_UP_TO", 0)
        fresh = Lake(Location(f"memory://{uuid4().hex}/table"))
        positions = quick(fresh)
        opened = positions.open()
        for count in (0, 40, 1, 25, 0):
            opened = positions.commit(opened, fresh.change(0, count))
        before = ledger(fresh, opened.parent)
        monkeypatch.setattr("tidegate.protocol.ledger.KEPT", 1)
        monkeypatch.setattr("tidegate.protocol.ledger.SIZE", 4)
        monkeypatch.setattr("tidegate.protocol.ledger_blocks.SIZE", 4)
        assert opened.parent is not None
        assert Ledger(fresh.store, KEY).compact(opened.parent).blocks == 1
        assert [len(each.coverage) for each in ledger(fresh, opened.parent)] == [0, 40, 1, 25, 0]
        assert ledger(fresh, opened.parent) == before


class TestWhatIsDue:
    def test_a_second_time_there_is_nothing_to_do(self, lake: Lake, newest: Parent) -> None:
        Ledger(lake.store, KEY).compact(newest)
        content = lake.store.get(BLOCK)
        assert Ledger(lake.store, KEY).compact(newest) == Compacted(0, 0)
        assert lake.store.get(BLOCK) == content

    @pytest.mark.parametrize(("version", "due"), [(511, 0), (512, 1), (600, 1)])
    def test_a_block_is_due_when_256_positions_are_above_it(
        self, lake: Lake, newest: Parent, version: int, due: int
    ) -> None:
        stored = documents.read(lake.store, KEY, version, winner(lake, version))
        assert stored is not None
        parent = Parent(version, stored.attempt, stored.sha256)
        assert Ledger(lake.store, KEY).compact(parent).blocks == due

    def test_the_same_documents_give_the_same_block(self, lake: Lake, newest: Parent) -> None:
        twin = Lake(Location(f"memory://{uuid4().hex}/table"))
        for found in lake.store.list(KEY.directory):
            twin.store.put(found.path, lake.store.get(found.path))
        Ledger(lake.store, KEY).compact(newest)
        Ledger(twin.store, KEY).compact(newest)
        assert lake.store.get(BLOCK) == twin.store.get(BLOCK)

    def test_a_run_does_it_by_itself(self, lake: Lake) -> None:
        positions = quick(lake)
        opened = positions.open()
        while opened.version < 607:
            opened = positions.commit(opened, lake.change(0, 1))
        assert list(blocks(lake.store, KEY)) == []
        opened = positions.commit(opened, lake.change(0, 1))
        assert [block.last for block in blocks(lake.store, KEY)] == [256]
        assert [each.gap for each in ledger(lake, opened.parent)] == [None] * 608

    def test_a_run_gathers_one_block_at_a_time_and_what_a_kill_left_of_the_last(
        self, lake: Lake, newest: Parent, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = ledger(lake, newest)
        for module in ("tidegate.protocol.ledger_blocks", "tidegate.protocol.ledger"):
            monkeypatch.setattr(f"{module}.SIZE", 100)
        assert [Ledger(lake.store, KEY).compact(newest, most=1).blocks for _ in range(4)] == [1, 1, 1, 0]
        assert [block.last for block in blocks(lake.store, KEY)] == [100, 200, 300]
        lake.store.put(KEY.document(50, "slept"), b"{}")
        lake.store.put(KEY.document(250, "slept"), b"{}")
        assert Ledger(lake.store, KEY).compact(newest, most=1) == Compacted(0, 1)
        assert Ledger(lake.store, KEY).compact(newest) == Compacted(0, 1)
        assert ledger(lake, newest) == before
        assert list(Ledger(lake.store, KEY).newest_first(newest)) == before[::-1]

    def test_a_failure_is_only_told_and_made_up_for_later(self, lake: Lake) -> None:
        positions = quick(lake)
        opened = positions.open()
        failpoints.arm("state.block.before=raise")
        try:
            while opened.version < 608:
                opened = positions.commit(opened, lake.change(0, 1))
        finally:
            failpoints.arm("")
        notices = [event.text for event in lake.events if isinstance(event, Notice)]
        assert [text for text in notices if "could not gather old documents below position 608" in text]
        assert list(blocks(lake.store, KEY)) == []
        while opened.version < 640:
            opened = positions.commit(opened, lake.change(0, 1))
        assert [block.last for block in blocks(lake.store, KEY)] == [256]

    def test_what_a_run_that_slept_left_behind_is_removed_and_never_shown(self, lake: Lake, newest: Parent) -> None:
        Ledger(lake.store, KEY).compact(newest)
        before = ledger(lake, newest)
        lake.store.put(KEY.document(200, "slept"), b"{}")
        lake.store.put(KEY.won(199, before[198].attempt), b"{}")
        assert ledger(lake, newest) == before
        assert Ledger(lake.store, KEY).compact(newest) == Compacted(0, 2)


class TestAnOlderCopyOfTheTable:
    def test_a_block_above_the_newest_position_stops_compaction(self, lake: Lake, newest: Parent) -> None:
        Ledger(lake.store, KEY).compact(newest)
        with raises(StateError, "ledger/00000000000000000001-00000000000000000256.parquet", "200"):
            Ledger(lake.store, KEY).compact(Parent(200, "x", "y"))

    def test_the_documents_of_another_history_are_not_removed(self, lake: Lake, newest: Parent) -> None:
        Ledger(lake.store, KEY).compact(newest)
        lake.store.put(KEY.document(200, "again"), b"{}")
        lake.store.put(KEY.won(200, "again"), b"{}")
        with raises(StateError, "ledger/00000000000000000001-00000000000000000256.parquet", "position 200"):
            Ledger(lake.store, KEY).compact(newest)
        assert attempts(lake, 200) == {"again"}


class TestGaps:
    def test_a_gap_stays_a_gap_and_keeps_its_objects(self, lake: Lake, newest: Parent) -> None:
        path = KEY.document(40, winner(lake, 40))
        content = lake.store.get(path)
        lake.store.put(path, content[:50])
        before = ledger(lake, newest)
        assert before[39].gap == f"document {path} is damaged"
        Ledger(lake.store, KEY).compact(newest)
        assert ledger(lake, newest) == before
        assert min(versions(lake)) == 40
        assert len(attempts(lake, 40)) == 1
        assert Ledger(lake.store, KEY).compact(newest) == Compacted(0, 0)

    def test_its_document_counts_again_once_it_was_put_back(self, lake: Lake, newest: Parent) -> None:
        complete = ledger(lake, newest)
        path = KEY.document(40, winner(lake, 40))
        content = lake.store.get(path)
        lake.store.delete(path)
        Ledger(lake.store, KEY).compact(newest)
        assert ledger(lake, newest)[39].gap is not None
        lake.store.put(path, content)
        assert ledger(lake, newest) == complete

    def test_positions_of_which_nothing_is_left_become_gaps_of_a_block(self, lake: Lake, newest: Parent) -> None:
        for name in list(documents.names(lake.store, KEY, 1, 300)):
            lake.store.delete(f"{KEY.directory}/{name.version:020d}-{name.attempt}.{name.ending}")
        before = ledger(lake, newest)
        assert [each.version for each in before if each.gap is not None] == list(range(1, 301))
        heads = lake.store
        list(Ledger(heads, KEY).entries(newest=newest))
        assert heads.requests.head == 2
        assert Ledger(lake.store, KEY).compact(newest) == Compacted(1, 0)
        assert ledger(lake, newest) == before

    def test_a_damaged_block_is_a_gap_and_nothing_is_removed_for_it(self, lake: Lake, newest: Parent) -> None:
        lake.store.put(BLOCK, b"PAR1 half a block PAR1")
        objects = {found.path for found in lake.store.list(KEY.directory)}
        with raises(StateError, "ledger/00000000000000000001-00000000000000000256.parquet", "backup"):
            Ledger(lake.store, KEY).compact(newest)
        assert {found.path for found in lake.store.list(KEY.directory)} == objects
        found = ledger(lake, newest)
        assert [each.version for each in found if each.gap is not None] == list(range(1, 257))
        assert "cannot be read" in str(found[0].gap)


class TestTogether:
    def test_two_processes_at_once_write_one_block_and_lose_nothing(self, lake: Lake, newest: Parent) -> None:
        before = ledger(lake, newest)
        with ThreadPoolExecutor(2) as pool:
            done = list(pool.map(lambda _: Ledger(lake.store, KEY).compact(newest), range(2)))
        assert sum(each.blocks for each in done) in (1, 2)
        assert ledger(lake, newest) == before
        assert min(versions(lake)) == 257

    def test_one_that_saw_half_the_documents_does_not_replace_the_block(self, lake: Lake, newest: Parent) -> None:
        before = ledger(lake, newest)
        slow = lake.store
        real, done = slow.get, []

        def interrupted(path: str) -> bytes:
            """While this one reads the first documents, another process does all the work."""
            if len(done) == 20:
                done.append(Ledger(lake.store, KEY).compact(newest))
            elif len(done) < 20:
                done.append(Compacted())
            return real(path)

        slow.get = interrupted  # type: ignore[method-assign]  # another process acts between two requests
        Ledger(slow, KEY).compact(newest)
        assert done[-1].blocks == 1
        assert ledger(lake, newest) == before

    def test_a_reader_goes_on_in_the_block_when_documents_go_away(self, lake: Lake, newest: Parent) -> None:
        before = ledger(lake, newest)
        reader = Ledger(lake.store, KEY).entries(newest=newest)
        found = [next(reader) for _ in range(100)]
        Ledger(lake.store, KEY).compact(newest)
        found.extend(reader)
        assert found == before

    def test_so_does_one_that_reads_backwards(self, lake: Lake, newest: Parent) -> None:
        before = ledger(lake, newest)[::-1]
        reader = Ledger(lake.store, KEY).newest_first(newest)
        found = [next(reader) for _ in range(450)]
        Ledger(lake.store, KEY).compact(newest)
        found.extend(reader)
        assert found == before


class TestOpeningAfterwards:
    def test_the_position_is_read_as_before(self, lake: Lake, newest: Parent) -> None:
        before = quick(lake).open(read_only=True)
        Ledger(lake.store, KEY).compact(newest)
        assert quick(lake).open(read_only=True) == before
        opened = quick(lake).open()
        assert quick(lake).commit(opened, lake.change(0, 1)).version == COMMITS + 1

    def test_a_block_alone_is_a_trace_of_a_forgotten_position(self, lake: Lake, newest: Parent) -> None:
        Ledger(lake.store, KEY).compact(newest)
        for found in list(lake.store.list()):
            if found.path != BLOCK:
                lake.store.delete(found.path)
        with raises(StateError, "p/s", "no table", "fresh start") as stopped:
            quick(lake).open()
        assert BLOCK in stopped.value.problem

    def test_opening_does_not_walk_through_the_blocks(self, lake: Lake, newest: Parent) -> None:
        Ledger(lake.store, KEY).compact(newest)
        for first in range(100_001, 102_000, 256):
            lake.store.put(block_path(KEY, first), b"one of thousands")
        seen: list[str] = []
        store = lake.store
        real = store.list

        def watched(*args: Any, **more: Any) -> Iterator[Any]:
            for found in real(*args, **more):
                seen.append(found.path)
                yield found

        store.list = watched  # type: ignore[method-assign]  # notes what is taken from listings
        PositionStore(TableContext(KEY, IDENTITY, store, QuickDelta(store))).open()
        below = {path for path in seen if path.startswith(KEY.directory)}
        own = {f"{KEY.directory}/{COMMITS:020d}-{newest.attempt}.{ending}" for ending in ("json", "won")}
        assert below == own | {BLOCK}


@pytest.mark.s3
def test_on_a_real_server_it_is_the_same(s3: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("tidegate.protocol.ledger_blocks", "tidegate.protocol.ledger"):
        monkeypatch.setattr(f"{module}.SIZE", 4)
    monkeypatch.setattr("tidegate.protocol.ledger.KEPT", 4)
    lake = Lake(s3.location("lake"))
    positions, other = quick(lake), quick(lake)
    opened = positions.open()
    for version in range(1, 15):
        behind = other.open() if version in (2, 9) else None
        opened = positions.commit(opened, lake.change(version, version + 1))
        if behind is not None:
            with pytest.raises(CommitLost):
                other.commit(behind, lake.change(900, 901))
    drop_note(lake, 7)
    before = ledger(lake, opened.parent)
    assert opened.parent is not None
    assert Ledger(lake.store, KEY).compact(opened.parent) == Compacted(2, 2 * 8)
    assert ledger(lake, opened.parent) == before
    assert list(Ledger(lake.store, KEY).newest_first(opened.parent)) == before[::-1]
    assert min(versions(lake)) == 9
    assert quick(lake).open().version == 14


@pytest.mark.parametrize(
    "place",
    [
        "state.block.before",
        "state.block.after",
        "state.gathered.before",
        "state.gathered.after",
        "state.gathered.after@40",
    ],
)
def test_a_kill_anywhere_in_a_compaction_loses_nothing(lake: Lake, newest: Parent, tmp_path: Path, place: str) -> None:
    before = ledger(lake, newest)
    copy = Lake.local(tmp_path / "table")
    for found in [*lake.store.list(KEY.directory), *lake.store.list(DIRECTORY)]:
        copy.store.put(found.path, lake.store.get(found.path))
    name, _, nth = place.partition("@")
    assert gather(copy, f"{name}=kill@{nth or 1}") == -signal.SIGKILL
    assert ledger(copy, newest) == before
    assert gather(copy) == 0
    assert ledger(copy, newest) == before
    assert min(versions(copy)) == 257
    assert lake.positions(delta=MemoryDelta(copy.store)).open(read_only=True).version == COMMITS


def gather(lake: Lake, points: str = "") -> int:
    return scripts.run(GATHERER, lake.path, failpoints=points)
