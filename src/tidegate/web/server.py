"""A small HTTP server in a thread: a page is a function that gives an answer. Reads nothing but the path."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler

from tidegate.errors import ConfigError, EnvironmentProblem

PATIENCE_SECS = 10.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a page says."""

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
    pages: Pages


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

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not logged."""


@contextlib.contextmanager
def serving(address: str, pages: Pages) -> Iterator[str]:
    """Serves ``pages`` at ``host:port`` while inside; gives the address, with the port that was chosen for 0.

    ``EnvironmentProblem`` when nobody may listen there.
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
