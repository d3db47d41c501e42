"""The pages served over HTTP: metrics, health and readiness, of this process or of pipelines that run elsewhere.

The server is a small one in a thread: a page is a function that returns a response, and only the path is read. It keeps
a bounded number of connections, each for a bounded time: many silent or slow clients cost a few threads and do not keep
others from a response.
"""

from __future__ import annotations

import contextlib
import json
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any

from tidegate.core.health import TOLERATED_DEAD_LETTERS
from tidegate.errors import ConfigError, EnvironmentProblem
from tidegate.observe.events import Emit
from tidegate.observe.health_listener import HealthListener, SourceHealth, tell_trouble, with_health
from tidegate.observe.logs import fanout
from tidegate.observe.metrics import Family, Metrics, Name, Series
from tidegate.observe.metrics_export import CONTENT_TYPE, SecondNames, expose
from tidegate.reports.status import SourceStatus
from tidegate.specs.notify import count_tolerated
from tidegate.specs.project import PipelineSpec, ProjectSpec


@contextlib.contextmanager
def serve_metrics(
    project: ProjectSpec,
    pipelines: Sequence[PipelineSpec],
    emit: Emit,
    interval: Callable[[PipelineSpec], float] | None = None,
) -> Iterator[Emit]:
    """Serve metrics and health of the emitted events while inside, if ``metrics.enabled`` is set.

    ``interval`` has the seconds between two looks at a source, if they differ from its poll interval. Listens before it
    yields, so that an occupied address stops everything before it begins.
    """
    if not project.metrics.enabled:
        yield emit
        return
    intervals = {
        (pipeline.name, source.name): (
            interval(pipeline) if interval else source.poll_interval_secs + project.jitter_of(source.poll_interval_secs)
        )
        for pipeline in pipelines
        for source in pipeline.sources
    }
    expected = {
        (pipeline.name, source.name): source.expect_every
        for pipeline in pipelines
        for source in pipeline.sources
        if source.expect_every is not None
    }
    tolerated = count_tolerated(project.notify, TOLERATED_DEAD_LETTERS)
    metrics = Metrics(intervals, expected=expected)
    health = HealthListener(intervals, expected=expected, config=project.origin, tolerated=tolerated)
    pages: Pages = {
        "/metrics": lambda: metrics_page(metrics.families(), health.sources(), project.second_names),
        "/health": lambda: health_page(health.sources()),
        "/ready": lambda: respond("ready\n") if health.ready else respond("nothing is read yet\n", 503),
    }
    with serve_pages(project.metrics.address, pages):
        yield fanout(emit, metrics, health)


def metrics_page(
    families: Sequence[Family], sources: Sequence[SourceHealth], second_names: SecondNames
) -> PageResponse:
    """``/metrics``."""
    return PageResponse(200, CONTENT_TYPE, expose([*with_health(families, sources)], second_names))


def health_page(sources: Sequence[SourceHealth]) -> PageResponse:
    """``/health``: 200 if every source is healthy, else 503, with the reasons."""
    healthy = all(each.healthy for each in sources)
    content = {"healthy": healthy, "sources": [each.to_json() for each in sources]}
    body = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    return PageResponse(200 if healthy else 503, "application/json", body.encode())


Look = Callable[[], tuple[SourceStatus, ...]]
Counts = Callable[[], Mapping[Name, Mapping[str, float]]]


class RecordedPages:
    """The newest look at every source, at most ``every`` seconds old; looking lists the sources.

    ``counts`` are the counters of those sources, asked after a look, of which they are known by then.
    """

    def __init__(
        self, look: Look, every: float, clock: Callable[[], float] = time.monotonic, counts: Counts = dict
    ) -> None:
        self._look = look
        self._counts = counts
        self._every = every
        self._clock = clock
        self._lock = threading.Lock()
        self._statuses: tuple[SourceStatus, ...] = ()
        self._looked_at: float | None = None

    def statuses(self) -> tuple[SourceStatus, ...]:
        """The status of the sources; concurrent callers wait for the same look."""
        with self._lock:
            if self._looked_at is None or self._clock() - self._looked_at >= self._every:
                # Under the lock: ten scrapers at once must not list every source ten times.
                self._statuses = self._look()
                self._looked_at = self._clock()
            return self._statuses

    @property
    def ready(self) -> bool:
        """Whether the first look is done."""
        return self._looked_at is not None

    def families(self) -> list[Family]:
        """The metrics known from the recorded state."""
        series = Series()
        statuses = self.statuses()
        for name, counts in self._counts().items():
            series.put_counts(name, counts)
        for status in statuses:
            name = (status.pipeline, status.source)
            series.put_state(name, status.state if status.error is None else "Unknown")
            _put_runs(series, name, status)
            if status.error is not None:
                continue
            series.put("dead_letters_open", name, status.open_letters)
            series.put("source_empty", name, float(status.empty))
            if not status.future_seals:
                series.put("watermark_lag_seconds", name, status.lag_seconds or 0.0)
            series.put("backlog_files", name, status.backlog_files)
            series.put("backlog_bytes", name, status.backlog_bytes)
            series.put("source_state_files", name, status.state_files)
            if status.work_units is not None:
                series.put("work_units_open", name, status.work_units.open)
                series.put("work_units_failed", name, status.work_units.failed)
            if status.table_version is not None:
                series.put("delta_table_version", name, status.table_version)
        return list(series.families())

    def sources(self) -> tuple[SourceHealth, ...]:
        """The health of the sources: one whose state or files cannot be read is unhealthy."""
        return tuple(_health(status) for status in self.statuses())


