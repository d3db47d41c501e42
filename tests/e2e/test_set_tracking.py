"""A source that is tracked by the set of its paths: any names, in any order, exactly once, without Spark."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from support.errors import raises
from support.lake import Lake
from tidegate import doctor, list_letters, plan, recover, show_watermarks, status
from tidegate.core.files.discovery import Reason
from tidegate.errors import StateError
from tidegate.observe.events import LateFilesFound, WatermarkStateChanged
from tidegate.runs import file_source
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop

RANDOM = random.Random(5)


def name() -> str:
    return f"{RANDOM.getrandbits(64):016x}.ndjson"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path, source_settings={"use_watermark": False})
    for folder in ("b", "a", ""):
        for _ in range(2):
            lake.arrive(f"{folder}/{name()}".strip("/"), 2)
    return lake


def segments(lake: Lake) -> list[Path]:
    return sorted((lake.root / "lake/events/_tidegate/events_default_set").glob("*.parquet"))


def named(lake: Lake) -> list[Path]:
    """The segments that the newest state refers to, largest first."""
    mirror = json.loads((lake.root / "lake/events/_tidegate/events_default_checkpoint.json").read_text())
    folder = lake.root / "lake/events/_tidegate/events_default_set"
    ordered = sorted(mirror["set"]["segments"], key=lambda each: -each["count"])
    return [folder / f"{each['sha256']}.parquet" for each in ordered]


def skipped(lake: Lake) -> dict[str, int]:
    (planned,) = plan(lake.config)
    return {each.reason.value: each.count for each in planned.plan.skipped}


def test_files_under_random_names_are_read_once_in_whatever_order_they_come(lake: Lake) -> None:
    for _ in range(12):
        lake.arrive(f"{RANDOM.choice(('', 'a/', 'b/c/', 'z/'))}{name()}", 2)
        assert lake.run().ok
    lake.assert_exactly_once()
    (report,) = lake.run().sources
    assert (report.files, report.state, report.skipped) == (0, "Idle", (("already read", 18),))
    assert not [event for event in lake.seen if isinstance(event, LateFilesFound)]
    assert len(segments(lake)) == 12
    assert len(named(lake)) < 8


def test_every_state_of_the_machine_is_passed(lake: Lake) -> None:
    empty = Lake(lake.root / "empty", source_settings={"use_watermark": False})
    assert empty.run().sources[0].state == "Initial"
    assert lake.run().sources[0].state == "Active"
    assert lake.run().sources[0].state == "Idle"
    lake.arrive("a/000.ndjson", 1)
    assert lake.run().sources[0].state == "Active"
    told = [(event.before, event.after) for event in lake.seen if isinstance(event, WatermarkStateChanged)]
    assert told == [("Initial", "Active"), ("Active", "Idle")]


def test_commits_of_one_pass_and_plans_that_are_cut_off_remember_everything(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_source.discover_files, "__defaults__", (0, 4))
    lake.source_settings = {"use_watermark": False, "checkpoint": {"interval_files": 1}}
    for _ in range(5):
        lake.arrive(f"q/{name()}", 1)
    (report,) = lake.run().sources
    assert (report.files, report.commits >= 3) == (11, True)
    assert lake.run().sources[0].files == 0
    lake.assert_exactly_once()


def test_plan_status_and_doctor_say_what_it_costs(lake: Lake) -> None:
    lake.run()
    (planned,) = plan(lake.config)
    assert planned.plan.kind == "path-set"
    assert "each poll lists the whole prefix (8 keys now)" in planned.plan.remarks[0]
    (now,) = status(lake.config)
    assert (now.tracking, now.remembered, now.backlog_files, now.state) == ("set", 6, 0, "Active")
    (view,) = show_watermarks(lake.config, "events")
    assert (view.tracking, view.remembered, view.partitions) == ("set", 6, {})
    told = [check.detail for check in doctor(lake.config) if check.name == "source events/default"]
    assert any("every poll lists all files and remembers their paths (6 so far)" in each for each in told)


def test_names_that_sort_in_time_get_the_hint_at_watermarks(tmp_path: Path) -> None:
    lake = Lake(tmp_path, source_settings={"use_watermark": False})
    for number in range(12):
        lake.arrive(f"{1706450400 + number}-x.ndjson", 1)
    (planned,) = plan(lake.config)
    assert "names sort by time: with use_watermark: true" in planned.plan.remarks[1]
    (hint,) = [check for check in doctor(lake.config) if check.name.startswith("source") and check.verdict == "warn"]
    assert "use_watermark: true" in hint.remedy


def test_a_removed_file_stays_remembered_and_is_not_read_when_it_comes_back(lake: Lake) -> None:
    path = lake.arrive("a/again.ndjson", 2)
    lake.run()
    content = path.read_text()
    path.unlink()
    assert lake.run().sources[0].state == "Idle"
    lake.write("a/again.ndjson", content)
    assert lake.run().sources[0].files == 0
    lake.assert_exactly_once()


def test_a_file_that_changed_after_it_was_read_is_reported_and_not_read_again(lake: Lake) -> None:
    lake.arrive("a/one.ndjson", 2)
    lake.run()
    lake.write("a/one.ndjson", '{"id": 99}\n')
    assert skipped(lake) == {"already read": 6, Reason.REWRITTEN.value: 1}
    (report,) = lake.run().sources
    assert (report.files, report.state) == (0, "Idle")
    lake.assert_exactly_once()


def test_a_bad_file_is_tried_so_often_and_then_becomes_a_letter(lake: Lake) -> None:
    lake.source_settings = {"use_watermark": False, "max_attempts": 2}
    bad = lake.write("a/bad.ndjson.gz", "")
    bad.write_bytes(b"no gzip")
    first = lake.run().sources[0]
    assert [(each.path, each.attempts) for each in first.failed] == [("a/bad.ndjson.gz", 1)]
    assert first.files == 6
    lake.arrive("a/0.ndjson", 1)
    second = lake.run().sources[0]
    assert (second.failed, second.dead_files) == ((), 1)
    assert lake.run().sources[0].commits == 0
    (letter,) = list_letters(lake.config, "events")
    assert letter.file == "a/bad.ndjson.gz"
    lake.assert_exactly_once()


def test_a_bad_file_is_read_once_it_is_repaired(lake: Lake) -> None:
    bad = lake.write("a/bad.ndjson.gz", "")
    bad.write_bytes(b"no gzip")
    assert len(lake.run().sources[0].failed) == 1
    lake.arrive("a/bad.ndjson.gz", 3)
    assert lake.run().ok
    assert status(lake.config)[0].failed == ()
    lake.assert_exactly_once()


def test_a_bad_file_that_is_removed_is_forgotten(lake: Lake) -> None:
    bad = lake.write("a/bad.ndjson.gz", "")
    bad.write_bytes(b"no gzip")
    lake.run()
    bad.unlink()
    assert lake.run().ok
    assert status(lake.config)[0].failed == ()
    assert lake.run().sources[0].state == "Idle"
    lake.assert_exactly_once()


def test_a_lost_document_changes_nothing_because_the_log_refers_to_the_same_segments(lake: Lake) -> None:
    lake.run()
    lake.arrive("a/0.ndjson", 1)
    lake.run()
    documents = sorted((lake.root / "lake/events/_tidegate/events/default").glob("*.json"))
    documents[-1].unlink()
    lake.arrive("0.ndjson", 1)
    (report,) = lake.run().sources
    assert (report.files, report.error) == (1, None)
    lake.assert_exactly_once()


@pytest.mark.parametrize("damage", ["missing", "changed"])
def test_a_lost_segment_stops_every_command_and_is_rebuilt_from_the_documents(lake: Lake, damage: str) -> None:
    lake.run()
    for _ in range(3):
        lake.arrive(f"a/{name()}", 1)
        lake.run()
    lost = named(lake)[0]
    if damage == "missing":
        lost.unlink()
    else:
        lost.write_bytes(lost.read_bytes()[:-1] + b"?")
    lake.arrive("a/0.ndjson", 1)
    before = lake.ids()
    (report,) = lake.run().sources
    assert (report.exit_code, lake.ids()) == (5, before)
    assert "6 files that were read" in (report.error or "")
    with raises(StateError, "events/default", "tidegate recover --accept set"):
        plan(lake.config)
    (check,) = recover(lake.config, "events")
    assert (check.verdict, "--accept set" in check.remedy) == ("fail", True)
    assert recover(lake.config, "events", accept=["identity"])[0].verdict == "fail"
    (check,) = recover(lake.config, "events", accept=["set"])
    assert check.verdict == "ok"
    assert lake.run().ok
    assert recover(lake.config, "events")[0].verdict == "ok"
    lake.assert_exactly_once()


def test_a_set_is_not_rebuilt_when_a_document_is_missing_too(lake: Lake) -> None:
    lake.run()
    lake.arrive("a/0.ndjson", 1)
    lake.run()
    documents = sorted((lake.root / "lake/events/_tidegate/events/default").glob("*.json"))
    documents[0].unlink()
    named(lake)[0].unlink()
    (check,) = recover(lake.config, "events", accept=["set"])
    assert check.verdict == "fail"
    assert documents[0].name in check.detail


def test_a_source_that_was_moved_goes_on_once_that_is_accepted(lake: Lake) -> None:
    lake.run()
    (lake.root / "data").rename(lake.root / "moved")
    lake.source_settings = {"use_watermark": False, "source_uri": "moved/"}
    assert "source_uri was" in (lake.run().sources[0].error or "")
    assert recover(lake.config, "events", accept=["identity"])[0].verdict == "ok"
    (report,) = lake.run().sources
    assert (report.files, report.error) == (0, None)
    lake.assert_exactly_once()


def test_switching_between_set_and_watermark_stops_with_the_way_out(lake: Lake) -> None:
    lake.run()
    before = lake.ids()
    lake.source_settings = {"use_watermark": True}
    (report,) = lake.run().sources
    assert "tracked in another way" in (report.error or "")
    assert "set use_watermark back" in (report.error or "")
    assert recover(lake.config, "events", accept=["identity"])[0].verdict == "fail"
    assert "set it to false again" in (status(lake.config)[0].error or "")
    lake.source_settings = {"use_watermark": False}
    assert lake.run().ok
    assert lake.ids() == before


def test_the_other_way_round_stops_too(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.arrive("a/1.ndjson")
    lake.run()
    lake.source_settings = {"use_watermark": False}
    assert "kind was 'path' and is now 'path-set'" in (lake.run().sources[0].error or "")
    assert "use_watermark: true again" in (status(lake.config)[0].error or "")
    lake.source_settings = {}
    assert lake.run().ok
    lake.assert_exactly_once()


def test_polls_of_one_process_read_only_what_is_new(lake: Lake) -> None:
    running = Loop(lake.project, InProcessEngine(), 2)
    read = []
    for number in range(3):
        lake.arrive(f"a/{9 - number}.ndjson", 1)
        read.append(running.once(lake.project.pipelines).sources[0].files)
    assert read == [7, 1, 1]
    assert running.once(lake.project.pipelines).sources[0].state == "Idle"
    lake.assert_exactly_once()
