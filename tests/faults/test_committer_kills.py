"""K3 to K8 and K13 for the committer: wherever it ends, what was staged becomes visible once, all of it or nothing.

Two pipelines write into one table; one of their units brings a bad line, one is rejected, and a foreign writer left a
file. Each case makes one real committer fail at one failpoint in one way; then a restart brings the rest.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from faults.failing import ENDS, go_on, stopped
from faults.worker import FINE, SURVIVED
from support.lake import FIELDS, Lake
from support.staging import commit, pending, rejected
from support.streaming import streaming
from tidegate import list_letters
from tidegate.experiments.workers import Workers
from tidegate.failpoints import WAYS
from tidegate.observe import events
from tidegate.protocol.position import utc_now

BEFORE = (
    "staging.commit.listed",
    "staging.commit.before",
    "state.document.before",
    "state.document.after",
    "state.columns.before",
    "state.columns.after",
    "state.commit.before",
)
AFTER = (
    "state.commit.after",
    "state.resolve.before",
    "state.done.before",
    "state.won.before",
    "state.won.after",
    "state.debt.before",
    "state.letters.before",
    "state.letters.after",
    "staging.clear.before",
    "staging.clear.rejected",
    "staging.clear.metas",
    "staging.clear.after",
    "state.mirror.before",
    "state.mirror.after",
    "state.checkpoint.before",
)
IN_EVERY_WAY = {*(place for place in (*BEFORE, *AFTER) if place.startswith("staging.")), "state.commit.after"}
CASES = [
    pytest.param(place, way, id=f"{place}-{way}")
    for place in (*BEFORE, *AFTER)
    for way in (WAYS if place in IN_EVERY_WAY else ("kill",))
]


@pytest.fixture(scope="module")
def committers() -> Iterator[Workers]:
    """Processes that do ``faults.committer.work``."""
    with Workers("faults.committer:work", str(Path(__file__).parents[1])) as workers:
        yield workers


def pipeline(folder: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "source": {"source_uri": folder, "use_watermark": True},
        "schema": {"fields": fields},
        "sink": {"table_uri": "lake/events", "delta_checkpoint_interval": 1},
        "delivery": "staged",
    }


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    (tmp_path / "more").mkdir()
    lake = Lake(tmp_path)
    set_up(lake, [dict(field) for field in FIELDS])
    return lake


def set_up(lake: Lake, fields: list[dict[str, Any]]) -> None:
    lake.settings = {"pipelines": {"events": pipeline("data/", fields), "more": pipeline("more/", FIELDS)}}


def work(committers: Workers, lake: Lake, failpoints: str = "") -> int:
    return committers.wait(committers.start({"config": str(lake.config), "failpoints": failpoints}))


def foreign(lake: Lake) -> None:
    """A file of a foreign writer, with its meta."""
    number = lake.next_id
    lake.next_id += 1
    lake.expected.append(number)
    target = lake.root / "lake/events/foreign.parquet"
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    pq.write_table(pa.table({"id": [number]}, schema=columns), target)
    told = {"filename": target.name, "size": target.stat().st_size, "record_count": 1, "source_file": None}
    (pending(lake) / "foreign.meta.json").write_text(json.dumps(told))


def stage_everything(lake: Lake) -> list[int]:
    """Good units of two pipelines, a bad line, a unit that will be rejected, a foreign file; the ids it will lack."""
    lake.arrive("d=1/1.ndjson")
    lake.arrive("../more/1.ndjson")
    assert lake.run().ok
    lake.write("d=1/2.ndjson", '{"id": "bad"}\n')
    assert lake.run().ok
    late = list(range(lake.next_id, lake.next_id + 10))
    lake.arrive("d=1/3.ndjson")
    assert lake.run().ok
    path = max((pending(lake) / "events/default").iterdir())
    path.write_text(json.dumps(json.loads(path.read_text()) | {"rows": 1}))
    lake.arrive("d=1/4.ndjson")
    assert lake.run().ok
    foreign(lake)
    return late


@pytest.mark.parametrize(("place", "way"), CASES)
def test_nothing_is_lost_or_doubled(committers: Workers, lake: Lake, place: str, way: str) -> None:
    with streaming(lake) as stream:
        lake.arrive("d=1/0.ndjson")
        lake.arrive("../more/0.ndjson")
        assert lake.run().ok
        commit(lake)
        before = lake.ids()
        if "columns" in place:
            set_up(lake, [*(dict(field) for field in FIELDS), {"name": "extra", "type": "string"}])
        late = stage_everything(lake)
        ended = work(committers, lake, f"{place}={way}")
        assert ended in ENDS[way], f"{place} was not reached, or ended otherwise: {committers.last_lines()}"
        all_of_it = sorted(set(lake.expected) - set(late))
        assert lake.ids() == (all_of_it if place in AFTER or ended == SURVIVED else before)
        assert commit(lake).error is None
        assert lake.ids() == all_of_it
        assert lake.run().ok
        commit(lake)
        stream.assert_exactly_once()
    assert_nothing_waits(lake)


def assert_nothing_waits(lake: Lake) -> None:
    """Everything was taken away, the rejected unit put aside, and the bad line became one dead letter."""
    assert [path.name for path in pending(lake).rglob("*") if path.is_file()] == []
    assert len([name for name in rejected(lake) if name.endswith(".unit.json")]) == 1
    assert len([name for name in rejected(lake) if name.endswith(".reason.json")]) == 1
    assert [letter.text for letter in list_letters(lake.config, "events")] == ['{"id": "bad"}']


@pytest.mark.parametrize("place", ["staging.commit.listed", "staging.commit.before", "state.commit.before"])
def test_a_committer_that_slept_through_another_commits_nothing_of_its_own(
    committers: Workers, lake: Lake, place: str
) -> None:
    with streaming(lake) as stream:
        stage_everything(lake)
        sleeper = stopped(committers, lake, place)
        commit(lake)
        assert lake.run().ok
        assert go_on(committers, sleeper) in (FINE, SURVIVED)
        commit(lake)
        stream.assert_exactly_once()
    assert_nothing_waits(lake)


def test_a_killed_committer_leaves_no_dead_letter_behind(committers: Workers, lake: Lake) -> None:
    """Although no further unit of its source comes: whoever clears up after the commit pays for that first."""
    lake.arrive("d=1/1.ndjson")
    lake.write("d=1/2.ndjson", '{"id": "bad"}\n')
    assert lake.run().ok
    assert work(committers, lake, "state.letters.before=kill") == -signal.SIGKILL
    assert list_letters(lake.config, "events") == ()
    commit(lake)
    assert len(list_letters(lake.config, "events")) == 1
    lake.assert_exactly_once()


def test_k13_units_that_wait_for_long_are_told_and_vacuumed_files_are_read_again(lake: Lake) -> None:
    from deltalake import DeltaTable

    lake.arrive("d=1/0.ndjson")
    assert lake.run().ok
    commit(lake)
    table = DeltaTable(lake.table.uri)
    table.alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 2 days"})
    lake.arrive("d=1/1.ndjson")
    lake.arrive("../more/1.ndjson")
    assert lake.run().ok
    table = DeltaTable(lake.table.uri)
    old = (utc_now() - timedelta(days=3)).timestamp()
    for file in table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=True, full=True):
        os.utime(lake.root / "lake/events" / file, (old, old))
    assert len(table.vacuum(dry_run=False, full=True)) == 2
    later = commit(lake, clock=lambda: utc_now() + timedelta(hours=25))
    assert later.aging == 2
    assert len(later.rejected) == 2
    told = [event.text for event in lake.seen if isinstance(event, events.Notice)]
    assert len([text for text in told if "VACUUM" in text]) == 2
    assert lake.run().ok
    commit(lake)
    lake.assert_exactly_once()
