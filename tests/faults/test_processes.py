"""Several processes on one table: the same pipeline, different pipelines, writers of others, and one that slept."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.racing import polling
from support import scripts
from support.lake import Lake
from tidegate.protocol.change import SourceKey
from tidegate.protocol.delta import query
from tidegate.protocol.log import DeltaLog
from tidegate.specs.locations import Location
from tidegate.storage.stores import open_store

WORKER = Path(__file__).with_name("worker.py")
KEY = SourceKey("events", "default")


@contextlib.contextmanager
def started(config: Path, failpoints: str = "") -> Iterator[scripts.Process]:
    """One run in a process of its own, which does not outlive the block."""
    process = scripts.start(WORKER, config, failpoints=failpoints)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def moves(lake: Lake, key: SourceKey = KEY) -> list[tuple[int, str]]:
    """Every commit of the source in the table's log: its position and the attempt that made it."""
    entries = DeltaLog(open_store(lake.table)).tail(0)
    marks = (entry.tag_of(key) for entry in entries)
    return [(mark.version, mark.attempt) for mark in marks if mark is not None]


def attempts(lake: Lake) -> set[str]:
    """Every attempt that wrote a document."""
    found = open_store(lake.table).list(KEY.directory)
    return {item.path.rpartition("/")[2][21:].removesuffix(".json") for item in found if item.path.endswith(".json")}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path, sink_settings={"delta_checkpoint_interval": 2})
    for number in range(3):
        lake.arrive(f"date=2026-01-28/hour=11/{number}.ndjson.gz")
    return lake


@pytest.mark.slow
def test_runs_of_one_pipeline_started_together_write_every_row_once_from_table_creation_on(
    lake: Lake, tmp_path: Path
) -> None:
    with polling(tmp_path / "race", *[lake.config] * 4):
        for number in range(20):
            lake.arrive(f"date=2026-01-28/hour={12 + number // 10}/{number:02d}.ndjson.gz")
            time.sleep(0.05)
    lake.assert_exactly_once()
    positions = [position for position, _ in moves(lake)]
    assert positions == list(range(1, len(positions) + 1)), "each position is taken once, in order"
    assert len(positions) > 1


@pytest.mark.slow
def test_a_long_run_that_is_overtaken_plans_again_and_doubles_nothing(lake: Lake) -> None:
    assert lake.run().ok
    lake.arrive("date=2026-01-28/hour=12/1.ndjson.gz")
    with started(lake.config, "runs.read=stop") as slow:
        slow.wait_until_stopped()
        assert lake.run().sources[0].files == 1
        lake.arrive("date=2026-01-28/hour=12/2.ndjson.gz")
        os.kill(slow.pid, signal.SIGCONT)
        assert slow.wait(timeout=60) == 0
    lake.assert_exactly_once()
    assert len(moves(lake)) == 3, "the overtaken run read the file that came later"


@pytest.mark.slow
@pytest.mark.parametrize("place", ["runs.commit.before", "state.document.after", "state.commit.before"])
@pytest.mark.parametrize("first", [True, False], ids=["while there is no table", "later"])
def test_a_process_that_slept_while_others_committed_commits_nothing_it_held(
    lake: Lake, place: str, first: bool
) -> None:
    if not first:
        assert lake.run().ok
        lake.arrive("date=2026-01-28/hour=12/1.ndjson.gz")
    with started(lake.config, f"{place}=stop") as sleeper:
        sleeper.wait_until_stopped()
        before = attempts(lake) - {attempt for _, attempt in moves(lake)}
        for number in range(4):
            lake.arrive(f"date=2026-01-28/hour=13/{number}.ndjson.gz")
            assert lake.run().ok
        lake.assert_exactly_once()
        clean_up(lake)
        os.kill(sleeper.pid, signal.SIGCONT)
        assert sleeper.wait(timeout=60) == 0
    lake.assert_exactly_once()
    assert not before & {attempt for _, attempt in moves(lake)}, "what the sleeper held was committed"
    assert lake.run().sources[0].commits == 0


def clean_up(lake: Lake) -> None:
    """Remove every Parquet file that the table does not name, as VACUUM would: the sleeper's are among them."""
    from deltalake import DeltaTable

    table = DeltaTable(lake.table.uri)
    orphans = table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True)
    assert orphans, "the sleeper had written something"


@pytest.mark.slow
def test_two_pipelines_fill_one_table_at_the_same_time(tmp_path: Path) -> None:
    lakes = [pipeline(tmp_path, name, first_id) for name, first_id in (("east", 0), ("west", 1_000_000))]
    for lake in lakes:
        lake.arrive("date=2026-01-28/hour=11/0.ndjson.gz")
    with polling(tmp_path / "race", *(lake.config for lake in lakes), lakes[0].config):
        for number in range(15):
            for lake in lakes:
                lake.arrive(f"date=2026-01-28/hour=12/{number:02d}.ndjson.gz")
    for lake in lakes:
        assert sorted(row["id"] for row in rows(lakes[0], lake)) == lake.expected
        positions = [position for position, _ in moves(lakes[0], lake_key(lake))]
        assert positions == list(range(1, len(positions) + 1)), "positions do not depend on each other"


class Pipeline(Lake):
    """A lake whose configuration names its pipeline and a table that it shares with others."""

    name: str = ""
    shared: str = ""

    @property
    def config(self) -> Path:
        path = super().config
        text = path.read_text().replace('{"pipelines": {"events"', f'{{"pipelines": {{"{self.name}"')
        path.write_text(text.replace("lake/events", self.shared))
        return path

    @property
    def table(self) -> Location:
        return Location(f"file://{self.shared}")


def pipeline(folder: Path, name: str, first_id: int) -> Pipeline:
    made = Pipeline(folder / name, next_id=first_id)
    made.name, made.shared = name, str(folder / "table")
    return made


def lake_key(lake: Pipeline) -> SourceKey:
    return SourceKey(lake.name, "default")


def rows(any_of_them: Pipeline, whose: Pipeline) -> list[dict[str, int]]:
    low, high = whose.expected[0], whose.expected[-1]
    return query(any_of_them.table, f"select id from t where id between {low} and {high}")


@pytest.mark.slow
def test_a_foreign_writer_and_optimize_change_nothing_about_exactly_once(lake: Lake, tmp_path: Path) -> None:
    assert lake.run().ok
    with polling(tmp_path / "race", *[lake.config] * 2):
        for number in range(12):
            lake.arrive(f"date=2026-01-28/hour=12/{number:02d}.ndjson.gz")
            lake.expected.append(append(lake, 900_000 + number))
            if number % 3 == 2:
                compact(lake)
    lake.assert_exactly_once()


def append(lake: Lake, number: int) -> int:
    import pyarrow as pa
    from deltalake import DeltaTable, write_deltalake

    schema = DeltaTable(lake.table.uri).schema().to_arrow()
    fields = {"id": number, "ts": None, "event": "foreign"}
    table = pa.Table.from_pylist([fields], schema=pa.schema(schema))
    write_deltalake(lake.table.uri, table, mode="append")
    return number


def compact(lake: Lake) -> None:
    """OPTIMIZE; another writer may be first, and then it is done another time."""
    from deltalake import DeltaTable
    from deltalake.exceptions import CommitFailedError

    with contextlib.suppress(CommitFailedError):
        DeltaTable(lake.table.uri).optimize.compact()
