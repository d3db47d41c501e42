"""A server with one more file each day, and a source whose address names the file but not the time. No Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from servers import api as servers
from support.file_server import FileServer
from tidegate import ConfigError, load, status
from tidegate.cli.pages import plain
from tidegate.cli.plan import render_plan
from tidegate.commands.doctor import examine_project
from tidegate.commands.project import sources_of
from tidegate.protocol.delta import query
from tidegate.runs.in_process import InProcessEngine
from tidegate.specs.locations import Location
from tidegate.storage.options import absolute

DAYS = ("15", "16", "17", "18")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FileServer]:
    with servers.running() as api:
        yield FileServer(tmp_path, api)


def live_without_a_word(server: FileServer, monkeypatch: pytest.MonkeyPatch, *dates: str) -> None:
    """Four days as an earlier version read them, which did not ask."""
    with monkeypatch.context() as earlier:
        earlier.setattr("tidegate.config.work_units.repeat_problems", lambda source, pipeline: iter(()))
        earlier.setattr("tidegate.runs.unit_walk.check_repeats", lambda source, plan: None)
        server.live(*dates)


ONCE = {f"f{date}.csv": 2 for date in DAYS}
EACH_DAY = {"f15.csv": 8, "f16.csv": 6, "f17.csv": 4, "f18.csv": 2}


def test_a_source_that_would_double_its_rows_is_refused_before_anything_is_read(server: FileServer) -> None:
    server.add("f15.csv")
    with pytest.raises(ConfigError) as refused:
        server.run("15", abstinent_period_days=0)
    (problem,) = refused.value.problems
    assert "pipelines.visits.source.replace: " in problem
    assert "the same file is read again and its rows are appended once more" in problem
    for choice in ("replace: unit", "replace: none", "time_column: "):
        assert choice in problem, choice
    assert "tidegate plan" in problem, "how to see what a table has already"
    assert not server.api.asked


def test_with_replace_unit_four_days_give_each_row_once(server: FileServer) -> None:
    server.keys = {"replace": "unit"}
    assert server.live(*DAYS) == [2, 4, 6, 8]
    assert server.rows() == ONCE


@pytest.mark.parametrize("begin", ["2020-01-01", "P1D", "P2D"])
def test_replace_unit_replaces_rows_of_all_former_ranges(server: FileServer, begin: str) -> None:
    server.keys, server.begin = {"replace": "unit"}, begin
    server.live(*DAYS)
    assert server.rows() == ONCE
    server.add("f15.csv", rows=1)
    assert server.run("2020-03-01").ok, "after a pause that is longer than the range"
    assert server.rows() == ONCE | {"f15.csv": 1}


def test_with_replace_none_every_read_is_kept_and_needs_no_spark(server: FileServer) -> None:
    server.keys, server.engine = {"replace": "none"}, InProcessEngine
    assert server.live(*DAYS) == [2, 4, 6, 8]
    assert server.rows() == EACH_DAY
    found = query(
        Location(absolute("lake/visits", server.root)),
        "select count(distinct _tidegate_segment) as reads from t where _tidegate_unit = 'f15.csv'",
    )
    assert found == [{"reads": 4}], "each read can be told from the others"
    assert server.run("18").sources[0].rows == 0


def test_with_replace_none_grace_reads_again_without_cutting(server: FileServer) -> None:
    server.keys = {"replace": "none", "grace_period_days": 3}
    server.live("15", "16")
    assert server.rows() == {"f15.csv": 4, "f16.csv": 2}


def test_with_an_abstinent_period_each_file_comes_once(server: FileServer) -> None:
    server.keys, server.engine = {"abstinent_period_days": 7}, InProcessEngine
    assert server.live(*DAYS) == [2, 2, 2, 2]
    assert server.rows() == ONCE
    assert any("read once" in notice for notice in load(server.config()).notices)


def test_a_file_abstains_although_the_range_floats_past_its_read(server: FileServer) -> None:
    server.keys, server.engine, server.begin = {"abstinent_period_days": 7}, InProcessEngine, "P2D"
    assert server.live(*DAYS, "19", "20") == [2] * 6
    assert set(server.rows().values()) == {2}


def test_a_file_that_outlives_its_abstinent_period_stops_the_run_and_asks(server: FileServer) -> None:
    server.keys = {"abstinent_period_days": 2}
    server.live("15", "16")
    server.add("f18.csv")
    (source,) = server.run("18").sources
    assert source.error is not None
    for words in ("'f15.csv'", "appended once more", "`replace: unit`", "`replace: none`"):
        assert words in source.error
    assert server.rows() == {"f15.csv": 2, "f16.csv": 2}
    assert any("a run would stop" in note for note in server.planned("18").notes), "and plan says so before"
    (found,) = status(server.config())
    assert any("a run would stop" in note for note in found.notes)
    project = load(server.config())
    checks = examine_project(project, sources_of(project, None))
    assert [each.verdict for each in checks if "a run would stop" in each.detail] == ["warn"]
    assert server.run("18", replace="unit").ok
    assert server.rows() == {"f15.csv": 2, "f16.csv": 2, "f18.csv": 2}


def test_doubled_rows_of_an_earlier_version_are_told_and_repaired_by_replace_unit(
    server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    live_without_a_word(server, monkeypatch, *DAYS)
    assert server.rows() == EACH_DAY, "20 rows of 4 files"
    with pytest.raises(ConfigError, match="may have doubled rows"):
        server.run("19")
    assert server.rows() == EACH_DAY, "no row is deleted because a default changed"
    found = server.planned("19", replace="unit")
    assert any("3 units" in note and "more than once" in note for note in found.notes), found.notes
    assert server.run("19", replace="unit").ok
    assert server.rows() == ONCE
    assert not any("more than once" in note for note in server.planned("19", replace="unit").notes)


def test_replace_none_goes_on_where_an_earlier_version_stopped(
    server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    live_without_a_word(server, monkeypatch, "15", "16")
    found = server.planned("17", replace="none")
    assert [(each.units, each.low[:10], each.high[:10], each.replaces) for each in found.runs] == [
        (("f15.csv", "f16.csv"), "2020-01-16", "2020-01-17", False)
    ]
    assert found.position == 2
    assert any(line.endswith("kept") for line in plain(render_plan([found], config="t.yml")))
    assert server.run("17", replace="none").ok
    assert server.rows() == {"f15.csv": 6, "f16.csv": 4}


@pytest.mark.parametrize(
    ("keys", "rule", "words"),
    [
        ({"replace": "unit"}, "unit", "replaces by  unit: all rows of a unit that is read again"),
        ({"replace": "none"}, "none", "replaces by  none: every read appends its rows, as history"),
        ({"abstinent_period_days": 7}, "segments", "replaces by  nothing: each unit is read once"),
    ],
)
def test_plan_says_which_rule_holds(server: FileServer, keys: dict[str, Any], rule: str, words: str) -> None:
    server.add("f15.csv")
    found = server.planned("15", **keys)
    assert (found.to_json()["replace"], found.to_json()["requests_by_time"]) == (rule, False)
    assert any(words in line for line in plain(render_plan([found], config="t.yml")))


MONTHLY = {
    "path": "/files/{{month}}",
    "params": {"month": {"watermark": "system", "bound": "low", "format": "%Y-%m"}},
    "watermark": [{"name": "system", "type": "datetime", "range": {"from": "2020-01-01", "to": "-"}}],
    "work_unit": {"partition": "monthly"},
}


def test_a_file_per_month_that_is_read_daily_is_not_appended_again(server: FileServer) -> None:
    server.keys = MONTHLY
    server.add("2020-01")
    assert server.run("15").ok
    (failed,) = server.run("16").sources[0].failed_units
    for words in ("appended once more", "`replace: unit`", "`replace: none`", "time_column"):
        assert words in failed.reason
    assert server.rows() == {"": 2}
    assert server.run("17", replace="unit").ok
    assert server.rows() == {"": 2}
    server.add("2020-02")
    assert server.run("2020-02-10", replace="unit").ok
    assert server.rows() == {"": 4}


def test_a_file_per_day_goes_on_day_by_day(server: FileServer) -> None:
    days = {"day": {"watermark": "system", "bound": "low", "format": "%Y-%m-%d"}}
    server.keys = MONTHLY | {"path": "/files/{{day}}", "params": days}
    for name in ("2020-01-01", "2020-01-15"):
        server.add(name)
    assert server.run("15").ok
    assert server.run("16").ok
    assert server.rows() == {"": 4}
