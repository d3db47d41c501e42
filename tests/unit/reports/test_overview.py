"""The report on a project: what is broken first, with since when, what is lost and what repairs it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.html import Reading
from tidegate.core.health import Health, HealthLevel, Outcome
from tidegate.core.run_history import PastRun
from tidegate.reports.overview import DayCount, NextRun, ProjectReport, SourceOverview
from tidegate.reports.page import Panel
from tidegate.reports.render import to_lines
from tidegate.reports.report import View
from tidegate.reports.status import FailedFile, SourceStatus, WorkProgress

NOW = datetime(2026, 1, 28, 15, tzinfo=UTC)
WELL = SourceStatus("orders", "default", "lake/orders", "Idle", "id=3", 1, 0, None, 0.0, 0, 0, True, 0)
FINE = HealthLevel.HEALTHY


def source(name: str = "orders", level: HealthLevel = FINE, reason: str = "", **more: Any) -> SourceOverview:
    """A source; ``next_run`` and ``days`` are those of its overview, all else of its status."""
    own = {key: more.pop(key) for key in ("next_run", "days") if key in more}
    since = more.pop("since", None)
    command = more.pop("command", "")
    health = Health(level, reason, since, command)
    return SourceOverview(replace(WELL, pipeline=name, health=health, **more), **own)


def report(*sources: SourceOverview) -> ProjectReport:
    level = max((each.health.level for each in sources), key=lambda each: each.badness)
    return ProjectReport("shop.yml", NOW, level, sources)


def lines(shown: ProjectReport, **view: Any) -> str:
    return "\n".join(" ".join(line.split()) for line in to_lines(shown.page(View(**view))))


def failing(name: str = "orders", reason: str = "password refused", **more: Any) -> SourceOverview:
    run = PastRun("r", NOW - timedelta(hours=4), NOW, Outcome.FAILED, reason, 4)
    more = {"since": NOW - timedelta(hours=3, minutes=12), "command": f"tidegate doctor shop.yml -p {name}", **more}
    return source(name, HealthLevel.FAILING, reason, last_run=run, **more)


def test_what_is_broken_comes_first_with_since_when_what_is_lost_and_the_command() -> None:
    late = source("sensors", HealthLevel.DEGRADED, "late: no data", since=NOW - timedelta(days=2))
    shown = lines(report(source(), late, failing("pay")))
    order = [
        shown.index(text) for text in ("2 of 3 sources need", "What is broken", "✖ pay/default is", "▲ sensors/de")
    ]
    assert order == sorted(order)
    assert "password refused" in shown
    assert "since 2026-01-28 11:48:00Z, 3 h 12 min ago" in shown
    assert "data loss None by Tidegate" in shown
    assert "to find out more, run tidegate doctor shop.yml -p pay" in shown


def test_a_project_that_is_well_says_so_and_has_no_broken_section() -> None:
    shown = lines(report(source(), source("new", HealthLevel.WAITING, "it has not run yet")))
    assert "● All 2 sources are well; 1 has not run yet." in shown
    assert "broken" not in shown
    assert not any(isinstance(block, Panel) for block in report(source()).page())


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (failing(), "a failed run leaves nothing half done"),
        (
            source(level=HealthLevel.FAILING, reason="no", next_run=NextRun("", error="no")),
            "a refused run writes nothing",
        ),
        (source(level=HealthLevel.UNKNOWN, reason="no answer", error="no answer"), "Not known while its state"),
        (
            source(level=HealthLevel.DEGRADED, reason="1 file", failed=(FailedFile("d/a.gz", "truncated", 2),)),
            "stays where it is",
        ),
        (source(level=HealthLevel.DEGRADED, reason="units", work_units=WorkProgress(failed=2)), "later runs try"),
        (
            source(level=HealthLevel.DEGRADED, reason="200 dead letters open", open_letters=200),
            "each bad record is kept",
        ),
        (source(level=HealthLevel.DEGRADED, reason="emptied", empty=True), "has to be put back"),
        (source(level=HealthLevel.FAILING, reason="late: no new data"), "picked up by the next run"),
    ],
)
def test_what_is_lost_is_told_for_each_kind_of_problem(broken: SourceOverview, said: str) -> None:
    (told,) = (line for line in lines(report(broken)).splitlines() if line.startswith("data loss"))
    assert said in told


def test_an_unreadable_file_is_named_and_a_run_reads_it_once_it_is_corrected() -> None:
    file = FailedFile("d/a.gz", "the gzip data is truncated", 2)
    broken = source(
        level=HealthLevel.DEGRADED, reason="1 file", failed=(file,), command="tidegate status shop.yml -p orders"
    )
    shown = lines(report(broken))
    assert "d/a.gz: the gzip data is truncated (2 attempts)" in shown
    assert "tidegate run shop.yml -p orders" in shown


def test_a_late_source_is_repaired_by_a_run_if_something_waits_and_else_by_who_delivers() -> None:
    late = source(level=HealthLevel.DEGRADED, reason="late: no", command="tidegate plan shop.yml -p orders")
    assert "check what delivers the data" in lines(report(late))
    waiting = replace(late, status=replace(late.status, backlog_files=3))
    assert "to fix it, run tidegate run shop.yml -p orders" in lines(report(waiting))


def test_tables_of_a_block_with_one_problem_share_a_panel_and_a_row() -> None:
    tables = [failing(f"shop.t{n}", block="shop", days=(DayCount("2026-01-28", n, 0, 1),)) for n in range(40)]
    shown = lines(report(*tables, failing("other")))
    assert "✖ 40 tables of shop (shop.t0, shop.t1, shop.t2 and 37 more) are failing" in shown
    assert "tidegate doctor shop.yml -p shop\n" in shown
    assert shown.count("is failing") == 1
    assert "shop (40 tables, 40 failed)" in shown
    assert " 780 " in shown, "the rows of all tables"


def test_a_day_that_is_not_known_is_not_shown_as_empty() -> None:
    days = (
        DayCount("2026-01-26", None, None, None),
        DayCount("2026-01-27", failing=True),
        DayCount("2026-01-28", 7, 1, 1),
    )
    shown = lines(report(source(days=days)))
    assert "?✖█ 7 rows in 3 days; known from 2026-01-27 on" in shown
    assert "red or ✖: runs failed on that day" in shown


def test_many_problems_are_counted() -> None:
    shown = lines(report(*(failing(f"p{n}") for n in range(60))))
    assert "… and 35 more problems; --json lists all" in shown


def test_the_html_has_commands_ready_to_copy_and_moments_for_machines() -> None:
    hostile = "<script>alert(1)</script>"
    html = report(failing(reason=hostile), source(hostile)).to_html()
    read = Reading(html)
    assert "<code>tidegate doctor shop.yml -p orders</code>" in html
    assert ("datetime", "2026-01-28T11:48:00Z") in read.attributes
    assert "<script" not in html
    assert any(hostile in text for text in read.texts)
    assert read.tags.count("h1") == 1
