"""What Spark runs with: a Java, the Spark of pyspark, a Python for its workers, and jars.

A Java is searched in ``JAVA_HOME``, then in ``PATH``, then in the usual folders of systems. Jars are Delta, database
drivers, and a log store for S3; each is resolved once.

Hadoop's S3 client creates objects conditionally only on request, and no log store of Delta 4.4.0 requests it. The
compiler is Spark's own for generated code, so that a Java without a compiler will do.

Dialects name the drivers of known databases; for others the user names ``driver`` and ``packages`` or ``jars``. They
must be there when the session starts.

The Arrow lane commits through ``deltalake`` and needs none of them; those for S3 are needed for such a table on S3.
``python -m tidegate.spark.jars`` fetches all ahead of time, so that a later session starts without the network.

What Tidegate names itself - these, and the drivers of known databases - is compared with the digests in ``jars.sha256``
at the start of every session. Packages and jars of a configuration are used as they are.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from tidegate.core.dialects.registry import DIALECTS, dialect_of
from tidegate.errors import EnvironmentProblem
from tidegate.specs.columns import JdbcRead, TableRead
from tidegate.specs.project import PipelineSpec, SourceSpec, SparkSpec

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
    """The major version of the Java in ``home``; None if there is none that starts.

    Most installations record it in a file; Java is started only where there is none.
    """
    program = home / "bin" / "java"
    with contextlib.suppress(OSError):
        told = re.search(r'^JAVA_VERSION="(\d+)', (home / "release").read_text(), re.MULTILINE)
        if told is not None and os.access(program, os.X_OK):
            return int(told.group(1))
    try:
        done = subprocess.run([str(program), "-version"], capture_output=True, text=True, timeout=30, check=False)
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
    """The home of a Java 17 or 21; raises :class:`EnvironmentProblem` with what was found and what to run."""
    seen: list[str] = []
    env = os.environ if env is None else env
    for home in _candidates(env):
        version = java_version(home)
        if version in SUPPORTED:
            return home
        if version is not None:
            seen.append(f"{home} (Java {version})")
        elif str(home) == env.get("JAVA_HOME"):
            seen.append(f"JAVA_HOME={home}, but no Java starts there")
    found = f"; found only {', '.join(seen)}" if seen else ""
    raise EnvironmentProblem(
        f"no Java 17 or 21 in JAVA_HOME, PATH or the usual folders{found}",
        "run `tidegate setup`, which finds or installs one, or set JAVA_HOME to a Java 17 or 21; "
        "`--engine local` appends rows without Java",
    )


NO_SPARK = "pip install 'tidegate[spark]', or append rows without Spark by `--engine local`"


def spark_home(env: Mapping[str, str] | None = None) -> Path:
    """The folder of Spark's programs and jars: ``SPARK_HOME``, else that of the installed PySpark.

    :class:`EnvironmentProblem` if ``SPARK_HOME`` is no Spark, or one of another version than PySpark.
    """
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise EnvironmentProblem("pyspark is not installed", NO_SPARK)
    package = Path(found.origin).parent
    named = (os.environ if env is None else env).get("SPARK_HOME")
    # A distribution of Spark has PySpark in its folder `python`; a wheel of PySpark is a whole Spark.
    home = Path(named) if named else package if _has_programs(package) else package.parent.parent
    if not _has_programs(home):
        raise EnvironmentProblem(
            f"{f'SPARK_HOME is {named}, which' if named else f'pyspark in {package}'} has no bin/spark-submit",
            "unset SPARK_HOME to run the Spark of the installed pyspark" if named else "install pyspark again",
        )
    version = read_spark_version()
    if named and version is not None and _version_of(home) not in (version, None):
        raise EnvironmentProblem(
            f"SPARK_HOME is {named} with Spark {_version_of(home)}, and pyspark is of version {version}",
            "unset SPARK_HOME to run the Spark of the installed pyspark, or put $SPARK_HOME/python into PYTHONPATH",
        )
    return home


def _has_programs(home: Path) -> bool:
    return (home / "bin" / "spark-submit").is_file()


def _version_of(home: Path) -> str | None:
    """The version of the Spark in ``home``, by the name of its main jar."""
    found = next(iter(sorted(home.glob("jars/spark-core_*.jar"))), None)
    return None if found is None else found.stem.rpartition("-")[2]


def python_of_workers(spec: SparkSpec, env: Mapping[str, str]) -> str:
    """The Python of tasks: the configured one; on a cluster that of the environment; else this one.

    PySpark itself reads only the variable.
    """
    # Left alone, PySpark starts the `python3` of the path, which may be another Python without our packages.
    is_local = (spec.master or "local").startswith("local")
    return spec.config.get("spark.pyspark.python") or (not is_local and env.get("PYSPARK_PYTHON")) or sys.executable


@dataclass(frozen=True, slots=True)
class SparkRelease:
    """What goes with one version of Spark: its Hadoop, and the AWS SDK which that Hadoop was built with."""

    spark: str
    hadoop: str
    aws_sdk: str
    log_store: str = "ConditionalLogStore.java"

    @property
    def delta(self) -> str:
        """The Maven coordinate of Delta."""
        # The wheel of delta-spark 4.4.1 names jars that Maven Central does not have.
        return f"io.delta:delta-spark_{self.spark}_2.13:4.4.0"

    @property
    def s3(self) -> str:
        """The Maven coordinate of Hadoop's S3 client."""
        return f"org.apache.hadoop:hadoop-aws:{self.hadoop}"

    @property
    def beside_s3(self) -> tuple[str, ...]:
        """The parts of the AWS SDK that the S3 client uses; all of it is one jar of up to 690 MB."""
        parts = ("s3", "s3-transfer-manager", "sts", "apache-client")
        return tuple(f"software.amazon.awssdk:{part}:{self.aws_sdk}" for part in parts)


