"""Worker processes that cost milliseconds: one process imports everything and forks a worker for each task.

For experiments that kill hundreds of processes. The forking process never opens a table itself: the libraries below
survive a fork only while unused. A worker leads its own session, so that it can be killed together with everything that
it started.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Any, NoReturn, Self

HEAVY = (
    "deltalake",
    "isal.igzip",
    "pandas",
    "pyarrow.compute",
    "pyarrow.pandas_compat",
    "pyarrow.parquet",
    "tidegate.config",
    "tidegate.config.project",
    "tidegate.runs.loop",
    "tidegate.protocol.delta",
)


class Workers:
    """Starts workers that call ``target`` (``module:function``) with a task; use it as a context manager.

    The function gets a JSON object and returns the exit code.
    """

    def __init__(self, target: str, folder: str | None = None) -> None:
        self._target = target
        self._folder = folder
        self._log: IO[str]
        self._server: subprocess.Popen[str]

    def __enter__(self) -> Self:
        self._log = tempfile.TemporaryFile("w+")  # closed by __exit__
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tidegate.experiments.workers", self._target],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=self._folder,
        )
        return self

    def __exit__(self, *error: object) -> None:
        # The process that forks may have ended before us.
        with suppress(BrokenPipeError):
            self._server.communicate()
        self._log.close()

    def start(self, task: Mapping[str, Any]) -> int:
        """Start a worker and return its process id, which is also its session id."""
        return int(self._ask({"start": task}))

    def wait(self, pid: int) -> int:
        """The exit code of a worker once it ended, negative for a signal; its id is invalid after this."""
        return int(self._ask({"wait": pid}))

    def last_lines(self) -> str:
        """The last lines that workers wrote to standard error."""
        self._log.seek(0)
        return self._log.read()[-2000:]

    def _ask(self, question: Mapping[str, Any]) -> str:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(question) + "\n")
        self._server.stdin.flush()
        answer = self._server.stdout.readline()
        if not answer:
            raise RuntimeError(f"the process that forks workers is gone: {self.last_lines()}")
        return answer


def kill_session(session: int) -> None:
    """Send SIGKILL to every process of a session: a worker, or a whole tree with Java and Python workers."""
    for pid in _members(session):
        # A member may end by itself between the look and the signal.
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _members(session: int) -> list[int]:
    """The processes of a session, by ``/proc``; without it, the leader."""
    if not os.path.isdir("/proc/self"):
        return [session]
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError), open(f"/proc/{name}/stat") as file:
            # The program's name, in parentheses, may contain blanks and parentheses itself.
            if int(file.read().rpartition(")")[2].split()[3]) == session:
                found.append(int(name))
    return found


def _serve(target: str) -> None:
    """Fork a worker for each line on standard input; answer each line with a number."""
    module, _, name = target.partition(":")
    work = getattr(importlib.import_module(module), name)
    # Imported and not used: in a child of a process that used them, deltalake panics and obstore hangs.
    for heavy in HEAVY:
        importlib.import_module(heavy)
    for line in sys.stdin:
        match json.loads(line):
            case {"start": task}:
                answer = _fork(work, task)
            case {"wait": pid}:
                answer = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        print(answer, flush=True)


def _fork(work: Any, task: Mapping[str, Any]) -> int:
    """Fork a worker for the task and return its process id, once it leads its session."""
    ready, begun = os.pipe()
    pid = os.fork()
    if not pid:
        os.setsid()
        os.close(begun)
        _in_worker(work, task)
    os.close(begun)
    # Returns once the child has closed its end, as leader of its session; a kill before that would miss it.
    os.read(ready, 1)
    os.close(ready)
    return pid


def _in_worker(work: Any, task: Mapping[str, Any]) -> NoReturn:
    """Do the task and end."""
    code = 70
    try:
        # Standard output carries the answers of the forking process: a worker's print would be taken for one.
        quiet = os.open(os.devnull, os.O_RDWR)
        os.dup2(quiet, 0)
        os.dup2(quiet, 1)
        code = int(work(task))
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        # Without Python's clean-up: exit handlers and buffered output belong to the parent.
        os._exit(code)


if __name__ == "__main__":
    _serve(sys.argv[1])
