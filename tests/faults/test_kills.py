"""A SIGKILL at any named place, then a restart: nothing is lost, nothing is doubled."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.lake import Lake

WORKER = Path(__file__).with_name("worker.py")
SRC = Path(__file__).parents[2] / "src"
EVERY_FAILPOINT = sorted(
    {name for path in SRC.rglob("*.py") for name in re.findall(r'failpoint\("([a-z_.]+)"\)', path.read_text())}
)
NOT_ON_A_FIRST_RUN = {
    "state.cold_start.before",
    "state.cold_start.after",
    "state.columns.before",
    "state.columns.after",
    "state.debt.before",
    "runs.fence.after",
    "runs.orphan.before",
    "state.block.before",
    "state.block.after",
    "state.gathered.before",
    "state.gathered.after",
    "state.set.before",
    "state.set.after",
}
KILLED = -signal.SIGKILL


def work(lake: Lake, failpoints: str = "") -> int:
    env = {**os.environ, "TIDEGATE_FAILPOINTS": failpoints}
    done = subprocess.run([sys.executable, str(WORKER), str(lake.config)], env=env, capture_output=True, timeout=120)
    return done.returncode


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path, sink_settings={"delta_checkpoint_interval": 1})
    for hour in (11, 12):
        for number in range(3):
            lake.arrive(f"date=2026-01-28/hour={hour}/{number}.ndjson.gz")
    return lake


@pytest.mark.parametrize("name", [name for name in EVERY_FAILPOINT if name not in NOT_ON_A_FIRST_RUN])
def test_a_kill_while_the_table_is_made_loses_and_doubles_nothing(lake: Lake, name: str) -> None:
    assert work(lake, f"{name}=kill") == KILLED, f"the failpoint {name} was not reached"
    assert work(lake) == 0
    lake.assert_exactly_once()


@pytest.mark.parametrize("name", [name for name in EVERY_FAILPOINT if name.startswith(("state.", "runs."))][::3])
def test_a_kill_in_a_later_commit_loses_and_doubles_nothing(lake: Lake, name: str) -> None:
    if name in NOT_ON_A_FIRST_RUN:
        pytest.skip("shown by its own test")
    assert work(lake) == 0
    lake.arrive("date=2026-01-28/hour=12/4.ndjson.gz")
    assert work(lake, f"{name}=kill") == KILLED
    lake.arrive("date=2026-01-28/hour=13/1.ndjson.gz")
    assert work(lake) == 0
    lake.assert_exactly_once()


def test_a_kill_before_and_after_a_column_is_added_loses_and_doubles_nothing(lake: Lake) -> None:
    assert work(lake) == 0
    lake.schema = {"fields": [*lake.schema["fields"], {"name": "extra", "type": "string"}]}
    lake.arrive("date=2026-01-28/hour=12/4.ndjson.gz", extra="x")
    for name in ("state.columns.before", "state.columns.after"):
        assert work(lake, f"{name}=kill") in (KILLED, 0)
    assert work(lake) == 0
    lake.assert_exactly_once()
    assert [row["n"] for row in lake.rows("select count(*) as n from t where extra = 'x'")] == [10]


@pytest.mark.parametrize("name", ["state.commit.after", "state.commit.before", "state.document.after"])
def test_an_error_at_the_commit_decides_nothing(lake: Lake, name: str) -> None:
    assert work(lake, f"{name}=raise") in (0, 1)
    assert work(lake) == 0
    lake.assert_exactly_once()


def test_runs_started_together_from_table_creation_on_write_every_row_once(lake: Lake) -> None:
    config = str(lake.config)
    processes = [subprocess.Popen([sys.executable, str(WORKER), config]) for _ in range(4)]
    codes = [process.wait(timeout=120) for process in processes]
    assert codes == [0, 0, 0, 0]
    lake.assert_exactly_once()


def test_a_process_that_slept_through_another_run_commits_nothing_of_its_own(lake: Lake) -> None:
    env = {**os.environ, "TIDEGATE_FAILPOINTS": "runs.commit.before=stop"}
    sleeper = subprocess.Popen([sys.executable, str(WORKER), str(lake.config)], env=env)
    try:
        _, status = os.waitpid(sleeper.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        assert work(lake) == 0
        os.kill(sleeper.pid, signal.SIGCONT)
        assert sleeper.wait(timeout=60) == 0
    finally:
        sleeper.kill()
    lake.assert_exactly_once()
