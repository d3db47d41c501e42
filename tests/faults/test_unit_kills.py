"""Work units under SIGKILL and races: between units, within one, between data and commit, two runs at once."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from servers.api import Answer, Asked
from support import scripts
from support.long_runs import chosen
from support.unit_lake import SurveyLake, day, survey_lake
from tidegate.observe import events
from tidegate.runs.loop import Running
from tidegate.runs.presence import Courtesy

WORKER = Path(__file__).with_name("unit_worker.py")
PLACES = (
    "runs.planned",
    "sink.upload.after",
    "runs.read",
    "runs.commit.before",
    "state.commit.before",
    "state.commit.after",
    "state.debt.before",
    "runs.commit.after",
)
TWO_AT_A_TIME = {"group_units": 2}


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[SurveyLake]:
    """Three units of two months, in groups of two, with grace: the second run replaces rows."""
    with survey_lake(tmp_path, source_settings={"grace_period_days": 3}, work_unit=TWO_AT_A_TIME) as found:
        found.arrive("a", "01-05", "02-18", "02-20")
        found.arrive("b", "01-31", "02-19")
        found.arrive("c", "01-01", "02-20")
        yield found


def start(lake: SurveyLake, now: str, failpoints: str = "") -> scripts.Process:
    return scripts.start(WORKER, lake.config, now, failpoints=failpoints)


def work(lake: SurveyLake, now: str, failpoints: str = "") -> int:
    """One run in a process of its own; its exit code, negative for the signal that ended it."""
    return start(lake, now, failpoints).wait(timeout=120)


@pytest.mark.parametrize(
    "place",
    chosen(PLACES, "sink.upload.after", "runs.read", "state.commit.before", "state.commit.after", "state.debt.before"),
)
def test_a_kill_loses_and_doubles_nothing(lake: SurveyLake, place: str) -> None:
    """On the first run in its second group, on the next one, which replaces rows, in the first."""
    if place not in ("runs.planned", "state.debt.before"):
        assert work(lake, "02-21", f"{place}=kill@2") == -signal.SIGKILL, f"the failpoint {place} was not reached"
    assert lake.run("02-21").ok
    lake.assert_exactly_once()
    lake.arrive("a", "02-19", "02-21")
    lake.records["b"].pop()
    assert work(lake, "02-22", f"{place}=kill") == -signal.SIGKILL, f"the failpoint {place} was not reached"
    lake.ran("02-22")
    lake.assert_exactly_once()


def test_a_kill_in_the_middle_of_a_unit_leaves_it_for_the_next_run(lake: SurveyLake) -> None:
    answer = lake.api.routes["/surveys/b/responses"]
    doomed: list[scripts.Process] = []

    def deadly(asked: Asked) -> Answer:
        os.kill(doomed[0].pid, signal.SIGKILL)
        return answer(asked)

    lake.api.routes["/surveys/b/responses"] = deadly
    lake.work_unit = {"group_units": 1}
    doomed.append(start(lake, "02-21"))
    assert doomed[0].wait(timeout=120) == -signal.SIGKILL
    assert lake.ids() == [each["id"] for each in lake.records["a"] if each["at"] < "2020-01-29"]
    lake.api.routes["/surveys/b/responses"] = answer
    lake.ran("02-21")
    lake.assert_exactly_once()


@pytest.mark.parametrize("policy", [None, "race"])
def test_runs_started_together_write_every_row_once(lake: SurveyLake, policy: str | None) -> None:
    lake.pipeline = {} if policy is None else {"on_conflict": policy}
    processes = [start(lake, "02-21") for _ in range(3)]
    assert [process.wait(timeout=120) for process in processes] == [0, 0, 0]
    lake.assert_exactly_once()
    lake.arrive("a", "02-21")
    processes = [start(lake, "02-22") for _ in range(2)]
    assert [process.wait(timeout=120) for process in processes] == [0, 0]
    lake.assert_exactly_once()


def slow_months(lake: SurveyLake) -> None:
    """A server that takes its time for each of six requests, one to a commit."""
    lake.source_settings, lake.work_unit, lake.wait = {}, {"group_units": 1}, 0.15


def test_a_second_run_asks_for_nothing_that_the_first_is_at(lake: SurveyLake) -> None:
    slow_months(lake)
    processes = [start(lake, "02-21") for _ in range(2)]
    assert [process.wait(timeout=120) for process in processes] == [0, 0]
    assert set(Counter(lake.asked()).values()) == {1}
    lake.assert_exactly_once()


def test_a_run_that_skips_leaves_everything_to_the_other(lake: SurveyLake) -> None:
    """It says so, and that is no failure."""
    slow_months(lake)
    lake.pipeline = {"on_conflict": "skip"}
    begun = threading.Event()
    answer = lake.api.routes["/surveys/a/responses"]

    def first(asked: Asked) -> Answer:
        begun.set()
        return answer(asked)

    lake.api.routes["/surveys/a/responses"] = first
    other = start(lake, "02-21")
    assert begun.wait(120)
    report = lake.ran("02-21")
    assert (report.state, dict(report.skipped), report.rows) == ("Skipped", {"another_run": 1}, 0)
    assert other.wait(timeout=120) == 0
    assert set(Counter(lake.asked()).values()) == {1}
    lake.assert_exactly_once()


@pytest.mark.parametrize("is_here", [True, False], ids=["on this machine", "on another machine"])
def test_the_note_of_a_killed_run_locks_nobody_out(lake: SurveyLake, is_here: bool) -> None:
    """On the same machine it is known that the process is gone; of another the note is worth nothing once it is old."""
    assert work(lake, "02-21", "runs.read=kill@2") == -signal.SIGKILL
    note = lake.root / "lake" / "responses" / "_tidegate" / "responses" / "default.at-work.json"
    left = json.loads(note.read_text())
    assert left["process"]
    courtesy = Courtesy()
    if not is_here:
        note.write_text(json.dumps({**left, "process": f"elsewhere {left['process'].split()[1]} 1"}))
        courtesy = Courtesy(worthless_secs=0.0)
    project = lake.project
    running = Running(project, lake.lane(), 1, lake.seen.append, clock=lambda: day("02-21"), courtesy=courtesy)
    assert running.once(project.pipelines).ok
    assert not note.exists()
    assert any("did not end properly" in each.text for each in lake.seen if isinstance(each, events.Notice))
    lake.assert_exactly_once()
