"""Counts what it costs to find one's way in ``src/tidegate``: ``python scripts/house.py [--json] [--walk]``.

The report counts modules, lines, imports and repeated names. It also follows a run over one small NDJSON file in a
child process, from the loaded configuration until the commit is in the log, and counts the modules of which a function
runs: these are the files a reader opens. That needs no Spark. ``--walk`` follows the run as it is, with Spark and its
workers, for a file, a table of rows and a work unit.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from statistics import median
from types import CodeType, FrameType
from typing import Any

SOURCE = Path(__file__).resolve().parents[1] / "src" / "tidegate"
COMMIT = "_delta_log/00000000000000000000.json"


@dataclass(frozen=True)
class Module:
    """One file of the package: its dotted name, its length, and what it imports and defines."""

    name: str
    lines: int
    imports: frozenset[str]
    local_imports: int
    classes: tuple[str, ...]
    package: bool = False


@dataclass(frozen=True)
class Walk:
    """The modules that a run passes through, each at its first turn."""

    what: str
    modules: tuple[str, ...]

    @property
    def changes(self) -> int:
        """How often the next module is in another package than the one before."""
        homes = [name.rpartition(".")[0] for name in self.modules]
        return sum(one != other for one, other in pairwise(homes))


@dataclass(frozen=True)
class House:
    """Everything that is counted."""

    modules: int
    lines: int
    lines_per_module: tuple[int, int, int]
    local_imports: int
    cycles: tuple[tuple[str, ...], ...]
    module_names: Mapping[str, int]
    class_names: Mapping[str, int]
    walks: tuple[Walk, ...]

    def rows(self) -> Iterator[tuple[str, str]]:
        """The table: what, and how many."""
        yield "modules", f"{self.modules:,}"
        yield "lines", f"{self.lines:,}"
        yield "lines per module, median / p90 / max", " / ".join(map(str, self.lines_per_module))
        for walk in self.walks:
            yield f"files to follow {walk.what}", f"{len(walk.modules)}, {walk.changes} changes of package"
        yield "own imports inside functions", f"{self.local_imports:,}"
        yield "import cycles", str(len(self.cycles))
        yield "module names that occur more than once", _most(self.module_names)
        yield "class names that occur more than once", _most(self.class_names)

    def to_json(self) -> dict[str, Any]:
        """The same, with every name."""
        walks = {walk.what: {"modules": walk.modules, "changes": walk.changes} for walk in self.walks}
        return {**asdict(self), "walks": walks}


def _most(names: Mapping[str, int]) -> str:
    """How many, and which three occur most often."""
    often = sorted(names.items(), key=lambda item: (-item[1], item[0]))[:3]
    return f"{len(names)} ({', '.join(f'{name} {count}' for name, count in often)})" if names else "0"


def count(source: Path, walks: Iterable[Walk] = ()) -> House:
    """Count the package in this folder."""
    modules = read_modules(source)
    sizes = sorted(each.lines for each in modules)
    return House(
        modules=len(modules),
        lines=sum(sizes),
        lines_per_module=(round(median(sizes)), sizes[len(sizes) * 9 // 10], sizes[-1]),
        local_imports=sum(each.local_imports for each in modules),
        cycles=cycles({each.name: each.imports for each in modules}),
        module_names=_repeated(each.name.rpartition(".")[2] for each in modules if not each.package),
        class_names=_repeated(name for each in modules for name in each.classes),
        walks=tuple(walks),
    )


def _repeated(names: Iterable[str]) -> dict[str, int]:
    return {name: count for name, count in sorted(Counter(names).items()) if count > 1}


def read_modules(source: Path) -> list[Module]:
    """Every module of the package, in the order of names."""
    paths = {module_name(source, path): path for path in source.rglob("*.py")}
    return [_read(name, path, paths.keys()) for name, path in sorted(paths.items())]


def module_name(source: Path, path: Path) -> str:
    """``tidegate.parquet.writer`` for ``sink/writer.py``; a package goes by its own name."""
    parts = [source.name, *path.relative_to(source).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _read(name: str, path: Path, own: Iterable[str]) -> Module:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    found = [(node, _imported(node, own)) for node in ast.walk(tree)]
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    inside = {id(node) for function in functions for node in ast.walk(function)}
    return Module(
        name=name,
        lines=len(text.splitlines()),
        imports=frozenset(each for _, names in found for each in names) - {name},
        local_imports=sum(1 for node, names in found if names and id(node) in inside),
        classes=tuple(node.name for node in tree.body if isinstance(node, ast.ClassDef)),
        package=path.name == "__init__.py",
    )


def _imported(node: ast.AST, own: Iterable[str]) -> list[str]:
    """The own modules that an import statement names, wherever it stands: local and for types only, too."""
    match node:
        case ast.Import():
            return [alias.name for alias in node.names if alias.name in own]
        case ast.ImportFrom(module=str(module)):
            named = [f"{module}.{alias.name}" for alias in node.names]
            return [each if each in own else module for each in named if each in own or module in own]
        case _:
            return []


def cycles(graph: Mapping[str, Iterable[str]]) -> tuple[tuple[str, ...], ...]:
    """Groups of modules that import each other, directly or by way of others of the group; the largest first."""
    reach: dict[str, set[str]] = {}
    for start in graph:
        seen: set[str] = set()
        waiting = list(graph[start])
        while waiting:
            at = waiting.pop()
            if at not in seen:
                seen.add(at)
                waiting.extend(graph.get(at, ()))
        reach[start] = seen
    groups = {tuple(sorted(b for b in reach[a] if a in reach[b])) for a in graph if a in reach[a]}
    return tuple(sorted(groups, key=lambda group: (-len(group), group)))


# The walks: a run in a child process that notes which modules it passes through.

WITH_SPARK = """
import sys
import house
import tidegate
project = tidegate.load(sys.argv[1])
house.begin()
sys.exit(0 if tidegate.run(project).ok else 1)
"""
WITHOUT_SPARK = """
import sys
import house
import tidegate
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop
project = tidegate.load(sys.argv[1])
house.begin()
sys.exit(0 if Loop(project, InProcessEngine(), 1).once(project.pipelines).ok else 1)
"""
IN_WORKERS = """
import os
if "HOUSE_BEGUN" in os.environ:
    import house
    house.begin()
