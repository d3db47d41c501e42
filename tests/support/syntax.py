"""The modules of the package as syntax trees, each parsed once per test run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SRC = Path(__file__).parents[2] / "src" / "tidegate"


@cache
def trees() -> dict[Path, ast.Module]:
    """Every module, by its path."""
    return {path: ast.parse(path.read_text()) for path in sorted(SRC.rglob("*.py"))}


def statements(tree: ast.AST, *, types: bool = True, within: bool = False) -> Iterator[tuple[ast.stmt, bool]]:
    """Every statement of a module, and whether it stands inside a function; without ``types``, none for types only."""
    for node in ast.iter_child_nodes(tree):
        if not types and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.stmt):
            yield node, within
        if isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from statements(node, types=types, within=within or is_function)