def _put_runs(series: Series, name: Name, status: SourceStatus) -> None:
    series.put_moment("last_run_timestamp_seconds", name, None if status.last_run is None else status.last_run.ended_at)
    series.put_moment("last_success_timestamp_seconds", name, status.last_success_at)
    series.put_moment("last_data_timestamp_seconds", name, status.last_data_at)
    series.put_moment("last_commit_timestamp_seconds", name, status.last_commit_at)
    if status.expect_every_seconds is not None:
        series.put("expect_every_seconds", name, status.expect_every_seconds)


def _health(status: SourceStatus) -> SourceHealth:
    return SourceHealth(
        status.pipeline,
        status.source,
        tell_trouble(status.health),
        status.updated,
        status.empty,
        status.health,
        status.last_success_at,
        status.last_commit_at,
    )


@contextmanager
def serve_status(
    look: Look, address: str, every: float, second_names: SecondNames, counts: Counts = dict
) -> Iterator[str]:
    """Serve the results of ``look`` while inside, and ``counts``; yields the address."""
    seen = RecordedPages(look, every, counts=counts)

    def ready() -> PageResponse:
        seen.statuses()
        return respond("ready\n")

    pages: Pages = {
        "/metrics": lambda: metrics_page(seen.families(), seen.sources(), second_names),
        "/health": lambda: health_page(seen.sources()),
        "/ready": ready,
    }
    with serve_pages(address, pages) as where:
        yield where


PATIENCE_SECS = 10.0
"""The longest time for a request and its response."""

MOST_CONNECTIONS = 32
"""Connections at once; a further one closes the connection that has waited longest for its request."""

_MOST_HEADER_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class PageResponse:
    """The response of a page."""

    status: int
    content_type: str
    body: bytes


Pages = Mapping[str, Callable[[], PageResponse]]


def respond(body: str, status: int = 200) -> PageResponse:
    """Plain text."""
    return PageResponse(status, "text/plain; charset=utf-8", body.encode())


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
        """Respond in a thread, as soon as one is free."""
        taken = self._slots.acquire(blocking=False)
        while not taken:
            self._close_oldest()
            taken = self._slots.acquire(timeout=0.05)
        with self._lock:
            self._waiting[id(request)] = request
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self._release(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """The work of the thread; cuts off a client that is too slow."""
        # The socket's own time limit starts over with every byte, so that a slow client could hold a thread for ever.
        ending = threading.Timer(self.patience_secs, _cut_off, [request])
        ending.daemon = True
        ending.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            ending.cancel()
            self._release(request)

    def mark_complete(self, request: Any) -> None:
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

    def _release(self, request: Any) -> None:
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
        self.server.mark_complete(self.request)
        pages = self.server.pages
        page = pages.get(self.path.partition("?")[0])
        try:
            response = respond(f"available: {', '.join(pages)}\n", 404) if page is None else page()
        # Only the type: the text may hold an address with a password, and anybody may read this page.
        except Exception as error:
            response = respond(f"{type(error).__name__}\n", 500)
        with contextlib.suppress(OSError):
            self.send_response(response.status)
            self.send_header("Content-Type", response.content_type)
            self.send_header("Content-Length", str(len(response.body)))
            self.end_headers()
            if with_body:
                self.wfile.write(response.body)

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
def serve_pages(address: str, pages: Pages) -> Iterator[str]:
    """Serve ``pages`` at ``host:port`` while inside; yields the address, with the chosen port for 0.

    ``EnvironmentProblem`` if the address cannot be used.
    """
    server = _listen(address)
    server.pages = pages
    # Polls for the end every 0.1 s; the default of half a second would delay the end of every run.
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="metrics", daemon=True)
    thread.start()
    try:
        yield f"{address.rpartition(':')[0]}:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _listen(address: str) -> _Server:
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
