"""Counters of ``serve``: what each commit brought, counted once, in bounded looks, and never less than before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from support.metrics import NAME
from tidegate.commands.serve import LedgerCounts, SourceCounts
from tidegate.errors import StorageError
from tidegate.protocol.change import Coverage
from tidegate.protocol.ledger_blocks import LedgerEntry, gap
from tidegate.reports.status import SourceStatus

READ = Coverage("a", 90, None, 0, 10, True, rows=10)
PART = Coverage("b", 50, None, 0, 10, False, rows=10)
GIVEN_UP = Coverage("c", 7, None, 0, 0, True, bad=1)


def entry(version: int, *coverage: Coverage, rows: int = 10) -> LedgerEntry:
    return LedgerEntry(version, "x", "run", "2026-01-28T12:00:00+00:00", None, rows, coverage, ())


@dataclass
class FakeLedger:
    """Entries, and the positions from which they were asked for."""

    found: list[LedgerEntry] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    fails_at: int = 0

    def entries(self, *, start: int = 1) -> Iterator[LedgerEntry]:
        self.asked.append(start)
        for each in self.found:
            if each.version >= start:
                if each.version == self.fails_at:
                    raise StorageError("no answer", "try again")
                yield each


@dataclass
class FakeSource:
    ledger: Any
    names: tuple[str, str] = NAME


def status(version: int, **totals: float) -> SourceStatus:
    blank = SourceStatus(*NAME, "file:///lake", "Active", "a", version, 1, None, 0.0, 0, 0, True, 0)
    return replace(blank, totals=totals)


def look(counters: SourceCounts, ledger: FakeLedger, found: SourceStatus) -> dict[str, float]:
    counters.begin()
    counters.look(FakeSource(ledger), found)  # type: ignore[arg-type]  # all that is asked of a source
    return dict(counters.counts().get(NAME, {}))


def test_rows_files_bytes_and_commits_are_those_of_the_ledger() -> None:
    ledger = FakeLedger([entry(1, READ, PART, rows=20), gap(2, "gone"), entry(3, GIVEN_UP, rows=0)])
    found = look(SourceCounts(), ledger, status(3, records_processed_total=5, late_files_total=4))
    assert found == {
        "records_processed_total": 20,
        "files_processed_total.finished": 1,
        "files_processed_total.dead": 1,
        "bytes_read_total": 97,
        "commit_outcomes_total.committed": 3,
        "late_files_total": 4,
    }


def test_a_later_look_reads_only_what_is_new_and_an_idle_one_reads_nothing() -> None:
    ledger, counters = FakeLedger([entry(1), entry(2)]), SourceCounts()
    look(counters, ledger, status(2))
    assert look(counters, ledger, status(2))["records_processed_total"] == 20
    assert ledger.asked == [1]
    ledger.found.append(entry(3))
    assert look(counters, ledger, status(3))["records_processed_total"] == 30
    assert ledger.asked == [1, 3]


def test_a_long_history_is_counted_in_bounded_looks_and_shown_when_it_is_whole() -> None:
    ledger, counters = FakeLedger([entry(n, READ) for n in range(1, 101)]), SourceCounts(most=40)
    looks = [look(counters, ledger, status(100)).get("records_processed_total") for _ in range(6)]
    assert looks == [None, None, None, None, None, 1000]
    # One pass over the ledger, however many looks it took.
    assert ledger.asked == [1]


def test_sources_share_the_work_of_a_look_but_new_commits_are_always_counted() -> None:
    small, large = FakeLedger([entry(1)]), FakeLedger([entry(n) for n in range(1, 101)])
    counters = SourceCounts(most=50)
    for _ in range(3):
        counters.begin()
        counters.look(FakeSource(large, ("events", "large")), status(100))  # type: ignore[arg-type]
        counters.look(FakeSource(small), status(len(small.found)))  # type: ignore[arg-type]
    assert counters.counts()[NAME]["records_processed_total"] == 10
    small.found.append(entry(2))
    large.found += [entry(n) for n in range(101, 201)]
    counters.begin()
    counters.look(FakeSource(large, ("events", "large")), status(200))  # type: ignore[arg-type]
    counters.look(FakeSource(small), status(2))  # type: ignore[arg-type]
    assert [each["records_processed_total"] for each in counters.counts().values()] == [2000, 20]


def test_a_ledger_that_cannot_be_read_now_is_continued_where_it_failed() -> None:
    ledger, counters = FakeLedger([entry(n) for n in range(1, 6)], fails_at=4), SourceCounts()
    assert look(counters, ledger, status(5)) == {}
    ledger.fails_at = 0
    assert look(counters, ledger, status(5))["records_processed_total"] == 50
    assert ledger.asked == [1, 4]


def test_no_counter_decreases() -> None:
    ledger, counters = FakeLedger([entry(n) for n in range(1, 6)]), SourceCounts()
    before = look(counters, ledger, status(5, **{"runs_total.failed": 3}))
    # The record was overwritten by an older one, and the table by an older copy.
    older = FakeLedger(ledger.found[:3])
    assert look(counters, older, status(3, **{"runs_total.failed": 1})) == before
    older.found.append(entry(4))
    assert look(counters, older, status(4))["records_processed_total"] == 60


def test_a_source_whose_state_cannot_be_read_keeps_its_counters() -> None:
    ledger, counters = FakeLedger([entry(1)]), SourceCounts()
    before = look(counters, ledger, status(1))
    assert look(counters, ledger, replace(status(0), error="cannot read it")) == before
    assert ledger.asked == [1]


@pytest.mark.parametrize("position", [0, 1])
def test_a_ledger_is_complete_when_nothing_is_left(position: int) -> None:
    counter = LedgerCounts()
    counter.look(FakeLedger([entry(1)] * position), position, 10)  # type: ignore[arg-type]
    assert counter.is_complete
