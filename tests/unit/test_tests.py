"""Tests stand alone and bind no sentence: what several of them need lies in modules that are no tests."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
FOLDERS = "|".join(path.name for path in TESTS.iterdir() if path.is_dir())
FROM_A_TEST = re.compile(rf"^\s*(?:from|import) (?:{FOLDERS})[\w.]*(?:\.| import )(?:test_|conftest).*", re.MULTILINE)
BY_SENTENCE = re.compile(r"pytest\.raises\(\s*(?!AttributeError|Exception|SystemExit)\w+,\s*match=.*")
"""Not the errors of Python and of libraries, whose words are not ours."""


def occurrences(pattern: re.Pattern[str]) -> list[str]:
    modules = ((path.relative_to(TESTS), path.read_text(encoding="utf-8")) for path in TESTS.rglob("*.py"))
    return [f"{name}: {found.group().strip()}" for name, text in modules for found in pattern.finditer(text)]


def test_nothing_is_imported_from_a_test_module() -> None:
    """Else a test changes with another one, and pytest loads the other twice, under two names."""
    assert not occurrences(FROM_A_TEST)


def test_errors_are_matched_by_their_facts_and_not_by_a_sentence() -> None:
    """``support.errors.raises`` looks for names and values, so that a message can be worded better."""
    assert not occurrences(BY_SENTENCE)
