"""Tests every supported Spark in an environment of its own: ``python scripts/test_versions.py [VERSION …]``.

Per version: the newest patch release of PySpark, everything else as pinned in ``constraints.txt``, in
``build/versions/VERSION``. $PYTHON is the interpreter, by default the one that runs this. The table at the end is also
in ``build/versions/result.md``. Exit code 1 if anything failed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSIONS = ("4.0", "4.1", "4.2")
APART = ("pyspark", "delta-spark", "tidegate", "tidegate-native")
"""Installed apart from the others: delta-spark caps pyspark below the newest patch release, ours are built here."""

_KILLS = ("tests/spark/test_column_kills.py", "tests/spark/test_process_faults.py", "tests/spark/test_spark_faults.py")
_OWN_JAVA = ("sessions", "worker_pythons", "ended_workers", "submit")
_SESSIONS = tuple(f"tests/spark/test_{each}.py" for each in _OWN_JAVA)
_S3 = ("tests/spark/test_frames_s3.py",)
SUITES: dict[str, tuple[str, ...]] = {
    "Spark": ("tests/spark", *(f"--ignore={each}" for each in (*_KILLS, *_SESSIONS, *_S3))),
    "kills": (*_KILLS, "tests/faults"),
    "S3": _S3,
    "Connect": _SESSIONS,
    "older tables": ("tests/compat",),
}
"""By column of the table: what pytest runs. The tables in ``tests/compat`` were written under Spark 4.2."""

_LEAKS = ("-W", "ignore::ResourceWarning", "-W", "ignore::pytest.PytestUnraisableExceptionWarning")
_QUIET = {"4.0": _LEAKS, "4.1": _LEAKS}
"""PySpark leaves sockets open before 4.2, and warnings are errors in our tests."""


def requirements(*extras: str) -> list[str]:
    """The dependencies of the project with these extras, without those that are installed apart."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [*project["dependencies"], *(each for extra in extras for each in project["optional-dependencies"][extra])]
    return [each for each in dict.fromkeys(named) if name_of(each) not in APART]


def name_of(requirement: str) -> str:
    """The name of a requirement or pin, as indexes spell it."""
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None, requirement
    return found[0].lower().replace("_", "-")


def pins() -> list[str]:
    """The lines of ``constraints.txt``, without those for what is installed apart."""
    return [line for line in (ROOT / "constraints.txt").read_text().splitlines() if name_of(line) not in APART]


def make_environment(folder: Path, wanted: Sequence[str], constraints: Sequence[str], spark: str) -> Path:
    """The interpreter of an environment with ``wanted``, that Spark, this project, the native reader, and jars."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([os.environ.get("PYTHON") or sys.executable, "-m", "venv", str(folder)], check=True)
    held = folder / "constraints.txt"
    held.write_text("\n".join(constraints) + "\n")
    _pip(python, "-c", str(held), f"pyspark[connect]=={spark}", *wanted)
    _pip(python, "--no-deps", "delta-spark==4.4.0", "-e", str(ROOT))
    if shutil.which("cargo"):
        _pip(python, "--no-deps", "--force-reinstall", str(ROOT / "native"))
    subprocess.run([python, "-m", "tidegate.spark.jars"], check=True, env=_environment())
    return python


def _pip(python: Path, *arguments: str) -> None:
    subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *arguments], check=True)


def _environment() -> dict[str, str]:
    # A Spark or packages from outside would be tested in place of those installed here.
    return {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "SPARK_HOME")}


def version_of(python: Path, package: str) -> str:
    """The version of ``package`` in the environment of ``python``."""
    asked = f"from importlib.metadata import version; print(version({package!r}))"
    return subprocess.run([python, "-c", asked], check=True, capture_output=True, text=True).stdout.strip()


def run_suite(python: Path, arguments: Sequence[str], log: Path) -> tuple[bool, str]:
    """Whether the tests passed, and their last line without the time; all that pytest said is in ``log``."""
    began = time.monotonic()
    with log.open("w") as said:
        done = subprocess.run(
            [python, "-m", "pytest", *arguments], cwd=ROOT, env=_environment(), stdout=said, stderr=said, check=False
        )
    last = (log.read_text().rstrip().splitlines() or ["nothing said"])[-1]
    outcome = re.sub(r"(^=+ | in [\d.]+s.*)", "", last)
    print(f"{log}: {outcome}, {time.monotonic() - began:.0f} s", flush=True)
    return done.returncode == 0, outcome


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    return "\n".join(f"| {' | '.join(each)} |" for each in (heads, ["---"] * len(heads), *rows)) + "\n"


def report(target: Path, first: str, rows: Mapping[str, Mapping[str, tuple[bool, str]]]) -> int:
    """Print the results and keep them in ``target``; 1 if anything failed."""
    suites = list(dict.fromkeys(suite for row in rows.values() for suite in row))
    text = table(
        [first, *suites],
        [[name, *(row[suite][1] if suite in row else "" for suite in suites)] for name, row in rows.items()],
    )
    target.write_text(text)
    print(f"\n{text}")
    return int(not all(passed for row in rows.values() for passed, _ in row.values()))


def main(chosen: Sequence[str]) -> int:
    """Test those versions."""
    folder = ROOT / "build" / "versions"
    rows: dict[str, dict[str, tuple[bool, str]]] = {}
    for version in chosen or VERSIONS:
        if version not in VERSIONS:
            sys.exit(f"no Spark {version} here: choose from {', '.join(VERSIONS)}")
        home = folder / version
        python = make_environment(home, requirements("spark", "test"), pins(), f"{version}.*")
        name = f"{version_of(python, 'pyspark')}, Python {_python_version(python)}"
        rows[name] = {
            suite: run_suite(python, (*arguments, *_QUIET.get(version, ())), home / f"{suite.replace(' ', '-')}.log")
            for suite, arguments in SUITES.items()
        }
    return report(folder / "result.md", "Spark", rows)


def _python_version(python: Path) -> str:
    return subprocess.run([python, "-V"], check=True, capture_output=True, text=True).stdout.split()[-1]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
