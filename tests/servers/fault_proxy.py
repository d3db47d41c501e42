"""A bad line to a real S3 server: an HTTP proxy on loopback that hands requests on and injects faults by rule.

Requests reach the server as they were signed (the Host header included), so clients are given the proxy's address
as their endpoint. ``Rule`` says which requests suffer what; ``injected`` counts what happened.
"""

from __future__ import annotations

import contextlib
import http.client
import random
import re
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from typing import Any
from urllib.parse import unquote

from servers.s3 import Server
from tidegate.specs.locations import Options

SLOW_SECONDS = 0.2
"""How long a slow body takes."""


class Fault(StrEnum):
    """What can happen to a request. The first four hit a request that has taken effect already."""

    LOST = "answer lost"
    ERROR_AFTER = "500 after it took effect"
    PRECONDITION = "412 after it took effect"
    CONFLICT = "409 after it took effect"
    ERROR = "500"
    SLOW_DOWN = "503 SlowDown"
    RESET = "reset before it was handed on"
    RESET_SENDING = "reset while it was sent"
    RESET_ANSWERING = "reset in the middle of the answer"
    TRUNCATED = "half an answer that looks whole"
    SLOW = "slow body"
    SILENT = "no answer until the client gives up"


@dataclass(frozen=True, slots=True)
class Rule:
    """Requests of ``method`` whose decoded path and query match ``path`` suffer ``fault``.

    The first ``skip`` of them are spared, and after ``times`` the rule is used up; each is hit with ``chance``.
    """

    fault: Fault
    method: str = "[A-Z]+"
    path: str = ""
    skip: int = 0
    times: int | None = None
    chance: float = 1.0

    def matches(self, method: str, path: str) -> bool:
        return bool(re.fullmatch(self.method, method) and re.search(self.path, path))


@dataclass(slots=True)
class _Active:
    rule: Rule
    met: int = 0
    hits: int = 0


@dataclass(slots=True)
class Faults:
    """The rules in force, and what they did; used by many threads.

    ``most_at_once`` is how many requests whose decoded path matches ``watched`` were under way together. A request is
    under way until the last of its answer is sent: a client that has it may begin the next one at once.
    """

    seed: int = 0
    watched: str | None = None
    most_at_once: int = 0
    injected: Counter[Fault] = field(default_factory=Counter)
    seen: list[str] = field(default_factory=list)
    _active: list[_Active] = field(default_factory=list)
    _random: random.Random = field(default_factory=random.Random)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _under_way: int = 0

    def __post_init__(self) -> None:
        self._random.seed(self.seed)

    def inject(self, *rules: Rule) -> None:
        """Replace the rules in force, and forget what was seen; without arguments the line is good again."""
        with self._lock:
            self._active = [_Active(rule) for rule in rules]
            self.seen.clear()

    def befalling(self, method: str, path: str) -> Fault | None:
        """What happens to this request; the first rule that hits decides."""
        with self._lock:
            self.seen.append(f"{method} {path}")
            for active in self._active:
                if active.rule.matches(method, path) and self._hits(active):
                    self.injected[active.rule.fault] += 1
                    return active.rule.fault
        return None

    def watch(self, path: str) -> None:
        """Count from now on how many requests with that path are under way."""
        self.watched, self.most_at_once = path, 0

    def enter(self, path: str) -> bool:
        """A request begins; whether it counts, which :meth:`leave` is told."""
        if self.watched is None or not re.search(self.watched, path):
            return False
        with self._lock:
            self._under_way += 1
            self.most_at_once = max(self.most_at_once, self._under_way)
        return True

    def leave(self) -> None:
        """A request that counts is about to end."""
        with self._lock:
            self._under_way -= 1

    def _hits(self, active: _Active) -> bool:
        active.met += 1
        spared = active.met <= active.rule.skip or active.hits == active.rule.times
        if spared or self._random.random() >= active.rule.chance:
            return False
        active.hits += 1
        return True


