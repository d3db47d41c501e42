"""Starts the Spark session: local by default, any cluster or Spark Connect server by configuration.

The JVM's own output goes to a log file, not to the terminal; an error at start shows its last lines, and the log of the
last start that failed is kept.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.errors import ConfigError, EnvironmentProblem
from tidegate.spark import temporary
from tidegate.spark.jars import DELTA, S3, cache_folder, fetch
from tidegate.spark.java import find_java, spark_home
from tidegate.spark.log_store import CLASS, SETTING, log_store_jar
from tidegate.specs import SparkSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DEFAULTS = {
    "spark.app.name": "tidegate",
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "tidegate.spark.daemon",
    "spark.python.worker.faulthandler.enabled": "true",
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
}
_DRIVER_OPTIONS = "spark.driver.extraJavaOptions"
_JAVA_OPTIONS = (_DRIVER_OPTIONS, "spark.executor.extraJavaOptions")
_ZONE = "-Duser.timezone="
_UTC = ("UTC", "Etc/UTC", "Z", "GMT", "Etc/GMT", "Zulu", "Etc/Zulu", "Universal", "UCT")
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
    """Every session setting: ours, then Delta's where asked for, jars of ``packages``, then the user's.

    Java's options are ours and the user's together.
    """
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
    return chosen | dict(spec.config) | {name: java_options(spec.config, name) for name in _JAVA_OPTIONS}


def java_options(config: Mapping[str, str], name: str) -> str:
    """The options of Java in setting ``name``: our zone, then the user's own; ``ConfigError`` where those set another.

    Drivers of databases take times without a zone to be in Java's.

    >>> java_options({"spark.driver.extraJavaOptions": "-XX:+UseG1GC"}, "spark.driver.extraJavaOptions")
    '-Duser.timezone=UTC -XX:+UseG1GC'
    """
    theirs = config.get(name, "").strip()
    try:
        parts = shlex.split(theirs)
    except ValueError:
        parts = theirs.split()
    other = [each for each in parts if each.startswith(_ZONE) and each.removeprefix(_ZONE) not in _UTC]
    if other:
        raise ConfigError(
            (f"spark.config: {name}: {other[0]!r}: Java's zone is UTC, as all times are in UTC; take it out",)
        )
    return f"{_ZONE}UTC {theirs}".strip()


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
    chosen = settings(spec, delta=delta, packages=packages)
    needs_java = not spec.remote or spec.remote.startswith("local")
    if needs_java:
        spark_home()
        os.environ["JAVA_HOME"] = str(find_java())
    _without_query_logs()
    folder = temporary.claim()
    if needs_java:
        own = shlex.quote(f"-Djava.io.tmpdir={folder}")
        chosen[_DRIVER_OPTIONS] = f"{own} {chosen[_DRIVER_OPTIONS]}"
    log = folder / "spark.log"
    builder = SparkSession.builder
    builder = builder.remote(spec.remote) if spec.remote else builder.master(spec.master or "local[*]")
    for key, value in chosen.items():
        if spec.remote and not spec.remote.startswith("local") and key not in spec.config:
            continue
        builder = builder.config(key, value)
    with _stderr_to(log), _signals_kept():
        try:
            session = builder.getOrCreate()
        except Exception as error:
            raise EnvironmentProblem(
                f"Spark did not start ({spec.remote or spec.master or 'local[*]'}): {_first_line(error)}",
                f"see {_kept(log)}; its last lines:\n{_tail(log)}",
            ) from error
    _check_zone(session)
    return session


def _check_zone(session: SparkSession) -> None:
    """Variables such as ``_JAVA_OPTIONS`` and ``PYSPARK_SUBMIT_ARGS`` go before every setting, zones included."""
    if not hasattr(session, "newSession"):
        return
    java: Any = session.sparkContext._jvm  # there is no public way
    zone = java.java.util.TimeZone.getDefault().getID()
    if zone not in _UTC:
        session.stop()
        raise EnvironmentProblem(
            f"Java's zone is {zone}, although Tidegate started it with {_ZONE}UTC",
            f"take {_ZONE}{zone} out of _JAVA_OPTIONS, JAVA_TOOL_OPTIONS and PYSPARK_SUBMIT_ARGS",
        )


def _kept(log: Path) -> Path:
    """A copy of ``log`` that outlives this process, in the place of the one before; else the log itself."""
    kept = cache_folder() / "spark-start.log"
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(log, kept)
    except OSError:
        return log
    return kept


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
