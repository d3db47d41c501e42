"""The jars that Spark needs to read and write Delta tables itself: resolved once, then handed over as files.

The Arrow lane commits through ``deltalake`` and needs none of them; those for S3 are needed where such a table lies
there. ``python -m tidegate.spark.jars`` fetches all ahead of time, so that a later session starts without the network.

What Tidegate names itself - these, and the drivers of the databases that it knows - is compared with the digests in
``jars.sha256`` whenever a session begins with it. Packages and jars that a configuration names are taken as they are.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from functools import cache
from importlib.resources import files
from pathlib import Path

from tidegate.errors import EnvironmentProblem
from tidegate.spark.java import find_java, spark_home

DELTA = "io.delta:delta-spark_4.2_2.13:4.4.0"
S3 = "org.apache.hadoop:hadoop-aws:3.5.0"
"""Hadoop's way to S3, in the version of the Hadoop that Spark brings along."""

_WITH = {
    S3: tuple(f"software.amazon.awssdk:{part}:2.35.4" for part in ("s3", "s3-transfer-manager", "sts", "apache-client"))
}
"""What is resolved together with a coordinate: of the AWS SDK, the parts that are used."""

_WITHOUT = {S3: ("software.amazon.awssdk:bundle", "io.netty:*", "org.wildfly.openssl:*")}
"""What is left out: the whole SDK in one jar of 690 MB, and what Spark has."""


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
    """The jars of ``coordinate``, resolved through Maven Central the first time; a jar file is itself.

    ``EnvironmentProblem`` where they cannot be had, or are not those that are pinned.
    """
    if coordinate.endswith(".jar"):
        return (Path(coordinate),)
    present = fetched(coordinate)
    if present:
        return _checked(coordinate, present)
    folder = _folder(coordinate)
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "resolved.py"
    script.write_text("print('resolved')\n")
    home = spark_home()
    done = subprocess.run(
        [
            str(home / "bin" / "spark-submit"),
            "--master",
            "local[1]",
            "--packages",
            ",".join((coordinate, *_WITH.get(coordinate, ()))),
            "--exclude-packages",
            ",".join(_WITHOUT.get(coordinate, ())),
            "--conf",
            f"spark.jars.ivy={folder}",
            str(script),
        ],
        env={
            **os.environ,
            "JAVA_HOME": str(find_java()),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_HOME": str(home),
        },
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
    _checked(coordinate, tuple(sorted(folder.glob("jars/*.jar"))))
    (folder / "complete").touch()
    return fetched(coordinate)


@cache
def pinned() -> dict[str, dict[str, str]]:
    """By coordinate: the names of its jars, and their digests (SHA-256)."""
    found: dict[str, dict[str, str]] = {}
    for line in files("tidegate.spark").joinpath("jars.sha256").read_text().splitlines():
        digest, coordinate, name = line.split()
        found.setdefault(coordinate, {})[name] = digest
    return found


def _checked(coordinate: str, jars: tuple[Path, ...]) -> tuple[Path, ...]:
    """``jars``, if they are those that are pinned for ``coordinate``, or none are."""
    wanted = pinned().get(coordinate)
    if wanted is None:
        return jars
    there = {jar.name: _digest(jar) for jar in jars}
    wrong = [name for name in sorted({*wanted, *there}) if wanted.get(name) != there.get(name)]
    if wrong:
        name = wrong[0]
        raise EnvironmentProblem(
            f"{name} of {coordinate} is not the file that Tidegate was tested with: its sha256 is "
            f"{there.get(name, 'missing')}, expected {wanted.get(name, 'no such file')}",
            f"remove {_folder(coordinate)} and start again; if it stays so, what serves the jars (a mirror, "
            "~/.m2) has other files",
        )
    return jars


def _digest(jar: Path) -> str:
    with jar.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _main() -> None:
    from tidegate.spark.log_store import log_store_jar
    from tidegate.spark.packages import TESTED

    for each in (DELTA, S3, *TESTED):
        print(f"{len(fetch(each))} jars in {_folder(each) / 'jars'}")
    print(f"the log store for tables on S3 in {log_store_jar()}")


if __name__ == "__main__":
    _main()
