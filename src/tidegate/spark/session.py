"""Starts the Spark session: local by default, any cluster or Spark Connect server by configuration.

Java gets a folder of this process for temporary files: blocks, spilled rows, artifacts and unpacked libraries lie
there, and the log of Spark's start. A process locks its folder. A killed one cannot remove it: the next start removes
folders without a lock.

The JVM's own output goes to a log file, not to the terminal; an error at start says why in one line, and the log of the
last failed start is kept.

Spark replaces ``${…}`` - settings, environment variables, properties of Java - in SQL text, where
``spark.sql.variable.substitute`` turns that off, and in the values of settings, where nothing does. It does not touch
options of readers and writers and values in frames. Hadoop does the same to its configuration, including the names of
the columns of a Parquet file. Data may say ``${env:PASSWORD}``: so these sessions read SQL as it stands, :func:`put` is
the one way to a setting, and names that Hadoop would change are refused.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import logging
import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from tidegate.errors import ConfigError, EnvironmentProblem, RowsRefused, TableError
from tidegate.spark.jars import (
    CLASS,
    DELTA,
    NO_SPARK,
    S3,
    SETTING,
    archive_options,
    cache_folder,
    check_version,
    find_java,
    log_store_jar,
    python_of_workers,
    read_spark_version,
    resolve_jars,
    spark_home,
)
from tidegate.spark.tasks import DAEMON, DAEMON_SETTING, machine_problem, telling_line
from tidegate.specs.masking import Mask, shorten
from tidegate.specs.project import SparkSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType

PREFIX = "tidegate-spark-"
_LOCK = "lock"
_LOG = "spark.log"
_held: dict[Path, int] = {}
"""The folders of this process, each with its lock."""

_owner = os.getpid()


def claim() -> Path:
    """The folder of this process, which is removed at exit; sweeps those of dead processes first."""
    global _owner
    # A forked child inherits this table but not the folder, which its parent still uses.
    if _held and os.getpid() == _owner:
        return next(iter(_held))
    sweep()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    # A process that inherited the lock would keep it after our death, and no sweep could remove the folder.
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    if os.getpid() != _owner or not _held:
        _held.clear()
        _owner = os.getpid()
        atexit.register(_release)
    _held[folder] = lock
    return folder


def sweep() -> None:
    """Remove the folders of processes that are gone; only those of this user, and no links."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        # A folder that is locked, or that another process is sweeping at the same moment, is not ours to remove.
        with contextlib.suppress(OSError):
            # Everybody may write to the temporary folder: a link there could lead the removal anywhere.
            if folder.is_symlink() or folder.lstat().st_uid != os.getuid():
                continue
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _release() -> None:
    """End the JVM first, which would keep writing. A forked process has nothing to release."""
    if os.getpid() != _owner:
        return
    end_jvm()
    for folder, lock in _held.items():
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)
    _held.clear()


def end_jvm(seconds: float = 10.0) -> None:
    """End the JVM that PySpark started in this process, if any, as the end of the process would; and wait for it."""
    # Runs while the process ends; a JVM that is gone already needs nothing from us.
    with contextlib.suppress(Exception):
        from pyspark import SparkContext

        process = getattr(SparkContext._gateway, "proc", None)
        if process is not None:
            silence_py4j()
            # PySpark's JVM watches its standard input, and ends when that is closed.
            process.stdin.close()
            process.wait(seconds)


def stop_session(session: SparkSession) -> None:
    """Stop a session of this process, without PySpark's wait for its server of accumulators.

    That server checks once a second whether to end; it may do so by itself, silently if Java ends before.
    """
    server: Any = getattr(getattr(session, "_sc", None), "_accumulatorServer", None)
    if server is not None:
        server.shutdown = threading.Thread(target=server.shutdown, daemon=True).start
        server.handle_error = lambda *_: None
    session.stop()


_LOGGERS = ("", "py4j.clientserver", "py4j.java_gateway")


class _WhileStopping(logging.Filter):
    def __init__(self, stop: threading.Event) -> None:
        super().__init__()
        self._stop = stop

    def filter(self, record: logging.LogRecord) -> bool:
        from_py4j = record.name.startswith("py4j.") or "py4j" in PurePath(record.pathname).parts
        return not (self._stop.is_set() and from_py4j)


def silence_py4j() -> None:
    """Stop Py4J's logging: the process is ending, and Java no longer answers."""
    ended = threading.Event()
    ended.set()
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_WhileStopping(ended))


@contextlib.contextmanager
def py4j_is_silent(stop: threading.Event) -> Iterator[None]:
    """While inside, Py4J logs nothing once ``stop`` is set; others log as before."""
    found = _WhileStopping(stop)
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addFilter(found)
    try:
        yield
    finally:
        for each in loggers:
            each.removeFilter(found)


