"""The kill matrix: for each way in which a writer can end or be left in doubt, nothing is lost and nothing is doubled.

Each case of K1, K2 and K4 to K8 makes one real process fail at one failpoint in one way, then a restart brings the
rest. The rows are compared with the source twice: those of the table, and those that a streaming reader saw who
followed the table from before its creation. One line of the source is bad: it must be one dead letter.
``TIDEGATE_LONG=1`` adds the same while the table is created.
"""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from faults.failing import ENDS, arrive_with_a_bad_line, assert_one_letter, go_on, stopped, work
from faults.worker import FINE, SURVIVED, TOLD_TO_STOP
from support.lake import Lake
from support.streaming import streaming
from tidegate import status
from tidegate.experiments.workers import Workers
from tidegate.failpoints import PLACES, WAYS

LONG = bool(os.environ.get("TIDEGATE_LONG"))


@dataclass(frozen=True)
class Row:
    """One line of the matrix; ``visible`` says whether the rows are in the table although the writer failed."""

    killed: str
    visible: bool
    places: tuple[str, ...]
    ways: tuple[str, ...] = WAYS


MATRIX = {
    "K1": Row(
        "rows in memory, nothing uploaded",
        False,
        ("runs.planned", "sink.file.before", "sink.rows.before", "sink.upload.before"),
    ),
    "K2": Row(
        "Parquet uploaded, nothing recorded",
        False,
        ("sink.upload.after", "sink.unit.after", "runs.read", "runs.commit.before", "state.document.before"),
    ),
    "K4": Row(
        "document written, commit not made",
        False,
        ("state.document.after", "state.columns.before", "state.columns.after", "state.commit.before"),
    ),
    "K5": Row(
        "log entry durable, process died before noticing",
        True,
        ("state.commit.after", "state.resolve.before", "state.done.before"),
        ("kill",),
    ),
    "K6": Row(
        "commit returned an error although it is durable",
        True,
        ("state.commit.after", "state.resolve.before", "state.done.before"),
        ("raise", "lose"),
    ),
    "K7": Row(
        "after commit, before what it leaves to do",
        True,
        (
            "state.won.before",
            "state.won.after",
            "state.debt.before",
            "state.letters.before",
            "state.letters.after",
            "state.checkpoint.before",
            "runs.commit.after",
        ),
    ),
    "K8": Row(
        "before or while the mirror is written",
        True,
        ("state.mirror.before", "state.mirror.after"),
    ),
}
BY_THEMSELVES = ("K9", "K10", "K11", "K12")
STAGED = {"K3": "tests/faults/test_staged_kills.py", "K13": "tests/faults/test_committer_kills.py"}
PLACES_ELSEWHERE = {
    "staging.commit.listed": "tests/faults/test_committer_kills.py",
    "staging.commit.before": "tests/faults/test_committer_kills.py",
    "staging.clear.before": "tests/faults/test_committer_kills.py",
    "staging.clear.rejected": "tests/faults/test_committer_kills.py",
    "staging.clear.metas": "tests/faults/test_committer_kills.py",
    "staging.clear.after": "tests/faults/test_committer_kills.py",
    "staging.meta.before": "tests/faults/test_staged_kills.py",
    "staging.meta.after": "tests/faults/test_staged_kills.py",
    "staging.unit.before": "tests/faults/test_staged_kills.py",
    "staging.unit.after": "tests/faults/test_staged_kills.py",
    "state.set.before": "tests/faults/test_set_kills.py",
    "state.set.after": "tests/faults/test_set_kills.py",
    "state.provider.before": "tests/state/test_provider_copy.py",
    "state.provider.after": "tests/state/test_provider_copy.py",
    "state.block.before": "tests/state/test_compacting.py",
    "state.block.after": "tests/state/test_compacting.py",
    "state.gathered.before": "tests/state/test_compacting.py",
    "state.gathered.after": "tests/state/test_compacting.py",
    "state.properties.before": "tests/e2e/test_table_properties.py",
    "state.properties.after": "tests/e2e/test_table_properties.py",
    "state.rewrite.before": "tests/e2e/test_table_care.py",
    "state.rewrite.after": "tests/e2e/test_table_care.py",
    "runs.fence.after": "tests/e2e/test_orphans.py",
    "runs.orphan.before": "tests/e2e/test_orphans.py",
    "state.cold_start.before": "test_a_first_run_that_finds_nothing_to_read_fixes_its_bound_once",
    "state.cold_start.after": "test_a_first_run_that_finds_nothing_to_read_fixes_its_bound_once",
}
CASES = [
    pytest.param(row, place, way, id=f"{name}-{place}-{way}")
    for name, row in MATRIX.items()
    for place in row.places
    for way in row.ways
]


