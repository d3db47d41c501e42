"""A survey API and a server of daily files, for the examples of work units: on loopback, until Ctrl-C or for an hour.

Each survey gets one response per day, at noon; of the files of visits the server keeps those of the last seven days.
Every request is printed. ``python server.py --help`` has the options.
"""

from __future__ import annotations

import argparse
import json
import threading
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

TOKEN = "only-an-example"
SURVEYS = [
    {"id": "garden", "title": "How is your garden?", "status": "open"},
    {"id": "kitchen", "title": "What do you cook?", "status": "closed"},
    {"id": "attic", "title": "Nobody has seen this one yet", "status": "draft"},
]
BEGIN = date(2020, 1, 1)
KEPT_FILES = 7
NOON = time(12, tzinfo=UTC)
DAY = timedelta(days=1)


@dataclass
class Example:
    """What the server knows. ``broken`` is a month, such as 2026-03, that it fails to answer for."""

    today: date | None = None
    broken: str | None = None
    surveys: list[dict[str, str]] = field(default_factory=lambda: list(SURVEYS))
    late: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def answer(self, path: str, params: dict[str, str]) -> tuple[int, Any]:
        """Status and content for a request; bytes are a file, anything else becomes JSON."""
        match path.strip("/").split("/"):
            case ["surveys"]:
                begin = int(params.get("after", "0"))
                following = str(begin + 2) if begin + 2 < len(self.surveys) else None
                return 200, {"data": self.surveys[begin : begin + 2], "paging": {"next": following}}
            case ["surveys", survey, "responses"] if survey in {each["id"] for each in self.surveys}:
                if self.broken is not None and params["since"].startswith(self.broken):
                    return 500, {"error": f"the responses of {self.broken} are being repaired"}
                page, size = int(params.get("page", "1")), int(params.get("limit", "1000"))
                found = self.responses(survey, _moment(params["since"]), _moment(params["until"]))
                return 200, {"data": found[(page - 1) * size : page * size]}
            case ["files"]:
                return 200, {"data": [{"name": name} for name in self.files()]}
            case ["files", name] if name in self.files():
                return 200, b"hour,visits\n" + b"".join(b"%d,%d\n" % (hour, 100 + hour) for hour in range(24))
            case _:
                return 404, {"error": "no such thing"}

    def responses(self, survey: str, since: datetime, until: datetime) -> list[dict[str, Any]]:
        """Those with ``since`` <= ``at`` < ``until``, in the order of time; late ones at the end."""
        first = datetime.combine(max(since.date(), BEGIN), NOON)
        noons = [first + n * DAY for n in range((until - since).days + 2)]
        regular = [{"id": f"{survey}-{noon:%Y%m%d}", "at": _text(noon), "score": noon.day % 5 + 1} for noon in noons]
        return [each for each in regular + self.late.get(survey, []) if since <= _moment(each["at"]) < until]

    def add_late(self, survey: str, at: datetime) -> dict[str, Any]:
        """One more response, at a moment that may have been read before."""
        found = self.late.setdefault(survey, [])
        found.append({"id": f"{survey}-late-{len(found) + 1}", "at": _text(at), "score": 5})
        return found[-1]

    def files(self) -> list[str]:
        """The names of the files that are still there, the oldest first."""
        today = self.today or datetime.now(UTC).date()
        return [f"visits-{today - n * DAY}.csv" for n in reversed(range(KEPT_FILES))]


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def serving(example: Example, port: int = 0, *, quiet: bool = True) -> ThreadingHTTPServer:
    """The server, which answers once ``serve_forever`` is called."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            """Whatever there is, for those who have the token."""
            self._tell(*(example.answer(*self._request()) if self._is_allowed() else (401, {"error": "who are you?"})))

        def do_POST(self) -> None:
            """``/surveys/ID/responses?at=TIME`` adds a late response."""
            path, params = self._request()
            self._tell(201, example.add_late(path.split("/")[2], _moment(params["at"])))

        def log_message(self, format: str, *args: object) -> None:
            if not quiet:
                print(format % args, flush=True)

        def _is_allowed(self) -> bool:
            return self.headers.get("Authorization") == f"Bearer {TOKEN}"

        def _request(self) -> tuple[str, dict[str, str]]:
            example.asked.append(self.path)
            address = urlsplit(self.path)
            return address.path, dict(parse_qsl(address.query))

        def _tell(self, status: int, content: Any) -> None:
            payload = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/csv" if isinstance(content, bytes) else "application/json")
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """A client that goes away is no error."""

    return Server(("127.0.0.1", port), Handler)


def main() -> None:
    """Serve what the options say."""
    parser = argparse.ArgumentParser(description="A survey API and a server of daily files.")
    parser.add_argument("--port", type=int, default=8071, help="where it listens; 0: any free port (default: 8071)")
    parser.add_argument("--today", type=date.fromisoformat, help="the day of the newest file (default: today)")
    parser.add_argument("--broken", metavar="MONTH", help="fail for responses of this month, such as 2026-03")
    parser.add_argument("--seconds", type=float, default=3600, help="end by itself after so long (default: 3600)")
    given = parser.parse_args()
    server = serving(Example(given.today, given.broken), given.port, quiet=False)
    print(f"export SURVEYS_PORT={server.server_port} SURVEYS_TOKEN={TOKEN}", flush=True)
    threading.Timer(given.seconds, server.shutdown).start()
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print("ended")


if __name__ == "__main__":
    main()
