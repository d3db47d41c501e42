"""Files that are removed after a part of them was committed: one dead letter, and what happens when they come back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tidegate
from support.changes import moved
from support.errors import raises
from support.lake import Lake
from tidegate.commands.dead_letters import retry
from tidegate.commands.project import sources_of
from tidegate.core.files.state import RecordsRead
from tidegate.errors import SourceError
from tidegate.protocol.change import Coverage
from tidegate.runs.file_edit import DeadLetterSelection
from tidegate.runs.in_process import InProcessEngine

DAY = "date=2026-01-28"
HALF = f"{DAY}/2.ndjson"
READ = 4


@pytest.fixture(params=[True, False], ids=["watermark", "set"])
def lake(tmp_path: Path, request: pytest.FixtureRequest) -> Lake:
    lake = Lake(tmp_path, source_settings={"use_watermark": request.param})
    lake.arrive(f"{DAY}/1.ndjson")
    lake.run()
    return lake


def half_read(lake: Lake) -> str:
    """A file of which the state says that its first lines are committed; its content."""
    file = lake.arrive(HALF)
    del lake.expected[-10 : -10 + READ]
    (place,) = sources_of(lake.project, "events")
    opened = place.positions.open()
    now = place.tracker.store.head(HALF)
    state = place.tracker.decode(opened.state)
    partly = {HALF: RecordsRead(READ, now.size, now.etag)}
    encoded = place.tracker.encode(type(state)(**{**fields(state), "files": partly}))
    coverage = (Coverage(HALF, now.size, now.etag, 0, READ, eof=False, rows=READ),)
    place.positions.commit(opened, moved(encoded, embedded=place.abridge(encoded), coverage=coverage))
    return file.read_text()


def fields(state: Any) -> dict[str, Any]:
    return {name: getattr(state, name) for name in state.__dataclass_fields__ if name != "first_unfinished"}


def retried(lake: Lake) -> Any:
    (place,) = sources_of(lake.project, "events")
    return retry(place, DeadLetterSelection(), InProcessEngine)


def test_it_is_one_letter_and_nothing_waits_for_it(lake: Lake) -> None:
    half_read(lake)
    (lake.root / "data" / HALF).unlink()
    report = lake.run()
    assert (report.ok, report.sources[0].dead_files, report.sources[0].files) == (False, 1, 0)
    (letter,) = tidegate.list_letters(lake.config, "events")
    assert (letter.kind, letter.file, letter.line, letter.stage) == ("file", HALF, READ + 1, "removed")
    assert letter.reason == f"removed at the source after {READ} of its lines were committed"
    again = lake.run()
    assert (again.sources[0].commits, again.sources[0].state) == (0, "Idle")
    assert len(tidegate.list_letters(lake.config, "events")) == 1


def test_it_holds_until_a_listing_succeeds(lake: Lake) -> None:
    half_read(lake)
    data = lake.root / "data"
    data.rename(lake.root / "away")
    config = lake.config
    data.rmdir()
    with raises(SourceError, "source 'default'", "data", "source_uri"):
        tidegate.plan(config)
    (lake.root / "away").rename(data)
    assert lake.run().sources[0].dead_files == 0
    lake.assert_exactly_once()


def test_it_comes_back_as_it_was_and_a_retry_reads_the_rest_once(lake: Lake) -> None:
    half_read(lake)
    (lake.root / "data" / HALF).rename(lake.root / "away")
    lake.run()
    (lake.root / "away").rename(lake.root / "data" / HALF)
    assert lake.run().sources[0].files == 0
    report = retried(lake)
    assert (report.answered, report.rows, report.still_bad) == (1, 10 - READ, ())
    lake.assert_exactly_once()
    assert (retried(lake).letters, lake.run().sources[0].files) == (0, 0)
    lake.assert_exactly_once()


def test_it_comes_back_with_another_content_and_is_not_mixed(lake: Lake) -> None:
    text = half_read(lake)
    (lake.root / "data" / HALF).unlink()
    lake.run()
    lake.write(HALF, text.replace("view", "click again"))
    assert lake.run().sources[0].files == 0
    report = retried(lake)
    assert (report.answered, report.rows) == (0, 0)
    assert "tidegate replay" in report.still_bad[0][2]
    (found,) = tidegate.reconcile(lake.config).sources
    assert found.repaired.names == (HALF,)