def test_the_matrix_has_every_kill_point_and_every_failpoint() -> None:
    names = {*MATRIX, *STAGED, *BY_THEMSELVES}
    assert names == {f"K{number}" for number in range(1, 14)}
    here = {place for row in MATRIX.values() for place in row.places}
    assert here | set(PLACES_ELSEWHERE) == set(PLACES)
    assert not here & set(PLACES_ELSEWHERE)


@pytest.mark.parametrize(("row", "place", "way"), CASES)
def test_nothing_is_lost_or_doubled(workers: Workers, lake: Lake, row: Row, place: str, way: str) -> None:
    with streaming(lake) as stream:
        assert lake.run().ok
        before = lake.ids()
        if "columns" in place:
            lake.schema = {"fields": [*lake.schema["fields"], {"name": "extra", "type": "string"}]}
        lake.arrive("date=2026-01-28/hour=11/1a.ndjson")
        lake.arrive("date=2026-01-28/hour=13/0.ndjson.gz")
        arrive_with_a_bad_line(lake)
        ended = work(workers, lake, f"{place}={way}")
        assert ended in ENDS[way], f"{place} was not reached, or ended the run otherwise: {workers.last_lines()}"
        seen = sorted(lake.expected) if row.visible or ended == SURVIVED else before
        assert lake.ids() == seen
        lake.arrive("date=2026-01-28/hour=13/1.ndjson.gz")
        assert lake.run().ok
        stream.assert_exactly_once()
    assert_paid(lake)
    assert_one_letter(lake)


@pytest.mark.skipif(not LONG, reason="TIDEGATE_LONG=1 runs the whole matrix")
@pytest.mark.parametrize(("row", "place", "way"), [case for case in CASES if "columns" not in str(case.id)])
def test_nothing_is_lost_or_doubled_while_the_table_is_made(
    workers: Workers, lake: Lake, row: Row, place: str, way: str
) -> None:
    arrive_with_a_bad_line(lake)
    with streaming(lake) as stream:
        ended = work(workers, lake, f"{place}={way}")
        assert ended in ENDS[way]
        assert lake.ids() == (lake.expected if row.visible or ended == SURVIVED else [])
        lake.arrive("date=2026-01-28/hour=13/1.ndjson.gz")
        assert lake.run().ok
        stream.assert_exactly_once()
    assert_paid(lake)
    assert_one_letter(lake)


def assert_paid(lake: Lake) -> None:
    """Every commit has its note and the newest its mirror: what was left to do was done, once."""
    folder = lake.root / "lake/events/_tidegate"
    (now,) = status(lake.config)
    assert (now.shown_from, now.error) == ("mirror", None)
    notes = sorted(path.name[:20] for path in (folder / "events/default").glob("*.won"))
    assert notes == [f"{number:020d}" for number in range(1, now.version + 1)]
    mirror = json.loads((folder / "events_default_checkpoint.json").read_text())
    assert mirror["tidegate"]["version"] == now.version


def test_k2_an_orphan_is_left_that_no_reader_sees(workers: Workers, lake: Lake) -> None:
    assert work(workers, lake, "sink.upload.after=kill") == -signal.SIGKILL
    orphans = set((lake.root / "lake/events").glob("*.parquet"))
    assert orphans
    with streaming(lake) as stream:
        assert lake.run().ok
        stream.assert_exactly_once()
    assert set((lake.root / "lake/events").glob("*.parquet")) > orphans


def test_k4_a_document_whose_commit_was_not_made_is_ignored_and_kept(workers: Workers, lake: Lake) -> None:
    assert lake.run().ok
    lake.arrive("date=2026-01-28/hour=12/9.ndjson")
    assert work(workers, lake, "state.document.after=kill") == -signal.SIGKILL
    folder = lake.root / "lake/events/_tidegate/events/default"
    (ignored,) = folder.glob(f"{2:020d}-*.json")
    (now,) = status(lake.config)
    assert now.version == 1
    assert lake.run().ok
    assert len(list(folder.glob(f"{2:020d}-*.json"))) == 2
    assert not ignored.with_suffix(".won").exists()
    lake.assert_exactly_once()


@pytest.mark.parametrize("place", ["state.mirror.before", "state.mirror.after"])
def test_k8_status_says_which_version_it_shows(workers: Workers, lake: Lake, place: str) -> None:
    assert lake.run().ok
    lake.arrive("date=2026-01-28/hour=12/9.ndjson")
    assert work(workers, lake, f"{place}=kill") == -signal.SIGKILL
    (now,) = status(lake.config)
    shown = {"state.mirror.before": {1, 2}, "state.mirror.after": {2}}[place]
    assert now.version in shown
    assert now.error is None


