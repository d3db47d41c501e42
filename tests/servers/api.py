"""A real HTTP API on loopback that misbehaves when told to, and logs every request.

``routes`` maps a path to a function that answers a request; ``faults`` are used up before, one per request of a path.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it arrived."""

    method: str
    path: str
    params: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any
    at: float


@dataclass(frozen=True, slots=True)
class Answer:
    """What is sent back. ``cut`` bytes are left out at the end, with or without a length that tells it.

    ``wait`` is slept before; ``is_hidden`` leaves out the length, so that a cut shows in the content alone.
    """

    content: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    kind: str | None = JSON
    cut: int = 0
    is_hidden: bool = False
    wait: float = 0.0
    is_reset: bool = False
    is_zipped: bool = False

    @property
    def payload(self) -> bytes:
        return self.content if isinstance(self.content, bytes) else json.dumps(self.content).encode()


Route = Callable[[Asked], Answer]


@dataclass(slots=True)
class Api:
    """The running server."""

    port: int = 0
    routes: dict[str, Route] = field(default_factory=dict)
    faults: dict[str, deque[Answer]] = field(default_factory=lambda: defaultdict(deque))
    asked: list[Asked] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def to(self, path: str) -> list[Asked]:
        """The requests to one path, in order."""
        return [each for each in self.asked if each.path == path]

    def answer(self, asked: Asked) -> Answer:
        with self.lock:
            self.asked.append(asked)
            if self.faults[asked.path]:
                return self.faults[asked.path].popleft()
        route = self.routes.get(asked.path)
        return Answer({"error": "no such path"}, 404) if route is None else route(asked)


def _handler(api: Api) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            self._serve()

        def do_POST(self) -> None:
            self._serve()

        def log_message(self, format: str, *args: object) -> None:
            """The log is ``api.asked``."""

        def _serve(self) -> None:
            taken = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            address = urlsplit(self.path)
            kind = self.headers.get("Content-Type", "")
            body: Any = None
            if taken:
                body = json.loads(taken) if kind.startswith(JSON) else dict(parse_qsl(taken.decode()))
            params = dict(parse_qsl(address.query, keep_blank_values=True))
            headers = {name.lower(): value for name, value in self.headers.items()}
            self._send(api.answer(Asked(self.command, address.path, params, headers, body, time.monotonic())))

        def _send(self, answer: Answer) -> None:
            if answer.wait:
                time.sleep(answer.wait)
            if answer.is_reset:
                self.close_connection = True
                return
            payload = gzip.compress(answer.payload) if answer.is_zipped else answer.payload
            self.send_response(answer.status)
            if answer.kind:
                self.send_header("Content-Type", answer.kind)
            if answer.is_zipped:
                self.send_header("Content-Encoding", "gzip")
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if answer.is_hidden:
                self.send_header("Connection", "close")
            else:
                self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self.wfile.write(payload[: len(payload) - answer.cut])
            if answer.cut or answer.is_hidden:
                self.close_connection = True

    return Handler


@contextlib.contextmanager
def running() -> Iterator[Api]:
    """A server until the end of the block."""
    api = Api()

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, request: object, client_address: object) -> None:
            """A client that goes away in the middle is part of the play."""

    server = Server(("127.0.0.1", 0), _handler(api))
    api.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()


def whole(records: Sequence[Mapping[str, Any]]) -> Route:
    """Everything in one answer."""
    return lambda asked: Answer({"data": list(records)})


def by_offset(records: Sequence[Mapping[str, Any]], most: int = 1000) -> Route:
    """``offset`` and ``limit``; never more than ``most``, whatever is asked; tells the total."""

    def route(asked: Asked) -> Answer:
        begin = int(asked.params.get("offset", "0"))
        size = min(int(asked.params.get("limit", "1000")), most)
        return Answer({"data": list(records[begin : begin + size]), "total": len(records)})

    return route


def by_page(records: Sequence[Mapping[str, Any]], most: int = 1000) -> Route:
    """``page`` from 1 and ``limit``; never more than ``most``."""

    def route(asked: Asked) -> Answer:
        size = min(int(asked.params.get("limit", "1000")), most)
        begin = (int(asked.params.get("page", "1")) - 1) * size
        return Answer({"data": list(records[begin : begin + size])})

    return route


def by_cursor(records: Sequence[Mapping[str, Any]], size: int) -> Route:
    """An opaque cursor in ``paging.next``."""

    def route(asked: Asked) -> Answer:
        cursor = asked.params.get("after")
        begin = int(base64.b64decode(cursor)) if cursor else 0
        end = begin + size
        following = base64.b64encode(str(end).encode()).decode() if end < len(records) else None
        return Answer({"data": list(records[begin:end]), "paging": {"next": following}})

    return route


def by_link(records: Sequence[Mapping[str, Any]], size: int, base: str = "", *, in_header: bool = False) -> Route:
    """A link to the next page, in the answer or in the ``Link`` header; relative unless there is a ``base``."""

    def route(asked: Asked) -> Answer:
        begin = int(asked.params.get("from", "0"))
        end = begin + size
        link = f"{base}{asked.path}?from={end}" if end < len(records) else None
        data = list(records[begin:end])
        if in_header:
            return Answer(data, headers={"Link": f'<{link}>; rel="next"'} if link else {})
        return Answer({"data": data, "next": link})

    return route


def between(records: Sequence[Mapping[str, Any]], column: str, *, inclusive: tuple[bool, bool] = (True, True)) -> Route:
    """``since`` and ``until`` over whole numbers or ISO texts; ``inclusive`` tells how the server takes each."""

    def route(asked: Asked) -> Answer:
        since, until = asked.params.get("since"), asked.params.get("until")

        def wanted(record: Mapping[str, Any]) -> bool:
            value = record[column]
            if value is None:
                return True
            kind = type(value)
            above = since is None or value > kind(since) or (inclusive[0] and value == kind(since))
            below = until is None or value < kind(until) or (inclusive[1] and value == kind(until))
            return bool(above and below)

        return Answer({"data": [record for record in records if wanted(record)]})

    return route
