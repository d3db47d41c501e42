"""Runs of one source that make way for each other, on every store: disk, memory, an S3 server, emulated clouds."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from contract.storage_cases import REMOTE
from support.errors import raises
from tidegate.errors import RunStopped, StorageError
from tidegate.observe import events
from tidegate.protocol import documents, log
from tidegate.protocol.change import SourceKey
from tidegate.runs.presence import Courtesy, Note, claim_source, note_of
from tidegate.specs.locations import Location
from tidegate.specs.project import OnConflict
from tidegate.storage import memory
from tidegate.storage.options import absolute_uri
from tidegate.storage.port import ObjectStore
from tidegate.storage.stores import open_store

KEY = SourceKey("responses", "api")
QUICK = Courtesy(renew_secs=0.02, look_secs=0.02, worthless_secs=600.0)
ELSEWHERE = Note("another", "2026-01-28T10:00:00Z", "another-machine 1 1")
KINDS = ["local", "memory", *REMOTE]


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    match request.param:
        case "local":
            yield open_store(Location(absolute_uri(str(tmp_path / "table"), tmp_path)))
        case "memory":
            name = uuid.uuid4().hex
            yield open_store(Location(f"memory://{name}/table"))
            memory.forget(name)
        case _:
            yield open_store(request.getfixturevalue(request.param).location("table"))


class Run:
    """One run of the source, with what it told."""

    def __init__(self, store: ObjectStore, policy: OnConflict = OnConflict.WAIT, courtesy: Courtesy = QUICK) -> None:
        self.told: list[events.Event] = []
        self.heard = threading.Event()
        self.stop = threading.Event()
        self.entered = claim_source(store, KEY, policy, self._hear, self.stop, courtesy)

    def _hear(self, event: events.Event) -> None:
        self.told.append(event)
        self.heard.set()

    @property
    def texts(self) -> list[str]:
        return [each.text for each in self.told if isinstance(each, events.Notice)]


def test_a_note_is_there_while_a_run_is_at_work_and_gone_afterwards(store: ObjectStore) -> None:
    with Run(store).entered as free:
        assert free
        assert note_of(store, KEY) is not None
    assert note_of(store, KEY) is None
    assert list(store.list()) == []


def test_nothing_else_takes_the_note_for_something_of_its_own(store: ObjectStore) -> None:
    store.put(KEY.at_work, ELSEWHERE.to_bytes())
    assert list(documents.names(store, KEY)) == []
    assert log.find_trace(store, KEY, None) is None
    assert log.sources_of(store) == frozenset()


def test_another_run_waits_until_the_first_is_done(store: ObjectStore) -> None:
    order: list[str] = []
    second = Run(store)

    def work() -> None:
        with second.entered as free:
            order.append(f"second {free}")

    waiting = threading.Thread(target=work)
    with Run(store).entered:
        waiting.start()
        assert second.heard.wait(60)
        order.append("first is done")
    waiting.join(60)
    assert order == ["first is done", "second True"]
    (told,) = second.told
    assert isinstance(told, events.AnotherRun)
    assert told.decision == "wait"


def test_another_run_skips_the_source(store: ObjectStore) -> None:
    second = Run(store, OnConflict.SKIP)
    with Run(store).entered:
        with second.entered as free:
            assert not free
        assert note_of(store, KEY) is not None
    assert [type(each) for each in second.told] == [events.AnotherRun]


def test_a_race_neither_asks_nor_says_anything(store: ObjectStore) -> None:
    store.put(KEY.at_work, ELSEWHERE.to_bytes())
    racing = Run(store, OnConflict.RACE)
    with racing.entered as free:
        assert free
    assert racing.told == []
    assert store.get(KEY.at_work) == ELSEWHERE.to_bytes()


def test_a_stop_ends_the_wait(store: ObjectStore) -> None:
    store.put(KEY.at_work, ELSEWHERE.to_bytes())
    waiting = Run(store)
    waiting.stop.set()
    with raises(RunStopped, "waiting", "another run"), waiting.entered:
        pytest.fail("the other run is still at work")
    assert store.get(KEY.at_work) == ELSEWHERE.to_bytes()


@pytest.mark.parametrize("policy", [OnConflict.WAIT, OnConflict.SKIP])
def test_a_note_that_is_old_by_the_clock_of_the_store_is_worth_nothing(store: ObjectStore, policy: OnConflict) -> None:
    """Whatever the clocks of machines say; of a crash nothing is left that would lock anybody out."""
    store.put(KEY.at_work, ELSEWHERE.to_bytes())
    later = Run(store, policy, replace(QUICK, worthless_secs=0.0))
    with later.entered as free:
        assert free
        assert note_of(store, KEY) != ELSEWHERE
    assert "2026-01-28T10:00:00Z did not end properly" in later.texts[0]


def test_a_note_that_nobody_renews_is_worth_nothing_after_a_while(store: ObjectStore) -> None:
    store.put(KEY.at_work, b"damaged")
    later = Run(store, courtesy=replace(QUICK, worthless_secs=1.5))
    with later.entered as free:
        assert free
    assert [type(each) for each in later.told] == [events.AnotherRun, events.Notice]


def test_a_note_that_is_renewed_keeps_its_worth(store: ObjectStore) -> None:
    """It is looked at many times after the age from which on it would be worth nothing."""
    second = Run(store, courtesy=replace(QUICK, worthless_secs=2.5))
    with Run(store).entered:
        before = store.get(KEY.at_work)
        threading.Timer(4.0, second.stop.set).start()
        with pytest.raises(RunStopped), second.entered:
            pytest.fail("the first run is still at work")
        assert store.get(KEY.at_work) != before


def test_a_run_that_was_taken_for_dead_leaves_the_note_of_the_other_alone(store: ObjectStore) -> None:
    first = Run(store)
    with first.entered:
        store.put(KEY.at_work, ELSEWHERE.to_bytes())
    assert store.get(KEY.at_work) == ELSEWHERE.to_bytes()
    assert first.told == []


def test_a_note_that_somebody_removed_is_put_again(store: ObjectStore) -> None:
    with Run(store).entered:
        store.delete(KEY.at_work)
        ended = time.monotonic() + 60
        while note_of(store, KEY) is None:
            assert time.monotonic() < ended
    assert note_of(store, KEY) is None


@pytest.mark.parametrize("verb", ["put_if_absent", "put"])
def test_a_store_that_takes_no_note_is_told_once_and_the_run_goes_on(
    verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(Location(f"memory://{uuid.uuid4().hex}/table"))
    refused = threading.Event()

    def refuse(path: str, data: bytes) -> None:
        refused.set()
        raise StorageError(f"{path}: forbidden")

    monkeypatch.setattr(store, verb, refuse)
    run = Run(store)
    with run.entered as free:
        assert free
        assert refused.wait(60)
    (text,) = run.texts
    assert "forbidden" in text
    assert "going on" in text


def test_who_polls_does_not_wait_and_looks_again_at_the_next_poll(store: ObjectStore) -> None:
    store.put(KEY.at_work, ELSEWHERE.to_bytes())
    polling = replace(QUICK, waits=False)
    with Run(store, courtesy=polling).entered as free:
        assert not free
    store.delete(KEY.at_work)
    with Run(store, courtesy=polling).entered as free:
        assert free