def test_k9_sigterm_in_the_middle_of_a_file_ends_the_run_and_the_rest_is_redone(workers: Workers, lake: Lake) -> None:
    lake.source_settings = {"checkpoint": {"interval_files": 1}, "max_islands": 1}
    with streaming(lake) as stream:
        pid = stopped(workers, lake, "sink.rows.before")
        os.kill(pid, signal.SIGTERM)
        told = time.monotonic()
        assert go_on(workers, pid) == TOLD_TO_STOP
        assert time.monotonic() - told < 30
        committed = len(lake.ids())
        assert 0 < committed < 60
        assert committed % 10 == 0
        assert lake.run().ok
        stream.assert_exactly_once()


@pytest.mark.parametrize("number", [2, 4])
def test_k10_runs_started_together_from_table_creation_on_write_every_row_once(
    workers: Workers, lake: Lake, number: int
) -> None:
    with streaming(lake) as stream:
        config = str(lake.config)
        started = [workers.start({"config": config}) for _ in range(number)]
        assert [workers.wait(pid) for pid in started] == [FINE] * number, workers.last_lines()
        stream.assert_exactly_once()


@pytest.mark.parametrize("place", ["runs.planned", "runs.commit.before", "state.document.after", "state.commit.before"])
@pytest.mark.parametrize("first", ["first", "later"])
def test_k10_a_process_that_slept_through_another_run_commits_nothing_of_its_own(
    workers: Workers, lake: Lake, place: str, first: str
) -> None:
    with streaming(lake) as stream:
        if first == "later":
            assert lake.run().ok
            lake.arrive("date=2026-01-28/hour=13/0.ndjson")
        sleeper = stopped(workers, lake, place)
        lake.arrive("date=2026-01-28/hour=13/1.ndjson")
        assert lake.run().ok
        assert go_on(workers, sleeper) == SURVIVED
        stream.assert_exactly_once()


def rewrite(lake: Lake, path: str) -> None:
    """Other records under the same name; the old ones are not expected any more."""
    forget(lake, path)
    lake.arrive(path, records=7)


def forget(lake: Lake, path: str) -> None:
    """The file is gone, and so is what was expected of it."""
    file = lake.root / "data" / path
    first = FILES.index(path) * 10
    lake.expected = [number for number in lake.expected if not first <= number < first + 10]
    file.unlink()


FILES = [f"date=2026-01-28/hour={hour}/{number}.ndjson.gz" for hour in (11, 12) for number in range(3)]


@pytest.mark.parametrize("change", [rewrite, forget])
@pytest.mark.parametrize("place", ["runs.planned", "runs.commit.after"])
def test_k11_a_file_that_changes_after_it_was_listed_is_not_half_read(
    workers: Workers, lake: Lake, change: Any, place: str
) -> None:
    """Between listing and reading, or between two rounds of one plan."""
    lake.source_settings = {"checkpoint": {"interval_files": 1}, "max_islands": 1}
    with streaming(lake) as stream:
        pid = stopped(workers, lake, place)
        assert len(lake.ids()) == (0 if place == "runs.planned" else 10)
        change(lake, FILES[4])
        assert go_on(workers, pid) == SURVIVED
        assert lake.run().ok
        stream.assert_exactly_once()


def test_k12_with_clocks_an_hour_off_nothing_is_left_uncommitted(workers: Workers, lake: Lake) -> None:
    lake.source_settings = {"partition_filter": {"prefix_template": "date=%Y-%m-%d/hour=%H", "lookback": 30}}
    now = datetime.now(UTC)
    with streaming(lake) as stream:
        lake.expected.clear()
        for number, ahead in enumerate((3600, -3600, 0, 3600, -3600)):
            for hours in (-1, 0, 1):
                folder = (now + timedelta(hours=hours)).strftime("date=%Y-%m-%d/hour=%H")
                lake.arrive(f"{folder}/{number}.ndjson", records=3)
            assert work(workers, lake, ahead=ahead) == FINE
            assert lake.ids() == lake.expected
        stream.assert_exactly_once()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("place", ["state.cold_start.before", "state.cold_start.after"])
def test_a_first_run_that_finds_nothing_to_read_fixes_its_bound_once(
    workers: Workers, lake: Lake, place: str, way: str
) -> None:
    lake.source_settings = {"partition_filter": {"prefix_template": "date=%Y-%m-%d", "lookback": 1}}
    lake.expected.clear()
    with streaming(lake) as stream:
        assert work(workers, lake, f"{place}={way}") in ENDS[way]
        assert lake.run().ok
        lake.arrive(f"{datetime.now(UTC):date=%Y-%m-%d}/1.ndjson")
        assert lake.run().ok
        stream.assert_exactly_once()
