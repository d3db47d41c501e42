"""A small HTTP server in a thread: a page is a function that returns an answer. It reads only the path.

It keeps a bounded number of connections, each for a bounded time: many silent or slow clients cost a few threads and do
not keep others from an answer.
"""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any

from tidegate.errors import ConfigError, EnvironmentProblem

PATIENCE_SECS = 10.0
"""The longest time for a request and its answer."""

MOST_CONNECTIONS = 32
"""Connections at once; a further one closes the connection that has waited longest for its request."""

_MOST_HEADER_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """The response of a page."""

    status: int
    content_type: str
    body: bytes


Pages = Mapping[str, Callable[[], Answer]]


def text(body: str, status: int = 200) -> Answer:
    """Plain text."""
    return Answer(status, "text/plain; charset=utf-8", body.encode())


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128
    pages: Pages
    patience_secs = PATIENCE_SECS

    def __init__(self, *given: Any) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[int, socket.socket] = {}
        self._slots = threading.Semaphore(MOST_CONNECTIONS)
        super().__init__(*given)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, as soon as one is free."""
        taken = self._slots.acquire(blocking=False)
        while not taken:
            self._close_oldest()
            taken = self._slots.acquire(timeout=0.05)
        with self._lock:
            self._waiting[id(request)] = request
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self._ended(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """The work of the thread; cuts off a client that is too slow."""
        ending = threading.Timer(self.patience_secs, _cut_off, [request])
        ending.daemon = True
        ending.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            ending.cancel()
            self._ended(request)

    def is_asked(self, request: Any) -> None:
        """Mark the request as complete: it is answered, whoever else waits."""
        with self._lock:
            self._waiting.pop(id(request), None)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that went away or was cut off."""

    def _close_oldest(self) -> None:
        with self._lock:
            oldest = next(iter(self._waiting), None)
            request = None if oldest is None else self._waiting.pop(oldest)
        if request is not None:
            _cut_off(request)

    def _ended(self, request: Any) -> None:
        with self._lock:
            self._waiting.pop(id(request), None)
        self._slots.release()


def _cut_off(request: socket.socket) -> None:
    with contextlib.suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    timeout = PATIENCE_SECS
    server_version = "tidegate"
    sys_version = ""

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        assert isinstance(self.server, _Server)
        self.server.is_asked(self.request)
        pages = self.server.pages
        page = pages.get(self.path.partition("?")[0])
        try:
            answer = text(f"there is: {', '.join(pages)}\n", 404) if page is None else page()
        except Exception as error:
            answer = text(f"{type(error).__name__}\n", 500)
        with contextlib.suppress(OSError):
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.content_type)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            if with_body:
                self.wfile.write(answer.body)

    def parse_request(self) -> bool:
        """Read the headers, if their size is reasonable."""
        counted = _Counted(self.rfile, _MOST_HEADER_BYTES)
        self.rfile = counted  # type: ignore[assignment]  # it reads lines, which is enough
        if not super().parse_request():
            return False
        if counted.left < 0:
            self.send_error(431)
            return False
        return True

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not logged."""


class _Counted:
    """Returns lines up to a number of bytes, then the end."""

    def __init__(self, lines: Any, most: int) -> None:
        self._lines = lines
        self.left = most

    def readline(self, size: int = -1) -> bytes:
        """The next line; an empty one, which ends the headers, after too many bytes."""
        if self.left < 0:
            return b""
        line: bytes = self._lines.readline(min(size, self.left + 1) if size >= 0 else self.left + 1)
        self.left -= len(line)
        return line if self.left >= 0 else b""

    def close(self) -> None:
        """Close the stream."""
        self._lines.close()


@contextlib.contextmanager
def serving(address: str, pages: Pages) -> Iterator[str]:
    """Serve ``pages`` at ``host:port`` while inside; yields the address, with the chosen port for 0.

    ``EnvironmentProblem`` if the address cannot be used.
    """
    server = _listening(address)
    server.pages = pages
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="metrics", daemon=True)
    thread.start()
    try:
        yield f"{address.rpartition(':')[0]}:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _listening(address: str) -> _Server:
    host, _, port = address.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")

    class Server(_Server):
        address_family = socket.AF_INET6 if ":" in bare else socket.AF_INET

    try:
        return Server((bare, int(port)), _Handler)
    except (ValueError, OverflowError) as error:
        raise ConfigError((f"cannot serve at {address!r}; allowed: host:port, such as 127.0.0.1:9090",)) from error
    except OSError as error:
        raise EnvironmentProblem(
            f"cannot serve metrics at {address}: {error.strerror}",
            "end what listens there, or choose another metrics.address; nothing was begun",
        ) from error
