"""The wheel in an empty environment outside the repository: set-up, demo, an own pipeline, extras, no Java.

`make test-dist` builds it first. The folders of the user are empty; only what pip has downloaded before is used again.
``TIDEGATE_DIST_PYTHON`` names another interpreter to install it for.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from support.extras import EXTRAS

DIST = os.environ.get("TIDEGATE_DIST")
pytestmark = [
    pytest.mark.skipif(DIST is None, reason="make test-dist"),
    pytest.mark.timeout(1800),
    pytest.mark.spark,
]

WITHOUT_JAVA = """
import sys
from tidegate.spark import jars
jars._FOLDERS = ()
from tidegate.cli.main import cli
cli.main(sys.argv[1:], prog_name="tidegate")
"""
OWN = """\
source: {source_uri: orders/, format: csv}
schema: {infer: true}
sink: {table_uri: lake/orders}
"""


def only(pattern: str) -> Path:
    (found,) = Path(DIST or ".").glob(pattern)
    return found


class Environment:
    """A virtual environment, and a user whose folders are empty."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.python = root / "env" / "bin" / "python"
        base = os.environ.get("TIDEGATE_DIST_PYTHON") or sys._base_executable  # type: ignore[attr-defined]
        self.run(base, "-m", "venv", str(root / "env"))

    def install(self, *what: str) -> None:
        self.run(str(self.python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *what)

    def run(self, *command: str, code: int = 0, env: Mapping[str, str] | None = None) -> str:
        """What a program says on both streams; it must end with ``code``."""
        kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "LANG"))}
        given = {
            **kept,
            "HOME": str(self.root / "user"),
            "PIP_CACHE_DIR": str(Path.home() / ".cache" / "pip"),
            "TIDEGATE_HOME": str(self.root / "cache"),
            "PATH": f"{self.root / 'env' / 'bin'}:/usr/bin:/bin",
            **(env or {}),
        }
        (self.root / "work").mkdir(parents=True, exist_ok=True)
        (self.root / "user").mkdir(exist_ok=True)
        done = subprocess.run(command, cwd=self.root / "work", env=given, capture_output=True, text=True, check=False)
        assert done.returncode == code, f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    found = Environment(tmp_path_factory.mktemp("installed"))
    found.install(str(only("tidegate-*.whl")))
    return found


def test_the_wheel_and_the_source_distribution_hold_what_they_need() -> None:
    names = zipfile.ZipFile(only("tidegate-*.whl")).namelist()
    assert {"tidegate/py.typed", "tidegate/spark/jars.sha256", "tidegate/spark/ConditionalLogStore.java"} <= {*names}
    assert [name for name in names if not name.startswith(("tidegate/", "tidegate-"))] == []
    with tarfile.open(only("*.tar.gz")) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert {"README.md", "LICENSE", "pyproject.toml", "src/tidegate/py.typed"} <= inside


def test_a_stranger_sets_up_and_sees_the_demo(installed: Environment) -> None:
    assert "no problems found" in installed.run("tidegate", "setup", "--yes")
    assert "every record exactly once" in installed.run("tidegate", "demo")


def test_a_pipeline_of_their_own_runs_and_has_a_status(installed: Environment) -> None:
    work = installed.root / "work"
    (work / "orders").mkdir()
    (work / "orders" / "1.csv").write_text("id,name\n1,one\n2,two\n")
    (work / "own.yml").write_text(OWN)
    assert "2 rows" in installed.run("tidegate", "run", "own.yml")
    found = json.loads(installed.run("tidegate", "status", "own.yml", "--json", "-q"))
    assert (found["sources"][0]["version"], found["sources"][0]["backlog_files"]) == (1, 0)


def test_a_folder_is_ingested_a_bad_line_mended_and_one_new_file_read(installed: Environment) -> None:
    work = installed.root / "work"
    (work / "landing").mkdir()
    (work / "landing" / "monday.csv").write_text("id,price\n1,1.20\n2,8.00\n")
    assert "2 rows" in installed.run("tidegate", "ingest", "landing", "lake/landing", "--save", "landing.yml")
    (work / "landing" / "tuesday.csv").write_text("id,price\n3,4.50\n4,n/a\n")
    assert "1 bad record became a dead letter (tidegate dlq list landing.yml" in installed.run(
        "tidegate", "run", "landing.yml"
    )
    assert "tuesday.csv" in installed.run("tidegate", "dlq", "list", "landing.yml")
    config = (work / "landing.yml").read_text()
    (work / "landing.yml").write_text(config.replace("format: csv", "format: csv\n      csv: {null_values: [n/a]}"))
    assert "1 of 1 letter read again, 1 row committed" in installed.run("tidegate", "dlq", "retry", "landing.yml")
    (work / "landing" / "wednesday.csv").write_text("id,price\n5,2.00\n")
    told = json.loads(installed.run("tidegate", "run", "landing.yml", "--json", "-q"))
    assert [(each["files"], each["rows"]) for each in told["sources"]] == [(1, 1)]


def test_without_java_one_sentence_helps(installed: Environment, tmp_path: Path) -> None:
    no_java = {"PATH": str(tmp_path)}
    told = installed.run(str(installed.python), "-c", WITHOUT_JAVA, "demo", "elsewhere", code=3, env=no_java)
    assert told.splitlines() == [
        "error: no Java 17 or 21 in JAVA_HOME, PATH or the usual folders",
        "remedy: run `tidegate setup`, which finds or installs one, or set JAVA_HOME to a Java 17 or 21; "
        "`--engine local` appends rows without Java",
    ]


@pytest.mark.parametrize("extra", EXTRAS)
def test_each_extra_alone_gives_what_it_is_named_for(installed: Environment, extra: str, tmp_path: Path) -> None:
    alone = Environment(tmp_path)
    (shared,) = (installed.root / "env" / "lib").glob("python*/site-packages")
    (own,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    (own / "shared.pth").write_text(f"{shared}\n")
    alone.install(f"tidegate[{extra}] @ {only('tidegate-*.whl').as_uri()}")
    alone.run(str(alone.python), "-c", EXTRAS[extra])
