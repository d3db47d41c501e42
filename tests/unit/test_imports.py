"""Imports point one way: the folders tell the truth about who knows whom."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src" / "tidegate"
LAYERS = (
    {"errors", "failpoints", "masking", "locations", "http_origins", "jdbc_addresses", "csv_options", "column_specs"}
    | {"unit_specs", "specs", "table_properties"},
    {"watermarks"},
    {"planning"},
    {
        "reports",
        "staging_reports",
        "ledger_reports",
        "corrections",
        "comparisons",
        "chaos_report",
        "schema_reports",
        "column_reports",
        "replay_reports",
        "import_reports",
        "unit_reports",
    },
    {"observe"},
    {"schema"},
    {"storage"},
    {"config"},
    {"state"},
    {"sources"},
    {"sink"},
    {"spark"},
    {"runs"},
    {"web"},
    {"migrate"},
    {"wiring"},
    {"api"},
    {"dataflows"},
    {"cli", "__init__", "__main__"},
)
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
PURE = {"watermarks", "planning"}
STDLIB_ONLY_BELOW = {
    "errors",
    "masking",
    "locations",
    "http_origins",
    "jdbc_addresses",
    "csv_options",
    "column_specs",
    "unit_specs",
    "specs",
    *PURE,
}
ONLY_IN = {
    "pyspark": {"spark"},
    "pydantic": {"config"},
    "obstore": {"storage"},
    "deltalake": {"state"},
    "click": {"cli"},
    "prometheus_client": {"web"},
    "sqlalchemy": {"state/providers/sql.py"},
    "httpx": {"sources"},
    "pyiceberg": {"sources/iceberg.py"},
}


def modules() -> list[Path]:
    return sorted(SRC.rglob("*.py"))


def top(path: Path) -> str:
    return path.relative_to(SRC).parts[0].removesuffix(".py")


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            module = node.module or ""
            yield from ([f"tidegate.{alias.name}" for alias in node.names] if module == "tidegate" else [module])


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SRC)))
def test_a_module_imports_only_from_its_own_layer_or_below(path: Path) -> None:
    for name in imported(path):
        if name.startswith("tidegate."):
            target = name.split(".")[1]
            assert RANK[target] <= RANK[top(path)], f"{top(path)} must not import {name}"


@pytest.mark.parametrize("path", [path for path in modules() if top(path) in PURE], ids=lambda path: path.name)
def test_the_core_imports_only_the_standard_library(path: Path) -> None:
    import sys

    for name in imported(path):
        root = name.split(".")[0]
        allowed = name.split(".")[1] in STDLIB_ONLY_BELOW if root == "tidegate" else root in sys.stdlib_module_names
        assert allowed, f"{path.relative_to(SRC)} imports {name}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SRC)))
def test_each_heavy_library_has_one_home(path: Path) -> None:
    for name in imported(path):
        homes = ONLY_IN.get(name.split(".")[0])
        inside = path.relative_to(SRC)
        assert homes is None or {top(path), str(inside)} & homes, f"{inside} imports {name}"
