"""The Delta jars that Spark needs to read and write Delta tables itself: resolved once, then handed over as files.

The Arrow lane commits through ``deltalake`` and needs none of them. ``python -m tidegate.spark.jars`` fetches
them ahead of time, so that a later session starts without the network.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tidegate.errors import EnvironmentProblem
from tidegate.spark.java import find_java

DELTA = "io.delta:delta-spark_4.2_2.13:4.4.0"


def cache_folder() -> Path:
    """Where fetched jars are kept: ``$TIDEGATE_HOME``, else ``~/.cache/tidegate``."""
    return Path(os.environ.get("TIDEGATE_HOME") or Path.home() / ".cache" / "tidegate")


def _folder(coordinate: str) -> Path:
    return cache_folder() / "jars" / coordinate.replace(":", "_")


def fetched(coordinate: str = DELTA) -> tuple[Path, ...]:
    """The jars of ``coordinate`` if they were fetched completely, else nothing."""
    folder = _folder(coordinate)
    return tuple(sorted(folder.glob("jars/*.jar"))) if (folder / "complete").exists() else ()


def fetch(coordinate: str = DELTA) -> tuple[Path, ...]:
    """The jars of ``coordinate``, resolved through Maven Central the first time; a jar file is itself."""
    if coordinate.endswith(".jar"):
        return (Path(coordinate),)
    present = fetched(coordinate)
    if present:
        return present
    folder = _folder(coordinate)
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "resolved.py"
    script.write_text("print('resolved')\n")
    submit = Path(sys.executable).with_name("spark-submit")
    done = subprocess.run(
        [
            str(submit),
            "--master",
            "local[1]",
            "--packages",
            coordinate,
            "--conf",
            f"spark.jars.ivy={folder}",
            str(script),
        ],
        env={**os.environ, "JAVA_HOME": str(find_java()), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0 or not list(folder.glob("jars/*.jar")):
        tail = "\n".join(done.stderr.splitlines()[-15:])
        raise EnvironmentProblem(
            f"the jars of {coordinate} could not be fetched:\n{tail}",
            "check that Maven Central or your mirror of it is reachable (Ivy settings: spark.jars.ivySettings)",
        )
    (folder / "complete").touch()
    return fetched(coordinate)


if __name__ == "__main__":
    print(f"{len(fetch())} jars in {_folder(DELTA)}")
