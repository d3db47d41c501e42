"""How a test server is started: in a directory of its own, again if another program took its port."""

from __future__ import annotations

import contextlib
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar

ATTEMPTS = 3

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
