"""A staged unit in words, in numbers and in the report of a run."""

from __future__ import annotations

from tidegate.observe.events import SourceFinished, Staged
from tidegate.observe.logs import sentence
from tidegate.observe.progress import SourceProgress
from tidegate.reports.run import RunReport, SourceReport

UNIT = Staged("events", "asia", 7, source_files=2, source_bytes=2048, data_files=1, rows=30, seconds=0.1)


def test_the_sentence_says_that_it_waits() -> None:
    assert sentence(UNIT) == "staged 30 rows of 2 files (2.0 KiB) as unit 7, waiting for `tidegate commit`"


def test_a_pass_that_staged_counts_units_instead_of_commits() -> None:
    tally = SourceProgress(planned_files=4, planned_bytes=4096).after(UNIT)
    assert (tally.files, tally.bytes, tally.rows, tally.commits, tally.staged) == (2, 2048, 30, 0, 1)
    assert tally.words().endswith("30 rows, 1 staged unit")
    finished = SourceFinished("events", "asia", "Active", "b", 4, 60, 0, 0, 1.5, staged=2)
    assert sentence(finished) == "Active: 4 files, 60 rows, 2 staged units in 1.5 s"


def test_a_pass_over_rows_without_files_does_not_speak_of_files() -> None:
    finished = SourceFinished("orders", "api", "Active", "b", 0, 60, 0, 1, 1.5)
    assert sentence(finished) == "Active: 60 rows, 1 commit in 1.5 s"


def test_the_report_of_a_run_says_what_is_waiting() -> None:
    source = SourceReport("events", "asia", "Active", "b", 4, 4096, 60, 0, staged=2)
    shown = repr(RunReport((source,), ok=True, seconds=1.5).page())
    assert "2 staged" in shown
    assert "events/asia: 2 units staged, waiting for `tidegate commit CONFIG`" in shown
