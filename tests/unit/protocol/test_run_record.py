"""Counters of runs reach the record once, however often a pass is kept for a later one."""

from __future__ import annotations

from datetime import UTC, datetime

from support.metrics import Clock
from tidegate.core.health import Outcome
from tidegate.core.run_history import PastRun
from tidegate.errors import StorageError
from tidegate.protocol.change import SourceKey
from tidegate.protocol.run_record import RunRecorder, read_history
from tidegate.specs.locations import Location
from tidegate.storage.memory import MemoryStore, Space

LAKE = Location("memory://lake")
KEY = SourceKey("events", "asia")
NOW = datetime(2026, 1, 28, tzinfo=UTC)
RUN = PastRun("1", NOW, NOW, Outcome.SUCCEEDED)
ONE = {"late_files_total": 3.0, "runs_total.succeeded": 1.0}


def test_counters_wait_with_their_pass_and_are_recorded_once() -> None:
    store, clock = MemoryStore(LAKE, Space()), Clock()
    recorder = RunRecorder(60, clock)
    for _ in range(3):
        history, problem = recorder.note(store, KEY, RUN, ONE)
        assert problem is None
    assert history.totals["late_files_total"] == 9
    assert read_history(store, KEY).totals["late_files_total"] == 3
    clock.now += 60
    recorder.note(store, KEY, RUN, ONE)
    recorder.flush()
    found = read_history(store, KEY).totals
    assert (found["late_files_total"], found["runs_total.succeeded"], found["times"]) == (12, 4, 4)


def test_a_second_process_adds_to_what_the_first_recorded() -> None:
    store = MemoryStore(LAKE, Space())
    for _ in range(2):
        RunRecorder().note(store, KEY, RUN, ONE)
    assert read_history(store, KEY).totals["runs_total.succeeded"] == 2


def test_counters_outlive_a_record_that_could_not_be_written() -> None:
    class Refusing(MemoryStore):
        refuses = True

        def put(self, path: str, data: bytes) -> None:
            if self.refuses:
                raise StorageError("full", "make room")
            super().put(path, data)

    store, recorder = Refusing(LAKE, Space()), RunRecorder()
    assert recorder.note(store, KEY, RUN, ONE)[1] is not None
    store.refuses = False
    recorder.note(store, KEY, RUN, ONE)
    assert read_history(store, KEY).totals["late_files_total"] == 6
