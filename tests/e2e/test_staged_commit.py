"""The committer: what staged runs left becomes visible, in order, exactly once; what is bad is put aside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.lake import Lake
from support.staging import commit, pending, rejected, staged, unit_file, units
from tidegate import files, list_letters, status, watermark_history
from tidegate.observe import events
from tidegate.protocol.staging import UNIT, StagedUnit

HOUR = "date=2026-01-28/hour=12"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path, pipeline_settings={"delivery": "staged"})


@pytest.fixture(params=[True, False], ids=["watermark", "set"])
def either(request: pytest.FixtureRequest, lake: Lake) -> Lake:
    lake.source_settings = {"use_watermark": request.param}
    return lake


def left(lake: Lake) -> list[str]:
    """Names of everything that waits."""
    return sorted(path.name for path in pending(lake).rglob("*") if path.is_file())


def position(lake: Lake) -> int:
    (now,) = status(lake.config)
    return now.version


def changed(lake: Lake, seq: int, **fields: Any) -> None:
    """A unit with other fields."""
    path = unit_file(lake, seq)
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_units_become_visible_in_one_commit_and_nothing_waits_any_more(either: Lake) -> None:
    staged(either, f"{HOUR}/0.ndjson", f"{HOUR}/1.ndjson", "date=2026-01-28/hour=13/0.ndjson")
    table = commit(either)
    assert (table.commits, table.units, table.files, table.rows, table.table_version) == (1, 3, 3, 30, 0)
    assert (table.error, table.rejected, table.waiting) == (None, (), 0)
    (source,) = table.sources
    assert (source.position, source.units, source.rows) == (3, 3, 30)
    either.assert_exactly_once()
    assert left(either) == []
    staged(either, f"{HOUR}/2.ndjson")
    assert commit(either).table_version == 1
    either.assert_exactly_once()
    assert position(either) == 4
    assert commit(either).commits == 0


def test_a_commit_takes_whole_units_up_to_the_number_of_files(lake: Lake) -> None:
    lake.pipeline_settings = {"delivery": "staged", "staging": {"max_files_per_commit": 2}}
    staged(lake, *(f"{HOUR}/{number}.ndjson" for number in range(5)))
    table = commit(lake)
    assert (table.commits, table.units, table.table_version) == (3, 5, 2)
    lake.assert_exactly_once()
    assert [entry.position for entry in watermark_history(lake.config, "events")[0].positions] == [5, 4, 2]


def test_what_was_committed_is_kept_where_the_configuration_says_so(lake: Lake) -> None:
    lake.pipeline_settings = {"delivery": "staged", "staging": {"archive": True}}
    staged(lake, f"{HOUR}/0.ndjson")
    waited = left(lake)
    commit(lake)
    assert left(lake) == []
    archive = lake.root / "lake/events/_staging/archive"
    assert sorted(path.name for path in archive.rglob("*") if path.is_file()) == waited


def test_a_unit_waits_for_the_one_before_it(lake: Lake) -> None:
    staged(lake, f"{HOUR}/0.ndjson", f"{HOUR}/1.ndjson", f"{HOUR}/2.ndjson")
    aside = lake.root / "second"
    unit_file(lake, 2).rename(aside)
    table = commit(lake)
    assert (table.units, table.waiting) == (1, 1)
    assert any("waits for unit 2" in event.text for event in lake.seen if isinstance(event, events.Notice))
    aside.rename(unit_file(lake, 2))
    assert commit(lake).units == 2
    lake.assert_exactly_once()


def test_a_unit_whose_number_is_committed_is_dropped(lake: Lake) -> None:
    staged(lake, f"{HOUR}/0.ndjson")
    again = unit_file(lake, 1).read_bytes()
    commit(lake)
    unit_file(lake, 1).write_bytes(again)
    table = commit(lake)
    assert (table.dropped, table.units, table.rows) == (1, 0, 0)
    assert left(lake) == []
    lake.assert_exactly_once()
    assert commit(lake).commits == 0


def test_a_missing_data_file_rejects_its_unit_and_its_records_are_read_again(either: Lake) -> None:
    staged(either, f"{HOUR}/0.ndjson", f"{HOUR}/1.ndjson", f"{HOUR}/2.ndjson")
    (file,) = units(either)[1].data_files
    (either.root / "lake/events" / file.path).unlink()
    table = commit(either)
    assert table.units == 2
    (bad,) = table.rejected
    assert bad.path.endswith(f"{2:020d}{UNIT}")
    assert "disappeared" in bad.reason
    assert left(either) == []
    assert [name for name in rejected(either) if "reason" in name] == [f"events/default/{2:020d}.unit.reason.json"]
    assert [event.path for event in either.seen if isinstance(event, events.UnitRejected)] == [bad.path]
    assert sorted(either.ids()) == [*range(10), *range(20, 30)]
    assert either.run().ok
    assert commit(either).units == 1
    either.assert_exactly_once()
    (now,) = status(either.config)
    assert (now.in_progress, now.backlog_files) == (0, 0)


def test_the_watermark_stays_below_the_files_of_a_rejected_unit(lake: Lake) -> None:
    staged(lake, f"{HOUR}/0.ndjson", f"{HOUR}/1.ndjson", f"{HOUR}/2.ndjson")
    changed(lake, 2, rows=11)
    assert len(commit(lake).rejected) == 1
    (now,) = status(lake.config)
    assert (now.watermark, now.in_progress) == (f"{HOUR}/0.ndjson", 1)
    lake.run()
    commit(lake)
    lake.assert_exactly_once()
    (now,) = status(lake.config)
    assert now.watermark == f"{HOUR}/2.ndjson"


def test_a_unit_that_goes_on_with_a_file_of_a_rejected_one_is_rejected_too(lake: Lake) -> None:
    lake.source_settings = {"checkpoint": {"interval_secs": 1}}
    lake.sink_settings = {"commit_batch_files": 1}
    lake.arrive(f"{HOUR}/0.ndjson", 10)
    lake.run()
    (whole,) = units(lake)
    halves = _in_halves(lake, whole)
    lake.arrive(f"{HOUR}/1.ndjson", 10)
    lake.run()
    assert [unit.seq for unit in units(lake)] == [1, 2, 3]
    (lake.root / "lake/events" / halves[0].data_files[0].path).unlink()
    table = commit(lake)
    assert [each.path[-30:-10] for each in table.rejected] == [f"{1:020d}", f"{2:020d}"]
    assert "0 lines are committed" in table.rejected[1].reason
    assert lake.ids() == list(range(10, 20))
    lake.run()
    commit(lake)
    lake.assert_exactly_once()


def _in_halves(lake: Lake, whole: StagedUnit) -> list[StagedUnit]:
    """The unit as two: the first five lines of its file, and the rest."""
    import pyarrow.parquet as pq

    root = lake.root / "lake/events"
    halves = []
    for number, (start, end) in enumerate(((0, 5), (5, 10))):
        data = json.loads(whole.to_bytes())
        path = root / f"half-{number}.parquet"
        pq.write_table(pq.read_table(root / whole.data_files[0].path).slice(start, 5), path)
        data["data_files"][0] |= {"path": path.name, "size": path.stat().st_size, "record_count": 5, "stats": None}
        span = {"from": start, "to": end, "eof": number == 1, "rows": 5}
        data["coverage"][0] |= span
        data["step"]["outcomes"][0] |= {"start": start, "end": end, "eof": number == 1, "rows": 5}
        data |= {"seq": number + 1, "rows": 5}
        unit = StagedUnit.from_bytes(json.dumps(data).encode())
        unit_file(lake, number + 1).write_bytes(unit.to_bytes())
        halves.append(unit)
    return halves


@pytest.mark.parametrize("damage", ["not json", '{"schema_version": 1}'])
def test_after_a_unit_that_cannot_be_read_everything_is_planned_again(either: Lake, damage: str) -> None:
    staged(either, f"{HOUR}/0.ndjson", f"{HOUR}/1.ndjson", f"{HOUR}/2.ndjson", f"{HOUR}/3.ndjson")
    unit_file(either, 2).write_text(damage)
    table = commit(either)
    assert (table.units, len(table.rejected)) == (1, 3)
    assert left(either)[-1:] == [] or all(name.endswith(".meta.json") for name in left(either))
    assert either.ids() == list(range(10))
    assert either.run().ok
    assert commit(either).rejected == ()
    either.assert_exactly_once()


def test_a_unit_that_arrives_after_an_unreadable_one_was_rejected_is_planned_again_too(lake: Lake) -> None:
    staged(lake, f"{HOUR}/0.ndjson", f"{HOUR}/1.ndjson", f"{HOUR}/2.ndjson")
    late = lake.root / "late"
    unit_file(lake, 3).rename(late)
    unit_file(lake, 2).write_text("not json")
    assert len(commit(lake).rejected) == 1
    late.rename(unit_file(lake, 3))
    assert len(commit(lake).rejected) == 1
    assert lake.ids() == list(range(10))
    lake.run()
    commit(lake)
    lake.assert_exactly_once()


def test_a_unit_of_another_location_is_rejected(lake: Lake) -> None:
    staged(lake, f"{HOUR}/0.ndjson")
    identity = json.loads(unit_file(lake, 1).read_text())["identity"]
    changed(lake, 1, identity=identity | {"source_uri": "file:///elsewhere"})
    (bad,) = commit(lake).rejected
    assert "source_uri" in bad.reason
    lake.run()
    commit(lake)
    lake.assert_exactly_once()


def test_a_unit_of_a_newer_tidegate_is_left_alone(lake: Lake) -> None:
    staged(lake, f"{HOUR}/0.ndjson", f"{HOUR}/1.ndjson")
    changed(lake, 2, schema_version=99)
    table = commit(lake)
    assert (table.units, table.rejected) == (1, ())
    assert "upgrade" in str(table.sources[0].error)
    assert unit_file(lake, 2).exists()


def test_a_unit_that_covers_what_is_committed_is_rejected(lake: Lake) -> None:
    staged(lake, f"{HOUR}/0.ndjson")
    first = json.loads(unit_file(lake, 1).read_text())
    commit(lake)
    unit_file(lake, 2).write_text(json.dumps(first | {"seq": 2, "base": 0, "data_files": [], "rows": 0}))
    (bad,) = commit(lake).rejected
    assert "finished already" in bad.reason
    lake.assert_exactly_once()


def test_units_that_fit_the_table_and_not_each_other_are_told_apart(lake: Lake) -> None:
    staged(lake, f"{HOUR}/0.ndjson")
    schema = {"fields": [*lake.schema["fields"], {"name": "extra", "type": "string"}]}
    other = {"fields": [*lake.schema["fields"], {"name": "extra", "type": "int64"}]}
    lake.schema = schema
    lake.arrive(f"{HOUR}/1.ndjson", extra="text")
    lake.run()
    lake.schema = other
    lake.arrive(f"{HOUR}/2.ndjson", extra=5)
    lake.run()
    table = commit(lake)
    assert (table.units, table.commits) == (2, 1)
    (bad,) = table.rejected
    assert "extra" in bad.reason
    lake.schema = schema
    lake.arrive(f"{HOUR}/3.ndjson")
    lake.run()
    commit(lake)
    assert lake.ids() == [*range(20), *range(30, 40)]


def test_units_of_a_source_that_the_configuration_does_not_have_are_left_alone(lake: Lake) -> None:
    staged(lake, f"{HOUR}/0.ndjson")
    stranger = unit_file(lake, 1, "stranger")
    stranger.parent.mkdir(parents=True)
    unit_file(lake, 1).rename(stranger)
    table = commit(lake)
    assert (table.unknown, table.commits, table.error) == (1, 0, None)
    assert stranger.exists()


def test_bad_lines_of_units_become_dead_letters_with_their_commit(lake: Lake) -> None:
    lake.write(f"{HOUR}/0.ndjson", '{"id": 0}\n{"id": "bad"}\n')
    lake.expected.append(0)
    lake.next_id = 1
    lake.run()
    staged(lake, f"{HOUR}/1.ndjson")
    lake.write(f"{HOUR}/2.ndjson", '{"id": "worse"}\n')
    lake.run()
    assert list_letters(lake.config, "events") == ()
    commit(lake)
    assert [letter.text for letter in list_letters(lake.config, "events")] == ['{"id": "bad"}', '{"id": "worse"}']
    (now,) = status(lake.config)
    assert now.open_letters == 2
    lake.assert_exactly_once()


def test_the_ledger_shows_what_staged_commits_brought(lake: Lake) -> None:
    staged(lake, f"{HOUR}/0.ndjson", f"{HOUR}/1.ndjson")
    commit(lake)
    staged(lake, f"{HOUR}/2.ndjson")
    commit(lake)
    report = files(lake.config, "events")
    assert report.gaps == ()
    assert sorted((line.file, line.position) for line in report.files) == [
        (f"{HOUR}/0.ndjson", 2),
        (f"{HOUR}/1.ndjson", 2),
        (f"{HOUR}/2.ndjson", 3),
    ]


@pytest.mark.parametrize("schema", [None, {"infer": True}], ids=["declared", "inferred"])
def test_an_unreadable_first_unit_makes_the_table(lake: Lake, schema: dict[str, Any] | None) -> None:
    lake.schema = schema or lake.schema
    staged(lake, f"{HOUR}/0.ndjson")
    unit_file(lake, 1).write_text("not json")
    table = commit(lake)
    assert (table.commits, table.rows, len(table.rejected)) == (1, 0, 1)
    lake.run()
    commit(lake)
    lake.assert_exactly_once()


@pytest.mark.parametrize("step", [{}, {"plan": {}, "outcomes": [], "unfinished": []}, {"outcomes": [{"outcome": "x"}]}])
def test_a_unit_whose_step_cannot_be_read_is_planned_again(lake: Lake, step: dict[str, Any]) -> None:
    staged(lake, f"{HOUR}/0.ndjson", f"{HOUR}/1.ndjson")
    changed(lake, 1, step=step)
    assert len(commit(lake).rejected) == 2
    assert lake.run().ok
    commit(lake)
    lake.assert_exactly_once()


def test_a_unit_that_names_the_file_of_another_is_rejected(lake: Lake) -> None:
    staged(lake, f"{HOUR}/0.ndjson", f"{HOUR}/1.ndjson")
    changed(lake, 2, data_files=json.loads(unit_file(lake, 1).read_text())["data_files"])
    table = commit(lake)
    assert (table.error, table.units) == (None, 1)
    assert "another unit" in table.rejected[0].reason
    lake.run()
    commit(lake)
    lake.assert_exactly_once()


def test_a_source_that_cannot_be_opened_keeps_no_other_waiting(lake: Lake) -> None:
    other = {
        "source": {"source_uri": "more/", "use_watermark": True},
        "schema": dict(lake.schema),
        "sink": {"table_uri": "lake/events"},
        "delivery": "staged",
    }
    first = {**other, "source": {"source_uri": "data/", "use_watermark": True}}
    lake.settings = {"pipelines": {"events": first, "more": other}}
    (lake.root / "more").mkdir(parents=True)
    lake.arrive(f"{HOUR}/0.ndjson")
    lake.arrive("../more/0.ndjson")
    lake.run()
    commit(lake)
    lake.arrive(f"{HOUR}/1.ndjson")
    lake.arrive("../more/1.ndjson")
    lake.run()
    moved = {**first, "source": {"source_uri": "elsewhere/", "use_watermark": True}}
    lake.settings = {"pipelines": {"events": moved, "more": other}}
    table = commit(lake)
    assert (table.units, table.waiting, table.exit_code) == (1, 1, 5)
    assert [(each.pipeline, each.error is None) for each in table.sources] == [("events", False), ("more", True)]
    lake.settings = {"pipelines": {"events": first, "more": other}}
    assert commit(lake).units == 1
    lake.assert_exactly_once()
