"""How a test server is started: in a directory of its own with its log, again if another program took its port."""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

ATTEMPTS = 3
LOG = "log.txt"

Server = TypeVar("Server")


class NotStarted(Exception):
    """The server did not answer; the argument is what its log ends with."""


def free_ports(count: int) -> list[int]:
    """Ports of the loopback that nobody listens at."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@contextlib.contextmanager
def process_in(
    directory: Path, command: list[str], end: signal.Signals = signal.SIGKILL, **settings: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """A server's process; ended at once with the block, for its data is thrown away."""
    with (directory / LOG).open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=directory, **settings)
    try:
        yield process
    finally:
        process.send_signal(end)
        process.wait()


def wait_until(
    answers: Callable[[], object],
    process: subprocess.Popen[bytes],
    directory: Path,
    seconds: float,
    *failures: type[Exception],
) -> None:
    """Ask until none of these failures comes; :class:`NotStarted` after so many seconds, or when the process ended."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(*failures):
            answers()
            return
        time.sleep(0.1)
    raise NotStarted((directory / LOG).read_text(errors="replace")[-3000:])


@contextlib.contextmanager
def started_in_a_new_directory(
    started: Callable[[Path], AbstractContextManager[Server]], prefix: str
) -> Iterator[Server]:
    """A server that answers, ended with the block, and its directory removed."""
    for attempt in range(1, ATTEMPTS + 1):
        directory = Path(tempfile.mkdtemp(prefix=prefix))
        with contextlib.ExitStack() as stack:
            stack.callback(shutil.rmtree, directory, ignore_errors=True)
            try:
                server = stack.enter_context(started(directory))
            except NotStarted:
                if attempt == ATTEMPTS:
                    raise
                continue
            yield server
            return
