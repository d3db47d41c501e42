"""The examples of work units day by day: what is asked for, what the tables hold, what plan says. No Spark."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from servers import postgres as postgres_server
from support.unit_examples import SERVER, DatabaseLane, ExampleRuns, copied, serving, warehouse
from support.unit_lake import day
from tidegate import plan, status
from tidegate.commands.units import units
from tidegate.observe.events import Notice
from tidegate.reports.plan import UnitSourcePlan

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "work-units.md").read_text(encoding="utf-8")


def planned(example: ExampleRuns, pipeline: str, now: str) -> UnitSourcePlan:
    (found,) = plan(example.config, pipeline, now=day(now))
    assert isinstance(found, UnitSourcePlan)
    return found


def ranges(example: ExampleRuns, pipeline: str, now: str) -> list[str]:
    """What would be read then: ``units low high why``."""
    return [
        f"{'+'.join(each.units)} {each.low[5:10]} {each.high[5:10]} {each.why}"
        for each in planned(example, pipeline, now).runs
    ]


def states(example: ExampleRuns, pipeline: str, now: str) -> dict[str, str]:
    (found,) = units(example.config, pipeline, now=day(now))
    return {each.unit: each.state for each in found.units}


def test_responses_are_read_for_the_surveys_that_another_pipeline_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(copied("api.yml", tmp_path), monkeypatch) as example:
        example.save("surveys", SERVER.SURVEYS)
        assert ranges(example, "responses", "2020-02-21") == [
            "garden+kitchen 01-01 02-01 first",
            "garden+kitchen 02-01 02-21 first",
        ]
        first = example.ran("responses", "2020-02-21")
        assert (first.rows, first.work_units, first.commits) == (2 * 51, 4, 1)
        assert {each.split()[0] for each in example.asked()} == {"garden", "kitchen"}, "the draft is left out"

        example.example.add_late("garden", day("2020-02-19"))
        assert planned(example, "responses", "2020-02-22").job_cutoff == "2020-02-18T00:00:00Z"
        assert ranges(example, "responses", "2020-02-22") == ["garden+kitchen 02-18 02-22 new"]
        assert example.said("plan api.yml -p responses --at 2020-02-22") in GUIDE
        example.ran("responses", "2020-02-22")
        days = ("2020-02-18 2020-02-19", "2020-02-19 2020-02-22")
        assert example.asked() == [f"{survey} {each}" for survey in ("garden", "kitchen") for each in days]
        count = "select _tidegate_unit, count(*), count(distinct id) from t group by 1 order by 1"
        assert example.rows("responses", count) == [("garden", 53, 53), ("kitchen", 52, 52)]

        example.save("surveys", [each | {"status": "open"} for each in SERVER.SURVEYS])
        assert "attic 01-01 02-01 first" in ranges(example, "responses", "2020-02-23")
        example.ran("responses", "2020-02-23")
        assert example.rows("responses", count)[0] == ("attic", 53, 53)
        assert set(states(example, "responses", "2020-02-23").values()) == {"open"}, "the last days are read again"


def test_of_a_server_that_keeps_seven_files_each_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(copied("work_units/daily_files.yml", tmp_path), monkeypatch) as example:
        for number in range(15, 26):
            today = f"2026-01-{number}"
            example.example.today = day(today).date()
            names = example.example.files()
            example.save("listing", [{"name": name} for name in names])
            if number == 16:
                assert example.said("plan daily_files.yml -p visits --at 2026-01-16T07:30") in GUIDE
            report = example.ran("visits", f"{today}T07:30:00")
            new = names if number == 15 else names[-1:]
            assert example.asked() == new
            assert (report.rows, dict(report.skipped)) == (24 * len(new), {} if number == 15 else {"abstinent": 6})
        found = example.rows("visits", "select _tidegate_unit, count(*) from t group by 1 order by 1")
        assert found == [(f"visits-2026-01-{number:02d}.csv", 24) for number in range(9, 26)]
        assert example.ran("visits", "2026-01-25T19:30:00").state == "Idle"
        assert not [each for each in example.seen if isinstance(each, Notice)], "an ordinary day is worth no notice"
        seen = states(example, "visits", "2026-01-25")
        assert [seen[f"visits-2026-01-{number}.csv"] for number in (18, 19, 25)] == ["stale", "done", "done"]


def test_files_that_are_read_every_day_are_there_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = copied("work_units/daily_files.yml", tmp_path)
    config.write_text(config.read_text().replace("abstinent_period_days: 7", "abstinent_period_days: 0"))
    with serving(config, monkeypatch) as example:
        for number in range(15, 19):
            example.example.today = day(f"2026-01-{number}").date()
            names = example.example.files()
            example.save("listing", [{"name": name} for name in names])
            assert example.ran("visits", f"2026-01-{number}T07:30:00").rows == 24 * 7
            assert example.asked() == names
        found = example.rows("visits", "select _tidegate_unit, count(*) from t group by 1 order by 1")
        assert found == [(f"visits-2026-01-{number:02d}.csv", 24) for number in range(9, 19)]


def test_rows_that_come_up_to_three_days_late_are_read(
    postgres: postgres_server.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = copied("work_units/warehouse.yml", tmp_path)
    with warehouse(postgres, monkeypatch) as database:
        lane = DatabaseLane()
        example = ExampleRuns(config, lane=lane)
        assert example.ran("sales", "2026-01-15").rows == 2 * 14
        lane.asked.clear()
        database.execute(
            "insert into sales values (101, 'north', '2026-01-12 23:00Z', 1), (102, 'north', '2026-01-11 23:00Z', 2),"
            " (103, 'south', '2026-01-15 12:00Z', 3)"
        )
        database.execute("update sales set amount = 0 where sold_at = '2026-01-13 12:00Z' and region = 'south'")
        database.execute("delete from sales where sold_at = '2026-01-14 12:00Z' and region = 'south'")
        assert ranges(example, "sales", "2026-01-16") == ["north+south 01-12 01-16 new"]
        assert example.said("plan warehouse.yml --at 2026-01-16") in GUIDE
        example.ran("sales", "2026-01-16")
        days = ("2026-01-12 2026-01-13", "2026-01-13 2026-01-16")
        assert lane.asked == [f"{unit} {each}" for unit in ("north", "south") for each in days]
        late = example.rows("sales", "select id from t where id > 100 order by 1")
        assert late == [(101,), (103,)], "four days late is too late"
        south = "select count(*), sum(amount) from t where _tidegate_unit = 'south'"
        assert example.rows("sales", south) == [(14, Decimal("9.90") * 12 + 3)]
        lane.asked.clear()
        assert example.said("plan warehouse.yml --at 2026-02-02") in GUIDE
        example.ran("sales", "2026-02-02")
        north = sorted(each for each in lane.asked if each.startswith("north"))
        days = ("2026-01-13 2026-01-29", "2026-01-29 2026-02-01", "2026-02-01 2026-02-02")
        assert north == [f"north {each}" for each in days]


def test_a_month_that_failed_is_read_as_soon_as_the_server_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(copied("work_units/failed_month.yml", tmp_path), monkeypatch, broken="2026-03") as example:
        first = example.ran("responses", "2026-06-10")
        assert (first.work_units, first.rows) == (10, 2 * (160 - 31))
        assert [(each.unit, each.start[:10], each.failures) for each in first.failed_units] == [
            ("garden", "2026-03-01", 1),
            ("kitchen", "2026-03-01", 1),
        ]
        assert "500" in first.failed_units[0].reason
        assert example.said("plan failed_month.yml --at 2026-06-11") in GUIDE
        assert states(example, "responses", "2026-06-10") == {"garden": "failed", "kitchen": "failed"}
        example.asked()

        again = example.ran("responses", "2026-06-10")
        assert (again.work_units, [each.failures for each in again.failed_units]) == (0, [2, 2])
        assert example.asked() == [f"{survey} 2026-03-01 2026-04-01" for survey in ("garden", "kitchen")]

        example.example.broken = None
        assert ranges(example, "responses", "2026-06-11") == [
            "garden+kitchen 03-01 04-01 first",
            "garden+kitchen 06-10 06-11 new",
        ]
        caught_up = example.ran("responses", "2026-06-11")
        assert (caught_up.work_units, caught_up.rows, caught_up.failed_units) == (4, 2 * 32, ())
        count = "select count(*), count(distinct id) from t"
        assert example.rows("responses", count) == [(2 * 161, 2 * 161)]
        assert example.ran("responses", "2026-06-11").state == "Idle"
        (standing,) = status(example.config, "responses")
        assert standing.error is None
