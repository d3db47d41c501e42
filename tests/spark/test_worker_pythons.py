"""Workers whose Python will not do, as real processes: each is told in one sentence that says what to do."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from support.lake import Lake

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]

SCRIPT = """
import json, os, sys, tidegate
from pathlib import Path
from pyspark.sql import SparkSession

def told(config):
    (source,) = tidegate.run(Path(config)).sources
    return source.exit_code, source.error

found, (config, pythons) = {}, (sys.argv[1], json.loads(sys.argv[2]))
for name, python in pythons.items():
    os.environ["PYSPARK_PYTHON"] = python
    if name.startswith("session"):
        session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
        found[name] = told(config)
        session.stop()
    else:
        settings = json.loads(Path(config).read_text())
        own = Path(config).with_name(f"{name}.yml")
        own.write_text(json.dumps({**settings, "spark": {"config": {"spark.pyspark.python": python}}}))
        found[name] = told(own)
print(json.dumps(found))
"""
WITHOUT = "the Python of Spark's workers has no Tidegate"
REMEDY = f" name a Python with the same Tidegate on every machine, as this program has it in {sys.executable}"
OF_OURS = f" - let spark.pyspark.python{REMEDY}"
OF_THEIRS = f" - let PYSPARK_PYTHON, before that session starts,{REMEDY}"


def without_tidegate(folder: Path) -> str:
    """A Python with everything that this one has, but Tidegate."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (own,) = folder.glob("lib/python*/site-packages")
    (own / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")  # whose own .pth files are not heeded
    return str(folder / "bin" / "python")


def of_another_version() -> str | None:
    """A Python of another minor version, if there is one."""
    places = [*map(str, Path.home().glob(".pyenv/versions/*/bin")), os.environ["PATH"]]
    names = [f"python3.{minor}" for minor in (12, 13, 14, 11) if minor != sys.version_info.minor]
    return next(filter(None, (shutil.which(name, path=os.pathsep.join(places)) for name in names)), None)


def ends_at_once(folder: Path) -> str:
    program = folder / "python"
    program.write_text("#!/bin/sh\nexit 7\n")
    program.chmod(0o755)
    return str(program)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    """By kind of Python: the exit code and the error of a run."""
    folder = tmp_path_factory.mktemp("pythons")
    lake = Lake(folder / "lake")
    lake.arrive("date=2026-01-28/hour=12/1.ndjson.gz")
    bare = without_tidegate(folder / "bare")
    pythons = {"session": bare, "own": bare, "nowhere": "/nowhere/python", "ends": ends_at_once(folder)}
    if other := of_another_version():
        pythons["session_other"] = other
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(lake.config), json.dumps(pythons)],
        capture_output=True,
        text=True,
        timeout=280,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("session", WITHOUT),
        ("own", WITHOUT),
        ("nowhere", "the Python of Spark's workers, /nowhere/python, does not start: No such file or directory"),
        ("ends", "the Python of Spark's workers ends at once"),
    ],
)
def test_a_python_that_will_not_do_is_told_in_a_sentence(
    told: dict[str, tuple[int, str]], kind: str, problem: str
) -> None:
    assert tuple(told[kind]) == (3, problem + (OF_THEIRS if kind == "session" else OF_OURS))


def test_another_version_of_python_is_told_with_both(told: dict[str, tuple[int, str]]) -> None:
    if "session_other" not in told:
        pytest.skip("there is no other Python here")
    code, error = told["session_other"]
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert (code, error.endswith(f"that of this program is {own}{OF_THEIRS}")) == (3, True), error
