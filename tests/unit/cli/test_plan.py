"""``tidegate plan``: what would be read, by partition, and why everything else is not."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tidegate.core.files.discovery import Reason, Skipped
from tidegate.core.files.plan import FileGroup, FileSlice, Plan
from tidegate.core.files.state import PathState
from tidegate.reports.plan import PARTITIONS_SHOWN, SourcePlan
from tidegate.reports.render import to_lines
from tidegate.reports.report import View
from unit.cli.standin import StandIn, document, invoke

CONFIG = {"config": Path("t.yml")}
MOMENT = datetime(2026, 3, 2, 6, tzinfo=UTC)
REASON = next(iter(Reason))


@pytest.mark.parametrize(
    ("arguments", "call"),
    [
        (("plan", "t.yml"), ("plan", CONFIG)),
        (("plan", "t.yml", "-p", "events"), ("plan", {**CONFIG, "pipeline": "events"})),
        (("plan", "t.yml", "--at", "2026-03-02T06:00:00Z"), ("plan", {**CONFIG, "now": MOMENT})),
        (("plan", "t.yml", "--accept-new-partitions"), ("plan", {**CONFIG, "accept_new_partitions": True})),
    ],
)
def test_arguments_reach_the_function(arguments: tuple[str, ...], call: tuple[str, dict[str, Any]]) -> None:
    api = StandIn()
    result = invoke(*arguments, api=api)
    assert api.calls == [call]
    assert (result.exit_code, "error" in result.stderr) == (0, False)


def test_a_time_that_is_none_is_refused() -> None:
    assert invoke("plan", "t.yml", "--at", "tomorrow").exit_code == 2


def a_plan(*slices: FileSlice, skipped: tuple[Skipped, ...] = ()) -> Plan:
    return Plan(
        pipeline="events",
        source="asia",
        version=12,
        now=datetime(2026, 1, 28, tzinfo=UTC),
        groups=tuple(FileGroup(number, (piece,)) for number, piece in enumerate(slices)),
        skipped=skipped,
        listed=(),
        late=(),
        notes=("two files wait",),
        remarks=("late_files is strict",),
        complete=True,
        list_requests=3,
        listed_keys=1203,
        opens=None,
    )


def shown(plan: Plan, *, verbose: bool = False) -> list[str]:
    source = SourcePlan("events", "asia", plan, "file:///lake/events", notes=("a note",))
    return list(to_lines(source.page(View(verbose=verbose))))


def a_slice(path: str, size: int = 1024, **more: int) -> FileSlice:
    return FileSlice(path, size, None, **more)


def test_a_plan_shows_files_and_bytes() -> None:
    lines = shown(a_plan(a_slice("d=1/a"), a_slice("d=1/b"), a_slice("d=2/a", 4096)))
    assert lines[0] == "events/asia → file:///lake/events"
    assert "  would read  3 files, 6.0 KiB" in lines
    assert not any(word in "\n".join(lines) for word in ("units", "position", "lane", "LIST"))


def test_how_it_would_be_done_is_for_those_who_ask() -> None:
    lines = shown(a_plan(a_slice("d=1/a"), a_slice("d=1/b"), a_slice("d=2/a", 4096)), verbose=True)
    for line in ("  units       3 of 1.0 KiB to 4.0 KiB", "  position    version 12", "  lane        arrow"):
        assert line in lines
    assert "  listing     3 LIST requests, 1,203 keys" in lines


def test_files_are_counted_by_partition() -> None:
    lines = shown(a_plan(a_slice("d=1/a"), a_slice("d=1/b"), a_slice("top")))
    assert ["(top", "level)", "1", "1.0", "KiB"] in [line.split() for line in lines]
    assert ["d=1", "2", "2.0", "KiB"] in [line.split() for line in lines]


def test_many_partitions_are_shortened_with_a_count() -> None:
    slices = [a_slice(f"d={number:03d}/a") for number in range(PARTITIONS_SHOWN + 41)]
    lines = shown(a_plan(*slices))
    assert "  … and 41 more partitions with 41 files, 41 KiB" in lines


def test_what_is_skipped_has_reason_count_and_example() -> None:
    lines = shown(a_plan(skipped=(Skipped(REASON, 1200, ("d=1/_x", "d=1/_y")),)))
    assert any(line.split() == [*str(REASON).split(), "1,200", "d=1/_x"] for line in lines)


def test_a_plan_without_anything_new_says_so() -> None:
    assert "  would read  nothing new" in shown(a_plan())


def test_a_listing_that_was_cut_off_is_told() -> None:
    lines = shown(replace(a_plan(a_slice("d=1/a")), complete=False))
    assert any("truncated" in line for line in lines)


def test_notes_of_the_plan_and_of_the_table_are_told() -> None:
    told = ["  note: two files wait", "  note: a note", "  remark: late_files is strict"]
    assert shown(a_plan())[-3:] == told


def test_files_that_go_on_are_tried_again_or_came_late_are_told() -> None:
    plan = a_plan(a_slice("d=1/a", start_record=4000), a_slice("d=1/b", attempts=2))
    text = "\n".join(shown(replace(plan, late=("d=1/0",), opens=PathState())))
    assert "1 file continued where an earlier run stopped, e.g. d=1/a after record 4,000" in text
    assert "1 file retried, e.g. d=1/b after 2 failed attempts" in text
    assert "1 file arrived late, below the watermark, e.g. d=1/0" in text
    assert "a run also records the start of this source" in text


def test_a_first_run_is_called_so() -> None:
    assert "  would read  nothing new (first run)" in shown(replace(a_plan(), version=0))


def test_no_source_is_told_in_words() -> None:
    assert invoke("plan", "t.yml").stdout == "  nothing to plan: no source was selected\n"


def test_the_plan_is_whole_in_json() -> None:
    plan = a_plan(a_slice("d=1/a"))
    source = SourcePlan("events", "asia", plan, "file:///lake/events")
    assert source.to_json()["plan"] == plan.to_json()


def test_the_plans_are_json_when_asked() -> None:
    source = SourcePlan("events", "asia", a_plan(a_slice("d=1/a")), "file:///lake/events")
    api = StandIn(plan=(source,))
    assert document(invoke("plan", "t.yml", "--json", api=api)) == json.loads(json.dumps({"plans": [source.to_json()]}))
