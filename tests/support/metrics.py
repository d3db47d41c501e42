"""Looking at what is measured: a clock to move, an address to listen at, a page to fetch."""

from __future__ import annotations

import urllib.error
import urllib.request

from tidegate.observe.pages import serve_pages

NAME = ("events", "asia")


class Clock:
    """A time that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def free_address() -> str:
    """An address at which nobody listens."""
    with serve_pages("127.0.0.1:0", {}) as address:
        return address


def fetch(address: str, path: str, method: str = "GET") -> tuple[int, str, bytes]:
    request = urllib.request.Request(f"http://{address}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read()
