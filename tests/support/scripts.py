"""Python programs in processes of their own that cost milliseconds: forked by one that has imported everything.

For programs that are killed, stopped or raced. Where the test is about the process itself (what it imports, what a
terminal shows, how it ends), start a new one instead.
"""

from __future__ import annotations

import atexit
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tidegate import failpoints
from tidegate.experiments.workers import Workers
from tidegate.storage import local

TESTS = Path(__file__).parents[1]


class Process:
    """A program that runs; what ``subprocess.Popen`` can do, as far as tests need it."""

    def __init__(self, pid: int, output: Path) -> None:
        self.pid, self._output = pid, output
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        if self.returncode is None and self._state() == "Z":
            self.returncode = _workers().wait(self.pid)
        return self.returncode

    def wait(self, timeout: float = 180) -> int:
        """The exit code, once it ended."""
        return self._wait_for("Z", timeout)

    def wait_until_stopped(self, timeout: float = 180) -> None:
        """Until the program has sent itself to sleep; fails where it ends instead."""
        self._wait_for("T", timeout)
        assert self.returncode is None, f"it ended instead, with {self.returncode}: {self.output}"

    def _wait_for(self, state: str, timeout: float) -> int:
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if state == "T" and self._state() == "T":
                return 0
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout, self.output)
            time.sleep(0.005)
        return code

    def _state(self) -> str:
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]

    @property
    def output(self) -> str:
        """What it wrote to standard output and standard error so far."""
        return self._output.read_text()

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start(*words: str | Path, failpoints: str = "", env: Mapping[str, str] | None = None) -> Process:
    """Begin what ``python WORDS`` would do: a file, ``-c`` and a text, or ``-m`` and a module, then arguments."""
    handle, output = tempfile.mkstemp(dir=_folder())
    os.close(handle)
    task = {
        "words": [str(word) for word in words],
        "environment": {**os.environ, **(env or {}), "TIDEGATE_FAILPOINTS": failpoints},
        "output": output,
    }
    return Process(_workers().start(task), Path(output))


def run(*words: str | Path, failpoints: str = "", env: Mapping[str, str] | None = None) -> int:
    """The exit code of what ``python WORDS`` would do, negative for the signal that ended it."""
    return start(*words, failpoints=failpoints, env=env).wait()


@cache
def _folder() -> str:
    folder = tempfile.TemporaryDirectory(prefix="tidegate-scripts-")
    atexit.register(folder.cleanup)
    return folder.name


@cache
def _workers() -> Workers:
    workers = Workers("support.scripts:work", str(TESTS))
    atexit.register(workers.__exit__)
    return workers.__enter__()


def work(task: Mapping[str, Any]) -> int:
    """Be the program: in a process that was forked for it."""
    os.environ.clear()
    os.environ.update(task["environment"])
    output = os.open(task["output"], os.O_WRONLY)
    os.dup2(output, 1)
    os.dup2(output, 2)
    failpoints.arm(os.environ[failpoints.VARIABLE])
    local.force = lambda descriptor: None  # a process that is killed loses nothing that it wrote
    kind, *words = task["words"]
    try:
        match kind:
            case "-m":
                sys.argv = words
                runpy.run_module(words[0], run_name="__main__", alter_sys=True)
            case "-c":
                sys.argv = ["-c", *words[1:]]
                exec(compile(words[0], "<program>", "exec"), {"__name__": "__main__"})
            case _:
                sys.argv = [kind, *words]
                runpy.run_path(kind, run_name="__main__")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0
