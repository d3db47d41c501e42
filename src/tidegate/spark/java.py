"""Finds a Java that can run Spark: ``JAVA_HOME``, then ``PATH``, then the folders where systems keep it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
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
    except OSError:
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
    for home in _candidates(os.environ if env is None else env):
        version = java_version(home)
        if version in SUPPORTED:
            return home
        if version is not None:
            seen.append(f"{home} (Java {version})")
    found = f"; found only {', '.join(seen)}" if seen else ""
    raise EnvironmentProblem(
        f"no Java 17 or 21 in JAVA_HOME, PATH or the usual folders{found}",
        "install one, for example 'apt-get install openjdk-17-jre-headless' or 'brew install openjdk@17', "
        "or set JAVA_HOME to it",
    )
