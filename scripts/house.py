"""Count what it costs to find one's way in ``src/tidegate``: ``python scripts/house.py [--json] [--walk]``.

The report counts modules, lines, comments, functions, ports, places that commit, imports and repeated names. It also
follows ``tidegate run`` over one small NDJSON file in a child process, from the prompt to the printed report, and
counts the modules of which a function runs: these are the files that a reader opens. That run uses ``--engine local``.
``--walk`` follows it on Spark and its workers instead, and also a merge of rows by JDBC and a work unit from an API.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import tokenize
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

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "tidegate"

COMMITTING = {"commit_together"}
"""Functions that move positions, besides ``positions.commit``; calls in their own module do not count."""
PORTS = ("Tracker", "FileTasks", "ColumnRows", "UnitRunner")
"""The ports that a new kind of watermark or a new engine implements."""
READS = {"JdbcRead", "TableRead", "HttpRead", "FunctionRead", "FileRead"}
"""What sources read; ``RecordsRead`` is how far a file is read."""


@dataclass(frozen=True)
class Port:
    """A protocol class: how many members it has, and how many of them an implementation must write."""

    members: int
    required: int


@dataclass(frozen=True)
class Module:
    """One file of the package, and what it imports, defines and does."""

    name: str
    lines: int
    imports: frozenset[str]
    local_imports: int
    classes: tuple[str, ...]
    comments: int
    functions: tuple[int, ...]
    commits: tuple[str, ...]
    reads: int
    ports: Mapping[str, Port]
    change_fields: int
    package: bool = False


@dataclass(frozen=True)
class Walk:
    """The modules that a run passes through, each at its first turn."""

    what: str
    modules: tuple[str, ...]

    @property
    def changes(self) -> int:
        """How often the next module is in another package than the one before."""
        packages = [name.rpartition(".")[0] for name in self.modules]
        return sum(one != other for one, other in pairwise(packages))


@dataclass(frozen=True)
class House:
    """Everything that is counted."""

    modules: int
    lines: int
    lines_per_module: tuple[int, int, int]
    lines_per_function: tuple[int, int, int]
    comments_per_1000_lines: float
    commits: tuple[str, ...]
    ports: Mapping[str, Port]
    change_fields: int
    modules_that_match_reads: int
    matches_of_reads: int
    local_imports: int
    cycles: tuple[tuple[str, ...], ...]
    module_names: Mapping[str, int]
    class_names: Mapping[str, int]
    walks: tuple[Walk, ...]
    walked_lines: Mapping[str, int]

    def rows(self) -> Iterator[tuple[str, str]]:
        """The table: what, and how many."""
        yield "modules / lines", f"{self.modules:,} / {self.lines:,}"
        yield "lines per module, median / p90 / max", " / ".join(map(str, self.lines_per_module))
        yield "lines per function, median / p90 / max", " / ".join(map(str, self.lines_per_function))
        yield "comments per 1,000 lines", f"{self.comments_per_1000_lines:.1f}"
        for walk in self.walks:
            size = f"{self.walked_lines[walk.what]:,} lines"
            yield f"files to follow {walk.what}", f"{len(walk.modules)} ({size}, {walk.changes} changes of package)"
        yield "places that commit a position", f"{len(self.commits)} ({', '.join(self.commits)})"
        for name, port in self.ports.items():
            yield f"members of {name}, required", f"{port.members}, {port.required}"
        yield "fields of Change", str(self.change_fields)
        yield (
            "modules that match on what is read",
            f"{self.modules_that_match_reads}, in {self.matches_of_reads} places",
        )
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
    modules, walks = read_modules(source), tuple(walks)
    lines = {module.name: module.lines for module in modules}
    total = sum(lines.values())
    matching = [module.reads for module in modules if module.reads]
    ports = {name: port for module in modules for name, port in module.ports.items() if name in PORTS}
    return House(
        modules=len(modules),
        lines=total,
        lines_per_module=_spread(lines.values()),
        lines_per_function=_spread(length for module in modules for length in module.functions),
        comments_per_1000_lines=1000 * sum(module.comments for module in modules) / max(total, 1),
        commits=tuple(place for module in modules for place in module.commits),
        ports={name: ports[name] for name in PORTS if name in ports},
        change_fields=sum(module.change_fields for module in modules),
        modules_that_match_reads=len(matching),
        matches_of_reads=sum(matching),
        local_imports=sum(module.local_imports for module in modules),
        cycles=cycles({module.name: module.imports for module in modules}),
        module_names=_repeated(module.name.rpartition(".")[2] for module in modules if not module.package),
        class_names=_repeated(name for module in modules for name in module.classes),
        walks=walks,
        walked_lines={walk.what: sum(lines[name] for name in walk.modules) for walk in walks},
    )


def _spread(sizes: Iterable[int]) -> tuple[int, int, int]:
    """Median, ninth decile and maximum."""
    ordered = sorted(sizes) or [0]
    return round(median(ordered)), ordered[len(ordered) * 9 // 10], ordered[-1]


def _repeated(names: Iterable[str]) -> dict[str, int]:
    return {name: count for name, count in sorted(Counter(names).items()) if count > 1}


def read_modules(source: Path) -> list[Module]:
    """Every module of the package, in the order of names."""
    paths = {module_name(source, path): path for path in source.rglob("*.py")}
    return [_read(name, path, paths.keys()) for name, path in sorted(paths.items())]


def module_name(source: Path, path: Path) -> str:
    """``tidegate.tasks.task`` for ``tasks/task.py``; a package goes by its own name."""
    parts = [source.name, *path.relative_to(source).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _read(name: str, path: Path, own: Iterable[str]) -> Module:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    imported = [(node, _imported(node, own)) for node in nodes]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    inside = {id(node) for function in functions for node in ast.walk(function)}
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    at_home = any(function.name in COMMITTING for function in functions)
    return Module(
        name=name,
        lines=len(text.splitlines()),
        imports=frozenset(module for _, names in imported for module in names) - {name},
        local_imports=sum(1 for node, names in imported if names and id(node) in inside),
        classes=tuple(node.name for node in tree.body if isinstance(node, ast.ClassDef)),
        comments=_comments(text),
        functions=tuple((node.end_lineno or node.lineno) - node.lineno + 1 for node in functions),
        commits=tuple(f"{name.partition('.')[2]}:{node.lineno}" for node in nodes if _commits(node) and not at_home),
        reads=sum(_matches_a_read(node) for node in nodes),
        ports={node.name: _port(node, classes) for node in classes if _is_protocol(node)},
        change_fields=sum(len(_fields(node)) for node in classes if node.name == "Change"),
        package=path.name == "__init__.py",
    )


def _comments(text: str) -> int:
    """Comments that speak to a reader, not to a tool."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    spoken = (token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT)
    return sum(not comment.startswith(("noqa", "type:", "ruff:", "pragma")) for comment in spoken)


