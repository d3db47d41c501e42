"""Names are words of the trade, or stand in the glossary; and one name means one module."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

from support.syntax import SRC, trees

ROOT = Path(__file__).parents[2]
KINDS = {"files", "columns", "units"}
"""Folders of the core: each has a module for the same part, such as its state or its planner."""


def words(name: str) -> list[str]:
    """The words of a name: ``RetriedHTTPRead`` has ``retried``, ``http`` and ``read``."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def explained(glossary: str) -> set[str]:
    """The words of all terms in bold, and their plurals."""
    terms = {word for term in re.findall(r"\*\*([^*]+)\*\*", glossary) for word in words(term)}
    return terms | {f"{term}s" for term in terms}


@cache
def classes() -> dict[Path, list[str]]:
    """The names of the classes of each module."""
    return {
        path: [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)] for path, tree in trees().items()
    }


def names() -> dict[str, str]:
    """Every name of a module or class, with where it is."""
    found: dict[str, str] = {}
    for path, own in classes().items():
        for name in (path.stem, *own):
            found.setdefault(name, str(path.relative_to(SRC)))
    return found


def test_a_word_of_our_own_stands_in_the_glossary() -> None:
    known = set((Path(__file__).parent / "trade_words.txt").read_text().split())
    known |= explained((ROOT / "docs" / "glossary.md").read_text())
    unknown = {word: f"{name} in {where}" for name, where in names().items() for word in words(name)}
    assert {word: where for word, where in unknown.items() if word not in known} == {}


def test_a_trade_word_that_no_name_has_is_not_listed() -> None:
    used = {word for name in names() for word in words(name)}
    assert sorted(set((Path(__file__).parent / "trade_words.txt").read_text().split()) - used) == []


def test_one_name_is_one_module_of_a_layer() -> None:
    modules = [path.relative_to(SRC) for path in SRC.rglob("*.py") if not path.stem.startswith("__")]
    own = [each for each in modules if not (len(each.parts) > 2 and each.parts[1] in KINDS and each.parts[0] == "core")]
    counted = Counter((each.parts[0], each.stem) for each in own)
    assert {"/".join(each): times for each, times in counted.items() if times > 1} == {}
    kinds = Counter((each.parts[1], each.stem) for each in modules if each not in own)
    assert max(kinds.values()) == 1


def test_no_class_name_occurs_twice() -> None:
    found = Counter(name for own in classes().values() for name in own)
    assert [name for name, times in found.items() if times > 1] == []


NOT_VERBS = frozenset(
    [
        "told",
        "found",
        "known",
        "made",
        "seen",
        "said",
        "taken",
        "given",
        "done",
        "left",
        "kept",
        "held",
        "sent",
        "written",
        "gone",
        "whole",
        "plain",
        "text",
        "takes",
        "own",
        "alone",
        "apart",
        "there",
        "here",
        "again",
        "together",
        "once",
        "beside",
        "behind",
        "below",
        "above",
        "within",
        "inside",
        "elsewhere",
    ]
)
"""First words of function names that say nothing about what the function does."""

VERBS_IN_ED = frozenset(["need", "feed", "seed", "embed", "exceed", "proceed"])
MOST_EXCEPTIONS = 55
"""Functions that still have such names, in ``function_words.txt``; lower it with the list, never raise it."""


def is_verb(name: str) -> bool:
    """False for participles and bare adjectives, such as ``told``, ``settled`` or ``whole``."""
    first, *rest = [word for word in name.split("_") if word] or [""]
    if first in NOT_VERBS or (not rest and first.endswith("ing") and first not in ("bring", "ping", "sing", "string")):
        return False
    return not first.endswith("ed") or first in VERBS_IN_ED


def functions() -> dict[str, str]:
    """Every name of a function or method that is not a property, with where it is."""
    places: dict[str, str] = {}
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("__"):
                decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
                if not decorators & {"property", "cached_property"}:
                    places.setdefault(node.name, str(path.relative_to(SRC)))
    return places


def exceptions() -> list[str]:
    return (Path(__file__).parent / "function_words.txt").read_text().split()


def test_functions_are_named_by_verbs() -> None:
    allowed = set(exceptions())
    assert {name: where for name, where in functions().items() if not is_verb(name) and name not in allowed} == {}


def test_the_exceptions_only_get_fewer() -> None:
    assert len(exceptions()) <= MOST_EXCEPTIONS
    assert [name for name in exceptions() if is_verb(name)] == []


def test_the_glossary_has_at_most_forty_words() -> None:
    rows = [line for line in (ROOT / "docs" / "glossary.md").read_text().splitlines() if line.startswith("| **")]
    assert len(rows) <= 40
