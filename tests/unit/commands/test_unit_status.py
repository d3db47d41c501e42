"""Looking at sources of work units: plan, status, watermark, lists; and forgetting what was read, by a real table."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

import tidegate
from support.errors import check_names, raises
from support.unit_positions import UnitLake, day, monthly, project_of
from tidegate.commands.status import plan_of, status_of
from tidegate.commands.watermark import watermark_of
from tidegate.errors import ConfigError, SourceError, TidegateError, WatermarkError
from tidegate.reports.plan import UnitSourcePlan
from tidegate.specs.locations import Location
from tidegate.specs.project import ProjectSpec
from tidegate.specs.units import InputFormat, PartitionKind, SecondaryInput, Span, UnitWatermark, WorkUnits

FEBRUARY = day("2020-02-21")
MARCH = day("2020-03-02")


def lake_of(folder: Path, *units: str) -> UnitLake:
    return UnitLake(project_of(folder, monthly(*units)))


def cells(plan: UnitSourcePlan) -> dict[str, dict[str, str]]:
    """The reason of each work unit, by unit and beginning."""
    starts = [line.start for line in plan.partitions]
    found: dict[str, dict[str, str]] = {unit: {} for unit in plan.units}
    for each in plan.runs:
        for unit in each.units:
            assert found[unit].setdefault(each.start, each.why) == each.why
    for skipped in plan.skipped:
        chosen = starts[starts.index(skipped.first) : starts.index(skipped.last) + 1]
        assert len(chosen) == skipped.partitions
        for unit in skipped.units:
            for start in chosen:
                assert start not in found[unit]
                found[unit][start] = skipped.why
    return found


def test_a_first_plan_reads_every_work_unit_whole(tmp_path: Path) -> None:
    plan = plan_of(lake_of(tmp_path, "a", "b").place, FEBRUARY)
    assert (plan.work_units, plan.would_run, plan.reasons) == (4, 4, {"first": 4})
    assert plan.job_cutoff is None
    assert [(each.low, each.high) for each in plan.runs] == [
        ("2020-01-01T00:00:00Z", "2020-02-01T00:00:00Z"),
        ("2020-02-01T00:00:00Z", "2020-02-21T00:00:00Z"),
    ]
    assert plan.runs[1].segments == (
        ("2020-02-01T00:00:00Z", "2020-02-18T00:00:00Z"),
        ("2020-02-18T00:00:00Z", "2020-02-21T00:00:00Z"),
    )


def test_every_work_unit_has_one_reason_and_the_counts_agree(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "a", "b", "c")
    lake.run(FEBRUARY, failing=("b",))
    lake.run(day("2020-02-22"), retiring=("c",))
    plan = plan_of(lake.place, MARCH)
    found = cells(plan)
    assert found["a"] == {
        "2020-01-01T00:00:00Z": "done",
        "2020-02-01T00:00:00Z": "new",
        "2020-03-01T00:00:00Z": "first",
    }
    assert set(found["c"].values()) == {"retired"}
    assert all(len(reasons) == len(plan.partitions) for reasons in found.values())
    assert sum(plan.reasons.values()) == plan.work_units
    for line in plan.partitions:
        counted: dict[str, int] = {}
        for reasons in found.values():
            counted[reasons[line.start]] = counted.get(reasons[line.start], 0) + 1
        assert line.reasons == counted
    assert plan.job_cutoff == "2020-02-19T00:00:00Z"
    json.dumps(plan.to_json())
    assert plan.to_json()["tracking"] == "units"


def test_a_plan_shows_what_would_run_at_another_time(tmp_path: Path) -> None:
    project = project_of(tmp_path, monthly("a"))
    UnitLake(project).run(FEBRUARY)
    [now, later] = [tidegate.plan(project, now=moment)[0] for moment in (FEBRUARY, MARCH)]
    assert isinstance(now, UnitSourcePlan)
    assert isinstance(later, UnitSourcePlan)
    assert (now.would_run, later.would_run) == (1, 2)
    assert (later.runs[0].low, later.runs[0].high) == ("2020-02-18T00:00:00Z", "2020-03-01T00:00:00Z")
    assert (later.runs[0].before, later.runs[0].replaces) == ("2020-02-21T00:00:00Z", True)


def test_other_partitions_are_planned_only_when_they_are_accepted(tmp_path: Path) -> None:
    source = monthly("a")
    UnitLake(project_of(tmp_path, source)).run(FEBRUARY)
    weekly = project_of(tmp_path, replace(source, work=WorkUnits(partition=PartitionKind.WEEKLY)))
    with raises(WatermarkError, "'surveys'", "system: weekly on Wednesday", "--accept-new-partitions"):
        tidegate.plan(weekly, now=MARCH)
    [plan] = tidegate.plan(weekly, now=MARCH, accept_new_partitions=True)
    assert isinstance(plan, UnitSourcePlan)
    assert plan.would_run > 0


def test_a_plan_tells_of_rows_of_the_input_that_made_no_unit(tmp_path: Path) -> None:
    (tmp_path / "ids.json").write_text('{"id": 1}\n{"id": 1}\n{"id": null}\n')
    made = SecondaryInput(("id",), Location((tmp_path / "ids.json").as_uri()), InputFormat.JSON)
    source = replace(monthly(), unit=UnitWatermark("surveyId"), inputs=(made,))
    plan = plan_of(UnitLake(project_of(tmp_path, source)).place, FEBRUARY)
    assert (plan.units, plan.repeated, plan.filtered) == (("1",), 1, 1)
    assert plan.input_version is not None
    assert any("1 row of the secondary input made no unit" in note for note in plan.notes)


def test_units_that_vanished_are_told(tmp_path: Path) -> None:
    lake_of(tmp_path, "a", "b").run(FEBRUARY)
    plan = plan_of(lake_of(tmp_path, "a").place, MARCH)
    assert plan.stale == ("b",)
    assert any("now gone" in note for note in plan.notes)


def test_a_status_counts_done_open_and_failed_work_units(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "a", "b")
    first = status_of(lake.place, FEBRUARY)
    assert (first.state, first.watermark, first.tracking) == ("Initial", None, "units")
    assert first.work_units is not None
    assert (first.work_units.done, first.work_units.open) == (0, 4)
    lake.run(FEBRUARY, failing=("b",))
    after = status_of(lake.place, MARCH)
    assert after.work_units is not None
    assert (after.state, after.watermark) == ("Active", "2020-02-21")
    assert (after.work_units.done, after.work_units.open, after.work_units.failed) == (1, 5, 2)


def test_a_status_says_when_the_next_work_unit_may_run(tmp_path: Path) -> None:
    source = replace(monthly("a", grace_days=0), abstinent=Span(5))
    lake = UnitLake(project_of(tmp_path, source))
    lake.run(FEBRUARY)
    status = status_of(lake.place, day("2020-02-22"))
    assert status.work_units is not None
    assert (status.state, status.work_units.open) == ("Idle", 0)
    assert status.work_units.next_eligible == "2020-02-27T00:00:00Z"
    assert status_of(lake.place, day("2020-02-27")).work_units.open == 1  # type: ignore[union-attr]


def test_a_status_shows_what_stops_the_plan(tmp_path: Path) -> None:
    made = SecondaryInput(("id",), Location((tmp_path / "gone").as_uri()), InputFormat.JSON)
    source = replace(monthly(), unit=UnitWatermark("surveyId"), inputs=(made,))
    status = status_of(UnitLake(project_of(tmp_path, source)).place, FEBRUARY)
    assert status.state == "Unknown"
    assert "gone" in (status.error or "")


def test_a_watermark_shows_what_was_read_unit_by_unit(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "a", "b")
    assert watermark_of(lake.place).state == "Initial"
    lake.run(FEBRUARY, failing=("b",))
    view = watermark_of(lake.place)
    assert view.partitions == {"a": "2020-01-01 to 2020-02-21"}
    assert [(each.unit, each.start, each.failures) for each in view.failed_units] == [
        ("b", "2020-01-01T00:00:00Z", 1),
        ("b", "2020-02-01T00:00:00Z", 1),
    ]


def test_units_are_listed_with_those_first_that_need_somebody(tmp_path: Path) -> None:
    project = project_of(tmp_path, monthly("a", "b", "c"))
    lake = UnitLake(project)
    lake.run(FEBRUARY, failing=("b",), retiring=("c",))
    [found] = tidegate.units(project, "answers", now=MARCH)
    assert [(each.unit, each.state, each.done, each.open, each.failed) for each in found.units] == [
        ("b", "failed", 0, 3, 2),
        ("c", "retired", 0, 0, 0),
        ("a", "open", 1, 2, 0),
    ]
    assert found.units[0].reason == "the server answered 500"
    [troubled] = tidegate.units(project, "answers", failed=True, limit=1, now=MARCH)
    assert (troubled.total, len(troubled.units)) == (2, 1)
    [january] = tidegate.units(project, "answers", names=("a",), partition="2020-01-01", now=MARCH)
    assert [(each.done, each.open, each.read_up_to) for each in january.units] == [(1, 0, "2020-02-01T00:00:00Z")]


def test_one_unit_is_shown_partition_by_partition(tmp_path: Path) -> None:
    project = project_of(tmp_path, monthly("a", "b"))
    UnitLake(project).run(FEBRUARY)
    view = tidegate.unit(project, "answers", "a", now=MARCH)
    assert view.coverage == (("2020-01-01T00:00:00Z", "2020-02-21T00:00:00Z"),)
    assert view.variables == {"surveyId": "a"}
    assert [(each.why, each.low, each.high_watermark) for each in view.work_units] == [
        ("done", None, "2020-02-01T00:00:00Z"),
        ("new", "2020-02-18T00:00:00Z", "2020-02-21T00:00:00Z"),
        ("first", "2020-03-01T00:00:00Z", None),
    ]
    with raises(TidegateError, "answers/surveys", "'x'", "tidegate units list"):
        tidegate.unit(project, "answers", "x")


def test_a_reset_has_one_partition_read_again_and_replaced(tmp_path: Path) -> None:
    project = project_of(tmp_path, monthly("a", "b"))
    lake = UnitLake(project)
    lake.run(FEBRUARY)
    move = tidegate.reset_units(project, "answers", names=("a",), partition="2020-01-01")
    assert (move.applied, move.version, move.units, move.ranges) == (True, 2, ("a",), 1)
    again = {(work.unit, work.start): work for work in lake.planned(FEBRUARY).works()}
    january = next(work for (unit, _), work in again.items() if unit == "a")
    assert (january.replaces, january.before) == (True, None)
    assert tidegate.unit(project, "answers", "a").left == (("2020-01-01T00:00:00Z", "2020-02-01T00:00:00Z"),)
    assert tidegate.reset_units(project, "answers", names=("a",), partition="2020-01-01").applied is False
    [history] = tidegate.watermark_history(project, "answers")
    assert [(each.action, each.watermark) for each in history.positions] == [
        ("units reset", "2020-02-21 (2 units)"),
        ("run", "2020-02-21 (2 units)"),
    ]


def test_nothing_is_committed_without_a_yes(tmp_path: Path) -> None:
    project = project_of(tmp_path, monthly("a"))
    lake = UnitLake(project)
    lake.run(FEBRUARY)
    move = tidegate.reset_units(project, "answers", confirm=lambda move: False)
    assert (move.applied, move.ranges, lake.place.open().version) == (False, 1, 1)


def test_a_retry_forgets_failures_and_retirement(tmp_path: Path) -> None:
    project = project_of(tmp_path, monthly("a", "b", "c"))
    lake = UnitLake(project)
    lake.run(FEBRUARY, failing=("b",), retiring=("c",))
    move = tidegate.retry_units(project, "answers", names=("b",), partition="2020-02-01")
    assert (move.applied, move.failures, move.retired) == (True, 1, 0)
    move = tidegate.retry_units(project, "answers")
    assert (move.applied, move.failures, move.retired, move.units) == (True, 1, 1, ("b", "c"))
    plan = lake.planned(FEBRUARY)
    assert all(work.failures == 0 for work in plan.works())
    assert {work.unit for work in plan.works()} == {"a", "b", "c"}
    assert tidegate.retry_units(project, "answers").applied is False


def test_what_is_not_there_cannot_be_moved(tmp_path: Path) -> None:
    project = project_of(tmp_path, monthly("a"))
    with raises(TidegateError, "answers/surveys", "run the pipeline"):
        tidegate.reset_units(project, "answers")
    UnitLake(project).run(FEBRUARY)
    with raises(TidegateError, "'2020-01-15'", "tidegate plan"):
        tidegate.reset_units(project, "answers", partition="2020-01-15")
    with raises(TidegateError, "answers/surveys", "'x'", "tidegate units list"):
        tidegate.retry_units(project, "answers", names=("x",))
    with raises(ConfigError, "'other'", "'answers'", "surveys"):
        tidegate.retry_units(project, "answers", "other")


REFUSED: dict[str, Callable[[ProjectSpec], object]] = {
    "watermark set": lambda project: tidegate.set_watermark(project, "answers", values={"a": "1"}),
    "watermark reset": lambda project: tidegate.reset_watermark(project, "answers"),
    "replay": lambda project: tidegate.replay(project, "answers", files="*"),
    "replay of a range": lambda project: tidegate.replay_range(project, "answers", start="1", end="2"),
}


@pytest.mark.parametrize("command", REFUSED.values(), ids=list(REFUSED))
def test_commands_for_other_sources_point_to_those_for_work_units(
    command: Callable[[ProjectSpec], object], tmp_path: Path
) -> None:
    with raises(ConfigError, "'answers'", "tidegate units reset"):
        command(project_of(tmp_path, monthly("a")))


def test_commands_about_files_say_that_there_are_none(tmp_path: Path) -> None:
    project = project_of(tmp_path, monthly("a"))
    for ask in (tidegate.files, tidegate.list_letters, tidegate.show_schema, tidegate.compact_ledger):
        with raises(ConfigError, "'answers'", "work units", "files"):
            ask(project, "answers")
    with raises(ConfigError, "answers", "staged"):
        tidegate.commit(project)


def test_reconcile_looks_at_the_table_and_the_position(tmp_path: Path) -> None:
    project = project_of(tmp_path, monthly("a"))
    UnitLake(project).run(FEBRUARY)
    (tmp_path / "lake" / "answers" / "left.parquet").write_bytes(b"x")
    report = tidegate.reconcile(project)
    assert [(each.version, each.compared) for each in report.sources] == [(1, False)]
    assert "units reset" in report.sources[0].notes[-1]
    assert report.tables[0].foreign.count + report.tables[0].orphans.count + report.tables[0].young.count == 1


def test_a_fence_keeps_what_was_read(tmp_path: Path) -> None:
    from tidegate.runs.replay_record import fence

    lake = lake_of(tmp_path, "a")
    lake.run(FEBRUARY)
    before = lake.place.state_of(lake.place.open())
    fence([lake.place])
    opened = lake.place.open()
    assert (opened.version, lake.place.state_of(opened)) == (2, before)


def test_recover_says_that_all_is_well(tmp_path: Path) -> None:
    project = project_of(tmp_path, monthly("a"))
    UnitLake(project).run(FEBRUARY)
    assert [each.verdict for each in tidegate.recover(project, "answers")] == ["ok"]


def test_recover_goes_on_from_the_mirror_or_an_earlier_position(tmp_path: Path) -> None:
    project = project_of(tmp_path, monthly("a"))
    lake = UnitLake(project)
    lake.run(FEBRUARY)
    lake.run(MARCH)
    table = tmp_path / "lake" / "answers"
    (newest,) = (table / "_tidegate" / "answers" / "surveys").glob(f"{2:020d}-*.json")
    newest.unlink()
    DeltaTable(str(table)).create_checkpoint()
    DeltaTable(str(table)).alter.set_table_description("a foreign commit")
    for version in (0, 1):
        (table / "_delta_log" / f"{version:020d}.json").unlink()
    stopped = tidegate.recover(project, "answers")[0]
    assert stopped.verdict == "fail"
    check_names(stopped.remedy, "--accept mirror", "--accept previous --accept doubles", "position 1", "2020-02-21")
    assert tidegate.recover(project, "answers", accept=("previous",))[0].verdict == "fail"
    assert tidegate.recover(project, "answers", accept=("mirror",))[0].verdict == "ok"
    assert watermark_of(lake.place).value == "2020-03-02"
    assert lake.run(day("2020-03-05"))


def test_doctor_looks_at_inputs_and_table(tmp_path: Path) -> None:
    project = project_of(tmp_path, monthly("a", "b"))
    UnitLake(project).run(FEBRUARY, failing=("b",))
    found = {each.name: each for each in tidegate.doctor(project) if "answers/surveys" in each.name}
    assert found["units of answers/surveys"].detail == "2 units"
    checks = [each.detail for each in tidegate.doctor(project) if each.name == "table of answers/surveys"]
    assert any("2 work units failed at the last try" in each for each in checks)
    gone = SecondaryInput(("id",), Location((tmp_path / "gone").as_uri()), InputFormat.JSON)
    source = replace(monthly(), unit=UnitWatermark("surveyId"), inputs=(gone,))
    failed = [each for each in tidegate.doctor(project_of(tmp_path, source)) if each.verdict == "fail"]
    assert any("there are no files" in each.detail for each in failed)


def test_a_missing_input_stops_the_plan(tmp_path: Path) -> None:
    gone = SecondaryInput(("id",), Location((tmp_path / "gone").as_uri()), InputFormat.JSON)
    source = replace(monthly(), unit=UnitWatermark("surveyId"), inputs=(gone,))
    with raises(SourceError, "gone", "path"):
        tidegate.plan(project_of(tmp_path, source))


def test_a_plan_of_many_units_stays_small(tmp_path: Path) -> None:
    units = tuple(f"u{number:05d}" for number in range(20_000))
    lake = lake_of(tmp_path, *units)
    lake.run(FEBRUARY)
    plan = plan_of(lake.place, MARCH)
    assert (plan.work_units, plan.would_run) == (60_000, 40_000)
    assert (len(plan.runs), len(plan.skipped)) == (2, 1)
