"""Staged runs: what they leave for the committer, how they go on above it, and what is refused meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from support.errors import raises
from support.lake import Lake
from support.reconciling import clean, ingest, leave_behind
from support.staging import commit, metas, staged_ids, unit_file, units
from tidegate import discard_letters, list_letters, plan, reset_watermark, retry_letters, set_watermark, status
from tidegate.commands.replay import FileReplay
from tidegate.core.files.discovery import Reason
from tidegate.core.files.edit import Selection
from tidegate.errors import StateError, StorageUnavailable
from tidegate.failpoints import arm, arm_by
from tidegate.observe.events import CommitContested
from tidegate.protocol.position import Pace
from tidegate.runs import file_source
from tidegate.runs.bind import bind
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop
from tidegate.storage.local import LocalStore

HOUR = "date=2026-01-28/hour=12"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path, pipeline_settings={"delivery": "staged"})
    for number in range(3):
        lake.arrive(f"{HOUR}/{number}.ndjson.gz")
    return lake


@pytest.fixture(params=[True, False], ids=["watermark", "set"])
def either(request: pytest.FixtureRequest, lake: Lake) -> Lake:
    lake.source_settings = {"use_watermark": request.param}
    return lake


def test_a_staged_run_leaves_parquet_metas_and_one_signal_and_no_table(lake: Lake) -> None:
    report = lake.run()
    assert report.ok
    (source,) = report.sources
    assert (source.files, source.rows, source.commits, source.staged) == (3, 30, 0, 1)
    assert (source.state, source.table_version) == ("Active", None)
    assert not (lake.root / "lake/events/_delta_log").exists()
    (unit,) = units(lake)
    assert (unit.seq, unit.rows, unit.base, unit.action) == (1, 30, -1, "run")
    assert [each.file for each in unit.coverage] == [f"{HOUR}/{number}.ndjson.gz" for number in range(3)]
    found = metas(lake)
    assert {meta.filename for meta in found} == {file.path for file in unit.data_files}
    for meta in found:
        assert (meta.pipeline, meta.source, meta.attempt) == ("events", "default", unit.attempt)
        assert (lake.root / "lake/events" / meta.filename).stat().st_size == meta.size
    assert sum(meta.record_count for meta in found) == 30
    assert [field["name"] for field in json.loads(unit.schema_json or "")["fields"]] == ["id", "ts", "event"]
    assert staged_ids(lake) == lake.expected


def test_later_runs_go_on_above_what_is_pending(either: Lake) -> None:
    either.run()
    (idle,) = either.run().sources
    assert (idle.files, idle.staged, idle.state) == (0, 0, "Idle")
    either.arrive(f"{HOUR}/3.ndjson.gz")
    either.arrive("date=2026-01-28/hour=13/0.ndjson.gz")
    (source,) = either.run().sources
    assert (source.files, source.staged) == (2, 1)
    assert [unit.seq for unit in units(either)] == [1, 2]
    assert staged_ids(either) == either.expected


def test_many_units_of_one_pass_and_plans_that_are_cut_off_count_on(
    either: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_source.discover_files, "__defaults__", (0, 2))
    either.source_settings = {**either.source_settings, "checkpoint": {"interval_files": 1}}
    for number in range(3, 9):
        either.arrive(f"{HOUR}/{number}.ndjson.gz", 1)
    (source,) = either.run().sources
    assert (source.files, source.staged >= 3) == (9, True)
    assert [unit.seq for unit in units(either)] == list(range(1, source.staged + 1))
    assert staged_ids(either) == either.expected
    assert either.run().sources[0].files == 0
    assert commit(either).error is None
    either.assert_exactly_once()


def test_a_set_counts_what_is_pending_and_writes_no_segment(lake: Lake) -> None:
    lake.source_settings = {"use_watermark": False}
    lake.run()
    (planned,) = plan(lake.config)
    assert [(each.reason, each.count) for each in planned.plan.skipped] == [(Reason.PENDING, 3)]
    assert not (lake.root / "lake/events/_tidegate/events_default_set").exists()
    lake.write(f"{HOUR}/1.ndjson.gz", '{"id": 1}\n')
    (planned,) = plan(lake.config)
    assert [(each.reason, each.count) for each in planned.plan.skipped] == [(Reason.REWRITTEN, 1), (Reason.PENDING, 2)]


def test_a_large_file_is_staged_in_the_middle_and_goes_on_there(lake: Lake) -> None:
    lake.sink_settings = {"file_size_mb": 1, "row_group_size_bytes": 1024 * 1024, "commit_batch_files": 1}
    lines = [f'{{"id":{number},"event":"{number * 2654435761 % 2**64:x}"}}' for number in range(30, 200_030)]
    lake.write("date=2026-01-28/hour=13/0.ndjson.gz", "\n".join(lines))
    lake.expected += range(30, 200_030)
    assert lake.run().ok
    parts = [each for unit in units(lake) for each in unit.coverage if "hour=13" in each.file]
    assert len(parts) >= 2
    assert [each.start for each in parts[1:]] == [each.end for each in parts[:-1]]
    assert [each.eof for each in parts] == [False] * (len(parts) - 1) + [True]
    unit_file(lake, units(lake)[-1].seq).unlink()
    assert lake.run().ok
    assert commit(lake).error is None
    lake.assert_exactly_once()


def test_bad_lines_travel_with_their_unit_and_become_letters_with_its_commit(either: Lake) -> None:
    either.write(f"{HOUR}/3.ndjson", "not JSON\n")
    assert either.run().ok
    (unit,) = units(either)
    assert (unit.letters, len(unit.letter_files)) == (1, 1)
    assert (unit.letters_uri or "").endswith("lake/events_dead_letters")
    assert list_letters(either.config, "events") == ()
    assert commit(either).error is None
    (letter,) = list_letters(either.config, "events")
    assert (letter.file, letter.line) == (f"{HOUR}/3.ndjson", 1)
    either.assert_exactly_once()


def test_a_file_that_fails_is_a_unit_without_data_and_becomes_a_letter_in_the_end(either: Lake) -> None:
    either.source_settings = {**either.source_settings, "max_attempts": 2}
    (either.root / "data" / HOUR / "1.ndjson.gz").write_bytes(b"this is not gzip")
    either.expected = [*range(10), *range(20, 30)]
    first = either.run()
    assert [file.attempts for file in first.sources[0].failed] == [1]
    second = either.run()
    assert second.sources[0].dead_files == 1
    assert [(len(unit.data_files), unit.letters) for unit in units(either)][1:] == [(0, 0), (0, 1)]
    assert commit(either).error is None
    either.assert_exactly_once()
    (letter,) = list_letters(either.config, "events")
    assert (letter.kind, letter.file) == ("file", f"{HOUR}/1.ndjson.gz")
    assert either.run().ok
    assert commit(either).units == 0


def test_a_limit_stops_before_the_unit_that_exceeds_it(lake: Lake) -> None:
    lake.pipeline_settings = {"delivery": "staged", "error_handling": {"max_bad_records": 1}}
    lake.write(f"{HOUR}/3.ndjson", "no\nno\n")
    assert "error_handling.max_bad_records" in (lake.run().sources[0].error or "")
    assert units(lake) == []


def test_a_bounded_first_run_is_fixed_before_and_after_the_first_unit(tmp_path: Path) -> None:
    bounds = {"partition_filter": {"prefix_template": "date=%Y-%m-%d", "lookback": 1}}
    lake = Lake(tmp_path, bounds, pipeline_settings={"delivery": "staged"})
    lake.arrive("date=2020-01-01/1.ndjson")
    lake.expected.clear()
    assert lake.run().sources[0].files == 0
    assert units(lake) == []
    assert (lake.root / "lake/events/_tidegate/events/default/cold_start.json").exists()
    lake.source_settings = {}
    lake.arrive(f"date={datetime.now(UTC):%Y-%m-%d}/1.ndjson")
    assert lake.run().sources[0].files == 1
    assert lake.run().sources[0].files == 0
    assert commit(lake).error is None
    lake.assert_exactly_once()
    assert lake.run().sources[0].files == 0


def test_plan_and_status_tell_what_is_pending_and_look_above_it(either: Lake) -> None:
    either.run()
    either.arrive("date=2026-01-28/hour=13/0.ndjson.gz")
    (planned,) = plan(either.config)
    assert (planned.pending_units, planned.plan.files, planned.plan.version) == (1, 1, 1)
    assert "after the staged units that wait for `tidegate commit`: 1" in planned.notes
    (now,) = status(either.config)
    assert (now.pending_units, now.pending_files >= 1, now.backlog_files, now.version) == (1, True, 1, 0)
    assert now.pending_seconds is not None
    assert "staged" in "".join(map(repr, now.page()))
    commit(either)
    (now,) = status(either.config)
    assert (now.pending_units, now.pending_files, now.pending_seconds, now.backlog_files) == (0, 0, None, 1)
    assert plan(either.config)[0].pending_units == 0


def test_status_says_so_where_the_units_cannot_be_counted_in(lake: Lake) -> None:
    lake.run()
    unit_file(lake, 1).write_text("{}")
    (now,) = status(lake.config)
    assert (now.pending_units, now.backlog_files, now.error) == (1, 3, None)
    assert any("without the staged units" in note for note in now.notes)


@pytest.mark.parametrize("damage", ["not JSON", "[]", "{}", "other number", "other source"])
def test_a_unit_that_cannot_be_read_stops_the_writer_until_the_committer_has_decided(lake: Lake, damage: str) -> None:
    lake.run()
    path = unit_file(lake, 1)
    content = json.loads(path.read_text())
    match damage:
        case "other number":
            path.write_text(json.dumps(content | {"seq": 2}))
        case "other source":
            path.write_text(json.dumps(content | {"identity": {**content["identity"], "source_uri": "file:///other"}}))
        case _:
            path.write_text(damage)
    error = lake.run().sources[0].error or ""
    assert path.name in error
    assert "`tidegate commit CONFIG --once`" in error
    assert len(commit(lake).rejected) == 1
    assert lake.run().ok
    assert commit(lake).error is None
    lake.assert_exactly_once()


def test_a_missing_unit_below_another_stops_the_writer(lake: Lake) -> None:
    lake.run()
    lake.arrive(f"{HOUR}/3.ndjson.gz")
    lake.run()
    unit_file(lake, 1).unlink()
    error = lake.run().sources[0].error or ""
    assert "units are missing" in error
    assert "position 0 is committed, and those that wait are 2" in error
    unit_file(lake, 2).unlink()
    assert lake.run().ok
    assert commit(lake).error is None
    lake.assert_exactly_once()


@contextmanager
def at(place: str, happens: Callable[[], object]) -> Iterator[None]:
    """Something else happens once when ``place`` is reached."""
    todo = [happens]

    def rule(name: str) -> str | None:
        if name == place and todo:
            todo.pop()()
        return None

    arm_by(rule)
    try:
        yield
    finally:
        arm("")
    assert not todo, f"the failpoint {place} was not reached"


def test_whoever_comes_second_plans_again_on_top_of_the_first(either: Lake) -> None:
    with at("staging.unit.before", either.run):
        (source,) = either.run().sources
    assert (source.error, source.staged, source.files) == (None, 0, 0)
    assert [event.detail for event in either.seen if isinstance(event, CommitContested)] == [
        "position 1 was taken by another writer"
    ]
    assert staged_ids(either) == either.expected


def test_a_number_that_was_committed_and_removed_meanwhile_is_not_taken_twice(either: Lake) -> None:
    def overtake() -> None:
        either.arrive(f"{HOUR}/3.ndjson.gz")
        assert either.run().ok
        assert commit(either).units == 1

    with at("staging.unit.before", overtake):
        (source,) = either.run().sources
    assert (source.error, source.staged, source.files) == (None, 0, 0)
    assert commit(either).dropped == 1
    either.assert_exactly_once()


def test_a_data_file_that_is_gone_before_its_unit_is_written_is_read_again(lake: Lake) -> None:
    def lose() -> None:
        for path in (lake.root / "lake/events").glob("*.parquet"):
            path.unlink()

    with at("runs.commit.before", lose):
        assert lake.run().ok
    assert staged_ids(lake) == lake.expected


def test_a_source_with_pending_units_refuses_whatever_else_would_move_it(lake: Lake) -> None:
    lake.source_settings = {"late_files": "strict"}
    lake.write(f"{HOUR}/3.ndjson", "not JSON\n")
    lake.run()
    commit(lake)
    lake.arrive(f"{HOUR}/00-late.ndjson.gz")
    lake.arrive(f"{HOUR}/4.ndjson.gz")
    lake.run()
    leave_behind(lake.root / "lake/events")
    place = bind(lake.project, lake.project.pipelines[0], lake.project.pipelines[0].sources[0], 1)
    refused: dict[str, Callable[[], object]] = {
        "watermark set": lambda: set_watermark(lake.config, "events", to=f"{HOUR}/1.ndjson.gz"),
        "watermark reset": lambda: reset_watermark(lake.config, "events"),
        "replay": lambda: FileReplay(place, InProcessEngine(), Selection("**", None)).run(),
        "dlq retry": lambda: retry_letters(lake.config, "events"),
        "dlq discard": lambda: discard_letters(lake.config, "events"),
    }
    for name, act in refused.items():
        with raises(StateError, "events/default", "position 2", "tidegate commit CONFIG --once") as stopped:
            act()
        assert "`tidegate commit CONFIG --once`" in stopped.value.remedy, name
    for report in (ingest(lake.project), clean(lake.project)):
        assert not report.ok
        told = [each.error or "" for each in (*report.sources, *report.tables)]
        assert any("staged units wait" in each for each in told), told
    lake.pipeline_settings = {}
    assert "staged units wait" in (lake.run().sources[0].error or "")
    assert any("staged units wait" in note for note in plan(lake.config)[0].notes)
    assert status(lake.config)[0].pending_units == 1
    assert commit(lake).units == 1
    assert set_watermark(lake.config, "events", to=f"{HOUR}/1.ndjson.gz", confirm=lambda move: False).applied is False


def test_delivery_can_be_switched_back_and_forth(either: Lake) -> None:
    for number in range(4):
        either.pipeline_settings = {"delivery": "staged" if number % 2 else "direct"}
        either.arrive(f"{HOUR}/{number + 3}.ndjson.gz")
        assert either.run().ok
        either.arrive(f"date=2026-01-28/hour=13/{number}.ndjson.gz")
        assert either.run().ok
        assert commit(either).error is None
        either.assert_exactly_once()
    assert either.run().sources[0].state == "Idle"


def test_a_failed_file_that_is_removed_is_forgotten_by_a_unit_without_files(either: Lake) -> None:
    broken = either.root / "data" / HOUR / "3.ndjson.gz"
    broken.write_bytes(b"this is not gzip")
    assert not either.run().ok
    broken.unlink()
    (source,) = either.run().sources
    assert (source.failed, source.files, source.staged) == ((), 0, 1)
    assert [(len(unit.data_files), unit.coverage) for unit in units(either)][1] == (0, ())
    assert commit(either).units == 2
    assert status(either.config)[0].failed == ()
    either.assert_exactly_once()
    assert either.run().sources[0].staged == 0


@pytest.mark.parametrize("readable", [True, False])
def test_a_signal_that_cannot_be_written_in_time_is_an_error_and_the_next_run_goes_on(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, readable: bool
) -> None:
    if not readable:
        monkeypatch.setattr(LocalStore, "get", refuse_units(LocalStore.get))
    arm_by(lambda name: "lose" if name == "staging.unit.before" else None)
    try:
        running = Loop(lake.project, InProcessEngine(), 2, pace=Pace(deadline_secs=0))
        error = running.once(lake.project.pipelines).sources[0].error or ""
    finally:
        arm("")
    assert ("could not be written" if readable else "it is unknown whether") in error
    monkeypatch.undo()
    assert lake.run().ok
    assert staged_ids(lake) == lake.expected


def refuse_units(get: Callable[[LocalStore, str], bytes]) -> Callable[[LocalStore, str], bytes]:
    def refusing(store: LocalStore, path: str) -> bytes:
        if path.endswith(".unit.json"):
            raise StorageUnavailable(f"{path} does not answer", "wait")
        return get(store, path)

    return refusing
