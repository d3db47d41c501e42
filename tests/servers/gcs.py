"""A Google Cloud Storage server for tests: fake-gcs-server on a free loopback port, everything in its memory.

``make test-clouds`` fetches it into the folder that ``TIDEGATE_CLOUDS`` names. It lists and reads by the XML API that
the client speaks, but takes uploads by the JSON API alone and heeds no ``If-Match``: tests place objects with
``Server.place``, and nothing that Tidegate writes can be tried.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import urllib.parse
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from servers.azure import CLOUDS, START_SECONDS
from servers.starting import free_ports, process_in, started_in_a_new_directory, wait_until
from tidegate.specs.locations import Location, Options
from tidegate.storage.options import split_uri

BUCKET = "tidegate"


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: its port, and the storage options that reach it."""

    port: int

    @property
    def options(self) -> Options:
        account = {"gcs_base_url": f"http://127.0.0.1:{self.port}", "disable_oauth": True}
        unused = {"client_email": "", "private_key": "", "private_key_id": ""}
        return Options({"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(account | unused), "GOOGLE_ALLOW_HTTP": "true"})

    def location(self, path: str = "") -> Location:
        """A place that nobody has used, in the one bucket."""
        return Location(f"gs://{BUCKET}/{uuid.uuid4().hex[:12]}/{path}".rstrip("/"), self.options)

    def place(self, location: Location, path: str, data: bytes) -> None:
        """Put an object below ``location``."""
        name = urllib.parse.quote(f"{split_uri(location.uri)[2]}/{path}", safe="")
        self.post(f"/upload/storage/v1/b/{BUCKET}/o?uploadType=media&name={name}", data)

    def post(self, path: str, body: bytes) -> None:
        """One request of the JSON API; ``OSError`` where it is refused."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        with contextlib.closing(connection):
            connection.request("POST", path, body, {"Content-Type": "application/octet-stream"})
            status = connection.getresponse().status
        if status != 200:
            raise OSError(f"POST {path}: {status}")


@contextlib.contextmanager
def _started(directory: Path) -> Iterator[Server]:
    assert CLOUDS is not None
    (port,) = free_ports(1)
    command = [str(Path(CLOUDS) / "fake-gcs-server"), "-scheme", "http", "-host", "127.0.0.1", "-port", str(port)]
    command += ["-public-host", f"127.0.0.1:{port}", "-backend", "memory", "-log-level", "error"]
    with process_in(directory, command) as process:
        server = Server(port)
        made = partial(server.post, "/storage/v1/b", json.dumps({"name": BUCKET}).encode())
        wait_until(made, process, directory, START_SECONDS, OSError, http.client.HTTPException)
        yield server


def running() -> AbstractContextManager[Server]:
    """A server that answers, ended with the block; starts anew if another program took its port."""
    return started_in_a_new_directory(_started, "tidegate-gcs-")
