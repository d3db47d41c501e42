"""Ranges, newest first, become one line per reading of a file."""

from __future__ import annotations

import pytest

from tidegate.commands.files import FileLines, FilesQuery
from tidegate.protocol.change import Coverage
from tidegate.protocol.ledger_blocks import LedgerEntry
from tidegate.reports.ledger import IngestedFile


def entry(version: int, *ranges: tuple[str, int, int, bool]) -> LedgerEntry:
    """A position that covers ``(file, start, end, eof)``."""
    coverage = tuple(Coverage(file, 10, None, start, end, eof, end - start) for file, start, end, eof in ranges)
    return LedgerEntry(version, "a", "run", f"2026-01-28T00:00:{version:02d}+00:00", version, 0, coverage, ())


def collected(newest_first: list[LedgerEntry], limit: int = 0, match: str | None = None) -> tuple[FileLines, int]:
    """The lines, and how many positions were looked at."""
    lines = FileLines("p", "s", FilesQuery(match), limit)
    for looked_at, each in enumerate(newest_first, start=1):
        if lines.add(each):
            return lines, looked_at
    return lines, len(newest_first)


def told(line: IngestedFile) -> tuple[str, int, int, int, bool]:
    return line.file, line.position, len(line.ranges), line.records, line.finished


def test_the_rounds_of_a_file_are_one_line_at_its_newest_position() -> None:
    lines, _ = collected(
        [
            entry(3, ("a", 70, 90, True), ("b", 0, 5, True)),
            entry(2, ("a", 40, 70, False)),
            entry(1, ("a", 0, 40, False)),
        ]
    )
    assert [told(line) for line in lines.files()] == [("b", 3, 1, 5, True), ("a", 3, 3, 90, True)]
    (_, a) = lines.files()
    assert [(each.position, each.start, each.end) for each in a.ranges] == [(1, 0, 40), (2, 40, 70), (3, 70, 90)]
    assert a.rows == 90


def test_a_second_reading_is_a_line_of_its_own() -> None:
    lines, _ = collected([entry(2, ("a", 0, 40, True)), entry(1, ("a", 0, 40, True))])
    assert [told(line) for line in lines.files()] == [("a", 2, 1, 40, True), ("a", 1, 1, 40, True)]


def test_a_reading_that_was_given_up_is_a_line_of_its_own() -> None:
    lines, _ = collected([entry(3, ("a", 0, 90, True)), entry(2, ("a", 40, 60, False)), entry(1, ("a", 0, 40, False))])
    assert [told(line) for line in lines.files()] == [("a", 3, 1, 90, True), ("a", 2, 2, 60, False)]


def test_ranges_that_do_not_meet_are_not_put_together() -> None:
    lines, _ = collected([entry(2, ("a", 50, 60, True)), entry(1, ("a", 0, 40, False))])
    assert [told(line) for line in lines.files()] == [("a", 2, 1, 10, False), ("a", 1, 1, 40, False)]


def test_the_limit_ends_the_search_once_the_lines_shown_are_whole() -> None:
    history = [
        entry(5, ("b", 10, 20, True)),
        entry(4, ("c", 0, 1, True)),
        entry(3, ("d", 0, 1, True)),
        entry(2, ("b", 0, 10, False)),
        entry(1, ("e", 0, 1, True)),
    ]
    lines, looked_at = collected(history, limit=2)
    assert [told(line) for line in lines.files()] == [("b", 5, 2, 20, True), ("c", 4, 1, 1, True)]
    assert (lines.complete, looked_at) == (False, 4)


def test_a_limit_that_is_just_reached_leaves_nothing_out() -> None:
    lines, _ = collected([entry(1, ("a", 0, 1, True), ("b", 0, 1, True))], limit=2)
    assert len(lines.files()) == 2
    assert lines.complete


@pytest.mark.parametrize(
    ("match", "files"),
    [
        (None, ["d=2/b.gz", "d=1/b.gz", "d=1/a.gz"]),
        ("b*", ["d=2/b.gz", "d=1/b.gz"]),
        ("d=1/*", ["d=1/b.gz", "d=1/a.gz"]),
        ("*/b.gz", ["d=2/b.gz", "d=1/b.gz"]),
        ("d=1", []),
    ],
)
def test_a_pattern_is_about_the_path_and_without_a_slash_about_the_name(match: str | None, files: list[str]) -> None:
    found = [entry(1, ("d=1/a.gz", 0, 1, True), ("d=1/b.gz", 0, 1, True), ("d=2/b.gz", 0, 1, True))]
    lines, _ = collected(found, match=match)
    assert [line.file for line in lines.files()] == files
