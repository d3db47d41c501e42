"""Files that were given up are not taken for ingested ones, and a repaired one is named with what to do about it."""

from __future__ import annotations

from pathlib import Path

import pytest

import tidegate
from support.lake import Lake
from tidegate.commands.dead_letters import retry
from tidegate.commands.project import sources_of
from tidegate.reports.ledger import IngestedFile
from tidegate.reports.page import Cell, Table
from tidegate.reports.reconcile import SourceComparison
from tidegate.runs.file_edit import DeadLetterSelection
from tidegate.runs.in_process import InProcessEngine

DAY = "date=2026-01-28"
BAD = f"{DAY}/2.ndjson.gz"


@pytest.fixture(params=[True, False], ids=["watermark", "set"])
def lake(tmp_path: Path, request: pytest.FixtureRequest) -> Lake:
    """A good file, an empty one, and one that was given up."""
    lake = Lake(tmp_path, source_settings={"use_watermark": request.param, "max_attempts": 1})
    lake.arrive(f"{DAY}/1.ndjson")
    lake.write(f"{DAY}/3.ndjson", "")
    lake.write(BAD, "").write_bytes(b"no gzip")
    report = lake.run().sources[0]
    assert (report.dead_files, report.bad_records, report.files) == (1, 0, 2)
    return lake


def by_name(lake: Lake) -> dict[str, IngestedFile]:
    return {each.file: each for each in tidegate.files(lake.config, "events").files}


def compared(lake: Lake) -> SourceComparison:
    return tidegate.reconcile(lake.config).sources[0]


def test_files_marks_it(lake: Lake) -> None:
    found = by_name(lake)
    assert [(name, each.given_up, each.finished) for name, each in sorted(found.items())] == [
        (f"{DAY}/1.ndjson", False, True),
        (BAD, True, False),
        (f"{DAY}/3.ndjson", False, True),
    ]
    assert (found[BAD].rows, found[BAD].bad, found[BAD].records) == (0, 1, 0)
    assert found[BAD].to_json()["given_up"] is True
    (table,) = [block for block in tidegate.files(lake.config, "events").page() if isinstance(block, Table)]
    assert [cell.text for row in table.rows for cell in row if isinstance(cell, Cell)].count("given up") == 1


def test_reconcile_counts_it_apart_and_is_content(lake: Lake) -> None:
    report = tidegate.reconcile(lake.config)
    (source,) = report.sources
    assert (source.given_up.names, source.repaired.count, source.ingested) == ((BAD,), 0, 2)
    assert report.ok


def test_a_repaired_one_is_named_until_it_was_read(lake: Lake) -> None:
    lake.arrive(BAD)
    source = compared(lake)
    assert (source.repaired.names, source.given_up.count, source.changed.count) == ((BAD,), 0, 0)
    assert source.needs_someone
    (place,) = sources_of(lake.project, "events")
    assert retry(place, DeadLetterSelection(), InProcessEngine).answered == 1
    lake.assert_exactly_once()
    source = compared(lake)
    assert (source.repaired.count, source.given_up.count, source.ingested) == (0, 0, 3)
    newest = tidegate.files(lake.config, "events").files[0]
    assert (newest.file, newest.given_up, newest.finished, newest.rows) == (BAD, False, True, 10)