_DEFAULTS = {
    "spark.app.name": "tidegate",
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # The defaults are for clusters: on one machine a Delta write of ten rows took 30 seconds, with few partitions 1.5.
    "spark.sql.shuffle.partitions": "8",
    "spark.python.worker.reuse": "true",
    # Sources run side by side, each with a pool of its own: else the many tasks of one job keep all others waiting.
    "spark.scheduler.mode": "FAIR",
    DAEMON_SETTING: DAEMON,
    # Only with these does Spark's message name the signal that ended a worker, which becomes a dead letter's reason.
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
_LEAN = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
}
"""For sessions whose rows are the numbers of tasks: generating and compiling code takes longer than running without."""

_SHORT = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=256m")
_COLLECTOR = "-XX:+UseSerialGC"
"""For a Java that only hands out tasks: it compiles once and quickly, and has little to collect."""

_LAUNCHER = "SPARK_LAUNCHER_OPTS"
_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def settings(spec: SparkSpec, *, delta: bool, packages: Sequence[str] = ()) -> dict[str, str]:
    """Every session setting: ours, then Delta's if wanted, jars of ``packages``, then the user's.

    Java's options are ours and the user's together. Without Delta, tasks in Python read and write rows, and the session
    is a lean one.
    """
    chosen = dict(_DEFAULTS)
    if (spec.master or "local").startswith("local"):
        chosen |= _LOCAL
    chosen |= _DELTA if delta else _LEAN
    wanted = (*((DELTA,) if delta else ()), *packages)
    if wanted:
        jars = dict.fromkeys(jar for each in wanted for jar in _jars(each))
        chosen["spark.jars"] = ",".join(jars)
    if delta and S3 in packages:
        chosen["spark.jars"] += f",{log_store_jar()}"
        chosen[SETTING] = CLASS
    return chosen | dict(spec.config) | {name: java_options(spec.config, name) for name in _JAVA_OPTIONS}


def java_options(config: Mapping[str, str], name: str) -> str:
    """The options of Java in setting ``name``: our zone, then the user's own; ``ConfigError`` if those set another.

    Database drivers interpret times without a zone in Java's.

    >>> java_options({"spark.driver.extraJavaOptions": "-XX:+UseG1GC"}, "spark.driver.extraJavaOptions")
    '-Duser.timezone=UTC -XX:+UseG1GC'
    """
    theirs = config.get(name, "").strip()
    try:
        parts = shlex.split(theirs)
    except ValueError:
        parts = theirs.split()
    other = [part for part in parts if part.startswith(_ZONE) and part.removeprefix(_ZONE) not in _UTC]
    if other:
        raise ConfigError(
            (f"spark.config: {name}: {other[0]!r}: Java's zone is UTC, because all times are in UTC; remove it",)
        )
    return f"{_ZONE}UTC {theirs}".strip()


def quick_options(spec: SparkSpec, chosen: Mapping[str, str], *, delta: bool) -> tuple[str, ...]:
    """Options of Java for a lean session on this machine; a collector only if nobody has chosen one."""
    if delta or not (spec.master or "local").startswith("local"):
        return ()
    named = re.search(r"-XX:\+Use\w+GC", _all_options(chosen))
    return _SHORT if named else (*_SHORT, _COLLECTOR)


