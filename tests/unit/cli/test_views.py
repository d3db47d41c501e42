"""Views say what the values say, in words, and shorten long lists with a count."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.cli.adopt_view import render_adoptions
from tidegate.cli.chaos_view import render_chaos
from tidegate.cli.demo_view import render_demo_step
from tidegate.cli.doctor_view import render_doctor
from tidegate.cli.pages import Page, Style, Table, plain
from tidegate.cli.run_view import render_run
from tidegate.cli.status_view import render_status, state_cell
from tidegate.cli.watermark_view import render_watermarks
from tidegate.reports.run import Check, DemoStep, FailedFile, RunReport
from unit.cli import standin


def text(page: Page) -> str:
    return "\n".join(plain(page))


def test_status_shows_state_lag_backlog_and_watermark() -> None:
    shown = text(render_status(standin.STATUS))
    for part in (
        "Active",
        "1 min 15 s",
        "40 files, 4.0 MiB",
        standin.MARK,
        "48 open partitions, 1,200 sealed",
    ):
        assert part in shown


def test_a_backlog_whose_listing_was_cut_off_is_a_lower_bound() -> None:
    status = replace(standin.STATUS[0], backlog_complete=False)
    assert "≥ 40 files" in text(render_status((status,)))


def test_a_source_whose_status_cannot_be_read_claims_no_backlog_of_zero() -> None:
    status = replace(standin.STATUS[1], state="Unknown", error="no answer from s3://x")
    shown = text(render_status((status,)))
    assert "?" in shown.splitlines()[1].split()
    assert "error: events/europe: no answer from s3://x" in shown


def test_each_state_has_its_own_colour() -> None:
    styles = [state_cell(state).style for state in ("Active", "Idle", "Initial", "Unknown")]
    assert len(set(styles)) == 4
    assert state_cell("Unknown").style is Style.WARN


def test_many_failed_files_are_shortened_with_a_count() -> None:
    failed = tuple(FailedFile(f"{number}.ndjson", "bad", 1) for number in range(12))
    shown = text(render_status((replace(standin.STATUS[0], failed=failed),)))
    assert "4.ndjson: bad (1 attempt)" in shown
    assert "5.ndjson" not in shown
    assert "… and 7 more failed files; --json lists all" in shown


def test_a_run_shows_numbers_watermarks_and_what_was_skipped() -> None:
    shown = text(render_run(standin.REPORT))
    for part in (
        "480",
        "1.0 GiB",
        "1,200,000",
        standin.MARK,
        "2 skipped: duplicate",
        "1,200,000 rows in 10 s",
    ):
        assert part in shown


def test_a_run_that_failed_says_so_and_names_the_error() -> None:
    source = replace(standin.REPORT.sources[0], error="access denied", failed=(standin.FAILED,))
    shown = text(render_run(RunReport((source,), ok=False, seconds=1)))
    assert "not everything succeeded" in shown
    assert "error: events/asia: access denied" in shown
    assert f"failed: events/asia: {standin.FAILED.path}: line 3: not JSON (2 attempts)" in shown


def test_watermarks_show_the_newest_partitions_first_and_count_the_rest() -> None:
    lines = text(render_watermarks(standin.WATERMARKS)).splitlines()
    first = next(number for number, line in enumerate(lines) if line.split()[:1] == ["partition"])
    assert lines[first + 1].split() == ["date=2026-01-28", "28.ndjson"]
    assert "  … and 8 more partitions; --json lists all" in lines


def test_watermarks_show_what_is_wrong_before_what_is_well() -> None:
    shown = text(render_watermarks(standin.WATERMARKS))
    failed, reading, finished = (shown.index(f"28/{name}.ndjson") for name in "acb")
    assert failed < reading < finished
    assert "failed: line 3: not JSON (2 attempts)" in shown
    assert "in progress: 4,000 records read" in shown


def test_files_at_the_top_level_have_a_name() -> None:
    view = replace(standin.WATERMARKS[0], partitions={"": "a.ndjson"})
    assert "(top level)" in text(render_watermarks((view,)))


@pytest.mark.parametrize(
    ("verdicts", "summary"),
    [
        (("ok",), "all is well"),
        (("ok", "warn"), "nothing failed, 1 warning"),
        (("fail", "warn", "fail"), "2 checks failed, 1 warning"),
    ],
)
def test_doctor_sums_up(verdicts: tuple[str, ...], summary: str) -> None:
    checks = tuple(Check(f"c{number}", verdict, "d") for number, verdict in enumerate(verdicts))  # type: ignore[arg-type]
    assert list(plain(render_doctor(checks)))[-1].strip() == summary


def test_doctor_tells_remedies_only_for_what_is_not_well() -> None:
    shown = text(render_doctor(standin.CHECKS))
    assert "java: install Java 17 or 21" in shown
    assert "python:" not in shown


def test_a_demo_step_is_numbered_and_puts_numbers_to_the_right() -> None:
    step = DemoStep("Look", "two\nlines", "tidegate x", ("event", "rows"), (("click", "1,200"), ("view", "-3.5")))
    page = render_demo_step(2, step)
    assert [line for line in plain(page) if line][:4] == ["2. Look", "  two", "  lines", "  $ tidegate x"]
    (table,) = (block for block in page if isinstance(block, Table))
    assert [column.right for column in table.columns] == [False, True]


@pytest.mark.parametrize(
    "page", [render_status(()), render_watermarks(()), render_run(RunReport((), ok=True, seconds=0))]
)
def test_no_source_is_told_in_words(page: Page) -> None:
    assert "no source was selected" in text(page)


def test_an_experiment_shows_its_failures_by_place_and_its_result() -> None:
    shown = text(render_chaos(standin.CHAOS))
    assert "state.commit.after        9             6      1" in shown
    assert "0 lost, 0 doubled" in shown
    assert "WRONG" not in shown


def test_an_experiment_that_found_something_says_what() -> None:
    wrong = replace(standin.CHAOS, ok=False, lost=2, problems=("round 1 of seed 4: missing: id 7 of a.ndjson",))
    shown = text(render_chaos(wrong))
    assert "2 lost, 0 doubled: WRONG" in shown
    assert "found: round 1 of seed 4: missing: id 7 of a.ndjson" in shown


def test_an_experiment_that_ran_out_of_time_says_so() -> None:
    assert "over before all was done" in text(render_chaos(replace(standin.CHAOS, finished=False)))


def test_an_adoption_shows_what_was_found_and_what_became_of_it() -> None:
    (report,) = standin.ADOPTIONS
    shown = text(render_adoptions(standin.ADOPTIONS))
    for part in (
        "_blizzard/events_asia_checkpoint.json",
        "a watermark per partition",
        "2026-01-28 14:30:05Z",
        "40 files",
        "4,000 records read",
        "… and 8 more",
        "left out: 3 files at or below its watermark; `--read-skipped` reads them",
        "taken over as position 1, table version 18; no row was touched",
    ):
        assert part in shown
    refused = replace(report, adopted=False, version=0, error="it still moves")
    assert "not taken over: it still moves" in text(render_adoptions((refused,)))
    assert "nothing was written yet" in text(render_adoptions((replace(report, adopted=False, version=0),)))
    assert "nothing to do" in text(render_adoptions((replace(report, adopted=False, trace=""), refused)))
