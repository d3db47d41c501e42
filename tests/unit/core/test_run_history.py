"""How the last runs of a source ended: few entries, and still since when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.health import Outcome
from tidegate.core.run_history import MOST_ENTRIES, MOST_ERROR_CHARACTERS, PastRun, RunHistory

NOON = datetime(2026, 1, 28, 12, tzinfo=UTC)


def run(minute: int, outcome: Outcome = Outcome.SUCCEEDED, error: str | None = None, **more: object) -> PastRun:
    began = NOON + timedelta(minutes=minute)
    run_id = str(more.pop("run", f"run {minute}"))
    return PastRun(run_id, began, began + timedelta(seconds=5), outcome, error, **more)  # type: ignore[arg-type]


def history(*runs: PastRun) -> RunHistory:
    found = RunHistory()
    for each in runs:
        found = found.add(each)
    return found


def test_failures_in_a_row_share_an_entry_that_says_when_they_began() -> None:
    found = history(run(0, rows=5, commits=1), *(run(n, Outcome.FAILED, "no") for n in range(1, 90)))
    assert [(each.outcome, each.times) for each in found.runs] == [(Outcome.SUCCEEDED, 1), (Outcome.FAILED, 89)]
    assert found.last_since == NOON + timedelta(minutes=1)
    assert found.last_success_at == found.last_data_at == NOON + timedelta(seconds=5)


def test_failures_for_two_reasons_are_one_row_of_failures() -> None:
    found = history(run(0), run(1, Outcome.FAILED, "a"), run(2, Outcome.REFUSED, "b"), run(3, Outcome.FAILED, "a"))
    assert (len(found.runs), found.last_since) == (4, NOON + timedelta(minutes=1))


def test_a_run_that_was_stopped_says_nothing_about_the_source() -> None:
    found = history(run(0, Outcome.FAILED, "a"), run(1, Outcome.STOPPED), run(2, Outcome.FAILED, "a"))
    assert found.last is not None
    assert (found.last.outcome, found.last_since) == (Outcome.FAILED, NOON)


def test_scheduled_runs_with_rows_have_their_own_entries_and_passes_of_one_run_do_not() -> None:
    assert len(history(run(0, rows=1, commits=1), run(1, rows=2, commits=1)).runs) == 2
    (one,) = history(run(0, run="a", rows=1, commits=1), run(1, run="a", rows=2, commits=1), run(2, run="a")).runs
    assert (one.rows, one.times, one.commits) == (3, 3, 2)


def test_a_long_error_is_cut_and_entries_are_few_but_totals_are_of_all() -> None:
    found = history(*(run(n, Outcome.FAILED, f"{n} " + "x" * 5000) for n in range(100)))
    assert len(found.runs) == MOST_ENTRIES
    assert len(found.runs[-1].error or "") == MOST_ERROR_CHARACTERS
    assert (found.totals["times"], found.totals["failures"]) == (100, 100)


def test_counters_of_all_runs_are_added_up_and_outlive_every_entry() -> None:
    found = RunHistory()
    for minute in range(100):
        found = found.count({"late_files_total": 2, f"runs_total.{'failed' if minute % 4 else 'succeeded'}": 1})
        found = RunHistory.from_bytes(found.add(run(minute)).to_bytes())
    assert (found.totals["late_files_total"], found.totals["times"]) == (200, 100)
    assert (found.totals["runs_total.failed"], found.totals["runs_total.succeeded"]) == (75, 25)


def test_damaged_content_tells_nothing() -> None:
    for content in (b"", b"[]", b"{}", b'{"version": 2}', b'{"version": 1, "runs": [{}]}', b"\xff"):
        assert RunHistory.from_bytes(content) == RunHistory()


TEXTS = st.none() | st.text(st.characters(exclude_categories=["Cs"]))
RUNS = st.builds(
    run,
    minute=st.integers(0, 500),
    outcome=st.sampled_from(Outcome),
    error=TEXTS,
    rows=st.integers(0, 3),
    files=st.integers(0, 3),
    commits=st.integers(0, 2),
    run=st.sampled_from(["a", "b"]),
)


@given(st.lists(RUNS, max_size=60))
def test_what_is_stored_is_what_is_read_and_nothing_is_lost_from_the_totals(runs: list[PastRun]) -> None:
    found = history(*runs)
    assert RunHistory.from_bytes(found.to_bytes()) == found
    assert found.totals.get("rows", 0) == sum(each.rows for each in runs)
    assert found.totals.get("times", 0) == len(runs)