def _all_options(chosen: Mapping[str, str]) -> str:
    """The options of Java from all places."""
    names = ("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
    return " ".join((chosen.get(_DRIVER_OPTIONS, ""), *(os.environ.get(name, "") for name in names)))


def _jars(wanted: str) -> tuple[str, ...]:
    """The files of a Maven coordinate; a file stands for itself."""
    return (wanted,) if wanted.endswith(".jar") else tuple(str(jar) for jar in resolve_jars(wanted))


def active_session() -> SparkSession | None:
    """The running session of this process, if any."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    found = SparkSession.getActiveSession()
    return found if found is not None else _of_another_thread()


GATEWAY = "PYSPARK_GATEWAY_PORT"
"""Set by spark-submit, which has started Java before Python."""


def take_session(spec: SparkSpec) -> SparkSession | None:
    """The session that was there before us: a running one, or that of spark-submit; None where we start our own.

    Nothing is set in it, and it is never stopped. :class:`EnvironmentProblem` if the configuration says that a
    platform brings the session and none is running, or if its Spark is of a version we do not support.
    """
    found = active_session()
    if found is None and GATEWAY in os.environ:
        from pyspark.sql import SparkSession

        found = SparkSession.builder.getOrCreate()
    if found is not None:
        check_version(found.version)
        return found
    if spec.managed:
        raise EnvironmentProblem(
            "spark.managed is true, but no Spark session is running in this process",
            "run it in a notebook or job of the platform or by spark-submit, or create the SparkSession first; without "
            "spark.managed Tidegate starts a session itself",
        )
    return None


def _of_another_thread() -> SparkSession | None:
    """The session of this process that another thread made, unless it was stopped."""
    from pyspark.sql import SparkSession

    made = getattr(SparkSession, "_instantiatedSession", None)
    return None if made is None or made.sparkContext._jsc is None else made


def _start_with(archive: Sequence[str], spec: SparkSpec, chosen: Mapping[str, str]) -> SparkSession:
    """A new session; if Java ends at once because of a damaged archive, it starts without one.

    The archive is removed if that helped.
    """
    from pyspark import SparkContext

    if not archive:
        return _start(spec, chosen)
    options = " ".join((*map(shlex.quote, archive), chosen[_DRIVER_OPTIONS]))
    try:
        return _start(spec, {**chosen, _DRIVER_OPTIONS: options})
    except Exception:
        if SparkContext._gateway is not None:  # Java runs: the error has another cause
            raise
    session = _start(spec, chosen)
    Path(archive[0].partition("=")[2]).unlink(missing_ok=True)
    return session


def _start(spec: SparkSpec, chosen: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    builder = builder.remote(spec.remote) if spec.remote else builder.master(spec.master or "local[*]")
    for key, value in chosen.items():
        if spec.remote and not spec.remote.startswith("local") and key not in spec.config:
            continue
        builder = builder.config(key, value)
    return builder.getOrCreate()


def open_session(
    spec: SparkSpec, *, delta: bool = False, packages: Sequence[str] = (), mask: Mask | None = None
) -> SparkSession:
    """A new session for ``spec``, unless one is given.

    What is kept of a failed start has no secret of ``spec``, nor of ``mask``.
    """
    given = take_session(spec)
    if given is not None:
        return given
    version = read_spark_version()
    if version is None:
        raise EnvironmentProblem("pyspark is not installed", NO_SPARK)
    check_version(version)
    chosen = settings(spec, delta=delta, packages=packages)
    needs_java = not spec.remote or spec.remote.startswith("local")
    _without_query_logs()
    folder = claim()
    archive: tuple[str, ...] = ()
    if needs_java:
        home, java = spark_home(), find_java()
        os.environ["JAVA_HOME"] = str(java)
        os.environ.setdefault(_LAUNCHER, " ".join((*_SHORT, _COLLECTOR)))
        archive = archive_options(java, home, _all_options(chosen))
        ours = (f"-Djava.io.tmpdir={folder}", *quick_options(spec, chosen, delta=delta))
        chosen[_DRIVER_OPTIONS] = " ".join((*map(shlex.quote, ours), chosen[_DRIVER_OPTIONS]))
    log = folder / _LOG
    with _stderr_to(log), _signals_kept(), _pythons(python_of_workers(spec, os.environ)):
        try:
            session = _start_with(archive, spec, chosen)
        except Exception as error:
            known = Mask.around(spec) | (mask or Mask())
            problem = _not_started(spec.remote or spec.master or "local[*]", log, error, known)
            raise problem from known.cause(error)
    _check_zone(session)
    return session


def _not_started(where: str, log: Path, error: Exception, mask: Mask) -> EnvironmentProblem:
    """One sentence and where to read more; the last lines of the log are a note, which tracebacks show."""
    kept, said = _keep_settings(log, "spark-start.log", mask)
    of_java = type(error).__module__.startswith("py4j")
    told = telling_line(error) if of_java else next(filter(_CAUSE.search, said), _first_line(error))
    found = machine_problem(error)
    why = told.strip().removeprefix("Error: ") if found is None else found.problem
    problem = EnvironmentProblem(
        f"Spark did not start ({mask(where)}): {shorten(mask(why), 300)}",
        f"{'correct this' if found is None else found.remedy} and run again; Spark's own log is {kept}",
    )
    problem.add_note(_last_lines(kept, said))
    return problem


def log_excerpt(mask: Mask) -> str:
    """Where the log of this process's Spark is kept, and its last lines; empty if it has none."""
    if not _held:
        return ""
    kept, said = _keep_settings(next(iter(_held)) / _LOG, "spark-run.log", mask)
    return _last_lines(kept, said) if said else ""


def _last_lines(kept: Path, said: Sequence[str]) -> str:
    telling = [line for line in said if not _FRAME.match(line)]
    return "\n".join((f"Spark's log is {kept}; its last lines, without calls:", *telling[-_LAST_LINES:]))


def _check_zone(session: SparkSession) -> None:
    """Check the zone: variables such as ``_JAVA_OPTIONS`` and ``PYSPARK_SUBMIT_ARGS`` override every setting."""
    if not hasattr(session, "newSession"):
        return
    java: Any = session.sparkContext._jvm  # there is no public way
    zone = java.java.util.TimeZone.getDefault().getID()
    if zone not in _UTC:
        session.stop()
        raise EnvironmentProblem(
            f"Java's zone is {zone}, although Tidegate started it with {_ZONE}UTC",
            f"remove {_ZONE}{zone} from _JAVA_OPTIONS, JAVA_TOOL_OPTIONS and PYSPARK_SUBMIT_ARGS",
        )


def _keep_settings(log: Path, name: str, mask: Mask) -> tuple[Path, list[str]]:
    """The last lines of ``log``, masked, and where they are kept after this process, replacing earlier ones."""
    try:
        with log.open("rb") as content:
            if content.seek(max(0, log.stat().st_size - _KEPT_BYTES)):
                content.readline()  # its beginning is cut off: no mask knows half a secret
            end = mask(content.read().decode(errors="replace"), cut=True)  # Spark may be writing just then
    except OSError:
        return log, []
    kept = cache_folder() / name
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        descriptor, fresh = tempfile.mkstemp(prefix=f".{name}-", dir=kept.parent)
        with os.fdopen(descriptor, "w", encoding="utf-8") as copy:
            copy.write(end)
        os.replace(fresh, kept)
    except OSError:
        kept = log
    return kept, end.splitlines()


def _without_query_logs() -> None:
    """Stop PySpark from printing every error of a query with its Java stack besides raising it."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


_CAUSE = re.compile(r"\b(?:[Ee]rror|[\w.]*Exception)\b:? ")
"""Lines of Spark's log that say why it did not start."""

_FRAME = re.compile(r"\s+at |\s+\.\.\. \d+ more")
_LAST_LINES = 12
_KEPT_BYTES = 100_000


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
def _pythons(workers: str) -> Iterator[None]:
    """Start contexts inside with that Python for their workers: PySpark reads the environment only at that moment.

    Later sessions of this process find the environment as the user made it.
    """
    names = {"PYSPARK_PYTHON": workers, "PYSPARK_DRIVER_PYTHON": sys.executable}
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _signals_kept() -> Iterator[None]:
    """Keep our Ctrl-C handler; Spark installs its own."""
    # Python lets no other thread set a signal handler.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: Mapping[int, object] = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # the result of getsignal


VARIABLE = "${"

COLUMNAR_INPUT = "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled"
"""With Spark 4.2.0 a Python function over columns of a Parquet file hangs while this is on."""

_SUBSTITUTE = "spark.sql.variable.substitute"
_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    _SUBSTITUTE: "false",
    COLUMNAR_INPUT: "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreInvalidPartitionPaths": "false",
}
"""A missing or damaged file is an error, never no rows: what was not read would count as committed."""


