"""Sizes, durations and counts read well at their edges, and names from outside cannot draw."""

from __future__ import annotations

import doctest

import pytest

from tidegate.reports import wording
from tidegate.reports.wording import count, duration, short, size, size_of, visible


def test_the_examples_in_the_docstrings_are_true() -> None:
    assert doctest.testmod(wording).failed == 0


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (10 * 1024, "10 KiB"),
        (1023 * 1024, "1.0 MiB"),
        (1 << 30, "1.0 GiB"),
        (1 << 50, "1.0 PiB"),
        (1 << 62, "4,096 PiB"),
    ],
)
def test_a_size_is_shown_in_the_unit_that_fits(number: int, text: str) -> None:
    assert size(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0.0 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (3600, "1 h"),
        (86_399, "23 h 59 min"),
        (86_400 * 400 + 3600, "400 d 1 h"),
    ],
)
def test_a_duration_has_at_most_two_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_one_thing_is_singular_and_none_is_plural() -> None:
    assert (count(0, "file"), count(1, "file")) == ("0 files", "1 file")


def test_a_part_is_shown_in_the_unit_of_its_whole() -> None:
    assert size_of(0, 134_217_728) == "0/128 MiB"


def test_large_counts_are_shortened() -> None:
    assert (short(999), short(999_950), short(5_000_000_000_000)) == ("999", "1.0M", "5000.0G")


def test_escape_sequences_and_line_breaks_in_a_name_are_written_out() -> None:
    assert visible("a\x1b[2Jb\r\n\u2028\u202e\udc80") == r"a\x1b[2Jb\x0d\x0a\u2028\u202e\udc80"


def test_names_in_any_language_stay_as_they_are() -> None:
    assert visible("größe/日付=2026/é.ndjson") == "größe/日付=2026/é.ndjson"
