"""A SIGKILL at any named place, in the first commit and in a later one, then a restart: nothing is lost or doubled."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from faults.failing import KILLED, work
from support.commit_counts import many_small_files
from support.lake import Lake
from tidegate.experiments.workers import Workers
from tidegate.failpoints import PLACES

NOT_ON_A_FIRST_RUN = {
    "state.cold_start.before",
    "state.cold_start.after",
    "state.columns.before",
    "state.columns.after",
    "state.debt.before",
    "state.provider.before",
    "state.provider.after",
    "state.letters.before",
    "state.letters.after",
    "runs.fence.after",
    "runs.orphan.before",
    "state.block.before",
    "state.block.after",
    "state.gathered.before",
    "state.gathered.after",
    "state.set.before",
    "state.set.after",
    "state.properties.before",
    "state.properties.after",
    "state.rewrite.before",
    "state.rewrite.after",
}
REACHED = [place for place in PLACES if place not in NOT_ON_A_FIRST_RUN and not place.startswith("staging.")]
"""Those of staged delivery are killed in ``test_staged_kills`` and ``test_committer_kills``."""


@pytest.mark.parametrize("place", REACHED)
def test_a_kill_while_the_table_is_made_loses_and_doubles_nothing(workers: Workers, lake: Lake, place: str) -> None:
    assert work(workers, lake, f"{place}=kill") == KILLED, f"the failpoint {place} was not reached"
    assert lake.run().ok
    lake.assert_exactly_once()


def test_a_kill_in_a_later_commit_loses_and_doubles_nothing(workers: Workers, lake: Lake) -> None:
    """One table lives through a kill at every place, one after the other."""
    assert lake.run().ok
    for number, place in enumerate(REACHED):
        lake.arrive(f"date=2026-01-28/hour=12/{number + 4}.ndjson.gz", records=2)
        assert work(workers, lake, f"{place}=kill") == KILLED, f"the failpoint {place} was not reached"
        lake.arrive(f"date=2026-01-28/hour=13/{number}.ndjson.gz", records=2)
        assert lake.run().ok
        lake.assert_exactly_once()


def test_a_kill_before_and_after_a_column_is_added_loses_and_doubles_nothing(workers: Workers, lake: Lake) -> None:
    assert lake.run().ok
    for number, place in enumerate(("state.columns.before", "state.columns.after")):
        name = f"extra{number}"
        lake.schema = {"fields": [*lake.schema["fields"], {"name": name, "type": "string"}]}
        lake.arrive(f"date=2026-01-28/hour=12/{number + 4}.ndjson.gz", **{name: "x"})
        assert work(workers, lake, f"{place}=kill") == KILLED
        assert lake.run().ok
        lake.assert_exactly_once()
        assert [row["n"] for row in lake.rows(f"select count(*) as n from t where {name} = 'x'")] == [10]


@pytest.mark.parametrize("task", [1, 2, 4])
def test_a_kill_repeats_at_most_the_limit_and_what_was_under_way(workers: Workers, tmp_path: Path, task: int) -> None:
    """A commit is due after ten files, and one task of ten is under way."""
    lake = many_small_files(tmp_path, 25, interval_files=10)
    assert work(workers, lake, f"sink.file.before=kill@{task * 6}") == KILLED
    read = task * 6
    committed = _files_committed(lake)
    assert read - committed <= 10 + 10
    assert lake.run().sources[0].files == 25 - committed
    lake.assert_exactly_once()


def _files_committed(lake: Lake) -> int:
    mirror = lake.root / "lake/events/_tidegate/events_default_checkpoint.json"
    if not mirror.exists():
        return 0
    last = json.loads(mirror.read_text())["source_state"]["last_committed_file"]
    return int(last.rpartition("/")[2].split(".")[0]) - 1769600000 + 1
