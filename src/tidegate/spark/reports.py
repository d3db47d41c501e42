"""Reports of tasks to the driver that cannot wait for the end of a job: results of a task with more to read, bytes
read, and uploads.

Spark returns results when a job ends. A job per group of files would cost more than many a group, so a task reads
several, and reports each over a socket of the driver as soon as it is written. Nothing relies on it: all reports come
again at the end of the job, and the driver takes each result once. If tasks cannot reach the driver, they read one
group each.

Every message has a digest with a key that only the tasks have, over a number that the driver chose for the connection:
nobody else can send one, and none can be sent twice.
"""

from __future__ import annotations

import hmac
import pickle
import secrets
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tidegate.tasks.read_task import Hear, TaskActivity

CONNECT_SECONDS = 3.0
REPLY_SECONDS = 600.0
"""How long a task waits for permission to continue; the driver may be in the middle of a commit."""

_SIZE = struct.Struct(">I")
_DIGEST = 32
_NONCE = 16
_LONGEST = 1 << 30
_LONGEST_GREETING = 1024
"""The longest first message, whose sender may be anybody until its digest is checked."""


class _ReportConnection:
    """Messages over a socket, each with a digest."""

    def __init__(self, connection: socket.socket, key: bytes, nonce: bytes, *, of_task: bool) -> None:
        self._connection = connection
        self._key = key
        self._own, self._other = (b"task", b"driver") if of_task else (b"driver", b"task")
        self._nonce = nonce
        self._sent = self._received = 0

    def send(self, message: object) -> None:
        content = pickle.dumps(message)
        self._connection.sendall(_SIZE.pack(len(content)) + self._digest(self._own, self._sent, content) + content)
        self._sent += 1

    def receive(self) -> Any:
        (size,) = _SIZE.unpack(_exactly(self._connection, _SIZE.size))
        if size > (_LONGEST if self._received else _LONGEST_GREETING):
            raise ConnectionError("a message that is too long")
        digest, content = _exactly(self._connection, _DIGEST), _exactly(self._connection, size)
        # Before unpickling, which would run whatever code a stranger sent.
        if not hmac.compare_digest(digest, self._digest(self._other, self._received, content)):
            raise ConnectionError("a message with a wrong digest")
        self._received += 1
        return pickle.loads(content)

    def _digest(self, side: bytes, number: int, content: bytes) -> bytes:
        # With side, nonce and number, no message can be sent back to its author, repeated or reordered.
        return hmac.digest(self._key, side + self._nonce + _SIZE.pack(number) + content, "sha256")


def _exactly(connection: socket.socket, size: int) -> bytes:
    content = bytearray()
    while len(content) < size:
        part = connection.recv(size - len(content))
        if not part:
            raise ConnectionError("the other side is gone")
        content += part
    return bytes(content)


@dataclass(frozen=True, slots=True)
class ReportAddress:
    """The address for reports of one job's tasks; picklable, and secret."""

    address: tuple[str, int]
    key: bytes
    job: int

    def open(self) -> TaskReport | None:
        """The connection of a task; None if the driver cannot be reached."""
        try:
            connection = socket.create_connection(self.address, timeout=CONNECT_SECONDS)
        # A cluster may not let its workers reach the driver; the results then come with the end of the job.
        except OSError:
            return None
        try:
            line = _ReportConnection(connection, self.key, _exactly(connection, _NONCE), of_task=True)
            line.send(self.job)
            connection.settimeout(REPLY_SECONDS)
            return TaskReport(connection, line)
        except OSError:
            connection.close()
            return None


class TaskReport:
    """The task's end of a connection; after a failure nothing more is sent. Thread-safe."""

    def __init__(self, connection: socket.socket, line: _ReportConnection) -> None:
        self._connection: socket.socket | None = connection
        self._line = line
        self._sending = threading.Lock()

    def result(self, number: int, results: object) -> None:
        """Hand over the results of part ``number`` of the job, and wait for permission to continue."""
        if self._send((number, results)):
            try:
                self._line.receive()
            except OSError:
                self.close()

    def activity(self, now: TaskActivity) -> None:
        """Report the activity of the task."""
        self._send(now)

    def _send(self, message: object) -> bool:
        with self._sending:
            if self._connection is None:
                return False
            # A report that is lost costs nothing: the job brings the same results again.
            try:
                self._line.send(message)
                return True
            except OSError:
                self.close()
                return False

    def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class ActiveTasks:
    """The activity of all tasks, added up; ``hear`` gets every change."""

    def __init__(self, hear: Hear) -> None:
        self._hear = hear
        self._by_task: dict[object, TaskActivity] = {}
        self._lock = threading.Lock()

    def tell(self, task: object, now: TaskActivity) -> None:
        """Record the activity of a task."""
        with self._lock:
            self._by_task[task] = now
            self._add_up()

    def end(self, task: object) -> None:
        """Forget a task that is over."""
        with self._lock:
            if self._by_task.pop(task, TaskActivity()) != TaskActivity():
                self._add_up()

    def _add_up(self) -> None:
        self._hear(sum(self._by_task.values(), TaskActivity()))


Receive = Callable[[int, Any], None]


class ReportListener:
    """The driver's end: listens while it is open, and passes reports to whoever waits for those of a job."""

    def __init__(self, host: str, bind: str) -> None:
        self._socket = socket.create_server((bind, 0))
        self._address = (host, self._socket.getsockname()[1])
        self._key = secrets.token_bytes(_DIGEST)
        self._receivers: dict[int, tuple[Receive, ActiveTasks]] = {}
        self._jobs = 0
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, name="reports", daemon=True).start()

    def expect(self, receive: Receive, active: ActiveTasks) -> ReportAddress:
        """The address for the tasks of a job. ``receive`` may wait: the task continues when it returns."""
        with self._lock:
            self._jobs += 1
            self._receivers[self._jobs] = (receive, active)
            return ReportAddress(self._address, self._key, self._jobs)

    def forget(self, job: ReportAddress) -> None:
        """Stop receiving for a finished job."""
        with self._lock:
            self._receivers.pop(job.job, None)

    def close(self) -> None:
        """Close all connections."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread in accept
        self._socket.close()
        with self._lock:
            for connection in self._connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), name="report", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with self._lock:
            self._connections.add(connection)
        active: ActiveTasks | None = None
        try:
            connection.settimeout(CONNECT_SECONDS)
            nonce = secrets.token_bytes(_NONCE)
            connection.sendall(nonce)
            line = _ReportConnection(connection, self._key, nonce, of_task=False)
            job = line.receive()
            # A task that proved who it is may be silent for as long as one file takes.
            connection.settimeout(None)
            while True:
                message = line.receive()
                receive, active = self._receivers.get(job) or (None, active)
                if isinstance(message, TaskActivity):
                    if receive is not None and active is not None:
                        active.tell(connection, message)
                    continue
                if receive is not None:
                    receive(*message)
                # Also for a job that was forgotten: its task must not wait for an answer until the time-out.
                line.send(True)
        except OSError:
            pass
        finally:
            if active is not None:
                active.end(connection)
            with self._lock:
                self._connections.discard(connection)
            connection.close()
