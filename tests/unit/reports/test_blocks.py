"""Tables of a block in reports: few are shown one by one, many are added up, and what failed has its name."""

from __future__ import annotations

from dataclasses import replace

from tidegate.core.health import Health, HealthLevel
from tidegate.reports.plan import ColumnSourcePlan, Plans, UnreadTable
from tidegate.reports.render import to_lines
from tidegate.reports.report import Report, View
from tidegate.reports.run import RunReport, SourceReport
from tidegate.reports.status import SourceStatus, Statuses


def lines(report: Report, view: View | None = None) -> list[str]:
    return [line.strip() for line in to_lines(report.page(view))]


def run(tables: int) -> RunReport:
    done = SourceReport("shop.public.t", "default", "Active", None, 0, 0, 10, 1, seconds=1.0, block="shop")
    found = [replace(done, pipeline=f"shop.public.t{n}") for n in range(tables)]
    found[1] = replace(found[1], error="no key", exit_code=4, rows=0)
    other = replace(done, pipeline="events", block=None)
    return RunReport((other, *found), False, 5.0)


def test_a_few_tables_are_shown_one_by_one() -> None:
    shown = "\n".join(lines(run(5)))
    assert all(f"shop.public.t{n}/default" in shown for n in range(5))
    assert "tables" not in shown


def test_rows_of_merges_are_told_for_each_source_and_added_up_for_many() -> None:
    merged = {"inserted": 3, "updated": 1, "unchanged": 1000}
    few, many = (RunReport(tuple(replace(each, **merged) for each in run(n).sources), True, 1.0) for n in (2, 9))
    assert "rows: shop.public.t0/default: 3 inserted, 1 updated, 1,000 unchanged" in lines(few)
    assert "rows: shop (9 tables, 1 failed): 27 inserted, 9 updated, 9,000 unchanged" in lines(many)
    assert not any(line.startswith("rows:") for line in lines(run(9)))


def test_many_tables_are_one_row_with_totals_and_the_failed_ones_below() -> None:
    found = lines(run(100))
    (total,) = (line for line in found if line.startswith("shop (100 tables, 1 failed)"))
    assert "990" in total.split()
    assert any(line.startswith("shop.public.t1/default") for line in found)
    assert any(line.startswith("events/default") for line in found)
    assert len(found) < 12
    assert len(lines(run(100), View(verbose=True))) > 100
    assert [each["block"] for each in run(6).to_json()["sources"]] == [None, *["shop"] * 6]
    assert "folded" not in run(6).to_json()["sources"][0]


def status(pipeline: str, **more: object) -> SourceStatus:
    known = SourceStatus(pipeline, "default", "lake/t", "Active", "id=3", 1, 0, None, 4.0, 0, 0, True, 0, block="shop")
    known = replace(known, health=Health(HealthLevel.HEALTHY))
    return replace(known, **more)  # type: ignore[arg-type]  # fields by name


def test_a_status_adds_up_many_tables_and_names_those_that_failed_or_vanished() -> None:
    found = [status(f"shop.public.t{n}", lag_seconds=float(n)) for n in range(60)]
    failing = Health(HealthLevel.FAILING, "no key")
    found[3] = replace(found[3], error="no key", state="Unknown", health=failing)
    found[4] = replace(found[4], vanished=True)
    shown = lines(Statuses(tuple(found)))
    assert any(line.startswith("shop (60 tables, 1 failed)") and "59 s" in line for line in shown)
    assert any("shop.public.t4 is no longer in the database" in line for line in shown)
    assert any("shop.public.t3/default: no key" in line for line in shown)
    assert len(shown) < 20


def test_plans_of_many_tables_are_counted_by_what_a_run_would_do() -> None:
    plan = ColumnSourcePlan(
        "", "default", "t", "jdbc", "db#t", "append", 1, {"id": "1"}, {"id": "1"}, "id > 1", False, ""
    )
    plans = [replace(plan, pipeline=f"shop.public.t{n}", block="shop", position=n % 2) for n in range(20)]
    refused = UnreadTable("shop.public.x", "default", "x", "no key", "shop")
    gone = UnreadTable("shop.public.y", "default", "y", "gone", "shop", exit_code=0)
    report = Plans((*plans, refused, gone))
    shown = lines(report)
    assert report.code() == 4
    for what, number in (
        ("read for the first time", 10),
        ("read above the watermark", 10),
        ("refused", 1),
        ("no longer in the database", 1),
    ):
        assert any(line.startswith(what) and str(number) in line.split() for line in shown), what
    assert any("shop.public.x/default: no key" in line for line in shown)
    assert len(lines(report, View(verbose=True))) > 60
    assert Plans((plan, gone)).code() == 0
