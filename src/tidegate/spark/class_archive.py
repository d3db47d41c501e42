"""An archive of the classes that Spark loads, made once for a Java and a Spark: sessions start sooner with it.

Between a command and its first task, Java finds, checks and loads more than ten thousand classes. With class data
sharing it maps them from a file instead. The file is made by a session that does what every session does first, and
written as its Java ends. It belongs to that Java and those jars; with others, Java starts as if it were not there.

``python -m tidegate.spark.class_archive FILE`` is such a session.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from tidegate.errors import EnvironmentProblem
from tidegate.spark.jars import archive_options, archive_path, find_java, size_note, spark_home
from tidegate.spark.session import end_jvm, open_session
from tidegate.spark.tasks import run_tasks, slot_frame, slot_numbers
from tidegate.specs.locations import Options
from tidegate.specs.project import SparkSpec

_SECONDS = 600


def make_archive() -> Path:
    """The archive for the Java and the Spark that sessions start with, made if there is none.

    :class:`EnvironmentProblem` where that Java makes none; sessions start without it then.
    """
    java, spark = find_java(), spark_home()
    target = archive_path(java, spark)
    if archive_options(java, spark):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / "classes.jsa"
        command = [sys.executable, "-m", "tidegate.spark.class_archive", str(made)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            raise EnvironmentProblem(
                "Java did not finish an archive of Spark's classes within ten minutes", _REMEDY
            ) from None
        if not made.is_file():
            told = [line for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()][-1:]
            raise EnvironmentProblem(f"Java made no archive of Spark's classes: {''.join(told)}", _REMEDY)
        made.chmod(0o600)
        size_note(target).write_text(str(made.stat().st_size))
        os.replace(made, target)
    return target


_REMEDY = "nothing depends on it: Spark starts without it, but more slowly"


def _main() -> None:
    options = shlex.quote(f"-XX:ArchiveClassesAtExit={sys.argv[1]}")
    session = open_session(SparkSpec(master="local[1]", config=Options({"spark.driver.extraJavaOptions": options})))
    run_tasks(slot_frame(session, 1), slot_numbers)
    session.stop()
    end_jvm(_SECONDS)


if __name__ == "__main__":
    _main()
