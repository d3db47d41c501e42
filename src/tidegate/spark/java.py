"""Finds what Spark is run with: a Java (``JAVA_HOME``, then ``PATH``, then the folders where systems keep it), and the
Spark that the installed pyspark brings along.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from tidegate.errors import EnvironmentProblem

SUPPORTED = (17, 21)
_FOLDERS = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/jdk*",
    "~/.jdk/*",
    "~/.sdkman/candidates/java/*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk@*/libexec/openjdk.jdk/Contents/Home",
)


def java_version(home: Path) -> int | None:
    """The major version of the Java in ``home``, or None where there is none that starts."""
    try:
        done = subprocess.run(
            [str(home / "bin" / "java"), "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(\d+)', done.stderr)
    return int(found.group(1)) if found else None


def _candidates(env: Mapping[str, str]) -> Iterator[Path]:
    if env.get("JAVA_HOME"):
        yield Path(env["JAVA_HOME"])
    on_path = shutil.which("java", path=env.get("PATH"))
    if on_path:
        yield Path(on_path).resolve().parent.parent
    for pattern in _FOLDERS:
        folder = Path(pattern).expanduser()
        anchor = Path(folder.anchor)
        yield from sorted(anchor.glob(str(folder.relative_to(anchor))), reverse=True)


def find_java(env: Mapping[str, str] | None = None) -> Path:
    """The home of a Java 17 or 21; raises :class:`EnvironmentProblem` that says what was seen and what to run."""
    seen: list[str] = []
    env = os.environ if env is None else env
    for home in _candidates(env):
        version = java_version(home)
        if version in SUPPORTED:
            return home
        if version is not None:
            seen.append(f"{home} (Java {version})")
        elif str(home) == env.get("JAVA_HOME"):
            seen.append(f"JAVA_HOME={home}, where no Java starts")
    found = f"; found only {', '.join(seen)}" if seen else ""
    raise EnvironmentProblem(
        f"no Java 17 or 21 in JAVA_HOME, PATH or the usual folders{found}",
        "install one, for example 'apt-get install openjdk-17-jre-headless' or 'brew install openjdk@17', "
        "or set JAVA_HOME to it",
    )


def spark_home(env: Mapping[str, str] | None = None) -> Path:
    """The folder of Spark's own programs and jars: that of the installed pyspark.

    PySpark would take another one that ``SPARK_HOME`` names; where that is no Spark, or one of another version,
    :class:`EnvironmentProblem` says so.
    """
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise EnvironmentProblem("pyspark is not installed", "install tidegate again")
    own = Path(found.origin).parent
    named = (os.environ if env is None else env).get("SPARK_HOME")
    if named and not _same(Path(named), own):
        raise EnvironmentProblem(
            f"SPARK_HOME is {named}, which is {_described(Path(named))}; pyspark brings {_described(own)} along",
            "unset SPARK_HOME: Tidegate runs the Spark that pyspark brings along",
        )
    if not (own / "bin" / "spark-submit").is_file():
        raise EnvironmentProblem(f"pyspark in {own} has no bin/spark-submit", "install pyspark again")
    return own


def _same(one: Path, other: Path) -> bool:
    """Whether both are the same version of Spark, complete with its programs."""
    return (one / "bin" / "spark-submit").is_file() and _described(one) == _described(other)


def _described(home: Path) -> str:
    """The version of the Spark in ``home``, by the name of its main jar."""
    found = next(iter(sorted(home.glob("jars/spark-core_*.jar"))), None)
    return "no Spark" if found is None else f"Spark {found.stem.rpartition('-')[2]}"
