"""The report on the house counts correctly, on a small tree made for it."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "house.py"
FILES = {
    "__init__.py": "",
    "__main__.py": "from tiny.kitchen.stove import heat\n",
    "attic.py": "def look():\n    import json\n    from tiny.kitchen import cupboard, stove\n    return cupboard\n",
    "kitchen/__init__.py": "from tiny.kitchen.stove import heat\n",
    "kitchen/stove.py": """
        from typing import TYPE_CHECKING

        if TYPE_CHECKING:
            from tiny.cellar.stove import Pipe

        class Pot: ...

        def heat(pipe):
            from tiny.kitchen.cupboard import take
            return [take(), pipe.warm()]
        """,
    "kitchen/cupboard.py": """
        class Pot: ...

        def take():
            return Pot()
        """,
    "cellar/__init__.py": "",
    "cellar/stove.py": """
        import tiny.kitchen.stove
        from tiny.cellar.tank import size

        class Pipe:
            def warm(self):
                return SIZE

        SIZE = size()
        """,
    "cellar/tank.py": "def size():\n    return 3\n",
}
WALK = """
import house
from tiny.attic import look
from tiny.cellar.stove import Pipe
from tiny.cellar.tank import size
from tiny.kitchen.stove import heat
look()
house.begin()
heat(Pipe())
"""


@pytest.fixture(scope="module")
def house() -> ModuleType:
    spec = importlib.util.spec_from_file_location("house", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["house"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "tiny" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(line.removeprefix("        ") for line in text.split("\n")))
    return tmp_path / "tiny"


def test_modules_lines_imports_and_names_are_counted(house: ModuleType, tree: Path) -> None:
    found = house.count(tree)
    sizes = sorted(len(path.read_text().splitlines()) for path in tree.rglob("*.py"))
    assert (found.modules, found.lines) == (9, sum(sizes))
    assert found.lines_per_module == (sizes[4], sizes[8], sizes[8])
    assert found.local_imports == 2, "the standard library does not count, nor does an import for types only"
    assert found.module_names == {"stove": 2}
    assert found.class_names == {"Pot": 2}


def test_a_cycle_by_an_import_for_types_only_is_a_cycle(house: ModuleType, tree: Path) -> None:
    assert house.count(tree).cycles == (("tiny.cellar.stove", "tiny.kitchen.stove"),)
    (tree / "kitchen" / "cupboard.py").write_text("def take():\n    from tiny.cellar import stove\n")
    assert house.count(tree).cycles == (("tiny.cellar.stove", "tiny.kitchen.cupboard", "tiny.kitchen.stove"),)


def test_a_walk_has_the_modules_whose_functions_run_in_order(house: ModuleType, tree: Path) -> None:
    """Not what ran before it began, or while a module was imported."""
    walk = house.follow("all", WALK, (), tree)
    assert walk.modules == ("tiny.kitchen.stove", "tiny.kitchen.cupboard", "tiny.cellar.stove")
    assert walk.changes == 1


def test_a_walk_that_fails_says_what_it_said(house: ModuleType, tree: Path) -> None:
    with pytest.raises(SystemExit, match="no such pipe"):
        house.follow("all", "raise ValueError('no such pipe')", (), tree)


CELLAR = """
    from typing import Protocol

    # Why the pump comes before the tank.
    class Pump(Protocol):
        pressure: int

        def start(self) -> None:
            "Begin."

    class Tracker(Pump, Protocol):
        name: str = "pump"

        def walk(self) -> None: ...

        def stop(self) -> str:  # noqa: RUF100
            return self.name

    class Change:
        state: int
        rows: int = 0

    def commit_all(source, positions, read):
        commit_together([source])
        positions.commit(1)
        source.positions.commit(2)
        source.commit(3)
        match read:
            case JdbcRead():
                return isinstance(read, HttpRead | FileRead)
    """


def test_comments_ports_commits_and_matches_are_counted(house: ModuleType, tree: Path) -> None:
    path = tree / "cellar" / "pump.py"
    path.write_text("\n".join(line.removeprefix("    ") for line in CELLAR.split("\n")))
    counted = house.count(tree)
    assert round(counted.comments_per_1000_lines * counted.lines / 1000) == 1, "not those for tools"
    assert [place.partition(":")[0] for place in counted.commits] == ["cellar.pump"] * 3
    assert counted.ports == {"Tracker": house.Port(members=5, required=3)}
    assert counted.change_fields == 2
    assert (counted.modules_that_match_reads, counted.matches_of_reads) == (1, 2)


def test_a_module_that_defines_how_to_commit_is_no_place_that_commits(house: ModuleType, tree: Path) -> None:
    (tree / "attic.py").write_text("def commit_together(all):\n    return all\n\ncommit_together([1])\n")
    assert house.count(tree).commits == ()


@pytest.mark.slow
def test_the_report_of_this_tree_follows_a_file_from_the_prompt_to_the_report() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "--json"], capture_output=True, text=True, check=True)
    report = json.loads(done.stdout)
    walked = report["walks"]["an NDJSON file"]["modules"]
    assert {"tidegate.cli.main", "tidegate.config", "tidegate.protocol.commit"} <= set(walked)
    assert report["modules"] >= len(walked) > 20


def test_every_folder_of_tests_is_part_of_a_job() -> None:
    jobs = (ROOT / "scripts" / "test.sh").read_text()
    folders = {path.relative_to(ROOT / "tests").parts[0] for path in (ROOT / "tests").rglob("test_*.py")}
    assert {each for each in folders if f"tests/{each}" not in jobs} == {"integrations", "package"}
