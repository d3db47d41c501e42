"""Parts of a set that nothing refers to any more are found and removed; those that a recovery may need are not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import tidegate
from support.changes import moved
from support.lake import Lake
from support.reconciling import DAY, clean, compare, places_of
from tidegate.core.files.paths import SourceFile
from tidegate.errors import CommitLost

FOLDER = "lake/events/_tidegate/events_default_set"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Nine commits: the eighth merged the parts of the first seven."""
    lake = Lake(tmp_path, source_settings={"use_watermark": False})
    for number in range(9):
        lake.arrive(f"{number}.ndjson")
        assert lake.run().ok
    return lake


def parts(lake: Lake) -> set[str]:
    return {path.name for path in (lake.root / FOLDER).iterdir()}


def needed(lake: Lake) -> set[str]:
    (place,) = places_of(lake.project)
    return {f"{each.sha256}.parquet" for each in place.state_of(place.positions.open()).segments}


def age(lake: Lake) -> None:
    for path in (lake.root / "lake/events").rglob("*.parquet"):
        moment = path.stat().st_mtime - 2 * DAY.total_seconds()
        os.utime(path, (moment, moment))


def forget_history(lake: Lake) -> None:
    """As if the old documents had been gathered into blocks and the log cleaned up: only the newest are left."""
    (place,) = places_of(lake.project)
    newest = place.positions.open().version
    for path in (lake.root / "lake/events/_tidegate/events/default").glob("*.json"):
        if int(path.name[:20]) < newest:
            path.unlink()
    place.positions.site.delta.checkpoint()
    for path in sorted((lake.root / "lake/events/_delta_log").glob("*.json"))[:-1]:
        path.unlink()


def test_parts_that_documents_and_log_refer_to_stay(lake: Lake) -> None:
    before = parts(lake)
    age(lake)
    assert len(before) > len(needed(lake))
    assert compare(lake.project).ok
    clean(lake.project)
    assert parts(lake) == before


def test_parts_that_nothing_refers_to_are_removed_and_the_set_is_whole(lake: Lake) -> None:
    forget_history(lake)
    age(lake)
    old = parts(lake) - needed(lake)
    found = compare(lake.project).tables[0].orphans
    assert {Path(each.path).name for each in found.files} == old != set()
    assert clean(lake.project).tables[0].removed.count == len(old)
    assert parts(lake) == needed(lake)
    assert lake.run().ok
    lake.assert_exactly_once()
    assert tidegate.recover(lake.config, "events")[0].verdict == "ok"


def test_a_damaged_document_keeps_them_all(lake: Lake) -> None:
    forget_history(lake)
    age(lake)
    before = parts(lake)
    path = max((lake.root / "lake/events/_tidegate/events/default").glob("*.json"))
    path.with_name(f"{3:020d}-{'a' * 8}.json").write_text("{")
    assert compare(lake.project).tables[0].orphans.count == 0
    clean(lake.project)
    assert parts(lake) == before


def test_young_ones_stay(lake: Lake) -> None:
    forget_history(lake)
    before = parts(lake)
    assert clean(lake.project).tables[0].removed.count == 0
    assert parts(lake) == before


def test_who_slept_with_a_part_in_its_hands_cannot_commit_it(lake: Lake) -> None:
    (place,) = places_of(lake.project)
    opened = place.positions.open()
    state = place.tracker.remembered.extend(place.state_of(opened), [SourceFile("new.ndjson", 1)])
    age(lake)
    assert clean(lake.project).tables[0].removed.count == 1
    encoded = place.tracker.encode(state)
    with pytest.raises(CommitLost):
        place.positions.commit(opened, moved(encoded, embedded=place.abridge(encoded)))
    assert lake.run().ok


def test_the_same_paths_never_have_the_same_name_twice(lake: Lake) -> None:
    (place,) = places_of(lake.project)
    state = place.state_of(place.positions.open())
    one, other = (place.tracker.remembered.extend(state, [SourceFile("new", 1)]) for _ in range(2))
    assert one.segments[-1].sha256 != other.segments[-1].sha256
