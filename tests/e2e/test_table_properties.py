"""The table has the properties that the configuration wants: from its creation, and after they were changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

import tidegate
from support.errors import raises
from support.lake import Lake
from tidegate.errors import ConfigError
from tidegate.failpoints import InjectedFailure, arm
from tidegate.specs.table import ALLOWED_PROPERTIES, why_not

WANTED = {"delta.appendOnly": "true", "delta.logRetentionDuration": "interval 60 days"}


def lake_with(root: Path, properties: dict[str, str]) -> Lake:
    return Lake(root, sink_settings={"table_properties": properties})


def properties(lake: Lake) -> dict[str, str]:
    return dict(DeltaTable(lake.table.uri).metadata().configuration)


def pass_over(lake: Lake, name: str) -> None:
    lake.arrive(f"date=2026-01-28/{name}.ndjson")
    report = lake.run()
    assert report.ok, report.sources[0].error


def test_a_new_table_has_them_from_its_first_version(tmp_path: Path) -> None:
    lake = lake_with(tmp_path, WANTED)
    pass_over(lake, "1")
    assert (DeltaTable(lake.table.uri).version(), properties(lake)) == (0, WANTED)


def test_a_change_is_a_commit_of_its_own_before_the_next_rows(tmp_path: Path) -> None:
    lake = lake_with(tmp_path, {})
    pass_over(lake, "1")
    lake.sink_settings = {"table_properties": WANTED}
    pass_over(lake, "2")
    assert (DeltaTable(lake.table.uri).version(), properties(lake)) == (2, WANTED)
    pass_over(lake, "3")
    assert DeltaTable(lake.table.uri).version() == 3
    lake.assert_exactly_once()


def test_properties_that_others_set_stay(tmp_path: Path) -> None:
    lake = lake_with(tmp_path, WANTED)
    pass_over(lake, "1")
    DeltaTable(lake.table.uri).alter.set_table_properties({"delta.checkpointInterval": "20"})
    lake.sink_settings = {"table_properties": {"delta.appendOnly": "false"}}
    pass_over(lake, "2")
    assert properties(lake) == {**WANTED, "delta.appendOnly": "false", "delta.checkpointInterval": "20"}


@pytest.mark.parametrize("place", ["state.properties.before", "state.properties.after"])
@pytest.mark.parametrize("way", ["raise", "lose"])
def test_a_failure_on_the_way_loses_and_doubles_nothing(tmp_path: Path, place: str, way: str) -> None:
    lake = lake_with(tmp_path, {})
    pass_over(lake, "1")
    lake.sink_settings = {"table_properties": WANTED}
    arm(f"{place}={way}")
    try:
        pass_over(lake, "2")
    except InjectedFailure:
        pass
    finally:
        arm("")
    pass_over(lake, "3")
    assert properties(lake) == WANTED
    lake.assert_exactly_once()


VALUES = ("true", "4", "interval 40 days", "Serializable")
SETTABLE = {
    name: value
    for name in sorted({*ALLOWED_PROPERTIES, "delta.autoOptimize.autoCompact"})
    for value in VALUES
    if why_not(name, value) is None
}


@pytest.mark.parametrize("name", SETTABLE)
def test_every_property_that_may_be_set_can_be_set_both_ways(tmp_path: Path, name: str) -> None:
    wanted = {name: "id" if name.endswith("StatsColumns") else SETTABLE[name]}
    new = lake_with(tmp_path / "new", wanted)
    pass_over(new, "1")
    pass_over(new, "2")
    old = lake_with(tmp_path / "old", {})
    pass_over(old, "1")
    old.sink_settings = {"table_properties": wanted}
    pass_over(old, "2")
    assert properties(new) == properties(old) == wanted
    assert new.ids() == old.ids()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("delta.setTransactionRetentionDuration", "the table would forget positions"),
        ("delta.columnMapping.mode", "appends do not honour it"),
        ("delta.constraints.positive", "appends do not honour it"),
        ("delta.feature.rowTracking", "appends do not honour it"),
        ("delta.enableDeletionVectors", "set it with Spark"),
        ("delta.targetFileSize", "set sink.file_size_mb"),
        ("delta.logRetentionDuration", "allowed: 'interval 30 days'"),
        ("delta.checkpointInterval", "allowed: a number"),
        ("owner", "names that begin with 'delta.'"),
    ],
)
def test_a_property_that_appends_cannot_honour_is_an_error_of_the_file(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        tidegate.load(lake_with(tmp_path, {name: "true"}).config)
    (line,) = caught.value.problems
    assert f"sink.table_properties.{name}: " in line
    assert reason in line


def test_pipelines_of_one_table_want_the_same(tmp_path: Path) -> None:
    text = """
pipelines:
  a: {source: {source_uri: in/a}, sink: {table_uri: lake, table_properties: {delta.appendOnly: true}}}
  b: {source: {source_uri: in/b}, sink: {table_uri: lake}}
"""
    with raises(ConfigError, "pipelines.b.sink", "'a'", "table_properties"):
        tidegate.load(text)