RELEASES = (
    # Hadoop 3.4.1 has no option for creating an object conditionally; its log store sends the request itself.
    SparkRelease("4.0", "3.4.1", "2.25.70", "hadoop341/ConditionalLogStore.java"),
    SparkRelease("4.1", "3.4.2", "2.29.52"),
    SparkRelease("4.2", "3.5.0", "2.35.4"),
)
"""The versions of Spark that Tidegate supports: those that Delta has jars for."""

DELTA = "delta"
S3 = "s3"
"""Stand for Delta and for Hadoop's S3 client among packages: which jars that are, the installed Spark decides."""

_BESIDE_S3_NOT = ("software.amazon.awssdk:bundle", "io.netty:*", "org.wildfly.openssl:*")
"""What is left out beside the S3 client: the whole AWS SDK in one jar, and what Spark has."""


def read_spark_version() -> str | None:
    """The version of the installed PySpark, without importing it; None if there is none."""
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        return None
    with contextlib.suppress(OSError):
        told = re.search(
            r"""__version__[^=]*=\s*["']([^"']+)""", (Path(found.origin).parent / "version.py").read_text()
        )
        return None if told is None else told.group(1)
    return None


def runtime() -> SparkRelease:
    """What goes with the installed Spark; :class:`EnvironmentProblem` if there is none, or one we do not support."""
    version = read_spark_version()
    if version is None:
        raise EnvironmentProblem("pyspark is not installed", NO_SPARK)
    return check_version(version)


def check_version(version: str) -> SparkRelease:
    """What goes with that version of Spark; :class:`EnvironmentProblem` if we do not support it."""
    for each in RELEASES:
        if version.startswith(f"{each.spark}."):
            return each
    supported = ", ".join(each.spark for each in RELEASES)
    raise EnvironmentProblem(
        f"this is Spark {version}; Tidegate supports {supported}, the versions that Delta Lake has jars for",
        f"pip install 'pyspark>={RELEASES[0].spark},<{_after(RELEASES[-1].spark)}', or append with `--engine local`",
    )


def _after(version: str) -> str:
    """The next minor version."""
    major, minor = version.split(".")
    return f"{major}.{int(minor) + 1}"


def coordinate_of(package: str) -> str:
    """The Maven coordinate of ``package``, which may be ``DELTA`` or ``S3``."""
    if package == DELTA:
        return runtime().delta
    return runtime().s3 if package == S3 else package


