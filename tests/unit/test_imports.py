"""Imports point one way: the folders tell the truth about who knows whom."""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path

import pytest

from support.syntax import SRC, statements, trees

LAYERS = (
    {"errors", "failpoints", "signals"},
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
    {"parquet"},
    {"tasks"},
    {"spark"},
    {"runs"},
    {"migrate"},
    {"experiments"},
    {"commands"},
    {"compat"},
    {"cli", "__init__", "__main__"},
)
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
PURE = {"core"}
STDLIB_ONLY_BELOW = {"errors", "signals", "specs", *PURE}
ONLY_IN = {
    "pyspark": {"spark", "compat"},
    "obstore": {"storage"},
    "deltalake": {"protocol"},
    "click": {"cli"},
    "prometheus_client": {"observe/metrics_export.py"},
    "sqlalchemy": {"protocol/sqlalchemy_provider.py"},
    "httpx2": {"sources"},
    "psycopg": {"sources/psycopg_driver.py"},
    "adbc_driver_manager": {"sources/adbc.py"},
    "adbc_driver_postgresql": {"sources/adbc.py"},
    "pymysql": {"sources/pymysql_driver.py"},
    "pyiceberg": {"sources/iceberg.py"},
}

DEFERRING = {
    "cli.project",
    "cli.invocation",
    "cli.machine",
    "commands.block_tables",
    "commands.commit",
    "commands.run",
    "commands.project",
    "commands.serve",
    "protocol.store",
    "protocol.table_checks",
    "runs.columns",
    "runs.files",
    "runs.in_process",
    "runs.source_checks",
    "runs.units",
    "sources.idle",
    "sources.units.inputs",
    "spark.readers.tables",
    "storage.stores",
}
"""Modules that import others inside functions, so that look-only commands start without their libraries."""
COULD_MOVE_UP: dict[str, set[str]] = {
    "cli.invocation": {"observe.logs", "observe.progress"},
    "commands.project": {"runs.bind", "spark.jars", "spark.session"},
    "runs.bind": {"runs.columns", "runs.units"},
}
"""Imports inside functions that load no other library: they could stand at the top. The list only becomes shorter."""


def imported(path: Path, tree: ast.Module) -> list[str]:
    """The modules that one imports, those of ``from tidegate import x`` as ``tidegate.x``."""
    names: list[str] = []
    for node, _ in statements(tree):
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
    found = {path.relative_to(SRC): imported(path, tree) for path, tree in trees().items()}
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


def test_the_protocol_knows_no_kind_of_source(modules: dict[Path, list[str]]) -> None:
    kinds = tuple(
        f"tidegate.{package}.{kind}" for package in ("core", "specs") for kind in ("files", "columns", "units")
    )
    protocol = {path: names for path, names in modules.items() if top(path) == "protocol"}
    known = [f"{path} imports {name}" for path, names in protocol.items() for name in names if name.startswith(kinds)]
    assert known == []


def test_each_heavy_library_has_one_home(modules: dict[Path, list[str]]) -> None:
    heavy = [(path, name) for path, names in modules.items() for name in names if name.split(".")[0] in ONLY_IN]
    elsewhere = [
        f"{path} imports {name}" for path, name in heavy if not {top(path), str(path)} & ONLY_IN[name.split(".")[0]]
    ]
    assert elsewhere == []


def test_an_own_module_is_imported_inside_a_function_only_where_that_saves_a_library() -> None:
    """At the top it would load a library that its module does not load."""
    graph = Graph()
    saving: set[str] = set()
    needless: list[str] = []
    for module, imports in graph.inside.items():
        for name, line in imports:
            if graph.libraries(name) - graph.libraries(module):
                saving.add(_short(module))
            elif _short(name) not in COULD_MOVE_UP.get(_short(module), ()):
                needless.append(f"{module}:{line} imports {name}")
    assert needless == []
    assert saving <= DEFERRING


def test_the_local_engine_loads_no_spark() -> None:
    graph = Graph()
    for module in ("core.engines", "runs.engine", "runs.in_process", "runs.loop", "commands.run", "commands.ingest"):
        assert not {"pyspark", "py4j"} & graph.libraries(f"tidegate.{module}"), module


def _short(module: str) -> str:
    return module.removeprefix("tidegate.")


class Graph:
    """Which modules each module imports: when it is loaded, and later inside its functions."""

    def __init__(self) -> None:
        self.paths = {_module(path) for path in trees()}
        self.loaded: dict[str, set[str]] = {name: set() for name in self.paths}
        self.inside: dict[str, list[tuple[str, int]]] = {name: [] for name in self.paths}
        for path, tree in trees().items():
            self._read(_module(path), tree)

    @cache  # noqa: B019  # one graph per test
    def libraries(self, module: str) -> set[str]:
        """The third-party libraries that are loaded with a module, by whatever it loads."""
        seen: set[str] = set()
        found: set[str] = set()
        ahead = [module]
        while ahead:
            name = ahead.pop()
            if name in seen:
                continue
            seen.add(name)
            package = name.rpartition(".")[0]
            for each in {*self.loaded[name], *({package} - {"", "tidegate"})}:
                if each in self.paths:
                    ahead.append(each)
                elif (root := each.split(".")[0]) not in {*sys.stdlib_module_names, "tidegate"}:
                    found.add(root)
        return found

    def _read(self, module: str, tree: ast.Module) -> None:
        for node, within in statements(tree, types=False):
            for name in self._names(node) if isinstance(node, ast.Import | ast.ImportFrom) else ():
                if not within:
                    self.loaded[module].add(name)
                elif name in self.paths:
                    self.inside[module].append((name, node.lineno))

    def _names(self, node: ast.Import | ast.ImportFrom) -> list[str]:
        if isinstance(node, ast.Import):
            return [alias.name for alias in node.names]
        inner = [f"{node.module}.{alias.name}" for alias in node.names]
        return [name if name in self.paths else str(node.module) for name in inner]


def _module(path: Path) -> str:
    parts = ("tidegate", *path.relative_to(SRC).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
