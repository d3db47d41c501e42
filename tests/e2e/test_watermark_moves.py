"""A person moves a watermark: what is foreseen is what the next run does, and each move is one commit."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from support.errors import raises
from support.lake import Lake, assert_same
from tidegate import TidegateError, plan, reconcile, reset_watermark, set_watermark, show_watermarks
from tidegate.errors import CommitLost
from tidegate.reports.watermark import WatermarkMove

HOUR = "date=2026-01-28/hour=12"
BAD = '{"id": 1}\nnot JSON\n'


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Files 0 to 4 of one hour, ingested."""
    lake = Lake(tmp_path)
    for number in range(5):
        lake.arrive(f"{HOUR}/{number}.ndjson")
    assert lake.run().ok
    return lake


def positions(lake: Lake) -> int:
    return show_watermarks(lake.config, "events")[0].version


def newest_document(lake: Lake) -> dict[str, object]:
    found = sorted((lake.root / "lake/events/_tidegate/events/default").glob("*.json"))
    return dict(json.loads(found[-1].read_text()))


def to_read(lake: Lake) -> list[str]:
    (source,) = plan(lake.config)
    return [each.path for group in source.plan.groups for each in group.slices]


def test_moved_down_the_files_above_are_foreseen_read_again_and_doubled(lake: Lake) -> None:
    move = set_watermark(lake.config, "events", to=f"{HOUR}/2.ndjson")
    assert (move.before, move.after) == (f"{HOUR}/4.ndjson", f"{HOUR}/2.ndjson")
    assert move.read_again.examples == (f"{HOUR}/3.ndjson", f"{HOUR}/4.ndjson")
    assert move.never_read.files == 0
    assert any("in the table twice" in note for note in move.notes)
    assert to_read(lake) == list(move.read_again.examples)
    assert lake.run().ok
    assert_same(lake.ids(), [*range(50), *range(30, 50)])


def test_moved_up_the_files_it_passes_over_are_foreseen_and_never_read(lake: Lake) -> None:
    for number in (5, 6, 7):
        lake.arrive(f"{HOUR}/{number}.ndjson")
    move = set_watermark(lake.config, "events", to=f"{HOUR}/6.ndjson")
    assert move.never_read.examples == (f"{HOUR}/5.ndjson", f"{HOUR}/6.ndjson")
    assert move.read_again.files == 0
    assert lake.run().ok
    assert_same(lake.ids(), [*range(50), *range(70, 80)])
    assert lake.run().ok
    assert_same(lake.ids(), [*range(50), *range(70, 80)])


def test_a_move_is_one_commit_without_rows_that_says_what_made_it(lake: Lake) -> None:
    before = positions(lake)
    move = set_watermark(lake.config, "events", to=f"{HOUR}/2.ndjson")
    assert (move.applied, move.version, move.table_version) == (True, before + 1, 1)
    document = newest_document(lake)
    assert (document["action"], document["data_files"], document["version"]) == ("watermark set", [], before + 1)
    entry = (lake.root / "lake/events/_delta_log/00000000000000000001.json").read_text()
    assert '"add"' not in entry
    assert '"remove"' not in entry
    assert_same(lake.ids(), range(50))


def test_a_move_that_nobody_agrees_to_changes_nothing(lake: Lake) -> None:
    before = positions(lake)
    shown: list[WatermarkMove] = []
    move = set_watermark(lake.config, "events", to=f"{HOUR}/2.ndjson", confirm=lambda each: bool(shown.append(each)))
    assert not move.applied
    assert shown == [move]
    assert positions(lake) == before
    assert to_read(lake) == []


def test_a_watermark_that_is_there_already_commits_nothing(lake: Lake) -> None:
    before = positions(lake)
    move = set_watermark(lake.config, "events", to=f"{HOUR}/4.ndjson")
    assert not move.applied
    assert "the watermark is already there: nothing changes" in move.notes
    assert positions(lake) == before


def test_a_failed_file_that_is_passed_over_is_named_and_forgotten(lake: Lake) -> None:
    lake.pipeline_settings = {"error_handling": {"on_bad_record": "fail_file"}}
    lake.write(f"{HOUR}/5.ndjson", BAD)
    lake.arrive(f"{HOUR}/6.ndjson")
    assert not lake.run().ok
    move = set_watermark(lake.config, "events", to=f"{HOUR}/6.ndjson")
    assert any(note.startswith(f"{HOUR}/5.ndjson failed") for note in move.notes)
    assert move.never_read.examples == (f"{HOUR}/5.ndjson",)
    (view,) = show_watermarks(lake.config, "events")
    assert view.files == {}
    assert lake.run().ok
    lake.assert_exactly_once()


def test_a_forgotten_partition_is_read_again_whole(lake: Lake) -> None:
    lake.arrive("date=2026-01-28/hour=13/0.ndjson")
    assert lake.run().ok
    move = reset_watermark(lake.config, "events", partition=HOUR)
    assert (move.action, move.read_again.files, move.after) == ("watermark reset", 5, None)
    assert newest_document(lake)["action"] == "watermark reset"
    assert to_read(lake) == [f"{HOUR}/{number}.ndjson" for number in range(5)]


def test_a_forgotten_source_is_read_again_from_the_start(lake: Lake) -> None:
    lake.arrive("date=2026-01-28/hour=13/0.ndjson")
    assert lake.run().ok
    move = reset_watermark(lake.config, "events")
    assert (move.partition, move.read_again.files) == (None, 6)
    assert lake.run().ok
    assert_same(lake.ids(), [*range(60), *range(60)])
    assert lake.run().ok
    assert_same(lake.ids(), [*range(60), *range(60)])


