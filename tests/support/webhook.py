"""A real HTTP server that takes messages, and answers as a test tells it to."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Webhook:
    """What arrived; ``answers`` are the status codes of the next requests, then 200. ``hangs`` keeps them waiting."""

    port: int = 0
    answers: list[int] = field(default_factory=list)
    body: bytes = b"ok"
    location: str = ""
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    hangs: threading.Event | None = None

    @property
    def url(self) -> str:
        """An address of this server with a key in it."""
        return f"http://127.0.0.1:{self.port}/services/T0/B0/sEcReTkEy12345678"

    @property
    def reasons(self) -> list[list[str]]:
        """The reasons of each message, source by source."""
        return [
            [f"{source['pipeline']}: {each['reason']}" for source in message["sources"] for each in source["reasons"]]
            for message in self.messages
        ]


@contextmanager
def serve_webhook() -> Iterator[Webhook]:
    """A server while inside."""
    hook = Webhook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            hook.requests.append((self.path, dict(self.headers)))
            if hook.hangs is not None:
                hook.hangs.wait(60)
            code = hook.answers.pop(0) if hook.answers else 200
            if code == 200:
                hook.messages.append(json.loads(content))
            self.send_response(code)
            if hook.location:
                self.send_header("Location", hook.location)
            self.send_header("Content-Length", str(len(hook.body)))
            self.end_headers()
            self.wfile.write(hook.body)

        def do_GET(self) -> None:
            self.do_POST()

        def log_message(self, *given: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *given: object) -> None:
            """A client that gave up is part of the tests."""

    server = Server(("127.0.0.1", 0), Handler)
    hook.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield hook
    finally:
        if hook.hangs is not None:
            hook.hangs.set()
        server.shutdown()
        server.server_close()
        thread.join()