def cache_folder() -> Path:
    """The folder of fetched jars: ``$TIDEGATE_HOME``, else ``~/.cache/tidegate``."""
    return Path(os.environ.get("TIDEGATE_HOME") or Path.home() / ".cache" / "tidegate")


def _folder(coordinate: str) -> Path:
    return cache_folder() / "jars" / coordinate.replace(":", "_")


def fetched_jars(package: str = DELTA) -> tuple[Path, ...]:
    """The jars of ``package`` if they were fetched completely, else none."""
    folder = _folder(coordinate_of(package))
    return tuple(sorted(folder.glob("jars/*.jar"))) if (folder / "complete").exists() else ()


def resolve_jars(package: str = DELTA) -> tuple[Path, ...]:
    """The jars of ``package``, resolved through Maven Central the first time; a jar file stands for itself.

    ``EnvironmentProblem`` if they cannot be fetched, or are not the pinned ones.
    """
    if package.endswith(".jar"):
        return (Path(package),)
    coordinate = coordinate_of(package)
    present = fetched_jars(coordinate)
    if present:
        return _check_digests(coordinate, present)
    folder = _folder(coordinate)
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "resolved.py"
    script.write_text("print('resolved')\n")
    home = spark_home()
    # `spark.jars.packages` would resolve through Ivy at every start. This does it once; sessions get the files by
    # `spark.jars`.
    done = subprocess.run(
        [
            str(home / "bin" / "spark-submit"),
            "--master",
            "local[1]",
            "--packages",
            ",".join((coordinate, *(runtime().beside_s3 if package == S3 else ()))),
            "--exclude-packages",
            ",".join(_BESIDE_S3_NOT if package == S3 else ()),
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
            "check that Maven Central or your mirror of it is reachable, and run `tidegate setup` again (Ivy settings:"
            " spark.jars.ivySettings)",
        )
    _check_digests(coordinate, tuple(sorted(folder.glob("jars/*.jar"))))
    # Last: a fetch that was interrupted left jars but not this mark, and is made again.
    (folder / "complete").touch()
    return fetched_jars(coordinate)


@cache
def pinned_digests() -> dict[str, dict[str, str]]:
    """By coordinate: the names of its jars, and their digests (SHA-256)."""
    found: dict[str, dict[str, str]] = {}
    for line in files("tidegate.spark").joinpath("jars.sha256").read_text().splitlines():
        digest, coordinate, name = line.split()
        found.setdefault(coordinate, {})[name] = digest
    return found


def _check_digests(coordinate: str, jars: tuple[Path, ...]) -> tuple[Path, ...]:
    """``jars``, if they are those pinned for ``coordinate``, or none are pinned."""
    wanted = pinned_digests().get(coordinate)
    if wanted is None:
        return jars
    there = {jar.name: _digest(jar) for jar in jars}
    wrong = [name for name in sorted({*wanted, *there}) if wanted.get(name) != there.get(name)]
    if wrong:
        name = wrong[0]
        raise EnvironmentProblem(
            f"{name} of {coordinate} is not the file that Tidegate was tested with: its sha256 is "
            f"{there.get(name, 'missing')}, expected {wanted.get(name, 'no such file')}",
            f"remove {_folder(coordinate)} and start again; if that does not help, the server of the jars (a "
            "mirror, ~/.m2) has other files",
        )
    return jars


def _digest(jar: Path) -> str:
    with jar.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def archive_path(java: Path, spark: Path) -> Path:
    """The path of the archive of Spark's classes for this Java and this Spark."""
    release = java / "release"
    told = release.read_text() if release.is_file() else str(java.resolve())
    digest = hashlib.sha256(f"{told}\n{spark.resolve()}\n{_version_of(spark)}".encode()).hexdigest()[:16]
    return cache_folder() / "classes" / f"{digest}.jsa"


def size_note(archive: Path) -> Path:
    """The file with the size of an archive."""
    return archive.with_suffix(".size")


def archive_options(java: Path, spark: Path, theirs: str = "") -> tuple[str, ...]:
    """The Java options that use that archive, if this user made it; none if ``theirs`` concern archives, too.

    Java checks itself whether the archive fits, and starts without it otherwise; its warnings about that are hidden. A
    truncated one would crash it, so its size must be the recorded one.
    """
    path = archive_path(java, spark)
    with contextlib.suppress(OSError):
        found = path.lstat()
        own = stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022
        own = own and size_note(path).read_text() == str(found.st_size)
        if own and not re.search("-Xshare|SharedArchiveFile|ArchiveClassesAtExit", theirs):
            return (f"-XX:SharedArchiveFile={path}", "-Xshare:auto", "-Xlog:disable")
    return ()


TESTED = tuple(each.driver.package for each in DIALECTS.values() if each.python is not None and each.driver is not None)
"""The drivers that our tests use."""


def packages_of(sources: Iterable[SourceSpec]) -> tuple[str, ...]:
    """The Maven coordinates and jar files that these sources need, each once; configured ones before our own."""
    found: dict[str, None] = {}
    for source in sources:
        if isinstance(source.read, JdbcRead):
            found |= dict.fromkeys(_database_packages(source.read))
    return tuple(found)


def packages_for(pipelines: Sequence[PipelineSpec]) -> tuple[str, ...]:
    """What Spark needs to read or load the sources of these pipelines, and their tables on S3."""
    asked = [(pipeline, source) for pipeline in pipelines for source in pipeline.sources if source.read is not None]
    sources = [source for _, source in asked]
    places = [pipeline.sink.table.uri for pipeline, _ in asked]
    places += [source.read.location.uri for source in sources if isinstance(source.read, TableRead)]
    places += [pipeline.sink.table.uri for pipeline in pipelines if pipeline.sink.name is not None]
    on_s3 = (S3,) if any(uri.startswith("s3:") for uri in places) else ()
    return (*packages_of(sources), *on_s3)


def _database_packages(read: JdbcRead) -> tuple[str, ...]:
    known = dialect_of(read.url).driver
    if read.packages or read.jars:
        return (*read.packages, *read.jars)
    return (known.package,) if known is not None and read.driver in (None, known.name) else ()


CLASS = "tidegate.spark.ConditionalLogStore"
SETTING = "spark.delta.logStore.s3a.impl"

_COMPILER = "org.codehaus.commons.compiler.samples.CompilerDemo"


def log_store_jar() -> Path:
    """The jar with the log store, compiled the first time."""
    of = runtime()
    source = files("tidegate.spark").joinpath(of.log_store).read_bytes()
    # A new source or version gives a new name, so that no session runs the log store of another version.
    digest = hashlib.sha256(source + f"{of.delta} {of.s3}".encode()).hexdigest()[:12]
    jar = cache_folder() / "jars" / f"conditional-log-store-{digest}.jar"
    if not jar.exists():
        jar.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=jar.parent) as folder:
            _compile(source, Path(folder))
            # Several processes may compile at the same time; each puts a whole jar into its place.
            os.replace(_pack_classes(Path(folder)), jar)
    return jar


