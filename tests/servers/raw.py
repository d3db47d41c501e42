"""A server on loopback that answers with any bytes at all: no HTTP library is in the way."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from collections.abc import Iterator, Sequence


class RawServer(socketserver.ThreadingTCPServer):
    """``answers`` are given in turn, the last one again and again; ``asked`` has the first line of every request."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: Sequence[bytes] = ()
        self.asked: list[bytes] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def answer(self, first_line: bytes) -> bytes:
        self.asked.append(first_line)
        return self.answers[min(len(self.asked), len(self.answers)) - 1]

    def begin(self, answers: Sequence[bytes]) -> None:
        """Answer so from now on."""
        self.answers, self.asked = answers, []


class _Handler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        taken = b""
        while b"\r\n\r\n" not in taken:
            chunk = self.request.recv(65536)
            if not chunk:
                return
            taken += chunk
        assert isinstance(self.server, RawServer)
        with contextlib.suppress(OSError):
            self.request.sendall(self.server.answer(taken.partition(b"\r\n")[0]))
            self.request.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def running() -> Iterator[RawServer]:
    """The server, which ends with the block."""
    with RawServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
