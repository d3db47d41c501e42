from __future__ import annotations

import threading

import pytest

from tidegate.errors import RunStopped
from tidegate.sources.connection_slots import connection_slots
from tidegate.specs.columns import FunctionRead, JdbcRead

READ = JdbcRead("jdbc:postgresql://db/slots", "shop", table="t", max_connections=2)


def wait_for(read: JdbcRead, begun: threading.Event, wanted: int = 1) -> threading.Thread:
    def take() -> None:
        with connection_slots(read) as slots:
            slots.resize(wanted)
            begun.set()

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    return thread


def test_a_read_waits_until_another_is_done() -> None:
    begun = threading.Event()
    with connection_slots(READ), connection_slots(READ):
        thread = wait_for(READ, begun)
        assert not begun.wait(0.3)
    assert begun.wait(5)
    thread.join(5)


def test_a_read_over_several_connections_takes_them_all_at_once_and_no_more_than_there_are() -> None:
    begun = threading.Event()
    with connection_slots(READ):
        thread = wait_for(READ, begun, wanted=9)
        assert not begun.wait(0.3)
    assert begun.wait(5)
    thread.join(5)
    with connection_slots(READ) as slots:
        slots.resize(9)
        slots.release()
        with connection_slots(READ), connection_slots(READ):
            pass


def test_a_run_that_is_stopped_waits_no_longer() -> None:
    stop = threading.Event()
    with connection_slots(READ), connection_slots(READ):
        stop.set()
        with pytest.raises(RunStopped), connection_slots(READ, stop):
            pass
    with connection_slots(READ, stop):
        pass


def test_another_database_and_a_read_without_a_limit_need_no_slot() -> None:
    other = JdbcRead("jdbc:postgresql://db/other", "shop", table="t", max_connections=1)
    free = JdbcRead("jdbc:postgresql://db/slots", "shop", table="t")
    with connection_slots(READ), connection_slots(READ), connection_slots(other):
        for read in (free, free, FunctionRead("a:b"), None):
            with connection_slots(read) as slots:
                slots.resize(5)
