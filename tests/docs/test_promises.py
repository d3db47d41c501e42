"""Every promise is said in words and has a test that shows it, or says what is missing; and what it names exists."""

from __future__ import annotations

import ast
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from support.all_cases import for_all

ROOT = Path(__file__).parents[2]
PROMISES: dict[str, dict[str, Any]] = tomllib.loads((ROOT / "tests" / "promises.toml").read_text(encoding="utf-8"))
LAST = {"S0": 73, "S1": 37, "S2": 50, "S3": 56, "S4": 38}
EXPECTED = [f"{group}-{number:02d}" for group, last in LAST.items() for number in range(1, last + 1)]


@cache
def node_ids(path: Path) -> frozenset[str]:
    """The tests of a file by their node ids below it, read from its text."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.FunctionDef(name=name):
                found.add(name)
            case ast.ClassDef(name=name, body=body):
                found |= {f"{name}::{each.name}" for each in body if isinstance(each, ast.FunctionDef)}
            case ast.Assign(targets=[ast.Name(id=name)]) if name.startswith("Test"):
                found.add(name)
    return frozenset(each for each in found if each.rpartition("::")[2].lower().startswith("test"))


@for_all(EXPECTED)
def test_a_promise_is_shown_or_says_what_is_missing(promise: str) -> None:
    entry = PROMISES[promise]
    assert entry["promise"].endswith(".")
    assert any(shown.partition("::")[2] for shown in entry.get("shows", [])) or entry.get("not_yet")
    for shown in entry.get("shows", []):
        path, _, test = shown.partition("::")
        assert (ROOT / path).is_file(), f"{promise} names {path}, which does not exist"
        if path.endswith(".py"):
            assert test in node_ids(ROOT / path), f"{promise} names {shown}, which does not exist"
        else:
            assert path.startswith("docs/")


def test_there_is_no_entry_without_a_promise() -> None:
    assert set(PROMISES) == set(EXPECTED)


def test_entries_have_no_other_keys() -> None:
    assert {key for entry in PROMISES.values() for key in entry} <= {"promise", "shows", "not_yet"}


def test_no_entry_names_the_same_thing_twice() -> None:
    for entry in PROMISES.values():
        shows = entry.get("shows", [])
        assert len(set(shows)) == len(shows)
