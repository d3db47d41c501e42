"""The modules of the package as syntax trees, each parsed once per test run."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

SRC = Path(__file__).parents[2] / "src" / "tidegate"


@cache
def trees() -> dict[Path, ast.Module]:
    """Every module, by its path."""
    return {path: ast.parse(path.read_text()) for path in sorted(SRC.rglob("*.py"))}