def derive_session(session: SparkSession, more: Mapping[str, str] | None = None) -> SparkSession:
    """A session that shares everything but views and settings; for a Spark Connect server, the session itself."""
    own = session.newSession() if hasattr(session, "newSession") else session
    put(own, {**_SETTINGS, **(more or {})})
    return own


def put(session: SparkSession, settings: Mapping[str, str]) -> None:
    """Apply these settings; ``RowsRefused`` if Spark would change a value by substituting variables."""
    for name, value in settings.items():
        if VARIABLE in value:
            raise RowsRefused(
                f"{name} would be {value!r:.200}, in which Spark replaces '{VARIABLE}…}}' by a variable",
                f"nothing was committed; leave '{VARIABLE}' out of the names of pipelines and sources",
            )
        session.conf.set(name, value)


def check_text(session: SparkSession, text: str) -> str:
    """SQL ``text``, for a session that may be somebody else's; ``TableError`` if Spark would change it there."""
    if VARIABLE in text and session.conf.get(_SUBSTITUTE, "true") != "false":
        raise TableError(
            f"Spark would replace '{VARIABLE}…}}' by a variable in: {text[:200]}",
            f"set {_SUBSTITUTE} to false in that session",
        )
    return text


def find_replaced_name(kind: DataType) -> str | None:
    """A name in columns of this type in which Hadoop would replace a variable, so that no file seems to have it."""
    return next((name for name in _names(kind) if VARIABLE in name), None)


def _names(kind: DataType) -> Iterator[str]:
    from pyspark.sql.types import ArrayType, MapType, StructType

    match kind:
        case StructType():
            for field in kind.fields:
                yield field.name
                yield from _names(field.dataType)
        case ArrayType():
            yield from _names(kind.elementType)
        case MapType():
            yield from _names(kind.keyType)
            yield from _names(kind.valueType)
        case _:
            return


def quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
