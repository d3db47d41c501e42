"""Who waits for whom, and threads that carry out passes."""

from __future__ import annotations

import threading
import time

from hypothesis import given
from hypothesis import strategies as st

from tidegate.runs.schedule import Name, PassStop, PassThreads, without_cycles

NAMES = [(letter, "default") for letter in "abcde"]
upstreams = st.fixed_dictionaries({name: st.frozensets(st.sampled_from(NAMES)) for name in NAMES})


@given(upstreams)
def test_everybody_has_a_turn_and_waits_only_for_what_is_upstream(upstream: dict[Name, frozenset[Name]]) -> None:
    waits = without_cycles(upstream, NAMES)
    assert all(waits[name] <= upstream[name] for name in NAMES)
    done: list[Name] = []
    while free := [name for name in NAMES if name not in done and waits[name] <= set(done)]:
        done.append(free[0])
    assert sorted(done) == NAMES


@given(upstreams)
def test_without_a_circle_everybody_waits_for_all_that_is_upstream(upstream: dict[Name, frozenset[Name]]) -> None:
    later = {name: frozenset(each for each in upstream[name] if each < name) for name in NAMES}
    assert without_cycles(later, NAMES[::-1]) == later


def test_a_pass_knows_at_once_that_the_run_ends() -> None:
    run = threading.Event()
    stop = PassStop(run)
    assert (stop.is_set(), stop.wait(0)) == (False, False)
    run.set()
    assert (stop.is_set(), stop.wait(0), stop.is_overdue) == (True, True, False)


def test_threads_are_kept_for_later_passes_and_end_with_the_run() -> None:
    seen: set[str] = set()

    def work(stop: PassStop) -> int:
        seen.add(str(threading.get_ident()))
        return 1

    with PassThreads[int](2, threading.Event()) as threads:
        for number in range(6):
            threads.begin(("p", str(number)), work)
            ended = threads.wait(10)
            assert ended is not None
            assert (ended.name, ended.result) == (("p", str(number)), 1)
            time.sleep(0.01)
        before = threading.active_count()
    assert len(seen) <= 2
    until = time.monotonic() + 10
    while threading.active_count() >= before and time.monotonic() < until:
        time.sleep(0.01)
    assert threading.active_count() < before
