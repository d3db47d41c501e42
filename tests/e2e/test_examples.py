"""The examples run as they are, on the data that their script makes."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path

import pytest

from tidegate import load
from tidegate.commands.commit import Committing
from tidegate.protocol.delta import query
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop
from tidegate.specs.locations import Location
from tidegate.storage.options import absolute_uri

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("files.yml", "inferred.yml", "formats.yml", "staged.yml"):
        shutil.copy(EXAMPLES / name, tmp_path)
    runpy.run_path(str(EXAMPLES / "make_data.py"))["main"](tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "table", "records"),
    [("files.yml", "lake/events", 6000), ("inferred.yml", "lake/raw", 3000), ("formats.yml", "lake/orders", 500)],
)
def test_an_example_ingests_every_record_once(folder: Path, name: str, table: str, records: int) -> None:
    project = load(folder / name)
    report = Loop(project, InProcessEngine(), 2).once(project.pipelines)
    assert report.ok, report
    counted = query(
        Location(absolute_uri(table, folder)),
        "select count(*) as n, count(distinct id) as ids, count(distinct date) as days from t",
    )
    assert (counted[0]["n"], counted[0]["ids"]) == (records, records)
    assert counted[0]["days"] >= 1
    again = Loop(project, InProcessEngine(), 2).once(project.pipelines)
    assert [source.state for source in again.sources] == ["Idle"] * len(project.pipelines[0].sources)


def test_the_staged_example_is_visible_once_it_is_committed(folder: Path) -> None:
    project = load(folder / "staged.yml")
    (source,) = Loop(project, InProcessEngine(), 2).once(project.pipelines).sources
    assert (source.error, source.files, source.commits, source.staged >= 1) == (None, 8, 0, True)
    report = Committing(project).once(project.pipelines)
    assert report.ok, report
    counted = query(
        Location(absolute_uri("lake/clicks", folder)), "select count(*) as n, count(distinct id) as ids from t"
    )
    assert (counted[0]["n"], counted[0]["ids"]) == (2000, 2000)
    assert Loop(project, InProcessEngine(), 2).once(project.pipelines).sources[0].state == "Idle"
