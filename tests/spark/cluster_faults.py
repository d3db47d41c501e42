"""Runs on one small cluster, each with its own fault: ``python cluster_faults.py FOLDER``.

FOLDER holds a folder per scenario with its configuration. Tasks arm failpoints by their number and attempt, so that a
fault befalls the first attempt and not the next. Prints what each run reported, as JSON.

Master and workers live in the driver's JVM, as with ``local-cluster``; executors are processes of their own. Unlike
there, the two workers have different addresses: Spark makes no second copy of a task on the host of the first.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import psutil

import tidegate
from tidegate.spark import tasks
from tidegate.spark.jars import find_java
from tidegate.spark.session import open_session
from tidegate.spark.tasks import Packed
from tidegate.specs.locations import Options
from tidegate.specs.project import SparkSpec

SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.task.maxFailures": "3",
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.minTaskRuntime": "6s",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.task.duration.threshold": "6s",
}
Faults = Callable[[int, int], str]
"""(number, attempt) to the failpoints that are armed in that task; each task is a job of its own."""


class Saboteur(Packed):
    """The task's function, which notes that the attempt began and arms what befalls it."""

    def __init__(self, faults: Faults, notes: Path, number: int, *needs: Any) -> None:
        super().__init__(*needs)
        self.faults, self.notes, self.number = faults, notes, number

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        from tidegate import failpoints

        task = TaskContext.get()
        assert task is not None
        failpoints.arm(self.faults(self.number, task.attemptNumber()))
        (self.notes / f"{self.number}-{task.attemptNumber()}").touch()
        yield from super().__call__(batches)


def kill_an_executor(notes: Path) -> None:
    """Once two tasks are reading, SIGKILL to one of the executors' processes."""
    while len(list(notes.iterdir())) < 2:
        time.sleep(0.05)
    time.sleep(1)
    (executor, *_) = executors()
    os.kill(executor, signal.SIGKILL)
    (notes / "executor-killed").touch()


def executors() -> list[int]:
    """The executors' processes: children of the JVM that this process started."""
    found: list[int] = []
    for each in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if "CoarseGrainedExecutorBackend" in " ".join(each.cmdline()):
                found.append(each.pid)
    return sorted(found)


SCENARIOS: dict[str, Faults] = {
    "raised": lambda number, attempt: "" if attempt else "sink.upload.after=raise",
    "worker-killed": lambda number, attempt: "sink.unit.after=kill" if (number, attempt) == (0, 0) else "",
    "speculated": lambda number, attempt: "sink.unit.after=sleep:30" if (number, attempt) == (0, 0) else "",
    "given-up": lambda number, attempt: "sink.unit.after=raise",
    "executor-lost": lambda number, attempt: "sink.unit.after=sleep:5" if number < 2 and not attempt else "",
}


def run(folder: Path, name: str) -> dict[str, Any]:
    """One run with the scenario's faults."""
    faults, notes = SCENARIOS[name], folder / name / "attempts"
    notes.mkdir()
    numbers = count()
    tasks.Packed = lambda *needs: Saboteur(faults, notes, next(numbers), *needs)  # type: ignore[misc,assignment]
    killer = threading.Thread(target=kill_an_executor, args=(notes,), daemon=True)
    if name == "executor-lost":
        killer.start()
    (source,) = tidegate.run(folder / name / "tidegate.yml").sources
    return {"rows": source.rows, "error": source.error, "attempts": sorted(each.name for each in notes.iterdir())}


def start_cluster(work: Path) -> str:
    """A master and two workers with one core each; gives the master's address."""
    from pyspark import SparkContext

    os.environ["JAVA_HOME"] = str(find_java())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    SparkContext._ensure_initialized()
    jvm: Any = SparkContext._jvm
    deploy, conf = jvm.org.apache.spark.deploy, jvm.org.apache.spark.SparkConf()
    conf.set("spark.master.rest.enabled", "false").set("spark.ui.enabled", "false")
    master = deploy.master.Master.startRpcEnvAndEndpoint("127.0.0.1", 0, 0, conf)._1().address().toSparkURL()
    masters = SparkContext._gateway.new_array(jvm.java.lang.String, 1)  # type: ignore[union-attr]
    masters[0] = master
    nothing = jvm.scala.Option.empty()
    for number, host in enumerate(("127.0.0.1", "127.0.0.2"), 1):
        place = str(work / str(number))
        numbered = jvm.scala.Option.apply(number)
        deploy.worker.Worker.startRpcEnvAndEndpoint(host, 0, 0, 1, 1024, masters, place, numbered, conf, nothing)
    return str(master)


def main(folder: Path) -> None:
    session = open_session(SparkSpec(master=start_cluster(folder / "work"), config=Options(SETTINGS)))
    try:
        print(json.dumps({name: run(folder, name) for name in SCENARIOS}))
    finally:
        session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
