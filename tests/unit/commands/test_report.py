"""The last days of a source, counted from its ledger and its recorded runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tidegate.commands.report import DAYS, count_days
from tidegate.core.health import Outcome
from tidegate.core.run_history import PastRun, RunHistory
from tidegate.protocol.change import Coverage
from tidegate.protocol.ledger_blocks import LedgerEntry, gap
from tidegate.reports.overview import DayCount

NOW = datetime(2026, 1, 28, 15, tzinfo=UTC)


def entry(version: int, at: datetime, rows: int, *files: tuple[str, bool]) -> LedgerEntry:
    covered = tuple(Coverage(name, 10, None, 0, 5, eof) for name, eof in files)
    return LedgerEntry(version, "a", "run", at.isoformat(), version, rows, covered, ())


def test_rows_files_and_commits_are_counted_by_the_day_in_utc() -> None:
    entries = [
        entry(4, NOW, 7, ("c", True)),
        gap(3, "missing"),
        entry(2, NOW - timedelta(hours=1), 5, ("b", True), ("a", False)),
        entry(1, NOW - timedelta(days=DAYS + 5), 100, ("z", True)),
    ]
    days = count_days(entries, RunHistory(), NOW)
    assert len(days) == DAYS
    assert (days[0].day, days[-1]) == ("2026-01-15", DayCount("2026-01-28", 12, 2, 2))
    assert sum(day.rows or 0 for day in days) == 12


def test_a_file_that_comes_in_several_commits_counts_where_it_ends() -> None:
    entries = [entry(2, NOW, 1, ("a", True)), entry(1, NOW - timedelta(days=1), 1, ("a", False))]
    assert [day.files for day in count_days(entries, RunHistory(), NOW)][-2:] == [0, 1]


def test_every_day_of_a_row_of_failures_counts() -> None:
    failed = PastRun("r", NOW - timedelta(days=3), NOW - timedelta(days=1), Outcome.REFUSED, "restored", 5, times=40)
    well = PastRun("s", NOW, NOW, Outcome.SUCCEEDED)
    days = count_days([], RunHistory((failed, well)), NOW)
    assert [day.day for day in days if day.failing] == ["2026-01-25", "2026-01-26", "2026-01-27"]


def test_days_before_the_oldest_entry_that_was_read_are_not_known() -> None:
    days = count_days([entry(9, NOW, 7)], RunHistory(), NOW, NOW - timedelta(days=1))
    assert [day.rows for day in days] == [*[None] * (DAYS - 2), 0, 7]
