"""Tests stand alone: what several of them need lies in modules that are no tests."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_nothing_is_imported_from_a_test_module() -> None:
    """Else a test changes with another one, and pytest loads the other twice, under two names."""
    wrong = [
        f"{path.relative_to(TESTS)}: {name}"
        for path in TESTS.rglob("*.py")
        for name in imported(path)
        if any(part == "conftest" or part.startswith("test_") for part in name.split("."))
        and (TESTS / name.split(".")[0]).is_dir()
    ]
    assert not wrong


def test_errors_are_matched_by_their_facts_and_not_by_a_sentence() -> None:
    """``support.errors.raises`` looks for names and values, so that a message can be worded better."""
    wrong = [
        f"{path.relative_to(TESTS)}:{node.lineno}"
        for path in TESTS.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.raises"
        if any(keyword.arg == "match" for keyword in node.keywords) and ast.unparse(node.args[0]) not in FOREIGN
    ]
    assert not wrong


FOREIGN = ("AttributeError", "Exception", "SystemExit")
"""Errors of Python and of libraries, whose words are not ours."""
