"""Imports point one way: the folders tell the truth about who knows whom."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src" / "tidegate"
LAYERS = (
    {"errors", "failpoints"},
    {"specs"},
    {"core"},
    {"reports"},
    {"observe"},
    {"schema"},
    {"storage"},
    {"config"},
    {"protocol"},
    {"formats"},
    {"sources"},
    {"sink"},
    {"spark"},
    {"runs"},
    {"web"},
    {"migrate"},
    {"experiments"},
    {"commands"},
    {"compat"},
    {"cli", "__init__", "__main__"},
)
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
PURE = {"core"}
STDLIB_ONLY_BELOW = {"errors", "specs", *PURE}
ONLY_IN = {
    "pyspark": {"spark", "compat"},
    "pydantic": {"config"},
    "obstore": {"storage"},
    "deltalake": {"protocol"},
    "click": {"cli"},
    "prometheus_client": {"web"},
    "sqlalchemy": {"protocol/sql_provider.py"},
    "httpx": {"sources"},
    "pyiceberg": {"sources/iceberg.py"},
}


def imported(path: Path) -> list[str]:
    """The modules that one imports, those of ``from tidegate import x`` as ``tidegate.x``."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            module = node.module or ""
            names += [f"tidegate.{alias.name}" for alias in node.names] if module == "tidegate" else [module]
    return names


@pytest.fixture(scope="module")
def modules() -> dict[Path, list[str]]:
    """Every module of the package, by its path in there, with what it imports."""
    found = {path.relative_to(SRC): imported(path) for path in sorted(SRC.rglob("*.py"))}
    assert Path("__init__.py") in found
    return found


def top(path: Path) -> str:
    return path.parts[0].removesuffix(".py")


def test_a_module_imports_only_from_its_own_layer_or_below(modules: dict[Path, list[str]]) -> None:
    own = [(path, name) for path, names in modules.items() for name in names if name.startswith("tidegate.")]
    upwards = [f"{path} imports {name}" for path, name in own if RANK[name.split(".")[1]] > RANK[top(path)]]
    assert upwards == []


def test_the_core_imports_only_the_standard_library(modules: dict[Path, list[str]]) -> None:
    def allowed(name: str) -> bool:
        root, *below = name.split(".")
        return below[0] in STDLIB_ONLY_BELOW if root == "tidegate" else root in sys.stdlib_module_names

    pure = {path: names for path, names in modules.items() if top(path) in PURE}
    assert {top(path) for path in pure} == PURE
    assert [f"{path} imports {name}" for path, names in pure.items() for name in names if not allowed(name)] == []


def test_each_heavy_library_has_one_home(modules: dict[Path, list[str]]) -> None:
    heavy = [(path, name) for path, names in modules.items() for name in names if name.split(".")[0] in ONLY_IN]
    elsewhere = [
        f"{path} imports {name}" for path, name in heavy if not {top(path), str(path)} & ONLY_IN[name.split(".")[0]]
    ]
    assert elsewhere == []