def _compile(source: bytes, folder: Path) -> None:
    """The classes of ``source``, in ``folder`` below the directories of their package."""
    written = folder / "ConditionalLogStore.java"
    written.write_bytes(source)
    of_spark = spark_home() / "jars"
    needed = [*sorted(of_spark.glob("*.jar")), *resolve_jars(DELTA), *resolve_jars(S3)]
    command = [str(find_java() / "bin" / "java"), "-cp", f"{of_spark}/*", _COMPILER]
    command += ["-d", str(folder), "-classpath", os.pathsep.join(map(str, needed)), str(written)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not list(folder.glob("**/*.class")):
        raise EnvironmentProblem(
            f"the log store for tables on S3 could not be compiled: {(done.stderr or done.stdout).strip()[:500]}",
            "reinstall pyspark in a version that Tidegate supports",
        )


def _pack_classes(folder: Path) -> Path:
    packed = folder / "packed.jar"
    with zipfile.ZipFile(packed, "w") as archive:
        for each in folder.glob("**/*.class"):
            archive.write(each, each.relative_to(folder))
    return packed


def _main() -> None:
    for each in (DELTA, S3, *TESTED):
        print(f"{len(resolve_jars(each))} jars in {_folder(coordinate_of(each)) / 'jars'}")
    print(f"the log store for tables on S3 in {log_store_jar()}")


if __name__ == "__main__":
    _main()
