"""A server with one more file each day, and a source whose address names the file but not the time. No Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from servers import api as servers
from support.errors import raises
from support.file_server import FileServer
from tidegate import ConfigError, load, status
from tidegate.commands.doctor import examine_project
from tidegate.commands.project import sources_of
from tidegate.commands.units import reset_units
from tidegate.protocol.delta import query
from tidegate.reports.render import to_lines
from tidegate.reports.report import View
from tidegate.runs.in_process import InProcessEngine
from tidegate.specs.locations import Location
from tidegate.storage.options import absolute_uri

DAYS = ("15", "16", "17", "18")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FileServer]:
    with servers.running() as api:
        yield FileServer(tmp_path, api)


def live_without_a_word(server: FileServer, monkeypatch: pytest.MonkeyPatch, *dates: str) -> None:
    """Four days as an earlier version read them, which did not ask."""
    with monkeypatch.context() as earlier:
        earlier.setattr("tidegate.config.work_units.repeat_problems", lambda source, pipeline: iter(()))
        earlier.setattr("tidegate.core.units.plan.UnitPlan.refusal", None)
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
        Location(absolute_uri("lake/visits", server.root)),
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
    with raises(ConfigError, "pipelines.visits.source.replace", "replace: unit"):
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
    assert any(line.endswith("kept") for line in to_lines(found.page(View(config="t.yml"))))
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
    assert any(words in line for line in to_lines(found.page(View(config="t.yml"))))


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


@pytest.mark.parametrize("begin", ["P2D", "P20D", "2020-01-01"])
def test_a_reset_unit_is_replaced_although_the_range_floated_past_its_read(server: FileServer, begin: str) -> None:
    server.keys, server.begin = {"abstinent_period_days": 2}, begin
    server.live("15")
    assert reset_units(server.config(), "visits").applied
    assert [each.replaces for each in server.planned("25").runs] == [True]
    assert server.run("25").ok
    assert server.rows() == {"f15.csv": 2}
    assert reset_units(server.config(), "visits").applied
    assert server.run("26").ok
    assert server.rows() == {"f15.csv": 2}, "and once more"


@pytest.mark.parametrize("keys", [{"abstinent_period_days": 2}, {"replace": "unit"}])
def test_a_reset_unit_is_replaced_although_the_range_ends_before_its_read(
    server: FileServer, keys: dict[str, Any]
) -> None:
    server.keys, server.begin = keys, "P2D"
    server.live("18")
    assert reset_units(server.config(), "visits").applied
    assert server.run("15").ok, "on a machine whose clock is late"
    assert server.rows() == {"f18.csv": 2}


COARSE = {"watermark": "system", "bound": "low", "format": "%Y-%m"}


def test_a_coarse_time_is_noticed_after_a_pause_longer_than_the_range(server: FileServer) -> None:
    floating = [{"name": "system", "type": "datetime", "range": {"from": "P2D", "to": "-"}}]
    server.keys = MONTHLY | {"watermark": floating, "work_unit": {}}
    server.add("2020-01")
    assert server.run("10").ok
    for date in ("13", "16", "20"):
        (failed,) = server.run(date).sources[0].failed_units
        assert "appended once more" in failed.reason
    assert server.rows() == {"": 2}
    server.add("2020-02")
    assert server.run("2020-02-10").ok, "another month is another file"
    assert server.rows() == {"": 4}


@pytest.mark.parametrize("name", ["{{m}}.csv", "{{m}}_{{n}}.csv"])
def test_a_file_of_a_coarse_time_is_read_once_whatever_else_is_declared(server: FileServer, name: str) -> None:
    for file in ("2020-01.csv", "2020-01_2020-01.csv"):
        (server.root / file).write_text("hour,visits\n1,2\n3,4\n")
    server.keys = {
        "connection": None,
        "path": None,
        "source_uri": name,
        "params": {"m": COARSE, "n": COARSE | {"bound": "high"}},
        "watermark": MONTHLY["watermark"],
    }
    assert server.run("10").ok
    for date in ("11", "12"):
        (failed,) = server.run(date).sources[0].failed_units
        assert "appended once more" in failed.reason
    assert server.rows() == {"": 2}


def test_a_unit_that_the_server_lost_is_named_when_its_rows_are_replaced_by_none(server: FileServer) -> None:
    server.keys = {"replace": "unit", "work_unit": {"not_found": "empty"}}
    server.live("15", "16")
    del server.api.routes["/files/f15.csv"]
    told: list[str] = []
    report = server.run("17", tell=told.append)
    assert report.ok
    assert server.rows() == {"f16.csv": 2}
    (notice,) = [text for text in told if "not found" in text]
    for words in ("'f15.csv'", "not_found: empty", "removed"):
        assert words in notice
    assert "f16.csv" not in notice


def test_replace_unit_takes_over_from_partitions_that_are_removed(server: FileServer) -> None:
    server.begin = "2020-01-13"
    server.add("f15.csv")
    cut = {"work_unit": {"partition": "daily"}, "replace": "none"}
    assert server.run("15", **cut).ok
    assert server.rows() == {"f15.csv": 4}, "once for each day"
    with pytest.raises(ConfigError) as refused:
        server.run("16", work_unit=cut["work_unit"])
    assert "--accept-new-partitions" in refused.value.problems[0]
    (source,) = server.run("16", replace="unit").sources
    assert source.error is not None
    assert "--accept-new-partitions" in source.error
    assert server.run("16", accept_new_partitions=True, replace="unit").ok
    assert server.rows() == {"f15.csv": 2}
    server.add("f15.csv", rows=3)
    assert server.run("17", replace="unit").ok
    assert server.rows() == {"f15.csv": 3}
    server.keys = {"replace": "unit"}
    assert reset_units(server.config(), "visits").applied, "and no trace of the partitions is left"
    assert server.run("18").ok
    assert server.rows() == {"f15.csv": 3}