def _commits(node: ast.AST) -> bool:
    """Whether a call moves a position: ``….positions.commit(…)``, or a function of the protocol that does."""
    match node:
        case ast.Call(func=ast.Attribute(attr="commit", value=ast.Attribute(attr="positions"))):
            return True
        case ast.Call(func=ast.Attribute(attr="commit", value=ast.Name(id="positions"))):
            return True
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return name in COMMITTING
        case _:
            return False


def _matches_a_read(node: ast.AST) -> bool:
    """Whether a ``case`` or an ``isinstance`` asks what a source reads, such as ``JdbcRead``."""
    match node:
        case ast.MatchClass(cls=kind):
            return ast.unparse(kind) in READS
        case ast.Call(func=ast.Name(id="isinstance"), args=[_, kinds]):
            return any(isinstance(part, ast.Name) and part.id in READS for part in ast.walk(kinds))
        case _:
            return False


def _is_protocol(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).partition("[")[0] == "Protocol" for base in node.bases)


def _port(node: ast.ClassDef, classes: Iterable[ast.ClassDef]) -> Port:
    """Its own members and those of the protocols in the same module that it extends."""
    bases = {ast.unparse(base).partition("[")[0] for base in node.bases}
    inherited = [_port(base, classes) for base in classes if base.name in bases]
    methods = [part for part in node.body if isinstance(part, ast.FunctionDef) and not part.name.startswith("_")]
    required = [part for part in methods if not _has_body(part)]
    attributes = _fields(node)
    without_value = sum(part.value is None for part in attributes)
    return Port(
        len(methods) + len(attributes) + sum(port.members for port in inherited),
        len(required) + without_value + sum(port.required for port in inherited),
    )


def _fields(node: ast.ClassDef) -> list[ast.AnnAssign]:
    return [part for part in node.body if isinstance(part, ast.AnnAssign)]


def _has_body(function: ast.FunctionDef) -> bool:
    """Whether there is more than a docstring and ``...``."""
    return any(not (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)) for part in function.body)


def _imported(node: ast.AST, own: Iterable[str]) -> list[str]:
    """The own modules that an import statement names, wherever it stands: local and for types only, too."""
    match node:
        case ast.Import():
            return [alias.name for alias in node.names if alias.name in own]
        case ast.ImportFrom(module=str(module)):
            named = [f"{module}.{alias.name}" for alias in node.names]
            return [full if full in own else module for full in named if full in own or module in own]
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


# The walks: ``tidegate run`` in a child process that notes which modules it passes through.

