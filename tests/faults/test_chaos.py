"""``tidegate chaos``: finds nothing where nothing is wrong, and finds what is planted; small, seeded, bounded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tidegate
from servers.s3 import Server
from support.errors import raises
from tidegate import TidegateError, chaos
from tidegate.errors import StorageUnavailable
from tidegate.experiments.rounds import NOW, Arrivals, scratch_project
from tidegate.protocol import commit
from tidegate.reports.chaos import ChaosReport
from tidegate.specs.locations import Location
from tidegate.storage.stores import open_store


def small(place: Path, **settings: Any) -> ChaosReport:
    return chaos(str(place), **{"failures": 60, "kills": 0, "seed": 7, **settings})


def test_hundreds_of_failures_and_some_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    report = small(tmp_path / "scratch", failures=150, kills=2)
    assert report.problems == ()
    assert (report.ok, report.finished, report.lost, report.doubled) == (True, True, 0, 0)
    assert report.failures >= 150
    assert report.kills >= 2
    assert report.rows > report.commits > 30
    assert min(report.rival_passes, report.foreign_appends, report.optimizes, report.contested) > 0
    assert sum(1 for place in report.places if place.raised and place.lost) > 15
    assert list((tmp_path / "scratch").iterdir()) == []


def test_the_same_seed_is_the_same_experiment(tmp_path: Path) -> None:
    one, two = (small(tmp_path / name, failures=40) for name in ("one", "two"))
    assert one.places == two.places
    assert (one.rows, one.files, one.passes, one.commits) == (two.rows, two.files, two.passes, two.commits)


def test_a_writer_that_does_not_look_before_it_commits_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit.Attempt, "_is_unmoved", lambda self, snapshot: True)
    report = small(tmp_path / "scratch", failures=1000)
    assert not report.ok
    assert report.doubled > 0
    assert any("doubled: id " in line and "added by table versions: " in line for line in report.problems)
    assert (tmp_path / "scratch/round-0001/table/_delta_log").is_dir(), "what is wrong is kept"


def test_a_commit_that_forgets_a_file_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measure = commit.measure
    monkeypatch.setattr(commit, "measure", lambda site, files: measure(site, files)[1:])
    report = small(tmp_path / "scratch", failures=1000)
    assert not report.ok
    assert report.lost > 0
    assert report.doubled == 0
    assert any("missing: id " in line and "date=2026-01-28" in line for line in report.problems)


def test_an_error_that_no_failure_explains_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def confused(*_: object) -> object:
        raise KeyError("position")

    monkeypatch.setattr(commit, "new_document", confused)
    report = small(tmp_path / "scratch")
    assert not report.ok
    assert "round 1 of seed 7: unexpected KeyError: 'position'" in report.problems


def test_storage_that_does_not_answer_ends_the_experiment_with_an_error_and_no_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: object) -> object:
        raise StorageUnavailable("no answer")

    monkeypatch.setattr(Arrivals, "arrive", silent)
    with raises(StorageUnavailable, "round 1", "seed 7", "no answer"):
        small(tmp_path / "scratch")


def test_a_place_that_is_not_empty_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    with raises(TidegateError, "precious.txt", "empty"):
        small(tmp_path)
    assert (tmp_path / "precious.txt").read_text() == "mine"


def test_it_ends_when_the_time_is_over_and_says_so(tmp_path: Path) -> None:
    report = small(tmp_path / "scratch", failures=10**9, minutes=0.02, keep=True)
    assert (report.ok, report.finished) == (True, False)
    assert 0 < report.failures < 10**6
    assert (tmp_path / "scratch/round-0001/table").is_dir(), "everything is kept when asked"


def test_progress_is_told(tmp_path: Path) -> None:
    told: list[tuple[str, int]] = []
    small(tmp_path / "scratch", failures=10, show=lambda progress: told.append((progress.doing, progress.done)))
    assert told[0] == ("failures", 0)
    assert told[-1][0] == "failures"
    assert told[-1][1] >= 10


def test_the_failpoints_are_disarmed_afterwards(tmp_path: Path) -> None:
    from tidegate import failpoints

    small(tmp_path / "scratch", failures=5)
    assert not failpoints._armed


def test_every_made_up_file_can_be_read_and_counts(tmp_path: Path) -> None:
    import random

    place = Location(f"file://{tmp_path}")
    arrivals = Arrivals(open_store(Location(f"{place.uri}/source")), random.Random(1))
    arrivals.arrive(120)
    plans = tidegate.plan(scratch_project(place), now=NOW)
    assert plans[0].plan.files == arrivals.files == 120
    folders = {path.parent for path in (tmp_path / "source").rglob("*.ndjson*")}
    assert len(folders) > 3
    assert len(arrivals.expected) == len(set(arrivals.expected)) > 300


@pytest.mark.s3
@pytest.mark.slow
def test_the_proof_runs_on_a_real_s3_server(s3: Server) -> None:
    location = s3.location("chaos")
    report = chaos(location.uri, failures=25, kills=1, seed=3, options=dict(location.options))
    assert report.problems == ()
    assert (report.ok, report.finished) == (True, True)
    assert list(open_store(location).list()) == []