class FaultProxy(ThreadingMixIn, TCPServer):
    """Listens on a free port of its own and forwards to one server."""

    request_queue_size = 128

    def __init__(self, server: Server, faults: Faults) -> None:
        super().__init__(("127.0.0.1", 0), _Forwarding)
        self.upstream = server.endpoint.removeprefix("http://")
        self.faults = faults
        self.stopping = threading.Event()
        self._server = server
        self._open: set[socket.socket] = set()

    def options(self, **more: str) -> Options:
        """Storage options that lead through this proxy."""
        endpoint = f"http://127.0.0.1:{self.server_address[1]}"
        return Options({**self._server.options, "AWS_ENDPOINT_URL": endpoint, **more})

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        self.close_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is none of our business."""

    def hang_up(self) -> None:
        """End every connection, so that their threads end."""
        self.stopping.set()
        for each in list(self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def in_front_of(server: Server, seed: int = 0) -> Iterator[FaultProxy]:
    """A proxy that ends with the block; its line is good until ``faults.inject`` is called."""
    proxy = FaultProxy(server, Faults(seed))
    thread = threading.Thread(target=proxy.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        thread.join()
        proxy.hang_up()
        proxy.server_close()


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    reason: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def head(self, length: int | None = None) -> bytes:
        """Status line and headers; ``length`` replaces the declared length."""
        lines = [f"HTTP/1.1 {self.status} {self.reason}"]
        lines += [f"{name}: {value}" for name, value in self.headers if name.lower() != "content-length"]
        declared = next((value for name, value in self.headers if name.lower() == "content-length"), len(self.body))
        lines.append(f"Content-Length: {declared if length is None else length}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1")


_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding"}


def _refusal(status: int, code: str) -> _Answer:
    body = f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>injected</Message></Error>'
    return _Answer(status, "injected", (("Content-Type", "application/xml"),), body.encode())


_REFUSALS = {
    Fault.ERROR: _refusal(500, "InternalError"),
    Fault.SLOW_DOWN: _refusal(503, "SlowDown"),
    Fault.ERROR_AFTER: _refusal(500, "InternalError"),
    Fault.PRECONDITION: _refusal(412, "PreconditionFailed"),
    Fault.CONFLICT: _refusal(409, "ConditionalRequestConflict"),
}


class _Forwarding(BaseHTTPRequestHandler):
    """One connection of a client; requests follow one another on it."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: FaultProxy
    counted = False

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed."""

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError, TimeoutError):
            super().handle()

    def do_GET(self) -> None:
        self.counted = self.server.faults.enter(unquote(self.path))
        try:
            self._handle(self.server.faults.befalling(self.command, unquote(self.path)))
        finally:
            self._leave()

    def _leave(self) -> None:
        if self.counted:
            self.counted = False
            self.server.faults.leave()

    def _handle(self, fault: Fault | None) -> None:
        length = int(self.headers.get("Content-Length", "0"))
        match fault:
            case Fault.RESET:
                self._reset()
            case Fault.RESET_SENDING:
                self.rfile.read(length // 2)
                self._reset()
            case Fault.ERROR | Fault.SLOW_DOWN:
                self.rfile.read(length)
                self._send(_REFUSALS[fault])
            case _:
                self._reply(fault, self._forwarded(self.rfile.read(length)))

    do_PUT = do_POST = do_DELETE = do_HEAD = do_GET  # noqa: N815  # names that http.server looks for

    def _forwarded(self, body: bytes) -> _Answer:
        connection = http.client.HTTPConnection(self.server.upstream, timeout=60)
        try:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        headers = tuple(pair for pair in response.getheaders() if pair[0].lower() not in _HOP_BY_HOP)
        return _Answer(response.status, response.reason, headers, content)

    def _reply(self, fault: Fault | None, answer: _Answer) -> None:
        body, half = answer.body, answer.body[: len(answer.body) // 2]
        match fault:
            case Fault.LOST:
                self.close_connection = True
            case Fault.SILENT:
                self.server.stopping.wait(60)
                self.close_connection = True
            case Fault.ERROR_AFTER | Fault.PRECONDITION | Fault.CONFLICT:
                self._send(_REFUSALS[fault])
            case Fault.RESET_ANSWERING:
                self.wfile.write(answer.head() + half)
                self._reset()
            case Fault.TRUNCATED:
                self._leave()
                self.wfile.write(answer.head(len(half) if body else None) + half)
            case Fault.SLOW:
                whole = answer.head() + body
                sent = len(whole) - (len(body) - len(half) or 1)  # an answer without a body lacks its last character
                self.wfile.write(whole[:sent])
                time.sleep(SLOW_SECONDS)
                self._leave()
                self.wfile.write(whole[sent:])
            case _:
                self._send(answer)

    def _send(self, answer: _Answer) -> None:
        body = b"" if self.command == "HEAD" else answer.body
        self._leave()
        self.wfile.write(answer.head() + body)

    def _reset(self) -> None:
        """The connection ends with a reset, not with an orderly close."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