@pytest.mark.parametrize(
    "move",
    [
        lambda lake, confirm: set_watermark(lake.config, "events", to=f"{HOUR}/2.ndjson", confirm=confirm),
        lambda lake, confirm: reset_watermark(lake.config, "events", confirm=confirm),
    ],
    ids=["set", "reset"],
)
def test_of_two_moves_at_once_one_is_told_that_it_came_second(
    lake: Lake, move: Callable[[Lake, Callable[[WatermarkMove], bool]], WatermarkMove]
) -> None:
    def another_first(planned: WatermarkMove) -> bool:
        assert set_watermark(lake.config, "events", to=f"{HOUR}/1.ndjson").applied
        return True

    with raises(CommitLost, "events/default", "position 2", "attempt"):
        move(lake, another_first)
    assert show_watermarks(lake.config, "events")[0].value == f"{HOUR}/1.ndjson"


def test_nothing_is_forgotten_of_a_source_that_never_ran(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.arrive(f"{HOUR}/0.ndjson")
    with raises(TidegateError, "events/default", "tidegate watermark set --to PATH"):
        reset_watermark(lake.config, "events")
    assert not (lake.root / "lake").exists()


@pytest.mark.parametrize("filled", [True, False], ids=["table of another tool", "no table"])
def test_a_source_that_never_ran_begins_behind_a_file(tmp_path: Path, filled: bool) -> None:
    lake = Lake(tmp_path)
    earlier, later = "date=2026-01-28/hour=11", "date=2026-01-28/hour=13"
    known = [lake.arrive(f"{where}.ndjson") for where in (f"{earlier}/0", f"{HOUR}/0", f"{HOUR}/1")]
    lake.arrive(f"{HOUR}/2.ndjson")
    lake.arrive(f"{later}/0.ndjson")
    if filled:
        write_deltalake(str(lake.root / "lake/events"), pa.table({"id": pa.array(range(30), pa.int64())}))
    move = set_watermark(lake.config, "events", to=f"{HOUR}/1.ndjson")
    assert (move.applied, move.before, move.after) == (True, None, f"{HOUR}/1.ndjson")
    assert move.never_read.files == len(known)
    assert to_read(lake) == [f"{HOUR}/2.ndjson", f"{later}/0.ndjson"]
    assert lake.run().ok
    assert_same(lake.ids(), range(50) if filled else range(30, 50))
    assert to_read(lake) == []
    found = reconcile(lake.config, "events")
    assert [each.late.count for each in found.sources] == [0]


def test_a_beginning_that_is_fixed_before_there_is_a_table_is_fixed_once(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.arrive(f"{HOUR}/0.ndjson")
    lake.arrive(f"{HOUR}/1.ndjson")
    assert set_watermark(lake.config, "events", to=f"{HOUR}/0.ndjson").applied
    with raises(CommitLost, "events/default", "fixed", "cold_start.json"):
        set_watermark(lake.config, "events", to=f"{HOUR}/1.ndjson")


@pytest.mark.parametrize("path", ["", "/a", "d=1/", "d=1//a", "../a", "s3://elsewhere/a"])
def test_what_is_no_path_of_the_source_is_refused(lake: Lake, path: str) -> None:
    with raises(TidegateError, "'default'", "date=2026-01-28/hour=14/0007.ndjson.gz"):
        set_watermark(lake.config, "events", to=path)


def test_with_several_sources_one_is_to_be_named(lake: Lake) -> None:
    config = json.loads(lake.config.read_text())
    pipeline = config["pipelines"]["events"]
    sources = {name: {"source_uri": f"{name}/", "use_watermark": True} for name in ("asia", "europe")}
    (lake.root / "two.yml").write_text(
        json.dumps(
            {"pipelines": {"events": {"sources": sources, "schema": pipeline["schema"], "sink": pipeline["sink"]}}}
        )
    )
    with raises(TidegateError, "'events'", "asia, europe"):
        reset_watermark(lake.root / "two.yml", "events")


def test_a_full_address_below_the_source_is_its_path(lake: Lake) -> None:
    uri = lake.project.pipelines[0].sources[0].location.uri
    assert set_watermark(lake.config, "events", to=f"{uri}/{HOUR}/2.ndjson").after == f"{HOUR}/2.ndjson"


def test_runs_go_on_after_a_move_and_a_doubled_file_is_not_doubled_again(lake: Lake) -> None:
    set_watermark(lake.config, "events", to=f"{HOUR}/3.ndjson")
    for _ in range(2):
        assert lake.run().ok
    lake.arrive(f"{HOUR}/5.ndjson")
    assert lake.run().ok
    assert_same(lake.ids(), [*lake.expected, *range(40, 50)])


def answered(lake: Lake, answer: bytes) -> tuple[int, str]:
    """``watermark reset --all`` at a terminal where somebody types ``answer``."""
    command = [sys.executable, "-m", "tidegate", "watermark", "reset", str(lake.config), "-p", "events", "--all"]
    ours, theirs = pty.openpty()
    try:
        os.write(ours, answer)
        done = subprocess.run(command, stdin=theirs, capture_output=True, text=True, timeout=60)
    finally:
        os.close(ours)
        os.close(theirs)
    return done.returncode, done.stdout


def test_at_a_terminal_the_consequences_are_shown_and_the_answer_counts(lake: Lake) -> None:
    before = positions(lake)
    code, shown = answered(lake, b"n\n")
    assert (code, positions(lake)) == (1, before)
    assert "read again: rows in the table are doubled" in shown
    assert "nothing was changed" in shown
    code, shown = answered(lake, b"y\n")
    assert (code, positions(lake)) == (0, before + 1)
    assert "committed as table version 1" in shown
