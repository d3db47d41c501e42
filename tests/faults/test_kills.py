"""A SIGKILL at any named place, in the first commit and in a later one, then a restart: nothing is lost or doubled."""

from __future__ import annotations

import signal

import pytest

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
KILLED = -signal.SIGKILL
REACHED = [place for place in PLACES if place not in NOT_ON_A_FIRST_RUN and not place.startswith("staging.")]
"""Those of staged delivery are killed in ``test_staged_kills`` and ``test_committer_kills``."""


def work(workers: Workers, lake: Lake, failpoints: str = "") -> int:
    return workers.wait(workers.start({"config": str(lake.config), "failpoints": failpoints}))


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
