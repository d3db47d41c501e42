"""A table that cannot be opened keeps no other from being committed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from support.lake import Lake
from support.staging import staged
from tidegate.commands.commit import Committing
from tidegate.specs.locations import Location


def test_a_table_that_cannot_be_opened_is_told_and_the_others_are_committed(tmp_path: Path) -> None:
    lake = Lake(tmp_path, pipeline_settings={"delivery": "staged"})
    staged(lake, "date=2026-01-28/0.ndjson")
    (events,) = lake.project.pipelines
    elsewhere = replace(events.sink, table=Location(f"file://{tmp_path}/lake/100%25"))
    pipelines = (replace(events, name="other", sink=elsewhere), events)
    report = Committing(replace(lake.project, pipelines=pipelines)).once(pipelines)
    broken, good = report.tables
    assert "percent sign" in (broken.error or "")
    assert (broken.rows, broken.exit_code != 0) == (0, True)
    assert (good.error, good.units) == (None, 1)
    assert not report.ok
    lake.assert_exactly_once()
