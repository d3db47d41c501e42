"""Starts the Spark session: local by default, any cluster or Spark Connect server by configuration.

The JVM's own output goes to a log file, not to the terminal; an error at start shows its last lines.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.errors import EnvironmentProblem
from tidegate.spark.jars import DELTA, S3, fetch
from tidegate.spark.java import find_java
from tidegate.spark.log_store import CLASS, SETTING, log_store_jar
from tidegate.specs import SparkSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DEFAULTS = {
    "spark.app.name": "tidegate",
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
    "spark.executor.extraJavaOptions": "-Duser.timezone=UTC",
    "spark.sql.shuffle.partitions": "8",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "tidegate.spark.daemon",
    "spark.python.worker.faulthandler.enabled": "true",
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
}
_LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.databricks.delta.snapshotPartitions": "2",
}
_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def parallelism(spec: SparkSpec) -> int:
    """How many tasks run at once, read off the configuration without starting Spark.

    >>> parallelism(SparkSpec(master="local-cluster[2,3,1024]"))
    6
    """
    master = spec.master or ("" if spec.remote else "local[*]")
    cluster = re.fullmatch(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,.*\]", master)
    if cluster:
        return int(cluster.group(1)) * int(cluster.group(2))
    local = re.fullmatch(r"local(?:\[\s*(\*|\d+).*\])?", master)
    if local:
        threads = local.group(1) or "1"
        return os.cpu_count() or 1 if threads == "*" else int(threads)
    if spec.remote and spec.remote.startswith("local"):
        return os.cpu_count() or 1
    if "spark.default.parallelism" in spec.config:
        return int(spec.config["spark.default.parallelism"])
    return int(spec.config.get("spark.executor.instances", "4")) * int(spec.config.get("spark.executor.cores", "2"))


def settings(spec: SparkSpec, *, delta: bool, packages: Sequence[str] = ()) -> dict[str, str]:
    """Every session setting: ours, then Delta's where asked for, jars of ``packages``, then the user's."""
    chosen = dict(_DEFAULTS)
    if (spec.master or "local").startswith("local"):
        chosen |= _LOCAL
    if delta:
        chosen |= _DELTA
    wanted = (*((DELTA,) if delta else ()), *packages)
    if wanted:
        jars = dict.fromkeys(jar for each in wanted for jar in _jars(each))
        chosen["spark.jars"] = ",".join(jars)
    if delta and S3 in packages:
        chosen["spark.jars"] += f",{log_store_jar()}"
        chosen[SETTING] = CLASS
    return chosen | dict(spec.config)


def _jars(wanted: str) -> tuple[str, ...]:
    """The files of a Maven coordinate; a file is itself."""
    return (wanted,) if wanted.endswith(".jar") else tuple(str(jar) for jar in fetch(wanted))


def active_session() -> SparkSession | None:
    """The session that is already running in this process, if there is one."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    found = SparkSession.getActiveSession()
    return found if found is not None else _of_another_thread()


def _of_another_thread() -> SparkSession | None:
    """The session of this process that another thread made; one that was stopped is none."""
    from pyspark.sql import SparkSession

    made = getattr(SparkSession, "_instantiatedSession", None)
    return None if made is None or made.sparkContext._jsc is None else made


def open_session(spec: SparkSpec, *, delta: bool = False, packages: Sequence[str] = ()) -> SparkSession:
    """The session for ``spec``; the one already running in this process, if there is one."""
    from pyspark.sql import SparkSession

    active = active_session()
    if active is not None:
        return active
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    needs_java = not spec.remote or spec.remote.startswith("local")
    if needs_java:
        os.environ["JAVA_HOME"] = str(find_java())
    _without_query_logs()
    log = Path(tempfile.mkdtemp(prefix="tidegate-spark-")) / "spark.log"
    builder = SparkSession.builder
    builder = builder.remote(spec.remote) if spec.remote else builder.master(spec.master or "local[*]")
    for key, value in settings(spec, delta=delta, packages=packages).items():
        if spec.remote and not spec.remote.startswith("local") and key not in spec.config:
            continue
        builder = builder.config(key, value)
    with _stderr_to(log), _signals_kept():
        try:
            return builder.getOrCreate()
        except Exception as error:
            raise EnvironmentProblem(
                f"Spark did not start ({spec.remote or spec.master or 'local[*]'}): {_first_line(error)}",
                f"see {log}; its last lines:\n{_tail(log)}",
            ) from error


def _without_query_logs() -> None:
    """PySpark prints every error of a query with its Java stack besides raising it; raising it is enough."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _tail(log: Path, lines: int = 12) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else "(empty)"


@contextlib.contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """Processes started inside inherit ``log`` as their standard error."""
    sys.stderr.flush()
    saved = os.dup(2)
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.dup2(target, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(target)


@contextlib.contextmanager
def _signals_kept() -> Iterator[None]:
    """Spark installs its own Ctrl-C handler; ours stays."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: Mapping[int, object] = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # getsignal's own answer
