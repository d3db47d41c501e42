"""The small server answers what it has, refuses what it has not, and lets the port go."""

from __future__ import annotations

import contextlib
import socket
import threading
import urllib.error
import urllib.request

import pytest

from tidegate.errors import ConfigError, EnvironmentProblem
from tidegate.observe import server
from tidegate.observe.server import MOST_CONNECTIONS, Answer, serving, text


def fetch(address: str, path: str, method: str = "GET") -> tuple[int, str, bytes]:
    request = urllib.request.Request(f"http://{address}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read()


def broken() -> Answer:
    raise RuntimeError("password=hunter2")


PAGES = {"/a": lambda: text("yes\n"), "/b": lambda: text("no\n", 503), "/broken": broken}


def test_a_page_is_served_with_its_status_and_type() -> None:
    with serving("127.0.0.1:0", PAGES) as address:
        assert fetch(address, "/a") == (200, "text/plain; charset=utf-8", b"yes\n")
        assert fetch(address, "/a?x=1")[0] == 200
        assert fetch(address, "/b")[0] == 503
        assert fetch(address, "/a", "HEAD") == (200, "text/plain; charset=utf-8", b"")


def test_an_unknown_page_says_what_there_is() -> None:
    with serving("127.0.0.1:0", PAGES) as address:
        assert fetch(address, "/nothing") == (404, "text/plain; charset=utf-8", b"there is: /a, /b, /broken\n")


def test_a_page_that_fails_tells_the_kind_of_error_only() -> None:
    with serving("127.0.0.1:0", PAGES) as address:
        assert fetch(address, "/broken") == (500, "text/plain; charset=utf-8", b"RuntimeError\n")


def test_the_port_is_free_again_afterwards() -> None:
    with serving("127.0.0.1:0", PAGES) as address:
        pass
    with serving(address, PAGES) as again:
        assert again == address


def test_a_port_that_is_taken_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(EnvironmentProblem) as caught, serving(address, PAGES):
            pass
    assert f"cannot serve metrics at {address}: Address already in use" in str(caught.value)
    assert "choose another metrics.address" in str(caught.value)


@pytest.mark.parametrize("address", ["127.0.0.1:many", "127.0.0.1:70000"])
def test_an_address_that_is_none_is_told(address: str) -> None:
    with pytest.raises(ConfigError, match="allowed: host:port"), serving(address, PAGES):
        pass


@pytest.mark.parametrize("said", [b"", b"GET /a HTTP/1.1\r\nHost: x\r\n", b"GE"], ids=["nothing", "headers", "a bit"])
def test_clients_that_say_nothing_keep_no_other_from_an_answer(said: bytes) -> None:
    before = threading.active_count()
    with serving("127.0.0.1:0", PAGES) as address, contextlib.ExitStack() as opened:
        host, _, port = address.partition(":")
        for _ in range(4 * MOST_CONNECTIONS):
            idle = opened.enter_context(socket.create_connection((host, int(port)), timeout=10))
            idle.sendall(said)
        assert fetch(address, "/a")[0] == 200
        assert threading.active_count() - before <= 3 * MOST_CONNECTIONS  # some are just ending
        assert fetch(address, "/b")[0] == 503


def test_a_client_that_is_too_slow_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server._Server, "patience_secs", 0.2)
    with serving("127.0.0.1:0", PAGES) as address:
        host, _, port = address.partition(":")
        with socket.create_connection((host, int(port)), timeout=10) as slow:
            received = b"?"
            with contextlib.suppress(OSError):
                while received:  # a byte now and then is no sign of life
                    slow.sendall(b"x")
                    slow.settimeout(0.05)
                    with contextlib.suppress(TimeoutError):
                        received = slow.recv(1)
            assert received in (b"", b"?")
        assert fetch(address, "/a")[0] == 200


def test_headers_without_end_are_refused() -> None:
    with serving("127.0.0.1:0", PAGES) as address:
        host, _, port = address.partition(":")
        with socket.create_connection((host, int(port)), timeout=10) as client:
            with contextlib.suppress(OSError):
                client.sendall(b"GET /a HTTP/1.1\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"x" * 1000) for n in range(40)))
            answer = b""
            with contextlib.suppress(OSError):
                while piece := client.recv(4096):
                    answer += piece
        assert b"yes" not in answer
        assert fetch(address, "/a")[0] == 200