FROM_THE_PROMPT = """
import sys
import house
house.begin()
from tidegate.cli.main import main
sys.argv[0:1] = ["tidegate", "run"]
main()
"""
IN_WORKERS = """
import os
if "HOUSE_BEGUN" in os.environ:
    import house
    house.begin()
"""
_FUNCTION = inspect.CO_NEWLOCALS  # bodies of modules and classes lack it


def begin() -> None:
    """Note each own module of which a function runs, in this process and in those that it starts.

    What runs while a module is imported does not count.
    """
    os.environ["HOUSE_BEGUN"] = "1"
    notes, source = Path(os.environ["HOUSE_NOTES"]), Path(os.environ["HOUSE_SOURCE"])
    own, done, noted = f"{source}{os.sep}", set[CodeType](), set[str]()

    def look(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or code in done:
            return
        if not code.co_filename.startswith(own) or code.co_filename in noted:
            done.add(code)
        elif code.co_flags & _FUNCTION and not _importing(frame, own):
            noted.add(code.co_filename)
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


def follow(what: str, program: str, arguments: Iterable[str], source: Path) -> Walk:
    """Run a Python program, which calls :func:`begin`, and see where it goes until it ends."""
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder, "notes")
        notes.touch()
        Path(folder, "sitecustomize.py").write_text(IN_WORKERS)
        path = [folder, str(Path(__file__).parent), str(source.parent), os.environ.get("PYTHONPATH", "")]
        places = {"HOUSE_NOTES": str(notes), "HOUSE_SOURCE": str(source)}
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            env={**os.environ, **places, "PYTHONPATH": os.pathsep.join(filter(None, path))},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise SystemExit(f"the run of {what} failed:\n{done.stdout}{done.stderr}")
        files = dict.fromkeys(notes.read_text().splitlines())
    return Walk(what, tuple(module_name(source, Path(file)) for file in files))


def follow_file(root: Path, engine: str) -> Walk:
    """One NDJSON file, read into a new table."""
    (root / "data").mkdir(parents=True)
    (root / "data" / "a.ndjson").write_text('{"id": 1}\n{"id": 2}\n')
    return _follow("an NDJSON file", root, engine, {"source_uri": "data/", "use_watermark": True})


def follow_rows(root: Path) -> Walk:
    """A table of a real PostgreSQL server, merged by its key."""
    sys.path.insert(0, str(ROOT / "tests"))
    from servers import postgres

    root.mkdir()
    with postgres.running() as server, server.connect() as connection:
        connection.execute("create table events (id bigint primary key)")
        connection.execute("insert into events values (1), (2)")
        database = {"type": "jdbc", "url": server.jdbc_url(), "user": postgres.USER, "password": postgres.PASSWORD}
        source = {"connection": "shop", "table": "events", "watermark_columns": ["id"]}
        sink = {"load_type": "merge_upsert", "merge_keys": ["id"]}
        return _follow("a merge by JDBC", root, "spark", source, {"shop": database}, sink)


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
        "replace": "none",
        "watermark": [bounds, {"name": "unit", "type": "unit", "units": "a"}],
        "work_unit": {"partition": "monthly"},
    }
    connection = {"type": "http", "url": f"http://127.0.0.1:{server.server_port}"}
    try:
        return _follow("a work unit", root, "spark", source, {"api": connection})
    finally:
        server.shutdown()


def _follow(
    what: str,
    root: Path,
    engine: str,
    source: object,
    connections: object = None,
    sink: Mapping[str, object] | None = None,
) -> Walk:
    config = root / "pipelines.json"
    schema = {"fields": [{"name": "id", "type": "int64"}]}
    pipeline = {"source": source, "schema": schema, "sink": {"table_uri": "table", **(sink or {})}}
    settings = {"pipelines": {"p": pipeline}, "connections": connections or {}, "spark": {"master": "local[1]"}}
    config.write_text(json.dumps(settings))
    return follow(what, FROM_THE_PROMPT, [str(config), "--engine", engine], SOURCE)


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="every name, as JSON")
    parser.add_argument("--walk", action="store_true", help="follow runs on Spark, over three kinds of source")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        walks = [follow_file(Path(folder, "file"), "spark" if chosen.walk else "local")]
        if chosen.walk:
            walks += [follow_rows(Path(folder, "rows")), follow_unit(Path(folder, "unit"))]
            together = dict.fromkeys(name for walk in walks for name in walk.modules)
            walks.append(Walk("all three", tuple(together)))
    house = count(SOURCE, walks)
    if chosen.json:
        print(json.dumps(house.to_json(), indent=2))
        return
    for name, value in house.rows():
        print(f"{name:42}{value}")


if __name__ == "__main__":
    main()
