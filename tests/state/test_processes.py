"""Real processes: killed at every named place, and racing for one table from its creation on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from state import racer
from state.lake import Lake
from state.racing import died, finished, start
from tidegate.failpoints import PLACES

pytestmark = pytest.mark.slow

SHOWN_ELSEWHERE = (
    "state.set.",
    "state.block.",
    "state.gathered.",
    "state.properties.",
    "state.rewrite.",
    "state.provider.",
)
FAILPOINTS = [place for place in PLACES if place.startswith("state.") and not place.startswith(SHOWN_ELSEWHERE)]


def test_a_kill_at_any_place_changes_nothing_about_exactly_once(tmp_path: Path) -> None:
    """One process per failpoint dies there; the same work done again completes it, once."""
    lakes = {place: Lake.local(tmp_path / place) for place in FAILPOINTS}
    for batch in (FAILPOINTS[index : index + 4] for index in range(0, len(FAILPOINTS), 4)):
        processes = {place: start(lakes[place], f"{place}=kill", everything=True) for place in batch}
        for place, process in processes.items():
            assert died(process), f"{place} was never reached"
    for place, lake in lakes.items():
        racer.everything(lake)
        opened = lake.positions(payers=lake.letter_payers()).open()
        assert [letter.text for letter in lake.letters().open_letters("p")] == ["bad line"], place
        assert (opened.version, opened.state) == (2, {"next": 4}), place
        assert lake.ids() == [0, 1, 2, 3], place
        mirror = json.loads(lake.store.get("_tidegate/p_s_checkpoint.json"))
        assert mirror["tidegate"]["version"] == 2, place
        notes = [item.path for item in lake.store.list("_tidegate/p/s") if item.path.endswith(".won")]
        assert len(notes) == 2, place


def test_runs_of_one_source_started_at_once_bring_every_record_once(tmp_path: Path) -> None:
    lake = Lake.local(tmp_path / "table")
    moment = time.time() + 3
    processes = [start(lake, records=12, batch=batch, start_at=moment) for batch in (1, 2, 3)]
    outcomes = [finished(process) for process in processes]
    assert lake.ids() == list(range(12))
    assert all(outcome["lost"] >= 0 for outcome in outcomes)


def test_two_sources_create_the_table_at_once_and_both_are_in(tmp_path: Path) -> None:
    for number in range(2):
        lake = Lake.local(tmp_path / f"table{number}")
        moment = time.time() + 2
        processes = [start(lake, source=source, records=2, batch=2, start_at=moment) for source in ("a", "b")]
        assert [finished(process)["lost"] for process in processes] == [0, 0]
        assert lake.ids("a") == [0, 1]
        assert lake.ids("b") == [0, 1]


def test_status_imports_neither_delta_nor_arrow(tmp_path: Path) -> None:
    code = (
        "import sys, tidegate.protocol.store, tidegate.protocol.open, tidegate.protocol.delta;"
        "print([name for name in ('deltalake', 'pyarrow', 'obstore', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout.strip() == "[]"


def test_recorded_positions_are_read_without_delta(tmp_path: Path) -> None:
    lake = Lake.local(tmp_path / "table")
    racer.everything(lake)
    code = (
        "import sys\n"
        "from tidegate.specs.locations import Location\n"
        "from tidegate.protocol.change import SourceKey\n"
        "from tidegate.protocol.documents import read_recorded\n"
        "from tidegate.storage.stores import open_store\n"
        "found = read_recorded(open_store(Location(sys.argv[1])), SourceKey('p', 's'))\n"
        "print(found.version, found.state, found.shown_by, 'deltalake' in sys.modules, 'pyarrow' in sys.modules)\n"
    )
    command = [sys.executable, "-c", code, lake.location.uri]
    done: Any = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "2 {'next': 4} mirror False False"
