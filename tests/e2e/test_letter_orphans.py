"""Letter files that no commit names: found and removed like those of the table, and never before they are paid."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import tidegate
from support.lake import Lake
from support.reconciling import DAY, clean, compare, leave_behind, places_of
from tidegate.errors import CommitLost
from tidegate.failpoints import arm
from tidegate.parquet.parquet_file import uuid7
from tidegate.protocol.change import Change, NextState
from tidegate.reports.reconcile import TableComparison
from tidegate.runs.file_edit import write_answers
from tidegate.runs.file_walk import letter_debts
from tidegate.schema.dead_letter import DISCARDED

FOLDER = "date=2026-01-28"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path)
    lake.write(f"{FOLDER}/1.ndjson", '{"id": 1}\nbad\n')
    assert lake.run().ok
    return lake


def letters(lake: Lake) -> Path:
    return lake.root / "lake" / "events_dead_letters"


def age(folder: Path) -> None:
    for path in folder.rglob("*.parquet"):
        moment = path.stat().st_mtime - 2 * DAY.total_seconds()
        os.utime(path, (moment, moment))


def of_letters(tables: tuple[TableComparison, ...]) -> TableComparison:
    (found,) = [each for each in tables if each.table_uri.endswith("_dead_letters")]
    return found


def test_an_orphan_among_letters_is_found_and_removed_when_asked(lake: Lake) -> None:
    age(letters(lake))
    left = leave_behind(letters(lake))
    report = compare(lake.project)
    assert [each.path for each in of_letters(report.tables).orphans.files] == [left.name]
    assert not report.ok
    cleaned = of_letters(clean(lake.project).tables)
    assert (cleaned.removed.count, cleaned.fenced) == (1, ("events/default",))
    assert not left.exists()
    assert len(tidegate.list_letters(lake.config, "events")) == 1
    assert compare(lake.project).ok


def test_without_letters_there_is_nothing_to_show(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.arrive(f"{FOLDER}/1.ndjson")
    lake.run()
    assert len(compare(lake.project).tables) == 1


def test_letters_that_are_owed_are_paid_and_not_removed(lake: Lake) -> None:
    lake.write(f"{FOLDER}/2.ndjson", "also bad\n")
    arm("state.debt.before=raise")
    try:
        lake.run()
    finally:
        arm("")
    age(letters(lake))
    assert of_letters(clean(lake.project).tables).removed.count == 0
    assert [letter.text for letter in tidegate.list_letters(lake.config, "events")] == ["bad", "also bad"]


def test_who_slept_with_letters_cannot_commit_them_after_the_fence(lake: Lake) -> None:
    (place,) = places_of(lake.project)
    opened = place.positions.open()
    (letter,) = tidegate.list_letters(lake.config, "events")
    state = dict(opened.state or {})
    sleeping = write_answers(place, [letter], DISCARDED, uuid7())
    debts = letter_debts(sleeping, place, opened)
    change = Change(NextState(state, place.abridge(state)), letters=sleeping, debts=debts)
    age(letters(lake))
    assert of_letters(clean(lake.project).tables).removed.count == 1
    with pytest.raises(CommitLost):
        place.positions.commit(opened, change)
    assert [each.id for each in tidegate.list_letters(lake.config, "events")] == [letter.id]


def test_letters_of_a_source_that_the_configuration_lacks_stop_the_removal(lake: Lake) -> None:
    lake.pipeline_settings = {"error_handling": {"dlq_path": "dead"}}
    lake.write(f"{FOLDER}/2.ndjson", "bad\n")
    lake.run()
    other = Lake(lake.root / "other", pipeline_settings={"error_handling": {"dlq_path": str(lake.root / "dead")}})
    other.settings = {"pipelines": {"stranger": other_pipeline(other)}}
    other.write("1.ndjson", "bad\n")
    other.run()
    left = leave_behind(lake.root / "dead")
    found = next(each for each in clean(lake.project).tables if each.table_uri.endswith("/dead"))
    assert "stranger" in (found.error or "")
    assert left.exists()


def other_pipeline(lake: Lake) -> dict[str, object]:
    return {
        "source": {"source_uri": "data/", "use_watermark": True},
        "schema": dict(lake.schema),
        "sink": {"table_uri": "lake/events"},
        **lake.pipeline_settings,
    }