"""
_FUNCTION = inspect.CO_NEWLOCALS  # bodies of modules and classes lack it


def begin() -> None:
    """Note each own module of which a function runs, in this process and in those that it starts, until the commit.

    What runs while a module is imported does not count.
    """
    os.environ["HOUSE_BEGUN"] = "1"
    notes, source, until = (Path(os.environ[name]) for name in ("HOUSE_NOTES", "HOUSE_SOURCE", "HOUSE_UNTIL"))
    own, done, noted = f"{source}{os.sep}", set[CodeType](), set[str]()

    def look(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or code in done:
            return
        if not code.co_filename.startswith(own) or code.co_filename in noted:
            done.add(code)
        elif code.co_flags & _FUNCTION and not _importing(frame, own):
            noted.add(code.co_filename)
            if not until.exists():
                with notes.open("a") as file:
                    file.write(f"{code.co_filename}\n")

    threading.setprofile(look)
    sys.setprofile(look)


def _importing(frame: FrameType | None, own: str) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(own):
            return frame.f_globals.get("__name__") != "__main__"
        frame = frame.f_back
    return False


def follow(what: str, program: str, config: Path, source: Path, until: Path) -> Walk:
    """Run a Python program, which calls :func:`begin`, and see where it goes until the file ``until`` is there."""
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder, "notes")
        notes.touch()
        Path(folder, "sitecustomize.py").write_text(IN_WORKERS)
        path = [folder, str(Path(__file__).parent), str(source.parent), os.environ.get("PYTHONPATH", "")]
        places = {"HOUSE_NOTES": str(notes), "HOUSE_SOURCE": str(source), "HOUSE_UNTIL": str(until)}
        done = subprocess.run(
            [sys.executable, "-c", program, str(config)],
            env={**os.environ, **places, "PYTHONPATH": os.pathsep.join(filter(None, path))},
            capture_output=True,
            text=True,
        )
        if done.returncode or not until.exists():
            raise SystemExit(f"the run of {what} failed:\n{done.stdout}{done.stderr}")
        files = dict.fromkeys(notes.read_text().splitlines())
    return Walk(what, tuple(module_name(source, Path(file)) for file in files))


def follow_file(root: Path, *, spark: bool) -> Walk:
    """One NDJSON file, read into a new table."""
    (root / "data").mkdir(parents=True)
    (root / "data" / "a.ndjson").write_text('{"id": 1}\n{"id": 2}\n')
    source = {"source_uri": "data/", "use_watermark": True}
    return _follow("an NDJSON file", root, source, spark=spark)


def follow_rows(root: Path) -> Walk:
    """A table of rows that is followed by a column: a Parquet folder, which needs no database."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    (root / "data").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1, 2]}), root / "data" / "rows.parquet")
    return _follow("a table of rows", root, {"type": "parquet", "source_uri": "data", "watermark_columns": ["id"]})


def follow_unit(root: Path) -> Walk:
    """One work unit, fetched from an HTTP server."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    root.mkdir()
    (root / "a.json").write_text('{"data": [{"id": 1}]}')
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=root))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    bounds = {"name": "system", "type": "datetime", "range": {"from": "2020-01-01", "to": "2020-02-01"}}
    source = {
        "connection": "api",
        "path": "/{{unit}}.json",
        "records": "data",
        "watermark": [bounds, {"name": "unit", "type": "unit", "units": "a"}],
        "work_unit": {"partition": "monthly"},
    }
    connection = {"type": "http", "url": f"http://127.0.0.1:{server.server_port}"}
    try:
        return _follow("a work unit", root, source, {"api": connection})
    finally:
        server.shutdown()


def _follow(what: str, root: Path, source: object, connections: object = None, *, spark: bool = True) -> Walk:
    config = root / "pipelines.json"
    schema = {"fields": [{"name": "id", "type": "int64"}]}
    pipeline = {"source": source, "schema": schema, "sink": {"table_uri": "table"}}
    settings = {"pipelines": {"p": pipeline}, "connections": connections or {}, "spark": {"master": "local[1]"}}
    config.write_text(json.dumps(settings))
    return follow(what, WITH_SPARK if spark else WITHOUT_SPARK, config, SOURCE, root / "table" / COMMIT)


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="every name, as JSON")
    parser.add_argument("--walk", action="store_true", help="follow runs with Spark, over three kinds of source")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        walks = [follow_file(Path(folder, "file"), spark=chosen.walk)]
        if chosen.walk:
            walks += [follow_rows(Path(folder, "rows")), follow_unit(Path(folder, "unit"))]
    house = count(SOURCE, walks)
    if chosen.json:
        print(json.dumps(house.to_json(), indent=2))
        return
    for name, value in house.rows():
        print(f"{name:42}{value}")


if __name__ == "__main__":
    main()
