"""What a file is, given the state of its source and what the ledger says about it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tidegate.core.files.comparison import CommittedFile, Comparing, Finding, History, Move
from tidegate.core.files.paths import SourceFile
from tidegate.core.files.state import Active, Failed, Finished, LateWindow, PathState, RecordsRead, Seal
from tidegate.specs.files import LateFiles, PathSource
from tidegate.specs.locations import Location

SOURCE = PathSource("s", Location("memory://x"))
DAY = "date=2026-01-28"
STATE = PathState(
    watermark=Active(f"{DAY}/m"),
    partition_watermarks={DAY: "m"},
    files={
        f"{DAY}/o": Finished(),
        f"{DAY}/p": RecordsRead(5, 10),
        f"{DAY}/q": Failed(2, "not JSON", 10),
        f"{DAY}/r": RecordsRead(0, 10, rounds=0),
    },
    late_window={DAY: LateWindow(("j", "m"), above="h")},
    sealed={"": Seal(datetime(2026, 1, 20, tzinfo=UTC))},
)
ALL = CommittedFile(10, "e", 3, True)
PART = CommittedFile(10, "e", 3, False)


def finding(
    path: str,
    committed: CommittedFile | None = None,
    *,
    source: PathSource = SOURCE,
    history: History | None = None,
    etag: str = "e",
) -> Finding:
    return Comparing(source, STATE, history or History()).decide(SourceFile(path, 10, etag), committed)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a", Finding.LATE),
        ("h", Finding.LATE),
        ("i", Finding.WAITING),
        ("j", Finding.UNEXPLAINED),
        ("n", Finding.WAITING),
        ("o", Finding.UNEXPLAINED),
        ("p", Finding.UNFINISHED),
        ("q", Finding.UNFINISHED),
        ("r", Finding.WAITING),
        ("z", Finding.WAITING),
    ],
)
def test_a_file_that_the_ledger_does_not_know_is_what_the_state_makes_of_it(name: str, expected: Finding) -> None:
    assert finding(f"{DAY}/{name}") is expected


def test_below_the_watermark_everything_is_late_when_late_files_are_not_looked_for() -> None:
    assert finding(f"{DAY}/i", source=replace(SOURCE, late_files=LateFiles.STRICT)) is Finding.LATE


@pytest.mark.parametrize("partition", ["date=2026-01-19", "date=2026-01-19/hour=03"])
def test_a_file_in_a_sealed_partition_is_late(partition: str) -> None:
    assert finding(f"{partition}/a") is Finding.LATE


def test_a_file_in_a_new_open_partition_waits() -> None:
    assert finding("date=2026-01-29/a") is Finding.WAITING


@pytest.mark.parametrize("path", [f"{DAY}/a", f"{DAY}/z", "date=2026-01-19/a"])
def test_what_is_committed_to_its_end_is_ingested_or_changed_wherever_it_lies(path: str) -> None:
    assert finding(path, ALL) is Finding.INGESTED
    assert finding(path, ALL, etag="other") is Finding.CHANGED
    assert finding(path, replace(ALL, size=11)) is Finding.CHANGED
    assert finding(path, replace(ALL, etag=None)) is Finding.INGESTED


def test_the_rest_of_a_file_that_no_run_goes_on_with_is_late() -> None:
    assert finding(f"{DAY}/a", PART) is Finding.LATE
    assert finding(f"{DAY}/a", PART, etag="other") is Finding.CHANGED
    assert finding(f"{DAY}/p", PART) is Finding.UNFINISHED


def test_with_a_gap_in_the_ledger_nothing_is_late() -> None:
    gap = History(is_whole=False)
    assert finding(f"{DAY}/a", history=gap) is Finding.UNEXPLAINED
    assert finding("date=2026-01-19/a", history=gap) is Finding.UNEXPLAINED
    assert finding(f"{DAY}/a", ALL, history=gap) is Finding.INGESTED
    assert finding(f"{DAY}/z", history=gap) is Finding.WAITING


def test_what_a_command_passed_over_is_unexplained_and_what_was_below_before_is_late() -> None:
    before = PathState(watermark=Active(f"{DAY}/c"), partition_watermarks={DAY: "c"})
    moved = History(moves=(Move(before, replace(before, partition_watermarks={DAY: "f"})),))
    assert finding(f"{DAY}/b", history=moved) is Finding.LATE
    assert finding(f"{DAY}/d", history=moved) is Finding.UNEXPLAINED
    assert finding(f"{DAY}/g", history=moved) is Finding.LATE


def test_what_lies_before_a_bounded_start_is_excluded() -> None:
    bounded = History(cold_start=PathState(sealed={"": Seal(datetime(2026, 1, 10, tzinfo=UTC))}))
    assert finding("date=2026-01-09/a", history=bounded) is Finding.EXCLUDED
    assert finding("date=2026-01-10/a", history=bounded) is Finding.LATE
    assert finding("date=2026-01-09/a", ALL, history=bounded) is Finding.INGESTED
