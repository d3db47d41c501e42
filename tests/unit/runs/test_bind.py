"""Sources are bound one by one: what one of them lacks is no matter of the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.errors import raises
from tidegate.commands.project import bound_files, sources_of
from tidegate.errors import ConfigError
from tidegate.protocol.delta import query
from tidegate.runs.bind import TRACKERS, Binding
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop
from tidegate.runs.tracker import Tracker
from tidegate.specs.columns import ColumnSource, FunctionRead
from tidegate.specs.files import PathSource
from tidegate.specs.locations import Location
from tidegate.specs.project import PipelineSpec, ProjectSpec
from tidegate.specs.table import FieldSpec, SchemaSpec, SinkSpec


def refused(binding: Binding) -> Tracker:
    raise ConfigError((f"{binding.key} cannot be bound",))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProjectSpec:
    """A pipeline of files and of a function that cannot be bound."""
    monkeypatch.setitem(TRACKERS, ColumnSource, refused)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.ndjson").write_text('{"n": 1}\n{"n": 2}\n')
    files = PathSource("files", Location((tmp_path / "in").as_uri()))
    function = ColumnSource("function", FunctionRead("nowhere:read"), ("n",))
    sink = SinkSpec(Location((tmp_path / "lake").as_uri()))
    pipeline = PipelineSpec("both", (files, function), SchemaSpec((FieldSpec("n", "int64"),)), sink)
    return ProjectSpec("code", (pipeline,))


def test_file_sources_are_bound_beside_a_column_source_that_cannot_be(project: ProjectSpec) -> None:
    """A run binds the file sources to see what Spark has to bring along."""
    with raises(ConfigError, "both/function"):
        sources_of(project, None)
    assert [each.source.name for each in bound_files(project, None)] == ["files"]
    assert [each.source.name for each in bound_files(project, "both")] == ["files"]


def test_file_sources_run_beside_a_column_source_that_cannot_be_bound(project: ProjectSpec) -> None:
    report = Loop(project, InProcessEngine(), 1).once(project.pipelines)
    files, function = report.sources
    assert (files.error, files.rows) == (None, 2)
    assert "cannot be bound" in (function.error or "")
    assert not report.ok
    assert [row["n"] for row in query(project.pipelines[0].sink.table, "select n from t order by n")] == [1, 2]
