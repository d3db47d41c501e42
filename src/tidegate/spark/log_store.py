"""The log store by which Spark commits to tables on S3: forty lines of Java, compiled once.

Hadoop's client for S3 creates objects conditionally only where it is asked to, and no log store of Delta 4.4.0 asks.
The compiler is the one that Spark has for its own generated code, so that a Java without a compiler will do.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
import zipfile
from importlib.resources import files
from pathlib import Path

from tidegate.errors import EnvironmentProblem
from tidegate.spark.jars import DELTA, S3, cache_folder, fetch
from tidegate.spark.java import find_java, spark_home

CLASS = "tidegate.spark.ConditionalLogStore"
SETTING = "spark.delta.logStore.s3a.impl"

_COMPILER = "org.codehaus.commons.compiler.samples.CompilerDemo"


def log_store_jar() -> Path:
    """The jar with the log store, compiled the first time."""
    source = files("tidegate.spark").joinpath("ConditionalLogStore.java").read_bytes()
    digest = hashlib.sha256(source + f"{DELTA} {S3}".encode()).hexdigest()[:12]
    jar = cache_folder() / "jars" / f"conditional-log-store-{digest}.jar"
    if not jar.exists():
        jar.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=jar.parent) as folder:
            _compile(source, Path(folder))
            os.replace(_packed(Path(folder)), jar)
    return jar


def _compile(source: bytes, folder: Path) -> None:
    """The classes of ``source``, in ``folder`` below the directories of their package."""
    written = folder / "ConditionalLogStore.java"
    written.write_bytes(source)
    of_spark = spark_home() / "jars"
    needed = [*of_spark.glob("hadoop-client-api-*.jar"), *fetch(DELTA), *fetch(S3)]
    command = [str(find_java() / "bin" / "java"), "-cp", f"{of_spark}/*", _COMPILER]
    command += ["-d", str(folder), "-classpath", os.pathsep.join(map(str, needed)), str(written)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not list(folder.glob("**/*.class")):
        raise EnvironmentProblem(
            f"the log store for tables on S3 could not be compiled: {(done.stderr or done.stdout).strip()[:500]}",
            "install pyspark anew, in a version that Tidegate supports",
        )


def _packed(folder: Path) -> Path:
    packed = folder / "packed.jar"
    with zipfile.ZipFile(packed, "w") as archive:
        for each in folder.glob("**/*.class"):
            archive.write(each, each.relative_to(folder))
    return packed
